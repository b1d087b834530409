#!/usr/bin/env python3
"""Random programs, scripted and run by PyTorch, against `tscompile run`, as it chooses and in the interpreter: values, dtypes, sizes, and
whether they raise; the first lines of errors are counted.

    check_programs.py CALLS [--count N] [--first SEED] [--inputs N] [--keep FOLDER] [--state FILE]

CALLS is BUILD/tests/tool_calls, the tool without its start. Needs a Python with PyTorch (`./dev oracle`; `./dev programs` calls
this). program_grammar.py has what programs are made of; each runs with N sets of inputs of other sizes, dtypes and values, and half of
the runs raise. What PyTorch does with or without its optimisations is right: it drops dead code and folds before the first run. On
engines, where more is dropped, a program may also give what it gives without the statements that raise. --state: goes on behind the
last seed of the call before, and keeps what was counted. What differs stays in FOLDER, and by class in the last lines.
"""
import argparse
import collections
import importlib.util
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import warnings

import torch

from program_grammar import DTYPES, Program

warnings.simplefilter("ignore")
torch.set_num_threads(1)
MODES = {"default": [], "interpreter": ["--executor", "interpreter"]}

NAMES = {"torch." + d: s for d, s in zip(DTYPES, ["f32", "f64", "f16", "bf16", "i64", "i32", "i8", "u8", "bool"])} | {"torch.int16": "i16"}


def plain(value):
    """What a value is, to be compared."""
    if isinstance(value, torch.Tensor):
        flat = value.detach().to(torch.float64 if value.dtype.is_floating_point else torch.int64).flatten().tolist()
        return ["tensor", NAMES.get(str(value.dtype), str(value.dtype)), list(value.shape), flat]
    if isinstance(value, (list, tuple)):
        return ["tuple" if isinstance(value, tuple) else "list", [plain(v) for v in value]]
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
        if self.text.startswith('"', self.at):
            value, self.at = json.JSONDecoder().raw_decode(self.text, self.at)
            return value
        word = re.compile(r"[-+.\w]+").match(self.text, self.at)[0]
        self.at += len(word)
        words = {"true": True, "false": False, "None": None}
        return words[word] if word in words else int(word) if re.fullmatch(r"-?\d+", word) else float(word)


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


SHAPES = [[(2, 3), (3,), (3, 1)], [(2, 3), (3,), (2, 1)], [(2, 3), (1, 3), ()], [(3, 3), (3,), (3, 1)], [(0, 3), (3,), (1,)], [(2, 2, 3), (2, 3), (3,)], [(1, 3), (3,), (1, 1)], [(4, 2), (2,), (4, 1)]]
NUMBERS = [1, -2, 3, 0.5, 4, -1.5, 0, 2, -1, 100, -0.25]


class Inputs:
    """Values of the seven inputs, the first time those that most programs take."""

    def __init__(self, seed, which):
        r = random.Random(seed * 16 + which)
        self.shapes = SHAPES[0] if which == 0 else r.choice(SHAPES)
        self.dtypes = ["float32", "float32", "int64"] if which == 0 or r.random() < 0.3 else r.choices(DTYPES, k=3)
        self.lists = [[self.number(r, dtype) for _ in range(torch.Size(shape).numel())] for shape, dtype in zip(self.shapes, self.dtypes)]
        self.rest = [3, True, 0.5, "ab c"] if which == 0 else [r.randrange(-1, 5), r.random() < 0.5, r.choice([0.5, -1.75, 3.0, 1e-3, 7.25]), r.choice(["ab c", "", "7", "a", "X-b a", "1.5", "\u00e9a"])]

    @staticmethod
    def number(r, dtype):
        value = r.choice(NUMBERS)
        return value if "float" in dtype else value > 0 if dtype == "bool" else int(abs(value)) if dtype == "uint8" else int(value)

    def values(self):
        return [torch.tensor(v, dtype=getattr(torch, d)).reshape(s) for v, d, s in zip(self.lists, self.dtypes, self.shapes)] + self.rest

    def words(self):
        for i, (numbers, dtype, shape) in enumerate(zip(self.lists, self.dtypes, self.shapes)):
            texts = [str(v).lower() for v in numbers]
            text = texts[0] if not shape else ""
            for at, number in enumerate(texts if shape else []):
                ends = next((k for k in range(1, len(shape)) if at % torch.Size(shape[k:]).numel() == 0), len(shape))
                text += (";" * (len(shape) - ends) or " ") * (at > 0) + number
            text = f"[{text}]" if shape else text
            yield from ("-i", f"{i}={'x'.join(map(str, shape)) or 'scalar'}:{NAMES['torch.' + dtype]}={text}")
        for i, value in enumerate(self.rest):
            yield from ("-i", f"{i + 3}={json.dumps(value, ensure_ascii=False)}")


