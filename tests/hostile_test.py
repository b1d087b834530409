#!/usr/bin/env python3
"""Texts and engine files that are wrong in ways that no parser sees, through every command that takes them: each ends with an exit
code of 0 to 8 and words, within its limits of memory and time.

    hostile_test.py TOOL [--count N] [--seed S] [--only KIND] [--keep FOLDER] [--calls tool_calls]

Kinds: nodes (prim:: nodes of any arity, blocks and attributes), arguments (operators of the tool's own list with values of any
kind behind unchecked_cast), sharing (built-in plugins whose inputs share memory with what they write), engines (engine files
changed at random, checksums made again). What fails stays in FOLDER. With --calls one process takes thousands of calls, at a
twentieth of the cost; of memory the process's peak is told then, and of time only what hangs.
"""
import argparse
import json
import os
import random
import re
import resource
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
from tool_calls import Tool

MAX_BYTES, MAX_SECONDS = 10**9, 10
LIMITS = ["--limit-mem", "256M", "--limit-time", "3s"]
INPUTS = ["-i", "x=2x3:f32=[1 2 3; 4 5 6]", "-i", "n=3", "-i", "c=true", "-i", "f=0.5", "-i", 's="abc"']
HEADER = "graph(%x : Tensor, %n : int, %c : bool, %f : float, %s : str):\n"
COMMANDS = ["run", "interpret", "lint", "lower", "partition", "explain", "compile", "verify"]

PRIM_KINDS = """Constant If Loop ListConstruct ListUnpack TupleConstruct TupleUnpack TupleIndex TupleSlice DictConstruct GetAttr
SetAttr CallMethod CallFunction CreateObject Enter Exit EnumName EnumValue isinstance unchecked_cast unchecked_unwrap_optional
Uninitialized RaiseException Print profile ConstantChunk tolist awaitable_wait awaitable_nowait awaitable NumToTensor
ImplicitTensorToNum device dtype shape is_cuda layout requires_grad grad data min max abs rangelist Return Param PythonOp
FusionGroup DifferentiableGraph fork BroadcastSizes AutogradZero Guard TypeCheck BailOut Drop MMTreeReduce StringIndex id
ConstantMKLDNNTensor ModuleContainerIndex CudaFusionGroup Store Load Closure LocalVariableScope interface_call""".split()
TYPES = ["Tensor", "int", "float", "bool", "str", "Tensor[]", "int[]", "float[]", "(Tensor, int)", "Dict(str, Tensor)", "NoneType",
         "Any", "Any[]", "Tensor?", "int?", "Device", "Float(2, 3)", "Long(2)", "Future(Tensor)", "complex", "Generator", "number"]
ATTRIBUTES = ["value=1", "value=-1", 'value="a"', "value=1.5", "value={1}", "value=[1, 2]", "value=<Tensor>", 'name="w"', "name=3", "dim=0",
              "chunks=-1", "inplace=1", "value=annotate(List[int], [])", "beg=0", "types=[int]", "value=9223372036854775807"]


class Values:
    """The values of a text that are in sight, and the text so far."""

    def __init__(self, rng):
        self.rng, self.lines, self.count = rng, [], 0
        self.names = ["%x", "%n", "%c", "%f", "%s"]

    def any(self):
        return self.rng.choice(self.names)

    def add(self, kind, inputs, type_, attributes="", indent=1):
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append("  " * indent + f"{name} : {type_} = {kind}{attributes}({', '.join(inputs)})")
        self.names.append(name)
        return name

    def wrong(self):
        """A value of any kind, that holds itself at times."""
        kind = self.rng.randrange(9)
        if kind == 0:
            return self.add("prim::Constant", [], self.rng.choice(TYPES))
        if kind == 1:
            return self.add("prim::ListConstruct", [self.any() for _ in range(self.rng.randrange(3))], self.rng.choice(["Any[]", "Tensor[]", "int[]"]))
        if kind == 2:
            return self.add("prim::TupleConstruct", [self.any(), self.any()], self.rng.choice(["Any", "(Tensor, Tensor)"]))
        if kind == 3:
            return self.add("prim::DictConstruct", [self.any(), self.any()], "Dict(str, Tensor)")
        if kind == 4:
            return self.add("prim::Uninitialized", [], self.rng.choice(TYPES))
        if kind == 5:
            shape = self.rng.choice(["[0]", "[]", "[1000000000000, 0]", "[2, 3]", "[1, 1, 1, 1, 1]", "[-1]"])
            sizes = self.add("prim::Constant", [], "int[]", f"[value={shape}]")
            none = self.add("prim::Constant", [], "NoneType")
            return self.add("aten::zeros", [sizes, none, none, none, none], "Tensor")
        if kind == 6:
            held = self.add("prim::ListConstruct", [], "Any[]")
            self.lines.append(f"  %k{self.count} : Any[] = aten::append({held}, {held})")
            return held
        if kind == 7:
            return self.add("prim::Constant", [], "int", f"[value={self.rng.choice(['-9223372036854775808', '9223372036854775807', '0', '-1', '64'])}]")
        return self.any()

    def cast(self, type_):
        return self.add("prim::unchecked_cast", [self.wrong()], type_)

    def text(self):
        returned = [self.names[-1], self.any()][: self.rng.randrange(1, 3)]
        return HEADER + "\n".join(self.lines) + f"\n  return ({', '.join(returned)})\n"


