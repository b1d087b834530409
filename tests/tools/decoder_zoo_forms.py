"""Decoders for check_decoders.py whose forms the other lists lack: masks and positions made in odd ways, and what lies around layers."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from decoder_zoo_kinds import Attention, heads_of, rows_of
from decoder_zoo_more import D, H, RMS, T, V, Base, Gated


class LogMask(Attention):
    """Scores plus the logarithm of a triangle of ones."""
    def mix(self, q, k, v):
        t = q.shape[2]
        mask = torch.ones(t, t, device=q.device).tril().log()
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


class SummedMask(Attention):
    """The triangle as sums of a diagonal along its rows, which take part as products before a sum of their own."""
    def mix(self, q, k, v):
        t = q.shape[2]
        seen = torch.eye(t, device=q.device).cumsum(0).t().cumsum(0).clamp(max=1).t().tril()
        e = torch.exp((q @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1])) * seen
        return (e / e.sum(-1, keepdim=True)) @ v


class OuterMask(Attention):
    """Distances from counted ones, a bias that falls with their square root, and a window through two comparisons."""
    def mix(self, q, k, v):
        at = torch.ones_like(q[0, 0, :, 0]).cumsum(0)
        far = at[:, None] - at[None, :]
        s = (q @ k.transpose(-1, -2)) * 0.4 - far.clamp(min=0).sqrt()
        allowed = torch.logical_and(far >= 0, far < 7)
        return torch.where(allowed, s, torch.full_like(s, -1e9)).softmax(-1) @ v


class Canon(Attention):
    """Short convolutions of what goes into each product (canon layers)."""
    def __init__(self):
        super().__init__()
        self.before = nn.Conv1d(D, D, 4, groups=D, padding=3)
        self.inside = nn.Conv1d(3 * D, 3 * D, 3, groups=3 * D)

    def forward(self, x):
        n = self.n1(x).transpose(1, 2)
        n = n + self.before(n)[..., : n.shape[-1]]
        qkv = self.qkv(n.transpose(1, 2)).transpose(1, 2)
        qkv = (qkv + self.inside(F.pad(qkv, (2, 0)))).transpose(1, 2)
        q, k, v = (heads_of(z, H) for z in qkv.chunk(3, dim=-1))
        x = x + self.o(rows_of(self.mix(q, k, v)))
        return x + self.ff(self.n2(x))


class Rotations(Attention):
    """Rotary positions as matrices, one for each position, in a product of letters."""
    def __init__(self):
        super().__init__()
        angles = torch.outer(torch.arange(T).float(), 100.0 ** (-torch.arange(0, D // H, 2) / (D // H)))
        turns = torch.stack((angles.cos(), -angles.sin(), angles.sin(), angles.cos()), -1).view(T, -1, 2, 2)
        self.register_buffer("turns", turns)

    def turned(self, x):
        b, h, t, d = x.shape
        return torch.einsum("tpij,bhtpj->bhtpi", self.turns[:t], x.view(b, h, t, d // 2, 2)).reshape(b, h, t, d)

    def mix(self, q, k, v):
        return super().mix(self.turned(q), self.turned(k), v)


class Normalised(Attention):
    """nGPT: rows of length one, a learnt scale of each head, steps along the sphere."""
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.full((H, 1, 1), 3.0))
        self.step = nn.Parameter(torch.full((D,), 0.3))

    def mix(self, q, k, v):
        return F.scaled_dot_product_attention(F.normalize(q, dim=-1) * self.scale, F.normalize(k, dim=-1), v,
                                              is_causal=True, scale=1.0)

    def forward(self, x):
        x = F.normalize(x, dim=-1)
        q, k, v = (heads_of(z, H) for z in self.qkv(x).chunk(3, dim=-1))
        a = F.normalize(self.o(rows_of(self.mix(q, k, v))), dim=-1)
        x = F.normalize(torch.lerp(x, a, self.step), dim=-1)
        return F.normalize(x + self.step * (F.normalize(self.ff(x), dim=-1) - x), dim=-1)


class Streams(Base):
    """Four streams of hidden values that layers read and write with learnt weights (hyper-connections), tied words."""
    def __init__(self):
        super().__init__(Attention, tied=True)
        self.read = nn.Parameter(torch.randn(2, 4) * 0.5)
        self.write = nn.Parameter(torch.randn(2, 4) * 0.5)

    def forward(self, ids):
        x = self.words(ids).unsqueeze(2).expand(-1, -1, 4, -1)
        for i, layer in enumerate(self.layers):
            y = layer((x * self.read[i].softmax(0)[:, None]).sum(2))
            x = x + y.unsqueeze(2) * self.write[i][:, None]
        return {"hidden": x, "logits": F.linear(self.norm(x.mean(2)), self.words.weight)}


class Bigrams(Base):
    """Words of a token and of a hash of it and the one before it."""
    def __init__(self):
        super().__init__(Attention)
        self.pairs = nn.Embedding(53, D)

    def forward(self, ids):
        before = F.pad(ids[:, :-1], (1, 0), value=0)
        x = self.words(ids) + self.pairs((ids * 31 + before * 17) % 53)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Halves(Base):
    """All in bfloat16 but for norms and logits; some words are never said."""
    tie = 0.02  # what comes of rounding sums to 8 bits
    def __init__(self):
        super().__init__(Attention)
        self.bfloat16()
        self.norm.float()
        self.bias = nn.Parameter(torch.randn(V - 6))

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x.float()).bfloat16())[..., :-6].float() + self.bias
        return 5.0 * torch.tanh(logits / 5.0)


class CountedMask(Base):
    """Positions are the sums of the mask, less one, of a table with two rows in front; sines beside it."""
    takes = "ids+mask"

    def __init__(self):
        super().__init__(Attention)
        self.places = nn.Embedding(T + 2, D)

    def forward(self, input_ids, attention_mask):
        at = (attention_mask.long().cumsum(1) * attention_mask.long()) - 1
        angles = at.unsqueeze(-1).float() * torch.exp(torch.arange(0, D, 2, device=at.device) * (-math.log(100.0) / D))
        sines = torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)
        x = self.words(input_ids) + self.places(at + 2) + 0.1 * sines
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Torso(nn.Module):
    """[tokens, batch] rows inside: nn.TransformerDecoderLayer without memory's help, sines from arange, a head of two layers."""
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(V, D)
        self.attention = nn.ModuleList([nn.MultiheadAttention(D, n, batch_first=False) for n in (2, 4, 8)])
        self.norms = nn.ModuleList([nn.LayerNorm(D) for _ in range(3)])
        self.head = nn.Sequential(nn.Linear(D, 48), nn.GELU(), nn.LayerNorm(48), nn.Linear(48, V))
        with torch.no_grad():
            for p in self.parameters():
                p.mul_(2 if p.dim() > 1 else 1)

    def forward(self, ids):
        t = ids.shape[1]
        at = torch.arange(t, device=ids.device).unsqueeze(1)
        rate = torch.exp(torch.arange(0, D, 2, device=ids.device) * (-math.log(1000.0) / D))
        sines = torch.cat((torch.sin(at * rate), torch.cos(at * rate)), -1)
        x = (self.words(ids) + sines).transpose(0, 1)
        mask = torch.triu(torch.full((t, t), float("-inf"), device=ids.device), diagonal=1)
        for attention, norm in zip(self.attention, self.norms):
            n = norm(x)
            x = x + attention(n, n, n, attn_mask=mask, need_weights=False)[0]
        return self.head(x.transpose(0, 1))


