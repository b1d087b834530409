#!/usr/bin/env python3
"""Random programs, scripted and run by PyTorch, against `tscompile run`, as it chooses and in the interpreter: values, dtypes, sizes, and
whether they raise; the first lines of errors are counted.

    check_programs.py CALLS [--count N] [--first SEED] [--inputs N] [--keep FOLDER] [--state FILE]

CALLS is BUILD/tests/tool_calls, the tool without its start. Needs a Python with PyTorch (`./dev oracle`; `./dev programs` calls
this). program_grammar.py has what programs are made of; each runs with N sets of inputs of other sizes, dtypes and values, and half of
the runs raise. What PyTorch does with or without its optimisations is right: it drops dead code and folds before the first run. On
engines, where more is dropped, a program may also give what it gives without the statements that raise. --state: goes on behind the
last seed of the call before, and keeps what was counted. What differs stays in FOLDER, and by class in the last lines.
"""
import argparse
import collections
import gc
import json
import os
import re
import shlex
import signal
import sys
import tempfile
import time
import warnings
from typing import Any, NamedTuple

import torch

import program_oracle
from program_grammar import Program
from program_oracle import OTHERWISE, as_written, by_pytorch, without_dead_code, without_lines
from program_values import Inputs, Reader, same
from tool_calls import Tool

warnings.simplefilter("ignore")
torch.set_num_threads(1)
MODES = {"default": [], "interpreter": ["--executor", "interpreter"]}

# Programs that take PyTorch more time of the processor are left.
SECONDS = 20


class Run(NamedTuple):
    """One program with one set of inputs in one mode."""

    name: str
    source: str
    text: str
    function: Any
    inputs: Inputs
    mode: str
    kind: str
    want: Any

    def call(self):
        return ["run", self.text, *self.inputs.words(), "--print", "-q", *MODES[self.mode]]


def kind_of(words):
    """Of messages that differ only in numbers and dtypes."""
    return re.sub(r"'(Float|Double|Half|BFloat16|Long|Int|Short|Char|Byte|Bool)'|\b(float|bfloat|int|uint)\d+\b|\bbool\b", "T", re.sub(r"-?\d+(?!\w)", "N", words))


class Check:
    def __init__(self, options, folder):
        self.tool = Tool(options.calls, folder)
        self.files, self.options, self.folder, self.classes, self.counts, self.words = 0, options, folder, collections.Counter(), collections.Counter(), collections.Counter()

    def totals(self):
        return self.counts, self.classes, self.words

    def go_on(self):
        """The next seed; counts what was counted before."""
        with open(self.options.state) as file:
            state = json.load(file)
        self.count(state.get("counted", []))
        return state["next"]

    def count(self, more):
        for total, one in zip(self.totals(), more):
            total.update(one)

    def keep(self, seed):
        with open(self.options.state + ".new", "w") as file:
            json.dump({"next": seed, "counted": self.totals()}, file)
        os.replace(self.options.state + ".new", self.options.state)

    def script(self, source):
        """The function and the path that it names, or None if it is no program."""
        self.files += 1
        path = os.path.join(self.folder, f"program{self.files}.py")
        return program_oracle.script(source, path), path

    def programs(self, seeds):
        runs = [run for seed in seeds for run in self.runs(seed)]
        for run, answer in zip(runs, self.tool([run.call() for run in runs])):
            self.compare(run, *answer)

    def runs(self, seed):
        source = Program(seed).source()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        function, _ = self.script(source)
        self.counts["no program" if function is None else "programs"] += 1
        if function is not None:
            text = os.path.join(self.folder, f"program{seed % 1000}.ir")
            with open(text, "w") as file:
                file.write(str(function.inlined_graph))
            for which in range(self.options.inputs):
                inputs = Inputs(seed, which)
                kind, want = by_pytorch(function, inputs)
                if not any(words in str(want) for words in OTHERWISE):
                    self.counts[kind] += 1
                    yield from (Run(f"{seed}_{which}", source, text, function, inputs, mode, kind, want) for mode in MODES)
        signal.setitimer(signal.ITIMER_PROF, 0)

    def compare(self, run, code, out, err):
        said = re.sub(r"^.*?: error: ", "", err.split("\n")[0])
        problem = ""
        if code not in (0, 4, 6, 8):
            problem = f"exit {code}: {said[:80]}"
        elif code == 0:
            problem = self.value_problem(run, out)
        elif run.kind == "value" and as_written(run.function, run.inputs)[0] != "raises":
            problem = ("raises" if code == 8 else "not run") + f": {said[:90]}"
        elif run.kind == "raises" and run.mode == "interpreter":
            first = re.sub(r"^[\w.]*(Error|Exception): ?", "", run.want)[:60]
            self.words["the same words" if first and first.lower() in said.lower() else kind_of(f"PyTorch: {first} | here: {said[:80]}")] += 1
        if problem:
            self.classes[run.mode + ": " + re.sub(r"\d+", "N", problem)] += 1
            self.keep_run(run, problem, code, out, err)

    def keep_run(self, run, problem, code, out, err):
        if not self.options.keep:
            return
        os.makedirs(self.options.keep, exist_ok=True)
        with open(run.text) as file:
            graph = file.read()
        with open(os.path.join(self.options.keep, f"{run.name}_{run.mode}.txt"), "w") as file:
            file.write(f"{problem}\n\n{run.source}\n{graph}\n{shlex.join(run.inputs.words())}\nPyTorch: {run.kind} {run.want}\nhere: exit {code}\n{out}{err}")

    def value_problem(self, run, out):
        """Why these values are not PyTorch's, with some of its optimisations or without; "" if they are."""
        try:
            got = Reader(out.strip()).value()
        except Exception as e:  # noqa: BLE001
            return f"cannot be read: {e}"
        if run.kind == "value" and same(run.want, got):
            return ""
        ways = [as_written] + [without_dead_code] * (run.mode == "default")
        if any(same(value, got) for how, value in (way(run.function, run.inputs) for way in ways) if how == "value"):
            return ""
        if run.kind == "value":
            return "another value"
        if run.mode == "default" and without_lines(run.source, run.inputs, self.script, got):
            self.counts["dropped as dead"] += 1
            return ""
        return f"PyTorch raises: {run.want[:90]}"


