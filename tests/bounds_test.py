#!/usr/bin/env python3
"""Every limit of `tscompile help limits` at its bound: what has one less or as much is taken, one more ends with exit code 6 and the
limit's name. Limits that are small enough are tried as they are, the others as --limit sets them.

    bounds_test.py TOOL
"""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

LARGEST = 1 << 17  # limits above are set smaller


def graph(body, inputs="%x : Tensor", result="%x"):
    return f"graph({inputs}):\n{body}  return ({result})\n".encode()


def relus(count):
    return "".join(f"  %{i} : Tensor = aten::relu(%x)\n" for i in range(count))


def constant(kind, value):
    return graph(f"  %0 : {kind} = prim::Constant[value={value}]()\n")


def nested_ifs(count):
    opened = "".join("  " * (2 * i + 1) + " = prim::If(%c)\n" + "  " * (2 * i + 2) + "block0():\n" for i in range(count))
    ends = "".join("  " * (2 * i + 3) + "-> ()\n" + "  " * (2 * i + 2) + "block1():\n" + "  " * (2 * i + 3) + "-> ()\n" for i in reversed(range(count)))
    return graph(opened + ends, inputs="%c : bool", result="%c")


def safetensors(header):
    return struct.pack("<Q", len(header)) + header + bytes(4)


def entries(count):
    return safetensors(json.dumps({f"t{i}": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for i in range(count - 1)}
                                  | {"last": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode())


def header_of(size):
    header = b'{"last":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
    return safetensors(header + b" " * (size - len(header) - 1) + b"}")


def npy(size):
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", size) + header + b" " * (size - len(header) - 1) + b"\n" + bytes(4)


def text_of(size):
    text = graph("")
    return text + b"#" + b" " * (size - len(text) - 2) + b"\n"


WEIGHT = graph("  %w : Float(1) = prim::Constant[value=<Tensor>]()\n")

# Of each limit: a file that has as many, the file's ending, and the least number that it can have.
FILES = {
    "text": (text_of, "ir", 40),
    "nodes": (lambda n: graph(relus(n)), "ir", 3),
    "values": (lambda n: graph(relus(n - 1)), "ir", 3),
    "blocks": (nested_ifs, "ir", 3),
    "identifier": (lambda n: graph(f"  %{'a' * n} : Tensor = aten::relu(%x)\n"), "ir", 20),
    "string": (lambda n: constant("str", '"' + "a" * n + '"'), "ir", 20),
    "number": (lambda n: constant("float", "1." + "0" * (n - 2)), "ir", 20),
    "list": (lambda n: constant("int[]", "[" + ", ".join(["7"] * n) + "]"), "ir", 3),
    "type-depth": (lambda n: graph("", inputs="%x : int" + "[]" * (n - 1)), "ir", 3),
    "arguments": (lambda n: graph(f"  %l : Tensor[] = prim::ListConstruct({', '.join(['%x'] * n)})\n"), "ir", 3),
    "header": (header_of, "safetensors", 80),
    "tensors": (entries, "safetensors", 3),
    "npy-header": (npy, "npy", 80),
}


class Bounds:
    def __init__(self, tool, folder):
        self.tool, self.folder, self.runs, self.failures = tool, folder, 0, []

    def run(self, *args):
        self.runs += 1
        return subprocess.run([self.tool, *args], cwd=self.folder, capture_output=True, stdin=subprocess.DEVNULL)

    def limits(self):
        return {m[1]: int(m[2]) for m in re.finditer(r"^  (\S+) .*\((\d+)\)$", self.run("help", "limits").stdout.decode(), re.M)}

    def path(self, name, content):
        with open(os.path.join(self.folder, name), "wb") as file:
            file.write(content)
        return name

    def expect(self, what, done, refused, name):
        words = (done.stdout + done.stderr).decode()
        right = done.returncode == 6 and f"--limit {name}=" in words if refused else done.returncode == 0
        if not right:
            self.failures.append(f"{what}: exit {done.returncode}: {words[:200]!r}")

    def read(self, name, ending, content, options):
        path = self.path(f"{name}.{ending}", content)
        return self.run("parse" if ending == "ir" else "inspect", path, *options)

    def around(self, name, bound, options):
        make, ending, _ = FILES[name]
        for count in (bound - 1, bound, bound + 1):
            self.expect(f"{name} {bound}: {count}", self.read(name, ending, make(count), options), count > bound, name)

    def files(self, limits):
        for name, (_, _, least) in FILES.items():
            self.around(name, least + 1, ["--limit", f"{name}={least + 1}"])
            if limits[name] <= LARGEST:
                self.around(name, limits[name], [])

    def written(self):
        """What is printed, and what is generated."""
        path = self.path("small.ir", graph(relus(3)))
        size = len(self.run("parse", path).stdout)
        for bound in (size - 1, size, size + 1):
            self.expect(f"print {bound}: {size}", self.run("parse", path, "--limit", f"print={bound}"), size > bound, "print")
        for count in (24, 25, 26):
            done = self.run("run", path, "-i", f"x={count}:f32:ones", "--limit", "generated=100")
            self.expect(f"generated 100: {count} floats", done, count > 25, "generated")

    def tensors(self):
        """Bounds that are fixed. Nobody has the data of 2^48 elements, which another message tells."""
        for what, sizes, code in (("63 dimensions", [1] * 63, 0), ("64 dimensions", [1] * 64, 0), ("65 dimensions", [1] * 65, 6),
                                  ("2^48 elements", [1 << 24, 1 << 24], 3), ("more than 2^48 elements", [1 << 24, (1 << 24) + 1], 6)):
            header = json.dumps({"t": {"dtype": "F32", "shape": sizes, "data_offsets": [0, 4]}}).encode()
            done = self.run("inspect", self.path("t.safetensors", safetensors(header)))
            if done.returncode != code:
                self.failures.append(f"{what}: exit {done.returncode}, not {code}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        bounds = Bounds(os.path.abspath(sys.argv[1]), folder)
        limits = bounds.limits()
        untried = set(limits) - set(FILES) - {"print", "generated"}
        bounds.failures += [f"{name} is not tried" for name in sorted(untried)]
        bounds.files(limits)
        bounds.written()
        bounds.tensors()
    for failure in bounds.failures:
        print("FAIL", failure)
    print(f"{len(limits)} limits, {bounds.runs} runs at their bounds, {len(bounds.failures)} failures")
    return 1 if bounds.failures else 0


if __name__ == "__main__":
    sys.exit(main())
