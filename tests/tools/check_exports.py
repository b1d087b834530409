#!/usr/bin/env python3
"""Exports models with torch.export, runs the .pt2 files here, and compares the results with PyTorch's.

    check_exports.py TOOL [--work DIR] [--forms plain,decomposed,dynamic] [--executor interpreter|engine]
                     [--group GROUP] [--every N] [--from I] [MODEL...]

Forms are words joined by "_": strict, dynamic (Dim.AUTO), batch (a Dim for the first dimension), decomposed, plain for none of them;
or trace and script, which write TorchScript. A form "a/b" alternates: the first model is checked as a, the next as b. Groups are
those of model_kinds.py (vision, hf, tasks, timm, nn, db, detection, own, written); --every and --from take a part of one. Wants PyTorch 2, torchvision,
transformers and timm: `./dev oracle` says which Python has them. Without MODEL and GROUP, the models of this file are checked.
Exits 1 if a model fails or differs by more than 1e-4 of the largest expected value (of 1 if that is less) + 1e-3 * |expected|.
"""
import argparse
import contextlib
import dataclasses
import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
import warnings

import numpy
import torch
from torch import nn
from torch.utils import _pytree

warnings.filterwarnings("ignore")
RTOL, ATOL = 1e-3, 1e-4
LONGEST = 150  # seconds that one step may take


def image(*sizes):
    return lambda: (torch.randn(*sizes),)


def vision(name, size=64, **options):
    def make():
        import torchvision
        return getattr(torchvision.models, name)(weights=None, **options).eval(), image(2, 3, size, size)(), {}
    return make


def timm(name, size=64, **options):
    def make():
        import timm
        return timm.create_model(name, pretrained=False, **options).eval(), image(2, 3, size, size)(), {}
    return make


# What every small configuration of a language model may have; configurations ignore what they do not know.
SMALL = dict(vocab_size=97, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=48, max_position_embeddings=64, d_model=32, encoder_layers=2, decoder_layers=2,
             encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, n_embd=32,
             n_layer=2, n_head=4, n_positions=64, dim=32, hidden_dim=48, n_layers=2, n_heads=4, d_ff=48, d_kv=8,
             num_layers=2, num_heads=4, embedding_size=16, pad_token_id=0, bos_token_id=1, eos_token_id=2, head_dim=8,
             decoder_start_token_id=1, ffn_dim=48, word_embed_proj_dim=32, hidden_dropout=0.0, image_size=32,
             patch_size=8, use_cache=False, attention_window=[8, 8], n_inner=48, rotary_dim=4, num_experts=4,
             num_local_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, kv_lora_rank=16, q_lora_rank=16)


def small(config, **more):
    import inspect
    known = set()
    for cls in config.__mro__:
        known |= set(inspect.signature(cls.__init__).parameters) | set(getattr(cls, "__annotations__", {}))
    known |= set(getattr(config, "attribute_map", {}))
    return config(**{k: v for k, v in {**SMALL, **more}.items() if k in known or k in more})


def transformer(model, config, inputs="ids", **more):
    def make():
        import transformers
        torch.manual_seed(0)
        m = getattr(transformers, model)(small(getattr(transformers, config), **more)).eval()
        ids = torch.randint(3, 90, (2, 11))
        kwargs = {
            "ids": lambda: {"input_ids": ids, "attention_mask": torch.ones_like(ids)},
            "pair": lambda: {"input_ids": ids, "decoder_input_ids": ids[:, :7]},
            "pixels": lambda: {"pixel_values": torch.randn(2, 3, 32, 32)},
            "audio": lambda: {"input_values": torch.randn(2, 1600)},
            "mel": lambda: {"input_features": torch.randn(2, 80, 64), "decoder_input_ids": ids[:, :5]},
            "clip": lambda: {"input_ids": ids, "pixel_values": torch.randn(2, 3, 32, 32)},
        }[inputs]()
        return m, (), kwargs
    return make


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Dropout(0.1), nn.Linear(16, 4))

    def forward(self, x):
        return self.layers(x).softmax(-1)


class Trees(nn.Module):
    def forward(self, x, parts, *, scale):
        a, (b, c) = parts["a"], parts["pair"]
        return {"sum": a + b, "list": [x * scale, c], "one": (x - a.mean(),)}


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(3))
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        self.count += 1
        self.count[1:] *= 2
        return self.norm(x) + self.count


class Choice(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda y: (y.sin(), y + 1), lambda y: (y.cos(), y * 2), (x,))


class Writes(nn.Module):
    def forward(self, x, y):
        x.add_(y)
        y[0] = 3.0
        return x * 2


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.net = kind(6, 8, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, x):
        return self.net(x)


def plain(make, *sizes, **kwargs):
    return lambda: (make().eval(), tuple(torch.randn(*s) for s in sizes), kwargs)


