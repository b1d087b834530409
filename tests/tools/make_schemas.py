#!/usr/bin/env python3
"""Makes tools/schemas/*.json anew from what the commands write: run after a field was added, and read `git diff`.

    make_schemas.py build/release/tools/tscompile

A schema says what the outputs below have in common: a field that one of them lacks is not required. Titles and
descriptions that were written into a schema by hand stay, and that a number is finite.
"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = os.path.join(ROOT, "samples/models")
FOLDER = os.path.join(ROOT, "tools/schemas")
CALLS = os.path.join(ROOT, "tests/data/json_calls.txt")
# Objects whose keys are names: of operators, files, modules, settings.
NAMED = {"operators", "sources", "functions", "methods", "submodules", "settings", "metadata", "libraries"}
FREE = {"fields"}  # a JSON Schema by itself
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
    """What values at one place have in common."""

    def __init__(self):
        self.kinds, self.count, self.fields, self.items, self.values = set(), 0, {}, None, None

    def add(self, v):
        k = kind(v)
        self.kinds.add(k)
        if k == "object":
            self.count += 1
            self.values = self.values or Shape()
            for name, value in v.items():
                seen, shape = self.fields.setdefault(name, [0, Shape()])
                self.fields[name][0] = seen + 1
                shape.add(value)
                self.values.add(value)
        elif k == "array":
            self.items = self.items or Shape()
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
            out["properties"] = {n: s.schema(old.get("properties", {}).get(n, {}), n)
                                 for n, (_, s) in sorted(self.fields.items())}
            required = sorted(n for n, (seen, _) in self.fields.items() if seen == self.count)
            if required:
                out["required"] = required
        if self.items and self.items.kinds:
            out["items"] = self.items.schema(old.get("items", {}))
        return out


def compact(v, margin=""):
    """JSON with short objects and lists on one line."""
    flat = json.dumps(v, ensure_ascii=False)
    if len(flat) + len(margin) <= 118 or not isinstance(v, dict):
        return flat
    inner = margin + " "
    return "{\n" + ",\n".join(f"{inner}{json.dumps(k)}: {compact(x, inner)}" for k, x in v.items()) + f"\n{margin}}}"


def main():
    tool = os.path.abspath(sys.argv[1])
    shapes = {}
    with tempfile.TemporaryDirectory() as folder, open(CALLS, encoding="utf-8") as calls:
        for line in calls:
            if not line.strip() or line.startswith("#"):
                continue
            words = [w.replace("%M", MODELS).replace("%t", folder).replace("%R", ROOT) for w in line.split()]
            done = subprocess.run([tool, *words, "--format", "json"], capture_output=True, text=True, cwd=ROOT)
            if not done.stdout.strip():
                sys.exit(f"{line.strip()}: nothing on standard output\n{done.stderr}")
            value = json.loads(done.stdout)
            tag = value.get("schema", value.get("$schema"))
            if tag == DRAFT:
                continue
            shapes.setdefault(tag, Shape()).add(value)
    for tag, shape in shapes.items():
        name = tag.split(".", 1)[1].split("/")[0]
        path = os.path.join(FOLDER, name + ".json")
        old = json.load(open(path)) if os.path.exists(path) else {}
        out = {"$schema": DRAFT, "title": tag}
        out.update(shape.schema(old))
        out["properties"]["schema"] = {"const": tag}
        with open(path, "w", encoding="utf-8") as f:
            f.write(compact(out) + "\n")
        print(name)


main()
