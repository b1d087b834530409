"""Decoders with groups of heads in many spellings, with several inputs, and what is no decoder at all: for
check_decoders.py --zoo. Those with `refused` must not be built: their inputs are no text."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from decoder_zoo_kinds import Attention, heads_of, later, rows_of
from decoder_zoo_more import D, H, RMS, T, V, Base, Gated

K, G, S = 2, 2, D // H  # heads of keys, queries of each, numbers of a head


class Grouped(nn.Module):
    """A layer whose queries are [b, t, D] and keys and values [b, t, D / 2]."""
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.ff = RMS(), RMS(), Gated()
        self.q, self.k, self.v, self.o = (nn.Linear(D, n, bias=False) for n in (D, D // 2, D // 2, D))

    def forward(self, x):
        y = self.n1(x)
        x = x + self.o(self.mix(self.q(y), self.k(y), self.v(y)).reshape(x.shape[0], x.shape[1], D))
        return x + self.ff(self.n2(x))


class GroupLetters(Grouped):
    """einsum with letters for groups of heads, rows first, and rotary positions of [b, t, k, g, d]."""
    def turn(self, x, dim: int):
        t = x.shape[1]
        f = torch.outer(torch.arange(t).float(), 100.0 ** (-torch.arange(0, S, 2).float() / S))
        shape = [1, t] + [1] * (dim - 3) + [S // 2]
        c, s = f.cos().view(shape), f.sin().view(shape)
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * c - b * s, b * c + a * s), dim=-1)

    def mix(self, q, k, v):
        b, t, _ = q.shape
        q, k = self.turn(q.view(b, t, K, G, S), 5), self.turn(k.view(b, t, K, S), 4)
        a = torch.einsum("btkgd,bskd->bkgts", q, k) / math.sqrt(S)
        a = a.masked_fill(later(t), torch.finfo(a.dtype).min).softmax(-1)
        return torch.einsum("bkgts,bskd->btkgd", a, v.view(b, t, K, S))


class GroupLettersOutside(Grouped):
    """Heads first, keys as the first operand, and a mask of zeros and minus infinity."""
    def mix(self, q, k, v):
        b, t, _ = q.shape
        q = q.view(b, t, K, G, S).permute(0, 2, 3, 1, 4)
        k, v = k.view(b, t, K, S).transpose(1, 2), v.view(b, t, K, S).transpose(1, 2)
        a = torch.einsum("bksd,bkgtd->bkgts", k * S**-0.5, q) + torch.full((t, t), float("-inf")).triu(1)
        return torch.einsum("bkgts,bksd->bkgtd", a.softmax(-1), v).permute(0, 3, 1, 2, 4)


class OneKeyLetters(nn.Module):
    """Multi-query attention without a letter for the one head of keys."""
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.ff = RMS(), RMS(), Gated()
        self.qkv, self.o = nn.Linear(D, D + 2 * S), nn.Linear(D, D)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).split([D, S, S], dim=-1)
        a = torch.einsum("bthd,bsd->bhts", q.view(b, t, H, S), k) / math.sqrt(S)
        a = torch.where(later(t), torch.tensor(-1e9), 20 * torch.tanh(a / 20)).softmax(-1)
        x = x + self.o(torch.einsum("bhts,bsd->bthd", a, v).flatten(2))
        return x + self.ff(self.n2(x))


class GroupRows(Grouped):
    """The queries of a group are rows of one product with its keys."""
    def mix(self, q, k, v):
        b, t, _ = q.shape
        q = q.view(b, t, K, G, S).permute(0, 2, 3, 1, 4).reshape(b * K, G * t, S)
        k, v = (z.view(b, t, K, S).transpose(1, 2).reshape(b * K, t, S) for z in (k, v))
        a = torch.bmm(q, k.transpose(1, 2)).view(b, K, G, t, t) * S**-0.5
        a = a.masked_fill(later(t), -1e9).softmax(-1).view(b * K, G * t, t)
        return torch.bmm(a, v).view(b, K, G, t, S).permute(0, 3, 1, 2, 4)


class GroupDistance(Grouped):
    """Five dimensions, and a bias that grows with the distance for each head of a group."""
    def __init__(self):
        super().__init__()
        self.register_buffer("slopes", torch.tensor([2.0 ** -(i + 1) for i in range(H)]).view(K, G, 1, 1))

    def mix(self, q, k, v):
        b, t, _ = q.shape
        q = q.view(b, t, K, G, S).permute(0, 2, 3, 1, 4)
        k, v = (z.view(b, t, K, 1, S).permute(0, 2, 3, 1, 4) for z in (k, v))
        i = torch.arange(t)
        a = q @ k.transpose(-1, -2) / math.sqrt(S) - self.slopes * (i[:, None] - i[None, :])
        a = a.masked_fill(i[None, :] > i[:, None], float("-inf")).softmax(-1)
        return (a @ v).permute(0, 3, 1, 2, 4)


class GroupsBefore(Grouped):
    """Groups in front of heads: query h has the keys h % K."""
    def mix(self, q, k, v):
        b, t, _ = q.shape
        a = torch.einsum("btgkd,bskd->bgkts", q.view(b, t, G, K, S), k.view(b, t, K, S)) / math.sqrt(S)
        a = a.masked_fill(later(t), float("-inf")).softmax(-1)
        return torch.einsum("bgkts,bskd->btgkd", a, v.view(b, t, K, S))


class LettersOfRows(Grouped):
    """Scores [b, t, h, s]: tokens before heads."""
    def mix(self, q, k, v):
        b, t, _ = q.shape
        k, v = (z.view(b, t, K, S).repeat_interleave(G, 2) for z in (k, v))
        a = torch.einsum("bthd,bshd->bths", q.view(b, t, H, S), k) / math.sqrt(S)
        a = a.masked_fill(later(t)[None, :, None, :], float("-inf")).softmax(-1)
        return torch.einsum("bths,bshd->bthd", a, v)


class LogLength(Attention):
    """Queries grow with the logarithm of their place, and each head has a learnt factor of normed queries and keys."""
    def __init__(self):
        super().__init__()
        self.by = nn.Parameter(torch.linspace(2.0, 5.0, H).view(1, H, 1, 1))

    def mix(self, q, k, v):
        t = q.shape[2]
        n = torch.log(torch.arange(1, t + 1).float() + 1).view(1, 1, t, 1)
        q, k = F.normalize(q, dim=-1) * self.by * n, F.normalize(k, dim=-1)
        return (q @ k.transpose(-1, -2)).masked_fill(later(t), float("-inf")).softmax(-1) @ v


class Prefix(Attention):
    """The first four tokens see each other."""
    def mix(self, q, k, v):
        t = q.shape[2]
        i = torch.arange(t)
        seen = (i[None, :] <= i[:, None]) | (i[None, :] < 4)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)


class T5Decoder(nn.Module):
    """T5's decoder alone: buckets of distances shared by all layers, no scale, tied words with a factor."""
    def __init__(self):
        super().__init__()
        self.words, self.near = nn.Embedding(V, D), nn.Embedding(16, H)
        self.qkv = nn.ModuleList([nn.Linear(D, 3 * D, bias=False) for _ in range(2)])
        self.o = nn.ModuleList([nn.Linear(D, D, bias=False) for _ in range(2)])
        self.ff, self.norm = nn.ModuleList([Gated() for _ in range(2)]), RMS()

    def forward(self, ids):
        x, t = self.words(ids), ids.shape[1]
        n = (torch.arange(t)[:, None] - torch.arange(t)[None, :]).clamp(min=0)
        far = (8 + torch.log(n.float().clamp(min=1) / 8) / math.log(16) * 8).long().clamp(max=15)
        bias = self.near(torch.where(n < 8, n, far)).permute(2, 0, 1)[None]
        bias = bias.masked_fill(later(t), torch.finfo(bias.dtype).min)
        for qkv, o, ff in zip(self.qkv, self.o, self.ff):
            q, k, v = (heads_of(z, H) for z in qkv(self.norm(x)).chunk(3, dim=-1))
            x = x + o(rows_of((q @ k.transpose(-1, -2) * 0.3 + bias).softmax(-1) @ v))
            x = x + ff(self.norm(x))
        return (self.norm(x) * D**-0.5) @ self.words.weight.t() * 3


