# SPDX-License-Identifier: Apache-2.0
"""Where vLLM's attention on CPUs keeps keys and values. Found out by having it write some."""

from __future__ import annotations

import typing

import quire

# (first, strides of blocks, heads, tokens and channels) of keys, and of values; in elements.
Strides = tuple[tuple[int, ...], tuple[int, ...]]


def candidates(heads: int, block_tokens: int, head_dim: int) -> dict[str, Strides]:
    """Layouts of a block of [heads][block_tokens][2 * head_dim] elements, by name."""
    half = block_tokens * head_dim
    block, head = 2 * heads * half, 2 * half
    values = (half, block, head, head_dim, 1)
    rows = (block, head, 2 * head_dim, 1)
    return {
        "keys transposed, then values": ((0, block, head, 1, block_tokens), values),
        "keys, then values": ((0, block, head, head_dim, 1), values),
        "a row of keys and values for each token": ((0, *rows), (head_dim, *rows)),
    }


def found(heads: int, block_tokens: int, head_dim: int, dtype: typing.Any) -> tuple[str, Strides]:
    """Name and strides of the layout that this machine's attention writes.

    Raises Unimplemented where it is none of the candidates, as with AMX, and where vLLM has no such attention.
    """
    import torch

    try:
        cache, keys, values = _written(torch, heads, block_tokens, head_dim, dtype)
    except (ImportError, AttributeError, RuntimeError, NotImplementedError) as error:
        raise quire.Unimplemented(f"vLLM's attention on this CPU could not be tried: {error}") from error
    for name, strides in candidates(heads, block_tokens, head_dim).items():
        if all(
            torch.equal(_view(torch, cache, place, keys.shape, block_tokens), wanted)
            for place, wanted in zip(strides, (keys, values))
        ):
            return name, strides
    raise quire.Unimplemented("vLLM's attention packs keys on this CPU in a way that is not known (AMX?)")


def _written(torch: typing.Any, heads: int, block_tokens: int, head_dim: int, dtype: typing.Any) -> tuple:
    """A cache of two blocks into whose second one the attention's kernel wrote these keys and values."""
    from vllm import _custom_ops as ops
    from vllm.v1.attention.backends.cpu_attn import _get_attn_isa

    random = torch.Generator().manual_seed(1)
    keys, values = (
        torch.rand((block_tokens, heads, head_dim), generator=random).to(dtype) for _ in range(2)
    )
    cache = torch.zeros((2, heads, block_tokens, 2 * head_dim), dtype=dtype)
    key_cache, value_cache = cache.view(2, heads, 2 * block_tokens, head_dim).chunk(2, dim=2)
    slots = torch.arange(block_tokens, 2 * block_tokens)
    isa = _get_attn_isa(dtype, block_tokens, head_dim, "auto")
    ops.cpu_attn_reshape_and_cache(keys, values, key_cache, value_cache, slots, isa)
    return cache, keys, values


def _view(
    torch: typing.Any, cache: typing.Any, place: tuple[int, ...], shape: typing.Any, block_tokens: int
) -> typing.Any:
    """Block 1 as [token][head][channel]."""
    first, block, head, token, channel = place
    return torch.as_strided(cache, tuple(shape), (token, head, channel), first + block)
