#!/usr/bin/env python3
r"""Writes a PyTorch model as TorchScript graph text, with its weights, example inputs and PyTorch's own outputs.

    export_torchscript.py SOURCE --out DIR [--input VALUE]... [--form graph|dump|inlined|frozen]... [--method NAME]
                          [--script | --trace] [--seed N]

SOURCE is one of
    model.pt                   a TorchScript archive
    net.py:Net                 a class, a function or a module object of a Python file; called if it is a class or a function
    torchvision.models:resnet18
VALUE is an example input: 1x3x224x224:f32:randn(seed=0), @image.npy, 3, [1, 2], ... as `tscompile run --input` takes it.

A model that is not TorchScript already is scripted, or traced with --trace. Each form is a text of its own:
    DIR/model.graph    the graph of one method as it prints; calls of submodules stay calls (to be looked at, not to be run)
    DIR/model.dump     the module with all its methods and the functions that they call
    DIR/model.ir       one inlined graph; weights are read by prim::GetAttr from %self
    DIR/frozen.ir      the frozen graph; weights are constants
    DIR/weights.safetensors, DIR/frozen.safetensors
With inputs, the model is run:
    DIR/inputs.txt     a line NAME=VALUE for each input, relative to DIR, and the files that it names
    DIR/expected/      what PyTorch returns, as `tscompile run --outputs` writes it; compare.py compares the two
With --method, model.ir and frozen.ir hold that one method and run without --method; model.dump holds all.

    cd DIR && sed 's/.*/--input\n&/' inputs.txt | xargs -d '\n' tscompile run model.ir --weights weights.safetensors
"""
import argparse
import enum
import importlib
import importlib.util
import inspect
import json
import os
import re
import struct
import sys

try:
    import numpy
    import torch
except ImportError as e:
    sys.exit(f"error: this Python has no {e.name}; run the script with one that has, on Debian /usr/bin/python3")

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch_values  # noqa: E402

FORMS = ("graph", "dump", "inlined", "frozen")
FILES = {"graph": "model.graph", "dump": "model.dump", "inlined": "model.ir", "frozen": "frozen.ir"}
DTYPES = {torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
          torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
          torch.complex64: "C64", torch.complex128: "C128"}


# ---- tensors and values on disk ----

def save_safetensors(path, tensors, metadata=None):
    header, blobs, at = {}, [], 0
    if metadata:
        header["__metadata__"] = metadata
    # Wide elements first: all of them are aligned then.
    for name, t in sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0])):
        t = t.detach().cpu().contiguous()
        raw = (t.view(torch.int16) if t.dtype == torch.bfloat16 else t).numpy().tobytes()
        header[name] = {"dtype": DTYPES[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + len(raw)]}
        blobs.append(raw)
        at += len(raw)
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        f.writelines(blobs)


