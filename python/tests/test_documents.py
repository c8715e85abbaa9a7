# SPDX-License-Identifier: Apache-2.0
"""The registry: documents, their versions and events, and collections."""

import hashlib

import pytest
from conftest import put_document

import quire


def test_a_document_has_what_it_was_registered_with(client, sample):
    tags = {"team": "ops", "year": 2026, "share": 0.5, "draft": True}
    made = client.register_document(
        quire.DocumentName("tagged", "made"), sample.document.chain_tip, tags=tags, source="/a.md", ttl_seconds=3600
    )
    got = client.get_document(quire.DocumentName("tagged", "made"))
    assert got.tags == tags and type(got.tags["draft"]) is bool and type(got.tags["year"]) is int
    assert (got.source, got.ttl_seconds, got.state, got.model) == ("/a.md", 3600, "ready", "small")
    assert got.name == made.name and got.is_latest and got.num_tokens == len(sample.tokens)


def test_documents_are_listed_updated_and_deleted(client, sample):
    for i in range(3):
        client.register_document(
            quire.DocumentName(f"n{i}", "listed"), sample.document.chain_tip, tags={"i": i}
        )
    names = [doc.name.name for doc in client.list_documents("listed")]
    assert names == ["n0", "n1", "n2"]
    assert [doc.name.name for doc in client.list_documents("listed", "i>=1")] == ["n1", "n2"]
    page = client.list_page("listed", page_size=2)
    assert len(page.documents) == 2 and page.next_page_token
    name = quire.DocumentName("n0", "listed")
    updated = client.update_document(name, set_tags={"new": "x"}, remove_tags=["i"])
    assert updated.tags == {"new": "x"}
    assert client.delete_document(name).documents == 1
    with pytest.raises(quire.NotFound) as caught:
        client.get_document(name)
    assert caught.value.code == "NOT_FOUND" and "n0" in caught.value.message


def test_versions_and_the_latest_of_them(client, sample):
    for _ in range(2):
        client.register_document("versions", sample.document.chain_tip)
    assert client.get_document("versions").name.version == 2
    client.set_latest(quire.DocumentName("versions", version=1))
    assert client.get_document("versions").name.version == 1
    assert client.invalidate_document("versions").documents == 2


def test_an_ingest_reserves_a_version(client, sample):
    content = hashlib.sha256(b"text").digest()
    ingest = client.begin_ingest("ingested", content_hash=content, source="text.txt")
    assert ingest.document.state == "ingesting"
    with pytest.raises(quire.NotFound):
        client.get_document("ingested")
    name = quire.DocumentName("ingested", version=ingest.document.name.version)
    client.register_document(name, sample.document.chain_tip, ingest=ingest)
    assert client.get_document("ingested").content_hash == content
    assert client.begin_ingest("ingested", content_hash=content).unchanged
    failed = client.fail_ingest(client.begin_ingest("ingested"), "stopped")
    assert (failed.state, failed.failure) == ("failed", "stopped")
    assert client.invalidate_source("text.txt").documents == 1


def test_a_document_is_warmed_and_pinned(client):
    put = put_document(client)
    seen = []
    done = client.warm_document(put.name, seen.append)
    assert done.segments_in_dram == done.num_segments == 2
    assert seen[-1].segments_done == 2
    assert client.pin_document(put.name).name.name == put.name
    assert client.get_document(put.name).pinned
    client.unpin_document(put.name)
    assert not client.get_document(put.name).pinned
    with pytest.raises(quire.Cancelled):
        client.warm_document(put.name, lambda progress: False)
    with pytest.raises(ZeroDivisionError):
        client.warm_document(put.name, lambda progress: 1 / 0)


def test_events_are_watched_from_a_position(client, sample):
    before = client.events(from_now=True).position
    client.register_document("watched", sample.document.chain_tip)
    client.delete_document("watched")
    watched = client.watch(before, wait=0)
    events = [next(watched), next(watched)]
    assert [(e.kind, e.document.name) for e in events] == [("REGISTERED", "watched"), ("DELETED", "watched")]
    assert next(watched) is None
    with pytest.raises(quire.OutOfRange):  # Of another log, or trimmed.
        next(client.watch(client.events(from_now=True).position + 1, wait=0))


def test_a_watch_is_resumed_after_a_restart(restartable):
    """Promise: who keeps the last position misses nothing, whatever happened to the server or to its own process."""
    with quire.Client(restartable.address) as first:
        sample = put_document(first, durability="persisted")
        for name in ("one", "two"):
            first.register_document(quire.DocumentName(name, "watched"), sample.document.chain_tip)
        first.register_document(quire.DocumentName("three", "other"), sample.document.chain_tip)
        watched = first.watch(collection="watched", wait=0)
        known = next(watched)
        assert (known.kind, known.document.name) == ("REGISTERED", "one")
    restartable.kill()
    restartable.restart()
    with quire.Client(restartable.address) as second:
        second.delete_document(quire.DocumentName("one", "watched"), keep_segments=True)
        resumed = second.watch(known.position, collection="watched", wait=0)
        events = [next(resumed), next(resumed)]
        assert [(e.kind, e.document.name) for e in events] == [("REGISTERED", "two"), ("DELETED", "one")]
        assert next(resumed) is None


def test_extras_lie_beside_a_document(client, sample):
    put = put_document(client)
    extra = client.put_extra(put.name, "notes", b"\0text")
    assert extra.size == 5
    assert client.get_extra(put.name, "notes") == b"\0text"
    assert [e.name for e in client.list_extras(put.name)] == ["notes"]


def test_collections_have_settings(client):
    changed = client.set_collection("coded", codec="int8", ttl_seconds=60)
    assert (changed.codec, changed.ttl_seconds, changed.codec_is_default) == ("int8", 60, False)
    assert "coded" in [c.name for c in client.list_collections()]
    assert client.get_collection("never-set").codec_is_default
