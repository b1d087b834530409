#!/usr/bin/env python3
"""Models of timm and transformers through torch.compile(backend="tscompile"), with random weights and inputs, beside
PyTorch's own results. Needs an environment with torch, timm, transformers and tscompile (./dev wheel-test).

    check_torch_backend.py [MODEL...]     exits 1 if one differs, or runs wholly in PyTorch
"""
import importlib.metadata
import logging
import sys
import time

import torch
from torch.utils.checkpoint import checkpoint

import tscompile
from tscompile import torch_backend

TIMM = ("resnet18", "resnet50", "mobilenetv3_small_100", "efficientnet_b0", "convnext_atto", "vit_tiny_patch16_224",
        "deit_tiny_patch16_224", "swin_tiny_patch4_window7_224", "densenet121", "regnetx_002", "mixer_s32_224",
        "ghostnet_100", "repvgg_a0", "xcit_nano_12_p16_224")
SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 500}
TRANSFORMERS = {
    "bert": SMALL,
    "roberta": SMALL,
    "distilbert": {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "vocab_size": 500},
    "electra": {**SMALL, "embedding_size": 64},
    "gpt2": {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 500},
    "llama": {**SMALL, "num_key_value_heads": 2},
    "qwen2": {**SMALL, "num_key_value_heads": 2},
    "vit": {k: v for k, v in SMALL.items() if k != "vocab_size"},
}


def timm_model(name):
    import timm
    model = timm.create_model(name, pretrained=False)
    size = model.default_cfg["input_size"][1:]
    return model, {"x": torch.randn(1, 3, *size)}


def transformers_model(name):
    from transformers import AutoConfig, AutoModel
    model = AutoModel.from_config(AutoConfig.for_model(name, **TRANSFORMERS[name]))
    if name == "vit":
        return model, {"pixel_values": torch.randn(1, 3, 224, 224)}
    options = {"use_cache": False} if name in ("gpt2", "llama", "qwen2") else {}
    return model, {"input_ids": torch.randint(0, 500, (2, 16)), **options}


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict) or hasattr(value, "to_tuple"):
        value = list(value.values())
    return [t for v in value for t in tensors(v)] if isinstance(value, (list, tuple)) else []


class Watch(logging.Handler):
    """Counts the graphs that became engines, and keeps what is told of the others."""

    def __init__(self):
        super().__init__()
        self.engines, self.left = 0, []

    def emit(self, record):
        text = record.getMessage()
        if record.levelno >= logging.WARNING:
            self.left.append(text)
        elif ": compiled;" in text or " engines, the rest" in text:
            self.engines += 1


def check(name):
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, inputs = (transformers_model if name in TRANSFORMERS else timm_model)(name)
    model.eval()
    for p in model.parameters():
        if not p.any():
            p.normal_(std=0.02)  # what is made as zero would hide all that is before it
    watch = Watch()
    torch_backend.log.addHandler(watch)
    torch_backend.log.setLevel(logging.INFO)
    start = time.monotonic()
    try:
        # A key of the installed package: torch.compile finds it by the entry point.
        compiled = torch.compile(model, backend="tscompile")
        with torch.inference_mode():
            want, got = tensors(model(**inputs)), tensors(compiled(**inputs))
    finally:
        torch_backend.log.removeHandler(watch)
    seconds = time.monotonic() - start
    if len(want) != len(got):
        return False, f"{len(got)} results instead of {len(want)}"
    worst = 0.0
    for w, g in zip(want, got):
        if w.shape != g.shape or w.dtype != g.dtype:
            return False, f"a result is {g.dtype} {tuple(g.shape)}, not {w.dtype} {tuple(w.shape)}"
        if w.is_floating_point():
            worst = max(worst, ((w - g).abs().max() / w.abs().max().clamp(min=1e-6)).item())
        elif not torch.equal(w, g):
            return False, "a result that is no float differs"
    told = "".join(f"; {t}" for t in watch.left[:2])
    text = f"{watch.engines} graphs on engines, {len(watch.left)} left to PyTorch, worst difference {worst:.1e}, {seconds:.0f} s{told}"
    return worst < 1e-4 and watch.engines > 0, text


# ---- what a backend has to keep, on graphs of a line ----


