"""Tests samples/seeded.py: the golden that the C++ side reads too, the generator's distribution, the grammar.

    python3 seeded_test.py            runs the tests
    python3 seeded_test.py --update   remakes tests/data/values/golden.txt; read the difference
"""

import doctest
import math
import os
import sys
import tempfile
import unittest
import zlib

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "samples"))
import seeded  # noqa: E402

DOCS = os.path.join(HERE, "..", "..", "docs", "values.md")
GOLDEN = os.path.join(HERE, "..", "data", "values", "golden.txt")


def memory(text):
    """The bytes of a tensor as they lie in memory."""
    array, dtype = seeded.parse_typed(text)
    if dtype == "bf16":
        array = (array.view(np.uint32) >> 16).astype(np.uint16)
    return array.tobytes()


def golden_lines():
    with open(GOLDEN, encoding="utf-8") as file:
        return file.read().splitlines()


def remade(line):
    if line.startswith("#"):
        return line
    text, form, _ = line.rsplit(" ", 2)
    value = memory(text).hex() or "-" if form == "bytes" else f"{zlib.crc32(memory(text)):08x}"
    return f"{text} {form} {value}"


def plain_normal(number):
    """normal() in Python's own floats, one number at a time."""
    def logarithm(x):
        m, e = math.frexp(x)
        if m < 0.70710678118654752:
            m, e = m * 2, e - 1
        s = (m - 1) / (m + 1)
        q, total = s * s, 0.0
        for k in range(25, 0, -2):
            total = total * q + 1.0 / k
        return 2 * s * total + e * 0.69314718055994531

    def polynomial(c, x):
        total = c[7]
        for i in range(6, -1, -1):
            total = total * x + c[i]
        return total

    p = (float(number >> 12) + 0.5) * 2.0**-52
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        return q * polynomial(seeded._A, r) / polynomial(seeded._B, r)
    r = math.sqrt(-logarithm(p if q < 0 else 1 - p))
    if r <= 5:
        x = polynomial(seeded._C, r - 1.6) / polynomial(seeded._D, r - 1.6)
    else:
        x = polynomial(seeded._E, r - 5) / polynomial(seeded._F, r - 5)
    return -x if q < 0 else x


class Golden(unittest.TestCase):
    def test_every_line(self):
        for line in golden_lines():
            self.assertEqual(line, remade(line))


class Generator(unittest.TestCase):
    def test_bits_are_splitmix64(self):
        # The first outputs of the published generator for seed 1234567.
        self.assertEqual([int(b) for b in seeded.bits(1234567, 3)],
                         [6457827717110365317, 3203168211198807973, 9817491932198370423])
        self.assertEqual(list(seeded.bits(5, 3, start=4)), list(seeded.bits(5, 7)[4:]))

    def test_normal_equals_plain_floats(self):
        numbers = np.concatenate([seeded.bits(3, 2000), np.array([0, 1, 2**63, 2**64 - 1, 2**40, 2**12], np.uint64)])
        self.assertEqual([float(x) for x in seeded.normal(numbers)], [plain_normal(int(n)) for n in numbers])

    def test_normal_inverts_the_distribution(self):
        numbers = np.concatenate([seeded.bits(8, 20000), np.array([0, 2**20, 2**40, 2**64 - 1], np.uint64)])
        for number, x in zip(numbers, seeded.normal(numbers)):
            p = (float(int(number) >> 12) + 0.5) * 2.0**-52
            tail = min(p, 1 - p)
            self.assertAlmostEqual(0.5 * math.erfc(abs(x) / math.sqrt(2)) / tail, 1, delta=2e-14 * (1 + x * x))

    def test_normal_is_symmetric(self):
        numbers = seeded.bits(1, 100000)
        self.assertTrue(np.array_equal(seeded.normal(numbers), -seeded.normal(~numbers)))

    def test_moments(self):
        x = seeded.parse("1000000:f64:randn(seed=11)")
        self.assertLess(abs(x.mean()), 0.004)
        self.assertLess(abs(x.std() - 1), 0.003)
        self.assertLess(abs((x**3).mean()), 0.02)
        self.assertLess(abs((x**4).mean() - 3), 0.05)
        self.assertLess(abs((np.abs(x) > 3).mean() - 0.0026998), 0.0003)

    def test_bfloat16_rounds_to_the_nearest_even(self):
        values = np.array([1.00390625, 1.01171875, 1.0039062500000003, -1.0039062500000003, 0.0, 1e-45, 3.4e38, np.inf])
        expected = [1.0, 1.015625, 1.0078125, -1.0078125, 0.0, 0.0, np.inf, np.inf]
        self.assertEqual(list(seeded._round_bfloat16(values)), expected)


