# SPDX-License-Identifier: Apache-2.0
"""Generated documents of facts, and questions about them.

A fact is (first name, last name, attribute) -> value, always worded "Alice Brown has home Harrowgate.", so that a
question that repeats the words before the value can be answered by continuing them. Facts of one document are drawn
from few names, so that most facts share two of the three parts of their key with another one. (The words of a key
lie close to the value on purpose: every part of the key is at most four tokens before the value's first token.)

Texts are built as lists of pieces (see tokenizer.py): "".join(pieces) is the text, one piece is one token.
"""
import random
from dataclasses import dataclass

import words

_ATTRIBUTES = list(words.ATTRIBUTES)


def pair_is_held_out(first: str, last: str) -> bool:
    """In training no fact is about a person of this fifth of all (first name, last name) pairs."""
    return (words.FIRST_NAMES.index(first) * 31 + words.LAST_NAMES.index(last) * 17) % 5 == 0


_HELD_OUT = {f: [l for l in words.LAST_NAMES if pair_is_held_out(f, l)] for f in words.FIRST_NAMES}
_TRAINED = {f: [l for l in words.LAST_NAMES if not pair_is_held_out(f, l)] for f in words.FIRST_NAMES}


@dataclass
class Fact:
    attribute: str
    first: str
    last: str
    value: list  # pieces, without the full stop

    def key(self) -> list:
        return [" " + self.first, " " + self.last, " has", " " + self.attribute]

    def answer(self) -> list:
        return self.value + ["."]


