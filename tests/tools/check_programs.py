#!/usr/bin/env python3
"""Random programs, scripted and run by PyTorch, against `tscompile run` on engines, in the interpreter and as it chooses: values, dtypes,
sizes, and whether they raise, with PyTorch's first line.

    check_programs.py TOOL [--count N] [--first SEED] [--keep FOLDER] [--state FILE]

Needs a Python with PyTorch (`./dev oracle`). Programs have lists, dicts, strings, views, writes in place, nested branches and loops, in
nine dtypes; about a third raises. --state: goes on behind the last seed of the call before. What differs stays in FOLDER, and by class in
the last lines.
"""
import argparse
import collections
import importlib.util
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import warnings

import torch

warnings.simplefilter("ignore")
DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool"]
INPUTS = ["x=2x3:f32=[1 -2 3; 0.5 4 -1.5]", "y=3:f32=[2 0 -1]", "z=3x1:i64=[1; 2; -3]", "n=3", "b=true", "f=0.5", 's="ab c"']
MODES = {"default": [], "interpreter": ["--executor", "interpreter"]}


class Program:
    """Python source of one function `f(x, y, z, n, b, f, s)`; variables by type."""

    def __init__(self, seed):
        self.rng, self.lines, self.count, self.depth = random.Random(seed), [], 0, 1
        self.vars = {"T": ["x", "y", "z"], "I": ["n"], "B": ["b"], "F": ["f"], "S": ["s"], "LT": [], "LI": [], "D": []}
        self.new("T", "torch.mul(x, 1)")
        self.new("LT", "[x, y]")
        self.new("LI", "[n, 1, 2]")
        self.new("D", '{"a": x, "b": y}')
        for _ in range(self.rng.randrange(3, 12)):
            self.statement()
        self.emit("return (" + ", ".join(self.vars[k][-1] for k in ("T", "LT", "LI", "D", "I", "F", "B", "S")) + f", {self.pick('T')}, x)")

    def source(self):
        head = ("import torch\nfrom typing import Dict, List\n\n"
                "def f(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor, n: int, b: bool, f: float, s: str):\n")
        return head + "\n".join(self.lines) + "\n"

    def emit(self, line):
        self.lines.append("    " * self.depth + line)

    def pick(self, kind):
        return self.rng.choice(self.vars[kind][-5:])

    def new(self, kind, value):
        self.count += 1
        self.emit(f"v{self.count} = {value}")
        self.vars[kind].append(f"v{self.count}")

    def int(self):
        r = self.rng
        return r.choice([str(r.randrange(-1, 3)), str(r.randrange(-3, 4)), "0", "1", self.pick("I"), f"len({self.pick('LI')})", f"{self.pick('T')}.dim()", f"{self.pick('T')}.size(0)"])

    def tensor(self):
        r, t = self.rng, self.pick("T")
        if r.random() < 0.35:  # what seldom raises
            return r.choice([f"{t} + {t}", f"torch.relu({t}.float())", f"{t}.abs().clone()", f"{t}.reshape(-1)", f"{t}.unsqueeze(0)", f"{t}.sum()", f"{t} * {self.pick('F')}", f"{t}[...]",
                             f"torch.where({t} > 0, {t}, {t} * 2)", f"{t}.flatten()", f"{t}.to(torch.{r.choice(DTYPES)})", f"{t}.view_as({t})", f"x[{r.choice(['0', '1', ':, 1', '1:', ':, ::2'])}]", "x.t()", "y + x"])
        u = t if r.random() < 0.5 else self.pick("T")
        d = r.choice(["0", "0", "0", "-1", "-1", "1", "2"])
        return r.choice([
            lambda: f"{t} + {u}", lambda: f"{t} * {u}", lambda: f"{t} - {self.pick('F')}", lambda: f"torch.relu({t})", lambda: f"{t} / {u}", lambda: f"{t} // 2",
            lambda: f"{t} % {r.choice(['2', u])}", lambda: f"torch.matmul({t}, {u})", lambda: f"{t}.sum({d})", lambda: f"{t}.sum()", lambda: f"{t}.mean({d})",
            lambda: f"{t}.view({r.choice(['-1', '3, 2', '1, -1', '6'])})", lambda: f"{t}.reshape(-1)", lambda: f"{t}.t()", lambda: f"{t}.transpose(0, {d})",
            lambda: f"{t}.unsqueeze({d})", lambda: f"{t}.squeeze({d})", lambda: f"{t}[{self.int()}]", lambda: f"{t}[{r.choice(['0', '1', '-2'])}:{r.choice(['1', '2', '5', ''])}]",
            lambda: f"{t}[..., {self.int()}]", lambda: f"torch.cat({self.pick('LT')}, {d})", lambda: f"torch.stack({self.pick('LT')})", lambda: f"{t}.expand({r.choice(['2, 3', '2, 2, 3', '-1, 3', '4, -1'])})",
            lambda: f"{t}.to(torch.{r.choice(DTYPES)})", lambda: f"{t} > {r.choice(['0', u])}", lambda: f"torch.where({t} > 0, {t}, {u})", lambda: f"{t}.masked_fill({t} > 0, {self.pick('F')})",
            lambda: f"{t}.index_select({d}, torch.tensor([0, {self.int()}]))", lambda: f"{t}.gather({d}, torch.zeros_like({t}, dtype=torch.long))", lambda: f"torch.zeros({self.int()}, 2)",
            lambda: f"torch.arange({self.int()})", lambda: f"torch.full([2], {self.int()})", lambda: f"{t}.clamp(-1, {self.int()})", lambda: f"torch.softmax({t}.float(), {d})", lambda: f"{t}.cumsum({d})",
            lambda: f"{t}.max({d})[0]", lambda: f"{t}.argmax({d})", lambda: f"{t}.sort({d})[0]", lambda: f"{t}.abs()", lambda: f"-{t}", lambda: f"{t}.clone()", lambda: f"{t}.permute({r.choice(['1, 0', '0', '0, 1, 2', '2, 0, 1'])})",
            lambda: f"{t}.repeat({r.choice(['2', '2, 1', '1, 2, 1'])})", lambda: f"{t}.flatten()", lambda: f"{t}.chunk(2, {d})[{r.choice(['0', '1', '-1'])}]", lambda: f"{t}.split(2, {d})[0]", lambda: f"{self.pick('D')}[{self.key()}]",
            lambda: f"{self.pick('LT')}[{self.int()}]", lambda: f"torch.tensor({self.pick('LI')})", lambda: f"torch.einsum('i,i->i', {t}, {u})", lambda: f"{t}.pow(2)", lambda: f"{t} ** {self.int()}",
            lambda: f"{t}.all()", lambda: f"{t}.any({d})", lambda: f"torch.logical_and({t}, {u})", lambda: f"{t} == {u}", lambda: f"{t} & {u}", lambda: f"{t}.select({d}, {self.int()})", lambda: f"{t}.narrow({d}, 0, {self.int()})",
            lambda: f"torch.nn.functional.pad({t}, [1, {self.int()}])", lambda: f"{t}.roll(1, {d})", lambda: f"{t}.flip([{d}])", lambda: f"{t}.tril()", lambda: f"{t}.round()", lambda: f"torch.maximum({t}, {u})", lambda: f"{t}.new_zeros([2])",
            lambda: f"{t}.type_as({u})", lambda: f"torch.addmm({u}, {t}, {t}.t())", lambda: f"{t}.std({d})", lambda: f"{t}.topk({self.int()}, {d})[0]", lambda: f"{t}.unbind({d})[0]", lambda: f"{t}.diagonal()", lambda: f"{t}.prod({d})"])()

    def key(self):
        return self.rng.choice(['"a"', '"b"', '"c"', self.pick("S")])

    def bool(self):
        r, t = self.rng, self.pick("T")
        return r.choice([self.pick("B"), f"{self.int()} > {self.int()}", f"bool({t}.sum() > 0)", f"{t}.dim() == {r.randrange(3)}", f"{self.key()} in {self.pick('D')}", f"not {self.pick('B')}",
                         f"{self.pick('F')} < 1.5", f"len({self.pick('LT')}) > 2", f"{t}.size(0) == 2", f"{self.pick('S')}.startswith('a')"])

    def statement(self):
        r = self.rng
        kind = r.random()
        if kind < 0.45:
            self.new("T", self.tensor())
        elif kind < 0.6:
            self.in_place()
        elif kind < 0.72 and self.depth < 4:
            self.block()
        elif kind < 0.76:
            self.emit(f"if {self.bool()}:")
            error = r.choice(["ValueError", "RuntimeError", "IndexError"])
            self.emit(f"    raise {error}({r.choice([chr(34) + 'no' + chr(34), 'f' + chr(34) + 'n is {n}' + chr(34)])})")
        else:
            self.other()

    def in_place(self):
        r, t = self.rng, self.pick("T")
        u = t if r.random() < 0.4 else self.pick("T")
        self.emit(r.choice([
            lambda: f"{t}.add_({r.choice([u, '1', '0.5'])})", lambda: f"{t}.mul_({u})", lambda: f"{t}[{self.int()}] = {r.choice([u, '5', '1.5'])}", lambda: f"{t}[{t} > 0] = {self.int()}", lambda: f"{t}.copy_({u})",
            lambda: f"{t}.relu_()", lambda: f"{t}.fill_({self.int()})", lambda: f"{t}.zero_()", lambda: f"{t} += {u}", lambda: f"{t}[:, 0] = {self.int()}", lambda: f"{t}.unsqueeze_(0)", lambda: f"{t}.t_()", lambda: f"{t}.masked_fill_({u} > 0, 2)",
            lambda: f"{t}.sub_({u})", lambda: f"{t}.clamp_(0, 2)", lambda: f"{t}.index_fill_(0, torch.tensor([0]), {self.int()})", lambda: f"{t}.scatter_(0, torch.zeros_like({t}, dtype=torch.long), {self.int()})", lambda: f"{t}[0:1].add_(1)",
            lambda: f"{t}.div_({u})", lambda: f"{t}.squeeze_()", lambda: f"{t}.index_add_(0, torch.tensor([0]), {u})", lambda: f"{t}.transpose_(0, 1)", lambda: f"{t}.neg_()"])())

    def block(self):
        r = self.rng
        marks = {k: len(v) for k, v in self.vars.items()}
        shape = r.random()
        t = self.pick("T")
        if shape < 0.5:
            self.emit(f"if {self.bool()}:")
            branches = 2
        elif shape < 0.8:
            self.emit(f"for i{self.count} in range({self.int()}):")
            branches = 1
        else:
            self.emit(f"for e{self.count} in {self.pick('LI')}:")
            branches = 1
        for branch in range(branches):
            if branch:
                self.emit("else:")
            self.depth += 1
            for _ in range(r.randrange(1, 4)):
                self.statement()
            name = r.choice(self.vars["T"][3:marks["T"]] or [t])
            if name not in ("x", "y", "z"):
                self.emit(f"{name} = {self.tensor()}")
            self.emit("pass")
            self.depth -= 1
            for k, v in self.vars.items():
                del v[marks[k]:]

    def other(self):
        r = self.rng
        choice = r.randrange(14)
        li, lt, d, s = self.pick("LI"), self.pick("LT"), self.pick("D"), self.pick("S")
        if choice == 0:
            self.emit(f"{li}.append({self.int()})")
        elif choice == 1:
            self.emit(f"{lt}.append({self.pick('T')})")
        elif choice == 2:
            self.emit(f"{d}[{self.key()}] = {self.pick('T')}")
        elif choice == 3:
            self.new("I", r.choice([f"{self.int()} + {self.int()}", f"{self.int()} * 2", f"{self.int()} // {self.int()}", f"{self.int()} % {self.int()}", f"int({self.pick('T')}.sum())", f"{li}[{self.int()}]", f"{li}.pop()", f"sum({li})", f"min({li})", f"int({self.pick('F')})", f"len({s})"]))
        elif choice == 4:
            self.new("F", r.choice([f"{self.pick('F')} * 2", f"float({self.int()})", f"{self.pick('F')} / {self.int()}", f"{self.pick('T')}.float().mean().item()", f"{self.pick('F')} ** {self.int()}"]) if r.random() < 0.8 else "float('1.5')")
        elif choice == 5:
            self.new("S", r.choice([f"{s} + 'x'", f"'{{}}-{{}}'.format({self.int()}, {s})", f"{s}.upper()", f"{s}[{self.int()}]", f"str({self.int()})", f"{s}.replace('a', 'bb')", f"{s} * 2", f"str({self.pick('F')})", f"{s}.split(' ')[0]", f"'%d' % {self.int()}"]))
        elif choice == 6:
            self.new("LI", r.choice([f"[{self.int()}, {self.int()}]", f"{li}[1:]", f"{li} + [1]", f"list(range({self.int()}))", f"[e * 2 for e in {li}]", f"{self.pick('T')}.size()[:]", f"sorted({li})", f"{li} * 2"]))
        elif choice == 7:
            self.new("LT", r.choice([f"[{self.pick('T')}, {self.pick('T')}]", f"list({self.pick('T')}.unbind(0))", f"{lt}[:1]", f"[e + 1 for e in {lt}]", f"{lt} + [{self.pick('T')}]", f"list({self.pick('T')}.split(1))"]))
        elif choice == 8:
            self.new("D", r.choice([f'{{"a": {self.pick("T")}}}', f'{{"c": {self.pick("T")}, {self.key()}: {self.pick("T")}}}', f"{d}.copy()"]))
        elif choice == 9:
            self.emit(r.choice([f"{li}.reverse()", f"{li}.sort()", f"{li}.insert(0, {self.int()})", f"{li}.clear()", f"{li}.extend([7])", f"del {li}[{self.int()}]"]))
        elif choice == 10:
            self.emit(r.choice([f"{d}.pop({self.key()})", f"del {d}[{self.key()}]", f"{d}.update({{{self.key()}: {self.pick('T')}}})", f"{d}.setdefault({self.key()}, {self.pick('T')})"]))
        elif choice == 11:
            self.new("B", self.bool())
        elif choice == 12:
            self.emit(f"{li}[{self.int()}] = {self.int()}")
        else:
            self.emit(f"assert {self.bool()}, {r.choice(['s', repr('why')])}")


