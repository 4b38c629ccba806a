# libsbx: what every process may link (libc only); libsbxev adds libevent_core
noinst_LIBRARIES += libsbx.a libsbxev.a
libsbx_a_SOURCES = \
	common/base/base.c common/base/base.h common/base/limits.h \
	common/base/cgroup.c common/base/cgroup.h \
	common/base/sha256.c common/base/sha256.h \
	common/base/homes.c common/base/homes.h \
	common/base/egress_env.c common/base/fresh.c common/base/fresh.h common/base/egress_env.h \
	common/base/install.c common/base/install.h \
	common/base/publish.c common/base/publish.h \
	common/base/commitsig.c common/base/commitsig.h \
	common/base/rules.c common/base/rules.h \
	common/base/rest.c common/base/rest.h \
	common/base/secret.c common/base/secret.h \
	common/base/token.c common/base/token.h \
	common/base/json.c common/base/json.h common/base/mask.c common/base/mask.h \
	common/base/image.c common/base/image.h \
	common/base/markers.c common/base/markers.h \
	common/base/paths.c common/base/paths.h \
	common/base/subid.c common/base/subid.h \
	common/base/userns.c common/base/userns.h \
	common/http/http.c common/http/http.h \
	common/base/log.c common/base/log.h \
	common/base/conf.c common/base/conf.h common/base/conf.def \
	common/proto/codec.c common/proto/copystream.h common/proto/filework.h common/proto/msgs.def \
	common/proto/proto.h common/proto/wire.c common/proto/wire.h \
	common/proto/accepts.c common/proto/accepts.h
libsbxev_a_SOURCES = common/proto/loop.c common/proto/loop.h \
	common/proto/hello.c common/proto/hello.h \
	common/proto/record.c common/proto/record.h \
	common/proto/peer.c common/proto/peer.h
libsbxev_a_CPPFLAGS = $(AM_CPPFLAGS) $(EVENT_CFLAGS)
# what the proxy and the couriers read of git: no I/O
noinst_LIBRARIES += libsbxgit.a
libsbxgit_a_SOURCES = common/git/push.c common/git/push.h
libsbxgit_a_CPPFLAGS = $(AM_CPPFLAGS)
