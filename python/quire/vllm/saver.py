# SPDX-License-Identifier: Apache-2.0
"""Saver: sends copies of segments to the server, in a thread of its own, in the order they came."""

from __future__ import annotations

import collections
import dataclasses
import logging
import threading
import time
import typing

import quire
from quire.engines.link import Link
from quire.vllm.counts import Counts
from quire.vllm.identity import spec_of

log = logging.getLogger("vllm.quire")


@dataclasses.dataclass
class Segment:
    """A copy to be stored behind what its request stored last."""

    request: str
    spec: str
    tokens: list[int]
    units: typing.Any = None  # [layers][pages][n_kv][*unit], as bytes; None: only registers.
    starts_behind: bytes | None = None  # For a request's first one: the stored segment before it.
    ends_chain: bool = False  # A short one: what comes later is stored behind the segment before it.
    register_as: str = ""
    hints: dict[str, typing.Any] | None = None  # Arguments of quire.Hints.


class Saver:
    """Threads may share it."""

    def __init__(
        self, link: Link, staged_bytes: int, collection: str, durability: str, counts: Counts
    ) -> None:
        self._link = link
        self._room = staged_bytes
        self._staged_bytes = staged_bytes
        self._waits_until = 0.0
        self._collection = collection
        self._durability = durability
        self._counts = counts
        self._changed = threading.Condition()
        self._queue: collections.deque[Segment | str] = collections.deque()
        self._busy = False
        self._closed = False
        self._tips: dict[str, bytes | None] = {}  # b"": before the first segment; None: given up.
        self._thread = threading.Thread(target=self._run, name="quire-save", daemon=True)
        self._thread.start()

    def reserve(self, size: int) -> bool:
        """Takes room for a copy; False where there is none. The segment that is offered then gives it back."""
        with self._changed:
            if size > self._room or self._closed:
                return False
            self._room -= size
            return True

    def offer(self, segment: Segment) -> None:
        """Stores it soon."""
        self._append(segment)

    def forget(self, request: str) -> None:
        """The request stores nothing more."""
        self._append(request)

    def give_way(self, seconds: float) -> None:
        """Sends wait so long, while half of the room is free. Never makes a wait longer that has begun."""
        with self._changed:
            now = time.monotonic()
            end = now + seconds
            self._waits_until = min(end, self._waits_until) if self._waits_until > now else end
            self._changed.notify_all()

    def drain(self, timeout: float) -> bool:
        """Waits until everything has been sent; False after `timeout` seconds."""
        with self._changed:
            self._waits_until = 0.0
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._queue and not self._busy, timeout)

    def close(self, timeout: float) -> None:
        """Sends what there is, for at most that time."""
        self.drain(timeout)
        with self._changed:
            self._closed = True
            self._queue.clear()
            self._changed.notify_all()
        self._thread.join(timeout)

    def _append(self, entry: Segment | str) -> None:
        with self._changed:
            self._queue.append(entry)
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                while not self._closed and (left := self._seconds_left()) != 0.0:
                    self._changed.wait(left)
                if self._closed:
                    return
                entry = self._queue.popleft()
                self._busy = True
            if isinstance(entry, str):
                self._tips.pop(entry, None)
                continue
            size = len(entry.units) if entry.units is not None else 0
            self._send(entry)
            entry.units = None
            with self._changed:
                self._room += size

    def _seconds_left(self) -> float | None:
        """How long the first of the queue gives way yet; None: there is none."""
        if not self._queue:
            return None
        if self._room < self._staged_bytes // 2:
            return 0.0
        return max(0.0, self._waits_until - time.monotonic())

    def _send(self, segment: Segment) -> None:
        """A request whose segment was not stored stores none behind it."""
        tip = self._tips.setdefault(segment.request, segment.starts_behind or b"")
        client = self._link.client() if tip is not None else None
        if client is None:
            self._tips[segment.request] = None
            self._counts.add("segments_dropped")
            return
        try:
            self._put(client, segment, tip)
        except quire.Error as error:
            self._link.failed(client, error)
            self._tips[segment.request] = None
            self._counts.add("segments_dropped")
            log.warning("a prefix of a request is not stored: %s", error)

    def _put(self, client: quire.Client, segment: Segment, tip: bytes) -> None:
        key = tip
        if segment.units is not None:
            put = client.put_segment(
                spec_of(segment.spec),
                segment.tokens,
                segment.units,
                tip or None,
                collection=self._collection,
                durability=self._durability,
                hints=quire.Hints(**segment.hints) if segment.hints else None,
            )
            key = put.key
            self._counts.add("segments_saved")
            if put.existed:
                self._counts.add("segments_known")
        if not segment.ends_chain:
            self._tips[segment.request] = key
        if segment.register_as:
            collection, _, name = segment.register_as.rpartition("/")
            client.register_document(quire.DocumentName(name, collection), key, source="vLLM")
            self._counts.add("documents_registered")
