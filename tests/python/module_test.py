#!/usr/bin/env python3
"""The Python module as docs/python.md promises it. Needs numpy; runs with any Python that has tscompile installed.

    module_test.py [-v]       prints "skipped: ..." and exits 0 where the module is not there
"""
import contextlib
import dataclasses
import gc
import importlib.util
import io
import json
import os
import pickle
import re
import resource
import signal
import sys
import tempfile
import threading
import time
import typing
import unittest
import unittest.mock
import warnings
import weakref

try:
    import numpy as np
    import tscompile
except ImportError as e:
    if e.name not in ("tscompile", "numpy") or "--needed" in sys.argv:
        raise
    print(f"skipped: {e}; ./dev wheel-test builds and tests the module")
    sys.exit(0)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GRAPH = """graph(%x.1 : Tensor,
      %scale : float):
  %one : int = prim::Constant[value=1]()
  %r : Tensor = aten::relu(%x.1)
  %y : Tensor = aten::mul(%r, %scale)
  %z : Tensor = aten::add(%y, %x.1, %one)
  %w : Tensor = aten::sigmoid(%z)
  return (%w)
"""
ENDLESS = """graph(%n : int):
  %t : bool = prim::Constant[value=1]()
  %most : int = prim::Constant[value=9223372036854775807]()
  %r : int = prim::Loop(%most, %t, %n)
    block0(%i : int, %v : int):
      %w : int = aten::add(%v, %i)
      -> (%t, %w)
  return (%r)
"""


def identity(kind):
    return tscompile.load(f"graph(%x : {kind}):\n  return (%x)\n")


def expected(x, scale):
    return 1 / (1 + np.exp(-(np.maximum(x, 0) * scale + x)))