@torch.library.custom_op("tscompile_check::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


def watched(function, *calls, **options):
    """Whether the compiled function equals the function on each of the arguments; and what was told."""
    torch._dynamo.reset()
    watch = Watch()
    torch_backend.log.addHandler(watch)
    torch_backend.log.setLevel(logging.INFO)
    try:
        compiled = torch.compile(function, backend="tscompile", **options)
        same = all(torch.allclose(compiled(*c), function(*c), atol=1e-5) for c in calls)
    finally:
        torch_backend.log.removeHandler(watch)
    return same, watch


def check_refused_operators():
    same, watch = watched(lambda x: twice((x @ x).relu().sigmoid()).sum(0).tanh().neg(), (torch.randn(8, 8),))
    return same and watch.engines == 1 and any("twice" in t for t in watch.left), f"{watch.engines}, {watch.left}"


def check_open_sizes():
    calls = [(torch.randn(n, 2),) for n in (3, 5, 9)]
    same, watch = watched(lambda x: (x.relu() + x.shape[0]).sum(0), *calls, dynamic=True)
    return same and watch.engines == 1, f"{watch.engines} compiled for three sizes"


def check_sizes_of_other_programs():
    """torch.export holds to more of its example's sizes than the graph: each of them is another engine."""

    def padded(x):
        filled = torch.nn.functional.pad(x, (0, 0, 0, (4 - x.shape[0] % 4) % 4))
        return filled.view(-1, 4, x.shape[1]).sum(1)

    calls = [(torch.randn(n, 3),) for n in (3, 2, 5, 17, 8, 1, 9)]
    same, watch = watched(padded, *calls, dynamic=True)
    few = watched(padded, *((torch.randn(4 * n, 3),) for n in range(1, 14)), dynamic=True)
    return same and few[0] and not watch.left and watch.engines > 1, f"{watch.engines} for seven sizes, {few[1].left}"


def check_changed_parameters():
    layer = torch.nn.Linear(4, 4)
    x = torch.randn(2, 4)
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend="tscompile")
    first = torch.allclose(compiled(x), layer(x), atol=1e-6)  # one rounding of a sum that may be near 0
    with torch.no_grad():
        layer.weight.mul_(2)
    layer.load_state_dict({"weight": layer.weight * 3, "bias": layer.bias})
    return first and torch.allclose(compiled(x), layer(x), atol=1e-6), "after writes to the weights"


def check_gradients():
    layer = torch.nn.Linear(4, 4)
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend="tscompile")
    with torch.enable_grad():
        compiled(torch.randn(2, 4)).sum().backward()
    return layer.weight.grad is not None, "backward"


def check_graph_breaks():
    def function(x):
        y = x.relu() + 1
        torch._dynamo.graph_break()
        return y.sigmoid() * 2
    same, watch = watched(function, (torch.randn(3, 3),))
    return same and watch.engines == 2, f"{watch.engines} graphs"


def check_bfloat16_and_views():
    same, _ = watched(lambda x: x.t()[::2].relu(), (torch.randn(6, 4, dtype=torch.bfloat16),))
    return same, "bfloat16"


def check_live_module():
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).train()
    dim = torch.export.Dim("batch", min=1, max=8)
    engine = tscompile.compile(module, (torch.randn(2, 3, 8, 8),), dynamic_shapes={"input": {0: dim}})
    x = torch.randn(5, 3, 8, 8)
    return module.training and torch.allclose(torch.from_dlpack(engine(x)), module(x), atol=1e-5), "tscompile.compile"


def check_sizes_as_examples():
    module = torch.nn.Linear(3, 2)
    for sizes in ((1, 3), [(1, 3)], "1..8x3", {"input": ((1, 8), 3)}, [tscompile.Input((1, 3))]):
        try:
            tscompile.compile(module, sizes)
        except TypeError as error:
            if "takes example arguments" in str(error):
                continue
        return False, f"{sizes}"
    by_dtype = tscompile.compile(module, torch.randn(1, 3), precision=torch.bfloat16)
    return "precision=bf16" in by_dtype.info["options"], "tscompile.compile with sizes"


