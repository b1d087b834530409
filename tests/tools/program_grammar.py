"""Random programs for check_programs.py: templates by kind of value. In a template `<K>` is a variable of kind K, `<K1>` the same one
wherever it stands, as `<i1>`; `<i>` an int, `<d>` a dimension, `<k>` a key, `<word>` another template, `<a|b>` one of these texts."""
import random
import re
from typing import NamedTuple, Optional

import torch

import program_idioms
import program_operators

DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool"]

# The value that a variable of each kind begins with.
KINDS = {"T": "torch.mul(x, 1)", "I": "n", "B": "b", "F": "f", "S": "s", "LT": "[x, y]", "LI": "[n, 1, 2]", "LF": "[f, 2.0, -1.25]", "LS": "[s, 'b', 'A1']", "LB": "[b, False]", "D": "{'a': x, 'b': y}",
         "DI": "{'a': n, 'b': 2}", "DK": "{1: s, -2: 'q'}", "P": "(y, n, s)", "PI": "(n, 2)", "N": "Pair(x, n)", "O": "maybe(b, n)", "OT": "maybe_tensor(b, x)", "LL": "[[n], [1, 2]]", "LP": "[(n, s), (1, 'b')]",
         "TT": "(x, y)", "DT": "{1: x, n: y}", "DL": "{'a': [n], 'b': [1, 2]}", "LO": "[maybe(b, n), 3]", "LLT": "[[x, y], [z]]", "DF": "{f: n, 2.0: 1}", "OS": "maybe_text(b, s)"}


class Pair(NamedTuple):
    first: torch.Tensor
    second: int


def maybe(b: bool, n: int) -> Optional[int]:
    if b:
        return n
    return None


def maybe_tensor(b: bool, x: torch.Tensor) -> Optional[torch.Tensor]:
    return x if b else None


def maybe_text(b: bool, s: str) -> Optional[str]:
    if b:
        return None
    else:
        return s + "?"


def twice(x: torch.Tensor, n: int = 2):
    x.mul_(n)
    return x + n


def early(n: int, b: bool):
    for i in range(n):
        if i == 2:
            return i * 10
        if b:
            continue
        n += i
    return n


HEAD = """import math
import torch
from typing import Dict, List, Optional, Tuple
from program_grammar import Pair, early, maybe, maybe_tensor, maybe_text, twice
from program_idioms import """ + program_idioms.NAMES + """

"""
MAIN = "def f(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor, n: int, b: bool, f: float, s: str):\n"
HELPER = """def helper(x: torch.Tensor, y: torch.Tensor, n: int):
    z, b, f, s = y, n > 1, 0.5 * n, "a-b"
"""

WORDS = {
    "i": ["-1", "0", "1", "2", "0", "1", "0", "1", "-1", "0", "1", "-2", "3", "<I>", "len(<LI>)", "<T>.dim()", "<T>.size(0)", "<PI>[<0|1|-1>]", "<N>.second"],
    "d": ["0", "0", "0", "0", "0", "-1", "-1", "-1", "-1", "-1", "1", "1", "2"],
    "k": ["'a'", "'b'", "'c'", "<S>"],
    "dtype": ["torch." + d for d in DTYPES],
    "slice": ["1:", ":1", ":-1", "-2:", "::2", "1::2", "0:2", "<i>:", ":<i>", "<i>:<i>", "::3", "0:5:2", "-1:"],
    "lslice": ["<slice>", "<slice>", "::-1", "::-2", "-1:0:-1", "<i>::-1"],
    "index": ["<i>", "<slice>", "..., <i>", ":, <slice>", ":, <i>", "None", "..., None", "<i>, <slice>", "<slice>, <slice>", "..., <slice>", "None, <i>", "<T> > 0", "torch.tensor([<i>, 0])",
              ":, torch.tensor([0, <i>])", "torch.tensor([[0, <i>], [0, 0]])", "torch.tensor([0, 1]), torch.tensor([<i>, 0])", "<LI>", "..., <i>"],
    "cmp": [">", "<", "==", "!=", ">=", "<="],
    "number": ["<i>", "1", "0.5", "2.5", "-1", "<F>", "True", "100", "-3"],
    "s": ["'a'", "' '", "'b'", "'x1'", "''", "'-'", "<S>"],
    "zero": ["torch.tensor(<number>)", "torch.tensor(<number>, dtype=<dtype>)", "<T>.sum()"],
    "safe": ["<T1> + <T1>", "torch.relu(<T>.float())", "<T>.abs().clone()", "<T>.reshape(-1)", "<T>.unsqueeze(0)", "<T>.sum()", "<T> * <F>", "<T>[...]", "torch.where(<T1> > 0, <T1>, <T1> * 2)",
             "<T>.flatten()", "<T>.to(<dtype>)", "<T1>.view_as(<T1>)", "x[<0|1|:, 1|1:|:, ::2|None|..., -1>]", "x.t()", "y + x", "<T> * <zero>", "<zero> - <T>", "y.expand(2, 3)", "z.expand(3, 2)", "<P>[0]", "<N>.first", "x.view(3, 2)", "y.expand(2, -1)[:, <slice>]"],
}