def node_text(rng):
    v = Values(rng)
    for _ in range(rng.randrange(1, 9)):
        if rng.random() < 0.3:
            v.cast(rng.choice(TYPES))
            continue
        kind = "prim::" + rng.choice(PRIM_KINDS)
        outputs = rng.choice([0, 1, 1, 1, 2, 3])
        inputs = [v.any() for _ in range(rng.randrange(4))]
        names = [f"%o{v.count}_{i}" for i in range(outputs)]
        shown = ", ".join(f"{n} : {rng.choice(TYPES)}" for n in names)
        attributes = f"[{rng.choice(ATTRIBUTES)}]" if rng.random() < 0.4 else ""
        v.lines.append(f"  {shown} = {kind}{attributes}({', '.join(inputs)})")
        for b in range(rng.choice([0, 0, 0, 1, 2, 3])):
            parameters = ", ".join(f"%p{v.count}_{b}_{i} : {rng.choice(TYPES)}" for i in range(rng.randrange(3)))
            v.lines.append(f"    block{b}({parameters}):")
            v.lines.append(f"      %i{v.count}_{b} : {rng.choice(TYPES)} = prim::{rng.choice(PRIM_KINDS)}({v.any()})")
            v.lines.append(f"      -> ({', '.join(rng.choice([v.any(), f'%i{v.count}_{b}']) for _ in range(rng.randrange(3)))})")
        v.names += names
        v.count += 1
    return v.text()


def split_arguments(schema):
    """The types of a schema's arguments, and how many results it has."""
    inside = schema[schema.index("(") + 1 : schema.index(") -> ")]
    depth, words, word = 0, [], ""
    for letter in inside + ",":
        depth += letter in "([" and 1 or letter in ")]" and -1 or 0
        if letter == "," and depth == 0:
            words.append(word.strip())
            word = ""
        else:
            word += letter
    results = schema[schema.index(") -> ") + 5 :]
    return [w.split(" ")[0].split("(")[0] for w in words if w and w != "*"], results.count(",") + 1 if results.startswith("(") else 1


def argument_text(rng, schemas):
    v = Values(rng)
    for _ in range(rng.randrange(1, 4)):
        schema = rng.choice(schemas)
        types, results = split_arguments(schema)
        inputs = []
        for type_ in types:
            if rng.random() < 0.35:
                inputs.append(v.cast(re.sub(r"\[\d+\]", "[]", type_) if "." not in type_ else "Any"))
            elif type_.startswith("Tensor[]"):
                inputs.append(v.add("prim::ListConstruct", ["%x", "%x"], "Tensor[]"))
            elif type_.startswith("int["):
                inputs.append(v.add("prim::ListConstruct", ["%n"], "int[]"))
            else:
                proper = {"Tensor": "%x", "int": "%n", "bool": "%c", "float": "%f", "str": "%s", "Scalar": "%f"}
                name = type_.rstrip("?")
                inputs.append(proper[name] if name in proper else v.add("prim::Constant", [], "NoneType"))
        for _ in range(rng.random() < 0.15):
            inputs = inputs[:-1] if rng.random() < 0.5 else inputs + [v.any()]
        v.count += 1
        names = [f"%r{v.count}_{i}" for i in range(results)]
        v.lines.append(f"  {', '.join(n + ' : Tensor' for n in names)} = {schema[:schema.index('(')].split('.')[0]}({', '.join(inputs)})")
        v.names += names
    return v.text()


