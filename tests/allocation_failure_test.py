#!/usr/bin/env python3
"""The n-th allocation of a command fails, once or from there on: each ends with exit code 6 and words, or does what it does with
all its memory.

    allocation_failure_test.py TOOL FAULT_LIBRARY [--points N] [--seed S] [--only SCENARIO]

Of each scenario N points are tried in both ways (default: 12); 0: all of them. FAULT_LIBRARY: tests/support/fault_injection.cpp.
"""
import argparse
import os
import random
import re
import subprocess
import sys
import tempfile

SAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "samples")
LENET = f"{SAMPLES}/models/lenet_scripted/frozen"

GRAPH = """graph(%x : Float(2, 3), %n : int):
  %one : int = prim::Constant[value=1]()
  %true : bool = prim::Constant[value=1]()
  %y : Tensor = prim::Loop(%n, %true, %x)
    block0(%i : int, %a : Tensor):
      %s : Tensor = aten::add(%a, %x, %one)
      -> (%true, %s)
  %l : Tensor[] = prim::ListConstruct(%y, %x)
  %z : Tensor = aten::cat(%l, %one)
  %f : str = prim::Constant[value="{} and {}"]()
  %t : str = aten::format(%f, %n, %one)
  return (%z, %t)
"""

# In a folder with graph.ir, lenet.tse and built; what is written goes to `out`.
INPUTS = ["-i", "x=2x3:f32:ones", "-i", "n=3"]
SCENARIOS = {
    "parse": ["parse", "graph.ir"],
    "lint": ["lint", "graph.ir"],
    "lower": ["lower", f"{LENET}.ir", "-w", f"{LENET}.safetensors"],
    "partition": ["partition", "graph.ir", "--shape", "x=2x3"],
    "compile": ["compile", f"{LENET}.ir", "-w", f"{LENET}.safetensors", "--shape", "x.1=1x1x32x32", "-o", "out.tse"],
    "inspect": ["inspect", "lenet.tse"],
    "run": ["run", "graph.ir", *INPUTS],
    "interpret": ["run", "graph.ir", *INPUTS, "--executor", "interpreter"],
    "run_engine": ["run", "lenet.tse", "-i", "x.1=1x1x32x32:f32:ones"],
    "archive": ["run", f"{SAMPLES}/models/lenet_archive/model.pt", "-i", "0=1x1x32x32:f32:ones"],
    "generate": ["generate", "built", "--prompt-ids", "1,2", "--max-new-tokens", "2"],
}


class Sweep:
    def __init__(self, options, folder):
        self.options, self.folder, self.failures, self.runs = options, folder, [], 0

    def run(self, args, fault=None):
        count = os.path.join(self.folder, "count")
        environment = {**os.environ, "LD_PRELOAD": self.options.library, "TS_FAULT_COUNT": count, "OPENBLAS_NUM_THREADS": "1"}
        if fault:
            environment["TS_FAULT"] = fault
        done = subprocess.run([self.options.tool, *args], cwd=self.folder, env=environment, capture_output=True, timeout=120)
        self.runs += 1
        with open(count) as file:
            return done, int(file.read().split()[0])

    def plain(self, *args):
        done = subprocess.run([self.options.tool, *args], cwd=self.folder, capture_output=True)
        if done.returncode:
            sys.exit(f"{args}: {done.stderr.decode(errors='replace')}")

    def prepare(self):
        with open(os.path.join(self.folder, "graph.ir"), "w") as file:
            file.write(GRAPH)
        self.plain("compile", f"{LENET}.ir", "-w", f"{LENET}.safetensors", "--shape", "x.1=1x1x32x32", "-o", "lenet.tse", "-q")
        gpt = f"{SAMPLES}/language/byte_gpt/model"
        self.plain("build", f"{gpt}.ir", "-w", f"{gpt}.weights", "--set", "max_seq_len=64", "-o", "built", "-q")

    def scenario(self, name, args, rng):
        usual, count = self.run(args)
        if usual.returncode:
            sys.exit(f"{name}: {usual.stderr.decode(errors='replace')}")
        if count == 0:
            sys.exit(f"{name}: the faults are not in front of the C library")
        self.point(name, args, "thread-ends", usual.stdout)
        points = range(1, count + 1)
        if self.options.points and count > self.options.points:
            # The beginning of the process is a world of its own.
            points = sorted({rng.randint(1, 300), *(rng.randint(1, count) for _ in range(self.options.points - 1))})
        for point in points:
            for form in ("", "+"):
                self.point(name, args, f"alloc:{point}{form}", usual.stdout)
        print(f"{name}: {count} allocations, {2 * len(points) + 1} runs", flush=True)

    def point(self, name, args, fault, stdout):
        try:
            done, _ = self.run(args, fault)
        except subprocess.TimeoutExpired:
            self.failures.append(f"{name} {fault}: no end")
            return
        words = done.stderr.decode(errors="replace")
        if done.returncode == 6 and ("memory" in words or fault.endswith("+")):
            return
        if done.returncode == 0 and (name in ("generate", "inspect") or done.stdout == stdout):
            return  # what failed could be done without
        if done.returncode == 0 and "left to the interpreter" in words and nearly(done.stdout, stdout):
            return  # which rounds otherwise
        self.failures.append(f"{name} {fault}: exit {done.returncode}: {words[-300:]!r}")


NUMBER = rb"-?\d+\.\d+(?:e[-+]\d+)?"


def nearly(a, b):
    """Whether two outputs differ in the last digits of their numbers at most."""
    pairs = zip(re.findall(NUMBER, a), re.findall(NUMBER, b))
    return re.sub(NUMBER, b"", a) == re.sub(NUMBER, b"", b) and all(abs(float(x) - float(y)) < 1e-5 for x, y in pairs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", type=os.path.abspath)
    parser.add_argument("library", type=os.path.abspath)
    parser.add_argument("--points", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sweep = Sweep(options, folder)
        sweep.prepare()
        rng = random.Random(options.seed)
        for name, args in SCENARIOS.items():
            if options.only in name:
                sweep.scenario(name, args, rng)
    for failure in sweep.failures:
        print("FAIL", failure)
    print(f"{sweep.runs} runs, {len(sweep.failures)} failures")
    return 1 if sweep.failures else 0


if __name__ == "__main__":
    sys.exit(main())