class ValueWriter:
    """Writes values and their tensors into a directory, in the two notations that the command line tool has."""

    def __init__(self, directory, prefix=""):
        self.directory, self.prefix, self.count = directory, prefix, 0
        os.makedirs(directory, exist_ok=True)

    def tensor_file(self, t):
        t = t.detach().cpu().resolve_conj().resolve_neg().contiguous()
        name = f"{self.prefix}{self.count}"
        self.count += 1
        if t.dtype == torch.bfloat16:
            save_safetensors(os.path.join(self.directory, name + ".safetensors"), {"value": t})
            return name + ".safetensors"
        numpy.save(os.path.join(self.directory, name + ".npy"), t.numpy())
        return name + ".npy"

    def as_json(self, v):
        """An entry of outputs.json."""
        if isinstance(v, torch.Tensor):
            dtype, shape = str(v.dtype).replace("torch.", ""), list(v.shape)
            return {"type": "Tensor", "dtype": dtype, "shape": shape, "file": self.tensor_file(v)}
        if v is None:
            return {"type": "None"}
        if isinstance(v, bool):
            return {"type": "bool", "value": v}
        if isinstance(v, int):
            return {"type": "int", "value": v}
        if isinstance(v, float):
            finite = v == v and abs(v) != float("inf")
            return {"type": "float", "value": v if finite else ("nan" if v != v else "inf" if v > 0 else "-inf")}
        if isinstance(v, complex):
            return {"type": "complex", "value": [v.real, v.imag]}
        if isinstance(v, str):
            return {"type": "str", "value": v}
        if isinstance(v, (list, torch.Size)):
            return {"type": "List", "items": [self.as_json(i) for i in v]}
        if isinstance(v, tuple):
            return {"type": "Tuple", "items": [self.as_json(i) for i in v]}
        if isinstance(v, dict):
            return {"type": "Dict", "items": [[self.as_json(k), self.as_json(i)] for k, i in v.items()]}
        return {"type": type(v).__name__, "repr": repr(v)}

    def as_text(self, v):
        """A VALUE for --input."""
        if isinstance(v, torch.Tensor):
            name = self.tensor_file(v)
            return "@" + name + ("#value" if name.endswith(".safetensors") else "")
        if isinstance(v, (list, torch.Size)):
            return "[" + ", ".join(map(self.as_text, v)) + "]"
        if isinstance(v, tuple):
            return "(" + ", ".join(map(self.as_text, v)) + ("," if len(v) == 1 else "") + ")"
        if isinstance(v, dict):
            return "{" + ", ".join(f"{self.as_text(k)}: {self.as_text(i)}" for k, i in v.items()) + "}"
        return attribute_text(v)


def enum_names(kind):
    """The full names of the classes in a type, such as Enum<__torch__.Mode>[] or List[__torch__.Mode], by their last part."""
    return {name.rsplit(".", 1)[-1]: name for name in re.findall(r"\w+(?:\.\w+)+", str(kind))}


def enum_members(v):
    """The members of enums in a value."""
    if isinstance(v, enum.Enum):
        yield v
    elif isinstance(v, (list, tuple)):
        for item in v:
            yield from enum_members(item)
    elif isinstance(v, dict):
        for item in v.items():
            yield from enum_members(item)


def member_texts(v, enums):
    """What members stand for, which graph text does not say, as attributes of their classes."""
    return {f"attribute:{enums[type(m).__name__]}.{m.name}": attribute_text(m.value) for m in enum_members(v)}


def attribute_text(v, enums=None):
    """A plain value as graph text writes it; raises TypeError for what has no such notation."""
    if isinstance(v, enum.Enum) and enums:
        return f"{enums[type(v).__name__]}.{v.name}"
    if v is None or isinstance(v, (bool, int)):
        return str(v)
    if isinstance(v, (float, complex)):
        return repr(v).strip("()")
    if isinstance(v, str):
        return json.dumps(v)
    texts = lambda items: [attribute_text(item, enums) for item in items]
    if isinstance(v, (list, torch.Size)):
        return "[" + ", ".join(texts(v)) + "]"
    if isinstance(v, tuple):
        return "(" + ", ".join(texts(v)) + ("," if len(v) == 1 else "") + ")"
    if isinstance(v, dict):
        return "{" + ", ".join(": ".join(texts(item)) for item in v.items()) + "}"
    raise TypeError(type(v).__name__)


# ---- what a text leaves out ----

def without_tensors(value, path, tensors):
    """The value with None for each tensor in its containers; the tensors by their places ("d.0.1": in a dict, of items)."""
    if isinstance(value, torch.Tensor):
        tensors[path] = value
        return None
    if isinstance(value, dict):
        return {k: without_tensors(v, f"{path}.{i}", tensors) for i, (k, v) in enumerate(value.items())}
    if isinstance(value, (list, tuple)):
        return type(value)([without_tensors(v, f"{path}.{i}", tensors) for i, v in enumerate(value)])
    return value


def all_nodes(block):
    for n in block.nodes():
        yield n
        for b in n.blocks():
            yield from all_nodes(b)
        if n.hasAttribute("Subgraph"):
            yield from all_nodes(n.g("Subgraph"))


