"""Makes the tensor files of tests/data/files as other programs write them: numpy, and a safetensors writer by its format."""

import io
import json
import os
import struct
import zipfile

import numpy as np

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "files")


def write(name, data):
    with open(os.path.join(FOLDER, name), "wb") as file:
        file.write(data)


def npy(array, version=None):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=version)
    return out.getvalue()


def safetensors(tensors, metadata=None):
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def main():
    os.makedirs(FOLDER, exist_ok=True)
    write("float32.npy", npy(np.array([[1.5, -2, np.inf], [0, 1e-3, 7]], np.float32)))
    write("fortran.npy", npy(np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3))))
    write("scalar.npy", npy(np.array(7, np.int16)))
    write("empty.npy", npy(np.zeros((0, 3), np.float64)))
    write("bool.npy", npy(np.array([True, False, True])))
    write("complex.npy", npy(np.array([1 + 2j, -3.5j], np.complex128)))
    write("half.npy", npy(np.array([0.5, 65504], np.float16), (1, 0)))
    write("version2.npy", npy(np.arange(3, dtype=np.uint8), (2, 0)))
    write("version3.npy", npy(np.arange(3, dtype=np.int8), (3, 0)))
    write("bigendian.npy", npy(np.arange(3, dtype=">i4")))
    write("unicode.npy", npy(np.array(["ab", "c"])))
    write("uint16.npy", npy(np.arange(3, dtype=np.uint16)))
    write("structured.npy", npy(np.zeros(2, dtype=[("a", "<i4"), ("b", "<f4")])))
    objects = io.BytesIO()
    np.save(objects, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    write("object.npy", objects.getvalue())

    arrays = {"a": np.arange(3, dtype=np.int32), "layer.weight": np.ones((2, 2), np.float32)}
    for name, save in (("stored.npz", np.savez), ("compressed.npz", np.savez_compressed)):
        out = io.BytesIO()
        save(out, **arrays)
        write(name, out.getvalue())
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:  # a member whose sizes follow it, as writers to pipes make them
        archive.comment = b"a comment"
        with archive.open(zipfile.ZipInfo("a.npy"), "w") as member:
            member.write(npy(arrays["a"]))
    write("comment.npz", out.getvalue())

    def raw(dtype, values):
        return np.array(values, dtype).tobytes()

    write("small.safetensors", safetensors({
        "f64": ("F64", [2], raw("<f8", [0.1, -0.0])),
        "i64": ("I64", [], raw("<i8", -5)),
        "c128": ("C128", [1], raw("<c16", [1 - 2j])),
        "c64": ("C64", [1], raw("<c8", [3 + 4j])),
        "f32": ("F32", [2, 3], raw("<f4", range(6))),
        "i32": ("I32", [2], raw("<i4", [1, -1])),
        "f16": ("F16", [1], raw("<f2", [1.5])),
        "bf16": ("BF16", [2], raw("<u2", [0x3f80, 0xc000])),
        "i16": ("I16", [1], raw("<i2", [-300])),
        "i8": ("I8", [1], raw("<i1", [-3])),
        "u8": ("U8", [1], raw("<u1", [200])),
        "bool": ("BOOL", [3], raw("<u1", [1, 0, 1])),
        "empty": ("F32", [0, 4], b""),
    }, {"format": "pt", "attribute:n": "3"}))
    write("unaligned.safetensors", safetensors({
        "u8": ("U8", [3], raw("<u1", [1, 2, 3])),
        "f32": ("F32", [2], raw("<f4", [1.5, -2])),
    }))
    write("unsupported.safetensors", safetensors({
        "good": ("F32", [1], raw("<f4", [1])),
        "odd": ("F4", [2], raw("<u2", [1, 2])),
    }))


if __name__ == "__main__":
    main()
