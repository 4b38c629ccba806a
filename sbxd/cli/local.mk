bin_PROGRAMS += sbx
sbx_SOURCES = sbxd/cli/main.c sbxd/cli/cli.h sbxd/cli/client.c \
	sbxd/cli/cmd_mcp.c sbxd/cli/cmd_sandbox.c sbxd/cli/cmd_exec.c \
	sbxd/cli/cmd_shell.c sbxd/cli/cmd_token.c sbxd/cli/terminal.c sbxd/cli/terminal.h \
	sbxd/cli/cmd_clean.c sbxd/cli/cmd_image.c sbxd/cli/cmd_doctor.c \
	sbxd/cli/cmd_explain.c sbxd/cli/cmd_grant.c sbxd/monitor/repos.c \
	sbxd/cli/cmd_broker.c sbxd/cli/cmd_lockdown.c sbxd/cli/cmd_publish.c sbxd/cli/cmd_register.c \
	sbxd/cli/ctl.c sbxd/cli/ctl.h \
	sbxd/cli/doctor.h sbxd/cli/doctor_dirs.c sbxd/cli/doctor_host.c \
	sbxd/cli/doctor_ids.c sbxd/cli/doctor_kernel.c \
	sbxd/cli/doctor_mend.c sbxd/cli/doctor_run.c \
	sbxd/cli/doctor_sandbox.c sbxd/cli/doctor_table.c \
	sbxd/cli/cmd_journal.c sbxd/cli/cmd_journal.h
sbx_CPPFLAGS = $(AM_CPPFLAGS) $(JSON_CFLAGS) $(CRYPTO_CFLAGS)
sbx_LDADD = libsbxbroker.a libsbxegress.a libsbxjournal.a libsbx.a $(JSON_LIBS) $(CRYPTO_LIBS)
dist_man_MANS += sbxd/cli/sbx.1
