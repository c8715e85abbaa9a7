# SPDX-License-Identifier: Apache-2.0
"""The tier behind vLLM's offloading, without vLLM: on a memoryview, over a real server, and what it overrides.

tools/engines_demo runs it in the real engine.
"""

import itertools
import pathlib
import types

import numpy
import pytest
from conftest import SEED, own_methods, until

import quire
from quire import vllm
from quire.vllm.chunks import Chunks, ChunkSettings, cache_of, with_tier

_NUMBERS = itertools.count()
_PATIENCE = {"retry_after": 0.05, "patience": 0.05}
_CHUNK_BYTES = 3 * 4096


def config_of(name, **changes):
    """What the tier reads of vLLM's OffloadingConfig."""
    group = types.SimpleNamespace(group_id=0, tokens_per_block=128, layer_names=("layers.0", "layers.1"))
    fields = {
        "groups": (group,),
        "model": types.SimpleNamespace(name=name, dtype="bfloat16"),
        "cache": types.SimpleNamespace(tokens_per_hash=128, blocks_per_chunk=1),
        "parallel": types.SimpleNamespace(tp_size=1, pp_size=1, pcp_size=1, dcp_size=1),
        "kv_cache_layout": "LBHNC",
        "canonical_layout": False,
        "replicated_layout": False,
    }
    return types.SimpleNamespace(**{**fields, **changes})


class Tier:
    """vLLM's side: the host's memory, steps, and jobs by their numbers."""

    def __init__(self, address, name, config=None, chunk_bytes=_CHUNK_BYTES, device="cpu", **settings):
        self.rows = numpy.zeros((12, chunk_bytes), numpy.int8)
        settings = ChunkSettings.of({"address": address, **_PATIENCE, **settings})
        cache = cache_of(settings, config or config_of(name), chunk_bytes, device)
        self.chunks = Chunks(cache, memoryview(self.rows), settings.threads)
        self._jobs = itertools.count()

    def fill(self, seed=0):
        random = numpy.random.default_rng([SEED, seed])
        self.rows[:] = random.integers(-128, 128, self.rows.shape, numpy.int8)
        return self

    def found(self, keys, request="request"):
        """Steps until each look-up has been answered."""
        assert [self.chunks.found(key, request) for key in keys].count(None) == len(keys)
        self.chunks.ask()
        return until(lambda: self.known(keys, request))

    def known(self, keys, request="request"):
        answers = [self.chunks.found(key, request) for key in keys]
        return None if None in answers else answers

    def run(self, call, keys, rows):
        """Runs a job to its end."""
        job = next(self._jobs)
        getattr(self.chunks, call)(job, keys, numpy.array(rows, numpy.int32))
        ended = until(self.chunks.ended)
        assert [done.job for done in ended] == [job] and self.chunks.ended() == []
        return ended[0]


@pytest.fixture
def tiers(server):
    """Makes tiers over one server, and closes them."""
    made = []

    def make(name, **options):
        made.append(Tier(server.address, name, **options))
        return made[-1]

    yield make
    for tier in made:
        tier.chunks.close()


def keys_of(count, first=0):
    """As vLLM's: the hash of a block, and the number of its group."""
    return [numpy.random.default_rng([SEED, first + i]).bytes(32) + bytes(4) for i in range(count)]


def fresh():
    return f"model-{next(_NUMBERS)}"


def test_chunks_go_from_memory_to_memory(tiers):
    name, keys = fresh(), keys_of(5)
    writer, reader = tiers(name).fill(), tiers(name)
    assert writer.found(keys) == [False] * 5
    stored = writer.run("store", keys, [7, 0, 3, 11, 5])
    assert (stored.complete, stored.came, stored.nbytes) == (True, keys, 5 * _CHUNK_BYTES) and stored.seconds > 0
    assert reader.found([*keys, b"no"]) == [True] * 5 + [False]
    loaded = reader.run("load", keys[1:], [2, 9, 4, 1])
    assert (loaded.complete, loaded.came) == (True, keys[1:])
    numpy.testing.assert_array_equal(reader.rows[[2, 9, 4, 1]], writer.rows[[0, 3, 11, 5]])
    assert not reader.rows[[0, 3, 5, 6, 7, 8, 10, 11]].any()
    # An answer holds as long as a request asks for it.
    assert writer.known(keys) == [False] * 5
    writer.chunks.forget("request")
    assert writer.found(keys) == [True] * 5


def test_what_is_stored_is_not_sent_again(tiers, client):
    name, keys = fresh(), keys_of(3)
    writer, other = tiers(name).fill(), tiers(name).fill(1)
    assert writer.run("store", keys[:2], [0, 1]).complete
    assert other.run("store", keys, [0, 1, 2]).complete
    assert other.run("load", keys, [3, 4, 5]).complete
    numpy.testing.assert_array_equal(other.rows[3:6], [writer.rows[0], writer.rows[1], other.rows[2]])


def test_a_chunk_that_has_gone_is_computed_and_not_loaded_for_ever(tiers, client):
    tier, keys = tiers(fresh()).fill(), keys_of(3)
    tier.run("store", keys, [0, 1, 2])
    assert tier.found(keys, "first") == [True] * 3
    name = tier.chunks._cache.prefix + keys[1].hex()
    assert client.delete_object(name)
    loaded = tier.run("load", keys, [3, 4, 5])
    assert (loaded.complete, loaded.came) == (False, [keys[0], keys[2]])
    numpy.testing.assert_array_equal(tier.rows[[3, 5]], tier.rows[[0, 2]])
    # The request computes it, and so does one that comes meanwhile.
    assert tier.known(keys, "first") == tier.known(keys, "second") == [True, False, True]
    tier.chunks.forget("first")
    tier.chunks.forget("second")
    assert tier.run("store", [keys[1]], [1]).complete
    assert tier.found(keys, "third") == [True] * 3


