#!/usr/bin/env python3
"""Runs exported benchmark models on the interpreter and on engines, and compares the results with PyTorch's.

    check_models.py TOOL DIR [MODEL...]

DIR/MODEL holds model.ir, weights.safetensors, frozen.ir, frozen.safetensors, in*.npy and out*.npy. Exits 1 if a model fails
or differs by more than 1e-4 + 1e-3 * |expected|.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy

RTOL, ATOL = 1e-3, 1e-4


def compare(out, directory):
    """Whether a run's --outputs folder holds what PyTorch gave, and the largest difference."""
    values = json.load(open(os.path.join(out, "outputs.json")))
    flat = [v for value in values for v in (value["items"] if value["type"] == "Tuple" else [value])]
    expected = sorted(glob.glob(os.path.join(directory, "out*.npy")))
    if len(flat) != len(expected):
        return False, f"{len(flat)} outputs, expected {len(expected)}"
    worst = 0.0
    for value, path in zip(flat, expected):
        got, want = numpy.load(os.path.join(out, value["file"])), numpy.load(path)
        if got.shape != want.shape or got.dtype != want.dtype:
            return False, f"{got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
        off = numpy.abs(got.astype(numpy.float64) - want)
        worst = max(worst, float(off.max(initial=0)))
        if not (off <= ATOL + RTOL * numpy.abs(want)).all():
            return False, f"max abs difference {worst:.3g}"
    return True, f"max abs difference {worst:.3g}"


def check(tool, directory, text, weights, executor):
    inputs = sorted(glob.glob(os.path.join(directory, "in*.npy")))
    command = [tool, "run", "-q", os.path.join(directory, text), "--weights", os.path.join(directory, weights)]
    command += ["--executor", executor]
    for i, path in enumerate(inputs):
        command += ["--input", f"{i}=@{path}"]
    with tempfile.TemporaryDirectory() as out:
        start = time.monotonic()
        done = subprocess.run(command + ["--outputs", out], stderr=subprocess.PIPE, text=True)
        seconds = time.monotonic() - start
        if done.returncode:
            return False, f"exit {done.returncode}: {done.stderr.strip()[:400]}"
        good, text = compare(out, directory)
        return good, f"{text}, {seconds:.1f} s" if good else text


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    tool, root = os.path.abspath(sys.argv[1]), sys.argv[2]
    failed = 0
    for model in sys.argv[3:] or sorted(os.listdir(root)):
        for text, weights in (("model.ir", "weights.safetensors"), ("frozen.ir", "frozen.safetensors")):
            for executor in ("interpreter", "engine"):
                good, told = check(tool, os.path.join(root, model), text, weights, executor)
                failed += not good
                print(f"{model:20} {text:10} {executor:12} {'ok  ' if good else 'FAIL'} {told}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
