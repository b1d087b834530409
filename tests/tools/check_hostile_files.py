#!/usr/bin/env python3
"""Every text and engine file below a folder in every command that takes it: an exit code of 0 to 8, words, 10 seconds, 1 GB.

    check_hostile_files.py TOOL FOLDER...

Inputs of a text are made by what its first line says of them.
"""
import argparse
import os
import re
import sys
import tempfile
import types

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from hostile_test import Runner  # noqa: E402

VALUES = {"int": "3", "float": "0.5", "bool": "true", "str": '"abc"', "number": "2", "int[]": "[1, 2]", "float[]": "[0.5]", "Tensor[]": "[2x3:f32:ones, 2x3:f32:ones]"}
NUMBERS = {"Float": "f32", "Double": "f64", "Long": "i64", "Int": "i32", "Bool": "bool", "Half": "f16", "Byte": "u8", "Char": "i8"}
OF_TEXTS = ["run", "interpret", "parse", "lint", "lower", "partition", "explain", "compile", "verify", "profile", "bench", "inspect", "report", "diff"]
OF_ENGINES = ["run", "inspect", "lower", "diff", "verify", "bench", "profile", "partition", "parse"]


def inputs_of(text):
    """-i for each input that a value can be made for."""
    header = re.search(r"graph\((.*?)\):\s*$", text, re.M | re.S)
    words = []
    for name, type_ in re.findall(r"%([\w.]+) : ([^,()]+(?:\([^)]*\))?)", header[1] if header else ""):
        sizes = re.match(r"(\w+)\(([\d, ]*)\)$", type_.strip())
        if sizes and sizes[1] in NUMBERS:
            words += ["-i", f"{name}={'x'.join(re.findall(r'[0-9]+', sizes[2])) or 'scalar'}:{NUMBERS[sizes[1]]}:ones"]
        else:
            words += ["-i", f"{name}={VALUES.get(type_.strip(), '2x3:f32:ones')}"]
    return words


def commands_of(path):
    if path.endswith(".tse"):
        inputs, names = ["-i", "0=2x3:f32:ones"], OF_ENGINES
    else:
        with open(path, errors="replace") as file:
            inputs, names = inputs_of(file.read(1 << 20)), OF_TEXTS
    for name in names:
        yield {"run": ["run", path, *inputs], "interpret": ["run", path, *inputs, "--executor", "interpreter"], "compile": ["compile", path, "-o", "out.tse"],
               "explain": ["explain", path, "%x"], "verify": ["verify", path, *inputs], "profile": ["profile", path, *inputs], "bench": ["bench", path, *inputs, "--duration", "50ms"],
               "report": ["report", path, "-o", "out.html"], "diff": ["diff", path, path]}.get(name, [name, path])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", type=os.path.abspath)
    parser.add_argument("folders", nargs="+")
    options = parser.parse_args()
    files = sorted(os.path.join(where, name) for folder in options.folders for where, _, names in os.walk(os.path.abspath(folder)) for name in names if name.endswith((".ir", ".tse")))
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(types.SimpleNamespace(tool=options.tool, keep=None), folder)
        for path in files:
            for command in commands_of(path):
                runner.check(path, command)
        for failure in runner.failures:
            print("FAIL", failure)
        print(f"{len(files)} files, {runner.runs} runs, exit codes {dict(sorted(runner.codes.items()))}, {len(runner.failures)} failures")
    return 1 if runner.failures else 0


if __name__ == "__main__":
    sys.exit(main())
