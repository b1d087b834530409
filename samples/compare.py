#!/usr/bin/env python3
"""Compares two directories that `tscompile run --outputs` wrote: prints the largest absolute difference of each tensor.

    compare.py GOT EXPECTED [--rtol 1e-3] [--atol 1e-4]

Exits 1 if a value differs by more than atol + rtol * |expected|. Needs numpy.
"""
import argparse
import json
import os
import sys

import numpy


def tensor(directory, entry):
    path = os.path.join(directory, entry["file"])
    if path.endswith(".npy"):
        return numpy.load(path)
    with open(path, "rb") as f:  # safetensors, which holds bfloat16
        raw = f.read()
    size = int.from_bytes(raw[:8], "little")
    begin, end = json.loads(raw[8:8 + size])["value"]["data_offsets"]
    bits = numpy.frombuffer(raw[8 + size + begin:8 + size + end], numpy.uint16).astype(numpy.uint32) << 16
    return bits.view(numpy.float32).reshape(entry["shape"])


class Comparison:
    def __init__(self, got, expected, rtol, atol):
        self.got, self.expected, self.rtol, self.atol = got, expected, rtol, atol
        self.worst, self.problems = 0.0, []

    def differ(self, where, message):
        self.problems.append(f"{where}: {message}")

    def value(self, where, a, b):
        if a["type"] != b["type"]:
            return self.differ(where, f"{a['type']}, expected {b['type']}")
        if b["type"] == "Tensor":
            return self.tensors(where, a, b)
        if "items" in b:
            if len(a["items"]) != len(b["items"]):
                return self.differ(where, f"{len(a['items'])} items, expected {len(b['items'])}")
            for i, (x, y) in enumerate(zip(a["items"], b["items"])):
                for part, (p, q) in enumerate(zip(x, y) if isinstance(y, list) else [(x, y)]):
                    self.value(f"{where}[{i}]" + (".key" if isinstance(y, list) and part == 0 else ""), p, q)
            return None
        x, y = a.get("value", a.get("repr")), b.get("value", b.get("repr"))
        if b["type"] == "float" and isinstance(x, float) and isinstance(y, float):
            return self.numbers(where, numpy.float64(x), numpy.float64(y))
        if x != y:
            self.differ(where, f"{x!r}, expected {y!r}")
        return None

    def tensors(self, where, a, b):
        for key in ("dtype", "shape"):
            if a[key] != b[key]:
                return self.differ(where, f"{key} {a[key]}, expected {b[key]}")
        return self.numbers(where, tensor(self.got, a), tensor(self.expected, b))

    def numbers(self, where, x, y):
        if x.dtype == bool or numpy.issubdtype(x.dtype, numpy.integer):
            wrong = int((x != y).sum())
            if wrong:
                self.differ(where, f"{wrong} elements differ")
            return
        wide = numpy.complex128 if numpy.iscomplexobj(x) else numpy.float64
        x, y = x.astype(wide), y.astype(wide)
        same = (x == y) | (numpy.isnan(x) & numpy.isnan(y))
        with numpy.errstate(invalid="ignore"):
            off = numpy.where(same, 0, numpy.abs(x - y))
            bad = ~same & ~(off <= self.atol + self.rtol * numpy.abs(y))
        off = numpy.nan_to_num(off, nan=numpy.inf, posinf=numpy.inf)
        self.worst = max(self.worst, float(off.max(initial=0)))
        if bad.any():
            self.differ(where, f"{int(bad.sum())} elements differ, by up to {off.max():.3g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("got")
    parser.add_argument("expected")
    parser.add_argument("--rtol", type=float, default=1e-3)
    parser.add_argument("--atol", type=float, default=1e-4)
    a = parser.parse_args()
    c = Comparison(a.got, a.expected, a.rtol, a.atol)
    for d in (a.got, a.expected):
        if not os.path.exists(os.path.join(d, "outputs.json")):
            sys.exit(f"error: {d}/outputs.json is not there")
    lists = [json.load(open(os.path.join(d, "outputs.json"))) for d in (a.got, a.expected)]
    c.value("outputs", {"type": "outputs", "items": lists[0]}, {"type": "outputs", "items": lists[1]})
    for problem in c.problems:
        print(problem)
    print(f"max abs difference {c.worst:.3g}")
    return 1 if c.problems else 0


if __name__ == "__main__":
    sys.exit(main())
