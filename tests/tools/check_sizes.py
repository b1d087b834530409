#!/usr/bin/python3
"""What PyTorch 1.13's propagation of symbolic shapes relates in graphs whose sizes were taken out, and whether
`tscompile parse --sizes` relates it as well: each dimension that is a number there or the same symbol as another must be
that number here, or the same expression as that other.

    check_sizes.py [-v] TOOL [TEXT...]     without texts: the corpus of the tests

Sizes of the first input's kind (those of tensors that are no weights) become symbols of their own, ranks stay. Weights,
as constants and as attributes, become inputs of their type, so that both read the text. Prints for each text how many
dimensions PyTorch relates and how many of them are related here; exits 1 if one is missing.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
CORPUS = os.path.join(HERE, "..", "data", "corpus", "text")
STATEMENT = re.compile(r"^\s*(%[\w.]+) : (.*?) = prim::(?:Constant|GetAttr)\[")
INPUT = re.compile(r"(%[\w.]+) : ((?:[^,()\[\]]|\[[^\]]*\]|\((?:[^()]|\([^()]*\))*\))+)")
KINDS = "Float|Double|Half|BFloat16|Long|Int|Short|Char|Byte|Bool"
TENSOR = re.compile(rf"^({KINDS})\(([^()]*)\)$")
KNOWN = re.compile(rf" : (?:{KINDS})(?:Tensor)?\([^()]*\)")
FLOAT = re.compile(r"(\d+(?:\.\d*)?e[-+]?\d+)")


def rank_of(type_text):
    match = TENSOR.match(type_text)
    if not match:
        return None
    sizes = re.sub(r"\[[^\]]*\]", "", match[2]).split(",")
    return match[1], [d.strip() for d in sizes if d.strip() and "=" not in d]


class Text:
    """A graph with open sizes, in two spellings of the open ones."""

    def __init__(self, tool, path, ranks):
        done = subprocess.run([tool, "parse", "--no-locations", path], text=True, capture_output=True)
        if done.returncode or not done.stdout.startswith("graph(") or "\n\n" in done.stdout:
            raise ValueError("no single graph")
        end = done.stdout.index("):\n")
        self.inputs = [(name, ranks.get(name, kind.strip()) if kind.strip() == "Tensor" else kind.strip(), True)
                       for name, kind in INPUT.findall(done.stdout[len("graph("):end])]
        statements = []
        for line in done.stdout[end + 3:].split("\n"):
            if re.match(r"^\s*(%|block|return|->|= )", line):
                statements.append(line)
            elif line.strip():
                statements[-1] += line
        lines = ["  %nothing : int = prim::Constant[value=0]()"]
        for line in statements:
            # PyTorch reads no node without outputs: those without blocks go, the others get one.
            if re.match(r"^\s*= ", line):
                if not re.match(r"^\s*= prim::(If|Loop)", line):
                    continue
                line = re.sub(r"^\s*= ", lambda m: " " * (len(m[0]) - 3) + f"%nothing{len(lines)} : int = ", line)
            line = line.replace("-> ()", "-> (%nothing)")
            match = STATEMENT.match(line)
            if match and (match[2].startswith("Tensor") or rank_of(match[2]) or "prim::GetAttr" in line):
                self.inputs.append((match[1], match[2], False))
                continue
            line = re.sub(r"=(-?)inf\]", r"=\1100000000000000000000000000000.0]",
                          line.replace("-9223372036854775808", "-9223372036854775807"))
            line = FLOAT.sub(lambda m: f"{float(m[1]):.30f}", re.sub(r", scope: .*$", "", line))
            lines.append(KNOWN.sub(" : Tensor", line))
        self.inputs = [i for i in self.inputs if "__torch__" not in i[1]]
        self.body = "\n".join(lines)

    def spelled(self, open_size):
        heads = []
        for name, kind, is_open in self.inputs:
            known = rank_of(kind)
            if known:
                sizes = [open_size() for _ in known[1]] if is_open else known[1]
                kind = f"{known[0]}({', '.join(sizes)})"
            heads.append(f"{name} : {kind}")
        return "graph(" + ",\n      ".join(heads) + "):\n" + self.body + "\n"


def oracle(text):
    """Dimensions of each output in PyTorch's order: numbers, or symbols below 0; None without a rank."""
    count = [-1]

    def symbol():
        count[0] -= 1
        return f"SS({count[0]})"

    graph = torch._C.parse_ir(text.spelled(symbol))
    torch._C._jit_pass_propagate_shapes_on_graph(graph)
    out = []

    def walk(values):
        for v in values:
            kind = v.type()
            sizes = kind.symbolic_sizes() if kind.kind() == "TensorType" else None
            out.append(sizes)

    def visit(block):
        for node in block.nodes():
            for inner in node.blocks():
                walk(inner.inputs())
                visit(inner)
            walk(node.outputs())

    walk(graph.inputs())
    visit(graph)
    return out


