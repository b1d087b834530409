#!/usr/bin/env python3
"""Builds every causal model of transformers from a small configuration and compares the tokens with PyTorch's.

    check_decoders.py TOOL [--zoo] [--work DIR] [--inputs ids,ids+mask,ids+positions,ids+mask+positions] [--attention sdpa,eager]
                      [--forms pt,pt2,decomposed,script] [ARCHITECTURE...]

With --zoo, those of decoder_zoo*.py; of a model that says what it `takes` the inputs are these, and one that is to be
`refused` must not be built. Models have random weights and are traced (pt), scripted or exported by torch.export (pt2,
with run_decompositions: decomposed) as they are, without a cache. Wants PyTorch 2 and transformers: `./dev oracle` says which
Python has them. What was traced is kept in DIR and used again. Exits 1 if a model builds and says other tokens.
"""
import argparse
import collections
import itertools
import json
import os
import subprocess
import sys
import tempfile
import warnings

from decoder_zoo import ZOO
from decoder_zoo_designs import DESIGNS_ZOO
from decoder_zoo_forms import FORMS_ZOO
from decoder_zoo_groups import GROUPS_ZOO
from decoder_zoo_kinds import KINDS_ZOO
from decoder_zoo_more import MORE_ZOO

ZOO = {**ZOO, **MORE_ZOO, **KINDS_ZOO, **FORMS_ZOO, **DESIGNS_ZOO, **GROUPS_ZOO}

warnings.filterwarnings("ignore")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

PROMPTS = [[5, 17, 3, 8, 42], [9, 9, 31, 77, 12, 60, 4, 88, 23, 50, 7], [11, 64, 2 + 7, 35, 90, 6, 71, 28, 53] * 2]
NEW_TOKENS = 12
TIE = 1e-4
EXPORTED = ("pt2", "decomposed")

# What every small configuration may have; configurations ignore what they do not know.
SMALL = dict(vocab_size=97, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=48, max_position_embeddings=64, d_model=32, n_embd=32, n_layer=2, n_head=4,
             n_positions=64, n_ctx=64, hidden_dim=48, n_layers=2, n_heads=4, num_layers=2, num_heads=4, pad_token_id=0,
             bos_token_id=1, eos_token_id=2, head_dim=8, ffn_dim=48, word_embed_proj_dim=32, hidden_dropout=0.0,
             n_inner=48, rotary_dim=4, num_experts=4, num_local_experts=4, n_routed_experts=4, num_experts_per_tok=2,
             moe_intermediate_size=16, kv_lora_rank=16, q_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8,
             v_head_dim=8, max_seq_len=64, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=48,
             n_group=1, topk_group=1, expansion_ratio=2, ffn_hidden_size=48, sliding_window=6,
             mamba_d_state=4, mamba_n_heads=4, mamba_d_head=16, mamba_expand=2, state_size=4, time_step_rank=4,
             ssm_state_size=4, lru_width=32, attention_window_size=6, linear_num_key_heads=2, linear_num_value_heads=2,
             linear_key_head_dim=8, linear_value_head_dim=8, is_decoder=True, shared_expert_intermediate_size=16)
MORE = {
    "DbrxForCausalLM": dict(attn_config=dict(kv_n_heads=2), ffn_config=dict(ffn_hidden_size=48, moe_num_experts=4,
                                                                          moe_top_k=2)),
    "GPTNeoForCausalLM": dict(attention_types=[[["global", "local"], 1]], window_size=6),
    "Dots3NoteForCausalLM": dict(num_key_value_heads=4),
    "ZayaForCausalLM": dict(num_experts_per_tok=1),
    "RoCBertForCausalLM": dict(pronunciation_vocab_size=10, shape_vocab_size=10),
}


def architectures():
    from transformers.models.auto import modeling_auto
    return sorted(set(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()))


