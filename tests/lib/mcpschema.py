"""The JSON schemas of MCP's revisions, and a validator for what they use.

    rev = load()["2025-11-25"]
    rev.errors({"tools": []}, "ListToolsResult")    # [] when all is well

The schemas are those that the official conformance suite carries, in a
directory that SBX_MCP_SCHEMA names (tests/conformance/schemas.mjs); the
oldest revision is the next one without what that one brought.  A keyword that the validator does not know is refused when a schema is read, so
that nothing is passed over in silence.  Only the standard library.
"""
import base64
import binascii
import json
import os
import re

NAMES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
RESERVED = "io.modelcontextprotocol/"

_TEXT = {"$schema", "$comment", "$id", "title", "description", "default",
         "examples", "deprecated", "readOnly", "writeOnly"}
_ONE = ("items", "additionalProperties", "not", "if", "then", "else")
_MANY = ("anyOf", "oneOf", "allOf")
_NAMED = ("properties", "definitions", "$defs", "patternProperties")
_OTHER = {"$ref", "type", "const", "enum", "required", "pattern", "format",
          "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
          "minItems", "maxItems", "uniqueItems", "minLength", "maxLength",
          "minProperties", "maxProperties", "multipleOf"}
_FORMATS = ("uri", "byte", "uri-template")


class Unknown(Exception):
    """a schema says what this validator would not look at"""


def check_keywords(node, where="#"):
    """raises Unknown"""
    if isinstance(node, bool):
        return
    if not isinstance(node, dict):
        raise Unknown(f"{where}: a schema is an object, not {node!r}")
    for key, value in node.items():
        at = f"{where}/{key}"
        if key in _ONE:
            check_keywords(value, at)
        elif key in _MANY:
            for i, sub in enumerate(value):
                check_keywords(sub, f"{at}/{i}")
        elif key in _NAMED:
            for name, sub in value.items():
                check_keywords(sub, f"{at}/{name}")
        elif key == "format" and value not in _FORMATS:
            raise Unknown(f"{at}: {value}")
        elif key == "$ref" and not value.startswith("#/"):
            raise Unknown(f"{at}: {value}")
        elif key not in _OTHER and key not in _TEXT:
            raise Unknown(at)


# --- values ------------------------------------------------------------------

def number(v):
    return isinstance(v, (int, float)) and not isinstance(v, bool)


_TYPES = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "number": number,
    "integer": lambda v: number(v) and v == int(v),
}


def same(a, b):
    """equal as JSON: true is not 1, but 1.0 is"""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if number(a) and number(b):
        return a == b
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return a == b


def _base64(text):
    try:
        base64.b64decode(text, validate=True)
        return True
    except (binascii.Error, ValueError):
        return False


_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+"
                  r",;=-]|%[0-9A-Fa-f]{2})*\Z")
_FORMAT = {
    "uri": lambda v: bool(_URI.match(v)),
    "byte": _base64,
    "uri-template": lambda v: bool(
        re.match(r"(?:[^\x00-\x20<>\"^`{|}\\]|\{[+#./;?&]?[\w.%,:*]+\})*\Z",
                 v)),
}

# keyword: (which values it is about, whether one is good)
_LIMITS = {
    "minimum": (number, lambda v, x: v >= x),
    "maximum": (number, lambda v, x: v <= x),
    "exclusiveMinimum": (number, lambda v, x: v > x),
    "exclusiveMaximum": (number, lambda v, x: v < x),
    "multipleOf": (number, lambda v, x: v % x == 0),
    "minItems": (_TYPES["array"], lambda v, x: len(v) >= x),
    "maxItems": (_TYPES["array"], lambda v, x: len(v) <= x),
    "uniqueItems": (_TYPES["array"], lambda v, x: not x or not any(
        same(a, b) for i, a in enumerate(v) for b in v[:i])),
    "minLength": (_TYPES["string"], lambda v, x: len(v) >= x),
    "maxLength": (_TYPES["string"], lambda v, x: len(v) <= x),
    "pattern": (_TYPES["string"], lambda v, x: bool(re.search(x, v))),
    "format": (_TYPES["string"], lambda v, x: _FORMAT[x](v)),
    "minProperties": (_TYPES["object"], lambda v, x: len(v) >= x),
    "maxProperties": (_TYPES["object"], lambda v, x: len(v) <= x),
    "const": (lambda v: True, same),
    "enum": (lambda v: True, lambda v, x: any(same(v, y) for y in x)),
}


class Visit:
    """An object that some part of the schema was laid on."""

    def __init__(self, kind, path, node, value, where, alone):
        self.kind, self.path = kind, path   # definition; names below it
        self.node, self.value, self.where = node, value, where
        self.alone = alone                  # not within a choice


