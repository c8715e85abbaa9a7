# SPDX-License-Identifier: Apache-2.0
"""Driver: rows of a dataset to workers, attempts, and the report."""

from __future__ import annotations

import collections
import collections.abc
import logging
import os
import time
import typing

from quire import errors
from quire.ray.host import CONCERN_ALL, Setup
from quire.ray.pool import Finished, Pool, Work
from quire.ray.report import Refused, Report
from quire.ray.source import Tags, document_of

log = logging.getLogger("quire.ray")

# Errors that another attempt would not escape: they end the ingest.
_LASTING = (errors.PermissionDenied, errors.Unauthenticated, errors.Unimplemented, errors.FailedPrecondition)
_POLL_SECONDS = 1.0
_LONGEST_PAUSE = 30.0


def ingest(
    dataset: collections.abc.Iterable[collections.abc.Mapping[str, typing.Any]] | typing.Any,
    *,
    server: str,
    collection: str = "default",
    workers: int | None = None,
    model: str | os.PathLike[str] | None = None,
    tags: Tags = {},
    ttl_seconds: int | None = None,
    split: bool = False,
    tenant: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    jobs: int = 4,
    retries: int = 3,
    worker_options: collections.abc.Sequence[str] = (),
    ray_options: collections.abc.Mapping[str, typing.Any] = {},
    start_seconds: float = 600.0,
    progress: typing.Callable[[Report], None] | None = None,
) -> Report:
    """Makes documents of the rows, with workers that Ray places over its hosts. Blocks until all are done.

    What is stored already is neither computed nor sent, so the same call goes on after whatever ended it. Documents
    of a worker whose host is lost are read by others.

    Args:
      dataset: an iterable of mappings, or a Ray Dataset. A row has `name`, and `text` or the `path` of a file that
        every host has under that path; also `tags`.
      server: address of the store, as hosts reach it.
      workers: how many run, each with the model in its memory. Ray places them by its strategy "SPREAD", on different
        hosts where it can. None: one on each host that has what they ask for, and never two.
      model: directory of the checkpoint on every host; the bundled one when None.
      tags, ttl_seconds: what documents get.
      split: make NAME#1, NAME#2 and so on of a document longer than the model's context.
      token_file: file on every host that has the tenant's token.
      jobs: documents that a worker reads at a time.
      retries: attempts beyond the first of a document, and of a worker's start.
      worker_options: further arguments of `quire worker`, such as ["--device=cuda"].
      ray_options: of the actors, such as {"num_gpus": 1}. They ask for one CPU when nothing is said.
      start_seconds: how long no document may be read because Ray has not placed or started a worker.
      progress: called about once a second, and at the end.

    Raises:
      FailedPrecondition: Ray is not installed, or no host has what a worker asks for.
      InvalidArgument: an argument is wrong.
      Another quire.Error: no worker starts, or no document can be read, whatever it is. Its note has the report.
    """
    setup = Setup(
        server=server,
        collection=collection,
        model=None if model is None else os.fspath(model),
        tenant=tenant,
        token_file=None if token_file is None else os.fspath(token_file),
        ttl_seconds=ttl_seconds,
        split=split,
        jobs=jobs,
        worker_options=tuple(worker_options),
    )
    for name, value, least in (("workers", workers, 1), ("jobs", jobs, 1), ("retries", retries, 0)):
        if value is not None and value < least:
            raise errors.InvalidArgument(f"{name} is {value}: give {least} or more")
    ray = _connected_ray()
    rows = dataset.iter_rows() if hasattr(dataset, "iter_rows") else dataset
    pool = Pool(ray, setup, workers, ray_options, retries + 1)
    try:
        return _Run(rows, tags, pool, pool.workers * jobs, retries, start_seconds, progress).finish()
    finally:
        pool.close()


def _connected_ray() -> typing.Any:
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise errors.FailedPrecondition(
            f"quire.ray needs Ray, which cannot be imported ({error}): pip install 'quire[ray]'"
        ) from error
    if not ray.is_initialized():
        ray.init()
    return ray