def check_examples_by_name():
    class Named(torch.nn.Module):
        def forward(self, a, *, b, scale=1.0):
            return a * scale + b

    class Row(torch.nn.Module):
        def forward(self, row):
            return row["a"] + row["b"]

    class Pair(torch.nn.Module):
        def forward(self, a, b):
            return a + b

    a, b = torch.randn(2, 3), torch.randn(2, 3)
    named = tscompile.compile(Named(), {"a": a.numpy(), "b": b})(a, b=b)
    row = tscompile.compile(Row(), {"a": a, "b": b})({"a": a, "b": b})
    scripted = tscompile.compile(torch.jit.script(Pair()), {"a": a, "b": b})
    if scripted.info["inputs"] != ["a=2x3:float32", "b=2x3:float32"]:
        return False, f"tscompile.compile by name: {scripted.info['inputs']}"
    return all(torch.allclose(torch.from_dlpack(y), a + b) for y in (named, row)), "tscompile.compile by name"


def check_programs_that_pytorch_made():
    module, x = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()).eval(), torch.randn(2, 3)
    exported = torch.export.export(module, (x,))
    programs = torch.jit.script(module), torch.jit.trace(module, x), exported
    engines = [tscompile.load(p) for p in programs] + [tscompile.compile(p, (x,)) for p in (*programs, exported.module())]
    return all(torch.allclose(torch.from_dlpack(e(x)), module(x), atol=1e-5) for e in engines), "load and compile"


# ---- what is PyTorch's own: memory, random numbers, modes ----


def compiled_of(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, backend="tscompile", **options)


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count.add_(1)
        return x * self.count


def check_writes_to_buffers():
    counter = Counter()
    counts = compiled_of(counter)
    got = [counts(torch.ones(1)).item() for _ in range(3)]
    norm, other = (torch.nn.BatchNorm1d(4).train() for _ in range(2))
    normed = compiled_of(norm)
    same = True
    for _ in range(3):
        x = torch.randn(8, 4)
        same = same and torch.allclose(normed(x), other(x), atol=1e-5)
    same = same and all(torch.allclose(a, b, atol=1e-5) for a, b in zip(norm.buffers(), other.buffers()))
    return got == [1, 2, 3] and same and norm.num_batches_tracked == 3, f"counts {got}"


def check_writes_to_parameters():
    """Also from a function without results, and counted as PyTorch counts them."""
    layer = torch.nn.Linear(2, 1, bias=False)
    x = torch.ones(1, 2)
    forward, step = compiled_of(layer), torch.compile(lambda p, g: p.sub_(g * 10), backend="tscompile")
    same = torch.allclose(forward(x), layer(x))
    for weight in (layer.weight, layer.weight.detach()):
        before = layer(x)
        step(weight, x)
        same = same and torch.allclose(layer(x), before - 20) and torch.allclose(forward(x), layer(x))

    def without_results(p):
        p.mul_(2)
    before = layer(x)
    compiled_of(without_results)(layer.weight)
    return same and torch.allclose(layer(x), 2 * before), "steps of an optimizer"


def check_writes_to_what_engines_hold():
    layer, other = (torch.nn.Linear(2, 2) for _ in range(2))
    other.load_state_dict(layer.state_dict())

    def function(module, view, x):
        view.mul_(2)
        return module(x) + view
    compiled, x = compiled_of(function), torch.ones(2, 2)
    same = all(torch.allclose(compiled(layer, layer.weight.detach(), x), function(other, other.weight.detach(), x)) for _ in "12")
    return same, "through a view"


def check_weights_of_inference_mode():
    with torch.inference_mode():
        layer = torch.nn.Linear(2, 1)
        compiled, x = compiled_of(layer), torch.ones(1, 2)
        compiled(x)
        layer.weight.mul_(3)
        return torch.allclose(compiled(x), layer(x)), "after a write"


def check_conjugates():
    def function(z):
        z.mul_(2)
        return z.sum()
    compiled = compiled_of(function)
    got, want = (torch.tensor([1 + 2j, 3j]) for _ in range(2))
    same = torch.equal(compiled(got), function(want)) and torch.equal(compiled(got.conj()), function(want.conj()))
    return same and torch.equal(got, want), "written through the flag"


