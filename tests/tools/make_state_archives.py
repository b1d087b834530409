#!/usr/bin/env python3
"""Writes decoders for one token a call that keep states: tests/data/language/states_*.pt; and prints their greedy tokens.

    cd tests/tools; python3 make_state_archives.py [NAME...]
"""
import io
import os
import sys
import zipfile
from typing import Dict, List, Optional, Tuple

import torch
from torch import nn
from torch.nn import functional

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "language")
GROWS = 9  # tokens of a cache in the example
PROMPTS = ([3, 11, 7, 1], [0, 12, 5, 5, 2, 9, 4], [8])


class Decoder(nn.Module):
    is_masked, has_place = False, False
    tokens = (1, 1)

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


class Lone(Sums):
    """Its token has no dimension, and gets one, which a token that has one gets as well."""

    tokens = (1,)

    def forward(self, ids, s):
        x = self.words(ids)[:, None]
        q, k, v = self.qkv(x).view(x.size(0), x.size(1), 3, 8).unbind(2)
        s = 0.9 * s + k[:, 0].unsqueeze(2) * v[:, 0].unsqueeze(1)
        return self.head(x + torch.bmm(q, s)), s


class LoneHeld(Sums):
    """The same, kept by the module, and traced."""

    tokens = (1,)

    def __init__(self):
        super().__init__()
        self.register_buffer("s", torch.zeros(1, 8, 8))

    def forward(self, ids):
        x = self.words(ids)
        q, k, v = self.qkv(x).chunk(3, -1)
        s = 0.9 * self.s + k.unsqueeze(2) * v.unsqueeze(1)
        self.s.copy_(s)
        return self.head(x + torch.bmm(q.unsqueeze(1), s)[:, 0])


class Placed(Sums):
    """The same, put into zeros of its own form: nothing else tells that there is one text."""

    def forward(self, ids, s):
        x = self.words(ids)
        q, k, v = self.qkv(x[:, 0]).chunk(3, -1)
        s = 0.9 * s + k.unsqueeze(2) * v.unsqueeze(1)
        y = torch.zeros(ids.shape[0], 1, 8)
        y[:, 0] = torch.matmul(q.unsqueeze(1), s)[:, 0]
        return self.head(x + y), s


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


