# what test runners and linters wrote, read: for the worker and whoever else
# must know what a report says
noinst_LIBRARIES += libsbxreport.a
libsbxreport_a_SOURCES = \
	sbxd/report/automake.c sbxd/report/build.c sbxd/report/cargo.c \
	sbxd/report/findings.c \
	sbxd/report/gotest.c sbxd/report/jest.c sbxd/report/junit.c \
	sbxd/report/report.c sbxd/report/report.h sbxd/report/tap.c \
	sbxd/report/text.c sbxd/report/work.h sbxd/report/xml.c \
	sbxd/report/xml.h
libsbxreport_a_CPPFLAGS = $(AM_CPPFLAGS) $(JSON_CFLAGS)
