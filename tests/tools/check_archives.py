#!/usr/bin/env python3
"""Runs archives that export_archives.py made, and compares values and graphs with PyTorch's.

    check_archives.py TOOL DIR [--graphs] [NAME...]

--graphs compares what `tscompile parse` prints of "forward" with graph.txt, up to numbering, names and places. Exits 1 if a
value differs.
"""
import json
import math
import os
import re
import subprocess
import sys
import tempfile

import numpy


def literal(item, folder):
    """A value of inputs.json on the command line."""
    kind = item["type"]
    if kind == "Tensor":
        return "@" + os.path.join(folder, item["file"])
    if kind in ("List", "Tuple"):
        inner = ", ".join(literal(i, folder) for i in item["items"])
        return f"[{inner}]" if kind == "List" else f"({inner}{',' if len(item['items']) == 1 else ''})"
    if kind == "Dict":
        return "{" + ", ".join(f"{literal(k, folder)}: {literal(v, folder)}" for k, v in item["items"]) + "}"
    if kind == "bool":
        return "True" if item["value"] else "False"
    if kind in ("str", "Device"):
        return json.dumps(item["value"])
    return "None" if kind == "None" else str(item["value"])


def close(got, want):
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    if want.dtype.kind in "iub":
        return "" if (got == want).all() else "integers differ"
    scale = float(numpy.abs(want[numpy.isfinite(want)]).max(initial=0))
    if numpy.allclose(got, want, rtol=1e-3, atol=1e-4 * max(1.0, scale), equal_nan=True):
        return ""
    return f"differs by {numpy.nanmax(numpy.abs(got - want)):.3g}"


def differs(got, want, out, folder):
    """Why a value of outputs.json is not what it should be; "" if it is."""
    if got["type"] != want["type"]:
        return f"type {got['type']}, expected {want['type']}"
    if want["type"] == "Tensor":
        return close(numpy.load(os.path.join(out, got["file"])), numpy.load(os.path.join(folder, want["file"])))
    if want["type"] in ("List", "Tuple"):
        if len(got["items"]) != len(want["items"]):
            return f"{len(got['items'])} items, expected {len(want['items'])}"
        return next((d for g, w in zip(got["items"], want["items"]) if (d := differs(g, w, out, folder))), "")
    if want["type"] == "Dict":
        pairs = zip([v for e in got["items"] for v in e], [v for e in want["items"] for v in e])
        return next((d for g, w in pairs if (d := differs(g, w, out, folder))), "")
    if want["type"] == "float":
        g, w = float(got["value"]), float(want["value"])
        return "" if g == w or (math.isnan(g) and math.isnan(w)) or abs(g - w) <= 1e-5 * abs(w) else f"{g}, expected {w}"
    if want["type"] == "complex":
        want["value"] = [float(v) for v in want["value"]]
    return "" if got.get("value") == want.get("value") else f"{got.get('value')!r}, expected {want.get('value')!r}"


def run(tool, folder):
    inputs = json.load(open(os.path.join(folder, "inputs.json")))
    command = [tool, "run", "-q", os.path.join(folder, "model.pt")]
    for i, item in enumerate(inputs):
        command += ["--input", f"{i}={literal(item, folder)}"]
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run(command + ["--outputs", out], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=300)
        if done.returncode:
            return f"exit {done.returncode}: " + done.stderr.decode(errors="replace").strip()[:300]
        want = json.load(open(os.path.join(folder, "outputs.json")))[0]
        return differs(json.load(open(os.path.join(out, "outputs.json")))[0], want, out, folder)


def normal(text):
    """A graph's text without places, with values numbered as they come."""
    names = {}
    lines = []
    for line in text.splitlines():
        line = re.sub(r"\s+#.*$", "", line.strip())
        line = re.sub(r"%[^\s,():=]+", lambda m: names.setdefault(m.group(0), f"%{len(names)}"), line)
        if line:
            lines.append(line)
    return lines


def graph_differs(tool, folder):
    done = subprocess.run([tool, "parse", "-q", os.path.join(folder, "model.pt")], capture_output=True, timeout=300)
    text = done.stdout.decode(errors="replace")
    start = text.find("method forward {\n")
    if done.returncode or start < 0:
        return "no graph"
    got = normal(text[start + 17:text.find("\n    }\n", start)])
    want = normal(open(os.path.join(folder, "graph.txt")).read())
    if got == want:
        return ""
    at = next((i for i, (g, w) in enumerate(zip(got, want)) if g != w), min(len(got), len(want)))
    at_line = lambda lines: lines[at] if at < len(lines) else "(end)"
    return f"line {at + 1}: {at_line(got)}\n{'':34}PyTorch: {at_line(want)}"


def main():
    graphs = "--graphs" in sys.argv
    tool, root, *names = [a for a in sys.argv[1:] if a != "--graphs"]
    tool = os.path.abspath(tool)
    good, total = 0, 0
    for name in names or sorted(os.listdir(root)):
        folder = os.path.join(root, name)
        if not os.path.exists(os.path.join(folder, "outputs.json")):
            continue
        try:
            why = graph_differs(tool, folder) if graphs else run(tool, folder)
        except KeyError:
            why = "an input has no text"
        except subprocess.TimeoutExpired:
            why = "timeout"
        total += 1
        good += not why
        if why:
            print(f"{name:32} {why}", flush=True)
    print(f"{good} of {total}")
    return 0 if good == total else 1


if __name__ == "__main__":
    sys.exit(main())