def test_look_ups_of_requests_that_end_are_dropped(tiers):
    tier, keys = tiers(fresh()).fill(), keys_of(2)
    tier.run("store", keys, [0, 1])
    assert tier.chunks.found(keys[0], "one") is None and tier.chunks.found(keys[0], "two") is None
    tier.chunks.forget("one")
    tier.chunks.forget("unknown")
    tier.chunks.ask()
    assert until(lambda: tier.known([keys[0]], "two")) == [True]
    tier.chunks.forget("two")
    assert tier.chunks.found(keys[0], "three") is None


def test_many_jobs_end_one_by_one_and_are_waited_for(tiers):
    tier, keys = tiers(fresh(), threads=3).fill(), keys_of(6)
    for job, key in enumerate(keys):
        tier.chunks.store(job, [key], [job])
    tier.chunks.wait()
    assert sorted(done.job for done in tier.chunks.ended()) == list(range(6))
    for job, key in enumerate(keys):
        tier.chunks.load(job, [key], [job + 6])
    tier.chunks.wait()
    assert all(done.complete for done in tier.chunks.ended())
    numpy.testing.assert_array_equal(tier.rows[6:], tier.rows[:6])


def test_chunks_of_other_engines_are_not_found(tiers, tmp_path, caplog):
    name, key = fresh(), keys_of(1)
    first = tiers(name).fill()
    assert "alone tells its chunks from others" in caplog.text
    first.run("store", key, [0])
    (tmp_path / "config.json").write_text("{}")
    others = []
    for weights in (b"one", b"two"):  # Two models under one folder's name.
        (tmp_path / "model.safetensors").write_bytes(weights)
        others.append(tiers(str(tmp_path)).fill())
    group = types.SimpleNamespace(group_id=0, tokens_per_block=64, layer_names=("layers.0", "layers.1"))
    parallel = types.SimpleNamespace(tp_size=2, pp_size=1, pcp_size=1, dcp_size=1)
    others += [
        tiers(fresh()),
        tiers(name, device="cuda"),
        tiers(name, chunk_bytes=4096),
        tiers(name, config=config_of(name, model=types.SimpleNamespace(name=name, dtype="float16"))),
        tiers(name, config=config_of(name, kv_cache_layout="LBNHC")),
        tiers(name, config=config_of(name, groups=(group,))),
        tiers(name, config=config_of(name, parallel=parallel)),
        tiers(name, namespace="another"),
    ]
    assert [tier.found(key) for tier in others] == [[False]] * len(others)
    assert tiers(name).found(key) == [True]
    others[0].run("store", key, [0])
    others[1].chunks.forget("request")
    assert others[1].found(key) == [False]


def test_an_engine_goes_on_while_the_server_is_away(restartable):
    restartable.kill()
    tier, keys = Tier(restartable.address, "away", timeout=1.0).fill(), keys_of(2)
    assert tier.found(keys) == [False] * 2 and not tier.run("store", keys, [0, 1]).complete
    restartable.restart()
    until(lambda: tier.run("store", keys, [0, 1]).complete)
    tier.chunks.forget("request")
    assert tier.found(keys) == [True] * 2
    restartable.kill()  # It dies between the look-up and the load.
    loaded = tier.run("load", keys, [2, 3])
    assert (loaded.complete, loaded.came, tier.known(keys)) == (False, [], [False] * 2)
    restartable.restart()
    until(lambda: tier.run("load", keys, [2, 3]).complete)
    numpy.testing.assert_array_equal(tier.rows[2:4], tier.rows[:2])
    tier.chunks.close()


@pytest.mark.parametrize(
    "given, words",
    [
        ({"adress": "x"}, "settings of Quire: 'adress' is unknown; there are: address"),
        ({"threads": 0}, "'threads' must be 1 or more"),
        ({"locality": "near"}, "'locality' must be LOCAL or REMOTE"),
    ],
)
def test_settings_that_are_wrong_are_refused(given, words):
    with pytest.raises(quire.InvalidArgument, match=words):
        ChunkSettings.of(given)


def test_settings_of_the_spec_are_those_of_a_tier():
    extra = with_tier({"spec_name": "QuireOffloadingSpec", "block_size": 256, "quire": {"address": "a:1"}})
    assert (extra["cpu_bytes_to_use"], extra["block_size"]) == (1 << 30, 256)
    assert extra["secondary_tiers"] == [{"type": "QuireTier", "module_path": "quire.vllm.offload", "address": "a:1"}]
    assert with_tier({"cpu_bytes_to_use": 5})["cpu_bytes_to_use"] == 5
    with pytest.raises(quire.InvalidArgument, match="'quire' must be an object"):
        with_tier({"quire": "a:1"})
    with pytest.raises(quire.InvalidArgument, match="has one tier, Quire; for 'secondary_tiers' take vLLM's"):
        with_tier({"secondary_tiers": [{"type": "fs"}]})


def test_a_model_without_weights_is_refused(server, tmp_path):
    with pytest.raises(quire.NotFound, match="no weights that could tell"):
        Tier(server.address, str(tmp_path))


def test_classes_override_what_vllm_has():
    """Signatures recorded from vLLM 0.32.0 by tools/engines_demo/record.py."""
    folder = pathlib.Path(vllm.__file__).parent
    assert own_methods(folder / "offload.py", "QuireTier", "vllm_tier", more=["settings"]) == set()
    assert own_methods(folder / "offload.py", "QuireOffloadingSpec", "vllm_spec") == set()
    assert own_methods(folder / "host_worker.py", "HostWorker", "vllm_worker", more=["spec", "kv_caches"]) == set()
