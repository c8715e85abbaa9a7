# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/golden/tokenizer: the word tokenizer's file and the encodings of texts that try its rules, both
by the trainer's own implementation (tools/train/tokenizer.py), for the worker's to be compared with.

    python tools/golden/make_tokenizer_golden.py
"""
import json
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "train"))
import tokenizer  # noqa: E402  (the folder is put on the path above)

OUT = os.path.normpath(os.path.join(HERE, "..", "..", "tests", "data", "golden", "tokenizer"))

TEXTS = [
    "", " ", "  ", "   a", "a", "a ", " a  b ", "the", " the", "The the  the", "thethe", "abc123", "1 2  3",
    "12,5 %", "don't", "line\nnext\n\n  indented", "\t tab", " \n ", "x\r\n", "naïve café", " é", "日本語 text", "🙂 ok",
    "<bos>", "<eos>", "<0x41>", " <0x20> ", "\"quoted\" (and) [braced]", "a_b-c.d", "\u0000nul\u0000", "MiXeD CaSe",
    "The code of the archive is 4 1 7.", "Question: where does she live? Answer:", "supercalifragilistic",
]


def mixtures(tok: tokenizer.Tokenizer, count: int) -> list[str]:
    """Random strings of vocabulary pieces, spaces, signs and letters from outside ASCII."""
    rng = random.Random(7)
    parts = tok.tokens[258:] + [" ", "  ", "\n", "é", "ß", "zq", "9", "?", "—"]
    return ["".join(rng.choice(parts) for _ in range(rng.randrange(1, 24))) for _ in range(count)]


def main() -> None:
    tok = tokenizer.build()
    os.makedirs(OUT, exist_ok=True)
    tok.save(os.path.join(OUT, "tokenizer.json"))
    cases = []
    for text in TEXTS + mixtures(tok, 100):
        ids = tok.encode(text)
        assert tok.decode(ids) == text, text
        cases.append({"text": text, "ids": ids})
    with open(os.path.join(OUT, "encodings.json"), "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
