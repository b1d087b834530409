#!/usr/bin/env python3
"""Writes decoders for one token a call that keep states: tests/data/language/states_*.pt; and prints their greedy tokens.

    cd tests/tools; python3 make_state_archives.py
"""
import io
import os
import zipfile
from typing import List

import torch
from torch import nn
from torch.nn import functional

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "language")
PROMPTS = ([3, 11, 7, 1], [0, 12, 5, 5, 2, 9, 4], [8])


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(13, 8), nn.Linear(8, 13, bias=False)


class Sums(Decoder):
    """Sums of products of keys and values; of several tokens it takes the first."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, ids, s):
        x = self.words(ids)
        q, k, v = self.qkv(x[:, 0]).chunk(3, -1)
        s = 0.9 * s + k.unsqueeze(2) * v.unsqueeze(1)
        return self.head(x + torch.bmm(q.unsqueeze(1), s)), s


class Window(Decoder):
    """The last inputs of a convolution."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(8, 8, 4, groups=8)

    def forward(self, ids, last):
        x = self.words(ids)
        all = torch.cat((last, x.transpose(1, 2)), 2)
        return self.head(x + self.conv(all).transpose(1, 2)), all[:, :, -3:]


class Projected(Decoder):
    def __init__(self):
        super().__init__()
        self.layer, self.out = nn.LSTM(8, 6, 2, batch_first=True, proj_size=4), nn.Linear(4, 8)

    def forward(self, ids, h, c):
        x = self.words(ids)
        y, (h, c) = self.layer(x, (h, c))
        return self.head(x + self.out(y)), h, c


class Cells(Decoder):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = nn.GRUCell(8, 6), nn.LSTMCell(6, 5), nn.Linear(5, 8)

    def forward(self, ids, g, h, c):
        x = self.words(ids)
        g = self.first(x[:, 0], g)
        h, c = self.second(g, (h, c))
        return self.head(x + self.out(h).unsqueeze(1)), g, h, c


class Relayed(Decoder):
    """How many texts there are follows from its first state, and of the second one from that."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, ids, last, sums):
        x = self.words(ids)[:, 0]
        sums = 0.9 * sums + self.layer(0.6 * x + 0.4 * last)
        return self.head(x + sums).unsqueeze(1), x, sums


class Held(Decoder):
    """What it keeps becomes another tensor in each call."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.register_buffer("sums", torch.zeros(1, 8, 8))

    def forward(self, ids):
        x = self.words(ids)
        q, k, v = self.qkv(x[:, 0]).chunk(3, -1)
        self.sums = 0.9 * self.sums + k.unsqueeze(2) * v.unsqueeze(1)
        return self.head(x + torch.bmm(q.unsqueeze(1), self.sums))


class Listed(Decoder):
    """What it keeps is in a list."""

    kept: List[torch.Tensor]

    def __init__(self):
        super().__init__()
        self.kept = [torch.zeros(1, 1, 8)]

    def forward(self, ids):
        self.kept[0] = 0.5 * self.kept[0] + self.words(ids)
        return self.head(self.kept[0])


def made(kind):
    torch.manual_seed(3)
    model = kind().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(2)
    return model


def save(module, path):
    """Without the places of its source."""
    whole = io.BytesIO()
    torch.jit.save(module, whole)
    with zipfile.ZipFile(whole) as given, zipfile.ZipFile(path, "w") as kept:
        for entry in given.infolist():
            if not entry.filename.endswith(".debug_pkl"):
                kept.writestr(zipfile.ZipInfo(entry.filename), given.read(entry), entry.compress_type)


def greedy(path, states, prompt):
    model, ids, given = torch.jit.load(path), list(prompt), [torch.zeros(s) for s in states]
    at = 0
    while len(ids) < len(prompt) + 9:
        while at < len(ids):
            out = model(torch.tensor([[ids[at]]]), *given)
            logits, given = (out[0], list(out[1:])) if states else (out, [])
            at += 1
        ids.append(int(functional.log_softmax(logits, -1)[0, -1].argmax()))
    return ids[len(prompt) :]


if __name__ == "__main__":
    with torch.no_grad():
        for name, kind, states in (
            ("sums", Sums, [(1, 8, 8)]),
            ("window", Window, [(1, 8, 3)]),
            ("projected", Projected, [(2, 1, 4), (2, 1, 6)]),
            ("cells", Cells, [(1, 6), (1, 5), (1, 5)]),
            ("relayed", Relayed, [(1, 8), (1, 8)]),
            ("held", Held, []),
            ("listed", Listed, []),
        ):
            path = os.path.join(FOLDER, f"states_{name}.pt")
            model, example = made(kind), (torch.tensor([[5]]), *(torch.rand(s) for s in states))
            saved = torch.jit.trace(model, example, check_trace=False) if states else torch.jit.script(model)
            save(saved, path)
            print(name, [greedy(path, states, prompt) for prompt in PROMPTS])
