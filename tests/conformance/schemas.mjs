// The JSON schemas of MCP's revisions, as the official conformance suite
// (0.2) carries them, each into a file of its own.
//
//	schemas.mjs SUITE/dist/index.js DIRECTORY
//
// They stand in its bundle as object literals, named in one table by revision.
import fs from "node:fs";
import path from "node:path";
import vm from "node:vm";

const [bundle, to] = process.argv.slice(2);
const text = fs.readFileSync(bundle, "utf8");
const newest = "2026-07-28";
const rows = text.match(/\{("20\d\d-\d\d-\d\d":[\w$]+,)+\[[\w$]+\]:[\w$]+\}/);
if (rows === null)
	throw new Error(`${bundle}: there is no table of schemas`);

// the literal that begins at text[i], by its brackets
function literal(i) {
	const begin = i;
	let depth = 0, quote = "";
	for (; i < text.length; i++) {
		const ch = text[i];
		if (quote !== "") {
			if (ch === "\\")
				i++;
			else if (ch === quote)
				quote = "";
		} else if ("`'\"".includes(ch))
			quote = ch;
		else if (ch === "{" || ch === "[")
			depth++;
		else if ((ch === "}" || ch === "]") && --depth === 0)
			return text.slice(begin, i + 1);
	}
	throw new Error(`${bundle}: a literal has no end`);
}

const consts = new Map();
for (const [, name, value] of text.matchAll(/[ ,;]([\w$]+)=(`[^`$]*`)/g))
	consts.set(name, value);

fs.mkdirSync(to, { recursive: true });
for (const row of rows[0].slice(1, -1).split(",")) {
	const [key, name] = row.split(":");
	const revision = key.startsWith("[") ? newest : JSON.parse(key);
	const at = text.search(new RegExp(`[ ,;]${name.replace("$", "\\$")}=\\{`));
	if (at < 0)
		throw new Error(`${bundle}: no schema of ${revision}`);
	const schema = vm.runInNewContext(
		`(${literal(at + name.length + 2)})`, Object.create(null),
		{ timeout: 10000 });
	fs.writeFileSync(path.join(to, `${revision}.json`),
		JSON.stringify(schema));
}
