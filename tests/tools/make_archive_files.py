#!/usr/bin/env python3
"""Writes tests/data/archives: small files as PyTorch saves them, and files that are made to deceive.

    /usr/bin/python3 make_archive_files.py        # PyTorch 1.13: *_1.pt, and what no PyTorch writes
    python3 make_archive_files.py                 # PyTorch 2: *_2.pt
"""
import argparse
import collections
import enum
import io
import os
import pickle
import struct
import zipfile
from typing import Dict, List, Optional, Tuple

import numpy
import torch

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "archives")
VERSION = 1 if torch.__version__.startswith("1.") else 2


def path(name):
    return os.path.join(FOLDER, name)


class Color(enum.Enum):
    RED = 1
    BLUE = 7


class Part(torch.nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = torch.nn.Parameter(weight, requires_grad=False)

    def forward(self, x):
        return x * self.weight


class Whole(torch.nn.Module):
    """Attributes of every kind; `first` and `second` share a parameter, `twice` holds one list two times."""

    names: Dict[str, int]
    maybe: Optional[int]

    def __init__(self):
        super().__init__()
        shared = torch.arange(4.0).view(2, 2)
        self.first = Part(shared)
        self.second = Part(shared)
        self.second.weight = self.first.weight
        self.register_buffer("rows", torch.arange(6.0).view(2, 3).t())
        self.register_buffer("flags", torch.tensor([True, False]))
        self.register_buffer("small", torch.tensor([1.5, -2.0], dtype=torch.bfloat16))
        self.register_buffer("waves", torch.tensor([1 + 2j]))
        self.names = {"a": 1, "b": -300}
        self.maybe = None
        self.pair: Tuple[int, str] = (2 ** 40, "x\u00e9")
        self.list: List[float] = [0.5, -1.0]
        self.tensors: List[torch.Tensor] = [torch.ones(1), torch.zeros(0)]
        self.color = Color.BLUE
        self.device = torch.device("cpu")
        self.turn = 1 - 2j

    def forward(self, x):
        y = self.second(self.first(x)) + torch.tensor([10.0, 20.0])
        for _, v in self.names.items():
            y = y + v
        return y


@torch.jit.script
class Recipe:
    """What to do with a tensor, as einops keeps it."""

    def __init__(self, sizes: List[int], scales: Dict[int, float]):
        self.sizes = sizes
        self.scales = scales


class Recipes(torch.nn.Module):
    """An attribute that holds objects in a dict; which one is read depends on the input."""

    recipes: Dict[int, Recipe]

    def __init__(self):
        super().__init__()
        self.recipes = {1: Recipe([2, -1], {0: 2.0}), 2: Recipe([-1], {0: 3.0})}
        self.linear = torch.nn.Linear(2, 2)
        with torch.no_grad():
            self.linear.weight.copy_(torch.tensor([[1.0, 2.0], [0.0, -1.0]]))
            self.linear.bias.copy_(torch.tensor([0.5, 0.0]))

    def forward(self, x):
        recipe = self.recipes[x.dim()]
        x = self.linear(torch.relu(x) + 1)
        sizes = torch.jit.annotate(List[int], [])
        for size in recipe.sizes:
            sizes.append(size)
        y = x.reshape(sizes)
        for at, scale in recipe.scales.items():
            y = y.transpose(at, -1) * scale
        return torch.tanh(y) + y


class Quantized(torch.nn.Module):
    def __init__(self):
        super().__init__()
        x = torch.tensor([[-1.0, 0.0, 1.0], [2.0, 3.0, 4.0]])
        self.tensor = torch.quantize_per_tensor(x, 0.5, 2, torch.quint8)
        self.channel = torch.quantize_per_channel(
            x, torch.tensor([0.5, 1.0], dtype=torch.double), torch.tensor([0, 1]), 0, torch.qint8)

    def forward(self, x):
        return x + self.tensor.dequantize() + self.channel.dequantize()


class Named(torch.nn.Module):
    """A tensor that has two names, and one that holds the same."""

    def __init__(self):
        super().__init__()
        self.register_buffer("first", torch.arange(3.0))
        self.alias = self.first
        self.other = torch.arange(3.0)

    def forward(self, x):
        return self.first is self.alias, self.first is self.other, self.alias is not self.first, x + self.alias


class Views(torch.nn.Module):
    """Buffers that are views of one memory, lie turned, or see conjugates and negatives."""

    def __init__(self):
        super().__init__()
        cache = torch.zeros(2, 3)
        self.register_buffer("cache", cache)
        self.register_buffer("keys", cache[0])
        self.register_buffer("turned", torch.arange(6.0).view(2, 3).t())
        waves = torch.tensor([1 + 2j, 3 - 4j])
        self.register_buffer("waves", waves.conj())
        self.register_buffer("parts", (waves * 1).conj().imag)

    def forward(self, x):
        self.keys.add_(x)
        self.turned.add_(1.0)
        self.turned.t().view(-1).mul_(x[1])
        return self.cache * 1, self.turned + 0, self.waves * x[1], self.parts * 1


class Chosen(torch.nn.Module):
    """An enum is among the inputs."""

    def forward(self, x, color: Color, other: Optional[Color] = None) -> Tuple[torch.Tensor, Color, str, int]:
        if color == Color.RED:
            x = x + 1
        if other is not None:
            x = x * other.value
        return x, color, color.name, color.value


class Members(torch.nn.Module):
    """Enums are inside of what the inputs are."""

    def forward(self, x, colors: List[Color], pair: Tuple[Color, int],
                named: Dict[str, Color]) -> Tuple[torch.Tensor, List[str], Dict[str, Color]]:
        names: List[str] = []
        for color in colors:
            x = x * color.value if color == Color.RED else x - color.value
            names.append(color.name)
        if pair[0] == named["which"]:
            x = x + pair[1]
        return x, names, named


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([[1.0, 2.0], [3.0, 1 / 3]]))

    def forward(self, x):
        return torch.mm(x, self.weight)


