#!/usr/bin/env python3
"""Makes a few hundred bad files and runs the tool on each: every one ends in a located message and its exit code, with less
than 1 GB of memory and in less than 10 seconds.

    bad_input_test.py TOOL [--keep DIR] [--only TEXT]
"""
import argparse
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
MAX_BYTES, MAX_SECONDS = 10**9, 10

# Where a message points: a place in a text, a byte of a file, or the file.
LOCATED = r"^{file}:(\d+:\d+:|@\d+:)? error: "

BASE = """graph(%x : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu),
      %n : int):
  %one : int = prim::Constant[value=1]() # net.py:3:8
  %true : bool = prim::Constant[value=1]()
  %y : Tensor = prim::Loop(%n, %true, %x) # net.py:4:4
    block0(%i : int, %a : Tensor):
      %s : Tensor = aten::add(%a, %x, %one) # net.py:5:8
      %c : bool = aten::lt(%i, %one)
      %b : Tensor = prim::If(%c)
        block0():
          %r : Tensor = aten::relu(%s)
          -> (%r)
        block1():
          -> (%s)
      -> (%true, %b)
  %l : Tensor[] = prim::ListConstruct(%y, %x)
  %z : Tensor = aten::cat(%l, %one)
  return (%z)
"""


class Case:
    """A file, the command on it (FILE stands for it, DIR for its directory), and what has to come."""

    def __init__(self, name, data, code=3, message="", command=("parse", "FILE"), suffix=".ir", located=True, files=None):
        self.name, self.code, self.message, self.suffix = name, code, message, suffix
        self.data = data.encode() if isinstance(data, str) else data
        self.command, self.located, self.files = list(command), located, files or {}


def graph(body, inputs="%x : Tensor", result="%y"):
    return f"graph({inputs}):\n  {body}\n  return ({result})\n"


