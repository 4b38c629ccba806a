# sbx-broker
pkglibexec_PROGRAMS += sbx-broker
sbx_broker_SOURCES = sbx-broker/main.c sbx-broker/broker.h \
	sbx-broker/from_monitor.c
sbx_broker_CPPFLAGS = $(AM_CPPFLAGS) $(EVENT_CFLAGS)
sbx_broker_LDADD = libsbxev.a $(SBX_PRIVS_LIBS) $(EVENT_LIBS)
dist_man_MANS += sbx-broker/sbx-broker.8

# sbx-broker/courier: one exchange with a credential.  What it decides by, for
# tests: no I/O.
noinst_LIBRARIES += libsbxcourier.a
libsbxcourier_a_SOURCES = sbx-broker/courier/canary.c \
	sbx-broker/courier/canary.h sbx-broker/courier/courier.h \
	sbx-broker/courier/end.c sbx-broker/courier/fields.c \
	sbx-broker/courier/fields.h sbx-broker/courier/request.c \
	sbx-broker/courier/request.h
libsbxcourier_a_CPPFLAGS = $(AM_CPPFLAGS) $(JSON_CFLAGS)

pkglibexec_PROGRAMS += sbx-broker-courier
sbx_broker_courier_SOURCES = sbx-broker/courier/main.c \
	sbx-broker/courier/git.c sbx-broker/courier/https.c \
	sbx-broker/courier/https.h sbx-broker/courier/mint.c \
	sbx-broker/courier/rest.c
sbx_broker_courier_CPPFLAGS = $(AM_CPPFLAGS) $(CURL_CFLAGS) $(TLS_CFLAGS) \
	$(JSON_CFLAGS)
sbx_broker_courier_LDADD = libsbxcourier.a libsbxgit.a $(SBX_PRIVS_LIBS) \
	$(CURL_LIBS) $(TLS_LIBS) $(JSON_LIBS)
dist_man_MANS += sbx-broker/courier/sbx-broker-courier.8
