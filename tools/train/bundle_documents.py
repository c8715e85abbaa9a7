# SPDX-License-Identifier: Apache-2.0
"""Writes the bundled documents (DIR/*.txt), DIR/questions.jsonl, and DIR/more-questions.jsonl, which asks for every
second fact, from a seed that training does not use.

Each text is a dossier of short documents; a prompt is BOS, the text, and the question appended to it. With --by-part
each text is written once for every question, as NAME-PART.txt, so that the demo counts each part of the documents.
"""
import argparse
import json
import os
import random

import documents
import tokenizer


def ask(document, fact):
    return {"document": document, "question": "".join(documents.question(fact)), "answer": "".join(fact.answer())}


def write_lines(path, lines):
    with open(path, "w", encoding="utf-8") as f:
        for line in lines:
            f.write(json.dumps(line) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("--documents", type=int, default=24)
    p.add_argument("--questions", type=int, default=6, help="questions to a document, spread over its length")
    p.add_argument("--facts", type=int, default=36, help="facts in a document")
    p.add_argument("--shortest", type=int, default=4260)
    p.add_argument("--longest", type=int, default=4990)
    p.add_argument("--by-part", action="store_true", help="a copy of the document for each of its questions")
    p.add_argument("--seed", type=int, default=990001)
    a = p.parse_args()
    tok = tokenizer.build()
    os.makedirs(a.folder, exist_ok=True)
    rng = random.Random(a.seed)
    lines, more, lengths = [], [], []
    for i in range(a.documents):
        facts = documents.make_facts(rng, a.facts, held_out=True)
        length = a.shortest + (a.longest - a.shortest) * i // max(1, a.documents - 1)
        b = documents.dossier(rng, facts, length, short_documents=rng.randint(6, 10))
        text = "".join(b.pieces)
        lengths.append(len(tok.encode(text)))
        assert a.shortest - 60 <= lengths[-1] <= 5000, lengths[-1]
        placed = sorted((text.index("".join(f.key())), k) for k, f in enumerate(facts))
        n = len(placed)
        for j in range(a.questions):   # one question from each equal part of the document
            fact = facts[placed[rng.randrange(j * n // a.questions, (j + 1) * n // a.questions)][1]]
            name = f"dossier-{i + 1:02d}-{j + 1}.txt" if a.by_part else f"dossier-{i + 1:02d}.txt"
            with open(os.path.join(a.folder, name), "w", encoding="utf-8") as f:
                f.write(text)
            lines.append(ask(name, fact))
        more += [ask(name, facts[k]) for _, k in placed[::2]]
    write_lines(os.path.join(a.folder, "questions.jsonl"), lines)
    write_lines(os.path.join(a.folder, "more-questions.jsonl"), more)
    print(f"{a.documents} documents of {min(lengths)} to {max(lengths)} tokens, {len(lines)} questions")


if __name__ == "__main__":
    main()