def check_inputs_as_results():
    x, out = torch.zeros(3), torch.zeros(3)
    written = compiled_of(lambda x: x.add_(1))(x)
    same = compiled_of(lambda a, b: torch.add(a, b, out=out))(x, x)
    return written is x and same is out and x._version == 1, f"writes counted: {x._version}"


def check_random_numbers():
    def dropout(x):
        return torch.nn.functional.dropout(x, 0.5, True) + torch.rand(8)

    def seeded(function):
        torch.manual_seed(3)
        return [function(torch.ones(8)) for _ in range(3)]
    same = all(torch.equal(a, b) for a, b in zip(seeded(compiled_of(dropout)), seeded(dropout)))
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout()).eval()
    calm, watch = watched(module, (torch.ones(2, 4),))
    return same and calm and watch.engines == 1 and not watch.left, f"without training: {watch.engines} engine, {watch.left}"


def check_writes_beside_refused_operators():
    def function(x):
        a = x.relu() + 1
        x.add_(1)
        b = twice(x)
        x.mul_(3)
        return a + (b + x).sigmoid()
    got, want = (torch.arange(-2.0, 4.0) for _ in range(2))
    same = torch.allclose(compiled_of(function)(got), function(want))
    return same and torch.equal(got, want), "in their order"


def check_own_operators():
    """A function of Python that torch.ops knows and tscompile was given is part of the engine."""
    torch.library.define("wheel::decayed", "(Tensor x, float by) -> Tensor")
    torch.library.impl("wheel::decayed", "CPU", lambda x, by: x * by + 1)
    torch.library.register_fake("wheel::decayed", lambda x, by: torch.empty_like(x))
    tscompile.operator("wheel::decayed(Tensor x, float by) -> Tensor", shapes=lambda x, by: x)(
        lambda x, by: torch.from_dlpack(x) * by + 1)
    same, watch = watched(lambda x: torch.ops.wheel.decayed(x.relu(), 0.5).sin(), (torch.randn(3, 4),))
    return same and watch.engines == 1 and not watch.left, f"{watch.engines} engine, {watch.left}"


def check_sums_of_sizes():
    """Dynamo joins sums of three sizes and more."""
    def function(x, y, z):
        return torch.zeros(x.shape[0] + y.shape[0] + z.shape[0] + 1) + torch.cat([x, y, z]).sum()
    shapes = ((2, 3, 4), (5, 7, 6), (8, 9, 11))
    same, watch = watched(function, *(tuple(torch.randn(n) for n in s) for s in shapes), dynamic=True)
    return same and not watch.left, f"{watch.engines} engines, {watch.left}"


def check_negatives():
    z = torch.randn(3, dtype=torch.complex64)
    same = torch.equal(torch.from_dlpack(tscompile.load(
        "graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)\n")(z.conj().imag)), z.conj().imag.relu())
    return same, "by a flag"


def check_autocast():
    layer, x = torch.nn.Linear(4, 4), torch.randn(2, 4)

    def inside(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return layer(x)

    def disabled(x):
        with torch.autocast("cpu", enabled=False):
            return x.relu() + 1
    around = compiled_of(layer)
    dtypes = [around(x).dtype]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        dtypes.append(around(x).dtype)
    dtypes += [around(x).dtype, compiled_of(inside)(x).dtype]
    same, watch = watched(disabled, (x,))
    branches = lambda x: torch.cond(x.sum() > 0, lambda y: inside(y).float(), lambda y: y * 2, (x,))  # noqa: E731
    regions, seen = watched(lambda x: inside(x).float() + branches(x), (x,), (-x,))
    wanted = [torch.float32, torch.bfloat16, torch.float32, torch.bfloat16]
    good = dtypes == wanted and same and regions and watch.engines == seen.engines == 1
    return good, f"{dtypes}; disabled: {watch.engines} engine, regions: {seen.engines}, {seen.left}"


def check_open_numbers():
    """Floats of modules are open under dynamic=True, and those of calls once they change."""
    norm = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.LayerNorm(4)).eval()
    same, watch = watched(norm, *((torch.randn(n, 4),) for n in (2, 3)), dynamic=True)
    scaled, seen = watched(lambda x, a: x * a, *((torch.ones(2), a) for a in (0.5, -0.0, 0.0, 2.5, 3.5, 4.5)))
    return same and scaled and watch.engines == 1 and not watch.left + seen.left, f"{watch.left}, {seen.engines} for six numbers"


