#!/usr/bin/env python3
"""Files of at most 1500 lines, functions of at most 120, lines of at most 100
columns.  What is above the softer marks (800, 60, 80) is only counted."""
import subprocess
import sys

import source

FILE, FUNCTION, COLUMNS = 1500, 120, 100
tap = source.Tap()
paths = source.files(".c", ".h")

long_files, long_lines, soft_files, soft_lines, lines = [], [], 0, 0, 0
for path in paths:
    text = source.read(path).split("\n")
    lines += len(text)
    soft_files += len(text) > 800
    if len(text) > FILE:
        long_files.append("%s: %d lines" % (path, len(text)))
    for number, line in enumerate(text, 1):
        width = len(line.expandtabs(8))
        soft_lines += width > 80
        if width > COLUMNS:
            long_lines.append("%s:%d: %d columns" % (path, number, width))
tap.ok(len(paths) > 50, "%d C files, %d lines" % (len(paths), lines))
tap.ok(not long_files, "no file above %d lines (%d above 800)" %
       (FILE, soft_files), long_files)
tap.ok(not long_lines, "no line above %d columns (%d above 80)" %
       (COLUMNS, soft_lines), long_lines)

try:
    out = subprocess.run(
        ["ctags", "--languages=C", "--langmap=C:.c.h", "--kinds-C=f", "-x",
         "--fields=+ne", "--_xformat=%{name} %{input} %{line} %{end}"] + paths,
        cwd=source.SRC, check=True, capture_output=True, text=True).stdout
except FileNotFoundError:
    out = None
    tap.skip("ctags is not installed")
if out is not None:
    sizes, long_functions = [], []
    for line in out.splitlines():
        name, path, start, end = line.rsplit(" ", 3)
        if not end.isdigit():
            continue
        sizes.append(int(end) - int(start) + 1)
        if sizes[-1] > FUNCTION:
            long_functions.append("%s:%s: %s is %d lines" %
                                  (path, start, name, sizes[-1]))
    sizes.sort()
    tap.ok(len(sizes) > 100 and not long_functions,
           "no function above %d lines (%d functions, median %d, 90%% <= %d)" %
           (FUNCTION, len(sizes), sizes[len(sizes) // 2] if sizes else 0,
            sizes[len(sizes) * 9 // 10] if sizes else 0), long_functions)
sys.exit(tap.done())
