# SPDX-License-Identifier: Apache-2.0
"""Client: the native client, with what needs no C++."""

from __future__ import annotations

import collections.abc
import typing

from quire import _native

if typing.TYPE_CHECKING:
    from quire._native import DocumentRef, ObjectKey, Tokens


class Client(_native.Client):
    """A tenant's connection to a server, or to a cluster.

    Every method blocks, without the interpreter's lock, and raises a subclass of `quire.Error`.
    Threads may share a client. `quire.aio` has the same methods for asyncio.
    """

    def put(
        self,
        document: DocumentRef,
        spec: _native.KvSpec,
        tokens: Tokens,
        units: object,
        *,
        tail_units: object | None = None,
        tags: collections.abc.Mapping[str, str | int | float | bool] = {},
        source: str = "",
        ttl_seconds: int | None = None,
        durability: str = "default",
        strict: bool = False,
        hints: _native.Hints | None = None,
    ) -> _native.Document:
        """Stores the pages of a document and registers it.

        Args:
          tokens: all token ids.
          units: the units of whole pages, [pages][layers][n_kv][*spec.unit_shape].
          tail_units: those of the last tokens, where they are no whole page:
            [layers][n_kv][*spec.unit_shape], rows past the last token zero.
          durability: when the call returns: "default" (as the server does), "memory",
            "replicated" or "persisted".
          strict: refuse with AlreadyExists when other bytes are stored for the tokens.
          hints: what is known of the future of all its pages.
        """
        name = _name_of(document)
        whole = len(tokens) // spec.page_tokens * spec.page_tokens
        node = self.for_put(name)
        with node.open_context(
            spec, collection=name.collection, strict=strict, hints=hints
        ) as context:
            if whole:
                context.append(tokens[:whole], units)
            sealed = context.seal(tokens[whole:], tail_units, durability)
        return node.register_document(
            name, sealed.chain_tip, tags=tags, source=source, ttl_seconds=ttl_seconds
        )

    def put_object(
        self, key: ObjectKey, value: object, *, durability: str = "default", strict: bool = False
    ) -> _native.PutObjectReply:
        """Stores a contiguous array (bytes, numpy, torch) under a key; see put_objects."""
        return self.put_objects([(key, value)], durability=durability, strict=strict)[0]

    @typing.overload
    def get_object(
        self, key: ObjectKey, offset: int = 0, nbytes: int | None = None, *, into: None = None
    ) -> _native.Object | None: ...

    @typing.overload
    def get_object(
        self, key: ObjectKey, offset: int = 0, nbytes: int | None = None, *, into: object
    ) -> int | None: ...

    def get_object(
        self,
        key: ObjectKey,
        offset: int = 0,
        nbytes: int | None = None,
        *,
        into: object | None = None,
    ) -> _native.Object | int | None:
        """Reads an object, or `nbytes` of it from `offset` on; None when it is not stored.

        Args:
          into: a contiguous array to read into; then the bytes written are returned.
        """
        wanted = (key, offset) if nbytes is None else (key, offset, nbytes)
        if into is None:
            return self.get_objects([wanted])[0]
        return self.get_objects_into([wanted], [into])[0]

    def object_exists(self, key: ObjectKey) -> bool:
        """True when an object is stored under the key."""
        return self.stat_objects([key])[0] is not None

    def delete_object(self, key: ObjectKey) -> bool:
        """Removes an object; True when it was stored."""
        return self.delete_objects([key])[0]

    def list_documents(
        self, collection: str = "", filter: str = "", order: str = "name"
    ) -> collections.abc.Iterator[_native.Document]:
        """Every document that matches, page by page.

        Args:
          collection: all of them when empty.
          filter: as in `team=ops and created>2026-01-01`; all ready documents when empty.
          order: "name" or "newest".
        """
        token = ""
        while True:
            page = self.list_page(collection, filter, order, 1000, token)
            yield from page.documents
            token = page.next_page_token
            if not token:
                return

    def watch(
        self, after: int = 0, *, from_now: bool = False, collection: str = "", wait: float = 10.0
    ) -> collections.abc.Iterator[_native.DocumentEvent | None]:
        """Events of the registry, for ever; None after `wait` seconds (30 at most) without one.

        Args:
          after: position of the last event that is known; 0: from the oldest.
          from_now: only events to come.

        Raises OutOfRange when the log has lost the position.
        """
        position = after
        while True:
            page = self.events(position, from_now=from_now, collection=collection, wait=wait)
            position, from_now = page.position, False
            if page.events:
                yield from page.events
            else:
                yield None

    def follow_segments(
        self, after: int = 0, *, from_now: bool = False, wait: float = 10.0
    ) -> collections.abc.Iterator[_native.SegmentEvent | None]:
        """Events of segments, for ever; None after `wait` seconds (30 at most) without one.

        An event of kind "GAP" says that earlier ones are lost: list the segments, and go on. After
        an error of the connection follow again from the last event's position.

        Args:
          after: position of the last event that is known; 0: none, so that a gap comes first.
          from_now: only events to come.
        """
        position = after
        while True:
            page = self.segment_events(position, from_now=from_now, wait=wait)
            position, from_now = page.position, False
            if page.events:
                yield from page.events
            else:
                yield None

    def list_segments(self) -> collections.abc.Iterator[_native.ListedSegment]:
        """The segments that look-ups find, in order of their keys."""
        after = None
        while segments := self.segments_page(after):
            yield from segments
            after = segments[-1].segment


def _name_of(document: DocumentRef) -> _native.DocumentName:
    return _native.DocumentName(document) if isinstance(document, str) else document