def make(name, attention):
    """A small model of this architecture, or a reason."""
    import inspect
    import torch
    import transformers
    torch.manual_seed(0)
    cls = getattr(transformers, name)
    config = cls.config_class
    known = set(getattr(config, "attribute_map", {}))
    for c in config.__mro__:
        known |= set(inspect.signature(c.__init__).parameters) | set(getattr(c, "__annotations__", {}))
    options = {k: v for k, v in SMALL.items() if k in known}
    if "kv_lora_rank" in known:  # latent attention has a key for each query
        options["num_key_value_heads"] = options["num_attention_heads"]
    options.update(MORE.get(name, {}))
    made = config(**options)
    made._attn_implementation = attention
    made.use_cache = False
    with torch.device("meta"):
        if sum(p.numel() for p in cls(made).parameters()) > 3_000_000:
            raise ValueError("no small configuration")
    model = cls._from_config(made, attn_implementation=attention, dtype=torch.float32).eval()
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(torch.randn_like(p) * 0.1)
            elif p.dim() > 1:
                p.mul_(4 if p.std() < 0.05 else 1)
    return model


def wrapped(model, inputs):
    import torch

    class Ids(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

    def logits(out):
        return out.logits

    class Plain(Ids):
        def forward(self, input_ids):
            return logits(self.model(input_ids=input_ids, use_cache=False))

    class Masked(Ids):
        def forward(self, input_ids, attention_mask):
            return logits(self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False))

    class Placed(Ids):
        def forward(self, input_ids, position_ids):
            return logits(self.model(input_ids=input_ids, position_ids=position_ids, use_cache=False))

    class Both(Ids):
        def forward(self, input_ids, attention_mask, position_ids):
            return logits(self.model(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids,
                                     use_cache=False))

    return {"ids": Plain, "ids+mask": Masked, "ids+positions": Placed, "ids+mask+positions": Both}[inputs]().eval()


def arguments(inputs, ids):
    import torch
    out = [ids]
    if "mask" in inputs:
        out.append(torch.ones_like(ids))
    if "positions" in inputs:
        out.append(torch.arange(ids.shape[1]).expand(ids.shape[0], -1).contiguous())
    return tuple(out)


def logits_of(model, of, inputs, ids):
    """Those of [batch, tokens], whatever the form of the model (of which `model` may be a trace)."""
    if hasattr(of, "example"):
        return model(*of.example(ids))
    if getattr(of, "tokens_first", False):
        return model(*(a.t() for a in arguments(inputs, ids))).transpose(0, 1)
    out = model(*arguments(inputs, ids))
    if isinstance(out, dict):
        return out["logits"]
    return out[0] if isinstance(out, tuple) else out


def export(name, attention, inputs, form, folder):
    """Writes the model into `folder` and notes PyTorch's tokens and how near the second likeliest came."""
    import torch
    if name in ZOO:
        torch.manual_seed(0)
        model = ZOO[name]().eval()
        inputs = getattr(model, "takes", inputs)
    else:
        model = wrapped(make(name, attention), inputs)
    with torch.no_grad():
        ids = torch.randint(3, 90, (2, 9))
        example = model.example(ids) if hasattr(model, "example") else arguments(inputs, ids)
        if form in EXPORTED:
            sizes = {0: torch.export.Dim("batch", max=64), 1: torch.export.Dim("tokens", max=60)}
            exported = torch.export.export(model, example, dynamic_shapes=tuple(sizes for _ in example))
            if form == "decomposed":
                exported = exported.run_decompositions()
            traced = exported.module()
        elif form == "script":
            traced = torch.jit.script(model)
        else:
            traced = torch.jit.trace(model, example, check_trace=False, strict=False)
        texts, gaps = [], []
        for prompt in PROMPTS:
            ids, near = list(prompt), []
            for _ in range(NEW_TOKENS):
                row = logits_of(model, model, inputs, torch.tensor([ids]))[0, -1].float()
                best = row.topk(2)
                near.append(float(best.values[0] - best.values[1]))
                ids.append(int(best.indices[0]))
            texts.append(ids[len(prompt):])
            gaps.append(near)
        # A trace that does not know other sizes is no model of texts.
        row = torch.tensor([PROMPTS[1]])
        off = (logits_of(traced, model, inputs, row) - logits_of(model, model, inputs, row)).abs().max()
        if not off < 1e-3:
            raise ValueError(f"its trace is another model at other sizes ({float(off):.3g})")
    if form in EXPORTED:
        torch.export.save(exported, os.path.join(folder, "model.pt2"))
    else:
        torch.jit.save(traced, os.path.join(folder, "model.pt"))
    with open(os.path.join(folder, "tokens.json"), "w") as f:
        json.dump({"texts": texts, "gaps": gaps, "tie": getattr(model, "tie", TIE),
                   "refused": getattr(model, "refused", False)}, f)


