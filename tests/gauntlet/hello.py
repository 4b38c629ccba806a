"""ClientHellos: real ones of this python's, their parts put together anew, and
the records that carry them."""
import ssl
import struct

SNI, ECH = 0, 0xfe0d


def real(name, alpn=None):
    """(the handshake message of a real client, what goes on with it)"""
    ctx = ssl.create_default_context()
    ctx.check_hostname = False
    ctx.verify_mode = ssl.CERT_NONE
    if alpn:
        ctx.set_alpn_protocols(alpn)
    rd, wr = ssl.MemoryBIO(), ssl.MemoryBIO()
    obj = ctx.wrap_bio(rd, wr, server_hostname=name)
    try:
        obj.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return wr.read()[5:], (obj, rd, wr)


def parts(msg):
    """(what stands before the extensions, [(type, body)])"""
    pos = 4 + 2 + 32
    pos += 1 + msg[pos]
    pos += 2 + struct.unpack_from(">H", msg, pos)[0]
    pos += 1 + msg[pos]
    head, pos, out = msg[4:pos], pos + 2, []
    while pos < len(msg):
        kind, n = struct.unpack_from(">HH", msg, pos)
        out.append((kind, msg[pos + 4:pos + 4 + n]))
        pos += 4 + n
    return head, out


def build(head, exts):
    e = b"".join(struct.pack(">HH", k, len(b)) + b for k, b in exts)
    body = head + struct.pack(">H", len(e)) + e
    return b"\x01" + len(body).to_bytes(3, "big") + body


def sni(*names, kind=0):
    e = b"".join(bytes([kind]) + struct.pack(">H", len(n)) + n for n in names)
    return SNI, struct.pack(">H", len(e)) + e


def record(data, kind=22, version=0x0301):
    return struct.pack(">BHH", kind, version, len(data)) + data


def records(data, n):
    """In records of n bytes."""
    return b"".join(record(data[i:i + n]) for i in range(0, len(data), n))


def with_sni(*exts, last=False, pad=0):
    """A hello whose server_name extensions are these (none: none of them)."""
    head, have = parts(real("placeholder.test")[0])
    have = [x for x in have if x[0] != SNI]
    if pad:
        have.append((21, b"\0" * pad))
    return build(head, have + list(exts) if last else list(exts) + have)