class Delayed(Decoder):
    """One state becomes the other."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, ids, before, last):
        x = self.words(ids)
        return self.head(x + self.first(before) - self.second(last)), last, x


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


class LeftOut(Sums):
    """Its state may be left out, and a call without it knows of its last token alone."""

    def forward(self, ids, s: Optional[torch.Tensor] = None):
        x = self.words(ids[:, -1:])
        q, k, v = self.qkv(x[:, 0]).chunk(3, -1)
        own = k.unsqueeze(2) * v.unsqueeze(1)
        s = own if s is None else 0.9 * s + own
        return self.head(x + torch.bmm(q.unsqueeze(1), s)), s


class HandedOn(Sums):
    """Returns what it is given beside its state, and does nothing with it."""

    def forward(self, ids, s, other):
        y, s = Sums.forward(self, ids, s)
        return y, s, other


class Asked(Decoder):
    """Keys are in a dict and values in a list, which hold none in the first call."""

    first = staticmethod(lambda: [{}, [None]])

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(
        self, ids, past: Dict[str, torch.Tensor], last: List[Optional[torch.Tensor]]
    ) -> Tuple[torch.Tensor, Dict[str, torch.Tensor], List[Optional[torch.Tensor]]]:
        x = self.words(ids)
        q, k, v = self.qkv(x).chunk(3, -1)
        if "keys" in past:
            k = torch.cat([past["keys"], k], 1)
        before = last[0]
        if before is not None:
            v = torch.cat([before, v], 1)
        past["keys"] = k
        tokens, all = ids.size(1), k.size(1)
        later = torch.ones(tokens, all).tril(all - tokens) == 0
        now: List[Optional[torch.Tensor]] = [v]
        return self.head(x + (q @ k.transpose(1, 2)).masked_fill(later, -1e9).softmax(-1) @ v), past, now


class Sliced(Decoder):
    """Its caches are written by slice_scatter, at a place that is a tensor."""

    has_place = True

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, ids, input_pos, keys, values):
        x, at = self.words(ids), input_pos[0]
        q, k, v = self.qkv(x).chunk(3, -1)
        keys, values = keys.slice_scatter(k, 1, at, at + 1), values.slice_scatter(v, 1, at, at + 1)
        later = torch.arange(24) > at
        return self.head(x + (q @ keys.transpose(1, 2)).masked_fill(later, -1e9).softmax(-1) @ values), keys, values


class Attention(Decoder):
    """Keys and values of earlier tokens are joined in front."""

    def __init__(self):
        super().__init__()
        self.heads, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def seen(self, x, keys, values, shown=None):
        q, k, v = self.heads(x).view(x.shape[0], x.shape[1], 3, 2, 4).permute(2, 0, 3, 1, 4)
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        tokens, all = x.shape[1], keys.shape[2]
        hidden = torch.ones(tokens, all).tril(all - tokens) == 0
        if shown is not None:
            hidden = hidden | (shown[:, None, None] == 0)
        y = (q @ keys.transpose(2, 3) / 2).masked_fill(hidden, -1e9).softmax(-1) @ values
        return x + self.out(y.transpose(1, 2).reshape(x.shape)), keys, values


class Beside(Attention):
    """States of other dimensions beside caches that grow: the token before, the inputs of a convolution, sums."""

    def __init__(self):
        super().__init__()
        self.mixed, self.conv, self.gates = nn.Linear(8, 8), nn.Conv1d(8, 8, 3, groups=8), nn.Linear(8, 24)

    def forward(self, ids, keys, values, last, inputs, sums):
        x, keys, values = self.seen(self.words(ids), keys, values)
        before = torch.cat([last, x[:, :-1]], 1)
        x, last = x + self.mixed(before), x[:, -1:]
        inputs = torch.cat([inputs, x.transpose(1, 2)], 2)
        x = x + self.conv(inputs).transpose(1, 2)
        q, k, v = self.gates(x).chunk(3, -1)
        k = k.softmax(-1)
        y = (q @ k.transpose(1, 2)).tril() @ v + q @ sums
        return self.head(x + y), keys, values, last, inputs[:, :, -2:], sums + k.transpose(1, 2) @ v


class After(Attention):
    """The same for one token a call."""

    def __init__(self):
        super().__init__()
        self.qkv, self.decay = nn.Linear(8, 24), nn.Parameter(torch.rand(8, 8))
        self.weights = nn.Parameter(torch.rand(8, 3))

    def forward(self, ids, keys, values, sums, inputs):
        x, keys, values = self.seen(self.words(ids), keys, values)
        q, k, v = self.qkv(x[:, 0]).chunk(3, -1)
        sums = sums * torch.sigmoid(self.decay) + torch.einsum("bk,bv->bkv", k, v)
        inputs = torch.cat([inputs[:, :, 1:], x.transpose(1, 2)], 2)
        y = torch.einsum("bk,bkv->bv", q, sums) + (inputs * self.weights).sum(-1)
        return self.head(x + y.unsqueeze(1)), keys, values, sums, inputs


class Masked(Attention):
    """A mask of the tokens of all calls, and positions, beside a cache and the token before."""

    is_masked = True

    def __init__(self):
        super().__init__()
        self.places, self.mixed = nn.Embedding(64, 8), nn.Linear(8, 8)

    def forward(self, ids, attention_mask, position_ids, keys, values, last):
        x, keys, values = self.seen(self.words(ids) + self.places(position_ids), keys, values, attention_mask)
        return self.head(x + self.mixed(torch.cat([last, x[:, :-1]], 1))), keys, values, x[:, -1:]


class MaskedOne(Masked):
    """The same for one token a call."""

    def forward(self, ids, attention_mask, position_ids, keys, values, last):
        x, keys, values = self.seen(self.words(ids) + self.places(position_ids), keys, values, attention_mask)
        return self.head(x + self.mixed(last)), keys, values, x


class Extra(Decoder):
    """Returns a hidden value of its state's form before the state."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, ids, state):
        x = self.words(ids)[:, 0]
        state = 0.8 * state.relu() + self.layer(x)
        hidden = torch.tanh(-x - state)
        return self.head(hidden + 3 * state).unsqueeze(1), hidden, state


