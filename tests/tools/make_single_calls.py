#!/usr/bin/env python3
"""Writes decoders into tests/data/language that take one token a call, or two at least, as transformers and others
export them; prints their greedy tokens.

    make_single_calls.py DIR

Wants PyTorch 2.8 or later.
"""
import os
import sys

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

from make_exports import write
from make_state_archives import save
from make_static_caches import LONGEST, PROMPTS, Decoder


def turned(x: Tensor, places: Tensor) -> Tensor:
    """Rotary positions of pairs that lie side by side."""
    angles = places[..., None].float() * torch.tensor([1.0, 0.3])
    a, b = x[..., ::2], x[..., 1::2]
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class Made(Decoder):
    """Joins caches to empty tensors first, as a DynamicCache does; places count a mask of all tokens. The key is chosen
    by a list, and scores are those of all texts and heads in one dimension."""

    def forward(self, ids: Tensor, attention_mask: Tensor, keys: Tensor, values: Tensor):
        b, n = ids.size(0), keys.size(2)
        keys, values = torch.cat([torch.tensor([]), keys], -2), torch.cat([torch.tensor([]), values], -2)
        places = (torch.ones(b, n + 1).cumsum(1) - 1).long()[:, n:]
        x = self.words(ids) + self.places(places)
        heads = self.qkv(x).view(b, 1, 6, 4)
        q, k, v = heads[:, :, :2], heads[:, :, [2, 3]], heads[:, :, 4:]
        q, k = turned(q.transpose(1, 2), places), turned(k.transpose(1, 2), places)
        keys, values = torch.cat((keys, k), -2), torch.cat((values, v.transpose(1, 2)), -2)
        scores = torch.bmm(q.reshape(b * 2, 1, 4), keys.reshape(b * 2, n + 1, 4).transpose(1, 2)) / 2
        seen = torch.arange(n + 1)[None] <= torch.arange(1)[:, None] + n
        scores = scores.view(b, 2, 1, n + 1).masked_fill(~(seen & attention_mask[:, None, None].bool()), -1e9)
        y = scores.softmax(-1) @ values
        return self.head(x + self.o(y.transpose(1, 2).flatten(2))), keys, values


