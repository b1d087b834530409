"""What export_archives.py saves to test the source language: each statement and type that scripts have."""
import math
from enum import Enum
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import nn

_CASES = []


def _r(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape) + 11))


def script(*inputs):
    def add(f):
        _CASES.append((f.__name__, "script", f, inputs))
        return f
    return add


def module(*inputs, how="script"):
    def add(cls):
        _CASES.append((cls.__name__, how, cls, inputs))
        return cls
    return add


def cases():
    for name, how, f, inputs in _CASES:
        if isinstance(f, type):
            torch.manual_seed(0)
            f = f().eval()
        yield name, how, f, inputs


class Color(Enum):
    RED = 1
    GREEN = 2
    BLUE = 4


class Kind(Enum):
    SUM = "sum"
    MEAN = "mean"


class Point(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor
    scale: float = 2.0


class Pair(NamedTuple):
    point: Point
    names: List[str]


@torch.jit.script
class Counter:
    def __init__(self, start: int):
        self.count = start
        self.seen: List[int] = []

    def add(self, n: int) -> int:
        self.count += n
        self.seen.append(self.count)
        return self.count


@torch.jit.script
class Stack(object):
    def __init__(self, x: torch.Tensor):
        self.items = [x]

    def push(self, x: torch.Tensor):
        self.items.append(x)

    def sum(self):
        total = torch.zeros_like(self.items[0])
        for i in self.items:
            total = total + i
        return total


@torch.jit.interface
class Scorer:
    def score(self, x: torch.Tensor, n: int) -> torch.Tensor:
        pass


@torch.jit.script
class Doubler:
    def __init__(self):
        self.k = 2.0

    def score(self, x: torch.Tensor, n: int) -> torch.Tensor:
        return x * self.k + n


@torch.jit.interface
class ModuleScorer(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pass


@script(_r(2, 3), 1)
def early_return(x, n: int):
    if n == 0:
        return x
    if n == 1:
        y = x + 1
        if bool(y.sum() > 100):
            return y * 2
    for i in range(n):
        if i == 5:
            return x * i
    return x - 1


@script(7)
def break_continue(n: int):
    total = 0
    out: List[int] = []
    for i in range(n):
        if i == 2:
            continue
        if total > 8:
            break
        total += i
        out.append(total)
    k = 0
    while True:
        k += 1
        if k > 4:
            break
    return total, out, k


@script(_r(3), 3)
def loops(x, n: int):
    a = x
    for i in range(n):
        for j in range(1, i, 2):
            a = a * j
        a = a + i
    i = 0
    while i < n and bool(a.sum() < 100):
        i += 1
        a = a + float(i)
    for k, v in enumerate([1, 2, 3]):
        a = a + k * v
    for p, q in zip([1.0, 2.0], [3.0, 4.0]):
        a = a * p - q
    return a, i


@script(3, 4, 2.5)
def numbers(a: int, b: int, c: float):
    return (a + b, a - b, a * b, a / b, a // b, a % b, a ** b, -a, c + a, c // a, abs(-c), round(c), max(a, b), min(a, c), int(c),
            float(a), bool(a), str(a), a & b, a | b, a ^ b, a << 1, a >> 1, divmod(a, b), math.sqrt(c), math.pi, a == b,
            a != b, a < c, not bool(a), a < b and b < 10, a > b or c > 2)


@script("hello world", 3)
def strings(s: str, n: int):
    t = s.upper() + "!"
    parts = s.split(" ")
    return (t, len(s), s[0], s[-3:], "x".join(parts), s.replace("o", "0"), f"{n} is {s}", "{} and {}".format(n, t), "lo" in s,
            s.startswith("he"), s.find("w"), s.title(), [c for c in s], "%d of %s" % (n, s), "tab\t\"quote\"\n\\ é", ord("a"), chr(98))


@script([3, 1, 2])
def lists(v: List[int]):
    w = [i * 2 for i in v]
    w.append(5)
    w.insert(0, 9)
    w.extend(v)
    x = w.pop()
    w[0] = 7
    w[1] += 3
    u = sorted(w)
    w.reverse()
    del w[0]
    e: List[float] = []
    n: List[Optional[int]] = [None, 1]
    return w, x, u, len(w), w[1:3], w[::2], 5 in w, w.index(5), w.count(2), e, n, v + w, [0] * 3, [[1, 2], [3]], list(range(4)), sum(v)


@script({"a": 1, "b": 2})
def dicts(d: Dict[str, int]):
    e = {k: v + 1 for k, v in d.items()}
    e["c"] = 5
    total = 0
    for k in d:
        total += d[k]
    f: Dict[int, torch.Tensor] = {}
    f[3] = torch.ones(2)
    keys = list(e.keys())
    vals = list(e.values())
    gone = e.pop("a")
    return e, total, f, keys, vals, gone, "b" in e, e.get("zz"), e.get("c", 1), len(e), dict([("q", 1)])


@script(_r(2, 2), 3)
def tuples(x, n: int):
    t = (x, n, "s")
    a, b, c = t
    (p, q), r = (a + 1, b), c
    u = (1, 2.0) + (n,)
    one = (n,)
    return t[0], t[-1], p, q, r, u, one, t[0:2], len(t)


@script(_r(3), None)
def optionals(x, y: Optional[torch.Tensor]):
    if y is None:
        y = x * 2
    z: Optional[int] = None
    if x.dim() == 1:
        z = 3
    w = 0
    if z is not None:
        w = z + 1
    else:
        w = 7
    k = z if z is not None else 5
    if z is not None and z > 2:
        k += z
    return y, z, w, k


@script(_r(3))
def unions(x):
    a: Union[int, torch.Tensor] = x
    if x.dim() == 1:
        a = 3
    n = 0
    if isinstance(a, int):
        n = a + 1
    b: Any = x
    m = 0
    if isinstance(b, torch.Tensor):
        m = b.dim()
    return n, m, isinstance(x, torch.Tensor)


@script(_r(4, 6))
def indexing(x):
    y = x.clone()
    y[0] = 1.0
    y[1:3, ::2] = 2.0
    y[:, 1] += 5.0
    m = x > 0
    idx = torch.tensor([0, 2])
    return x[0], x[-1], x[1, 2], x[:, 1], x[1:3], x[..., 0], x[None], x[:, None, 1:4:2], x[m], x[idx], x[idx, 1], y, x[1][2]


@script(_r(2, 3))
def attributes(x):
    y = torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    return x.shape, x.ndim, x.dtype, x.device, x.is_cuda, x.T, x.requires_grad, x.size(0), x.numel(), y, x.data, x.is_floating_point(), x.device.type


@script(_r(2, 3))
def constants(x):
    return (x + float("inf"), x * 1e-3, x.to(torch.float64), torch.full([2], -1), torch.tensor([1.5, 2.5]), torch.tensor(3), x.sum(dim=[0, 1]),
            x.sum(1, keepdim=True), float("-inf"), -0.0, 1e20, 9223372036854775807, 1.5, 0.1, 123456789012.0)


@script(_r(2, 3))
def in_place(x):
    y = x.clone()
    y += 1
    y *= 2
    y.add_(x)
    y -= x
    y /= 3
    return y.relu_().clamp_(max=1.5)


@script(_r(2, 3), 2)
def enums(x, n: int):
    c = Color.RED if n == 1 else Color.BLUE
    k = Kind.SUM
    out = x
    if c == Color.BLUE:
        out = out * c.value
    return out, c.name, c.value, k.value, k.name, c != Color.GREEN


@script(_r(2, 3))
def named_tuples(x):
    p = Point(x, x + 1)
    q = Point(y=x, x=x * 2, scale=0.5)
    r = Pair(p, ["a", "b"])
    a, b, c = q
    return p.x + q.y * q.scale, r.point.scale, r.names, a, c, p[0]


@script(_r(2, 3), 2)
def classes(x, n: int):
    c = Counter(n)
    c.add(3)
    c.count = c.count + 1
    s = Stack(x)
    for i in range(n):
        s.push(x + i)
    return c.add(1), c.seen, s.sum()


@script(_r(2, 3), 2)
def interfaces(x, n: int):
    s: Scorer = Doubler()
    return s.score(x, n)


def _helper(x, scale: float = 1.5, names: Tuple[str, int] = ("a", 2), bias: Optional[torch.Tensor] = None):
    if bias is not None:
        x = x + bias
    return x * scale, names[1]


@script(_r(2, 3))
def defaults(x):
    a, n = _helper(x)
    b, m = _helper(x, bias=x, names=("x", 5))
    return a + b, n + m


@script(_r(2, 3))
def forks(x):
    f = torch.jit.fork(_helper, x, 3.0)
    g = torch.jit.fork(torch.mm, x, x.t())
    a, n = torch.jit.wait(f)
    return a, n, torch.jit.wait(g)


@script(_r(2, 3))
def grad_modes(x):
    with torch.no_grad():
        y = x * 2
    with torch.no_grad() as g, torch.no_grad():
        y = y + 1
    return y


@script(_r(2, 3), 3)
def asserts(x, n: int):
    assert n > 1, "n is too small"
    assert x.dim() == 2
    if n == 100:
        raise ValueError(f"bad {n}")
    return x * n


@script(_r(4, 4))
def listing(x):
    t: List[List[float]] = x[:2, :2].tolist()
    v: List[int] = torch.tensor([1, 2]).tolist()
    a, b = x.unbind(0)[:2]
    c, d = torch.split(x, 2)
    m, i = torch.max(x, dim=1)
    u, w = torch.sort(x)
    return t, v, a + b, c, d, m, i, u, x.max(dim=0).values, x.item() if x.numel() == 1 else 0.0


@script(_r(3, 4), [2, 3], 2)
def broadcast_arguments(x, size: List[int], n: int):
    y = x[None, None]
    return (F.max_pool2d(y, 2), F.avg_pool2d(y, (2, 2), stride=1), F.conv2d(y, torch.ones(1, 1, 2, 2), padding=1), torch.zeros(n, 3),
            torch.zeros(size), x.view(-1), x.reshape(4, 3), x.permute(1, 0), x.expand(2, 3, 4), F.pad(x, [1, 1]), torch.ones([n]), x.repeat(2, 1),
            F.interpolate(y, scale_factor=2.0), x.mean(0), x.norm(), F.layer_norm(x, [4]), torch.clamp(x, 0, n), x ** n, n - x, 1 / x, n ** x.abs())


@script(_r(3), torch.tensor(2))
def implicit_conversions(x, n):
    k = int(n)
    return x.view(k + 1), torch.zeros(int(n), 2), x * float(n), x[n], x.add(n), torch.arange(k), x + k, torch.scalar_tensor(k), bool(n)


@script(_r(2, 3))
def shadows(x):
    y = x
    for i in range(3):
        y0 = y + i
        y = y0
        if i > 1:
            z = y0
            y = z * 2
        else:
            z = y0 - 1
        y = y + z
    return y


@module(_r(2, 4))
class Containers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.named = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.ReLU()})
        self.seq = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Sequential(nn.Linear(4, 4)))
        self.params = nn.ParameterList([nn.Parameter(torch.ones(4)) for _ in range(2)])

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x) + i
        x = self.seq(x)
        for k, m in self.named.items():
            x = m(x)
        return x + self.params[0][:2]


