"""Values of random programs (check_programs.py): inputs, as PyTorch and `tscompile run` take them; results, to be compared."""
import json
import random
import re

import torch

from program_grammar import DTYPES

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
