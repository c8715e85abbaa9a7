# SPDX-License-Identifier: Apache-2.0
"""A Llama-family decoder in plain torch: RMSNorm, rotary embedding in half-split order, grouped-query attention,
SwiGLU, no biases, tied embeddings. Parameter names follow the Hugging Face layout, so exporting is a copy."""
from dataclasses import asdict, dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    vocab_size: int = 1336
    hidden_size: int = 256
    intermediate_size: int = 512
    num_hidden_layers: int = 4
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 64
    rope_theta: float = 1e8
    rms_norm_eps: float = 1e-5
    max_position_embeddings: int = 8192

    def to_dict(self) -> dict:
        return asdict(self)


class RMSNorm(nn.Module):
    def __init__(self, size: int, eps: float):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


def rope_table(cfg: Config, length: int):
    inv = 1.0 / cfg.rope_theta ** (torch.arange(0, cfg.head_dim, 2, dtype=torch.float32) / cfg.head_dim)
    angle = torch.outer(torch.arange(length, dtype=torch.float32), inv)
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    """x [B,H,T,d]; cos, sin [B or 1,1,T,d/2]. Pair i is (i, i + d/2)."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Attention(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.cfg = cfg
        h, d = cfg.hidden_size, cfg.head_dim
        self.q_proj = nn.Linear(h, cfg.num_attention_heads * d, bias=False)
        self.k_proj = nn.Linear(h, cfg.num_key_value_heads * d, bias=False)
        self.v_proj = nn.Linear(h, cfg.num_key_value_heads * d, bias=False)
        self.o_proj = nn.Linear(cfg.num_attention_heads * d, h, bias=False)

    def heads(self, x, cos, sin):
        """Rotated queries [B,n_q,T,d], rotated keys and values [B,n_kv,T,d]."""
        b, t, _ = x.shape
        c = self.cfg
        w = torch.cat((self.q_proj.weight, self.k_proj.weight, self.v_proj.weight)).to(x.dtype)
        qkv = (x @ w.T).view(b, t, -1, c.head_dim).transpose(1, 2)
        nq, nkv = c.num_attention_heads, c.num_key_value_heads
        qk = rotate(qkv[:, :nq + nkv], cos, sin)
        return qk[:, :nq], qk[:, nq:], qkv[:, nq + nkv:]

    def forward(self, x, cos, sin, tap=None, mask=None):
        c = self.cfg
        q, k, v = self.heads(x, cos, sin)
        if tap is not None:
            tap.append((q, k))
        group = c.num_attention_heads // c.num_key_value_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        return o.transpose(1, 2).flatten(2) @ self.o_proj.weight.to(x.dtype).T


class MLP(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.gate_proj = nn.Linear(cfg.hidden_size, cfg.intermediate_size, bias=False)
        self.up_proj = nn.Linear(cfg.hidden_size, cfg.intermediate_size, bias=False)
        self.down_proj = nn.Linear(cfg.intermediate_size, cfg.hidden_size, bias=False)

    def forward(self, x):
        gate, up = x @ self.gate_proj.weight.to(x.dtype).T, x @ self.up_proj.weight.to(x.dtype).T
        return (F.silu(gate) * up) @ self.down_proj.weight.to(x.dtype).T


class Layer(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.input_layernorm = RMSNorm(cfg.hidden_size, cfg.rms_norm_eps)
        self.self_attn = Attention(cfg)
        self.post_attention_layernorm = RMSNorm(cfg.hidden_size, cfg.rms_norm_eps)
        self.mlp = MLP(cfg)

    def forward(self, x, cos, sin, dtype, tap=None, mask=None):
        x = x + self.self_attn(self.input_layernorm(x).to(dtype), cos, sin, tap, mask).to(x.dtype)
        return x + self.mlp(self.post_attention_layernorm(x).to(dtype)).to(x.dtype)


class Llama(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.cfg = cfg
        self.embed_tokens = nn.Embedding(cfg.vocab_size, cfg.hidden_size)
        self.layers = nn.ModuleList(Layer(cfg) for _ in range(cfg.num_hidden_layers))
        self.norm = RMSNorm(cfg.hidden_size, cfg.rms_norm_eps)
        cos, sin = rope_table(cfg, cfg.max_position_embeddings)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.initialise()

    @torch.no_grad()
    def initialise(self):
        """Random weights, with two helps towards copying.

        * The heads of layer 0 start as heads that look 1, 2, 3, ... tokens back: all embeddings share a common
          direction, queries and keys read only that, and the query is the key turned back by so many positions in
          the fast rotary pairs, so that the product is largest at that distance.
        * In the other layers the fast rotary pairs of queries and keys start small, so that what is matched first is
          content, whatever the distance.
        """
        c = self.cfg
        h, d = c.hidden_size, c.head_dim
        embed = self.embed_tokens.weight
        nn.init.normal_(embed, std=0.05)
        common = F.normalize(torch.randn(h), dim=0)
        embed += common * 0.05 * h ** 0.5
        for i, layer in enumerate(self.layers):
            att, mlp = layer.self_attn, layer.mlp
            for p in (att.q_proj, att.k_proj, att.v_proj, mlp.gate_proj, mlp.up_proj):
                nn.init.normal_(p.weight, std=p.weight.shape[1] ** -0.5)
            nn.init.normal_(att.o_proj.weight, std=0.5 * h ** -0.5 if i == 0 else 0.0)
            nn.init.zeros_(mlp.down_proj.weight)
            damp = torch.ones(d // 2)
            damp[:d // 6] = 0.2
            damp = damp.repeat(2)[None, :, None]
            for p in (att.q_proj, att.k_proj):
                p.weight.copy_((p.weight.view(-1, d, h) * damp).view_as(p.weight))
        self.look_back([a + 1 for a in range(c.num_attention_heads)], noise=0.1)

    @torch.no_grad()
    def look_back(self, offsets, noise=0.0, fast=6, peak=50.0):
        """Sets the queries and keys of layer 0 so that head a looks offsets[a] tokens back. `fast` rotary pairs are
        used and `peak` is the attention logit at the wanted distance; `noise` scales what the weights hold now."""
        c = self.cfg
        d = c.head_dim
        layer = self.layers[0]
        att = layer.self_attn
        common = layer.input_layernorm(self.embed_tokens.weight).mean(0)
        common = common / common.square().sum()
        u = torch.zeros(d // 2)
        u[:fast] = (peak * d ** 0.5 / fast) ** 0.5
        att.k_proj.weight.mul_(noise)
        att.q_proj.weight.mul_(noise)
        for g in range(c.num_key_value_heads):
            att.k_proj.weight[g * d:g * d + d // 2] += torch.outer(u, common)
        for a, offset in enumerate(offsets):
            cos, sin = self.cos[offset], self.sin[offset]
            att.q_proj.weight[a * d:(a + 1) * d] += torch.outer(torch.cat((u * cos, -u * sin)), common)

    @torch.no_grad()
    def add_look_back(self, number, group, ids, fast=6, peak=40.0):
        """Gives the heads of one group of a later layer new queries and keys, which look one token back. What the
        residual streams of the rows `ids` have in common there serves as the direction that both read."""
        c = self.cfg
        d, per_group = c.head_dim, c.num_attention_heads // c.num_key_value_heads
        states = []
        self(ids, states=states)
        layer = self.layers[number]
        common = layer.input_layernorm(states[number - 1]).flatten(0, 1).mean(0)
        common = common / common.square().sum()
        u = torch.zeros(d // 2)
        u[:fast] = (peak * d ** 0.5 / fast) ** 0.5
        att, rows = layer.self_attn, slice(group * d, (group + 1) * d)
        heads = slice(group * per_group * d, (group + 1) * per_group * d)
        att.k_proj.weight[rows] = torch.outer(torch.cat((u, torch.zeros(d // 2))), common)
        turned = torch.cat((u * self.cos[1], -u * self.sin[1]))
        att.q_proj.weight[heads] = torch.outer(turned, common).repeat(per_group, 1)
        nn.init.normal_(att.v_proj.weight[rows], std=c.hidden_size ** -0.5)
        att.o_proj.weight[:, heads] = 0

    @torch.no_grad()
    def match_last_word(self, first_pair=14, strength=4.0):
        """Sets layer 0 to pass the word before each token on, in full, and the queries and keys of the other layers
        to match a token with tokens that its word stands before.

        Needs a head that looks one token back in every group of layer 0 (the first of each). What all embeddings
        share is left out of the match. Only the slow rotary pairs, from `first_pair` on, take part."""
        c = self.cfg
        h, d, groups = c.hidden_size, c.head_dim, c.num_key_value_heads
        per_group = c.num_attention_heads // groups
        first = self.layers[0]
        into, out = (torch.linalg.qr(torch.randn(h, h))[0] for _ in range(2))
        turn = torch.zeros(h, h)
        first.self_attn.o_proj.weight.mul_(0.15)
        for g in range(groups):
            rows = slice(g * d, (g + 1) * d)
            first.self_attn.v_proj.weight[rows] = into[rows]
            head = slice(g * per_group * d, (g * per_group + 1) * d)
            first.self_attn.o_proj.weight[:, head] = 0.07 * out[:, rows]
            turn += out[:, rows] @ into[rows]
        common = F.normalize(self.embed_tokens.weight.mean(0), dim=0)
        turned = turn @ common   # What all words share, as the word before passes it on.
        apart = torch.eye(h) - torch.outer(common, common)
        apart_turned = torch.eye(h) - torch.outer(turned, turned)
        slow = [i for i in range(d) if i % (d // 2) >= first_pair]
        for layer in self.layers[1:]:
            att = layer.self_attn
            att.q_proj.weight.mul_(0.1)
            att.k_proj.weight.mul_(0.1)
            for g in range(groups):
                basis = torch.linalg.qr(torch.randn(h, len(slow)))[0].T
                query = strength * basis @ apart @ apart_turned
                key = strength * basis @ apart @ turn.T @ apart
                for n, channel in enumerate(slow):
                    att.k_proj.weight[g * d + channel] += key[n]
                    for a in range(g * per_group, (g + 1) * per_group):
                        att.q_proj.weight[a * d + channel] += query[n]

    def rope(self, positions, dtype):
        """positions [B,T] or [T] -> cos, sin [B,1,T,d/2]."""
        if positions.dim() == 1:
            positions = positions[None]
        return self.cos[positions][:, None].to(dtype), self.sin[positions][:, None].to(dtype)

    def forward(self, ids, positions=None, dtype=torch.float32, taps=None, mask=None, states=None):
        """Hidden states after the last norm, [B,T,h].

        `mask`, [B,1,T,T], is added to the attention logits in place of the causal mask. `states` collects the
        residual stream after each layer."""
        if positions is None:
            positions = torch.arange(ids.shape[1])
        cos, sin = self.rope(positions, dtype)
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, cos, sin, dtype, taps, mask)
            if states is not None:
                states.append(x)
        return self.norm(x)

    def logits(self, hidden):
        return hidden @ self.embed_tokens.weight.to(hidden.dtype).T
