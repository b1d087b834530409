#!/usr/bin/env python3
"""Makes the engine files of tests/golden/data that `tscompile compile` would not write, by docs/engine_files.md alone, and
the seeds of the fuzz target that reads such files.

    make_engine_files.py TESTS_DIR
"""
import os
import struct
import sys

FIRST, SECOND, MASK = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 2**64 - 1
LANES = [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5]


def mix(lane, word):
    x = (lane + word * SECOND) & MASK
    return ((x << 31 | x >> 33) & MASK) * FIRST & MASK


def checksum(data):
    lanes = list(LANES)
    padded = data + bytes(32 - len(data) % 32)
    for i, (word,) in enumerate(struct.iter_unpack("<Q", padded)):
        lanes[i % 4] = mix(lanes[i % 4], word)
    total = len(data)
    for lane in lanes:
        total = mix(total, lane)
    total ^= total >> 33
    total = total * SECOND & MASK
    return total ^ total >> 29


def container(version, sections):
    end = 32 + 40 * len(sections)
    table, body = b"", b""
    for name, data in sections:
        gap = -end % 64
        table += struct.pack("<16sQQQ", name.encode(), end + gap, len(data), checksum(data))
        body += bytes(gap) + data
        end += gap + len(data)
    start = b"\x89TSE\r\n\x1a\n" + struct.pack("<IIQ", version, len(sections), end)
    return start + struct.pack("<Q", checksum(start + table)) + table + body


def texts(*values):
    return b"".join(struct.pack("<I", len(v.encode())) + v.encode() for v in values)


def tensor(name, dtype, sizes, begin):
    return texts(name, dtype) + bytes([len(sizes)]) + b"".join(struct.pack("<q", s) for s in sizes) + struct.pack("<Q", begin)


GRAPH = """graph(%x : Tensor):
  %y : Tensor = tscompile::Engine_0[id="0123456789abcdef"](%x)
  return (%y)
with tscompile::Engine_0 = graph(%x : Tensor):
  %w : Float(2) = prim::Constant[value=<Tensor>]()
  %y : Tensor = aten::mul(%x, %w)
  return (%y)
"""
FIELDS = texts("tscompile", "0.1.0", "source", "net.ir", "source-hash", "0" * 16, "weights", "net.safetensors",
               "option", "--min-block-size", "option", "1", "precision", "f32", "input", "x=2")
TENSORS = tensor("w", "F32", [2], 0)
WEIGHTS = struct.pack("<2f", 2, 3)


def engine(version=1, fields=FIELDS):
    return container(version, [("fields", fields), ("graph", GRAPH.encode()), ("tensors", TENSORS), ("weights", WEIGHTS)])


def write(*path, data):
    path = os.path.join(sys.argv[1], *path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def main():
    good = engine()
    write("golden", "data", "small.tse", data=good)
    write("golden", "data", "other_format.tse", data=engine(version=2))
    write("golden", "data", "other_processor.tse", data=engine(fields=FIELDS + texts("cpu", "avx9000")))
    write("golden", "data", "damaged.tse", data=good[:-1] + b"\x41")
    write("golden", "data", "cut.tse", data=good[:-3])
    seeds = ("fuzz", "seeds", "fuzz_engine_file")
    write(*seeds, "small.tse", data=good)
    lengths = struct.pack("<3H", len(FIELDS), len(TENSORS), len(GRAPH))
    write(*seeds, "sections", data=lengths + FIELDS + TENSORS + GRAPH.encode() + WEIGHTS)
    empty = b"graph():\n  return ()\n"
    write(*seeds, "empty", data=struct.pack("<3H", 0, 0, len(empty)) + empty)


main()
