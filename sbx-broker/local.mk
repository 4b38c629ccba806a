# sbx-broker

# what can be tested without a process
noinst_LIBRARIES += libsbxbroker.a
libsbxbroker_a_SOURCES = sbx-broker/key.c sbx-broker/key.h sbx-broker/opensshkey.c \
	sbx-broker/sshsig.c sbx-broker/sshsig.h \
	sbx-broker/token.c sbx-broker/token.h \
	sbx-broker/times.c sbx-broker/times.h \
	sbx-broker/sources.c sbx-broker/sources.h \
	sbx-broker/given.c sbx-broker/given.h \
	sbx-broker/check.c sbx-broker/check.h
libsbxbroker_a_CPPFLAGS = $(AM_CPPFLAGS) $(CRYPTO_CFLAGS)

# and the rest of it but main(), also for tests/guarantees
noinst_LIBRARIES += libsbxbrokerloop.a
libsbxbrokerloop_a_SOURCES = sbx-broker/broker.h \
	sbx-broker/from_monitor.c sbx-broker/ask.c sbx-broker/grant.c sbx-broker/job.c \
	sbx-broker/lock.c sbx-broker/mint.c sbx-broker/pool.c \
	sbx-broker/record.c sbx-broker/record.h sbx-broker/revoke.c \
	sbx-broker/sign.c \
	sbx-broker/status.c
libsbxbrokerloop_a_CPPFLAGS = $(AM_CPPFLAGS) $(EVENT_CFLAGS) $(CRYPTO_CFLAGS)

pkglibexec_PROGRAMS += sbx-broker
sbx_broker_SOURCES = sbx-broker/main.c
sbx_broker_CPPFLAGS = $(AM_CPPFLAGS) $(EVENT_CFLAGS) $(CRYPTO_CFLAGS)
sbx_broker_LDADD = libsbxbrokerloop.a libsbxbroker.a libsbxegress.a libsbxgit.a libsbxev.a \
	$(SBX_PRIVS_LIBS) $(EVENT_LIBS) $(CRYPTO_LIBS)
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

# and the rest but main()
noinst_LIBRARIES += libsbxcourierio.a
libsbxcourierio_a_SOURCES = sbx-broker/courier/git.c \
	sbx-broker/courier/https.c sbx-broker/courier/https.h \
	sbx-broker/courier/mint.c sbx-broker/courier/rest.c
libsbxcourierio_a_CPPFLAGS = $(AM_CPPFLAGS) $(CURL_CFLAGS) $(TLS_CFLAGS) \
	$(JSON_CFLAGS)

pkglibexec_PROGRAMS += sbx-broker-courier
sbx_broker_courier_SOURCES = sbx-broker/courier/main.c
sbx_broker_courier_CPPFLAGS = $(libsbxcourierio_a_CPPFLAGS)
sbx_broker_courier_LDADD = libsbxcourierio.a libsbxcourier.a libsbxgit.a $(SBX_PRIVS_LIBS) \
	$(CURL_LIBS) $(TLS_LIBS) $(JSON_LIBS)
dist_man_MANS += sbx-broker/courier/sbx-broker-courier.8

pkglibexec_PROGRAMS += sbx-broker-command
sbx_broker_command_SOURCES = sbx-broker/command/main.c
sbx_broker_command_CPPFLAGS = $(AM_CPPFLAGS)
sbx_broker_command_LDADD = $(SBX_PRIVS_LIBS)
dist_man_MANS += sbx-broker/command/sbx-broker-command.8
