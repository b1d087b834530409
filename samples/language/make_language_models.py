#!/usr/bin/env python3
"""Makes the language models of this folder anew: graph texts, weights, and the tokens that PyTorch itself generates.

    make_language_models.py [--out DIR] [--goldens DIR] [NAME...]        (Debian: python3-torch)

NAME is byte_gpt, documentation_gpt (its weights come from train.py), byte_qwen, or gpt2_small, which has 650 MB and is
made only where it is named.
    DIR/NAME/model.ir      logits of all positions from input_ids and position_ids, attention in single operators
    DIR/NAME/operator.ir   the same with scaled dot product attention as one operator
    DIR/NAME/decode.ir     one token with past keys and values
    DIR/NAME/model.weights or weights.safetensors
    GOLDENS/NAME.json      a prompt, the 200 tokens that are likeliest one after the other, and for each of them how far
                           the second one is after
"""
import argparse
import json
import math
import os
import re
import subprocess
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import export_torchscript  # noqa: E402
import language_models  # noqa: E402
import torch_values  # noqa: E402

TOKENS = 200


def recipe_for(module):
    lines = []
    for seed, (name, t) in enumerate(module.state_dict().items()):
        shape = "x".join(map(str, t.shape))
        if name == "inv_freq":
            lines.append(f"{name} = {torch_values.text_of_tensor(t)}")
        elif t.dim() == 1 and name.endswith("weight"):
            lines.append(f"{name} = {shape}:f32:uniform(0.5,1.5,seed={seed})")
        elif t.dim() == 1:
            lines.append(f"{name} = {shape}:f32:uniform(-0.5,0.5,seed={seed})")
        elif name in ("tok.weight", "pos.weight"):
            lines.append(f"{name} = {shape}:f32:randn(seed={seed})")
        else:
            lines.append(f"{name} = {shape}:f32:randn(seed={seed},std={math.sqrt(2 / t.shape[1]):.6f})")
    return lines


def with_recipe(model, directory, title):
    path = os.path.join(directory, "model.weights")
    with open(path, "w") as f:
        f.write(f"# Seeded weights of {title}, by attribute path; docs/values.md tells what the lines mean.\n")
        f.write("\n".join(recipe_for(model)) + "\n")
    load_recipe(model, path)


def load_recipe(model, path):
    tensors = {n: torch_values.tensor_of(*v) for n, v in torch_values.seeded.load_typed_recipe(path).items()}
    model.load_state_dict(tensors)


def load_safetensors(model, path):
    with open(path, "rb") as f:
        data = f.read()
    start = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:start]).items():
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(bytearray(data[start + begin:start + end]), dtype=torch.float32)
        tensors[name] = flat.reshape(entry["shape"])
    model.load_state_dict(tensors)


def write_text(graph, path):
    assert not export_torchscript.constants(graph, "", {}), "a tensor constant that the weights do not name"
    for value in graph.inputs():
        value.setDebugName(re.sub(r"\.\d+$", "", value.debugName()))
    with open(path, "w") as f:
        f.write(re.sub(r"# /\S*/", "# ", str(graph)))  # source locations without this machine's folders


def write_texts(make, model, directory):
    scripted = torch.jit.script(model)
    write_text(scripted.inlined_graph, os.path.join(directory, "model.ir"))
    write_text(scripted.step.inlined_graph, os.path.join(directory, "decode.ir"))
    if isinstance(model, language_models.Gpt):
        with_operator = torch.jit.script(make(True).eval())
        write_text(with_operator.inlined_graph, os.path.join(directory, "operator.ir"))


def generated(model, prompt):
    """The likeliest tokens, each with the gap between its logit and the second one; checks that both forms agree."""
    ids, gaps = list(prompt), []
    past = [torch.zeros(model.layers, 1, model.kv_heads, 0, model.head_size)] * 2
    with torch.no_grad():
        for at in range(len(prompt) + TOKENS - 1):
            stepped, *past = model.step(torch.tensor([[ids[at]]]), torch.tensor([[at]]), *past)
            if at + 1 < len(prompt):
                continue
            logits = model(torch.tensor([ids]), torch.arange(len(ids))[None])[0, -1]
            best = torch.topk(logits, 2)
            assert torch.allclose(logits, stepped[0, 0], atol=1e-3), "prefill and decode differ"
            ids.append(int(best.indices[0]))
            gaps.append(round(float(best.values[0] - best.values[1]), 6))
    return ids[len(prompt):], gaps


def write_golden(model, prompt, path):
    tokens, gaps = generated(model, prompt)
    with open(path, "w") as f:
        f.write(json.dumps({"prompt": list(prompt), "tokens": tokens, "gaps": gaps}) + "\n")
    print(path, f"(smallest gap {min(gaps)})")
    print("  " + bytes(t for t in tokens if t < 256).decode("latin-1").replace("\n", "\n  "))


PROMPT = b"The text of "


def byte_gpt(directory):
    model = language_models.byte_gpt()
    with_recipe(model, directory, "a small GPT of bytes")
    return model, PROMPT


def byte_qwen(directory):
    model = language_models.byte_qwen()
    with_recipe(model, directory, "a small Qwen2 of bytes")
    return model, PROMPT


def documentation_gpt(directory):
    model = language_models.documentation_gpt()
    load_safetensors(model, os.path.join(directory, "weights.safetensors"))
    return model, PROMPT


def gpt2_small(directory):
    model = language_models.gpt2_small()
    export_torchscript.save_safetensors(os.path.join(directory, "weights.safetensors"), model.state_dict())
    return model, range(1000, 1016)


MAKERS = {f.__name__: f for f in (byte_gpt, documentation_gpt, byte_qwen, gpt2_small)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=HERE)
    parser.add_argument("--goldens", default=os.path.join(HERE, "..", "..", "tests", "data", "language"))
    parser.add_argument("--no-goldens", action="store_true", help="graph texts and weights only")
    parser.add_argument("names", nargs="*", choices=[[], *MAKERS])
    a = parser.parse_args()
    names = a.names or [n for n in MAKERS if n != "gpt2_small"]
    if len(names) > 1:
        # Each in a process of its own: the names that PyTorch gives to classes depend on what it has seen before.
        for name in names:
            options = ["--out", a.out, "--goldens", a.goldens] + ["--no-goldens"] * a.no_goldens
            subprocess.run([sys.executable, os.path.abspath(__file__), *options, name], check=True)
        return
    name = names[0]
    directory = os.path.join(a.out, name)
    os.makedirs(directory, exist_ok=True)
    model, prompt = MAKERS[name](directory)
    write_texts(getattr(language_models, name), model.eval(), directory)
    if not a.no_goldens:
        os.makedirs(a.goldens, exist_ok=True)
        write_golden(model, prompt, os.path.join(os.path.normpath(a.goldens), name + ".json"))


if __name__ == "__main__":
    main()
