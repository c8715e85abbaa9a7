# SPDX-License-Identifier: Apache-2.0
"""Chunks: what vLLM offloads to the host's memory as objects, without vLLM. A server that is away has nothing."""

from __future__ import annotations

import collections.abc
import concurrent.futures
import dataclasses
import hashlib
import json
import logging
import os
import time
import typing

import numpy

from quire import errors
from quire.engines.object_cache import ObjectCache, ObjectSettings

log = logging.getLogger("vllm.quire")

_HOST_BYTES = 1 << 30  # vLLM's chunks in the host's memory, when `cpu_bytes_to_use` is not given.

_T = typing.TypeVar("_T")


@dataclasses.dataclass(frozen=True)
class ChunkSettings(ObjectSettings):
    """What "quire" of QuireOffloadingSpec, and an entry of `secondary_tiers`, may have."""

    WHERE: typing.ClassVar[str] = "kv_connector_extra_config's settings of Quire"

    threads: int = 4  # Loads and stores that run at the same time.
    locality: str = ""  # What vLLM's events and filters say of the tier: "LOCAL" or "REMOTE".

    @classmethod
    def of(cls, given: typing.Mapping[str, typing.Any]) -> typing.Self:
        """Raises InvalidArgument for a setting that is unknown, of another type, or not among its words."""
        settings = super().of(given)
        if settings.threads < 1:
            raise errors.InvalidArgument(f"{cls.WHERE}: 'threads' must be 1 or more")
        if settings.locality not in ("", "LOCAL", "REMOTE"):
            raise errors.InvalidArgument(f"{cls.WHERE}: 'locality' must be LOCAL or REMOTE")
        return settings


def with_tier(extra_config: collections.abc.Mapping[str, typing.Any]) -> dict[str, typing.Any]:
    """QuireOffloadingSpec's kv_connector_extra_config as that of vLLM's TieringOffloadingSpec.

    Raises InvalidArgument for settings that do not go together.
    """
    own = extra_config.get("quire", {})
    if not isinstance(own, collections.abc.Mapping):
        raise errors.InvalidArgument("kv_connector_extra_config: 'quire' must be an object of settings")
    if extra_config.get("secondary_tiers"):
        raise errors.InvalidArgument(
            "kv_connector_extra_config: QuireOffloadingSpec has one tier, Quire; for 'secondary_tiers' take vLLM's "
            "TieringOffloadingSpec, and QuireTier among them"
        )
    tier = {**own, "type": "QuireTier", "module_path": "quire.vllm.offload"}
    return {"cpu_bytes_to_use": _HOST_BYTES, **extra_config, "secondary_tiers": [tier]}


def cache_of(settings: ChunkSettings, config: typing.Any, chunk_bytes: int, device: str) -> ObjectCache:
    """The objects of engines whose chunks mean the same. `config` is vLLM's OffloadingConfig.

    Raises NotFound for a `model` without weights.
    """
    names = ["vllm", _shape(config, chunk_bytes, device)]
    if not settings.model and os.path.isdir(config.model.name):
        settings = dataclasses.replace(settings, model=config.model.name)
    if not settings.model:
        names.append(config.model.name)
        log.warning("the name '%s' alone tells its chunks from others: give its folder as `model`", config.model.name)
    return ObjectCache(settings, "/".join(names), log)


def _shape(config: typing.Any, chunk_bytes: int, device: str) -> str:
    """A hash of what decides how bytes lie in a chunk. vLLM's layouts on CPUs are not those on other devices."""
    parallel = config.parallel
    fields = [
        device,
        config.model.dtype,
        config.kv_cache_layout,
        config.canonical_layout,
        config.replicated_layout,
        [[group.group_id, group.tokens_per_block, list(group.layer_names)] for group in config.groups],
        [config.cache.tokens_per_hash, config.cache.blocks_per_chunk, chunk_bytes],
        [parallel.tp_size, parallel.pp_size, parallel.pcp_size, parallel.dcp_size],
    ]
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:16]


@dataclasses.dataclass
class Ended:
    """A job that has ended."""

    job: int
    came: list[bytes]  # Keys whose bytes have been read, or are stored.
    complete: bool  # All of them.
    seconds: float
    nbytes: int  # Of the keys that came.


@dataclasses.dataclass
class _Answer:
    """Whether a chunk is stored; None until the server has said so."""

    found: bool | None = None
    requests: set[str] = dataclasses.field(default_factory=set)


@dataclasses.dataclass
class _Job:
    keys: list[bytes]
    is_load: bool
    work: concurrent.futures.Future[tuple[list[bool], float]]


