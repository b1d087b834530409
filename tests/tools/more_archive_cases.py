"""What export_archives.py saves beside archive_cases.py: more of statements, types, containers of modules and classes."""
import math
from collections import OrderedDict, namedtuple
from enum import Enum
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union, Callable

import torch
import torch.nn.functional as F
from torch import nn, Tensor

_CASES = []
def _r(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape) + 11))
def script(*inputs):
    def add(f):
        _CASES.append((f.__name__, "script", f, inputs)); return f
    return add
def module(*inputs, how="script"):
    def add(cls):
        _CASES.append((cls.__name__, how, cls, inputs)); return cls
    return add
def cases():
    for name, how, f, inputs in _CASES:
        if isinstance(f, type):
            torch.manual_seed(0)
            f = f().eval()
        yield name, how, f, inputs

# ---- control flow
@script(3)
def r_if_chain(n: int):
    if n == 1:
        return "one"
    elif n == 2:
        return "two"
    elif n == 3:
        return "three"
    else:
        return "many"

@script(_r(3), 4)
def r_in_while(x, n: int):
    i = 0
    while i < n:
        if i == 2:
            return x + i
        i += 1
    return x

@script(_r(3), 4)
def r_nested_loops(x, n: int):
    for i in range(n):
        for j in range(n):
            if i * j == 6:
                return x * i + j
            if j > i:
                break
        else_ = i
    return x

@script(5)
def continue_nested(n: int):
    out: List[int] = []
    for i in range(n):
        for j in range(n):
            if j == i:
                continue
            if j > 3:
                break
            out.append(i * 10 + j)
        if i % 2 == 0:
            continue
        out.append(-i)
    return out

@script(5)
def while_continue(n: int):
    i = 0
    s = 0
    while i < n:
        i += 1
        if i % 2 == 0:
            continue
        s += i
        if s > 100:
            break
    return s, i

@script(3)
def while_true_return(n: int):
    i = 0
    while True:
        i += n
        if i > 10:
            return i

@script(_r(2))
def raise_branch(x):
    if x.dim() == 3:
        raise RuntimeError("bad dim")
    else:
        y = x + 1
    return y

@script(_r(2), 1)
def raise_only_else(x, n: int):
    if n == 1:
        y = x
    elif n == 2:
        y = x * 2
    else:
        raise ValueError("n was {}".format(n))
    return y

@script(2)
def ternary_chain(n: int):
    a = 1 if n == 0 else 2 if n == 1 else 3
    b = "x" if n > 1 else "y"
    return a, b

@script(2, 3)
def bool_chain(a: int, b: int):
    return a < b < 10, a == 2 and b == 3 and not a > b, a == 5 or b == 3, not (a == b), (a and b), (a < 1 or b)

@script(4)
def loop_var_after(n: int):
    last = -1
    for i in range(n):
        last = i
    for i in range(n, 0, -1):
        last += i
    return last

@script([1, 2, 3], ["a", "b", "c"])
def zip_enumerate(a: List[int], b: List[str]):
    out: List[str] = []
    for i, (x, y) in enumerate(zip(a, b)):
        out.append(y + str(x + i))
    for i, x in enumerate(a, 5):
        out.append(str(i * x))
    return out

@script([1, 2, 3])
def reversed_sorted(a: List[int]):
    out: List[int] = []
    for x in a[::-1]:
        out.append(x)
    a.sort(reverse=True)
    return out, a, sorted([3, 1, 2]), min(a), max(a), sum(a), any([x > 2 for x in a]), all([x > 0 for x in a])

@script({"x": 1, "y": 2})
def dict_iteration(d: Dict[str, int]):
    out: List[str] = []
    for k, v in d.items():
        out.append(k + str(v))
    for k in d.keys():
        out.append(k)
    t = 0
    for v in d.values():
        t += v
    for i, (k, v) in enumerate(d.items()):
        t += i * v
    return out, t

@script({"x": 1, "y": 2})
def dict_methods(d: Dict[str, int]):
    d["z"] = 3
    d.update({"x": 9})
    e = d.copy()
    e.clear()
    x = d.setdefault("w", 7)
    del d["y"]
    return d, e, x, "y" in d, d.get("q", 5), d.pop("z"), len(d), list(d.items()), {1: "a", 2: "b"}, {k: v for k, v in [(1, 2), (3, 4)]}

@script("a,b,c")
def string_methods(s: str):
    return (s.split(","), s.upper(), s.lower(), s.capitalize(), s.strip(), s.lstrip("a"), s.rstrip("c"), s.count(","), s.endswith("c"),
            s.rfind(","), s.index("b"), s.isalpha(), s.isdigit(), s.rsplit(",", 1), s.splitlines(),
            s.zfill(8), s.center(9), s.ljust(7), s.rjust(7), s.swapcase(), s * 2, s + "!", s[1:3], s[::2], s == "x", s != "x", s < "b",
            "".join([c + "-" for c in s]), len(s), "b" in s, s.replace(",", ";", 1))

@script(3, 2.5, "s")
def formats(n: int, f: float, s: str):
    return f"{n} {f} {s}", "{} {} {}".format(n, f, s), "%d %f %s" % (n, f, s), "{}{}".format(s, [1, 2]), str(n) + str(f) + str(True) + str(None), f"{n + 1}", "a" "b"