def constants(graph, prefix, out):
    for n in all_nodes(graph):
        if n.kind() != "prim::Constant" or not n.hasAttribute("value"):
            continue
        name = prefix + n.output().debugName()
        if n.kindOf("value") == "t":
            out[name] = n.t("value")
        elif n.kindOf("value") in ("ts", "ival"):
            value = n.output().toIValue()
            if isinstance(value, list) and all(t is None or isinstance(t, torch.Tensor) for t in value):
                out.update({f"{name}.{i}": t for i, t in enumerate(value) if t is not None})
    return out


def constant_enums(graph):
    """What the members of enums in constants stand for."""
    out = {}
    for n in all_nodes(graph):
        if n.kind() == "prim::Constant" and n.hasAttribute("value") and n.kindOf("value") == "ival":
            out.update(member_texts(n.output().toIValue(), enum_names(n.output().type())))
    return out


def is_class(kind):
    """Whether a value of this type is an object with attributes of its own; enums are none."""
    return isinstance(kind, torch._C.ClassType)


class ScriptClass:
    """An object of a script class, which PyTorch hands out as an object of Python."""

    def __init__(self, value):
        self.value = value

    def getattr(self, name):
        return getattr(self.value, name)


class Attributes:
    """The tensors and plain values that prim::GetAttr reads, by path."""

    def __init__(self):
        self.tensors, self.plain = {}, {}

    def add(self, path, value, kind):
        enums = enum_names(kind)
        self.plain.update(member_texts(value, enums))
        if isinstance(value, torch.Tensor):
            self.tensors[path] = value
        elif isinstance(value, list) and value and all(isinstance(t, torch.Tensor) for t in value):
            self.tensors.update({f"{path}.{i}": t for i, t in enumerate(value)})
        else:
            inside = {}
            try:
                self.plain["attribute:" + path] = attribute_text(without_tensors(value, path, inside), enums)
                self.tensors.update(inside)
            except TypeError as e:
                print(f"note: attribute {path} of type {e} cannot be written", file=sys.stderr)

    def read_by(self, module, graph):
        """Follows the chains of prim::GetAttr from the graph's first input."""
        inputs = list(graph.inputs())
        if not inputs:
            return
        held = {inputs[0].debugName(): (module, "")}
        for n in all_nodes(graph):  # definitions come before uses
            if n.kind() != "prim::GetAttr" or n.input().debugName() not in held:
                continue
            owner, prefix = held[n.input().debugName()]
            value = owner.getattr(n.s("name"))
            path = prefix + n.s("name")
            if isinstance(value, torch._C.ScriptObject):
                held[n.output().debugName()] = (value, path + ".")
            elif is_class(n.output().type()):
                held[n.output().debugName()] = (ScriptClass(value), path + ".")
            else:
                self.add(path, value, n.output().type())


def objects(module, path=""):
    """The module and all its submodules with their paths."""
    yield path, module
    for name, child in torch._C.ModuleDict(module).items():
        yield from objects(child, path + name + ".")


def called_functions(graphs):
    """The functions that graphs call, by the name that their text has for them."""
    unit = torch.jit._state._python_cu
    found, by_name, queue = {}, {}, list(graphs)
    while queue:
        for n in all_nodes(queue.pop()):
            if n.kind() != "prim::CallFunction":
                continue
            constant, qualified = n.inputsAt(0).node(), str(n.inputsAt(0).type())
            name = constant.s("name")
            function = unit.find_function(qualified)
            if function is None:
                raise SystemExit(f"error: the function {qualified} is out of reach; use --form inlined")
            if by_name.setdefault(name, qualified) != qualified:
                name = qualified  # two functions of one name: this one is called by its full name
                constant.s_("name", name)
                by_name[name] = qualified
            if name not in found:
                found[name] = function.graph
                queue.append(function.graph)
    return found


def indented(text, margin):
    return "".join(margin + line + "\n" if line else "\n" for line in text.splitlines())


# ---- forms ----