@module(_r(2, 3))
class State(nn.Module):
    names: List[str]
    table: Dict[str, int]
    limit: Optional[int]

    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros(1))
        self.register_buffer("extra", None)
        self.names = ["p", "q"]
        self.table = {"p": 3}
        self.limit = None
        self.size = (2, 3)
        self.last = torch.zeros(2, 3)
        self.scale: float = 2

    def bump(self, n: int) -> int:
        self.table["p"] = self.table["p"] + n
        return self.table["p"]

    @torch.jit.export
    def reset(self):
        self.steps.zero_()

    def forward(self, x):
        self.steps += 1
        self.last = x
        n = self.bump(2)
        if self.limit is None:
            self.limit = 4
        return x * self.scale + self.steps, n, self.names[0], self.size[1], self.last, self.extra


class _Add(nn.Module):
    def __init__(self, n: float):
        super().__init__()
        self.n = n

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.n


@module(_r(2, 3))
class ByInterface(nn.Module):
    part: ModuleScorer

    def __init__(self):
        super().__init__()
        self.part = _Add(1.0)
        self.other = _Add(2.0)

    def forward(self, x):
        return self.part.forward(x) + self.other(x)


@module(_r(2, 5, 4))
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 6, 2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(12, 3, batch_first=True)
        self.cell = nn.LSTMCell(3, 3)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        z, g = self.gru(y)
        a, b = self.cell(z[:, 0])
        return z, h, c, g, a, b