@script(7, -3, 2.5)
def arithmetic(a: int, b: int, f: float):
    return (a // b, a % b, -a // 2, a ** 2, a ** -1, a / b, f // 1, f % 2, f ** 2, int(f), int(-f), round(f), round(-f), abs(b), abs(-f),
            min(a, b), max(f, 1.0), divmod(a, 3), a & b, a | b, a ^ b, a << 2, a >> 1, float(a), bool(a), a * f, a - f, -f, a, pow(a, 2), pow(f, 2.0))

@script(2.5)
def math_functions(f: float):
    return (math.sqrt(f), math.exp(f), math.log(f), math.log10(f), math.log1p(f), math.sin(f), math.cos(f), math.tan(f), math.atan2(f, 1.0), math.floor(f),
            math.ceil(f), math.pow(f, 2.0), math.fabs(-f), math.gcd(12, 18), math.factorial(5), math.isnan(f), math.isinf(f), math.isfinite(f), math.copysign(f, -1.0),
            math.fmod(f, 2.0), math.modf(f), math.frexp(f), math.ldexp(f, 2), math.degrees(f), math.radians(f), math.erf(f), math.gamma(f), math.lgamma(f), math.pi, math.e, math.inf, math.tau, 0,
            math.asinh(f), math.acosh(f), math.tanh(f), math.remainder(f, 2.0), math.expm1(f), 0.0)

@script(_r(2, 3))
def star_unpack(x):
    a, *b = (1, 2, 3)
    (c, d), e = (1, 2), 3
    h, w = x.shape
    f, g = x.split(1)
    return a, b, c, d, e, h, w, f, g

@script(_r(4, 3))
def tuple_ops(x):
    t = (1, "a", x)
    u = t + (2.0,)
    n, s, y = t
    return u, t[1], t[-1], t[0:2], len(u), (1, 2) == (1, 2), [t[0], n], s

@script(_r(2), None, 3)
def optional_chain(x, y: Optional[Tensor], n: Optional[int]):
    if y is not None and n is not None:
        return y * n
    if y is None and n is not None:
        return x * n
    if n is None or y is None:
        return x
    return x + 1

@script(_r(2), None)
def optional_refine(x, y: Optional[Tensor]):
    z = y if y is not None else x
    if y is None:
        y = x + 1
    assert y is not None
    w: Optional[Tensor] = None
    for i in range(3):
        if w is None:
            w = x
        else:
            w = w + y
    return z, y, w

@script([_r(2), None, _r(2)])
def optional_list(xs: List[Optional[Tensor]]):
    out: List[Tensor] = []
    for x in xs:
        if x is not None:
            out.append(x)
    k = [x is None for x in xs]
    return out, k

@script({"a": _r(2)})
def optional_dict(d: Dict[str, Tensor]):
    v = d.get("b")
    if v is None:
        v = d["a"]
    o = torch.jit.annotate(Optional[Tensor], None)
    return v, o, o is None

@script(_r(2), 3)
def union_types(x, n: int):
    a: Union[int, str] = n
    if n > 2:
        a = "text"
    out = 0
    if isinstance(a, str):
        out = len(a)
    elif isinstance(a, int):
        out = a
    b: Union[Tensor, List[Tensor], Dict[str, Tensor]] = [x, x]
    if isinstance(b, Tensor):
        return b, out
    elif isinstance(b, list):
        return b[0], out
    else:
        return b["q"], out

@script(_r(2, 3))
def isinstance_kinds(x):
    a: Any = [1, 2]
    r = 0
    if isinstance(a, List[int]):
        r = len(a)
    b: Any = 2.5
    if isinstance(b, (int, float)):
        r += 1
    return r, isinstance(b, str)

class Small(Enum):
    A = 0
    B = 1
class Text(Enum):
    A = "aa"
    B = "bb"
class Floats(Enum):
    LOW = 0.5
    HIGH = 2.5

@script(_r(2), Small.B)
def enum_input(x, e: Small):
    if e is Small.A:
        return x, e.name
    if e == Small.B:
        return x * e.value, e.name
    return x, "no"

@script(1)
def enum_list(n: int):
    out: List[str] = []
    vals: List[float] = []
    for e in Text:
        out.append(e.value)
    for f in Floats:
        vals.append(f.value)
    k = [e.name for e in Text]
    return out, vals, k, Small.A != Small.B

class Inner(NamedTuple):
    a: int
    b: List[Tensor]
class Outer(NamedTuple):
    i: Inner
    n: Optional[str] = None
    d: Dict[str, int] = {"z": 1}

@script(_r(2))
def nested_named(x):
    o = Outer(Inner(1, [x, x + 1]), n="q", d={"a": 1})
    i, n, d = o
    y = 0
    if o.n is not None:
        y = len(o.n)
    return o.i.b[1], i.a, d, o, y, o[0][0]

OldStyle = namedtuple("OldStyle", ["p", "q"])
@script(_r(2))
def named_plain(x):
    o = OldStyle(x, x * 2)
    return o.p + o.q, o

class Base:
    def __init__(self, n: int):
        self.n = n
    def get(self) -> int:
        return self.n

