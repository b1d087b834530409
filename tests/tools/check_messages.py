#!/usr/bin/env python3
"""First lines of errors, PyTorch's beside those of `tscompile run`, as it chooses and in the interpreter.

    check_messages.py CALLS [--all] [--cases FILE]

CALLS is BUILD/tests/tool_calls; needs a Python with PyTorch (`./dev oracle`). Prints the kinds whose words differ, --all: all. Letters
at the beginning of a sentence and full stops at its end are the project's own. --cases: adds those that have PyTorch's words to a file of
operator cases, if it has none of that name.
"""
import argparse
import os
import re
import sys
import tempfile
import types

import torch

import check_programs
import program_values
from message_kinds import KINDS

INPUTS = {"x": ((2, 3), "float32"), "y": ((2,), "float32"), "z": ((2, 3), "int64"), "b": ((2, 3), "bool"), "c": ((2, 3), "complex64"), "e": ((0, 3), "float32"), "q": ((3, 3), "float32")}


def words_of(name):
    sizes, dtype = INPUTS[name]
    short = {**program_values.NAMES, "torch.complex64": "c64"}["torch." + dtype]
    return ["-i", f"{name}={'x'.join(map(str, sizes))}:{short}:ones"]


def plain(words):
    """Without what is each project's own: the exception's name, the operator's, capitals of sentences, full stops."""
    words = re.sub(r"^(torch\.jit\.Error|RuntimeError|[\w.]*(Error|Exception)): ", "", words.strip())
    return re.sub(r"\.(?= |$)", "", words).strip(" .").lower()


def said_here(tool, path, names, mode):
    [(code, _, err)] = tool([["run", path, *(w for n in names for w in words_of(n)), "--print", "-q", *mode]])
    line = re.sub(r"^.*?: error: ", "", err.split("\n")[0])
    return code, line


def by_pytorch(function, inputs):
    """What PyTorch does, in a process of its own: there are programs that end it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with open(write, "w") as out:
            kind, want = check_programs.by_pytorch(function, types.SimpleNamespace(values=lambda: inputs))
            out.write(f"{kind}\n{want}")
        os._exit(0)
    os.close(write)
    with open(read) as answer:
        kind, _, want = answer.read().partition("\n")
    os.waitpid(child, 0)
    return kind or "ends", want


def case_of(name, function, used, said):
    """As tests/ops has it."""
    graph = re.sub(r" # \S+:\d+:\d+$", "", str(function.inlined_graph), flags=re.M).rstrip()
    inputs = "".join(f"in: {words_of(n)[1].split('=', 1)[1]}\n" for n in used)
    words = re.sub(r"^[\w:]+: ", "", said)
    return f"\n== {name}\n{graph}\n\n{inputs}err: {words}\n"


def add_cases(path, cases):
    with open(path) as file:
        text = file.read()
    with open(path, "a") as file:
        for name, case in cases.items():
            if f"== {name}\n" not in text:
                file.write(case)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("calls", type=os.path.abspath)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--cases")
    options = parser.parse_args()
    same, cases = 0, {}
    with tempfile.TemporaryDirectory() as folder:
        check = check_programs.Check(types.SimpleNamespace(calls=options.calls, inputs=0, keep=None), folder)
        for name, body in KINDS.items():
            used = [n for n in INPUTS if re.search(rf"\b{n}\b", body)]
            function, _ = check.script("import math\nimport torch\nfrom typing import *\n\ndef f(" + ", ".join(f"{n}: torch.Tensor" for n in used) + "):\n    " + body.replace("\n", "\n    ") + "\n")
            if function is None:
                print(f"{name}: not a program")
                continue
            path = os.path.join(folder, "kind.ir")
            with open(path, "w") as file:
                file.write(str(function.inlined_graph))
            inputs = [torch.ones(INPUTS[n][0], dtype=getattr(torch, INPUTS[n][1])) for n in used]
            kind, want = by_pytorch(function, inputs)
            first = plain(want.split("\n")[0]) if kind == "raises" else kind
            for label, mode in check_programs.MODES.items():
                code, said = said_here(check.tool, path, used, mode)
                equal = code in (4, 8) and bool(first) and plain(said).endswith(first)
                same += equal
                if equal and used:
                    cases[name] = case_of(name, function, used, said)
                elif not equal:
                    cases.pop(name, None)
                if options.all or not equal:
                    print(f"{'  ' if equal else '! '}{name} ({label}, exit {code})\n      PyTorch: {want[:200]}\n      here:    {said[:200]}")
    if options.cases:
        add_cases(options.cases, cases)
    print(f"{same} of {2 * len(KINDS)} have PyTorch's words")


if __name__ == "__main__":
    sys.exit(main())
