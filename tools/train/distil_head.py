# SPDX-License-Identifier: Apache-2.0
"""Distils a retrieval head from a model: what the model's layers attend to, before they run.

The head has the layout of an EAGLE-3 draft as far as selection needs it. A draft's features are hidden states of the
model, those of the token before (--mode eagle). With --mode trained they are the embeddings of the tokens before, and
nothing of the model. Either way fc merges them. One set of weights serves all layers: the teacher of query head a is
the mean of the attention of head a over the layers, the first one left out.

What is always attended to, the first page and the last tokens, is left out of the loss.
"""
import argparse
import json
import math
import os
import random
import time
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

import documents
import export
import tokenizer
from model import Config, rotate

SINKS, WINDOW = 32, 64


class RetrievalHead(nn.Module):
    def __init__(self, cfg: Config, mode: str, before: int):
        """`before`: tokens before each token whose embeddings fc merges (mode trained)."""
        super().__init__()
        h, d = cfg.hidden_size, cfg.head_dim
        self.cfg, self.mode, self.before = cfg, mode, before
        parts = before if mode == "trained" else len(feature_layers(cfg.num_hidden_layers))
        self.input_norm = nn.Parameter(torch.ones(h))
        self.hidden_norm = nn.Parameter(torch.ones(h))
        # Each part of the features has a turn of its own, so that none hides another.
        turns = [torch.linalg.qr(torch.randn(h, h))[0] for _ in range(parts)]
        self.fc = nn.Parameter(torch.cat(turns, 1))
        # A query begins as the key of the same words: equal words match.
        match = torch.randn(cfg.num_key_value_heads, d, 2 * h) * (2 * h) ** -0.5
        self.k = nn.Parameter(match.flatten(0, 1).clone())
        group = cfg.num_attention_heads // cfg.num_key_value_heads
        self.q = nn.Parameter(match.repeat_interleave(group, 0).flatten(0, 1) * 2)

    def features(self, embeddings, states):
        """embeddings [T,h], inputs of the layers [L] of [T,h] -> [T,fc's columns], of the tokens before."""
        t = len(embeddings)
        if self.mode == "eagle":
            chosen = torch.cat([states[i] for i in feature_layers(self.cfg.num_hidden_layers)], 1)
            return F.pad(chosen, (0, 0, 1, 0))[:t]
        padded = F.pad(embeddings, (0, 0, self.before, 0))
        return torch.cat([padded[self.before - 1 - i:self.before - 1 - i + t] for i in range(self.before)], 1)

    def heads(self, embeddings, states, cos, sin):
        """-> rotated queries [n_q,T,d] and keys [n_kv,T,d]; arguments as of features."""
        t, h = embeddings.shape
        c = self.cfg
        features = self.features(embeddings, states)
        x = torch.cat((F.rms_norm(embeddings, (h,), self.input_norm, c.rms_norm_eps),
                       F.rms_norm(features @ self.fc.T, (h,), self.hidden_norm, c.rms_norm_eps)), 1)
        q = (x @ self.q.T).view(t, -1, c.head_dim).transpose(0, 1)
        k = (x @ self.k.T).view(t, -1, c.head_dim).transpose(0, 1)
        return rotate(q, cos, sin), rotate(k, cos, sin)


