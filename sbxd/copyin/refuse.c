/*
 * Files that are secrets.  A net below the rope: what it misses is in the
 * sandbox, which has no network; what it catches by mistake is named, and can
 * be copied after renaming it.
 */
#include "common/base/mask.h"
#include "sbxd/copyin/copyin.h"

#include <fnmatch.h>
#include <string.h>

enum when {
	WHEN_ALWAYS,
	WHEN_KEY,	/* with a private key inside */
	WHEN_GOOGLE,	/* a private key of a service account */
	WHEN_SHAPE,	/* with any shape of a secret inside */
};

/* Matched with the last component, or with the whole path behind a '/' when
 * there is a '/'; letter case does not count. */
static const struct {
	const char *pattern;
	enum when when;
} names[] = {
	{ ".env", WHEN_ALWAYS }, { ".env.*", WHEN_ALWAYS },
	{ "*.env", WHEN_ALWAYS }, { ".envrc", WHEN_SHAPE },
	{ ".netrc", WHEN_ALWAYS }, { "_netrc", WHEN_ALWAYS },
	{ ".git-credentials", WHEN_ALWAYS }, { ".pgpass", WHEN_ALWAYS },
	{ ".my.cnf", WHEN_ALWAYS }, { ".htpasswd", WHEN_ALWAYS },
	{ ".dockercfg", WHEN_ALWAYS }, { ".vault-token", WHEN_ALWAYS },
	{ "id_rsa", WHEN_ALWAYS }, { "id_dsa", WHEN_ALWAYS },
	{ "id_ecdsa", WHEN_ALWAYS }, { "id_ed25519", WHEN_ALWAYS },
	{ "id_ecdsa_sk", WHEN_ALWAYS }, { "id_ed25519_sk", WHEN_ALWAYS },
	{ "*.pfx", WHEN_ALWAYS }, { "*.p12", WHEN_ALWAYS },
	{ "*.jks", WHEN_ALWAYS }, { "*.keystore", WHEN_ALWAYS },
	{ "*.kdbx", WHEN_ALWAYS }, { "*.ppk", WHEN_ALWAYS },
	{ "kubeconfig", WHEN_ALWAYS },
	{ "*/.aws/credentials", WHEN_ALWAYS },
	{ "*/.docker/config.json", WHEN_ALWAYS },
	{ "*/.kube/config", WHEN_ALWAYS }, { "*/.gnupg/*", WHEN_ALWAYS },
	{ "*/.ssh/*", WHEN_ALWAYS }, { "*/.config/gh/*", WHEN_ALWAYS },
	{ "*/.config/gcloud/*", WHEN_ALWAYS }, { "*/.azure/*", WHEN_ALWAYS },
	{ "*/.cargo/credentials", WHEN_ALWAYS },
	{ "*/.cargo/credentials.toml", WHEN_ALWAYS },
	{ "*/.gem/credentials", WHEN_ALWAYS },
	{ "*/.terraform.d/credentials*", WHEN_ALWAYS },
	{ "*.pem", WHEN_KEY }, { "*.key", WHEN_KEY }, { "*.p8", WHEN_KEY },
	{ "*.asc", WHEN_KEY }, { "*.gpg", WHEN_KEY }, { "*.ovpn", WHEN_KEY },
	{ "*_rsa", WHEN_KEY }, { "*_dsa", WHEN_KEY }, { "*_ecdsa", WHEN_KEY },
	{ "*_ed25519", WHEN_KEY },
	{ "*.json", WHEN_GOOGLE }, { "credentials.json", WHEN_SHAPE },
	{ ".npmrc", WHEN_SHAPE }, { ".yarnrc", WHEN_SHAPE },
	{ ".yarnrc.yml", WHEN_SHAPE }, { ".pypirc", WHEN_SHAPE },
	{ "pip.conf", WHEN_SHAPE }, { "auth.json", WHEN_SHAPE },
	{ ".curlrc", WHEN_SHAPE }, { ".wgetrc", WHEN_SHAPE },
	{ ".gitconfig", WHEN_SHAPE }, { ".s3cfg", WHEN_SHAPE },
	{ ".boto", WHEN_SHAPE }, { ".terraformrc", WHEN_SHAPE },
	{ "*.tfstate", WHEN_SHAPE }, { "*.tfvars", WHEN_SHAPE },
};
/* Named like the above, and meant to be shared. */
static const char *const templates[] = { "*.example", "*.template",
	"*.sample", "*.dist", "*.tmpl", "*.tpl", "*.default", "*.defaults",
	"example.*", "sample.*", "template.*", "*.pub" };

static bool
is_template(const char *name)
{
	for (size_t i = 0; i < SBX_NELEM(templates); i++)
		if (fnmatch(templates[i], name, FNM_CASEFOLD) == 0)
			return (true);
	return (false);
}

static bool
has(const char *text, size_t len, const char *word)
{
	return (text != NULL && memmem(text, len, word, strlen(word)) != NULL);
}

static bool
is_when(enum when when, const char *text, size_t len)
{
	bool key = has(text, len, "PRIVATE KEY-----") ||
	    has(text, len, "PRIVATE KEY BLOCK-----");

	switch (when) {
	case WHEN_ALWAYS:
		return (true);
	case WHEN_KEY:
		return (key);
	case WHEN_GOOGLE:
		return (key && has(text, len, "\"service_account\""));
	case WHEN_SHAPE:
		return (text != NULL && sbx_mask_find(text, len) != NULL);
	}
	return (true);
}

const char *
refuse_file(const char *path, const char *text, size_t len)
{
	char whole[2 * SBX_COPY_MAX_PATH + 3];
	const char *slash = strrchr(path, '/');
	const char *name = slash != NULL ? slash + 1 : path;

	(void)sbx_strlcpy(whole + 1, path, sizeof(whole) - 1);
	whole[0] = '/';
	for (size_t i = 0; i < SBX_NELEM(names) && !is_template(name); i++)
		if (fnmatch(names[i].pattern,
		    strchr(names[i].pattern, '/') != NULL ? whole : name,
		    FNM_CASEFOLD) == 0 && is_when(names[i].when, text, len))
			return (names[i].when == WHEN_ALWAYS ?
			    "refused: a secret by its name" :
			    "refused: a secret by its name and content");
	return (text != NULL && sbx_mask_find_token(text, len) != NULL ?
	    "refused: it holds what looks like an access token" : NULL);
}

const char *
refuse_git_file(const char *text, size_t len)
{
	return (sbx_mask_find(text, len) != NULL ?
	    "refused: it holds what looks like a credential" : NULL);
}
