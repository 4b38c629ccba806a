/*
 * Files that are secrets.  A net below the rope: what it misses is in the
 * sandbox, which has no network; what it catches by mistake is named, and can
 * be copied after renaming it.
 */
#include <fnmatch.h>
#include <string.h>

#include "common/base/mask.h"
#include "sbxd/copyin/copyin.h"

#define BY_NAME "refused: a secret by its name"

/* Of the last component, or of the whole path when there is a '/'. */
static const char *const patterns[] = {
	".env", ".env.*", "*.env", ".netrc", "_netrc", ".git-credentials",
	".pgpass", ".my.cnf", ".htpasswd", ".dockercfg", ".vault-token",
	"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk",
	"id_ed25519_sk", "*.pfx", "*.p12", "*.jks", "*.keystore", "*.kdbx",
	"*.ppk", "credentials.json", "service-account*.json", "kubeconfig",
	"*/.aws/credentials", "*/.docker/config.json", "*/.kube/config",
	"*/.gnupg/*", "*/.ssh/*", "*/.config/gh/hosts.yml",
	"*/.config/gcloud/*",
};
/* Named like the above, and meant to be shared. */
static const char *const templates[] = { "*.example", "*.template",
	"*.sample", "*.dist", "*.tmpl", "*.defaults", "*.test" };

const char *
refuse_name(const char *path)
{
	char whole[SBX_COPY_MAX_PATH + 3];
	const char *slash = strrchr(path, '/');
	const char *name = slash != NULL ? slash + 1 : path;

	for (size_t i = 0; i < SBX_NELEM(templates); i++)
		if (fnmatch(templates[i], name, 0) == 0)
			return (NULL);
	(void)sbx_strlcpy(whole + 1, path, sizeof(whole) - 1);
	whole[0] = '/';
	for (size_t i = 0; i < SBX_NELEM(patterns); i++)
		if (fnmatch(patterns[i], strchr(patterns[i], '/') != NULL ?
		    whole : name, 0) == 0)
			return (BY_NAME);
	return (NULL);
}

const char *
refuse_content(const char *text, size_t len)
{
	return (sbx_mask_find_token(text, len) != NULL ?
	    "refused: it holds what looks like a token or private key" : NULL);
}
