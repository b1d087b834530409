#!/usr/bin/env python3
"""Archives whose operators have the meaning of an older version, with what PyTorch 1.13 makes of them.

    /usr/bin/python3 make_version_archives.py OUT

OUT/NAME is as export_archives.py writes it; pack_archives.py packs it for the unit tests. Each file is saved by today's
PyTorch; then its version is set back, and where an argument could be left out before, the code is changed to do so.
"""
import json
import os
import sys
import zipfile

import torch

from export_archives import item


def div(a, b):
    return a / b, torch.div(a, 2), torch.div(a, 0.5), b.div(3), torch.div(a, b, rounding_mode="floor")


def div_in_place(a, b):
    c = a.clone().div_(b)
    return c, a.clone().div_(2), torch.div(a, b, out=a.clone())


def div_modes(a, b):
    return (torch.div(a, 2, rounding_mode="trunc"), a.clone().div_(b, rounding_mode="floor"),
            a.clone().div_(2, rounding_mode="floor"), torch.div(a, b, rounding_mode="trunc", out=a.clone()))


def full(n: int):
    return torch.full([2, n], 3), torch.full([2], 3, dtype=torch.int64), torch.full([1], 2.5)


def full_names(n: int):
    return torch.full([n], 3, names=None), torch.full([n], 3, names=None, dtype=torch.int64)


def full_out(n: int):
    return torch.full([2, n], 3, out=torch.zeros(2, n, dtype=torch.int64))


def linspace(a: int):
    return torch.linspace(a, 3, 100), torch.linspace(a, 3, 4)


def linspace_out(a: int):
    return torch.linspace(a, 3, 100, out=torch.zeros(100))


def logspace(a: int):
    return torch.logspace(a, 1, 100), torch.logspace(a, 1, 4, 2.)


def logspace_out(a: int):
    return torch.logspace(a, 1, 100, out=torch.zeros(100))


def gelu(x):
    return torch.nn.functional.gelu(x)


INTEGERS = (torch.tensor([7, -7, 5]), torch.tensor([2, 2, -3]))
FLOATS = (torch.tensor([7.0, -7.0, 5.0]), torch.tensor([2, 2, -3]))
CASES = [  # name, function, version, inputs, what its code says otherwise
    ("div_integers", div, 3, INTEGERS, {}),
    ("div_floats", div, 3, FLOATS, {}),
    ("div_integers_today", div, 4, INTEGERS, {}),
    ("div_in_place_integers", div_in_place, 3, INTEGERS, {}),
    ("div_in_place_floats", div_in_place, 3, FLOATS, {}),
    ("div_modes", div_modes, 3, INTEGERS, {}),
    ("full", full, 4, (2,), {}),
    ("full_today", full, 5, (2,), {}),
    ("full_names", full_names, 4, (2,), {}),
    ("full_out", full_out, 4, (2,), {}),
    ("linspace", linspace, 7, (1,), {"3, 100": "3"}),
    ("linspace_none", linspace, 7, (1,), {"3, 100": "3, None"}),
    ("linspace_out", linspace_out, 7, (1,), {"3, 100": "3"}),
    ("logspace", logspace, 8, (0,), {"1, 100": "1"}),
    ("logspace_out", logspace_out, 8, (0,), {"1, 100": "1"}),
    ("gelu", gelu, 9, (torch.tensor([-1.0, 0.5, 2.0]),), {}),
]




def set_back(source, target, version, changes):
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            if info.filename.endswith("version"):
                data = f"{version}\n".encode()
            if info.filename.endswith(".debug_pkl"):
                continue
            if info.filename.endswith(".py"):
                text = data.decode()
                for before, after in changes.items():
                    if before not in text:
                        raise ValueError(f"{target}: the code does not say {before!r}: {text}")
                    text = text.replace(before, after)
                data = text.encode()
            new.writestr(zipfile.ZipInfo(info.filename), data)


def main():
    (out,) = sys.argv[1:]
    for name, function, version, inputs, changes in CASES:
        folder = os.path.join(out, name)
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "model.pt")
        torch.jit.script(function).save(path + ".new")
        set_back(path + ".new", path, version, changes)
        os.remove(path + ".new")
        values = [v.clone() if isinstance(v, torch.Tensor) else v for v in inputs]
        result = torch.jit.load(path)(*values)
        json.dump([item(v, folder, f"in{i}") for i, v in enumerate(inputs)], open(os.path.join(folder, "inputs.json"), "w"))
        json.dump([item(result, folder, "out")], open(os.path.join(folder, "outputs.json"), "w"))


if __name__ == "__main__":
    main()
