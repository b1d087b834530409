#!/usr/bin/env python3
"""Runs libFuzzer's targets one after the other, and keeps how often each has run.

    fuzz.py BUILD [--seconds N] [--only archive,graph] [--rounds N]
    fuzz.py BUILD --coverage [--only archive]

BUILD is a folder of the preset `fuzz`. It keeps corpora, logs, findings, and counts.json, to which each call adds: one that is
stopped goes on where it was. Those are first that have the least of what they should run. --coverage: how much of the code that a
target is for its corpus reaches.
"""
import argparse
import glob
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
import zipfile

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(TESTS)
# What a target should run without a finding: those that build graphs or run them are slower than those that read.
OF_GRAPHS, OF_FILES = 3_000_000, 10_000_000
BUILDS_GRAPHS = {"graph", "source", "run", "model", "rules"}
# The code that each is for.
CODE = {
    "archive": "frontend/(pickle|archive)/|frontend/files/(zip|torch_storages|checkpoint|archive_kind)",
    "engine_file": "api/engine_file|frontend/files/section_file",
    "export": "frontend/export/(?!export_file)",
    "graph": "frontend/text/|ir/analysis/verif",
    "model": "api/support/archive|frontend/export/export_file",
    "npy": "frontend/files/np[yz]",
    "plugin_fields": "runtime/plugin/fields",
    "rules": "passes/rewrite/(rules_file|condition)",
    "safetensors": "frontend/files/safetensors",
    "schema": "frontend/text/(schema|type)_builder",
    "settings": "frontend/files/(weights_index|json_tree)|api/build_config|api/texts/text_request|tools/options/defaults_file",
    "source": "frontend/source/",
    "tokenizer": "runtime/llm/token",
    "value": "api/value_text|frontend/files/recipe",
}

# What else is there to begin with, beside tests/fuzz/seeds. Of zip archives "" is what fuzz_model takes, else a pattern of members.
SEEDS = {
    "archive": ["tests/data/archives/**/*.p*"],
    "engine_file": ["tests/golden/data/*.tse"],
    "export": ["tests/data/exports/*.pt2 models/.*json$"],
    "graph": ["tests/golden/parse/*.ir", "tests/golden/passes/*.ir", "tests/golden/verify/*.ir"],
    "model": ["tests/data/archives/**/*.pt ", "tests/data/exports/*.pt2 "],
    "npy": ["tests/data/files/*.np?", "tests/golden/data/*.np?"],
    "rules": ["tests/golden/rewrite/*.rules", "samples/rewriting/*.rules", "passes/rules/*.rules"],
    "safetensors": ["tests/data/files/*.safetensors", "tests/golden/data/*.safetensors"],
    "source": ["tests/data/archives/**/*.pt code/.*py$"],
    "tokenizer": ["tests/data/llm/tokenizer*.json"],
    "value": ["tests/golden/data/*.weights"],
}
LARGEST = 4096  # bytes of an input
# Without the stacks of what allocated, with less memory that is not used again, and without libFuzzer's own schedule: three times as
# many runs.
FAST_ASAN, FAST = "malloc_context_size=0:quarantine_size_mb=8", ("-entropic=0", "-reload=0")


def wanted_runs(name):
    return OF_GRAPHS if name in BUILDS_GRAPHS else OF_FILES


def whole(path):
    with open(path, "rb") as file:
        return file.read()


