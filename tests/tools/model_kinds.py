"""Models of as many kinds as this machine's packages have, each as `name: make`, with make() -> (module, args, kwargs).

Families of transformers and timm in small configurations, every module of torch.nn as PyTorch's own tests call it, the
examples of torch.export's documentation, detection models of torchvision, and modules of our own for what those lack.
"""
import inspect
from collections import namedtuple
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils import _pytree

# What every small configuration may have; configurations ignore what they do not know.
SMALL = dict(vocab_size=97, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=48, max_position_embeddings=64, d_model=32, encoder_layers=2, decoder_layers=2,
             encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, n_embd=32,
             n_layer=2, n_head=4, n_positions=64, dim=32, hidden_dim=48, n_layers=2, n_heads=4, d_ff=48, d_kv=8,
             num_layers=2, num_heads=4, embedding_size=16, pad_token_id=0, bos_token_id=1, eos_token_id=2, head_dim=8,
             decoder_start_token_id=1, ffn_dim=48, word_embed_proj_dim=32, hidden_dropout=0.0, image_size=32,
             patch_size=8, use_cache=False, attention_window=[8, 8], n_inner=48, rotary_dim=4, num_experts=4,
             num_local_experts=4, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, kv_lora_rank=16,
             q_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, n_group=1, topk_group=1,
             encoder_num_hidden_layers=2, decoder_num_hidden_layers=2, projection_dim=16, state_size=4,
             conv_dim=[16, 16], conv_stride=[5, 2], conv_kernel=[10, 3], num_conv_pos_embeddings=16,
             num_conv_pos_embedding_groups=4, num_mel_bins=80, max_source_positions=32, max_target_positions=16,
             hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], max_seq_len=64, ffn_hidden_size=48, embed_dim=24)
MOST_PARAMETERS = 20_000_000
# What families need beside: heads by stage, sizes that must fit each other.
MORE = {
    "segformer": dict(num_attention_heads=[1, 2, 3, 4]),
    "dbrx": dict(attn_config=dict(kv_n_heads=2), ffn_config=dict(ffn_hidden_size=48, moe_num_experts=4, moe_top_k=2)),
    "gpt_neo": dict(attention_types=[[["global", "local"], 1]], window_size=6),
    "swin": dict(depths=[1, 1], num_heads=[2, 4], window_size=2, patch_size=4),
    "swinv2": dict(depths=[1, 1], num_heads=[2, 4], window_size=2, patch_size=4),
}


def small_model(name, family, attention="sdpa"):
    import transformers
    cls = getattr(transformers, name)
    config = cls.config_class
    known = set(getattr(config, "attribute_map", {}))
    for c in config.__mro__:
        known |= set(inspect.signature(c.__init__).parameters) | set(getattr(c, "__annotations__", {}))
    options = {k: v for k, v in SMALL.items() if k in known}
    for part in ("text_config", "vision_config", "audio_config"):
        if part in known:
            options[part] = {k: v for k, v in SMALL.items() if k not in ("hidden_sizes", "depths", "embed_dim")}
    options.update(MORE.get(family, {}))
    for _ in range(12):  # an option that this family has in another form goes
        try:
            made = config(**options)
            made.use_cache = False
            with torch.device("meta"):
                size = sum(p.numel() for p in cls(made).parameters())
            break
        except (TypeError, ValueError, AssertionError, AttributeError, RuntimeError, IndexError, KeyError) as e:
            gone = next((k for k in options if k in str(e)), None)
            if gone is None:
                gone = next((k for k in ("conv_dim", "hidden_sizes", "embed_dim", "head_dim") if k in options), None)
            if gone is None:
                raise
            if gone == "conv_dim":
                del options["conv_stride"], options["conv_kernel"]
            del options[gone]
    if size > MOST_PARAMETERS:
        raise ValueError("no small configuration")
    torch.manual_seed(0)
    try:
        return cls._from_config(made, attn_implementation=attention, dtype=torch.float32).eval()
    except ValueError:
        return cls._from_config(made, attn_implementation="eager", dtype=torch.float32).eval()


