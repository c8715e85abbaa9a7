# SPDX-License-Identifier: Apache-2.0
"""Planner: the scheduler's half. It finds stored prefixes, and says what each step loads and stores.

Thread-safety: none; vLLM's scheduler calls it from one thread. Blocks and requests are vLLM's.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import math
import typing

import quire
from quire.engines.link import Link
from quire.vllm.counts import Counts
from quire.vllm.identity import salted, spec_of
from quire.vllm.settings import Settings
from quire.vllm.work import Load, Save, Work

log = logging.getLogger("vllm.quire")

# Fields of a request's kv_transfer_params.
READ = "quire_document"  # The prompt begins with this document: also its last tokens are found.
REGISTER = "quire_register"  # The prompt becomes a document of this name.
CONVERSATION = "quire_conversation"  # Of which this request is a turn: its pages are hinted together.
PRIORITY = "quire_priority"  # When its pages leave: "low" (early), "normal" or "high" (late).
KEEP = "quire_keep_seconds"  # So long they leave after all others, as during a call of a tool.
RELEASE = "quire_release"  # True: the conversation ends with this request, and its pages leave first.

_DIVIDED = "the engine's workers divide the heads, and a document has all of them"


@dataclasses.dataclass
class Found:
    """What is stored of a request's tokens, by all shards."""

    num_segments: int = 0  # Whole ones.
    tips: list[bytes | None] = dataclasses.field(default_factory=list)  # By shard: the last whole segment.
    chains: list[bytes] = dataclasses.field(default_factory=list)  # By shard: the longest common prefix's end.
    num_tokens: int = 0


@dataclasses.dataclass
class Record:
    """A request that vLLM has."""

    request: typing.Any
    specs: list[str]  # By shard.
    found: Found | None  # None: not known, so nothing is stored either.
    preemptions: int
    first_token: int = 0  # Of a load, as vLLM was last told.
    blocks: list[int] = dataclasses.field(default_factory=list)
    loaded: list[int] = dataclasses.field(default_factory=list)  # Blocks of its last load.
    planned_segments: int = 0  # Those stored, and those that a step was told to store.
    registers: quire.DocumentName | None = None
    saves_tail: bool = False  # The end of the prompt is to be stored, though it is no whole segment.
    hints: dict[str, typing.Any] = dataclasses.field(default_factory=dict)  # Arguments of quire.Hints.
    releases: bool = False


