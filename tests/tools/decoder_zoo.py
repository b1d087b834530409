"""Decoders as people write them by hand, for check_decoders.py: small, with random weights, ids [batch, tokens] in and logits out."""
import math

import torch
from torch import nn
from torch.nn import functional as F

V, D, H, T = 97, 32, 4, 64


class Sized(nn.Module):
    """Scripts know no globals."""
    def __init__(self):
        super().__init__()
        self.D: int = D
        self.H: int = H


class Block(nn.Module):
    def __init__(self, attention, d=D):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attention = attention
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        x = x + self.attention(self.n1(x))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class FusedTril(Sized):
    """nanoGPT without flash attention."""
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.register_buffer("bias", torch.tril(torch.ones(T, T)).view(1, 1, T, T))

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.qkv(x).split(self.D, dim=2)
        q = q.view(b, t, self.H, c // self.H).transpose(1, 2)
        k = k.view(b, t, self.H, c // self.H).transpose(1, 2)
        v = v.view(b, t, self.H, c // self.H).transpose(1, 2)
        w = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        w = w.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf"))
        y = F.softmax(w, dim=-1) @ v
        return self.out(y.transpose(1, 2).contiguous().view(b, t, c))


class Flash(FusedTril):
    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.view(b, t, self.H, -1).transpose(1, 2)
        k = k.view(b, t, self.H, -1).transpose(1, 2)
        v = v.view(b, t, self.H, -1).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Scaled(FusedTril):
    """A scale of its own, and grouped keys through enable_gqa."""
    def __init__(self):
        super().__init__()
        self.kv = nn.Linear(D, D)

    def forward(self, x):
        b, t, c = x.size()
        q = self.qkv(x)[:, :, :self.D].reshape(b, t, self.H, 8).transpose(1, 2)
        k, v = self.kv(x).view(b, t, 2, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        mask = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.2, enable_gqa=True)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Einsum(FusedTril):
    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.qkv(x).view(b, t, 3, self.H, c // self.H).unbind(2)
        w = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(c // self.H)
        w = w + torch.full((t, t), float("-inf"), device=x.device).triu(1)
        y = torch.einsum("bhqk,bkhd->bqhd", w.softmax(-1), v)
        return self.out(y.reshape(b, t, c))


class ByHand(FusedTril):
    """A softmax of its own."""
    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.qkv(x).view(b, t, 3, self.H, c // self.H).permute(2, 0, 3, 1, 4).unbind(0)
        w = q @ k.transpose(-1, -2) / math.sqrt(c // self.H)
        w = torch.where(torch.arange(t).view(-1, 1) >= torch.arange(t), w, torch.full_like(w, -1e30))
        e = torch.exp(w - w.max(dim=-1, keepdim=True)[0])
        y = (e / e.sum(dim=-1, keepdim=True)) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Heads(nn.Module):
    """A layer for each head, as in lectures."""
    class One(nn.Module):
        def __init__(self):
            super().__init__()
            self.k, self.q, self.v = (nn.Linear(D, D // H, bias=False) for _ in range(3))
            self.register_buffer("tril", torch.tril(torch.ones(T, T)))

        def forward(self, x):
            t = x.shape[1]
            k, q = self.k(x), self.q(x)
            w = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
            w = w.masked_fill(self.tril[:t, :t] == 0, float("-inf"))
            return F.softmax(w, dim=-1) @ self.v(x)

    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList([Heads.One() for _ in range(H)])
        self.out = nn.Linear(D, D)

    def forward(self, x):
        return self.out(torch.cat([h(x) for h in self.heads], dim=-1))


class Torch(nn.Module):
    """nn.MultiheadAttention with a mask."""
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(D, H, batch_first=True)

    def forward(self, x):
        t = x.shape[1]
        mask = torch.triu(torch.ones(t, t, dtype=torch.bool, device=x.device), diagonal=1)
        return self.attention(x, x, x, attn_mask=mask, need_weights=False)[0]


class Complex(FusedTril):
    """Rotary positions as complex numbers, as Llama had them."""
    def __init__(self):
        super().__init__()
        turn = torch.outer(torch.arange(T), 1.0 / 10000 ** (torch.arange(0, D // H, 2) / (D // H)))
        self.register_buffer("turn", torch.polar(torch.ones_like(turn), turn))

    def rotated(self, x):
        z = torch.view_as_complex(x.float().reshape(x.shape[0], x.shape[1], self.H, -1, 2))
        return torch.view_as_real(z * self.turn[:x.shape[1]].view(1, x.shape[1], 1, -1)).flatten(3)

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.qkv(x).view(b, t, 3, self.H, c // self.H).unbind(2)
        q, k = self.rotated(q).transpose(1, 2), self.rotated(k).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v.transpose(1, 2), is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Table(FusedTril):
    """Rotary positions from tables of cosines and sines, half of each head, turned in halves."""
    def __init__(self):
        super().__init__()
        angle = torch.outer(torch.arange(T), 1.0 / 1000 ** (torch.arange(0, 4, 2) / 4))
        self.register_buffer("cos", torch.cat([angle, angle], -1).cos())
        self.register_buffer("sin", torch.cat([angle, angle], -1).sin())

    def rotated(self, x):
        t = x.shape[2]
        turning, rest = x[..., :4], x[..., 4:]
        other = torch.cat([-turning[..., 2:], turning[..., :2]], -1)
        return torch.cat([turning * self.cos[:t] + other * self.sin[:t], rest], -1)

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.qkv(x).view(b, t, 3, self.H, c // self.H).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(self.rotated(q), self.rotated(k), v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Alibi(FusedTril):
    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.qkv(x).view(b, t, 3, self.H, c // self.H).permute(2, 0, 3, 1, 4).unbind(0)
        at = torch.arange(t, device=x.device)
        slopes = 2.0 ** (-2.0 * torch.arange(1, self.H + 1, device=x.device))
        bias = -slopes.view(self.H, 1, 1) * (at.view(-1, 1) - at).clamp(min=0)
        bias = bias.masked_fill(at > at.view(-1, 1), float("-inf"))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.unsqueeze(0))
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Local(FusedTril):
    """Five tokens are seen."""
    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.qkv(x).view(b, t, 3, self.H, c // self.H).permute(2, 0, 3, 1, 4).unbind(0)
        at = torch.arange(t)
        back = at.view(-1, 1) - at
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=(back >= 0) & (back < 5))
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Capped(FusedTril):
    """Norms of queries and keys, and scores in bounds."""
    def __init__(self):
        super().__init__()
        self.qn, self.kn = nn.LayerNorm(D // H), nn.LayerNorm(D // H)

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.qkv(x).view(b, t, 3, self.H, c // self.H).permute(2, 0, 3, 1, 4).unbind(0)
        w = 5.0 * torch.tanh(self.qn(q) @ self.kn(k).transpose(-1, -2) / 5.0)
        w = w.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), torch.finfo(w.dtype).min)
        return self.out((w.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))


class Multiquery(Sized):
    """One key for all heads, and queries of all heads as rows of one matrix."""
    def __init__(self):
        super().__init__()
        self.q, self.kv, self.out = nn.Linear(D, D), nn.Linear(D, 2 * (D // H)), nn.Linear(D, D)

    def forward(self, x):
        b, t, c = x.size()
        q = self.q(x).view(b, t, self.H, c // self.H).transpose(1, 2)
        k, v = self.kv(x).split(c // self.H, -1)
        w = q @ k.unsqueeze(1).transpose(-1, -2) * (c // self.H) ** -0.5
        w = w + torch.full((t, t), -1e9).triu(1)
        return self.out((w.softmax(-1) @ v.unsqueeze(1)).transpose(1, 2).reshape(b, t, c))


class Rows(FusedTril):
    """[tokens, batch, ..], as Megatron has it, in products of three dimensions."""
    def forward(self, x):
        x = x.transpose(0, 1)
        t, b, c = x.size()
        q, k, v = self.qkv(x).view(t, b, self.H, 3 * c // self.H).chunk(3, dim=-1)
        q, k, v = (z.reshape(t, b * self.H, c // self.H).transpose(0, 1) for z in (q, k, v))
        w = torch.baddbmm(torch.zeros(b * self.H, t, t), q, k.transpose(1, 2), beta=0.0, alpha=(c // self.H) ** -0.5)
        w = w.view(b, self.H, t, t).masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), -10000.0)
        y = torch.bmm(w.softmax(-1).view(b * self.H, t, t), v).transpose(0, 1).reshape(t, b, c)
        return self.out(y).transpose(0, 1)


class Model(nn.Module):
    """Positions, logits and layers in one of several ways."""
    def __init__(self, attention, positions="embedding", last=False, tied=True):
        super().__init__()
        self.words, self.places = nn.Embedding(V, D), nn.Embedding(T, D)
        self.table = nn.Parameter(torch.randn(1, T, D) * 0.3)
        self.layers = nn.ModuleList([Block(attention()) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, V, bias=not tied)
        self.positions: str = positions
        self.last: bool = last
        if tied:
            self.head.weight = self.words.weight
        with torch.no_grad():
            for p in self.parameters():
                p.mul_(2 if p.dim() > 1 else 1)

    def forward(self, ids):
        x = self.words(ids)
        if self.positions == "embedding":
            x = x + self.places(torch.arange(0, ids.shape[1], dtype=torch.long, device=ids.device))
        elif self.positions == "table":
            x = x + self.table[:, :ids.shape[1], :]
        elif self.positions == "expanded":
            x = x + self.places(torch.arange(ids.shape[1], device=ids.device).unsqueeze(0).expand_as(ids))
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        if self.last:
            x = x[:, [-1], :]
        return self.head(x)


class Encoder(nn.Module):
    """nn.TransformerEncoder with a causal mask."""
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(V, D), nn.Embedding(T, D)
        layer = nn.TransformerEncoderLayer(D, H, 2 * D, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(D, V)

    def forward(self, ids):
        t = ids.shape[1]
        x = self.words(ids) + self.places(torch.arange(t, device=ids.device))
        mask = torch.triu(torch.full((t, t), float("-inf"), device=ids.device), diagonal=1)
        return self.head(self.encoder(x, mask=mask))


ZOO = {a.__name__: (lambda a=a: Model(a)) for a in
       (FusedTril, Flash, Scaled, Einsum, ByHand, Heads, Torch, Capped, Multiquery, Rows)}
ZOO.update({a.__name__: (lambda a=a: Model(a, "none")) for a in (Complex, Table, Alibi)})
ZOO.update(LocalTable=lambda: Model(Local, "table"), FlashExpanded=lambda: Model(Flash, "expanded"),
           FlashLast=lambda: Model(Flash, "table", last=True), FusedUntied=lambda: Model(FusedTril, tied=False),
           Encoder=Encoder)