class Text(unittest.TestCase):
    def test_literals_round_trip(self):
        for dtype in seeded.DTYPES:
            rule = "randint(0,2,seed=4)" if dtype == "bool" else "arange" if seeded._is_integral(dtype) else "randn(seed=4)"
            for shape in ("scalar", "3", "2x3", "2x1x3", "0x2"):
                array, _ = seeded.parse_typed(f"{shape}:{dtype}:{rule}" if shape != "scalar" or "rand" in rule else f"scalar:{dtype}=1")
                again, name = seeded.parse_typed(seeded.format(array, dtype))
                self.assertEqual((name, array.shape, array.tobytes()), (dtype, again.shape, again.tobytes()))

    def test_special_floats_round_trip(self):
        for dtype in (np.float32, np.float64, np.float16):
            info = np.finfo(dtype)
            a = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal, 1 / 3], dtype)
            self.assertEqual(a.tobytes(), seeded.parse(seeded.format(a)).tobytes())

    def test_mistakes(self):
        for text in ("", "2:f32", "2:f31:zeros", "2:f32:rand", "2:f32=[1]", "2:f32=[1 2 3]", "2x2:f32=[1 2 3 4]",
                     "2x2:f32=[1;2;3;4]", "2:i8=[1 128]", "2:i8=[1 1.5]", "2:bool=[2 0]", "1:f32=[1e999]", "1:f32=[1e-999]",
                     "1:f32=[0x1]", "1:f32=[1+2j]", "2:f32=[1 2", "2:f32=[1 2] 3", "3:i8:randn", "300:i8:arange",
                     "3:u8:randint(0,257)", "3:i64:randint(3,3)", "3:i64:randint(1)", "3:f32:randn(1)", "3:f32:randn(std=-1)",
                     "3:f32:randn(seed=-1)", "3:f32:randn(seed=18446744073709551616)", "3:f32:uniform(2,1)",
                     "3:f32:zeros(seed=1)", "3:f32:randn(seed=1,seed=2)", "1000000x1000000x1000000:f32:zeros", "1:f32=[infx]"):
            with self.assertRaises(ValueError, msg=text):
                seeded.parse(text)

    def test_recipe(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "r.weights")
            with open(path, "w", encoding="utf-8") as file:
                file.write("# a comment\n\na.b = 2:f32=[1 2]  # after\n\tc=3:bf16:randn(seed=1)\n")
            tensors = seeded.load_recipe(path)
            self.assertEqual(list(tensors), ["a.b", "c"])
            self.assertEqual(tensors["a.b"].tolist(), [1, 2])
            self.assertEqual(seeded.load_typed_recipe(path)["c"][1], "bf16")
            for bad in ("a = 2:f32=[1]", "a\n", "a = 1:f32:zeros\na = 1:f32:zeros", "= 1:f32:zeros", "a = 1:f32:zeros 2"):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(bad)
                with self.assertRaises(ValueError, msg=bad):
                    seeded.load_recipe(path)


class Docs(unittest.TestCase):
    def test_examples(self):
        failed, count = doctest.testfile(DOCS, module_relative=False, encoding="utf-8")
        self.assertEqual(failed, 0)
        self.assertGreater(count, 2)


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        lines = [remade(line) for line in golden_lines()]
        with open(GOLDEN, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    else:
        unittest.main()