def parts(path, pattern):
    """The members of a zip archive whose names match, or all of them as fuzz_model takes them."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        if pattern:
            return [archive.read(n) for n in names if re.search(pattern, n)]
        return [b"\n".join(b"==== %s\n%s" % (n.encode(), archive.read(n)) for n in names)]


def cpu_seconds(process):
    with open(f"/proc/{process}/stat") as file:
        user, system = file.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


class Targets:
    def __init__(self, build, only):
        self.build = os.path.abspath(build)
        self.counts_path = os.path.join(self.build, "counts.json")
        self.counts = {}
        if os.path.exists(self.counts_path):
            with open(self.counts_path) as file:
                self.counts = json.load(file)
        found = glob.glob(os.path.join(self.build, "tests", "fuzz", "fuzz_*"))
        names = [os.path.basename(f)[len("fuzz_"):] for f in found if os.path.isfile(f) and os.access(f, os.X_OK)]
        self.names = sorted(n for n in names if not only or n in only)

    def of(self, name):
        return self.counts.setdefault(name, {"runs": 0, "seconds": 0, "findings": 0})

    def keep(self):
        with open(self.counts_path + ".new", "w") as file:
            json.dump(self.counts, file, indent=1, sort_keys=True)
        os.replace(self.counts_path + ".new", self.counts_path)

    def seeds(self, name):
        """Folders of inputs to begin with."""
        folder = os.path.join(self.build, "seeds", "fuzz_" + name)
        os.makedirs(folder, exist_ok=True)
        for line in SEEDS.get(name, ()):
            pattern, _, inside = line.partition(" ")
            for path in glob.glob(os.path.join(ROOT, pattern), recursive=True):
                for i, seed in enumerate(parts(path, inside) if " " in line else [whole(path)]):
                    if len(seed) <= LARGEST:
                        with open(os.path.join(folder, f"{os.path.basename(path)}_{i}"), "wb") as file:
                            file.write(seed)
        checked_in = os.path.join(TESTS, "fuzz", "seeds", "fuzz_" + name)
        return [folder] + [checked_in] * os.path.isdir(checked_in)

    def call(self, name, *options, seconds=None, **environment):
        """Its exit code, and what it said. The seconds are those of the processor: others may need it meanwhile."""
        log = os.path.join(self.build, f"fuzz_{name}.log")
        with open(log, "w") as file:
            child = subprocess.Popen([os.path.join(self.build, "tests", "fuzz", "fuzz_" + name), *options], stdout=file, stderr=file,
                                     env={**os.environ, **environment})
            while child.poll() is None:
                if seconds and cpu_seconds(child.pid) > seconds:
                    child.send_signal(signal.SIGUSR1)  # libFuzzer ends as if it had done all
                time.sleep(0.2)
            code = child.returncode
        with open(log, errors="replace") as file:
            return code, file.read()

    def corpus(self, name):
        corpus = os.path.join(self.build, "corpus", "fuzz_" + name)
        os.makedirs(corpus, exist_ok=True)
        return [corpus, *self.seeds(name)]

    def again(self, name, said):
        """Whether what was found comes again, alone and with all that sanitizers tell: a machine that stood still is no finding."""
        found = re.findall(r"Test unit written to (\S+)", said)
        if not found:
            return "run interrupted" not in said, said
        code, said = self.call(name, "-timeout=60", "-rss_limit_mb=2000", "-malloc_limit_mb=1000", found[-1])
        if not code:
            os.remove(found[-1])
        return code != 0, said

    def run(self, name, seconds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        os.makedirs(os.path.join(self.build, "found"), exist_ok=True)
        code, said = self.call(name, f"-max_len={LARGEST}", "-timeout=100", "-report_slow_units=100",
                               "-rss_limit_mb=2000", "-malloc_limit_mb=1000", "-print_final_stats=1",
                               f"-artifact_prefix={self.build}/found/fuzz_{name}-", *FAST, *self.corpus(name), seconds=seconds, ASAN_OPTIONS=FAST_ASAN)
        runs = re.search(r"stat::number_of_executed_units: *(\d+)", said)
        count = self.of(name)
        count["runs"] += int(runs.group(1)) if runs else 0
        count["seconds"] += round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
        if code:
            code, said = self.again(name, said)
        count["findings"] += bool(code)
        self.keep()
        if code:
            print("\n".join(said.splitlines()[-40:]), file=sys.stderr)
        print(f"{name}: {'FOUND SOMETHING' if code else 'nothing'}; {count['runs']:,} of {wanted_runs(name):,} runs "
              f"in {count['seconds']:,} s", flush=True)
        return not code

    def cover(self, name):
        """Functions of the code that the target is for: reached, and all. (Half of the edges are those of sanitizers.)"""
        _, said = self.call(name, "-runs=0", "-report_slow_units=1000", "-print_coverage=1", *self.corpus(name))
        functions = [(reached == "", place) for reached, place in re.findall(r"(?m)^(UN)?COVERED_FUNC: hits: \d+ edges: \d+/\d+ (.*)", said)]
        told = {place: any(r for r, p in functions if p == place) for _, place in functions if re.search(CODE[name], place)}
        self.of(name)["coverage"] = {"reached": sum(told.values()), "functions": len(told)}
        self.keep()
        print(f"{name}: {sum(told.values()):,} of {len(told):,} functions", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--coverage", action="store_true")
    options = parser.parse_args()
    targets = Targets(options.build, [n for n in options.only.split(",") if n])
    good = True
    if options.coverage:
        for name in sorted(targets.names, key=lambda n: "coverage" in targets.of(n)):
            if name in CODE:
                targets.cover(name)
        return 0
    for _ in range(options.rounds):
        for name in sorted(targets.names, key=lambda n: targets.of(n)["runs"] / wanted_runs(n)):
            good = targets.run(name, options.seconds) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