VALUES = {
    "T": ["<safe>"] * 360 + [
        "<T> + <T>", "<T> * <T>", "<T> - <number>", "<number> - <T>", "<number> / <T>", "<T> / <T>", "<T> // <number>", "<T> // <T>", "<T> % <number>", "<T> % <T>", "torch.matmul(<T>, <T>)", "<T>.sum(<d>)",
        "<T>.mean(<d>)", "<T>.view(<-1|3, 2|1, -1|6|-1, 1>)", "<T>.t()", "<T>.transpose(0, <d>)", "<T>.unsqueeze(<d>)", "<T>.squeeze(<d>)", "<T>[<index>]", "<T>[<index>]", "<T>[<index>]",
        "torch.cat(<LT>, <d>)", "torch.stack(<LT>)", "torch.stack(<LT>, <d>)", "<T>.expand(<2, 3|2, 2, 3|-1, 3|4, -1|3, 3|2, -1, -1>)", "<T>.to(<dtype>)", "<T> <cmp> <T>", "<T> <cmp> <number>",
        "torch.where(<T1> > 0, <T1>, <T>)", "torch.where(<T1> > 0, <T1>, <number>)", "<T1>.masked_fill(<T1> > 0, <number>)", "<T>.masked_fill(<T> > 0, <number>)", "<T>.index_select(<d>, torch.tensor([0, <i>]))",
        "<T1>.gather(<d>, torch.zeros_like(<T1>, dtype=torch.long))", "torch.zeros(<i>, 2)", "torch.arange(<i>)", "torch.arange(<i>, <i>, <1|2|-1|0.5>)", "torch.full([2], <number>)", "torch.full_like(<T>, <number>)",
        "<T>.clamp(<number>, <number>)", "<T>.clamp(min=<number>)", "torch.softmax(<T>.float(), <d>)", "<T>.cumsum(<d>)", "<T>.max(<d>)[0]", "<T>.max()", "<T>.min(<d>)[1]", "<T>.amax(<d>)", "<T>.argmax(<d>)", "<T>.argmin()",
        "<T>.sort(<d>)[0]", "<T>.abs()", "-<T>", "~<T>", "<T>.clone()", "<T>.permute(<1, 0|0|0, 1, 2|2, 0, 1>)", "<T>.repeat(<2|2, 1|1, 2, 1>)", "<T>.chunk(2, <d>)[<0|1|-1>]", "<T>.split(2, <d>)[0]", "<D>[<k>]", "<LT>[<i>]",
        "torch.tensor(<LI>)", "torch.tensor(<LF>)", "torch.tensor(<LB>)", "torch.tensor([[<i>, 1], [2, <i>]])", "<zero>", "torch.einsum('<i,i-\\>i|ij,kj-\\>ik|ij-\\>ji|...i-\\>...|ij,j-\\>i>', <T>, <T>)", "<T>.pow(2)", "<T> ** <i>", "<T> ** <F>",
        "<number> ** <T>", "<T>.all()", "<T>.any(<d>)", "torch.logical_and(<T>, <T>)", "torch.logical_not(<T>)", "<T> <&|^|\\|> <T>", "<T> <&|^|\\|> <number>", "<T> <\\<\\<|\\>\\>> <i>", "<T>.select(<d>, <i>)", "<T>.narrow(<d>, <i>, <i>)",
        "torch.nn.functional.pad(<T>, [1, <i>])", "<T>.roll(<i>, <d>)", "<T>.flip([<d>])", "<T>.<tril|triu>(<i>)", "<T>.<round|floor|ceil|trunc|sign|exp|sqrt|sigmoid|tanh|neg|frac>()", "torch.maximum(<T>, <T>)", "<T>.new_zeros([2])",
        "<T>.new_full([<i>], <number>)", "<T>.type_as(<T>)", "torch.addmm(<T>, <T1>, <T1>.t())", "<T>.std(<d>)", "<T>.topk(<i>, <d>)[0]", "<T>.unbind(<d>)[0]", "<T>.diagonal()", "<T>.prod(<d>)", "<T>.prod()", "<T>.fmod(<number>)",
        "torch.remainder(<T>, <T>)", "torch.floor_divide(<T>, <T>)", "torch.div(<T>, <T>, rounding_mode='<floor|trunc>')", "torch.add(<T>, <T>, alpha=<i>)", "torch.sub(<T>, <T>, alpha=<number>)", "torch.rsub(<T>, <T>)", "<T>.float().norm()",
        "<T>.flatten(<d>)", "<T>.unflatten(0, [<i>, -1])", "<T>.nonzero()", "torch.bincount(<T>.flatten())", "<T>.movedim(0, <d>)", "<T>.swapaxes(0, <d>)", "torch.outer(<T>, <T>)", "torch.dot(<T>, <T>)", "torch.mm(<T>, <T>)",
        "torch.bmm(<T>, <T>)", "torch.isnan(<T>)", "torch.lerp(<T>.float(), <T>.float(), <F>)", "torch.nn.functional.one_hot(<T>, <i>)", "torch.nn.functional.<gelu|silu|leaky_relu|relu6|hardtanh|softplus>(<T>)", "torch.nn.functional.layer_norm(<T>, [<i>])",
        "torch.nn.functional.linear(<T>, <T>)", "torch.nn.functional.embedding(<T>, <T>)", "torch.meshgrid([<T>, <T>])[0]", "torch.broadcast_tensors(<T>, <T>)[0]", "<T>.expand_as(<T>)", "<T>.view_as(<T>)", "<T>.view(<dtype>)", "<T>.scatter(<d>, <T>, <T>)",
        "torch.eye(<i>)", "torch.linspace(<number>, <number>, <i>)", "torch.ones_like(<T>, dtype=<dtype>)", "<T>.index_add(0, torch.tensor([0, 0]), <T>)", "<T>.take(torch.tensor([<i>, 0]))", "torch.searchsorted(<T>.flatten().sort()[0], <T>)",
        "twice(<T>, <i>)", "twice(<T>)", "<P>[0]", "<N>.first", "<T>.repeat_interleave(<i>)", "<T>.unfold(<d>, <i>, 1)", "<T>.as_strided([2, 2], [<i>, 1])", "torch.cdist(<T>, <T>)", "<T>.logsumexp(<d>)", "torch.nan_to_num(<T>)", "<T>.float().var()",
        "torch.clamp(<T>, <T>, <T>)", "<T>.mean(<d>, keepdim=True)", "<T>.sum(<d>, dtype=<dtype>)", "<T>.contiguous()", "<T>.T", "<T>.mT", "<T>.ravel()", "<T>.detach()", "<T>.cumprod(<d>)", "<T>.kthvalue(<i>)[0]", "<T>.median()", "torch.atan2(<T>, <T>)",
        "torch.hstack(<LT>)", "torch.tile(<T>, [2])", "torch.chunk(<T>, <i>)[0]", "torch.tensor_split(<T>, <i>)[0]", "torch.ones([<i>, 2], dtype=<dtype>)", "torch.as_tensor(<LI>)", "torch.baddbmm(<T>, <T>, <T>)", "<T>.to(torch.bool)", "<T>.long()", "<T>.half()",
        "torch.diff(<T>, dim=<d>)", "torch.logaddexp(<T>, <T>)", "torch.kron(<T>, <T>)", "torch.block_diag(<T>, <T>)", "torch.rot90(<T>)", "<T>.fliplr()", "torch.bucketize(<T>, torch.tensor(<LF>))", "torch.histc(<T>.float(), 4, -1.0, 4.0)", "torch.trapz(<T>)",
        "torch.aminmax(<T>)[<0|1>]", "<T>.float().quantile(<0.5|0.25|F>)", "<T>.nanmean()", "<T>.nansum(<d>)", "<T>.count_nonzero(<d>)", "<T>.msort()", "torch.isin(<T>, <T>)", "torch.heaviside(<T>, <T>)", "torch.hypot(<T>, <T>)", "torch.xlogy(<T>, <T>)", "torch.copysign(<T>, <T>)", "<T>.signbit()",
        "torch.std_mean(<T>.float())[<0|1>]", "<T>.cummax(<d>)[<0|1>]", "<T>.mode(<d>)[0]", "torch.gcd(<T>, <T>)", "torch.float_power(<T>, <number>)", "<T>.clamp_min(<number>)", "<T1>.masked_select(<T1> > 0)", "torch.take_along_dim(<T1>, <T1>.argsort(<d1>), <d1>)", "<T>.argsort(<d>, <True|False>)",
        "<T>.select_scatter(<T>, <d>, <i>)", "<T>.slice_scatter(<T>, <d>, <i>)", "<T>.diagonal_scatter(<T>)", "torch.split(<T>, [1, <i>], <d>)[0]", "torch.tensor_split(<T>, <LI>)[0]", "<T>.gather(<d>, torch.tensor([[0, <i>]], dtype=torch.int32))", "<T>[torch.tensor([<i>, 0], dtype=torch.int32)]",
        "torch.nn.functional.<cosine_similarity|pairwise_distance>(<T>, <T>)", "torch.nn.functional.normalize(<T>)", "torch.nn.functional.conv1d(<T>, <T>)", "torch.nn.functional.conv1d(torch.ones(1, 2, 5) * <F>, torch.ones(3, 2, <i>), padding=<i>)", "torch.nn.functional.max_pool1d(<T>, <i>)", "torch.nn.functional.avg_pool1d(<T>.unsqueeze(0), 2)",
        "torch.nn.functional.cross_entropy(<T>, <T>)", "torch.nn.functional.mse_loss(<T>, <T>)", "torch.nn.functional.<l1_loss|smooth_l1_loss|huber_loss>(<T>, <T>)", "torch.nn.functional.interpolate(<T>.unsqueeze(0), scale_factor=2.0)", "torch.nn.functional.log_softmax(<T>, <d>)", "torch.nn.functional.glu(<T>, <d>)", "torch.nn.functional.dropout(<T>, 0.5, False)",
        "torch.nn.functional.prelu(<T>, <T>)", "torch.nn.functional.<elu|selu|celu|mish|hardswish|hardsigmoid|logsigmoid|tanhshrink|softsign>(<T>)", "torch.nn.functional.threshold(<T>, <F>, <F>)", "torch.nn.functional.scaled_dot_product_attention(<T>, <T>, <T>)", "torch.nn.functional.batch_norm(<T>, None, None, training=True)",
        "<T>.sub(<number>)", "torch.cumulative_trapezoid(<T>)", "torch.addmv(<T>, <T>, <T>)", "torch.addr(<T>, <T>, <T>)", "torch.vander(<T>)", "torch.inner(<T>, <T>)", "torch.tensordot(<T>, <T>, 1)", "torch.chain_matmul(<T>, <T>)", "torch.linalg.norm(<T>)", "torch.linalg.vector_norm(<T>, <i>)", "torch.linalg.matrix_norm(<T>)", "<T>.trace()", "<T>.det()",
        "torch.linalg.multi_dot([<T>, <T>])", "<T>.tril().triu(<i>)", "torch.tril_indices(<i>, <i>)", "torch.combinations(<T>)", "torch.cartesian_prod(<T>, <T>)", "<T>.sum([0, 1])", "<T>.mean([0, -1], True)", "<T>.var(<d>, <True|False>)", "<T>.norm(<1|2|F>, <d>)", "<T>.amin([0, <d>])", "<T>.all(<d>, True)", "torch.where(<T> > 0, <number>, <number>)",
        "torch.stack([<T>, <zero>])", "torch.cat([<T>, <T>, <T>], <d>)", "<T>.index_fill(<d>, torch.tensor([<i>]), <number>)", "<T>.put(torch.tensor([<i>]), <T>)", "<T>.bitwise_<and|or|xor>(<T>)", "<T>.logical_xor(<T>)", "<T>.not_equal(<T>)", "<T>.erf()", "<T>.<log|log2|log1p|expm1|rsqrt|reciprocal|square|sin|atan|cosh|digamma|lgamma>()",
        "<T>.item() + <T>", "<T> * <T>.item()", "<T>[0].item() * <T>", "torch.tensor(<T>.item())", "torch.tensor([<F>, float(<i>)])", "<T>[..., None] * <T>", "<T>[:, None, :] - <T>[None]", "(<T1> == <T1>.max()).nonzero()", "<T>.flatten().cumsum(0)[-1]", "torch.zeros_like(<T>).scatter_(<d>, <T>.long().abs() % 2, 1)", "<T>.to(<T>)", "<T>.type(<dtype>)", "<T>.double()"],
    "I": ["<i> + <i>", "<i> - <i>", "<i> * <i>", "<i> // <i>", "<i> % <i>", "-<i>", "<i> <&|\\||^> <i>", "<i> <\\<\\<|\\>\\>> <i>", "abs(<i>)", "int(<T>.sum())", "int(<T>)", "<LI>[<i>]", "<LI>.pop()", "<LI>.pop(<i>)", "sum(<LI>)",
          "min(<LI>)", "max(<LI>)", "int(<F>)", "len(<S>)", "int(<S>)", "int('<12| 3|-4|+5|1_0|x>')", "min(<i>, <i>)", "max(<i>, <i>)", "<LI>.index(<i>)", "<LI>.count(<i>)", "<LS>.count(<s>)", "<LS>.index(<s>)", "len(<LT>)", "len(<D>)", "len(<T>)",
          "<DI>[<k>]", "<DI>.get(<k>, <i>)", "<DI>.pop(<k>)", "<DI>.setdefault(<k>, <i>)", "<S>.<find|rfind|count|index|rindex>(<s>)", "ord(<S>)", "ord(<S>[<i>])", "<T>.numel()", "<T>.size(<d>)", "<T>.shape[<i>]", "<T>.stride(<d>)", "<T>.dim()",
          "early(<i>, <B>)", "-7 // <i>", "-7 % <i>", "7 // -2 * <i>", "(<i> + 5) // 3", "int(-<F>)", "int(<F> // 1)", "len(<S>.split(<s>))", "max([abs(e) for e in <LI>])", "sum([int(e) for e in <LB>])", "len(<LS>[<i>])", "int(<F> == <F>) + <i>", "(<i> if <O> is None else <i>)", "<LI>[-1] - <LI>[0]", "len(<S>[<lslice>])", "<P>[1]", "<PI>[0]", "<N>.second", "math.<floor|ceil>(<F>)", "round(<F>)" , "int(<B>)", "<LL>[<i>][<i>]", "<LP>[<i>][0]", "math.gcd(<i>, <i>)", "math.factorial(<i>)", "divmod(<i>, <i>)[<0|1>]", "<i> if <B> else <i>",
          "int(<T>.item())", "<T>.argmax().sum().long().item()", "len(<LS>)", "int(bool(<T>))", "len(<LS>)", "len(<DK>)", "int(<I> ** 2)",
          "torch.jit.annotate(int, <i>)", "<T>.storage_offset()", "int(<T>.to(torch.int64).sum().item())"],
    "F": ["<F> * 2", "<F> + <F>", "<F> - <i>", "float(<i>)", "<F> / <i>", "<i> / <i>", "<F> // <F>", "<F> % <F>", "<F> % <i>", "<i> % <F>", "<i> // <F>", "float(<T>.float().mean().item())", "float(<T>)", "<F> ** <i>", "<F> ** <F>", "float('<1.5|-2|inf|1e3|x| 4 >')", "float(<S>)",
          "abs(<F>)", "-<F>", "min(<F>, <F>)", "max(<F>, <F>)", "math.<sqrt|exp|log|sin|tanh|floor|fabs|degrees|log2|log1p>(<F>)", "math.<pow|fmod|copysign|atan2|hypot|remainder>(<F>, <F>)", "round(<F>)", "<LF>[<i>]", "<LF>.pop()", "sum(<LF>)", "max(<LF>)", "math.inf", "math.nan",
          "float(<B>)", "<F> if <B> else <F>", "<LF>[-1] * 1e<3|10|20|-7>", "float(<i> ** 2)", "math.pi", "float(<T>.std())", "math.pow(<i>, <i>)", "0.1 + <F>", "math.ldexp(<F>, <i>)", "math.modf(<F>)[0]", "math.frexp(<F>)[0]", "<F> / 3", "<T>.item() * 1.0", "float(<T>[0].sum())", "<LF>[<i>] ** 2", "round(<F> * 10) / 10", "float(str(<F>))", "-<F> // 2", "-7.5 % <F>", "<F> if <F> > <F> else -<F>", "max(<LF>[0], <F>)", "abs(min(<LF>))"],
    "B": ["<bool>"],
    "S": ["<S> + <s>", "'{}-{}'.format(<i>, <S>)", "'{} {}'.format(<F>, <B>)", "'{}'.format(<LI>)", "<S>.<upper|lower|capitalize|title|swapcase|strip|lstrip|rstrip>()", "<S>[<i>]", "<S>[<lslice>]", "str(<i>)", "str(<F>)", "str(<B>)", "str(<LI>)", "str(<LF>)", "str(<LS>)",
          "<S>.replace(<s>, <s>)", "<S>.replace(<s>, <s>, <i>)", "<S>.split(<s>)[<i>]", "<S>.split()[<i>]", "'%d' % <i>", "'%s is %d' % (<S>, <i>)", "'%.2f|%5.1f' % (<F>, <F>)", "'%e' % <F>", "f'{<i>} {<F>}'", "f'{<LI>} {<B>}'", "'%s' % <F>", "'%s-%s' % (<LS>, <i>)", "'%6.3f!' % <F>", "'%i' % <i>", "'{} and {}'.format(<PI>, <DI>)", "str(<i> * 1e<5|15|16|22|-5>)", "str(<F> * 1e<5|15|16|22|-5>)", "str(<F> / 3)", "str(1 / <F>)", "''.join([<S>, <s>])", "<S>[0:1] + <S>[1:]", "<S>.replace(' ', '')", "f'a{<S>}b'",
          "<S>.<strip|lstrip|rstrip>(<s>)", "<S>.<center|ljust|rjust>(<7|8|i>)", "<S>.<center|ljust|rjust>(8, '*')", "<S>.zfill(<i>)", "<S>.expandtabs(4)", "<s>.join(<LS>)", "<LS>[<i>]", "<DK>[<i>]", "<P>[2]", "<S>.partition(<s>)[<0|1|2|-1>]", "<S>.rpartition(<s>)[<0|2>]", "chr(<i> + 97)",
          "hex(<i>)", "oct(<i>)", "bin(<i>)", "<LS>.pop()", "<S>.rsplit(<s>)[0]", "<S> if <B> else <s>", "''.join([c + '.' for c in <LS>])", "<LP>[<i>][1]", "<S>.splitlines()[0]", "str(<T>.dtype == torch.float32)", "'a,b;c'",
          "'tab\\\\t' + <S>", "str(<DI>)", "str(<PI>)", "str(<O>)", "'{}'.format(<O>)", "<S>.lower()"],
    "LI": ["[<i>, <i>]", "<LI>[<lslice>]", "<LI> + [<i>]", "<LI> + <LI>", "list(range(<i>))", "[e * 2 for e in <LI>]", "<T>.size()[:]", "list(<T>.shape)", "<T>.shape[<slice>]", "sorted(<LI>)", "<LI> * 2", "<LI>.copy()", "list(<LI>)", "[j for j in range(<i>, <i>)]",
           "[len(e) for e in <LS>]", "[p + q for p, q in zip(<LI>, <LI>)]", "[j * e for j, e in enumerate(<LI>)]", "list(<DI>.values())", "list(<DK>.keys())", "<LL>[<i>]", "[int(e) for e in <LF>]", "[<PI>[0], <PI>[1]]", "[e // <i> for e in <LI>]", "torch.jit.annotate(List[int], [])", "[p[0] for p in <LP>]",
           "torch.jit.annotate(List[int], <T>.tolist())", "list(range(<i>, <i>, <2|-1|-2>))", "[k for k in <DK>]", "list(<T>.stride())"],
    "LF": ["[<F>, <F>]", "<LF>[<lslice>]", "<LF> + [<F>]", "sorted(<LF>)", "[e / 2 for e in <LF>]", "[float(e) for e in <LI>]", "<LF>.copy()", "torch.jit.annotate(List[float], <T>.tolist())"],
    "LS": ["<S>.split(<s>)", "<S>.split()", "<S>.split(' ', <i>)", "<S>.rsplit(' ', <i>)", "[<S>, <s>]", "<LS>[<lslice>]", "sorted(<LS>)", "list(<D>.keys())", "list(<DI>.keys())", "[e + <s> for e in <LS>]", "<LS> + <LS>", "list(<S>)", "<S>.splitlines()", "[str(e) for e in <LI>]", "[c for c in <S>]",
           "[k for k in <DI>]", "list(<DK>.values())", "[p[1] for p in <LP>]"],
    "LB": ["[<B>, <bool>]", "<LB>[<lslice>]", "[e > 1 for e in <LI>]", "[not e for e in <LB>]", "<LB> + [<B>]", "[e == <s> for e in <LS>]"],
    "LT": ["[<T>, <T>]", "list(<T>.unbind(<d>))", "<LT>[<lslice>]", "[e + 1 for e in <LT>]", "<LT> + [<T>]", "list(<T>.split(1))", "[e for e in <T>]", "list(<T>.chunk(<i>))", "[<T>[j] for j in range(<i>)]", "list(<D>.values())", "[e * j for j, e in enumerate(<LT>)]", "<LT>.copy()", "list(torch.broadcast_tensors(<T>, <T>))"],
    "D": ["{'a': <T>}", "{'c': <T>, <k>: <T>}", "<D>.copy()", "{k: e * 2 for k, e in <D>.items()}", "dict(<D>)", "{k: <T> for k in <LS>}"],
    "DI": ["{'a': <i>, <k>: <i>}", "<DI>.copy()", "{k: v + 1 for k, v in <DI>.items()}", "{e: j for j, e in enumerate(<LS>)}", "{k: len(k) for k in <LS>}", "dict([('q', <i>), (<s>, 2)])"],
    "DK": ["{<i>: <S>, <i>: <s>}", "<DK>.copy()", "{e: str(e) for e in <LI>}", "{v: k for k, v in <DI>.items()}"],
    "P": ["(<T>, <i>, <S>)"], "PI": ["(<i>, <i>)", "(<PI>[1], <PI>[0])", "divmod(<i>, <i>)"], "N": ["Pair(<T>, <i>)", "Pair(second=<i>, first=<T>)"],
    "O": ["maybe(<bool>, <i>)", "<DI>.get(<k>)"], "OT": ["maybe_tensor(<bool>, <T>)", "<D>.get(<k>)"],
    "LL": ["[<LI>, [<i>]]", "<LL>[<lslice>]", "<LL> + [<LI>]", "[[j, <i>] for j in range(<i>)]", "[e + [1] for e in <LL>]", "<LL>.copy()"],
    "LP": ["[(<i>, <S>)]", "list(zip(<LI>, <LS>))", "list(enumerate(<LS>))", "<LP>[<lslice>]", "[(v, k) for k, v in <DI>.items()]", "sorted(<LP>)", "list(<DK>.items())"],
}
WORDS.update(program_operators.WORDS)
VALUES["T"] += program_operators.TENSORS
VALUES |= {
    "TT": ["(<T>, <T>)", "(<TT>[1], <TT>[0])", "torch.max(<T>, <d>)", "torch.sort(<T>, <d>)"], "DT": ["{<i>: <T>}", "<DT>.copy()", "{j: e for j, e in enumerate(<LT>)}"], "DL": ["{<k>: <LI>}", "<DL>.copy()", "{k: [len(k), <i>] for k in <LS>}", "{k: [v] for k, v in <DI>.items()}"],
    "LO": ["<LO>[<lslice>]", "<LO> + [<O>]", "<LO>.copy()", "[<O>, <O>]"], "LLT": ["[<LT>, [<T>]]", "<LLT>[<lslice>]", "<LLT> + [<LT>]", "[[e, <T>] for e in <LT>]"], "DF": ["{<F>: <i>}", "<DF>.copy()", "{e: len(<LF>) for e in <LF>}"], "OS": ["maybe_text(<bool>, <S>)", "maybe_text(<B>, <s>)"],
} | {"O": VALUES["O"] + ["<LO>[<i>]", "<LO>.pop()", "maybe(<O> is None, <i>)"]}
VALUES["I"] += ["<DL>[<k>][<i>]", "len(<DL>)", "len(<LO>)", "<DF>[<F>]", "<DF>.get(<F>, <i>)", "len(<LLT>[<i>])", "sum(<DL>[<k>])", "<T>.shape[-1]", "int(<T>[<i>])", "int(<T>.max())", "<T>.ndim", "<T>.storage_offset()", "<T>.element_size()", "int(<T>.argmax())", "-(<i> // 2)", "(-<i>) % 3", "<i> // -2", "-1 - <i>", "1 \\<\\< <i>", "<i> \\>\\> 1", "<i> ** 2",
                "(<i> * 4611686018427387904)", "int(<F> * 10)", "int(<S>[0:1] + '1')", "len(str(<i>))", "len(list(<T>.shape))", "<i> - 2 * <i> + 1", "len([1 for e in <LI>])"]
