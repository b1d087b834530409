#!/usr/bin/env python3
"""Remakes with PyTorch what the tests compare to, in copies, and lists what differs.

    remake_goldens.py [--write]      --write puts the new files in place of the old ones

Covers samples/models and the outputs in tests/ops/*.cases.
"""
import filecmp
import glob
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))


def differing(old, new):
    """Files below two directories that are not the same."""
    names = {os.path.relpath(os.path.join(d, f), base) for base in (old, new) for d, _, files in os.walk(base) for f in files}
    return sorted(n for n in names if not (os.path.exists(os.path.join(old, n)) and os.path.exists(os.path.join(new, n))
                                           and filecmp.cmp(os.path.join(old, n), os.path.join(new, n), shallow=False)))


def main():
    write = "--write" in sys.argv[1:]
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        made = os.path.join(temporary, "models")
        subprocess.run([sys.executable, os.path.join(ROOT, "samples/make_models.py"), "--out", made], check=True, stdout=subprocess.DEVNULL)
        models = os.path.join(ROOT, "samples/models")
        for name in differing(models, made):
            failed += 1
            print(f"samples/models/{name} differs")
        if write:
            shutil.rmtree(models)
            shutil.copytree(made, models)
    remake = [sys.executable, os.path.join(ROOT, "tests/ops/remake.py")]
    for path in sorted(glob.glob(os.path.join(ROOT, "tests/ops/*.cases"))):
        failed += subprocess.run(remake + ([] if write else ["--check"]) + [path]).returncode != 0
    print("all goldens are PyTorch's" if not failed else f"{failed} differences")
    return 1 if failed and not write else 0


if __name__ == "__main__":
    sys.exit(main())
