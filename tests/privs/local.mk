# tests/privs
check_PROGRAMS += test_privs
TESTS += test_privs
test_privs_SOURCES = tests/privs/test_privs.c tests/privs/attempts.c \
	tests/privs/attempts.h tests/privs/users.h tests/tap.h
test_privs_CPPFLAGS = $(AM_CPPFLAGS)
test_privs_LDADD = $(SBX_PRIVS_LIBS)

check_PROGRAMS += test_nested
TESTS += test_nested
test_nested_SOURCES = tests/privs/test_nested.c tests/privs/users.h tests/tap.h
test_nested_CPPFLAGS = $(AM_CPPFLAGS)
test_nested_LDADD = $(SBX_PRIVS_LIBS)