class Experts(Decoder):
    """Each token goes to two of four experts, whose rows are sorted by them and put back."""

    def forward(self, ids: Tensor, position_ids: Tensor, keys: Tensor, values: Tensor):
        x, q, k, v = self.heads(ids, position_ids)
        keys, values = torch.concat((keys, k), 2), torch.concat((values, v), 2)
        y = F.scaled_dot_product_attention(q, keys, values)
        x = (x + self.o(y.transpose(1, 2).flatten(2))).view(-1, 8)
        share, chosen = F.linear(x, self.o.weight[:4]).softmax(-1).topk(2)
        expert, order = chosen.reshape(-1).sort()
        rows = x[order // 2]
        weights = self.qkv.weight.view(3, 8, 8)[[0, 1, 2, 0]]
        rows = (rows[:, None] * weights[expert]).sum(-1) * share.reshape(-1)[order][:, None]
        back = torch.empty_like(order)
        back[order] = torch.arange(order.size(0))
        x = x + rows[back].view(-1, 2, 8).sum(1)
        return self.head(x).view(ids.size(0), ids.size(1), -1), keys, values


class Start(Decoder):
    """Is given the place of its token as a number, writes there, and reads its caches up to it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, LONGEST, 2, 4))
        self.register_buffer("values", torch.zeros(1, LONGEST, 2, 4))
        self.register_buffer("angles", torch.arange(LONGEST)[:, None] * torch.tensor([1.0, 0.3]))

    def turned(self, x: Tensor, angles: Tensor) -> Tensor:
        z = torch.view_as_complex(x.reshape(1, x.size(1), 2, 2, 2))
        turns = torch.polar(torch.ones_like(angles), angles).view(1, x.size(1), 1, 2)
        return torch.view_as_real(z * turns).flatten(3)

    def forward(self, ids: Tensor, start_pos: int):
        n = ids.size(1)
        end = start_pos + n
        x = self.words(ids) + self.places.weight[start_pos:end]
        q, k, v = self.qkv(x).view(1, n, 3, 2, 4).unbind(2)
        q, k = self.turned(q, self.angles[start_pos:end]), self.turned(k, self.angles[start_pos:end])
        self.keys[:, start_pos:end] = k
        self.values[:, start_pos:end] = v
        keys, values = self.keys[:, :end].transpose(1, 2), self.values[:, :end].transpose(1, 2)
        scores = q.transpose(1, 2) @ keys.transpose(2, 3) / 2
        y = scores.softmax(-1) @ values
        return self.head(x + self.o(y.transpose(1, 2).flatten(2)))


class Numbered(Start):
    """The place of the first of any number of tokens is a tensor, of which a trace makes numbers."""

    def forward(self, ids: Tensor, start_pos: Tensor):
        n = ids.size(1)
        end = start_pos + n
        x = self.words(ids) + self.places.weight[start_pos:end]
        q, k, v = self.qkv(x).view(1, n, 3, 2, 4).unbind(2)
        self.keys[:, start_pos:end] = k
        self.values[:, start_pos:end] = v
        keys, values = self.keys[:, :end].transpose(1, 2), self.values[:, :end].transpose(1, 2)
        return self.logits(x, q.transpose(1, 2), keys, values, self.seen[start_pos:end, :end])


class Listed(Start):
    """The place is the only one of a tensor, of which it is taken."""

    def forward(self, ids: Tensor, input_pos: Tensor):
        start = input_pos[0].item()
        torch._check(start >= 0)
        torch._check(start < LONGEST)
        x, q, k, v = self.heads(ids, (torch.arange(1) + input_pos)[None])
        self.keys.index_copy_(1, torch.arange(1) + start, k.transpose(1, 2))
        self.values.index_copy_(1, torch.arange(1) + start, v.transpose(1, 2))
        return self.logits(x, q, self.keys.transpose(1, 2), self.values.transpose(1, 2), self.seen.narrow(0, start, 1))


class Pairs(Decoder):
    """Its export asks whether the mask tells of one more token, and is for several."""

    def forward(self, ids: Tensor, attention_mask: Tensor, keys: Tensor, values: Tensor):
        n, t = keys.size(2), ids.size(1)
        places = torch.arange(n, n + t)
        x, q, k, v = self.heads(ids, places)
        if attention_mask.size(1) - n == 1:
            x = x.clone()
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        seen = self.seen[places][:, : keys.size(2)] & attention_mask[:, None, None].bool()
        return self.logits(x, q, keys, values, seen), keys, values


class Short(Decoder):
    """Its export is for short caches."""

    def forward(self, ids: Tensor, keys: Tensor, values: Tensor):
        n = keys.size(2)
        places = torch.arange(n, n + ids.size(1))
        x, q, k, v = self.heads(ids, places)
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        return self.logits(x, q, keys, values, self.seen[places][:, : keys.size(2)]), keys, values


class Rows(Decoder):
    """Takes a token without a dimension, and gives one row of logits; states of all layers lie in one tensor."""

    def forward(self, token: Tensor, state: Tensor):
        x = torch.tanh(self.words(token) + self.o(state[0]))
        y = torch.tanh(x + self.o(state[1]))
        return self.head(y), torch.stack((x, y))


class Each(Decoder):
    """Takes one token of each text, in one dimension."""

    def forward(self, token: Tensor, state: Tensor):
        x = torch.tanh(self.words(token) + self.o(state))
        return self.head(x), x


def greedy(step):
    for prompt in PROMPTS:
        call, ids = step(), list(prompt)
        for n in range(len(prompt) + 8):
            logits = call(ids[: n + 1])
            if n + 1 == len(ids):
                ids.append(int(logits.reshape(-1, logits.size(-1))[-1].argmax()))
        print("   ", ids[len(prompt):])


def main():
    folder = sys.argv[1]
    torch.manual_seed(0)
    weights = Decoder().state_dict()

    def made(kind):
        model = kind().eval()
        model.load_state_dict(weights, strict=False)
        return model

    def export(name, kind, args, shapes=None):
        write(torch.export.export(made(kind), args, dynamic_shapes=shapes), os.path.join(folder, name))

    def trace(name, kind, args):
        save(torch.jit.trace(made(kind), args, check_trace=False), os.path.join(folder, name))

    one, three, open_texts = torch.tensor([[5]]), torch.tensor([[5, 9, 2]]), {0: Dim.AUTO}
    grows, cache = {0: Dim.AUTO, 2: Dim.AUTO}, torch.zeros(2, 2, 4, 4)
    with torch.no_grad():
        export("single_made.pt2", Made, (one.repeat(2, 1), torch.ones(2, 5, dtype=torch.long), cache, cache.clone()),
               (open_texts, {0: Dim.AUTO, 1: Dim.AUTO}, grows, grows))
        one_text = torch.zeros(1, 2, 4, 4)
        export("single_experts.pt2", Experts, (one, one - 1, one_text, one_text.clone()),
               (None, None, {2: Dim.AUTO}, {2: Dim.AUTO}))
        export("single_start.pt2", Start, (one, 3), (None, Dim.AUTO))
        export("single_listed.pt2", Listed, (one, torch.tensor([3])))
        trace("static_numbered.pt", Numbered, (three, torch.tensor(2)))
        cache = torch.zeros(1, 2, 4, 4)
        export("grown_pairs.pt2", Pairs, (three, torch.ones(1, 7, dtype=torch.long), cache, cache.clone()),
               ({1: Dim.AUTO}, {1: Dim.AUTO}, {2: Dim.AUTO}, {2: Dim.AUTO}))
        few = {2: Dim("past", max=3)}
        export("grown_short.pt2", Short, (three, cache[:, :, :3], cache[:, :, :3]), ({1: Dim.AUTO}, few, few))
        export("state_row.pt2", Rows, (torch.tensor(5), torch.zeros(2, 8)))
        export("state_each.pt2", Each, (torch.tensor([5, 9]), torch.zeros(2, 8)), (open_texts, open_texts))

        def pairs():
            none = cache[:, :, :0]
            return lambda ids: made(Pairs)(torch.tensor([ids]), torch.ones(1, len(ids)), none, none)[0]

        def grown():
            model, past = made(Made), [torch.zeros(1, 2, 0, 4), torch.zeros(1, 2, 0, 4)]

            def call(ids):
                logits, *past[:] = model(torch.tensor([ids[-1:]]), torch.ones(1, len(ids), dtype=torch.long), *past)
                return logits

            return call

        def experts():
            model, past = made(Experts), [torch.zeros(1, 2, 0, 4), torch.zeros(1, 2, 0, 4)]

            def call(ids):
                logits, *past[:] = model(torch.tensor([ids[-1:]]), torch.tensor([[len(ids) - 1]]), *past)
                return logits

            return call

        def start(number):
            def begin():
                model = made(Numbered if number is torch.tensor else Start)
                return lambda ids: model(torch.tensor([ids[-1:]]), number(len(ids) - 1))

            return begin

        def state(kind, token, *sizes):
            def begin():
                model, kept = made(kind), [torch.zeros(*sizes)]

                def call(ids):
                    logits, kept[0] = model(token(ids[-1]), kept[0])
                    return logits

                return call

            return begin

        for name, step in (("single_made", grown), ("single_experts", experts), ("single_start", start(int)),
                           ("static_numbered", start(torch.tensor)),
                           ("grown_pairs", pairs),
                           ("state_row", state(Rows, torch.tensor, 2, 8)),
                           ("state_each", state(Each, lambda t: torch.tensor([t]), 1, 8))):
            print(name)
            greedy(step)


if __name__ == "__main__":
    main()
