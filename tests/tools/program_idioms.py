"""More templates for program_grammar.py: what users write around operators. Functions with defaults, early returns, values of any type,
tuples and dictionaries; writes through views of views; promotion, tensors without elements or dimensions, halves."""
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch


class Span(NamedTuple):
    begin: int
    end: int
    name: str = "span"


def describe(v: Any) -> str:
    if isinstance(v, int):
        return "int " + str(v + 1)
    elif isinstance(v, float):
        return "float"
    elif isinstance(v, str):
        return v + "!"
    elif isinstance(v, torch.Tensor):
        return "tensor of " + str(v.dim())
    elif isinstance(v, List[int]):
        return str(len(v)) + " ints"
    return "other"


def any_of(b: bool, x: torch.Tensor, n: int) -> Any:
    if b:
        return x
    return n


def first_over(values: List[int], limit: int) -> Optional[int]:
    for v in values:
        if v < 0:
            continue
        if v > limit:
            return v
    return None


def find(rows: List[List[int]], value: int) -> Tuple[int, int]:
    for i, row in enumerate(rows):
        for j, v in enumerate(row):
            if v == value:
                return i, j
    return -1, -1


def countdown(n: int, step: int = 1) -> List[int]:
    out: List[int] = []
    while True:
        n -= step
        if n % 3 == 0:
            continue
        if n < 0 or len(out) > 4:
            break
        out.append(n)
    return out


def stats(x: torch.Tensor, dim: int = -1, keep: bool = False) -> Tuple[torch.Tensor, torch.Tensor]:
    x = x.float()
    if x.numel() == 0:
        return x.sum(dim, keep), x
    m = x.mean(dim, keepdim=keep)
    return m, x.std(dim, keepdim=keep)


def counted(words: List[str]) -> Dict[str, int]:
    out: Dict[str, int] = {}
    for w in words:
        if w in out:
            out[w] += 1
        else:
            out[w] = 1
    return out


def words_of(s: str, mark: str) -> List[str]:
    out: List[str] = []
    at = 0
    while at < len(s):
        end = s.find(mark, at)
        if end < 0:
            out.append(s[at:])
            break
        out.append(s[at:end])
        at = end + max(len(mark), 1)
    return out


def pad_to(x: torch.Tensor, n: int) -> torch.Tensor:
    while x.dim() < n:
        x = x.unsqueeze(0)
    return x


def clip(x: torch.Tensor, low: Optional[float] = None, high: Optional[float] = None) -> torch.Tensor:
    if low is not None:
        x = x.clamp(min=low)
    if high is None:
        return x
    return x.clamp(max=high)


def masked_mean(x: torch.Tensor, mask: torch.Tensor, dim: int = 0) -> torch.Tensor:
    mask = mask.to(x.dtype)
    return (x * mask).sum(dim) / mask.sum(dim).clamp(min=1)


