# SPDX-License-Identifier: Apache-2.0
"""Loader: brings stored prefixes to an engine's blocks, layer by layer, in threads of its own."""

from __future__ import annotations

import collections
import concurrent.futures
import logging
import threading
import time
import typing

import quire
from quire.vllm.counts import Counts
from quire.vllm.identity import spec_of
from quire.vllm.link import Link
from quire.vllm.work import Load

log = logging.getLogger("vllm.quire")

# Layers whose units are asked for before the first of them is taken in.
_AHEAD = 2


class Batch:
    """Loads that are carried out together: layer 0 of all of them, then layer 1, and so on."""

    def __init__(self, loads: list[Load]) -> None:
        self.loads = loads
        self.failed: list[Load] = []  # Read it when the last layer has been waited for.
        self._changed = threading.Condition()
        self._layers = 0
        self._ended = False

    def wait(self, layer: int) -> None:
        """Returns when the layer's units are in their blocks, or will not come."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._layers > layer)

    def ended(self) -> bool:
        """True when nothing more comes."""
        with self._changed:
            return self._ended

    def _pass(self, layers: int, ended: bool = False) -> None:
        with self._changed:
            self._layers, self._ended = layers, ended or self._ended
            self._changed.notify_all()


class Loader:
    """Threads may share it. `blocks` belong to the loads that are in flight."""

    def __init__(
        self, blocks: quire.EngineBlocks, link: Link, timeout: float, counts: Counts, threads: int = 2
    ) -> None:
        self._blocks = blocks
        self._link = link
        self._timeout = timeout
        self._counts = counts
        self._pool = concurrent.futures.ThreadPoolExecutor(threads, thread_name_prefix="quire-load")

    def start(self, loads: list[Load]) -> Batch:
        """Begins, and does not wait."""
        batch = Batch(loads)
        self._pool.submit(self._run, batch)
        return batch

    def close(self) -> None:
        """Waits for loads in flight."""
        self._pool.shutdown()

    def _run(self, batch: Batch) -> None:
        began = time.perf_counter()
        readers = {}
        try:
            for number, load in enumerate(batch.loads):
                reader = self._attempt(batch, load, lambda load=load: Reader(self._blocks, self._link, load, self._timeout))
                if reader is not None:
                    readers[number] = reader
            for layer in range(self._blocks.spec.num_layers):
                for number, reader in list(readers.items()):
                    if self._attempt(batch, reader.load, lambda reader=reader: reader.take(layer)) is None:
                        readers.pop(number).close()
                batch._pass(layer + 1)
            for reader in readers.values():
                self._counts.add("loads")
                self._counts.add("prefill_tokens_saved", reader.load.end_token - reader.load.first_token)
        except BaseException:
            log.exception("a load failed in a way that was not foreseen")
            batch.failed = list(batch.loads)
        finally:
            self._counts.add("load_seconds", time.perf_counter() - began)
            batch._pass(self._blocks.spec.num_layers, ended=True)
            for reader in readers.values():
                reader.close()

    def _attempt(self, batch: Batch, load: Load, call: typing.Callable[[], typing.Any]) -> typing.Any:
        """What the call returns; None when the load has failed."""
        try:
            return call()
        except quire.Error as error:
            self._counts.add("load_failures")
            log.warning("tokens %d to %d are computed: %s", load.first_token, load.end_token, error)
            batch.failed.append(load)
            return None


class Reader:
    """One load. It reads in a session of its own."""

    def __init__(self, blocks: quire.EngineBlocks, link: Link, load: Load, timeout: float) -> None:
        self.load = load
        self._blocks = blocks
        self._link = link
        self._timeout = timeout
        client = link.client()
        if client is None:
            raise quire.Unavailable("the server is away")
        self._client = client
        spec = spec_of(load.spec)
        self._layers = spec.num_layers
        self._pages = range(load.first_token // spec.page_tokens, -(-load.end_token // spec.page_tokens))
        self._pending: collections.deque[quire.Pending] = collections.deque()
        self._asked = 0
        self._session = self._told(
            lambda: client.open_session(load.chain, slots_per_head=len(self._pages), spec=spec)
        )

    def take(self, layer: int) -> bool:
        """Writes the layer's units to their blocks. REQUIRES: layers in ascending order."""
        return self._told(lambda: self._take(layer))

    def close(self) -> None:
        """Ends the session."""
        self._pending.clear()
        try:
            self._session.close()
        except quire.Error:
            pass  # The server ends a session without its client by itself.

    def _take(self, layer: int) -> bool:
        while self._asked < min(layer + _AHEAD, self._layers):
            self._pending.append(
                self._session.start(quire.Want(self._asked, self._pages), timeout=self._timeout)
            )
            self._asked += 1
        for part in self._pending.popleft():
            with part:
                self._blocks.write(part, self.load.blocks, self.load.first_token, self.load.end_token)
                part.applied()
        return True

    def _told(self, call: typing.Callable[[], typing.Any]) -> typing.Any:
        try:
            return call()
        except quire.Error as error:
            self._link.failed(self._client, error)
            raise
