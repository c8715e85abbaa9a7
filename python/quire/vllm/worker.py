# SPDX-License-Identifier: Apache-2.0
"""BlockWorker: the worker's half. It loads into the engine's blocks and copies out of them.

Thread-safety: none; vLLM's worker calls it from one thread. Copies out of blocks are made before the step ends, so
that no block is held for a save.
"""

from __future__ import annotations

import dataclasses

import numpy

import quire
from quire.engines.link import Link
from quire.vllm.counts import Counts
from quire.vllm.loader import Batch, Loader
from quire.vllm.saver import Saver, Segment
from quire.vllm.settings import Settings
from quire.vllm.work import Save, Work

# An engine that computes on the host's processors shares them with what is sent.
LONGEST_WAIT = 1.0  # Seconds that sends give way to the rest of a prompt.
ANSWER_WAIT = 0.02  # Seconds that they give way to the step's token, on its way to the caller.


@dataclasses.dataclass
class _Chain:
    """What a request has stored, or is about to."""

    segments: int
    starts_behind: bytes | None
    given_up: bool = False  # Something is missing in front of what would come next.


class BlockWorker:
    """`blocks` are the engine's."""

    def __init__(self, settings: Settings, link: Link, blocks: quire.EngineBlocks, counts: Counts) -> None:
        self._settings = settings
        self._blocks = blocks
        self._block_tokens = blocks.block_tokens
        self._counts = counts
        self._loader = Loader(blocks, link, settings.timeout, counts)
        self._saver = Saver(link, settings.staged_bytes, settings.collection, settings.durability, counts)
        self._step: Batch | None = None  # What the running step waits for.
        self._outside: list[Batch] = []  # What comes outside of steps.
        self._chains: dict[str, _Chain] = {}
        self._bad_blocks: set[int] = set()  # Their load failed, and the scheduler does not know yet.
        self._errors: set[int] = set()  # Of them, those to be reported.

    def start(self, work: Work) -> None:
        """Starts the step's loads."""
        self._bad_blocks -= work.recomputed
        waits = [load for load in work.loads if not load.asynchronous]
        if waits:
            self._step = self._loader.start(waits)
        self._outside += [self._loader.start([load]) for load in work.loads if load.asynchronous]

    def wait(self, layer: int) -> None:
        """Returns when the step can read the layer."""
        if self._step is not None:
            self._step.wait(layer)

    def finish(self, work: Work) -> None:
        """Copies what the step has completed, behind its last layer."""
        if self._step is not None:
            self._step.wait(self._blocks.spec.num_layers)
            self._fail(self._step)
            self._step = None
        if work.prompts_go_on:
            self._saver.give_way(LONGEST_WAIT)
        elif work.saves:
            self._saver.give_way(ANSWER_WAIT)
        for save in work.saves:
            self._save(save)
        for request in work.finished:
            self._chains.pop(request, None)
            self._saver.forget(request)

    def arrived(self) -> set[str]:
        """Requests whose load outside of steps has ended."""
        ended = [batch for batch in self._outside if batch.ended()]
        self._outside = [batch for batch in self._outside if batch not in ended]
        for batch in ended:
            self._fail(batch)
        return {load.request for batch in ended for load in batch.loads}

    def load_errors(self) -> set[int]:
        """Blocks that did not come, since the last call."""
        errors, self._errors = self._errors, set()
        return errors

    def drain(self, timeout: float) -> bool:
        """Waits until saves have been sent."""
        return self._saver.drain(timeout)

    def close(self) -> None:
        """Ends the threads; sends first what was copied."""
        self._loader.close()
        self._saver.close(self._settings.timeout)

    def _fail(self, batch: Batch) -> None:
        for load in batch.failed:
            blocks = load.targets(self._block_tokens)
            self._errors.update(blocks)
            self._bad_blocks.update(blocks)

    def _save(self, save: Save) -> None:
        chain = self._chains.setdefault(save.request, _Chain(save.stored_segments, save.stored_tip))
        # What was computed behind blocks that did not come is wrong, and a stored segment never changes.
        if not self._bad_blocks.isdisjoint(save.blocks) or save.first_segment > chain.segments:
            chain.given_up = True
        segment_tokens = self._settings.segment_tokens
        first = save.first_segment * segment_tokens
        for begin in range(chain.segments * segment_tokens, save.end_token, segment_tokens):
            end = min(begin + segment_tokens, save.end_token)
            if chain.given_up or not self._copy(chain, save, begin, end, save.tokens[begin - first : end - first]):
                chain.given_up = True
                self._counts.add("segments_dropped")
        if save.register_as and not chain.given_up and save.end_token % segment_tokens == 0:
            self._saver.offer(
                Segment(save.request, save.spec, [], None, chain.starts_behind, register_as=save.register_as)
            )

    def _copy(self, chain: _Chain, save: Save, begin: int, end: int, tokens: list[int]) -> bool:
        """Copies one segment; False where there is no room."""
        spec = self._blocks.spec
        size = spec.num_layers * -(-(end - begin) // spec.page_tokens) * spec.num_kv_heads * spec.unit_bytes
        if not self._saver.reserve(size):
            return False
        units = numpy.empty(size, numpy.uint8)
        self._blocks.read(save.blocks, begin, end, units)
        short = end - begin < self._settings.segment_tokens
        self._saver.offer(
            Segment(
                save.request,
                save.spec,
                tokens,
                units,
                chain.starts_behind,
                ends_chain=short,
                register_as=save.register_as if short else "",
                hints=save.hints,
            )
        )
        chain.segments += not short
        return True


class IdleWorker:
    """In place of a BlockWorker where blocks cannot be read: loads fail, so that vLLM computes their tokens."""

    def __init__(self, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._errors: set[int] = set()
        self._arrived: set[str] = set()

    def start(self, work: Work) -> None:
        for load in work.loads:
            self._errors.update(load.targets(self._block_tokens))
            if load.asynchronous:
                self._arrived.add(load.request)

    def wait(self, layer: int) -> None:
        pass

    def finish(self, work: Work) -> None:
        pass

    def arrived(self) -> set[str]:
        arrived, self._arrived = self._arrived, set()
        return arrived

    def load_errors(self) -> set[int]:
        errors, self._errors = self._errors, set()
        return errors

    def drain(self, timeout: float) -> bool:
        return True

    def close(self) -> None:
        pass
