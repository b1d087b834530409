"""Decoders of newer designs: for check_decoders.py --zoo."""
import math
from typing import Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import nn

from decoder_zoo_kinds import Attention, heads_of, later, rows_of
from decoder_zoo_more import D, H, RMS, T, V, Base, Gated


def rotated(x, base: float = 10000.0, part: int = 8):
    """Interleaved rotary positions of the first `part` numbers of each head."""
    t = torch.arange(x.shape[2], dtype=torch.float32)
    f = torch.outer(t, base ** (-torch.arange(0, part, 2, dtype=torch.float32) / part))
    c, s = f.cos(), f.sin()
    a, b = x[..., 0:part:2], x[..., 1:part:2]
    y = torch.stack((a * c - b * s, a * s + b * c), dim=-1).flatten(-2)
    return torch.cat((y, x[..., part:]), dim=-1)


class Yoco(nn.Module):
    """Layers with a window, then layers that all read one set of keys and values."""
    def __init__(self):
        super().__init__()
        self.words, self.norm, self.kvnorm = nn.Embedding(V, D), RMS(), RMS()
        self.qkv, self.o = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.kv = nn.Linear(D, D)
        self.q, self.p = (nn.ModuleList(nn.Linear(D, D) for _ in range(2)) for _ in range(2))
        self.ff = nn.ModuleList(Gated() for _ in range(3))
        self.head = nn.Linear(D, V, bias=False)

    def forward(self, ids):
        x = self.words(ids) * 2
        t = ids.shape[1]
        i = torch.arange(t)
        near = (i[None, :] <= i[:, None]) & (i[:, None] - i[None, :] < 6)
        q, k, v = (heads_of(z, H) for z in self.qkv(self.norm(x)).chunk(3, dim=-1))
        x = x + self.o(rows_of(F.scaled_dot_product_attention(rotated(q), rotated(k), v, attn_mask=near)))
        x = x + self.ff[0](self.norm(x))
        k, v = self.kv(self.kvnorm(x)).view(x.shape[0], t, 2, 2, -1).permute(2, 0, 3, 1, 4).unbind(0)
        k, v = rotated(k).repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        for q, p, ff in zip(self.q, self.p, list(self.ff)[1:]):
            y = F.scaled_dot_product_attention(rotated(heads_of(q(self.norm(x)), H)), k, v, is_causal=True)
            x = x + p(rows_of(y))
            x = x + ff(self.norm(x))
        return self.head(self.norm(x))