def check_checkpoints():
    layer = torch.nn.Linear(4, 4)
    same, watch = watched(lambda x: checkpoint(lambda y: layer(y).relu(), x, use_reentrant=False), (torch.randn(2, 4),))
    return same and watch.engines == 1 and not watch.left, f"{watch.engines} engine, {watch.left}"


def check_strides():
    last = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    good = True
    for function, x in ((torch.nn.functional.relu, last), (lambda x: x.transpose(0, 1) + 1, torch.randn(3, 4)),
                        (lambda x: (x.t() + 1)[:, :1].expand(2, 3), torch.randn(3, 2)),
                        (lambda x: x.nonzero(), torch.tensor([[1.0, 0], [2, 3]])), (twice_of_relu, last)):
        for options in ({}, {"dynamic": True}):
            got, want = compiled_of(function, **options)(x), function(x)
            good = good and got.stride() == want.stride() and torch.equal(got, want)

    def shared(x):
        y = x.relu()
        return y, y[0]
    compiled = compiled_of(shared)
    for _ in range(2):
        whole, part = compiled(last)
        good = good and whole.stride() == last.stride() and whole.data_ptr() == part.data_ptr()
    return good, "as in PyTorch"


def twice_of_relu(x):
    return twice(x.relu().neg()).relu().neg()


def check_views_after_graph_breaks():
    def function(x):
        y = x.t() + 1
        torch._dynamo.graph_break()
        return torch.as_strided(y, (3,), (1,)) + y.t().view(-1)[:3]
    same, watch = watched(function, (torch.randn(3, 4),))
    return same and watch.engines == 2, f"{watch.engines} graphs"


def check_refused_calls():
    def index(x, i):
        return x[i]
    compiled, x = compiled_of(index), torch.arange(4.0)
    same = torch.equal(compiled(x, torch.tensor([1])), x[1:2])
    try:
        compiled(x, torch.tensor([9]))
        return False, "no IndexError"
    except IndexError:
        pass
    wide = torch.tensor([1, 40000], dtype=torch.uint16)
    same = same and torch.equal(compiled_of(lambda x: x.to(torch.int32) + 1)(wide), wide.to(torch.int32) + 1)
    back = compiled_of(lambda x: (x + 1).to(torch.uint16))(torch.tensor([1, 40000]))
    return same and back.dtype == torch.uint16 and back.tolist() == [2, 40001], "indices out of range, uint16"


def check_gradients_inside():
    weight = torch.ones(2, requires_grad=True)

    def function(x):
        with torch.enable_grad():
            return (x * weight).sum()
    return compiled_of(function)(torch.ones(2)).requires_grad, "enable_grad under no_grad"


def check_modes_of_modules():
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(), torch.nn.BatchNorm1d(2)).train()
    module[2].eval()
    tscompile.compile(module, (torch.ones(3, 2),))
    got = [m.training for m in module.modules()]
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            tscompile.compile(module, (torch.ones(3, 2),))
        return False, "compiled under autocast"
    except RuntimeError:
        return got == [True, True, True, False], f"{got}"


def main():
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    names = sys.argv[1:] or [*TIMM, *TRANSFORMERS]
    print(f"torch {torch.__version__}, timm {importlib.metadata.version('timm')}, "
          f"transformers {importlib.metadata.version('transformers')}, tscompile {tscompile.__version__}")
    failed = 0
    for name, check_it in list(globals().items()):
        if name.startswith("check_") and not sys.argv[1:]:
            torch.manual_seed(0)
            good, text = check_it()
            failed += not good
            print(f"{'ok    ' if good else 'FAILED'} {name[6:].replace('_', ' ')}: {text}", flush=True)
    wrong = failed
    for name in names:
        try:
            good, text = check(name)
        except Exception as error:
            good, text = False, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        failed += not good
        print(f"{'ok    ' if good else 'FAILED'} {name}: {text}", flush=True)
    print(f"{len(names) - failed + wrong} of {len(names)} models equal PyTorch")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