class Recall(nn.Module):
    """A gated state by the parallel form of a decaying sum, beside windowed attention with other heads."""
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.ff = RMS(), RMS(), Gated()
        self.qkv, self.o = nn.Linear(D, 3 * D), nn.Linear(2 * D, D)
        self.gates, self.values = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x):
        n = self.n1(x)
        b, t, _ = n.shape
        decay = F.logsigmoid(self.gates(n) + 2).cumsum(1)
        state = (decay - decay.amax(1, keepdim=True).detach() * 0).exp() * (self.values(n) * (-decay).exp()).cumsum(1)
        q, k, v = (heads_of(z, 2) for z in self.qkv(n).chunk(3, dim=-1))
        i = torch.arange(t, device=x.device)
        near = (i[None] <= i[:, None]) & (i[None] > i[:, None] - 4)
        y = rows_of(F.scaled_dot_product_attention(q, k, v, attn_mask=near))
        x = x + self.o(torch.cat((state.tanh(), y), -1))
        return x + self.ff(self.n2(x))


class Futures(Base):
    """Logits of three tokens ahead as one tensor, of which the first are returned; layers that skip by a fixed share."""
    def __init__(self):
        super().__init__(Attention, count=3)
        self.ahead = nn.Linear(D, 3 * V)

    def forward(self, ids):
        x = self.words(ids)
        first = x
        for i, layer in enumerate(self.layers):
            x = layer(x) * 0.75 + first * (0.25 if i else 0.5)
        b, t, _ = x.shape
        return self.ahead(self.norm(x)).view(b, t, 3, V).permute(2, 0, 1, 3)[0]


FORMS = (LogMask, SummedMask, OuterMask, Canon, Rotations, Normalised, Recall)
FORMS_ZOO = {a.__name__: (lambda a=a: Base(a)) for a in FORMS}
FORMS_ZOO.update({a.__name__: a for a in (Streams, Bigrams, Halves, CountedMask, Torso, Futures)})
