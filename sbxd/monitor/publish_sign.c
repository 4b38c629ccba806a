#include "sbxd/monitor/monitor.h"

#include <string.h>

/*
 * Signed publications.  The judge says what the commit is without a signature,
 * the broker, which was told of that publication before, signs it or says why
 * not, and the judge goes on with that.  Both compute the id of what came of
 * it, and must come to the same.
 */

/* A dry run signs nothing, but ends as one that would. */
static bool
to_sign(const struct publish *p)
{
	return ((p->flags & SBX_PUBLISH_DRY_RUN) != 0 &&
	    p->m->conf.publish_signing_key[0] != '\0');
}

bool
publish_announce(struct publish *p)
{
	struct sbx_peer *broker = component_peer(p->m, SBX_PROC_BROKER);

	if (!p->sign && !to_sign(p))
		return (true);
	if (broker == NULL) {
		publish_refuse(p, "sign", "the broker is not there: %s",
		    component_why(p->m, SBX_PROC_BROKER));
		return (false);
	}
	if (!p->sign && p->m->signer_bad[0] != '\0') {
		publish_refuse(p, "sign", "%s", p->m->signer_bad);
		return (false);
	}
	if (!p->sign)
		return (true);
	(void)sbx_send_broker_announce(broker, 0, &(struct sbx_broker_announce){
	    .publish = p->id, .host = p->host, .repo = p->repo,
	    .base = p->base, .parent2 = p->parent2 }, NULL);
	return (true);
}

/* Safe for a hostile judge: the broker looks at what it signs, and that goes to
 * where this publication does or nowhere. */
int
publish_sign(struct publish *p, const char *commit)
{
	struct sbx_peer *broker = component_peer(p->m, SBX_PROC_BROKER);

	if (p->phase != SBX_PUBLISH_JUDGING || !p->sign)
		return (SBX_E_STATE);
	if (broker == NULL) {
		publish_refuse(p, "sign", "the broker is not there: %s",
		    component_why(p->m, SBX_PROC_BROKER));
		return (0);
	}
	p->asked[PUBLISH_SIGN] = ++p->m->next_id;
	(void)sbx_send_broker_sign(broker, p->asked[PUBLISH_SIGN],
	    &(struct sbx_broker_sign){ .publish = p->id, .commit = commit },
	    NULL);
	return (0);
}

void
publish_signed(struct monitor *m, uint32_t id,
    const struct sbx_broker_signed *q)
{
	struct publish *p = publish_answered(m, PUBLISH_SIGN, id);

	if (p == NULL)
		return;
	if (q->error != 0 || !sbx_is_hex(q->commit, strlen(p->base)) ||
	    p->judge.peer == NULL) {
		publish_refuse(p, "sign", "%s", q->reason[0] != '\0' ?
		    q->reason : "the broker did not say what it signed");
		return;
	}
	memcpy(p->signed_id, q->commit, strlen(q->commit) + 1);
	(void)sbx_send_judge_signed(p->judge.peer, 0, &(struct sbx_judge_signed){
	    .signature = q->signature }, NULL);
}

void
publish_broker_lost(struct monitor *m)
{
	for (size_t i = 0; i < MAX_PUBLISHES; i++)
		if (m->publishes[i].used &&
		    m->publishes[i].asked[PUBLISH_SIGN] != 0)
			publish_refuse(&m->publishes[i], "sign", "the broker "
			    "ended meanwhile");
}

enum sbx_publish_signed
publish_is_signed(const struct publish *p)
{
	if (p->signed_id[0] != '\0')
		return (SBX_PUBLISH_SIGNED);
	return (to_sign(p) ? SBX_PUBLISH_TO_SIGN : SBX_PUBLISH_UNSIGNED);
}