class Encoder(Attention):
    """All tokens see all."""
    def mix(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


class Padded(Base):
    """Positions that a mask is summed up to, and a mask of padding turned into a bias."""
    takes = "ids+mask"

    def __init__(self):
        super().__init__(Attention)
        self.places = nn.Embedding(T, D)

    def forward(self, ids, keep_mask):
        x = self.words(ids) + self.places((keep_mask.long().cumsum(1) - 1).clamp(min=0))
        bias = (1 - keep_mask[:, None, None, :].float()) * -1e9
        for layer in self.layers:
            q, k, v = (heads_of(z, H) for z in layer.qkv(layer.n1(x)).chunk(3, dim=-1))
            s = (q @ k.transpose(-1, -2)) * S**-0.5 + bias
            x = x + layer.o(rows_of(s.masked_fill(later(ids.shape[1]), float("-inf")).softmax(-1) @ v))
            x = x + layer.ff(layer.n2(x))
        return self.head(self.norm(x))


class PlacesByUse(Base):
    """Positions whose name does not say so: they turn queries and keys."""
    takes = "ids+positions"

    def __init__(self):
        super().__init__(Attention)

    def forward(self, x, t):
        f = t[..., None].float() * 100.0 ** (-torch.arange(0, S, 2).float() / S)
        c, s = f.cos()[:, None], f.sin()[:, None]
        turn = lambda z: torch.stack((z[..., ::2] * c - z[..., 1::2] * s, z[..., ::2] * s + z[..., 1::2] * c), -1).flatten(-2)
        h = self.words(x)
        for layer in self.layers:
            q, k, v = (heads_of(z, H) for z in layer.qkv(layer.n1(h)).chunk(3, dim=-1))
            h = h + layer.o(rows_of(F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True)))
            h = h + layer.ff(layer.n2(h))
        return self.head(self.norm(h))


