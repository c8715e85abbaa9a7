# SPDX-License-Identifier: Apache-2.0
"""Trains a model that answers across documents (across.py), stage by stage.

A stage is MIX:DOCUMENTS:ENTRIES:FILLER:BATCH:STEPS[:RATE], e.g. all:2-5:10-20:60:24:400. MIX names a line of MIXES,
or is copy, for rows of LENGTH FILLER of repeated random tokens.

What makes references train:
* A question cannot see the earlier entries that its answer comes from in a share of the questions (--hide). A
  reference has to be resolved where it stands.
* The value is also predicted at the reference itself, out of the residual stream of a middle layer (--middle) and at
  the end.
* Whether a name has a value already is predicted at the name ("again" or "once") and at the value (itself or "once").
* Filler counts up to --thicken times in the softmax, so that short rows have the odds of long ones.
"""
import argparse
import json
import math
import os
import random
import signal
import time

import torch
import torch.nn.functional as F

import across
import documents
import optim
import tokenizer
from model import Config, Llama

MIXES = {
    "alone": {"alone": 1},
    "refer": {"alone": 1, "refer": 1},
    "chain": {"alone": 1, "refer": 1, "chain": 0.7},
    "all": {"alone": 1, "refer": 1, "chain": 0.8, "conflict": 0.6},
}
HIDDEN = -1e4


def numbers(text):
    low, _, high = text.partition("-")
    return int(low), int(high or low)


def draw_questions(rng, pool, asked):
    """Up to `asked` of the pool, those that need other documents first in two rows of three."""
    pool = rng.sample(pool, len(pool))
    if rng.random() < 2 / 3:
        pool.sort(key=lambda e: e.task == "alone")
    return pool[:asked]


def build_batch(rng, v, rows, asked, longest, hide, thicken, alone_share):
    """Ids, positions, mask, and the labels as (row, index, token, task)."""
    length = max(len(r.ids) + 4 * min(asked, len(r.questions)) for r in rows)
    b = len(rows)
    ids = torch.zeros(b, length, dtype=torch.long)
    positions = torch.zeros(b, length, dtype=torch.long)
    mask = torch.full((b, 1, length, length), HIDDEN)
    causal = torch.triu(torch.full((length, length), HIDDEN), 1)
    answers, inner = [], []
    for i, row in enumerate(rows):
        n = len(row.ids)
        apart = rng.random() < alone_share
        m = mask[i, 0]
        m[:n, :n] = causal[:n, :n]
        if apart:
            for s, e in zip(row.starts, row.starts[1:] + [n]):
                m[s:e, 1:s] = HIDDEN
        if thicken > 1 and row.filler:
            m[:, row.filler] += math.log(thicken) * rng.random()
        pos = list(range(n))
        room = int((longest - n - 8) * rng.random()) if rng.random() < 0.8 else 0
        if room > 0:
            cuts = sorted(rng.randrange(1, n) for _ in range(rng.randrange(1, 5)))
            parts = [rng.random() for _ in cuts]
            at = 0
            for c, p in zip(cuts, parts):
                at = int(room * p / sum(parts))
                for k in range(c, n):
                    pos[k] += at
        ids[i, :n] = torch.tensor(row.ids)
        positions[i, :n] = torch.tensor(pos)
        end = pos[-1] + 1
        pool = [e for e in row.questions if e.task == "alone"] if apart else row.questions
        asks = draw_questions(rng, pool, asked)
        k = n
        for e in asks:
            ids[i, k:k + 4] = torch.tensor(v.question + [v.id[e.name]])
            positions[i, k:k + 4] = torch.arange(end, end + 4)
            m[k:k + 4, :n] = m[n - 1, :n]
            if apart:
                m[k:k + 4, :n] = 0
            m[k:k + 4, k:k + 4] = causal[:4, :4]
            if e.task in ("refer", "chain") and rng.random() < hide:
                for source in e.sources:
                    m[k:k + 4, source.at:source.at + 3] = HIDDEN
            answers.append((i, k + 3, v.id[e.answer], across.TASKS.index(e.task)))
            k += 4
        for q in range(k, length):
            m[q, q] = 0
        if not apart:
            inner += [(i, e.at + 1, v.id[e.answer], across.TASKS.index(e.task)) for e in row.entries
                      if e.task in ("refer", "chain")]
            inner += [(i, e.at, v.id["again" if e.task == "conflict" else "once"], 4)
                      for e in row.entries if e.task in ("alone", "old", "conflict")]
            inner += [(i, e.at + 1, v.id[e.word if e.task == "conflict" else "once"], 3)
                      for e in row.entries if e.task in ("alone", "old", "conflict")]
    return ids, positions, mask, torch.tensor(answers), torch.tensor(inner).view(-1, 4)


