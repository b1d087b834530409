"""Makes runtime/llm/unicode_ranges.def: the classes of characters that tokenizers ask for, by Python's unicodedata."""

import os
import unicodedata

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "runtime", "llm", "unicode_ranges.def")
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def composing():
    """Characters that may join with one before them."""
    seconds = set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))  # Hangul vowels and ends
    for c in POINTS:
        parts = unicodedata.decomposition(chr(c)).split()
        if len(parts) == 2 and not parts[0].startswith("<") and unicodedata.normalize("NFC", chr(c)) == chr(c):
            seconds.add(int(parts[1], 16))
    return seconds


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def main():
    seconds = composing()
    classes = {
        "LETTERS": [c for c in POINTS if unicodedata.category(chr(c)).startswith("L")],
        "NUMBERS": [c for c in POINTS if unicodedata.category(chr(c)).startswith("N")],
        "NOT_SURELY_NFC": [c for c in POINTS if c in seconds or unicodedata.combining(chr(c))
                           or unicodedata.normalize("NFC", chr(c)) != chr(c)],
    }
    with open(OUT, "w") as out:
        out.write(f"// Ranges of Unicode {unicodedata.unidata_version}, by tests/tools/make_unicode_ranges.py: "
                  "X(first, last).\n")
        for name, points in classes.items():
            out.write(f"#ifdef {name}\n")
            line = ""
            for first, last in ranges(points):
                item = f"X({first:#x}, {last:#x})"
                if len(line) + len(item) > 118:
                    out.write(line.rstrip() + "\n")
                    line = ""
                line += item + " "
            out.write(line.rstrip() + "\n#endif\n")


main()
