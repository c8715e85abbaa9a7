# SPDX-License-Identifier: Apache-2.0
"""Rows of several documents whose answers need attention across documents.

An entry is two words and a full stop. "Alice Harrowgate." says that Alice has the value Harrowgate. "Bruno Alice."
says that Bruno has what Alice has; Alice stands in an earlier document. A question ends with a name, and its answer
is the value, one token. Tasks, by what the name's entry is:
  alone      a value
  refer      a name whose value stands in an earlier document
  chain      a name whose entry, in an earlier document, is a name again
  conflict   a value, and another one in a later document; the later one holds

Run as a program, it writes FOLDER/words.json: the words that `quire bench rag` makes such documents of.
"""
import json
import os
import random
import sys
from dataclasses import dataclass, field

import words

TASKS = ("alone", "refer", "chain", "conflict")
NAMES = words.FIRST_NAMES + words.LAST_NAMES
VALUES = words.PLACES + words.COLOURS + words.INSTRUMENTS
FILLER = words.GLUE + words.ADJECTIVES + words.VERBS + words.ADVERBS + words.PREPOSITIONS


@dataclass
class Entry:
    name: str
    word: str          # a value or a name
    task: str
    document: int
    answer: str
    sources: list = field(default_factory=list)   # earlier entries that the answer comes from
    at: int = 0        # index of the name's token in the row


@dataclass
class Row:
    ids: list
    entries: list
    filler: list       # indices of filler tokens
    starts: list       # index of the first token of each document
    questions: list    # entries that are asked for


class Vocabulary:
    def __init__(self, tok):
        self.id = {w: tok.piece_id[(" " + w).encode()] for w in NAMES + VALUES + FILLER}
        self.stop = tok.piece_id[b"."]
        self.header = [tok.piece_id[p.encode()] for p in ("\n", "Document", ":")]
        self.question = [tok.piece_id[p.encode()] for p in ("\n", "Question", ":")]
        self.filler = [self.id[w] for w in FILLER]


def draw_entries(rng, documents, count, mix):
    """Entries of a row; `mix` has a weight for each task. Each reference has a source in an earlier document."""
    names = rng.sample(NAMES, min(len(NAMES), count))
    values = rng.sample(VALUES, min(len(VALUES), count)) if rng.random() < 0.5 else rng.choices(VALUES, k=count)
    tasks = rng.choices(TASKS, [mix.get(t, 0) for t in TASKS], k=len(names))
    entries, facts, refers = [], [], []
    order = {"alone": 0, "conflict": 0, "refer": 1, "chain": 2}
    for i, (name, task) in enumerate(sorted(zip(names, tasks), key=lambda x: order[x[1]])):
        value = values[i % len(values)]
        if task == "conflict" and documents > 1:
            first, last = sorted(rng.sample(range(documents), 2))
            old = Entry(name, value, "old", first, "")
            other = rng.choice(VALUES)
            entries += [old, Entry(name, other, "conflict", last, other, [old])]
            continue
        pool = {"refer": facts, "chain": refers}.get(task, [])
        pool = [e for e in pool if e.document < documents - 1]
        if not pool:
            e = Entry(name, value, "alone", rng.randrange(documents), value)
            facts.append(e)
        else:
            source = rng.choice(pool)
            e = Entry(name, source.name, task, rng.randrange(source.document + 1, documents), source.answer,
                      [source] + source.sources)
            if task == "refer":
                refers.append(e)
        entries.append(e)
    return entries


def make_row(rng, v, documents, count, filler, mix, edges=False):
    """A row of BOS and documents of `count` entries and about `filler` words between them."""
    entries = draw_entries(rng, documents, count, mix)
    ids, fill, starts = [0], [], []
    gaps = [rng.random() ** 3 for _ in range(len(entries) + documents)]
    scale = filler / sum(gaps)
    for d in range(documents):
        starts.append(len(ids))
        ids += v.header
        mine = [e for e in entries if e.document == d]
        rng.shuffle(mine)
        for e in mine + [None]:
            n = int(gaps.pop() * scale)
            if n:
                fill += range(len(ids), len(ids) + n)
                ids += rng.choices(v.filler, k=n - 1) + [v.stop]
            if e:
                e.at = len(ids)
                ids += [v.id[e.name], v.id[e.word], v.stop]
    return Row(ids, entries, fill, starts, [e for e in entries if e.answer])


def main():
    with open(os.path.join(sys.argv[1], "words.json"), "w", encoding="utf-8") as f:
        json.dump({"names": NAMES, "values": VALUES, "filler": FILLER}, f, indent=0)
        f.write("\n")


if __name__ == "__main__":
    main()
