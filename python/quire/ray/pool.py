# SPDX-License-Identifier: Apache-2.0
"""Pool: host workers as Ray actors, and what each of them reads at the moment."""

from __future__ import annotations

import collections.abc
import dataclasses
import logging
import typing

from quire import errors
from quire.ray.host import HostWorker, Setup
from quire.ray.report import Outcome
from quire.ray.source import SourceDocument

log = logging.getLogger("quire.ray")

_CLOSE_SECONDS = 5.0


@dataclasses.dataclass
class Work:
    """A document, and how often it was tried."""

    document: SourceDocument
    attempts: int = 0


@dataclasses.dataclass(frozen=True)
class Finished:
    """An attempt that ended."""

    work: Work
    result: Outcome | errors.Error


class _Slot:
    """A worker: one actor after another, as hosts are lost."""

    def __init__(self, make_actor: typing.Callable[[], typing.Any]) -> None:
        self._make_actor = make_actor
        self.reading: dict[typing.Any, Work] = {}  # By the reference of the call.
        self.failed_starts = 0
        self.renew()

    def renew(self) -> None:
        """Asks Ray for an actor. It may have to wait for resources."""
        self.actor = self._make_actor()
        self.starting: typing.Any = self.actor.start.remote()


class Pool:
    """Used by one thread. Every call of a worker ends as a Finished of wait()."""

    def __init__(
        self,
        ray: typing.Any,
        setup: Setup,
        workers: int | None,
        ray_options: collections.abc.Mapping[str, typing.Any],
        most_starts: int,
    ) -> None:
        """Asks Ray for workers; for one on each host when `workers` is None.

        Raises FailedPrecondition when no host has what one asks for.
        """
        self._ray = ray
        self._jobs = setup.jobs
        self._most_starts = most_starts
        # Losses are the pool's to see: Ray's own retries would wait for resources while others could read.
        options = {"num_cpus": 1, **ray_options, "max_restarts": 0, "max_concurrency": setup.jobs + 1}
        self._group = None if workers is not None else _group_of_hosts(ray, options)
        actor = ray.remote(HostWorker)

        def slot(place: object) -> _Slot:
            return _Slot(lambda: actor.options(**{"scheduling_strategy": place, **options}).remote(setup))

        self._slots = [slot(place) for place in _places(ray, workers, self._group)]
        self.lost_workers = 0

    @property
    def workers(self) -> int:
        """Workers that run or are to run."""
        return len(self._slots)

    @property
    def reading(self) -> int:
        """Documents that are being read."""
        return sum(len(slot.reading) for slot in self._slots)

    def give(self, work: Work) -> bool:
        """Hands a document to the least busy worker. False when none has room.

        One that is tried again is read alone, so that it ends no other's attempt if it ends its worker.
        """
        room = 1 if work.attempts else self._jobs
        ready = [slot for slot in self._slots if slot.starting is None and len(slot.reading) < room]
        if not ready:
            return False
        slot = min(ready, key=lambda slot: len(slot.reading))
        call = slot.actor.ingest.remote(work.document, work.attempts > 0)
        slot.reading[call] = work
        return True

    def wait(self, timeout: float) -> list[Finished]:
        """Attempts that have ended, after `timeout` seconds at most.

        Raises the error of a worker that could not be started, when no other is left.
        """
        slots = {call: slot for slot in self._slots for call in slot.reading}
        slots |= {slot.starting: slot for slot in self._slots if slot.starting is not None}
        ended, _ = self._ray.wait(list(slots), num_returns=1, timeout=timeout)
        finished: list[Finished] = []
        for call in ended:
            slot = slots[call]
            if call is slot.starting:
                finished += self._started(slot)
            elif call in slot.reading:
                finished += self._read(slot, call)
        return finished

    def close(self) -> None:
        """Ends all workers."""
        calls = [slot.actor.close.remote() for slot in self._slots if slot.starting is None]
        if calls:
            self._ray.wait(calls, num_returns=len(calls), timeout=_CLOSE_SECONDS)
        for slot in self._slots:
            self._ray.kill(slot.actor)
        if self._group is not None:
            self._ray.util.remove_placement_group(self._group)

    def _started(self, slot: _Slot) -> list[Finished]:
        result = self._result(slot.starting)
        if not isinstance(result, errors.Error):
            slot.starting, slot.failed_starts = None, 0
            return []
        slot.failed_starts += 1
        log.warning("a worker did not start (%d of %d): %s", slot.failed_starts, self._most_starts, result)
        if slot.failed_starts < self._most_starts:
            return self._replace(slot)
        self._ray.kill(slot.actor)
        self._slots.remove(slot)
        if not self._slots:
            raise result
        return []

    def _read(self, slot: _Slot, call: typing.Any) -> list[Finished]:
        result = self._result(call)
        if isinstance(result, _Lost):
            log.warning("%s; its documents go to others", result)
            return self._replace(slot, result)
        return [Finished(slot.reading.pop(call), result)]

    def _replace(self, slot: _Slot, why: errors.Error | None = None) -> list[Finished]:
        """Ends what may be left of an actor, and starts another."""
        self._ray.kill(slot.actor)
        self.lost_workers += 1
        finished = [Finished(work, why) for work in slot.reading.values()]
        slot.reading = {}
        slot.renew()
        return finished

    def _result(self, call: typing.Any) -> typing.Any:
        """What a call returned, or its quire.Error. Raises others, which are faults of this package."""
        try:
            return self._ray.get(call)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, errors.Error):
                return error.cause
            raise
        except self._ray.exceptions.RayError as error:
            return _Lost(f"a worker's host or process was lost: {str(error).splitlines()[0]}")


def _group_of_hosts(ray: typing.Any, options: dict[str, typing.Any]) -> typing.Any:
    """A placement group with a bundle for a worker on each host. Ray moves that of a lost host to a free one."""
    asked = {"CPU": options["num_cpus"], "GPU": options.get("num_gpus"), "memory": options.get("memory")}
    bundle = {name: amount for name, amount in {**asked, **options.get("resources", {})}.items() if amount}
    hosts = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    fit = [has for has in hosts if all(has.get(name, 0) >= amount for name, amount in bundle.items())]
    if not fit or not bundle:
        raise errors.FailedPrecondition(
            f"none of {len(hosts)} hosts of Ray has {bundle or 'room'} for a worker; "
            "change ray_options, or give workers"
        )
    return ray.util.placement_group([bundle] * len(fit), strategy="STRICT_SPREAD")


def _places(ray: typing.Any, workers: int | None, group: typing.Any) -> list[object]:
    """Ray's scheduling strategy of each worker."""
    if group is None:
        return ["SPREAD"] * (workers or 0)
    strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy
    return [strategy(group, placement_group_bundle_index=i) for i in range(group.bundle_count)]


class _Lost(errors.Unavailable):
    """The actor has ended, or cannot be reached."""
