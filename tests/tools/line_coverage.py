#!/usr/bin/env python3
"""How many lines of ir, frontend, passes and partition the golden and unit tests reach.

    line_coverage.py BUILD [--missed]

BUILD is a folder of the preset `coverage`, whose tests are run. --missed: the files with the most lines that no test reaches.
"""
import collections
import glob
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ("ir", "frontend", "passes", "partition")


def run_tests(build):
    """Again from zero: counts of other sources would be in the way."""
    for path in glob.glob(os.path.join(build, "**", "*.gcda"), recursive=True):
        os.remove(path)
    for name in ("golden_tests", "unit_tests"):
        subprocess.run([os.path.join(build, "tests", name), "--gtest_brief=1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def reached_lines(build):
    """Of each file, its lines, and whether they were reached."""
    lines = collections.defaultdict(lambda: collections.defaultdict(bool))
    for folder in FOLDERS:
        for path in glob.glob(os.path.join(build, folder, "**", "*.gcda"), recursive=True):
            asked = subprocess.run(["gcov", "--json-format", "--stdout", path], capture_output=True, cwd=os.path.dirname(path), check=True)
            for part in asked.stdout.splitlines():
                for file in json.loads(part)["files"]:
                    name = os.path.relpath(os.path.join(build, file["file"]), ROOT)
                    if name.startswith(tuple(f + "/" for f in FOLDERS)):
                        for line in file["lines"]:
                            lines[name][line["line_number"]] |= line["count"] > 0
    return lines


def shares(lines):
    """(reached, all) of each folder."""
    out = {}
    for folder in FOLDERS:
        told = [reached for name, of_file in lines.items() if name.startswith(folder + "/") for reached in of_file.values()]
        out[folder] = (sum(told), len(told))
    return out


def figure(build):
    told = shares(reached_lines(build))
    reached, lines = (sum(n) for n in zip(*told.values()))
    parts = ", ".join(f"{folder} {100 * a / max(b, 1):.1f} %" for folder, (a, b) in told.items())
    return f"{100 * reached / max(lines, 1):.1f} % of {lines:,} lines are reached by golden and unit tests: {parts}"


def main():
    build = os.path.abspath(sys.argv[1])
    run_tests(build)
    print(figure(build))
    if "--missed" in sys.argv:
        missed = {name: sum(not r for r in of_file.values()) for name, of_file in reached_lines(build).items()}
        for name, count in sorted(missed.items(), key=lambda m: -m[1])[:40]:
            print(f"{count:5} {name}")


if __name__ == "__main__":
    main()
