# sbx-broker
pkglibexec_PROGRAMS += sbx-broker
sbx_broker_SOURCES = sbx-broker/main.c sbx-broker/broker.h \
	sbx-broker/from_monitor.c
sbx_broker_CPPFLAGS = $(AM_CPPFLAGS) $(EVENT_CFLAGS)
sbx_broker_LDADD = libsbxev.a $(SBX_PRIVS_LIBS) $(EVENT_LIBS)
dist_man_MANS += sbx-broker/sbx-broker.8
