"""More decoders as people write them, unlike those of decoder_zoo.py: each a whole model with its own way of mixing tokens."""
import math
from typing import List, Tuple

import torch
from torch import nn
from torch.nn import functional as F

V, D, H, T = 97, 32, 4, 64


class RMS(nn.Module):
    def __init__(self, d=D, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.eps: float = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Gated(nn.Module):
    def __init__(self, d=D, h=48):
        super().__init__()
        self.w1, self.w2, self.w3 = nn.Linear(d, h, bias=False), nn.Linear(h, d, bias=False), nn.Linear(d, h, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Base(nn.Module):
    """Words, layers that are given, a norm and a head."""
    def __init__(self, layer, count=2, tied=False):
        super().__init__()
        self.words = nn.Embedding(V, D)
        self.layers = nn.ModuleList([layer() for _ in range(count)])
        self.norm = RMS()
        self.head = nn.Linear(D, V, bias=False)
        if tied:
            self.head.weight = self.words.weight
        with torch.no_grad():
            for p in self.parameters():
                p.mul_(2 if p.dim() > 1 else 1)

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Llama2c(nn.Module):
    """llama2.c: cosines and sines of all positions as buffers, complex numbers as pairs, repeat_kv by expand."""
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.ff = RMS(), RMS(), Gated()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(D, n, bias=False) for n in (D, D // 2, D // 2, D))
        d = D // H
        freqs = 1.0 / (10000 ** (torch.arange(0, d, 2)[: d // 2].float() / d))
        table = torch.outer(torch.arange(T), freqs).float()
        self.register_buffer("cos", table.cos(), persistent=False)
        self.register_buffer("sin", table.sin(), persistent=False)
        self.H: int = H
        self.D: int = D

    def turn(self, x, t: int):
        c, s = self.cos[:t].view(1, t, 1, -1), self.sin[:t].view(1, t, 1, -1)
        r, i = x.float().reshape(x.shape[:-1] + (-1, 2)).unbind(-1)
        return torch.stack([r * c - i * s, r * s + i * c], dim=-1).flatten(3).type_as(x)

    def forward(self, x):
        b, t, _ = x.shape
        h = self.n1(x)
        q = self.turn(self.wq(h).view(b, t, self.H, -1), t)
        k = self.turn(self.wk(h).view(b, t, self.H // 2, -1), t)
        v = self.wv(h).view(b, t, self.H // 2, -1)
        k = k[:, :, :, None, :].expand(b, t, self.H // 2, 2, self.D // self.H).reshape(b, t, self.H, -1)
        v = v[:, :, :, None, :].expand(b, t, self.H // 2, 2, self.D // self.H).reshape(b, t, self.H, -1)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        s = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.D // self.H)
        s = s + torch.triu(torch.full((1, 1, t, t), float("-inf")), diagonal=1)
        y = torch.matmul(F.softmax(s.float(), dim=-1).type_as(q), v)
        x = x + self.wo(y.transpose(1, 2).contiguous().view(b, t, -1))
        return x + self.ff(self.n2(x))


class LitGpt(nn.Module):
    """lit-gpt: queries of each group beside their key and value in one product, partial rotary, parallel residual."""
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), Gated()
        self.attn, self.proj = nn.Linear(D, (H + 2 * 2) * (D // H)), nn.Linear(D, D)
        self.H: int = H
        self.hs: int = D // H

    def rope(self, x, t: int):
        n = 4
        theta = 1.0 / (10000 ** (torch.arange(0, n, 2, device=x.device).float() / n))
        at = torch.outer(torch.arange(t, device=x.device).float(), theta).repeat(1, 2)
        part, rest = x[..., :n], x[..., n:]
        half = torch.cat((-part[..., n // 2:], part[..., :n // 2]), dim=-1)
        return torch.cat((part * at.cos() + half * at.sin(), rest), dim=-1)

    def forward(self, x):
        b, t, c = x.size()
        per = self.H // 2
        qkv = self.attn(self.n1(x)).view(b, t, 2, per + 2, self.hs).permute(0, 2, 3, 1, 4)
        q, k, v = qkv.split((per, 1, 1), dim=2)
        k, v = k.expand(b, 2, per, t, self.hs), v.expand(b, 2, per, t, self.hs)
        q, k, v = (z.reshape(b, -1, t, self.hs) for z in (q, k, v))
        q, k = self.rope(q, t), self.rope(k, t)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0 / math.sqrt(self.hs))
        return x + self.proj(y.transpose(1, 2).reshape(b, t, c)) + self.ff(self.n2(x))


class Xformers(nn.Module):
    """[batch * heads, tokens, size], a float mask from tril, heads packed in the batch."""
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.ff = RMS(), RMS(), Gated()
        self.q, self.k, self.v, self.o = (nn.Linear(D, D, bias=False) for _ in range(4))
        self.H: int = H

    def forward(self, x):
        b, t, c = x.shape
        h = self.n1(x)
        q, k, v = [f(h).reshape(b, t, self.H, c // self.H).permute(0, 2, 1, 3).reshape(b * self.H, t, c // self.H)
                   for f in (self.q, self.k, self.v)]
        s = torch.bmm(q * (c // self.H) ** -0.5, k.transpose(1, 2))
        s = s + torch.log(torch.tril(torch.ones(t, t)))
        y = torch.bmm(s.softmax(-1), v).reshape(b, self.H, t, c // self.H).permute(0, 2, 1, 3).reshape(b, t, c)
        x = x + self.o(y)
        return x + self.ff(self.n2(x))


class XTransformers(nn.Module):
    """x-transformers: einsum, scores talked between heads before the softmax, cosine similarity with a learnt scale."""
    def __init__(self, talking=False):
        super().__init__()
        self.n1, self.n2, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), Gated()
        self.q, self.kv, self.o = nn.Linear(D, D, bias=False), nn.Linear(D, 2 * D, bias=False), nn.Linear(D, D)
        self.scale = nn.Parameter(torch.ones(1, H, 1, 1) * 5)
        self.mix = nn.Conv2d(H, H, 1, bias=False) if talking else nn.Identity()
        self.H: int = H

    def forward(self, x):
        b, t, c = x.shape
        h = self.n1(x)
        k, v = self.kv(h).chunk(2, dim=-1)
        q, k, v = (z.view(b, t, self.H, -1).transpose(1, 2) for z in (self.q(h), k, v))
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        s = self.mix(torch.einsum("b h i d, b h j d -> b h i j", q, k) * self.scale)
        i = torch.arange(t, device=x.device)
        s = s.masked_fill(i[:, None] < i[None, :], -torch.finfo(s.dtype).max)
        y = torch.einsum("b h i j, b h j d -> b h i d", s.softmax(dim=-1), v)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, c))
        return x + self.ff(self.n2(x))


class TokenShift(nn.Module):
    """RWKV's channel and time mixing: each token sees the one before it, and a decaying sum of all."""
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.shift = nn.ZeroPad2d((0, 0, 1, -1))
        self.mix = nn.Parameter(torch.rand(D))
        self.decay, self.first = nn.Parameter(torch.rand(D)), nn.Parameter(torch.rand(D))
        self.k, self.v, self.r, self.o = (nn.Linear(D, D, bias=False) for _ in range(4))
        self.fk, self.fv = nn.Linear(D, 48, bias=False), nn.Linear(48, D, bias=False)

    def forward(self, x):
        t = x.shape[1]
        h = self.n1(x)
        m = h * self.mix + self.shift(h) * (1 - self.mix)
        k, v, r = self.k(m), self.v(m), torch.sigmoid(self.r(m))
        at = torch.arange(t, device=x.device)
        back = (at[:, None] - at[None, :] - 1).clamp(min=0).to(x.dtype)
        w = torch.exp(-torch.exp(self.decay)[:, None, None] * back)
        w = torch.where(at[:, None] == at[None, :], torch.exp(self.first)[:, None, None].expand(-1, t, t), w).tril()
        e = torch.exp(k - k.max())
        x = x + self.o(r * torch.einsum("cij,bjc->bic", w, e * v) / torch.einsum("cij,bjc->bic", w, e))
        g = self.n2(x)
        return x + self.fv(torch.relu(self.fk(g * 0.5 + self.shift(g) * 0.5)) ** 2)


class ConvMixer(nn.Module):
    """A causal depthwise convolution and no attention."""
    def __init__(self):
        super().__init__()
        self.n1, self.ff, self.n2 = RMS(), Gated(), RMS()
        self.conv = nn.Conv1d(D, D, 4, groups=D, padding=3)
        self.gate = nn.Linear(D, D)

    def forward(self, x):
        h = self.n1(x)
        c = self.conv(h.transpose(1, 2))[:, :, :x.shape[1]].transpose(1, 2)
        x = x + F.silu(c) * torch.sigmoid(self.gate(h))
        return x + self.ff(self.n2(x))


class ShortConvAttention(nn.Module):
    """Convolutions of queries, keys and values before causal attention (Primer)."""
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.ff = RMS(), RMS(), Gated()
        self.qkv, self.o = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.conv = nn.Conv1d(3 * D, 3 * D, 3, groups=3 * D)
        self.H: int = H

    def forward(self, x):
        b, t, c = x.shape
        qkv = F.pad(self.qkv(self.n1(x)).transpose(1, 2), (2, 0))
        q, k, v = self.conv(qkv).transpose(1, 2).chunk(3, dim=-1)
        q, k, v = (z.reshape(b, t, self.H, -1).transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, c))
        return x + self.ff(self.n2(x))


class Gru(nn.Module):
    """A recurrent net."""
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(D, D, batch_first=True)

    def forward(self, x):
        return x + self.rnn(x)[0]


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.n = nn.LSTM(D, D, num_layers=2, batch_first=True), nn.LayerNorm(D)

    def forward(self, x):
        y, _ = self.rnn(self.n(x))
        return x + y


class T5Bias(nn.Module):
    """Buckets of distances, no positions, no scale."""
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.ff = RMS(), RMS(), Gated()
        self.q, self.k, self.v, self.o = (nn.Linear(D, D, bias=False) for _ in range(4))
        self.bias = nn.Embedding(8, H)
        self.H: int = H

    def forward(self, x):
        b, t, c = x.shape
        at = torch.arange(t, device=x.device)
        back = (at[:, None] - at[None, :]).clamp(min=0)
        far = 4 + (torch.log(back.float().clamp(min=1) / 4) / math.log(4.0) * 4).to(torch.long)
        bucket = torch.where(back < 4, back, far.clamp(max=7))
        bias = self.bias(bucket).permute(2, 0, 1).unsqueeze(0)
        h = self.n1(x)
        q, k, v = (f(h).view(b, t, self.H, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        s = torch.matmul(q, k.transpose(3, 2)) * 0.3 + bias
        s = s + (1.0 - torch.ones(t, t).tril())[None, None] * -1e9
        y = torch.matmul(F.softmax(s.float(), dim=-1), v).transpose(1, 2).reshape(b, t, c)
        x = x + self.o(y)
        return x + self.ff(self.n2(x))


class AlibiSliced(nn.Module):
    """A stored table of biases, cut to the tokens."""
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), Gated()
        self.qkv, self.o = nn.Linear(D, 3 * D), nn.Linear(D, D)
        slopes = torch.tensor([2.0 ** (-8 * (i + 1) / H) for i in range(H)])
        at = torch.arange(T)
        bias = slopes[:, None, None] * (at[None, None, :] - at[None, :, None]).float()
        self.register_buffer("alibi", bias.masked_fill(at[None, :] > at[:, None], float("-inf")))
        self.H: int = H

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.H, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.alibi[:, :t, :t])
        x = x + self.o(y.transpose(1, 2).flatten(2))
        return x + self.ff(self.n2(x))


class Latent(nn.Module):
    """Keys and values made of a small latent, one rotary key for all heads."""
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.ff, self.nc = RMS(), RMS(), Gated(), RMS(16)
        self.q, self.down, self.up, self.o = (nn.Linear(a, b, bias=False) for a, b in
                                              ((D, H * 12), (D, 16 + 4), (16, H * 16), (H * 8, D)))
        self.H: int = H

    def rot(self, x, t: int):
        f = torch.arange(t, device=x.device).float()[:, None] * torch.tensor([1.0, 0.01], device=x.device)
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.cat((a * f.cos() - b * f.sin(), b * f.cos() + a * f.sin()), dim=-1)

    def forward(self, x):
        b, t, _ = x.shape
        h = self.n1(x)
        q = self.q(h).view(b, t, self.H, 12).transpose(1, 2)
        c, kr = self.down(h).split([16, 4], dim=-1)
        kn, v = self.up(self.nc(c)).view(b, t, self.H, 16).transpose(1, 2).split([8, 8], dim=-1)
        q = torch.cat((q[..., :8], self.rot(q[..., 8:], t)), dim=-1)
        kr = self.rot(kr.view(b, 1, t, 4), t).expand(-1, self.H, -1, -1)
        k = torch.cat((kn, kr), dim=-1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, -1))
        return x + self.ff(self.n2(x))


class Experts(nn.Module):
    """Two of four experts by one_hot and sums over all of them; attention with rows of zeros in front (sinks)."""
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = RMS(), RMS()
        self.qkv, self.o = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)
        self.gate = nn.Linear(D, 4, bias=False)
        self.up, self.down = nn.Parameter(torch.randn(4, D, 40) * 0.2), nn.Parameter(torch.randn(4, 40, D) * 0.2)
        self.H: int = H

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.H, -1).transpose(1, 2) for z in self.qkv(self.n1(x)).chunk(3, dim=-1))
        s = q @ k.transpose(-1, -2) / math.sqrt(c // self.H)
        s = s.masked_fill(torch.triu(torch.ones(t, t, dtype=torch.bool, device=x.device), 1), float("-inf"))
        e = torch.exp(s - s.amax(-1, keepdim=True))
        w = e / (1 + e.sum(-1, keepdim=True))
        x = x + self.o((w @ v).transpose(1, 2).reshape(b, t, c))
        h = self.n2(x)
        p, at = torch.topk(F.softmax(self.gate(h), dim=-1), 2, dim=-1)
        p = p / p.sum(-1, keepdim=True)
        each = (F.one_hot(at, 4).to(x.dtype) * p.unsqueeze(-1)).sum(2)
        y = torch.einsum("btd,edh->bteh", h, self.up)
        return x + torch.einsum("bteh,ehd,bte->btd", F.gelu(y), self.down, each)


class IndexAdd(nn.Module):
    """Experts that gather their tokens and add what they make of them."""
    def __init__(self):
        super().__init__()
        self.attention = Xformers()
        self.norm, self.gate = RMS(), nn.Linear(D, 3, bias=False)
        self.experts = nn.ModuleList([Gated() for _ in range(3)])

    def forward(self, x):
        x = self.attention(x)
        b, t, c = x.shape
        h = self.norm(x).view(-1, c)
        p, chosen = self.gate(h).softmax(-1).max(-1)
        out = torch.zeros_like(h)
        for i, expert in enumerate(self.experts):
            rows = torch.nonzero(chosen == i).flatten()
            out.index_add_(0, rows, expert(h[rows]) * p[rows, None])
        return x + out.view(b, t, c)


class MinGpt(nn.Module):
    """minGPT: Conv1D products written as addmm, NewGELU, a dictionary of modules, positions by a slice of a parameter."""
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(V, D)
        self.pos = nn.Parameter(torch.randn(1, T, D) * 0.5)
        self.w = nn.ParameterList([nn.Parameter(torch.randn(a, b) * 0.2) for _ in range(2)
                                   for a, b in ((D, 3 * D), (D, D), (D, 64), (64, D))])
        self.register_buffer("bias", torch.tril(torch.ones(T, T)).view(1, 1, T, T))
        self.head = nn.Linear(D, V, bias=False)
        self.H: int = H

    def gelu(self, x):
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))

    def layer(self, x, w: List[torch.Tensor]):
        b, t, c = x.size()
        h = F.layer_norm(x, (c,))
        q, k, v = torch.mm(h.view(-1, c), w[0]).view(b, t, 3 * c).split(c, dim=2)
        q, k, v = (z.view(b, t, self.H, c // self.H).permute(0, 2, 1, 3) for z in (q, k, v))
        a = torch.matmul(q, k.transpose(-1, -2)) / (float(v.size(-1)) ** 0.5)
        m = self.bias[:, :, :t, :t]
        a = a * m - 1e4 * (1 - m)
        y = torch.matmul(nn.Softmax(dim=-1)(a), v).permute(0, 2, 1, 3).contiguous().view(b * t, c)
        x = x + torch.mm(y, w[1]).view(b, t, c)
        h = F.layer_norm(x, (c,)).view(-1, c)
        return x + torch.mm(self.gelu(torch.mm(h, w[2])), w[3]).view(b, t, c)

    def forward(self, ids):
        x = self.words(ids) + self.pos[:, :ids.size(1), :]
        for i in range(2):
            x = self.layer(x, [p for p in self.w][4 * i:4 * i + 4])
        return self.head(F.layer_norm(x, (x.size(-1),)))


class SoftCapped(Base):
    """Factors of embeddings, soft-caps of scores and logits, norms before and after, tied weights, a window in one layer."""
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2, self.n3, self.n4, self.ff = RMS(), RMS(), RMS(), RMS(), Gated()
            self.q, self.kv, self.o = (nn.Linear(D, D, bias=False) for _ in range(3))
            self.H: int = H

        def forward(self, x):
            b, t, c = x.shape
            h = self.n1(x)
            q = self.q(h).view(b, t, self.H, -1).transpose(1, 2)
            k, v = self.kv(h).view(b, t, self.H, -1).transpose(1, 2).chunk(2, dim=1)
            k, v = k.repeat_interleave(2, dim=1), v.repeat_interleave(2, dim=1)
            s = 20.0 * torch.tanh(q @ k.mT * 0.4 / 20.0)
            i = torch.arange(t, device=x.device)
            near = (i[:, None] >= i[None, :]) & (i[:, None] - i[None, :] < 5)
            y = s.masked_fill(~near, -2.3819763e38).softmax(-1) @ v
            x = x + self.n2(self.o(y.transpose(1, 2).reshape(b, t, c)))
            return x + self.n4(self.ff(self.n3(x)))

    def __init__(self):
        super().__init__(SoftCapped.Layer, tied=True)

    def forward(self, ids):
        x = self.words(ids) * math.sqrt(32)
        for layer in self.layers:
            x = layer(x)
        return torch.tanh(self.head(self.norm(x)) / 30.0) * 30.0


class Retention(nn.Module):
    """RetNet: no softmax, decays by distance, norms of groups."""
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.ff = RMS(), RMS(), Gated()
        self.q, self.k, self.v, self.g, self.o = (nn.Linear(D, D, bias=False) for _ in range(5))
        self.gn = nn.GroupNorm(H, D)
        self.register_buffer("gamma", 1 - 2.0 ** (-2 - torch.arange(H).float()))
        self.H: int = H

    def forward(self, x):
        b, t, c = x.shape
        h = self.n1(x)
        q, k, v = (f(h).view(b, t, self.H, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        i = torch.arange(t, device=x.device)
        d = (i[:, None] - i[None, :])
        decay = torch.where(d >= 0, self.gamma[:, None, None] ** d.clamp(min=0).float(), torch.zeros(1))
        y = ((q @ k.transpose(-1, -2)) * (c // self.H) ** -0.5 * decay) @ v
        y = self.gn(y.transpose(1, 2).reshape(b * t, c)).view(b, t, c)
        x = x + self.o(y * F.silu(self.g(h)))
        return x + self.ff(self.n2(x))


class Scan(nn.Module):
    """A selective scan as a loop over tokens, for scripts."""
    def __init__(self):
        super().__init__()
        self.n, self.up, self.out = RMS(), nn.Linear(D, 2 * D), nn.Linear(D, D)
        self.bc, self.dt = nn.Linear(D, 8), nn.Linear(D, D)
        self.a = nn.Parameter(torch.rand(D, 4))

    def forward(self, x):
        u, z = self.up(self.n(x)).chunk(2, dim=-1)
        b, c = self.bc(u).chunk(2, dim=-1)
        dt = F.softplus(self.dt(u))
        state = torch.zeros(x.shape[0], u.shape[2], 4, device=x.device)
        rows: List[torch.Tensor] = []
        for i in range(x.shape[1]):
            step = dt[:, i].unsqueeze(-1)
            state = torch.exp(-step * torch.exp(self.a)) * state + step * b[:, i].unsqueeze(1) * u[:, i].unsqueeze(-1)
            rows.append((state * c[:, i].unsqueeze(1)).sum(-1))
        return x + self.out(torch.stack(rows, dim=1) * F.silu(z))


class Linear(nn.Module):
    """Linear attention by a sum over all tokens up to each."""
    def __init__(self):
        super().__init__()
        self.n, self.q, self.k, self.v, self.o = RMS(), *(nn.Linear(D, D) for _ in range(4))
        self.H: int = H

    def forward(self, x):
        b, t, c = x.shape
        h = self.n(x)
        q, k, v = (f(h).view(b, t, self.H, -1) for f in (self.q, self.k, self.v))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kv = torch.cumsum(k.unsqueeze(-1) * v.unsqueeze(-2), dim=1)
        z = 1 / (q * k.cumsum(1)).sum(-1, keepdim=True)
        y = (q.unsqueeze(-2) @ kv).squeeze(-2) * z
        return x + self.o(y.reshape(b, t, c))


class Differing(nn.Module):
    """Layers with other heads, one with none."""
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(V, D), nn.Embedding(T, D)
        self.qkv = nn.ModuleList([nn.Linear(D, 3 * D), nn.Linear(D, 3 * 16), nn.Linear(D, 3 * D)])
        self.out = nn.ModuleList([nn.Linear(D, D), nn.Linear(16, D), nn.Linear(D, D)])
        self.head = nn.Linear(D, V)
        with torch.no_grad():
            for p in self.parameters():
                p.mul_(2 if p.dim() > 1 else 1)

    def forward(self, ids):
        b, t = ids.shape
        x = self.words(ids) + self.places(torch.arange(t, device=ids.device))
        heads = (4, 2, 8)
        i = 0
        for qkv, out in zip(self.qkv, self.out):
            q, k, v = (z.view(b, t, heads[i], -1).transpose(1, 2) for z in qkv(F.layer_norm(x, [32])).chunk(3, dim=-1))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + out(y.transpose(1, 2).reshape(b, t, -1))
            i += 1
        return self.head(x)


class PrefixMean(Base):
    """Each token beside the mean of all before it, and logits with a bias by the length of the text."""
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(2 * D, 48), nn.Linear(48, D)

        def forward(self, x):
            n = torch.arange(1, x.shape[1] + 1, device=x.device).view(1, -1, 1)
            return x + self.down(torch.relu(self.up(torch.cat((x, x.cumsum(1) / n), dim=-1))))

    def __init__(self):
        super().__init__(PrefixMean.Layer)

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return (self.head(self.norm(x)) * math.log(2.0 + ids.shape[1])).float()


class Tuple2(Base):
    """Logits and all hidden values."""
    def forward(self, ids) -> Tuple[torch.Tensor, List[torch.Tensor]]:
        x = self.words(ids)
        seen: List[torch.Tensor] = []
        for layer in self.layers:
            x = layer(x)
            seen.append(x)
        return self.head(self.norm(x)), seen


class SeqFirst(Base):
    """ids [tokens, batch], logits [tokens, batch, words]."""
    tokens_first = True

    def forward(self, ids):
        x = self.words(ids).transpose(0, 1)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)).transpose(0, 1)


LAYERS = (Llama2c, LitGpt, Xformers, XTransformers, TokenShift, ConvMixer, ShortConvAttention, Gru, Lstm, T5Bias, AlibiSliced,
          Latent, Experts, IndexAdd, Retention, Scan, Linear)
MORE_ZOO = {a.__name__: (lambda a=a: Base(a)) for a in LAYERS}
MORE_ZOO.update({a.__name__: a for a in (MinGpt, SoftCapped, Differing, PrefixMean)})
MORE_ZOO.update(Talking=lambda: Base(lambda: XTransformers(True)), Tuple2=lambda: Tuple2(Llama2c),
                SeqFirst=lambda: SeqFirst(Llama2c), BFloat16=lambda: Base(Llama2c).bfloat16(),
                Half=lambda: Base(AlibiSliced).half(), Double=lambda: Base(LitGpt).double())
