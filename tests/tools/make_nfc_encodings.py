"""Makes tests/data/llm/nfc_encodings.json: what Hugging Face's `tokenizers` makes of texts of many scripts, with the vocabulary
of tests/data/llm and the normalizer and the pattern of Qwen's tokenizers. Needs the package `tokenizers`."""

import json
import os
import unicodedata

from tokenizers import Tokenizer

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "llm")
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
           r"|\s*[\r\n]+|\s+(?!\S)|\s+")
END = "<|endoftext|>"
TEXTS = [
    "नमस्ते दुनिया, क़लम और ज़िंदगी १२३", "สวัสดีชาวโลก น้ำ ๔๕", "বাংলা ভাষা ড় ঢ় য়", "வணக்கம் உலகம் கொ", "తెలుగు భాష",
    "བོད་སྐད་", "မြန်မာဘာသာ", "السَّلَامُ عَلَيْكُمْ ١٢", "שָׁלוֹם עוֹלָם", "Tiếng Việt", "한국어 각", "日本語 が ガ", "ΐ ΰ ὖ", "Å Ω K",
    "ﬁ ² ½", "q\u0307\u0323 a\u0323\u0302 e\u0301", "\u0301a", "\u0344 \u0f73 \u2126 \u212b", "\u1100\u1161\u11a8 \u1100\u1161",
    f"{END}\u0338 >\u0338 =\u0338", f"e{END}\u0301", "🙂\u0301", "\U0001d15e \U0002f800", "cafe\u0301's 12\u0301\n\u0338x",
]


def main():
    with open(os.path.join(DATA, "tokenizer.json"), encoding="utf-8") as file:
        tokenizer = json.load(file)
    tokenizer["normalizer"] = {"type": "NFC"}
    tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]}
    encoder = Tokenizer.from_str(json.dumps(tokenizer))
    texts = TEXTS + [unicodedata.normalize("NFD", t) for t in TEXTS]
    texts = list(dict.fromkeys(texts))
    with open(os.path.join(DATA, "nfc_encodings.json"), "w", encoding="utf-8") as out:
        rows = (json.dumps({"text": t, "tokens": encoder.encode(t).ids}, separators=(",", ":")) for t in texts)
        out.write("[\n" + ",\n".join(rows) + "\n]\n")


main()