def transformers_inputs(model, size=32):
    ids = torch.randint(3, 90, (2, 11))
    config = model.config
    size = getattr(getattr(config, "vision_config", config), "image_size", size) or size
    size = size if isinstance(size, int) else size[0]
    channels = getattr(getattr(config, "vision_config", config), "num_channels", 3)
    values = dict(input_ids=ids, pixel_values=torch.randn(2, channels if isinstance(channels, int) else 3, size, size),
                  input_values=torch.randn(2, 1600), input_features=torch.randn(2, getattr(config, "num_mel_bins", 80), 64),
                  decoder_input_ids=ids[:, :7])
    names = inspect.signature(model.forward).parameters
    if "VideoClassification" in type(model).__name__:
        values["pixel_values"] = torch.randn(2, getattr(config, "num_frames", 4), 3, size, size)
    if "MultipleChoice" in type(model).__name__:
        values["input_ids"] = ids = ids.view(2, 1, 11).repeat(1, 2, 1)
    kwargs = {k: v for k, v in values.items() if k in names}
    if "input_ids" in kwargs and "attention_mask" in names:
        kwargs["attention_mask"] = torch.ones_like(ids)
    if not kwargs:
        raise ValueError("its inputs are not known")
    return kwargs


def transformer(name, family):
    def make():
        model = small_model(name, family)
        return model, (), transformers_inputs(model)
    return make


def transformers_families():
    from transformers.models.auto import modeling_auto
    out = {}
    for family, name in modeling_auto.MODEL_MAPPING_NAMES.items():
        out[f"hf_{family}"] = transformer(name if isinstance(name, str) else name[0], family)
    return out


# Tasks whose models are more than a family's own with a linear layer behind it come first.
TASKS = ["OBJECT_DETECTION", "SEMANTIC_SEGMENTATION", "UNIVERSAL_SEGMENTATION", "INSTANCE_SEGMENTATION",
         "DEPTH_ESTIMATION", "KEYPOINT_DETECTION", "POSE_ESTIMATION", "MASK_GENERATION", "IMAGE_TO_IMAGE", "IMAGE_MATTING",
         "ZERO_SHOT_IMAGE_CLASSIFICATION", "ZERO_SHOT_OBJECT_DETECTION", "VISUAL_QUESTION_ANSWERING", "CTC",
         "AUDIO_CLASSIFICATION", "AUDIO_FRAME_CLASSIFICATION", "AUDIO_XVECTOR", "TEXT_TO_SPECTROGRAM", "TEXT_TO_WAVEFORM",
         "TIME_SERIES_PREDICTION", "VIDEO_CLASSIFICATION", "MASKED_IMAGE_MODELING", "BACKBONE", "IMAGE_CLASSIFICATION",
         "SPEECH_SEQ_2_SEQ", "SEQ_TO_SEQ_CAUSAL_LM", "MASKED_LM", "QUESTION_ANSWERING", "MULTIPLE_CHOICE",
         "SEQUENCE_CLASSIFICATION", "TOKEN_CLASSIFICATION"]


def transformers_tasks():
    from transformers.models.auto import modeling_auto
    out = {}
    for task in TASKS:
        for family, name in getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES").items():
            for one in [name] if isinstance(name, str) else name:
                out[f"hf_{one}"] = transformer(one, family)
    return out


def timm_families():
    import timm

    def maker(module):
        def make():
            words = ("atto", "femto", "pico", "nano", "xxs", "xx_small", "test", "_s0", "050", "tiny", "small", "_a0", "b0")
            names = [n for n in timm.list_models(module=module)]
            names.sort(key=lambda n: (min([i for i, w in enumerate(words) if w in n], default=99), len(n), n))
            for name in names[:4]:
                with torch.device("meta"):
                    model = timm.create_model(name)
                if sum(p.numel() for p in model.parameters()) < 3e7:
                    torch.manual_seed(0)
                    model = timm.create_model(name, pretrained=False).eval()
                    _, *size = model.default_cfg.get("input_size", (3, 224, 224))
                    if not model.default_cfg.get("fixed_input_size") and module not in ("levit", "efficientformer"):
                        size = [min(s, 96) for s in size]
                    x = torch.randn(1, 3, *size)
                    try:
                        with torch.no_grad():
                            model(x)
                    except Exception:
                        x = torch.randn(1, *model.default_cfg["input_size"])
                    return model, (x,), {}
            raise ValueError("no small model")
        return make

    return {f"timm_{m}": maker(m) for m in timm.list_modules() if timm.list_models(module=m)}


