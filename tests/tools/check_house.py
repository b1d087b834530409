#!/usr/bin/env python3
"""Checks that the house keeps its picture: who may include whom (as CMake links them), no cycles between files or
folders, rooms of a bearable size, and the counts of words that belong elsewhere. Prints each fault; exits 1 if there is
one. `./dev lint` runs it.

    check_house.py [--build build/release]   with a build folder: also what a cold build costs, from ninja's log
"""
import argparse
import collections
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LAYERS = ("ir", "frontend", "passes", "partition", "runtime", "api", "tools")
FOLDERS = LAYERS + ("tests", "docs", "samples", "bench", "cmake", "python")
KEYWORDS = {"if", "for", "while", "switch", "sizeof", "decltype", "operator"}
MOST_SOURCES = 60      # in one folder
MOST_OF_ROOM = 0.25    # of all lines, in one library
MOST_OPERATOR_LINES = 150
# Records of operators, decompositions in graph text, and what translates the names of other notations.
TRANSLATORS = ("runtime/ops/", "runtime/trtllm/", "frontend/source/", "frontend/export/")
# Where else names of operators stand, and why.
NAMERS = {
    "api/c": "examples in comments of the interface",
    "ir/analysis": "what propagation knows of single operators: lists, views, sizes",
    "ir/graph": "formulas spell operators as Python does",
    "ir/values": "the names that code has for operators",
    "partition": "writes in place and questions for identity",
    "passes/algebra": "rewrites take single operators apart and make others",
    "passes/decompose": "the same",
    "passes/lowering": "the same",
    "passes/rewrite": "the language of rules",
    "passes/serving": "how models write attention, caches and rotations down",
    "passes/serving/forms": "how models choose tokens",
    "passes/serving/states": "how models put tokens into states",
    "runtime/engine": "converters ask for others by name",
    "runtime/engine/layers": "the same",
    "runtime/engine/layers/alone": "the same",
    "runtime/interpreter": "futures are structure",
    "runtime/reference": "families of names",
    "tools/pages": "probes of the machine's peaks",
}
MOST_JSON_FIELDS = 60
# CPU seconds for 1,000 lines of the product: the tool built without ccache.
MOST_BUILD_SECONDS = 7.0


def tracked():
    out = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True,
                         capture_output=True, check=True).stdout
    return [f for f in out.split("\n") if f and os.path.exists(os.path.join(ROOT, f))]