def by_pytorch(function, inputs):
    try:
        return "value", plain(function(*inputs.values()))
    except Exception as e:  # noqa: BLE001: whatever it raises is the answer
        lines = [line for line in str(e).splitlines() if re.match(r"(\w+\.)*\w*(Error|Exception|Interrupt)\b", line.strip())]
        return "raises", (lines[-1] if lines else str(e).splitlines()[0] if str(e) else "").strip()


def copied(function, *passes):
    graph = function.graph.copy()
    for one in passes:
        one(graph)
    return torch._C._create_function_from_graph("f", graph)


def as_written(function, inputs):
    """What a program does without PyTorch's optimisations."""
    with torch.jit.optimized_execution(False):
        return by_pytorch(copied(function), inputs)


def without_dead_code(function, inputs):
    """What a program does where PyTorch drops dead code before its first run: its passes, and its older executor."""
    c = torch._C
    kind, value = by_pytorch(copied(function, c._jit_pass_inline, c._jit_pass_remove_mutation, c._jit_pass_constant_propagation, c._jit_pass_dce), inputs)
    if kind == "raises":
        before = c._jit_set_profiling_executor(False)
        kind, value = by_pytorch(copied(function), inputs)
        c._jit_set_profiling_executor(before)
    return kind, value


def without_lines(source, inputs, load, got):
    """Whether a program without the statements that raise gives these values: engines drop them, as nothing reads what they write."""
    lines = source.split("\n")
    for _ in range(12):
        function, path = load("\n".join(lines))
        if function is None:
            return False
        try:
            return same(plain(function(*inputs.values())), got)
        except Exception as e:  # noqa: BLE001
            at = re.findall(rf'File "{re.escape(path)}", line (\d+)', str(e))
        if not at:  # in a function of PyTorch's own
            return any(without_line(lines, i, inputs, load, got) for i in range(len(lines)) if can_go(lines[i]))
        line = int(at[-1]) - 1
        if not can_go(lines[line]):
            return False
        lines = next((new for new in without(lines, line) if load("\n".join(new))[0] is not None), lines[:0])
    return False


def can_go(line):
    return line.startswith("    ") and not line.strip().startswith(("return", "raise", "else", "for", "while", "assert", "break", "continue", "pass"))


def without(lines, i):
    """The lines without one; if its variable or its branches have to be there, with another value."""
    branches = lines[i].strip().startswith("if")
    for instead in ("if False:", "if True:") if branches else ("pass", lines[i].split("=")[0].strip() + " = x"):
        yield lines[:i] + [re.match(" *", lines[i])[0] + instead] + lines[i + 1 :]


def without_line(lines, i, inputs, load, got):
    for rest in without(lines, i):
        function, _ = load("\n".join(rest))
        kind, value = by_pytorch(function, inputs) if function else ("raises", None)
        if kind == "value" and same(value, got):
            return True
    return False


# Where PyTorch 2 refuses what 1.13 computes, and other faults of its own.
OTHERWISE = ("report a bug", "codec can't decode", "source tensor shape must match self tensor shape", "only supports boolean masks", "Can't detach views in-place", "BComplex32", "unresolved conjugated tensors")