MODELS = {
    "mlp": plain(Mlp, (3, 8)),
    "trees": lambda: (Trees(), (torch.randn(3), {"a": torch.randn(3), "pair": (torch.randn(3), torch.randn(2))}),
                      {"scale": torch.randn(1)}),
    "counter": plain(Counter, (4, 3)),
    "counter_training": lambda: (Counter().train(), (torch.randn(4, 3),), {}),
    "choice": plain(Choice, (3, 2)),
    "writes": plain(Writes, (3,), (3,)),
    "lstm": plain(lambda: Recurrent(nn.LSTM), (2, 5, 6)),
    "gru": plain(lambda: Recurrent(nn.GRU), (2, 5, 6)),
    "encoder": plain(lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 24, batch_first=True), 2), (2, 7, 16)),
    "weight_norm": plain(lambda: nn.utils.parametrizations.weight_norm(nn.Conv1d(3, 4, 3)), (2, 3, 9)),
    **{n: vision(n) for n in ("resnet18", "mobilenet_v2", "mobilenet_v3_small", "squeezenet1_1", "shufflenet_v2_x0_5",
                              "densenet121", "mnasnet0_5", "efficientnet_b0", "regnet_y_400mf", "convnext_tiny")},
    "vgg11_bn": vision("vgg11_bn", 32), "alexnet": vision("alexnet", 96), "googlenet": vision("googlenet", init_weights=False),
    "inception_v3": vision("inception_v3", 96, init_weights=False),
    "vit_b_16": vision("vit_b_16", 32, image_size=32), "swin_t": vision("swin_t", 64), "swin_v2_t": vision("swin_v2_t", 64),
    "maxvit_t": vision("maxvit_t", 224),
    **{f"timm_{n}": timm(n) for n in ("resnetv2_50", "ghostnet_100", "rexnet_100", "edgenext_xx_small", "mobilevit_xxs",
                                      "lcnet_050", "hardcorenas_a", "dla34", "res2net50_14w_8s", "repvgg_a0",
                                      "efficientvit_b0", "mobileone_s0", "fastvit_t8", "poolformer_s12", "convmixer_768_32")},
    **{f"timm_{n}": timm(n, 224) for n in ("deit_tiny_patch16_224", "levit_128s", "mixer_s32_224", "pit_ti_224",
                                           "xcit_nano_12_p16_224", "crossvit_tiny_240", "coat_lite_tiny", "eva02_tiny_patch14_224")
       if n not in ("crossvit_tiny_240",)},
    "bert": transformer("BertModel", "BertConfig"),
    "roberta": transformer("RobertaForSequenceClassification", "RobertaConfig"),
    "distilbert": transformer("DistilBertForMaskedLM", "DistilBertConfig"),
    "albert": transformer("AlbertModel", "AlbertConfig"),
    "electra": transformer("ElectraModel", "ElectraConfig"),
    "mpnet": transformer("MPNetModel", "MPNetConfig"),
    "deberta": transformer("DebertaModel", "DebertaConfig"),
    "deberta_v2": transformer("DebertaV2Model", "DebertaV2Config"),
    "modernbert": transformer("ModernBertModel", "ModernBertConfig"),
    "gpt2": transformer("GPT2LMHeadModel", "GPT2Config"),
    "gpt_neox": transformer("GPTNeoXForCausalLM", "GPTNeoXConfig"),
    "gptj": transformer("GPTJForCausalLM", "GPTJConfig"),
    "opt": transformer("OPTForCausalLM", "OPTConfig"),
    "bloom": transformer("BloomForCausalLM", "BloomConfig"),
    "llama": transformer("LlamaForCausalLM", "LlamaConfig"),
    "mistral": transformer("MistralForCausalLM", "MistralConfig"),
    "mixtral": transformer("MixtralForCausalLM", "MixtralConfig"),
    "qwen2": transformer("Qwen2ForCausalLM", "Qwen2Config"),
    "qwen3": transformer("Qwen3ForCausalLM", "Qwen3Config"),
    "qwen3_moe": transformer("Qwen3MoeForCausalLM", "Qwen3MoeConfig"),
    "gemma": transformer("GemmaForCausalLM", "GemmaConfig"),
    "gemma2": transformer("Gemma2ForCausalLM", "Gemma2Config"),
    "phi": transformer("PhiForCausalLM", "PhiConfig"),
    "phi3": transformer("Phi3ForCausalLM", "Phi3Config"),
    "falcon": transformer("FalconForCausalLM", "FalconConfig"),
    "olmo": transformer("OlmoForCausalLM", "OlmoConfig"),
    "t5": transformer("T5Model", "T5Config", "pair"),
    "bart": transformer("BartModel", "BartConfig", "pair"),
    "marian": transformer("MarianModel", "MarianConfig", "pair"),
    "pegasus": transformer("PegasusModel", "PegasusConfig", "pair"),
    "whisper": transformer("WhisperModel", "WhisperConfig", "mel", max_source_positions=32, max_target_positions=16,
                           num_mel_bins=80),
    "wav2vec2": transformer("Wav2Vec2Model", "Wav2Vec2Config", "audio", conv_dim=[16, 16], conv_stride=[5, 2],
                            conv_kernel=[10, 3], num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4),
    "hubert": transformer("HubertModel", "HubertConfig", "audio", conv_dim=[16, 16], conv_stride=[5, 2],
                          conv_kernel=[10, 3], num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4),
    "vit": transformer("ViTModel", "ViTConfig", "pixels"),
    "deit": transformer("DeiTModel", "DeiTConfig", "pixels"),
    "beit": transformer("BeitModel", "BeitConfig", "pixels"),
    "dinov2": transformer("Dinov2Model", "Dinov2Config", "pixels"),
    "convnext_hf": transformer("ConvNextModel", "ConvNextConfig", "pixels", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1]),
    "segformer": transformer("SegformerModel", "SegformerConfig", "pixels", hidden_sizes=[8, 16, 24, 32],
                             depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4]),
    "clip": transformer("CLIPModel", "CLIPConfig", "clip",
                        text_config=dict(vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                                         num_attention_heads=4, max_position_embeddings=16, eos_token_id=2),
                        vision_config=dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                                           num_attention_heads=4, image_size=32, patch_size=8)),
    "mamba": transformer("MambaForCausalLM", "MambaConfig", state_size=4),
}


