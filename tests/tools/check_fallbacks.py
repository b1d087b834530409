#!/usr/bin/env python3
"""Runs exported benchmark models with each operator kind kept out of engines in turn, and compares with PyTorch's results.

    check_fallbacks.py TOOL DIR [MODEL...]

DIR is as for check_models.py. Exits 1 if a run fails or differs by more than 1e-4 + 1e-3 * |expected|.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

from check_models import compare


def run(tool, directory, kind):
    command = [tool, "run", "-q", os.path.join(directory, "model.ir"), "--min-block-size", "1"]
    command += ["--weights", os.path.join(directory, "weights.safetensors"), "--torch-executed-op", kind]
    for i, path in enumerate(sorted(glob.glob(os.path.join(directory, "in*.npy")))):
        command += ["--input", f"{i}=@{path}"]
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run(command + ["--outputs", out], stderr=subprocess.PIPE, text=True)
        if done.returncode:
            return False, f"exit {done.returncode}: {done.stderr.strip()[:400]}"
        return compare(out, directory)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    tool, root = os.path.abspath(sys.argv[1]), sys.argv[2]
    models = sys.argv[3:] or sorted(m for m in os.listdir(root) if os.path.exists(os.path.join(root, m, "model.ir")))
    failed = runs = 0
    for model in models:
        directory = os.path.join(root, model)
        text = open(os.path.join(directory, "model.ir")).read()
        for kind in sorted(set(re.findall(r"= ((?:aten|prim)::\w+)[\[(]", text)) - {"prim::Constant", "prim::GetAttr"}):
            good, told = run(tool, directory, kind)
            failed += not good
            runs += 1
            print(f"{model:18} without {kind:40} {'ok  ' if good else 'FAIL'} {told}", flush=True)
    print(f"{runs} runs, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