class Tool:
    """The tool in a process that takes one call after another."""

    def __init__(self, path):
        self.path, self.process = path, None

    def __call__(self, args):
        """Exit code, standard output and error; the code of a signal if it ended."""
        if self.process is None:
            self.process = subprocess.Popen([self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        words = [word.encode() for word in args]
        try:
            self.process.stdin.write(b"%d\n" % len(words) + b"".join(b"%d\n" % len(word) + word for word in words))
            self.process.stdin.flush()
            code, *sizes = map(int, self.process.stdout.readline().split())
            return code, *(self.process.stdout.read(size).decode(errors="replace") for size in sizes)
        except (BrokenPipeError, ValueError):
            code, self.process = self.process.wait(), None
            return code, "", "it ended"


def kind_of(words):
    """Of messages that differ only in numbers and dtypes."""
    return re.sub(r"'(Float|Double|Half|BFloat16|Long|Int|Short|Char|Byte|Bool)'|\b(float|bfloat|int|uint)\d+\b|\bbool\b", "T", re.sub(r"-?\d+(?!\w)", "N", words))


class Check:
    def __init__(self, options, folder):
        self.tool = Tool(options.calls)
        self.files, self.options, self.folder, self.classes, self.counts, self.words = 0, options, folder, collections.Counter(), collections.Counter(), collections.Counter()

    def go_on(self):
        """The next seed; counts what was counted before."""
        with open(self.options.state) as file:
            state = json.load(file)
        for total, before in zip((self.counts, self.classes, self.words), state.get("counted", [])):
            total.update(before)
        return state["next"]

    def keep(self, seed):
        with open(self.options.state + ".new", "w") as file:
            json.dump({"next": seed, "counted": [self.counts, self.classes, self.words]}, file)
        os.replace(self.options.state + ".new", self.options.state)

    def script(self, source):
        """The function and the path that it names, or None if it is no program."""
        self.files += 1
        name = f"program{self.files}"
        path = os.path.join(self.folder, name + ".py")
        with open(path, "w") as file:
            file.write(source)
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
            return torch.jit.script(module.f), path
        except Exception:  # noqa: BLE001
            return None, path
        finally:
            os.remove(path)

    def run(self, seed):
        source = Program(seed).source()
        function, _ = self.script(source)
        if function is None:
            self.counts["no program"] += 1
            return
        text = os.path.join(self.folder, "program.ir")
        with open(text, "w") as file:
            file.write(str(function.inlined_graph))
        for which in range(self.options.inputs):
            inputs = Inputs(seed, which)
            kind, want = by_pytorch(function, inputs)
            if any(words in str(want) for words in OTHERWISE):
                continue
            self.counts[kind] += 1
            for mode, more in MODES.items():
                self.compare(f"{seed}_{which}", source, text, function, inputs, mode, more, kind, want)

    def compare(self, name, source, text, function, inputs, mode, more, kind, want):
        words = list(inputs.words())
        code, out, err = self.tool(["run", text, *words, "--print", "-q", *more])
        said = err.split("\n")[0]
        said = re.sub(r"^.*?: error: ", "", said)
        problem = ""
        if code not in (0, 4, 6, 8):
            problem = f"exit {code}: {said[:80]}"
        elif code == 0:
            try:
                got = Reader(out.strip()).value()
            except Exception as e:  # noqa: BLE001
                problem = f"cannot be read: {e}"
            else:
                problem = self.value_problem(source, function, inputs, mode, kind, want, got)
        elif kind == "value" and as_written(function, inputs)[0] != "raises":
            problem = ("raises" if code == 8 else "not run") + f": {said[:90]}"
        elif kind == "raises" and mode == "interpreter":
            first = re.sub(r"^[\w.]*(Error|Exception): ?", "", want)[:60]
            self.words["the same words" if first and first.lower() in said.lower() else kind_of(f"PyTorch: {first} | here: {said[:80]}")] += 1
        if problem:
            self.classes[mode + ": " + re.sub(r"\d+", "N", problem)] += 1
            if self.options.keep:
                os.makedirs(self.options.keep, exist_ok=True)
                with open(text) as file:
                    graph = file.read()
                with open(os.path.join(self.options.keep, f"{name}_{mode}.txt"), "w") as file:
                    file.write(f"{problem}\n\n{source}\n{graph}\n{' '.join(map(shlex.quote, words))}\nPyTorch: {kind} {want}\nhere: exit {code}\n{out}{err}")

    def value_problem(self, source, function, inputs, mode, kind, want, got):
        """Why these values are not PyTorch's, with some of its optimisations or without; "" if they are."""
        if kind == "value" and same(want, got):
            return ""
        ways = [as_written] + [without_dead_code] * (mode == "default")
        if any(same(value, got) for how, value in (way(function, inputs) for way in ways) if how == "value"):
            return ""
        if kind == "value":
            return "another value"
        if mode == "default" and without_lines(source, inputs, self.script, got):
            self.counts["dropped as dead"] += 1
            return ""
        return f"PyTorch raises: {want[:90]}"


# Programs that take longer in PyTorch are left.
SECONDS = 20


def in_children(check, first, end, batch=100):
    """Runs seeds in processes of their own, some at a time: there are programs that end PyTorch's. Gives each when it is done."""
    while first < end:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            with open(write, "w") as results:
                for seed in range(first, min(first + batch, end)):
                    signal.alarm(SECONDS)
                    before = [c.copy() for c in (check.counts, check.classes, check.words)]
                    check.run(seed)
                    print(json.dumps([dict(now - old) for now, old in zip((check.counts, check.classes, check.words), before)]), file=results, flush=True)
            os._exit(0)
        os.close(write)
        last = min(first + batch, end)
        with open(read) as results:
            for line in results:
                for total, more in zip((check.counts, check.classes, check.words), json.loads(line)):
                    total.update(more)
                yield first
                first += 1
        os.waitpid(child, 0)
        if first < last:
            check.counts["ends PyTorch"] += 1
            yield first
            first += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("calls", type=os.path.abspath)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--inputs", type=int, default=2, help="sets of inputs for each program")
    parser.add_argument("--keep")
    parser.add_argument("--state")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        check = Check(options, folder)
        if options.state and os.path.exists(options.state):
            options.first = check.go_on()
        for seed in in_children(check, options.first, options.first + options.count):
            if options.state and seed % 10 == 9:
                check.keep(seed + 1)
        if options.state:
            check.keep(seed + 1)
    for problem, count in check.words.most_common(60):
        print(f"words {count:6} {problem}")
    for problem, count in check.classes.most_common():
        print(f"{count:6} {problem}")
    print(f"{dict(check.counts)}, {sum(check.classes.values())} differ")
    return 1 if check.classes else 0


if __name__ == "__main__":
    sys.exit(main())
