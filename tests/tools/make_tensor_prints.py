#!/usr/bin/python3
"""Writes tests/data/tensor_prints.json: small tensors and how PyTorch prints them as constants of graph text."""
import json
import os
import random

import torch

random.seed(7)
SHAPES = [(), (1,), (2,), (3,), (7,), (10,), (1, 1), (2, 1), (1, 2), (2, 3), (3, 2), (1, 7), (1, 8), (1, 9), (1, 10), (2, 5), (5, 2), (10, 1),
          (1, 1, 2), (2, 1, 2), (1, 1, 10), (1, 1, 9), (2, 2, 2), (1, 2, 5), (1, 1, 1, 3), (2, 1, 1, 2), (1, 1, 2, 1, 2), (0,), (2, 0), (0, 3, 1)]
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.int8, torch.bool]
SPECIAL = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.0, -1.0]


def number(dtype, style):
    if dtype == torch.bool:
        return random.random() < 0.5
    if not dtype.is_floating_point:
        low = 0 if dtype == torch.uint8 else -100
        return random.choice([random.randint(low, 100), random.randint(low, 9)])
    if style == "special" and random.random() < 0.5:
        return random.choice(SPECIAL)
    if style == "whole":
        return float(random.randint(-20, 20000))
    if style == "wide":
        return random.choice([-1, 1]) * 10.0 ** random.randint(-4, 4)
    return random.uniform(-1, 1) * 10.0 ** {"small": -3, "unit": 0, "large": 3, "special": 1}[style]


def printed(t):
    g = torch._C.Graph()
    g.registerOutput(g.insertConstant(t))
    text = str(g)
    return text[text.index("value=") + 6:text.index("]()\n  return")]


def main():
    cases = []
    for i in range(1500):
        dtype, shape = random.choice(DTYPES), random.choice(SHAPES)
        style = random.choice(["small", "unit", "large", "whole", "wide", "special"])
        count = 1
        for s in shape:
            count *= s
        t = torch.tensor([number(dtype, style) for _ in range(count)], dtype=dtype).reshape(shape)
        cases.append({"dtype": str(t.dtype)[6:], "shape": list(shape),
                      "values": [float(v).hex() for v in t.double().flatten().tolist()], "printed": printed(t)})
    unique = list({json.dumps(c): c for c in cases}.values())
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "tensor_prints.json")
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in unique) + "\n]\n")
    print(len(unique), "tensors")


if __name__ == "__main__":
    main()
