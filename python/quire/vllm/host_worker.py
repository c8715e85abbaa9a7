# SPDX-License-Identifier: Apache-2.0
"""HostWorker: copies between the blocks of an engine on CPUs and vLLM's region of offloaded chunks."""

from __future__ import annotations

import time
import typing

import torch
from vllm.v1.kv_offload.base import OffloadingWorker, TransferResult
from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion


class HostWorker(OffloadingWorker):
    """Copies are made at once, so that no block waits for one. Thread-safety: none, as vLLM's worker needs none."""

    def __init__(self, spec: typing.Any, kv_caches: typing.Any) -> None:
        """`spec`: a CPUOffloadingSpec of vLLM. `kv_caches`: its CanonicalKVCaches, of tensors on the host."""
        self._blocks_per_chunk = spec.blocks_per_chunk
        self._region = SharedOffloadRegion(
            engine_id=spec.config.engine_id,
            num_chunks=spec.num_chunks,
            rank=0 if spec.replicated_layout else spec.config.parallel.rank,
            kv_bytes_per_chunk=spec.kv_bytes_per_chunk,
            cpu_page_size=spec.cpu_page_size_per_worker,
        )
        self._blocks: list[torch.Tensor] = []  # [block][bytes], by tensor.
        self._chunks: list[torch.Tensor] = []  # [chunk][block of the chunk][bytes], by tensor.
        for cache in kv_caches.tensors:
            size = cache.page_size_bytes
            self._blocks.append(cache.tensor.view(torch.int8).view(-1, size))
            chunks = self._region.create_next_worker_view(size * self._blocks_per_chunk)
            self._chunks.append(chunks.unflatten(1, (self._blocks_per_chunk, size)))
        self._tensors_of = [sorted({ref.tensor_idx for ref in refs}) for refs in kv_caches.group_data_refs]
        self._ended: list[TransferResult] = []

    def submit_store(self, job_id: int, src_spec: typing.Any, dst_spec: typing.Any) -> bool:
        """Copies blocks to chunks."""
        began = time.perf_counter()
        copied = 0
        for tensor, blocks, chunks, places in self._copies(src_spec, dst_spec):
            rows = self._blocks[tensor][blocks]
            self._chunks[tensor][chunks, places] = rows
            copied += rows.numel()
        return self._end(job_id, copied, began)

    def submit_load(self, job_id: int, src_spec: typing.Any, dst_spec: typing.Any) -> bool:
        """Copies chunks to blocks."""
        began = time.perf_counter()
        copied = 0
        for tensor, blocks, chunks, places in self._copies(dst_spec, src_spec):
            rows = self._chunks[tensor][chunks, places]
            self._blocks[tensor][blocks] = rows
            copied += rows.numel()
        return self._end(job_id, copied, began)

    def get_finished(self) -> list[TransferResult]:
        """Copies since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def wait(self, job_ids: set[int]) -> None:
        """Nothing to wait for."""

    def shutdown(self) -> None:
        """Lets the region go."""
        self._blocks, self._chunks = [], []
        self._region.cleanup()

    def _copies(
        self, engine: typing.Any, host: typing.Any
    ) -> typing.Iterator[tuple[int, torch.Tensor, torch.Tensor, torch.Tensor]]:
        """By tensor: blocks of the engine, their chunks, and their places in these.

        `engine` is a GPULoadStoreSpec, `host` a CPULoadStoreSpec. A group's first block may lie inside its first chunk.
        """
        block_ids = torch.as_tensor(engine.block_ids, dtype=torch.long)
        chunk_ids = torch.as_tensor(host.block_ids, dtype=torch.long)
        for tensors, count, first in zip(self._tensors_of, engine.group_sizes, engine.block_indices, strict=True):
            if count == 0:
                continue
            skipped = first % self._blocks_per_chunk
            numbers = torch.arange(skipped, skipped + count)
            needed = -(-(skipped + count) // self._blocks_per_chunk)
            blocks, block_ids = block_ids[:count], block_ids[count:]
            chunks, chunk_ids = chunk_ids[:needed], chunk_ids[needed:]
            for tensor in tensors:
                yield tensor, blocks, chunks[numbers // self._blocks_per_chunk], numbers % self._blocks_per_chunk

    def _end(self, job_id: int, copied: int, began: float) -> bool:
        self._ended.append(TransferResult(job_id, True, copied, time.perf_counter() - began))
        return True