class _Run:
    """One ingest. Used by one thread."""

    def __init__(
        self,
        rows: collections.abc.Iterable[typing.Any],
        tags: Tags,
        pool: Pool,
        capacity: int,
        retries: int,
        start_seconds: float,
        progress: typing.Callable[[Report], None] | None,
    ) -> None:
        self._rows = enumerate(rows)
        self._tags = tags
        self._pool = pool
        self._capacity = capacity
        self._retries = retries
        self._start_seconds = start_seconds
        self._progress = progress
        self._names: set[str] = set()
        self._again: collections.deque[Work] = collections.deque()  # Read after all others, and alone.
        self._next: Work | None = None
        self._failed_in_a_row = 0
        self._began = self._busy = self._shown = time.monotonic()
        self.report = Report()

    def finish(self) -> Report:
        """Reads all rows."""
        try:
            while self._hand_out() or self._pool.reading:
                for finished in self._pool.wait(_POLL_SECONDS):
                    self._take(finished)
                self._check_busy()
                self._show(_POLL_SECONDS)
        except errors.Error as error:
            self._show(0)
            error.add_note(f"{self.report}. The same call goes on from here.")
            raise
        self._show(0)
        return self.report

    def _hand_out(self) -> bool:
        """Gives out what there is room for. False when nothing is left to give."""
        while (work := self._next or self._fetch()) is not None:
            self._next = work
            if not self._pool.give(work):
                return True
            self._next = None
        return False

    def _fetch(self) -> Work | None:
        """The next document: rows first, then what failed. Refuses rows on the way."""
        for number, row in self._rows:
            try:
                document = document_of(number, row, self._tags)
                if document.name in self._names:
                    raise errors.InvalidArgument("an earlier row has that name; give each document its own")
            except errors.Error as error:
                name = row.get("name") if isinstance(row, collections.abc.Mapping) else None
                self._refuse(number, name if isinstance(name, str) else "", error)
                continue
            self._names.add(document.name)
            return Work(document)
        return self._again.popleft() if self._again else None

    def _take(self, finished: Finished) -> None:
        work, result = finished.work, finished.result
        self.report.lost_workers = self._pool.lost_workers
        if not isinstance(result, errors.Error):
            self._failed_in_a_row = 0
            self.report.count(work.document.name, result)
        elif not isinstance(result, CONCERN_ALL):
            self._failed_in_a_row = 0
            self._refuse(work.document.row, work.document.name, result)
        else:
            self._try_again(work, result)

    def _try_again(self, work: Work, error: errors.Error) -> None:
        """Keeps the document for another attempt, or refuses it. Raises the error when all documents have it."""
        self._failed_in_a_row += 1
        if isinstance(error, _LASTING) or self._failed_in_a_row > self._capacity * (self._retries + 1):
            raise error
        work.attempts += 1
        if work.attempts > self._retries:
            self._refuse(work.document.row, work.document.name, error)
            return
        log.warning("%s is read again: %s", work.document.name, error)
        self.report.retried += 1
        self._again.append(work)
        # Every round of failures without a success doubles the pause.
        if self._failed_in_a_row % self._capacity == 0:
            time.sleep(min(_LONGEST_PAUSE, 0.25 * 2.0 ** (self._failed_in_a_row // self._capacity)))

    def _refuse(self, number: int, name: str, error: errors.Error) -> None:
        log.warning("refused: row %d, %s: %s", number, name or "without a name", error)
        self.report.refused.append(Refused(number, name, error.code, error.message))

    def _check_busy(self) -> None:
        now = time.monotonic()
        if self._pool.reading:
            self._busy = now
        elif now - self._busy > self._start_seconds:
            raise errors.Unavailable(
                f"no worker was ready for {self._start_seconds:.0f} s; has Ray a host with what ray_options ask for?"
            )

    def _show(self, after: float) -> None:
        now = time.monotonic()
        self.report.seconds = now - self._began
        if self._progress is not None and now - self._shown >= after:
            self._shown = now
            self._progress(self.report)
