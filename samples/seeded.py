"""Tensors as tscompile's value grammar writes them, in Python: `1x3x224x224:f32:randn(seed=0)`, `2x2:i64=[1 2; 3 4]`.

Gives the same elements as the C++ side, bit for bit; docs/values.md has the grammar and the generator's definition. Needs
numpy only. numpy has no bfloat16: such tensors come as float32 arrays whose values are already rounded.

    python3 seeded.py '4:f32:randn(seed=1)'     prints a tensor as a literal
    python3 seeded.py FILE.weights              lists the tensors of a recipe
"""

import re
import sys

import numpy as np

DTYPES = {
    "u8": np.uint8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f16": np.float16,
    "f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128, "bool": np.bool_,
    "bf16": np.float32,
}
LONG_NAMES = {
    "uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "float16": "f16", "float32": "f32",
    "float64": "f64", "complex64": "c64", "complex128": "c128", "bfloat16": "bf16",
}
MAX_ELEMENTS = 1 << 48


class ValueTextError(ValueError):
    """What is wrong with a text; `at` is the place in it."""

    def __init__(self, message, at):
        super().__init__(f"{message} (at character {at + 1})")
        self.at = at


# ---- the generator ----

def bits(seed, count, start=0):
    """Numbers start, start + 1 ... of a seed, of 64 bits each: SplitMix64."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(start + 1, start + count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform(b):
    """In [0, 1), from bits."""
    return (b >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _logarithm(x):
    """By elementary operations only, which IEEE 754 fixes; np.log differs between machines."""
    m, e = np.frexp(x)
    small = m < 0.70710678118654752
    m = np.where(small, m * 2, m)
    e = np.where(small, e - 1, e)
    s = (m - 1) / (m + 1)
    q = s * s
    total = np.zeros_like(q)
    for k in range(25, 0, -2):
        total = total * q + 1.0 / k
    return 2 * s * total + e * 0.69314718055994531


def _polynomial(coefficients, x):
    total = np.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    return total


# AS 241, PPND16.
_A = (3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
      4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3)
_B = (1.0, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3, 2.1213794301586595867e+4,
      3.9307895800092710610e+4, 2.8729085735721942674e+4, 5.2264952788528545610e+3)
_C = (1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
      1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4)
_D = (1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1, 1.48103976427480074590e-1,
      1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9)
_E = (6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
      2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7)
_F = (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2, 7.86869131145613259100e-4,
      1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15)


def normal(b):
    """Mean 0, deviation 1, from bits: the inverse of the distribution by Wichura's AS 241."""
    p = ((b >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    q = p - 0.5
    r = 0.180625 - q * q
    middle = q * _polynomial(_A, r) / _polynomial(_B, r)
    r = np.sqrt(-_logarithm(np.where(q < 0, p, 1 - p)))
    near, far = r - 1.6, r - 5
    tail = np.where(r <= 5, _polynomial(_C, near) / _polynomial(_D, near), _polynomial(_E, far) / _polynomial(_F, far))
    return np.where(np.abs(q) <= 0.425, middle, np.where(q < 0, -tail, tail))


def _round_bfloat16(values):
    """float64 to float32 arrays that hold the nearest bfloat16, ties to even."""
    values = np.asarray(values, dtype=np.float64)
    with np.errstate(over="ignore"):
        near = values.astype(np.float32)
    # First to the neighbour with an odd last bit: so the second rounding sees on which side of a tie the value was.
    pattern = near.view(np.uint32).copy()
    odd = (near.astype(np.float64) != values) & ~np.isnan(values) & (pattern & 1 == 0)
    away = np.abs(near.astype(np.float64)) > np.abs(values)
    pattern = np.where(odd, np.where(away, pattern - 1, pattern + 1), pattern).astype(np.uint32)
    rounded = (pattern + np.uint32(0x7FFF) + ((pattern >> 16) & 1)) & np.uint32(0xFFFF0000)
    rounded = np.where(np.isnan(values), np.uint32(0x7FC00000), rounded).astype(np.uint32)
    return rounded.view(np.float32)


def _as_elements(doubles, dtype):
    """Doubles as elements of a real dtype, rounded once."""
    if dtype == "bf16":
        return _round_bfloat16(doubles)
    with np.errstate(over="ignore"):
        return np.asarray(doubles).astype(DTYPES[dtype])


def _range_of(dtype):
    """The integers that a dtype holds exactly."""
    if dtype == "bool":
        return 0, 1
    if np.issubdtype(DTYPES[dtype], np.integer):
        return int(np.iinfo(DTYPES[dtype]).min), int(np.iinfo(DTYPES[dtype]).max)
    return -(1 << 53), 1 << 53


def _is_integral(dtype):
    return dtype == "bool" or np.issubdtype(DTYPES[dtype], np.integer)


def generate(shape, dtype, rule, seed=0, lo=None, hi=None, mean=0.0, std=1.0):
    """An array made by a rule: zeros, ones, arange, randn, uniform (lo, hi), randint (lo, hi)."""
    dtype = LONG_NAMES.get(dtype, dtype)
    count = int(np.prod([int(s) for s in shape], dtype=object)) if len(shape) else 1
    if rule in ("zeros", "ones"):
        return np.full(shape, rule == "ones", DTYPES[dtype])
    lowest, highest = _range_of(dtype)
    if rule == "arange":
        if count and count - 1 > highest:
            raise ValueError(f"{dtype} does not hold the numbers up to {count - 1}")
        return _integers(np.arange(count, dtype=np.int64), dtype).reshape(shape)
    if rule == "randint":
        if not lo < hi:
            raise ValueError("randint(lo,hi) needs lo < hi")
        if lo < lowest or hi - 1 > highest:
            raise ValueError(f"{dtype} does not hold all numbers from {lo} to {hi - 1}")
        first, width = np.uint64(lo % 2**64), np.uint64(hi - lo)
        return _in_pieces(count, seed, DTYPES[dtype],
                          lambda b: _integers((first + b % width).view(np.int64), dtype)).reshape(shape)
    if _is_integral(dtype):
        raise ValueError(f"{rule} makes floats, not {dtype}; use randint")
    if rule == "randn":
        number = lambda b: mean + std * normal(b)
    elif rule == "uniform":
        low, high = (0.0, 1.0) if lo is None else (float(lo), float(hi))
        number = lambda b: low + (high - low) * uniform(b)
    else:
        raise ValueError(f"unknown generator '{rule}'")
    if dtype in ("c64", "c128"):  # element i takes the numbers 2i and 2i + 1
        part = "f32" if dtype == "c64" else "f64"
        parts = _in_pieces(2 * count, seed, DTYPES[part], lambda b: _as_elements(number(b), part))
        return parts.view(DTYPES[dtype]).reshape(shape)
    return _in_pieces(count, seed, DTYPES[dtype], lambda b: _as_elements(number(b), dtype)).reshape(shape)


def _in_pieces(count, seed, numpy_dtype, elements, piece=1 << 18):
    """elements(bits) of all numbers, some at a time: the intermediate arrays are many."""
    out = np.empty(count, numpy_dtype)
    with np.errstate(over="ignore"):
        for start in range(0, count, piece):
            n = min(piece, count - start)
            out[start:start + n] = elements(bits(seed, n, start))
    return out


def _integers(values, dtype):
    return values.astype(DTYPES[dtype]) if _is_integral(dtype) else _as_elements_of_integers(values, dtype)


def _as_elements_of_integers(values, dtype):
    if dtype in ("c64", "c128"):
        return values.astype(np.float64).astype(DTYPES[dtype])
    return _as_elements(values.astype(np.float64), dtype)


# ---- reading ----

_DECIMAL = r"(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)"
_HEXADECIMAL = r"0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][-+]?\d+"
_REAL = rf"(?:inf|nan|{_HEXADECIMAL}|{_DECIMAL})"
_NUMBER = re.compile(rf"(?P<first>-?{_REAL})(?:(?P<imaginary>j)|(?P<second>[-+]{_REAL})j)?(?![\w.])", re.ASCII)
_BLANKS = re.compile(r"[ \t\r\n]*")
_WORD = re.compile(r"[A-Za-z]\w*", re.ASCII)
_NAMED = re.compile(r"([A-Za-z]\w*)[ \t\r\n]*=[ \t\r\n]*", re.ASCII)
_HEAD = re.compile(r"(?P<shape>scalar|\d+(?:x\d+)*):(?P<dtype>\w+)(?P<kind>[:=])", re.ASCII)


def _to_double(text):
    value = float.fromhex(text) if "x" in text.lower() else float(text)
    mantissa = re.split("[pP]" if "x" in text.lower() else "[eE]", text.lower().replace("0x", "", 1))[0]
    lost = value == 0 and re.search("[1-9a-f]", mantissa)
    if lost or (np.isinf(value) and "inf" not in text):
        raise OverflowError("the number is out of the range of 64-bit floats")
    return float("nan") if "nan" in text else value


class _Reader:
    def __init__(self, text, at=0):
        self.text = text
        self.at = at

    def fail(self, message, at=None):
        raise ValueTextError(message, self.at if at is None else at)

    def blanks(self):
        self.at = _BLANKS.match(self.text, self.at).end()

    def take(self, mark):
        if not self.text.startswith(mark, self.at):
            return False
        self.at += len(mark)
        return True

    def number(self):
        """A number as int, float or complex."""
        match = _NUMBER.match(self.text, self.at)
        if not match:
            self.fail("expected a number")
        try:
            if match["second"]:
                value = complex(_to_double(match["first"]), _to_double(match["second"]))
            elif match["imaginary"]:
                value = complex(0.0, _to_double(match["first"]))
            elif re.fullmatch(r"-?[0-9]+", match["first"]):
                value = int(match["first"])
                _to_double(match["first"])
            else:
                value = _to_double(match["first"])
        except OverflowError as error:
            self.fail(str(error))
        # "-0" is a zero with a sign where floats are wanted.
        self.literal = match["first"]
        self.at = match.end()
        return value

    def tensor(self):
        """A tensor: (array, short dtype name)."""
        match = _HEAD.match(self.text, self.at)
        if not match:
            self.fail("expected a tensor such as 2x3:f32:zeros")
        shape = () if match["shape"] == "scalar" else tuple(int(s) for s in match["shape"].split("x"))
        dtype = LONG_NAMES.get(match["dtype"], match["dtype"])
        if dtype not in DTYPES:
            self.fail(f"unknown dtype '{match['dtype']}'", match.start("dtype"))
        count = 1
        for size in shape:
            count *= size
        if count > MAX_ELEMENTS:
            self.fail("a tensor of this shape has more than 2^48 elements")
        self.at = match.end()
        return (self.generated(shape, dtype) if match["kind"] == ":" else self.literal_tensor(shape, count, dtype)), dtype

    def generated(self, shape, dtype):
        begin = self.at
        rule = _WORD.match(self.text, self.at)
        if not rule:
            self.fail("expected a generator")
        self.at = rule.end()
        positions, named = self.arguments() if self.take("(") else ([], {})
        allowed = {"randn": {"seed", "mean", "std"}, "uniform": {"seed"}, "randint": {"seed"}}.get(rule[0], set())
        if set(named) - allowed:
            self.fail(f"this generator has no argument '{min(set(named) - allowed)}'", begin)
        seed = named.get("seed", 0)
        if not isinstance(seed, int) or not 0 <= seed < 2**64:
            self.fail("a seed is an integer from 0 to 2^64 - 1", begin)
        if not all(np.isreal(v) and np.isfinite(v) for v in positions + list(named.values())) or named.get("std", 1) < 0:
            self.fail("arguments are finite numbers, 'std' is not negative", begin)
        if rule[0] == "randint":
            if len(positions) != 2 or not all(isinstance(p, int) and -2**63 <= p < 2**63 for p in positions):
                self.fail("randint takes two integers: randint(lo,hi) makes numbers from lo to hi - 1", begin)
        elif rule[0] == "uniform":
            if len(positions) not in (0, 2) or (positions and positions[0] > positions[1]):
                self.fail("uniform takes two finite numbers or none: uniform(lo,hi)", begin)
        elif positions:
            self.fail("this generator takes no arguments without a name", begin)
        lo, hi = positions or (None, None)
        mean, std = float(named.get("mean", 0)), float(named.get("std", 1))
        try:
            return generate(shape, dtype, rule[0], seed=seed, lo=lo, hi=hi, mean=mean, std=std)
        except ValueError as error:
            self.fail(str(error), begin)

    def arguments(self):
        positions, named = [], {}
        self.blanks()
        while not self.take(")"):
            name = _NAMED.match(self.text, self.at)
            if name:
                if name[1] in named:
                    self.fail(f"'{name[1]}' is given twice")
                self.at = name.end()
                named[name[1]] = self.number()
            else:
                positions.append(self.number())
            self.blanks()
            if self.take(","):
                self.blanks()
            elif not self.text.startswith(")", self.at):
                self.fail("expected ',' or ')'")
        return positions, named

    def element(self, dtype):
        if dtype == "bool":
            for word, value in (("true", True), ("True", True), ("false", False), ("False", False)):
                if re.compile(word + r"(?!\w)").match(self.text, self.at):
                    self.at += len(word)
                    return value
        begin = self.at
        value = self.number()
        if _is_integral(dtype):
            lowest, highest = _range_of(dtype)
            if not isinstance(value, int):
                self.fail(f"{value} is not an integer, but the tensor is {dtype}", begin)
            if not lowest <= value <= highest:
                self.fail(f"{value} does not fit in {dtype}", begin)
            return value
        if isinstance(value, int):
            value = float(self.literal)
        if isinstance(value, complex) and dtype not in ("c64", "c128"):
            self.fail(f"{value} is complex, but the tensor is {dtype}", begin)
        return value

    def literal_tensor(self, shape, count, dtype):
        begin = self.at
        values = []
        if not self.take("["):
            if shape:
                self.fail("expected '[' and the elements")
            values.append(self.element(dtype))
        else:
            self.blanks()
            while not self.take("]"):
                if len(values) == count:
                    self.fail(f"{list(shape)} has {count} elements, the literal has more", begin)
                values.append(self.element(dtype))
                if len(values) < count:
                    self.separator(shape, len(values))
                self.blanks()
            if len(values) < count:
                self.fail(f"{list(shape)} has {count} elements, the literal has {len(values)}", begin)
        if dtype in ("c64", "c128"):
            parts = np.array([(complex(v).real, complex(v).imag) for v in values], dtype=np.float64).reshape(-1)
            with np.errstate(over="ignore"):
                return parts.astype(np.float32 if dtype == "c64" else np.float64).view(DTYPES[dtype]).reshape(shape)
        if _is_integral(dtype):
            return np.array(values, dtype=DTYPES[dtype]).reshape(shape)
        return _as_elements(np.array(values, dtype=np.float64), dtype).reshape(shape)

    def separator(self, shape, index):
        self.blanks()
        if self.text.startswith("]", self.at):
            return
        begin, found = self.at, 0
        if self.take(","):
            self.blanks()
        else:
            while self.take(";"):
                found += 1
                self.blanks()
        if found != _dimensions_ending(shape, index):
            self.fail(f"expected {_dimensions_ending(shape, index)} ';' after element {index} of {list(shape)}, "
                      f"found {found}", begin)


def _dimensions_ending(shape, index):
    """How many dimensions end before an element: as many semicolons stand there."""
    ending = 0
    for size in reversed(shape[1:]):
        if index % size:
            break
        index //= size
        ending += 1
    return ending


def parse(text):
    """The tensor that a text describes, as an array."""
    return parse_typed(text)[0]


def parse_typed(text):
    """The same with its dtype's short name, which tells bf16 from f32."""
    reader = _Reader(text)
    reader.blanks()
    result = reader.tensor()
    reader.blanks()
    if reader.at != len(text):
        reader.fail("expected the end of the tensor")
    return result


# ---- writing ----

def _real_text(value, dtype):
    value = float(value)
    if value != value:
        return "nan"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    text = repr(value)
    if dtype != "f64":
        short = repr(float(str(np.float32(value))))
        text = short if np.float32(float(short)) == np.float32(value) else text
    return text[:-2] if text.endswith(".0") else text


def _element_text(value, dtype):
    if dtype == "bool":
        return "true" if value else "false"
    if _is_integral(dtype):
        return str(int(value))
    if dtype in ("c64", "c128"):
        part = "f32" if dtype == "c64" else "f64"
        imaginary = _real_text(value.imag, part)
        return _real_text(value.real, part) + ("" if imaginary.startswith("-") else "+") + imaginary + "j"
    return _real_text(value, dtype)


def format(array, dtype=None):
    """An array as a literal that `parse` reads back to the last bit. dtype: "bf16" for rounded float32 arrays."""
    array = np.asarray(array)
    if dtype is None:
        dtype = next((name for name, t in DTYPES.items() if array.dtype == t), None)
        if dtype is None:
            raise ValueError(f"arrays of dtype {array.dtype} cannot be written")
    dtype = LONG_NAMES.get(dtype, dtype)
    shape = array.shape
    if not shape:
        return f"scalar:{dtype}={_element_text(array[()], dtype)}"
    out = ["x".join(map(str, shape)), ":", dtype, "=["]
    for i, value in enumerate(array.reshape(-1)):
        if i:
            out.append(";" * _dimensions_ending(shape, i) + " ")
        out.append(_element_text(value, dtype))
    return "".join(out) + "]"


# ---- recipes ----

def load_recipe(path):
    """The tensors of a weights recipe: a dict of arrays in the file's order."""
    return {name: array for name, (array, _) in load_typed_recipe(path).items()}


def load_typed_recipe(path):
    """The same with dtypes: a dict of (array, short dtype name)."""
    tensors = {}
    with open(path, encoding="utf-8-sig", newline="\n") as file:
        for number, line in enumerate(file, 1):
            match = re.fullmatch(r"[ \t\r]*(?:([^ \t\r=#\n]+)[ \t\r]*=[ \t\r]*([^#\n]*))?(?:#.*)?\n?", line)
            if not match:
                raise ValueError(f"{path}:{number}: expected 'name = tensor'")
            if match[1] is None:
                continue
            if match[1] in tensors:
                raise ValueError(f"{path}:{number}: tensor '{match[1]}' is defined again")
            try:
                tensors[match[1]] = parse_typed(match[2])
            except ValueTextError as error:
                raise ValueError(f"{path}:{number}: {error}") from None
    return tensors


def main(arguments):
    for text in arguments:
        if text.endswith(".weights"):
            for name, (array, dtype) in load_typed_recipe(text).items():
                print(f"{name}\t{dtype}\t{'x'.join(map(str, array.shape)) or 'scalar'}")
        else:
            print(format(*parse_typed(text)))


if __name__ == "__main__":
    main(sys.argv[1:])
