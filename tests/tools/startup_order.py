#!/usr/bin/env python3
"""Which functions the tool runs from its start to the result of a small model: writes cmake/startup_order.ld.

    startup_order.py BUILD

BUILD is a folder of the preset `release` that is built. LeNet is run from an engine file, an archive and a graph text,
and an export besides, under valgrind, which tells each instruction that ran. A linker script then places the sections of
those functions together: the kernel brings 64 KB of a program into memory for each page that is touched, so that functions
that lie apart cost megabytes. Names that a later source has no more cost nothing; call it again after large changes.
"""
import bisect
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LENET = os.path.join(ROOT, "samples", "models")
RANDOM = "1x1x32x32:f32:randn(seed=0)"
RUNS = [  # those whose functions come first
    ["{engine}", "--input", "x=" + RANDOM],
    [LENET + "/lenet_archive/model.pt", "--input", "x=" + RANDOM],
    [LENET + "/lenet_scripted/frozen.ir", "--weights", LENET + "/lenet_scripted/frozen.safetensors", "--input", "x.1=" + RANDOM],
    [os.path.join(ROOT, "tests", "data", "examples.pt2")],
]
WHOLE = (".text", ".text.unlikely", ".text.startup", ".text.hot")  # of sources that are not divided


def link_with_map(build, folder):
    """The tool once more, without an order, and where each section of code lies: [(start, size, name)]."""
    commands = subprocess.run(["ninja", "-C", build, "-t", "commands", "tools/tscompile"], check=True, text=True,
                              stdout=subprocess.PIPE).stdout.splitlines()
    tool, table = os.path.join(folder, "tscompile"), os.path.join(folder, "map")
    link = re.sub(r",-T,[^ ,]+", "", commands[-1]).replace(" -o tools/tscompile ", f" -o {tool} -Wl,-Map,{table} ")
    subprocess.run(link, shell=True, check=True, cwd=build)
    sections, name, placed = [], "", False
    for line in open(table, encoding="utf-8"):
        placed |= line.startswith("Linker script and memory map")
        found = re.match(r" (\.text\S*)?\s*(?:0x([0-9a-f]+)\s+0x([0-9a-f]+)\s.*)?$", line)
        if not placed or not found:
            continue
        name = found[1] or name
        if found[2] and name:
            if int(found[2], 16) and int(found[3], 16):
                sections.append((int(found[2], 16), int(found[3], 16), name))
            name = ""
    return tool, sorted(sections)


def executed(tool, arguments, folder):
    """The addresses of the tool's instructions that ran."""
    counts = os.path.join(folder, "counts")
    subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=" + counts, "--dump-instr=yes", tool, "run", "-q", *arguments],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    objects, ours, at, addresses = {}, False, 0, set()
    for line in open(counts, encoding="utf-8"):
        found = re.match(r"(c?)ob=\((\d+)\)(?: (.*))?", line)
        if found:
            objects[found[2]] = found[3] or objects[found[2]]
            ours = ours if found[1] else objects[found[2]].strip() == tool
            continue
        found = re.match(r"(?:(0x[0-9a-f]+)|([+-]\d+)|\*) ", line)
        if not found:
            continue
        at = int(found[1], 16) if found[1] else at + int(found[2] or 0)
        if ours:
            addresses.add(at)
    return addresses


def main():
    build = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        tool, sections = link_with_map(build, folder)
        engine = os.path.join(folder, "lenet.tse")
        subprocess.run([tool, "compile", "-q", *RUNS[1], "-o", engine], check=True)
        starts = [start for start, *_ in sections]
        ran = []
        for run in RUNS:
            places = {bisect.bisect_right(starts, a) - 1: a for a in executed(tool, [w.format(engine=engine) for w in run], folder)}
            ran.append({i for i, a in places.items() if i >= 0 and a < sections[i][0] + sections[i][1]})
    order = sorted((tuple(i not in of for of in ran), i) for i in set().union(*ran))
    names = dict.fromkeys(sections[i][2] for _, i in order if sections[i][2] not in WHOLE)
    with open(os.path.join(ROOT, "cmake", "startup_order.ld"), "w", encoding="utf-8") as out:
        out.write("/* Made by tests/tools/startup_order.py, which tells what for. */\nSECTIONS { .text.first : {\n")
        out.writelines(f"*({name})\n" for name in names)
        out.write("} }\nINSERT BEFORE .text;\n")
    print(f"{len(names)} sections, {sum(sections[i][1] for _, i in order) // 1024} KB, "
          f"{len(ran[0])} of them for engine files")


main()