# The integer inputs of a GPTAttention that writes its pool, with sizes and values that are right.
ATTENTION_INPUTS = {"kv_cache_block_offsets": ([2, 2, 1], "[0; 1;; 2; 3]"), "sequence_length": ([2], "[3 3]"),
                    "host_past_key_value_lengths": ([2], "[2 2]"), "context_lengths": ([2], "[1 1]"), "host_request_types": ([2], "[1 1]"),
                    "cache_indirection": ([1, 2, 4], "[0 0 0 0; 1 1 1 1]"), "host_max_attention_window_sizes": ([1], "[4]"),
                    "host_sink_token_length": ([1], "[0]")}


def shared_case(rng):
    """Some of the numbers that choose places in the pool lie in the pool."""
    names = list(ATTENTION_INPUTS)[: rng.choice([5, 6, 6, 8])]
    inside = rng.sample(names, rng.randrange(1, 4))
    lines = ["  %zero : int = prim::Constant[value=0]()", "  %one : int = prim::Constant[value=1]()",
             "  %i32 : int = prim::Constant[value=3]()", "  %all : int[] = prim::Constant[value=[64]]()",
             "  %bits : Tensor = aten::view(%pool, %i32)", "  %flat : Tensor = aten::view(%bits, %all)"]
    bits = [0] * 64
    inputs = {"qkv": f"2x12:f32={rng.choice(['randn(seed=1)', 'ones', 'zeros'])}".replace("f32=", "f32:"), "pool": "4x1x4x4:f32:zeros"}
    if rng.random() < 0.5:
        inputs["qkv"] = "2x12:f32=[" + "; ".join(" ".join(rng.choice(["0", "1e30", "-1e30", "1", "1e-45"]) for _ in range(12)) for _ in range(2)) + "]"
    for name in names:
        sizes, value = ATTENTION_INPUTS[name]
        if name not in inside:
            inputs[name] = f"{'x'.join(map(str, sizes))}:i32={value}"
            continue
        count = 1
        for size in sizes:
            count *= size
        begin = rng.randrange(0, 64 - count)
        if rng.random() < 0.9:  # right until the keys and values are written there
            bits[begin : begin + count] = map(int, re.findall(r"\d+", value))
        lines += [f"  %{name}_b : int = prim::Constant[value={begin}]()", f"  %{name}_e : int = prim::Constant[value={begin + count}]()",
                  f"  %{name}_p : Tensor = aten::slice(%flat, %zero, %{name}_b, %{name}_e, %one)",
                  f"  %{name}_d : int[] = prim::Constant[value={sizes}]()", f"  %{name} : Tensor = aten::view(%{name}_p, %{name}_d)"]
    least = 2.0**-149  # the float whose bits are those of the integer 1
    rows = [" ".join(repr(b * least) for b in bits[i : i + 4]) for i in range(0, 64, 4)]
    inputs["pool"] = "4x1x4x4:f32=[" + ";;; ".join(";; ".join("; ".join(rows[b * 4 : b * 4 + 4]) for _ in [0]) for b in range(4)) + "]"
    fields = ['layer_idx=0, num_heads=1, head_size=4, position_embedding_type="learned_absolute", remove_input_padding=1, use_cache=1',
              'paged_kv_cache=1, tokens_per_block=4, type_id="float32", inplace=1',
              f'mask_type="{rng.choice(["causal", "sliding_window_causal", "bidirectional"])}"',
              "inputs=[" + ", ".join(f'"{n}"' for n in ["qkv", "kv_cache_pool", *names]) + "]"]
    lines.append(f"  %y : Tensor, %p : Tensor = tensorrt_llm::GPTAttention[{', '.join(fields)}](%qkv, %pool, {', '.join('%' + n for n in names)})")
    return "graph(" + ", ".join(f"%{n} : Tensor" for n in inputs) + "):\n" + "\n".join(lines) + "\n  return (%y)\n", inputs


MASK = (1 << 64) - 1


