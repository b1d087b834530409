#!/usr/bin/env python3
"""Saves modules and functions as TorchScript archives, with inputs and what PyTorch makes of them.

    export_archives.py OUT FILE.py [NAME...]

FILE.py has `cases()`: yields (name, "script" or "trace", function or module, inputs). OUT/NAME gets model.pt, inputs.json and
outputs.json (values as `tscompile run --outputs` writes them), graph.txt and inlined.txt (what torch.jit.load prints of it).
Needs PyTorch: Debian's python3-torch, or a later one.
"""
import json
import os
import sys
import types

import numpy
import torch


def item(value, folder, stem):
    """A value as outputs.json has it."""
    if isinstance(value, torch.Tensor):
        path = f"{stem}.npy"
        value = value.detach()
        name = str(value.dtype).split(".")[1]
        if value.dtype == torch.bfloat16:
            value = value.float()
        array = value.resolve_conj().resolve_neg().contiguous().numpy()
        numpy.save(os.path.join(folder, path), array)
        return {"type": "Tensor", "dtype": name, "shape": list(value.shape), "file": path}
    if value is None:
        return {"type": "None"}
    if isinstance(value, (bool, int, str)):
        return {"type": type(value).__name__, "value": value}
    if isinstance(value, float):
        return {"type": "float", "value": repr(value)}
    if isinstance(value, complex):
        return {"type": "complex", "value": [repr(value.real), repr(value.imag)]}
    if isinstance(value, (list, tuple)):
        items = [item(v, folder, f"{stem}_{i}") for i, v in enumerate(value)]
        return {"type": "List" if isinstance(value, list) else "Tuple", "items": items}
    if isinstance(value, dict):
        pairs = [[item(k, folder, f"{stem}_k{i}"), item(v, folder, f"{stem}_{i}")] for i, (k, v) in enumerate(value.items())]
        return {"type": "Dict", "items": pairs}
    if isinstance(value, torch.device):
        return {"type": "Device", "value": str(value)}
    return {"type": type(value).__name__}


def export(folder, how, function, inputs):
    os.makedirs(folder, exist_ok=True)
    if how == "script":
        made = torch.jit.script(function)
    else:
        made = torch.jit.trace(function, inputs, check_trace=False, strict=False)
    path = os.path.join(folder, "model.pt")
    made.save(path) if isinstance(made, torch.jit.ScriptModule) else torch.jit.save(made, path)
    if os.path.getsize(path) > 600 << 20:
        raise RuntimeError("too large")
    loaded = torch.jit.load(path)
    json.dump([item(v, folder, f"in{i}") for i, v in enumerate(inputs)], open(os.path.join(folder, "inputs.json"), "w"))
    torch.manual_seed(0)
    with torch.no_grad():
        result = loaded(*inputs)
    json.dump([item(result, folder, "out")], open(os.path.join(folder, "outputs.json"), "w"))
    open(os.path.join(folder, "graph.txt"), "w").write(str(loaded.graph))
    open(os.path.join(folder, "inlined.txt"), "w").write(str(loaded.inlined_graph))


def main():
    out, path, wanted = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]
    sys.path.insert(0, os.path.dirname(path))
    os.chdir(os.path.dirname(path))  # archives name the file without its folder
    file = os.path.basename(path)
    module = types.ModuleType(file[:-3])
    module.__file__ = file
    sys.modules[module.__name__] = module
    exec(compile(open(file).read(), file, "exec"), module.__dict__)
    counts = {}
    for name, how, function, inputs in module.cases():
        if wanted and name not in wanted:
            continue
        counts[name] = counts.get(name, 0) + 1
        folder = os.path.join(out, name if counts[name] == 1 else f"{name}_{counts[name]}")
        child = os.fork()  # some cases end PyTorch itself
        if child == 0:
            try:
                export(folder, how, function, tuple(inputs))
            except Exception as e:
                print(f"{name}: {type(e).__name__}: {str(e).strip()[:200]}", flush=True)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            print(f"{name}: PyTorch crashed", flush=True)


if __name__ == "__main__":
    main()