class Chunks:
    """Thread-safety: none; vLLM's scheduler calls it from one thread, and nothing waits but `wait` and `close`.

    `memory` is vLLM's, [chunks][bytes]. A job's chunks stay as they are until it has ended.
    """

    def __init__(self, cache: ObjectCache, memory: memoryview, threads: int) -> None:
        self._cache = cache
        self._rows = numpy.asarray(memory)
        self._answers: dict[bytes, _Answer] = {}
        self._keys_of: dict[str, set[bytes]] = {}  # By request.
        self._to_ask: list[tuple[bytes, _Answer]] = []
        self._jobs: dict[int, _Job] = {}
        # Look-ups do not wait for transfers.
        self._look_ups = concurrent.futures.ThreadPoolExecutor(1, "quire-look-up")
        self._transfers = concurrent.futures.ThreadPoolExecutor(threads, "quire-chunks")

    def found(self, key: bytes, request: str) -> bool | None:
        """Whether the chunk is stored; None: ask again in a later step. The answer holds until `forget`."""
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = _Answer()
            self._to_ask.append((key, answer))
        answer.requests.add(request)
        self._keys_of.setdefault(request, set()).add(key)
        return answer.found

    def ask(self) -> None:
        """Asks the server for what the step wanted to know, in one call."""
        if self._to_ask:
            asked, self._to_ask = self._to_ask, []
            self._look_ups.submit(self._look_up, asked)

    def forget(self, request: str) -> None:
        """The request is over. What others ask for is kept."""
        for key in self._keys_of.pop(request, ()):
            answer = self._answers[key]
            answer.requests.discard(request)
            if not answer.requests:
                del self._answers[key]

    def load(self, job: int, keys: collections.abc.Iterable[bytes], rows: collections.abc.Iterable[int]) -> None:
        """Reads chunks into these rows of the memory."""
        self._submit(job, self._read, keys, rows, is_load=True)

    def store(self, job: int, keys: collections.abc.Iterable[bytes], rows: collections.abc.Iterable[int]) -> None:
        """Stores these rows of the memory. What is stored already is not sent."""
        self._submit(job, self._write, keys, rows, is_load=False)

    def ended(self) -> list[Ended]:
        """Jobs that have ended since the last call. A chunk that did not come counts as not stored."""
        done = [(number, job) for number, job in self._jobs.items() if job.work.done()]
        return [self._end(number, job) for number, job in done]

    def wait(self) -> None:
        """Returns when all jobs have ended."""
        concurrent.futures.wait([job.work for job in self._jobs.values()])

    def close(self) -> None:
        """Waits for jobs and look-ups, and lets the server go. `memory` is not used any more."""
        self._look_ups.shutdown()
        self._transfers.shutdown()
        self._cache.close()
        self._rows = None

    def _submit(
        self,
        number: int,
        call: collections.abc.Callable[[list[str], list[numpy.ndarray]], list[bool]],
        keys: collections.abc.Iterable[bytes],
        rows: collections.abc.Iterable[int],
        *,
        is_load: bool,
    ) -> None:
        keys = list(keys)
        memory = [self._rows[row] for row in rows]
        self._jobs[number] = _Job(keys, is_load, self._transfers.submit(self._timed, call, _names(keys), memory))

    def _timed(
        self,
        call: collections.abc.Callable[[list[str], list[numpy.ndarray]], list[bool]],
        names: list[str],
        memory: list[numpy.ndarray],
    ) -> tuple[list[bool], float]:
        began = time.perf_counter()
        came = self._attempt(lambda: call(names, memory), [False] * len(names))
        return came, time.perf_counter() - began

    def _read(self, names: list[str], memory: list[numpy.ndarray]) -> list[bool]:
        return self._cache.get(names, memory)

    def _write(self, names: list[str], memory: list[numpy.ndarray]) -> list[bool]:
        stored = self._cache.exists(names)
        lacking = [pair for pair, there in zip(zip(names, memory), stored, strict=True) if not there]
        if lacking:
            self._cache.put([name for name, _ in lacking], [row for _, row in lacking])
        return [True] * len(names)

    def _look_up(self, asked: list[tuple[bytes, _Answer]]) -> None:
        names = _names(key for key, _ in asked)
        found = self._attempt(lambda: self._cache.exists(names), [False] * len(names))
        for (_, answer), there in zip(asked, found, strict=True):
            answer.found = there

    def _end(self, number: int, job: _Job) -> Ended:
        del self._jobs[number]
        flags, seconds = job.work.result()
        came = [key for key, flag in zip(job.keys, flags, strict=True) if flag]
        if job.is_load:
            # Otherwise vLLM would find the chunk again, and load it again, for ever.
            for key in set(job.keys) - set(came):
                if key in self._answers:
                    self._answers[key].found = False
        return Ended(number, came, all(flags), seconds, len(came) * self._rows.shape[1])

    def _attempt(self, call: collections.abc.Callable[[], _T], otherwise: _T) -> _T:
        try:
            return call()
        except errors.Unavailable:
            return otherwise  # The link has told.
        except errors.Error as error:
            log.warning("chunks are computed instead: %s", error)
            return otherwise
        except Exception:  # Without an answer a request would wait for ever.
            log.exception("a call for chunks failed in a way that was not foreseen")
            return otherwise


def _names(keys: collections.abc.Iterable[bytes]) -> list[str]:
    return [key.hex() for key in keys]
