"""The language models of samples/language as PyTorch modules: GPT-2's architecture and Qwen2's.

Each has two forms with the same parameters:
    forward(input_ids [B, S], position_ids [B, S]) -> logits [B, S, vocabulary]
    step(input_ids [1, 1], position_ids [1, 1], past_k, past_v [layers, 1, kv heads, past, head size])
        -> (logits, k, v), the keys and values of one more token
"""
import math
from typing import Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def written_out(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Causal attention of [B, H, S, D] in single operators."""
    s = q.size(2)
    scores = torch.matmul(q, k.transpose(-2, -1)) * scale
    scores = scores.masked_fill(torch.ones(s, s).triu(1) > 0, float("-inf"))
    return torch.matmul(torch.softmax(scores, dim=-1), v)


def with_added_mask(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """The same, with minus infinity added to what is not seen."""
    s = q.size(2)
    scores = torch.matmul(q, k.transpose(2, 3)) * scale
    return torch.matmul(F.softmax(scores + torch.full([s, s], float("-inf")).triu(1), dim=-1), v)


def with_operator(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """The same as one operator."""
    return torch.ops.aten._scaled_dot_product_attention(q, k, v, None, 0.0, False, True)[0]


def over_past(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """A single query sees all keys."""
    return torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-2, -1)) * scale, dim=-1), v)


class GptBlock(nn.Module):
    __constants__ = ["d", "heads", "head_size", "scale", "operator"]

    def __init__(self, d: int, heads: int, operator: bool):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc, self.out = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.d, self.heads, self.head_size = d, heads, d // heads
        self.scale = 1.0 / math.sqrt(d // heads)
        self.operator = operator

    def split(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        b, s = x.size(0), x.size(1)
        q, k, v = self.qkv(self.ln1(x)).split(self.d, dim=2)
        return (q.view(b, s, self.heads, self.head_size).transpose(1, 2),
                k.view(b, s, self.heads, self.head_size).transpose(1, 2),
                v.view(b, s, self.heads, self.head_size).transpose(1, 2))

    def finish(self, x: Tensor, y: Tensor) -> Tensor:
        x = x + self.proj(y.transpose(1, 2).reshape(x.size(0), x.size(1), self.d))
        return x + self.out(F.gelu(self.fc(self.ln2(x))))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.split(x)
        if self.operator:
            return self.finish(x, with_operator(q, k, v, self.scale))
        return self.finish(x, written_out(q, k, v, self.scale))

    def step(self, x: Tensor, past_k: Tensor, past_v: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        q, k, v = self.split(x)
        k, v = torch.cat([past_k, k], dim=2), torch.cat([past_v, v], dim=2)
        return self.finish(x, over_past(q, k, v, self.scale)), k, v


class Gpt(nn.Module):
    """GPT-2: learned positions, layer norms in front, exact GELU."""
    __constants__ = ["layers", "kv_heads", "head_size"]

    def __init__(self, layers: int, d: int, heads: int, vocabulary: int, positions: int, operator: bool = False):
        super().__init__()
        self.layers, self.kv_heads, self.head_size = layers, heads, d // heads
        self.tok, self.pos = nn.Embedding(vocabulary, d), nn.Embedding(positions, d)
        self.blocks = nn.ModuleList(GptBlock(d, heads, operator) for _ in range(layers))
        self.ln = nn.LayerNorm(d)
        self.head = nn.Linear(d, vocabulary, bias=False)

    def forward(self, input_ids: Tensor, position_ids: Tensor) -> Tensor:
        x = self.tok(input_ids) + self.pos(position_ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))

    @torch.jit.export
    def step(self, input_ids: Tensor, position_ids: Tensor, past_k: Tensor,
             past_v: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        x = self.tok(input_ids) + self.pos(position_ids)
        ks, vs = [], []
        for i, block in enumerate(self.blocks):
            x, k, v = block.step(x, past_k[i], past_v[i])
            ks.append(k)
            vs.append(v)
        return self.head(self.ln(x)), torch.stack(ks), torch.stack(vs)


class RmsNorm(nn.Module):
    __constants__ = ["epsilon"]

    def __init__(self, d: int, epsilon: float = 1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon))


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """NeoX's way: component i with component i + half."""
    half = x.size(-1) // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], dim=-1) * sin


class QwenBlock(nn.Module):
    __constants__ = ["heads", "kv_heads", "head_size", "scale"]

    def __init__(self, d: int, heads: int, kv_heads: int, inner: int):
        super().__init__()
        self.heads, self.kv_heads, self.head_size = heads, kv_heads, d // heads
        self.scale = 1.0 / math.sqrt(d // heads)
        self.input_norm, self.post_norm = RmsNorm(d), RmsNorm(d)
        self.q_proj, self.k_proj = nn.Linear(d, d), nn.Linear(d, kv_heads * self.head_size)
        self.v_proj = nn.Linear(d, kv_heads * self.head_size)
        self.o_proj = nn.Linear(d, d, bias=False)
        self.gate_proj, self.up_proj = nn.Linear(d, inner, bias=False), nn.Linear(d, inner, bias=False)
        self.down_proj = nn.Linear(inner, d, bias=False)

    def split(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        b, s = x.size(0), x.size(1)
        h = self.input_norm(x)
        q = self.q_proj(h).view(b, s, self.heads, self.head_size).transpose(1, 2)
        k = self.k_proj(h).view(b, s, self.kv_heads, self.head_size).transpose(1, 2)
        v = self.v_proj(h).view(b, s, self.kv_heads, self.head_size).transpose(1, 2)
        return rotated(q, cos, sin), rotated(k, cos, sin), v

    def repeated(self, x: Tensor) -> Tensor:
        """Each head of keys or values serves a group of queries."""
        b, s, group = x.size(0), x.size(2), self.heads // self.kv_heads
        x = x[:, :, None, :, :].expand(b, self.kv_heads, group, s, self.head_size)
        return x.reshape(b, self.heads, s, self.head_size)

    def finish(self, x: Tensor, y: Tensor) -> Tensor:
        x = x + self.o_proj(y.transpose(1, 2).reshape(x.size(0), x.size(1), self.heads * self.head_size))
        h = self.post_norm(x)
        return x + self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = self.split(x, cos, sin)
        return self.finish(x, with_added_mask(q, self.repeated(k), self.repeated(v), self.scale))

    def step(self, x: Tensor, cos: Tensor, sin: Tensor, past_k: Tensor,
             past_v: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        q, k, v = self.split(x, cos, sin)
        k, v = torch.cat([past_k, k], dim=2), torch.cat([past_v, v], dim=2)
        return self.finish(x, over_past(q, self.repeated(k), self.repeated(v), self.scale)), k, v


class Qwen(nn.Module):
    """Qwen2: RMSNorm, rotary positions, fewer heads of keys than of queries, SwiGLU, a bias for q, k and v, and the
    embedding as the last layer's weights."""
    __constants__ = ["layers", "kv_heads", "head_size"]

    def __init__(self, layers: int, d: int, heads: int, kv_heads: int, inner: int, vocabulary: int,
                 base: float = 10000.0):
        super().__init__()
        self.layers, self.kv_heads, self.head_size = layers, kv_heads, d // heads
        self.embed_tokens = nn.Embedding(vocabulary, d)
        self.blocks = nn.ModuleList(QwenBlock(d, heads, kv_heads, inner) for _ in range(layers))
        self.norm = RmsNorm(d)
        frequencies = base**(-torch.arange(0, self.head_size, 2, dtype=torch.float64) / self.head_size)
        self.register_buffer("inv_freq", frequencies.float())

    def angles(self, position_ids: Tensor) -> Tuple[Tensor, Tensor]:
        half = position_ids.unsqueeze(-1).to(torch.float32) * self.inv_freq
        whole = torch.cat([half, half], dim=-1).unsqueeze(1)
        return whole.cos(), whole.sin()

    def forward(self, input_ids: Tensor, position_ids: Tensor) -> Tensor:
        x = self.embed_tokens(input_ids)
        cos, sin = self.angles(position_ids)
        for block in self.blocks:
            x = block(x, cos, sin)
        return F.linear(self.norm(x), self.embed_tokens.weight)

    @torch.jit.export
    def step(self, input_ids: Tensor, position_ids: Tensor, past_k: Tensor,
             past_v: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        x = self.embed_tokens(input_ids)
        cos, sin = self.angles(position_ids)
        ks, vs = [], []
        for i, block in enumerate(self.blocks):
            x, k, v = block.step(x, cos, sin, past_k[i], past_v[i])
            ks.append(k)
            vs.append(v)
        return F.linear(self.norm(x), self.embed_tokens.weight), torch.stack(ks), torch.stack(vs)


def byte_gpt(operator: bool = False) -> Gpt:
    """A small GPT of bytes."""
    return Gpt(4, 64, 4, 256, 512, operator)


def documentation_gpt(operator: bool = False) -> Gpt:
    """The one that is trained on the documentation."""
    return Gpt(4, 96, 6, 256, 512, operator)


def gpt2_small(operator: bool = False) -> Gpt:
    """GPT-2 small's exact shape, with the weights that seed 0 gives."""
    torch.manual_seed(0)
    return Gpt(12, 768, 12, 50257, 1024, operator)


def byte_qwen() -> Qwen:
    """A small Qwen2 of bytes."""
    return Qwen(4, 96, 6, 2, 256, 256)
