# SPDX-License-Identifier: Apache-2.0
"""Quire as an L2 adapter of LMCache: its chunks are objects, found again by any process on any host.

    lmcache server ... --l2-adapter '{"type": "native_plugin", "module_path": "quire.lmcache", "class_name": "QuireL2",
                                      "adapter_params": {"address": "127.0.0.1:7410"}}'

docs/engines.md has the settings. LMCache itself is not imported: its interface has no base class.
"""

from __future__ import annotations

import collections.abc
import concurrent.futures
import dataclasses
import itertools
import logging
import os
import threading
import typing

from quire import errors
from quire.engines.object_cache import ObjectCache, ObjectSettings

log = logging.getLogger("lmcache.quire")

# Of a call: its number, whether it succeeded, what went wrong, and the answer for each key.
Completion: typing.TypeAlias = "tuple[int, bool, str, list[bool] | None]"


@dataclasses.dataclass(frozen=True)
class Settings(ObjectSettings):
    """What adapter_params may have."""

    WHERE: typing.ClassVar[str] = "adapter_params"

    threads: int = 4  # Calls that run at the same time.


class QuireL2:
    """LMCache's native connector: calls are submitted from any thread, and end as completions.

    A server that is away is a call that failed: LMCache goes on without it.
    """

    def __init__(self, **adapter_params: typing.Any) -> None:
        """Raises InvalidArgument for unknown settings, NotFound for a `model` without weights."""
        settings = Settings.of(adapter_params)
        if settings.threads < 1:
            raise errors.InvalidArgument("adapter_params: 'threads' must be 1 or more")
        self._cache = ObjectCache(settings, "lmcache", log)
        self._pool = concurrent.futures.ThreadPoolExecutor(settings.threads, "quire-l2")
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._completions: list[Completion] = []

    def event_fd(self) -> int:
        """A descriptor that can be read when there are completions. It stays this object's."""
        return self._event

    def submit_batch_set(self, keys: list[str], buffers: list[memoryview]) -> int:
        """Stores buffers, which must stay until the call has ended."""
        return self._submit(self._set, list(keys), list(buffers))

    def submit_batch_get(self, keys: list[str], buffers: list[memoryview]) -> int:
        """Reads into buffers, which must stay until the call has ended."""
        return self._submit(self._cache.get, list(keys), list(buffers))

    def submit_batch_exists(self, keys: list[str]) -> int:
        """Asks which keys are stored."""
        return self._submit(self._cache.exists, list(keys))

    def submit_batch_delete(self, keys: list[str]) -> int:
        """Removes keys."""
        return self._submit(self._cache.delete, list(keys))

    def drain_completions(self) -> list[Completion]:
        """Takes what has ended since the last call."""
        with self._lock:
            if self._completions:
                os.eventfd_read(self._event)
            completions, self._completions = self._completions, []
        return completions

    def close(self) -> None:
        """Waits for calls that run, and lets the server go. A second time does nothing."""
        self._pool.shutdown()
        self._cache.close()
        with self._lock:
            event, self._event = self._event, -1
        if event >= 0:
            os.close(event)

    def _set(self, keys: list[str], buffers: list[memoryview]) -> list[bool]:
        self._cache.put(keys, buffers)
        return [True] * len(keys)

    def _submit(self, call: collections.abc.Callable[..., list[bool]], keys: list[str], *args: typing.Any) -> int:
        number = next(self._numbers)
        self._pool.submit(self._run, number, call, keys, *args)
        return number

    def _run(self, number: int, call: collections.abc.Callable[..., list[bool]], *args: typing.Any) -> None:
        try:
            self._complete((number, True, "", call(*args)))
        except Exception as error:  # Without a completion LMCache would wait for ever.
            if not isinstance(error, errors.Unavailable):
                log.warning("a call of LMCache failed: %s", error)
            self._complete((number, False, str(error), None))

    def _complete(self, completion: Completion) -> None:
        with self._lock:
            self._completions.append(completion)
            os.eventfd_write(self._event, 1)
