#ifndef SBX_WORKER_PUBLISH_USER_H
#define SBX_WORKER_PUBLISH_USER_H

/* The approval of a publication by its user, where the operator lets him. */

struct ask_publish;
struct call;

enum user_word {
	USER_NONE,	/* he is not to be asked, or did not agree: see st */
	USER_ASKED,	/* the result asks; the tool is called again */
	USER_SAID,	/* he agreed: it goes on */
};

/* st waits for an approval.  0, or the channel's end. */
int user_confirm(struct call *call, struct ask_publish *st,
    enum user_word *ret_word);
/* run_id of what he was asked about, or NULL.  Borrowed from call. */
const char *user_asked_of(const struct call *call);

#endif