NAMES = {"torch." + d: s for d, s in zip(DTYPES, ["f32", "f64", "f16", "bf16", "i64", "i32", "i8", "u8", "bool"])}


def plain(value):
    """What a value is, to be compared."""
    if isinstance(value, torch.Tensor):
        flat = value.detach().to(torch.float64 if value.dtype.is_floating_point else torch.int64).flatten().tolist()
        return ["tensor", NAMES.get(str(value.dtype), str(value.dtype)), list(value.shape), flat]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, [plain(v) for v in value]]
    if isinstance(value, dict):
        return ["dict", [[plain(k), plain(v)] for k, v in value.items()]]
    return value


class Reader:
    """The values that `run --print` writes."""

    TENSOR = re.compile(r"(scalar|[0-9x]+):(\w+)=(\[[^\]]*\]|[^,)\]}\s]+)|([0-9x]+):(\w+):zeros")

    def __init__(self, text):
        self.text, self.at = text, 0

    def literal(self, mark):
        if self.text.startswith(mark, self.at):
            self.at += len(mark)
            return True
        return False

    def items(self, end):
        out = []
        while not self.literal(end):
            out.append(self.value())
            if self.literal(": "):
                out[-1] = [out[-1], self.value()]
            self.literal(", ") or self.literal(",")
        return out

    def value(self):
        if self.literal("("):
            return ["tuple", self.items(")")]
        if self.literal("["):
            return ["list", self.items("]")]
        if self.literal("{"):
            return ["dict", self.items("}")]
        if m := self.TENSOR.match(self.text, self.at):
            self.at = m.end()
            shape = [] if m.group(1) == "scalar" else [int(n) for n in (m.group(1) or m.group(4)).split("x")]
            dtype = m.group(2) or m.group(5)
            words = re.findall(r"[^\s;\[\]]+", m.group(3) or "")
            numbers = {"true": 1, "false": 0}
            return ["tensor", dtype, shape, [numbers[w] if w in numbers else float(w) if "f" in dtype or not re.fullmatch(r"-?\d+", w) else int(w) for w in words]]
        value, length = json.JSONDecoder().raw_decode(re.sub(r"\b(True|False|None|inf|nan)\b", lambda m: {"True": "true ", "False": "false", "None": "null", "inf": "Infinity"[:3], "nan": "NaN"}[m.group()], self.text[self.at :])) \
            if not re.match(r"-?inf|nan|True|False|None", self.text[self.at :]) else (None, 0)
        if length == 0:
            word = re.match(r"-?\w+", self.text[self.at :]).group()
            self.at += len(word)
            return {"True": True, "False": False, "None": None}.get(word, None if word not in ("inf", "-inf", "nan") else float(word))
        self.at += length
        return value


