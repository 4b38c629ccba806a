#ifndef SBX_CLI_CMD_JOURNAL_H
#define SBX_CLI_CMD_JOURNAL_H

/*
 * `sbx journal tail|show|verify ...` on the journal in the directory dir.
 * cache: a directory to remember in which ids are where, or NULL.
 * argv[0] is "journal", argv[1] the verb.  Returns the exit status: 0, 1 for
 * usage, 2 when the journal cannot be read, 4 when it does not verify.
 */
int cmd_journal(const char *dir, const char *cache, int argc, char **argv);
/* The records of one run, each an object, behind those in the array to.  0, or
 * what journal_open() and journal_next() return. */
struct json_object;
struct sbx_err;
int cmd_journal_records(const char *dir, const char *cache, const char *run,
    struct json_object *to, struct sbx_err *err);

#endif
