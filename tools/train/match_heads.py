# SPDX-License-Identifier: Apache-2.0
"""Gives layers of a checkpoint new matching heads, so that several layers compare a question with the facts.

In training the heads of layer 1 come to do all the matching, all four alike, and each has room for few channels of
each part of a key. This writes new queries and keys into the given layers: for first name, last name and attribute
it finds the directions that tell the names apart best at both places where they are compared (the question's last
token, the first token of a value), and hands each KV head other ones. Values and outputs are copied from layer 1,
outputs scaled down. Training goes on from there.
"""
import argparse

import torch

import tokenizer
import words
from export import load

ROWS = 9000


def vocabulary_ids(tok, names):
    return torch.tensor([tok.piece_id[(" " + w).encode()] for w in names])


def inverse_root(c):
    values, vectors = torch.linalg.eigh(c)
    return vectors @ torch.diag(values.clamp(min=1e-8).rsqrt()) @ vectors.T


class Rows:
    """Short rows that end where a key has just been asked for, or in the first token of its value."""

    def __init__(self, tok, seed):
        self.rng = torch.Generator().manual_seed(seed)
        self.values = torch.cat((vocabulary_ids(tok, words.PLACES + words.COLOURS + words.FIRM_FIRST + words.INSTRUMENTS
                                                + words.FIRST_NAMES + words.ADJECTIVES),
                                 vocabulary_ids(tok, "123456789")))
        self.parts = [vocabulary_ids(tok, p) for p in (words.FIRST_NAMES, words.LAST_NAMES, list(words.ATTRIBUTES))]
        self.index = [self.draw(len(p), ROWS) for p in self.parts]
        self.fixed = {p: tok.piece_id[p.encode()] for p in (" has", ".", "\n", "Question", ":")}

    def draw(self, n, count):
        return torch.randint(0, n, (count,), generator=self.rng)

    def make(self, question):
        column = lambda token: torch.full((ROWS, 1), self.fixed[token])
        first, last, attribute = (p[i][:, None] for p, i in zip(self.parts, self.index))
        before = self.values[self.draw(len(self.values), ROWS * 5)].view(ROWS, 5)
        rows = [torch.zeros(ROWS, 1, dtype=torch.long), before, column(".")]
        rows += [column("\n"), column("Question"), column(":")] if question else []
        rows += [first, last, column(" has"), attribute]
        rows += [] if question else [self.values[self.draw(len(self.values), ROWS)][:, None]]
        return torch.cat(rows, 1)


@torch.no_grad()
def last_states(model, ids, layer):
    """What `layer` reads at the last token of each row."""
    cos, sin = model.rope(torch.arange(ids.shape[1]) + 1000, torch.float32)
    out = []
    for part in ids.split(1500):
        x = model.embed_tokens(part)
        for l in model.layers[:layer]:
            x = l(x, cos, sin, torch.float32)
        out.append(model.layers[layer].input_layernorm(x)[:, -1])
    return torch.cat(out)


def shared_directions(x, y, index, classes):
    """Directions of x and of y, best first, along which the classes differ in the same way in both."""
    def spread(z):
        c = torch.cov(z.T)
        return inverse_root(c + 0.02 * c.diagonal().mean() * torch.eye(len(c)))

    one_hot = torch.nn.functional.one_hot(index, classes).float()
    count = one_hot.sum(0).clamp(min=1)[:, None]
    mean_x, mean_y = one_hot.T @ (x - x.mean(0)) / count, one_hot.T @ (y - y.mean(0)) / count
    sx, sy = spread(x), spread(y)
    u, _, vh = torch.linalg.svd(sx @ (mean_x.T @ mean_y / classes) @ sy)
    return u.T @ sx, vh @ sy


@torch.no_grad()
def add_matching(model, rows, layer, used, strength, share, channels=(14, 12, 8)):
    d = model.cfg.head_dim
    group = model.cfg.num_attention_heads // model.cfg.num_key_value_heads
    pairs = sum(channels) // 2
    slow = [i for i in range(d) if i % (d // 2) >= d // 2 - pairs]
    x, y = last_states(model, rows.make(True), layer), last_states(model, rows.make(False), layer)
    found = [shared_directions(x, y, i, len(p)) for i, p in zip(rows.index, rows.parts)]
    attention, pattern = model.layers[layer].self_attn, model.layers[1].self_attn
    attention.q_proj.weight.mul_(0.05)
    attention.k_proj.weight.mul_(0.05)
    for g in range(model.cfg.num_key_value_heads):
        spans = [slice(used[0], used[0] + channels[0]), slice(used[1], used[1] + channels[1]), slice(0, channels[2])]
        q, k = (torch.cat([f[side][s] * w for f, s, w in zip(found, spans, (1, 1, 1.2))]) for side in (0, 1))
        used[0], used[1] = used[0] + channels[0], used[1] + channels[1]
        order = torch.randperm(len(q), generator=rows.rng)
        for channel, n in zip(slow, order.tolist()):
            for a in range(g * group, (g + 1) * group):
                attention.q_proj.weight[a * d + channel] += strength * q[n]
            attention.k_proj.weight[g * d + channel] += strength * k[n]
    attention.v_proj.weight.copy_(pattern.v_proj.weight)
    attention.o_proj.weight.copy_(pattern.o_proj.weight * share)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("checkpoint")
    p.add_argument("out")
    p.add_argument("--layers", type=int, nargs="+", default=[2, 3])
    p.add_argument("--strength", type=float, default=2.2)
    p.add_argument("--share", type=float, default=0.5, help="scale of the new heads' output")
    p.add_argument("--seed", type=int, default=3)
    a = p.parse_args()
    torch.set_num_threads(1)
    model, rows, used = load(a.checkpoint), Rows(tokenizer.build(), a.seed), [0, 0]
    for layer in a.layers:
        add_matching(model, rows, layer, used, a.strength, a.share)
    saved = torch.load(a.checkpoint, weights_only=False)
    saved["model"] = model.state_dict()
    for state in saved["optimisers"][0]["state"].values():
        state["momentum"].zero_()
    torch.save(saved, a.out)


if __name__ == "__main__":
    main()