def texts():
    """Graph texts that are not: cut, damaged, or of another kind."""
    statement_ends = [m.start() for m in re.finditer(r"\n", BASE)][:-1]
    for i, at in enumerate(statement_ends):
        yield Case(f"cut_behind_line_{i + 1}", BASE[:at] + "\n")
    for i, at in enumerate(range(3, 330, 17)):
        yield Case(f"cut_at_{at}", BASE[:at])
    yield Case("empty", "", message="empty file")
    yield Case("blank", "\n  \n\t\n", message="no graph")
    yield Case("only_a_comment", "# net.py:1:1\n", message="no graph")
    yield Case("html", "<!DOCTYPE html>\n<html><body>404</body></html>\n")
    yield Case("json", '{"graph": [1, 2, 3]}\n')
    yield Case("lfs_pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n")
    yield Case("python", "import torch\n\nclass Net(torch.nn.Module):\n    pass\n")
    yield Case("zip", b"PK\x03\x04" + bytes(200))
    yield Case("pickle", b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nq\x00.")
    yield Case("gguf", b"GGUF\x03\0\0\0" + bytes(40))
    yield Case("onnx", b"\x08\x07\x12\x07pytorch\x1a\x052.0.0:\x80\x02")
    yield Case("safetensors_as_text", struct.pack("<Q", 2) + b"{}")
    yield Case("npy_as_text", b"\x93NUMPY\x01\x00v\x00{'descr': '<f4'}")
    yield Case("zeros", bytes(4096))
    yield Case("all_bytes", bytes(range(256)) * 4)
    yield Case("utf16", BASE.encode("utf-16"))
    yield Case("nul_inside", BASE.replace("%true", "%tr\0ue"))
    yield Case("control_bytes", BASE.replace("aten::add", "aten::\x1b[31madd"))
    yield Case("bad_utf8_outside_names", graph("%y : Tensor = aten::relu(%x) \xff\xfe".encode("latin-1").decode("latin-1")))
    rng = random.Random(7)
    for i in range(20):
        yield Case(f"noise_{i}", bytes(rng.getrandbits(8) for _ in range(rng.choice([1, 7, 100, 3000]))))
    words = re.findall(r"\S+", BASE)
    for i in range(12):
        rng.shuffle(words)
        yield Case(f"shuffled_{i}", " ".join(words) + "\n")


def syntax():
    """One mistake each."""
    node = "%y : Tensor = aten::relu(%x)"
    replaced = {
        "no_name": "% : Tensor = aten::relu(%x)",
        "no_type": "%y : = aten::relu(%x)",
        "no_equal": "%y : Tensor aten::relu(%x)",
        "no_kind": "%y : Tensor = (%x)",
        "no_parenthesis": "%y : Tensor = aten::relu %x)",
        "open_parenthesis": "%y : Tensor = aten::relu(%x",
        "extra_parenthesis": "%y : Tensor = aten::relu(%x))",
        "no_comma": "%y : Tensor = aten::add(%x %x)",
        "two_commas": "%y : Tensor = aten::add(%x,, %x)",
        "kind_without_namespace": "%y : Tensor = relu(%x)",
        "open_attributes": "%y : Tensor = prim::Constant[value=1()",
        "attribute_without_value": "%y : int = prim::Constant[value=]()",
        "attribute_without_name": "%y : int = prim::Constant[=1]()",
        "open_string": '%y : str = prim::Constant[value="abc]()',
        "bad_escape": '%y : str = prim::Constant[value="\\q"]()',
        "big_integer": "%y : int = prim::Constant[value=9223372036854775808]()",
        "big_float": "%y : float = prim::Constant[value=1e999]()",
        "two_points": "%y : float = prim::Constant[value=1.2.3]()",
        "hex": "%y : int = prim::Constant[value=0x]()",
        "minus_alone": "%y : int = prim::Constant[value=-]()",
        "open_list": "%y : int[] = prim::Constant[value=[1, 2]()",
        "open_tuple": "%y : (int, int) = prim::Constant[value=(1, 2]()",
        "open_type": "%y : Dict(str, int = aten::relu(%x)",
        "dict_of_one": "%y : Dict(str) = aten::relu(%x)",
        "unknown_parametric": "%y : Foo(int) = aten::relu(%x)",
        "bad_size": "%y : Float(2, three five) = aten::relu(%x)",
        "huge_size": "%y : Float(99999999999999999999) = aten::relu(%x)",
        "bad_stride": "%y : Float(2, strides=[x]) = aten::relu(%x)",
        "bad_device": "%y : Float(2, device=) = aten::relu(%x)",
        "block_without_node": "block0():\n    -> (%x)",
        "arrow_without_block": "-> (%x)",
        "brace_without_block": "}",
        "graph_inside": "graph(%z : Tensor):\n    return (%z)",
        "python_without_scalars": "%y : Tensor = ^F[](%x",
    }
    for name, text in replaced.items():
        yield Case("syntax_" + name, graph(text))
    yield Case("syntax_no_return", "graph(%x : Tensor):\n  " + node + "\n")
    yield Case("syntax_two_returns", graph(node) + "  return (%y)\n")
    yield Case("syntax_return_open", "graph(%x : Tensor):\n  return (%x\n")
    yield Case("syntax_no_colon", "graph(%x : Tensor)\n  return (%x)\n")
    yield Case("syntax_no_percent", "graph(x : Tensor):\n  return (x)\n")
    yield Case("syntax_second_block_missing_arrow", BASE.replace("          -> (%s)\n", ""))
    yield Case("syntax_subgraph_without_graph", graph(node) + "with prim::F_0 = nothing\n")
    yield Case("syntax_module_open", "module __torch__.Net {\n  parameters {\n  }\n")
    yield Case("syntax_module_stray", "module __torch__.Net {\n  method forward {\n  }\n}\n")
    yield Case("syntax_module_twice", "module A {\n}\nmodule B {\n}\n")
    yield Case("many_mistakes", "graph(%x : Tensor):\n" + "  %y : = aten::relu(\n" * 500 + "  return (%x)\n")


def names():
    run = ("run", "FILE", "--input", "0=2x3:f32:ones", "--input", "1=2")
    yield Case("undefined_input", graph("%y : Tensor = aten::relu(%w)"), message="%w")
    yield Case("undefined_result", graph("%y : Tensor = aten::relu(%x)", result="%z"), message="%z")
    yield Case("used_before_definition", graph("%y : Tensor = aten::relu(%z)\n  %z : Tensor = aten::relu(%x)"), message="%z")
    yield Case("used_outside_its_block", BASE.replace("cat(%l, %one)", "cat(%l, %i)"), message="%i", command=run)
    yield Case("used_in_the_other_branch", BASE.replace("-> (%s)\n", "-> (%r)\n"), message="%r", command=run)
    yield Case("misspelt", BASE.replace("prim::If(%c)", "prim::If(%ture)"), message="did you mean")


def types():
    """Read, but rejected by the verifier where the graph is to run."""
    run = ("run", "FILE", "--input", "0=2x3:f32:ones")
    verified = {
        "one_branch": "%t : bool = prim::Constant[value=1]()\n  %y : Tensor = prim::If(%t)\n    block0():\n      -> (%x)",
        "branches_differ": "%t : bool = prim::Constant[value=1]()\n  %y : Tensor = prim::If(%t)\n    block0():\n      -> (%x)\n    block1():\n      -> ()",
        "loop_without_condition": "%n : int = prim::Constant[value=1]()\n  %y : Tensor = prim::Loop(%n)\n    block0(%i : int):\n      -> ()",
        "loop_arity": "%n : int = prim::Constant[value=1]()\n  %t : bool = prim::Constant[value=1]()\n  %y : Tensor = prim::Loop(%n, %t, %x)\n    block0(%i : int):\n      -> (%t)",
        "loop_trip_is_a_float": "%n : float = prim::Constant[value=1.]()\n  %t : bool = prim::Constant[value=1]()\n  %y : Tensor = prim::Loop(%n, %t, %x)\n    block0(%i : int, %a : Tensor):\n      -> (%t, %a)",
        "unpack_arity": "%l : (Tensor, Tensor) = prim::TupleConstruct(%x, %x)\n  %y : Tensor, %z : Tensor, %w : Tensor = prim::TupleUnpack(%l)",
        "list_of_wrong": "%n : int = prim::Constant[value=1]()\n  %y : Tensor[] = prim::ListConstruct(%n)",
        "outputs_of_relu": "%y : Tensor, %z : Tensor = aten::relu(%x)",
        "type_of_size": "%n : int = prim::Constant[value=1]()\n  %y : str = aten::size(%x, %n)",
    }
    for name, body in verified.items():
        yield Case("verify_" + name, graph(body), command=run)
    yield Case("no_overload", graph('%s : str = prim::Constant[value="a"]()\n  %y : Tensor = aten::relu(%s)'), code=4, message="no overload", command=run)
    yield Case("unknown_operator", graph("%y : Tensor = aten::reluu(%x)"), code=4, message="did you mean aten::relu", command=run)
    yield Case("unknown_namespace", graph("%y : Tensor = my::op(%x)"), code=4, command=run)
    yield Case("python_operator", graph("%y : Tensor = ^MyFunction()(%x)"), code=4, message="MyFunction", command=run)
    yield Case("missing_method", graph('%y : Tensor = prim::CallMethod[name="forward"](%m, %x)', "%m : __torch__.Net, %x : Tensor"), code=4,
               message="export_torchscript.py", command=run)
    yield Case("missing_constant", graph("%w : Float(2, 3) = prim::Constant[value=<Tensor>]()\n  %y : Tensor = aten::mul(%x, %w)"),
               message="'w'", command=run)
    yield Case("missing_weight", graph('%w : Tensor = prim::GetAttr[name="weight"](%m)\n  %y : Tensor = aten::mul(%x, %w)', "%m : __torch__.Net, %x : Tensor"),
               message="weight 'weight'", command=run)


def runs():
    """Valid graphs that fail, or ask for too much, when they run."""
    def case(name, body, code=8, message="", result="%y", options=(), x="2x3:f32:ones"):
        prelude = ("%none : NoneType = prim::Constant()\n  %false : bool = prim::Constant[value=0]()\n  %true : bool = prim::Constant[value=1]()\n"
                   "  %m1 : int = prim::Constant[value=-1]()\n  %0 : int = prim::Constant[value=0]()\n  %1 : int = prim::Constant[value=1]()\n"
                   "  %5 : int = prim::Constant[value=5]()\n  %big : int = prim::Constant[value=4611686018427387904]()\n"
                   "  %1e9 : int = prim::Constant[value=1000000000]()\n  ".replace("%0 ", "%c0 ").replace("%1 ", "%c1 ").replace("%5 ", "%c5 "))
        return Case("run_" + name, graph(prelude + body, result=result), code=code, message=message,
                    command=("run", "FILE", "--input", "x=" + x, "--limit-mem", "256M", *options))

    def with_list(items, rest):
        return f"%l : int[] = prim::ListConstruct({', '.join(items)})\n  {rest}"

    yield case("product_overflows", with_list(["%big", "%big"], "%y : Tensor = aten::zeros(%l, %none, %none, %none, %none)"), code=6)
    yield case("product_is_huge", with_list(["%1e9", "%1e9"], "%y : Tensor = aten::zeros(%l, %none, %none, %none, %none)"), code=None)
    yield case("too_much_memory", with_list(["%1e9"], "%y : Tensor = aten::zeros(%l, %none, %none, %none, %none)"), code=6, message="memory")
    yield case("negative_size", with_list(["%m1"], "%y : Tensor = aten::zeros(%l, %none, %none, %none, %none)"))
    yield case("huge_repeat", with_list(["%1e9", "%1e9"], "%y : Tensor = aten::repeat(%x, %l)"), code=None)
    yield case("huge_arange", "%y : Tensor = aten::arange(%big, %none, %none, %none, %none)", code=None)
    yield case("huge_eye", "%y : Tensor = aten::eye(%1e9, %none, %none, %none, %none)", code=None)
    yield case("huge_expand_made_dense", with_list(["%1e9", "%c1", "%c1"], "%e : Tensor = aten::expand(%x, %l2, %false)\n  %y : Tensor = aten::contiguous(%e, %c0)")
               .replace("%l2", "%l").replace("%x, %l", "%x, %l"), code=None)
    yield case("view_outside_storage", with_list(["%c5", "%c5"], "%y : Tensor = aten::as_strided(%x, %l, %l, %none)"), message="storage")
    yield case("view_with_huge_stride", with_list(["%big", "%c1"], "%l2 : int[] = prim::ListConstruct(%c1, %big)\n  %y : Tensor = aten::as_strided(%x, %l2, %l, %none)"), code=None)
    yield case("view_negative_offset", with_list(["%c1", "%c1"], "%y : Tensor = aten::as_strided(%x, %l, %l, %m1)"))
    yield case("view_of_other_size", with_list(["%c5"], "%y : Tensor = aten::view(%x, %l)"), message="size")
    yield case("reshape_two_unknown", with_list(["%m1", "%m1"], "%y : Tensor = aten::reshape(%x, %l)"))
    yield case("select_out_of_range", "%y : Tensor = aten::select(%x, %c0, %c5)", message="range")
    yield case("dim_out_of_range", "%y : Tensor = aten::select(%x, %c5, %c0)")
    yield case("gather_out_of_range", "%i : Tensor = aten::full_like(%x, %c5, %c4, %none, %none, %none, %none)\n  %y : Tensor = aten::gather(%x, %c1, %i, %false)".replace("%c4", "%four")
               .replace("%i : Tensor", "%four : int = prim::Constant[value=4]()\n  %i : Tensor"), message="out of")
    yield case("embedding_out_of_range", "%four : int = prim::Constant[value=4]()\n  %i : Tensor = aten::full_like(%x, %c5, %four, %none, %none, %none, %none)\n"
               "  %y : Tensor = aten::embedding(%x, %i, %m1, %false, %false)")
    yield case("index_out_of_range", "%i : Tensor = aten::arange(%c5, %none, %none, %none, %none)\n  %li : Tensor[] = prim::ListConstruct(%i)\n  %y : Tensor = aten::index(%x, %li)")
    yield case("shapes_do_not_fit", "%t : Tensor = aten::t(%x)\n  %y : Tensor = aten::add(%x, %t, %c1)", message="size")
    yield case("matmul_does_not_fit", "%y : Tensor = aten::matmul(%x, %x)")
    yield case("conv_does_not_fit", with_list(["%c1", "%c1"], "%y : Tensor = aten::conv2d(%x, %x, %none, %l, %l, %l, %c1)"))
    yield case("integer_division_by_zero", "%y : int = aten::floordiv(%c5, %c0)", message="zero")
    yield case("integer_modulo_by_zero", "%y : int = aten::remainder(%c5, %c0)", message="zero")
    yield case("list_index", "%l : int[] = prim::ListConstruct(%c1)\n  %y : int = aten::__getitem__(%l, %c5)", message="range")
    yield case("list_pop_empty", "%l : int[] = prim::ListConstruct()\n  %y : int = aten::pop(%l, %m1)")
    yield case("dict_key", '%d : Dict(int, int) = prim::DictConstruct(%c1, %c1)\n  %y : int = aten::__getitem__(%d, %c5)')
    yield case("raised", '%m : str = prim::Constant[value="no cats"]()\n  %cls : str = prim::Constant[value="builtins.ValueError"]()\n'
               '  = prim::RaiseException(%m, %cls)\n  %y : Tensor = aten::relu(%x)', message="no cats")
    yield case("raised_old", '%m : str = prim::Constant[value="no cats"]()\n  = prim::RaiseException(%m)\n  %y : Tensor = aten::relu(%x)', message="no cats")
    yield case("item_of_many", "%y : Scalar = aten::item(%x)")
    yield case("bool_of_many", "%y : bool = aten::Bool(%x)")
    yield case("unpack_of_other_length", "%l : Tensor[] = prim::ListConstruct(%x)\n  %y : Tensor, %z : Tensor = prim::ListUnpack(%l)")
    yield case("str_to_int", '%s : str = prim::Constant[value="12x"]()\n  %y : int = aten::int(%s)'.replace("aten::int", "aten::Int"))
    endless = ("%max : int = prim::Constant[value=9223372036854775807]()\n  %y : Tensor = prim::Loop(%max, %true, %x)\n"
               "    block0(%i : int, %a : Tensor):\n      {}\n      -> (%true, %{})")
    yield case("endless_loop", endless.format("%q : int = aten::add(%i, %c1)", "a"), code=6, message="time", options=("--limit-time", "300ms"))
    yield case("endless_operators", endless.format("%b : Tensor = aten::add(%a, %x, %c1)", "b"), code=6, message="time", options=("--limit-time", "300ms"))
    yield case("growing_tensor", endless.format("%l : Tensor[] = prim::ListConstruct(%a, %a)\n      %b : Tensor = aten::cat(%l, %c0)", "b"), code=6, message="memory",
               options=("--limit-time", "9s"))
    # A sanitizer makes these so slow that they reach the limit of time first.
    patience = "60s" if os.environ.get("TSCOMPILE_SANITIZED") else "9s"
    yield case("growing_list", "%l : int[] = prim::ListConstruct()\n  %max : int = prim::Constant[value=9223372036854775807]()\n   = prim::Loop(%max, %true)\n"
               "    block0(%i : int):\n      %k : int[] = aten::append(%l, %i)\n      -> (%true)\n  %y : int = aten::len(%l)", code=6, options=("--limit-time", patience))
    yield case("growing_string", '%s : str = prim::Constant[value="ab"]()\n  %max : int = prim::Constant[value=9223372036854775807]()\n  %y : str = prim::Loop(%max, %true, %s)\n'
               "    block0(%i : int, %a : str):\n      %b : str = aten::add(%a, %a)\n      -> (%true, %b)", code=6, options=("--limit-time", patience))
    yield case("list_times_huge", "%l : int[] = prim::ListConstruct(%c1)\n  %y : int[] = aten::mul(%l, %1e9)", code=6)
    yield case("wrong_dtype", "%y : Tensor = aten::bitwise_not(%x)", code=8)
    yield case("inverse_of_wide", "%y : Tensor = aten::inverse(%x)")


def arguments():
    """Command lines at fault: exit 2, or 3 for what a file holds."""
    for i, value in enumerate(["", "x", "x=", "y=1", "=1", "7=1", "x=[1", "x=2x3:f33:ones", "x=2x3:f32", "x=2x-3:f32:ones", "x=2x3:f32:onez",
                               "x=1e999", "x=99999999999999999999", "x=2x3:f32=[1 2; 3 4]", 'x="abc', "x=(1", "x={1: }", "x=1x1x1:f32:randn(seed=)",
                               "x=9999999999x9999999999:f32:ones", "x=99999999999:f32:ones", "x=2x3:i8:randint(0,1000)"]):
        yield Case(f"argument_{i}", graph("%y : Tensor = aten::relu(%x)"), code=None, command=("run", "FILE", "--input", value), located=False)
    yield Case("argument_missing", graph("%y : Tensor = aten::relu(%x)"), code=2, message="x", command=("run", "FILE"), located=False)
    yield Case("argument_twice", graph("%y : Tensor = aten::relu(%x)"), code=2, command=("run", "FILE", "--input", "x=2:f32:ones", "--input", "0=2:f32:ones"), located=False)
    yield Case("argument_of_wrong_type", graph("%y : int = aten::neg(%x)", "%x : int"), code=2, command=("run", "FILE", "--input", "x=2:f32:ones"), located=False)
    yield Case("no_such_file", graph("%y : Tensor = aten::relu(%x)"), code=5, command=("run", "FILE.not", "--input", "x=1"), located=False)
    yield Case("no_such_input_file", graph("%y : Tensor = aten::relu(%x)"), code=5, command=("run", "FILE", "--input", "x=@DIR/none.npy"), located=False)
    yield Case("no_such_option", graph("%y : Tensor = aten::relu(%x)"), code=2, command=("run", "FILE", "--imput", "x=1"), located=False)


def npy(header, data=b"", version=1, magic=b"\x93NUMPY"):
    header = header.encode() if isinstance(header, str) else header
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return magic + bytes([version, 0]) + length + header + data


def arrays():
    good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"
    whole = npy(good, bytes(24))
    files = {
        "magic": npy(good, bytes(24), magic=b"\x93NUMPX"),
        "version_9": npy(good, bytes(24), version=9),
        "no_data": npy(good),
        "short_data": npy(good, bytes(23)),
        "long_data": npy(good, bytes(25)),
        "not_a_dict": npy("[1, 2]\n", bytes(24)),
        "open_dict": npy("{'descr': '<f4', 'shape': (2, 3)\n", bytes(24)),
        "no_shape": npy("{'descr': '<f4', 'fortran_order': False, }\n", bytes(24)),
        "key_twice": npy("{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }\n", bytes(24)),
        "unknown_key": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'exec': 1, }\n", bytes(24)),
        "negative_shape": npy(good.replace("2, 3", "-2, 3"), bytes(24)),
        "huge_shape": npy(good.replace("2, 3", "4611686018427387904, 4"), bytes(24)),
        "overflowing_shape": npy(good.replace("2, 3", "4294967296, 4294967296, 2"), bytes(24)),
        "number_too_long": npy(good.replace("2, 3", "9" * 400), bytes(24)),
        "float_shape": npy(good.replace("2, 3", "2.0, 3"), bytes(24)),
        "object": npy(good.replace("<f4", "|O"), bytes(48)),
        "structured": npy(good.replace("'<f4'", "[('a', '<f4')]"), bytes(24)),
        "unicode": npy(good.replace("<f4", "<U8"), bytes(192)),
        "void": npy(good.replace("<f4", "|V4"), bytes(24)),
        "header_longer_than_file": whole[:8] + struct.pack("<H", 60000) + whole[10:],
        "huge_header": whole[:6] + b"\x02\x00" + struct.pack("<I", 0xFFFFFFFF) + whole[10:],
        "deep_header": npy("(" * 50000, bytes(24)),
        "empty": b"",
    }
    for at in (1, 5, 6, 7, 9, 12, 40, 70):
        files[f"cut_at_{at}"] = whole[:at]
    relu = graph("%y : Tensor = aten::relu(%x)").encode()
    for name, data in files.items():
        unsupported = name in ("version_9", "object", "structured", "unicode", "void")
        too_large = name in ("huge_shape", "overflowing_shape", "number_too_long")
        yield Case("npy_" + name, data, code=4 if unsupported else 6 if too_large else 3, suffix=".npy", command=("run", "DIR/relu.ir", "--input", "x=@FILE"), files={"relu.ir": relu})