@torch.jit.script
class Ops:
    def __init__(self, v: int):
        self.v = v
    def __add__(self, o: "Ops") -> "Ops":
        return Ops(self.v + o.v)
    def __eq__(self, o: "Ops") -> bool:
        return self.v == o.v
    def __lt__(self, o: "Ops") -> bool:
        return self.v < o.v
    def __len__(self) -> int:
        return self.v
    def __getitem__(self, i: int) -> int:
        return self.v * i
    def __setitem__(self, i: int, x: int):
        self.v = i * x
    def __contains__(self, i: int) -> bool:
        return i == self.v
    def __str__(self) -> str:
        return "ops"
    def __call__(self, x: int) -> int:
        return x + self.v
    def __neg__(self) -> int:
        return -self.v
    @staticmethod
    def make(n: int) -> int:
        return n * 100
    @property
    def twice(self) -> int:
        return self.v * 2
    @twice.setter
    def twice(self, x: int):
        self.v = x // 2

@script(3)
def class_magic(n: int):
    a = Ops(n)
    b = Ops(4)
    c = a + b
    r1 = a == b
    c[2] = 5
    a.twice = 20
    return c.v, r1, a < b, len(b), b[3], 4 in b, b(1), -b, a.twice, a.v

@torch.jit.script
class Tree:
    def __init__(self, x: Tensor):
        self.x = x
        self.children: List[Tensor] = []
        self.names: Dict[str, int] = {}
        self.opt = torch.jit.annotate(Optional[Tensor], None)
        self.pair = (1, 2.0)
    def add(self, x: Tensor, name: str = "n"):
        self.children.append(x)
        self.names[name] = len(self.children)
        if self.opt is None:
            self.opt = x
        return self
    def total(self) -> Tensor:
        t = self.x
        for c in self.children:
            t = t + c
        o = self.opt
        if o is not None:
            t = t * o
        return t

@script(_r(2))
def class_chain(x):
    t = Tree(x).add(x + 1).add(x * 2, name="z")
    return t.total(), t.names, t.pair[1]

@script(_r(2))
def list_of_classes(x):
    ts = [Tree(x), Tree(x + 1)]
    out = []
    for t in ts:
        t.add(x)
        out.append(t.total())
    d = {"a": Tree(x)}
    d["a"].add(x)
    return torch.stack(out), d["a"].total()

def glob(x: Tensor, k: int = 2) -> Tensor:
    return x * k
def recursive_free(x: Tensor, names: List[str]) -> Tuple[Tensor, int]:
    return glob(x, len(names)), len(names)
def no_return(x: List[int]):
    x.append(1)

@script(_r(2))
def calls_globals(x):
    v = [1]
    no_return(v)
    a, n = recursive_free(x, ["q", "r"])
    return glob(x) + glob(x, k=5) + glob(k=3, x=x), a, n, v

@script(_r(2, 3))
def lambda_free(x):
    fns = [1, 2, 3]
    return [glob(x, f) for f in fns], [i for i in range(5)]

@script([3, 1, 2], [[1, 2], [3]])
def comprehension(a: List[int], b: List[List[int]]):
    return [x + 1 for x in a], [[y * 2 for y in x] for x in b], {i: i * i for i in a}, [str(x) for x in a], [x > 1 for x in a], [(x, x) for x in a], sum([x for x in a])

@script(_r(4, 5))
def slices(x):
    n = 2
    return (x[1:], x[:n], x[::2], x[1:4:2], x[-2:], x[:, 1], x[:, -1:], x[..., 0], x[None, :, None], x[1:3, 2:4], x[[0, 2]], x[:, [1, 3]], x[torch.tensor([1, 0])],
            x[x > 0], x[1][2], x[0, 0].item(), x[n:, n], x[:, None].shape, x[1:1].size(0))

@script(_r(4, 5))
def slice_assign(x):
    y = x.clone()
    y[0] = 0.0
    y[:, 1] = torch.ones(4)
    y[1:3, 2:] += 1
    y[y > 1] = -1
    y[2, 3] = 7
    y[torch.tensor([0, 1])] *= 2
    y[..., -1] = y[..., 0]
    l = [1, 2, 3, 4]
    l[0] += 5
    del l[3]
    d = {"a": [1]}
    d["a"][0] = 4
    d["a"].append(2)
    return y, l, d

@script(_r(2, 3))
def tensor_attributes(x):
    return (x.shape[0], x.size(), x.ndim, x.T, x.is_cuda, x.dtype == torch.float32, x.device.type, x.grad is None, x.requires_grad, x.layout == torch.strided,
            x.is_sparse, x.numel(), x.stride(), x.is_contiguous(), x.real, len(x), x.storage_offset(), x.element_size())

@script(_r(2, 3))
def tensor_calls(x):
    return (x.sum(dtype=torch.float64), x.mean([0, 1], keepdim=True), x.var(dim=1, unbiased=False), x.max(), x.max(1), x.argmax(dim=0), x.sort(descending=True), x.topk(2, dim=1),
            x.transpose(0, 1), x.view(3, 2), x.view(-1), x.reshape([6]), x.expand(4, 2, 3), x.repeat(1, 2), x.to(torch.float16).float(), x.to("cpu"), x.type_as(x), x.new_zeros(2), x.clamp(min=0.0),
            torch.cat([x, x], dim=-1), torch.stack((x, x)), torch.where(x > 0, x, -x), x.masked_fill(x > 0, 0.0), x.softmax(-1), x.norm(p=2, dim=1), x.unbind(0), x.chunk(3, 1), x.flatten(), x.squeeze().unsqueeze(0),
            x.unfold(1, 2, 1), x.index_select(0, torch.tensor([1])), x.gather(1, torch.zeros(2, 1, dtype=torch.long)), x.any(), torch.equal(x, x), torch.allclose(x, x))