def as_text(value, folder, name):
    """A value of an input as the command line writes it; tensors go to files."""
    if isinstance(value, torch.Tensor):
        path = os.path.join(folder, name + ".npy")
        numpy.save(path, value.detach().contiguous().numpy())
        return "@" + path
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {as_text(v, folder, f'{name}_{k}')}" for k, v in value.items()) + "}"
    if dataclasses.is_dataclass(value):
        value = tuple(_pytree.tree_leaves(value))
    if isinstance(value, (list, tuple)):
        items = [as_text(v, folder, f"{name}_{i}") for i, v in enumerate(value)]
        return "[" + ", ".join(items) + "]" if isinstance(value, list) else "(" + ", ".join(items) + ",)"
    return json.dumps(value)


def leaves(value):
    """Tensors and numbers of what outputs.json describes, in order; the keys of dicts are PyTorch's."""
    if value["type"] in ("Tuple", "List", "NamedTuple"):
        return [x for v in value["items"] for x in leaves(v)]
    if value["type"] == "Dict":
        return [x for v in value.get("items", value.get("values")) for x in leaves(v[1] if isinstance(v, list) else v)]
    return [value]


def loaded(path):
    """A tensor that the tool wrote."""
    if path.endswith(".npy"):
        return torch.from_numpy(numpy.load(path))
    from safetensors.torch import load_file
    (tensor,) = load_file(path).values()
    return tensor


def differs(want, got, out):
    if not isinstance(want, torch.Tensor):
        return None if got.get("value") == want else f"{got.get('value')}, expected {want}"
    x, want = loaded(os.path.join(out, got["file"])), want.detach().resolve_neg().resolve_conj()
    if x.shape != want.shape or x.dtype != want.dtype:
        return f"{x.dtype}{list(x.shape)}, expected {want.dtype}{list(want.shape)}"
    coarse = 10 if want.dtype in (torch.float16, torch.bfloat16) else 1
    x, want = x.to(torch.complex128).numpy(), want.to(torch.complex128).numpy()
    scale = numpy.abs(want[numpy.isfinite(want)]).max(initial=1)
    if numpy.allclose(x, want, rtol=RTOL * coarse, atol=ATOL * coarse * scale, equal_nan=True):
        return None
    return f"max abs difference {numpy.nanmax(numpy.abs(x - want)):.3g}"