def write_dump(module, path, weights, attributes):
    graphs = []
    for prefix, m in objects(module._c):
        for name in m._method_names():
            graph = m._get_method(name).graph
            graphs.append(graph)
            constants(graph, f"{m.qualified_name}.{name}:", weights)
            attributes.plain.update(constant_enums(graph))
            found = Attributes()
            found.read_by(m, graph)
            for key, value in found.tensors.items():
                attributes.tensors[prefix + key] = value
            for key, value in found.plain.items():
                of_class = key.startswith("attribute:__torch__.")
                attributes.plain[key if of_class else "attribute:" + prefix + key[len("attribute:"):]] = value
    functions = called_functions(graphs)
    text = module._c.dump_to_str(True, False, False)
    # Addresses, numbered in the order of the text: two exports are the same.
    known = {}
    text = re.sub(r" object at 0x[0-9a-f]+>", lambda m: f" object at {known.setdefault(m[0], hex(len(known) + 1))}>", text)
    if functions:
        text = text.rstrip()
        assert text.endswith("}")
        text = text[:-1] + "  functions {\n"
        for name, graph in sorted(functions.items()):
            constants(graph, name + ":", weights)
            attributes.plain.update(constant_enums(graph))
            text += f"    function {name} {{\n" + indented(str(graph), "      ") + "    }\n"
        text += "  }\n}\n"
    with open(path, "w") as f:
        f.write(text)


def export(model, directory, inputs=None, forms=("inlined", "frozen"), method="forward", save_weights=True):
    """Writes the forms of a TorchScript module or function; returns PyTorch's outputs, or None without inputs."""
    os.makedirs(directory, exist_ok=True)
    is_module = isinstance(model, torch.jit.ScriptModule)
    weights, attributes = {}, Attributes()
    called = getattr(model, method) if is_module else model
    graphs = []  # of the texts with one graph
    for form in forms:
        path = os.path.join(directory, FILES[form])
        if form == "dump":
            if not is_module:
                raise SystemExit("error: only modules have dumps")
            write_dump(model, path, weights, attributes)
        elif form == "frozen":
            if not is_module:
                raise SystemExit("error: only modules can be frozen")
            kept = [] if method == "forward" else [method]
            frozen = torch.jit.freeze(model.eval(), preserved_attrs=kept, optimize_numerics=False)
            graph = getattr(frozen, method).graph if kept else frozen.graph
            graphs.append(graph)
            with open(path, "w") as f:
                f.write(str(graph))
            left = Attributes()  # what freezing leaves, because the model sets it
            left.read_by(frozen._c, graph)
            if save_weights:
                save_safetensors(os.path.join(directory, "frozen.safetensors"),
                                 {**left.tensors, **constants(graph, "", {})}, {**left.plain, **constant_enums(graph)})
        else:
            graph = called.graph if form == "graph" else called.inlined_graph
            graphs.append(graph)
            with open(path, "w") as f:
                f.write(str(graph))
            if form == "inlined":
                constants(graph, "", weights)
                attributes.plain.update(constant_enums(graph))
                if is_module:
                    attributes.read_by(model._c, graph)
    if save_weights and (set(forms) & {"inlined", "dump"}):
        state = dict(model.state_dict()) if is_module else {}
        save_safetensors(os.path.join(directory, "weights.safetensors"), {**state, **attributes.tensors, **weights},
                         attributes.plain)
    if inputs is None:
        return None
    names = input_names(graphs + [called.graph], is_module)
    # Graphs take every argument; those that the example leaves out have their defaults.
    arguments = called.schema.arguments[1 if is_module else 0:]
    inputs = inputs + [(None, a.default_value) for a in arguments[len(inputs):] if a.has_default_value()]
    writer = ValueWriter(directory, "in")
    with open(os.path.join(directory, "inputs.txt"), "w") as f:
        for name, (text, value) in zip(names, inputs):
            f.write(f"{name}={text if text and '@' not in text else writer.as_text(value)}\n")
    with torch.no_grad():
        result = called(*[v for _, v in inputs])
    write_expected(os.path.join(directory, "expected"), result)
    return result