class HiddenToo(Base):
    """Logits first, then what they are made of."""
    def __init__(self):
        super().__init__(Attention)

    def forward(self, ids):
        x = self.words(ids)
        seen = [x]
        for layer in self.layers:
            x = layer(x)
            seen.append(x)
        return self.head(self.norm(x)), tuple(seen)


# ---- what is no model of one text ----


class TwoTexts(nn.Module):
    """An encoder and a decoder of the same words."""
    refused = True

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(V, D), nn.Linear(D, V)
        self.both = nn.Transformer(D, H, 1, 1, 48, batch_first=True, dropout=0.0)

    def example(self, ids):
        return ids, ids.flip(1)

    def forward(self, src, tgt):
        mask = torch.triu(torch.ones(tgt.shape[1], tgt.shape[1]), 1).bool()
        return self.head(self.both(self.words(src), self.words(tgt), tgt_mask=mask))


class TwoVocabularies(TwoTexts):
    """The same with words of their own, and a text in front whose name says ids."""
    def __init__(self):
        super().__init__()
        self.others = nn.Embedding(V + 5, D)

    def forward(self, input_ids, labels_in):
        mask = torch.triu(torch.ones(labels_in.shape[1], labels_in.shape[1]), 1).bool()
        return self.head(self.both(self.others(input_ids), self.words(labels_in), tgt_mask=mask))


class Memory(TwoTexts):
    """A decoder that is given what an encoder made."""
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(D, H, 48, batch_first=True, dropout=0.0)

    def example(self, ids):
        return ids, torch.linspace(-1, 1, D).expand(ids.shape[0], ids.shape[1], D).contiguous()

    def forward(self, ids, memory):
        mask = torch.triu(torch.ones(ids.shape[1], ids.shape[1]), 1).bool()
        return self.head(self.layer(self.words(ids), memory, tgt_mask=mask))


class Typed(Base):
    """Token types, as BERT has them."""
    refused = True

    def __init__(self):
        super().__init__(Attention)
        self.types = nn.Embedding(2, D)

    def example(self, ids):
        return ids, torch.ones_like(ids)

    def forward(self, ids, segment):
        x = self.words(ids) + self.types(segment)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Spoken(Typed):
    """One speaker for a text, in a table that is as long as texts are."""
    def __init__(self):
        super().__init__()
        self.types = nn.Embedding(T, D)

    def example(self, ids):
        return ids, torch.arange(ids.shape[0])

    def forward(self, ids, speaker_ids):
        x = self.words(ids) + self.types(speaker_ids)[:, None]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Inverted(Padded):
    """A mask that is 1 where padding is."""
    refused = True

    def example(self, ids):
        return ids, torch.zeros_like(ids)

    def forward(self, ids, pad_mask):
        x = self.words(ids)
        bias = pad_mask[:, None, None, :].float() * -1e9
        for layer in self.layers:
            q, k, v = (heads_of(z, H) for z in layer.qkv(layer.n1(x)).chunk(3, dim=-1))
            s = (q @ k.transpose(-1, -2)) * S**-0.5 + bias
            x = x + layer.o(rows_of((s + torch.full((ids.shape[1],) * 2, -1e9).triu(1)).softmax(-1) @ v))
            x = x + layer.ff(layer.n2(x))
        return self.head(self.norm(x))


class PairMask(Padded):
    """A mask of all pairs of tokens is given."""
    refused = True

    def example(self, ids):
        return ids, torch.full((ids.shape[1],) * 2, float("-inf")).triu(1)

    def forward(self, ids, attn_mask):
        x = self.words(ids)
        for layer in self.layers:
            q, k, v = (heads_of(z, H) for z in layer.qkv(layer.n1(x)).chunk(3, dim=-1))
            x = x + layer.o(rows_of(((q @ k.transpose(-1, -2)) * S**-0.5 + attn_mask).softmax(-1) @ v))
            x = x + layer.ff(layer.n2(x))
        return self.head(self.norm(x))


LAYERS = (GroupLetters, GroupLettersOutside, OneKeyLetters, GroupRows, GroupDistance, GroupsBefore, LettersOfRows, LogLength,
          Prefix, Encoder)
GROUPS_ZOO = {a.__name__: (lambda a=a: Base(a)) for a in LAYERS}
GROUPS_ZOO.update({a.__name__: a for a in (T5Decoder, Padded, PlacesByUse, HiddenToo, TwoTexts, TwoVocabularies, Memory,
                                           Typed, Spoken, Inverted, PairMask)})