def ours(tool, text):
    with tempfile.NamedTemporaryFile("w", suffix=".ir") as file:
        file.write(text.spelled(lambda: "*"))
        file.flush()
        done = subprocess.run([tool, "parse", "--sizes", "--like-parse-ir", "--no-locations", file.name], text=True,
                              capture_output=True)
    if done.returncode:
        raise ValueError(done.stderr.split("\n")[0])
    return done.stdout


def types_of(printed):
    """The same of our text: the dimensions as texts, inner parameters before the outputs of their node."""
    out, waiting = [], []
    head, body = printed.split("):\n", 1)

    def add(into, declared):
        for _, kind in INPUT.findall(declared):
            match = re.match(r"^\w*\((.*)\)$", kind.strip())
            sizes = None
            if match:
                sizes, depth, at = [], 0, ""
                for c in match[1] + ",":
                    depth += (c in "([") - (c in ")]")
                    if c == "," and depth == 0:
                        sizes.append(at.strip())
                        at = ""
                    else:
                        at += c
                sizes = [s for s in sizes if s and "=" not in s]
            into.append(sizes)

    add(out, head[len("graph("):])
    for line in body.split("\n"):
        stripped = line.strip()
        depth = len(line) - len(stripped)
        while waiting and depth <= waiting[-1][0] and not stripped.startswith("block"):
            out.extend(waiting.pop()[1])
        if stripped.startswith("block"):
            add(out, stripped[stripped.index("(") + 1:stripped.rindex(")")])
            continue
        match = re.match(r"^((?:%[\w.]+ : .+?)(?:, %[\w.]+ : .+?)*) = (prim::(?:If|Loop|With))?", stripped)
        if not match:
            continue
        here = []
        add(here, match[1])
        if match[2]:
            waiting.append((depth, here))
        else:
            out.extend(here)
    while waiting:
        out.extend(waiting.pop()[1])
    return out


def compare(theirs, mine):
    first, related, missing = {}, 0, []
    for v, sizes in enumerate(theirs):
        for d, size in enumerate(sizes or []):
            if size is None:
                continue
            here = mine[v][d] if mine[v] is not None and len(mine[v]) == len(sizes) else None
            if size >= 0:
                related += 1
                if here != str(size):
                    missing.append((v, d, size, here))
            elif size in first:
                related += 1
                # Also an expression of it: without channels, convolutions give none.
                words = set(re.findall(r"\w+", here or ""))
                if first[size] in (None, "*") or not words >= set(re.findall(r"\w+", first[size])):
                    missing.append((v, d, f"{size} = {first[size]}", here))
            else:
                first[size] = here
    return related, missing


def main():
    arguments = sys.argv[1:]
    verbose = "-v" in arguments
    arguments = [a for a in arguments if a != "-v"]
    if not arguments:
        sys.exit(__doc__)
    texts = arguments[1:] or sorted(glob.glob(os.path.join(CORPUS, "*.ir")))
    ranks = {}
    for path in texts:
        for name, kind in INPUT.findall(open(path).read().split("):\n")[0]):
            if rank_of(kind.strip()):
                ranks.setdefault(os.path.basename(path).split(".")[0], {})[name] = kind.strip()
    total = missed = 0
    for path in texts:
        name = os.path.basename(path)
        try:
            text = Text(arguments[0], path, ranks.get(name.split(".")[0], {}))
            theirs = oracle(text)
            mine = types_of(ours(arguments[0], text))
        except (ValueError, RuntimeError) as error:
            if verbose:
                print(f"{name}: left out: {str(error).splitlines()[0][:100]}")
            continue
        if len(theirs) != len(mine):
            print(f"{name}: {len(theirs)} values there, {len(mine)} here")
            missed += 1
            continue
        related, missing = compare(theirs, mine)
        total, missed = total + related, missed + len(missing)
        print(f"{name}: {related - len(missing)} of {related}")
        if verbose:
            for v, d, there, here in missing:
                print(f"    value {v}, dimension {d}: {there} there, {here} here")
    print(f"all: {total - missed} of {total}")
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
