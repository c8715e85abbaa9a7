# SPDX-License-Identifier: Apache-2.0
"""The connector for vLLM, without vLLM: its two halves over a real server, and what it overrides.

tests/engines runs it in the real engine.
"""

import importlib
import itertools
import json
import logging
import pathlib
import sys
import time
import types

import numpy
import pytest
from conftest import SEED, own_methods
from test_engine_blocks import Cache

import quire
from quire import vllm
from quire.engines.link import Link
from quire.vllm.counts import Counts
from quire.vllm.identity import refusal, salted, shards, spec_fields, spec_of
from quire.vllm.planner import Planner
from quire.vllm.settings import Settings
from quire.vllm.work import Load, Work
from quire.vllm.worker import BlockWorker, IdleWorker

SEGMENT = 256
_NUMBERS = itertools.count()
_FIELDS = {
    "attention": "gqa",
    "dtype": "bf16",
    "num_layers": 2,
    "num_query_heads": 4,
    "num_kv_heads": 2,
    "head_dim": 32,
    "weights_hash": "",
    "rope": {"rotary_dim": 32},
}


class Request:
    """What the planner reads of a request of vLLM."""

    def __init__(self, tokens, **changes):
        self.request_id = f"request-{next(_NUMBERS)}"
        self.all_token_ids = list(tokens)
        self.prompt_token_ids = list(tokens)
        self.num_prompt_tokens = len(tokens)
        self.mm_features, self.lora_request, self.prompt_embeds = [], None, None
        self.cache_salt, self.kv_transfer_params, self.num_preemptions = None, None, 0
        vars(self).update(changes)

    @property
    def num_tokens(self):
        return len(self.all_token_ids)


