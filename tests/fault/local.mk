# tests/fault: system calls that fail in turn.  The code under test is compiled
# again without fortified calls, which would go past the linker's --wrap.
check_PROGRAMS += test_fault
TESTS += test_fault
test_fault_SOURCES = tests/fault/test_fault.c tests/proto/raw.h \
	common/base/base.c common/proto/codec.c common/proto/wire.c \
	common/proto/peer.c $(PROTO_SAMPLE)
test_fault_CPPFLAGS = $(AM_CPPFLAGS) -U_FORTIFY_SOURCE $(EVENT_CFLAGS)
test_fault_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=socketpair \
	-Wl,--wrap=getsockopt -Wl,--wrap=sendmsg -Wl,--wrap=recvmsg \
	-Wl,--wrap=poll -Wl,--wrap=fcntl -Wl,--wrap=memfd_create \
	-Wl,--wrap=write -Wl,--wrap=lseek -Wl,--wrap=fstat -Wl,--wrap=pread
test_fault_LDADD = $(EVENT_LIBS)