@script(_r(2, 3))
def creation(x):
    return (torch.zeros(2, 3), torch.zeros([2], dtype=torch.int64), torch.ones_like(x), torch.full((2, 2), 3.5), torch.arange(5), torch.arange(1, 5, 2), torch.arange(0.0, 1.0, 0.25), torch.linspace(0, 1, 5), torch.eye(3),
            torch.tensor([[1, 2], [3, 4]]), torch.tensor([1.0, float("nan")]), torch.tensor(True), torch.empty(0), torch.zeros_like(x, dtype=torch.bool), torch.tensor([x.size(0), 2]), torch.scalar_tensor(2.0), torch.as_tensor([1, 2]))

@script(_r(2, 4))
def functional(x):
    w = torch.ones(3, 4)
    return (F.linear(x, w), F.relu(x), F.gelu(x), F.softmax(x, dim=-1), F.dropout(x, 0.5, training=False), F.layer_norm(x, (4,)), F.normalize(x), F.pad(x, (1, 1)), F.one_hot(torch.tensor([0, 1]), 3), F.silu(x), F.elu(x), F.leaky_relu(x, 0.2),
            F.hardtanh(x), F.mse_loss(x, x), F.cross_entropy(x, torch.tensor([0, 1])), F.interpolate(x[None], scale_factor=2.0), F.avg_pool1d(x[None], 2), F.embedding(torch.tensor([0, 2]), w), F.glu(x), F.log_softmax(x, 1), F.batch_norm(x, torch.zeros(4), torch.ones(4)),
            F.cosine_similarity(x, x), F.pairwise_distance(x, x), F.max_pool1d(x[None], 2, return_indices=True), F.adaptive_avg_pool1d(x[None], 2), F.conv1d(x[None], torch.ones(1, 2, 3)), F.kl_div(x, x, reduction="sum"), F.multi_margin_loss(x, torch.tensor([0, 1])))

@script(_r(3, 3))
def linalg(x):
    return torch.linalg.norm(x), torch.linalg.inv(x), torch.linalg.det(x), torch.linalg.matrix_norm(x), torch.matmul(x, x), x @ x, torch.einsum("ij,jk->ik", x, x), torch.bmm(x[None], x[None]), torch.outer(x[0], x[1]), x.trace(), x.diag(), torch.triu(x)

@script(_r(2))
def complex_numbers(x):
    c = complex(1.0, 2.0)
    d = c * 2 + 1j
    return abs(c), torch.complex(x, x), c == d, x * 1j, complex(1)

@script(_r(2))
def any_values(x):
    a: Any = x
    b: List[Any] = [1, "a", x]
    return len(b), isinstance(a, Tensor)

@script([1, 2], 3)
def list_methods(a: List[int], n: int):
    a.append(n)
    a.insert(1, 9)
    a.extend([7, 7])
    b = a.copy()
    b.remove(9)
    p = b.pop(0)
    c = a.index(7)
    d = a.count(7)
    b.reverse()
    b.clear()
    return a, b, p, c, d, a + [1], a * 2, a == [1], a[-1], 9 not in a, a is not None

@script(_r(2))
def assert_forms(x):
    assert x.numel() > 0, "empty"
    assert x.dim() == 1
    assert isinstance(x, Tensor), f"not {x.dim()}"
    return x

@script(_r(2))
def print_warn(x):
    print("x is", x.dim(), "dims", 2.5, True, None, [1, 2])
    return x

@script(_r(2))
def with_no_grad(x):
    with torch.no_grad():
        y = x * 2
        if y.sum() > 1e9:
            y = y + 1
    return y, y

@script(_r(2))
def record(x):
    with torch.autograd.profiler.record_function("region"):
        y = x + 1
    return y

@torch.jit.script
class Manager:
    def __init__(self, n: int):
        self.n = n
    def __enter__(self) -> int:
        self.n += 1
        return self.n
    def __exit__(self, type: Any, value: Any, tb: Any) -> None:
        self.n = 100

@script(2)
def with_class(n: int):
    m = Manager(n)
    with m as k:
        a = k + m.n
    return a, m.n

def forked(x: Tensor, y: Tensor) -> Tuple[Tensor, int]:
    return x + y, 3

@script(_r(2))
def fork_many(x):
    fs: List[torch.jit.Future[Tuple[Tensor, int]]] = []
    for i in range(3):
        fs.append(torch.jit.fork(forked, x, x * i))
    t = x
    for f in fs:
        a, n = torch.jit.wait(f)
        t = t + a * n
    return t

@script(_r(2))
def shadow_types(x):
    y = 1
    z = y + 1
    for i in range(2):
        z += i
    if z > 1:
        q = "a"
    else:
        q = "b"
    return z, q

@script(_r(2, 2))
def inplace_methods(x):
    y = x.clone()
    y.add_(1).mul_(2)
    y.zero_()
    y.fill_(3.0)
    y.copy_(x)
    y.clamp_(0, 1)
    y += x
    y -= 1
    y *= x
    y /= 2
    y **= 2
    n = 5
    n -= 1
    n *= 2
    s = "a"
    s += "b"
    l = [1]
    l += [2]
    return y, n, s, l

@script(_r(2), 2, 0.5, True, "z", [1], (1, 2.0))
def all_inputs(x, n: int, f: float, b: bool, s: str, l: List[int], t: Tuple[int, float]):
    return x * n * f, not b, s + "!", l + [n], t[0] + t[1]