def copy_batch(rng, tok, length, batch):
    ids = torch.zeros(batch, length, dtype=torch.long)
    answers = []
    for i in range(batch):
        row, kinds = documents.plain_copy_ids(rng, length, len(tok))
        ids[i] = torch.tensor(row)
        answers += [(i, j - 1, row[j], 0) for j in range(1, length) if kinds[j] == 2]
    return ids, torch.arange(length).repeat(batch, 1), None, torch.tensor(answers), torch.zeros(0, 4, dtype=torch.long)


def loss_of(model, batch, dtype, middle, weight):
    ids, positions, mask, answers, inner = batch
    states = []
    hidden = model(ids, positions, dtype, mask=None if mask is None else mask.to(dtype), states=states)

    def score(h, labels):
        logits = model.logits(h[labels[:, 0], labels[:, 1]].to(dtype)).float()
        return F.cross_entropy(logits, labels[:, 2]), logits.argmax(-1) == labels[:, 2]

    loss, right = score(hidden, answers)
    stats = {"answer": loss.item()}
    for t, name in enumerate(across.TASKS):
        of_task = answers[:, 3] == t
        if of_task.any():
            stats[name] = right[of_task].float().mean().item()
    if len(inner) and weight:
        extra = 0.0
        values = inner[inner[:, 3] < 3]
        if len(values):
            extra, right = score(hidden, values)
            stats["inner"] = right.float().mean().item()
        for order, layer in enumerate(middle):
            labels = inner[inner[:, 3] == 1 + order]
            if len(labels):
                l, right = score(model.norm(states[layer]), labels)
                extra = extra + l
                stats[f"middle{order + 1}"] = right.float().mean().item()
        loss = loss + weight * extra
    return loss, stats


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stages", nargs="+", required=True)
    p.add_argument("--out", required=True, help="folder of the log and the checkpoints")
    p.add_argument("--resume")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--layers", type=int, default=6)
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--inner", type=int, default=256)
    p.add_argument("--heads", type=int, default=8)
    p.add_argument("--kv-heads", type=int, default=4)
    p.add_argument("--rope-theta", type=float, default=1e10)
    p.add_argument("--look-back", type=int, nargs="+", default=[1, 2, 1, 2, 1, 2, 1, 3], help="of the heads of layer 0")
    p.add_argument("--muon-lr", type=float, default=0.02)
    p.add_argument("--adam-lr", type=float, default=3e-3)
    p.add_argument("--weight-decay", type=float, default=0.0)
    p.add_argument("--warmup", type=int, default=50)
    p.add_argument("--decay", action="store_true")
    p.add_argument("--asked", type=int, default=24, help="questions to a row")
    p.add_argument("--add-look-back", type=int, nargs=2, help="layer and group that get new heads, once, after --resume")
    p.add_argument("--longest", type=int, default=16000, help="positions of a row jump up to here")
    p.add_argument("--hide", type=float, default=0.8)
    p.add_argument("--thicken", type=float, default=1.0)
    p.add_argument("--alone-share", type=float, default=0.1, help="share of rows whose documents do not see one another")
    p.add_argument("--copy-every", type=int, default=8)
    p.add_argument("--middle", type=int, nargs=4, default=[2, 3, 3, 1],
                   help="layers that know a reference, a chain, and a second value, at the value and at its name")
    p.add_argument("--middle-weight", type=float, default=0.3)
    p.add_argument("--stop-at", type=float, default=0.97)
    p.add_argument("--fp32", action="store_true")
    a = p.parse_args()
    torch.manual_seed(a.seed)
    torch.set_num_threads(a.threads)
    os.makedirs(a.out, exist_ok=True)
    tok = tokenizer.build()
    v = across.Vocabulary(tok)
    dtype = torch.float32 if a.fp32 else torch.bfloat16
    model = Llama(Config(vocab_size=len(tok), hidden_size=a.width, intermediate_size=a.inner, num_hidden_layers=a.layers,
                         num_attention_heads=a.heads, num_key_value_heads=a.kv_heads, rope_theta=a.rope_theta,
                         max_position_embeddings=16384))
    model.look_back(a.look_back)
    model.match_last_word()
    optimisers = optim.make_optimisers(model, a.muon_lr, a.adam_lr, a.weight_decay)
    model.layers[0].self_attn.requires_grad_(False)
    done = {"steps": 0, "tokens": 0, "seconds": 0.0}
    if a.resume:
        saved = torch.load(a.resume, weights_only=False)
        model.load_state_dict(saved["model"])
        for o, s, rate in zip(optimisers, saved["optimisers"], (a.muon_lr, a.adam_lr)):
            o.load_state_dict(s)
            for g in o.param_groups:
                g["lr"] = rate
        done = saved["done"]
    rng = random.Random(a.seed * 1000003 + done["steps"])
    if a.add_look_back:
        rows = [across.make_row(rng, v, 3, 12, 60, MIXES["all"]) for _ in range(16)]
        model.add_look_back(*a.add_look_back, build_batch(rng, v, rows, 0, 0, 0, 1, 0)[0])
    log = open(os.path.join(a.out, "log.jsonl"), "a", buffering=1)
    print("seed", a.seed, "parameters", sum(q.numel() for q in model.parameters()), vars(a), flush=True)

    def save(name="last.pt"):
        path = os.path.join(a.out, name)
        torch.save({"model": model.state_dict(), "optimisers": [o.state_dict() for o in optimisers], "done": done,
                    "config": model.cfg.to_dict(), "args": vars(a)}, path + ".tmp")
        os.replace(path + ".tmp", path)

    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))   # Saves, then ends.
    base = [[g["lr"] for g in o.param_groups] for o in optimisers]
    started, last_save, run_steps = time.time() - done["seconds"], time.time(), 0
    for number, stage in enumerate(a.stages):
        fields = stage.split(":")
        mix, docs, entries, filler, batch, steps = fields[0], numbers(fields[1]), numbers(fields[2]), numbers(fields[3]), \
            int(fields[4]), int(fields[5])
        rate0 = float(fields[6]) if len(fields) > 6 else 1.0
        means, seen = {}, 0
        for step in range(steps):
            rate = rate0 * min(1.0, (run_steps + 1) / a.warmup)
            if a.decay and number == len(a.stages) - 1:
                rate *= max(0.02, 1 - step / steps)
            for o, b in zip(optimisers, base):
                for g, lr in zip(o.param_groups, b):
                    g["lr"] = lr * rate
            copying = mix == "copy" or a.copy_every and rng.randrange(a.copy_every) == 0
            if copying:
                made = copy_batch(rng, tok, 64 if mix != "copy" else filler[1], 64 if mix == "copy" else 32)
            else:
                count = rng.randint(*entries)
                rows = [across.make_row(rng, v, rng.randint(*docs), count, rng.randint(*filler), MIXES[mix])
                        for _ in range(batch)]
                made = build_batch(rng, v, rows, a.asked, a.longest, a.hide, a.thicken, a.alone_share)
            loss, stats = loss_of(model, made, dtype, a.middle, a.middle_weight)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for o in optimisers:
                o.step()
                o.zero_grad(set_to_none=True)
            run_steps += 1
            done["steps"] += 1
            done["tokens"] += made[0].numel()
            done["seconds"] = time.time() - started
            if not copying or mix == "copy":
                seen += 1
                for k, x in stats.items():
                    means[k] = x if k not in means else 0.9 * means[k] + 0.1 * x
            if step % 10 == 0 or step == steps - 1:
                line = {"stage": stage, "step": step, **{k: round(x, 3) for k, x in means.items()},
                        **{k: round(x, 1) for k, x in done.items()}}
                log.write(json.dumps(line) + "\n")
                print(line, flush=True)
            if ended or time.time() - last_save > 180:
                save()
                last_save = time.time()
            if ended:
                return
            if a.stop_at and seen > 40 and min(x for k, x in means.items() if k in across.TASKS) > a.stop_at:
                break
        save()
        save(f"stage-{done['steps']}-{mix}.pt")
    print("finished", done, flush=True)


if __name__ == "__main__":
    main()
