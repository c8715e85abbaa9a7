# SPDX-License-Identifier: Apache-2.0
"""Quire behind vLLM's own offloading: chunks go to the host's memory, and from there to Quire and back.

    --kv-transfer-config '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "kv_connector_extra_config": {
      "spec_name": "QuireOffloadingSpec", "spec_module_path": "quire.vllm.offload", "cpu_bytes_to_use": 8589934592,
      "quire": {"address": "127.0.0.1:7410"}}}'

vLLM's TieringOffloadingSpec takes the tier alone: {"type": "QuireTier", "module_path": "quire.vllm.offload", ...} among
its `secondary_tiers`. docs/engines.md has the settings.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import typing

from vllm.platforms import current_platform
from vllm.v1.kv_offload.base import (
    Locality,
    LookupResult,
    Medium,
    OffloadingWorker,
    RequestOffloadingContext,
)
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec

from quire.errors import InvalidArgument
from quire.vllm.chunks import Chunks, ChunkSettings, cache_of, with_tier
from quire.vllm.host_worker import HostWorker


class QuireTier(SecondaryTierManager):
    """A secondary tier of vLLM. It runs in the scheduler, which it never holds up."""

    medium = Medium.STORAGE

    def __init__(
        self,
        offloading_spec: typing.Any,
        primary_kv_view: memoryview,
        tier_type: str,
        backpressure_detector: typing.Any = None,
        **settings: typing.Any,
    ) -> None:
        """Raises InvalidArgument for unknown settings, NotFound for a `model` without weights."""
        super().__init__(offloading_spec, primary_kv_view, tier_type, backpressure_detector)
        ours = ChunkSettings.of(settings)
        self.locality = Locality(ours.locality) if ours.locality else None
        cache = cache_of(ours, offloading_spec.config, self.block_size_bytes, current_platform.device_type)
        self._chunks = Chunks(cache, primary_kv_view, ours.threads)

    def lookup(self, key: bytes, req_context: typing.Any) -> LookupResult:
        """Whether the chunk is stored; RETRY until the server has answered."""
        found = self._chunks.found(key, req_context.req_id)
        if found is None:
            return LookupResult.RETRY
        return LookupResult.HIT if found else LookupResult.MISS

    def submit_store(self, job_metadata: typing.Any) -> None:
        """Stores chunks of the host's memory, in a thread."""
        self._chunks.store(job_metadata.job_id, job_metadata.keys, job_metadata.chunk_ids)

    def submit_load(self, job_metadata: typing.Any) -> None:
        """Reads chunks into the host's memory, in a thread."""
        self._chunks.load(job_metadata.job_id, job_metadata.keys, job_metadata.chunk_ids)

    def get_finished_jobs(self) -> collections.abc.Iterable[JobResult]:
        """What has ended. Chunks that did not come are computed."""
        return [
            JobResult(job.job, job.complete, None if job.complete else job.came, job.seconds, job.nbytes)
            for job in self._chunks.ended()
        ]

    def on_new_request(self, req_context: typing.Any) -> RequestOffloadingContext:
        """Chunks are stored as they are computed."""
        return RequestOffloadingContext()

    def on_request_finished(self, req_context: typing.Any) -> None:
        """Forgets what the request has asked for."""
        self._chunks.forget(req_context.req_id)

    def on_schedule_end(self, context: typing.Any) -> None:
        """Sends the step's look-ups."""
        self._chunks.ask()

    def drain_jobs(self) -> None:
        """Waits for loads and stores."""
        self._chunks.wait()

    def shutdown(self) -> None:
        """Waits for loads and stores, and lets the server go."""
        self._chunks.close()


class QuireOffloadingSpec(TieringOffloadingSpec):
    """vLLM's tiers with Quire behind the host's memory; on CPUs, too, where vLLM's own cannot copy."""

    @classmethod
    def build_metric_definitions(cls, extra_config: dict[str, typing.Any]) -> dict[str, typing.Any]:
        """Those of vLLM's tiers."""
        return super().build_metric_definitions(with_tier(extra_config))

    def __init__(self, config: typing.Any) -> None:
        """Raises InvalidArgument for settings that do not go together."""
        super().__init__(dataclasses.replace(config, extra_config=with_tier(config.extra_config)))
        self._host_worker: HostWorker | None = None

    def get_worker(self, kv_caches: typing.Any) -> OffloadingWorker:
        """Copies between the engine's blocks and the host's memory."""
        if not current_platform.is_cpu():
            return super().get_worker(kv_caches)
        if self.config.canonical_layout:
            raise InvalidArgument("kv_connector_extra_config: leave out 'canonical_layout', which CPUs do not have")
        if self._host_worker is None:
            self._host_worker = HostWorker(self, kv_caches)
        return self._host_worker