@script(_r(3))
def big_constants(x):
    return x + 1e-30, 10 ** 18, 1e308, -5, 0x10, 1_000_000, 0.1 + 0.2, torch.tensor(2 ** 40), 3.0, 123456789.123456789, 5e-324

@script("naïve ünïcode \u4e2d\n\t\"q\" 'r' \\ \x07")
def odd_strings(s: str):
    return s, "tab\tnew\nquote\"single'back\\ bell\x07 é 中", 'it''s', """multi
line""", r"raw\n", ""

@script(_r(2, 3))
def dtype_values(x):
    d = x.dtype
    return x.to(d), torch.zeros(2, dtype=d), d == torch.float, torch.zeros(1, dtype=torch.complex64), x.to(torch.int32), x.long(), x.half().dtype == torch.float16, x.type(torch.float64)

@script(_r(2), torch.float64)
def dtype_input(x, d: torch.dtype):
    return x.to(d)

@script(_r(2), torch.device("cpu"))
def device_input(x, d: torch.device):
    return x.to(d), d.type, str(d), d == torch.device("cpu"), torch.zeros(2, device=d)

@script(3)
def default_args_free(n: int, k: int = 4, f: float = 1.5, s: str = "d", o: Optional[int] = None , t: Tuple[int, int] = (3, 4)):
    return n + k, f, s, o, t

# ---- modules
class Sub(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k: int = k
        self.lin = nn.Linear(3, 3)
    def forward(self, x, scale: float = 1.0):
        return self.lin(x) * self.k * scale

@module(_r(2, 3))
class MLists(nn.Module):
    def __init__(self):
        super().__init__()
        self.subs = nn.ModuleList([Sub(i) for i in range(3)])
        self.named = nn.ModuleDict(OrderedDict([("a", Sub(1)), ("b.c".replace(".", "_"), nn.ReLU())]))
        self.seq = nn.Sequential(OrderedDict([("one", nn.Linear(3, 3)), ("two", nn.Tanh())]))
        self.plain = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU(), nn.Identity()))
    def forward(self, x):
        for i, s in enumerate(self.subs):
            x = s(x, float(i + 1))
        for s in self.subs[1:]:
            x = s(x)
        for k, m in self.named.items():
            x = m(x)
        for m in self.named.values():
            x = m(x)
        for m in self.seq:
            x = m(x)
        x = self.subs[0](x) + self.named["a"](x) + self.seq.one(x) + self.plain(x) + self.subs[-1](x)
        return x, len(self.subs), "a" in self.named, len(self.seq)

@module(_r(2, 3))
class MZip(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
        self.b = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
        self.ws = nn.ParameterList([nn.Parameter(torch.randn(3)) for _ in range(2)])
    def forward(self, x):
        out = []
        for f, g in zip(self.a, self.b):
            out.append(f(x) + g(x))
        for i, (f, g) in enumerate(zip(self.a, self.b)):
            out.append(f(x) * i)
        for w in self.ws:
            out.append(x * w)
        return [m(x) for m in self.a], out

@module(_r(2, 3), 2)
class MAttributes(nn.Module):
    n: int
    names: List[str]
    table: Dict[str, int]
    maybe: Optional[Tensor]
    __constants__ = ["c", "t"]
    final: torch.jit.Final[int]
    def __init__(self):
        super().__init__()
        self.n = 3
        self.names = ["a", "b"]
        self.table = {"a": 1}
        self.maybe = None
        self.c = 2.5
        self.t = (1, 2)
        self.final = 7
        self.flag = True
        self.text = "q"
        self.dtype = torch.float32
        self.device = torch.device("cpu")
        self.pair = (1.5, "x")
        self.register_buffer("buf", torch.ones(3))
        self.register_buffer("none_buf", None)
        self.register_parameter("none_param", None)
        self.p = nn.Parameter(torch.randn(3))
        self.nested = [[1, 2], [3]]
        self.kind = Small.B
        self.tup_t = (torch.ones(1), 3)
        self.list_t = [torch.ones(2), torch.zeros(2)]
        self.dict_t = {"x": torch.ones(2)}
        self.nt = Inner(3, [torch.ones(1)])
    def forward(self, x, k: int):
        self.n += k
        self.names.append("c")
        self.table["z"] = self.n
        if self.maybe is None:
            self.maybe = x
        m = self.maybe
        assert m is not None
        b = self.none_buf
        if b is not None:
            x = x + b
        if self.none_param is not None:
            x = x + 1
        self.buf = self.buf * 2
        return (x * self.c + self.buf + self.p, m, self.n, self.names, self.table, self.t, self.final, self.flag, self.text, self.pair, self.nested, self.kind.value,
                self.tup_t[0], self.list_t[1], self.dict_t["x"], x.to(self.dtype), x.to(self.device))

@module(_r(2, 3))
class MMethods(nn.Module):
    def __init__(self):
        super().__init__()
        self.sub = Sub(2)
    @property
    def width(self) -> int:
        return 3
    @staticmethod
    def double(x: Tensor) -> Tensor:
        return x * 2
    @torch.jit.export
    def other(self, x: Tensor) -> Tensor:
        return self.helper(x, k=2)
    @torch.jit.ignore
    def python_only(self, x):
        return x.numpy()
    @torch.jit.unused
    def never(self, x: Tensor) -> Tensor:
        raise RuntimeError("no")
    def helper(self, x: Tensor, k: int = 1) -> Tensor:
        return x + k
    def forward(self, x):
        if x.dim() == 17:
            return self.never(x)
        return self.double(self.helper(x)) + self.other(x) + self.width + self.sub.lin(x) + self.sub.forward(x, 2.0) + self.sub(x=x, scale=3.0)

class Parent(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))
    def part(self, x):
        return x * self.w
    def forward(self, x):
        return self.part(x)

