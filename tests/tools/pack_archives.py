#!/usr/bin/env python3
"""Packs small cases of export_archives.py for the unit tests: DEST/NAME.pt, and NAME.txt with inputs and outputs as values.

    pack_archives.py DIR DEST NAME...
"""
import json
import os
import shutil
import sys

import numpy

DTYPES = {"float32": "f32", "float64": "f64", "int64": "i64", "int32": "i32", "uint8": "u8", "bool": "bool",
          "bfloat16": "bf16"}


def rows(array):
    """Elements with a blank, rows with one semicolon, matrices with two, and so on."""
    if array.ndim == 0:
        return str(array.item()).lower() if array.dtype == bool else repr(array.item())
    return (" " if array.ndim == 1 else " " * 0 + ";" * (array.ndim - 1) + " ").join(rows(a) for a in array)


def value(item, folder):
    kind = item["type"]
    if kind == "Tensor":
        array = numpy.load(os.path.join(folder, item["file"]))
        dtype = DTYPES[item["dtype"]]
        if not array.ndim:
            return f"scalar:{dtype}={rows(array)}"
        return f"{'x'.join(map(str, array.shape))}:{dtype}=[{rows(array) if array.size else ''}]"
    if kind in ("List", "Tuple"):
        inner = ", ".join(value(i, folder) for i in item["items"])
        return f"[{inner}]" if kind == "List" else f"({inner}{',' if len(item['items']) == 1 else ''})"
    if kind == "Dict":
        return "{" + ", ".join(f"{value(k, folder)}: {value(v, folder)}" for k, v in item["items"]) + "}"
    if kind == "str":
        return json.dumps(item["value"])
    return {"None": "None"}.get(kind, str(item.get("value")))


def main():
    root, dest, *names = sys.argv[1:]
    os.makedirs(dest, exist_ok=True)
    for name in names:
        folder = os.path.join(root, name)
        shutil.copy(os.path.join(folder, "model.pt"), os.path.join(dest, name + ".pt"))
        with open(os.path.join(dest, name + ".txt"), "w") as f:
            for kind in ("inputs", "outputs"):
                for item in json.load(open(os.path.join(folder, kind + ".json"))):
                    f.write(f"{kind[:-1]} {value(item, folder)}\n")


if __name__ == "__main__":
    main()
