#!/usr/bin/env python3
"""How many lines of ir, frontend, passes and partition the golden and unit tests reach.

    line_coverage.py BUILD [--missed]

BUILD is a folder of the preset `release`. What it has of these folders is compiled once more, with counters, into BUILD/coverage, and its
tests are linked with that and run. --missed: the files with the most lines that no test reaches.
"""
import collections
import glob
import json
import os
import shlex
import subprocess
import sys

import mutants

ROOT, FOLDERS, BINARIES = mutants.ROOT, mutants.FOLDERS, ("golden_tests", "unit_tests")


def objects(build, folder):
    """The sources of these folders as the build compiles them, with counters; those that are newer than what the build has stay."""
    made = []
    for command in mutants.Mutants(build).commands.values():
        words = shlex.split(command)
        at = words.index("-o") + 1
        if not words[at].startswith(FOLDERS):
            continue
        whole, counted = os.path.join(build, words[at]), os.path.join(folder, words[at].replace("/", "_"))
        if not os.path.exists(counted) or os.path.getmtime(counted) < os.path.getmtime(whole):
            words[at] = counted
            subprocess.run([*words, "--coverage", "-w"], cwd=build, check=True)
        made.append(counted)
    return made


def run_tests(build):
    """Again from zero: counts of other sources would be in the way. Where the counters are."""
    folder = os.path.join(build, "coverage")
    os.makedirs(folder, exist_ok=True)
    counted = objects(build, folder)
    for path in glob.glob(os.path.join(folder, "*.gcda")):
        os.remove(path)
    for name in BINARIES:
        binary = mutants.Mutants(build).link(name, [*counted, "--coverage"], folder)
        subprocess.run([binary, "--gtest_brief=1"], cwd=build, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder


def reached_lines(folder):
    """Of each file, its lines, and whether they were reached."""
    lines = collections.defaultdict(lambda: collections.defaultdict(bool))
    for path in glob.glob(os.path.join(folder, "*.gcda")):
        asked = subprocess.run(["gcov", "--json-format", "--stdout", path], capture_output=True, cwd=folder, check=True)
        for part in asked.stdout.splitlines():
            told = json.loads(part)
            for file in told["files"]:
                name = os.path.relpath(os.path.join(told["current_working_directory"], file["file"]), ROOT)
                if name.startswith(FOLDERS):
                    for line in file["lines"]:
                        lines[name][line["line_number"]] |= line["count"] > 0
    return lines


def shares(lines):
    """(reached, all) of each folder."""
    out = {}
    for folder in FOLDERS:
        told = [reached for name, of_file in lines.items() if name.startswith(folder) for reached in of_file.values()]
        out[folder.rstrip("/")] = (sum(told), len(told))
    return out


def figure(lines):
    told = shares(lines)
    reached, count = (sum(n) for n in zip(*told.values()))
    parts = ", ".join(f"{folder} {100 * a / max(b, 1):.1f} %" for folder, (a, b) in told.items())
    return f"{100 * reached / max(count, 1):.1f} % of {count:,} lines are reached by golden and unit tests: {parts}"


def main():
    lines = reached_lines(run_tests(os.path.abspath(sys.argv[1])))
    print(figure(lines))
    if "--missed" in sys.argv:
        missed = {name: sum(not r for r in of_file.values()) for name, of_file in lines.items()}
        for name, count in sorted(missed.items(), key=lambda m: -m[1])[:40]:
            print(f"{count:5} {name}")


if __name__ == "__main__":
    main()