def run(tool, path, args, kwargs, want, executor, folder):
    """Why the file does not do what its model does; None if it does."""
    command = [tool, "run", "-q", path, "--executor", executor, "--outputs", os.path.join(folder, "out")]
    values = (*args, *kwargs.values())
    given = values if path.endswith(".pt") else [x for value in values for x in inputs_of(value)]
    for i, value in enumerate(given):
        command += ["--input", f"{i}={as_text(value, folder, f'in{i}')}"]
    try:
        done = subprocess.run(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return "timeout"
    if done.returncode:
        return f"exit {done.returncode}: " + " | ".join(done.stderr.strip().splitlines()[:1])[:300]
    got = [x for v in json.load(open(os.path.join(folder, "out", "outputs.json"))) for x in leaves(v)]
    want = [x for x in _pytree.tree_leaves(want) if x is not None]
    got = [x for x in got if x["type"] not in ("NoneType", "None")]
    if len(got) != len(want):
        return f"{len(got)} outputs, expected {len(want)}"
    return next((d for d in (differs(w, g, os.path.join(folder, "out")) for w, g in zip(want, got)) if d), None)


def inputs_of(value):
    """The inputs of the graph that an argument becomes: itself, or its leaves where TorchScript has no type for it."""
    def kind(v):
        if isinstance(v, torch.Tensor):
            return "Tensor"
        v = tuple(_pytree.tree_leaves(v)) if dataclasses.is_dataclass(v) else v
        kinds = [kind(x) for x in (v.values() if isinstance(v, dict) else v)] if isinstance(v, (dict, list, tuple)) else [None]
        if None in kinds:
            return None
        if isinstance(v, tuple):
            return tuple(kinds)
        return (type(v).__name__, kinds[0]) if len(set(kinds)) == 1 else None
    return [value] if kind(value) else [x for x in _pytree.tree_leaves(value) if isinstance(x, torch.Tensor)]  # PyTorch fixes the others


class TooLong(Exception):
    pass


@contextlib.contextmanager
def at_most(seconds):
    def stop(*_):
        raise TooLong(f"more than {seconds} s")
    old = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)


def sizes_of(form, args, kwargs, varargs):
    batch = torch.export.Dim("batch", min=1, max=64)

    def of(v):
        if not isinstance(v, torch.Tensor):
            return None
        return {0: batch} if "batch" in form and v.dim() else {d: torch.export.Dim.AUTO for d in range(v.dim())}
    if "batch" not in form and "dynamic" not in form:
        return None
    if isinstance(kwargs, dict) and kwargs and not args:
        return _pytree.tree_map(of, kwargs)
    sizes = _pytree.tree_map(of, tuple(args))
    return {"args": sizes} if varargs else sizes


def save(form, module, args, kwargs, folder):
    """Writes the model in this form; gives the path and what the saved model returns."""
    import copy
    module, given, named = copy.deepcopy(module), copy.deepcopy(args), copy.deepcopy(kwargs)
    if form in ("trace", "script"):
        path = os.path.join(folder, "model.pt")
        if form == "script":
            saved = torch.jit.script(module)
        else:
            saved = torch.jit.trace(module, given or None, example_kwarg_inputs=named or None, strict=False, check_trace=False)
        torch.jit.save(saved, path)
        names = [a.name for a in saved.forward.schema.arguments[1:]]
        assert names[len(args):len(args) + len(kwargs)] == list(kwargs), "arguments of another order"
        return path, torch.jit.load(path)(*copy.deepcopy(args), **copy.deepcopy(kwargs))
    path = os.path.join(folder, "model.pt2")
    program = torch.export.export(module, given, named, dynamic_shapes=sizes_of(form, args, kwargs, list(inspect.signature(module.forward).parameters)[:1] == ["args"]), strict="strict" in form)
    if "decomposed" in form:
        program = program.run_decompositions()
    torch.export.save(program, path)
    return path, program.module()(*copy.deepcopy(args), **copy.deepcopy(kwargs))


def chosen(options):
    if not options.group:
        return {name: MODELS[name] for name in options.models or MODELS}
    import model_kinds
    models = model_kinds.GROUPS[options.group]()
    names = options.models or list(models)[options.first::options.every]
    return {name: models[name] for name in names}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("tool")
    parser.add_argument("--work")
    parser.add_argument("--forms", default="plain,decomposed,dynamic")
    parser.add_argument("--executor", default="interpreter")
    parser.add_argument("--group")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("models", nargs="*")
    options = parser.parse_intermixed_args()
    good = bad = 0
    for number, (model, make) in enumerate(chosen(options).items()):
        try:
            torch.manual_seed(0)
            with at_most(LONGEST):
                module, args, kwargs = make()
        except Exception as e:
            print(f"{model:24} cannot be made: {(str(e).splitlines() or [repr(e)])[0][:120]}", flush=True)
            continue
        for form in options.forms.split(","):
            form = form.split("/")[number % len(form.split("/"))]
            with tempfile.TemporaryDirectory() as scratch, torch.no_grad():
                folder = os.path.join(options.work, f"{model}.{form}") if options.work else scratch
                os.makedirs(folder, exist_ok=True)
                try:
                    with at_most(LONGEST):
                        path, want = save(form, module, args, kwargs, folder)
                except Exception as e:  # PyTorch's own limits
                    print(f"{model:24} {form:12} PyTorch cannot: {(str(e).splitlines() or [repr(e)])[0][:120]}", flush=True)
                    continue
                why = run(options.tool, path, args, kwargs, want, options.executor, folder)
            good, bad = good + (why is None), bad + (why is not None)
            print(f"{model:24} {form:12} {'equal' if why is None else why}", flush=True)
    print(f"{good} of {good + bad} equal")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
