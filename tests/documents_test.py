#!/usr/bin/env python3
"""Documents as they are installed: what they link and every path below samples/ that they name is there beside them, and
README.md leads to each. Of the samples beside them what may be executed is a program or a script.

    documents_test.py FOLDER              of a package or an installed tree: PREFIX/share/doc/tscompile
    documents_test.py --of-build BUILD    installs the documents of a build first
"""
import os
import re
import subprocess
import sys
import tempfile


def headings(text):
    """What links may name behind #, as web pages of repositories spell it."""
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in re.findall(r"^#+ +(.*?) *$", text, re.M)}


def faults(folder):
    paths = sorted(os.path.relpath(os.path.join(root, name), folder)
                   for root, _, names in os.walk(folder) for name in names if name.endswith(".md"))
    texts = {}
    for path in paths:
        with open(os.path.join(folder, path), encoding="utf-8") as f:
            texts[path] = f.read()
    if "README.md" not in texts:
        yield "there is no README.md"
    linked = {path: set() for path in texts}
    for path, text in texts.items():
        prose = re.sub(r"`[^`\n]*`", "``", re.sub(r"^( *)```.*?^\1```|^    .*?$", "", text, flags=re.M | re.S))
        for target, anchor in re.findall(r"\]\((?!\w+:)([^)#\s]*)#?([^)\s]*)\)", prose):
            to = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
            linked[path].add(to)
            if not os.path.exists(os.path.join(folder, to)):
                yield f"{path}: links {target}, which is not there"
            elif anchor and anchor not in headings(texts.get(to, "")):
                yield f"{path}: links {target}#{anchor}, and no heading is called so"
        for named in sorted(set(re.findall(r"(?<![\w./-])samples/[\w./-]*\w", text))):
            if not os.path.exists(os.path.join(folder, named)):
                yield f"{path}: names {named}, which is not there"
    for path in texts:
        if path.startswith("docs" + os.sep) and path not in linked.get("README.md", ()):
            yield f"README.md does not link {path}"


def no_programs(folder):
    for root, _, names in os.walk(folder):
        for path in (os.path.join(root, name) for name in names):
            if os.path.isfile(path) and os.stat(path).st_mode & 0o111:
                with open(path, "rb") as f:
                    if not f.read(4).startswith((b"#!", b"\x7fELF")):
                        yield f"{os.path.relpath(path, folder)}: may be executed, and is no program"


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--of-build":
        with tempfile.TemporaryDirectory() as work:
            subprocess.run(["cmake", "--install", sys.argv[2], "--component", "documents", "--prefix", work], check=True,
                           stdout=subprocess.DEVNULL)
            return report(os.path.join(work, "share", "doc", "tscompile"))
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    return report(sys.argv[1])


def report(folder):
    found = [*faults(folder), *no_programs(folder)]
    for fault in found:
        print("fault:", fault)
    print(f"{len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
