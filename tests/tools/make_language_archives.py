#!/usr/bin/env python3
"""Writes tests/data/language/optional_cache.pt, a scripted decoder that may be given a cache, and prints its greedy tokens, also
with its words negated and half of its queries, keys and values.

    cd tests/tools; /usr/bin/python3 make_language_archives.py
"""
from typing import List, Optional, Tuple

import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(13, 8), nn.Embedding(24, 8)
        self.qkv, self.o, self.head = (nn.Linear(8, n, bias=False) for n in (24, 8, 13))
        with torch.no_grad():
            for p in self.parameters():
                p.mul_(2)

    def forward(self, ids, cache: Optional[List[Tuple[torch.Tensor, torch.Tensor]]] = None, scale: float = 0.5):
        b, t = ids.size()
        x = self.words(ids) + self.places(torch.arange(t))
        q, k, v = self.qkv(x).view(b, t, 3, 2, -1).permute(2, 0, 3, 1, 4).unbind(0)
        if cache is not None:
            k, v = torch.cat([cache[0][0], k], 2), torch.cat([cache[0][1], v], 2)
        s = torch.matmul(q, k.transpose(2, 3)) * scale
        mask = torch.ones(t, k.size(2), dtype=torch.bool).tril(diagonal=k.size(2) - t)
        y = torch.matmul(s.masked_fill(~mask, -float("inf")).softmax(-1), v)
        return self.head(x + self.o(y.transpose(1, 2).flatten(2))), [(k, v)]


def main():
    torch.manual_seed(0)
    model = torch.jit.script(Decoder().eval())
    torch.jit.save(model, "../data/language/optional_cache.pt")
    say(model)
    with torch.no_grad():
        model.words.weight.neg_()
        model.qkv.weight.mul_(0.5)
    say(model)


def say(model):
    for prompt in ([3, 11, 7, 1], [0, 12, 5, 5, 2, 9, 4], [8]):
        ids = list(prompt)
        for _ in range(9):
            with torch.no_grad():
                ids.append(int(model(torch.tensor([ids]))[0][0, -1].argmax()))
        print(ids[len(prompt):])


if __name__ == "__main__":
    main()
