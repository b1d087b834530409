#!/usr/bin/env python3
"""Tells what low precision costs in decisions: trains four small classifiers, compiles each in bf16 and int8, and counts
on held-out inputs how often the largest logit is that of f32.

    precision.py --tool build/release/tools/tscompile [--work build/precision] [--held-out 1000] [MODEL...]

Needs PyTorch 2 and NumPy (./dev oracle). Data are made here, from a seed: pictures of digits (a font that is turned,
scaled, moved and covered with noise), and texts of ten random grammars. Exits 1 if a model agrees with f32 on less than
99 % of the inputs, or if grids by entropy agree less than grids by extremes.
"""
import argparse
import os
import subprocess
import sys

import numpy as np
import torch
from torch import nn

BAR = 0.99
CLASSES, TOKENS, LENGTH = 10, 24, 40
# Rows of five bits, from the top.
FONT = ["0E11131519110E", "040C040404040E", "0E11010204081F", "1F02040201110E", "02060A121F0202",
        "1F101E0101110E", "0608101E11110E", "1F010204080808", "0E11110E11110E", "0E11110F01020C"]


def digits(count, generator):
    """Pictures [count, 1, 28, 28] and their digits."""
    glyphs = torch.tensor([[[int(rows[2 * y:2 * y + 2], 16) >> (4 - x) & 1 for x in range(5)] for y in range(7)]
                           for rows in FONT], dtype=torch.float32)
    label = torch.randint(0, CLASSES, (count,), generator=generator)
    spread = torch.rand(count, 5, generator=generator) * 2 - 1
    angle, scale = spread[:, 0] * 0.35, 1.7 * 1.25 ** spread[:, 1]
    turn = torch.stack([torch.cos(angle), -torch.sin(angle), torch.sin(angle), torch.cos(angle)], 1).view(-1, 2, 2)
    turn = turn * scale.view(-1, 1, 1) * torch.tensor([[1.4], [1.0]])
    where = torch.cat([turn, spread[:, 2:4].unsqueeze(2) * 0.3], 2)
    grid = nn.functional.affine_grid(where, (count, 1, 28, 28), align_corners=False)
    ink = nn.functional.grid_sample(glyphs[label].unsqueeze(1), grid, align_corners=False)
    return ink + 0.6 * torch.randn(ink.shape, generator=generator), label


def texts(count, generator):
    """Tokens [count, LENGTH] of one of ten Markov chains, and which."""
    shape = torch.Generator().manual_seed(7)
    chains = torch.softmax(1.6 * torch.randn(CLASSES, TOKENS, TOKENS, generator=shape), 2)
    label = torch.randint(0, CLASSES, (count,), generator=generator)
    rows = [torch.randint(0, TOKENS, (count,), generator=generator)]
    while len(rows) < LENGTH:
        rows.append(torch.multinomial(chains[label, rows[-1]], 1, generator=generator).squeeze(1))
    return torch.stack(rows, 1), label


def convolution(inputs, outputs, stride=1, groups=1, size=3):
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
                         nn.BatchNorm2d(outputs), nn.ReLU())


class Convolutions(nn.Sequential):
    def __init__(self):
        super().__init__(convolution(1, 16), convolution(16, 32, 2), convolution(32, 32), convolution(32, 64, 2),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES))


class Depthwise(nn.Sequential):
    def __init__(self):
        layers, width = [convolution(1, 16)], 16
        for out, stride in ((32, 2), (32, 1), (64, 2), (64, 1)):
            layers += [convolution(width, width, stride, width), convolution(width, out, size=1)]
            width = out
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(TOKENS, 32)
        self.lstm = nn.LSTM(32, 64, batch_first=True)
        self.head = nn.Linear(64, CLASSES)

    def forward(self, ids):
        return self.head(self.lstm(self.embed(ids))[0].mean(1))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(TOKENS, 64), nn.Parameter(0.02 * torch.randn(LENGTH, 64))
        layer = nn.TransformerEncoderLayer(64, 4, 128, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(64, CLASSES)

    def forward(self, ids):
        return self.head(self.layers(self.embed(ids) + self.place).mean(1))


MODELS = {"convolutions": (Convolutions, digits), "depthwise": (Depthwise, digits), "lstm": (Recurrent, texts),
          "encoder": (Encoder, texts)}


def trained(name, steps):
    torch.manual_seed(1)
    model, data = MODELS[name][0](), MODELS[name][1]
    generator = torch.Generator().manual_seed(2)
    optimiser = torch.optim.AdamW(model.parameters(), 2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, steps)
    for _ in range(steps):
        x, label = data(128, generator)
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), label).backward()
        optimiser.step()
        schedule.step()
    return model.eval()


def saved(name, folder, options):
    """The archive, the held-out inputs with their labels, and the inputs for calibration."""
    os.makedirs(folder, exist_ok=True)
    data, generator = MODELS[name][1], torch.Generator().manual_seed(3)
    held, label = data(options.held_out, generator)
    if not os.path.exists(f"{folder}/model.pt"):
        model = trained(name, options.steps)
        with torch.no_grad():
            torch.jit.trace(model, held[:2]).save(f"{folder}/model.pt")
        np.save(f"{folder}/held.npy", held.numpy())
        np.save(f"{folder}/few.npy", data(64, generator)[0].numpy())
    return label.numpy()


def tool(options, *arguments):
    result = subprocess.run([options.tool, *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if result.returncode:
        sys.exit(f"tscompile {' '.join(arguments)}\n{result.stderr.strip()}")


def decisions(options, folder, precision):
    held = np.load(f"{folder}/held.npy", mmap_mode="r")
    sizes = "x".join([f"1..{len(held)}", *map(str, held.shape[1:])]) + (":i64" if held.dtype == np.int64 else "")
    tool(options, "compile", f"{folder}/model.pt", "-q", "--shape", f"0={sizes}", *precision, "-o", f"{folder}/model.tsce")
    tool(options, "run", f"{folder}/model.tsce", "-q", "--input", f"0=@{folder}/held.npy", "--outputs", f"{folder}/out")
    outputs = [f for f in os.listdir(f"{folder}/out") if f.endswith(".npy")]
    return np.load(f"{folder}/out/{outputs[0]}").argmax(1)


def measured(name, options):
    """How often each precision decides as f32, and how often f32 is right."""
    folder = os.path.join(options.work, name)
    label = saved(name, folder, options)
    f32 = decisions(options, folder, [])
    grid = ["--precision", "int8", "--calibrate", f"{folder}/few.npy", "--calibration"]
    ways = {"bf16": ["--precision", "bf16"], "int8": ["--precision", "int8"], "extremes": [*grid, "minmax"],
            "entropy": [*grid, "entropy"]}
    return (f32 == label).mean(), {way: (decisions(options, folder, words) == f32).mean() for way, words in ways.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", default="build/release/tools/tscompile")
    parser.add_argument("--work", default="build/precision", help="folder for the trained models")
    parser.add_argument("--held-out", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=600, help="of training")
    parser.add_argument("names", nargs="*", metavar="MODEL")
    options = parser.parse_args()
    torch.set_num_threads(1)
    failed = False
    print(f"{'model':14}{'f32 right':>11}{'bf16':>9}{'int8':>9}{'extremes':>10}{'entropy':>9}   as f32")
    for name in options.names or MODELS:
        right, same = measured(name, options)
        print(f"{name:14}{right:11.1%}" + "".join(f"{v:{w}.1%}" for v, w in zip(same.values(), (9, 9, 10, 9))), flush=True)
        failed |= min(same.values()) < BAR or same["entropy"] < same["extremes"]
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
