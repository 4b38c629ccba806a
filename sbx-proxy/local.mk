# sbx-proxy

# what egress is decided by: no I/O, also for `sbx explain` and the monitor
noinst_LIBRARIES += libsbxegress.a
libsbxegress_a_SOURCES = sbx-proxy/addr.c sbx-proxy/addr.h sbx-proxy/gate.c \
	sbx-proxy/gate.h sbx-proxy/hello.c sbx-proxy/hello.h sbx-proxy/host.c \
	sbx-proxy/host.h sbx-proxy/policy.c sbx-proxy/policy.h \
	sbx-proxy/policy_conf.c

pkglibexec_PROGRAMS += sbx-proxy
sbx_proxy_SOURCES = sbx-proxy/main.c sbx-proxy/proxy.h sbx-proxy/listener.c \
	sbx-proxy/from_monitor.c sbx-proxy/from_engine.c \
	sbx-proxy/accept.c sbx-proxy/opening.c \
	sbx-proxy/ca.c sbx-proxy/ca.h \
	sbx-proxy/issue.c sbx-proxy/issue.h \
	sbx-proxy/jks.c sbx-proxy/jks.h \
	sbx-proxy/roots.c \
	sbx-proxy/client.c sbx-proxy/body.c sbx-proxy/body.h \
	sbx-proxy/budget.c sbx-proxy/budget.h \
	sbx-proxy/exchange.h sbx-proxy/relay.c sbx-proxy/request.c \
	sbx-proxy/strip.c sbx-proxy/strip.h sbx-proxy/upstream.c \
	sbx-proxy/courier.c sbx-proxy/courier.h \
	sbx-proxy/dial.c sbx-proxy/dial.h \
	sbx-proxy/dns.c sbx-proxy/dns.h \
	sbx-proxy/resolver.c sbx-proxy/resolver.h \
	sbx-proxy/grant.c sbx-proxy/grant.h \
	sbx-proxy/http.c sbx-proxy/http.h \
	sbx-proxy/record.c sbx-proxy/record.h \
	sbx-proxy/tunnel.c sbx-proxy/tunnel.h
sbx_proxy_CPPFLAGS = $(AM_CPPFLAGS) $(EVENT_CFLAGS) $(TLS_CFLAGS)
# libevent_core first: what else has its symbols is then not linked
sbx_proxy_LDADD = libsbxegress.a libsbxgit.a libsbxev.a $(SBX_PRIVS_LIBS) $(EVENT_LIBS) \
	$(TLS_LIBS)
dist_man_MANS += sbx-proxy/sbx-proxy.8
