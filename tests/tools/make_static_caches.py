#!/usr/bin/env python3
"""Writes decoders into tests/data/language whose caches have a fixed length or grow, for one text or two, for all
tokens or one, and one whose positions count tokens that are no padding, exported for 4 texts at most; prints their
greedy tokens, one token a call where there is a cache.

    make_static_caches.py DIR

Wants PyTorch 2.8 or later.
"""
import os
import sys
from typing import Dict, List, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

from make_exports import write

PROMPTS = ([3, 11, 7, 1], [0, 12, 5, 5, 2, 9, 4], [8])
LONGEST = 24


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(13, 8), nn.Embedding(LONGEST, 8)
        self.qkv, self.o, self.head = (nn.Linear(8, n, bias=False) for n in (24, 8, 13))
        self.register_buffer("seen", torch.ones(LONGEST, LONGEST, dtype=torch.bool).tril())
        with torch.no_grad():
            for p in self.parameters():
                p.mul_(2)

    def heads(self, ids: Tensor, places: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
        x = self.words(ids) + self.places(places)
        q, k, v = self.qkv(x).view(ids.size(0), ids.size(1), 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        return x, q, k, v

    def logits(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.head(x + self.o(y.transpose(1, 2).flatten(2)))


class Buffers(Decoder):
    """Reads what it wrote again, as attributes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 2, LONGEST, 4))
        self.register_buffer("values", torch.zeros(1, 2, LONGEST, 4))

    def forward(self, ids: Tensor, input_pos: Tensor) -> Tensor:
        x, q, k, v = self.heads(ids, input_pos)
        self.keys.index_copy_(2, input_pos, k)
        self.values[:, :, input_pos] = v
        return self.logits(x, q, self.keys, self.values, self.seen[None, None, input_pos])


class PutAndRead(Buffers):
    """Puts what follows from what it has put."""

    def forward(self, ids: Tensor, input_pos: Tensor) -> Tensor:
        x, q, k, v = self.heads(ids, input_pos)
        self.keys[:, :, input_pos] = k
        self.values[:, :, input_pos] = v + (self.keys[:, :, input_pos] - k)
        return self.logits(x, q, self.keys, self.values, self.seen[None, None, input_pos])


class From(Buffers):
    """Is given the place of the first token alone, as a tensor."""

    def forward(self, ids: Tensor, pos: Tensor) -> Tensor:
        places = pos + torch.arange(ids.size(1))
        x, q, k, v = self.heads(ids, places)
        self.keys.index_copy_(2, places, k)
        self.values.index_copy_(2, places, v)
        return self.logits(x, q, self.keys, self.values, self.seen[None, None, places])


class PutBack(Buffers):
    """Writes into copies, which become its buffers."""

    def forward(self, ids: Tensor, input_pos: Tensor) -> Tensor:
        x, q, k, v = self.heads(ids, input_pos)
        keys, values = self.keys.clone(), self.values.clone()
        keys[:, :, input_pos], values[:, :, input_pos] = k, v
        y = self.logits(x, q, keys, values, self.seen[None, None, input_pos])
        self.keys.copy_(keys)
        self.values.copy_(values)
        return y


class Counting(Buffers):
    """Knows how many tokens there were."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.size(1)) + self.count
        self.count.add_(ids.size(1))
        return super().forward(ids, places)


class Given(Decoder):
    def forward(self, ids: Tensor, input_pos: Tensor, keys: Tensor, values: Tensor):
        x, q, k, v = self.heads(ids, input_pos)
        keys, values = keys.index_copy(2, input_pos, k), values.index_copy(2, input_pos, v)
        return self.logits(x, q, keys, values, self.seen[None, None, input_pos]), keys, values


class Aligned(Decoder):
    """Is told which places of its caches have tokens, and counts these apart from the places."""

    def forward(self, ids: Tensor, attention_mask: Tensor, position_ids: Tensor, cache_position: Tensor, keys: Tensor,
                values: Tensor):
        x, q, k, v = self.heads(ids, position_ids)
        keys, values = keys.index_copy(2, cache_position, k), values.index_copy(2, cache_position, v)
        seen = (cache_position[:, None] >= torch.arange(LONGEST)) & attention_mask[:, None, None].bool()
        return self.logits(x, q, keys, values, seen), keys, values


class Masked(Buffers):
    """Is told which places of its caches have tokens."""

    def forward(self, ids: Tensor, input_pos: Tensor, attention_mask: Tensor) -> Tensor:
        x, q, k, v = self.heads(ids, input_pos)
        self.keys.index_copy_(2, input_pos, k)
        self.values.index_copy_(2, input_pos, v)
        seen = self.seen[None, None, input_pos] & attention_mask[:, None, None].bool()
        return self.logits(x, q, self.keys, self.values, seen)


class Added(Masked):
    """Adds what it is told to the scores."""

    def forward(self, ids: Tensor, input_pos: Tensor, attention_mask: Tensor) -> Tensor:
        x, q, k, v = self.heads(ids, input_pos)
        self.keys.index_copy_(2, input_pos, k)
        self.values.index_copy_(2, input_pos, v)
        return self.logits(x, q, self.keys, self.values, attention_mask)


class Hiding(Buffers):
    """Is told which places each token does not see."""

    def forward(self, ids: Tensor, input_pos: Tensor, mask: Tensor) -> Tensor:
        x, q, k, v = self.heads(ids, input_pos)
        self.keys[:, :, input_pos] = k
        self.values[:, :, input_pos] = v
        p = (q @ self.keys.transpose(2, 3) / 2).masked_fill(mask, -1e9).softmax(-1)
        return self.head(x + self.o((p @ self.values).transpose(1, 2).flatten(2)))


class Spread(Buffers):
    """Gives a mask of one row the dimensions of scores, and rows of four more would fit as well."""

    def forward(self, ids: Tensor, input_pos: Tensor, mask: Tensor) -> Tensor:
        x, q, k, v = self.heads(ids, input_pos)
        self.keys.index_copy_(2, input_pos, k)
        self.values.index_copy_(2, input_pos, v)
        seen = self.seen[None, None, input_pos] & mask[:, None, None].bool()
        p = (q @ self.keys.transpose(2, 3) / 2).masked_fill(~seen, -torch.inf).softmax(-1)
        return self.head(x + self.o((p @ self.values).transpose(1, 2).reshape(ids.size(0), ids.size(1), 8)))


class Asking(Buffers):
    """Asks for the sizes of its cache, as a tensor."""

    def forward(self, ids: Tensor, input_pos: Tensor) -> Tensor:
        x, q, k, v = self.heads(ids, input_pos)
        self.keys.index_copy_(2, input_pos, k)
        self.values.index_copy_(2, input_pos, v)
        keys = self.keys.expand(ids.size(0), -1, -1, -1)
        sizes = torch._shape_as_tensor(keys)
        return self.logits(x, q, keys, self.values, self.seen[None, None, input_pos]) * (sizes[3] / 4)


class Sections(Buffers):
    """Is told the place of its token three times, as rotary embeddings of sections are."""

    def forward(self, ids: Tensor, input_pos: Tensor, position_ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places(position_ids).sum(0)
        q, k, v = self.qkv(x).view(ids.size(0), ids.size(1), 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        self.keys.index_copy_(2, input_pos, k)
        self.values.index_copy_(2, input_pos, v)
        return self.logits(x, q, self.keys, self.values, self.seen[None, None, input_pos])


class Embedded(Buffers):
    """Is told the embedding of a place, which nobody can tell from its number."""

    def forward(self, ids: Tensor, input_pos: Tensor, pos_emb: Tensor) -> Tensor:
        x = self.words(ids) + pos_emb
        q, k, v = self.qkv(x).view(ids.size(0), ids.size(1), 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        self.keys.index_copy_(2, input_pos, k)
        self.values.index_copy_(2, input_pos, v)
        return self.logits(x, q, self.keys, self.values, self.seen[None, None, input_pos])


class Adding(Decoder):
    """Adds what it is told to the scores, of which a file without sizes tells nothing."""

    def forward(self, ids: Tensor, position_ids: Tensor, mask: Tensor, keys: Tensor, values: Tensor):
        x, q, k, v = self.heads(ids, position_ids)
        keys, values = keys.index_copy(2, position_ids[0], k), values.index_copy(2, position_ids[0], v)
        p = (q @ keys.transpose(2, 3) / 2 + mask).softmax(-1)
        return self.head(x + self.o((p @ values).transpose(1, 2).flatten(2))), keys, values


class TwiceMasked(Masked):
    """Is told the same of a window besides, which calls without a mask for it cannot know."""

    def forward(self, ids: Tensor, input_pos: Tensor, mask: Tensor, local_mask: Tensor) -> Tensor:
        x, q, k, v = self.heads(ids, input_pos)
        self.keys.index_copy_(2, input_pos, k)
        self.values.index_copy_(2, input_pos, v)
        return self.logits(x, q, self.keys, self.values, mask & local_mask)


class Attending(Buffers):
    """Is given what an encoder returns, which it gives not back."""

    def forward(self, ids: Tensor, input_pos: Tensor, memory: Tensor) -> Tensor:
        x, q, k, v = self.heads(ids, input_pos)
        self.keys.index_copy_(2, input_pos, k)
        self.values.index_copy_(2, input_pos, v)
        x = x + self.o(F.scaled_dot_product_attention(x, memory, memory))
        return self.logits(x, q, self.keys, self.values, self.seen[None, None, input_pos])


class Recurrent(Decoder):
    """Decomposed, it tells only among its outputs what its state becomes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.zeros(1, 8))

    def forward(self, ids: Tensor) -> Tensor:
        self.state.copy_(torch.tanh(self.words(ids)[:, 0] + self.o(self.state)))
        return self.head(self.state)[:, None]


class Texts(Buffers):
    """Two texts in each call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(2, 2, LONGEST, 4))
        self.register_buffer("values", torch.zeros(2, 2, LONGEST, 4))


class Rooms(Decoder):
    """Has room for more texts than a call has, and is given the place of the first token."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(4, LONGEST, 2, 4))
        self.register_buffer("values", torch.zeros(4, LONGEST, 2, 4))

    def forward(self, ids: Tensor, start_pos: int) -> Tensor:
        texts, end = ids.size(0), start_pos + ids.size(1)
        x, q, k, v = self.heads(ids, torch.arange(start_pos, end))
        self.keys[:texts, start_pos:end] = k.transpose(1, 2)
        self.values[:texts, start_pos:end] = v.transpose(1, 2)
        k, v = self.keys[:texts, :end].transpose(1, 2), self.values[:texts, :end].transpose(1, 2)
        return self.logits(x, q, k, v, self.seen[start_pos:end, :end])


class Joined(Decoder):
    """Keeps all in one tensor, and is given the place of the first token in another."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(2, 4, 2, LONGEST, 4))

    def forward(self, ids: Tensor, start_pos: Tensor) -> Tensor:
        start = int(start_pos)
        end = start + ids.size(1)
        x, q, k, v = self.heads(ids, torch.arange(start, end))
        self.kept[0, :1, :, start:end] = k
        self.kept[1, 0, :, start:end] = v[0]
        k, v = self.kept[0, :1, :, :end], self.kept[1, 0, :, :end].unsqueeze(0)
        return self.logits(x, q, k, v, self.seen[start:end, :end])


class Layers(Decoder):
    """Is given all in one tensor, without sizes in its text, and how many tokens there were; writes it and returns it."""

    def forward(self, ids: Tensor, past_len: int, kept: Tensor) -> Tuple[Tensor, Tensor]:
        end = past_len + ids.size(1)
        x, q, k, v = self.heads(ids, torch.arange(past_len, end))
        kept[0, :, :, past_len:end] = k
        kept[1, :, :, past_len:end] = v
        return self.logits(x, q, kept[0, :, :, :end], kept[1, :, :, :end], self.seen[past_len:end, :end]), kept


class Unbound(Decoder):
    """Is given the same, takes it apart and returns logits alone."""

    def forward(self, ids: Tensor, past_len: int, kept: Tensor) -> Tensor:
        end = past_len + ids.size(1)
        x, q, k, v = self.heads(ids, torch.arange(past_len, end))
        keys, values = kept.unbind(0)
        keys[:, :, past_len:end] = k
        values[:, :, past_len:end] = v
        return self.logits(x, q, keys[:, :, :end], values[:, :, :end], self.seen[past_len:end, :end])


class Listed(Decoder):
    """Is given a list, and returns it as it is then."""

    def forward(self, ids: Tensor, past_len: int, kept: List[Tensor]) -> Tuple[Tensor, List[Tensor]]:
        end = past_len + ids.size(1)
        x, q, k, v = self.heads(ids, torch.arange(past_len, end))
        kept[0][:, :, past_len:end] = k
        kept[1][:, :, past_len:end] = v
        return self.logits(x, q, kept[0][:, :, :end], kept[1][:, :, :end], self.seen[past_len:end, :end]), kept


class Rows(Decoder):
    """Puts what it keeps of a token into rows of one tensor."""

    def forward(self, token: Tensor, state: Tensor) -> Tuple[Tensor, Tensor]:
        x = self.words(token)[:, 0]
        state = state.clone()
        mixed = x + torch.tanh(self.o(state[:, 0])) - state[:, 1]
        state[:, 1] = state[:, 0]
        state[:, 0] = mixed
        return self.head(mixed), state


class JoinedRooms(Decoder):
    """Keeps all in one tensor that has room for more texts than a call has."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(2, 4, LONGEST, 2, 4))

    def forward(self, ids: Tensor, start_pos: int) -> Tensor:
        end = start_pos + ids.size(1)
        x, q, k, v = self.heads(ids, torch.arange(start_pos, end))
        self.kept[0, :1, start_pos:end] = k.transpose(1, 2)
        self.kept[1, :1, start_pos:end] = v.transpose(1, 2)
        k, v = (self.kept[i, :1, :end].transpose(1, 2) for i in range(2))
        return self.logits(x, q, k, v, self.seen[start_pos:end, :end])


class Ring(Decoder):
    """Writes at places that come again, and keeps which token is where; for one token a call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(2, 1, 2, LONGEST, 4))
        self.register_buffer("tokens", torch.full((LONGEST,), -1))

    def forward(self, ids: Tensor, pos: Tensor) -> Tensor:
        x, q, k, v = self.heads(ids, pos)
        place = pos % self.tokens.size(0)
        self.tokens.index_copy_(0, place, pos)
        self.kept[0].index_copy_(2, place, k)
        self.kept[1].index_copy_(2, place, v)
        seen = (self.tokens >= 0) & (self.tokens <= pos)
        return self.logits(x, q, self.kept[0], self.kept[1], seen[None, None, None])


class Few(Decoder):
    """Writes any number of tokens at six places that come again, and shows each token six."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(2, 1, 2, 6, 4))
        self.register_buffer("tokens", torch.full((6,), -1))
        self.register_buffer("all", torch.zeros(1, 2, LONGEST, 4))

    def forward(self, ids: Tensor, pos: Tensor) -> Tensor:
        x, q, k, v = self.heads(ids, pos)
        place = pos % 6
        self.tokens.index_copy_(0, place, pos)
        self.kept[0].index_copy_(2, place, k)
        self.kept[1].index_copy_(2, place, v)
        seen = (self.tokens >= 0) & (self.tokens <= pos[:, None]) & (self.tokens > pos[:, None] - 6)
        y = F.scaled_dot_product_attention(q, self.kept[0], self.kept[1], attn_mask=seen[None, None])
        x = x + self.o(y.transpose(1, 2).flatten(2))
        q, k, v = self.qkv(x).view(ids.size(0), ids.size(1), 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        self.all.index_copy_(2, pos, k)
        return self.logits(x, q, self.all, self.all, self.seen[None, None, pos])


class Round(Decoder):
    """Has six places for each of two layers, and counts which token is where."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(4, 1, 2, 6, 4))

    def forward(self, ids: Tensor, pos: Tensor) -> Tensor:
        x, q, k, v = self.heads(ids, pos)
        tokens = pos[-1] - (pos[-1] - torch.arange(6)) % 6
        seen, place = (tokens >= 0) & (tokens <= pos[:, None]), pos % 6
        self.kept[0].index_copy_(2, place, k)
        self.kept[1].index_copy_(2, place, v)
        y = F.scaled_dot_product_attention(q, self.kept[0], self.kept[1], attn_mask=seen[None, None])
        x = x + self.o(y.transpose(1, 2).flatten(2))
        q, k, v = self.qkv(x).view(ids.size(0), ids.size(1), 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        self.kept[2].index_copy_(2, place, k)
        self.kept[3].index_copy_(2, place, v)
        return self.logits(x, q, self.kept[2], self.kept[3], seen[None, None])


class Hybrid(Decoder):
    """A cache that grows beside the last token of a call, which the next one is mixed with."""

    def forward(self, ids: Tensor, last: Tensor, keys: Tensor, values: Tensor):
        n = keys.size(2)
        places = torch.arange(n, n + ids.size(1))
        x, q, k, v = self.heads(ids, places)
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        before = torch.cat([last, x], 1)
        y = self.o(before[:, :-1]) + x
        return self.logits(y, q, keys, values, self.seen[places][:, : keys.size(2)]), before[:, -1:], keys, values


class HybridOne(Decoder):
    """A cache that is written beside a state that is returned, for one token a call."""

    def forward(self, ids: Tensor, input_pos: Tensor, last: Tensor, keys: Tensor, values: Tensor):
        x, q, k, v = self.heads(ids, input_pos)
        keys.index_copy_(2, input_pos, k)
        values.index_copy_(2, input_pos, v)
        y = self.o(last) + x
        return self.logits(y, q, keys, values, self.seen[None, None, input_pos]), x, keys, values


class Last(Decoder):
    """Takes the last three tokens of its cache, and so is for caches that have them."""

    def forward(self, ids: Tensor, past: Tensor):
        x, q, k, v = self.heads(ids, torch.full((1,), past.size(3)))
        k, v = (torch.cat((p[:, :, -3:], new), 2) for p, new in zip(past, (k, v)))
        return self.head(x + self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))), k, v


class Put(Buffers):
    """Its trace has the sizes of its example where it puts tokens."""

    def forward(self, ids: Tensor, input_pos: Tensor) -> Tensor:
        x, q, k, v = self.heads(ids, input_pos)
        self.keys[:, :, input_pos] = k
        self.values[:, :, input_pos] = v
        return self.logits(x, q, self.keys, self.values, self.seen[None, None, input_pos])


class Grown(Decoder):
    """Shows a token all that there is: right for one token a call."""

    def forward(self, ids: Tensor, position_ids: Tensor, past: Tensor):
        x, q, k, v = self.heads(ids, position_ids)
        k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.head(x + self.o(y.transpose(1, 2).flatten(2))), torch.stack((k, v))


class Stacked(Decoder):
    """Takes any number of tokens; keys and values lie in one tensor."""

    def forward(self, ids: Tensor, past: Tensor):
        n = past.size(3)
        places = torch.arange(n, n + ids.size(1))
        x, q, k, v = self.heads(ids, places)
        k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        return self.logits(x, q, k, v, self.seen[places][:, : k.size(2)]), torch.stack([k, v])


class Cut(Decoder):
    """The layer is the second dimension, and keys and values lie side by side in the last one."""

    def forward(self, ids: Tensor, past: Tensor):
        n = past.size(-2)
        places = torch.arange(n, n + ids.size(1))
        x, q, k, v = self.heads(ids, places)
        cache = past[:, 0:1].squeeze(1)
        k, v = torch.cat([cache[..., :4], k], -2), torch.cat([cache.chunk(2, -1)[1], v], -2)
        return self.logits(x, q, k, v, self.seen[places][:, : k.size(2)]), torch.cat([k, v], -1).unsqueeze(1)


class Halves(Decoder):
    """Joins keys and values before it takes them apart."""

    def forward(self, ids: Tensor, position_ids: Tensor, past: Tensor):
        x, q, k, v = self.heads(ids, position_ids)
        both = torch.cat((past, torch.cat((k, v), -1)), 2)
        k, v = both.split(4, -1)
        y = (q @ k.transpose(-2, -1) / 2).softmax(-1) @ v
        return self.head(x + self.o(y.transpose(1, 2).flatten(2))), both


class Paired(Decoder):
    """Is given a mask that is added, with a number for each token and each before it, and the place of the first one."""

    def forward(self, ids: Tensor, start_pos: Tensor, mask: Tensor, past: Tensor):
        x, q, k, v = self.heads(ids, torch.arange(ids.size(1)) + start_pos)
        k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        return self.logits(x, q, k, v, mask), torch.stack((k, v))


class Held(Decoder):
    """Returns its caches in another order than it takes them."""

    def forward(self, ids: Tensor, position_ids: Tensor, past: Dict[str, Tensor]):
        x, q, k, v = self.heads(ids, position_ids)
        k, v = torch.cat((past["keys"], k), 2), torch.cat((past["values"], v), 2)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.head(x + self.o(y.transpose(1, 2).flatten(2))), {"values": v, "keys": k}


class Told(Decoder):
    """Is given a mask of the token and those before it, for any number of texts."""

    def forward(self, ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key: Tensor, past_value: Tensor):
        x, q, k, v = self.heads(ids, position_ids)
        k, v = torch.cat((past_key, k), 2), torch.cat((past_value, v), 2)
        return self.logits(x, q, k, v, attention_mask[:, None, None].bool()), k, v


class Fresh(Decoder):
    """Returns what is new of its caches alone."""

    def forward(self, ids: Tensor, position_ids: Tensor, past_key: Tensor, past_value: Tensor):
        x, q, k, v = self.heads(ids, position_ids)
        y = F.scaled_dot_product_attention(q, torch.cat((past_key, k), 2), torch.cat((past_value, v), 2))
        return self.head(x + self.o(y.transpose(1, 2).flatten(2))), k, v


class Newest(Decoder):
    """Returns of each cache that has the token the last place alone."""

    def forward(self, ids: Tensor, position_ids: Tensor, keys: Tensor, values: Tensor):
        x, q, k, v = self.heads(ids, position_ids)
        keys, values = torch.cat((keys, k), 2), torch.cat((values, v), 2)
        y = F.scaled_dot_product_attention(q, keys, values)
        return self.head(x + self.o(y.transpose(1, 2).flatten(2))), keys[:, :, -1:], values[:, :, -1:]


class Rowed(Decoder):
    """Takes positions as a row beside caches that grow."""

    def forward(self, ids: Tensor, position_ids: Tensor, keys: Tensor, values: Tensor):
        x, q, k, v = self.heads(ids, position_ids)
        keys, values = torch.cat((keys, k), 2), torch.cat((values, v), 2)
        return self.logits(x, q, keys, values, self.seen[position_ids][:, : keys.size(2)]), keys, values


class Half(Decoder):
    """Its attention wants keys and values of half precision."""

    def forward(self, ids: Tensor, position_ids: Tensor, keys: Tensor, values: Tensor):
        x, q, k, v = (t.bfloat16() for t in self.heads(ids, position_ids))
        keys, values = torch.cat((keys, k), 2), torch.cat((values, v), 2)
        y = F.scaled_dot_product_attention(q, keys, values).float()
        return self.head(x + self.o(y.transpose(1, 2).flatten(2))), keys, values


class Prompted(Decoder):
    """Has logits of learned rows before its tokens, too."""

    def __init__(self):
        super().__init__()
        self.prompt = nn.Parameter(torch.arange(24.0).view(1, 3, 8).sin())

    def forward(self, ids: Tensor):
        x = torch.cat((self.prompt.expand(ids.size(0), -1, -1), self.words(ids)), 1)
        q, k, v = (t.view(*x.shape[:2], 2, 4).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(x + self.o(y.transpose(1, 2).flatten(2)))


class Scattered(Decoder):
    def forward(self, ids: Tensor, input_pos: Tensor, keys: Tensor, values: Tensor):
        x, q, k, v = self.heads(ids, input_pos)
        at = input_pos.view(1, 1, 1, 1).expand(1, 2, 1, 4)
        keys, values = keys.scatter(2, at, k), values.scatter(2, at, v)
        return self.logits(x, q, keys, values, self.seen[None, None, input_pos]), keys, values


class Replaced(Decoder):
    """Its buffers become longer ones."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 2, 0, 4))
        self.register_buffer("values", torch.zeros(1, 2, 0, 4))

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.size(1)) + self.keys.size(2)
        x, q, k, v = self.heads(ids, places)
        self.keys = torch.cat((self.keys, k), 2)
        self.values = torch.cat((self.values, v), 2)
        return self.logits(x, q, self.keys, self.values, self.seen[places][:, : self.keys.size(2)])


class State(Decoder):
    def forward(self, ids: Tensor, state: Tensor):
        state = torch.tanh(self.words(ids)[:, 0] + self.o(state))
        return self.head(state)[:, None], state


class Bare(State):
    """Its token and its logits have no dimension of texts and tokens, but one of both."""

    def forward(self, ids: Tensor, state: Tensor):
        logits, state = super().forward(ids[:, None], state)
        return logits[:, 0], state


class Shifted(Decoder):
    """Mixes each token with the one before, for any number of both."""

    def forward(self, ids: Tensor, state: Tuple[Tensor, Tensor]):
        x = self.words(ids)
        before = torch.cat((state[0], x), 1)[:, :-1]
        return self.head(torch.tanh(x + self.o(before) + state[1])), (x[:, -1:], state[1])


class Gated(Decoder):
    """Takes any number of tokens, and hidden states in a tuple."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.lstm = nn.LSTM(8, 8, 2, batch_first=True)
        with torch.no_grad():
            for p in self.lstm.parameters():
                p.mul_(4)

    def forward(self, ids: Tensor, hidden: Tuple[Tensor, Tensor]):
        y, hidden = self.lstm(3 * self.words(ids), hidden)
        return self.head(y), hidden


class First(Decoder):
    """[tokens, batch]"""

    def forward(self, ids: Tensor, state: Tensor):
        x = state + self.words(ids).cumsum(0)
        return self.head(x), x[-1:]


class Plain(Decoder):
    def forward(self, ids: Tensor, attention_mask: Tensor) -> Tensor:
        x, q, k, v = self.heads(ids, torch.arange(ids.size(1)))
        return self.logits(x, q, k, v, self.seen[: ids.size(1), : ids.size(1)] & attention_mask[:, None, None].bool())


class Both(Decoder):
    """Sees later tokens."""

    def forward(self, ids: Tensor) -> Tensor:
        x, q, k, v = self.heads(ids, torch.arange(ids.size(1)))
        return self.logits(x, q, k, v, None)


class Padded(Decoder):
    def forward(self, ids: Tensor) -> Tensor:
        there = (ids != 12).long()
        x, q, k, v = self.heads(ids, there.cumsum(1) * there)
        return self.logits(x, q, k, v, self.seen[: ids.size(1), : ids.size(1)])


class Shortened(Decoder):
    """Leaves its last token out before it mixes, which says in an export that there are not two."""

    def forward(self, ids: Tensor, last: Tensor):
        x = self.words(ids)
        return self.head(torch.tanh(x + self.o(torch.cat((last, x[:, :-1]), 1)))), x[:, -1:]


def greedy(step):
    for prompt in PROMPTS:
        call, ids = step(), list(prompt)
        for n in range(len(prompt) + 8):
            logits = call(ids[: n + 1])
            if n + 1 == len(ids):
                ids.append(int(logits[0, -1].argmax()))
        print("   ", ids[len(prompt):])


def main():
    folder = sys.argv[1]
    torch.manual_seed(0)
    weights = Decoder().state_dict()

    def made(kind):
        model = kind().eval()
        model.load_state_dict(weights, strict=False)
        return model

    def export(name, model, args, shapes=None, decomposed=False):
        program = torch.export.export(model, args, dynamic_shapes=shapes)
        write(program.run_decompositions() if decomposed else program, os.path.join(folder, name))

    def trace(name, model, args):
        torch.jit.save(torch.jit.trace(model, args, check_trace=False), os.path.join(folder, name))

    one, three, caches = torch.tensor([[5]]), torch.tensor([[5, 9, 2]]), [torch.zeros(1, 2, LONGEST, 4) for _ in "kv"]
    with torch.no_grad():
        torch.jit.save(torch.jit.script(made(Buffers)), os.path.join(folder, "static_buffers.pt"))
        torch.jit.save(torch.jit.script(made(Rooms)), os.path.join(folder, "static_rooms.pt"))
        torch.jit.save(torch.jit.script(made(Joined)), os.path.join(folder, "static_stacked.pt"))
        torch.jit.save(torch.jit.script(made(Layers)), os.path.join(folder, "static_layers.pt"))
        torch.jit.save(torch.jit.script(made(Unbound)), os.path.join(folder, "static_unbound.pt"))
        torch.jit.save(torch.jit.script(made(Listed)), os.path.join(folder, "static_listed.pt"))
        torch.jit.save(torch.jit.script(made(Rows)), os.path.join(folder, "states_rows.pt"))
        torch.jit.save(torch.jit.script(made(Ring)), os.path.join(folder, "static_ring.pt"))
        layers = torch.zeros(2, 1, 2, LONGEST, 4)
        some, given = {1: Dim.AUTO}, {3: Dim.AUTO}
        export("static_layers.pt2", made(Layers), (three, 2, layers), (some, Dim.AUTO, {}))
        export("static_rooms_decomposed.pt2", made(JoinedRooms), (three, 2), (some, Dim.AUTO), decomposed=True)
        export("last.pt2", made(Last), (one, torch.zeros(2, 1, 2, 7, 4)), ({}, given))
        export("hybrid.pt2", made(Hybrid), (three, torch.zeros(1, 1, 8), torch.zeros(1, 2, 4, 4), torch.zeros(1, 2, 4, 4)),
               (some, {}, {2: Dim.AUTO}, {2: Dim.AUTO}))
        export("hybrid_one.pt2", made(HybridOne), (one, torch.arange(1), torch.zeros(1, 1, 8), *caches))
        export("shortened.pt2", made(Shortened), (three, torch.zeros(1, 1, 8)), (some, {}))
        tokens = Dim("tokens", max=LONGEST - 1)
        export("static_few.pt2", made(Few), (three, torch.arange(3)), ({1: tokens}, {0: tokens}))
        trace("static_round.pt", made(Round), (three, torch.arange(3)))
        export("static_round.pt2", made(Round), (three, torch.arange(3)), ({1: tokens}, {0: tokens}))
        export("static_buffers.pt2", made(Buffers), (three, torch.arange(3)), ({1: tokens}, {0: tokens}))
        export("static_put_back.pt2", made(PutBack), (three, torch.arange(3)), ({1: tokens}, {0: tokens}))
        export("static_one.pt2", made(Counting), (one,))
        export("static_sections.pt2", made(Sections), (one, torch.arange(1), torch.zeros(3, 1, 1, dtype=torch.long)))
        export("static_embedded.pt2", made(Embedded), (one, torch.arange(1), torch.zeros(1, 1, 8)))
        export("static_given.pt2", made(Given), (one, torch.arange(1), *caches), decomposed=True)
        mask = torch.ones(1, LONGEST, dtype=torch.long)
        export("static_masked.pt2", made(Masked), (three, torch.arange(3), mask), ({1: tokens}, {0: tokens}, {}))
        trace("static_masked.pt", made(Masked), (three, torch.arange(3), mask))
        trace("static_spread.pt", made(Spread), (three, torch.arange(3), mask))
        trace("static_aligned.pt", made(Aligned), (three, mask, torch.arange(3)[None], torch.arange(3), *caches))
        trace("static_asking.pt", made(Asking), (three, torch.arange(3)))
        export("static_masked_one.pt2", made(Masked), (one, torch.arange(1), mask))
        export("static_added_one.pt2", made(Added), (one, torch.arange(1), torch.zeros(1, LONGEST)))
        both = torch.ones(1, 1, 1, LONGEST, dtype=torch.bool)
        later = torch.ones(3, LONGEST, dtype=torch.bool).triu(1)[None, None]
        export("static_hiding.pt2", made(Hiding), (three, torch.arange(3), later), ({1: tokens}, {0: tokens}, {2: tokens}))
        torch.jit.save(torch.jit.script(made(Hiding)), os.path.join(folder, "static_hiding.pt"))
        low = torch.zeros(1, 1, 3, LONGEST).masked_fill(later, -torch.inf)
        trace("static_adding.pt", made(Adding), (three, torch.arange(3)[None], low, *caches))
        export("static_both_one.pt2", made(TwiceMasked), (one, torch.arange(1), both, both.clone()))
        export("recurrent_one.pt2", made(Recurrent), (one,), decomposed=True)
        two, place, past = three.repeat(2, 1), torch.zeros(1, 1, dtype=torch.long), torch.zeros(2, 1, 2, 4, 4)
        export("static_texts.pt2", made(Texts), (two, torch.arange(3)), ({1: tokens}, {0: tokens}))
        export("static_texts_one.pt2", made(Texts), (two[:, :1], torch.arange(1)), decomposed=True)
        trace("static_texts.pt", made(Texts), (two, torch.arange(3)))
        trace("static_put_one.pt", made(Put), (one, torch.arange(1)))
        trace("static_put.pt", made(Buffers), (three, torch.arange(3)))
        trace("static_counted.pt", made(Counting), (three,))
        trace("static_put_read.pt", made(PutAndRead), (three, torch.arange(3)))
        grows = ({}, {}, {3: Dim("past", max=LONGEST - 1)})
        export("grown_one.pt2", made(Grown), (one, place, past), grows)
        export("grown_texts.pt2", made(Stacked), (torch.zeros(2, 5, dtype=torch.long), torch.zeros(2, 2, 2, 3, 4)),
               ({1: Dim.AUTO}, {3: Dim.AUTO}))
        torch.jit.save(torch.jit.script(made(Cut)), os.path.join(folder, "grown_cut.pt"))
        export("grown_cut.pt2", made(Cut), (three, torch.zeros(1, 1, 2, 4, 8)), (some, {3: Dim.AUTO}))
        export("grown_halves_one.pt2", made(Halves), (one, place, torch.zeros(1, 2, 4, 8)), ({}, {}, {2: Dim.AUTO}))
        paired = (three, torch.tensor(4), torch.zeros(1, 1, 3, 7), past)
        trace("grown_paired.pt", made(Paired), paired)
        export("grown_paired.pt2", made(Paired), paired, (some, {}, {2: Dim.AUTO, 3: Dim.AUTO}, {3: Dim.AUTO}))
        trace("static_from.pt", made(From), (three, torch.tensor(2)))
        export("grown_one_decomposed.pt2", made(Grown), (one, place, past), grows, decomposed=True)
        cache, grows = torch.zeros(2, 2, 4, 4), {0: Dim.AUTO, 2: Dim.AUTO}
        told = (two[:, :1], torch.ones(2, 5, dtype=torch.long), place.repeat(2, 1), cache, cache.clone())
        open_texts, open_mask = {0: Dim.AUTO}, {0: Dim.AUTO, 1: Dim.AUTO}
        shapes = (open_texts, open_mask, open_texts, grows, grows)
        export("grown_told.pt2", made(Told), told, shapes)
        export("grown_told_decomposed.pt2", made(Told), told, shapes, decomposed=True)
        grows, cache = {2: Dim.AUTO}, cache[:1].clone()
        export("grown_fresh.pt2", made(Fresh), (one, place, cache, cache.clone()), ({}, {}, grows, grows))
        export("grown_newest_one.pt2", made(Newest), (one, place, cache, cache.clone()), ({}, {}, grows, grows))
        export("grown_fixed.pt2", made(Rowed), (one, torch.tensor([4]), cache, cache.clone()))
        trace("grown_rowed.pt", made(Rowed), (three, torch.arange(4, 7), cache, cache.clone()))
        trace("grown_half.pt", made(Half), (one, place, cache.bfloat16(), cache.bfloat16()))
        export("prompted.pt2", made(Prompted), (three.repeat(2, 1),), ({0: Dim.AUTO, 1: Dim.AUTO},))
        trace("grown_unsaid.pt", made(Grown), (one, place, past))
        torch.jit.save(torch.jit.script(made(Replaced)), os.path.join(folder, "replaced.pt"))
        export("forgetful_one.pt2", made(Replaced), (one,))
        export("state_one.pt2", made(State), (one, torch.zeros(1, 8)))
        export("state_bare.pt2", made(Bare), (one[0], torch.zeros(1, 8)))
        trace("state_one.pt", made(State), (one, torch.zeros(1, 8)))
        trace("static_given.pt", made(Given), (one, torch.arange(1), *caches))
        trace("static_scattered.pt", made(Scattered), (one, torch.arange(1), *caches))
        trace("gated.pt", made(Gated), (three, (torch.zeros(2, 1, 8), torch.zeros(2, 1, 8))))
        texts = torch.export.Dim.AUTO
        some = {name: {0: texts, 2: texts} for name in ("keys", "values")}
        caches = {name: torch.zeros(2, 2, 4, 4) for name in some}
        export("held_one.pt2", made(Held), (two[:, :1], place, caches), ({0: texts}, {}, some))
        zeros = (torch.zeros(2, 1, 8), torch.zeros(2, 1, 8))
        export("shifted.pt2", made(Shifted), (two, zeros), ({0: texts, 1: texts}, ({0: texts}, {0: texts})))
        export("first.pt2", made(First), (three.t(), torch.zeros(1, 1, 8)))
        export("attending_one.pt2", made(Attending), (one, torch.arange(1), torch.zeros(1, 5, 8)))
        long = torch.zeros(2, LONGEST, dtype=torch.long)
        export("long.pt2", made(Plain), (long, torch.ones_like(long)), ({0: texts}, {0: texts}))
        export("long_both.pt2", made(Both), (long,))
        export("padded_batch.pt2", made(Padded), (three.repeat(2, 1),), ({0: Dim("texts", max=4), 1: tokens},))

        def buffers():
            model = made(Buffers)
            return lambda ids: model(torch.tensor([ids[-1:]]), torch.tensor([len(ids) - 1]))

        def recurrent():
            model = made(Recurrent)
            return lambda ids: model(torch.tensor([ids[-1:]]))

        def grown():
            model, past = made(Grown), [torch.zeros(2, 1, 2, 0, 4)]

            def call(ids):
                logits, past[0] = model(torch.tensor([ids[-1:]]), torch.tensor([[len(ids) - 1]]), past[0])
                return logits

            return call

        def replaced():
            model = made(Replaced)
            return lambda ids: model(torch.tensor([ids[-1:]]))

        def sections():
            model = made(Sections)
            return lambda ids: model(torch.tensor([ids[-1:]]), torch.tensor([len(ids) - 1]),
                                     torch.full((3, 1, 1), len(ids) - 1))

        print("sections")
        greedy(sections)
        print("caches")
        for kind in (buffers, grown, replaced):
            greedy(kind)
        print("state")
        greedy(recurrent)
        print("caches and states")

        def hybrid():
            model, past = made(Hybrid), [torch.zeros(1, 1, 8), torch.zeros(1, 2, 0, 4), torch.zeros(1, 2, 0, 4)]

            def call(ids):
                logits, *past[:] = model(torch.tensor([ids[-1:]]), *past)
                return logits

            return call

        greedy(hybrid)
        print("caches of half precision")

        def half():
            model, past = made(Half), [torch.zeros(1, 2, 0, 4).bfloat16(), torch.zeros(1, 2, 0, 4).bfloat16()]

            def call(ids):
                logits, *past[:] = model(torch.tensor([ids[-1:]]), torch.tensor([[len(ids) - 1]]), *past)
                return logits

            return call

        greedy(half)
        print("learned rows")
        greedy(lambda: lambda ids: made(Prompted)(torch.tensor([ids])))
        print("rings")

        def ring(kind):
            model = made(kind)
            return lambda ids: model(torch.tensor([ids[-1:]]), torch.tensor([len(ids) - 1]))

        for kind in (Few, Round):
            greedy(lambda: ring(kind))
        print("rows")

        def rows():
            model, state = made(Rows), [torch.zeros(1, 2, 8)]

            def call(ids):
                logits, state[0] = model(torch.tensor([ids[-1:]]), state[0])
                return logits[:, None]

            return call

        greedy(rows)
        print("shifts")
        greedy(lambda: lambda ids: made(Shifted)(torch.tensor([ids]), (torch.zeros(1, 1, 8),) * 2)[0])
        print("shifts of all but the last")
        greedy(lambda: lambda ids: made(Shortened)(torch.tensor([ids]), torch.zeros(1, 1, 8))[0])
        print("gates")
        greedy(lambda: lambda ids: made(Gated)(torch.tensor([ids]), (torch.zeros(2, 1, 8),) * 2)[0])
        print("positions that count tokens that are no padding")
        greedy(lambda: lambda ids: made(Padded)(torch.tensor([ids])))


if __name__ == "__main__":
    main()
