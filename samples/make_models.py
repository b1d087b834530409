#!/usr/bin/env python3
"""Makes samples/models anew with PyTorch: graph texts, weights, example inputs and PyTorch's outputs.

    make_models.py [--out DIR] [NAME...]        (Debian: python3-torch python3-torchvision)
"""
import argparse
import math
import os
import shutil
import subprocess
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch  # noqa: E402

import export_torchscript as export  # noqa: E402
import models  # noqa: E402
import torch_values  # noqa: E402

ALL_FORMS = ["graph", "dump", "inlined", "frozen"]


def inputs_of(*texts):
    return [(t, torch_values.value(t)) for t in texts]


def lenet():
    torch.manual_seed(0)
    return models.LeNet().eval(), inputs_of("1x1x32x32:f32:randn(seed=0)")


def lenet_traced(out):
    model, image = lenet()
    with torch.no_grad():
        traced = torch.jit.trace(model, image[0][1])
    export.export(traced, out, image, ALL_FORMS)


def lenet_scripted(out):
    model, image = lenet()
    export.export(torch.jit.script(model), out, image, ALL_FORMS)


def lenet_archive(out):
    model, image = lenet()
    scripted = torch.jit.script(model)
    export.export(scripted, out, image, [], save_weights=False)
    scripted.save(os.path.join(out, "model.pt"))
    with open(os.path.join(out, "inputs.txt"), "w") as f:
        f.write(f"x={image[0][0]}\n")


def recipe_for(module):
    """Seeded weights for every tensor of a module, as lines of a recipe: networks with them neither explode nor fade."""
    lines = []
    for seed, (name, t) in enumerate(module.state_dict().items()):
        shape = "x".join(map(str, t.shape)) or "scalar"
        if name.endswith("num_batches_tracked"):
            lines.append(f"{name} = {shape}:i64:zeros")
        elif name.endswith("running_var") or (t.dim() == 1 and name.endswith("weight")):
            lines.append(f"{name} = {shape}:f32:uniform(0.5,1.5,seed={seed})")
        elif t.dim() == 1:
            lines.append(f"{name} = {shape}:f32:uniform(-0.1,0.1,seed={seed})")
        else:
            deviation = math.sqrt(2 / (t.numel() / t.shape[0]))
            lines.append(f"{name} = {shape}:f32:randn(seed={seed},std={deviation:.6f})")
    return lines


def resnet18(out):
    import torchvision
    model = torchvision.models.resnet18(weights=None).eval()
    lines = recipe_for(model)
    path = os.path.join(out, "model.weights")
    with open(path, "w") as f:
        f.write("# Seeded weights of ResNet-18, by attribute path; docs/values.md tells what the lines mean.\n")
        f.write("\n".join(lines) + "\n")
    tensors = {n: torch_values.tensor_of(*v) for n, v in torch_values.seeded.load_typed_recipe(path).items()}
    model.load_state_dict(tensors)
    image = inputs_of("1x3x224x224:f32:randn(seed=0)")
    with torch.no_grad():
        traced = torch.jit.trace(model, image[0][1])
    export.export(traced, out, image, ["inlined"], save_weights=False)


def loops(out):
    torch.manual_seed(3)
    scripted = torch.jit.script(models.BeamSearch().eval())
    export.export(scripted, out, inputs_of("3:i64=[1 5 7]", "0.7"), ALL_FORMS)


def strings(out):
    scripted = torch.jit.script(models.Tagger().eval())
    text = '"The quick brown fox; the lazy dog, and the quick hare."'
    export.export(scripted, out, inputs_of(text, "4", '"> "'), ALL_FORMS)


MAKERS = {f.__name__: f for f in (lenet_archive, lenet_traced, lenet_scripted, resnet18, loops, strings)}


def without_prefixes(directory):
    """Source locations name files as their packages do, not as this machine does."""
    prefixes = sorted({os.path.join(p, "") for p in sys.path if p}, key=len, reverse=True)
    for name in os.listdir(directory):
        if name.endswith((".graph", ".dump", ".ir")):
            path = os.path.join(directory, name)
            with open(path) as f:
                text = f.read()
            for prefix in prefixes:
                text = text.replace("# " + prefix, "# ")
            with open(path, "w") as f:
                f.write(text)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.path.join(here, "models"))
    parser.add_argument("names", nargs="*", choices=[[], *MAKERS])
    a = parser.parse_args()
    if len(a.names) == 1:
        directory = os.path.join(a.out, a.names[0])
        shutil.rmtree(directory, ignore_errors=True)
        os.makedirs(directory)
        MAKERS[a.names[0]](directory)
        without_prefixes(directory)
        print(directory, flush=True)
        return
    # Each in a process of its own: the names that PyTorch gives to classes depend on what it has seen before.
    for name in a.names or MAKERS:
        subprocess.run([sys.executable, os.path.abspath(__file__), "--out", a.out, name], check=True)


if __name__ == "__main__":
    main()