def archives():
    relu = graph("%y : Tensor = aten::relu(%x)").encode()

    def make(*members, compression=zipfile.ZIP_STORED):
        path = tempfile.mktemp()
        with zipfile.ZipFile(path, "w", compression) as z:
            for name, data in members:
                z.writestr(name, data)
        with open(path, "rb") as f:
            data = f.read()
        os.remove(path)
        return data

    whole = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", bytes(24))
    good = make(("a.npy", whole))
    at = good.rindex(b"PK\x05\x06")
    files = {
        "other_member": (make(("b.npy", whole)), "#a"),
        "no_member_named": (make(("a.npy", whole), ("b.npy", whole)), ""),
        "not_npy": (make(("a.npy", b"hello")), "#a"),
        "no_directory": (good[:at], "#a"),
        "directory_outside": (good[:at + 16] + struct.pack("<I", 0xFFFFFFF0) + good[at + 20:], "#a"),
        "half": (good[:len(good) // 2], "#a"),
        "wrong_local_header": (b"XX" + good[2:], "#a"),
        "wrong_sum": (good.replace(bytes(24), b"\1" + bytes(23), 1), "#a"),
        "only_end": (good[at:], "#a"),
    }
    for name, (data, member) in files.items():
        yield Case("npz_" + name, data, code=3, suffix=".npz",
                   command=("run", "DIR/relu.ir", "--input", "x=@FILE" + member), files={"relu.ir": relu})


def safetensors(header, data=b"", length=None):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def weights():
    def t(dtype="F32", shape=(2, 3), offsets=(0, 24), **more):
        return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}

    good = safetensors({"weight": t()}, bytes(24))
    files = {
        "empty": b"",
        "seven_bytes": bytes(7),
        "length_zero": safetensors(b""),
        "length_huge": safetensors({"weight": t()}, bytes(24), 1 << 62),
        "length_behind_end": safetensors({"weight": t()}, bytes(24), 10000),
        "not_json": safetensors(b"hello world"),
        "json_list": safetensors(b"[1, 2]"),
        "json_open": safetensors(b'{"weight": {"dtype": "F32"'),
        "json_deep": safetensors(b'{"a":' * 20000 + b"1" + b"}" * 20000),
        "json_not_utf8": safetensors(b'{"we\xffight": {}}'),
        "json_trailing": safetensors(b'{}{}'),
        "no_dtype": safetensors({"weight": {"shape": [2, 3], "data_offsets": [0, 24]}}, bytes(24)),
        "no_offsets": safetensors({"weight": {"dtype": "F32", "shape": [2, 3]}}, bytes(24)),
        "dtype_unknown": safetensors({"weight": t("Q4_K")}, bytes(24)),
        "dtype_number": safetensors({"weight": t(3)}, bytes(24)),
        "shape_negative": safetensors({"weight": t(shape=(-2, 3))}, bytes(24)),
        "shape_float": safetensors({"weight": t(shape=(2.5, 3))}, bytes(24)),
        "shape_overflows": safetensors({"weight": t(shape=(1 << 32, 1 << 32))}, bytes(24)),
        "shape_huge_number": safetensors(b'{"weight": {"dtype": "F32", "shape": [99999999999999999999], "data_offsets": [0, 24]}}', bytes(24)),
        "shape_does_not_fit": safetensors({"weight": t(shape=(3, 3))}, bytes(24)),
        "offsets_behind_end": safetensors({"weight": t(offsets=(0, 48), shape=(4, 3))}, bytes(24)),
        "offsets_reversed": safetensors({"weight": t(offsets=(24, 0))}, bytes(24)),
        "offsets_three": safetensors({"weight": t(offsets=(0, 12, 24))}, bytes(24)),
        "offsets_negative": safetensors({"weight": t(offsets=(-24, 0))}, bytes(24)),
        "overlap": safetensors({"weight": t(), "b": t(offsets=(12, 36))}, bytes(36)),
        "hole": safetensors({"weight": t(), "b": t(offsets=(28, 52))}, bytes(52)),
        "trailing_bytes": safetensors({"weight": t()}, bytes(32)),
        "key_twice": safetensors(b'{"weight": {"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}, "weight": {"dtype":"F32","shape":[2,3],"data_offsets":[24,48]}}', bytes(48)),
        "metadata_number": safetensors({"__metadata__": {"a": 1}, "weight": t()}, bytes(24)),
        "zip": b"PK\x03\x04" + bytes(100),
        "pickle": b"\x80\x02}q\x00.",
        "html": b"<!DOCTYPE html><html></html>",
        "lfs": b"version https://git-lfs.github.com/spec/v1\n",
        "recipe_bad": b"weight = 2x3:f32:randn(seed=1\n",
        "recipe_twice": b"weight = 2x3:f32:ones\nweight = 2x3:f32:ones\n",
        "recipe_huge": b"weight = 999999999x999:f32:ones\n",
    }
    for at in (3, 8, 20, len(good) - 1):
        files[f"cut_at_{at}"] = good[:at]
    text = graph('%w : Tensor = prim::GetAttr[name="weight"](%m)\n  %y : Tensor = aten::mul(%x, %w)', "%m : __torch__.Net, %x : Tensor").encode()
    for name, data in files.items():
        suffix = ".weights" if name.startswith("recipe") else ".safetensors"
        code = 6 if name in ("recipe_huge", "shape_overflows") else 4 if name == "dtype_unknown" else 3
        yield Case("weights_" + name, data, suffix=suffix, code=code, command=("run", "DIR/mul.ir", "--weights", "FILE", "--input", "x=2x3:f32:ones"),
                   files={"mul.ir": text})
    yield Case("weights_key_in_two_files", good, suffix=".safetensors", message="weight",
               command=("run", "DIR/mul.ir", "--weights", "FILE", "--weights", "DIR/again.safetensors", "--input", "x=2x3:f32:ones"),
               files={"mul.ir": text, "again.safetensors": good}, located=False)


def limits():
    """Each bound at its value and one beyond."""
    def at_and_beyond(name, text_of, least=2, code=6, command=("parse", "FILE")):
        for n in (least, least + 1):
            yield Case(f"limit_{name}_{n - least}", text_of(n), code=0 if n == least else code, message="" if n == least else "limit", located=n != least,
                       command=(*command, "--limit", f"{name}={least}", "-q"))

    def chain(n):
        return graph("\n  ".join(f"%v{i} : Tensor = aten::relu(%x)" for i in range(n - 1)) + "\n  %y : Tensor = aten::relu(%x)")

    yield from at_and_beyond("nodes", chain, 5)
    yield from at_and_beyond("values", lambda n: chain(n - 1), 6)
    yield from at_and_beyond("identifier", lambda n: graph(f"%{'v' * n} : Tensor = aten::relu(%x)", result="%" + "v" * n), 40)
    yield from at_and_beyond("string", lambda n: graph(f'%y : str = prim::Constant[value="{"s" * n}"]()'), 50)
    yield from at_and_beyond("number", lambda n: graph(f"%y : float = prim::Constant[value=0.{'1' * (n - 2)}]()"), 40)
    yield from at_and_beyond("list", lambda n: graph(f"%y : int[] = prim::Constant[value=[{', '.join(['1'] * n)}]]()"), 30)
    yield from at_and_beyond("arguments", lambda n: graph(f"%y : Tensor[] = prim::ListConstruct({', '.join(['%x'] * n)})"), 30)
    yield from at_and_beyond("type-depth", lambda n: graph(f"%y : int{'[]' * (n - 1)} = prim::ListConstruct()"), 9)
    nested = lambda n: "graph(%c : bool, %x : Tensor):\n" + "".join(f"%r{i} : Tensor = prim::If(%c)\nblock0():\n" for i in range(n)) + \
        "".join(f"-> ({'%x' if i == n - 1 else f'%r{i + 1}'})\nblock1():\n-> (%x)\n" for i in reversed(range(n))) + "return (%r0)\n"
    yield from at_and_beyond("blocks", nested, 20)
    text = graph("%y : Tensor = aten::relu(%x)")
    for extra in (0, 1):
        yield Case(f"limit_text_{extra}", text + "\n" * extra, code=6 if extra else 0, command=("parse", "FILE", "--limit", f"text={len(text)}"), located=False,
                   message="limit" if extra else "")
        yield Case(f"limit_print_{extra}", text, code=6 if extra else 0, command=("parse", "FILE", "--limit", f"print={len(text) - extra}"), located=False,
                   message="limit" if extra else "")
    two = safetensors({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "b": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, bytes(8))
    header = struct.unpack("<Q", two[:8])[0]
    array = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", bytes(24))
    for extra in (0, 1):
        more = dict(code=6 if extra else 0, message="limit" if extra else "", located=bool(extra), suffix=".safetensors")
        yield Case(f"limit_tensors_{extra}", two, command=("inspect", "FILE", "--limit", f"tensors={2 - extra}"), **more)
        yield Case(f"limit_header_{extra}", two, command=("inspect", "FILE", "--limit", f"header={header - extra}"), **more)
        more["suffix"] = ".npy"
        yield Case(f"limit_npy-header_{extra}", array, command=("inspect", "FILE", "--limit", f"npy-header={struct.unpack('<H', array[8:10])[0] - extra}"), **more)


def giants():
    yield Case("line_of_100_MB", b"graph(%x : Tensor):\n  %y : Tensor = aten::relu(" + b"%x, " * 25_000_000 + b"%x)\n  return (%y)\n", code=6)
    yield Case("name_of_100_MB", b"graph(%" + b"x" * 100_000_000 + b" : Tensor):\n  return (%x)\n", code=6)
    yield Case("blanks_of_100_MB", b" " * 100_000_000 + b"\n")
    yield Case("garbage_of_100_MB", b"\x01" * 100_000_000)
    yield Case("open_brackets", b"graph(%x : " + b"(" * 1_000_000 + b"\n", code=6)
    yield Case("open_lists", b"graph(%x : Tensor):\n  %y : int[] = prim::Constant[value=" + b"[" * 1_000_000 + b"]()\n  return (%y)\n", code=6)
    yield Case("blocks_beyond_limit", "graph(%c : bool):\n" + "%r : int = prim::If(%c)\nblock0():\n" * 1_100_000, code=6)


def all_cases():
    for family in (texts, syntax, names, types, runs, arguments, arrays, archives, weights, limits, giants):
        yield from family()


def run(tool, case, directory):
    path = os.path.join(directory, case.name + case.suffix)
    for name, data in {os.path.basename(path): case.data, **case.files}.items():
        with open(os.path.join(directory, name), "wb") as f:
            f.write(data)
    command = [tool] + [a.replace("FILE", path).replace("DIR", directory) for a in case.command]
    errors = open(os.path.join(directory, "stderr"), "w+b")
    start = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)
    problem, usage = None, None
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        if time.monotonic() - start > MAX_SECONDS * 6:
            process.kill()
            os.wait4(process.pid, 0)
            return "does not end"
        time.sleep(0.002)
    process.returncode = code = os.waitstatus_to_exitcode(status)
    seconds = usage.ru_utime + usage.ru_stime  # of this process alone: the machine may be busy
    errors.seek(0)
    text = errors.read().decode(errors="replace")
    errors.close()
    if os.path.getsize(path) > 1_000_000:
        os.remove(path)
    if code < 0:
        return f"died of {signal.Signals(-code).name}: {text[:500]}"
    if case.code is None and code not in (2, 3, 6, 8) or case.code is not None and code != case.code:
        return f"exit {code}, expected {case.code}: {text[:500]}"
    if code and "error: " not in text:
        problem = f"no error: {text[:500]}"
    where = path if case.suffix in (".ir", ".npy", ".npz", ".safetensors", ".weights") else ""
    if code and case.located and not re.search(LOCATED.format(file=re.escape(where)), text, re.M):
        problem = f"no place in the message: {text[:500]}"
    if code and case.message and case.message not in text:
        problem = f"the message has no '{case.message}': {text[:500]}"
    if re.search(r"[\x00-\x08\x0b-\x1f]", text):
        problem = f"control bytes in the message: {text[:200]!r}"
    if len(text) > 200_000:
        problem = f"a message of {len(text)} bytes"
    # The sanitizers multiply both.
    if usage.ru_maxrss * 1024 > MAX_BYTES and not os.environ.get("TSCOMPILE_SANITIZED"):
        problem = f"{usage.ru_maxrss // 1024} MiB of memory"
    if seconds > MAX_SECONDS and not os.environ.get("TSCOMPILE_SANITIZED"):
        problem = f"{seconds:.1f} s"
    return problem


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--keep", metavar="DIR", help="write the files there and leave them")
    parser.add_argument("--only", default="", metavar="TEXT")
    a = parser.parse_args()
    count = failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        directory = a.keep or temporary
        os.makedirs(directory, exist_ok=True)
        for case in all_cases():
            if a.only not in case.name:
                continue
            count += 1
            problem = run(os.path.abspath(a.tool), case, directory)
            if problem:
                failed += 1
                print(f"{case.name}: {problem}\n", flush=True)
    print(f"{count} files, {failed} failed")
    return 1 if failed or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
