# tests/proto: codec, wire, peer; PROTOCOL.ipc; the walk over all tables
PROTO_SAMPLE = tests/proto/sample.c tests/proto/sample.h tests/tap.h

check_PROGRAMS += test_codec test_wire test_peer
TESTS += test_codec test_wire test_peer
test_codec_SOURCES = tests/proto/test_codec.c $(PROTO_SAMPLE)
test_codec_CPPFLAGS = $(AM_CPPFLAGS)
test_codec_LDADD = libsbx.a
test_wire_SOURCES = tests/proto/test_wire.c tests/proto/raw.h $(PROTO_SAMPLE)
test_wire_CPPFLAGS = $(AM_CPPFLAGS)
test_wire_LDADD = libsbx.a
# peer.c with a stall limit that a test can wait for
test_peer_SOURCES = tests/proto/test_peer.c tests/proto/raw.h \
	common/proto/peer.c $(PROTO_SAMPLE)
test_peer_CPPFLAGS = $(AM_CPPFLAGS) $(EVENT_CFLAGS) -DSBX_PEER_STALL_S=1
test_peer_LDADD = libsbx.a $(EVENT_LIBS)

noinst_PROGRAMS += gen-protocol
gen_protocol_SOURCES = tests/proto/gen-protocol.c $(PROTO_SAMPLE)
gen_protocol_CPPFLAGS = $(AM_CPPFLAGS)
gen_protocol_LDADD = libsbx.a
TESTS += tests/proto/test_protocol.sh tests/proto/test_tables.py
EXTRA_DIST += tests/proto/test_protocol.sh tests/proto/test_tables.py

# after a change of msgs.def: writes PROTOCOL.ipc in the source tree
.PHONY: protocol
protocol: gen-protocol
	./gen-protocol >$(srcdir)/PROTOCOL.ipc.new
	mv $(srcdir)/PROTOCOL.ipc.new $(srcdir)/PROTOCOL.ipc
