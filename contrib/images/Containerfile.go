# The image go: base and Go.  Build in this folder:
#
#	podman build -f Containerfile.go --build-arg BASE=ID -t sbx-go .
#
# BASE must be given: the id of the image of Containerfile.base.
# The sum is the same in several public repositories; not computed here.
ARG BASE
FROM ${BASE}
ARG GO_VERSION=1.26.4
ARG GO_SHA256=1153d3d50e0ac764b447adfe05c2bcf08e889d42a02e0fe0259bd47f6733ad7f
USER root
RUN cd /tmp && fetch "https://go.dev/dl/go$GO_VERSION.linux-amd64.tar.gz" \
        "$GO_SHA256" go.tar.gz && \
    tar -xzf go.tar.gz -C /usr/local --no-same-owner && rm go.tar.gz && \
    ln -s ../go/bin/go ../go/bin/gofmt /usr/local/bin/
ENV GOFLAGS="-buildvcs=false -p=1" GOCACHE=/tmp/.gocache GOTOOLCHAIN=local
USER sandbox
