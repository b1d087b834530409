#!/usr/bin/env python3
"""Makes those of tests/data/exports that other PyTorch versions write, or torchao.

    make_other_exports.py DIR

Makes what the PyTorch that runs it writes in its own way: 2.1 old_signature, 2.3 old_indices and old_slopes, 2.5
old_containers, 2.8 old_folders; later ones with torchao: torchao. The files are as make_exports.py leaves them.
"""
import io
import json
import os
import sys
import zipfile

import torch
from torch import nn
from torch.utils import _pytree

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "samples"))
from torch_values import text_of  # noqa: E402


class Chosen(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.tensor([2, 0]))

    def forward(self, x, i):
        return x[:, i] + 1, x[self.rows, :2], x[..., self.rows]


class Slopes(nn.Module):
    def __init__(self):
        super().__init__()
        self.p, self.q = nn.PReLU(3), nn.PReLU()
        self.p.weight.data.copy_(torch.tensor([0.25, 0.5, -1.0]))

    def forward(self, x, *, scale):
        return self.p(x * scale), self.q(x)[:, 0]


class Containers(nn.Module):
    def forward(self, batch, pair, **more):
        a, (b, c) = pair
        return batch["image"] + a, batch["label"] * b - c * more["scale"]


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(3, 2)
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x, pair):
        y = self.line(x) + pair[0]
        self.count.add_(pair[0].sum(0))
        return {"y": y, "both": (self.count * 1, pair[1] * torch.tensor([1.0, 2.0, 3.0]))}


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def quantized():
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, Int8WeightOnlyConfig, quantize_

    torch.manual_seed(0)
    model = Layers().eval()
    quantize_(model.first, Int8DynamicActivationInt8WeightConfig())
    quantize_(model.second, Int8WeightOnlyConfig())
    return model


def write(name, model, args, kwargs=None, **more):
    program = torch.export.export(model, args, kwargs, **more)
    whole = io.BytesIO()
    torch.export.save(program, whole)
    folder = sys.argv[1]
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(os.path.join(folder, name + ".pt2"), "w") as new:
        for info in old.infolist():
            if "example" in info.filename or "sample" in info.filename or info.filename.endswith("serialization_id"):
                continue
            data = old.read(info)
            if info.filename.endswith("program.json") or "/models/" in info.filename:
                told = json.loads(data)
                for node in told["graph_module"]["graph"]["nodes"]:
                    node["metadata"] = {k: v for k, v in node["metadata"].items() if k == "nn_module_stack"}
                data = json.dumps(told, separators=(",", ":")).encode()
            method = zipfile.ZIP_DEFLATED if info.filename.endswith(".json") else zipfile.ZIP_STORED
            new.writestr(zipfile.ZipInfo(info.filename, (1980, 1, 1, 0, 0, 0)), data, method, 9)
    results = program.module()(*args, **(kwargs or {}))
    rows = [f"in: {text_of(v)}" for v in (*args, *(kwargs or {}).values())]
    rows += [f"out: {text_of(v.detach())}" for v in _pytree.tree_flatten(results)[0]]
    open(os.path.join(folder, name + ".txt"), "w").write("\n".join(rows) + "\n")


def main():
    x = torch.sin(torch.arange(12.0)).reshape(4, 3)
    version = torch.__version__.split(".")[:2]
    if version == ["2", "1"]:
        torch.manual_seed(0)
        added = x[:, :2].contiguous()
        rows = torch.export.dynamic_dim(x, 0)
        write("old_signature", Counted(), (x, (added, x[0].clone())),
              constraints=[rows, torch.export.dynamic_dim(added, 0) == rows])
    elif version == ["2", "3"]:
        write("old_indices", Chosen(), (x, torch.tensor([1, 1, 0])))
        write("old_slopes", Slopes(), (x.reshape(2, 3, 2),), {"scale": torch.tensor(3.0)})
    elif version == ["2", "5"]:
        write("old_containers", Containers(), ({"image": x, "label": x[0]}, (x * 2, [x[1], x[2]])),
              {"scale": torch.tensor(3.0)})
    elif version == ["2", "8"]:
        torch.manual_seed(0)
        write("old_folders", Counted(), (x, (x[:, :2].contiguous(), x[0].clone())))
    else:
        write("torchao", quantized(), (x.reshape(3, 4),))


if __name__ == "__main__":
    main()
