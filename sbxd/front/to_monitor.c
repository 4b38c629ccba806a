#include "sbxd/front/front.h"

#define LAG_RECORDS 128		/* a queue ends with its channel at 1,024 */

bool
monitor_lags(const struct front *f)
{
	return (f->monitor != NULL &&
	    sbx_peer_queued(f->monitor) > LAG_RECORDS);
}

int
monitor_auth(struct front *f, uint32_t conn, int fd)
{
	if (f->monitor == NULL)
		return (0);
	return (sbx_send_front_auth(f->monitor, 0,
	    &(struct sbx_front_auth){ .conn = conn }, &fd));
}

int
monitor_token(struct front *f, uint32_t number, const char *sha256)
{
	if (f->monitor == NULL)
		return (0);
	return (sbx_send_front_token(f->monitor, 0,
	    &(struct sbx_front_token){ .number = number, .sha256 = sha256 },
	    NULL));
}

int
monitor_gone(struct front *f, uint64_t principal)
{
	if (f->monitor == NULL)
		return (0);
	return (sbx_send_front_gone(f->monitor, 0,
	    &(struct sbx_front_gone){ .principal = principal }, NULL));
}

int
monitor_root(struct front *f, uint64_t principal, int fd)
{
	if (f->monitor == NULL)
		return (0);
	return (sbx_send_front_root(f->monitor, 0,
	    &(struct sbx_front_root){ .principal = principal }, &fd));
}

int
monitor_eof(struct front *f)
{
	if (f->monitor == NULL)
		return (0);
	return (sbx_send_front_eof(f->monitor, 0,
	    &(struct sbx_front_eof){ 0 }, NULL));
}

int
monitor_call(struct front *f, const struct sbx_call *call, int fd)
{
	if (f->monitor == NULL)
		return (0);
	return (sbx_send_call(f->monitor, 0, call, &fd));
}

int
monitor_cancel(struct front *f, uint32_t call)
{
	if (f->monitor == NULL)
		return (0);
	return (sbx_send_call_cancel(f->monitor, 0,
	    &(struct sbx_call_cancel){ .call = call }, NULL));
}

int
monitor_unwatch(struct front *f, uint64_t principal, const char *run)
{
	if (f->monitor == NULL)
		return (0);
	return (sbx_send_run_unwatch(f->monitor, 0,
	    &(struct sbx_run_unwatch){ .principal = principal, .run = run },
	    NULL));
}