class Shifted(Decoder):
    """Of a window that nothing in its file tells the length of."""

    def forward(self, ids, inputs):
        x = self.words(ids)
        inputs = torch.cat([inputs[:, :, 1:], x.transpose(1, 2)], 2)
        return self.head(x + inputs.sum(-1).unsqueeze(1)), inputs


class Taps(Window):
    """Keeps as many inputs as it was given, of which its convolution reads the last ones."""

    def forward(self, ids, last):
        x = self.words(ids)
        all = torch.cat((last, x.transpose(1, 2)), 2)
        y = self.conv(all)[:, :, -x.shape[1] :]
        return self.head(x + y.transpose(1, 2)), all[:, :, -last.shape[2] :]


class Padded(Decoder):
    """Takes the place of its convolution that is right for a window of 3 alone, of which nothing tells."""

    def __init__(self):
        super().__init__()
        self.conv, self.kinds = nn.Conv1d(8, 8, 4, groups=8, padding=3), nn.Embedding(2, 8)

    def forward(self, ids, inputs):
        x = (self.words(ids) + self.kinds((ids > 6).long())).transpose(1, 2)
        y = self.conv(torch.cat([inputs, x], 2))[:, :, 3:4]
        return self.head((x + y).transpose(1, 2)), torch.cat([inputs[:, :, 1:], x], 2)


class Rolled(Decoder):
    """The same as Shifted, the newest one first."""

    def forward(self, ids, inputs):
        x = self.words(ids)
        inputs = torch.roll(inputs, 1, 1).clone()
        inputs[:, 0] = x[:, 0]
        return self.head(x + inputs.sum(1).unsqueeze(1)), inputs


class Ring(Decoder):
    """The same, at the place that follows from how many there are."""

    has_place = True

    def forward(self, ids, input_pos, inputs):
        x = self.words(ids)
        inputs = inputs.index_copy(1, input_pos % inputs.shape[1], x)
        return self.head(x + inputs.sum(1, keepdim=True)), inputs


class Unmasked(Decoder):
    """All places of a cache are seen, and nothing tells how many there are."""

    has_place = True

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, ids, input_pos, keys, values):
        x = self.words(ids)
        q, k, v = self.qkv(x).chunk(3, -1)
        keys, values = keys.index_copy(1, input_pos, k), values.index_copy(1, input_pos, v)
        return self.head(x + (q @ keys.transpose(1, 2)).softmax(-1) @ values), keys, values


class Cut(Attention):
    """Its caches are of the last tokens, and may begin with none or with zeros."""

    def __init__(self):
        super().__init__()
        self.mixed = nn.Linear(8, 8)

    def forward(self, ids, keys, values, last):
        x, keys, values = self.seen(self.words(ids), keys, values)
        return self.head(x + self.mixed(last)), keys[:, :, -5:], values[:, :, -5:], x[:, -1:]


class Unchanged(Decoder):
    """What it is given beside a state is not its own."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, ids, sums, memory):
        x = self.words(ids)[:, 0]
        sums = 0.5 * sums + self.layer(x)
        return self.head(x + sums + memory), sums, memory


class Swapped(Attention):
    """Two of its states change places."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, ids, keys, values, last, seen):
        x = self.words(ids)
        y, keys, values = self.seen(x, keys, values)
        y = y + self.first(torch.cat([last, x[:, :-1]], 1))
        z = y + self.second(torch.cat([seen, y[:, :-1]], 1))
        return self.head(z), keys, values, y[:, -1:], x[:, -1:]


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


def beside(kind, tokens, before):
    """A mask and positions."""
    places = torch.arange(before, before + tokens)[None]
    if kind.has_place:
        return (places[0],)
    return (torch.ones(1, before + tokens, dtype=torch.long), places) if kind.is_masked else ()


