# SPDX-License-Identifier: Apache-2.0
"""Held-out recall: greedy answers over long generated documents, with all tokens and with selected pages only.

Sparse reading: 1 sink page, a window of 2 pages (the open one counts), and per layer and KV head the pages with
the best pooled bounds. A page's digest is the per-channel minimum and maximum of its rotated keys, its bound for a
query is sum_c max(q_c*lo_c, q_c*hi_c), bounds of the query heads of a group are pooled as the mean of their softmax
over the pages. Every token after the document selects anew; the document itself is read in full.
"""
import argparse
import json
import os
import random
import time

import torch
import torch.nn.functional as F

import documents
import export
import tokenizer
from model import rotate

PAGE, SINK_PAGES, WINDOW_PAGES = 32, 1, 2


class Reader:
    """Keys and values of one document, and batched greedy decoding of questions on top of them."""

    @torch.no_grad()
    def __init__(self, model, ids, dtype=torch.float32):
        self.model, self.length = model, len(ids)
        c = model.cfg
        self.group = c.num_attention_heads // c.num_key_value_heads
        x = model.embed_tokens(torch.tensor(ids)[None])
        cos, sin = model.rope(torch.arange(len(ids)), dtype)
        self.keys, self.values, self.low, self.high = [], [], [], []
        for layer in model.layers:
            q, k, v = layer.self_attn.heads(layer.input_layernorm(x).to(dtype), cos, sin)
            o = F.scaled_dot_product_attention(q, k.repeat_interleave(self.group, 1),
                                               v.repeat_interleave(self.group, 1), is_causal=True)
            x = x + (o.transpose(1, 2).flatten(2) @ layer.self_attn.o_proj.weight.to(dtype).T).to(x.dtype)
            x = x + layer.mlp(layer.post_attention_layernorm(x).to(dtype)).to(x.dtype)
            k, v = k[0].float(), v[0].float()
            self.keys.append(k)
            self.values.append(v)
            pages = k[:, :len(ids) // PAGE * PAGE].unflatten(1, (-1, PAGE))
            self.low.append(pages.amin(2))
            self.high.append(pages.amax(2))

    def select(self, layer, q, candidates, count, scale):
        """q [Q,n_kv,G,d] -> chosen pages as a mask [Q,n_kv,candidates] over pages 1..candidates."""
        span = slice(SINK_PAGES, SINK_PAGES + candidates)
        bound = torch.einsum("qhgd,hpd->qhgp", q.clamp(min=0), self.high[layer][:, span]) + \
            torch.einsum("qhgd,hpd->qhgp", q.clamp(max=0), self.low[layer][:, span])
        weight = torch.softmax(bound * scale, -1).mean(2)
        mask = torch.zeros_like(weight, dtype=torch.bool)
        return mask.scatter_(-1, weight.topk(min(count, candidates), -1).indices, True)

    @torch.no_grad()
    def answer(self, questions, steps, budget=None, scale=1.0, moved=None):
        """questions [Q,T] -> ids [Q,steps]. `budget`: tokens a KV head may read; None reads all of them.
        `moved` collects, for each step but the first, the share of the budget's pages that is newly selected."""
        m, n = self.model, self.length
        ask = torch.tensor(questions)
        rows = ask.shape[0]
        new_k = [[] for _ in m.layers]
        new_v = [[] for _ in m.layers]
        before = [None] * len(m.layers)
        out, token = [], ask[:, 0]
        for t in range(ask.shape[1] + steps - 1):
            position = n + t
            cos, sin = m.rope(torch.tensor([position]), torch.float32)
            x = m.embed_tokens(token)[:, None]
            for i, layer in enumerate(m.layers):
                q, k, v = layer.self_attn.heads(layer.input_layernorm(x), cos, sin)
                new_k[i].append(k)
                new_v[i].append(v)
                q = q[:, :, 0].unflatten(1, (-1, self.group))                       # [Q,n_kv,G,d]
                own_k, own_v = torch.cat(new_k[i], 2), torch.cat(new_v[i], 2)       # [Q,n_kv,t+1,d]
                old = torch.einsum("qhgd,hnd->qhgn", q, self.keys[i])
                window = (position // PAGE - (WINDOW_PAGES - 1)) * PAGE             # first token of the window
                if budget is not None and position + 1 > budget:
                    candidates = window // PAGE - SINK_PAGES
                    count = budget // PAGE - SINK_PAGES - WINDOW_PAGES
                    chosen = self.select(i, q, candidates, count, scale)
                    allowed = torch.ones(rows, q.shape[1], n, dtype=torch.bool)
                    allowed[:, :, SINK_PAGES * PAGE:window] = chosen.repeat_interleave(PAGE, -1)
                    old = old.masked_fill(~allowed[:, :, None], float("-inf"))
                    if moved is not None and before[i] is not None:
                        wide = min(before[i].shape[-1], candidates)
                        fresh = (chosen[..., :wide] & ~before[i][..., :wide]).sum(-1).float()
                        moved.append(fresh.mean() / (budget // PAGE))
                    before[i] = chosen
                scores = torch.cat((old, torch.einsum("qhgd,qhnd->qhgn", q, own_k)), -1) / q.shape[-1] ** 0.5
                p = torch.softmax(scores, -1)
                o = torch.einsum("qhgn,hnd->qhgd", p[..., :n], self.values[i]) + \
                    torch.einsum("qhgn,qhnd->qhgd", p[..., n:], own_v)
                x = x + o.flatten(1)[:, None] @ layer.self_attn.o_proj.weight.T
                x = x + layer.mlp(layer.post_attention_layernorm(x))
            if t + 1 < ask.shape[1]:
                token = ask[:, t + 1]
            else:
                token = m.logits(m.norm(x))[:, 0].argmax(-1)
                out.append(token)
        return torch.stack(out, 1).tolist()


def held_out_document(rng, tok, length, questions, facts=None):
    """Ids of a document of `length` tokens with BOS, and a list of (question ids, answer ids, depth). Without a
    number of facts there is one to every 56 to 112 tokens."""
    facts = documents.make_facts(rng, facts or max(2, int(length * rng.uniform(0.08, 0.16) / 9)), held_out=True)
    b = documents.dossier(rng, facts, length - 1)
    ids = [tok.bos_id] + [tok.piece_id[p.encode()] for p in b.pieces]
    where = {}
    text_keys = [tuple(f.key()) for f in facts]
    wanted = dict(zip(text_keys, facts))
    for i in range(len(b.pieces) - 4):
        key = tuple(b.pieces[i:i + 4])
        if key in wanted:
            where[key] = i / len(b.pieces)
    asked = []
    for f in rng.sample(facts, min(questions, len(facts))):
        asked.append(([tok.piece_id[p.encode()] for p in documents.question(f)],
                      [tok.piece_id[p.encode()] for p in f.answer()], where[tuple(f.key())]))
    return ids, asked


def right_answers(reader, asked, **how):
    got = reader.answer([q for q, _, _ in asked], max(len(a) for _, a, _ in asked), **how)
    return [g[:len(a)] == a for g, (_, a, _) in zip(got, asked)]


def accuracy_table(model, tok, lengths, per_length, questions=16, seed=20250, dtype=torch.float32):
    """{length: (accuracy, [accuracy by fifth of the document])} on held-out documents."""
    table = {}
    for length in lengths:
        rng = random.Random(seed + length)
        hits, total = [0] * 5, [0] * 5
        for _ in range(per_length):
            n = length if isinstance(length, int) else rng.randint(*length)
            ids, asked = held_out_document(rng, tok, n, questions)
            for ok, (_, _, depth) in zip(right_answers(Reader(model, ids, dtype), asked), asked):
                total[min(4, int(depth * 5))] += 1
                hits[min(4, int(depth * 5))] += ok
        table[length] = (sum(hits) / sum(total), [h / t if t else float("nan") for h, t in zip(hits, total)], sum(total))
    return table


def accuracy_by_facts(model, tok, counts, per_count, questions=16, seed=31337):
    """{facts in the document: (right, asked)} over documents of 4096 to 5000 tokens."""
    table = {}
    for count in counts:
        rng, right, asked_of_all = random.Random(seed + count), 0, 0
        for _ in range(per_count):
            ids, asked = held_out_document(rng, tok, rng.randint(4096, 5000), questions, count)
            ok = right_answers(Reader(model, ids), asked)
            right, asked_of_all = right + sum(ok), asked_of_all + len(ok)
        table[count] = (right, asked_of_all)
    return table


def shuffled_values(model, tok, length, rounds, questions=16, seed=77):
    """Share of right answers when the values of a document's facts of one attribute are exchanged."""
    hits = total = 0
    for r in range(rounds):
        rng = random.Random(seed + r)
        facts = documents.make_facts(rng, length // 80, held_out=True)
        for shuffled in (False, True):
            if shuffled:
                for attribute in {f.attribute for f in facts}:
                    same = [f for f in facts if f.attribute == attribute]
                    values = [f.value for f in same]
                    values = values[1:] + values[:1]
                    for f, v in zip(same, values):
                        f.value = v
            b = documents.dossier(random.Random(r), facts, length - 1)
            ids = [tok.bos_id] + [tok.piece_id[p.encode()] for p in b.pieces]
            asked = [([tok.piece_id[p.encode()] for p in documents.question(f)],
                      [tok.piece_id[p.encode()] for p in f.answer()], 0.0) for f in facts[:questions]]
            if shuffled:
                ok = right_answers(Reader(model, ids), asked)
                hits += sum(ok)
                total += len(ok)
    return hits / total


def sparse_report(model, tok, count, budgets, scale=1.0, seed=4242, questions=16, low=4096, high=5000):
    """Right answers with all tokens and at each budget (share of the context), and the newly selected share."""
    rng = random.Random(seed)
    full, sparse, both, moved, total = 0, {b: 0 for b in budgets}, {b: 0 for b in budgets}, {b: [] for b in budgets}, 0
    for _ in range(count):
        ids, asked = held_out_document(rng, tok, rng.randint(low, high), questions)
        reader = Reader(model, ids)
        ok = right_answers(reader, asked)
        full += sum(ok)
        total += len(ok)
        for b in budgets:
            got = right_answers(reader, asked, budget=int(b * len(ids)), scale=scale, moved=moved[b])
            sparse[b] += sum(got)
            both[b] += sum(x and y for x, y in zip(ok, got))
    return {"questions": total, "full_correct": full,
            **{f"{b:.3f}": {"sparse_correct": sparse[b], "right_in_both": both[b],
                            "new_share": round(float(torch.stack(moved[b]).mean()), 3)} for b in budgets}}


def bundled_questions(model, tok, folder, budgets, scale=1.0):
    """Right answers to FOLDER/documents/questions.jsonl, with all tokens and at each budget."""
    by_document = {}
    with open(os.path.join(folder, "documents", "questions.jsonl"), encoding="utf-8") as f:
        for line in f:
            d = json.loads(line)
            by_document.setdefault(d["document"], []).append(d)
    right, total = {None: 0, **{b: 0 for b in budgets}}, 0
    for name, items in by_document.items():
        with open(os.path.join(folder, "documents", name), encoding="utf-8", newline="") as f:
            ids = [tok.bos_id] + tok.encode(f.read())
        reader = Reader(model, ids)
        asked = [(tok.encode(d["question"]), tok.encode(d["answer"]), 0.0) for d in items]
        total += len(asked)
        for b in right:
            right[b] += sum(right_answers(reader, asked, budget=b and int(b * len(ids)), scale=scale))
    return {"questions": total, **{"full_correct" if b is None else f"sparse_correct_{b:.3f}": n for b, n in right.items()}}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", help="an exported folder or a checkpoint (.pt)")
    p.add_argument("--lengths", type=int, nargs="*", default=[512, 1024, 2048, 3072, 4096, 5000])
    p.add_argument("--documents", type=int, default=10, help="documents at each length")
    p.add_argument("--questions", type=int, default=16, help="questions to a document")
    p.add_argument("--sparse", type=int, default=0, help="documents for the sparse comparison (0: none)")
    p.add_argument("--budgets", type=float, nargs="*", default=[0.25, 0.2, 0.125, 0.06])
    p.add_argument("--scale", type=float, default=1.0, help="factor on the bounds before the softmax")
    p.add_argument("--shuffled", type=int, default=0, help="documents for the exchanged-values check (0: none)")
    p.add_argument("--facts", type=int, nargs="*", default=[], help="also by this many facts in 4096 to 5000 tokens")
    p.add_argument("--bundled", action="store_true", help="the questions bundled with an exported folder")
    p.add_argument("--seed", type=int, default=20250)
    p.add_argument("--threads", type=int, default=1)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    tok = tokenizer.build()
    model = export.load(a.model) if a.model.endswith(".pt") else export.load_exported(a.model)
    started = time.time()
    if a.lengths:
        for length, (acc, by_depth, n) in accuracy_table(model, tok, a.lengths, a.documents, a.questions, a.seed).items():
            print(f"length {length:5d}  questions {n:4d}  right {acc:.4f}  by fifth of the document",
                  " ".join(f"{d:.3f}" for d in by_depth), flush=True)
    if a.facts:
        for count, (right, n) in accuracy_by_facts(model, tok, a.facts, a.documents, a.questions).items():
            print(f"facts {count:4d}  questions {n:4d}  right {right / n:.4f}", flush=True)
    if a.shuffled:
        print(f"values exchanged among facts (4096 tokens): right {shuffled_values(model, tok, 4096, a.shuffled):.4f}")
    if a.bundled:
        print(json.dumps({"bundled": bundled_questions(model, tok, a.model, a.budgets, a.scale)}), flush=True)
    if a.sparse:
        print(json.dumps(sparse_report(model, tok, a.sparse, a.budgets, a.scale, questions=a.questions)))
    print(f"seconds {time.time() - started:.1f}")


if __name__ == "__main__":
    main()