def check(tool, folder, form, limit):
    """'right' and what is kept of texts, or 'refused' or 'wrong' and what was said."""
    built = os.path.join(folder, "built")
    run = subprocess.run([tool, "build", os.path.join(folder, "model.pt2" if form in EXPORTED else "model.pt"), "-o", built, "-q", "--set", "max_seq_len=48",
                          "--set", "max_num_tokens=16"], capture_output=True, text=True, timeout=limit)
    if run.returncode:
        lines = [l for l in run.stderr.splitlines() if "error" in l] or run.stderr.splitlines() or ["nothing said"]
        return "refused" if run.returncode in (3, 4) else f"fails ({run.returncode})", lines[0]
    with open(os.path.join(folder, "tokens.json")) as f:
        golden = json.load(f)
    if golden.get("refused"):
        return "wrong", "is built, and is no model of one text"
    prompts = [a for p in PROMPTS for a in ("--prompt-ids", ",".join(map(str, p)))]
    run = subprocess.run([tool, "generate", built, "-q", "--format", "json", "--max-new-tokens", str(NEW_TOKENS)] + prompts,
                         capture_output=True, text=True, timeout=limit)
    if run.returncode:
        return f"fails ({run.returncode})", run.stderr.strip()[:200]
    for i, result in enumerate(json.loads(run.stdout)["results"]):
        for at, (token, want) in enumerate(zip(result["tokens"], golden["texts"][i], strict=True)):
            if token == want:
                continue
            if golden["gaps"][i][at] >= golden.get("tie", TIE):
                return "wrong", f"prompt {i}, token {at}: {token}, expected {want} (gap {golden['gaps'][i][at]:.3g})"
            break
    with open(os.path.join(built, "config.json")) as f:
        return "right", json.load(f)["build_config"]["kv_cache_type"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool")
    parser.add_argument("--work", default=None)
    parser.add_argument("--inputs", default="ids")
    parser.add_argument("--attention", default="sdpa")
    parser.add_argument("--zoo", action="store_true")
    parser.add_argument("--forms", default="pt")
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--export-only", action="store_true")
    parser.add_argument("architectures", nargs="*")
    options = parser.parse_intermixed_args()
    work = options.work or tempfile.mkdtemp()
    counts, wrong = collections.Counter(), False
    for name in options.architectures or (ZOO if options.zoo else architectures()):
        for inputs in options.inputs.split(","):
            for attention, form in itertools.product(options.attention.split(","), options.forms.split(",")):
                case = f"{name}/{inputs}/{attention}" + ("" if form == "pt" else "/" + form)
                folder = os.path.join(work, case.replace("/", "-"))
                os.makedirs(folder, exist_ok=True)
                reason = os.path.join(folder, "not_exported")
                if not os.path.exists(os.path.join(folder, "tokens.json")) and not os.path.exists(reason):
                    try:
                        export(name, attention, inputs, form, folder)
                    except Exception as e:  # noqa: BLE001 whatever a model's code raises
                        with open(reason, "w") as f:
                            f.write(f"{type(e).__name__}: {e}")
                if os.path.exists(reason):
                    with open(reason) as f:
                        result, said = "not exported", f.read().strip().splitlines()[0]
                elif options.export_only:
                    result, said = "exported", ""
                else:
                    result, said = check(options.tool, folder, form, options.limit)
                counts[f"{result} ({said})" if result == "right" else result] += 1
                wrong |= result == "wrong"
                print(f"{result:13} {case:50} {said[:200]}", flush=True)
    print(", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