def greedy(path, kind, states, prompt):
    model, ids = torch.jit.load(path), list(prompt)
    given = [zeros(s) for s in states] or (kind.first() if hasattr(kind, "first") else [])
    at = 0
    while len(ids) < len(prompt) + 9:
        while at < len(ids):
            out = model(torch.tensor([ids[at]]).view(kind.tokens), *beside(kind, 1, at), *given)
            logits, given = (out[0], list(out[1 : 1 + len(given)])) if isinstance(out, tuple) else (out, [])
            at += 1
        ids.append(int(functional.log_softmax(logits, -1).reshape(-1, 13)[-1].argmax()))
    return ids[len(prompt) :]


class Counted(Decoder):
    """Its count chooses rows of a table."""

    def __init__(self):
        super().__init__()
        self.layer, self.places = nn.Linear(8, 8), nn.Embedding(64, 8)

    def forward(self, ids, state, count):
        state = 0.5 * state + self.layer(self.words(ids)[:, 0] + self.places(count))
        return self.head(state), state, count + 1


class Marked(Decoder):
    """Marks words that were there."""

    def forward(self, ids, seen):
        seen = seen | (ids == torch.arange(13))
        logits = self.head(self.words(ids)[:, 0])
        return torch.where(seen, logits - 2, logits), seen


class Rounded(Decoder):
    """A state of 8 bits, which wraps."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, ids, state):
        x = self.words(ids)[:, 0]
        state = state + (self.layer(x) * 60).round().to(torch.int8)
        return self.head(x + state / 60), state


class Quantised(Decoder):
    """A cache of 8 bits, which a trace writes with rows that have lost their dimensions."""

    has_place = True

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, ids, input_pos, keys, values):
        x = self.words(ids)
        q, k, v = self.qkv(x).chunk(3, -1)
        keys, values = keys.clone(), values.clone()
        keys[:, input_pos], values[:, input_pos] = (k * 40).round().to(torch.int8), (v * 40).round().to(torch.int8)
        later = torch.arange(keys.shape[1])[None] > input_pos[:, None]
        scores = (q @ (keys / 40.0).transpose(1, 2)).masked_fill(later, -1e9)
        return self.head(x + scores.softmax(-1) @ (values / 40.0)), keys, values


class Copied(Decoder):
    """Nothing but its example tells that numbers are rounded to 8 bits."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(5, 8))

    def forward(self, ids, last):
        x = self.words(ids)
        last = torch.cat((last[:, 1:], torch.zeros_like(last[:, :1])), 1)
        last[:, -1:].copy_((x * 40).round())
        return self.head(x + (last.float() * self.weight).sum(1, keepdim=True) / 40), last


class Behind(Decoder):
    """Returns hidden values of its state's form behind what the next call is given."""

    def __init__(self):
        super().__init__()
        self.layer, self.mixed = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, ids, keys, values, last):
        x = self.words(ids)
        q, k, v = self.layer(x).chunk(3, -1)
        keys, values = torch.cat((keys, k), 1), torch.cat((values, v), 1)
        tokens, all = x.shape[1], keys.shape[1]
        later = torch.ones(tokens, all).tril(all - tokens) == 0
        y = x + (q @ keys.transpose(1, 2)).masked_fill(later, -1e9).softmax(-1) @ values
        y = y + self.mixed(torch.cat((last, x[:, :-1]), 1))
        return self.head(y), keys, values, x[:, -1:], y[:, -1:]


class Unread(Decoder):
    """Returns the next value of a state that it does not read."""

    def __init__(self):
        super().__init__()
        self.layer, self.other = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, ids, a, b, c):
        x = self.words(ids)[:, 0]
        a, b = self.other(x), 0.5 * b + self.layer(x)
        c = 0.9 * c + a
        return self.head(x + b - c), a, b, c


class Exchanged(Decoder):
    """Returns its caches in another order, which one call with all tokens does not show."""

    has_place = True

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, ids, input_pos, keys, values):
        x = self.words(ids)
        q, k, v = self.qkv(x).chunk(3, -1)
        keys, values = keys.index_copy(1, input_pos, k), values.index_copy(1, input_pos, v)
        later = torch.arange(keys.shape[1])[None] > input_pos[:, None]
        scores = (q @ keys.transpose(1, 2)).masked_fill(later, -1e9)
        return self.head(x + scores.softmax(-1) @ values), values, keys