VALUES["F"] += ["<F> ** <i>", "<i> ** <F>", "<i> ** -1", "<F> // <F>", "<F> % <i>", "<i> / <i>", "<F> + <i>", "float(<T>[<i>])", "float(<T>.sum())", "<T>.sum().item() * 0.5", "sum([e * 2 for e in <LF>])", "min(<LF>)", "float(<B>) - <F>", "abs(<F>)", "math.sinh(<F>)", "math.erf(<F>)", "math.gamma(<F>)", "math.lgamma(<F>)", "float('<1.5|inf|-2e3|x>')", "<i> * 0.1", "(<F> if <O> is None else 1.0)"]
VALUES["S"] += ["<S> + <S>", "('none' if <OS> is None else 'some')", "str(<LO>)", "str(<DL>)", "str(<TT>[0].dim())", "str(<DF>)", "str(<PI>[0]) + str(<B>)", "str(<T>.shape)", "str(<T>.size())", "'%d/%d' % (<i>, <i>)", "'%x' % <i>", "str(-<F>)", "str(<i> / 3)", "str(<i> // 2) + <s>", "<S>[<i>] + <S>[<i>]"]
VALUES["LI"] += ["<DL>[<k>]", "list(<DT>.keys())", "[e % <i> for e in <LI>]", "[j for j in range(<i>)]", "<LI>[<i>:<i>]", "<LI>[:<i>] + <LI>[<i>:]", "list(<DF>.values())", "[len(e) for e in <LL>]", "[int(e.sum()) for e in <T>]"]
VALUES["LT"] += ["<LLT>[<i>]", "[<TT>[0], <TT>[1]]", "list(<DT>.values())", "<LT>[<i>:<i>]", "list(torch.split(<T>, <i>))", "list(<T>.tensor_split(<i>, <d>))", "[e[<index>] for e in <LT>]", "[e for e in <LT>] + [<T>[0]]"]
WORDS["bool"] = ["<B>", "<i> <cmp> <i>", "<i> <cmp> <i>", "bool(<T>.sum() > 0)", "<T>.dim() == <0|1|2>", "<k> in <D>", "<k> not in <DI>", "not <B>", "<F> <cmp> <1.5|0|F>", "len(<LT>) > 2", "<T>.size(0) == 2", "<S>.<startswith|endswith>(<s>)",
                 "<s> in <S>", "<S> <cmp> <s>", "<LI> <==|!=> <LI>", "<LF> == <LF>", "<LS> == <LS>", "<i> in <LI>", "<s> in <LS>", "<i> in <DK>", "<B> and <bool>", "<B> or <bool>", "<B> == <B>", "bool(<i>)", "bool(<F>)", "bool(<T>)", "<O> is None", "<OT> is not None",
                 "<PI> == <PI>", "all(<LB>)", "any(<LB>)", "<S>.<isalpha|isdigit|isupper|islower|isspace|isalnum|istitle|isidentifier|isnumeric|isdecimal>()", "<T>.dtype == <dtype>", "<T>.is_floating_point()", "<T>.is_contiguous()", "torch.equal(<T>, <T>)", "torch.allclose(<T>, <T>)",
                 "bool((<T> == <T>).all())", "<i> \\< <i> \\< <i>", "isinstance(<i>, int)", "math.isnan(<F>)", "math.isinf(<F>)", "<T>.item() > 0", "<T>.shape == <T>.shape", "<T>.sum() > <number>", "bool(<S> == '')", "<i> == <F>", "<F> in <LF>", "<B> ^ <B>", "<D> is not None", "<OS> is None", "<LI> == [<i>, 1]", "<i> in <DT>", "<k> in <DL>", "<F> in <DF>", "<T>.dtype == <T>.dtype", "<T>.is_complex()", "<T>.shape == [<i>, 3]",
                 "<T>[<i>] > 0", "bool(<T>[<i>])", "<T>.any()", "(<T> \\< <T>).any()", "<T> is <T>", "len(<LI>) == len(<LT>)", "<i> \\< <F>", "<i> == <i> == <i>", "<B> != <B>", "not (<B> and <B>)", "<T>.size() == <LI>", "<S> == <S>", "<T>.is_contiguous()", "<LT>[<i>].dim() > 1", "math.isfinite(<F>)", "<O> is not None"]

