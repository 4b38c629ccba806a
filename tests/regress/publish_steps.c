/* Prints the scripts of a publication: NAME NUL SECONDS NUL SCRIPT NUL; then its
 * steps: WORD NUL CAUSE NUL MEND NUL. */
#include "common/base/publish.h"

#include <stdio.h>

int
main(void)
{
	const struct sbx_publish_row *r = sbx_publish_scripts;
	const struct sbx_publish_step *s = sbx_publish_steps;

	for (unsigned i = 0; i < SBX_PUBLISH_SCRIPT_MAX; i++)
		(void)printf("%s%c%u%c%s%c", r[i].name, 0, r[i].seconds, 0,
		    r[i].script, 0);
	for (unsigned i = 0; i < sbx_publish_steps_n; i++)
		(void)printf("%s%c%s%c%s%c", s[i].word, 0, s[i].cause, 0,
		    s[i].mend, 0);
	return (0);
}
