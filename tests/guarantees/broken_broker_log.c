/* A broken key process (--wrap=record_exchange): it logs the token that an
 * exchange had, through the monitor.  For test_broken.py. */
#include "common/base/log.h"
#include "sbx-broker/record.h"

void __real_record_exchange(const struct job *j, const struct outcome *out);
void __wrap_record_exchange(const struct job *j, const struct outcome *out);

void
__wrap_record_exchange(const struct job *j, const struct outcome *out)
{
	if (j->token != NULL)
		log_notice("an exchange had %s",
		    sbx_secret_text(j->token->secret));
	__real_record_exchange(j, out);
}
