// Does a request fit GitHub's published description of its REST API?
//
//	node openapi.mjs DIRECTORY	the one with node_modules
//
// A line of JSON in, {method, path, query, headers, body}, a line out: {error},
// "" if it fits.  With status and answer it is the answer that is looked at.
// Stricter than the description in one thing: what it does not name is wrong.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";

const top = process.argv[2];
const require = createRequire(top + "/package.json");
const Ajv = require("ajv").default;
const formats = require("ajv-formats").default;
const file = top + "/node_modules/@octokit/openapi/generated/api.github.com.json";
const doc = JSON.parse(readFileSync(file, "utf8"));

// {a}/{b} and what is between them; of two that match, the one with more text
const templates = Object.keys(doc.paths).map((path) => {
	const names = [];
	const text = path.replace(/[.*+?^$()|[\]\\]/g, "\\$&").replace(
	    /\{([^}]+)\}/g, (_, n) => (names.push(n), "([^/]+)"));
	return { path, names, pattern: new RegExp("^" + text + "$") };
}).sort((a, b) => a.names.length - b.names.length);

function find(path) {
	for (const t of templates) {
		const m = t.pattern.exec(path);
		if (m)
			return { item: doc.paths[t.path], values: Object.fromEntries(
			    t.names.map((n, i) => [n, decodeURIComponent(m[i + 1])])) };
	}
	return null;
}

function deref(x) {
	while (x && x.$ref)
		x = x.$ref.slice(2).split("/").reduce((at, k) => at[k], doc);
	return x;
}

// A schema by itself: no references, nothing that is not named (strict), or
// nothing that must be there (an answer of a fake has less).
function whole(schema, strict, depth = 0) {
	const s = deref(schema);
	if (s === null || typeof s !== "object" || depth > 24)
		return depth > 24 ? {} : s;
	if (Array.isArray(s))
		return s.map((x) => whole(x, strict, depth + 1));
	const out = {};
	for (const [k, v] of Object.entries(s)) {
		if (k === "example" || k === "examples" || k === "default" ||
		    k === "enum" || k === "required")
			out[k] = v;
		else if (k === "properties")
			out[k] = Object.fromEntries(Object.entries(v).map(
			    ([n, p]) => [n, whole(p, strict, depth + 1)]));
		else
			out[k] = whole(v, strict && k !== "allOf", depth + 1);
	}
	// which is OpenAPI 3.0's, and says nothing by itself
	if (out.nullable && !out.type) {
		delete out.nullable;
		return { anyOf: [out, { type: "null" }] };
	}
	if (strict && out.properties && out.additionalProperties === undefined)
		out.additionalProperties = false;
	if (!strict)
		delete out.required;
	return out;
}

const strict = new Ajv({ strict: false, allErrors: true });
const loose = new Ajv({ strict: false, allErrors: true, coerceTypes: true });
formats(strict);
formats(loose);
const compiled = new Map();

function judge(ajv, key, schema, value, exact) {
	if (!compiled.has(key))
		compiled.set(key, ajv.compile(whole(schema, exact)));
	const check = compiled.get(key);
	return check(value) ? "" : ajv.errorsText(check.errors, {
	    dataVar: key.split(" ").pop() });
}

function parameters(r, item, op, values) {
	const all = [...(item.parameters || []), ...(op.parameters || [])].map(deref);
	const query = new URLSearchParams(r.query);
	for (const name of query.keys())
		if (!all.some((p) => p.in === "query" && p.name === name))
			return "no query parameter " + name;
	for (const p of all) {
		const v = p.in === "query" ? query.get(p.name) :
		    p.in === "path" ? values[p.name] : null;
		if (v === null || v === undefined) {
			if (p.required)
				return "no " + p.in + " parameter " + p.name;
			continue;
		}
		const e = judge(loose, op.operationId + " " + p.in + " " + p.name, {
		    type: "object", properties: { v: p.schema } }, { v }, false);
		if (e)
			return e;
	}
	return "";
}

function bodyOf(r, op) {
	const want = deref(op.requestBody);
	if (r.body === null || r.body === undefined)
		return want && want.required ? "a body is missing" : "";
	if (!want)
		return "there is no body in the description";
	const type = (r.headers["content-type"] || "").split(";")[0].trim();
	if (type !== "application/json" && type !== "application/vnd.github+json")
		return "content-type " + type;
	return judge(strict, op.operationId + " body",
	    want.content["application/json"].schema, r.body, true);
}

function answerOf(r, op) {
	const a = deref((op.responses || {})[r.status]);
	if (!a)
		return "there is no answer " + r.status + " in the description";
	const c = a.content && a.content["application/json"];
	return c ? judge(strict, op.operationId + " " + r.status + " answer",
	    c.schema, r.answer, false) : "";
}

function one(r) {
	const found = find(r.path);
	const op = found && found.item[r.method.toLowerCase()];
	if (!op)
		return "no such operation: " + r.method + " " + r.path;
	if (r.status !== undefined)
		return answerOf(r, op);
	return parameters(r, found.item, op, found.values) || bodyOf(r, op);
}

for await (const line of createInterface({ input: process.stdin })) {
	let error;
	try {
		error = one(JSON.parse(line));
	} catch (e) {
		error = String(e);
	}
	process.stdout.write(JSON.stringify({ error }) + "\n");
}
