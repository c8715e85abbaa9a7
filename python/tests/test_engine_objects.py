# SPDX-License-Identifier: Apache-2.0
"""What LMCache and SGLang call, without them: over a real server that is killed and comes back.

tools/engines_demo runs the engines themselves.
"""

import inspect
import itertools
import pathlib
import select
import types

import numpy
import pytest
from conftest import SEED, own_methods, recorded, until

import quire
from quire import sglang
from quire.lmcache import QuireL2
from quire.sglang.settings import settings_of
from quire.sglang.store import PageStore

_NUMBERS = itertools.count()
_PATIENCE = {"retry_after": 0.05, "patience": 0.05}


def some_pages(count, size, seed=0):
    return numpy.random.default_rng([SEED, seed]).integers(0, 256, (count, size), numpy.uint8)


class L2:
    """LMCache's side: calls by their numbers, and one loop over the descriptor."""

    def __init__(self, **params):
        self.client = QuireL2(**params)
        self.ended = {}

    def __call__(self, call, keys, *buffers):
        number = getattr(self.client, f"submit_batch_{call}")(keys, *buffers)
        poller = select.poll()
        poller.register(self.client.event_fd(), select.POLLIN)
        while number not in self.ended:
            assert poller.poll(20_000), f"{call} does not end"
            self.ended.update({done[0]: done[1:] for done in self.client.drain_completions()})
        return self.ended.pop(number)


def test_lmcache_sets_gets_and_deletes_in_batches(server):
    l2 = L2(address=server.address, namespace=f"n{next(_NUMBERS)}")
    chunks = some_pages(40, 300_001)
    keys = [f"model@00000000@0@{i:064x}" for i in range(40)]
    assert l2("exists", keys) == (True, "", [False] * 40)
    assert l2("set", keys[1:], [memoryview(chunk) for chunk in chunks[1:]]) == (True, "", [True] * 39)
    assert l2("set", keys[1:2], [memoryview(chunks[1])])[0]  # Stored already.
    assert l2("exists", keys) == (True, "", [False] + [True] * 39)
    memory = numpy.zeros_like(chunks)
    assert l2("get", keys, [memoryview(row) for row in memory]) == (True, "", [False] + [True] * 39)
    numpy.testing.assert_array_equal(memory[1:], chunks[1:])
    # Calls that run together end one by one, and a descriptor that was drained is not ready.
    numbers = {l2.client.submit_batch_get(keys[i : i + 1], [memory[i]]) for i in range(1, 40)}
    while numbers:
        assert select.select([l2.client.event_fd()], [], [], 20)[0]
        numbers -= {number for number, ok, _, came in l2.client.drain_completions() if ok and came == [True]}
    assert not select.select([l2.client.event_fd()], [], [], 0)[0] and l2.client.drain_completions() == []
    assert l2("delete", keys[:2]) == (True, "", [False, True])
    assert l2("exists", keys[:3])[2] == [False, False, True]
    other = L2(address=server.address, namespace="other")
    assert other("exists", keys[2:3])[2] == [False]
    other.client.close()
    l2.client.close()
    l2.client.close()


def test_a_chunk_of_another_size_is_no_hit(server, caplog):
    l2 = L2(address=server.address, namespace=f"n{next(_NUMBERS)}", threads=1)
    l2("set", ["k"], [memoryview(bytes(1000))])
    for size in (999, 1001):
        caplog.clear()
        assert l2("get", ["k"], [memoryview(bytearray(size))]) == (True, "", [False])
        assert "of 1000 bytes. Another model, type or shard" in caplog.text
    failed, words, answers = l2("set", ["empty"], [memoryview(b"")])
    assert (failed, answers) == (False, None) and "0 bytes" in words
    l2.client.close()