class Chunked(Attention):
    """Rotary positions in chunks of eight tokens, or none at all with queries that grow (Llama 4)."""
    def __init__(self, everywhere=False):
        super().__init__()
        self.everywhere = everywhere

    def mix(self, q, k, v):
        t = q.shape[2]
        i = torch.arange(t)
        if self.everywhere:
            scale = torch.log(torch.floor((i + 1.0) / 4.0) + 1.0) * 0.1 + 1.0
            return F.scaled_dot_product_attention(q * scale[:, None], k, v, is_causal=True)
        mask = torch.tril(torch.ones(t, t, dtype=torch.bool)) & ((i[:, None] // 8) == (i[None, :] // 8))
        return F.scaled_dot_product_attention(F.normalize(rotated(q), dim=-1) * 2, rotated(k), v, attn_mask=mask)


class Irope(Base):
    def __init__(self):
        super().__init__(Chunked, 3)
        self.layers[2] = Chunked(True)


class Ssd(nn.Module):
    """Mamba 2 with the whole text as one chunk: a triangle of decays times products of C and B, a short convolution."""
    def __init__(self, n=4):
        super().__init__()
        self.n = n
        self.norm, self.out_norm = RMS(), RMS(2 * D)
        self.inp = nn.Linear(D, 4 * D + 2 * n + H, bias=False)
        self.conv = nn.Conv1d(2 * D + 2 * n, 2 * D + 2 * n, 4, groups=2 * D + 2 * n, padding=3)
        self.dt_bias, self.a_log, self.d = (nn.Parameter(torch.randn(H) * 0.5) for _ in range(3))
        self.out = nn.Linear(2 * D, D, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        z, xbc, dt = self.inp(self.norm(x)).split([2 * D, 2 * D + 2 * self.n, H], dim=-1)
        xbc = F.silu(self.conv(xbc.transpose(1, 2))[..., :t].transpose(1, 2))
        u, bb, cc = xbc.split([2 * D, self.n, self.n], dim=-1)
        u = u.view(b, t, H, -1)
        dt = F.softplus(dt + self.dt_bias)
        sums = torch.cumsum(dt * -self.a_log.exp(), dim=1).transpose(1, 2)
        decay = (sums[..., :, None] - sums[..., None, :]).masked_fill(later(t), float("-inf")).exp()
        scores = (cc @ bb.transpose(1, 2))[:, None] * decay
        y = torch.einsum("bhts,bshp->bthp", scores, u * dt[..., None]) + u * self.d[:, None]
        return x + self.out(self.out_norm(y.reshape(b, t, -1) * F.silu(z)))


class MatrixLstm(nn.Module):
    """xLSTM's matrix memory in parallel form: gates as sums of logarithms, kept in range by a row's largest."""
    def __init__(self):
        super().__init__()
        self.norm, self.ff = RMS(), Gated()
        self.qkv, self.gates, self.o, self.p = nn.Linear(D, 3 * D), nn.Linear(D, 2 * H), nn.Linear(D, D), nn.Linear(D, D)
        self.group = nn.GroupNorm(H, D)

    def forward(self, x):
        b, t, c = x.shape
        h = self.norm(x)
        q, k, v = (heads_of(z, H) for z in self.qkv(h).chunk(3, dim=-1))
        i, f = self.gates(h).transpose(1, 2).chunk(2, dim=1)
        f = torch.cumsum(F.logsigmoid(f + 3), dim=-1)
        d = f[..., :, None] - f[..., None, :] + i[..., None, :]
        d = torch.where(later(t), torch.full_like(d, float("-inf")), d)
        m = d.max(dim=-1, keepdim=True).values
        s = (q @ k.transpose(-1, -2)) * (c // H) ** -0.5 * torch.exp(d - m)
        s = s / torch.maximum(s.sum(-1, keepdim=True).abs(), torch.exp(-m))
        y = self.group(rows_of(s @ v).reshape(b * t, c)).view(b, t, c)
        x = x + self.p(torch.sigmoid(self.o(h)) * y)
        return x + self.ff(x)


class Retention(Attention):
    """RetNet: no softmax, a decay of each head, a norm of each head's rows, a gate."""
    def __init__(self):
        super().__init__()
        self.register_buffer("decay", torch.log(1 - 2 ** (-1 - torch.arange(H, dtype=torch.float))))

    def mix(self, q, k, v):
        t = q.shape[2]
        i = torch.arange(t)
        far = (i[:, None] - i[None, :]).float()
        mask = torch.exp(far * self.decay[:, None, None]).masked_fill(far < 0, 0)
        mask = mask / mask.sum(dim=-1, keepdim=True).sqrt()
        s = (rotated(q) @ rotated(k).transpose(-1, -2)) * mask
        s = s / s.detach().abs().sum(dim=-1, keepdim=True).clamp(min=1, max=5e4)
        return F.layer_norm(s @ v, (v.shape[-1],))


class Speedrun(nn.Module):
    """modded-nanogpt: values of the first layer mixed into all, skips from early to late layers, bounded logits."""
    def __init__(self):
        super().__init__()
        self.words, self.value_words = nn.Embedding(V, D), nn.Embedding(V, D)
        self.q, self.k, self.v, self.o = (nn.ModuleList(nn.Linear(D, D, bias=False) for _ in range(4)) for _ in range(4))
        self.up, self.down = (nn.ModuleList(nn.Linear(*s, bias=False) for _ in range(4)) for s in ((D, 64), (64, D)))
        self.mixes = nn.Parameter(torch.rand(4, 2))
        self.skips = nn.Parameter(torch.rand(2))
        self.head = nn.Linear(D, V, bias=False)

    def layer(self, n: int, x, x0, v1):
        x = self.mixes[n, 0] * x + self.mixes[n, 1] * x0
        h = F.rms_norm(x, (D,))
        q, k, v = heads_of(self.q[n](h), H), heads_of(self.k[n](h), H), heads_of(self.v[n](h) + 0.5 * v1, H)
        q, k = rotated(F.rms_norm(q, (D // H,))), rotated(F.rms_norm(k, (D // H,)))
        x = x + self.o[n](rows_of(F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.25)))
        return x + self.down[n](F.relu(self.up[n](F.rms_norm(x, (D,)))).square())

    def forward(self, ids):
        x0 = x = F.rms_norm(self.words(ids), (D,))
        v1 = self.value_words(ids)
        kept = []
        for n in range(4):
            if n < 2:
                kept.append(x)
            else:
                x = x + self.skips[n - 2] * kept.pop()
            x = self.layer(n, x, x0, v1)
        return 15 * torch.tanh(self.head(F.rms_norm(x, (D,))) / 15)


class LatentAbsorbed(Attention):
    """Latent keys and values with a rotary part of their own, the products up absorbed into queries and outputs."""
    def __init__(self, rank=12, rope=8):
        super().__init__()
        self.rank, self.rope = rank, rope
        self.q = nn.Linear(D, H * (8 + rope), bias=False)
        self.down = nn.Linear(D, rank + rope, bias=False)
        self.lnorm = RMS(rank)
        self.uk, self.uv = nn.Parameter(torch.randn(H, 8, rank) * 0.5), nn.Parameter(torch.randn(H, rank, 8) * 0.5)

    def forward(self, x):
        h = self.n1(x)
        b, t, _ = x.shape
        nope, rope = heads_of(self.q(h), H).split([8, self.rope], dim=-1)
        c, kr = self.down(h).split([self.rank, self.rope], dim=-1)
        c = self.lnorm(c)
        s = torch.einsum("bhtd,hdr,bsr->bhts", nope, self.uk, c) + rotated(rope) @ rotated(kr[:, None]).transpose(-1, -2)
        s = (s / math.sqrt(8 + self.rope)).masked_fill(later(t), torch.finfo(s.dtype).min)
        y = torch.einsum("bhts,bsr,hrd->bthd", s.softmax(-1, dtype=torch.float32), c, self.uv)
        x = x + self.o(y.reshape(b, t, -1))
        return x + self.ff(self.n2(x))


class SortedExperts(nn.Module):
    """Experts over tokens that are sorted by expert, with a shared one and scores by sigmoid and bias (DeepSeek 3)."""
    def __init__(self, count=4):
        super().__init__()
        self.norm, self.gate, self.shared = RMS(), nn.Linear(D, count, bias=False), Gated()
        self.bias = nn.Parameter(torch.randn(count) * 0.1)
        self.w1, self.w2 = nn.Parameter(torch.randn(count, D, 24) * 0.3), nn.Parameter(torch.randn(count, 24, D) * 0.3)
        self.mixer = Attention()

    def forward(self, x):
        x = self.mixer(x)
        h = self.norm(x).flatten(0, 1)
        p = self.gate(h).sigmoid()
        chosen = torch.topk(p + self.bias, 2, dim=-1).indices
        w = p.gather(1, chosen)
        w = w / w.sum(-1, keepdim=True) * 2.5
        hot = F.one_hot(chosen, 4).to(h.dtype)
        each = torch.einsum("nd,edf->nef", h, self.w1)
        y = torch.einsum("nef,efd->ned", F.gelu(each, approximate="tanh"), self.w2)
        y = (y * (hot * w[..., None]).sum(1)[..., None]).sum(1) + self.shared(h)
        return x + y.view_as(x)


class LinearAttention(Attention):
    """Features of keys, sums of their products with values."""
    def mix(self, q, k, v):
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kv = torch.cumsum(k.unsqueeze(-1) * v.unsqueeze(-2), dim=2)
        z = 1 / (q * k.cumsum(2)).sum(-1).clamp(min=1e-6)
        return torch.einsum("bhtd,bhtde,bht->bhte", q, kv, z)


class Contextual(Attention):
    """Positions that count what gates let through, between two learnt vectors (CoPE)."""
    def __init__(self, most=8):
        super().__init__()
        self.most = most
        self.places = nn.Parameter(torch.randn(1, D // H, most))

    def mix(self, q, k, v):
        s = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        hidden = later(q.shape[2])
        gates = torch.sigmoid(s).masked_fill(hidden, 0)
        at = gates.flip(-1).cumsum(dim=-1).flip(-1).clamp(max=self.most - 1)
        up, down = at.ceil().long(), at.floor().long()
        logits = torch.matmul(q, self.places)
        w = at - down
        s = s + logits.gather(-1, up) * w + logits.gather(-1, down) * (1 - w)
        return s.masked_fill(hidden, float("-inf")).softmax(-1) @ v


class Buckets(Attention):
    """Biases by T5's buckets of distances, in a table that all heads share out."""
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(8, H)

    def mix(self, q, k, v):
        i = torch.arange(q.shape[2])
        far = torch.clamp(i[:, None] - i[None, :], min=0)
        large = 4 + (torch.log(far.float().clamp(min=1) / 4) / math.log(16 / 4) * 4).to(torch.long)
        bucket = torch.where(far < 4, far, torch.min(large, torch.full_like(large, 7)))
        bias = self.table(bucket).permute(2, 0, 1).unsqueeze(0)
        s = q @ k.transpose(-1, -2) + bias + torch.where(later(q.shape[2]), -1e9, 0.0)
        return torch.softmax(s.float(), dim=-1).type_as(s) @ v


class ScoresConvolved(Attention):
    """Scores are convolved along keys before the softmax (multi-token attention)."""
    def __init__(self):
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(H, 1, 1, 3) * 0.5)

    def mix(self, q, k, v):
        s = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        hidden = later(q.shape[2])
        s = F.conv2d(F.pad(s.masked_fill(hidden, 0), (2, 0)), self.kernel, groups=H)
        return s.masked_fill(hidden, float("-inf")).softmax(-1) @ v


class GatedOutput(Attention):
    """Norms around one, queries with a gate for each number, partial rotary positions (Qwen 3 Next)."""
    def __init__(self):
        super().__init__()
        self.q, self.kv = nn.Linear(D, 2 * D, bias=False), nn.Linear(D, D, bias=False)
        self.qw, self.kw = nn.Parameter(torch.randn(8) * 0.1), nn.Parameter(torch.randn(8) * 0.1)

    def zero_centered(self, x, w):
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6) * (1.0 + w)).type_as(x)

    def forward(self, x):
        h = self.n1(x)
        b, t, _ = x.shape
        q, gate = self.q(h).view(b, t, H, -1).chunk(2, dim=-1)
        k, v = self.kv(h).view(b, t, 2, 2, 8).unbind(2)
        q = rotated(self.zero_centered(q, self.qw).transpose(1, 2), part=4)
        k = rotated(self.zero_centered(k, self.kw).transpose(1, 2), part=4)
        k = k[:, :, None].expand(b, 2, 2, t, 8).reshape(b, 4, t, 8)
        v = v.transpose(1, 2)[:, :, None].expand(b, 2, 2, t, 8).reshape(b, 4, t, 8)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1).transpose(1, 2).reshape(b, t, -1)
        x = x + self.o(y * torch.sigmoid(gate.reshape(b, t, -1)))
        return x + self.ff(self.n2(x))


class SinkWindow(Attention):
    """The first two tokens and the last five."""
    def mix(self, q, k, v):
        i = torch.arange(q.shape[2])
        far = i[:, None] - i[None, :]
        seen = (far >= 0) & ((far < 5) | (i[None, :] < 2))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen[None, None])


class Documents(Base):
    """Token 3 ends a document; tokens see those of their own, and positions begin anew."""
    def __init__(self):
        super().__init__(Attention)
        self.places = nn.Embedding(T, D)

    def forward(self, ids):
        b, t = ids.shape
        number = torch.cumsum((ids == 3).long(), dim=1) - (ids == 3).long()
        i = torch.arange(t).expand(b, t)
        begins = torch.where(F.pad(ids[:, :-1] == 3, (1, 0), value=True), i, torch.zeros_like(i))
        x = self.words(ids) + self.places(i - torch.cummax(begins, dim=1).values)
        same = number[:, None, :, None] == number[:, None, None, :]
        mask = torch.zeros(b, 1, t, t).masked_fill(~same | later(t), float("-inf"))
        for l in self.layers:
            q, k, v = (heads_of(z, H) for z in l.qkv(l.n1(x)).chunk(3, dim=-1))
            x = x + l.o(rows_of(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)))
            x = x + l.ff(l.n2(x))
        return self.head(self.norm(x))


class TiedLayers(nn.Module):
    """One layer thrice with a word for each round, log-probabilities of an adaptive softmax."""
    def __init__(self):
        super().__init__()
        self.words, self.rounds, self.layer = nn.Embedding(V, D), nn.Parameter(torch.randn(3, D)), Attention()
        self.out = nn.AdaptiveLogSoftmaxWithLoss(D, V, [20, 60], div_value=2.0)

    def forward(self, ids):
        x = self.words(ids)
        for n in range(3):
            x = self.layer(x + self.rounds[n])
        return self.out.log_prob(x.flatten(0, 1)).view(ids.shape[0], ids.shape[1], -1)


class PerLayerWords(Base):
    """Each layer has words of its own that it mixes in by a gate, and outputs of all layers are averaged (Gemma 3n)."""
    def __init__(self):
        super().__init__(Attention, 3)
        self.own = nn.Embedding(V, 3 * 8)
        self.gate, self.up = (nn.ModuleList(nn.Linear(*s) for _ in range(3)) for s in ((D, 8), (8, D)))

    def forward(self, ids):
        x = self.words(ids)
        own = self.own(ids).unflatten(-1, (3, 8))
        total = torch.zeros_like(x)
        for n, layer in enumerate(self.layers):
            x = layer(x)
            x = x + self.up[n](F.gelu(self.gate[n](x), approximate="tanh") * own[..., n, :])
            total = total + x / (n + 1)
        return self.head(self.norm(total))


class TensorProduct(Attention):
    """Queries, keys and values of each token are sums of outer products (TPA)."""
    def __init__(self, rank=3):
        super().__init__()
        self.rank = rank
        self.a, self.b = (nn.ModuleList(nn.Linear(D, rank * n, bias=False) for _ in range(3)) for n in (H, D // H))

    def forward(self, x):
        h = self.n1(x)
        b, t, _ = x.shape
        out = []
        for i, (a, c) in enumerate(zip(self.a, self.b)):
            left, right = a(h).view(b, t, self.rank, H), c(h).view(b, t, self.rank, -1)
            if i < 2:
                right = rotated(right.transpose(1, 2)).transpose(1, 2)
            out.append(torch.einsum("btrh,btrd->bhtd", left, right) / self.rank)
        q, k, v = out
        x = x + self.o(rows_of(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
        return x + self.ff(self.n2(x))


class Reversible(nn.Module):
    """Two streams, each of which the other one changes; the mean of both says the word."""
    def __init__(self):
        super().__init__()
        self.words, self.layers, self.norm = nn.Embedding(V, D), nn.ModuleList(Attention() for _ in range(2)), nn.LayerNorm(D)
        self.head = nn.Linear(D, V)

    def forward(self, ids) -> Dict[str, torch.Tensor]:
        x1 = x2 = self.words(ids)
        for l in self.layers:
            q, k, v = (heads_of(z, H) for z in l.qkv(l.n1(x2)).chunk(3, dim=-1))
            x1 = x1 + l.o(rows_of(l.mix(q, k, v)))
            x2 = x2 + l.ff(l.n2(x1))
        return {"hidden": x1, "logits": self.head(self.norm((x1 + x2) / 2))}


class Finch(nn.Module):
    """RWKV 6 as a loop over tokens, for scripts: decays that depend on tokens, a state for each head."""
    def __init__(self):
        super().__init__()
        self.norm, self.ff = RMS(), Gated()
        self.rkvg, self.w, self.o = nn.Linear(D, 4 * D), nn.Linear(D, D), nn.Linear(D, D)
        self.bonus, self.shift = nn.Parameter(torch.randn(H, D // H)), nn.Parameter(torch.rand(D))
        self.group = nn.GroupNorm(H, D)
        self.heads = H

    def forward(self, x):
        b, t, c = x.size()
        h = self.norm(x)
        before = torch.cat([torch.zeros(b, 1, c), h[:, :-1]], dim=1)
        h = h + (before - h) * self.shift
        r, k, v, g = self.rkvg(h).view(b, t, 4, self.heads, -1).unbind(2)
        w = torch.exp(-torch.exp(self.w(h).view(b, t, self.heads, -1) - 2))
        state = torch.zeros(b, self.heads, c // self.heads, c // self.heads)
        ys: List[torch.Tensor] = []
        for i in range(t):
            kv = k[:, i].unsqueeze(-1) * v[:, i].unsqueeze(-2)
            ys.append((r[:, i].unsqueeze(-2) @ (state + self.bonus.unsqueeze(-1) * kv)).squeeze(-2))
            state = state * w[:, i].unsqueeze(-1) + kv
        y = torch.stack(ys, 1)
        y = self.group(y.reshape(b * t, c)).view(b, t, c) * F.silu(g.reshape(b, t, c))
        x = x + self.o(y)
        return x + self.ff(x)


class Griffin(nn.Module):
    """A gated linear recurrence in a scripted loop behind a causal convolution, then local attention."""
    def __init__(self):
        super().__init__()
        self.norm, self.inp, self.out, self.gates = RMS(), nn.Linear(D, 2 * D), nn.Linear(D, D), nn.Linear(D, 2 * D)
        self.conv = nn.Conv1d(D, D, 3, groups=D)
        self.a = nn.Parameter(torch.rand(D) + 0.5)
        self.local = Attention()

    def forward(self, x):
        u, g = self.inp(self.norm(x)).chunk(2, dim=-1)
        u = self.conv(F.pad(u.transpose(1, 2), [2, 0])).transpose(1, 2)
        r, i = torch.sigmoid(self.gates(u)).chunk(2, dim=-1)
        log_a = -8.0 * r * F.softplus(self.a)
        a = torch.exp(log_a)
        u = u * i * torch.sqrt(1 - torch.exp(2 * log_a))
        # Associative scan by doubling, for five rounds.
        step = 1
        for _ in range(6):
            u = u + a * F.pad(u, [0, 0, step, 0])[:, :u.shape[1]]
            a = a * F.pad(a, [0, 0, step, 0])[:, :a.shape[1]]
            step *= 2
        return self.local(x + self.out(u * F.gelu(g)))


class Hashed(Base):
    """Words from hashes of the last three bytes, beside those of the token; a mask of ones as second input."""
    takes = "ids+mask"

    def __init__(self):
        super().__init__(Attention)
        self.grams = nn.EmbeddingBag(31, D, mode="sum")

    def forward(self, ids, mask):
        b, t = ids.shape
        p1, p2 = F.pad(ids, (1, 0))[:, :-1], F.pad(ids, (2, 0))[:, :-2]
        hashes = torch.stack(((ids * 7 + p1) % 31, (ids * 49 + p1 * 7 + p2) % 31), dim=-1)
        x = self.words(ids) + self.grams(hashes.view(b * t, 2)).view(b, t, D)
        hidden = later(t)[None, None] | (mask[:, None, None, :] == 0)
        for l in self.layers:
            q, k, v = (heads_of(z, H) for z in l.qkv(l.n1(x)).chunk(3, dim=-1))
            s = torch.baddbmm(torch.zeros(b * H, t, t), q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2), beta=0.0, alpha=0.35)
            s = s.view(b, H, t, t).masked_fill(hidden, torch.finfo(torch.float32).min)
            x = x + l.o(rows_of(torch.bmm(s.softmax(-1).flatten(0, 1), v.flatten(0, 1)).view(b, H, t, -1)))
            x = x + l.ff(l.n2(x))
        return self.head(self.norm(x))


class OptionalCache(nn.Module):
    """Written for scripts: a cache that may be given, lists of layers, positions by sines."""
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(V, D), nn.Linear(D, V)
        self.layers = nn.ModuleList(nn.ModuleDict({"qkv": nn.Linear(D, 3 * D), "o": nn.Linear(D, D), "n": nn.LayerNorm(D)})
                                    for _ in range(2))
        self.heads = H

    def sines(self, t: int, d: int):
        at = torch.arange(t).unsqueeze(1)
        f = torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
        return torch.stack([torch.sin(at * f), torch.cos(at * f)], dim=2).view(t, d)

    def forward(self, ids, cache: Optional[List[Tuple[torch.Tensor, torch.Tensor]]] = None):
        b, t = ids.size()
        x = self.words(ids) * math.sqrt(32.0) + self.sines(t, 32)
        out: List[Tuple[torch.Tensor, torch.Tensor]] = []
        for i, l in enumerate(self.layers):
            q, k, v = l["qkv"](l["n"](x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
            if cache is not None:
                k, v = torch.cat([cache[i][0], k], 2), torch.cat([cache[i][1], v], 2)
            out.append((k, v))
            s = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(q.size(-1))
            mask = torch.ones(t, k.size(2), dtype=torch.bool).tril(diagonal=k.size(2) - t)
            y = torch.matmul(s.masked_fill(~mask, -float("inf")).softmax(-1), v)
            x = x + l["o"](y.transpose(1, 2).flatten(2))
        return self.head(x), out


DESIGNS = (MatrixLstm, Retention, LatentAbsorbed, SortedExperts, LinearAttention, Contextual, Buckets, ScoresConvolved,
           GatedOutput, SinkWindow, TensorProduct, Ssd, Finch, Griffin)
DESIGNS_ZOO = {a.__name__: (lambda a=a: Base(a)) for a in DESIGNS}
DESIGNS_ZOO.update({a.__name__: a for a in (Yoco, Irope, Speedrun, Documents, TiedLayers, PerLayerWords, Reversible, Hashed,
                                            OptionalCache)})
