#!/usr/bin/env python3
"""Makes tests/data/exports: small programs of torch.export with what PyTorch returns for them.

    make_exports.py DIR [NAME...]

Wants PyTorch 2.8 or later. Each NAME.pt2 is what torch.export.save writes, with stack traces left out and the JSON texts
deflated, so that the files stay small; NAME.txt has a row of inputs and outputs as tests/ops has them, for
tests/unit/frontend/export_test.cpp.
"""
import dataclasses
import io
import json
import math
import os
import sys
import zipfile
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Optional

import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401 torch.ops.quantized_decomposed
from torch import nn
from torch._decomp import decomposition_table
from torch._higher_order_ops import map as map_rows, scan, while_loop
from torch.export import Dim
from torch.export.passes import move_to_device_pass
from torch.export.pt2_archive._package import package_pt2
from torch.utils import _pytree

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "samples"))
from torch_values import text_of  # noqa: E402

Pair = namedtuple("Pair", ["left", "right"])
_pytree._register_namedtuple(Pair, serialized_type_name="tests.Pair")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.norm = nn.BatchNorm2d(2)
        self.head = nn.Linear(2, 3)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


class Sliced(nn.Module):
    """A branch that depends on how the example lies, of which its program has one side and a guard."""
    def forward(self, x):
        return x * 2 if x.stride(0) > x.size(1) else x - 1


class NumberedWeights(nn.Module):
    """Weights whose names are numbers, as values of its program are."""
    def __init__(self, order):
        super().__init__()
        for i in range(6):
            self.register_parameter(str(i), nn.Parameter(torch.full((2,), float(order[i]))))

    def forward(self, x):
        for i in range(6):
            x = x * (i + 1) + getattr(self, str(i))
        return x.reshape(-1, 2)


@dataclasses.dataclass
class Returned:
    logits: torch.Tensor
    loss: Optional[torch.Tensor] = None
    count: int = 3


class ReturnsObject(nn.Module):
    def forward(self, x):
        return Returned(x + 1, None, 5)


class Trees(nn.Module):
    def forward(self, x, pair, parts, *, scale):
        a, b = pair
        total = parts["a"] + parts["b"]
        return {"sum": total, "list": [x * scale, b], "pair": Pair(a, x.sum())}


class Containers(nn.Module):
    def forward(self, filled, ordered, ends):
        return filled["x"] - filled["y"], ordered["b"] / ordered["a"], ends[0] + ends[1]


class Choice(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda y: (y.sin(), y + 1), lambda y: (y.cos(), y * 2), (x,))


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.tensor([1.0, 2.0]))
        self.register_buffer("other", torch.tensor([5.0, 6.0]), persistent=False)

    def forward(self, x):
        self.count.add_(x)
        return self.count + self.other


class Writer(nn.Module):
    def forward(self, x, y):
        x.mul_(2)
        return x + y


class Sizes(nn.Module):
    def forward(self, x, y):
        n = x.shape[0]
        return torch.cat([x[: n - 1], y]), x.new_full((n * 2 - 1,), float("-inf")), n % 3


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.group = nn.GroupNorm(2, 4)

    def forward(self, x):
        with torch.no_grad():
            y = nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        y = self.group(self.norm(y[:, 0]).transpose(1, 2))
        return torch.log_softmax(nn.functional.max_pool2d(y.unsqueeze(0), 2).squeeze((0,)), -1)


class Arguments(nn.Module):
    def forward(self, x, n, y, mode="a", flag=True, k=None):
        z = x * n + y if flag and mode == "a" else x
        return z if k is None else z + k


class Constants(nn.Module):
    def forward(self, x, n=2):
        return x[torch.tensor([1, 0])] + n, torch.full((2,), 1.5, dtype=torch.float64), None


class Loops(nn.Module):
    def forward(self, x, w):
        count, y = while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2 + w), (torch.tensor(0), x))
        rows = map_rows(lambda r, w: (r * w).cumsum(0), x, w)
        last, sums = scan(lambda c, r: (c + r, c * r), x[0], x)
        return count, y, rows, last, sums