def choose(b: bool, x: torch.Tensor, y: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    a, c = (x, y) if b else (y, x)
    return a + 1, c


def every_other(xs: List[torch.Tensor], n: int) -> List[torch.Tensor]:
    out = []
    for i, x in enumerate(xs):
        if i % 2 == n:
            continue
        x = x * 2
        if x.dim() > 2:
            break
        out.append(x)
    return out


def spans(n: int, size: int) -> List[Span]:
    return [Span(i, min(i + size, n)) for i in range(0, n, size)]


def widest(all: List[Span]) -> Span:
    best = Span(0, 0, "none")
    for one in all:
        if one.end - one.begin > best.end - best.begin:
            best = one
    return best


# What a program imports.
NAMES = "any_of, choose, clip, counted, countdown, describe, every_other, find, first_over, masked_mean, pad_to, spans, stats, widest, words_of"

TENSORS = [
    "pad_to(<T>, <2|3|i>)", "clip(<T>, <None|F>)", "clip(<T>, high=<F>)", "masked_mean(<T1>, <T1> > 0, <d>)", "masked_mean(<T>, <T> > 0)", "stats(<T>, <d>, <True|False>)[<0|1>]", "choose(<bool>, <T>, <T>)[<0|1>]",
    "<T>.half() + <T>.to(torch.bfloat16)", "(<T> > 0) * <number>", "(<T> > 0).sum(<d>) / <T>.numel()", "<T>.to(torch.bool) + <T>.to(torch.bool)", "<T>.to(torch.uint8) * <number>", "torch.tensor(<i>) + <F>", "torch.tensor(True) + <T>", "torch.tensor(<F>) * <T>.long()", "<T>.to(<dtype>) + <T>.to(<dtype>)", "<T>.to(<dtype>) * <number>",
    "<T>.to(<dtype>) / <T>.to(<dtype>)", "<T>.to(<dtype>) // <i>", "<T>.to(<dtype>).sum(<d>)", "<T>.to(<dtype>).mean()", "<T>.to(<dtype>).cumsum(<d>)", "<T>.to(<dtype>).max(<d>)[0]", "<T>.to(<dtype>) <cmp> <number>", "torch.where(<T> > 0, <T>.to(<dtype>), <zero>)", "<T>.to(<dtype>) @ <T>.to(<dtype>).t()",
    "torch.zeros(0, 3).<sum|mean|prod|amax|std>(<d>)", "torch.cat([torch.zeros(0), <T>.flatten()])", "torch.cat([torch.zeros(0, dtype=<dtype>), <T>], <d>)", "<T>[<i>:<i>].max(<d>)[0]", "<T>[:0].<sum|mean|cumsum|softmax|argmax>(<d>)", "torch.zeros([]).unsqueeze(<i>)", "<T>.sum().expand(2, <i>)", "<zero>.repeat(<i>)", "<zero>.<sum|max|argmax|cumsum|sort|unbind>(0)", "<zero>[None, ...][<index>]",
    "<T>.flatten()[:0].view(<0|i>, <3|i>)", "torch.stack([e.float().mean() for e in <LT>])", "torch.cat([e.flatten() for e in <LT>])", "torch.stack([e[<i>] for e in <LT>])", "(<T> - <T>.float().mean(<d>, keepdim=True)) / (<T>.float().std(<d>, keepdim=True) + 1e-5)", "torch.where(<T1>.isnan(), torch.zeros_like(<T1>), <T1>)",
    "<T>.float().masked_fill(torch.ones(<i>, <i>).triu(1).to(torch.bool), float('-inf')).softmax(<d>)", "torch.arange(<T>.size(<d>))[None] \\< <i>", "torch.zeros(<T>.size(0), <i>, dtype=<T>.dtype)", "(<T>.sum() if <T>.numel() else <zero>)", "torch.tensor([[j * e for j in <LI>] for e in <LI>])", "torch.tensor([[p, q] for p, q in zip(<LF>, <LF>)])",
    "torch.view_as_real((<complex>)[<index>])", "(<complex>).abs().half()", "torch.view_as_real(<complex> * <T>)", "torch.view_as_real((<complex>).to(torch.complex128) + <F>)", "torch.view_as_real(torch.stack([<complex>, <complex>], <d>))", "torch.view_as_real((<complex>).reshape(-1) / 2)", "torch.view_as_real(torch.where(<T> > 0, <complex>, <complex>))", "(<complex>).real + <T>", "((<complex>) * (<complex>).conj()).real", "torch.view_as_real((<complex>).cumsum(<d>))",
    "<T>[<slice>][<slice>]", "<T>[..., ::2].t()", "<T>.t()[<index>].contiguous()", "<T>.t().contiguous().view(<-1|3, -1|i>)", "<T>.transpose(0, <d>).reshape(<-1|i, -1>)", "<T>.transpose(0, <d>).view(<-1|3, 2|-1, 1>)", "torch.relu(<T>.t()).view(-1)", "(<T>.t() + 1).view(<-1|i>)", "<T>[:, :1].view(-1)", "<T>.expand(2, 2, 3).view(<-1|4, 3|2, 6>)", "<T>[None].permute(1, 2, 0).view(<-1|3, 2>)", "<T>.unsqueeze(-1).expand(-1, -1, 2).flatten(<d>)",
]

UNPACKED = [("TT", "stats(<T>, <d>)"), ("TT", "stats(x=<T>, keep=<bool>)"), ("II", "find(<LL>, <i>)"), ("TT", "choose(<bool>, <T>, <T>)"), ("II", "<I>, <I>"), ("IS", "(<i>, <S>)")]

VALUES = {
    "S": ["describe(<i>)", "describe(<F>)", "describe(<S>)", "describe(<T>)", "describe(<LI>)", "describe(<LF>)", "describe(any_of(<bool>, <T>, <i>))", "describe(<O>)", "str(widest(spans(<i>, <1|2|i>)).end)", "widest(spans(<i>, 2)).name", "', '.join([k + '=' + str(v) for k, v in <DI>.items()])", "''.join([c.upper() if c == 'a' else c for c in <S>])", "'{:d} {}'.format(<i>, <F>)", "f'{<S>}: {<T>.dim()} {<LI>}'", "f'{<i> + 1}/{len(<LT>)}'", "<S>[::<2|-1|3>]"],
    "I": ["len(countdown(<i>))", "sum(countdown(<i>, 2))", "len(spans(<i>, <1|2|i>))", "widest(spans(<i>, <2|3>)).begin", "sum([sum(e) for e in <LL>])", "max([len(e) for e in <LL>])", "len([k for k in <DL>])", "(0 if <O> is None else 1)", "sum([1 if e > 1 else 0 for e in <LI>])", "len(counted(<LS>))", "len(words_of(<S>, <s>))", "<T>.size(-1) * <T>.size(0)", "int(<T>.size(0) / 2)", "-(-<T>.size(0) // 2)", "int(bool(<B>)) + int(<i>)"],
    "O": ["first_over(<LI>, <i>)"],
    "LI": ["countdown(<i>)", "countdown(<i>, step=<1|2>)", "[one.end for one in spans(<i>, 2)]", "[j + e for j, e in zip(<LI>, countdown(<i>))]", "[find(<LL>, e)[0] for e in <LI>]", "sorted([e for e in <LI>])[<lslice>]", "[v for k, v in counted(<LS>).items()]"],
    "LS": ["words_of(<S>, <s>)", "[k + str(v) for k, v in <DI>.items()]", "[describe(e) for e in <LI>]", "list(counted(<LS>).keys())"],
    "DI": ["counted(<LS>)", "counted(words_of(<S>, <s>))", "{str(e): e for e in <LI>}"],
    "LL": ["[[e + j for e in <LI>] for j in range(<i>)]", "[[j for j in range(e)] for e in <LI>]", "[countdown(e) for e in <LI>]", "list([<LI>, <LI>])"],
    "LT": ["every_other(<LT>, <0|1>)", "[pad_to(e, 2) for e in <LT>]", "[e * c for e, c in zip(<LT>, <LF>)]", "[<T> + j for j in <LI>]"],
    "LLT": ["[[e * j for j in <LI>] for e in <LT>]"], "D": ["{k: e + 1 for k, e in zip(<LS>, <LT>)}", "{k: clip(e, 0.0) for k, e in <D>.items()}"], "DL": ["{k: [e for e in <LI>] for k in <LS>}"],
}

IN_PLACE = [
    "<T>[<slice>].t()[<index>] = <number>", "<T>.view(-1)[<slice>][<i>] += <number>", "<T>.transpose(0, <d>).unsqueeze(0)[0].mul_(<T>)", "<T>[..., ::2][<i>] = <zero>", "<T>.select(<d>, <i>).unsqueeze(<d>).add_(<T>)", "<T>.chunk(2, <d>)[0][<index>] = <T>", "<T>.narrow(<d>, 0, 1).squeeze(<d>).fill_(<number>)",
    "<T>.diagonal()[<slice>].mul_(<number>)", "<T>.unbind(<d>)[<i>][<slice>].zero_()", "<T>.expand(2, -1, -1)[0].add_(1)", "<T>.flatten()[<slice>].mul_(2)", "<T>.unfold(0, 2, 1)[0].neg_()", "<T>[<slice>][<slice>] += <T>[<i>]", "<T>.t().t().add_(<number>)", "<T>[None].squeeze(0)[<index>] *= <number>", "<T>[<slice>].copy_(<T>[<slice>])", "<T>.t()[<slice>].view(<-1|i>).zero_()",
    "<T>.squeeze().unsqueeze(0)[<index>] -= <number>", "<T1>[<T1> > 0] += <number>", "<T1>[<T1> > 0] *= <T>", "<T>[<i>], <T>[<i>] = <T>[<i>], <T>[<i>]", "<T>.view(-1)[::2] = <number>", "<T>[<i>:<i>] = <zero>", "<T>[<LI>] = <number>", "<T>.movedim(0, <d>)[<i>].fill_(<zero>)",
]

OTHER = ["<I>, <I> = <I>, <I>", "<T>, <T> = <T>, <T>", "<LI>[<i>], <LI>[<i>] = <LI>[<i>], <LI>[<i>]", "<DI>[<k>] = <DI>.get(<k>, 0) + 1", "<DL>[<k>] = <DL>.get(<k>, [0]) + [<i>]", "<LL>[<i>][<i>] += <i>", "<D>[<k>] = <D>[<k>][<index>]", "<LLT>[<i>][<i>].add_(1)", "<LLT>[<i>].append(<T>)", "<LI>.extend(countdown(<i>))",
         "assert <O> is not None", "assert len(<LI>) > <i>, describe(<LI>)", "<LT>[<i>][<index>] = <number>", "<D>[<k>][<index>] += <number>", "<S> += <s>", "<F> *= <F>", "<B> = not <B>", "<I> += int(<B>)", "<F> -= <i>"]
