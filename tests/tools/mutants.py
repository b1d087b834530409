#!/usr/bin/env python3
"""Changes the product in small ways, and tells which changes no test notices.

    mutants.py BUILD [--count N] [--groups N] [--only passes/algebra]
    mutants.py BUILD --again | --show

BUILD is a folder of the preset `release`, whose sources are compiled in groups. Some groups are compiled anew with N places that can
be told to do something else: a comparison that is another, a condition without one of its parts, a call that is left out, true for
false, a number without its +1. One run of the tests tells which of them reach which place; then each place is told in turn, and those
tests run. BUILD/mutants.json keeps what became of them, and the seed: each call adds others. --show: those that no test noticed; --again: asks them
anew, after tests were written.
"""
import argparse
import glob
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ("ir/", "frontend/", "passes/", "partition/")
BINARIES = ("golden_tests", "op_tests", "unit_tests")
OTHER = {"==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">"}
MOST_SECONDS = 120  # a mutant that takes longer has been noticed


def closing(text, at):
    """Where the bracket that opens at `at` closes; None beside strings and comments that could deceive."""
    depth = 0
    for m in re.finditer(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//|[()\[\]{}]', text[at:]):
        if m.group() == "//":
            return None
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(m.group(), 0)
        if depth == 0:
            return at + m.start()
    return None


def outside(text, pattern):
    """Matches outside of brackets and strings."""
    depth, out = 0, []
    for m in re.finditer(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[()\[\]{}]|' + pattern, text):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(m.group(), 0)
        if depth == 0 and re.fullmatch(pattern, m.group()):
            out.append(m.span())
    return out


def cut(text, begin, spans):
    """The pieces between the spans, with where they begin."""
    pieces, at = [], 0
    for first, last in [*spans, (len(text), len(text))]:
        pieces.append((begin + at, text[at:first]))
        at = last
    return pieces


class Site:
    def __init__(self, path, begin, end, what, make):
        self.path, self.begin, self.end, self.what, self.make = path, begin, end, what, make


def comparison(path, begin, text):
    """`a < b` without other operators that bind less."""
    found = outside(text, r" (?:==|!=|<=|>=|<|>) ")
    if len(found) != 1 or outside(text, r" (?:=|&&|\|\|) "):
        return []
    first, last = found[0]
    other = OTHER[text[first:last].strip()]
    return [Site(path, begin, begin + len(text), f"{text.strip()} -> {other}",
                 lambda is_it: f"({is_it} ? ({text[:first]} {other} {text[last:]}) : ({text}))")]


def part(path, begin, text, is_of_all):
    """What && joins with others, or ||, left out."""
    make = (lambda is_it: f" ({is_it} || ({text}))") if is_of_all else (lambda is_it: f" (!{is_it} && ({text}))")
    return Site(path, begin, begin + len(text), f"without {text.strip()}", make)


def of_condition(path, begin, text):
    if "//" in text or "#" in text or outside(text, r" = | \? |;"):
        return []
    out = []
    for at, either in cut(text, begin, outside(text, r"\|\|")):
        both = cut(either, at, outside(either, r"&&"))
        if len(both) > 1:
            out += [part(path, a, t, True) for a, t in both]
        elif len(either) < len(text):
            out.append(part(path, at, either, False))
        for a, t in both:
            out += comparison(path, a, t)
    return out


def sites_of(path, text):
    out = []
    for m in re.finditer(r"\b(?:if|while) \(", text):
        end = closing(text, m.end() - 1)
        if end:
            out += of_condition(path, m.end(), text[m.end():end])
    for m in re.finditer(r"\breturn ([^;{}\n]+);", text):
        value = m.group(1)
        if value in ("true", "false"):
            out.append(Site(path, m.start(1), m.end(1), f"return {value} -> the other", lambda is_it, v=value: f"{is_it} != {v}"))
        else:
            out += of_condition(path, m.start(1), value)
    for m in re.finditer(r"^ +((?:[a-z_]\w*(?:\.|->|::))*[a-z_]\w*\([^;\n]*\));$", text, re.M):
        if m.group(1).startswith(("return", "if ", "for", "while", "static_assert", "std::abort")) or closing(text, text.index("(", m.start(1))) is None:
            continue
        out.append(Site(path, m.start(1), m.end(1), f"without {m.group(1)}",
                        lambda is_it, v=m.group(1): f"{is_it} ? (void)0 : (void)({v})"))
    for m in re.finditer(r" [+-] 1(?=[;,)\]])", text):
        out.append(Site(path, m.start(), m.end(), f"without{m.group()}",
                        lambda is_it, v=m.group(): f"{v[:3]}({is_it} ? 0 : 1)"))
    return out


class Mutants:
    def __init__(self, build, only=""):
        self.build = os.path.abspath(build)
        self.state_path = os.path.join(self.build, "mutants.json")
        self.state = {"seed": 0, "mutants": []}
        if os.path.exists(self.state_path):
            with open(self.state_path) as file:
                self.state = json.load(file)
        with open(os.path.join(self.build, "compile_commands.json")) as file:
            self.commands = {c["file"]: c["command"] for c in json.load(file)}
        self.groups = sorted(f for f in self.commands if "/Unity/" in f and any(s.startswith(only) for s in self.sources(f)))

    def sources(self, group):
        with open(group) as file:
            names = [os.path.relpath(n, ROOT) for n in re.findall(r'#include "(.*)"', file.read())]
        return [n for n in names if n.startswith(FOLDERS)]

    def keep(self):
        with open(self.state_path, "w") as file:
            json.dump(self.state, file, indent=1)

    def compile(self, group, sites, folder):
        """The group with these places; without those that do not compile. Returns the object, and the places."""
        number = {id(s): i for i, s in sites}
        left = [s for _, s in sites]
        for _ in range(12):
            texts = {}
            for path in {s.path for s in left}:
                with open(os.path.join(ROOT, path)) as file:
                    text = file.read()
                for s in sorted((s for s in left if s.path == path), key=lambda s: -s.begin):
                    text = text[:s.begin] + s.make(f"::tscompile::test::isMutant({number[id(s)]})") + text[s.end:]
                texts[path] = text
            with open(group) as file:
                unity = file.read()
            for path, text in texts.items():
                changed = os.path.join(folder, path.replace("/", "_"))
                with open(changed, "w") as file:
                    file.write(text)
                unity = unity.replace(f'"{os.path.join(ROOT, path)}"', f'"{changed}"')
            source = os.path.join(folder, os.path.basename(group))
            with open(source, "w") as file:
                file.write('#include "tests/support/mutants.h"\n' + unity)
            words = shlex.split(self.commands[group])
            words[words.index("-o") + 1], words[words.index("-c") + 1] = source + ".o", source
            done = subprocess.run([*words, "-w", "-fmax-errors=0"], cwd=self.build, capture_output=True, text=True)
            if done.returncode == 0:
                return source + ".o", left
            bad = set(re.findall(r"(?m)^(\S+?):(\d+):\d+: +(?:error|required from here)", done.stderr))
            before = len(left)
            for s in list(left):
                with open(os.path.join(ROOT, s.path)) as file:
                    text = file.read()
                lines = range(text.count("\n", 0, s.begin) + 1, text.count("\n", 0, s.end) + 2)
                if any((os.path.join(folder, s.path.replace("/", "_")), str(line)) in bad for line in lines):
                    left.remove(s)
            if len(left) == before:
                sys.exit(done.stderr[-2000:])
        sys.exit(f"{group} does not compile")

    def link(self, binary, objects, folder):
        asked = subprocess.run(["ninja", "-C", self.build, "-t", "commands", "tests/" + binary], capture_output=True, text=True, check=True)
        command = asked.stdout.strip().splitlines()[-1]
        out = os.path.join(folder, binary)
        # The standard library before the archives: templates of it that they hold would bring in what these objects replace.
        command = re.sub(r" -o \S+ ", " " + " ".join([*objects, "-lstdc++"]) + f" -o {out} ", command, count=1)
        subprocess.run(command, shell=True, cwd=self.build, check=True)
        return out

    def choose(self, rng, groups, count):
        """Places that do not overlap, numbered from 1 on, by group."""
        chosen, number = {}, 0
        seen = {(m["path"], m["begin"]) for m in self.state["mutants"]}
        for group in groups:
            sites = []
            for path in self.sources(group):
                with open(os.path.join(ROOT, path)) as file:
                    sites += sites_of(path, file.read())
            rng.shuffle(sites)
            taken = []
            for s in sites:
                free = all(s.path != t.path or s.end <= t.begin or t.end <= s.begin for t in taken)
                if free and (s.path, s.begin) not in seen and len(taken) < -(-count // len(groups)):
                    taken.append(s)
            chosen[group] = [(number + i, s) for i, s in enumerate(taken, 1)]
            number += len(taken)
        return chosen

    def suites(self):
        """The unit tests of the folders and of the facade: those of the others take long."""
        names = set()
        for folder in (*FOLDERS, "api"):
            for path in glob.glob(os.path.join(ROOT, "tests", "unit", folder, "**", "*.cpp"), recursive=True):
                with open(path) as file:
                    names.update(re.findall(r"^TEST(?:_F)?\((\w+),", file.read(), re.M))
        return ":".join(sorted(f"{n}.*" for n in names))

    def run(self, binary, number, **more):
        return subprocess.run([binary, "--gtest_brief=1", *more.pop("options", [])], capture_output=True, cwd=self.build, text=True,
                              errors="replace", env={**os.environ, "TSCOMPILE_MUTANT": str(number), **more}, timeout=None if number <= 0 else MOST_SECONDS)

    def reached(self, binary, folder):
        """The tests that reach each place; those that fail without a change are no help."""
        log = os.path.join(folder, os.path.basename(binary) + ".reached")
        options = ["--gtest_filter=" + self.suites()] if binary.endswith("unit_tests") else []
        done = self.run(binary, -1, options=options, TSCOMPILE_MUTANTS_REACHED=log)
        failed = set(re.findall(r"(?m)^\[  FAILED  \] (.*?)(?:,| \(|$)", done.stdout))
        tests = {}
        with open(log) as file:
            for line in file:
                name, _, numbers = line.rstrip("\n").rpartition("\t")
                for n in numbers.split() if name not in failed else ():
                    tests.setdefault(int(n), []).append(name)
        return tests

    def is_noticed(self, number, binaries, tests, folder):
        for binary in binaries:
            names = tests[binary].get(number)
            if not names:
                continue
            flags = os.path.join(folder, "flags")
            with open(flags, "w") as file:
                # ":" and "-" mean something to the filter.
                file.write("--gtest_filter=" + ":".join(re.sub("[:-]", "?", n) for n in names) + "\n")
            try:
                if self.run(binary, number, options=["--gtest_fail_fast", "--gtest_flagfile=" + flags]).returncode:
                    return True
            except subprocess.TimeoutExpired:
                return True
        return False

    def measure(self, count, group_count):
        self.state["seed"] += 1
        rng = random.Random(self.state["seed"])
        self.measure_places(self.choose(rng, rng.sample(self.groups, min(group_count, len(self.groups))), count))

    def measure_again(self):
        """Those that no test noticed, after tests were written."""
        left = {(m["path"], m["begin"], m["what"]) for m in self.state["mutants"] if not m["noticed"]}
        chosen, number = {}, 0
        for group in self.groups:
            sites = []
            for path in set(self.sources(group)) & {path for path, _, _ in left}:
                with open(os.path.join(ROOT, path)) as file:
                    sites += {(s.path, s.begin, s.what): s for s in sites_of(path, file.read())
                              if (s.path, s.begin, s.what) in left}.values()
            if sites:
                chosen[group] = [(number + i, s) for i, s in enumerate(sites, 1)]
                number += len(sites)
        self.measure_places(chosen)

    def measure_places(self, groups):
        with tempfile.TemporaryDirectory() as folder:
            objects, sites = [], []
            for group, chosen in groups.items():
                print(f"{os.path.basename(group)}: {len(chosen)} places", flush=True)
                made, left = self.compile(group, chosen, folder)
                objects.append(made)
                sites += [(n, s) for n, s in chosen if s in left]
            recorder = os.path.join(folder, "recorder.o")
            subprocess.run(["c++", "-std=c++20", "-O1", "-I", ROOT, "-c", os.path.join(ROOT, "tests/support/mutants.cpp"), "-o", recorder], check=True)
            binaries = [self.link(b, [*objects, recorder], folder) for b in BINARIES]
            tests = {b: self.reached(b, folder) for b in binaries}
            for number, site in sites:
                count_of_tests = sum(len(tests[b].get(number, ())) for b in binaries)
                self.keep_one(site, count_of_tests, self.is_noticed(number, binaries, tests, folder))

    def keep_one(self, site, tests, noticed):
        with open(os.path.join(ROOT, site.path)) as file:
            line = file.read().count("\n", 0, site.begin) + 1
        known = (site.path, site.begin, site.what)
        self.state["mutants"] = [m for m in self.state["mutants"] if (m["path"], m["begin"], m["what"]) != known]
        self.state["mutants"].append({"path": site.path, "begin": site.begin, "line": line, "what": site.what, "tests": tests, "noticed": noticed})
        self.keep()
        if not noticed:
            print(f"{site.path}:{line}: {site.what}: {tests} tests, none notices", flush=True)

    def figure(self):
        mutants = self.state["mutants"]
        noticed, unreached = sum(m["noticed"] for m in mutants), sum(not m["tests"] for m in mutants)
        return f"{noticed:,} of {len(mutants):,} changed places in ir, frontend, passes and partition are noticed by golden, operator or unit tests; {unreached} are not reached"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--groups", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    mutants = Mutants(options.build, options.only)
    if options.show:
        for m in mutants.state["mutants"]:
            if not m["noticed"]:
                print(f"{m['path']}:{m['line']}: {m['what']}: {m['tests']} tests")
    elif options.again:
        mutants.measure_again()
    else:
        mutants.measure(options.count, options.groups)
    print(mutants.figure())
    return 0


if __name__ == "__main__":
    sys.exit(main())