TOLERANCE = {"f16": 2e-3, "bf16": 2e-2, "f64": 1e-9}


def close(a, b, tolerance=1e-5):
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b or (a != a and b != b) or abs(a - b) <= tolerance * max(1.0, abs(a), abs(b))
    return a == b


def same(a, b):
    if isinstance(a, list) and isinstance(b, list):
        if len(a) == 4 and a[0] == "tensor":
            return a[:3] == b[:3] and len(a[3]) == len(b[3]) and all(close(p, q, TOLERANCE.get(a[1], 1e-5)) for p, q in zip(a[3], b[3]))
        return len(a) == len(b) and all(same(p, q) for p, q in zip(a, b))
    if isinstance(a, bool) != isinstance(b, bool):
        return False
    return close(a, b)


def by_pytorch(function):
    x, y = torch.tensor([[1, -2, 3], [0.5, 4, -1.5]]), torch.tensor([2.0, 0, -1])
    try:
        return "value", plain(function(x, y, torch.tensor([[1], [2], [-3]]), 3, True, 0.5, "ab c"))
    except Exception as e:  # noqa: BLE001: whatever it raises is the answer
        lines = [line for line in str(e).splitlines() if re.match(r"(\w+\.)*\w*(Error|Exception|Interrupt)\b", line.strip())]
        return "raises", (lines[-1] if lines else str(e).splitlines()[0] if str(e) else "").strip()


