#!/usr/bin/env python3
"""A process that writes over what is there is killed, or the disk fails, at each step of writing: what is there afterwards is the old
or the new, whole, or is refused; never a mixture.

    interrupted_writes_test.py TOOL FAULT_LIBRARY [--steps N] [--only SCENARIO]

Of each scenario N steps are tried with each fault (default: 5, other ones for each fault); 0: all of them. FAULT_LIBRARY: tests/support/fault_injection.cpp.
"""
import argparse
import collections
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

SAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "samples")
LENET = f"{SAMPLES}/models/lenet_scripted/frozen"
GPT = f"{SAMPLES}/language/byte_gpt/model"
FAULTS = ("KILL", "ENOSPC", "EIO", "EINTR")
MIXTURE = "a mixture"


def hashed(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class Scenario:
    """`first` makes what is there, `then` writes over it. `state` tells what a user finds: None if it is refused."""

    def __init__(self, name, first, then, state):
        self.name, self.first, self.then, self.state = name, first, then, state


def file_state(name):
    return lambda work: hashed(os.path.join(work.folder, name))


def pair_state(work):
    """What the text computes with the weights beside it."""
    done = work.run(["run", "o/m.ir", "-w", "o/m.safetensors", "-i", "x=4:f32=[1 2 3 4]", "--print"])
    return done.stdout if done.returncode == 0 else None


def outputs_state(work):
    """Each file that outputs.json names."""
    folder = os.path.join(work.folder, "o")
    if not os.path.exists(f"{folder}/outputs.json"):
        return None
    with open(f"{folder}/outputs.json") as file:
        names = [value["file"] for value in json.load(file)]
    return tuple(hashed(f"{folder}/{name}") for name in names)


def built_state(work):
    done = work.run(["generate", "o", "--prompt-ids", "72,101", "--max-new-tokens", "6"])
    if done.returncode:
        return None
    with open(os.path.join(work.folder, "o/config.json")) as file:
        return done.stdout, json.load(file)["build_config"]["max_seq_len"]


LENET_GRAPH = [f"{LENET}.ir", "-w", f"{LENET}.safetensors", "-o", "o/l.tse", "-q", "--shape"]
RUN_TWO = ["run", "two.ir", "-q", "--outputs", "o", "-i"]
BUILD = ["build", f"{GPT}.ir", "-w", f"{GPT}.weights", "-o", "o", "-q", "--set"]
SCENARIOS = [
    Scenario("parse", ["parse", "a.ir", "-o", "o/t.ir", "-q"], ["parse", "b.ir", "-o", "o/t.ir", "-q"], file_state("o/t.ir")),
    Scenario("pair", ["lower", "a.ir", "-w", "a.weights", "-o", "o/m.ir", "-q"],
             ["lower", "b.ir", "-w", "b.weights", "-o", "o/m.ir", "-q"], pair_state),
    Scenario("compile", ["compile", *LENET_GRAPH, "x.1=1x1x32x32"], ["compile", *LENET_GRAPH, "x.1=2x1x32x32"], file_state("o/l.tse")),
    Scenario("outputs", [*RUN_TWO, "x=3:f32=[1 2 3]"], [*RUN_TWO, "x=3:f32=[7 8 9]"], outputs_state),
    Scenario("trace", ["profile", "two.ir", "-i", "x=3:f32:ones", "--runs", "1", "--trace", "o/t.json", "-q"],
             ["profile", "two.ir", "-i", "x=3:f32:ones", "--runs", "1", "--trace", "o/t.json", "-q"],
             lambda work: bool(json.load(open(os.path.join(work.folder, "o/t.json"))))),
    Scenario("build", [*BUILD, "max_seq_len=32"], [*BUILD, "max_seq_len=64"], built_state),
    Scenario("refit", [*BUILD, "use_refit=true"], ["refit", "o", "-w", "tuned.weights", "--partial", "-q"], built_state),
]


class Work:
    def __init__(self, options, folder):
        self.options, self.folder, self.failures, self.rng = options, folder, [], random.Random(1)
        graph = ("graph(%self : __torch__.M, %x : Tensor):\n  %w : Tensor = prim::GetAttr[name=\"w\"](%self)\n"
                 "  %one : int = prim::Constant[value=1]()\n  %y : Tensor = aten::{}\n  return (%y)\n")
        self.write("a.ir", graph.format("add(%x, %w, %one)"))
        self.write("b.ir", graph.format("mul(%x, %w)"))
        self.write("a.weights", "w = 4:f32:randn(seed=1)\n")
        self.write("b.weights", "w = 4:f32:randn(seed=2)\n")
        self.write("two.ir", "graph(%x : Tensor):\n  %a : Tensor = aten::neg(%x)\n  %b : Tensor = aten::relu(%x)\n  return (%a, %b)\n")
        with open(f"{GPT}.weights") as file:
            first = next(line for line in file if "=" in line and not line.startswith("#"))
        name, value = first.split("=", 1)
        self.write("tuned.weights", f"{name}= {value.strip().replace('seed=', 'seed=9')}\n")

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)

    def run(self, args, fault=None, count=None):
        environment = dict(os.environ)
        if fault or count:
            environment["LD_PRELOAD"] = self.options.library
            environment.update({"TS_FAULT": fault} if fault else {"TS_FAULT_COUNT": count})
        return subprocess.run([self.options.tool, *args], cwd=self.folder, env=environment, capture_output=True, timeout=120)

    def must(self, args, **more):
        done = self.run(args, **more)
        if done.returncode:
            sys.exit(f"{args}: {done.stderr.decode(errors='replace')}")

    def fresh(self, kept):
        shutil.rmtree(os.path.join(self.folder, "o"), ignore_errors=True)
        shutil.copytree(kept, os.path.join(self.folder, "o"))

    def check(self, scenario):
        count, kept = (os.path.join(self.folder, name) for name in ("count", "kept"))
        shutil.rmtree(kept, ignore_errors=True)
        shutil.rmtree(os.path.join(self.folder, "o"), ignore_errors=True)
        os.mkdir(os.path.join(self.folder, "o"))
        self.must(scenario.first)
        shutil.copytree(os.path.join(self.folder, "o"), kept)
        old = scenario.state(self)
        self.must(scenario.then, count=count)
        new = scenario.state(self)
        with open(count) as file:
            steps = int(file.read().split()[1])
        if steps == 0:
            sys.exit(f"{scenario.name}: nothing was written, or the faults are not in front of the C library")
        found = collections.Counter()
        for fault in FAULTS:
            for step in self.sample(steps):
                self.fresh(kept)
                done = self.run(scenario.then, fault=f"file:{step}:{fault}")
                self.judge(scenario, fault, step, done, old, new, found)
        print(f"{scenario.name}: {steps} steps, {dict(found)}", flush=True)

    def sample(self, steps):
        # The last ones, where files get their names, matter most.
        every = range(1, steps + 1)
        most = self.options.steps
        return every if not most or steps <= most else sorted({steps, steps - 1, *self.rng.sample(every, most - 2)})

    def judge(self, scenario, fault, step, done, old, new, found):
        state = scenario.state(self)
        name = "refused" if state is None else "new" if state == new and done.returncode == 0 else "old" if state == old else "new" if state == new else MIXTURE
        found[name] += 1
        where = f"{scenario.name} {fault} at step {step}: exit {done.returncode}, {name}"
        if name == MIXTURE or (name == "refused" and scenario.name in ("build", "refit", "compile", "parse", "trace")):
            self.failures.append(where)
        if fault in ("ENOSPC", "EIO") and done.returncode == 0 and name != "new":
            self.failures.append(where + ": no error was told")
        # Between the names of two files that belong together they are refused.
        if fault in ("ENOSPC", "EIO") and done.returncode != 0 and name not in ("old", "new") and scenario.name not in ("pair", "outputs"):
            self.failures.append(where + ": what was there is lost")
        if fault == "EINTR" and (done.returncode or name != "new"):
            self.failures.append(where + f": {done.stderr[-200:]!r}")
        if fault != "KILL" and done.returncode not in (0, 5):
            self.failures.append(where + f": {done.stderr[-200:]!r}")
        self.must(scenario.then)  # over whatever is there now
        left = [f for f in os.listdir(os.path.join(self.folder, "o")) if ".tmp" in f]
        if left or (scenario.state(self) != new and scenario.name != "refit"):
            self.failures.append(where + f": written again, there are {left}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", type=os.path.abspath)
    parser.add_argument("library", type=os.path.abspath)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Work(options, folder)
        for scenario in SCENARIOS:
            if options.only in scenario.name:
                work.check(scenario)
    for failure in work.failures:
        print("FAIL", failure)
    print(f"{len(work.failures)} failures")
    return 1 if work.failures else 0


if __name__ == "__main__":
    sys.exit(main())
