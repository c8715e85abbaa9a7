# SPDX-License-Identifier: Apache-2.0
"""Trains the recall model stage by stage.

A stage is NAME:LENGTH:BATCH:STEPS[:RATE[:LONGEST]], e.g. recall:512:32:300:0.5:8192. NAME is plain (uniformly
random tokens repeated), copy (harder repeats), recall, dense or mix (0.6 recall, 0.4 dense). RATE multiplies the
learning rates; --decay lets the last stage fall to zero. Where LONGEST is more than LENGTH, the positions of most
rows jump forward at random places, up to LONGEST. In recall, dense and mix, one row in --copy-every is a copy row.
"""
import argparse
import json
import os
import random
import time

import torch
import torch.nn.functional as F

import documents
import evaluate
import optim
import tokenizer
from model import Config, Llama


def encode_rows(tok, builders, length):
    ids = torch.zeros(len(builders), length, dtype=torch.long)
    kinds = torch.zeros(len(builders), length, dtype=torch.long)
    for r, b in enumerate(builders):
        if isinstance(b, tuple):
            row, kind = b
        else:
            row = [tok.bos_id] + [tok.piece_id[p.encode()] for p in b.pieces]
            kind = [0] + b.kinds
        ids[r] = torch.tensor(row[:length])
        kinds[r] = torch.tensor(kind[:length])
    return ids, kinds


def skipped_positions(rng, rows, length, longest, share):
    """Positions that jump forward at a few random places, so that short rows show long distances."""
    out = torch.arange(length).repeat(rows, 1)
    for r in range(rows):
        room = int((longest - length) * rng.random())
        if room <= 0 or rng.random() >= share:
            continue
        cuts = sorted(rng.randrange(1, length) for _ in range(rng.randrange(1, 4)))
        shares = [rng.random() for _ in cuts]
        total = sum(shares)
        for c, s in zip(cuts, shares):
            out[r, c:] += int(room * s / total)
        out[r] += rng.randrange(longest - int(out[r, -1])) if rng.random() < 0.3 else 0
    return out


def make_batch(rng, tok, name, length, batch, copy_every, reuse):
    rows = []
    for r in range(batch):
        if name == "plain":
            rows.append(documents.plain_copy_ids(rng, length, len(tok)))
        elif name == "copy" or (copy_every and rng.random() * copy_every < 1):
            make = documents.copy_ids if name == "copy" or rng.random() < 0.5 else documents.plain_copy_ids
            ids, kinds = make(rng, length, len(tok))
            rows.append((ids, kinds if name == "copy" else [4 if k == 2 else k for k in kinds]))
        elif name == "dense" or name == "mix" and rng.random() < 0.4:
            rows.append(documents.dense_sequence(rng, length, reuse))
        else:
            rows.append(documents.recall_sequence(rng, length, reuse=reuse))
    return encode_rows(tok, rows, length)