def make_value(rng: random.Random, kind: str) -> list:
    if kind == "place":
        return [" " + rng.choice(words.PLACES)]
    if kind == "firm":
        return [" " + rng.choice(words.FIRM_FIRST), " " + rng.choice(words.FIRM_SECOND)]
    if kind == "person":
        return [" " + rng.choice(words.FIRST_NAMES), " " + rng.choice(words.LAST_NAMES)]
    if kind == "colour":
        return [" " + rng.choice(words.COLOURS)]
    if kind == "instrument":
        return [" " + rng.choice(words.INSTRUMENTS)]
    if kind == "phrase":
        return [" " + rng.choice(words.ADJECTIVES), " " + rng.choice(words.NOUNS)]
    if kind == "emblem":
        return [" " + rng.choice(words.COLOURS), " " + rng.choice(words.NOUNS)]
    number = rng.randrange(10, 100)
    return [" " + str(number // 10), str(number % 10)]


def make_facts(rng: random.Random, count: int, held_out: bool = False, reuse: float = 3.0,
               confusable: bool = False) -> list:
    """`count` facts with distinct keys; larger `reuse` means more facts about one person. By default there are fewer
    first names than last names; `confusable` mostly turns that around and sometimes uses few attributes only."""
    pairs_of = _HELD_OUT if held_out else _TRAINED
    people_wanted = max(1, round(count / rng.uniform(1.0, min(reuse, 9.0))))
    few = max(1, round((people_wanted * 2) ** 0.5) + 1)
    many = 3 * few + 2
    if confusable and rng.random() < 0.6:
        few, many = many, few
    firsts = rng.sample(words.FIRST_NAMES, min(len(words.FIRST_NAMES), few))
    lasts = set(rng.sample(words.LAST_NAMES, min(len(words.LAST_NAMES), many)))
    people = [(f, l) for f in firsts for l in pairs_of[f] if l in lasts]
    while len(people) < (count + 9) // 10:
        f = rng.choice(words.FIRST_NAMES)
        people.append((f, rng.choice(pairs_of[f])))
    people = list(dict.fromkeys(people))
    rng.shuffle(people)
    people = people[:max(people_wanted, (count + 9) // 10)]
    attributes = _ATTRIBUTES
    if confusable and rng.random() < 0.4:
        attributes = rng.sample(_ATTRIBUTES, rng.randrange(3, 7))
    keys = [(a, p) for p in people for a in attributes]
    keys = rng.sample(keys, min(count, len(keys)))
    return [Fact(a, f, l, make_value(rng, words.ATTRIBUTES[a])) for a, (f, l) in keys]


def filler(rng: random.Random, start: bool = False) -> list:
    """A sentence of plain words that says nothing that is asked."""
    c = rng.choice

    def noun():
        return ([" " + c(words.ADJECTIVES)] if rng.random() < 0.6 else []) + [" " + c(words.NOUNS)]

    kind = rng.randrange(6)
    if kind == 0:
        out = [" The"] + noun() + [" " + c(words.VERBS), " the"] + noun()
    elif kind == 1:
        out = [" On", " " + c(words.TIMES[:7]), " the"] + noun() + [" " + c(words.ADVERBS), " " + c(words.VERBS), " the"] + noun()
    elif kind == 2:
        out = [" A"] + noun() + [" was", " " + c(words.PREPOSITIONS), " the"] + noun()
    elif kind == 3:
        out = [" In", " " + c(words.PLACES), " the"] + noun() + [" " + c(words.VERBS), " a"] + noun()
    elif kind == 4:
        out = [" " + c(("Nobody", "Everyone", "No", "Another", "Every", "One"))]
        out += [] if out[0] in (" Nobody", " Everyone") else noun()
        out += [" " + c(words.VERBS), " the"] + noun() + [" " + c(words.PREPOSITIONS), " the"] + noun()
    else:
        out = [" Later", ",", " the"] + noun() + [" of", " " + c(words.PLACES), " " + c(words.VERBS), " the"] + noun()
    if rng.random() < 0.2:
        out += [" and", " the"] + noun()
    out.append(".")
    for i in range(len(out) - 1):
        if out[i] in (" a", " A") and out[i + 1][1] in "aeiou":
            out[i] = " an" if out[i] == " a" else " One"
    if start:
        out[0] = out[0][1:]
    return out


def title(rng: random.Random, number: int) -> list:
    digits = str(number)
    return ["Document", " " + digits[0], *digits[1:], ":", " " + rng.choice(words.TITLES), " from",
            " " + rng.choice(words.PLACES), "\n"]


def question(fact: Fact) -> list:
    return ["\n", "Question", ":"] + fact.key()


class Builder:
    """Collects pieces with a class for each: 1 ordinary text, 2 answer to something stated before, 3 the first
    statement of a value (which cannot be predicted)."""

    def __init__(self):
        self.pieces, self.kinds = [], []

    def add(self, pieces: list, kind: int = 1) -> None:
        self.pieces += pieces
        self.kinds += [kind] * len(pieces)

    def fact(self, fact: Fact, start: bool, repeat: bool = False) -> None:
        self.add((["Then"] if start else []) + fact.key())
        self.add(fact.answer(), 2 if repeat else 3)


def dossier(rng: random.Random, facts: list, length: int, short_documents: int = 0) -> Builder:
    """Several short documents holding `facts` in random order and place, `length` tokens or a few less."""
    b = Builder()
    facts = list(facts)
    rng.shuffle(facts)
    budget = length - sum(len(f.key()) + len(f.answer()) for f in facts)
    sentences = [("fact", f) for f in facts]
    used = 0
    documents = short_documents or max(1, length // rng.choice((300, 450, 600)))
    paragraph = rng.randrange(4, 9)
    overhead = documents * 11 + len(facts) / paragraph
    while True:
        s = filler(rng)
        if used + len(s) > budget - overhead:
            break
        used += len(s) + 1 / paragraph
        sentences.append(("filler", s))
    rng.shuffle(sentences)
    per_document = max(1, -(-len(sentences) // documents))
    for i, (what, s) in enumerate(sentences):
        start = False
        if i % per_document == 0:
            b.add((["\n"] if i else []) + title(rng, i // per_document + 1))
            start = True
        elif i % per_document % paragraph == 0:
            b.add(["\n"])
            start = True
        if what == "fact":
            b.fact(s, start)
        elif start:
            first = s[0][1:]
            b.add([first] + s[1:])
        else:
            b.add(s)
    return b


# ---------------------------------------------------------------- training sequences

def recall_sequence(rng: random.Random, length: int, reuse: float = 3.0) -> Builder:
    """Documents first, questions (many, one a line) in the rest of the sequence."""
    asked = max(1, round(length * rng.uniform(0.2, 0.45) / 11))
    document_length = length - asked * 11 - 1
    density = rng.uniform(0.15, 0.9 if length < 1500 else 0.55)
    count = max(1, int(document_length * density / 7.5))
    facts = make_facts(rng, min(count, 400), reuse=reuse, confusable=True)
    b = dossier(rng, facts, document_length)
    while len(b.pieces) < length:
        f = rng.choice(facts)
        b.add(question(f))
        b.add(f.answer(), 2)
    return b


def dense_sequence(rng: random.Random, length: int, reuse: float = 3.0) -> Builder:
    """New facts, facts stated again and filler in one stream: answers at every distance."""
    b = Builder()
    p_new, p_again = rng.uniform(0.15, 0.5 if length < 1500 else 0.3), rng.uniform(0.3, 0.5)
    facts = make_facts(rng, min(400, max(2, int(length * p_new / 7))), reuse=reuse, confusable=True)
    told, i = 0, 0
    b.add(title(rng, 1))
    start = True
    while len(b.pieces) < length:
        r = rng.random()
        if told and (r < p_again or told == len(facts) and r < p_again + p_new):
            f = facts[rng.randrange(told)]
            if rng.random() < 0.5:
                b.add(question(f))
                b.add(f.answer(), 2)
            else:
                b.fact(f, start, repeat=True)
        elif told < len(facts) and r < p_again + p_new:
            b.fact(facts[told], start)
            told += 1
        else:
            b.add(filler(rng, start))
        start = False
        i += 1
        if rng.random() < 0.12:
            b.add(["\n"])
            start = True
    return b


def plain_copy_ids(rng: random.Random, length: int, vocabulary: int) -> tuple:
    """Uniformly random tokens, then runs of them again at irregular distances: what copying is first learned from.
    (With repeats at a few fixed distances a model learns to look that far back instead.)"""
    segment = rng.randrange(6, length // 2 - 2)
    base = [rng.randrange(2, vocabulary) for _ in range(segment)]
    ids, kinds = [0] + base, [0] * (segment + 1)
    while len(ids) < length:
        run = rng.randrange(5, segment + 1)
        at = rng.randrange(segment - run + 1)
        if rng.random() < 0.7:
            junk = rng.randrange(1, 5)
            ids += [rng.randrange(2, vocabulary) for _ in range(junk)]
            kinds += [0] * junk
        ids += base[at:at + run]
        kinds += [0] + [2] * (run - 1)
    return ids[:length], kinds[:length]


def copy_ids(rng: random.Random, length: int, vocabulary: int) -> tuple:
    """Random tokens repeated; returns ids and kinds. Small alphabets ask for long matching suffixes."""
    size = int(round(4 * (vocabulary / 4) ** rng.random()))
    low = rng.random()
    if low < 0.2:    # byte tokens, as text with unknown words has them
        alphabet = [2 + rng.randrange(256) for _ in range(size)] if rng.random() < 0.3 else \
            [2 + ord(c) for c in rng.sample("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ,.-'", min(53, max(4, size)))]
    else:
        alphabet = [rng.randrange(258, vocabulary) for _ in range(size)]
    if low > 0.6:    # long enough alphabets: induction in its plainest form
        alphabet = [rng.randrange(2, vocabulary) for _ in range(max(size, 64))]
    segment = max(4, int(length * rng.uniform(0.15, 0.55)))
    base = [rng.choice(alphabet) for _ in range(segment)]
    ids = [0]
    while len(ids) < length:
        if len(ids) > segment and rng.random() < 0.3:   # a part of the segment
            a = rng.randrange(segment // 2)
            ids += base[a:a + rng.randrange(max(3, segment // 4), segment)]
        else:
            ids += base
    ids = ids[:length]
    # a token counts as an answer when the three tokens before it have occurred before in the same order
    # and always continued with the same token
    seen, kinds = {}, [0] * length
    for i in range(4, length):
        k = (ids[i - 3], ids[i - 2], ids[i - 1])
        old = seen.get(k)
        if old is None:
            seen[k] = ids[i]
        elif old == ids[i]:
            kinds[i] = 2
        elif old >= 0:
            seen[k] = -1
    return ids, kinds
