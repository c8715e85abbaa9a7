# SPDX-License-Identifier: Apache-2.0
"""Accuracy of a model over several documents (across.py), with full attention and with documents that were read alone.

In the second way each document was read behind a beginning token of its own, its keys were turned to their places in
the prompt, and only the question sees all documents (reuse_strict).
"""
import argparse
import random

import torch

import across
import tokenizer
from train_across import HIDDEN, MIXES


def assemble(row, asks, v, apart):
    """Ids, positions and mask of a row with its questions; a later document has a beginning token where `apart`."""
    ids, positions, document = [0], [0], [0]
    bounds = row.starts + [len(row.ids)]
    for d, (start, end) in enumerate(zip(bounds, bounds[1:])):
        if apart and d:
            ids, positions, document = ids + [0], positions + [start - 1], document + [-d]
        ids += row.ids[start:end]
        positions += range(start, end)
        document += [d] * (end - start)
    n, last = len(ids), positions[-1]
    for q in range(len(asks)):
        ids += v.question + [v.id[asks[q].name]]
        positions += range(last + 1, last + 5)
        document += [1000 + q] * 4
    doc = torch.tensor(document)
    seen = torch.ones(len(ids), len(ids), dtype=torch.bool).tril()
    seen[n:, :n] = (doc[:n] >= 0)[None]
    seen[n:, n:] &= doc[n:, None] == doc[None, n:]
    if apart:
        seen[:n, :n] &= doc[:n, None].abs() == doc[None, :n].abs()
        seen[:, 0] &= (doc <= 0) & (doc > -1) | (doc >= 1000)
    mask = torch.full(seen.shape, HIDDEN).masked_fill(seen, 0)
    return torch.tensor([ids]), torch.tensor([positions]), mask[None, None], [n + 4 * q + 3 for q in range(len(asks))]


@torch.no_grad()
def accuracy(model, v, rng, documents, rows, words, entries, asked, apart, mix):
    right, count = {}, {}
    for _ in range(rows):
        filler = documents * (words - 3 * entries)
        row = across.make_row(rng, v, documents, documents * entries, filler, MIXES[mix])
        asks = []
        for t in across.TASKS:
            of_task = [e for e in row.questions if e.task == t]
            asks += rng.sample(of_task, min(asked, len(of_task)))
        ids, positions, mask, at = assemble(row, asks, v, apart)
        hidden = model(ids, positions, mask=mask)[0, at]
        for e, guess in zip(asks, model.logits(hidden).argmax(-1).tolist()):
            count[e.task] = count.get(e.task, 0) + 1
            right[e.task] = right.get(e.task, 0) + (guess == v.id[e.answer])
    return {t: (right[t], count[t]) for t in across.TASKS if t in count}


def main():
    from export import load, load_exported
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", help="a checkpoint, or the folder of an exported model")
    p.add_argument("--documents", type=int, nargs="+", default=[5, 10, 20])
    p.add_argument("--words", type=int, default=340, help="words of a document")
    p.add_argument("--entries", type=int, default=5, help="entries of a document")
    p.add_argument("--rows", type=int, default=20)
    p.add_argument("--asked", type=int, default=5, help="questions of each task to a row")
    p.add_argument("--mix", choices=list(MIXES), default="chain", help="tasks; all has conflict, too")
    p.add_argument("--seed", type=int, default=990001)
    a = p.parse_args()
    torch.set_num_threads(1)
    model = load(a.model) if a.model.endswith(".pt") else load_exported(a.model)
    v = across.Vocabulary(tokenizer.build())
    for documents in a.documents:
        for apart in (False, True):
            counts = accuracy(model, v, random.Random(a.seed), documents, a.rows, a.words, a.entries, a.asked, apart,
                              a.mix)
            total = [sum(x) for x in zip(*counts.values())]
            parts = "  ".join(f"{t} {100 * r / n:.1f} % of {n}" for t, (r, n) in counts.items())
            print(f"{documents} documents, {'reuse_strict' if apart else 'full'}: {100 * total[0] / total[1]:.1f} %  {parts}",
                  flush=True)


if __name__ == "__main__":
    main()
