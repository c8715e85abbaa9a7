# SPDX-License-Identifier: Apache-2.0
"""Contexts, segments, look-ups and fetches."""

import numpy
import pytest
from conftest import put_document, random_units, small_spec

import quire


def test_a_document_is_read_as_it_was_put(client, sample):
    stat = client.stat(sample.name)
    assert stat.context.num_tokens == len(sample.tokens)
    assert stat.context.spec == sample.spec
    assert stat.context.chain_tip == sample.document.chain_tip
    assert list(client.read_tokens(sample.name)) == sample.tokens
    pages = range(len(sample.units))
    units = client.fetch(sample.name, layers=range(3), pages=pages)
    expected = [sample.unit(layer, head, page) for layer in range(3) for page in pages for head in range(2)]
    assert len(units) == len(expected)
    for unit, put in zip(units, expected):
        numpy.testing.assert_array_equal(numpy.asarray(unit), put)


def test_fetched_units_are_copied_at_once(client, sample):
    units = client.fetch(sample.document.name, layers=1, pages=[3, 5], heads=[1])
    out = numpy.empty((2, *sample.spec.unit_shape), numpy.float16)
    units.copy_to(out)
    numpy.testing.assert_array_equal(out, sample.units[[3, 5], 1, 1])


def test_lookup_finds_the_stored_prefix_in_whole_segments(client, sample):
    segment = sample.spec.page_tokens * sample.spec.segment_pages
    found = client.lookup(sample.spec, numpy.array(sample.tokens[:300] + [1, 2, 3], numpy.int32))
    assert found.num_tokens == segment
    assert len(found.segment_keys) == 1
    other = small_spec(model="another")
    assert client.lookup(other, sample.tokens).num_tokens == 0


def test_a_router_follows_segments_over_broken_connections(server):
    """Promise: a follower gets every event once, or is told of a gap."""
    with server.connect() as first:
        start = first.segment_events(from_now=True).position
        document = put_document(first, pages=16)
        early = first.segment_events(start, max_events=2)
        assert len(early.events) == 2
    with server.connect() as second:
        late = second.segment_events(early.position, wait=5)
        events = early.events + late.events
        assert [event.position for event in events] == list(range(start + 1, start + 7))
        keys = second.stat(document.name).context.segment_keys
        stored = [event for event in events if event.kind == "STORED"]
        assert [event.segment for event in stored] == keys
        assert [event.parent for event in stored] == [bytes(32), *keys[:-1]]
        assert sorted(event.segment for event in events if event.kind == "ENTERED_DRAM") == sorted(keys)
        assert all(event.nbytes > 0 for event in stored)
        assert next(second.follow_segments(late.position, wait=0.01)) is None
        # One that knows nothing, or too old a position, is told so, lists, and goes on.
        gap = next(second.follow_segments())
        assert gap.kind == "GAP" and gap.position == late.position
        listed = {segment.segment: segment for segment in second.list_segments()}
        assert all(listed[key].in_dram for key in keys)
        second.delete_document(document.name)
        gone = [event for event in second.segment_events(gap.position, wait=5).events if event.segment in keys]
        assert {event.kind for event in gone} <= {"LEFT_DRAM", "DELETED"} and gone
        with pytest.raises(quire.InvalidArgument, match="from_now"):
            second.segment_events(1, from_now=True)


def test_conversations_are_prefetched_and_released(client):
    hints = quire.Hints(conversation="agent 7", priority="high", keep_seconds=60)
    assert (hints.conversation, hints.priority, hints.keep_seconds) == ("agent 7", "high", 60)
    document = put_document(client, pages=16, hints=hints)
    with client.open_session(document.name, slots_per_head=4, hints=hints):
        pass
    found = client.lookup(document.spec, document.tokens, hints=hints)
    assert len(found.segment_keys) == 3
    brought = client.prefetch_conversation("agent 7")
    assert (brought.num_segments, brought.segments_in_dram, brought.segments_not_fitting) == (3, 3, 0)
    assert client.release_conversation("agent 7") == 3
    with pytest.raises(quire.NotFound, match="no conversation 'agent 7'"):
        client.prefetch_conversation("agent 7")
    with pytest.raises(quire.InvalidArgument, match="low, normal, high"):
        quire.Hints(priority="urgent")
    with pytest.raises(quire.InvalidArgument, match="keep_seconds"):
        client.lookup(document.spec, document.tokens, hints=quire.Hints(keep_seconds=1 << 40))


