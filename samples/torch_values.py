"""Values of PyTorch from and to the text that `tscompile run --input` takes (docs/values.md)."""
import json
import os
import re
import sys

import numpy
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import seeded  # noqa: E402

_TENSOR = re.compile(r"(scalar|\d+(x\d+)*)\s*:\s*[a-z]")
_NUMBER = re.compile(r"[-+]?(inf|nan|0[xX][0-9a-fA-F.]+[pP][-+]?\d+|(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?)")


def tensor_of(array, dtype):
    """A tensor of what seeded.py makes: (array, short dtype name)."""
    t = torch.from_numpy(numpy.ascontiguousarray(array).reshape(numpy.shape(array)).copy())
    return t.to(torch.bfloat16) if dtype == "bf16" else t


def text_of_tensor(t):
    t = t.detach().resolve_conj().resolve_neg()
    if t.dtype == torch.bfloat16:
        return seeded.format(t.float().numpy(), "bf16")
    return seeded.format(t.numpy())


class _Reader:
    def __init__(self, text, directory):
        self.text, self.at, self.directory = text, 0, directory

    def fail(self, message):
        raise ValueError(f"{message} (at character {self.at + 1} of {self.text!r})")

    def blanks(self):
        while self.at < len(self.text) and self.text[self.at] in " \t\r\n":
            self.at += 1

    def peek(self):
        self.blanks()
        return self.text[self.at:self.at + 1]

    def take(self, c):
        if self.peek() != c:
            return False
        self.at += 1
        return True

    def items(self, end, item):
        out = []
        while not self.take(end):
            out.append(item())
            if not self.take(","):
                if not self.take(end):
                    self.fail(f"expected ',' or '{end}'")
                break
        return out

    def entry(self):
        key = self.value()
        if not self.take(":"):
            self.fail("expected ':'")
        return key, self.value()

    def file(self):
        if self.text[self.at:self.at + 1] == '"':
            name, self.at = json.JSONDecoder().raw_decode(self.text, self.at)
        else:
            start = self.at
            while self.at < len(self.text) and self.text[self.at] not in ",])}":
                self.at += 1
            name = self.text[start:self.at].rstrip()
        path, _, member = name.partition("#")
        path = os.path.join(self.directory, path)
        if not member:
            return torch.from_numpy(numpy.load(path))
        if path.endswith(".npz"):
            return torch.from_numpy(numpy.load(path)[member])
        return load_safetensors(path)[member]

    def value(self):
        c = self.peek()
        if c == "[":
            self.at += 1
            return self.items("]", self.value)
        if c == "(":
            self.at += 1
            return tuple(self.items(")", self.value))
        if c == "{":
            self.at += 1
            return dict(self.items("}", self.entry))
        if c == '"':
            value, self.at = json.JSONDecoder().raw_decode(self.text, self.at)
            return value
        if c == "@":
            self.at += 1
            return self.file()
        if _TENSOR.match(self.text, self.at):
            reader = seeded._Reader(self.text)
            reader.at = self.at
            array, dtype = reader.tensor()
            self.at = reader.at
            return tensor_of(array, dtype)
        for word, value in (("None", None), ("true", True), ("True", True), ("false", False), ("False", False)):
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return value
        return self.number()

    def number(self):
        def part():
            m = _NUMBER.match(self.text, self.at)
            if not m:
                self.fail("expected a value")
            self.at = m.end()
            return m[0]

        def real(text):
            if "x" in text.lower():
                return float.fromhex(text)
            return int(text) if re.fullmatch(r"[-+]?\d+", text) else float(text)

        first = part()
        if self.text[self.at:self.at + 1] == "j":
            self.at += 1
            return complex(0, real(first))
        if self.text[self.at:self.at + 1] in ("+", "-"):
            second = part()
            if self.text[self.at:self.at + 1] != "j":
                self.fail("expected 'j'")
            self.at += 1
            return complex(real(first), real(second))
        return real(first)


def value(text, directory="."):
    """The value that a text describes; files are looked up in the directory."""
    reader = _Reader(text, directory)
    result = reader.value()
    if reader.peek():
        reader.fail("expected the end")
    return result


def text_of(v):
    """A text that `value` reads back as the same value."""
    if isinstance(v, torch.Tensor):
        return text_of_tensor(v)
    if v is None or isinstance(v, bool):
        return str(v) if v is None else str(v).lower()
    if isinstance(v, int):
        return str(v)
    if isinstance(v, float):
        return repr(v)
    if isinstance(v, complex):
        return f"{v.real!r}{'' if repr(v.imag).startswith('-') else '+'}{v.imag!r}j"
    if isinstance(v, str):
        return json.dumps(v)
    if isinstance(v, torch.device):
        return json.dumps(str(v))
    if isinstance(v, tuple):
        return "(" + ", ".join(map(text_of, v)) + ("," if len(v) == 1 else "") + ")"
    if isinstance(v, (list, torch.Size)):
        return "[" + ", ".join(map(text_of, v)) + "]"
    if isinstance(v, dict):
        return "{" + ", ".join(f"{text_of(k)}: {text_of(i)}" for k, i in v.items()) + "}"
    raise TypeError(f"a {type(v).__name__} has no text")


def load_safetensors(path):
    """The tensors of a safetensors file."""
    dtypes = {"F32": torch.float32, "F64": torch.float64, "F16": torch.float16, "BF16": torch.bfloat16,
              "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
              "BOOL": torch.bool, "C64": torch.complex64}
    with open(path, "rb") as f:
        raw = f.read()
    size = int.from_bytes(raw[:8], "little")
    out = {}
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            data = bytearray(raw[8 + size + begin:8 + size + end])
            dtype = dtypes[entry["dtype"]]
            out[name] = (torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)).reshape(entry["shape"])
    return out
