# SPDX-License-Identifier: Apache-2.0
"""Quire stores KV caches of language models as pages, and brings only those that are missing.

    import quire

    with quire.embedded("quire-data") as server, server.connect() as client:
        client.put("doc", spec, tokens, units)
        with client.open_session("doc", slots_per_head=8) as session:
            recall = session.recall(quire.Want(layer=0, pages=[1, 7]))

Shapes are written outermost first. A unit is [2][p][d]: K rows, then V rows, of one page of p
tokens, one layer and one KV head. Times are seconds. Every error is a `quire.Error`.
"""

from quire import carried

with carried.loading():
    import quire._native

from quire._native import (
    Collection,
    Context,
    ContextInfo,
    ContextStat,
    Document,
    DocumentEvent,
    DocumentEvents,
    DocumentName,
    DocumentPage,
    DocumentStatistics,
    EngineBlocks,
    Extra,
    Hints,
    HostPieces,
    Ingest,
    KvSpec,
    Landing,
    Lane,
    ListedSegment,
    LookupResult,
    Object,
    Pending,
    Placement,
    Prefetched,
    PutObjectReply,
    PutSegmentReply,
    Recall,
    RemovedDocuments,
    RopeSpec,
    SealedContext,
    SegmentEvent,
    SegmentEvents,
    Session,
    SessionSequence,
    Unit,
    Units,
    Want,
    WarmProgress,
    __version__,
    member_of,
    page_name,
    page_of,
)
from quire.client import Client
from quire.embedded import EmbeddedServer, embedded
from quire.errors import (
    Aborted,
    AlreadyExists,
    Cancelled,
    DataLoss,
    DeadlineExceeded,
    Error,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    NotFound,
    OutOfRange,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Unimplemented,
    Unknown,
)
from quire.models import spec_of_model

__all__ = [name for name in dir() if not name.startswith("_") and name != "quire"] + ["__version__"]