class Engine:
    """Blocks and steps as vLLM has them: it computes what no connector brings, and checks what one does.

    The keys and values of a token are random, and follow from the token and its place.
    """

    def __init__(
        self, connect, model, block_tokens=128, layout="keys_transposed", blocks=64, workers=1, **options
    ):
        fields = {**_FIELDS, "model": model, "page_tokens": 32, "segment_pages": 8}
        self.spec = json.dumps(fields)
        self.settings = Settings.of({"retry_after": 0.0, **options})
        self.counts = Counts()
        self.link = Link(connect, self.settings.retry_after, logging.getLogger("vllm.quire"))
        self.link.open()
        self.block_tokens = block_tokens
        self.shards = shards(fields["num_kv_heads"], workers)
        specs = [shard.of(self.spec) for shard in self.shards]
        self.caches = [self.caches_of(spec_of(spec), layout, blocks) for spec in specs]
        self.planner = Planner(self.settings, self.link, specs, block_tokens, self.counts)
        self.workers = [self.worker_of(spec_of(spec), caches) for spec, caches in zip(specs, self.caches)]
        self._free = itertools.count(1)
        self.totals = {}
        self._came = {}  # Of loads outside of steps: the workers at which they have come.
        self._bad = set()

    def caches_of(self, spec, layout, blocks):
        """By layer, with the heads of one worker."""
        return [
            Cache(layout, blocks, self.block_tokens, spec.num_kv_heads, spec.head_dim, numpy.uint16)
            for _ in range(spec.num_layers)
        ]

    def worker_of(self, spec, caches):
        keys, values = caches[0].strides
        flat = [cache.flat for cache in caches]
        blocks = quire.EngineBlocks(spec, flat, block_tokens=self.block_tokens, keys=keys, values=values)
        return BlockWorker(self.settings, self.link, blocks, self.counts)

    def rows(self, layer, tokens, first, end):
        """[token][head][K, V][channel]"""
        rows = []
        for place in range(first, end):
            random = numpy.random.default_rng([layer, place, *tokens[max(0, place - 2) : place + 1]])
            rows.append(random.integers(0, 1 << 15, (2, 2, 32), numpy.uint16))
        return numpy.array(rows)

    def parts(self, request, first, end):
        """Of each worker's caches of each layer: the cache, and the rows of its heads."""
        for layer in range(_FIELDS["num_layers"]):
            rows = self.rows(layer, request.all_token_ids, first, end)
            for shard, caches in zip(self.shards, self.caches):
                yield caches[layer], rows[:, shard.first : shard.end]

    def compute(self, request, table, first, end):
        for cache, rows in self.parts(request, first, end):
            for token in range(first, end):
                block, row = cache.place(table, token)
                cache.keys[block, row], cache.values[block, row] = rows[token - first].transpose(1, 0, 2)

    def holds(self, request, table, end):
        """True when the blocks have what the tokens give."""
        for cache, rows in self.parts(request, 0, end):
            for token in range(end):
                block, row = cache.place(table, token)
                if not (
                    (cache.keys[block, row] == rows[token, :, 0]).all()
                    and (cache.values[block, row] == rows[token, :, 1]).all()
                ):
                    return False
        return True

    def drain(self):
        return all(worker.drain(20) for worker in self.workers)

    def totals_now(self):
        for name, value in self.counts.take().items():
            self.totals[name] = self.totals.get(name, 0) + value
        return self.totals

    def has_saved(self, segments):
        """Waits for 20 seconds at most."""
        end = time.monotonic() + 20
        while self.totals_now().get("segments_saved") != segments and time.monotonic() < end:
            time.sleep(0.01)
        return self.totals.get("segments_saved") == segments

    def table(self, tokens):
        return [next(self._free) for _ in range(-(-tokens // self.block_tokens))]

    def run(self, request, chunk=300, keeps=False, room=0):
        """Runs a prompt, and returns the tokens that were loaded, and its blocks, with room for so many tokens more."""
        table = self.table(request.num_tokens + room)
        external, later = self.planner.matched(request, 0)
        self.planner.allocated(request, table, external)
        while later:
            self.planner.allocated(request, table, 0)
            if self.load_outside(request):
                break
            # As vLLM: asks again, and would load for ever.
            external, later = self.planner.matched(request, 0)
            assert external == 0
        computed = external
        loaded, new = computed, True
        while computed < request.num_tokens:
            end = min(computed + chunk, request.num_tokens)
            bad = self.step(request, table, computed, end, new)
            new = False
            if bad:  # As vLLM: from the first block that did not come.
                computed = loaded = min(table.index(block) for block in bad) * self.block_tokens
            else:
                computed = end
        if not keeps:
            self.planner.finished(request.request_id)
            self.work(self.output())
        assert self.drain()
        self.totals_now()
        return loaded, table

    def generate(self, request, table, end):
        """Goes on to so many tokens, one a step, and ends the request."""
        for place in range(request.num_tokens, end):
            request.all_token_ids.append(place)
            self.step(request, table, place, place + 1)
        self.planner.finished(request.request_id)
        assert self.drain()

    def load_outside(self, request):
        """Steps until the load has ended; whether it has come."""
        self._bad = set()
        while True:
            _, arrived, _ = self.work(self.output())
            if request.request_id in arrived:
                return not self._bad

    def step(self, request, table, first, end, new=False):
        name = request.request_id
        output = self.output({name: end - first})
        if new:
            output.scheduled_new_reqs.append(
                types.SimpleNamespace(req_id=name, block_ids=(table,), num_computed_tokens=first)
            )
        else:
            cached = output.scheduled_cached_reqs
            cached.req_ids, cached.new_block_ids, cached.num_computed_tokens = [name], [None], [first]
        return self.work(output, lambda: self.compute(request, table, first, end))[2]

    def output(self, scheduled=None):
        cached = types.SimpleNamespace(
            req_ids=[], new_block_ids=[], num_computed_tokens=[], resumed_req_ids=set()
        )
        return types.SimpleNamespace(
            scheduled_new_reqs=[], scheduled_cached_reqs=cached, num_scheduled_tokens=scheduled or {}
        )

    def work(self, output, forward=lambda: None):
        works = self.planner.step(output)
        for worker, work in zip(self.workers, works, strict=True):
            worker.start(work)
        for layer in range(2):
            for worker in self.workers:
                worker.wait(layer)
        forward()
        bad = set()
        for number, (worker, work) in enumerate(zip(self.workers, works)):
            worker.finish(work)
            for request in worker.arrived():
                self._came.setdefault(request, set()).add(number)
            bad |= worker.load_errors()
        if bad:
            self.planner.recomputed(bad)
        # As vLLM: a load has come when it has at every worker.
        arrived = {request for request, came in self._came.items() if len(came) == len(self.workers)}
        self._came = {request: came for request, came in self._came.items() if request not in arrived}
        self._bad |= bad
        return works, arrived, bad

    def close(self):
        for worker in self.workers:
            worker.close()
        self.link.close()


@pytest.fixture
def engines(server):
    """Makes engines, and closes them."""
    made = []

    def make(model, **options):
        made.append(Engine(lambda: server.connect(timeout=5), model, **options))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


def prompt_of(length, number=0):
    return [(SEED + 7919 * number + i * i) % 50000 for i in range(length)]


@pytest.mark.parametrize("load", ["by_layer", "async"])
def test_a_prefix_is_found_by_another_engine(engines, load):
    """Promise: whatever the layout and the blocks, and whoever computed it."""
    writer = engines(f"found-{load}")
    tokens = prompt_of(2 * SEGMENT + 100)
    loaded, table = writer.run(Request(tokens))
    assert loaded == 0 and writer.holds(Request(tokens), table, len(tokens))
    assert writer.totals["segments_saved"] == 2
    reader = engines(f"found-{load}", block_tokens=48, layout="nhd", load=load)
    for length, expected in [(len(tokens), 2 * SEGMENT), (SEGMENT, SEGMENT - 1), (SEGMENT - 1, 0)]:
        request = Request(tokens[:length])
        loaded, table = reader.run(request)
        assert loaded == expected
        assert reader.holds(request, table, length)
    assert reader.totals["prefill_tokens_saved"] == 3 * SEGMENT - 1
    changed = [1, *tokens[1:]]
    assert reader.run(Request(changed))[0] == 0


def test_a_salt_and_a_model_keep_prefixes_apart(engines):
    engine, other = engines("salt"), engines("salt-2")
    tokens = prompt_of(SEGMENT + 10, 1)
    engine.run(Request(tokens, cache_salt="a"))
    assert [engine.run(Request(tokens, cache_salt=salt))[0] for salt in ("b", None, "a")] == [0, 0, SEGMENT]
    assert other.run(Request(tokens, cache_salt="a"))[0] == 0


def test_what_token_ids_do_not_describe_is_passed(engines):
    engine = engines("passed")
    tokens = prompt_of(SEGMENT + 10, 2)
    for change in ({"mm_features": ["picture"]}, {"lora_request": "adapter"}, {"prompt_embeds": 1}):
        assert engine.run(Request(tokens, **change))[0] == 0
    assert engine.totals["requests_passed"] == 3 and "segments_saved" not in engine.totals
    assert engine.run(Request(tokens))[0] == 0


def test_generated_tokens_are_stored_and_found_in_the_next_turn(engines):
    engine = engines("turns")
    request = Request(prompt_of(SEGMENT - 20, 3))
    _, table = engine.run(request, keeps=True)
    table += engine.table(SEGMENT)
    engine.generate(request, table, SEGMENT + 3)
    assert engine.run(Request(request.all_token_ids))[0] == SEGMENT


@pytest.mark.parametrize("load", ["by_layer", "async"])
def test_a_prompt_that_comes_again_is_found_to_its_last_token(engines, client, load):
    engine = engines(f"tails-{load}", load=load, save_tail=True)
    tokens = prompt_of(SEGMENT + 77, 9)
    assert engine.run(Request(tokens))[0] == 0 and engine.totals["segments_saved"] == 2
    again = Request(tokens)
    loaded, table = engine.run(again, keeps=True, room=SEGMENT)
    assert loaded == len(tokens) - 1 and engine.holds(again, table, len(tokens))
    assert engine.totals["segments_saved"] == 2
    # What it generates is stored behind the whole segment, not behind the short one, which no other prompt finds.
    engine.generate(again, table, 2 * SEGMENT + 1)
    assert client.lookup(spec_of(engine.spec), again.all_token_ids).num_tokens == 2 * SEGMENT
    assert engine.run(Request([*tokens, 5]))[0] == SEGMENT
    assert engine.run(Request(tokens[: SEGMENT + 76]))[0] == SEGMENT
    # A prompt of whole segments has no tail.
    before = engine.totals["segments_saved"]
    engine.run(Request(prompt_of(SEGMENT, 10)))
    assert engine.totals["segments_saved"] == before + 1


def test_a_prompt_that_is_a_document_stores_what_follows(engines, client):
    engine = engines("whole-document")
    tokens = prompt_of(SEGMENT + 50, 11)
    engine.run(Request(tokens, kv_transfer_params={"quire_register": f"vllm/whole-{SEED}"}))
    request = Request(tokens)
    loaded, table = engine.run(request, keeps=True, room=SEGMENT)
    assert loaded == len(tokens) - 1
    engine.generate(request, table, 2 * SEGMENT + 1)
    assert client.lookup(spec_of(engine.spec), request.all_token_ids).num_tokens == 2 * SEGMENT


@pytest.mark.parametrize("load", ["by_layer", "async"])
def test_blocks_that_do_not_come_are_computed_and_nothing_wrong_is_stored(engines, client, load):
    """Promise: a miss costs a computation, never a wrong answer."""
    engine = engines(f"lost-{load}", load=load)
    tokens = prompt_of(4 * SEGMENT, 4)
    engine.run(Request(tokens[: 2 * SEGMENT]))
    request = Request(tokens)
    assert engine.planner.matched(request, 0) == (2 * SEGMENT, load == "async")
    found = client.lookup(spec_of(engine.spec), tokens)
    assert found.num_tokens == 2 * SEGMENT
    client.delete_segments(found.segment_keys)
    loaded, table = engine.run(request)
    assert loaded == 0 and engine.holds(request, table, len(tokens))
    assert engine.totals["load_failures"] == 1
    # Segments behind those that are gone: none, or by a step of its own. Never those of the step that waited in vain.
    assert client.lookup(spec_of(engine.spec), tokens).num_tokens == 0
    assert engine.run(Request(tokens))[0] == 0 and engine.run(Request(tokens))[0] == 4 * SEGMENT - 1
    again, table = engine.run(Request(tokens))
    assert again == 4 * SEGMENT - 1 and engine.holds(request, table, len(tokens))


@pytest.mark.parametrize("load", ["by_layer", "async"])
def test_workers_that_divide_the_heads_find_what_all_of_them_stored(engines, client, load):
    """Each worker's pages have keys of its own, and a prefix reaches as far as all have it."""
    model = f"divided-{load}"
    first = engines(model, workers=2, load=load, save_tail=True)
    tokens = prompt_of(3 * SEGMENT + 40, 12)
    assert first.run(Request(tokens))[0] == 0
    other = engines(model, workers=2, load=load, save_tail=True, layout="nhd", block_tokens=64, blocks=128)
    request = Request(tokens + prompt_of(100, 13))
    loaded, table = other.run(request)
    assert loaded == 3 * SEGMENT and other.holds(request, table, request.num_tokens)
    assert other.run(Request(tokens))[0] == len(tokens) - 1, "with the short segment at the end"
    # Other heads are other bytes.
    assert engines(model).run(Request(tokens))[0] == 0
    stored = client.lookup(spec_of(other.shards[1].of(other.spec)), tokens)
    assert stored.num_tokens == len(tokens)
    client.delete_segments(stored.segment_keys[2:])
    again = Request(tokens)
    loaded, table = first.run(again)
    assert loaded == 2 * SEGMENT and first.holds(again, table, len(tokens))
    assert first.run(Request(tokens))[0] == len(tokens) - 1


def test_a_load_that_fails_at_one_worker_fails(engines, client):
    engine = engines("divided-lost", workers=2)
    tokens = prompt_of(2 * SEGMENT, 14)
    engine.run(Request(tokens))
    request = Request(tokens)
    assert engine.planner.matched(request, 0)[0] == len(tokens) - 1
    stored = client.lookup(spec_of(engine.shards[1].of(engine.spec)), tokens)
    client.delete_segments(stored.segment_keys)
    loaded, table = engine.run(request)
    assert loaded == 0 and engine.holds(request, table, len(tokens))
    assert engine.totals["load_failures"] == 1


def test_workers_that_divide_the_heads_have_no_documents(engines):
    engine = engines("divided-documents", workers=2)
    params = {"quire_document": "some", "quire_register": "other"}
    engine.run(Request(prompt_of(SEGMENT, 15), kv_transfer_params=params))
    assert engine.totals["documents_refused"] == 2


def test_heads_are_divided_as_vllm_divides_them():
    def heads(total, workers):
        return [(shard.first, shard.end) for shard in shards(total, workers)]

    assert heads(8, 1) == [(0, 8)]
    assert heads(8, 2) == [(0, 4), (4, 8)]
    assert heads(2, 4) == [(0, 1), (0, 1), (1, 2), (1, 2)], "workers that have the same head"
    whole = json.dumps({**_FIELDS, "model": "x"})
    assert shards(2, 1)[0].of(whole) == whole
    prints = {spec_of(shard.of(whole)).fingerprint for shard in (*shards(2, 2), *shards(2, 4), *shards(2, 1))}
    assert len(prints) == 3


def test_a_document_is_named_and_registered(engines, client):
    engine = engines("documents")
    tokens = prompt_of(SEGMENT + 77, 5)
    engine.run(Request(tokens, kv_transfer_params={"quire_register": f"vllm/doc-{SEED}"}))
    document = client.stat(quire.DocumentName(f"doc-{SEED}", "vllm")).context
    assert list(client.read_tokens(document.chain_tip)) == tokens
    question = tokens + [5, 6, 7]
    assert engine.run(Request(question))[0] == SEGMENT
    params = {"quire_document": f"vllm/doc-{SEED}"}
    request = Request(question, kv_transfer_params=params)
    loaded, table = engine.run(request)
    assert loaded == len(tokens) and engine.holds(request, table, len(question))
    # Another prompt, another model, no such document, and what is no name: without it.
    refused = engine.totals.get("documents_refused", 0)
    assert engine.run(Request([9, *question], kv_transfer_params=params))[0] == 0
    assert engines("documents-2").run(Request(question, kv_transfer_params=params))[0] == 0
    for name in ("vllm/none", 7, "a@b"):
        engine.run(Request(question, kv_transfer_params={"quire_document": name, "quire_register": None}))
    assert engine.totals["documents_refused"] == refused + 4


def test_hints_of_a_request_reach_the_server(engines, client):
    """A turn that calls a tool keeps its pages; the turn that ends the conversation lets them go."""
    engine = engines("hints")
    name = f"agent-{SEED}"
    tokens = prompt_of(2 * SEGMENT + 9, 8)
    turn = {"quire_conversation": name, "quire_priority": "high", "quire_keep_seconds": 90.5}
    engine.run(Request(tokens, kv_transfer_params=turn))
    kept = client.prefetch_conversation(name)
    assert (kept.num_segments, kept.segments_in_dram) == (2, 2)
    longer = prompt_of(3 * SEGMENT + 9, 8)
    last = {"quire_conversation": name, "quire_release": True}
    assert engine.run(Request(longer, kv_transfer_params=last))[0] == 2 * SEGMENT
    assert engine.totals["conversations_released"] == 1
    with pytest.raises(quire.NotFound, match="no conversation"):
        client.release_conversation(name)
    wrong = [{"quire_priority": "urgent"}, {"quire_keep_seconds": "long"}, {"quire_release": True}]
    for params in wrong:
        assert engine.run(Request(longer, kv_transfer_params=params))[0] == 3 * SEGMENT
    assert engine.totals["hints_refused"] == len(wrong)


def test_without_room_for_copies_nothing_waits(engines):
    engine = engines("no-room", staged_bytes=1 << 16)
    tokens = prompt_of(SEGMENT + 1, 6)
    engine.run(Request(tokens))
    assert engine.totals["segments_dropped"] == 1 and "segments_saved" not in engine.totals


def test_saves_give_way_to_the_rest_of_a_prompt(engines, monkeypatch):
    """The engine computes on the same processors. What has waited is sent with the prompt's end, or for want of room."""
    monkeypatch.setattr("quire.vllm.worker.LONGEST_WAIT", 600.0)
    engine = engines("give-way")
    request = Request(prompt_of(2 * SEGMENT, 21))
    table = engine.table(request.num_tokens)
    assert engine.planner.matched(request, 0) == (0, False)
    engine.step(request, table, 0, SEGMENT, new=True)
    time.sleep(0.2)  # Sends take a hundredth of that.
    assert engine.totals_now() == {"lookups": 1}
    engine.step(request, table, SEGMENT, 2 * SEGMENT)
    assert engine.has_saved(2)

    filled = engines("give-way-filled", staged_bytes=SEGMENT * 2 * 2 * 2 * 32 * 2)
    request = Request(prompt_of(2 * SEGMENT, 22))
    assert filled.planner.matched(request, 0) == (0, False)
    filled.step(request, filled.table(request.num_tokens), 0, SEGMENT, new=True)
    assert filled.has_saved(1)


def test_an_engine_goes_on_without_its_server(tmp_path):
    with quire.embedded(tmp_path, dram_bytes="64MiB") as first:
        address = first.address
        engine = Engine(lambda: quire.Client(address, timeout=1, patience=0.1), "away", timeout=1.0, lookup_timeout=1.0)
        tokens = prompt_of(3 * SEGMENT, 7)
        engine.run(Request(tokens))
        request = Request(tokens)
        assert engine.planner.matched(request, 0)[0] == 3 * SEGMENT - 1
        first.kill()
        loaded, table = engine.run(request)  # It dies between the look-up and the load.
        assert loaded == 0 and engine.holds(request, table, len(tokens))
        assert engine.run(Request(tokens))[0] == 0
        engine.close()
        late = Engine(lambda: quire.Client(address, timeout=1, patience=0.1), "away")  # It is away at the start.
        loaded, table = late.run(Request(tokens))
        assert loaded == 0 and late.holds(Request(tokens), table, len(tokens)) and "lookups" not in late.totals
        late.close()


def test_a_worker_that_cannot_read_blocks_fails_loads():
    worker = IdleWorker(128)
    load = Load("request", "", b"", 128, 300, [7, 8, 9], True)
    worker.start(Work(loads=[load]))
    assert worker.arrived() == {"request"} and worker.load_errors() == {8, 9}
    assert worker.arrived() == set() and worker.load_errors() == set()


def cache_of(kind="FullAttentionSpec", **changes):
    fields = {"dtype": "torch.bfloat16", "num_kv_heads": 2, "head_size": 64, "block_size": 128}
    fields.update(sliding_window=None, attention_chunk_size=None)
    return type(kind, (), {**fields, **changes})()


def test_the_spec_is_that_of_the_worker(tmp_path):
    model = pathlib.Path(__file__).parents[2] / "models/recall-small"
    config = types.SimpleNamespace(model=str(model), get_total_num_kv_heads=lambda: 2)
    spec = spec_of(spec_fields(config, cache_of(), 32, 8))
    assert spec_fields(config, cache_of(num_kv_heads=1), 32, 8, workers=2) == spec_fields(config, cache_of(), 32, 8)
    assert spec == quire.spec_of_model(model, "bf16") and spec.rope.theta == 1e8
    assert spec_of(salted(json.dumps(_FIELDS | {"model": "x"}), "a")).weights_hash
    with pytest.raises(quire.InvalidArgument, match="KV heads"):
        spec_fields(config, cache_of(num_kv_heads=1), 32, 8)
    with pytest.raises(quire.NotFound):
        quire.spec_of_model(tmp_path)
    # A model that Quire does not compute is told from others by its files.
    (tmp_path / "config.json").write_text('{"architectures": ["OPTForCausalLM"], "model_type": "opt"}')
    config = types.SimpleNamespace(
        model=str(tmp_path),
        hf_text_config=types.SimpleNamespace(num_attention_heads=4, num_hidden_layers=2),
        get_total_num_kv_heads=lambda: 2,
    )
    prints = set()
    for weights in (b"a", b"b"):
        (tmp_path / "model.safetensors").write_bytes(weights)
        prints.add(spec_of(spec_fields(config, cache_of(), 32, 8)).fingerprint)
    assert len(prints) == 2


def fields_of(tmp_path, monkeypatch, model="organisation/model", revision=None, **cache):
    """The spec of a model that Quire does not compute, whose revisions lie in folders of one cache."""

    class Hub(types.ModuleType):
        def snapshot_download(self, model, revision, local_files_only):
            assert local_files_only
            return str(tmp_path / (revision or "main"))

    monkeypatch.setitem(sys.modules, "huggingface_hub", Hub("huggingface_hub"))
    for name in ("main", "other"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "config.json").write_text('{"architectures": ["OPTForCausalLM"], "model_type": "opt"}')
        (tmp_path / name / "model.safetensors").write_bytes(name.encode())
    config = types.SimpleNamespace(
        model=model,
        revision=revision,
        hf_text_config=types.SimpleNamespace(num_attention_heads=4, num_hidden_layers=2),
        get_total_num_kv_heads=lambda: 2,
    )
    return spec_fields(config, cache_of(**cache), 32, 8)


def test_whatever_decides_what_bytes_mean_is_in_the_keys(tmp_path, monkeypatch):
    """Type, model, revision and salt: with any of them changed, other keys; the same again: the same keys."""
    fields = fields_of(tmp_path, monkeypatch)
    others = [
        fields_of(tmp_path, monkeypatch, dtype="torch.float16"),
        fields_of(tmp_path, monkeypatch, revision="other"),
        salted(fields, "a"),
        salted(fields, "b"),
        fields_of(tmp_path, monkeypatch, model="organisation/other"),
    ]
    prints = [spec_of(text).fingerprint for text in (fields, *others)]
    assert len(set(prints)) == len(prints)
    assert spec_of(fields_of(tmp_path, monkeypatch)).fingerprint == prints[0]
    assert spec_of(salted(fields, "a")).fingerprint == prints[3]
    # Blocks and their layout decide nothing.
    assert spec_of(fields_of(tmp_path, monkeypatch, block_size=16)).fingerprint == prints[0]


# An engine that is not served, and the words of its one line in the log.
UNSERVED = [
    ({"pipeline_parallel_size": 2}, 1, "FullAttentionSpec", {}, "auto", "2 workers divide the model's layers"),
    ({"decode_context_parallel_size": 4}, 1, "FullAttentionSpec", {}, "auto", "4 workers divide the model's tokens"),
    ({}, 2, "FullAttentionSpec", {}, "auto", "2 groups of caches"),
    ({}, 1, "FullAttentionSpec", {"sliding_window": 512}, "auto", "sliding window"),
    ({}, 1, "SlidingWindowSpec", {"sliding_window": 512}, "auto", "sliding window"),
    ({}, 1, "FullAttentionSpec", {"attention_chunk_size": 64}, "auto", "divided into chunks"),
    ({}, 1, "MLAAttentionSpec", {"head_size": 576, "num_kv_heads": 1}, "auto", "is latent"),
    ({}, 1, "MambaSpec", {}, "auto", "its attention is MambaSpec"),
    ({}, 1, "FullAttentionSpec", {"head_size_v": 32}, "auto", "different sizes"),
    ({}, 1, "FullAttentionSpec", {"dtype": "torch.uint8"}, "fp8", "values are fp8; give --kv-cache-dtype auto"),
    ({}, 1, "FullAttentionSpec", {"dtype": "torch.float8_e4m3fn"}, "auto", "float8_e4m3fn"),
    ({}, 1, "FullAttentionSpec", {}, "float16", "values are float16"),
]


def engine_of(parallel, groups, kind, cache, cache_dtype):
    """What the connector reads of vLLM's configuration, and of its caches."""
    ranks = {"tensor_parallel_size": 1, "pipeline_parallel_size": 1, **parallel}
    group = types.SimpleNamespace(kv_cache_spec=cache_of(kind, **cache))
    caches = types.SimpleNamespace(kv_cache_groups=[group] * groups)
    config = types.SimpleNamespace(
        parallel_config=types.SimpleNamespace(**ranks),
        cache_config=types.SimpleNamespace(cache_dtype=cache_dtype),
        device_config=types.SimpleNamespace(device_type="cpu"),
        kv_transfer_config=types.SimpleNamespace(kv_connector_extra_config={}),
    )
    return config, caches


def test_an_engine_that_is_served_is_not_refused():
    assert refusal(*engine_of({}, 1, "FullAttentionSpec", {}, "auto")) == ""
    assert refusal(*engine_of({}, 1, "FullAttentionSpec", {}, "bfloat16")) == ""


@pytest.mark.parametrize("parallel, groups, kind, cache, cache_dtype, words", UNSERVED)
def test_engines_that_are_not_served_go_on_without_the_cache(
    monkeypatch, caplog, parallel, groups, kind, cache, cache_dtype, words
):
    """Promise: one clear line at the start of each half, and then the engine computes everything."""
    connector = connector_module(monkeypatch)
    engine = engine_of(parallel, groups, kind, cache, cache_dtype)
    with caplog.at_level(logging.INFO, "vllm.quire"):
        scheduler = connector.QuireConnector(engine[0], "scheduler", engine[1])
    (record,) = caplog.records
    assert record.levelname == "WARNING" and words in record.message
    assert record.message.startswith("prefixes are neither loaded nor stored: ")
    request = Request(range(1000))
    assert scheduler.get_num_new_matched_tokens(request, 0) == (0, False)
    scheduler.update_state_after_alloc(request, None, 0)
    metadata = scheduler.build_connector_meta(None)
    assert metadata.works == []
    assert scheduler.request_finished(request, [1]) == (False, None)
    caplog.clear()
    worker = connector.QuireConnector(engine[0], "worker", engine[1])
    worker.register_kv_caches({"layers.0": None})
    assert [words in record.message for record in caplog.records] == [True]
    worker.bind_connector_metadata(metadata)
    worker.start_load_kv(None)
    worker.wait_for_layer_load("layers.0")
    worker.wait_for_save()
    assert worker.get_finished(set()) == (None, None) and worker.get_block_ids_with_load_errors() == set()
    for half in (scheduler, worker):
        half.shutdown()


def connector_module(monkeypatch):
    """quire.vllm.connector on stand-ins for the modules of vLLM that it imports: base classes without behaviour."""

    class Connector:
        def __init__(self, vllm_config, role, kv_cache_config):
            self._vllm_config, self._kv_cache_config = vllm_config, kv_cache_config
            self._kv_transfer_config = vllm_config.kv_transfer_config

        def bind_connector_metadata(self, metadata):
            self._metadata = metadata

        def _get_connector_metadata(self):
            return self._metadata

    base = "vllm.distributed.kv_transfer.kv_connector.v1"
    modules = {
        "torch": {"Tensor": object},
        "prometheus_client": {"Counter": object},
        f"{base}.base": {
            "KVConnectorBase_V1": Connector,
            "KVConnectorMetadata": object,
            "KVConnectorRole": types.SimpleNamespace(SCHEDULER="scheduler"),
        },
        f"{base}.metrics": {"KVConnectorPromMetrics": object, "KVConnectorStats": object},
        "vllm.v1.metrics.utils": {"create_metric_per_engine": None},
        "vllm.distributed.parallel_state": {"get_tensor_model_parallel_rank": lambda: 0},
        "vllm.model_executor.models.utils": {"extract_layer_index": lambda name: int(name.split(".")[1])},
    }
    for name, members in modules.items():
        module = types.ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("quire.vllm.connector", "quire.vllm.stats"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    connector = importlib.import_module("quire.vllm.connector")
    monkeypatch.delitem(sys.modules, "quire.vllm.connector")
    monkeypatch.delitem(sys.modules, "quire.vllm.stats")
    return connector


@pytest.mark.parametrize(
    "given, words",
    [
        ({"adress": "x"}, "'adress' is unknown; there are: address"),
        ({"timeout": "1"}, "'timeout' must be a float"),
        ({"save_output": 1}, "'save_output' must be a bool"),
        ({"page_tokens": True}, "'page_tokens' must be a int"),
        ({"load": "later"}, "by_layer, async"),
    ],
)
def test_settings_that_are_wrong_are_refused(given, words):
    with pytest.raises(quire.InvalidArgument, match=words):
        Settings.of(given)


def test_the_connector_overrides_what_vllm_has():
    """Signatures recorded from vLLM 0.32 by tools/engines_demo/record.py."""
    file = pathlib.Path(vllm.__file__).with_name("connector.py")
    assert own_methods(file, "QuireConnector", "vllm") == {"drain"}
