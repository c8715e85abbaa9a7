# SPDX-License-Identifier: Apache-2.0
"""QuireConnector: what vLLM 0.32 calls. It translates, and knows neither the server nor how blocks lie."""

from __future__ import annotations

import logging
import typing

import torch
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    KVConnectorRole,
)
from vllm.distributed.parallel_state import get_tensor_model_parallel_rank
from vllm.model_executor.models.utils import extract_layer_index

import quire
from quire.engines.link import Link, connector_of
from quire.vllm import identity, layout
from quire.vllm.counts import Counts
from quire.vllm.planner import Planner
from quire.vllm.settings import Settings
from quire.vllm.stats import QuirePromMetrics, QuireStats
from quire.vllm.work import Work
from quire.vllm.worker import BlockWorker, IdleWorker

log = logging.getLogger("vllm.quire")


class QuireMetadata(KVConnectorMetadata):
    """The work of a step, by shard."""

    def __init__(self, works: list[Work]) -> None:
        self.works = works


class QuireConnector(KVConnectorBase_V1):
    """Prefixes from a Quire server, and to it."""

    def __init__(
        self, vllm_config: typing.Any, role: KVConnectorRole, kv_cache_config: typing.Any = None
    ) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        self._settings = Settings.of(self._kv_transfer_config.kv_connector_extra_config)
        self._counts = Counts()
        self._link: Link | None = None
        self._planner: Planner | None = None
        self._worker: BlockWorker | IdleWorker | None = None
        self._layer_numbers: dict[str, int] = {}
        self._shard = 0  # Of the worker, among the distinct ones.
        # A cache that fails must not fail requests. The scheduler reads this after it has made the connector.
        self._kv_transfer_config.kv_load_failure_policy = "recompute"
        if role == KVConnectorRole.SCHEDULER:
            self._planner = self._make_planner()

    # Both halves.

    @property
    def requires_kv_delivery(self) -> bool:
        """False: a save that is lost is computed again."""
        return False

    def shutdown(self) -> None:
        """Sends what was copied, and ends the threads."""
        if self._worker is not None:
            self._worker.close()
        if self._link is not None:
            self._link.close()

    @classmethod
    def requires_piecewise_for_cudagraph(cls, extra_config: dict[str, typing.Any]) -> bool:
        """True when layers wait for their load."""
        return Settings.of(extra_config).load == "by_layer"

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, typing.Any] | None = None) -> QuireStats:
        """Statistics from their data."""
        return QuireStats(data=data or {})

    @classmethod
    def build_prom_metrics(
        cls,
        vllm_config: typing.Any,
        metric_types: dict[type, type],
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> QuirePromMetrics:
        """Metrics of vLLM."""
        return QuirePromMetrics(vllm_config, metric_types, labelnames, per_engine_labelvalues)

    def get_kv_connector_stats(self) -> QuireStats | None:
        """Counts since the last call."""
        counts = self._counts.take()
        return QuireStats(data=counts) if counts else None

    # The worker's half.

    def register_kv_caches(self, kv_caches: dict[str, torch.Tensor]) -> None:
        """Takes the engine's blocks, where their layout is known."""
        names = sorted(kv_caches, key=extract_layer_index)
        self._layer_numbers = {name: number for number, name in enumerate(names)}
        try:
            blocks = self._blocks_of([kv_caches[name] for name in names])
        except quire.Error as error:
            log.warning("prefixes are neither loaded nor stored: %s", error)
            self._worker = IdleWorker(self._cache_spec().block_size)
            return
        shards = self._shards()
        self._shard = list(dict.fromkeys(shards)).index(shards[get_tensor_model_parallel_rank()])
        self._link = self._open_link(self._settings.timeout, self._settings.transport)
        self._worker = BlockWorker(self._settings, self._link, blocks, self._counts)

    def start_load_kv(self, forward_context: typing.Any, **kwargs: typing.Any) -> None:
        """Starts loads, and does not wait."""
        self._worker.start(self._work())

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Waits for the layer of this step's loads."""
        self._worker.wait(self._layer_numbers[layer_name])

    def save_kv_layer(
        self, layer_name: str, kv_layer: torch.Tensor, attn_metadata: typing.Any, **kwargs: typing.Any
    ) -> None:
        """Nothing: a segment has all layers, so it is copied behind the last one."""

    def wait_for_save(self) -> None:
        """Copies what is stored out of its blocks."""
        self._worker.finish(self._work())

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str] | None, set[str] | None]:
        """Requests whose asynchronous load has ended. No block waits for a save."""
        return None, self._worker.arrived() or None

    def get_block_ids_with_load_errors(self) -> set[int]:
        """Blocks that vLLM must compute."""
        return self._worker.load_errors()

    def drain(self, timeout: float) -> bool:
        """Waits until what was copied has been sent; False after `timeout` seconds."""
        return self._worker.drain(timeout)

    # The scheduler's half.

    def get_num_new_matched_tokens(
        self, request: typing.Any, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        """Stored tokens beyond the computed ones."""
        return self._planner.matched(request, num_computed_tokens) if self._planner else (0, False)

    def update_state_after_alloc(
        self, request: typing.Any, blocks: typing.Any, num_external_tokens: int
    ) -> None:
        """Plans the load into these blocks."""
        if self._planner:
            self._planner.allocated(request, blocks.get_block_ids()[0], num_external_tokens)

    def build_connector_meta(self, scheduler_output: typing.Any) -> QuireMetadata:
        """The work of the step."""
        return QuireMetadata(self._planner.step(scheduler_output) if self._planner else [])

    def update_connector_output(self, connector_output: typing.Any) -> None:
        """Takes note of blocks that did not come."""
        if self._planner and connector_output.invalid_block_ids:
            self._planner.recomputed(connector_output.invalid_block_ids)

    def request_finished(
        self, request: typing.Any, block_ids: list[int]
    ) -> tuple[bool, dict[str, typing.Any] | None]:
        """Forgets the request. Its blocks are free: what is stored was copied."""
        if self._planner:
            self._planner.finished(request.request_id)
        return False, None

    def _work(self) -> Work:
        works = self._get_connector_metadata().works
        return works[self._shard] if works else Work()

    def _shards(self) -> list[identity.Shard]:
        """By worker. Work is divided by the distinct ones, in this order."""
        return identity.shards(
            self._vllm_config.model_config.get_total_num_kv_heads(),
            self._vllm_config.parallel_config.tensor_parallel_size,
        )

    def _cache_spec(self) -> typing.Any:
        return self._kv_cache_config.kv_cache_groups[0].kv_cache_spec

    def _strides(self) -> layout.Strides:
        """Raises Unimplemented where pages of this engine cannot be read."""
        why = identity.refusal(self._vllm_config, self._kv_cache_config)
        device = self._vllm_config.device_config.device_type
        if not why and device != "cpu":
            why = f"its cache lies on the device {device}"
        if why:
            raise quire.Unimplemented(f"this engine's pages are not read: {why}")
        spec = self._cache_spec()
        name, strides = layout.found(spec.num_kv_heads, spec.block_size, spec.head_size, spec.dtype)
        log.info("blocks of %d tokens have %s", spec.block_size, name)
        return strides

    def _blocks_of(self, caches: list[torch.Tensor]) -> quire.EngineBlocks:
        keys, values = self._strides()
        spec = self._cache_spec()
        wanted = (spec.num_kv_heads, spec.block_size, 2 * spec.head_size)
        for cache in caches:
            if tuple(cache.shape[1:]) != wanted or not cache.is_contiguous():
                raise quire.Unimplemented(
                    f"a cache is {tuple(cache.shape)} with strides {cache.stride()}, instead of [blocks] and {wanted}"
                )
        shape = quire.KvSpec(
            model="shape",
            num_layers=len(caches),
            num_query_heads=spec.num_kv_heads,
            num_kv_heads=spec.num_kv_heads,
            head_dim=spec.head_size,
            dtype=identity.DTYPES[str(spec.dtype)],
            page_tokens=self._settings.page_tokens,
            segment_pages=self._settings.segment_pages,
        )
        flat = [cache.view(-1) for cache in caches]
        return quire.EngineBlocks(shape, flat, block_tokens=spec.block_size, keys=keys, values=values)

    def _open_link(self, timeout: float, transport: str) -> Link:
        link = Link(connector_of(self._settings, timeout, transport), self._settings.retry_after, log)
        link.open()
        return link

    def _make_planner(self) -> Planner | None:
        try:
            self._strides()
            fields = identity.spec_fields(
                self._vllm_config.model_config,
                self._cache_spec(),
                self._settings.page_tokens,
                self._settings.segment_pages,
                self._vllm_config.parallel_config.tensor_parallel_size,
            )
        except (quire.Error, OSError) as error:
            log.warning("prefixes are neither loaded nor stored: %s", error)
            return None
        self._link = self._open_link(self._settings.lookup_timeout, "control")
        return Planner(
            self._settings,
            self._link,
            [shard.of(fields) for shard in dict.fromkeys(self._shards())],
            self._cache_spec().block_size,
            self._counts,
            reads=self._kv_transfer_config.is_kv_consumer,
            writes=self._kv_transfer_config.is_kv_producer,
        )
