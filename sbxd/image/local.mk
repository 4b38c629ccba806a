# sbxd-image: makes one image of a tree, a tar or an archive of layers
IMAGE_CORE = sbxd/image/entry.c sbxd/image/fail.c sbxd/image/finish.c sbxd/image/importer.h \
	sbxd/image/layers.c sbxd/image/source.c
pkglibexec_PROGRAMS += sbxd-image
sbxd_image_SOURCES = sbxd/image/main.c $(IMAGE_CORE)
sbxd_image_CPPFLAGS = $(AM_CPPFLAGS) $(ARCHIVE_CFLAGS) $(CRYPTO_CFLAGS) \
	$(JSON_CFLAGS)
sbxd_image_LDADD = libsbxprivs.a libsbx.a $(ARCHIVE_LIBS) $(CRYPTO_LIBS) \
	$(JSON_LIBS) $(SECCOMP_LIBS) $(CAP_LIBS)
dist_man_MANS += sbxd/image/sbxd-image.8
