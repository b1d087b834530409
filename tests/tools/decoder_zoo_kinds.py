"""Decoders of kinds that are not attention as it is usually written: for check_decoders.py --zoo."""
import math
from typing import List

import torch
import torch.nn.functional as F
from torch import nn

from decoder_zoo_more import D, H, RMS, T, V, Base, Gated, Llama2c


def heads_of(x, heads: int):
    b, t, c = x.shape
    return x.view(b, t, heads, c // heads).transpose(1, 2)


def rows_of(x):
    b, h, t, d = x.shape
    return x.transpose(1, 2).reshape(b, t, h * d)


def later(t: int):
    i = torch.arange(t)
    return i[None, :] > i[:, None]


class Attention(nn.Module):
    """A layer around something that is done to scores."""
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.ff = RMS(), RMS(), Gated()
        self.qkv, self.o = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def mix(self, q, k, v):
        s = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        return s.masked_fill(later(q.shape[2]), float("-inf")).softmax(-1) @ v

    def forward(self, x):
        q, k, v = (heads_of(z, H) for z in self.qkv(self.n1(x)).chunk(3, dim=-1))
        x = x + self.o(rows_of(self.mix(q, k, v)))
        return x + self.ff(self.n2(x))


class LogitSinks(Attention):
    """A learnt score of each head that takes weight and gives nothing, in the denominator by hand."""
    def __init__(self):
        super().__init__()
        self.sink = nn.Parameter(torch.randn(H))

    def mix(self, q, k, v):
        s = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        s = s.masked_fill(later(q.shape[2]), float("-inf"))
        most = torch.maximum(s.amax(-1, keepdim=True), self.sink.view(1, -1, 1, 1))
        e = torch.exp(s - most)
        return (e / (e.sum(-1, keepdim=True) + torch.exp(self.sink.view(1, -1, 1, 1) - most))) @ v


class Differential(Attention):
    """The difference of two softmaxes, with a learnt factor, and a norm of each head."""
    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.rand(H // 2))

    def mix(self, q, k, v):
        s = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        p = s.masked_fill(later(q.shape[2]), float("-inf")).softmax(-1)
        b, h, t, _ = p.shape
        p = p.view(b, 2, h // 2, t, t)
        p = p[:, 0] - self.factor.view(1, -1, 1, 1) * p[:, 1]
        v = torch.cat((v[:, :h // 2], v[:, h // 2:]), dim=-1)
        y = F.rms_norm(p @ v, (v.shape[-1],))
        return torch.cat(y.chunk(2, dim=-1), dim=1)


class Sigmoids(Attention):
    """Sigmoids in place of a softmax, with a bias by the number of tokens that are seen."""
    def mix(self, q, k, v):
        t = q.shape[2]
        s = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5 - torch.log(torch.arange(1, t + 1).float())[:, None]
        return torch.sigmoid(s).masked_fill(later(t), 0.0) @ v


class ReluSquared(Attention):
    def mix(self, q, k, v):
        t = q.shape[2]
        s = torch.relu((q @ k.transpose(-1, -2)) * 0.3) ** 2
        return (s.masked_fill(later(t), 0.0) / torch.arange(1, t + 1)[:, None]) @ v


class StickBreaking(Attention):
    """What a key gets is what later ones left: sums from behind along the keys."""
    def mix(self, q, k, v):
        s = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        hide = later(q.shape[2])
        left = F.logsigmoid(-s).masked_fill(hide, 0.0)
        after = left.flip(-1).cumsum(-1).flip(-1) - left
        return torch.exp(F.logsigmoid(s) + after).masked_fill(hide, 0.0) @ v


class Forgetting(Attention):
    """Gates that let scores fall with what lies between (FoX)."""
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(D, H)

    def forward(self, x):
        h = self.n1(x)
        q, k, v = (heads_of(z, H) for z in self.qkv(h).chunk(3, dim=-1))
        f = F.logsigmoid(self.gate(h)).transpose(1, 2).cumsum(-1)
        s = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5 + f.unsqueeze(-1) - f.unsqueeze(-2)
        y = s.masked_fill(later(q.shape[2]), float("-inf")).softmax(-1) @ v
        x = x + self.o(rows_of(y))
        return x + self.ff(self.n2(x))


class TopKeys(Attention):
    """Only the four largest scores of a row count."""
    def mix(self, q, k, v):
        s = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        s = s.masked_fill(later(q.shape[2]), -1e9)
        least = F.pad(s, (4, 0), value=-1e9).topk(4, dim=-1).values[..., -1:]
        return s.masked_fill(s < least, float("-inf")).softmax(-1) @ v


class MemoryTokens(Attention):
    """Three learnt keys and values that all tokens see."""
    def __init__(self):
        super().__init__()
        self.k, self.v = nn.Parameter(torch.randn(H, 3, D // H)), nn.Parameter(torch.randn(H, 3, D // H))

    def mix(self, q, k, v):
        b, t = q.shape[0], q.shape[2]
        k = torch.cat((self.k.expand(b, -1, -1, -1), k), dim=2)
        v = torch.cat((self.v.expand(b, -1, -1, -1), v), dim=2)
        hide = torch.cat((torch.zeros(t, 3, dtype=torch.bool), later(t)), dim=1)
        s = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        return s.masked_fill(hide, float("-inf")).softmax(-1) @ v


class Compressed(Attention):
    """Keys and values of a token are means of its last three."""
    def mix(self, q, k, v):
        def means(z):
            return (z + F.pad(z, (0, 0, 1, 0))[:, :, :-1] + F.pad(z, (0, 0, 2, 0))[:, :, :-2]) / 3
        return F.scaled_dot_product_attention(q, means(k), means(v), is_causal=True)


class Blocks(Attention):
    """Tokens see those of their own block of eight, up to them (chunked attention)."""
    def mix(self, q, k, v):
        t = q.shape[2]
        i = torch.arange(t)
        hide = later(t) | (i[None, :] // 8 != i[:, None] // 8)
        s = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        return s.masked_fill(hide, float("-inf")).softmax(-1) @ v


class PrefixLm(Attention):
    """The first four tokens see each other."""
    def mix(self, q, k, v):
        t = q.shape[2]
        hide = later(t) & (torch.arange(t)[None, :] >= 4)
        s = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        return s.masked_fill(hide, float("-inf")).softmax(-1) @ v


class FirstToken(Attention):
    """All tokens see the first one twice, and logits know how long the text is."""
    def forward(self, x):
        return super().forward(x + 0.3 * x[:, :1])


class LogLength(Attention):
    """Queries grow with the logarithm of their position (Qwen)."""
    def mix(self, q, k, v):
        t = q.shape[2]
        q = q * torch.log(torch.arange(2, t + 2).float())[:, None]
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Parallel(nn.Module):
    """Attention and feed-forward side by side, norms behind both (sandwich)."""
    def __init__(self):
        super().__init__()
        self.n, self.after, self.up, self.o = RMS(), RMS(), nn.Linear(D, 3 * D + 48), nn.Linear(D, D)
        self.down = nn.Linear(48, D)

    def forward(self, x):
        q, k, v, f = self.up(self.n(x)).split([D, D, D, 48], dim=-1)
        y = F.scaled_dot_product_attention(heads_of(q, H), heads_of(k, H), heads_of(v, H), is_causal=True)
        return x + self.after(self.o(rows_of(y)) + self.down(F.gelu(f)))


class GatedMlp(nn.Module):
    """gMLP: tokens are mixed by a lower triangle of weights."""
    def __init__(self):
        super().__init__()
        self.n, self.up, self.down, self.norm = RMS(), nn.Linear(D, 2 * D), nn.Linear(D, D), nn.LayerNorm(D)
        self.w, self.b = nn.Parameter(torch.randn(T, T) * 0.1), nn.Parameter(torch.ones(T))

    def forward(self, x):
        t = x.shape[1]
        u, v = F.gelu(self.up(self.n(x))).chunk(2, dim=-1)
        v = torch.tril(self.w[:t, :t]) @ self.norm(v) + self.b[:t, None]
        return x + self.down(u * v)


class Hyena(nn.Module):
    """A convolution as long as the text, by Fourier transforms."""
    def __init__(self):
        super().__init__()
        self.n, self.up, self.o = RMS(), nn.Linear(D, 2 * D), nn.Linear(D, D)
        self.decay = nn.Parameter(torch.rand(D))

    def forward(self, x):
        t = x.shape[1]
        u, g = self.up(self.n(x)).chunk(2, dim=-1)
        h = torch.exp(-self.decay[:, None] * torch.arange(t))
        y = torch.fft.irfft(torch.fft.rfft(u.transpose(1, 2), n=2 * t) * torch.fft.rfft(h, n=2 * t), n=2 * t)
        return x + self.o(y[..., :t].transpose(1, 2) * torch.sigmoid(g))


class LruInLogs(nn.Module):
    """A gated linear recurrence as cumulative sums of logarithms (minGRU)."""
    def __init__(self):
        super().__init__()
        self.n, self.z, self.h, self.o = RMS(), nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x):
        u = self.n(x)
        a = F.logsigmoid(-self.z(u)).cumsum(1)
        b = F.logsigmoid(self.z(u)) + F.softplus(self.h(u))
        return x + self.o(torch.exp(a + (b - a).logcumsumexp(1)))


class Doubling(nn.Module):
    """The same by doubling the distance five times: 32 tokens back."""
    def __init__(self):
        super().__init__()
        self.n, self.a, self.b, self.o = RMS(), nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x):
        u = self.n(x)
        a, b = torch.sigmoid(self.a(u)), self.b(u)
        for step in (1, 2, 4, 8, 16):
            pa = F.pad(a, (0, 0, step, 0), value=1.0)[:, :-step]
            pb = F.pad(b, (0, 0, step, 0))[:, :-step]
            a, b = a * pa, b + a * pb
        return x + self.o(b)


class Delta(nn.Module):
    """A state that each token corrects (delta rule), as a loop, for scripts."""
    def __init__(self):
        super().__init__()
        self.n, self.qkv, self.beta, self.o = RMS(), nn.Linear(D, 3 * 8), nn.Linear(D, 1), nn.Linear(8, D)

    def forward(self, x):
        u = self.n(x)
        q, k, v = self.qkv(u).chunk(3, dim=-1)
        k = F.normalize(k, dim=-1)
        beta = torch.sigmoid(self.beta(u))
        state = torch.zeros(x.shape[0], 8, 8)
        out = torch.zeros(x.shape[0], x.shape[1], 8)
        for i in range(x.shape[1]):
            ki, vi = k[:, i].unsqueeze(-1), v[:, i].unsqueeze(1)
            state = state - beta[:, i].unsqueeze(-1) * (ki @ (ki.transpose(1, 2) @ state - vi))
            out[:, i] = (q[:, i].unsqueeze(1) @ state).squeeze(1)
        return x + self.o(out)


class Cells(nn.Module):
    """A cell that is called token by token, for scripts."""
    def __init__(self):
        super().__init__()
        self.n, self.cell = RMS(), nn.LSTMCell(D, D)

    def forward(self, x):
        h = torch.zeros(x.shape[0], x.shape[2])
        c = torch.zeros(x.shape[0], x.shape[2])
        u = self.n(x)
        rows: List[torch.Tensor] = []
        for token in u.unbind(1):
            h, c = self.cell(token, (h, c))
            rows.append(h)
        return x + torch.stack(rows, 1)


class Depths(nn.Module):
    """Each token chooses by itself whether a layer is for it (mixture of depths)."""
    def __init__(self):
        super().__init__()
        self.router, self.layer = nn.Linear(D, 1), Attention()

    def forward(self, x):
        take = torch.sigmoid(self.router(x))
        return torch.where(take > 0.5, self.layer(x) * take, x)


class Looped(Base):
    """One layer four times."""
    def forward(self, ids):
        x = self.words(ids)
        for _ in range(4):
            x = self.layers[0](x)
        return self.head(self.norm(x))


class SharedKeys(nn.Module):
    """Layers that take keys and values of the first one."""
    def __init__(self):
        super().__init__()
        self.words, self.norm = nn.Embedding(V, D), RMS()
        self.kv = nn.Linear(D, 2 * D)
        self.q, self.o = (nn.ModuleList(nn.Linear(D, D) for _ in range(3)) for _ in range(2))

    def forward(self, ids):
        x = self.words(ids) * math.sqrt(D)
        k, v = (heads_of(z, H) for z in self.kv(self.norm(x)).chunk(2, dim=-1))
        for q, o in zip(self.q, self.o):
            y = F.scaled_dot_product_attention(heads_of(q(self.norm(x)), H), k, v, is_causal=True)
            x = x + o(rows_of(y))
        return x @ self.words.weight.t() / D


class LastOnly(Base):
    """Logits of the last token, by its number."""
    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x[:, x.shape[1] - 1])).unsqueeze(1)


class ManyHeads(Base):
    """Logits of the next tokens and of those after them."""
    def __init__(self):
        super().__init__(Attention)
        self.second = nn.Linear(D, V)

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)), self.second(x)


class Hybrid(Base):
    """A recurrent layer, a convolution, attention with a window and attention that sees all."""
    def __init__(self):
        from decoder_zoo_more import ConvMixer, Gru
        super().__init__(Attention)
        self.layers = nn.ModuleList((Gru(), Attention(), ConvMixer(), Blocks(), Attention()))


KINDS = (LogitSinks, Differential, Sigmoids, ReluSquared, StickBreaking, Forgetting, TopKeys, MemoryTokens, Compressed, Blocks,
         PrefixLm, FirstToken, LogLength, Parallel, GatedMlp, Hyena, LruInLogs, Doubling, Delta, Cells, Depths)
KINDS_ZOO = {a.__name__: (lambda a=a: Base(a)) for a in KINDS}
KINDS_ZOO.update({a.__name__: a for a in (SharedKeys, ManyHeads, Hybrid)})
KINDS_ZOO.update(Looped=lambda: Looped(Attention), LastOnly=lambda: LastOnly(Llama2c))