def checksum(data):
    """As frontend/files/section_file.cpp has it."""
    first, second = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F

    def mix(lane, word):
        x = (lane + word * second) & MASK
        return ((x << 31 | x >> 33) & MASK) * first & MASK

    lanes = [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5]
    padded = data + bytes(-len(data) % 32) if len(data) % 32 else data + bytes(32)
    for word_at in range(0, len(padded), 32):
        lanes = [mix(lane, word) for lane, word in zip(lanes, struct.unpack_from("<4Q", padded, word_at))]
    total = len(data)
    for lane in lanes:
        total = mix(total, lane)
    total ^= total >> 33
    total = total * second & MASK
    return total ^ total >> 29


def sections(data):
    """(place of the table's entry, name, begin, size)."""
    count = struct.unpack_from("<I", data, 12)[0]
    for i in range(count):
        at = 32 + 40 * i
        name = bytes(data[at : at + 16]).rstrip(b"\0").decode()
        begin, size, _ = struct.unpack_from("<QQQ", data, at + 16)
        yield at, name, begin, size


def sealed(data):
    """The same with the checksums that belong to it."""
    data = bytearray(data)
    count = min(struct.unpack_from("<I", data, 12)[0], 64)
    for at, _, begin, size in list(sections(data))[:count]:
        if begin + size <= len(data):
            struct.pack_into("<Q", data, at + 32, checksum(bytes(data[begin : begin + size])))
    struct.pack_into("<Q", data, 24, checksum(bytes(data[:24] + data[32 : 32 + 40 * count])))
    return bytes(data)


def changed_engine(rng, good):
    data = bytearray(good)
    parts = list(sections(data))
    for _ in range(rng.randrange(1, 6)):
        at, name, begin, size = rng.choice(parts)
        how = rng.randrange(5)
        if how == 0 and size:  # a byte
            data[begin + rng.randrange(size)] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        elif how == 1 and size >= 8:  # a number
            struct.pack_into("<Q", data, begin + rng.randrange(size - 7), rng.choice([0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, size]))
        elif how == 2 and size > 8:  # a word of the text for another, of equal length
            words = [m for m in re.finditer(rb"[%\w:.]{2,}", bytes(data[begin : begin + size]))]
            if len(words) > 1:
                a, b = rng.sample(words, 2)
                length = min(a.end() - a.start(), b.end() - b.start())
                data[begin + a.start() : begin + a.start() + length] = bytes(data[begin + b.start() : begin + b.start() + length])
        elif how == 3 and size > 8:  # digits
            digits = [m.start() for m in re.finditer(rb"\d", bytes(data[begin : begin + size]))]
            if digits:
                data[begin + rng.choice(digits)] = ord(rng.choice("0123456789"))
        elif how == 4 and size > 16:  # a piece twice
            a, b, length = rng.randrange(size - 8), rng.randrange(size - 8), rng.randrange(1, 8)
            data[begin + a : begin + a + length] = data[begin + b : begin + b + length]
    return sealed(data)


class Runner:
    def __init__(self, options, folder):
        self.options, self.folder, self.failures, self.runs, self.codes = options, folder, [], 0, {}

    def tool(self, *args):
        out = subprocess.run([self.options.tool, *args], cwd=self.folder, capture_output=True, check=True)
        return out.stdout.decode()

    def run(self, args):
        def limits():
            resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        errors = os.path.join(self.folder, "errors")
        with open(errors, "wb") as err:
            child = subprocess.Popen([self.options.tool, *args, *LIMITS], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=err, preexec_fn=None if os.environ.get("TSCOMPILE_SANITIZED") else limits)
        begin, usage = time.monotonic(), None
        while True:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid or time.monotonic() - begin > 12 * MAX_SECONDS:
                break
            time.sleep(0.002)
        if not pid:
            child.kill()
            _, status, usage = os.wait4(child.pid, 0)
        child.returncode = 0
        with open(errors, errors="replace") as file:
            words = file.read(4000)
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        return code, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, words

    def check(self, path, args):
        code, seconds, peak, words = self.run(args)
        self.judge(path, args, code, seconds, peak, words)

    def judge(self, path, args, code, seconds, peak, words):
        self.runs += 1
        self.codes[code] = self.codes.get(code, 0) + 1
        problem = ("the exit code" if not 0 <= code <= 8 else "an internal error" if "internal error" in words else "no words" if code > 1 and not words.strip()
                   else "the time" if seconds > MAX_SECONDS else "the memory" if peak > MAX_BYTES else "")
        if problem:
            kept = path
            if self.options.keep:
                os.makedirs(self.options.keep, exist_ok=True)
                kept = os.path.join(self.options.keep, f"{len(self.failures)}_{os.path.basename(path)}")
                with open(path, "rb") as a, open(kept, "wb") as b:
                    b.write(a.read())
            self.failures.append(f"{problem}: {' '.join(args[:1])} {kept}: exit {code}, {seconds:.1f} s, {peak >> 20} MiB: {words[:300]!r}")

    def end(self):
        pass

    def path(self, name):
        return os.path.join(self.folder, name)

    def text(self, kind, text, inputs=INPUTS, commands=COMMANDS):
        path = self.path(f"{kind}.ir")
        with open(path, "w") as file:
            file.write(text)
        for command in commands:
            self.check(path, {"run": ["run", path, *inputs], "interpret": ["run", path, *inputs, "--executor", "interpreter"],
                              "compile": ["compile", path, "-o", os.path.join(self.folder, "out.tse")], "explain": ["explain", path, "%x"],
                              "verify": ["verify", path, *inputs]}.get(command, [command, path]))


