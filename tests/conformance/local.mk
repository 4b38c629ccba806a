# tests/conformance: the official suites against a suite whose front and
# worker also have what they call by name.  Never installed.
check_PROGRAMS += tests/conformance/sbxd-front tests/conformance/sbxd-worker
noinst_LIBRARIES += libsbxfixture.a
libsbxfixture_a_SOURCES = tests/conformance/rows.c \
	tests/conformance/fixture.c tests/conformance/fixture_input.c \
	tests/conformance/fixture_tasks.c tests/conformance/fixture.h
libsbxfixture_a_CPPFLAGS = $(AM_CPPFLAGS) $(JSON_CFLAGS)
# tables.c takes the place of the libraries' own, which are then not linked;
# the functions stand beside the tables, so the front has a worker's code too
FIXTURE_LIBS = libsbxfixture.a libsbxworker.a libsbxreport.a libsbxtools.a
tests_conformance_sbxd_front_SOURCES = sbxd/front/main.c \
	tests/conformance/tables.c
tests_conformance_sbxd_front_CPPFLAGS = $(sbxd_front_CPPFLAGS)
tests_conformance_sbxd_front_LDADD = libsbxfront.a $(FIXTURE_LIBS) \
	libsbxev.a libsbxprivs.a libsbx.a $(EVENT_LIBS) $(JSON_LIBS) \
	$(SECCOMP_LIBS) $(CAP_LIBS) -lm
tests_conformance_sbxd_worker_SOURCES = sbxd/worker/main.c \
	tests/conformance/tables.c
tests_conformance_sbxd_worker_CPPFLAGS = $(sbxd_worker_CPPFLAGS)
tests_conformance_sbxd_worker_LDADD = $(FIXTURE_LIBS) libsbxprivs.a \
	libsbx.a $(JSON_LIBS) $(SECCOMP_LIBS) $(CAP_LIBS) -lm
TESTS += tests/conformance/test_fixture.py tests/conformance/test_installed.sh
EXTRA_DIST += tests/conformance/run tests/conformance/schemas.mjs \
	tests/conformance/package.json \
	tests/conformance/package-lock.json tests/conformance/test_fixture.py \
	tests/conformance/test_installed.sh tests/lib/fixture.py