def nn_modules():
    """Each class of torch.nn with the arguments of PyTorch's own tests, a few of them."""
    from torch.testing._internal.common_modules import module_db

    def maker(info, given):
        def make():
            torch.manual_seed(0)
            args, kwargs = given.constructor_input.args, given.constructor_input.kwargs
            module = info.module_cls(*args, **kwargs).eval()
            return module, tuple(given.forward_input.args), dict(given.forward_input.kwargs)
        return make

    out = {}
    for info in module_db:
        try:
            given = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=False)
        except Exception:
            continue
        given = [g for g in given if g.forward_input is not None]
        for i in sorted({0, len(given) // 3, 2 * len(given) // 3, len(given) - 1}):
            if given:
                out[f"nn_{info.module_cls.__name__}_{i}"] = maker(info, given[i])
    return out


def export_examples():
    from torch._export.db.examples import all_examples
    return {f"db_{name}": (lambda case=case: (case.model.eval(), tuple(case.example_args), dict(case.example_kwargs)))
            for name, case in all_examples().items()}


def vision():
    """The smallest builder of each module of torchvision: classification, segmentation, video, optical flow."""
    import torchvision
    from torchvision import models
    smallest = {}
    for name in models.list_models():
        builder = models.get_model_builder(name)
        if any(word in builder.__module__ for word in ("detection", "quantization")):
            continue
        weights = models.get_model_weights(name)
        count = min(w.meta["num_params"] for w in weights)
        if count < smallest.get(builder.__module__, (9e7, ""))[0]:
            smallest[builder.__module__] = (count, name)

    def maker(name, module):
        def make():
            torch.manual_seed(0)
            options = {} if "optical_flow" in module else dict(weights=None)
            if "segmentation" in module:
                options["weights_backbone"] = None
            if name in ("googlenet", "inception_v3"):
                options["init_weights"] = False
            model = models.get_model(name, **options).eval()
            if "optical_flow" in module:
                return model, (torch.rand(1, 3, 128, 128), torch.rand(1, 3, 128, 128)), {}
            if "video" in module:
                return model, (torch.rand(1, 3, 16, 224, 224) if "mvit" in name else torch.rand(1, 3, 8, 64, 64),), {}
            return model, (torch.rand(1, 3, *(224, 224) if "vit" in name else (96, 96)),), {}
        return make

    return {name: maker(name, module) for module, (_, name) in sorted(smallest.items())}


def detection():
    def maker(name, size):
        def make():
            import torchvision
            torch.manual_seed(0)
            kind = getattr(torchvision.models.detection, name)
            options = {} if "ssd" in name else dict(min_size=size, max_size=size)
            model = kind(weights=None, weights_backbone=None, num_classes=5, **options).eval()
            return model, ([torch.rand(3, size, size)],), {}
        return make
    return {name: maker(name, 128) for name in ("fasterrcnn_mobilenet_v3_large_320_fpn", "retinanet_resnet50_fpn",
                                                "ssdlite320_mobilenet_v3_large", "fcos_resnet50_fpn",
                                                "maskrcnn_resnet50_fpn", "keypointrcnn_resnet50_fpn", "ssd300_vgg16")}


@dataclass
class Batch:
    x: torch.Tensor
    sizes: torch.Tensor


Out = namedtuple("Out", ["mean", "parts"])
for register in (lambda: torch.export.register_dataclass(Batch, serialized_type_name="tests.Batch"),
                 lambda: _pytree._register_namedtuple(Out, serialized_type_name="tests.Out")):
    register()


class Dataclasses(nn.Module):
    def forward(self, batch, more):
        mean = batch.x.sum(0) / batch.sizes
        return Out(mean, {"x": batch.x + more["y"][0], "rest": (more["z"],)}), Batch(mean, batch.sizes)


class Graphs(nn.Module):
    """A layer of a graph network: gather, scatter, degrees, attention over edges."""

    def __init__(self):
        super().__init__()
        self.lin, self.att = nn.Linear(4, 8), nn.Linear(16, 1)

    def forward(self, x, edges):
        h, (src, dst) = self.lin(x), edges.unbind(0)
        e = torch.nn.functional.leaky_relu(self.att(torch.cat([h[src], h[dst]], -1)))[:, 0]
        top = torch.full((x.shape[0],), -1e9).scatter_reduce(0, dst, e, "amax", include_self=True)
        a = (e - top[dst]).exp()
        a = a / torch.zeros_like(top).index_add_(0, dst, a)[dst]
        out = torch.zeros_like(h).scatter_add_(0, dst[:, None].expand(-1, h.shape[1]), h[src] * a[:, None])
        degree = torch.bincount(dst, minlength=x.shape[0])
        return out, degree, torch.zeros(x.shape[0], 8).index_reduce_(0, dst, h[src], "mean")


class Buffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("ring", torch.zeros(4, 3))
        self.register_buffer("at", torch.tensor(0))
        self.register_buffer("unseen", torch.ones(3), persistent=False)

    def forward(self, x):
        self.ring.index_copy_(0, (self.at % 4)[None], x[None])
        self.at += 1
        self.unseen = self.unseen * 2 + x
        return self.ring.mean(0) + self.unseen, self.at.clone()


class Types(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype
        values = torch.arange(6).reshape(2, 3)
        self.register_buffer("b", values.to(dtype))

    def forward(self, x):
        y = x.to(self.dtype)
        return y, torch.cat([y, self.b]), self.b[0], torch.where(x > 1, y, self.b)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(11, 6)
        self.out = nn.Linear(6, 11, bias=False)
        self.out.weight = self.emb.weight
        self.view = nn.Parameter(torch.randn(4, 6))
        self.register_buffer("part", self.view.detach()[1:3].t())

    def forward(self, ids):
        h = self.emb(ids)
        return self.out(h), self.part @ h[0, :2], self.view.sum()


class Symbols(nn.Module):
    def forward(self, x, n: int, f: float, flag: bool):
        y = x[:n] * f
        return (y.sum() if flag else y), n + 1, x.shape[0] * 2


class Kinds(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *args):
        return self.f(*args)


def ranged(f, *args):
    return lambda: (Kinds(f).eval(), args, {})


def own_kinds():
    torch.manual_seed(3)
    x, m, i = torch.randn(3, 4), torch.randn(4, 4), torch.tensor([[0, 2, 1, 1], [1, 0, 0, 2]])
    v = torch.randn(2, 3, 6, 6)
    cond = torch.cond
    out = {
        "dataclasses": lambda: (Dataclasses(), (Batch(x, torch.tensor(3.0)), {"y": [x], "z": x[0]}), {}),
        "graphs": lambda: (Graphs(), (x, i % 3), {}),
        "buffers": lambda: (Buffers(), (x[0, :3],), {}),
        "tied": lambda: (Tied(), (torch.tensor([[1, 2], [3, 4]]),), {}),
        "symbols": lambda: (Symbols(), (x, 2, 1.5, True), {}),
        "nested_cond": ranged(lambda x: cond(x.sum() > 0, lambda x: cond(x.mean() > 1, lambda x: x + 1, lambda x: x - 1, (x,)),
                                             lambda x: x * 2, (x,)), x),
        "cond_closure": ranged(lambda x, m: cond(x.sum() > 0, lambda x: (x @ m).relu(), lambda x: x @ m.t(), (x,)), x, m),
        "linalg": ranged(lambda m: (torch.linalg.inv(m), torch.linalg.det(m), torch.linalg.norm(m),
                                    torch.linalg.solve(m, m[:, :2]), torch.linalg.eigvalsh(m + m.t()),
                                    torch.linalg.matrix_exp(m), torch.linalg.cholesky(m @ m.t() + 4 * torch.eye(4))), m),
        "fft": ranged(lambda x: (torch.fft.rfft(x), torch.fft.fft2(x).abs(), torch.fft.irfft(torch.fft.rfft(x)),
                                 torch.stft(x.flatten(), 8, return_complex=True, window=torch.hann_window(8))), x),
        "complex": ranged(lambda x: (torch.view_as_real(torch.polar(x, x) * 2j), torch.complex(x, x).conj().imag), x),
        "indexing": ranged(lambda x, i: (x[i[0] % 3], x[:, i[1]], x[x > 0].sum(), x[..., None, 1:3], x[[0, 1], [2, 3]],
                                         x.index_fill(1, i[0] % 4, 2.0), torch.take_along_dim(x[:2], i, 1)), x, i),
        "sorting": ranged(lambda x: (x.sort(-1), x.topk(2), x.argsort(0, descending=True), x.kthvalue(2), x.median(),
                                     torch.searchsorted(x[0].sort()[0], x[1]), torch.unique(x.round()), x.mode()), x),
        "einsum": ranged(lambda x, m: (torch.einsum("ij,jk->ik", x, m), torch.einsum("ij,ij->", x, x),
                                       torch.einsum("...j,j->...", x, m[0]), torch.tensordot(x, m, 1), torch.outer(x[0], x[1])), x, m),
        "images": ranged(lambda v: [nn.functional.interpolate(v, scale_factor=2, mode=k) for k in ("nearest", "bilinear", "bicubic", "area")]
                         + [nn.functional.grid_sample(v, torch.tanh(v[:, :2].permute(0, 2, 3, 1)), align_corners=False),
                            nn.functional.pixel_shuffle(v.repeat(1, 4, 1, 1), 2), nn.functional.unfold(v, 3),
                            nn.functional.fold(nn.functional.unfold(v, 3), (6, 6), 3), nn.functional.affine_grid(torch.eye(2, 3)[None], (1, 3, 4, 4), False),
                            nn.functional.adaptive_avg_pool2d(v, 4), nn.functional.lp_pool2d(v, 2, 2), nn.functional.max_pool2d(v, 3, return_indices=True),
                            nn.functional.pad(v, (1, 2, 0, 1), "reflect"), nn.functional.pad(v, (1, 2, 0, 1), "circular"), nn.functional.local_response_norm(v, 2)], v),
        "losses": ranged(lambda x, i: [nn.functional.cross_entropy(x, i[0, :3] % 4), nn.functional.kl_div(x, x.softmax(-1), reduction="batchmean"),
                                       nn.functional.binary_cross_entropy_with_logits(x, x.sigmoid()), nn.functional.huber_loss(x, x + 1),
                                       nn.functional.cosine_similarity(x, x + 1), nn.functional.triplet_margin_loss(x, x + 1, x - 1),
                                       nn.functional.ctc_loss(x[:, None].log_softmax(-1), torch.tensor([[1, 2]]), torch.tensor([3]), torch.tensor([2]))], x, i),
        "random_free": ranged(lambda x: (torch.arange(0, 5, 2), torch.linspace(0, 1, 4), torch.eye(3), torch.tril(x), torch.triu_indices(3, 3),
                                         nn.functional.one_hot(x.argmax(-1), 4),
                                         torch.meshgrid(x[0], x[1], indexing="ij"), torch.cartesian_prod(x[0], x[1]), torch.combinations(x[0]),
                                         torch.histc(x), torch.bucketize(x, torch.tensor([0.0, 1.0])), torch.cdist(x, x), torch.cumsum(x, 0),
                                         torch.logcumsumexp(x, 1), torch.cummax(x, 0), torch.diff(x), torch.trapezoid(x), torch.roll(x, 1, 0), torch.rot90(x)), x),
        "bits": ranged(lambda i: (i & 1, i | 2, i ^ 3, ~i, i << 1, i >> 1, i // 2, i % 3, torch.gcd(i, i + 2), i.float().frexp(), i.bool().any(0)), i),
        "math": ranged(lambda x: [f(x) for f in (torch.erf, torch.erfinv, torch.lgamma, torch.digamma, torch.special.i0, torch.special.bessel_j0,
                                                 torch.sinc, torch.logit, torch.special.ndtri, torch.expm1,
                                                 torch.log1p, torch.asinh, torch.nan_to_num, torch.signbit, torch.trunc, torch.frac, torch.special.entr)], x),
        "sdpa_masks": ranged(lambda v: [nn.functional.scaled_dot_product_attention(v, v, v, is_causal=True),
                                        nn.functional.scaled_dot_product_attention(v, v, v, attn_mask=torch.ones(6, 6).tril().bool()),
                                        nn.functional.scaled_dot_product_attention(v, v[:, :1].expand(-1, 3, -1, -1), v, scale=0.3),
                                        nn.functional.scaled_dot_product_attention(v.expand(2, 3, 6, 6), v[:, :1], v[:, :1], enable_gqa=True)], v),
        "vmap": ranged(lambda x, m: torch.vmap(lambda r: (r @ m).softmax(0))(x), x, m),
        "checkpoint": ranged(lambda x: torch.utils.checkpoint.checkpoint(lambda y: y.sin().cos(), x, use_reentrant=False), x),
        "autocast": ranged(lambda x, m: _autocast(x, m), x, m),
        "grad_modes": ranged(lambda x: _grad_modes(x), x),
        "while_loop": ranged(lambda x: torch._higher_order_ops.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x)), x),
        "map": ranged(lambda x, m: torch._higher_order_ops.map(lambda r, m: r @ m, x, m), x, m),
        "scan": ranged(lambda x: torch._higher_order_ops.scan(lambda c, r: (c + r, c * r), x[0], x), x),
        "associative_scan": ranged(lambda x: torch._higher_order_ops.associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic"), x),
        "multi_return": ranged(lambda x: {"a": [x, (x + 1, {"b": x.sum()})], "c": None, "d": 3, "e": "text", "f": 2.5, "g": True}, x),
        "same_twice": ranged(lambda x: (x, x, [x + 1] * 2), x),
        "no_tensor_in": ranged(lambda: torch.ones(2, 3).cumsum(0)),
        "data_dependent": ranged(lambda x: (x.nonzero(), x[x[:, 0] > 0], torch.masked_select(x, x > 0), torch.repeat_interleave(x, torch.tensor([1, 2, 0]), 0)), x),
    }
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64,
                  torch.bool, torch.complex64, torch.complex128):
        out[f"types_{str(dtype).split('.')[1]}"] = lambda dtype=dtype: (Types(dtype), (torch.arange(6.0).reshape(2, 3) / 2,), {})
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.uint16):
        out[f"types_{str(dtype).split('.')[1]}"] = ranged(lambda x, d=dtype: (x.to(d).float(), torch.tensor([1.0, 2.0]).to(d).to(torch.float32)), x.abs())
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        out[f"packed_{kind.__name__}"] = lambda kind=kind: (Recurrent(kind(4, 5, 2, bidirectional=True)), (torch.randn(6, 3, 4), torch.tensor([6, 4, 2])), {})
    return out


class Recurrent(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
        y, h = self.net(packed)
        return nn.utils.rnn.pad_packed_sequence(y)[0], h


def _autocast(x, m):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return (x @ m).relu().float() + 1


def _grad_modes(x):
    with torch.no_grad():
        y = x.detach() * 2
    with torch.enable_grad():
        return y + x


def written():
    import written_kinds
    return written_kinds.kinds()


GROUPS = {"vision": vision, "hf": transformers_families, "tasks": transformers_tasks, "timm": timm_families,
          "nn": nn_modules, "db": export_examples, "detection": detection, "own": own_kinds, "written": written}