class Mapped(nn.Module):
    def forward(self, x, w):
        each = torch.vmap(lambda r: (r @ w).softmax(0))(x)
        pairs = torch.vmap(torch.vmap(lambda a, b: a * b + 1))(x[:3], w)
        return each, pairs


class Mixed(nn.Module):
    def forward(self, x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = torch.cat([x @ w, x], 1)
            y = y.relu().softmax(-1) + 1
        return y, torch.nn.functional.mse_loss(y, x.repeat(1, 2))


class Regrouped(nn.Module):
    """What autocast leaves as it is, between what it computes in bfloat16, and operators that others stand for."""

    def forward(self, x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            rows = torch.matmul(x, y).view(-1)
        return rows.float()


class Compared(nn.Module):
    """Lists of tensors in a region, which keep the dtypes that their parts have."""

    def forward(self, x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            left, right = torch.broadcast_tensors(x @ y, x)
            return nn.functional.mse_loss(x @ y, x), left, right, torch.meshgrid(x[0], (x @ y)[0].float(), indexing="ij")[1]


class UntoldStates(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(2, 2)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.lstm(x)[0]


class Untold(nn.Module):
    def forward(self, x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return (x @ w).relu()


class Solved(nn.Module):
    def forward(self, x):
        return torch.linalg.inv(x), torch.linalg.cholesky(x @ x.t())


class Numbered(nn.Module):
    def forward(self, parts):
        return {3: parts[1] + parts[2], 5: parts[2] * 2}


class Heads(nn.Module):
    """What PyTorch's attention gives lies in memory as its query does, so that it can be seen with heads joined."""

    def forward(self, x):
        q = x.view(2, 3, 2, 2).transpose(1, 2)
        return nn.functional.scaled_dot_product_attention(q, q, q).transpose(1, 2).view(2, 3, 4)


class Implicit(nn.Module):
    """Expansions whose mark texts and archives take for no expansion at all."""

    def forward(self, x):
        return x.expand(3, 2, implicit=True) + 0


class Sums(nn.Module):
    """A model of ids whose tokens have the sum of all before them."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(7, 4), nn.Linear(4, 7)

    def forward(self, ids):
        return self.head(self.words(ids).cumsum(1).tanh())


class Grouped(nn.Module):
    """A decoder whose two heads of queries have one of keys and values, repeated for them."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(13, 8), nn.Linear(8, 13)
        self.q, self.kv, self.out = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8, bias=False)

    def forward(self, ids):
        b, t = ids.shape
        x = self.words(ids)
        q = self.q(x).view(b, t, 2, 4).transpose(1, 2)
        k, v = (h.view(b, t, 1, 4).transpose(1, 2).expand(b, 2, t, 4).contiguous() for h in self.kv(x).chunk(2, -1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(x + self.out(mixed.transpose(1, 2).reshape(b, t, 8)))


class Quantized(nn.Module):
    """As torchao's convert_pt2e writes a quantised layer, the result brought to a grid that each run chooses."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.tensor([[100, -128, 3], [-7, 55, 127]], dtype=torch.int8))
        self.register_buffer("scales", torch.tensor([0.01, 0.025]))
        self.register_buffer("zeros", torch.tensor([0, 2]))

    def forward(self, x):
        q = torch.ops.quantized_decomposed
        grid = (0.05, 30, 0, 255, torch.uint8)
        x = q.dequantize_per_tensor(q.quantize_per_tensor(x, *grid), *grid)
        w = q.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -128, 127, torch.int8)
        y = nn.functional.linear(x, w)
        scale, zero = q.choose_qparams.tensor(y, -128, 127, 2 ** -23, torch.int8)
        chosen = (scale, zero, -128, 127, torch.int8)
        return q.dequantize_per_tensor.tensor(q.quantize_per_tensor.tensor(y, *chosen), *chosen)


class Scanned(nn.Module):
    """Five rows: one of its regions of vmap has none, which the sizes tell at run time alone."""

    def forward(self, x):
        from torch._higher_order_ops.associative_scan import associative_scan
        return associative_scan(lambda a, b: a * b, x, 0, combine_mode="generic")


class Prefixes(nn.Module):
    """Five rows are joined in pairs, pairs of pairs: the last round has none left."""

    def forward(self, x):
        from torch._higher_order_ops.associative_scan import associative_scan
        return associative_scan(lambda a, b: a * b + a, x, 0, combine_mode="generic")


class Truths(nn.Module):
    """True and False in the place of numbers."""

    def forward(self, m, x):
        n = m.clone()
        n |= True
        return (m ^ True, (~(m | True)).sum(), x[m ^ True], m & True, torch.where(m, True, m), m + True,
                torch.where(m, True, False), torch.where(m, True, 2.0), n, torch.add(m, m, alpha=True), x * True,
                m.masked_fill(m, False), torch.where(m | False, x[:, 0], 0), torch.scalar_tensor(True),
                m.scatter(0, torch.arange(2), False), m.index_fill(0, torch.arange(2), True))


class Shared(nn.Module):
    """Buffers that are views of one memory, and one that lies turned."""

    def __init__(self):
        super().__init__()
        cache = torch.zeros(2, 3)
        self.register_buffer("cache", cache)
        self.register_buffer("keys", cache[0])
        self.register_buffer("turned", torch.arange(6.0).view(2, 3).t())

    def forward(self, x):
        self.keys.add_(x)
        self.turned.add_(1.0)
        self.turned.t().reshape(-1).mul_(2.0)
        return self.cache * 1, self.turned + 0


class Derived(nn.Module):
    """Sizes that are multiples, and one more than they."""

    def forward(self, x, y):
        return x.reshape(4, -1).sum(1), y[1:].reshape(4, -1) * 2


class Guarded(nn.Module):
    """Takes branches by sizes and a number: the file says for which it holds."""

    def forward(self, x, n: int, pair, *rest, scale, **more):
        if x.shape[0] * more["other"].shape[0] > 12:
            x = x * 2
        if n > 2:
            x = x + pair.left.shape[0]
        if math.ceil(pair.left.shape[0] / 4) == 2 and rest[1].shape[0] % 4 != 0:
            x = x - 1
        return x * max(1.0, x.shape[1] / 8), pair.left[:n], rest[1] * scale, more["other"]


class Stretched(nn.Module):
    """A decoder whose positions depend on the length of the text, and which counts tokens in fours."""

    def __init__(self):
        super().__init__()
        self.words, self.mixes, self.logits = nn.Embedding(11, 4), nn.Linear(4, 12), nn.Linear(4, 11)

    def forward(self, ids):
        t = ids.shape[1]
        x = self.words(ids) + (torch.arange(t) / max(1.0, t / 9))[:, None].sin()
        q, k, v = self.mixes(x)[:, None].chunk(3, -1)
        x = x + nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)[:, 0]
        return self.logits(x if t % 8 else x + 1)


class Seen(nn.Module):
    """Writes by views, and memory that is made in another order."""

    def forward(self, x):
        y = x * 2
        v = y.view(-1)
        v.add_(1)
        z = torch.empty_permuted((2, 3, 2), (0, 2, 1))
        z.copy_(x)
        z.permute(0, 2, 1).view(-1).mul_(3.0)
        return y, z


class Placed(nn.Module):
    def forward(self, x):
        return torch.arange(x.shape[0]).unsqueeze(1) * x + torch.full((3,), 0.5), torch.zeros(x.shape[0], device="cpu")


class Moved(nn.Module):
    """Rows that are stacked along other dimensions, and rows of what has none."""

    def forward(self, x, w):
        def row(a):
            return a.sum(), a * 2, torch.stack([a, a + 1])

        return (*torch.vmap(row, out_dims=(0, 1, 2))(x), torch.vmap(lambda a: w[0] * 2, out_dims=-1)(x),
                torch.vmap(torch.vmap(lambda a: a + 1), out_dims=1)(x))


class Primitives(nn.Module):
    """What decompositions turn into the last primitives, where all that are known are asked for."""

    def forward(self, x, n):
        whole = torch.div(n, 2, rounding_mode="trunc"), torch.div(n, 3, rounding_mode="floor"), n / 4
        parts = torch.cat([x[:, :2], x[:, 1:].flip(0)], 1), x.roll(1, 1), torch.tril(x), torch.stack([x, x * 2], 1)
        sums = x.prod(1), x.var(0), x.sum(), x.amax((0, 1)), x.mean(1, keepdim=True)
        return (*whole, *parts, *sums, torch.where(x > 0, x, n.pow(2)), x.pow(2.5).nan_to_num(), x.erf() + x.erfinv(),
                torch.special.i0e(x), torch.arange(5, 1, -2), torch.full((2,), 1.5), torch.fft.rfft(x).abs(), n << 1,
                torch.softmax(x, 1), torch.nn.functional.pad(x, (1, 0), value=2.0))


class NumbersAmongPrimitives(nn.Module):
    """Numbers in the place of tensors where no overload takes them, cube roots, layouts and random numbers."""

    def forward(self, x, n):
        made = torch.ops.prims.empty_permuted([2, 3], [1, 0], dtype=x.dtype, device=x.device, requires_grad=False)
        drawn = torch.randn(2, 3) * 0, torch.rand(3) * 0 + 1
        return ((x > 0).masked_fill(x > 0.5, False), torch.div(7, n, rounding_mode="trunc"), 2**n.abs(), *drawn,
                torch.where(x > 0, True, False), torch.ops.prims.cbrt(x), torch.full_like(made, 2.0))


class WritesByPrimitives(nn.Module):
    def forward(self, x):
        y, z = x.clone(), torch.ones(2)
        torch.ops.prims.copy_to(y[1:], x[:1] * 2)
        return y, torch.ops.prims.resize(z, [1, 2]) + x


class Masked(nn.Module):
    """Numbers in the place of tensors: their dtype gives way to those of tensors without dimensions, too."""

    def forward(self, mask, x):
        one = x.sum()
        return 1.0 - mask, (1.0 - mask) * x, 2.5 - one, 1.0 / mask.sum(), 1.0 - one.half(), 3 - one, 1 - mask


class Leaky(nn.Module):
    def forward(self, x):
        return torch.nn.functional.rrelu(x, 0.1, 0.3)


def scene(module, args, kwargs=None, dynamic=None, decomposed=False):
    torch.manual_seed(0)
    return module().eval(), args, kwargs or {}, dynamic, decomposed


x43 = torch.sin(torch.arange(12.0)).reshape(4, 3)
x22 = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
PRIMITIVES = dict(decomposition_table)
SCENES = {
    "net": scene(Net, (torch.arange(18.0).reshape(2, 1, 3, 3) / 8,)),
    "net_decomposed": scene(Net, (torch.arange(18.0).reshape(2, 1, 3, 3) / 8,), decomposed=True),
    "trees": scene(Trees, (x22, (x22[0] + 1, x22[1] + 1), {"a": x22 + 1, "b": x22 * 2}), {"scale": torch.tensor(3.0)}),
    "containers": scene(Containers, (defaultdict(list, x=x22, y=x22 * 3), OrderedDict(b=x22, a=x22 + 9), deque([x22, x22 * 2]))),
    "choice": scene(Choice, (x22,)),
    "counter": scene(Counter, (torch.tensor([1.0, 1.0]),)),
    "counter_decomposed": scene(Counter, (torch.tensor([1.0, 1.0]),), decomposed=True),
    "writer": scene(Writer, (torch.tensor([1.0, 2.0]), torch.tensor([5.0, 5.0])), decomposed=True),
    "sizes": scene(Sizes, (torch.arange(8.0).reshape(4, 2), torch.ones(3, 2)),
                   dynamic=({0: Dim("n", min=3, max=9)}, {0: Dim.AUTO})),
    "attention": scene(Attention, (torch.sin(3 * torch.arange(16.0)).reshape(1, 1, 4, 4),)),
    "attention_decomposed": scene(Attention, (torch.sin(3 * torch.arange(16.0)).reshape(1, 1, 4, 4),), decomposed=True),
    "constants": scene(Constants, (x22, 2)),
    "arguments": scene(Arguments, (x22, 3, x22 + 1), {"mode": "a", "flag": True, "k": None}),
    "loops": scene(Loops, (x22, x22[0] / 4)),
    "loops_decomposed": scene(Loops, (x22, x22[0] / 4), decomposed=True),
    "mapped": scene(Mapped, (x43, x43[:3] / 2)),
    "scanned": scene(Scanned, (torch.cos(torch.arange(10.0)).reshape(5, 2),), dynamic=({0: Dim.AUTO},)),
    "prefixes": scene(Prefixes, (torch.cos(torch.arange(10.0)).reshape(5, 2),)),
    "mixed": scene(Mixed, (x22, x22 / 3)),
    "solved": scene(Solved, (x22,), decomposed=True),
    "compared": scene(Compared, (x22, x22 / 3)),
    "regrouped": scene(Regrouped, (x22, x22 / 3)),
    "numbered": scene(Numbered, ({1: x22, 2: x22 + 1},)),
    "quantized": scene(Quantized, (x43,)),
    "sums": scene(Sums, (torch.tensor([[1, 2, 3], [4, 5, 6]]),), dynamic=({0: Dim("batch"), 1: Dim("tokens", max=127)},)),
    "sums_fixed": scene(Sums, (torch.tensor([[1, 2, 3], [4, 5, 6]]),)),
    "grouped_decomposed": scene(Grouped, (torch.tensor([[1, 2, 3], [4, 5, 6]]),),
                                dynamic=({0: Dim("batch", max=4), 1: Dim("tokens", max=300)},), decomposed=True),
    "leaky_decomposed": scene(Leaky, (x22,), decomposed=True),
    "primitives": scene(Primitives, (torch.sin(torch.arange(12.0)).reshape(4, 3), torch.tensor([-7, 5, 9])),
                        decomposed=PRIMITIVES),
    "primitives_of_numbers": scene(NumbersAmongPrimitives, (torch.tensor([0.5, -8.0, 1.0]), torch.tensor([-2, 5, 9])),
                                   decomposed=PRIMITIVES),
    "writes_by_primitives": scene(WritesByPrimitives, (x22,)),
    "masked_decomposed": scene(Masked, (torch.tensor([1, 0, 1]), torch.tensor([0.5, -2.0, 4.0])), decomposed=True),
    "truths": scene(Truths, (torch.tensor([True, False, True, False]), x43)),
    "shared": scene(Shared, (torch.tensor([1.0, 2.0, 3.0]),)),
    "derived": scene(Derived, (torch.sin(torch.arange(24.0)).reshape(8, 3), torch.ones(9)),
                     dynamic={"x": {0: 4 * Dim("n", min=1, max=8)}, "y": {0: 4 * Dim("n", min=1, max=8) + 1}}),
    "guarded": scene(Guarded, (torch.sin(torch.arange(20.0)).reshape(4, 5), 4, Pair(torch.arange(5.0), x22), x22, torch.ones(3)),
                     {"scale": torch.tensor(2.0), "other": torch.ones(6)},
                     dynamic={"x": {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, "n": Dim.DYNAMIC, "pair": Pair({0: Dim.DYNAMIC}, None),
                              "rest": (None, {0: Dim.DYNAMIC}), "scale": None, "more": {"other": {0: Dim.DYNAMIC}}}),
    "stretched": scene(Stretched, (torch.tensor([[1, 2, 3, 4, 5]]),), dynamic=({1: Dim.DYNAMIC},)),
    "seen": scene(Seen, (torch.sin(torch.arange(12.0)).reshape(2, 3, 2),)),
    "placed": scene(Placed, (x43,)),
    "moved": scene(Moved, (x43, x22)),
    "implicit": scene(Implicit, (torch.tensor([[1.0, 2.0]]),)),
    "heads": scene(Heads, (torch.cos(torch.arange(24.0)).reshape(2, 3, 4),)),
}


def without_traces(graph):
    for node in graph["nodes"]:
        node["metadata"] = {k: v for k, v in node["metadata"].items() if k == "nn_module_stack"}
        for argument in node["inputs"]:
            if "as_graph" in argument["arg"]:
                without_traces(argument["arg"]["as_graph"]["graph"])


class Examples(nn.Module):
    def forward(self, x, pair, *, scale, keys):
        return (x + pair[0] * pair[1]) * scale + keys["first"]


@dataclasses.dataclass
class Options:
    a: torch.Tensor
    b: torch.Tensor | None
    n: int = 3


torch.export.register_dataclass(Options, serialized_type_name="mine.Options")


@dataclasses.dataclass
class Batch:
    image: torch.Tensor
    label: torch.Tensor
    weight: torch.Tensor | None = None


torch.export.register_dataclass(Batch, serialized_type_name="mine.Batch")


class Batches(nn.Module):
    """Objects of tensors alone, which are one input each, and writes to one of them."""

    def forward(self, batch, *, more):
        return batch.image + batch.label.add_(1) * more.label - more.image


class Objects(nn.Module):
    def forward(self, pair, options, *, more):
        return (pair.left + pair.right[0] * options.a) * options.n - more.a / more.b


@torch.library.custom_op("mine::swiglu", mutates_args=())
def swiglu(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * torch.sigmoid(x) * by


@torch.library.custom_op("mine::top_two", mutates_args=())
def top_two(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x[..., 0].clone(), x[..., 1].clone()


swiglu.register_fake(lambda x, by: torch.empty_like(x))
top_two.register_fake(lambda x: (x[..., 0].clone(), x[..., 1].clone()))


class OwnOperators(nn.Module):
    def forward(self, x):
        first, second = torch.ops.mine.top_two(x.relu())
        return torch.ops.mine.swiglu(first - second, 2.0) + torch.ops.mine.swiglu(first, 1.0)


class MakesWeights(nn.Module):
    """Data that a strict trace makes, whose constants are written without elements."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(1, 1), nn.Linear(1, 1)

    def forward(self, x):
        self.other.weight.data = self.one.weight.data.clone().detach() * 2
        self.other.bias.data = self.one.bias.data.clone().detach() * 2
        return self.other(x)


class IdsInADict(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.arange(6.0).view(3, 2))

    def forward(self, batch):
        return self.table[batch["ids"]] * batch["mask"].unsqueeze(-1)


class Bags(nn.Module):
    """Takes integers that are none when they are 0 and 1 at random: starts that begin with 0 and ascend."""

    def __init__(self):
        super().__init__()
        self.bags = nn.EmbeddingBag.from_pretrained(torch.arange(8.0).view(4, 2), mode="sum")

    def forward(self, ids, starts):
        return self.bags(ids, starts) + starts.diff().prod()


def write(program, path, keeps_examples=False):
    """The archive without examples and traces; tensors stay as they are, stored. `program` may be several by name."""
    whole = io.BytesIO()
    if isinstance(program, dict):
        package_pt2(whole, exported_programs=program)
    else:
        torch.export.save(program, whole)
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(path, "w") as new:
        for info in old.infolist():
            name, data = info.filename, old.read(info)
            if ("/sample_inputs/" in name and not keeps_examples) or name.endswith("/serialization_id"):
                continue
            if "/models/" in name:
                program = json.loads(data)
                without_traces(program["graph_module"]["graph"])
                data = json.dumps(program, separators=(",", ":")).encode()
            method = zipfile.ZIP_DEFLATED if name.endswith(".json") else zipfile.ZIP_STORED
            new.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, method, 9)


def main():
    folder, *names = sys.argv[1:]
    if not names or "several" in names:
        half, double = nn.Linear(2, 1), nn.Linear(2, 2)
        programs = {"first": torch.export.export(half, (x22,), dynamic_shapes=({0: Dim("n", min=2, max=9)},)),
                    "second": torch.export.export(double, (x22,))}
        write(programs, os.path.join(folder, "several.pt2"))
    if not names or "examples" in names:
        x, n = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), Dim("n", max=9)
        program = torch.export.export(Examples(), (x, [x * 10, x]), {"scale": 2, "keys": {"first": torch.ones(2, 2)}},
                                      dynamic_shapes={"x": {0: n}, "pair": [{0: n}, {0: n}], "scale": None,
                                                      "keys": {"first": {0: n}}})
        write(program, os.path.join(folder, "..", "examples.pt2"), keeps_examples=True)
    if not names or "objects" in names:
        program = torch.export.export(Objects(), (Pair(x22, [x22 + 1]), Options(x22 * 2, None, 2)),
                                      {"more": Options(x22[0], x22[0] * 4)})
        write(program, os.path.join(folder, "..", "examples_of_objects.pt2"), keeps_examples=True)
    if not names or "batches" in names:
        program = torch.export.export(Batches(), (Batch(x22, x22 + 1),), {"more": Batch(x22 * 3, x22 * 2)})
        write(program, os.path.join(folder, "..", "examples_of_batches.pt2"), keeps_examples=True)
    if not names or "bags" in names:
        ids, starts = torch.tensor([3, 1, 2, 2, 0]), torch.tensor([0, 3])
        program = torch.export.export(Bags(), (ids, starts))
        write(program, os.path.join(folder, "..", "examples_of_bags.pt2"), keeps_examples=True)
    if not names or "ids_in_a_dict" in names:
        n = {0: Dim("n", max=4)}
        program = torch.export.export(IdsInADict(), ({"ids": torch.tensor([1, 0]), "mask": torch.ones(2)},),
                                      dynamic_shapes=({"ids": n, "mask": n},))
        write(program, os.path.join(folder, "ids_in_a_dict.pt2"))
    if not names or "made_weights" in names:
        program = torch.export.export(MakesWeights(), (torch.ones(2, 1),), strict=True)
        write(program, os.path.join(folder, "made_weights.pt2"))
    if not names or "untold" in names:
        write(torch.export.export(Untold(), (x22, x22), strict=True), os.path.join(folder, "untold.pt2"))
    if not names or "untold_states" in names:
        with torch.no_grad():
            write(torch.export.export(UntoldStates(), (x22,)), os.path.join(folder, "untold_states.pt2"))
    if not names or "own_operators" in names:
        write(torch.export.export(OwnOperators(), (x22,)), os.path.join(folder, "own_operators.pt2"))
    if not names or "sliced" in names:
        rows = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)
        write(torch.export.export(Sliced(), (x43[:, :-1],), dynamic_shapes=rows), os.path.join(folder, "sliced.pt2"))
    if not names or "numbered_weights" in names:
        for name, order in (("numbered_weights", range(6)), ("numbered_otherwise", (0, 1, 5, 3, 4, 2))):
            write(torch.export.export(NumberedWeights(order), (x22,)), os.path.join(folder, name + ".pt2"))
    if not names or "returned_object" in names:
        torch.export.register_dataclass(Returned, serialized_type_name="Out")
        write(torch.export.export(ReturnsObject(), (torch.ones(2),)), os.path.join(folder, "returned_object.pt2"))
    for name, (module, args, kwargs, dynamic, decomposed) in SCENES.items():
        if names and name not in names:
            continue
        # What moves dimensions of rows is traced only so.
        strict = name == "moved"
        program = torch.export.export(module, args, kwargs, dynamic_shapes=dynamic, strict=strict)
        if decomposed:
            program = program.run_decompositions(None if decomposed is True else decomposed)
        if name == "placed":
            program = move_to_device_pass(program, "cpu")
        write(program, os.path.join(folder, name + ".pt2"))
        given = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
        rows = [f"in: {text_of(tuple(v) if isinstance(v, deque) else v)}" for v in (*args, *kwargs.values())
                if not isinstance(v, int) or name == "guarded"]
        outputs = [v for v in _pytree.tree_leaves(program.module(check_guards=False)(*given, **kwargs)) if v is not None]
        rows += [f"out: {text_of(v.detach() if isinstance(v, torch.Tensor) else v)}" for v in outputs]
        open(os.path.join(folder, name + ".txt"), "w").write("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
