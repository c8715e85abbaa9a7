# SPDX-License-Identifier: Apache-2.0
"""The word tokenizer ("quire-words", version 1): lossless, at most one token a word, bytes for the rest.

A piece is an optional single leading space followed by a maximal run of ASCII letters, or a single ASCII digit,
or a single other byte that is not a space; a space that starts no such piece is a piece by itself. A piece that is
in the vocabulary is one token, any other piece is written as its bytes.
"""
import json
import re

import words

_PIECE = re.compile(rb" ?(?:[A-Za-z]+|[0-9]|[^ A-Za-z0-9])| ", re.DOTALL)


def split_pieces(data: bytes) -> list[bytes]:
    return _PIECE.findall(data)


class Tokenizer:
    def __init__(self, tokens: list[str], bos_id: int = 0, eos_id: int = 1):
        self.tokens, self.bos_id, self.eos_id = tokens, bos_id, eos_id
        self.piece_id = {t.encode(): i for i, t in enumerate(tokens) if i >= 258}
        self.bytes_of = [b"", b""] + [bytes([b]) for b in range(256)] + [t.encode() for t in tokens[258:]]

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, text: str) -> list[int]:
        ids = []
        for piece in split_pieces(text.encode()):
            i = self.piece_id.get(piece)
            if i is not None:
                ids.append(i)
            else:
                ids.extend(2 + b for b in piece)
        return ids

    def decode(self, ids) -> str:
        return b"".join(self.bytes_of[i] for i in ids).decode("utf-8", "replace")

    def save(self, path: str) -> None:
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"format": "quire-words", "version": 1, "bos_id": self.bos_id, "eos_id": self.eos_id,
                       "tokens": self.tokens}, f, ensure_ascii=False, indent=0)
            f.write("\n")

    @staticmethod
    def load(path: str) -> "Tokenizer":
        with open(path, encoding="utf-8") as f:
            d = json.load(f)
        assert d["format"] == "quire-words" and d["version"] == 1
        return Tokenizer(d["tokens"], d["bos_id"], d["eos_id"])


def build() -> Tokenizer:
    """The vocabulary follows from the word lists alone, so it is the same on every run."""
    tokens = ["<bos>", "<eos>"] + [f"<0x{b:02X}>" for b in range(256)]
    seen = set()

    def add(piece: str) -> None:
        if piece not in seen:
            seen.add(piece)
            tokens.append(piece)

    add("\n")
    add(" ")
    for d in "0123456789":
        add(d)
        add(" " + d)
    for p in words.PUNCTUATION:
        add(p)
        add(" " + p)
    for w in words.STARTERS:
        add(w)
        add(" " + w)
    add("s")
    for group in (words.GLUE, words.ATTRIBUTES, words.FIRST_NAMES, words.LAST_NAMES, words.PLACES, words.FIRM_FIRST,
                  words.FIRM_SECOND, words.COLOURS, words.INSTRUMENTS, words.NOUNS, words.ADJECTIVES, words.VERBS,
                  words.ADVERBS, words.PREPOSITIONS, words.TIMES, words.TITLES):
        for w in group:
            add(" " + w)
    assert len(tokens) <= 1536, len(tokens)
    return Tokenizer(tokens)