# What a statement does beside making a new value.
IN_PLACE = ["<T>.add_(<T>)", "<T>.add_(<number>)", "<T>.mul_(<T>)", "<T>.mul_(<number>)", "<T>[<index>] = <T>", "<T>[<index>] = <number>", "<T>[<index>] = <number>", "<T1>[<T1> > 0] = <number>", "<T>[<index>] += <number>", "<T>[<index>] *= <T>", "<T>[<index>].<relu_|neg_|zero_|abs_>()", "<T>[<index>].add_(<T>)",
            "<T>.copy_(<T>)", "<T>.<relu_|zero_|neg_|abs_|floor_|sigmoid_|squeeze_|t_|exp_|sign_>()", "<T>.fill_(<number>)", "<T>.fill_(<zero>)", "<T> += <T>", "<T> -= <number>", "<T> *= <number>", "<T> /= <number>", "<T> <&|\\||^>= <T>", "<T>.unsqueeze_(<d>)", "<T>.masked_fill_(<T> > 0, <number>)", "<T>.sub_(<T>)",
            "<T>.clamp_(0, <number>)", "<T>.index_fill_(<d>, torch.tensor([0]), <number>)", "<T1>.scatter_(<d>, torch.zeros_like(<T1>, dtype=torch.long), <number>)", "<T>.scatter_(<d>, <T>, <T>)", "<T>.scatter_add_(<d>, <T>, <T>)", "<T>.div_(<T>)", "<T>.div_(<number>)", "<T>.index_add_(0, torch.tensor([0]), <T>)",
            "<T>.transpose_(0, <d>)", "<T>.pow_(<i>)", "<T>.remainder_(<number>)", "<T>.floor_divide_(<T>)", "<T>.fmod_(<T>)", "<T>.<tril_|triu_>()", "<T>.lerp_(<T>, <F>)", "<T>.addmm_(<T>, <T>)", "<T>.index_put_([torch.tensor([0])], <T>)", "<T>.index_put_([torch.tensor([0, 0])], <T>, True)", "<T>.index_copy_(0, torch.tensor([0]), <T>)",
            "<T>.select(<d>, <i>).add_(<1|2>)", "<T>.view(-1).mul_(<number>)", "<T>.t().add_(<T>)", "<T>.diagonal().fill_(<number>)", "<T>.expand(2, 3).<add_|fill_|mul_>(1)", "<T>.unsqueeze(0).sub_(<T>)", "<T>.masked_scatter_(<T> > 0, <T>)", "<T>.cumsum_(<d>)", "<T>.eq_(<T>)", "<T>.logical_and_(<T>)", "<T>.swapaxes_(0, <d>)",
            "<T>.narrow(<d>, 0, <i>).fill_(<number>)", "<T>.addcmul_(<T>, <T>)", "<T>.clamp_(<T>, <T>)", "<T>.bernoulli_(1.0)", "twice(<T>, <i>)", "<LT>[<i>].add_(1)", "<LT>[<i>] += <T>", "<D>[<k>].mul_(2)", "<D>[<k>] += <T>", "<N>.first.add_(1)", "<T>.addcdiv_(<T>, <T>)"]