def input_names(graphs, is_module):
    """Names that all texts understand: `x` for %x.1 and %x.21; a position where they differ or two are alike."""
    lists = [[re.sub(r"\.\d+$", "", v.debugName()) for v in g.inputs()][1 if is_module else 0:] for g in graphs]
    return [name if all(names[i] == name and names.count(name) == 1 for names in lists) and not name.isdigit() else str(i)
            for i, name in enumerate(lists[0])]


def write_expected(directory, result):
    """The values that a run returns, as `tscompile run --outputs` writes them."""
    writer = ValueWriter(directory)
    with open(os.path.join(directory, "outputs.json"), "w") as f:
        json.dump([writer.as_json(result)], f, indent=1)
        f.write("\n")


# ---- the command ----

def load_archive(path):
    try:
        import torchvision  # noqa: F401, whose operators detection models call
    except ImportError:
        pass
    try:
        return torch.jit.load(path, map_location="cpu")
    except RuntimeError as e:
        try:
            held = torch.load(path, map_location="cpu")
        except Exception:  # it is something else
            held = None
        if isinstance(held, dict):
            raise SystemExit(f"error: {path} holds tensors and no code (a state dict): `tscompile run --weights {path}` takes "
                             "it, beside the text of a model")
        if held is not None:
            raise SystemExit(f"error: {path} holds an object of Python ({type(held).__name__}): save it by torch.jit.save")
        raise SystemExit(f"error: {path} is no TorchScript archive that this PyTorch opens: {str(e).splitlines()[0]}")


def load(source, arguments):
    if os.path.isfile(source) and not source.endswith(".py"):
        return load_archive(source)
    where, _, name = source.removesuffix("()").rpartition(":")
    if not where:
        raise SystemExit(f"error: {source} is neither a file nor MODULE:NAME")
    if os.path.isfile(where):
        spec = importlib.util.spec_from_file_location("exported_model", where)
        python = importlib.util.module_from_spec(spec)
        sys.modules["exported_model"] = python  # scripting looks the source up by it
        spec.loader.exec_module(python)
    else:
        sys.path.insert(0, os.getcwd())
        python = importlib.import_module(where)
    if not hasattr(python, name):
        raise SystemExit(f"error: {where} has no {name}")
    model = getattr(python, name)
    if inspect.isclass(model) or (inspect.isfunction(model) and not arguments.function):
        torch.manual_seed(arguments.seed)
        model = model()
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("--out", required=True, metavar="DIR")
    parser.add_argument("--input", action="append", metavar="VALUE", help="example input, in order")
    parser.add_argument("--form", action="append", choices=FORMS, help="default: inlined and frozen")
    parser.add_argument("--method", default="forward")
    parser.add_argument("--trace", action="store_true", help="trace with the inputs")
    parser.add_argument("--script", action="store_true", help="compile the source (default)")
    parser.add_argument("--function", action="store_true", help="SOURCE names the function to export, not a maker of the model")
    parser.add_argument("--seed", type=int, default=0, help="of random weights")
    a = parser.parse_args()

    inputs = None if a.input is None else [(text, torch_values.value(text)) for text in a.input]
    model = load(a.source, a)
    if isinstance(model, torch.nn.Module):
        model.eval()
    scripted = isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction))
    if not scripted:
        with torch.no_grad():
            if a.trace:
                if inputs is None:
                    raise SystemExit("error: tracing needs --input")
                model = torch.jit.trace(model, tuple(v for _, v in inputs), check_trace=False)
            else:
                model = torch.jit.script(model)
    is_module = isinstance(model, torch.jit.ScriptModule)
    forms = a.form or (["inlined", "frozen"] if is_module else ["inlined"])
    export(model, a.out, inputs, forms, a.method)
    for form in forms:
        print(os.path.join(a.out, FILES[form]))


if __name__ == "__main__":
    main()