class Planner:
    """Reads with `link`, whose calls must be short.

    `specs` are JSON of the KvSpec of each shard of heads: one, but for workers that divide them. A prefix is found as
    far as all shards have it.
    """

    def __init__(
        self,
        settings: Settings,
        link: Link,
        specs: list[str],
        block_tokens: int,
        counts: Counts,
        *,
        reads: bool = True,
        writes: bool = True,
    ) -> None:
        self._settings = settings
        self._link = link
        self._specs = specs
        self._block_tokens = block_tokens
        self._counts = counts
        self._reads = reads
        self._writes = writes
        self._records: dict[str, Record] = {}
        self._passed: set[str] = set()
        self._works = self._no_work()
        self._document_tokens: collections.OrderedDict[bytes, list[int]] = collections.OrderedDict()

    def matched(self, request: typing.Any, num_computed: int) -> tuple[int, bool]:
        """Tokens beyond the computed ones that can be loaded, and whether outside of steps.

        vLLM asks again in every step while the request waits, so what was found is kept.
        """
        record = self._record_of(request)
        if record is None or record.found is None or not self._reads:
            return 0, False
        # One token at least is computed, whose output is the next token.
        usable = min(record.found.num_tokens, request.num_tokens - 1)
        if usable <= num_computed:
            return 0, False
        record.first_token = num_computed
        return usable - num_computed, self._settings.load == "async"

    def allocated(self, request: typing.Any, blocks: list[int], num_external: int) -> None:
        """The request has blocks, of which tokens for `num_external` are loaded."""
        record = self._records.get(request.request_id)
        if record is None or num_external == 0:
            return
        for work, spec, chain in zip(self._works, record.specs, record.found.chains):
            load = Load(
                request=request.request_id,
                spec=spec,
                chain=chain,
                first_token=record.first_token,
                end_token=record.first_token + num_external,
                blocks=list(blocks),
                asynchronous=self._settings.load == "async",
            )
            work.loads.append(load)
        record.loaded = load.targets(self._block_tokens)

    def step(self, output: typing.Any) -> list[Work]:
        """The work of a step that vLLM has planned, by shard."""
        computed = {}
        for new in output.scheduled_new_reqs:
            self._took_blocks(new.req_id, new.block_ids, replace=True)
            computed[new.req_id] = new.num_computed_tokens
        cached = output.scheduled_cached_reqs
        for name, blocks, count in zip(cached.req_ids, cached.new_block_ids, cached.num_computed_tokens):
            self._took_blocks(name, blocks, replace=name in cached.resumed_req_ids)
            computed[name] = count
        go_on = False
        for name, count in output.num_scheduled_tokens.items():
            record = self._records.get(name)
            if record is None or name not in computed:
                continue
            end = computed[name] + count
            go_on = go_on or end < record.request.num_prompt_tokens
            if self._writes:
                self._plan_saves(record, end)
        works, self._works = self._works, self._no_work()
        for work in works:
            work.prompts_go_on = go_on
        return works

    def recomputed(self, blocks: set[int]) -> None:
        """vLLM knows that these blocks did not come, and computes them. They are not offered to it again."""
        for work in self._works:
            work.recomputed |= blocks
        for record in self._records.values():
            if record.found is not None and not blocks.isdisjoint(record.loaded):
                record.found.chains, record.found.num_tokens = [], 0

    def finished(self, name: str) -> None:
        """The request is over."""
        self._passed.discard(name)
        record = self._records.pop(name, None)
        if record is None:
            return
        for work in self._works:
            work.finished.append(name)
        if record.releases:
            self._release(record.hints["conversation"])

    def _no_work(self) -> list[Work]:
        return [Work() for _ in self._specs]

    def _record_of(self, request: typing.Any) -> Record | None:
        name = request.request_id
        record = self._records.get(name)
        if record is None:
            if name in self._passed:
                return None
            if not _is_text(request):
                self._passed.add(name)
                self._counts.add("requests_passed")
                return None
            specs = [salted(spec, request.cache_salt) for spec in self._specs]
            params = request.kv_transfer_params or {}
            record = Record(request, specs, None, request.num_preemptions)
            self._take_hints(record, params)
            record.found = self._look_up(record, params.get(READ))
            if record.found is not None:
                record.planned_segments = record.found.num_segments
                record.registers = self._registers(params.get(REGISTER))
                record.saves_tail = self._settings.save_tail and record.found.num_tokens < request.num_prompt_tokens
            self._records[name] = record
        elif record.preemptions != request.num_preemptions:
            # Its blocks are gone, and what it has stored meanwhile can be found.
            record.preemptions = request.num_preemptions
            again = self._look_up(record, None)
            if again is not None and record.found is not None:
                record.found = again
        return record

    def _take_hints(self, record: Record, params: typing.Mapping[str, typing.Any]) -> None:
        """A request whose hints are wrong goes on without."""
        try:
            record.hints, record.releases = _hints_of(params)
        except quire.InvalidArgument as error:
            self._counts.add("hints_refused")
            log.warning("the hints of a request are not used: %s", error)

    def _release(self, conversation: str) -> None:
        client = self._link.client()
        if client is None:
            return
        try:
            client.release_conversation(conversation)
            self._counts.add("conversations_released")
        except quire.NotFound:
            pass  # Nothing of it was stored, or the server has started since.
        except quire.Error as error:
            self._link.failed(client, error)
            log.warning("a conversation was not released: %s", error)

    def _look_up(self, record: Record, document: typing.Any) -> Found | None:
        client = self._link.client()
        if client is None:
            return None
        tokens = list(record.request.all_token_ids)
        self._counts.add("lookups")
        try:
            hints = quire.Hints(**record.hints) if record.hints else None
            stored = [client.lookup(spec_of(spec), tokens, hints=hints) for spec in record.specs]
            found = self._common(stored)
            if document is not None:
                self._extend(found, client, record.specs, tokens, document)
        except quire.Error as error:
            self._link.failed(client, error)
            self._counts.add("lookup_failures")
            log.warning("a prefix was not looked up: %s", error)
            return None
        return found

    def _common(self, stored: list[typing.Any]) -> Found:
        """What all shards have. A short segment that ends with the tokens is read, and nothing is stored behind it."""
        num_tokens = min(one.num_tokens for one in stored)
        whole = num_tokens // self._settings.segment_tokens
        tips = [one.segment_keys[whole - 1] if whole else None for one in stored]
        if all(one.num_tokens == num_tokens for one in stored):
            return Found(whole, tips, [one.segment_keys[-1] for one in stored if num_tokens], num_tokens)
        return Found(whole, tips, [tip for tip in tips if tip], whole * self._settings.segment_tokens)

    def _extend(
        self, found: Found, client: quire.Client, specs: list[str], tokens: list[int], document: typing.Any
    ) -> None:
        """Takes the whole document, where it begins the prompt. Otherwise says why not."""
        try:
            stat = client.stat(_name_of(document)).context
            why = _DIVIDED if len(specs) > 1 else spec_of(specs[0]).difference(stat.spec)
            if not why and tokens[: stat.num_tokens] != self._tokens_of(client, stat.chain_tip):
                why = "it does not begin the prompt"
        except (quire.NotFound, quire.InvalidArgument) as error:
            why = str(error)
        if why:
            self._counts.add("documents_refused")
            log.warning("document %s is not used: %s", document, why)
        elif stat.num_tokens > found.num_tokens:
            found.chains, found.num_tokens = [stat.chain_tip], stat.num_tokens

    def _registers(self, document: typing.Any) -> quire.DocumentName | None:
        try:
            name = _name_of(document)
            if name is not None and len(self._specs) > 1:
                raise quire.InvalidArgument(_DIVIDED)
            return name
        except quire.InvalidArgument as error:
            self._counts.add("documents_refused")
            log.warning("a prompt is not registered: %s", error)
            return None

    def _tokens_of(self, client: quire.Client, chain: bytes) -> list[int]:
        known = self._document_tokens.pop(chain, None)
        if known is None:
            known = list(client.read_tokens(chain))
        self._document_tokens[chain] = known
        if len(self._document_tokens) > 16:
            self._document_tokens.popitem(last=False)
        return known

    def _took_blocks(self, name: str, blocks: tuple[list[int], ...] | None, replace: bool) -> None:
        record = self._records.get(name)
        if record is None or blocks is None:
            return
        if replace:
            record.blocks = []
        record.blocks += blocks[0]

    def _plan_saves(self, record: Record, computed: int) -> None:
        """Plans to store what this step completes. Tokens that vLLM does not know yet wait for a later step."""
        if record.found is None:
            return
        request = record.request
        limit = request.num_tokens if self._settings.save_output else request.num_prompt_tokens
        end = min(computed, limit)
        whole = end // self._settings.segment_tokens
        prompt = request.num_prompt_tokens
        if end >= prompt and (record.registers is not None or record.saves_tail):
            # The prompt ends inside a segment, so that segment is stored short, and again when it is whole.
            self._save(record, prompt // self._settings.segment_tokens, prompt, _text_of(record.registers))
            record.registers, record.saves_tail = None, False
        if whole > record.planned_segments:
            self._save(record, whole, whole * self._settings.segment_tokens)

    def _save(self, record: Record, end_segment: int, end_token: int, register_as: str = "") -> None:
        first = record.planned_segments
        first_token = first * self._settings.segment_tokens
        if end_token <= first_token and not register_as:
            return
        for work, spec, tip in zip(self._works, record.specs, record.found.tips):
            save = Save(
                request=record.request.request_id,
                spec=spec,
                stored_segments=record.found.num_segments,
                stored_tip=tip,
                first_segment=first,
                end_token=end_token,
                tokens=list(record.request.all_token_ids[first_token:end_token]),
                blocks=list(record.blocks[: -(-end_token // self._block_tokens)]),
                register_as=register_as,
                # What the last turn stores is nobody's; it leaves in its order.
                hints=None if record.releases else record.hints or None,
            )
            work.saves.append(save)
        record.planned_segments = max(first, end_segment)


def _is_text(request: typing.Any) -> bool:
    """True when token ids decide the request's keys and values."""
    return not (
        request.mm_features
        or request.lora_request is not None
        or request.prompt_token_ids is None
        or request.prompt_embeds is not None
    )


def _hints_of(params: typing.Mapping[str, typing.Any]) -> tuple[dict[str, typing.Any], bool]:
    """Arguments of quire.Hints, and whether the conversation ends. Raises InvalidArgument."""
    conversation = params.get(CONVERSATION) or ""
    priority = params.get(PRIORITY) or "normal"
    keep_seconds = params.get(KEEP) or 0
    if not isinstance(conversation, str) or not isinstance(priority, str):
        raise quire.InvalidArgument(f"{CONVERSATION} and {PRIORITY} must be strings")
    if isinstance(keep_seconds, bool) or not isinstance(keep_seconds, (int, float)) or not 0 <= keep_seconds < 2**32:
        raise quire.InvalidArgument(f"{KEEP} must be a number of seconds, not {keep_seconds!r}")
    given = {"conversation": conversation, "priority": priority, "keep_seconds": math.ceil(keep_seconds)}
    quire.Hints(**given)  # Knows the priorities.
    releases = bool(params.get(RELEASE))
    if releases and not conversation:
        raise quire.InvalidArgument(f"{RELEASE} needs {CONVERSATION}")
    return (given if any(name in params for name in (CONVERSATION, PRIORITY, KEEP)) else {}), releases


def _name_of(text: typing.Any) -> quire.DocumentName | None:
    """[COLLECTION/]NAME[@VERSION]"""
    if text is None:
        return None
    if not isinstance(text, str):
        raise quire.InvalidArgument(f"a document is named by a string, not {text!r}")
    collection, _, rest = text.rpartition("/")
    name, at, version = rest.partition("@")
    if at and not version.isdigit():
        raise quire.InvalidArgument(f"'{text}': a version is a number")
    return quire.DocumentName(name, collection or "default", int(version or 0))


def _text_of(name: quire.DocumentName | None) -> str:
    return f"{name.collection}/{name.name}" if name is not None else ""
