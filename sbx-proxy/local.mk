# sbx-proxy
pkglibexec_PROGRAMS += sbx-proxy
sbx_proxy_SOURCES = sbx-proxy/main.c sbx-proxy/proxy.h sbx-proxy/listener.c \
	sbx-proxy/from_monitor.c sbx-proxy/from_engine.c
sbx_proxy_CPPFLAGS = $(AM_CPPFLAGS) $(EVENT_CFLAGS)
sbx_proxy_LDADD = libsbxev.a $(SBX_PRIVS_LIBS) $(EVENT_LIBS)
dist_man_MANS += sbx-proxy/sbx-proxy.8