# Programs whose calls go to one process of the tool; programs of one process of PyTorch, which learns the functions that they share.
CHUNK, BATCH = 40, 1000


def in_child(check, first, end, chunk):
    """A pipe that gets what was counted for each chunk of programs, run in a process of its own, and that process."""
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        return read, child
    os.close(read)
    with open(write, "w") as results:
        for at in range(first, end, chunk):
            for total in check.totals():
                total.clear()
            check.programs(range(at, min(at + chunk, end)))
            print(json.dumps(check.totals()), file=results, flush=True)
            gc.collect()
    os._exit(0)


def in_children(check, first, end):
    """Runs seeds in processes of their own, some at a time: there are programs that end PyTorch's, and then each has one, to find it.
    Gives the next seed after each chunk."""
    chunk = CHUNK
    while first < end:
        last = min(first + (BATCH if chunk > 1 else CHUNK), end)
        read, child = in_child(check, first, last, chunk)
        with open(read) as results:
            for line in results:
                check.count(json.loads(line))
                first = min(first + chunk, last)
                yield first
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if first < last and chunk == 1:
            slow = -ended == signal.SIGPROF
            check.counts["takes too long" if slow else "ends PyTorch"] += 1
            first += 1
            yield first
        chunk = 1 if first < last and chunk > 1 else CHUNK


def report(check, seconds):
    for problem, count in check.words.most_common(60):
        print(f"words {count:6} {problem}")
    for problem, count in check.classes.most_common():
        print(f"{count:6} {problem}")
    print(f"{dict(check.counts)}, {sum(check.classes.values())} differ; {seconds:.0f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("calls", type=os.path.abspath)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--inputs", type=int, default=2, help="sets of inputs for each program")
    parser.add_argument("--keep")
    parser.add_argument("--state")
    options = parser.parse_args()
    start = time.monotonic()
    gc.disable()
    gc.freeze()
    with tempfile.TemporaryDirectory() as folder:
        check = Check(options, folder)
        if options.state and os.path.exists(options.state):
            options.first = check.go_on()
        for seed in in_children(check, options.first, options.first + options.count):
            if options.state:
                check.keep(seed)
    report(check, time.monotonic() - start)
    return 1 if check.classes else 0


if __name__ == "__main__":
    sys.exit(main())