def test_a_context_continues_a_stored_prefix(client, sample):
    spec = sample.spec
    segment = spec.page_tokens * spec.segment_pages
    found = client.lookup(spec, sample.tokens[:segment])
    with client.open_context(spec, continues=found.segment_keys[-1]) as context:
        assert context.num_tokens == segment
        page = random_units(spec, 1, spec.num_layers, spec.num_kv_heads)
        assert context.append([7] * spec.page_tokens, page) == segment + spec.page_tokens
        sealed = context.seal()
    assert not context.open
    assert sealed.num_tokens == segment + spec.page_tokens
    numpy.testing.assert_array_equal(numpy.asarray(client.fetch(sealed.chain_tip, 2, [8])[1]), page[0, 2, 1])


def test_layers_are_sent_in_any_order(client):
    spec = small_spec(model="layers")
    units = random_units(spec, 4, spec.num_layers, spec.num_kv_heads)
    tokens = numpy.arange(4 * spec.page_tokens)
    with client.open_context(spec) as context:
        by_layer = numpy.ascontiguousarray(units.transpose(1, 0, 2, 3, 4, 5))
        assert context.append_layers(0, tokens, [2], by_layer[2:]) == 0
        assert context.append_layers(0, tokens, [0, 1], by_layer[:2]) == len(tokens)
        sealed = context.seal()
    numpy.testing.assert_array_equal(numpy.asarray(client.fetch(sealed.chain_tip, 2, [3])[0]), units[3, 2, 0])


def test_a_context_that_was_not_sealed_is_dropped(client):
    with client.open_context(small_spec()) as context:
        pass
    with pytest.raises(quire.NotFound):
        client.stat(context)


def test_a_segment_is_put_once(client):
    spec = small_spec(model="segment")
    units = random_units(spec, spec.num_layers, 2, spec.num_kv_heads)
    tokens = list(range(2 * spec.page_tokens))
    first = client.put_segment(spec, tokens, units)
    assert not first.existed
    again = client.put_segment(spec, tokens, numpy.zeros_like(units))
    assert again.key == first.key and again.existed and again.differs
    with pytest.raises(quire.AlreadyExists):
        client.put_segment(spec, tokens, numpy.zeros_like(units), strict=True)
    numpy.testing.assert_array_equal(numpy.asarray(client.fetch(first.key, 1, [0])[0]), units[1, 0, 0])
    assert client.delete_segments([first.key]) == 1


def test_more_than_a_message_is_sent_in_several(client):
    spec = small_spec(model="large", num_layers=8, head_dim=128, num_kv_heads=4, segment_pages=16)
    put = put_document(client, spec, pages=80, tail=0)
    assert put.units.nbytes > 32 << 20
    numpy.testing.assert_array_equal(numpy.asarray(client.fetch(put.name, 7, [79])[3]), put.unit(7, 3, 79))
    client.delete_document(put.name)


def test_the_server_tells_its_version_and_counters(client):
    stats = client.stats()
    assert stats["version"] == quire.__version__ == client.server_version
    assert stats["counters"] and stats["degradations"] == []


def test_uses_of_pages_and_slow_calls_are_told(client):
    sample = put_document(client)
    assert client.page_uses(sample.name) == [0] * 13
    with client.open_session(sample.name, slots_per_head=4) as session:
        session.recall(quire.Want(layer=0, pages=[1, 7])).release()
    uses = client.page_uses(sample.name)
    assert uses[1] == uses[7] == 2 and sum(uses) == 4
    slow = client.slow_calls(5)
    assert 1 <= len(slow) <= 5 and [call["seconds"] for call in slow] == sorted(
        (call["seconds"] for call in slow), reverse=True
    )
    assert slow[0]["method"].startswith("quire.v1.") and isinstance(slow[0]["code"], str)
    assert len(client.slow_calls(1)) == 1
