#!/usr/bin/env python3
"""Loads LeNet, compiles it for a range of sizes, compares engines with the interpreter, saves, profiles.

    pip install tscompile numpy && python samples/python/lenet.py
"""
import pathlib
import tempfile

import numpy as np
import tscompile

folder = pathlib.Path(__file__).resolve().parent.parent / "models" / "lenet_scripted"
model = tscompile.load(folder / "model.ir", weights=folder / "weights.safetensors")
image = np.sin(0.1 * np.arange(1024, dtype=np.float32)).reshape(1, 1, 32, 32)

engine = model.compile([((1, 8), 1, 32, 32)])
print(f"{100 * model.partition([((1, 8), 1, 32, 32)]).coverage:.0f} % of the nodes run in engines")
scores = np.asarray(engine(image))
np.testing.assert_allclose(scores, np.asarray(model(image)), rtol=1e-5, atol=1e-5)
print("class", scores.argmax())

with tempfile.TemporaryDirectory() as there:
    engine.save(f"{there}/lenet.tse")
    again = tscompile.load(f"{there}/lenet.tse")
    print("the saved engine gives", "the same" if (np.asarray(again(image)) == scores).all() else "something else")

layers = [layer for e in engine.profile(image, runs=10)["engines"] for layer in e["layers"]]
print("every layer has its time:", all(layer["us"] > 0 for layer in layers))
try:
    engine(np.zeros((9, 1, 32, 32), np.float32))
except tscompile.ModelError as error:
    print(error.message)