def test_lmcache_goes_on_while_the_server_is_away(restartable):
    restartable.kill()
    l2 = L2(address=restartable.address, **_PATIENCE)
    ok, words, answers = l2("exists", ["k"])
    assert (ok, answers) == (False, None) and "Quire is away" in words
    restartable.restart()
    until(lambda: l2("set", ["k"], [memoryview(b"kept")])[0])
    restartable.kill()
    memory = bytearray(4)
    assert not l2("get", ["k"], [memoryview(memory)])[0]
    restartable.restart()
    until(lambda: l2("get", ["k"], [memoryview(memory)]) == (True, "", [True]))
    assert memory == b"kept"
    l2.client.close()


class Pool:
    """A host pool as SGLang's MHATokenToKVPoolHost, with the shapes and the order of its pieces."""

    page_size, layers, heads, channels, pages = 16, 3, 2, 32, 12
    dtype = "torch.bfloat16"

    def __init__(self, layout):
        self.layout = layout
        self.size = self.pages * self.page_size
        tokens, row = self.size, (self.heads, self.channels)
        shape = {
            "layer_first": (2, self.layers, tokens, *row),
            "page_first": (2, tokens, self.layers, *row),
            "page_first_direct": (2, self.pages, self.layers, self.page_size, *row),
        }[layout]
        self.kv_buffer = numpy.zeros(shape, numpy.uint16)

    def page(self, index):
        """[2][layer][token][head][channel]"""
        first = index // self.page_size * self.page_size
        if self.layout == "layer_first":
            return self.kv_buffer[:, :, first : first + self.page_size]
        if self.layout == "page_first":
            return self.kv_buffer[:, first : first + self.page_size].swapaxes(1, 2)
        return self.kv_buffer[:, index // self.page_size]

    def get_page_buffer_meta(self, indices):
        row = self.heads * self.channels * 2
        base, values = self.kv_buffer.ctypes.data, self.kv_buffer.nbytes // 2
        addresses = []
        for index in indices[:: self.page_size].tolist():
            for layer in range(self.layers) if self.layout == "layer_first" else [0]:
                keys = base + index * row * (1 if self.layout == "layer_first" else self.layers)
                addresses += [keys + layer * self.size * row, keys + layer * self.size * row + values]
        size = self.page_size * row * (1 if self.layout == "layer_first" else self.layers)
        return addresses, [size] * len(addresses)


def storage_config(server, model_name="name", **changes):
    extra = {"backend_name": "quire", "interface_v1": 1, "quire": {"address": server.address, **_PATIENCE}}
    ranks = {f"{kind}_{what}": number for kind in ("tp", "pp", "attn_cp", "dcp") for what, number in
             (("rank", 0), ("size", 1))}
    fields = {"model_name": model_name, "is_mla_model": False, "extra_config": extra, **ranks}
    return types.SimpleNamespace(**{**fields, **changes})


def tokens_of(pages):
    return numpy.concatenate([numpy.arange(p * Pool.page_size, (p + 1) * Pool.page_size) for p in pages])


def filled(layout):
    pool = Pool(layout)
    values = numpy.random.default_rng([SEED, 7]).integers(0, 1 << 16, pool.kv_buffer.size, numpy.uint16)
    pool.kv_buffer[:] = values.reshape(pool.kv_buffer.shape)
    return pool


@pytest.mark.parametrize("writes, reads", [
    ("layer_first", "page_first_direct"),
    ("page_first_direct", "layer_first"),
    ("page_first", "page_first"),
])
def test_sglang_pages_go_from_pool_to_pool(server, writes, reads):
    config = storage_config(server, f"model-{next(_NUMBERS)}")
    source, target = filled(writes), Pool(reads)
    writer, reader = PageStore(config, source), PageStore(config, target)
    keys = [f"{i:064x}" for i in range(5)]
    assert reader.leading(keys) == 0
    from_pages, to_pages = [7, 0, 3, 11, 5], [2, 9, 4, 1, 8]
    assert writer.save(keys, tokens_of(from_pages)) == [True] * 5
    assert (reader.leading(keys), reader.leading(keys[:2] + ["no"] + keys[2:])) == (5, 2)
    asked = [*keys[:4], "no"]
    assert reader.load(asked, tokens_of(to_pages)) == [True] * 4 + [False]
    for here, there in zip(from_pages[:4], to_pages):
        numpy.testing.assert_array_equal(source.page(here * 16), target.page(there * 16))
    untouched = set(range(Pool.pages)) - set(to_pages)
    assert all(not target.page(page * 16).any() for page in untouched)
    for store in (writer, reader):
        store.close()


def test_sglang_names_have_model_layout_type_and_shard(server, tmp_path, caplog):
    config = storage_config(server, f"model-{next(_NUMBERS)}")
    first = PageStore(config, filled("layer_first"))
    assert "alone tells its pages from others" in caplog.text
    assert first.save(["k"], tokens_of([1])) == [True]
    half = Pool("layer_first")
    half.dtype = "torch.float16"
    (tmp_path / "config.json").write_text("{}")
    others = []
    for weights in (b"one", b"two"):  # Two models under one folder's name.
        (tmp_path / "model.safetensors").write_bytes(weights)
        others.append(PageStore(storage_config(server, str(tmp_path)), filled("layer_first")))
    others += [
        PageStore(storage_config(server, config.model_name, tp_size=2), Pool("layer_first")),
        PageStore(storage_config(server, config.model_name), Pool("page_first")),
        PageStore(storage_config(server, config.model_name), half),
        PageStore(storage_config(server, "another"), Pool("layer_first")),
    ]
    assert [store.leading(["k"]) for store in [first, *others]] == [1] + [0] * len(others)
    assert others[0].save(["k"], tokens_of([1])) == [True] and others[1].leading(["k"]) == 0
    for store in [first, *others]:
        store.close()


def test_sglang_goes_on_while_the_server_is_away(restartable, caplog):
    config = storage_config(restartable)
    restartable.kill()
    source, target = filled("layer_first"), Pool("layer_first")
    writer, reader = PageStore(config, source), PageStore(config, target)
    assert "Quire cannot be reached" in caplog.text
    assert (writer.save(["k"], tokens_of([1])), reader.leading(["k"])) == ([False], 0)
    restartable.restart()
    until(lambda: writer.save(["k"], tokens_of([1])) == [True])
    restartable.kill()
    assert reader.load(["k"], tokens_of([1])) == [False]
    restartable.restart()
    until(lambda: reader.leading(["k"]) == 1)
    assert reader.load(["k"], tokens_of([1])) == [True]
    numpy.testing.assert_array_equal(source.page(16), target.page(16))
    for store in (writer, reader):
        store.close()


@pytest.mark.parametrize("make, words", [
    (lambda: QuireL2(adress="x"), "adapter_params: 'adress' is unknown; there are: address"),
    (lambda: QuireL2(threads=0), "'threads' must be 1 or more"),
    (lambda: settings_of({"address": "x"}), "'address' is a setting of Quire: give it as"),
    (lambda: settings_of({"quire": {"timeout": "1"}}), "'quire': 'timeout' must be a float"),
    (lambda: settings_of({"quire": "x"}), "must be an object of settings"),
    (lambda: quire.HostPieces([1, 2], [1]), "one size for each address"),
    (lambda: quire.HostPieces([0], [1]), "both must be above 0"),
])
def test_settings_that_are_wrong_are_refused(make, words):
    with pytest.raises(quire.InvalidArgument, match=words):
        make()


def test_a_model_without_weights_is_refused(server, tmp_path):
    with pytest.raises(quire.NotFound, match="no weights that could tell"):
        QuireL2(address=server.address, model=str(tmp_path))


def test_the_backend_overrides_what_sglang_has():
    """Signatures recorded from SGLang 0.5.23 by tools/engines_demo/record.py."""
    file = pathlib.Path(sglang.__file__).with_name("storage.py")
    assert own_methods(file, "QuireStorage", "sglang") == {"close"}


def test_the_adapter_has_what_lmcache_calls():
    for name, call in recorded("lmcache").items():
        method = getattr(QuireL2, name)
        assert len(inspect.signature(method).parameters) == call["arguments"] + 1, name
