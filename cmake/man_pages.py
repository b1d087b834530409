#!/usr/bin/env python3
"""Manual pages of the command line tool, made from its help, which is made from the option tables.

    man_pages.py TOOL FOLDER      writes FOLDER/tscompile.1 and FOLDER/tscompile-COMMAND.1
"""
import os
import re
import subprocess
import sys


def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text)


class Page:
    def __init__(self, name, version):
        self.lines = [f'.TH {name.upper()} 1 "" "tscompile {version}" "User Commands"']

    def section(self, title):
        self.lines.append(f".SH {escaped(title.upper())}")

    def text(self, line):
        self.lines.append(escaped(line) if line else ".PP")

    def item(self, left, right):
        self.lines += [".TP", f".B {escaped(left)}", escaped(right or "\\&") if right else "\\&"]

    def verbatim(self, lines):
        self.lines += [".nf", *(escaped(line) for line in lines), ".fi"]


def entries(lines):
    """Rows of a table of the help: what stands left, and its text, which may go on below."""
    out = []
    for line in lines:
        left = re.match(r"  ( {0,4}\S.*?)(?:  +(\S.*))?$", line)
        if re.match(r" {10,}\S", line):
            out[-1][1].append(line.strip())
        elif left:
            out.append((left.group(1).strip(), [left.group(2)] if left.group(2) else []))
    return [(left, " ".join(right)) for left, right in out]


def page(help_text, name, summary, version, others):
    out = Page(name, version)
    out.section("name")
    out.text(f"{name} \\- {summary}".replace("\\-", "\0"))
    out.lines[-1] = out.lines[-1].replace("\0", "\\-")
    blocks = re.split(r"\n\n", help_text.rstrip("\n"))
    out.section("synopsis")
    out.verbatim([line.removeprefix("Usage:").strip() for line in blocks[0].split("\n")])
    out.section("description")
    for block in blocks[1:]:
        lines = block.split("\n")
        if lines[0].endswith(":") and len(lines) > 1 and lines[1].startswith("  "):
            out.section(lines[0][:-1])
            if lines[0].startswith("Example"):
                out.verbatim(line.removeprefix("  ") for line in lines[1:])
            else:
                for left, right in entries(lines[1:]):
                    out.item(left, right)
        else:
            if lines[0].startswith("Exit codes: "):
                out.section("exit status")
                lines[0] = lines[0].removeprefix("Exit codes: ")
            else:
                out.text("")
            for line in lines:
                out.text(line)
    out.section("see also")
    out.text(", ".join(f"{o}(1)" for o in others) + ".")
    out.text("The documentation is in share/doc/tscompile, beside the bin that tscompile is installed in.")
    return "\n".join(out.lines) + "\n"


def main():
    tool, folder = sys.argv[1:]

    def run(*arguments):
        return subprocess.run([tool, *arguments], check=True, capture_output=True, text=True).stdout

    version = run("version").split("\n")[0].split()[-1]
    general = run("help")
    commands = entries(re.search(r"\nCommands:\n(.*?)\n\n", general, re.S).group(1).split("\n"))
    os.makedirs(folder, exist_ok=True)

    def write(name, text):
        with open(os.path.join(folder, name + ".1"), "w", encoding="utf-8") as f:
            f.write(text)

    write("tscompile", page(general, "tscompile", "read, compile and run TorchScript models on CPUs", version,
                            [f"tscompile-{name}" for name, _ in commands]))
    for name, summary in commands:
        write(f"tscompile-{name}", page(run("help", name), f"tscompile-{name}", summary, version, ["tscompile"]))


if __name__ == "__main__":
    main()
