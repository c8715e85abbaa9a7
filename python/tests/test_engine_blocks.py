# SPDX-License-Identifier: Apache-2.0
"""Blocks of engines: every layout is read to the same units and written from them, against plain numpy."""

import random

import numpy
import pytest
from conftest import SEED, random_units, small_spec

import quire

LAYOUTS = ["hnd", "nhd", "keys_transposed"]


class Cache:
    """A layer's blocks in one of the layouts. `keys` and `values` are views, [block][token][head][channel]."""

    def __init__(self, layout, blocks, tokens, heads, width, dtype):
        self.tokens = tokens
        self.flat = numpy.zeros(blocks * 2 * tokens * heads * width, dtype)
        if layout == "hnd":  # A row of K and of V beside each other.
            rows = self.flat.reshape(blocks, heads, tokens, 2 * width)
            self.keys = rows[..., :width].transpose(0, 2, 1, 3)
            self.values = rows[..., width:].transpose(0, 2, 1, 3)
            steps = (2 * tokens * heads * width, 2 * tokens * width, 2 * width, 1)
            self.strides = (0, *steps), (width, *steps)
        elif layout == "nhd":  # All keys, then all values.
            self.keys, self.values = self.flat.reshape(2, blocks, tokens, heads, width)
            steps = (tokens * heads * width, width, heads * width, 1)
            self.strides = (0, *steps), (self.flat.size // 2, *steps)
        else:  # As vLLM's attention on CPUs: [head_dim][tokens] of K, then [tokens][head_dim] of V.
            halves = self.flat.reshape(blocks, heads, 2, tokens * width)
            self.keys = halves[:, :, 0].reshape(blocks, heads, width, tokens).transpose(0, 3, 1, 2)
            self.values = halves[:, :, 1].reshape(blocks, heads, tokens, width).transpose(0, 2, 1, 3)
            block, head = 2 * tokens * heads * width, 2 * tokens * width
            self.strides = (0, block, head, 1, tokens), (tokens * width, block, head, width, 1)
        assert numpy.shares_memory(self.keys, self.flat) and numpy.shares_memory(self.values, self.flat)

    def place(self, table, token):
        return table[token // self.tokens], token % self.tokens


def engine_of(spec, caches, **changes):
    keys, values = caches[0].strides
    options = {"block_tokens": caches[0].tokens, "keys": keys, "values": values}
    return quire.EngineBlocks(spec, [cache.flat for cache in caches], **{**options, **changes})


def filled(spec, layout, block_tokens, table, tokens, units):
    """Caches of all layers with the tokens' rows of `units`, [layers][pages][n_kv][2][p][d]."""
    caches = [
        Cache(layout, max(table) + 2, block_tokens, spec.num_kv_heads, spec.head_dim, units.dtype)
        for _ in range(spec.num_layers)
    ]
    for layer, cache in enumerate(caches):
        for token in range(tokens):
            block, row = cache.place(table, token)
            unit = units[layer, token // spec.page_tokens, :, :, token % spec.page_tokens]
            cache.keys[block, row], cache.values[block, row] = unit[:, 0], unit[:, 1]
    return caches


def table_of(tokens, block_tokens):
    count = -(-tokens // block_tokens)
    return random.Random(SEED).sample(range(1, 2 * count + 2), count)


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("block_tokens", [16, 24, 128])
def test_blocks_are_read_to_units(layout, block_tokens, dtype):
    spec = small_spec(dtype=dtype, head_dim=24)
    tokens = 5 * spec.page_tokens + 7
    units = random_units(spec, spec.num_layers, 6, spec.num_kv_heads)
    units[:, 5, :, :, 7:] = 0
    table = table_of(tokens, block_tokens)
    blocks = engine_of(spec, filled(spec, layout, block_tokens, table, tokens, units))
    for first in (0, 2 * spec.page_tokens):
        out = numpy.full_like(units[:, first // spec.page_tokens :], 7)
        blocks.read(table, first, tokens, out)
        numpy.testing.assert_array_equal(out, units[:, first // spec.page_tokens :])


@pytest.mark.parametrize("layout, block_tokens", [("hnd", 24), ("nhd", 16), ("keys_transposed", 128)])
def test_what_one_layout_stored_another_one_loads(client, layout, block_tokens):
    """Promise: a prefix is found by engines of every layout and block size."""
    spec = small_spec(model=f"engine-{layout}-{SEED}")
    segment = spec.page_tokens * spec.segment_pages
    tokens = [(SEED + i) % 50000 for i in range(segment)]
    units = random_units(spec, spec.num_layers, spec.segment_pages, spec.num_kv_heads)
    table = table_of(segment, 32)
    out = numpy.empty_like(units)
    engine_of(spec, filled(spec, "keys_transposed", 32, table, segment, units)).read(table, 0, segment, out)
    client.put_segment(spec, tokens, out)

    found = client.lookup(spec, tokens + [1, 2, 3])
    assert found.num_tokens == segment
    first, end = 45, segment - 3  # Inside pages: the engine has the tokens before, and computes those behind.
    table = table_of(segment, block_tokens)
    caches = filled(spec, layout, block_tokens, table, 0, units)
    for cache in caches:
        cache.flat[:] = 9
    blocks = engine_of(spec, caches)
    with client.open_session(found.segment_keys[-1], slots_per_head=spec.segment_pages) as session:
        wants = [quire.Want(layer, range(spec.segment_pages)) for layer in range(spec.num_layers)]
        for part in session.start(wants):
            blocks.write(part, table, first, end)
            part.applied()
    expected = filled(spec, layout, block_tokens, table, segment, units)
    for cache, wanted in zip(caches, expected):
        written = numpy.zeros(cache.keys.shape[:2], bool)
        for token in range(first, end):
            block, row = cache.place(table, token)
            written[block, row] = True
        for half, wanted_half in ((cache.keys, wanted.keys), (cache.values, wanted.values)):
            numpy.testing.assert_array_equal(half[written], wanted_half[written])
            assert (half[~written] == 9).all()


def test_blocks_that_do_not_fit_are_refused():
    spec = small_spec()
    table = [1, 2]
    units = random_units(spec, spec.num_layers, 1, spec.num_kv_heads)
    caches = filled(spec, "hnd", 32, table, 32, units)
    keys, values = caches[0].strides
    blocks = engine_of(spec, caches)
    assert blocks.num_blocks == 4 and blocks.block_tokens == 32
    for call, words in [
        (lambda: engine_of(spec, caches[:2]), "2 instead of 3"),
        (lambda: engine_of(spec, caches, block_tokens=0), "block_tokens"),
        (lambda: engine_of(spec, caches, keys=keys[:4]), "strides"),
        (lambda: engine_of(spec, caches, keys=(0, -1, 1, 1, 1)), "no block"),
        (lambda: engine_of(spec, caches, keys=(0, 1 << 62, 1, 1, 1)), "no block"),
        (lambda: engine_of(spec, caches, values=(caches[0].flat.size, *values[1:])), "no block"),
        (lambda: engine_of(small_spec(dtype="f32"), caches), "f16 instead of f32"),
        (lambda: blocks.read(table, 0, 65, units), "do not lie in 2 blocks of 32"),
        (lambda: blocks.read([1, 4], 0, 32, units), "block 4 is not among 4"),
        (lambda: blocks.read(table, 3, 32, units), "does not begin a page"),
        (lambda: blocks.read(table, 0, 64, units), "instead of"),
    ]:
        with pytest.raises(quire.InvalidArgument, match=words):
            call()