@module(_r(2, 5, 4), how="trace")
class TracedRecurrent(Recurrent):
    pass


@module(torch.randint(0, 10, (2, 6)))
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 8)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        y = self.encoder(self.embed(x))
        z, w = self.attention(y, y, y)
        return z, w


@module(torch.randint(0, 10, (2, 6)), how="trace")
class TracedAttention(Attention):
    pass


@module(_r(1, 3, 12, 12))
class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Dropout(0.2),
                                 nn.Conv2d(8, 8, 3, groups=2, bias=False), nn.GroupNorm(2, 8), nn.Hardswish(), nn.AdaptiveAvgPool2d(1))
        self.up = nn.ConvTranspose2d(8, 4, 2)
        self.head = nn.Linear(4 * 4, 5)

    def forward(self, x):
        return F.log_softmax(self.head(torch.flatten(self.up(self.net(x)), 1)), dim=-1)


@module(_r(1, 3, 12, 12), how="trace")
class TracedConvolutional(Convolutional):
    pass


class _Mean(nn.Module):
    def forward(self, xs: List[torch.Tensor], weights: Optional[List[float]] = None) -> torch.Tensor:
        total = torch.zeros_like(xs[0])
        for i, x in enumerate(xs):
            w = 1.0
            if weights is not None:
                w = weights[i]
            total += x * w
        return total / len(xs)


@module([_r(2, 2), _r(2, 2)])
class ListInput(nn.Module):
    __constants__ = ["k"]

    def __init__(self):
        super().__init__()
        self.mean = _Mean()
        self.k = 3
        self.w = [1.0, 2.0]

    def forward(self, xs: List[torch.Tensor]) -> Dict[str, torch.Tensor]:
        return {"plain": self.mean(xs) * self.k, "weighted": self.mean(xs, self.w)}


@module(_r(2, 3))
class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.traced = torch.jit.trace(nn.Linear(3, 3), torch.ones(2, 3))
        self.shared = nn.Linear(3, 3)
        self.again = self.shared
        self.offset = torch.ones(3)

    def forward(self, x):
        return self.again(self.shared(self.traced(x))) + self.offset
