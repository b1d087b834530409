#!/usr/bin/env python3
"""Measures what docs/reliability.md promises, and writes the figures there.

    promises.py BUILD [--long] [--only P1,P8] [--write]

BUILD is a folder of the release build. A figure adds to those of earlier calls, which BUILD/promises.json keeps with the seeds that
were used: so --long, which takes some twenty times as much, may be stopped and called again. --write: into docs/reliability.md.
"""
import argparse
import datetime
import json
import math
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

import fuzz
import line_coverage
import mutants

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(TESTS)
DOCUMENT = os.path.join(ROOT, "docs", "reliability.md")
RELU = "graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)\n"


class Failed(Exception):
    """A promise that does not hold; what it says becomes the figure."""


class Promises:
    def __init__(self, build, is_long, folder):
        self.build, self.is_long, self.folder = os.path.abspath(build), is_long, folder
        self.tool = os.path.join(self.build, "tools", "tscompile")
        self.faults = os.path.join(self.build, "tests", "fault_injection.so")
        self.state_path = os.path.join(self.build, "promises.json")
        self.state = {}
        if os.path.exists(self.state_path):
            with open(self.state_path) as file:
                self.state = json.load(file)

    def amount(self, usual):
        return usual * 20 if self.is_long else usual

    def beside(self, name):
        """The folder of another preset."""
        return os.path.join(os.path.dirname(self.build), name)

    def kept(self, promise):
        return self.state.setdefault(promise, {})

    def total(self, promise, name, count):
        """Adds to a count that lasts from call to call."""
        kept = self.kept(promise)
        kept[name] = kept.get(name, 0) + count
        return kept[name]

    def seed(self, promise):
        return self.total(promise, "seed", 1)

    def path(self, name, text=None):
        path = os.path.join(self.folder, name)
        if text is not None:
            with open(path, "w") as file:
                file.write(text)
        return path

    def run(self, *args, **more):
        return subprocess.run([self.tool, *args], cwd=self.folder, capture_output=True, stdin=subprocess.DEVNULL, **more)

    def script(self, name, *args, pattern):
        """A test of this folder; the numbers of its last line."""
        done = subprocess.run([sys.executable, os.path.join(TESTS, name), *map(str, args)], capture_output=True, text=True)
        found = re.search(pattern, done.stdout)
        if done.returncode or not found:
            raise Failed((done.stdout + done.stderr)[-400:])
        return [int(n) for n in found.groups()]

    def gtest(self, binary, names, **environment):
        done = subprocess.run([os.path.join(self.build, "tests", binary), f"--gtest_filter={names}"], capture_output=True, text=True,
                              env={**os.environ, **environment})
        found = re.search(r"\[  PASSED  \] (\d+) test", done.stdout)
        if done.returncode or not found or found.group(1) == "0":
            raise Failed(done.stdout[-400:])
        return int(found.group(1))

    # ---- what is measured ----

    def p1(self):
        (runs,) = self.script("hostile_test.py", self.tool, "--calls", os.path.join(self.build, "tests", "tool_calls"), "--count",
                              self.amount(500), "--seed", 1000 + self.seed("P1"), pattern=r"(\d+) runs")
        return (f"{self.total('P1', 'runs', runs):,} runs on random nodes, arguments, shared memory and engine files: 0 crashes, hangs or internal errors"
                f"; {self.fuzzed() or 'fuzz targets were not run'}")

    def fuzzed(self):
        """What `./dev fuzz` has counted, if it was there."""
        targets = fuzz.Targets(self.beside("fuzz"), ())
        runs = {name: count["runs"] for name, count in targets.counts.items() if count["runs"]}
        done = sum(runs[name] >= fuzz.wanted_runs(name) for name in runs)
        found = sum(count["findings"] for count in targets.counts.values())
        return runs and (f"{sum(runs.values()):,} runs of {len(runs)} fuzz targets, of which {done} have run as often as they should: "
                         f"{found} findings")

    def p2(self):
        covered = {n: c["coverage"] for n, c in fuzz.Targets(self.beside("fuzz"), ()).counts.items() if c.get("coverage")}
        if not covered:
            return None
        parts = ", ".join(f"{name} {100 * c['reached'] // max(c['functions'], 1)} %" for name, c in sorted(covered.items()))
        reached, functions = (sum(c[what] for c in covered.values()) for what in ("reached", "functions"))
        return f"{100 * reached // functions} % of {functions:,} functions of the code that the targets are for: {parts}"

    def p3(self):
        count = self.amount(1000)
        first = 1_000_000 + self.kept("P3").get("programs", 0)  # beyond those of ./dev test
        self.gtest("unit_tests", "LoweringProperty*", TSCOMPILE_SOAK_FROM=str(first), TSCOMPILE_SOAK_PROGRAMS=str(count))
        return f"{self.total('P3', 'programs', count):,} random programs by each property of lowering, lowered and as they are: 0 differ"

    def p4(self):
        report = os.path.join(self.beside("conformance"), "report.json")
        if not os.path.exists(report):
            return None
        done = subprocess.run([sys.executable, os.path.join(TESTS, "tools", "conformance_bar.py"), report], capture_output=True, text=True)
        return (done.stdout + done.stderr).strip().splitlines()[-1]

    def p5(self):
        done = subprocess.run([sys.executable, os.path.join(TESTS, "bad_input_test.py"), self.tool], capture_output=True, text=True)
        found = re.search(r"(\d+)", done.stdout.splitlines()[-1] if done.stdout else "")
        if done.returncode or not found:
            raise Failed(done.stdout[-400:])
        return f"{found.group(1)} bad files: each message names its place"

    def p6(self):
        count = self.amount(1000)
        first = 1_000_000 + self.kept("P6").get("graphs", 0)
        self.gtest("unit_tests", "GraphProperty.VerifiesAndPrintsToAFixpoint", TSCOMPILE_SOAK_FROM=str(first), TSCOMPILE_SOAK_PROGRAMS=str(count))
        return f"{self.total('P6', 'graphs', count):,} random graphs printed, read and printed again: the same texts; fuzz_graph asks it of what it can read"

    def p7(self):
        graph = "graph(%x : Float(2)):\n  %w : Float(2) = prim::Constant[value= 1  2 [ CPUFloatType{2} ]]()\n  %y : Tensor = aten::mul(%x, %w)\n  return (%y)\n"
        self.run("compile", self.path("g.ir", graph), "-o", "g.tse", "--min-block-size", "1", check=True)
        with open(self.path("g.tse"), "rb") as file:
            good = file.read()
        rng = random.Random(self.seed("P7"))
        changes = [good[:n] for n in range(0, len(good), 1 if self.is_long else 7)]
        changes += [good[:i] + bytes([good[i] ^ 1 << rng.randrange(8)]) + good[i + 1 :] for i in range(0, len(good), 1 if self.is_long else 7)]
        for change in changes:
            with open(self.path("bad.tse"), "wb") as file:
                file.write(change)
            code = self.run("run", "bad.tse", "-i", "0=2:f32:ones").returncode
            if code not in (3, 7):
                raise Failed(f"a damaged engine file ends with {code}")
        return f"{self.total('P7', 'files', len(changes)):,} prefixes and flipped bits of an engine file: each refused"

    def p8(self):
        done = subprocess.run([sys.executable, os.path.join(TESTS, "interrupted_writes_test.py"), self.tool, self.faults, "--steps",
                               "0" if self.is_long else "6"], capture_output=True, text=True)
        if done.returncode:
            raise Failed(done.stdout[-400:])
        states = [int(n) for n in re.findall(r"'(?:old|new|refused)': (\d+)", done.stdout)]
        return f"{sum(states)} faults (kill, full disk, EIO, EINTR) in writing of 7 commands: old or new always, {'every' if self.is_long else 'sampled'} step"

    def p9(self):
        rounds, children = self.amount(3), []
        graph = self.path("r.ir", RELU)
        self.run("compile", graph, "--shape", "x=2", "-o", "shared.tse", check=True)
        writes = reads = 0
        for i in range(rounds):
            for j in range(8):
                args = ["compile", graph, "--shape", f"x={2 + j % 3}", "-o", "shared.tse", "-q"] if j % 2 else ["inspect", "shared.tse"]
                writes, reads = writes + j % 2, reads + (j % 2 == 0)
                children.append(subprocess.Popen([self.tool, *args], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
            for child in children:
                words = child.communicate()[1]
                if child.returncode:
                    raise Failed(words.decode(errors="replace"))
            children.clear()
        return f"{self.total('P9', 'writes', writes)} writes and {self.total('P9', 'reads', reads)} reads of one file at a time: 0 failures"

    def p10(self):
        lenet = os.path.join(ROOT, "samples", "models", "lenet_scripted", "frozen")
        outputs = set()
        for threads in (1, 2, 3, 5):
            done = self.run("run", lenet + ".ir", "-w", lenet + ".safetensors", "-i", "x.1=2x1x32x32:f32:randn(seed=1)", "--print", "--threads", str(threads))
            outputs.add(done.stdout)
        files = []
        for name in ("one.tse", "two.tse"):
            self.run("compile", lenet + ".ir", "-w", lenet + ".safetensors", "--shape", "x.1=1x1x32x32", "-o", name, check=True)
            with open(self.path(name), "rb") as file:
                files.append(file.read())
        if len(outputs) != 1 or files[0] != files[1]:
            raise Failed("results differ between threads, or between two compiles")
        return "1, 2, 3 and 5 threads: the same bits; two compiles: the same bytes"

    def p11(self):
        (runs,) = self.script("allocation_failure_test.py", self.tool, self.faults, "--points", self.amount(20), "--seed", self.seed("P11"),
                              pattern=r"(\d+) runs, 0 failures")
        return f"{self.total('P11', 'runs', runs):,} runs of 11 commands whose n-th allocation fails, once or from there on: exit 6, or the usual result"

    def p12(self):
        (runs,) = self.script("limits_test.py", self.tool, pattern=r"(\d+) runs, 0 failures")
        return f"{runs} bombs in 9 commands with --limit-mem 64M: 160 MB at most"

    def p13(self):
        worst, small, large = 0.0, 10000, 160000
        for command in ("parse", "lint", "lower"):
            seconds = []
            for count in (small, large):
                lines = [f"  %v{i + 1} : Tensor = aten::relu(%v{i})" for i in range(count)]
                path = self.path("chain.ir", "graph(%v0 : Tensor):\n" + "\n".join(lines) + f"\n  return (%v{count})\n")
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                self.run(command, path, check=True)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
            worst = max(worst, math.log(seconds[1] / seconds[0]) / math.log(large / small))
        if worst > 1.15:
            raise Failed(f"parse, lint and lower of {small:,} and {large:,} nodes: exponent {worst:.2f}, more than 1.15")
        return f"parse, lint and lower of {small:,} and {large:,} nodes: exponent {worst:.2f} at most"

    def p14(self):
        done = subprocess.run(["bash", "-c", f"ulimit -S -s 256; exec '{self.build}/tests/golden_tests' --gtest_brief=1"], capture_output=True, text=True)
        found = re.search(r"\[  PASSED  \] (\d+)", done.stdout)
        if done.returncode or not found:
            raise Failed(done.stdout[-400:])
        return f"{found.group(1)} goldens with stacks of 256 KB: pass"

    def p15(self):
        bomb = self.path("forever.ir", "graph(%x : Tensor):\n  %t : bool = prim::Constant[value=1]()\n  %n : int = prim::Constant[value=9223372036854775807]()\n"
                         "  %y : Tensor = prim::Loop(%n, %t, %x)\n    block0(%i : int, %a : Tensor):\n      %b : Tensor = aten::relu(%a)\n      -> (%t, %b)\n  return (%y)\n")
        rng, worst, count = random.Random(self.seed("P15")), 0.0, self.amount(20)
        for _ in range(count):
            name, number = rng.choice([(signal.SIGINT, 130), (signal.SIGTERM, 143)])
            args = rng.choice([["run", bomb, "-i", "x=2:f32:ones"], ["profile", bomb, "-i", "x=2:f32:ones"], ["bench", bomb, "-i", "x=2:f32:ones"]])
            child = subprocess.Popen([self.tool, *args], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.2 + rng.random() * 0.3)
            begin = time.monotonic()
            child.send_signal(name)
            if child.wait(timeout=30) != number:
                raise Failed(f"{args[0]} ends with {child.returncode} after signal {name}")
            worst = max(worst, time.monotonic() - begin)
        return f"{self.total('P15', 'signals', count)} signals at random times: 130 or 143; the last {count} within {1000 * worst:.0f} ms"

    def p16(self):
        if subprocess.run(["sh", "-c", "command -v strace"], capture_output=True).returncode:
            return None
        calls = {}
        for args in (["parse", "relu.ir"], ["inspect", "relu.ir"], ["run", "relu.ir", "-i", "x=2:f32:ones"]):
            self.path("relu.ir", RELU)
            subprocess.run(["strace", "-f", "-o", self.path("calls"), "-e", "trace=execve,socket,connect,fork,vfork", self.tool, *args], cwd=self.folder,
                           capture_output=True, check=True)
            with open(self.path("calls")) as file:
                calls[args[0]] = len([line for line in file if re.search(r"(execve|socket|connect|fork)\(", line)])
        if set(calls.values()) != {1}:
            raise Failed(f"other programs or connections: {calls}")
        return "parse, inspect and run: no other program, no connection"

    def p18(self):
        limits, runs = self.script("bounds_test.py", self.tool, pattern=r"(\d+) limits, (\d+) runs at their bounds, 0 failures")
        return f"{limits} limits, and those of dimensions and elements: {runs} runs with one less, as much, and one more, as promised"

    def peak(self, calls):
        """Of a process that takes so many calls of one model."""
        words = ["run", os.path.join(ROOT, "samples", "models", "lenet_archive", "model.pt"), "-i", "0=1x1x32x32:f32:randn(seed=1)", "-q"]
        request = b"%d\n" % len(words) + b"".join(b"%d\n%s" % (len(w), w.encode()) for w in words)
        with open(self.path("calls"), "wb") as file:
            file.write(request * calls)
        with open(self.path("calls"), "rb") as file:
            child = subprocess.Popen([os.path.join(self.build, "tests", "tool_calls")], stdin=file, stdout=subprocess.DEVNULL, cwd=self.folder)
        _, status, usage = os.wait4(child.pid, 0)
        if status:
            raise Failed(f"{calls} calls of one model end with {status}")
        return usage.ru_maxrss >> 10

    def p19(self):
        return line_coverage.figure(line_coverage.reached_lines(line_coverage.run_tests(self.build)))

    def p20(self):
        measured = mutants.Mutants(self.build)
        measured.measure(self.amount(10), 8 if self.is_long else 1)
        return measured.figure()

    def p22(self):
        minutes, self.is_long = (120 if self.is_long else 1), False
        end, rounds = time.monotonic() + 60 * minutes, 0
        mix, rng = [self.p1, self.p3, self.p7, self.p8, self.p9, self.p10, self.p11, self.p12, self.p15], random.Random(self.seed("P22"))
        while time.monotonic() < end:
            rng.choice(mix)()
            rounds += 1
        grown = self.peak(2000) - self.peak(200)
        if grown > 2:
            raise Failed(f"2,000 calls of a model take {grown} MiB more than 200")
        return f"{minutes} min of P1, P3, P7 to P12 and P15 in turns, {rounds} rounds: 0 failures; 2,000 calls of a model take the memory of 200"

    def p23(self):
        return f"{self.gtest('unit_tests', '*EngineFile*')} tests of engine files, those of other formats and processors among them: pass"


def commit():
    described = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return described.stdout.strip() or "?"


def write_figures(figures):
    """Into the rows of the document's table that have been measured."""
    with open(DOCUMENT) as file:
        lines = file.read().split("\n")
    for i, line in enumerate(lines):
        cells = line.split(" | ")
        name = cells[0].lstrip("| ") if line.startswith("| P") else ""
        if name in figures:
            lines[i] = " | ".join([cells[0], cells[1], figures[name], f"{commit()}, {datetime.date.today()} |"])
    with open(DOCUMENT, "w") as file:
        file.write("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    wanted = [p for p in options.only.split(",") if p]
    figures, failed = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        promises = Promises(options.build, options.long, folder)
        measures = sorted((int(n[1:]), n) for n in dir(Promises) if re.fullmatch(r"p\d+", n))
        for _, method in measures:
            name = method.upper()
            if wanted and name not in wanted:
                continue
            try:
                figure = getattr(promises, method)()
                if figure is None:
                    print(f"{name}: what measures it is not there", flush=True)
                    continue
                print(f"{name}: {figure}", flush=True)
                figures[name] = figure
            except (Failed, subprocess.SubprocessError, OSError) as problem:
                failed += 1
                print(f"{name}: FAILED: {problem}", flush=True)
            with open(promises.state_path, "w") as file:
                json.dump(promises.state, file, indent=1)
    if options.write:
        write_figures(figures)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
