#!/usr/bin/env python3
"""Random scripted modules that keep state, called several times, against PyTorch: attributes of every kind are set, written
in place and read in branches, loops, other methods and submodules, and some calls raise.

    check_sessions.py [FIRST] [PAST]      seeds; exits 1 if one differs

Wants PyTorch and the Python module. Each is called through a session as it is, compiled for that, and from the engine file;
the first call of what was compiled without state is compared, too.
"""
import importlib.util
import io
import os
import random
import sys
import tempfile
import warnings

import numpy as np
import torch
import tscompile

CALLS = 4
HEAD = """import torch
from typing import Dict, List, Optional


class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.g = torch.zeros(2, 3)

    def forward(self, x):
        self.g = self.g * 0.5 + x
        return self.g


class Model(torch.nn.Module):
    maybe: Optional[torch.Tensor]
    seen: List[torch.Tensor]
    table: Dict[str, int]

    def __init__(self):
        super().__init__()
        self.part = Part()
        self.weight = torch.nn.Parameter(torch.ones(3) * 0.5)
        self.h = torch.zeros(2, 3)
        self.register_buffer("buffer", torch.zeros(2, 3))
        self.n = 0
        self.k = 1.0
        self.flag = False
        self.maybe = None
        self.seen = []
        self.table = {"a": 1}

    def get(self, x):
        self.n += 1
        return self.h * 0.5 + x

    def put(self, x):
        self.flag = not self.flag
        self.buffer += x

    def forward(self, x):
        v = x
        i = 0
"""
TENSORS = ["self.h", "self.part.g", "x", "v", "(self.h + x)", "(self.h * x)", "torch.tanh(self.part.g + x)", "(x * 0.5)",
           "(v + self.weight)", "self.h.clone()", "(x * self.k)", "self.get(x)", "self.part(x)"]
CONDITIONS = ["self.flag", "not self.flag", "self.n > 2", "self.n % 2 == 0", "bool(x.sum() > 0)", "self.maybe is None",
              "i > 1", "len(self.seen) > 2", "bool(v.sum() > self.h.sum())"]
COUNTS = ["2", "3", "self.n % 3", "int(self.k) % 3"]
# With {t} for a tensor and {c} for a condition.
STATEMENTS = ["self.h = {t}", "self.h = {t}", "self.part.g = {t}", "v = {t}", "self.n += 1", "self.n += 3",
              "self.flag = not self.flag", "self.flag = self.n > 3", "self.maybe = None", "self.maybe = {t}",
              "self.seen.append({t}.sum())", "self.h.add_(1.0)", "self.h.mul_(0.5)", "self.h.copy_(x)", "self.buffer += 1",
              "self.buffer.copy_({t})", "v = v + self.buffer", "self.k = self.k * 0.5", "self.k = float(self.n)",
              "self.put(x)", "self.table['a'] = self.table['a'] + self.n", "self.h = torch.clamp(self.h, -8.0, 8.0)"]


class Source:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def filled(self, text):
        return text.replace("{t}", self.random.choice(TENSORS)).replace("{c}", self.random.choice(CONDITIONS))

    def statement(self, depth, inLoop):
        r, margin = self.random, "    " * depth
        kind = r.random()
        if kind < 0.15 and depth < 4:
            lines = [margin + self.filled("if {c}:")] + self.block(depth + 1, inLoop)
            return lines + ([margin + "else:"] + self.block(depth + 1, inLoop) if r.random() < 0.6 else [])
        if kind < 0.25 and depth < 4:
            return [margin + f"for i{depth} in range({r.choice(COUNTS)}):"] + self.block(depth + 1, True)
        if kind < 0.3 and inLoop:
            return [margin + self.filled("if {c}:"), margin + "    " + r.choice(["break", "continue"])]
        if kind < 0.34 and not inLoop:
            return [margin + self.filled("if {c}:"), margin + "    return v * 2.0, self.n, self.k"]
        if kind < 0.38:
            return [margin + f"if self.n > {r.randrange(12, 30)}:", margin + "    raise RuntimeError('stop')"]
        if kind < 0.43:
            return [margin + "m = self.maybe", margin + "if m is not None:", margin + "    v = v + m"]
        return [margin + self.filled(r.choice(STATEMENTS))]

    def block(self, depth, inLoop):
        return sum((self.statement(depth, inLoop) for _ in range(self.random.randrange(1, 4))), [])

    def text(self):
        body = sum((self.statement(2, False) for _ in range(self.random.randrange(4, 12))), [])
        return HEAD + "\n".join(body) + "\n        return v + self.h.sum(), self.n, self.k\n"


def archive(seed, folder):
    """What torch.jit.save writes of the module, or None if it cannot be scripted."""
    path = os.path.join(folder, f"module_{seed}.py")
    with open(path, "w") as f:
        f.write(Source(seed).text())
    spec = importlib.util.spec_from_file_location(f"module_{seed}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        scripted = torch.jit.script(module.Model().eval())
    except RuntimeError:
        return None
    out = io.BytesIO()
    torch.jit.save(scripted, out)
    return out.getvalue()


def results(call, inputs):
    """Of each call, up to one that raises."""
    out = []
    for x in inputs:
        try:
            out.append([v if isinstance(v, (int, float)) else np.array(v) for v in call(x.clone())])
        except Exception:  # noqa: BLE001 PyTorch's and ours are of many kinds
            return out + ["raised"]
    return out


def same(a, b):
    if len(a) != len(b):
        return False
    return all(x == y if isinstance(x, str) or isinstance(y, str) else
               all(np.allclose(p, q, 1e-4, 1e-4, equal_nan=True) for p, q in zip(x, y)) for x, y in zip(a, b))


def check(seed, folder):
    data = archive(seed, folder)
    if data is None:
        return None
    r = np.random.default_rng(seed)
    inputs = [torch.from_numpy(r.standard_normal((2, 3)).astype(np.float32)) for _ in range(CALLS)]
    with torch.no_grad():
        live = torch.jit.load(io.BytesIO(data))
        want = results(lambda x: [v.numpy() if isinstance(v, torch.Tensor) else v for v in live(x)], inputs)
    model = tscompile.load(data)
    kept = model.compile(keep_state=True, min_block_size=1)
    path = os.path.join(folder, "model.tse")
    kept.save(path)
    for name, module in (("session", model), ("compiled", kept), ("engine file", tscompile.load(path))):
        got = results(module.session(), inputs)
        if not same(got, want):
            return f"seed {seed}, {name}: {got}, not {want}"
    got = results(model.compile(min_block_size=1), inputs[:1])
    return "" if same(got, want[:1]) else f"seed {seed}, without state: {got}, not {want[:1]}"


def main(first=0, past=200):
    warnings.filterwarnings("ignore")
    sys.dont_write_bytecode = True  # files of one second are not told apart by it
    torch.set_num_threads(1)
    differences = checked = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(int(first), int(past)):
            said = check(seed, folder)
            checked += said is not None
            if said:
                print(said)
                differences += 1
    print(f"{checked} modules of {CALLS} calls, {differences} differ")
    return 1 if differences or not checked else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
