# The image js: base and JavaScript's tools.  Build in this folder:
#
#	podman build -f Containerfile.js --build-arg BASE=ID -t sbx-js .
#
# BASE must be given: the id of the image of Containerfile.base.
ARG BASE
FROM ${BASE}
USER root
COPY npm/js /usr/local/lib/sbx/js
RUN cd /usr/local/lib/sbx/js && npm ci --ignore-scripts --no-audit --no-fund && \
    for t in eslint tsc tsserver jest; do \
        ln -s "../lib/sbx/js/node_modules/.bin/$t" "/usr/local/bin/$t"; done && \
    rm -rf /root/.npm
USER sandbox
