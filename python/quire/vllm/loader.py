# SPDX-License-Identifier: Apache-2.0
"""Loader: brings stored prefixes to an engine's blocks, layer by layer, in threads of its own."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import logging
import threading
import time
import typing

import quire
from quire.engines.link import Link
from quire.vllm.counts import Counts
from quire.vllm.identity import spec_of
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

    def came(self, layers: int, ended: bool = False) -> None:
        """Says that so many layers have come, and whether nothing more does."""
        with self._changed:
            self._layers, self._ended = layers, ended
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
        readers: list[Reader] = []
        try:
            for load in batch.loads:
                reader = Reader(self._blocks, self._link, load, self._timeout)
                if self._goes_on(batch, reader, reader.open):
                    readers.append(reader)
            for layer in range(self._blocks.spec.num_layers):
                for reader in list(readers):
                    if not self._goes_on(batch, reader, lambda reader=reader: reader.take(layer)):
                        readers.remove(reader)
                batch.came(layer + 1)
            for reader in readers:
                self._counts.add("loads")
                self._counts.add("prefill_tokens_saved", reader.load.end_token - reader.load.first_token)
        except BaseException:
            log.exception("a load failed in a way that was not foreseen")
            batch.failed = list(batch.loads)
        finally:
            self._counts.add("load_seconds", time.perf_counter() - began)
            batch.came(self._blocks.spec.num_layers, ended=True)
            for reader in readers:
                reader.close()

    def _goes_on(self, batch: Batch, reader: Reader, call: typing.Callable[[], None]) -> bool:
        """False when the call failed. The load has failed then, and the reader is closed."""
        try:
            call()
        except quire.Error as error:
            load = reader.load
            self._counts.add("load_failures")
            log.warning("tokens %d to %d are computed: %s", load.first_token, load.end_token, error)
            batch.failed.append(load)
            reader.close()
            return False
        return True


class Reader:
    """One load, in a session of its own. Errors also tell the link."""

    def __init__(self, blocks: quire.EngineBlocks, link: Link, load: Load, timeout: float) -> None:
        self.load = load
        self._blocks = blocks
        self._link = link
        self._timeout = timeout
        spec = spec_of(load.spec)
        self._layers = spec.num_layers
        self._pages = range(load.first_token // spec.page_tokens, -(-load.end_token // spec.page_tokens))
        self._pending: collections.deque[quire.Pending] = collections.deque()
        self._asked = 0
        self._client: quire.Client | None = None
        self._session: quire.Session | None = None

    def open(self) -> None:
        """Opens the session."""
        self._client = self._link.client()
        if self._client is None:
            raise quire.Unavailable("the server is away")
        with self._told():
            self._session = self._client.open_session(
                self.load.chain, slots_per_head=len(self._pages), spec=spec_of(self.load.spec)
            )

    def take(self, layer: int) -> None:
        """Writes the layer's units to their blocks. REQUIRES: layers in ascending order."""
        with self._told():
            while self._asked < min(layer + _AHEAD, self._layers):
                want = quire.Want(self._asked, self._pages)
                self._pending.append(self._session.start(want, timeout=self._timeout))
                self._asked += 1
            for part in self._pending.popleft():
                with part:
                    self._blocks.write(part, self.load.blocks, self.load.first_token, self.load.end_token)
                    part.applied()

    def close(self) -> None:
        """Ends the session."""
        self._pending.clear()
        if self._session is None:
            return
        try:
            self._session.close()
        except quire.Error:
            pass  # The server ends a session without its client by itself.

    @contextlib.contextmanager
    def _told(self) -> typing.Iterator[None]:
        try:
            yield
        except quire.Error as error:
            self._link.failed(self._client, error)
            raise
