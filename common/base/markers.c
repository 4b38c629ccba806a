#include "common/base/markers.h"

#include "common/base/base.h"

#include <stdint.h>
#include <string.h>

const struct sbx_marker sbx_markers[] = {
	{ "pyproject.toml", SBX_LANG_PYTHON },
	{ "setup.py", SBX_LANG_PYTHON },
	{ "requirements*.txt", SBX_LANG_PYTHON },
	{ "Pipfile", SBX_LANG_PYTHON },
	{ "tox.ini", SBX_LANG_PYTHON },
	{ "package.json", SBX_LANG_JS },
	{ "tsconfig.json", SBX_LANG_JS },
	{ "go.mod", SBX_LANG_GO },
	{ "Cargo.toml", SBX_LANG_RUST },
	{ "CMakeLists.txt", SBX_LANG_OTHER },
	{ "configure.ac", SBX_LANG_OTHER },
	{ "meson.build", SBX_LANG_OTHER },
	{ "pom.xml", SBX_LANG_OTHER },
	{ "build.gradle", SBX_LANG_OTHER },
	{ "build.gradle.kts", SBX_LANG_OTHER },
	{ "Gemfile", SBX_LANG_OTHER },
	{ "composer.json", SBX_LANG_OTHER },
	{ "mix.exs", SBX_LANG_OTHER },
	{ "Package.swift", SBX_LANG_OTHER },
	{ "pubspec.yaml", SBX_LANG_OTHER },
	{ "build.zig", SBX_LANG_OTHER },
	{ "*.csproj", SBX_LANG_OTHER },
};
const size_t sbx_markers_n = SBX_NELEM(sbx_markers);
_Static_assert(SBX_NELEM(sbx_markers) <= 32, "a bit each in a uint32_t");

const char *
sbx_lang_image(enum sbx_lang lang)
{
	static const char *const images[SBX_LANG_MAX] = {
		[SBX_LANG_PYTHON] = "python", [SBX_LANG_JS] = "js",
		[SBX_LANG_GO] = "go", [SBX_LANG_RUST] = "rust",
	};

	return (images[lang]);
}

static int
matches(const char *pattern, const char *name)
{
	size_t n = strlen(name), head = strcspn(pattern, "*"), tail;

	if (pattern[head] == '\0')
		return (strcmp(pattern, name) == 0);
	tail = strlen(pattern + head + 1);
	return (n >= head + tail && strncmp(pattern, name, head) == 0 &&
	    strcmp(pattern + head + 1, name + n - tail) == 0);
}

int
sbx_marker_match(const char *name)
{
	for (size_t i = 0; i < sbx_markers_n; i++)
		if (matches(sbx_markers[i].name, name))
			return ((int)i);
	return (-1);
}
