#!/usr/bin/env python3
"""Makes tools/schemas/*.json anew from what the commands write: run after a field was added, and read `git diff`.

    make_schemas.py build/release/tools/tscompile

A schema says what the outputs of tests/data/json_calls.txt and of all commands in tests/golden have in common: a field
that one of them lacks is not required. Titles, descriptions and fields that were written into a schema by hand stay, and
that a number is finite.
"""
import glob
import json
import os
import shlex
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = os.path.join(ROOT, "samples/models")
FOLDER = os.path.join(ROOT, "tools/schemas")
CALLS = os.path.join(ROOT, "tests/data/json_calls.txt")
# Objects whose keys are names: of operators, files, modules, settings.
NAMED = {"operators", "sources", "functions", "methods", "submodules", "settings", "metadata", "libraries", "attributes"}
FREE = {"fields"}  # a JSON Schema by itself
# Lists whose items hold others of their kind: by tag and field, the name of the kind.
RECURSIVE = {("tscompile.graph/1", "nodes"): "node", ("tscompile.run/1", "outputs"): "value",
             ("tscompile.run/1", "items"): "value"}
OWN_FORMS = {"--stream", "--help", "-h", "dot", "sarif", "text"}  # of which --format json makes no object
GOLDENS = os.path.join(ROOT, "tests/golden")
# Of these the golden file itself is the last argument, as tests/support/golden_file.cpp has it.
TAKE_THE_FILE = {"parse", "lint", "lower", "run", "bench", "profile", "inspect", "partition", "verify"}
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def kind(v):
    if v is None:
        return "null"
    if isinstance(v, bool):
        return "boolean"
    if isinstance(v, int):
        return "integer"
    if isinstance(v, float):
        return "number"
    return {str: "string", list: "array", dict: "object"}[type(v)]


class Shape:
    """What values at one place have in common. `kinds`: the shapes of what is recursive, by name."""

    def __init__(self, tag, kinds):
        self.tag, self.recursive = tag, kinds
        self.kinds, self.count, self.fields, self.items, self.values = set(), 0, {}, None, None
        self.of, self.pairs = None, False  # the kind of its items; whether some are lists of them

    def new(self):
        return Shape(self.tag, self.recursive)

    def add(self, v, name=""):
        k = kind(v)
        self.kinds.add(k)
        if k == "object":
            self.count += 1
            self.values = self.values or self.new()
            for field, value in v.items():
                seen, shape = self.fields.setdefault(field, [0, self.new()])
                self.fields[field][0] = seen + 1
                shape.add(value, field)
                self.values.add(value, field)
        elif k == "array" and (self.tag, name) in RECURSIVE:
            self.of = RECURSIVE[self.tag, name]
            items = self.recursive.setdefault(self.of, self.new())
            for item in v:
                self.pairs |= isinstance(item, list)
                for part in item if isinstance(item, list) else [item]:
                    items.add(part)
        elif k == "array":
            self.items = self.items or self.new()
            for item in v:
                self.items.add(item)

    def schema(self, old, name=""):
        kinds = set(self.kinds)
        # Those that are not finite are written as text, unless it says by hand that this one never is.
        if "number" in kinds:
            kinds = kinds - {"integer"} | (set() if old.get("type") == "number" else {"string"})
        out = {"type": sorted(kinds)[0] if len(kinds) == 1 else sorted(kinds)} if kinds else {}
        if "description" in old:
            out["description"] = old["description"]
        if "object" in kinds and name in NAMED:
            if self.values.kinds:
                out["additionalProperties"] = self.values.schema(old.get("additionalProperties", {}))
        elif "object" in kinds and name not in FREE:
            known = old.get("properties", {})
            made = {n: s.schema(known.get(n, {}), n) for n, (_, s) in self.fields.items()}
            out["properties"] = dict(sorted({**known, **made}.items()))
            required = sorted(n for n, (seen, _) in self.fields.items() if seen == self.count)
            if required:
                out["required"] = required
        if self.of:
            item = {"$ref": f"#/$defs/{self.of}"}
            out["items"] = {"anyOf": [item, {"type": "array", "items": item}]} if self.pairs else item
        elif self.items and self.items.kinds:
            out["items"] = self.items.schema(old.get("items", {}))
        return out


def compact(v, margin=""):
    """JSON with short objects and lists on one line."""
    flat = json.dumps(v, ensure_ascii=False)
    if len(flat) + len(margin) <= 118 or not isinstance(v, dict):
        return flat
    inner = margin + " "
    return "{\n" + ",\n".join(f"{inner}{json.dumps(k)}: {compact(x, inner)}" for k, x in v.items()) + f"\n{margin}}}"


def calls(folder):
    """Command lines without --format json, and what they read from standard input."""
    with open(CALLS, encoding="utf-8") as lines:
        for line in lines:
            if line.strip() and not line.startswith("#"):
                text = line.replace("%M", MODELS).replace("%t", folder).replace("%R", ROOT)
                yield shlex.split(text), "", True
    for path in sorted(glob.glob(GOLDENS + "/**/*.ir", recursive=True)):
        with open(path, encoding="utf-8", errors="replace") as f:
            text = f.read()
        own = tempfile.mkdtemp(dir=folder)
        for line in [l[7:] for l in text.split("\n") if l.startswith("# RUN: ")]:
            given = " < %s" in line
            if "%s" not in line and "%-" not in line and line.split(" ")[0] in TAKE_THE_FILE:
                line += " %s"
            line = line.replace(" < %s", "").replace("%-", "").replace("%s", path)
            words = line.replace("%S", os.path.dirname(path)).replace("%t", own)
            yield shlex.split(words), text if given else "", False


def main():
    tool = os.path.abspath(sys.argv[1])
    shapes, kinds = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for words, given, must in calls(folder):
            if not OWN_FORMS.isdisjoint(words):
                continue
            form = [] if "--format" in words else ["--format", "json"]
            done = subprocess.run([tool, *words, *form], input=given, capture_output=True, text=True, cwd=ROOT,
                                  errors="replace")
            if not done.stdout.strip():
                if must:
                    sys.exit(f"{shlex.join(words)}: nothing on standard output\n{done.stderr}")
                continue
            try:
                value = json.loads(done.stdout)
            except ValueError:
                sys.exit(f"{shlex.join(words)}: no JSON on standard output")
            tag = value.get("schema", value.get("$schema"))
            if tag == DRAFT:
                continue
            own = kinds.setdefault(tag, {})
            shapes.setdefault(tag, Shape(tag, own)).add(value)
    with open(os.path.join(FOLDER, "diagnostic.json")) as f:
        diagnostic = json.load(f)
    for tag, shape in shapes.items():
        name = tag.split(".", 1)[1].split("/")[0]
        path = os.path.join(FOLDER, name + ".json")
        old = json.load(open(path)) if os.path.exists(path) else {}
        out = {"$schema": DRAFT, "title": tag}
        out.update(shape.schema(old))
        out["properties"]["schema"] = {"const": tag}
        if kinds[tag]:
            out["$defs"] = {n: s.schema(old.get("$defs", {}).get(n, {})) for n, s in sorted(kinds[tag].items())}
        if name == "lint":  # whose findings are what any command reports
            out["properties"]["findings"]["items"] = {k: diagnostic[k] for k in ("type", "properties", "required")}
        with open(path, "w", encoding="utf-8") as f:
            f.write(compact(out) + "\n")
        print(name)


main()