class Schema:
    def __init__(self, root):
        check_keywords(root)
        self.root = root
        self.defs = root.get("$defs") or root.get("definitions") or {}
        # draft-07 reads nothing beside a $ref
        self.bare_ref = "draft-07" in root.get("$schema", "")

    def find(self, ref):
        node = self.root
        for part in ref[2:].split("/"):
            node = node[part.replace("~1", "/").replace("~0", "~")]
        return node

    def validate(self, value, node, where="", at=("", ()), visits=None,
                 alone=True):
        """What is wrong with a value, as sentences; the objects seen on the
        way (of choices: in those that hold) are appended to visits."""
        visits = [] if visits is None else visits
        if isinstance(node, bool):
            return [] if node else [f"{where}: must not be there"]
        bad = []
        if "$ref" in node:
            name = node["$ref"].rsplit("/", 1)[-1]
            bad += self.validate(value, self.find(node["$ref"]), where,
                                 (name, ()), visits, alone)
            if self.bare_ref:
                return bad
        kinds = node.get("type", ())
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if kinds and not any(_TYPES[k](value) for k in kinds):
            return bad + [f"{where}: {json.dumps(value)[:60]} is not "
                          f"{' or '.join(kinds)}"]
        for key, (about, good) in _LIMITS.items():
            if key in node and about(value) and not good(value, node[key]):
                bad.append(f"{where}: {json.dumps(value)[:60]} is not "
                           f"{key} {json.dumps(node[key])[:200]}")
        bad += self._choices(value, node, where, at, visits, alone)
        if isinstance(value, dict):
            visits.append(Visit(*at, node, value, where, alone))
            bad += self._members(value, node, where, at, visits, alone)
        elif isinstance(value, list) and "items" in node:
            for i, item in enumerate(value):
                bad += self.validate(item, node["items"], f"{where}[{i}]",
                                     (at[0], at[1] + ("[]",)), visits, alone)
        return bad

    def _choices(self, value, node, where, at, visits, alone):
        bad = []
        for sub in node.get("allOf", ()):
            bad += self.validate(value, sub, where, at, visits, alone)
        for key in ("anyOf", "oneOf"):
            if key not in node:
                continue
            tried = []
            for sub in node[key]:
                seen = []
                tried.append((self.validate(value, sub, where, at, seen,
                                            False), seen))
            held = [seen for wrong, seen in tried if not wrong]
            for seen in held:
                visits += seen
            if not held:
                nearest = min((wrong for wrong, _ in tried), key=len)
                bad.append(f"{where}: fits none of {key}; nearest: "
                           + "; ".join(nearest)[:300])
            elif key == "oneOf" and len(held) > 1:
                bad.append(f"{where}: fits {len(held)} of oneOf")
        if "if" in node:
            branch = "else" if self.validate(value, node["if"], where) \
                else "then"
            bad += self.validate(value, node.get(branch, True), where, at,
                                 visits, False)
        if "not" in node and not self.validate(value, node["not"], where):
            bad.append(f"{where}: fits what it must not")
        return bad

    def _members(self, value, node, where, at, visits, alone):
        bad = [f"{where}: lacks {name}" for name in node.get("required", ())
               if name not in value]
        declared = node.get("properties", {})
        patterns = node.get("patternProperties", {})
        rest = node.get("additionalProperties", True)
        for name, v in value.items():
            subs = [declared[name]] if name in declared else []
            subs += [s for p, s in patterns.items() if re.search(p, name)]
            for sub in subs or [rest]:
                if sub is False:
                    bad.append(f"{where}: has {name}, which is not declared")
                else:
                    bad += self.validate(
                        v, sub, f"{where}.{name}",
                        (at[0], at[1] + (name,)), visits, alone)
        return bad


# --- one revision ------------------------------------------------------------

# Members of these are somebody else's: schemas, and keys with prefixes.
_FOREIGN = ("inputSchema", "outputSchema", "_meta", "requestedSchema")


def _foreign(visit):
    return (visit.path and visit.path[-1] in _FOREIGN) or \
        visit.kind.endswith("MetaObject")