def without_dead_code(function):
    """What the same program does when PyTorch drops dead code before its first run, as it does before later ones."""
    graph = function.graph.copy()
    torch._C._jit_pass_inline(graph)
    torch._C._jit_pass_remove_mutation(graph)
    torch._C._jit_pass_constant_propagation(graph)
    torch._C._jit_pass_dce(graph)
    return torch._C._create_function_from_graph("f", graph)


class Check:
    def __init__(self, options, folder):
        self.options, self.folder, self.classes, self.counts, self.words = options, folder, collections.Counter(), collections.Counter(), collections.Counter()

    def script(self, seed):
        source, path = Program(seed).source(), os.path.join(self.folder, "program.py")
        with open(path, "w") as file:
            file.write(source)
        spec = importlib.util.spec_from_file_location(f"program{seed}", path)
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
            return source, torch.jit.script(module.f)
        except Exception:  # noqa: BLE001: not a program
            return source, None

    def run(self, seed):
        source, function = self.script(seed)
        if function is None:
            self.counts["no program"] += 1
            return
        text = os.path.join(self.folder, "program.ir")
        with open(text, "w") as file:
            file.write(str(function.inlined_graph))
        kind, want = by_pytorch(function)
        self.counts[kind] += 1
        self.other = by_pytorch(without_dead_code(function)) if kind == "raises" else (kind, want)
        for mode, more in MODES.items():
            self.compare(seed, source, text, mode, more, kind, want)

    def compare(self, seed, source, text, mode, more, kind, want):
        inputs = [word for i, value in enumerate(INPUTS) for word in ("-i", f"{i}={value.split('=', 1)[1]}")]
        done = subprocess.run([self.options.tool, "run", text, *inputs, "--print", "-q", *more], capture_output=True, text=True, errors="replace")
        said = done.stderr.split("\n")[0]
        said = re.sub(r"^.*?: error: ", "", said)
        problem = ""
        if done.returncode not in (0, 4, 6, 8):
            problem = f"exit {done.returncode}: {said[:80]}"
        elif done.returncode in (4, 6) and kind == "value":
            problem = f"not run: {said[:80]}"
        elif kind == "raises" and done.returncode == 0 and mode == "default" and self.other[0] == "value":
            problem = "" if same(self.other[1], Reader(done.stdout.strip()).value()) else "another value"
        elif kind == "raises" and done.returncode == 0:
            problem = f"PyTorch raises: {want[:90]}"
        elif kind == "value" and done.returncode:
            problem = f"raises: {said[:90]}"
        elif kind == "value":
            try:
                got = Reader(done.stdout.strip()).value()
            except Exception as e:  # noqa: BLE001
                problem = f"cannot be read: {e}"
            else:
                if not same(want, got):
                    problem = "another value"
        elif mode == "interpreter":
            first = re.sub(r"^[\w.]*(Error|Exception): ?", "", want)[:60]
            self.words["the same words" if first and first in said else f"PyTorch: {first} | here: {said[:80]}"] += 1
        if problem:
            self.classes[mode + ": " + re.sub(r"\d+", "N", problem)] += 1
            if self.options.keep:
                os.makedirs(self.options.keep, exist_ok=True)
                with open(text) as file:
                    graph = file.read()
                with open(os.path.join(self.options.keep, f"{seed}_{mode}.txt"), "w") as file:
                    file.write(f"{problem}\n\n{source}\n{graph}\nPyTorch: {kind} {want}\nhere: exit {done.returncode}\n{done.stdout}{done.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", type=os.path.abspath)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--keep")
    parser.add_argument("--state")
    options = parser.parse_args()
    if options.state and os.path.exists(options.state):
        with open(options.state) as file:
            options.first = json.load(file)["next"]
    with tempfile.TemporaryDirectory() as folder:
        check = Check(options, folder)
        for seed in range(options.first, options.first + options.count):
            check.run(seed)
            if options.state:
                with open(options.state, "w") as file:
                    json.dump({"next": seed + 1}, file)
    for problem, count in check.words.most_common(60):
        print(f"words {count:6} {problem}")
    for problem, count in check.classes.most_common():
        print(f"{count:6} {problem}")
    print(f"{dict(check.counts)}, {sum(check.classes.values())} differ")
    return 1 if check.classes else 0


if __name__ == "__main__":
    sys.exit(main())
