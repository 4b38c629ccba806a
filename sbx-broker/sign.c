/*
 * Commits are signed here, with the operator's key and for nothing else: one for
 * each publication that was announced, on the base that was announced, and by
 * the author that the configuration names.
 */

#include "sbx-broker/broker.h"

#include "common/base/json.h"
#include "sbx-broker/check.h"
#include "sbx-broker/record.h"
#include "sbx-broker/sshsig.h"

#include <stdio.h>
#include <string.h>

#define NS_S 1000000000ull
#define CLOCK_S 3600u		/* that its time may be off */

/* --- what is announced ---------------------------------------------------------- */

static struct announced *
announced_find(struct broker *k, const char *publish)
{
	for (size_t i = 0; publish[0] != '\0' && i < BROKER_ANNOUNCED; i++)
		if (strcmp(k->announced[i].publish, publish) == 0)
			return (&k->announced[i]);
	return (NULL);
}

/* The oldest makes room: the monitor has fewer under way. */
int
sign_announce(struct broker *k, const struct sbx_broker_announce *q)
{
	struct announced *a;

	if (!sbx_is_hex(q->publish, 16) || announced_find(k, q->publish) !=
	    NULL || !check_oid(q->base) || (q->parent2[0] != '\0' &&
	    (!check_oid(q->parent2) || strlen(q->parent2) !=
	    strlen(q->base))) || !check_host(q->host) ||
	    !check_repo(q->repo, false))
		return (SBX_E_RANGE);
	a = &k->announced[k->next_announced++ % BROKER_ANNOUNCED];
	*a = (struct announced){ .is_signed = false };
	(void)sbx_strlcpy(a->publish, q->publish, sizeof(a->publish));
	(void)sbx_strlcpy(a->host, q->host, sizeof(a->host));
	(void)sbx_strlcpy(a->repo, q->repo, sizeof(a->repo));
	(void)sbx_strlcpy(a->base, q->base, sizeof(a->base));
	(void)sbx_strlcpy(a->parent2, q->parent2, sizeof(a->parent2));
	return (0);
}

/* --- is it a commit, and that one? ------------------------------------------------ */

/* Behind s at *p, or false. */
static bool
take(const char **p, const char *s)
{
	const size_t n = strlen(s);

	if (strncmp(*p, s, n) != 0)
		return (false);
	*p += n;
	return (true);
}

static bool
take_id(const char **p, const char *word, const char *id, size_t n)
{
	char hex[65];

	if (!take(p, word) || strlen(*p) <= n)
		return (false);
	(void)snprintf(hex, sizeof(hex), "%.*s", (int)n, *p);
	*p += n;
	return (sbx_is_hex(hex, n) && (id == NULL || strcmp(hex, id) == 0) &&
	    take(p, "\n"));
}

/* "WORD NAME <MAIL> SECONDS +0000" */
static bool
take_person(const char **p, const char *word, const char *author,
    uint64_t *ret_s)
{
	char digits[16];
	size_t n;

	if (!take(p, word) || !take(p, author) || !take(p, " "))
		return (false);
	n = strspn(*p, "0123456789");
	if (n == 0 || n >= sizeof(digits) || **p == '0')
		return (false);
	(void)snprintf(digits, sizeof(digits), "%.*s", (int)n, *p);
	*p += n;
	return (sbx_parse_u64(digits, 1, INT64_MAX, ret_s) == 0 &&
	    take(p, " +0000\n"));
}

static bool
is_text(const char *s)
{
	unsigned n;

	for (; *s != '\0'; s += n)
		if ((n = sbx_utf8_len(s, strlen(s) < 4 ? strlen(s) : 4)) == 0)
			return (false);
	return (true);
}

/* NULL, or what of it is not so.  Behind the committer is nothing but the
 * message: no signature, encoding or other header. */
static const char *
why_not(const char *p, const struct announced *a, const char *author)
{
	const uint64_t now = sbx_wall_ns() / NS_S;
	const size_t n = strlen(a->base);
	uint64_t made, committed;

	if (!take_id(&p, "tree ", NULL, n))
		return ("it does not begin with a tree");
	if (!take_id(&p, "parent ", a->base, n) || (a->parent2[0] != '\0' &&
	    !take_id(&p, "parent ", a->parent2, n)))
		return ("its parents are not those that were announced");
	if (author[0] == '\0' || !take_person(&p, "author ", author, &made) ||
	    !take_person(&p, "committer ", author, &committed) ||
	    made != committed)
		return ("it is not of publish_author alone");
	if (made + CLOCK_S < now || made > now + CLOCK_S)
		return ("its time is not now");
	if (*p++ != '\n')
		return ("it has another header");
	if (*p == '\0' || p[strlen(p) - 1] != '\n' || !is_text(p))
		return ("its message is none");
	return (NULL);
}

/* --- signing ------------------------------------------------------------------------- */

static const char *
barred(struct broker *k, const struct announced *a,
    const struct sbx_broker_sign *q)
{
	if (k->locked)
		return ("the suite is locked down");
	if (!k->sources.signs)
		return ("no publish_signing_key is configured");
	if (k->sources.signer.bad[0] != '\0')
		return (k->sources.signer.bad);
	if (a == NULL)
		return ("that publication was not announced, or the broker was "
		    "restarted meanwhile: publish again");
	if (a->is_signed)
		return ("a commit of that publication was signed already");
	return (why_not(q->commit, a, k->author));
}

int
sign_commit(struct broker *k, uint32_t id, const struct sbx_broker_sign *q)
{
	struct announced *a = announced_find(k, q->publish);
	char signature[SBX_COMMITSIG_MAX + 1] = "", commit[65] = "";
	const char *why = barred(k, a, q);

	if (why == NULL && (sshsig_make(k->sources.signer.key, q->commit,
	    strlen(q->commit), signature) != 0 || sshsig_commit_id(
	    q->commit, signature, strlen(a->base) == 64, commit) != 0))
		why = "libcrypto cannot sign";
	if (why == NULL) {
		a->is_signed = true;
		a->number = ++k->signatures;
	}
	record_sign(k, a, q->publish, commit, why);
	return (sbx_send_broker_signed(k->monitor, id,
	    &(struct sbx_broker_signed){ .error = why != NULL ? SBX_E_POLICY :
	    0, .reason = why != NULL ? why : "", .commit = why != NULL ? "" :
	    commit, .signature = why != NULL ? "" : signature }, NULL));
}