class Revision(Schema):
    def __init__(self, name, root):
        super().__init__(root)
        self.name = name
        self.requests = self._methods("ClientRequest")
        self.notifications = self._methods("ServerNotification")
        self.server_requests = self._methods("ServerRequest")
        self.error = "JSONRPCErrorResponse" if "JSONRPCErrorResponse" in \
            self.defs else "JSONRPCError"
        self.response = "JSONRPCResultResponse" if "JSONRPCResultResponse" \
            in self.defs else "JSONRPCResponse"
        self.reserved = {key for node in self.defs.values()
                         for key in self._keys(node)
                         if key.startswith(RESERVED)}
        self.others = {}        # of all revisions, set by load()

    def _methods(self, union):
        """{method: definition} of the members of a union"""
        out = {}
        node = self.defs.get(union, {})
        for sub in node.get("anyOf", [node] if node else []):
            name = sub["$ref"].rsplit("/", 1)[-1]
            method = self.defs[name]["properties"]["method"]
            for m in [method["const"]] if "const" in method else \
                    method["enum"]:
                out[m] = name
        return out

    def _keys(self, node):
        if isinstance(node, dict):
            for key, v in node.items():
                if key == "properties":
                    yield from v
                yield from self._keys(v)
        elif isinstance(node, list):
            for v in node:
                yield from self._keys(v)

    def result_types(self, method, params=None):
        """The definitions one of which the result of a request must fit; []
        for a method that the revision has not."""
        request = self.requests.get(method)
        if request is None:
            return []
        stem = request[:-len("Request")]
        whole = self.defs.get(stem + "ResultResponse")
        if whole is not None:
            node = whole["properties"]["result"]
            return [n["$ref"].rsplit("/", 1)[-1]
                    for n in node.get("anyOf", [node])]
        if "task" in (params or {}) and "CreateTaskResult" in self.defs:
            return ["CreateTaskResult"]
        name = stem + "Result"
        return [name if name in self.defs else "EmptyResult"]

    def error_types(self, code):
        """[(definition, whether of the whole message)] for that code"""
        out = []
        for name, node in self.defs.items():
            props = node.get("properties", {})
            whole = "error" in props
            for sub in [{"properties": props}] if not whole else \
                    props["error"].get("allOf", []):
                if sub.get("properties", {}).get("code", {}) \
                        .get("const") == code:
                    out.append((name, whole))
        return out

    def known(self):
        """every result, notification and request a server can send"""
        results = {t for m in self.requests for t in self.result_types(m)}
        if "CreateTaskResult" in self.defs:
            results.add("CreateTaskResult")
        return results | set(self.notifications.values()) | \
            set(self.server_requests.values())

    def errors(self, value, name, strict=True):
        """What is wrong with value as that definition.  strict: also members
        that the definition does not have, though it may allow them."""
        visits = []
        bad = self.validate(value, self.defs[name], name, (name, ()), visits)
        return bad + (self._strangers(visits) if strict and not bad else [])

    def _strangers(self, visits):
        """Members of objects that this revision does not declare."""
        by_object, bad = {}, []
        for v in visits:
            by_object.setdefault(id(v.value), []).append(v)
        for group in by_object.values():
            declared = set().union(*(v.node.get("properties", ())
                                     for v in group))
            if any(_foreign(v) for v in group):
                bad += [f"{group[0].where}: {key} is not of {self.name}"
                        for key in group[0].value if key not in self.reserved
                        and self.since(key, reserved=True)]
            elif declared and not any(
                    isinstance(v.node.get("additionalProperties"), dict) and
                    v.node["additionalProperties"] for v in group):
                bad += [f"{group[0].where}: {key} is not of {self.name}" +
                        self.since(key, group)
                        for key in group[0].value if key not in declared]
        return bad

    def since(self, key, group=(), reserved=False):
        """ (it is of DATE), when another revision declares it"""
        for other in self.others.values():
            if (key in other.reserved) if reserved else any(
                    key in other.defs.get(v.kind, {}).get("properties", {})
                    for v in group):
                return f" (it is of {other.name})"
        return ""


def directory():
    """Where the schemas are; None when nobody said so."""
    return os.environ.get("SBX_MCP_SCHEMA") or None


# what 2025-03-26 brought: definitions, then members of definitions
_NEW_KINDS = ("AudioContent", "ToolAnnotations", "JSONRPCBatchRequest",
              "JSONRPCBatchResponse")
_NEW_MEMBERS = (("Tool", "annotations"), ("ServerCapabilities", "completions"))


def _without(node):
    """node without references to _NEW_KINDS, and without arrays of messages"""
    if isinstance(node, list):
        return [_without(n) for n in node if not isinstance(n, dict) or
                n.get("$ref", "").split("/")[-1] not in _NEW_KINDS]
    if isinstance(node, dict):
        return {k: _without(v) for k, v in node.items()}
    return node


def _oldest(newer):
    """2024-11-05, of the schema of 2025-03-26"""
    defs = {k: _without(v) for k, v in newer["definitions"].items()
            if k not in _NEW_KINDS}
    for kind, member in _NEW_MEMBERS:
        del defs[kind]["properties"][member]
    del defs["ProgressNotification"]["properties"]["params"]["properties"][
        "message"]
    defs["JSONRPCMessage"]["anyOf"] = [
        n for n in defs["JSONRPCMessage"]["anyOf"] if "$ref" in n]
    return dict(newer, definitions=defs)


def load():
    """{name: Revision}, oldest first"""
    revs = {}
    for name in NAMES:
        of = name if name != NAMES[0] else NAMES[1]
        with open(f"{directory()}/{of}.json", encoding="utf-8") as f:
            schema = json.load(f)
        revs[name] = Revision(name, schema if of == name else
                              _oldest(schema))
    for rev in revs.values():
        rev.others = revs
    return revs