@module(_r(2, 3))
class MInherit(Parent):
    def __init__(self):
        super().__init__()
        self.b = nn.Parameter(torch.ones(3))
    def part(self, x):
        return x * self.w + self.b

@module(_r(2, 3))
class MState(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.ones(3)
        self.k = 3
    @torch.jit.export
    def __getstate__(self):
        return (self.w * 2, self.k, self.training)
    @torch.jit.export
    def __setstate__(self, state: Tuple[Tensor, int, bool]):
        self.w = state[0] + 1
        self.k = state[1] * 2
        self.training = state[2]
    def forward(self, x):
        return x * self.w + self.k

@torch.jit.interface
class Iface(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass
class ImplA(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1
class ImplB(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3) * 2)
    def forward(self, x: Tensor) -> Tensor:
        return x * self.w

@module(_r(2, 3))
class MIface(nn.Module):
    sub: Iface
    def __init__(self):
        super().__init__()
        self.sub = ImplA()
        self.subs = nn.ModuleList([ImplA(), ImplB()])
    def forward(self, x):
        s: Iface = self.subs[1]
        return self.sub.forward(x), s.forward(x)

@module(_r(2, 5, 4))
class MTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2)
        self.att = nn.MultiheadAttention(4, 2, batch_first=True)
    def forward(self, x):
        y, w = self.att(x, x, x)
        return self.enc(x), y, w

@module(_r(2, 5, 4))
class MRecurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 3, 2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(4, 3, batch_first=True)
        self.cell = nn.LSTMCell(4, 3)
        self.rnn = nn.RNN(4, 3)
    def forward(self, x):
        y, (h, c) = self.lstm(x)
        z, _ = self.gru(x)
        s = (torch.zeros(2, 3), torch.zeros(2, 3))
        for t in range(x.size(1)):
            s = self.cell(x[:, t], s)
        return y, h, c, z, s, self.rnn(x)[0]

@module(_r(1, 3, 8, 8))
class MConvs(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 4, 3, padding="same")
        self.r = nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect")
        self.b = nn.BatchNorm2d(4)
        self.t = nn.ConvTranspose2d(4, 2, 2, stride=2)
        self.g = nn.GroupNorm(2, 4)
        self.i = nn.InstanceNorm2d(4)
        self.p = nn.PReLU(4)
        self.u = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.a = nn.AdaptiveAvgPool2d((2, 3))
        self.ps = nn.PixelShuffle(2)
        self.fl = nn.Flatten()
        self.uf = nn.Unflatten(1, (2, 2))
        self.wn = nn.utils.weight_norm(nn.Conv2d(3, 4, 1))
        self.sn = nn.utils.spectral_norm(nn.Conv2d(3, 4, 1))
    def forward(self, x):
        y = self.b(self.c(x)) + self.r(x)
        return self.t(y), self.g(y), self.i(y), self.p(y), self.u(y), self.a(y), self.ps(y), self.fl(y), self.uf(y), self.wn(x), self.sn(x)

@module(_r(2, 3), _r(2, 3))
class MHooks(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)
    def forward(self, x, y: Tensor):
        z = torch.jit.annotate(List[Tensor], [])
        z.append(self.a(x))
        z.append(y)
        return torch.cat(z, 1)

@module(_r(2, 3), how="trace")
class MTraced(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.l = nn.ModuleList([Sub(1), Sub(2)])
        self.s = torch.jit.script(Sub(3))
    def forward(self, x):
        for m in self.l:
            x = m(x)
        return {"y": self.s(self.a(x)), "z": x[0] * 2}

@module(_r(2, 3))
class MCompiledInside(nn.Module):
    def __init__(self):
        super().__init__()
        self.t = torch.jit.trace(nn.Linear(3, 3), torch.ones(1, 3))
        self.f = Sub(2)
    def forward(self, x: Tensor) -> Dict[str, List[Tensor]]:
        return {"a": [self.t(x)], "b": [self.f(x), x]}

@module([_r(2, 3), _r(2, 3)], {"k": _r(3)})
class MContainers(nn.Module):
    def forward(self, xs: List[Tensor], d: Dict[str, Tensor]) -> Tuple[List[Tensor], Dict[str, Tensor], Optional[Tensor]]:
        out: Dict[str, Tensor] = {}
        for i, x in enumerate(xs):
            out["x" + str(i)] = x + d["k"]
        r: Optional[Tensor] = None
        if len(xs) > 5:
            r = xs[0]
        return [x * 2 for x in xs], out, r

class Deep(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.child = Deep(depth - 1) if depth > 0 else nn.Identity()
        self.w = nn.Parameter(torch.ones(3) * depth)
    def forward(self, x):
        return self.child(x) + self.w

@module(_r(2, 3))
class MDeep(nn.Module):
    def __init__(self):
        super().__init__()
        self.d = Deep(3)
        self.shared = self.d.child
    def forward(self, x):
        return self.d(x) + self.shared(x)

@module(_r(4, 3))
class MBeam(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(3, 5)
        self.emb = nn.Embedding(5, 3)
    def forward(self, x, steps: int = 4):
        tokens: List[Tensor] = []
        scores = torch.zeros(x.size(0))
        done = False
        step = 0
        while step < steps and not done:
            p = self.out(x).log_softmax(-1)
            s, t = p.max(-1)
            scores = scores + s
            tokens.append(t)
            x = x + self.emb(t)
            if bool((t == 4).all()):
                done = True
            step += 1
        return torch.stack(tokens, 1), scores, done

@module(_r(2, 3))
class MTryNone(nn.Module):
    def __init__(self):
        super().__init__()
        self.opt = None
        self.down: Optional[nn.Module] = None
        self.act = nn.ReLU()
    def forward(self, x):
        if self.opt is not None:
            x = self.opt(x)
        if self.down is not None:
            x = x + 1
        if self.training:
            x = x * 100
        if torch.jit.is_scripting():
            x = x + 1
        if hasattr(self, "act"):
            x = self.act(x)
        return x

@module(_r(2, 3))
class MSetAttrSub(nn.Module):
    def __init__(self):
        super().__init__()
        self.sub = MBuf()
    def forward(self, x):
        self.sub.count += 1
        self.sub.cache = x
        return self.sub(x), self.sub.count

class MBuf(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0
        self.register_buffer("cache", torch.zeros(2, 3))
    def forward(self, x):
        return x + self.cache

@module(_r(3))
class MFunctionAttr(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = F.relu
        self.fn = glob
    def forward(self, x):
        return self.act(x), self.fn(x, 4)

@module(_r(3))
class MOverload(nn.Module):
    def forward(self, x, y: Optional[Tensor] = None, z: Tuple[int, int] = (1, 2), k: float = 2.0):
        if y is None:
            return x * k, z
        return x + y, z

@module(torch.tensor([[1, 2, 0], [3, 0, 0]]), torch.tensor([2, 1]))
class MEmbedBag(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(5, 3, padding_idx=0)
        self.b = nn.EmbeddingBag(5, 3, mode="mean")
    def forward(self, ids, n):
        m = torch.arange(ids.size(1))[None] < n[:, None]
        e = self.e(ids) * m[..., None]
        return e.sum(1) / n[:, None], self.b(ids)

class Halved(nn.Module):
    def __init__(self):
        super().__init__()
        self.k = nn.Parameter(torch.ones(3))
    def forward(self, x: Tensor, n: int) -> Tuple[Tensor, int]:
        return x / n + self.k, n + 1

def _more(self, inputs: Tuple[Tensor, int]) -> Tuple[Tensor, int]:
    return inputs[0] + self.k, inputs[1] * 2

def _less(self, inputs: Tuple[Tensor, int], out: Tuple[Tensor, int]) -> Tuple[Tensor, int]:
    return out[0] - 1, out[1] + inputs[1]

@module(_r(2, 3))
class MHooksOfParts(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = Halved(), Halved()
        self.a.register_forward_pre_hook(_more)
        self.b.register_forward_pre_hook(_more)
        self.b.register_forward_hook(_less)
    def forward(self, x):
        y, n = self.a(x, 2)
        return self.b(y, n)

@module(_r(3), 0.25, [1, 2])
class MHolds(nn.Module):
    table: Dict[str, Tensor]
    rows: List[List[Tensor]]
    kept: Dict[str, Tuple[Tensor, Optional[Tensor], int]]
    def __init__(self):
        super().__init__()
        self.table = {"w": torch.arange(3.0), "v": torch.ones(1)}
        self.rows = [[torch.ones(3)], [torch.full((3,), 2.0), torch.zeros(3)]]
        self.pair = (torch.full((3,), 0.1), [1, 2], "name")
        self.kept = {"a": (torch.ones(3), None, 1), "b": (torch.zeros(3), torch.full((3,), 7.0), 2)}
        self.seen = [0.5]
    def forward(self, x, scale: float = 0.5, sizes: Optional[List[int]] = None):
        self.table["x"] = x
        self.table["w"] += 1
        self.seen.append(scale)
        for row in self.rows:
            for r in row:
                x = x + r
        a, b, n = self.kept["b"]
        if b is not None:
            x = x * b + a * n
        m = 1 if sizes is None else len(sizes)
        return x * scale + self.pair[0] * self.pair[1][1], self.table, len(self.seen), m

# PyTorch runs these, and not where its methods are called: `hooked.pt` of the tests.
def _doubled(self, inputs: Tuple[Tensor]) -> Tuple[Tensor]:
    return (inputs[0] * 2,)

@module(_r(3, 3))
class MHooksOfAll(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 3)
        self.register_forward_pre_hook(_doubled)
    def forward(self, x):
        return self.l(x)

# What a run writes to lies inside of containers that all runs share.
@module(_r(3))
class MInnerState(nn.Module):
    table: Dict[str, Tensor]
    caches: List[Tensor]
    deep: Dict[str, List[Tensor]]
    pairs: List[Tuple[int, List[int]]]
    same: List[List[Tensor]]
    def __init__(self):
        super().__init__()
        self.table = {"w": torch.ones(3)}
        self.caches = [torch.zeros(3), torch.zeros(2, 3)]
        self.deep = {"a": [torch.ones(3)], "b": []}
        self.pairs = [(1, [2, 3])]
        twice = [torch.ones(3)]
        self.same = [twice, twice]
    def forward(self, x):
        self.table["w"].add_(x)
        self.caches[1][0] = x
        self.caches[0] += 1
        self.deep["a"][0].mul_(x)
        self.deep["b"].append(x)
        self.deep["a"].insert(0, x * 2)
        self.pairs[0][1].append(5)
        self.pairs.append((2, [7]))
        self.same[0].append(x)
        return self.table, self.caches, self.deep, self.pairs, self.same

@module(_r(2, 3), 1)
class MIfaceChosen(nn.Module):
    first: Iface
    def __init__(self):
        super().__init__()
        self.first = ImplA()
        self.choice = nn.ModuleList([ImplA(), ImplB()])
        self.lin = nn.Linear(3, 3)
    def forward(self, x, k: int):
        x = self.first.forward(x)
        for i in range(3):
            m: Iface = self.choice[k]
            x = m.forward(self.lin(x))
            k = 1 - k
        return x

class Pooling(Enum):
    SUM = 1
    MEAN = 2
    MAX = 3
class Padding(Enum):
    ZERO = "constant"
    EDGE = "replicate"

@module(_r(3, 4), 1)
class MEnumParts(nn.Module):
    def __init__(self):
        super().__init__()
        self.mode = Pooling.MEAN
        self.table = {"a": Pooling.SUM, "b": Pooling.MAX}
        self.pads = [Padding.ZERO, Padding.EDGE]
    def pool(self, x, mode: Pooling):
        if mode == Pooling.SUM:
            return x.sum(-1)
        elif mode == Pooling.MEAN:
            return x.mean(-1)
        return x.amax(-1)
    def forward(self, x, n: int):
        outs: List[Tensor] = []
        for m in Pooling:
            outs.append(self.pool(x, m))
        for k, m in self.table.items():
            outs.append(self.pool(x, m) * m.value)
        y = F.pad(x[None], [1, 2], self.pads[n].value)
        names = [p.name + "=" + p.value for p in self.pads]
        return self.pool(x, self.mode), outs, names, y

class Ranked:
    def __init__(self, score: float, name: str):
        self.score = score
        self.name = name
    def __lt__(self, other: "Ranked") -> bool:
        return self.score < other.score

# Objects are sorted by their own `<`.
@module(torch.tensor([3.0, 1.0, 2.0, 1.0, 5.0]), True)
class MSortedObjects(nn.Module):
    def forward(self, x, last_first: bool):
        made = [Ranked(float(x[i]), "n" + str(i)) for i in range(x.size(0))]
        names = [r.name for r in sorted(made)]
        as_made = [r.name for r in made]
        made.sort(reverse=last_first)
        return names, as_made, [r.score for r in made]

class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))
        self.seen: List[int] = [0]
    def forward(self, x):
        self.count += 1
        self.seen.append(len(self.seen))
        return x * self.count

class Reads(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.register_buffer("total", count)
    def forward(self, x):
        return x + self.total

# What is written by one name is read by another: a tensor, a module, a list, parts of one memory.
@module(_r(2))
class MShared(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.jit.script(Counts())
        self.second = self.first
        self.reads = Reads(self.first.count)
        self.tensors: List[Tensor] = [torch.zeros(2), torch.ones(2)]
        self.register_buffer("item", self.tensors[0])
        self.names: List[str] = ["a"]
        self.same_names = self.names
        self.table: Dict[str, Tensor] = {"x": self.tensors[1]}
    def forward(self, x):
        a = self.first(x)
        b = self.second(x)
        self.item += x
        self.names.append("b")
        self.table["x"].add_(x)
        c = self.reads(x)
        return a, b, c, self.tensors[0] * 1, self.tensors[1] * 1, self.same_names, self.first.seen, self.second.count * 1

# Statistics that a layer in training writes are read after it.
@module(_r(4, 2))
class MStatistics(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(2)
        self.other = nn.BatchNorm1d(2)
    def train(self, mode: bool = True):
        return super().train(True)
    def forward(self, x):
        y = self.norm(self.other(x))
        z = F.batch_norm(x, self.norm.running_mean, self.norm.running_var, None, None, False, 0.1, 1e-5)
        return y, z, self.norm.running_var * 1

class Limits(NamedTuple):
    n: int
    scale: Optional[float] = None
    names: Optional[List[str]] = None

# A tuple that could hold a list is made where it stands; attention as the newest PyTorch writes it.
@script(_r(1, 2, 3, 4), 3)
def made_tuples(x, n: int):
    out: List[float] = []
    for c in [Limits(1, None, None), Limits(2, 0.5, None), Limits(n, None, ["a", "b"])]:
        s = c.scale
        k = 1.0
        if s is not None:
            k = s
        names = c.names
        if names is not None:
            k += len(names)
        out.append(k * c.n)
    return out, F.scaled_dot_product_attention(x, x, x, is_causal=True)

def _is_sum(m: Pooling) -> bool:
    return m is Pooling.SUM

# Each constant and each attribute is another object, even if it is the same member.
@module(1)
class MEnumIdentity(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = Pooling.SUM
        self.both = [Pooling.SUM, Pooling.MAX]
    def forward(self, n: int):
        m = self.m
        k = Pooling.SUM
        if n > 0:
            k = Pooling.MAX
        return m is m, self.m is self.m, self.m is Pooling.SUM, _is_sum(self.m), self.both[0] is self.m, k is Pooling.MAX, k == Pooling.MAX, k is k
