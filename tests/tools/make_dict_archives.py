#!/usr/bin/env python3
"""Writes modules that hold dicts: tests/data/archives/dicts_2.pt, which reads them, dicts_written_2.pt, rearrange_2.pt,
mixed_axes_2.pt and picked_2.pt, whose dicts and lists hold objects, and kept_2.pt, shares_kept_2.pt and
twice_there_2.pt, which fill theirs.

    cd tests/tools; python3 make_dict_archives.py
"""
import os
from typing import Dict, List, Tuple

import torch
from make_state_archives import save
from torch import Tensor, nn

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "archives")


class Layers(nn.Module):
    """As torchvision.models._utils.IntermediateLayerGetter has them."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(3, 3, bias=False), nn.ReLU(), nn.Linear(3, 2, bias=False)
        with torch.no_grad():
            self.a.weight.copy_(torch.eye(3) * 2 - 1)
            self.c.weight.copy_(torch.ones(2, 3))
        self.names: Dict[str, str] = {"b": "low", "c": "high"}
        self.scales: Dict[str, float] = {"low": 2.0, "high": 0.5}

    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        out: Dict[str, Tensor] = {}
        x = self.a(x)
        if "a" in self.names:
            out[self.names["a"]] = x
        x = self.b(x)
        if "b" in self.names:
            out[self.names["b"]] = x
        x = self.c(x)
        if "c" in self.names:
            out[self.names["c"]] = x
        made: Dict[str, Tensor] = {}
        for name, scale in self.scales.items():
            made[name] = out[name] * scale
        return made


class Writes(nn.Module):
    def __init__(self):
        super().__init__()
        self.lists: Dict[str, List[int]] = {"a": [1, 2]}
        self.tensors: Dict[str, Tensor] = {"w": torch.ones(2)}
        self.numbers: Dict[int, int] = {1: 2}

    def forward(self, x: Tensor):
        if 1 in self.numbers:
            x = x + self.numbers[1]
        self.lists["a"].append(3)
        self.tensors["w"].add_(1)
        self.numbers[3] = 5
        n = 0
        for k in self.numbers:
            n += k
        return x * len(self.lists["a"]) + self.tensors["w"].sum(), n, self.lists["a"], 3 in self.numbers


@torch.jit.script
class Recipe:
    def __init__(self, lengths: List[int], groups: List[List[int]], order: List[int]):
        self.lengths = lengths
        self.groups = groups
        self.order = order


class Rearrange(nn.Module):
    """As einops.layers.torch.Rearrange has what to do for tensors of each rank, here b (c d) -> c b d of two."""

    def __init__(self):
        super().__init__()
        self.recipes: Dict[int, Recipe] = {2: Recipe([-1, 2, -1], [[0], [1, 2]], [1, 0, 2])}
        self.listed: List[Recipe] = [Recipe([], [], [2, 1, 0]), Recipe([], [], [0, 1, 2])]

    def forward(self, x: Tensor) -> Tensor:
        recipe = self.recipes[x.dim()]
        lengths = list(recipe.lengths)
        for i, group in enumerate(recipe.groups):
            known = 1
            for axis in group[:-1]:
                known *= lengths[axis]
            lengths[group[-1]] = x.size(i) // known
        return x.reshape(lengths).permute(recipe.order).permute(self.listed[len(lengths) - 3].order)


class MixedAxes(Rearrange):
    """As einops.layers.torch.EinMix: what is written in place may be the weight as long as nothing is known of it."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.arange(8.0).view(2, 4), requires_grad=False)
        self.bias = nn.Parameter(torch.ones(4), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.einsum("bi,ij->bj", x, self.weight)
        y += self.bias
        recipe = self.recipes[y.dim()]
        lengths = [1]
        for group in recipe.groups:
            lengths.append(len(group))
        return y.view(-1, lengths[2], 2).permute(recipe.order)


class Picks(Rearrange):
    """An object of which nothing tells which one it is."""

    def forward(self, x: Tensor) -> Tensor:
        recipe = self.listed[0]
        if x.sum() > 0:
            recipe = self.listed[1]
        return x.permute(recipe.order)


class Keeps(nn.Module):
    """As attention of timm keeps what it takes out of its tables: computed once, and found again."""
    biases: Dict[str, Tensor]

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.arange(6.0).view(2, 3), requires_grad=False)
        self.register_buffer("places", torch.tensor([2, 0, 1]))
        self.biases = {}
        self.rows: Dict[int, Tensor] = {1: torch.full((3,), 7.0)}
        self.steps: List[int] = [1]

    def bias(self, key: str) -> Tensor:
        if key not in self.biases:
            self.biases[key] = self.table[:, self.places]
        return self.biases[key]

    def row(self, i: int) -> Tensor:
        if i in self.rows:
            return self.rows[i]
        row = self.table[i]
        self.rows[i] = row
        return row

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.bias(str(x.device)) * self.bias("other")
        x = x * self.row(0) + self.row(1)
        self.steps.append(len(self.steps))
        return x + self.steps[-1]


class SharesKept(Keeps):
    """What is put beside a parameter may be written with it."""

    def __init__(self):
        super().__init__()
        self.shared: Dict[str, Tensor] = {"table": self.table}

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.bias("own") * self.row(0)
        if "x" not in self.shared:
            self.shared["x"] = x
        self.shared["table"].add_(1)
        return x + self.shared["x"].sum() + self.table


class TwiceThere(nn.Module):
    """A list that is in one tuple, and by that twice in a list."""
    pairs: List[Tuple[int, List[int]]]

    def __init__(self):
        super().__init__()
        self.pairs = [(1, [2])]

    @torch.jit.export
    def link(self):
        self.pairs.append(self.pairs[0])

    def forward(self, x: Tensor) -> Tensor:
        self.pairs[0][1].append(3)
        return x * len(self.pairs[1][1])


if __name__ == "__main__":
    for kind, name in ((Layers, "dicts_2.pt"), (Writes, "dicts_written_2.pt"), (Rearrange, "rearrange_2.pt"),
                       (MixedAxes, "mixed_axes_2.pt"),
                       (Picks, "picked_2.pt"), (Keeps, "kept_2.pt"), (SharesKept, "shares_kept_2.pt")):
        save(torch.jit.script(kind().eval()), os.path.join(FOLDER, name))
    twice = torch.jit.script(TwiceThere().eval())
    twice.link()
    save(twice, os.path.join(FOLDER, "twice_there_2.pt"))
