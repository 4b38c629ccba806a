#!/usr/bin/env python3
"""Writes sbxd/judge/fold.def to stdout: what file systems that know no case, or
only normalised names, make of a character (Unicode's full case folding between
canonical decompositions, UAX #15, of the version that this python knows)."""
import sys
import unicodedata

HANGUL = range(0xAC00, 0xD7A4)  # by rule, in fold.c
last = sys.maxunicode + 1


def skeleton(c):
    was = None
    while c != was:
        was = c
        c = unicodedata.normalize("NFD", unicodedata.normalize(
            "NFD", c).casefold())
    return c


def lines(words, per):
    for i in range(0, len(words), per):
        print(" ".join(words[i:i + per]))


print("/* Written by contrib/mkfold.py of Unicode %s.  FOLD(character, what it "
      "becomes)\n * in the order of characters; MARKS(first, last): those that "
      "combine. */" % unicodedata.unidata_version)
folds = []
for cp in range(0x80, last):
    if 0xD800 <= cp < 0xE000 or cp in HANGUL:
        continue
    to = skeleton(chr(cp))
    if to != chr(cp):
        text = "".join("\\%03o" % b for b in to.encode())
        folds.append('FOLD(0x%X, "%s")' % (cp, text))
lines(folds, 3)
marks, first = [], None
for cp in range(0x80, last + 1):
    is_mark = cp < last and unicodedata.combining(chr(cp)) != 0
    if is_mark and first is None:
        first = cp
    elif not is_mark and first is not None:
        marks.append("MARKS(0x%X, 0x%X)" % (first, cp - 1))
        first = None
lines(marks, 4)
