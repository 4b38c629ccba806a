#ifndef SBX_CLI_CMD_JOURNAL_H
#define SBX_CLI_CMD_JOURNAL_H

/*
 * `sbx journal tail|show|verify ...` on the journal in the directory dir.
 * cache: a directory to remember in which ids are where, or NULL.
 * argv[0] is "journal", argv[1] the verb.  Returns the exit status: 0, 1 for
 * usage, 2 when the journal cannot be read, 4 when it does not verify.
 */
int cmd_journal(const char *dir, const char *cache, int argc, char **argv);

#endif
