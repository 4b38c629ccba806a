#include "sbxd/front/front.h"

/* How the tools fit together, for a model that has never seen them. */
const char front_instructions[] =
    "sbx gives you disposable Linux sandboxes without network. Nothing that "
    "runs in one can reach this machine, its files or its credentials.\n"
    "\n"
    "1. sandbox_initialize makes a sandbox and returns container_id, which "
    "the other tools take; sandbox_attach finds it by name. setup prepares "
    "it once and is kept. run_container_and_exec is for one command in a "
    "sandbox of its own.\n"
    "2. copy_project brings a git work tree from this machine to /workspace; "
    "copy_file brings one file. Both only read below the directory that your "
    "client allows, and refuse secrets by name.\n"
    "3. sandbox_exec runs commands or argv. What takes over 45 s returns "
    "status running with a job_id and goes on: poll sandbox_exec_check, end "
    "it with sandbox_exec_kill. sandbox_exec_background starts servers and "
    "long jobs.\n"
    "4. Results show the interesting part of an output. All of it is stored "
    "under run_id, outside the sandbox: page it with read_output, or read "
    "sbx://run/RUN_ID/stdout. Never run a command again to see its output.\n"
    "5. Before something risky: sandbox_snapshot keeps the files, "
    "sandbox_restore goes back, sandbox_fork tries several ways at once.\n"
    "6. sandbox_stop removes the sandbox and all that is in it. It refuses "
    "while there is work newer than what was copied in, unless force.\n"
    "\n"
    "Every result has status: ok, failed (it ran, its verdict is negative), "
    "timeout, running, busy (try again later) or error with error, code and "
    "often recommended_next_action: follow that. sandbox_list_containers "
    "and sandbox_attach find a sandbox again; sandboxes outlive a "
    "conversation, not the suite.";

_Static_assert(sizeof(front_instructions) <= 2049, "see tools.h");