OTHER = ["<LI>.append(<i>)", "<LT>.append(<T>)", "<LF>.append(<F>)", "<LS>.append(<s>)", "<D>[<k>] = <T>", "<DI>[<k>] = <i>", "<DI>[<k>] += <i>", "<DK>[<i>] = <s>", "<LI>.<reverse|sort|clear>()", "<LI>.sort(reverse=True)", "<LS>.sort()", "<LF>.sort()", "<LI>.insert(<i>, <i>)", "<LI>.extend(<LI>)", "<LI>.remove(<i>)", "del <LI>[<i>]",
         "<LI> += [<i>]", "<LI>[<i>] = <i>", "<LI>[<i>] += <i>", "<LT>[<i>] = <T>", "<LS>[<i>] = <s>", "<D>.pop(<k>)", "del <D>[<k>]", "<D>.update({<k>: <T>})", "<D>.setdefault(<k>, <T>)", "<DI>.clear()", "<DI>.update(<DI>)", "<DK>.pop(<i>, 'none')", "<LL>[<i>].append(<i>)", "<LL>.append(<LI>)", "<LL>[<i>][<i>] = <i>", "del <DK>[<i>]",
         "assert <bool>, <s>", "assert <bool>", "assert <T>.size(0) == <T>.size(0), f'{<i>} rows'", "<LT>.extend(<LT>)", "<LS>.extend([<s>])", "<LF>[<i>] = <F>", "<LB>.append(<bool>)", "<LT>.<reverse|pop|clear>()", "<LS>.reverse()", "<LP>.append((<i>, <S>))", "del <LT>[<i>]", "<LS>.insert(<i>, <s>)"]