class Regions(torch.nn.Module):
    """Regions of autocast: with a call in one, in a loop, one that is off inside of another."""

    def __init__(self):
        super().__init__()
        self.inner = Scaled()

    def forward(self, x):
        before = self.inner(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.inner(x)
            for _ in range(2):
                y = torch.mm(y, y)
            with torch.autocast("cpu", enabled=False):
                z = torch.mm(x, x)
            w = torch.exp(y)
        return before, y, z, w


def views():
    """A checkpoint of what sees conjugates and negatives."""
    waves = torch.tensor([1 + 2j, 3 - 4j])
    return {"waves": waves.conj(), "parts": (waves * 1).conj().imag, "negative": torch._neg_view(waves),
            "bytes": torch._neg_view(torch.tensor([1, -2, -128], dtype=torch.int8)),
            "half": torch._neg_view(torch.tensor([1.5, 0.0]).half())}


def mixed():
    """A checkpoint of arrays and of tensors of other kinds, with what training keeps beside it."""
    rows = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    sparse = torch.eye(2).to_sparse()
    return {"model": {"rows": rows, "columns": numpy.arange(6).reshape(2, 3).T, "flags": numpy.array([True, False]),
                      "one": numpy.array(2.5), "turned": rows.astype(">f4"), "sparse": sparse,
                      "parameter": torch.nn.Parameter(sparse),
                      "levels": torch.quantize_per_tensor(torch.ones(1), 0.5, 0, torch.qint8)},
            "best": numpy.float64(0.5), "arguments": argparse.Namespace(rate=1), "generator": torch.tensor([7]).byte()}


def state():
    """A checkpoint with nesting, an optimizer, tied and strided weights."""
    tied = torch.nn.Parameter(torch.arange(6.0).view(2, 3))
    model = collections.OrderedDict([
        ("embed.weight", tied), ("head.weight", tied), ("turned", torch.arange(6).view(2, 3).t()),
        ("half", torch.tensor([1.5], dtype=torch.float16)), ("steps", torch.tensor(7)),
        ("rest", torch.arange(10, dtype=torch.int16)[7:])])
    return {"model": model, "epoch": 3, "loss": 0.25, "name": "run", "betas": (0.5, 0.75), "raw": b"\x00\xff",
            "optimizer": {"state": {0: {"exp_avg": torch.zeros(2)}}, "param_groups": [{"lr": 0.5, "params": [0]}]}}


def repack(source, target, change):
    """The zip anew, as torch aligns it; change(name, bytes) returns new bytes, or None to leave the member out."""
    with zipfile.ZipFile(source) as old, open(target, "wb") as raw:
        with zipfile.ZipFile(raw, "w", zipfile.ZIP_STORED) as new:
            for info in old.infolist():
                data = change(info.filename, old.read(info))
                if data is None:
                    continue
                member = zipfile.ZipInfo(info.filename)
                start = raw.tell() + 30 + len(info.filename) + 4
                member.extra = b"FB" + struct.pack("<H", -start % 64) + b"Z" * (-start % 64)
                new.writestr(member, data)


def swap(name, data):
    if name.endswith("/byteorder"):
        return b"big"
    sizes = {"data/0": 4, "data/1": 8, "data/2": 2, "data/3": 8, "data/4": 2, "data/5": 4}
    size = sizes.get("/".join(name.split("/")[-2:]))
    if size is None:
        return data
    return b"".join(data[i:i + size][::-1] for i in range(0, len(data), size))


def pack_anew(source, target):
    """As archivers do: with an entry for the folder, members in another order, deflated."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        names = old.namelist()
        new.writestr(names[0].split("/")[0] + "/", "")
        for name in sorted(names, reverse=True):
            new.writestr(name, old.read(name))


class Graphed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(2, 1)
        self.l.weight.data = torch.tensor([[1.0, 2.0]])
        self.l.bias.data.fill_(0.5)
        self.register_buffer("b", torch.ones(1))

    def forward(self, x):
        return self.l(x) + self.b


class Evil:
    def __reduce__(self):
        return os.system, ("echo this must never run",)


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    os.makedirs(FOLDER, exist_ok=True)
    torch.manual_seed(0)
    scripted = torch.jit.script(Whole())
    scripted.save(path(f"script_{VERSION}.pt"))
    torch.jit.trace(Part(torch.ones(2)), torch.ones(2)).save(path(f"traced_{VERSION}.pt"))
    torch.jit.script(Quantized()).save(path(f"quantized_{VERSION}.pt"))
    torch.save(state(), path(f"checkpoint_{VERSION}.pth"))
    if VERSION == 2:
        torch.jit.save(torch.jit.trace(Part(torch.ones(2)), torch.ones(2)), path("saved_along_2.pt"),
                       _extra_files={"labels.txt": "cat dog"})
        pack_anew(path("traced_2.pt"), path("packed_anew_2.pt"))
        wrapped = {"model." + k: v for k, v in torch.nn.Sequential(torch.nn.Linear(1, 2)).state_dict().items()}
        torch.save({"state_dict": wrapped, "epoch": 3}, path("wrapped_2.pth"))
        torch.save({"ids": torch.ones(2, dtype=torch.complex32)}, path("complex32_2.pth"))
        torch.save({"uint16": torch.tensor([1, 65535], dtype=torch.uint16),
                    "float8_e4m3fn": torch.tensor([1, -448, 0.015625]).to(torch.float8_e4m3fn),
                    "float8_e5m2": torch.tensor([57344, float("inf")]).to(torch.float8_e5m2)}, path("carried_2.pth"))
        named = io.BytesIO()
        torch.jit.save(torch.jit.script(Named()), named)
        repack(named, path("named_2.pt"), lambda name, data: None if name.endswith(".debug_pkl") else data)
        torch.jit.script(Views()).save(path("views_2.pt"))
        torch.jit.script(Recipes()).save(path("recipes_2.pt"))
        torch.jit.script(Chosen()).save(path("enum_2.pt"))
        torch.jit.script(Members()).save(path("members_2.pt"))
        torch.jit.script(Regions()).save(path("autocast_2.pt"))
        torch.save(mixed(), path("mixed_2.pth"), pickle_protocol=5)
        torch.save({"conv.bias": torch.ones(2), "head.weight": torch.eye(3, 2).to_sparse()}, path("sparse_2.pth"))
        torch.save({"names": numpy.array(["a", "bc"]), "weight": torch.ones(1)}, path("texts_2.pth"))
        torch.save(views(), path("views_2.pth"))
        torch.save({("a", 1): torch.ones(1), None: torch.ones(2), True: torch.ones(3), 2.5: torch.ones(4),
                    b"old": torch.ones(5), (): torch.ones(6), "t": ({(None,): torch.ones(7)},)}, path("keys_2.pth"))
        rows = torch.arange(6.0).view(2, 3)
        with open(path("pickle_2.pkl"), "wb") as f:
            pickle.dump({"rows": rows, "turned": rows.t(), "counts": numpy.arange(3), "part": torch.ones(2)[1:]}, f)
        with open(path("pickle_2_protocol2.pkl"), "wb") as f:
            pickle.dump({"model": {"w": numpy.ones((2, 1)), "half": torch.ones(1).half()}, "epoch": 3}, f, protocol=2)
        torch.save(views(), path("views_legacy_2.pth"), _use_new_zipfile_serialization=False)
        return repack(path("checkpoint_2.pth"), path("bigendian.pth"), swap)
    torch.save(state(), path("legacy_1.pth"), _use_new_zipfile_serialization=False)
    torch.save(state(), path("protocol4_1.pth"), pickle_protocol=4)
    torch.save({"weight": torch.ones(1), "evil": Evil()}, path("evil.pth"))
    torch.save(mixed(), path("mixed_1.pth"))
    torch.save(torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.BatchNorm1d(2)), path("module_1.pth"))
    torch.save(torch.fx.symbolic_trace(Graphed()), path("fx_1.pth"))
    mobile = io.BytesIO(scripted._save_to_buffer_for_lite_interpreter())
    repack(mobile, path("bytecode.ptl"), lambda name, data: None if "/code/" in name else data)
    return None


if __name__ == "__main__":
    main()