def page_loss(taps, kinds, heads_per_kv, sampled=48, page=32, sink=1, window=2):
    """How badly page digests (per-channel minimum and maximum of the keys) point at the pages that answers read.

    For some of the tokens before an answer, in every layer and head: cross entropy between the share of attention
    that each page outside sink and window really gets and the softmax of the pages' bounds."""
    total, weight = torch.zeros(()), 1e-6
    for row in range(kinds.shape[0]):
        ask = (kinds[row, 1:] == 2).nonzero()[:, 0]
        ask = ask[ask > 16 * page]
        if len(ask) < 2:
            continue
        ask = ask[torch.randperm(len(ask))[:sampled]]
        for q, k in taps:
            q, k = q[row, :, ask].unflatten(0, (-1, heads_per_kv)).float(), k[row].float()
            pages = k.shape[1] // page
            index = torch.arange(pages)
            valid = (index >= sink) & (index < ask[:, None] // page - (window - 1))
            with torch.no_grad():
                scores = torch.einsum("hgnd,htd->hgnt", q, k) * q.shape[-1] ** -0.5
                scores.masked_fill_(torch.arange(k.shape[1]) > ask[:, None], float("-inf"))
                mass = torch.softmax(scores, -1)[..., :pages * page].unflatten(-1, (pages, page)).sum(-1) * valid
            split = k[:, :pages * page].unflatten(1, (pages, page))
            bound = torch.einsum("hgnd,hpd->hgnp", q.clamp(min=0), split.amax(2)) + \
                torch.einsum("hgnd,hpd->hgnp", q.clamp(max=0), split.amin(2))
            log_share = torch.log_softmax((bound * q.shape[-1] ** -0.5).masked_fill(~valid, -1e9), -1)
            total = total - (mass * log_share).sum()
            weight = weight + mass.sum()
    return total / weight


def loss_of(model, ids, kinds, positions, dtype, lm_weight, lm_share, page_weight=0.0):
    """Cross entropy on the answers plus lm_weight times that on a sample of the ordinary text."""
    taps = [] if page_weight else None
    hidden = model(ids, positions, dtype, taps)[:, :-1].flatten(0, 1)
    target, kind = ids[:, 1:].flatten(), kinds[:, 1:].flatten()
    keep = (kind == 2) | (kind == 4) | (kind == 1) & (torch.rand(kind.shape) < lm_share)
    index = keep.nonzero()[:, 0]
    logits = model.logits(hidden[index].to(dtype)).float()
    target, kind = target[index], kind[index]
    each = F.cross_entropy(logits, target, reduction="none")
    answers = kind == 2
    n = answers.sum().clamp(min=1)
    answer_loss = (each * answers).sum() / n
    text, copied = kind == 1, kind == 4
    text_loss = (each * text).sum() / text.sum().clamp(min=1)
    copy_loss = (each * copied).sum() / copied.sum().clamp(min=1)
    right = ((logits.argmax(-1) == target) & answers).sum() / n
    loss, pages = answer_loss + lm_weight * text_loss + 0.1 * copy_loss, 0.0
    if page_weight:
        extra = page_loss(taps, kinds, model.cfg.num_attention_heads // model.cfg.num_key_value_heads)
        loss, pages = loss + page_weight * extra, float(extra.detach())
    return loss, answer_loss.item(), text_loss.item(), right.item(), pages


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stages", nargs="+", required=True)
    p.add_argument("--out", required=True, help="folder of the log and the checkpoints")
    p.add_argument("--resume", help="checkpoint to start from (weights, optimiser, counters)")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--muon-lr", type=float, default=0.02)
    p.add_argument("--adam-lr", type=float, default=3e-3)
    p.add_argument("--warmup", type=int, default=50)
    p.add_argument("--decay", action="store_true", help="let the rates of the last stage fall linearly to zero")
    p.add_argument("--copy-every", type=float, default=4)
    p.add_argument("--reuse", type=float, default=3.0)
    p.add_argument("--lm-weight", type=float, default=0.05)
    p.add_argument("--lm-share", type=float, default=0.15, help="share of the ordinary text that gets a loss")
    p.add_argument("--skip", type=float, default=0.75, help="share of the rows whose positions jump")
    p.add_argument("--micro", type=int, default=16384, help="tokens in one forward pass")
    p.add_argument("--page-weight", type=float, default=0.0, help="weight of the loss on page digests (0: none)")
    p.add_argument("--held-out", type=int, nargs="*", default=[], help="lengths of the held-out test after a stage")
    p.add_argument("--look-back", type=int, nargs="+", help="set the heads of layer 0 to look so many tokens back")
    p.add_argument("--rope-theta", type=float, default=1e8)
    p.add_argument("--soften", type=float, default=1.0, help="scale the queries of the layers after the first once")
    p.add_argument("--weight-decay", type=float, default=0.0, help="of the matrices")
    p.add_argument("--freeze-look-back", action="store_true", help="do not train queries and keys of layer 0")
    p.add_argument("--stop-at", type=float, default=0.0, help="end a stage early at this running answer accuracy")
    p.add_argument("--stop-after", type=int, default=0, metavar="STEP",
                   help="end the run after this many of its steps; the rates are those of the whole run (0: run it all)")
    p.add_argument("--fp32", action="store_true", help="compute in fp32 instead of bf16")
    p.add_argument("--minutes-between-saves", type=float, default=2.0)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    os.makedirs(a.out, exist_ok=True)
    tok = tokenizer.build()
    dtype = torch.float32 if a.fp32 else torch.bfloat16
    torch.manual_seed(a.seed)
    model = Llama(Config(vocab_size=len(tok), rope_theta=a.rope_theta))
    optimisers = optim.make_optimisers(model, a.muon_lr, a.adam_lr, a.weight_decay)
    for p_ in (model.layers[0].self_attn.q_proj.weight, model.layers[0].self_attn.k_proj.weight):
        p_.requires_grad_(not a.freeze_look_back)
    done = {"steps": 0, "tokens": 0, "seconds": 0.0}
    if a.resume:
        saved = torch.load(a.resume, weights_only=False)
        model.load_state_dict(saved["model"])
        for o, s in zip(optimisers, saved["optimisers"]):
            o.load_state_dict(s)
        for o, rate in zip(optimisers, (a.muon_lr, a.adam_lr)):
            for g in o.param_groups:
                g["lr"] = rate
        for g in optimisers[0].param_groups:
            g["weight_decay"] = a.weight_decay
        done = saved["done"]
    if a.look_back:
        model.look_back(a.look_back)
    with torch.no_grad():
        for layer in model.layers[1:]:
            layer.self_attn.q_proj.weight.mul_(a.soften)
    rng = random.Random(a.seed * 1000003 + done["steps"])
    log = open(os.path.join(a.out, "log.jsonl"), "a", buffering=1)
    print("seed", a.seed, "parameters", sum(q.numel() for q in model.parameters()), "args", vars(a), flush=True)

    def save(name="last.pt"):
        path = os.path.join(a.out, name)
        torch.save({"model": model.state_dict(), "optimisers": [o.state_dict() for o in optimisers], "done": done,
                    "config": model.cfg.to_dict(), "args": vars(a)}, path + ".tmp")
        os.replace(path + ".tmp", path)

    base = [[g["lr"] for g in o.param_groups] for o in optimisers]
    started, last_save, run_steps, stopped = time.time() - done["seconds"], time.time(), 0, False
    for number, stage in enumerate(a.stages):
        fields = stage.split(":")
        name, length, batch, steps = fields[0], int(fields[1]), int(fields[2]), int(fields[3])
        rate0 = float(fields[4]) if len(fields) > 4 else 1.0
        longest = int(fields[5]) if len(fields) > 5 else length
        running = 0.0
        for step in range(steps):
            rate = rate0 * min(1.0, (run_steps + 1) / a.warmup)
            if a.decay and number == len(a.stages) - 1:
                rate *= max(0.02, 1 - step / steps)
            for o, b in zip(optimisers, base):
                for g, lr in zip(o.param_groups, b):
                    g["lr"] = lr * rate
            rows = max(1, a.micro // length)
            parts = -(-batch // rows)
            stats = [0.0] * 4
            for part in range(parts):
                n = min(rows, batch - part * rows)
                ids, kinds = make_batch(rng, tok, name, length, n, a.copy_every, a.reuse)
                positions = skipped_positions(rng, n, length, longest, a.skip)
                loss, *s = loss_of(model, ids, kinds, positions, dtype, a.lm_weight if name not in ("plain", "copy") else 0.0, a.lm_share,
                                   a.page_weight)
                (loss * (n / batch)).backward()
                stats = [x + y * n / batch for x, y in zip(stats, s)]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for o in optimisers:
                o.step()
                o.zero_grad(set_to_none=True)
            run_steps += 1
            done["steps"] += 1
            done["tokens"] += batch * length
            done["seconds"] = time.time() - started
            running = stats[2] if step == 0 else 0.9 * running + 0.1 * stats[2]
            if step % 10 == 0 or step == steps - 1:
                line = {"stage": stage, "step": step, "answer_loss": round(stats[0], 4), "text_loss": round(stats[1], 3),
                        "accuracy": round(stats[2], 4), "mean": round(running, 4), "page_loss": round(stats[3], 3),
                        **{k: round(v, 1) for k, v in done.items()}}
                log.write(json.dumps(line) + "\n")
                print(line, flush=True)
            if time.time() - last_save > 60 * a.minutes_between_saves:
                save()
                last_save = time.time()
            stopped = 0 < a.stop_after <= run_steps
            if stopped or a.stop_at and step > 30 and running > a.stop_at:
                break
        save()
        save(f"stage-{done['steps']}-{name}-{length}.pt")
        if a.held_out:
            table = evaluate.accuracy_table(model.eval(), tok, a.held_out, 4)
            line = {"held_out": {n: {"right": round(r, 3), "by_depth": [round(x, 3) for x in d], "questions": c}
                                 for n, (r, d, c) in table.items()}, "steps": done["steps"]}
            log.write(json.dumps(line) + "\n")
            print(line, flush=True)
            model.train()
        if stopped:
            break
    print("finished", done, flush=True)


if __name__ == "__main__":
    main()
