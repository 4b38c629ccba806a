#ifndef SBX_PROTO_COPYSTREAM_H
#define SBX_PROTO_COPYSTREAM_H

/*
 * What sbxd-copyin writes and sbx-init unpacks, through a pipe.  Records,
 * all integers big endian:
 *   u8 type, u16 mode (only 0111 counts), u16 path length, u64 data length,
 *   path (relative, no NUL, no "..", no "." or empty component), data
 * FILE: data is its content.  LINK: data is the target's text (<= 4095).
 * DIR: no data.  END: path and data empty, nothing follows.
 * A stream without END was cut and is refused.
 * Limits: SBX_COPY_MAX_* of common/base/limits.h.
 */
enum sbx_copy_type {
	SBX_COPY_T_END, SBX_COPY_T_FILE, SBX_COPY_T_LINK, SBX_COPY_T_DIR,
	SBX_COPY_T_MAX
};
#define SBX_COPY_HDR_BYTES 13

#endif
