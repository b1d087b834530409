#!/usr/bin/env python3
"""Random cases for plugins with the results that PyTorch and numpy compute from the formulas: tests/data/plugins.

    plugin_goldens.py [--count N] [--seed S] [--out FOLDER] [PLUGIN...]

Each plugin has a function here or in plugin_goldens_*.py, case(r), which makes one random case with r, a Random.
"""
import argparse
import glob
import importlib
import json
import math
import os
import random
import sys

import numpy as np
import torch

torch.set_num_threads(1)
GENERATORS = {}


def plugin(name):
    """A generator of cases of this plugin: function(r) -> Case."""
    def register(function):
        GENERATORS[name] = function
        return function
    return register


class Random(random.Random):
    def chance(self, p=0.5):
        return self.random() < p

    def floats(self, *sizes, dtype=torch.float32, scale=1.0):
        generator = torch.Generator().manual_seed(self.getrandbits(48))
        # Three digits, so that files stay small.
        values = torch.randn(*sizes, generator=generator, dtype=torch.float64) * scale
        step = 10.0 ** torch.floor(torch.log10(values.abs().clamp_min(1e-30)) - 2)
        return (torch.round(values / step) * step).to(dtype)

    def ints(self, low, high, *sizes, dtype=torch.int8):
        generator = torch.Generator().manual_seed(self.getrandbits(48))
        return torch.randint(low, high + 1, sizes, generator=generator).to(dtype)

    def row_type(self):
        return self.choice([torch.float32, torch.float32, torch.float16, torch.bfloat16])

    def sizes(self, rank_choices=(1, 2), most=4):
        """Leading sizes, now and then an empty one."""
        sizes = [self.randint(1, most) for _ in range(self.choice(rank_choices))]
        if self.chance(0.03):
            sizes[0] = 0
        return sizes


def ints(values):
    return torch.tensor(values, dtype=torch.int32)


NAMES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float64: "float64",
         torch.int8: "int8", torch.uint8: "uint8", torch.int32: "int32", torch.int64: "int64", torch.bool: "bool"}
# How far a result may be off, relative to 1 + the largest magnitude: the rounding of the type and of f32 sums.
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12, torch.float16: 1.5e-3, torch.bfloat16: 1.2e-2}


def number(v, digits):
    if isinstance(v, (bool, int)):
        return int(v)
    if math.isnan(v):
        return "nan"
    if math.isinf(v):
        return "inf" if v > 0 else "-inf"
    return float(digits % v) if v or math.copysign(1, v) < 0 else 0


def described(t):
    # As few as tell the values of the type apart; of f32 results the last ones do not matter, inputs have few.
    digits = {torch.float64: "%.17g", torch.float16: "%.5g", torch.bfloat16: "%.4g"}.get(t.dtype, "%.8g")
    values = [number(v, digits) for v in t.flatten().tolist()]
    return {"dtype": NAMES[t.dtype], "sizes": list(t.shape), "values": values}


class Case:
    """One node: its fields, its inputs by name, the results."""

    def __init__(self, fields, inputs, outputs, slack=0, kernel_only=None):
        self.fields = {k: v for k, v in fields.items() if v is not None}
        self.inputs = {k: v for k, v in inputs.items() if v is not None}
        self.outputs = outputs
        self.slack = slack  # what integers may be off by: sums in another order may end beyond a half
        # Whether there is no decomposition; of fp8 and fp4 there is none.
        tensors = list(self.inputs.values()) + outputs
        self.kernel_only = any(t.dtype == torch.uint8 for t in tensors) if kernel_only is None else kernel_only

    @staticmethod
    def attribute(v):
        if isinstance(v, bool):
            return str(int(v))
        if isinstance(v, str):
            return json.dumps(v)
        return repr(v)

    def json(self, name):
        fields = ["%s=%s" % (k, self.attribute(v)) for k, v in self.fields.items()]
        fields.append("inputs=[%s]" % ", ".join(json.dumps(k) for k in self.inputs))
        inputs = ["%%i%d" % i for i in range(len(self.inputs))]
        outputs = ["%%o%d" % i for i in range(len(self.outputs))]
        text = "graph(%s):\n  %s = tensorrt_llm::%s[%s](%s)\n  return (%s)\n" % (
            ", ".join(i + " : Tensor" for i in inputs), ", ".join(o + " : Tensor" for o in outputs), name,
            ", ".join(fields), ", ".join(inputs), ", ".join(outputs))
        tolerances = [TOLERANCE.get(t.dtype, 0) for t in self.outputs]
        case = {"graph": text, "inputs": [described(t) for t in self.inputs.values()],
                "outputs": [described(t) for t in self.outputs], "tolerances": tolerances}
        if self.slack:
            case["slack"] = self.slack
        if self.kernel_only:
            case["kernel_only"] = True
        return case


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, here)
    for path in sorted(glob.glob(os.path.join(here, "plugin_goldens_*.py"))):
        importlib.import_module(os.path.basename(path)[:-3])
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default=os.path.join(here, "..", "data", "plugins"))
    parser.add_argument("plugins", nargs="*")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    for name in options.plugins or sorted(GENERATORS):
        cases = []
        for i in range(options.count):
            cases.append(GENERATORS[name](Random("%s %d %d" % (name, options.seed, i))).json(name))
        with open(os.path.join(options.out, name + ".json"), "w") as out:
            out.write('{"plugin": "%s", "cases": [\n' % name)
            out.write(",\n".join(json.dumps(c, separators=(",", ":")) for c in cases))
            out.write("\n]}\n")


if __name__ == "__main__":
    # The generators import this file under its name: they must see the same table.
    sys.modules["plugin_goldens"] = sys.modules["__main__"]
    main()