class ManyCalls(Runner):
    """Calls wait until there are thousands, which one process takes."""

    WAITING = 4000

    def __init__(self, options, folder):
        super().__init__(options, folder)
        self.process, self.waiting, self.made = Tool(options.calls, folder), [], 0

    def path(self, name):
        self.made += 1
        return super().path(f"{self.made % (2 * self.WAITING)}_{name}")

    def check(self, path, args):
        self.waiting.append((path, args))
        if len(self.waiting) >= self.WAITING:
            self.end()

    def end(self):
        answers = self.process([[*args, *LIMITS] for _, args in self.waiting])
        for (path, args), (code, _, words) in zip(self.waiting, answers):
            self.judge(path, args, code, 0, 0, words)
        self.waiting = []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", type=os.path.abspath)
    parser.add_argument("--count", type=int, default=25, help="texts and files of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep")
    parser.add_argument("--calls", type=os.path.abspath)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        runner = ManyCalls(options, folder) if options.calls else Runner(options, folder)
        schemas = [o.get("schema", "") for o in json.loads(runner.tool("ops", "--format", "json"))["operators"]]
        schemas = [s for s in schemas if ") -> " in s and "->" not in s[: s.index(") -> ")]]
        with open(os.path.join(folder, "good.ir"), "w") as file:
            file.write(HEADER.replace(" : Tensor", " : Float(2, 3)") + "  %one : int = prim::Constant[value=1]()\n  %w : Float(3) = prim::Constant[value= 1  2  3 [ CPUFloatType{3} ]]()\n"
                       "  %a : Tensor = aten::add(%x, %w, %one)\n  %b : Tensor = aten::relu(%a)\n  %t : Tensor[] = prim::ListConstruct(%a, %b)\n"
                       "  %d : Tensor = aten::cat(%t, %one)\n  return (%d, %n)\n")
        runner.tool("compile", "good.ir", "-o", "good.tse", "--min-block-size", "1", "-q")
        with open(os.path.join(folder, "good.tse"), "rb") as file:
            good = file.read()
        if sealed(good) != good:
            sys.exit("the checksums of this test are not those of engine files")
        for i in range(options.count):
            if options.only in "nodes":
                runner.text("nodes", node_text(rng))
            if options.only in "arguments":
                runner.text("arguments", argument_text(rng, schemas))
            if options.only in "sharing":
                text, inputs = shared_case(rng)
                runner.text("sharing", text, [x for n, v in inputs.items() for x in ("-i", f"{n}={v}")], ["run", "interpret"])
            if options.only in "engines":
                path = runner.path("changed.tse")
                with open(path, "wb") as file:
                    file.write(changed_engine(rng, good))
                for command in (["run", path, *INPUTS], ["inspect", path], ["lower", path], ["diff", path, path]):
                    runner.check(path, command)
        runner.end()
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        if options.calls and peak > MAX_BYTES and not os.environ.get("TSCOMPILE_SANITIZED"):
            runner.failures.append(f"the memory of {runner.WAITING} calls: {peak >> 20} MiB")
        for failure in runner.failures:
            print("FAIL", failure)
        print(f"{runner.runs} runs, exit codes {dict(sorted(runner.codes.items()))}, {len(runner.failures)} failures")
    return 1 if runner.failures else 0


if __name__ == "__main__":
    sys.exit(main())