def zeros(state):
    sizes, dtype = state if isinstance(state[0], tuple) else (state, torch.float32)
    return torch.zeros([0 if size == GROWS else size for size in sizes], dtype=dtype)


def random(state):
    return (torch.rand(state[0]) * 5).to(state[1]) if isinstance(state[0], tuple) else torch.rand(state)


if __name__ == "__main__":
    with torch.no_grad():
        for name, kind, states in (
            ("sums", Sums, [(1, 8, 8)]),
            ("lone", Lone, [(1, 8, 8)]),
            ("lone_held", LoneHeld, []),
            ("placed", Placed, [(1, 8, 8)]),
            ("window", Window, [(1, 8, 3)]),
            ("projected", Projected, [(2, 1, 4), (2, 1, 6)]),
            ("cells", Cells, [(1, 6), (1, 5), (1, 5)]),
            ("relayed", Relayed, [(1, 8), (1, 8)]),
            ("held", Held, []),
            ("beside", Beside, [(1, 2, GROWS, 4), (1, 2, GROWS, 4), (1, 1, 8), (1, 8, 2), (1, 8, 8)]),
            ("masked", Masked, [(1, 2, GROWS, 4), (1, 2, GROWS, 4), (1, 1, 8)]),
            ("masked_one", MaskedOne, [(1, 2, GROWS, 4), (1, 2, GROWS, 4), (1, 1, 8)]),
            ("extra", Extra, [(1, 8)]),
            ("shifted", Shifted, [(1, 8, 3)]),
            ("padded", Padded, [(1, 8, 3)]),
            ("taps", Taps, [(1, 8, 5)]),
            ("delayed", Delayed, [(1, 1, 8), (1, 1, 8)]),
            ("rolled", Rolled, [(1, 3, 8)]),
            ("ring", Ring, [(1, 3, 8)]),
            ("unmasked", Unmasked, [(1, 24, 8), (1, 24, 8)]),
            ("cut", Cut, [(1, 2, GROWS, 4), (1, 2, GROWS, 4), (1, 1, 8)]),
            ("unchanged", Unchanged, [(1, 8), (1, 8)]),
            ("swapped", Swapped, [(1, 2, GROWS, 4), (1, 2, GROWS, 4), (1, 1, 8), (1, 1, 8)]),
            ("after", After, [(1, 2, GROWS, 4), (1, 2, GROWS, 4), (1, 8, 8), (1, 8, 3)]),
            ("listed", Listed, []),
            ("handed_on", HandedOn, [(1, 8, 8), (1, 5)]),
            ("asked", Asked, []),
            ("sliced", Sliced, [(1, 24, 8), (1, 24, 8)]),
            ("left_out", LeftOut, []),
            ("counted", Counted, [(1, 8), ((1,), torch.long)]),
            ("marked", Marked, [((1, 13), torch.bool)]),
            ("rounded", Rounded, [((1, 8), torch.int8)]),
            ("quantised", Quantised, [((1, 24, 8), torch.int8), ((1, 24, 8), torch.int8)]),
            ("behind", Behind, [(1, GROWS, 8), (1, GROWS, 8), (1, 1, 8)]),
            ("unread", Unread, [(1, 8), (1, 8), (1, 8)]),
            ("exchanged", Exchanged, [(1, 24, 8), (1, 24, 8)]),
            ("copied", Copied, [((1, 5, 8), torch.int8)]),
        ):
            if sys.argv[1:] and name not in sys.argv[1:]:
                continue
            path = os.path.join(FOLDER, f"states_{name}.pt")
            ids = torch.tensor([[5, 3, 7]] if kind in (Beside, Masked, Swapped, Behind, Exchanged) else [[5]])
            ids = ids.view(kind.tokens) if ids.numel() == 1 else ids
            example = (ids, *beside(kind, ids.shape[-1], GROWS), *(random(s) for s in states))
            model = made(kind)
            is_traced = states or kind is LoneHeld
            saved = torch.jit.trace(model, example, check_trace=False) if is_traced else torch.jit.script(model)
            if kind is LoneHeld:
                saved.s.zero_()
            save(saved, path)
            print(name, [greedy(path, kind, states, prompt) for prompt in PROMPTS])