def text(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as f:
        return f.read()


class House:
    def __init__(self):
        self.faults = []
        self.figures = []
        self.files = tracked()
        self.sources = [f for f in self.files if re.search(r"\.(h|c|cpp|def|yy|ll)$", f)]
        self.product = [f for f in self.sources if f.split("/")[0] in LAYERS]
        self.texts = {f: text(f) for f in self.sources}
        known = set(self.sources)
        self.includes = {f: [t for t in re.findall(r'^\s*#include "([^"]+)"', self.texts[f], re.M) if t in known]
                         for f in self.sources}

    def fault(self, message):
        self.faults.append(message)

    # ---- cycles ----

    def cycles(self, graph):
        index, low, stack, on, found = {}, {}, [], set(), []
        for root in sorted(graph):
            if root in index:
                continue
            work = [(root, iter(sorted(graph[root])))]
            index[root] = low[root] = len(index)
            stack.append(root)
            on.add(root)
            while work:
                node, rest = work[-1]
                for to in rest:
                    if to not in index:
                        index[to] = low[to] = len(index)
                        stack.append(to)
                        on.add(to)
                        work.append((to, iter(sorted(graph.get(to, ())))))
                        break
                    if to in on:
                        low[node] = min(low[node], index[to])
                else:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[node])
                    if low[node] == index[node]:
                        part = []
                        while part[-1:] != [node]:
                            part.append(stack.pop())
                            on.discard(part[-1])
                        if len(part) > 1:
                            found.append(sorted(part))
        return found

    def check_cycles(self):
        for part in self.cycles({f: set(self.includes[f]) for f in self.product}):
            self.fault("files that include each other: " + ", ".join(part))
        folders = collections.defaultdict(set)
        for f in self.product:
            folders[os.path.dirname(f)].update(
                os.path.dirname(t) for t in self.includes[f] if os.path.dirname(t) != os.path.dirname(f))
        for part in self.cycles(folders):
            self.fault("folders that include each other: " + ", ".join(part))

    # ---- libraries ----

    def rooms(self):
        """Library -> (folders, libraries that it links)."""
        found = {}
        for layer in LAYERS:
            for call in re.findall(r"ts_(?:library|room)\((tscompile_\w+[^)]*)\)", text(f"{layer}/CMakeLists.txt")):
                words = call.split()
                lists, key = collections.defaultdict(list), None
                for word in words[1:]:
                    if word in ("EXPORT", "FOLDERS", "DEPENDS", "SOURCES"):
                        key = word
                    else:
                        lists[key].append(word)
                folders = [os.path.normpath(os.path.join(layer, d)) for d in lists["FOLDERS"] or ["."]]
                found[words[0]] = (folders, [d for d in lists["DEPENDS"] if d.startswith("tscompile_")])
        return found

    def check_rooms(self):
        rooms = self.rooms()
        of_folder = {folder: name for name, (folders, _) in rooms.items() for folder in folders}
        allowed = {}

        def reach(name):
            if name not in allowed:
                allowed[name] = {name}.union(*(reach(d) for d in rooms[name][1]))
            return allowed[name]

        lines = collections.Counter()
        for f in self.product:
            room = of_folder.get(os.path.dirname(f))
            if not room:
                self.fault(f"{f}: its folder belongs to no library")
                continue
            lines[room] += self.texts[f].count("\n")
            for to in self.includes[f]:
                other = of_folder.get(os.path.dirname(to))
                if other and other not in reach(room):
                    self.fault(f"{f}: includes {to}, but {room} does not link {other}")
        total = sum(lines.values())
        largest, most = lines.most_common(1)[0]
        self.figures.append(f"{len(lines)} libraries; the largest, {largest}, has {100 * most / total:.1f} % of {total} lines")
        for room, count in lines.items():
            if count > MOST_OF_ROOM * total:
                self.fault(f"{room} holds {count} of {total} lines")
        folders = collections.Counter(os.path.dirname(f) for f in self.product)
        self.figures.append("the fullest folder, %s, has %d sources" % folders.most_common(1)[0])
        for folder, count in folders.items():
            if count > MOST_SOURCES:
                self.fault(f"{folder} holds {count} sources")

    # ---- functions ----

    def check_unreferenced(self):
        """Functions of headers whose name stands nowhere but where they are declared and defined."""
        bare = {f: re.sub(r'"(\\.|[^"\\\n])*"', '""', re.sub(r"//[^\n]*", "", t)) for f, t in self.texts.items()}
        count = collections.Counter(w for t in bare.values() for w in re.findall(r"[A-Za-z_]\w*", t))
        count.update(w for f in self.files if f.endswith((".md", ".in")) for w in re.findall(r"[A-Za-z_]\w*", text(f)))
        declaration = re.compile(r"^[ \t]*(?!return\b|else\b|case\b)[\w:<>,&*\s\[\]]+?[\s&*]([a-z]\w*)\([^;{}]*\)"
                                 r"\s*(?:const)?\s*(?:noexcept)?\s*([;{])", re.M)
        found = {f: set(declaration.findall(bare[f])) for f in self.product if f.endswith(".h")}
        inline = {name for names in found.values() for name, end in names if end == "{"}
        for f, names in found.items():
            for name in sorted({name for name, _ in names} - KEYWORDS):
                if count[name] <= (1 if name in inline else 2):
                    self.fault(f"{f}: nobody refers to {name}()")

    # ---- words that belong elsewhere ----

    def lines_with(self, pattern, folders, without=()):
        found = collections.Counter()
        for f in self.product:
            if f.startswith(folders) and not f.startswith(without):
                # Graph texts are raw strings.
                code = re.sub(r'R"(\w*)\(.*?\)\1"', '""', re.sub(r"//[^\n]*", "", self.texts[f]), flags=re.S)
                found[os.path.dirname(f)] += sum(1 for line in code.split("\n") if re.search(pattern, line))
        return +found

    def check_words(self):
        libraries = tuple(f + "/" for f in LAYERS if f != "tools")
        for what, pattern, folders, without, most in (
                ("lines name an operator", r'"aten::', libraries + ("tools/",),
                 TRANSLATORS, MOST_OPERATOR_LINES),
                ("literals are options of the command line", r'"(?:[^"\\]*(?<![\w-]))--[a-z][\w-]*[^"]*"', libraries, (), 0),
                ("lines write one JSON field", r"json\w*\.field\(", libraries + ("tools/",), (), MOST_JSON_FIELDS)):
            found = self.lines_with(pattern, folders, without)
            self.figures.append(f"{sum(found.values())} {what}, at most {most}")
            for folder in found if most == MOST_OPERATOR_LINES else ():
                if folder not in NAMERS:
                    self.fault(f"{folder} names operators: say in NAMERS why")
            if sum(found.values()) > most:
                places = ", ".join(f"{folder} {count}" for folder, count in found.most_common())
                self.fault(f"{sum(found.values())} {what}, at most {most}: {places}")

    def check_lists(self):
        """What is so of an operator says its record: elsewhere three names in one initialiser, or of one thing in a chain
        of ||, are a list. What a rewrite is for may be one: the kinds of a rule."""
        name = r'(?<![\w:])aten::[a-z_]\w*|"aten::\w+[^"]*"'
        kinds = re.compile(r"\bKinds\b[^;]*$")
        for f in self.product:
            if f.startswith(TRANSLATORS):
                continue
            code = re.sub(r"\s+", " ", re.sub(r'R"(\w*)\(.*?\)\1"', '""', re.sub(r"//[^\n]*", "", self.texts[f]), flags=re.S))
            for found in re.finditer(r"\{[^{};]*\}", code):
                before = code[max(0, found.start() - 400):found.start()]
                rule = re.search(r'(?:Rewrite\("\w+", |\bkinds = |\{"\w+", )$', before) or kinds.search(before)
                if len(set(re.findall(name, found[0]))) >= 3 and not rule:
                    self.fault(f"{f}: a list of operators: {found[0][:70]}")
            for statement in re.split(r"[;{}]", code):
                subjects = collections.Counter(re.findall(r"([\w.>()-]+) == (?:%s|Symbol::of\(\"aten)" % name, statement))
                if "||" in statement and max(subjects.values(), default=0) >= 3:
                    self.fault(f"{f}: a list of operators: {statement.strip()[:70]}")

    # ---- documents ----

    def check_documents(self):
        """Files that documents name are there."""
        known, names = set(self.files), r"`((?:[a-z_]+/)+[\w.-]+\.(?:h|cpp|def|rules|py|txt|md|sh|yy|ll|cases))`"
        for f in self.files:
            if f.endswith(".md") and f != "CHANGELOG.md":
                for path in re.findall(names, text(f)):
                    if path.split("/")[0] in FOLDERS and path not in known:
                        self.fault(f"{f}: there is no {path}")

    def commit(self, subject):
        """The files that the latest commit with this in its message touches, the changelog aside; none: no commit."""
        found = subprocess.run(["git", "log", "--no-merges", "-1", "--fixed-strings", "--grep", subject, "--format=",
                                "--name-only"], cwd=ROOT, text=True, capture_output=True).stdout.split("\n")
        return [f for f in found if f and f != "CHANGELOG.md"]

    def check_examples(self):
        """Each way to extend has a commit that shows it, and that touches no more files than the title says. Where the
        history is not there, as in a shallow clone, no commit is found."""
        numbers = {w: n + 1 for n, w in enumerate("one two three four five six seven eight".split())}
        sections = [s for s in text("docs/extending.md").split("\n## ")[1:] if re.search(r"\w+ files\b", s.split("\n", 1)[0])]
        examples = []
        for section in sections:
            title = section.split("\n", 1)[0]
            subject = re.search(r"By example: `git log --grep '([^']+)'`", section)
            if not subject:
                self.fault(f"docs/extending.md: {title}: no commit shows it")
                continue
            most = numbers[re.search(r"(\w+) files\b", title)[1]]
            examples.append((title, subject[1], most, self.commit(subject[1])))
        for title, subject, most, touched in examples:
            if not touched and any(e[3] for e in examples):
                self.fault(f"docs/extending.md: {title}: there is no commit '{subject}'")
            elif len(touched) > most:
                self.fault(f"docs/extending.md: {title}: the commit '{subject}' touches {len(touched)} files")
        self.figures.append("files of the commits that show how to extend: " +
                            ", ".join(f"{len(touched)} of {most}" for _, _, most, touched in examples))

    # ---- build ----

    def check_build(self, build):
        log = os.path.join(ROOT, build, "cold_build_seconds.txt")
        if not os.path.exists(log):
            return
        with open(log, encoding="utf-8") as f:
            seconds = float(f.read().split()[0])
        lines = sum(self.texts[f].count("\n") for f in self.product)
        rate = seconds / lines * 1000
        print(f"cold build of the tool: {seconds:.0f} CPU seconds, {rate:.1f} for 1,000 lines")
        if rate > MOST_BUILD_SECONDS:
            self.fault(f"a cold build of the tool takes {rate:.1f} CPU seconds for 1,000 lines, at most {MOST_BUILD_SECONDS}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", help="folder with the log of a cold build (./dev build-time)")
    arguments = parser.parse_args()
    house = House()
    house.check_cycles()
    house.check_rooms()
    house.check_unreferenced()
    house.check_words()
    house.check_lists()
    house.check_documents()
    house.check_examples()
    if arguments.build:
        house.check_build(arguments.build)
    for figure in house.figures:
        print(figure)
    for message in house.faults:
        print("fault:", message)
    print(f"{len(house.product)} sources, {len(house.faults)} faults")
    return 1 if house.faults else 0


if __name__ == "__main__":
    sys.exit(main())