def in_threads(count, work):
    threads = [threading.Thread(target=work) for _ in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


class Capsule:
    """Memory with DLPack alone, as a library of tensors has it."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self):
        return self.tensor.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


class Files(unittest.TestCase):
    """What is no model is told as the command line tells it."""

    def refused(self, *args, **options):
        with self.assertRaises(tscompile.Error) as caught:
            tscompile.load(*args, **options)()
        return str(caught.exception)

    def test_other_files_are_recognised(self):
        data = os.path.join(ROOT, "tests", "golden", "data")
        for name, found in {
            "model.onnx": "expected graph text, found an ONNX model",
            "x.npy": "expected graph text, found an .npy file",
            "weights.safetensors": "expected graph text, found a safetensors file",
            "page.html": "expected graph text, found an HTML page",
        }.items():
            path = os.path.join(data, name)
            self.assertIn(found, self.refused(path))
            with open(path, "rb") as f:
                self.assertIn("<memory>: error: " + found, self.refused(f.read()))
        self.assertIn("save the one that it was made of by torch.export.save", self.refused(os.path.join(data, "model.onnx")))
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("expected a model, found a folder", self.refused(folder))
            path = os.path.join(folder, "outputs.json")
            with open(path, "w") as f:
                f.write("{}")
            self.assertIn("expected graph text, found ", self.refused(path))

    def test_weights_in_memory(self):
        text = """graph(%self : __torch__.Net, %x : Tensor):
  %scale : Tensor = prim::GetAttr[name="scale"](%self)
  %shift : Tensor = prim::GetAttr[name="shift"](%self)
  %one : int = prim::Constant[value=1]()
  %y : Tensor = aten::mul(%x, %scale)
  %z : Tensor = aten::add(%y, %shift, %one)
  return (%z)
"""
        weights = {"scale": np.array([2, 3], np.float32), "shift": np.array([1, 1], np.float32)}
        x = np.array([1, 2], np.float32)
        self.assertEqual(tscompile.load(text, weights)(x).tolist(), [3, 7])
        self.assertEqual(tscompile.load(text, weights).compile([x])(x).tolist(), [3, 7])
        message = self.refused(text)
        self.assertEqual(message.count("error"), 1, message)
        self.assertIn("the text names 2 tensors without their data, and no weights were given", message)
        self.assertIn("give them as 'weights'; the first is 'scale'", message)
        with self.assertRaisesRegex(tscompile.Error, "the text names 2 tensors without their data"):
            tscompile.load(text).compile([x])
        with self.assertRaisesRegex(TypeError, r"weights\['model'\] is no array or tensor, but of type dict: if it holds"):
            tscompile.load(text, {"model": weights, "epoch": 3})

    def test_what_weights_lack_is_warned_of(self):
        path = os.path.join(ROOT, "samples", "models", "lenet_archive", "model.pt")
        with self.assertWarnsRegex(UserWarning, "^the weights lack '.*' and 8 more, which keep what the model file has") as caught:
            tscompile.load(path, {"feat.conv1.weight": np.zeros((6, 1, 3, 3), np.float32)})
        self.assertEqual(caught.filename, __file__)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaisesRegex(UserWarning, "the weights lack"):
                tscompile.load(path, {"feat.conv1.weight": np.zeros((6, 1, 3, 3), np.float32)})

    def test_lists_of_numbers_in_a_dict_of_tensors(self):
        named = tscompile.load('graph(%d : Dict(str, Tensor)):\n  %k : str = prim::Constant[value="ids"]()\n'
                               "  %y : Tensor = aten::__getitem__(%d, %k)\n  return (%y)\n")
        with self.assertRaisesRegex(tscompile.InputError, "a list of numbers has no dtype"):
            named({"ids": [1, 2], "mask": np.ones(2)})
        self.assertEqual(named.compile(["d.ids=1..4:i64"])({"ids": np.arange(3)}).tolist(), [0, 1, 2])


class Values(unittest.TestCase):
    def test_every_dtype_comes_back(self):
        f = identity("Tensor")
        for dtype in ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128",
                      "bool"):
            x = np.arange(6).reshape(2, 3).astype(dtype)
            y = f(x)
            self.assertEqual(y.dtype, dtype)
            self.assertEqual(np.asarray(y).dtype, x.dtype)
            np.testing.assert_array_equal(np.asarray(y), x)
            if dtype != "bool" or np.lib.NumpyVersion(np.__version__) >= "1.25.0":  # which takes bools in this way
                np.testing.assert_array_equal(np.from_dlpack(y), x)
            self.assertEqual(y.tolist(), x.tolist())

    def test_wide_unsigned_results(self):
        for code, dtype in ((27, np.uint16), (28, np.uint32), (29, np.uint64)):
            y = tscompile.load(f"""graph(%x : Tensor):
  %dtype : int = prim::Constant[value={code}]()
  %no : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %y : Tensor = aten::to(%x, %dtype, %no, %no, %none)
  return (%y)
""")(np.array([1, 40000]))
            for array in (np.asarray(y), np.from_dlpack(y)):
                self.assertEqual(array.dtype, dtype)
                self.assertEqual(array.tolist(), [1, 40000])

    def test_nothing_is_copied(self):
        f = identity("Tensor")
        wide = np.arange(48, dtype=np.float32).reshape(6, 8)
        for x in (wide, wide[::2, 1::3], wide[::-1, ::-1], wide.T, np.broadcast_to(wide[0], (3, 8)), wide[2:2], wide[0, 0:1]):
            y = np.asarray(f(x))
            np.testing.assert_array_equal(y, x)
            self.assertEqual(y.__array_interface__["data"][0], x.__array_interface__["data"][0])
            self.assertEqual(np.asarray(f(Capsule(f(x.copy())))).tolist(), x.tolist())
        self.assertEqual(f(np.float32(3)).item(), 3.0)
        self.assertEqual(f(np.array(7)).shape, ())

    def test_results_compute_like_arrays(self):
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        y = identity("Tensor")(x)
        for ours, numpys in ((y[1], x[1]), (y[:, 1:], x[:, 1:]), (y + 1, x + 1), (2 - y, 2 - x), (y @ y.numpy().T, x @ x.T),
                             (y > 2, x > 2), (y == y, x == x), (-y, -x), (y * y, x * x), (x / (y + 1), x / (x + 1))):
            self.assertIsInstance(ours, np.ndarray)
            np.testing.assert_array_equal(ours, numpys)
        self.assertEqual([row.tolist() for row in y], x.tolist())
        self.assertEqual({y: 1}[y], 1)
        y[0, 0] = 7
        self.assertEqual(x[0, 0], 7)
        self.assertTrue(7 in y)
        for ours, numpys in zip(divmod(y, 2), divmod(x, 2)):
            np.testing.assert_array_equal(ours, numpys)
        with self.assertRaises(IndexError):
            y[2]
        half = tscompile.load("""graph(%x : Tensor):
  %dtype : int = prim::Constant[value=15]()
  %no : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %y : Tensor = aten::to(%x, %dtype, %no, %no, %none)
  return (%y)
""")(x)
        for use in (lambda: half[0], lambda: half + 1, lambda: np.asarray(half), half.numpy):
            with self.assertRaisesRegex(TypeError, "have no bfloat16: use DLPack"):
                use()
        self.assertFalse(half == y)
        np.testing.assert_array_equal(np.asarray(half, dtype="f4"), x)
        with unittest.mock.patch.dict(sys.modules, {"numpy": None}):
            self.assertTrue(y == y)
            self.assertFalse(y == 1)
            with self.assertRaises(ImportError):
                y + 1

    def test_gradients_are_left_behind(self):
        class Parameter(Capsule):
            requires_grad = True

            def detach(self):
                return Capsule(self.tensor)

            def __dlpack__(self):
                raise BufferError("Can't export tensors that require gradient, use tensor.detach()")

        f = identity("Tensor")
        self.assertEqual(f(Parameter(f(np.array([1, 2], np.float32)))).tolist(), [1, 2])

    def test_models_write_where_they_may(self):
        f = tscompile.load("graph(%x : Tensor):\n  %y : Tensor = aten::relu_(%x)\n  return (%y)\n")
        x = np.array([-1, 2], np.float32)
        f(x)
        self.assertEqual(x.tolist(), [0, 2])
        x = np.array([-1, 2], np.float32)
        x.flags.writeable = False
        with self.assertRaises(tscompile.ModelError):
            f(x)
        self.assertEqual(x.tolist(), [-1, 2])
        self.assertTrue(identity("Tensor")(x).readonly)
        with self.assertRaises(ValueError):
            np.asarray(identity("Tensor")(x))[0] = 1

    def test_containers_and_numbers(self):
        for kind, given, wanted in (
                ("int", 3, 3), ("float", 3, 3.0), ("float", 2.5, 2.5), ("bool", True, True), ("complex", 1 + 2j, 1 + 2j),
                ("str", "a\0\u00e9\U0001f600", "a\0\u00e9\U0001f600"), ("int", np.int64(4), 4), ("float", np.float32(0.5), 0.5),
                ("bool", np.bool_(True), True), ("float", np.array(2.0), 2.0), ("int?", None, None), ("int?", 2, 2),
                ("int[]", [1, 2], [1, 2]), ("int[]", (1, 2), [1, 2]), ("float[]", [1, 2.5], [1.0, 2.5]), ("int[]", [], []),
                ("int[][]", [[1], [2, 3]], [[1], [2, 3]]), ("str[]", ["a"], ["a"]), ("(int, float)", (1, 2), (1, 2.0)),
                ("Dict(str, int)", {"a": 1, "b": 2}, {"a": 1, "b": 2}), ("Dict(int, float)", {3: 1}, {3: 1.0}),
                ("Dict(str, int[])", {"a": [1]}, {"a": [1]}), ("float[]", [np.float64(1.5)], [1.5]),
                ("int[]", np.array([2, 3]), [2, 3]), ("int[]", range(3), [0, 1, 2]), ("bool[]", np.array([True]), [True]),
                ("float[]", np.array([1, 2.5]), [1.0, 2.5]), ("int[]?", np.array([2], np.int32), [2]),
                ("int[][]", np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]])):
            got = identity(kind)(given)
            self.assertEqual(got, wanted, kind)
            self.assertIs(type(got), type(wanted), kind)
        tensors = identity("Tensor[]")([np.ones(2, np.float32), np.zeros(1, np.int64)])
        self.assertEqual([t.tolist() for t in tensors], [[1, 1], [0]])
        self.assertEqual(identity("Dict(str, Tensor)")({"x": np.ones(1, np.float32)})["x"].tolist(), [1])
        sizes = dataclasses.make_dataclass("Sizes", ["rows", "scale", ("unit", typing.ClassVar[str], "m")])
        self.assertEqual(identity("(int, float)")(sizes(2, 0.5)), (2, 0.5))
        with self.assertRaises(TypeError):
            identity("(int, float)")(sizes)
        with self.assertRaisesRegex(TypeError, "field 'rows' is None"):  # (scale,) might be (rows,) to the model
            identity("(float, float)")(sizes(None, 0.5))

    def test_what_does_not_fit_is_told(self):
        for kind, given, error in (
                ("int", 2**63, OverflowError), ("int", 1.5, tscompile.InputError), ("Tensor", 3, tscompile.InputError),
                ("Tensor", "x", tscompile.InputError), ("Tensor", object(), TypeError), ("Tensor", b"abc", TypeError),
                ("Tensor", np.zeros(2, "U3"), TypeError), ("Tensor", np.zeros(2, ">f4"), TypeError),
                ("Tensor", np.zeros(2, "m8[s]"), (TypeError, ValueError)), ("str", "\ud800", UnicodeEncodeError),
                ("(int, int)", (1, 2, 3), tscompile.InputError), ("int[]", [1, "a"], tscompile.InputError),
                ("int[]", np.array([1.5]), tscompile.InputError), ("int[]", np.array(2), tscompile.InputError)):
            with self.assertRaises(error, msg=kind):
                identity(kind)(given)
        holds_itself = []
        holds_itself.append(holds_itself)
        with self.assertRaises(ValueError):
            identity("int[]")(holds_itself)
        f = identity("Tensor")
        for args, named in (((), {}), ((1, 2), {}), ((1,), {"x": 1}), ((), {"y": 1})):
            with self.assertRaises((tscompile.InputError, TypeError)):
                f(*args, **named)

    def test_named_tuples(self):
        pair = tscompile.load("graph(%a : int, %b : int):\n"
                              "  %p : NamedTuple(first : int, second : int) = prim::TupleConstruct(%a, %b)\n  return (%p)\n")(1, 2)
        self.assertEqual((pair.first, pair["second"], pair[0]), (1, 2, 1))


class Models(unittest.TestCase):
    def test_loads_text_files_and_bytes(self):
        x = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
        np.testing.assert_allclose(np.asarray(tscompile.load(GRAPH)(x, 2)), expected(x, 2), rtol=1e-6)
        np.testing.assert_allclose(np.asarray(tscompile.load(GRAPH.encode())(x, scale=2)), expected(x, 2), rtol=1e-6)
        folder = os.path.join(ROOT, "samples", "models", "lenet_scripted")
        image = np.sin(0.1 * np.arange(1024, dtype=np.float32)).reshape(1, 1, 32, 32)
        lenet = tscompile.load(os.path.join(folder, "model.ir"), os.path.join(folder, "weights.safetensors"))
        scores = np.asarray(lenet(image))
        self.assertEqual(scores.argmax(), 7)
        archive = os.path.join(ROOT, "samples", "models", "lenet_archive", "model.pt")
        with open(archive, "rb") as f:
            for model in (tscompile.load(archive), tscompile.load(f.read(), name="lenet.pt")):
                self.assertEqual(np.asarray(model(image)).shape, (1, 10))

    def test_compiles_saves_and_loads(self):
        model = tscompile.load(GRAPH)
        x = np.random.default_rng(0).standard_normal((3, 5), dtype=np.float32)
        for inputs in (["x.1=1..4x5"], ["1..4x5:f32"], [((1, 4), 5)], {"x.1": tscompile.Input(((1, 4), 5), "float32", (2, 5))}, [x]):
            engine = model.compile(inputs, min_block_size=1)
            self.assertIsInstance(engine, tscompile.Engine)
            np.testing.assert_allclose(np.asarray(engine(x, 2)), expected(x, 2), rtol=1e-5)
            with self.assertRaises(tscompile.ModelError):
                engine(np.zeros((5, 5), np.float32), 2)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.tse")
            engine.save(path)
            again = tscompile.load(path)
            self.assertIsInstance(again, tscompile.Engine)
            self.assertEqual(np.asarray(again(x, 2)).tolist(), np.asarray(engine(x, 2)).tolist())
            self.assertIn("min-block-size=1", again.info["options"])
            with self.assertRaises(tscompile.IoError):
                engine.save(os.path.join(folder, "none", "model.tse"))
        for settings, message in (
            ({"precision": "f17"}, "precision takes one of f32, f16, bf16, int8, not 'f17', did you mean 'f16'?"),
            ({"precison": "f16"}, "there is no setting 'precison', did you mean 'precision'?"),
            ({"min_blok_size": 3}, "there is no setting 'min_blok_size', did you mean 'min_block_size'?"),
            ({"refittable": "yes"}, "refittable takes no value"),
            ({"quantize": True}, "there is no setting 'quantize', did you mean 'precision=\"int8\"'?"),
            ({"dtype": "int8"}, "there is no setting 'dtype', did you mean 'precision'?"),
        ):
            with self.assertRaises(ValueError) as caught:
                model.compile(**settings)
            self.assertEqual(str(caught.exception), message)
        self.assertIn("precision=bf16", model.compile(precision=type("bfloat16", (), {})).info["options"])
        with self.assertRaisesRegex(TypeError, "example inputs are given as calibrate"):
            model.compile(precision="int8", calibration=[x])
        with self.assertRaisesRegex(AttributeError, r"no attribute 'argmax': .*.argmax has the same memory"):
            model(x, 2).argmax()
        with self.assertRaises(ValueError):
            model.compile([x, x])

    def test_one_input_needs_no_list(self):
        model = tscompile.load(GRAPH)
        x = np.ones((3, 5), np.float32)
        three = np.int64(3)
        for inputs in (x, (3, 5), ((3, 3), 5), "3x5", tscompile.Input((3, 5)), (three, 5), {"x.1": (three, np.int64(5))}):
            with self.assertRaises(tscompile.ModelError):
                model.compile(inputs)(np.ones((4, 5), np.float32), 2)
        with self.assertRaises(ValueError):
            model.compile(["3x5", 4])

    def test_inputs_share_sizes(self):
        model = tscompile.load("graph(%x : Tensor, %y : Tensor):\n  %z : Tensor = aten::mul(%x, %y)\n  return (%z)\n")
        for inputs in (
            {"x": "Nx3", "y": ("N", 3), "N": (1, 4)},
            {"x": tscompile.Input(("N", 3), "float32"), "y": "Nx3", "N": "1..4"},
            ["Nx3:f32", ("N", 3), "N=1..4"],
        ):
            engine = model.compile(inputs, min_block_size=1)
            for n in (1, 4):
                x = np.full((n, 3), 2, np.float32)
                self.assertEqual(np.asarray(engine(x, x)).tolist(), [[4.0] * 3] * n)
            for rows in ((5, 5), (2, 3)):
                with self.assertRaises(tscompile.ModelError):
                    engine(*(np.ones((n, 3), np.float32) for n in rows))
        with self.assertRaises(ValueError):
            model.compile({"x": "Nx3", "y": "Nx3", "M": (1, 4)})

    def test_containers_of_examples_have_sizes(self):
        model = tscompile.load(
            "graph(%d : Dict(str, Tensor), %xs : Tensor[]):\n"
            '  %k : str = prim::Constant[value="a"]()\n  %0 : int = prim::Constant[value=0]()\n'
            "  %x : Tensor = aten::__getitem__(%d, %k)\n  %y : Tensor = aten::__getitem__(%xs, %0)\n"
            "  %z : Tensor = aten::mul(%x, %y)\n  return (%z)\n"
        )
        x = np.full((2, 3), 2, np.float32)
        for inputs in ([{"a": x}, [x]], {"d": {"a": x}, "xs": [x]}, {"d.a": x, "xs.0": "2x3"}):
            engine = model.compile(inputs)
            self.assertEqual(np.asarray(engine({"a": x}, [x])).tolist(), [[4.0] * 3] * 2)
            with self.assertRaises(tscompile.ModelError):
                engine({"a": x[:1]}, [x])
        with self.assertRaisesRegex(ValueError, "those of 'd', Dict.*, have names: 'd.0' or a key"):
            model.compile("2x3")
        one = tscompile.load(
            'graph(%row : Dict(str, Tensor)):\n  %k : str = prim::Constant[value="a"]()\n'
            "  %x : Tensor = aten::__getitem__(%row, %k)\n  %y : Tensor = aten::relu(%x)\n  return (%y)\n"
        )
        with self.assertRaises(tscompile.ModelError):
            one.compile({"a": x})({"a": x[:1]})

    def test_binds_inputs_that_are_no_tensors(self):
        model = tscompile.load(GRAPH)
        x = np.ones((3, 5), np.float32)
        for bind in ({"scale": 2.0}, {"scale": np.float32(2)}, "scale=2.", ["scale=2."]):
            engine = model.compile([x], bind=bind, min_block_size=1)
            np.testing.assert_allclose(np.asarray(engine(x)), expected(x, 2), rtol=1e-5)
        self.assertEqual(model.partition([x], bind={"scale": 2.0}, min_block_size=1).coverage, 1)
        self.assertTrue(model.explain("aten::mul", [x], bind={"scale": 2.0})["nodes"])
        for bind, error, message in (
            ({"scal": 2.0}, ValueError, "has no input 'scal', did you mean 'scale'"),
            ({"scale": [1]}, TypeError, "input 'scale' takes float, not int"),
            ("scale", ValueError, "bind takes a dict"),
        ):
            with self.assertRaisesRegex(error, message):
                model.compile([x], bind=bind)

    def test_calibrates_on_examples(self):
        archive = os.path.join(ROOT, "samples", "models", "lenet_archive", "model.pt")
        model = tscompile.load(archive)
        x = np.random.default_rng(0).standard_normal((1, 1, 32, 32), dtype=np.float32)
        name = model.inputs[0]["name"]
        plain = model.compile([x], precision="int8")(x).numpy()
        for calibration in ("minmax", "entropy"):
            engine = model.compile([x], precision="int8", calibrate=[x, (x,), {name: x}], calibration=calibration)
            self.assertLess(np.abs(engine(x).numpy() - model(x).numpy()).max(), 0.1)
        self.assertFalse(np.array_equal(model.compile([x], precision="int8", calibrate=[x])(x).numpy(), plain))
        for settings, error, message in (
            ({"calibrate": [x]}, ValueError, "calibrate goes with precision='int8'"),
            ({"calibrate": "x.npy", "precision": "int8"}, TypeError, "not a path"),
            ({"calibrate": x, "precision": "int8"}, TypeError, "not one ndarray"),
            ({"calibrate": [], "precision": "int8"}, ValueError, "no example"),
            ({"calibrate": [x], "precision": "int8", "calibration": "kl"}, ValueError, "one of minmax, entropy"),
            ({"calibrate": [{"imag": x}], "precision": "int8"}, TypeError, "has no input 'imag'"),
        ):
            with self.assertRaisesRegex(error, message):
                model.compile([x], **settings)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "no PyTorch here")
    def test_functions_of_pytorch_take_results(self):
        import torch
        y = identity("Tensor")(torch.tensor([[1.0, 2.0]]))
        self.assertIsInstance(y, tscompile.Tensor)
        self.assertAlmostEqual(float(torch.softmax(y, -1)[0, 1]), 0.7310586, places=6)
        self.assertEqual(torch.cat([y, torch.ones(1, 2)]).tolist(), [[1, 2], [1, 1]])
        if not hasattr(torch, "compile"):
            return
        from tscompile import torch_backend
        with self.assertRaisesRegex(ValueError, "no setting 'precison', did you mean 'precision'"):
            torch_backend.backend(None, [], options={"precison": "int8"})

    def test_errors_name_the_input(self):
        model = tscompile.load(GRAPH)
        x = np.ones((3, 5), np.float32)
        with self.assertRaisesRegex(tscompile.InputError, "scale"):
            model(x, x)
        for flags in (identity("bool"), identity("int")):
            with self.assertRaisesRegex(tscompile.InputError, "%x"):
                flags(x)
        for inputs, message in (
            ([x, 24], "24"),
            ({"x.1": x, "scale": 24}, "input 'scale' is float and has no shape.*bind="),
            ({"x.1": 24}, "sizes of input 'x.1' are dimensions"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                model.compile(inputs)
        with self.assertRaisesRegex(ValueError, "no setting 'timing_cache'; there are .*precision"):
            model.compile(timing_cache="x")

    def test_what_is_no_size_is_told(self):
        model = tscompile.load(GRAPH)
        for given in ([(None, 3)], [(2.5, 3)], {"x.1": ("N", None)}):
            with self.assertRaisesRegex(ValueError, r"a dimension is a number, its least and its most such as \(1, 8\)"):
                model.compile(given)
        with self.assertRaisesRegex(ValueError, "sizes were given for 2 inputs, and the method has 1 that are tensors: x.1; others"):
            model.compile([(2, 3), (2, 3)])

    def test_methods_are_attributes(self):
        model = tscompile.load(GRAPH)
        x = np.ones((2, 3), np.float32)
        np.testing.assert_array_equal(np.asarray(model.forward(x, 2)), np.asarray(model(x, 2)))
        with self.assertRaisesRegex(AttributeError, r"no attribute 'save': compile\(\) makes an engine"):
            model.save
        with self.assertRaisesRegex(AttributeError, "no attribute 'state_dict'$"):
            model.state_dict

    def test_the_source_of_an_engine(self):
        archive = os.path.join(ROOT, "samples", "models", "lenet_archive", "model.pt")
        engine = tscompile.load(archive).compile()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.tse")
            engine.save(path)
            self.assertEqual(engine.info["source_hash"], tscompile.load(path).info["source_hash"])
        self.assertRegex(engine.info["source_hash"], "^[0-9a-f]{16}$")
        with open(archive, "rb") as f:
            given = tscompile.load(f.read(), name="given").compile()
        self.assertEqual((given.info["source"], given.info["source_hash"]), ("given", engine.info["source_hash"]))

    def test_reports(self):
        model = tscompile.load(GRAPH)
        x = np.ones((2, 3), np.float32)
        partition = model.partition([x], min_block_size=1)
        self.assertEqual(partition.to_dict(), json.loads(partition.to_json()))
        self.assertGreater(partition.coverage, 0.5)
        self.assertEqual([n["op"] for n in model.explain("aten::relu", [x])["nodes"]], ["aten::relu"])
        profile = model.compile([x], min_block_size=1).profile(x, 1.0, runs=2)
        self.assertEqual((profile["runs"], profile["engines"][0]["calls"]), (2, 2))
        self.assertGreater(profile["engines"][0]["layers"][0]["us"], 0)
        self.assertEqual(model.inputs[1], {"name": "scale", "type": "float", "dtype": None, "shape": None, "optional": False})

    def test_live_modules_are_for_compile(self):
        with self.assertRaisesRegex(TypeError, "compile.. takes modules of PyTorch"):
            tscompile.load(Models())
        with self.assertRaisesRegex(TypeError, "compile.. takes modules of PyTorch, not str; load.. opens files"):
            tscompile.compile("model.pt", ())

    def test_errors_have_their_place(self):
        text = "graph(%x : Tensor):\n  %y : Tensor = aten::rleu(%x)\n  return (%y)\n"
        with self.assertRaises(tscompile.UnsupportedError) as caught:
            tscompile.load(text, name="net.ir").method()
        error = caught.exception
        self.assertEqual((error.file, error.line, error.code), ("net.ir", 2, "unsupported"))
        self.assertIn("aten::relu", error.notes[0])
        self.assertIn("net.ir:2:", str(error))
        self.assertIsInstance(error, NotImplementedError)
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(again), str(again), again.line), (type(error), str(error), 2))
        with self.assertRaises(tscompile.IoError):
            tscompile.load("/none/model.pt")
        with self.assertRaises(tscompile.InputError) as caught:
            tscompile.load("graph(%x : Tensor)\n  return (%y)\n")
        self.assertGreaterEqual(len(caught.exception.problems), 1)
        with self.assertRaises(tscompile.LimitError):
            tscompile.load(GRAPH, limits={"nodes": 2})
        with self.assertRaises(ValueError):
            tscompile.load(GRAPH, limits={"knots": 2})

    def test_prints_and_warnings_are_pythons(self):
        model = tscompile.load('graph(%x : int):\n  %s : str = prim::Constant[value="hello"]()\n'
                               "   = prim::Print(%s, %x)\n  return (%x)\n")
        import contextlib
        import io
        with contextlib.redirect_stdout(io.StringIO()) as out:
            model(3)
        self.assertEqual(out.getvalue(), "hello 3\n")


class Operators(unittest.TestCase):
    """Functions of Python as operators of a model."""

    @staticmethod
    def calling(call, result="Tensor"):
        return tscompile.load(f"graph(%x : Tensor):\n  %b : float = prim::Constant[value=2.]()\n  %r : Tensor = aten::relu(%x)\n"
                              f"  %y : {result} = {call}\n  return (%y)\n")

    def test_run_in_models_and_between_engines(self):
        @tscompile.operator("mylib::scaled(Tensor x, float by=1.5) -> Tensor")
        def scaled(x, by):
            return np.asarray(x) * np.float32(by)
        x = np.array([-1, 2], np.float32)
        model = self.calling("mylib::scaled(%r, %b)")
        for each in (model, model.compile([x]), model.compile()):
            self.assertEqual(each(x).tolist(), [0, 4])
        self.assertIn("has no shape function", json.dumps(model.explain("mylib::scaled")))
        self.assertEqual(scaled(x, 3).tolist(), [-3, 6])  # it stays a function
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.tse")
            model.compile([x]).save(path)
            self.assertEqual(tscompile.load(path)(x).tolist(), [0, 4])

    def test_shape_functions_let_them_into_engines(self):
        seen = []

        def halved(x, by):
            seen.append(x)
            return tscompile.TensorType((x.shape[0] // 2, *x.shape[1:]), x.dtype)

        @tscompile.operator("mylib::pairs(Tensor x, float by=1.5) -> Tensor", shapes=halved)
        def pairs(x, by):
            x = np.asarray(x)
            return (x[0::2] + x[1::2]) * np.float32(by)
        x = np.arange(24, dtype=np.float32).reshape(6, 4) - 5
        want = np.tanh(pairs(np.maximum(x, 0), 2))
        model = tscompile.load(
            "graph(%x : Tensor):\n  %b : float = prim::Constant[value=2.]()\n  %r : Tensor = aten::relu(%x)\n"
            "  %y : Tensor = mylib::pairs(%r, %b)\n  %t : Tensor = aten::tanh(%y)\n  return (%t)\n")
        for sizes in ([x], None, ["2..8x4"]):
            np.testing.assert_allclose(model.compile(sizes)(x).numpy(), want, rtol=1e-6)
        cut = model.partition(["2..8x4"])
        self.assertEqual(cut.coverage, 1)
        self.assertEqual(cut.to_dict()["segments"][0]["outputs"][0]["type"], "Float(*, 4)")
        self.assertTrue(any("?" in repr(s) for s in seen))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.tse")
            model.compile(["2..8x4"]).save(path)
            np.testing.assert_allclose(tscompile.load(path)(x).numpy(), want, rtol=1e-6)

    def test_shape_functions_may_say_less_or_fail(self):
        x = np.ones((2, 3), np.float32)
        np_like = lambda x: np.zeros(x.shape, x.dtype)

        def asks(x):
            return x if x.shape[0] > 1 else None

        def refuses(x):
            if x.ndim != 4:
                raise ValueError("x is to have 4 dimensions")
            return x
        for shapes in (None, lambda x: None, lambda x: x, np_like, asks, lambda x: tscompile.TensorType(x.shape, np.float32)):
            tscompile.operator("mylib::twice(Tensor x) -> Tensor", shapes)(lambda x: np.asarray(x) * 2)
            model = self.calling("mylib::twice(%r)")
            for each in (model, model.compile([x]), model.compile(["1..4x3"]), model.compile()):
                self.assertEqual(each(x).tolist(), [[2, 2, 2]] * 2)
        for shapes, said in ((lambda x: tscompile.TensorType((1, 2), x.dtype), "gave Float\\(2, 3\\) as result 1, .* Float\\(1, 2\\)"),
                             (lambda x: tscompile.TensorType((-1, 2), x.dtype), "ValueError: a size is -1"),
                             (lambda x: tscompile.TensorType((1, 2), "float33"), "there is no dtype 'float33'"),
                             (lambda x: object(), "TypeError: a shape function gives"),
                             (refuses, "ValueError: x is to have 4 dimensions")):
            tscompile.operator("mylib::twice(Tensor x) -> Tensor", shapes)(lambda x: np.asarray(x) * 2)
            with self.assertRaisesRegex(tscompile.Error, said):
                self.calling("mylib::twice(%r)")(x)
        with self.assertRaisesRegex(TypeError, "an operator is a function, not int"):
            tscompile.operator("mylib::none(Tensor x) -> Tensor")(3)
        with self.assertRaisesRegex(TypeError, "shapes takes a function, not tuple"):
            tscompile.operator("mylib::none(Tensor x) -> Tensor", (2, 3))

        def lists(xs, n, sizes):
            return [tscompile.TensorType((n, *x.shape[1:]), x.dtype) for x in xs], len(xs)
        tscompile.operator("mylib::heads(Tensor[] xs, int n, int[] sizes) -> (Tensor[], int)", lists)(
            lambda xs, n, sizes: ([np.asarray(x)[:n] for x in xs], len(xs)))
        model = tscompile.load(
            "graph(%x : Tensor):\n  %n : int = prim::Constant[value=1]()\n  %s : int[] = prim::ListConstruct(%n)\n"
            "  %xs : Tensor[] = prim::ListConstruct(%x, %x)\n  %h : Tensor[], %c : int = mylib::heads(%xs, %n, %s)\n"
            "  %y : Tensor = aten::cat(%h, %n)\n  return (%y, %c)\n")
        for each in (model, model.compile([x]), model.compile(["1..4x3"])):
            y, count = each(x)
            self.assertEqual((y.shape, count), ((1, 6), 2))

    def test_give_what_the_schema_says(self):
        tscompile.operator("mylib::both(Tensor x) -> (Tensor, int)")(lambda x: (np.asarray(x)[:1], x.size))
        tscompile.operator("mylib::floats(Tensor x) -> float[]")(lambda x: [1, 2])
        tscompile.operator("mylib::same(Tensor x) -> Tensor")(lambda x: x)

        @tscompile.operator("mylib::fill_(Tensor(a!) x, float to) -> Tensor(a!)")
        def fill(x, to):
            np.asarray(x)[...] = to
        x = np.array([3, 4], np.float32)
        both = tscompile.load("graph(%x : Tensor):\n  %y : Tensor, %n : int = mylib::both(%x)\n  return (%y, %n)\n")
        y, n = both(x)
        self.assertEqual((y.tolist(), n), ([3], 2))
        self.assertFalse(np.shares_memory(np.asarray(y), x))
        self.assertEqual(self.calling("mylib::floats(%r)", "float[]")(x), [1.0, 2.0])
        self.assertFalse(np.shares_memory(np.asarray(self.calling("mylib::same(%x)")(x)), x))
        self.calling("mylib::fill_(%x, %b)")(x)
        self.assertEqual(x.tolist(), [2, 2])

    def test_what_they_raise_is_the_cause(self):
        def fails(x):
            raise KeyError("nothing")
        tscompile.operator("mylib::fails(Tensor x) -> Tensor")(fails)
        with self.assertRaisesRegex(tscompile.ModelError, "KeyError: 'nothing'") as caught:
            self.calling("mylib::fails(%r)")(np.ones(2, np.float32))
        self.assertIsInstance(caught.exception.__cause__, KeyError)
        self.assertEqual(caught.exception.line, 4)

        def stops(x):
            raise KeyboardInterrupt
        tscompile.operator("mylib::fails(Tensor x) -> Tensor")(stops)  # in the place of the other
        with self.assertRaises(KeyboardInterrupt):
            self.calling("mylib::fails(%r)")(np.ones(2, np.float32))
        for given, said in ((lambda x: None, "left result 1 unset"), (lambda x: "text", "gave str as result 1"),
                            (lambda x: object(), "takes no object")):
            tscompile.operator("mylib::fails(Tensor x) -> Tensor")(given)
            with self.assertRaisesRegex(tscompile.Error, said):
                self.calling("mylib::fails(%r)")(np.ones(2, np.float32))
        tscompile.operator("mylib::two(Tensor x) -> (Tensor, Tensor)")(lambda x: x)
        with self.assertRaisesRegex(tscompile.ModelError, "its function gave 1 of 2 results"):
            tscompile.load("graph(%x : Tensor):\n  %y : Tensor, %z : Tensor = mylib::two(%x)\n  return (%y, %z)\n")(
                np.ones(2, np.float32))
        with self.assertRaisesRegex(tscompile.InputError, "an operator needs a schema"):
            tscompile.operator("fails")(fails)

    def test_scripted_models_call_them(self):
        @tscompile.operator("mine::top_two(Tensor x) -> (Tensor, Tensor)")
        def top_two(x):
            two = np.sort(np.asarray(x), -1)[:, ::-1]
            return two[:, 0], two[:, 1]

        @tscompile.operator("mine::swiglu(Tensor x, float beta) -> Tensor")
        def swiglu(x, beta):
            x = np.asarray(x)
            return x / (1 + np.exp(-np.float32(beta) * x))
        x = np.array([[1, -2, 3], [4, 6, 5]], np.float32)
        model = tscompile.load(os.path.join(ROOT, "samples/files/scorer.pt"))
        first, second = top_two(np.maximum(x, 0))
        want = swiglu(first - second, 2) + swiglu(first, 1)
        for each in (model, model.compile([x])):
            np.testing.assert_allclose(each(x).numpy(), want, rtol=1e-6)

    def test_threads_may_call_them(self):
        tscompile.operator("mylib::plus(Tensor x) -> Tensor")(lambda x: np.asarray(x) + 1)
        model, wrong = self.calling("mylib::plus(%r)").compile(), []

        def work():
            for i in range(50):
                if model(np.full(3, i, np.float32)).tolist() != [i + 1] * 3:
                    wrong.append(i)
        in_threads(4, work)
        self.assertEqual(wrong, [])


class Rules(unittest.TestCase):
    RULE = ("rule relu_of\nmatch:\ngraph(%x):\n  %y = aten::relu(%x)\n  return (%y)\nreplace:\n"
            "graph(%x):\n  %y = aten::tanh(%x)\n  return (%y)\n")
    GRAPH = "graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)\n"

    def test_compile_applies_them(self):
        x = np.full(1, -100, np.float32)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mine.rules")
            with open(path, "w") as file:
                file.write(self.RULE)
            for rules in (path, [path], self.RULE):
                model = tscompile.load(self.GRAPH, rules=rules)
                self.assertEqual(model(x).tolist(), [0])
                self.assertEqual(model.compile()(x).tolist(), [-1])
                self.assertEqual(model.compile(rewrite="+default -relu_of")(x).tolist(), [0])

    def test_mistakes_have_their_place(self):
        with self.assertRaises(tscompile.InputError) as caught:
            tscompile.load(self.GRAPH, rules="rule broken\n")
        self.assertEqual((caught.exception.file, caught.exception.line), ("<rules>", 1))


class LanguageModels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.TemporaryDirectory()
        sample = os.path.join(ROOT, "samples/language/byte_gpt/model")
        cls.folder = os.path.join(cls.work.name, "built")
        cls.model = tscompile.load(sample + ".ir", sample + ".weights").build(cls.folder, max_seq_len=200)

    @classmethod
    def tearDownClass(cls):
        del cls.model
        cls.work.cleanup()

    def test_texts_run_together_and_alone(self):
        self.assertEqual(self.model.settings["max_seq_len"], "200")
        alone = self.model.generate("ab", max_new_tokens=5)
        self.assertEqual((len(alone["tokens"]), alone["finished"]), (5, "length"))
        self.assertLessEqual(alone["first_token_ms"], alone["ms"])
        both = tscompile.LanguageModel(self.folder, threads=1).generate(["ab", [99]], max_new_tokens=5)
        self.assertEqual([len(r["tokens"]) for r in both], [5, 5])
        self.assertEqual(both[0]["tokens"], alone["tokens"])
        self.assertEqual(self.model.decode(self.model.encode("ab")), "ab")

    def test_a_folder_tells_what_opens_it(self):
        with self.assertRaises(tscompile.InputError) as caught:
            tscompile.load(self.folder)
        self.assertIn("which tscompile.LanguageModel(folder) opens", str(caught.exception))

    def test_streams_end_when_nobody_asks(self):
        whole = self.model.generate("ab", max_new_tokens=5)
        events = list(self.model.stream("ab", max_new_tokens=5))
        self.assertEqual([e["token"] for e in events[:-1]], whole["tokens"])
        self.assertEqual(events[-1]["tokens"], whole["tokens"])
        stream = self.model.stream("ab", max_new_tokens=150)
        next(stream)
        stream.close()
        self.assertEqual(self.model.generate("ab", max_new_tokens=5)["tokens"], whole["tokens"])

    def test_threads_share_steps(self):
        expected, got = self.model.generate("ab", max_new_tokens=20)["tokens"], []
        in_threads(6, lambda: got.append(self.model.generate("ab", max_new_tokens=20)["tokens"]))
        self.assertEqual(got, [expected] * 6)

    def test_what_is_wrong_is_told(self):
        with self.assertRaisesRegex(tscompile.InputError, "max_new_tokens"):
            self.model.generate("ab", max_new_tokenz=5)
        with self.assertRaisesRegex(tscompile.InputError, "999, which is no token"):
            self.model.generate(["ab", [999]])
        with self.assertRaisesRegex(tscompile.InputError, "max_seq_len"):
            tscompile.load(GRAPH).build(self.folder + "2", max_seq_lenn=3)
        with self.assertRaises(tscompile.Error):
            tscompile.LanguageModel(self.work.name)
        self.assertEqual(len(self.model.generate([1], max_new_tokens=2)["tokens"]), 2)

    def test_interrupt(self):
        signal.signal(signal.SIGINT, signal.default_int_handler)  # not there in jobs of the background
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            while True:
                self.model.generate("ab", max_new_tokens=150)
        self.assertEqual(len(self.model.generate([1], max_new_tokens=2)["tokens"]), 2)


class Document(unittest.TestCase):
    def test_what_it_shows_works(self):
        """All but what needs PyTorch."""
        with open(os.path.join(ROOT, "docs", "python.md"), encoding="utf-8") as f:
            text = f.read().split("## PyTorch")[0]
        models, here = os.path.join(ROOT, "samples", "models"), os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            for source, name in (("lenet_archive/model.pt", "model.pt"), ("lenet_scripted/model.ir", "model.ir"),
                                 ("lenet_scripted/weights.safetensors", "model.safetensors"),
                                 ("../language/documentation_gpt/model.ir", "decoder.ir"),
                                 ("../language/documentation_gpt/weights.safetensors", "decoder.safetensors")):
                os.symlink(os.path.join(models, source), os.path.join(folder, name))
            os.chdir(folder)
            try:
                names = {"x": np.sin(0.1 * np.arange(1024, dtype=np.float32)).reshape(1, 1, 32, 32)}
                blocks = re.findall(r"```python\n(.*?)```", text, re.S)
                with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
                    warnings.simplefilter("ignore", ResourceWarning)
                    for block in blocks:
                        exec(block, names)
            finally:
                os.chdir(here)
        self.assertEqual(len(blocks), 8)
        self.assertEqual(np.asarray(names["engine"](names["x"])).argmax(), 7)
        self.assertIn(str(names["model"].inputs).replace("'", '"'), text)


class Runs(unittest.TestCase):
    def test_limits(self):
        with self.assertRaises(tscompile.LimitError):
            tscompile.load(ENDLESS).run(0, time_limit=0.02)
        with self.assertRaises(tscompile.LimitError):
            tscompile.load(ENDLESS).run(0, time_limit="20ms")
        with self.assertRaises(tscompile.LimitError):
            tscompile.load(GRAPH).run(np.zeros((1000, 1000), np.float32), 1.0, memory_limit=1000)
        with self.assertRaises(tscompile.LimitError):
            tscompile.load(GRAPH).run(np.zeros((1000, 1000), np.float32), 1.0, memory_limit="1K")
        for wrong, kind, says in (({"time_limit": "soon"}, ValueError, "time_limit takes seconds, or a text such as '500ms', not 'soon'"),
                                  ({"time_limit": [1]}, TypeError, "time_limit takes seconds, or a text such as '500ms', not list"),
                                  ({"memory_limit": 1.5}, TypeError, "memory_limit takes bytes, or a text such as '512M', not float"),
                                  ({"memory_limit": "much"}, ValueError, "memory_limit takes bytes, or a text such as '512M', not 'much'"),
                                  ({"memory_limit": -1}, ValueError, "memory_limit takes bytes from 0 up to 2**64 - 1"),
                                  ({"thread": 1}, TypeError, "the method has no input 'thread', did you mean 'threads'?"),
                                  ({"bias": 1}, TypeError, "the method has no input 'bias', it takes x, scale"),
                                  ({"threads": -1}, ValueError, "threads takes a number from 1 up, or 0 for all, not -1")):
            with self.assertRaisesRegex(kind, re.escape(says)):
                tscompile.load(GRAPH).run(np.ones(3, np.float32), 1.0, **wrong)
        for no_limit in (float("inf"), float("nan"), 1e10, 1e300):
            x = np.ones(3, np.float32)
            np.testing.assert_allclose(np.asarray(tscompile.load(GRAPH).run(x, 1.0, time_limit=no_limit)), expected(x, 1), rtol=1e-6)

    def test_interrupt(self):
        signal.signal(signal.SIGINT, signal.default_int_handler)  # not there in jobs of the background
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            tscompile.load(ENDLESS)(0)
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)

    def test_interrupt_after_a_run_in_a_run(self):
        """What a run prints may be caught by code that runs another."""
        class Runs:
            def write(self, text):
                tscompile.load(GRAPH)(np.ones(2, np.float32), 1.0)

            def flush(self):
                pass
        prints = ENDLESS.replace("  %r :", '  %text : str = prim::Constant[value="text"]()\n   = prim::Print(%text)\n  %r :')
        model = tscompile.load(prints)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        stdout, sys.stdout = sys.stdout, Runs()
        try:
            threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            with self.assertRaises(KeyboardInterrupt):
                model(0)
        finally:
            sys.stdout = stdout
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            time.sleep(5)

    def test_the_lock_is_released(self):
        """While one thread runs a model, this one goes on."""
        def endless():
            with self.assertRaises(tscompile.LimitError):
                tscompile.load(ENDLESS).run(0, time_limit=0.5)
        thread = threading.Thread(target=endless)
        steps = 0
        thread.start()
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            steps += 1
        self.assertTrue(thread.is_alive())
        thread.join()
        self.assertGreater(steps, 1000)

    def test_threads_share_a_model(self):
        model = tscompile.load(GRAPH).compile(min_block_size=1)
        x = np.random.default_rng(1).standard_normal((64, 64), dtype=np.float32)
        want = np.asarray(model(x, 1.5)).tobytes()
        wrong = []

        def work():
            for _ in range(50):
                if np.asarray(model(x, 1.5)).tobytes() != want:
                    wrong.append(1)
        in_threads(4, work)
        self.assertEqual(wrong, [])

    def test_sessions_go_on_where_the_last_call_ended(self):
        model = tscompile.load(os.path.join(ROOT, "tests/data/state/stream.pt"))
        x = np.ones((2, 4), np.float32)
        for each in (model, model.compile([x], keep_state=True)):
            stream = each.session()
            self.assertEqual([stream(x)[2] for _ in range(3)], [1, 2, 3])
            self.assertEqual(each(x)[2], 1)
            stream.reset()
            self.assertEqual(stream.run(x, seed=1)[2], 1)
        stream = model.session()
        stream(x)
        stream.run(7, method="reset")
        self.assertEqual((int(stream(x)[1]), stream(x)[2]), (8, 2))
        with self.assertRaises(tscompile.InputError):
            model.compile([x]).session()(x)
        stream = model.session()
        in_threads(3, lambda: [stream(x) for _ in range(20)])
        self.assertEqual(stream(x)[2], 61)

    def test_nothing_leaks(self):
        model, same = tscompile.load(GRAPH), identity("Tensor")

        class Array(np.ndarray):
            pass
        x = np.zeros(1000, np.float32).view(Array)
        y = same(x)
        alive = weakref.ref(x)
        del x
        gc.collect()
        self.assertIsNotNone(alive())  # the result is its memory
        del y
        gc.collect()
        self.assertIsNone(alive())
        big = np.zeros((256, 256), np.float32)
        references = sys.getrefcount(big)

        def once():
            np.asarray(model(big, 1.0))
            np.from_dlpack(same(big))
            same(Capsule(same(big)))
            identity("Dict(str, int[])")({"a": [1, 2]})
            try:
                model("x", 1.0)
            except tscompile.Error:
                pass
            try:
                tscompile.load("graph(%x : Tensor):\n  return (%y)\n")
            except tscompile.Error:
                pass
        for _ in range(300):
            once()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(3000):
            once()
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        self.assertEqual(sys.getrefcount(big), references)
        self.assertLess(grown, 8000, "KiB in 3000 rounds")


if __name__ == "__main__":
    warnings.simplefilter("error")
    unittest.main(argv=[a for a in sys.argv if a != "--needed"])