IN_PLACE += program_operators.IN_PLACE + program_idioms.IN_PLACE
OTHER += program_operators.OTHER + program_idioms.OTHER
VALUES["T"] += program_idioms.TENSORS
for kind, more in program_idioms.VALUES.items():
    VALUES[kind] = VALUES[kind] + more
UNPACKED = program_operators.UNPACKED + program_idioms.UNPACKED
LOOPS = ["for j# in range(<i>):", "for j# in range(<i>, <i>):", "for j# in range(<3|4>, <i>, <-1|-2|2>):", "for j# in <LI>:", "for j#, e# in enumerate(<LS>):", "for k#, j# in <DI>.items():", "for j#, k# in zip(<LI>, <LS>):", "for j#, k# in <LP>:", "for k# in <DI>:", "for j# in <DK>.keys():", "for k# in <S>:", "for t# in <LT>:", "for t# in <T>:",
         "for k#, t# in <D>.items():", "for a# in <LL>:", "for j#, t# in enumerate(<LT>):"]
LOOP_KINDS = {"j": "I", "k": "S", "e": "S", "t": "T", "a": "LI"}


class Body:
    """The lines of a function; variables by kind."""

    def __init__(self, rng, result=None, helper=False):
        self.rng, self.lines, self.count, self.depth, self.loops, self.result, self.helper = rng, [], 0, 1, 0, result, helper
        self.vars = {"T": ["x", "y", "z", "t_"], "I": ["n", "i_"], "B": ["b", "b_"], "F": ["f", "f_"], "S": ["s", "s_"]}
        self.vars = {kind: self.vars.get(kind, [kind.lower() + "_"]) for kind in KINDS}
        for _ in range(self.rng.randrange(2, 8)):
            self.statement()
        body = "\n".join(self.lines)
        used = [kind for kind in KINDS if re.search(rf"\b({'|'.join(v for v in self.vars[kind] if v not in 'xyznbfs')})\b", body)]
        results = f"({self.pick('T')}, {self.pick('I')})" if result else "(" + ", ".join(self.vars[k][-1] for k in used) + f", {self.pick('T')}, x)"
        self.emit("return " + results)
        body = "\n".join(self.lines)
        self.lines[:0] = [f"    {kind.lower()}_ = {first}" for kind, first in KINDS.items() if re.search(rf"\b{kind.lower()}_\b", body)]

    def emit(self, line):
        self.lines.append("    " * self.depth + line)

    def pick(self, kind):
        return self.rng.choice(self.vars[kind][-5:])

    def new(self, kind, value):
        self.count += 1
        self.emit(f"v{self.count} = {value}")
        self.vars[kind].append(f"v{self.count}")

    def fill(self, template):
        named = {}

        def part(match):
            word = match[1]
            if "|" in word:
                word = self.rng.choice(re.split(r"(?<!\\)\|", word)).replace("\\|", "|").replace("\\<", "<").replace("\\>", ">")
                return self.fill(f"<{word}>") if word in KINDS or word == "i" else word
            if word in WORDS:
                return self.fill(self.rng.choice(WORDS[word]))
            kind = word.rstrip("0123456789")
            if word == kind:
                if self.rng.random() < 0.5:  # sizes that fit
                    return named.setdefault(kind, self.pick(kind))
                return self.pick(kind)
            return named.setdefault(word, self.fill(f"<{kind}>"))

        return re.sub(r"(?<!\\)<((?:[^<>\\]|\\.)+)(?<!\\)>", part, template).replace("\\<", "<").replace("\\>", ">").replace("\\\\", "\\")

    def value(self, kind):
        return self.fill(self.rng.choice(VALUES[kind]))

    def statement(self):
        r = self.rng.random()
        if r < 0.03 and self.result:
            self.emit(f"if {self.fill('<bool>')}:")
            self.emit(f"    return ({self.value('T')}, {self.fill('<i>')})")
        elif r < 0.03 and self.helper:
            self.unpack("TI", f"helper({self.pick('T')}, {self.pick('T')}, {self.fill('<i>')})")
        elif r < 0.3:
            self.new("T", self.value("T"))
        elif r < 0.35:
            self.unpack(*self.rng.choice(UNPACKED))
        elif r < 0.5:
            self.emit(self.fill(self.rng.choice(IN_PLACE)))
        elif r < 0.62 and self.depth < 4:
            self.block()
        elif r < 0.65:
            self.emit(f"if {self.fill('<bool>')}:")
            self.emit(self.fill("    raise <ValueError|RuntimeError|IndexError|KeyError|AssertionError>(<'no'|f'n is {n}'|'a' + s>)"))
        elif r < 0.87:
            kind = self.rng.choice(list(VALUES))
            self.new(kind, self.value(kind))
        elif r < 0.9:
            self.narrowed()
        else:
            self.emit(self.fill(self.rng.choice(OTHER)))

    def unpack(self, kinds, template):
        value = self.fill(template)
        names = [f"v{self.count + 1 + i}" for i in range(len(kinds))]
        self.count += len(kinds)
        self.emit(f"{', '.join(names)} = {value}")
        for kind, name in zip(kinds, names):
            self.vars[kind].append(name)

    def narrowed(self):
        """A value that may be None, looked at."""
        kind, other = self.rng.choice([("O", "I"), ("OT", "T"), ("OS", "S")])
        name = self.pick(kind)
        self.new(other, self.pick(other))
        new = self.vars[other][-1]
        self.emit(self.rng.choice([f"if {name} is not None:", f"if {name} is not None and {self.fill('<bool>')}:", f"if not ({name} is None):"]))
        self.emit(f"    {new} = {name} + {repr('1') if kind == 'OS' else 1}")

    def block(self):
        marks = {k: len(v) for k, v in self.vars.items()}
        shape, branches, inner = self.rng.random(), 1, []
        self.loops += 1
        number = str(self.loops)
        if shape < 0.5:
            self.emit(f"if {self.fill('<bool>')}:")
            branches = 2
        elif shape < 0.62:
            self.emit(f"w{number} = 0")
            self.emit(f"while w{number} < {self.rng.randrange(1, 4)} and {self.fill('<bool>')}:")
            inner = [f"w{number} += 1"]
        else:
            head = self.rng.choice(LOOPS).replace("#", number)
            self.emit(self.fill(head))
        for branch in range(branches):
            if branch:
                self.emit("else:")
            self.depth += 1
            for line in inner:
                self.emit(line)
            if branches == 1 and shape >= 0.62:
                for name in re.findall(r"\b([jketa])" + number + r"\b", head.split(" in ")[0]):
                    self.vars[LOOP_KINDS[name]].append(name + number)
            for _ in range(self.rng.randrange(1, 4)):
                self.statement()
            self.assign(marks)
            if branches == 1 and self.rng.random() < 0.3:
                self.emit(f"if {self.fill('<bool>')}:")
                self.emit(self.fill("    <break|continue>"))
                self.emit(f"n = n + 1")
            self.emit("pass")
            self.depth -= 1
            for k, v in self.vars.items():
                del v[marks[k]:]

    def assign(self, marks):
        """New values for variables that were there before the block."""
        for kind in ["T", self.rng.choice(list(VALUES)), self.rng.choice(list(VALUES))]:
            names = [v for v in self.vars[kind][: marks[kind]] if v not in "xyznbfs"]
            if names:
                self.emit(f"{self.rng.choice(names)} = {self.value(kind)}")


class Program:
    """Python source of one function `f(x, y, z, n, b, f, s)`, and in some of another that it calls, which returns early."""

    def __init__(self, seed):
        rng = random.Random(seed)
        helper = Body(rng, result="TI").lines if rng.random() < 0.25 else None
        self.lines = [MAIN.rstrip(), *Body(rng, helper=helper is not None).lines]
        if helper:
            self.lines = [*HELPER.rstrip().split("\n"), *helper, "", *self.lines]

    def source(self):
        return HEAD + "\n".join(self.lines) + "\n"