def feature_layers(layers: int) -> list[int]:
    """Layers whose inputs mode eagle sees, as FeatureLayers of gpuworker/head has them."""
    last = layers - 1
    return [(last + 2) // 3, (2 * last + 2) // 3, last] if layers < 7 else [2, layers // 2, last - 2]


@torch.no_grad()
def teach(model, row, sharpen=1.0):
    """Attention of the tokens `row.at`, [n_q][at][T], the mean over all layers but the first, and the inputs of the
    layers. `sharpen` multiplies the logits: attention that is spread over everything cannot be selected, and need not
    be learned."""
    ids, positions, at = row
    taps, states = [], []
    model(ids[None], positions=positions, taps=taps, states=states)
    c = model.cfg
    group = c.num_attention_heads // c.num_key_value_heads
    future = torch.arange(len(ids))[None] > at[:, None]
    total = 0
    for q, k in taps[1:]:
        scores = q[0][:, at] @ k[0].repeat_interleave(group, 0).transpose(1, 2) * (sharpen / c.head_dim ** 0.5)
        total = total + torch.softmax(scores.masked_fill(future, -torch.inf), -1)
    return total / len(taps[1:]), [model.embed_tokens(ids)] + [state[0] for state in states]


def study(head, model, row, states):
    """Logits of the head for the tokens `row.at`, [n_q][at][T]."""
    ids, positions, at = row
    c = model.cfg
    cos, sin = model.rope(positions, torch.float32)
    q, k = head.heads(model.embed_tokens(ids), states, cos[0], sin[0])
    group = c.num_attention_heads // c.num_key_value_heads
    return q[:, at] @ k.repeat_interleave(group, 0).transpose(1, 2) / c.head_dim ** 0.5


class Row(NamedTuple):
    ids: torch.Tensor
    positions: torch.Tensor
    at: torch.Tensor  # the tokens to learn from


def jumping(rng, length, end):
    """Positions of a short row that reach as far as those of a long one: a few jumps, nowhere backwards."""
    jumps = torch.zeros(length, dtype=torch.long)
    room = rng.randrange(end - length)
    for _ in range(8):
        jumps[rng.randrange(length)] += room // 8
    return torch.arange(length) + jumps.cumsum(0)


def lesson(rng, tok, length, end=None):
    """Documents and questions. To learn from are questions, answers and a few other tokens. `end`: positions jump,
    and stay below it."""
    built = documents.recall_sequence(rng, length, reuse=rng.choice((3, 6, 9)))
    pieces, kinds = built.pieces[:length - 1], built.kinds[:length - 1]
    ids = torch.tensor([0] + tok.encode("".join(pieces)))[:length]
    answers = [i for i, kind in enumerate(kinds) if kind == 2]
    near = {i + off for i in answers for off in range(-3, 2)}
    at = sorted(i for i in near if SINKS + WINDOW < i < len(ids))
    at = rng.sample(at, min(len(at), 192))
    others = range(SINKS + WINDOW + 1, len(ids))
    at += rng.sample(others, min(len(others), 32))
    positions = jumping(rng, len(ids), end) if end else torch.arange(len(ids))
    return Row(ids, positions, torch.tensor(sorted(at)))


def loss_of(head, model, row, sharpen):
    ids, _, at = row
    taught, states = teach(model, row, sharpen)
    logits = study(head, model, row, states)
    place = torch.arange(len(ids))[None]
    candidate = (place >= SINKS) & (place <= at[:, None] - WINDOW)
    taught = taught * candidate
    mass = taught.sum(-1, keepdim=True)
    wanted = taught / mass.clamp(min=1e-6)
    guessed = torch.log_softmax(logits.masked_fill(~candidate, -1e9), -1)
    divergence = (wanted * (wanted.clamp(min=1e-9).log() - guessed)).sum(-1)
    return (divergence * mass[..., 0]).sum() / mass.sum()


@torch.no_grad()
def captured(head, model, row, share, page=32):
    """Attention outside sinks and window that the pages of the head's choice hold, of all there is."""
    ids, _, at = row
    taught, states = teach(model, row)
    weights = study(head, model, row, states)
    place = torch.arange(len(ids))[None]
    candidate = (place >= SINKS) & (place <= at[:, None] - WINDOW)
    weights = torch.softmax(weights.masked_fill(~candidate, -1e9), -1)
    group = model.cfg.num_attention_heads // model.cfg.num_key_value_heads
    pages = len(ids) // page
    best = weights[..., :pages * page].unflatten(-1, (pages, page)).amax(-1).unflatten(0, (-1, group)).amax(1)
    chosen = best.topk(max(1, int(pages * share)), -1).indices
    mask = torch.zeros_like(best, dtype=torch.bool).scatter_(-1, chosen, True).repeat_interleave(group, 0)
    held = (taught * candidate)[..., :pages * page].unflatten(-1, (pages, page)).sum(-1)
    return ((held * mask).sum() / held.sum()).item()


def write(head, folder, dtype):
    os.makedirs(folder, exist_ok=True)
    c = head.cfg
    config = {"architectures": ["LlamaForCausalLMEagle3"], "hidden_size": c.hidden_size,
              "num_attention_heads": c.num_attention_heads, "num_key_value_heads": c.num_key_value_heads,
              "head_dim": c.head_dim, "vocab_size": c.vocab_size, "rms_norm_eps": c.rms_norm_eps,
              "rope_theta": c.rope_theta, "max_position_embeddings": c.max_position_embeddings,
              "retrieval_head_mode": head.mode, "torch_dtype": dtype}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f, indent=2)
        f.write("\n")
    tensors = {"fc.weight": head.fc, "midlayer.input_layernorm.weight": head.input_norm,
               "midlayer.hidden_norm.weight": head.hidden_norm, "midlayer.self_attn.q_proj.weight": head.q,
               "midlayer.self_attn.k_proj.weight": head.k}
    tensors = {k: v.detach().to(getattr(torch, dtype)).contiguous() for k, v in tensors.items()}
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", help="exported folder of the model")
    p.add_argument("folder", help="where the head goes")
    p.add_argument("--mode", choices=("trained", "eagle"), default="trained", help="what fc merges")
    p.add_argument("--before", type=int, default=4, help="mode trained: tokens before each token")
    p.add_argument("--steps", type=int, default=400)
    p.add_argument("--rate", type=float, default=2e-3)
    p.add_argument("--shortest", type=int, default=512)
    p.add_argument("--longest", type=int, default=2048)
    p.add_argument("--sharpen", type=float, default=2.0, help="factor on the teacher's logits")
    p.add_argument("--seed", type=int, default=7)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    model = export.load_exported(a.model).requires_grad_(False)
    tok = tokenizer.build()
    head = RetrievalHead(model.cfg, a.mode, a.before)
    optimizer = torch.optim.AdamW(head.parameters(), lr=a.rate, betas=(0.9, 0.98), weight_decay=0.01)
    held_out = [lesson(random.Random(990_000 + i), tok, 4096) for i in range(3)]
    rng = random.Random(a.seed)
    start, mean = time.time(), None
    for step in range(a.steps + 1):
        if step % 50 == 0 or step == a.steps:
            held = sum(captured(head, model, row, 1 / 8) for row in held_out) / len(held_out)
            print(f"step {step}: loss {mean or math.nan:.3f}, attention held by 1/8 of the pages of rows of 4096 tokens: "
                  f"{held:.4f}, {time.time() - start:.0f} s", flush=True)
        if step == a.steps:
            break
        for group in optimizer.param_groups:
            group["lr"] = a.rate * min(1, (step + 1) / 20) * (0.5 + 0.5 * math.cos(math.pi * step / a.steps))
        row = lesson(rng, tok, rng.randrange(a.shortest, a.longest), model.cfg.max_position_embeddings)
        loss = loss_of(head, model, row, a.sharpen)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        optimizer.step()
        mean = loss.item() if mean is None else 0.95 * mean + 0.05 * loss.item()
    write(head, a.folder, a.dtype)
    print("bytes", os.path.getsize(os.path.join(a.folder, "model.safetensors")))


if __name__ == "__main__":
    main()
