# SPDX-License-Identifier: Apache-2.0
"""Bulk ingest without Ray: rows, and a host's worker. test_ray.py has several hosts."""

import os
import random
import signal
import sys

import pytest
from conftest import SEED

import quire
import quire.ray
from quire.ray import host
from quire.ray.source import document_of, tag_text

WORDS = ("the", "river", "opened", "a", "narrow", "gate", "beyond", "Walbury", "on", "Monday")


def text_of(number, words=120):
    return f"Document {number}. " + " ".join(random.Random(SEED + number).choices(WORDS, k=words))


def document(name, number=0, **fields):
    return document_of(number, {"name": name, **fields} if fields else {"name": name, "text": text_of(number)}, {})


@pytest.fixture(scope="module")
def worker(server):
    made = host.HostWorker(host.Setup(server=server.address, collection="bulk"))
    yield made
    made.close()


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("text", "a row is a str"),
        ({"text": "x"}, "no name"),
        ({"name": "", "text": "x"}, "no name"),
        ({"name": "a"}, "a text or a path"),
        ({"name": "a", "text": "x", "path": "/x"}, "not both"),
        ({"name": "a", "text": ""}, "empty"),
        ({"name": "a", "text": b"x"}, "no text"),
        ({"name": "a", "text": "\ud800"}, "character 0"),
        ({"name": "a", "path": 5}, "the path of a row is a int"),
        ({"name": "a", "text": "x", "body": 1}, "'body'"),
        ({"name": "a", "text": "x", "tags": {"k": None}}, "tag 'k' is a NoneType"),
        ({"name": "a", "text": "x", "tags": {"k": float("nan")}}, "finite"),
        ({"name": "a", "text": "x", "tags": {"k": 1 << 63}}, "64 bits"),
        ({"name": "a", "text": "x", "tags": {"k=v": 1}}, "without '='"),
    ],
)
def test_rows_that_are_no_documents_say_why(row, said):
    with pytest.raises(quire.InvalidArgument, match=said):
        document_of(0, row, {})


def test_tags_keep_their_type():
    assert [tag_text("k", value) for value in ("7", 7, 7.0, True)] == ["k='7'", "k=7", "k=7.0", "k=true"]


def test_without_ray_the_call_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(quire.FailedPrecondition, match=r"pip install 'quire\[ray\]'"):
        quire.ray.ingest([], server="unix:/nowhere")
    with pytest.raises(quire.InvalidArgument, match="workers is 0"):
        quire.ray.ingest([], server="unix:/nowhere", workers=0)


def test_a_document_is_computed_once(worker, client):
    tags = {"team": "ops", "year": 2026, "draft": True, "room": "12"}
    first = worker.ingest(document_of(0, {"name": "once", "text": text_of(0), "tags": tags}, {"team": "dev"}))
    assert (first.unchanged, first.warnings) == (False, ()) and first.tokens > 100 and first.bytes_sent > 0
    assert client.get_document(quire.DocumentName("once", "bulk")).tags == tags
    assert worker.ingest(document("once")).unchanged


def test_a_refused_document_does_not_end_the_worker(worker, tmp_path):
    broken = tmp_path / "broken.txt"
    broken.write_bytes(b"text\xff")
    with pytest.raises(quire.InvalidArgument, match="UTF-8"):
        worker.ingest(document("broken", path=broken))
    for bad in (document("gone", path=tmp_path / "gone.txt"), document("a\nname", 1)):
        with pytest.raises(quire.Error) as caught:
            worker.ingest(bad)
        assert not isinstance(caught.value, host.CONCERN_ALL), caught.value
    page = tmp_path / "page.html"
    page.write_text(f"<h1>Heading</h1><p>{text_of(1)}</p>")
    assert not worker.ingest(document("page", path=page)).unchanged


def test_a_worker_that_ended_is_started_again(worker, client):
    worker.start()
    before = worker.pid
    os.kill(before, signal.SIGKILL)
    os.waitid(os.P_PID, before, os.WEXITED | os.WNOWAIT)
    assert not worker.ingest(document("after", 2)).unchanged
    assert worker.pid != before


def test_another_attempt_waits_for_the_first(worker, client, monkeypatch):
    first = client.begin_ingest(quire.DocumentName("twice", "bulk"))
    # The pause is where the first attempt ends: as ready it would be found, and as failed it is replaced.
    monkeypatch.setattr(host.time, "sleep", lambda seconds: client.fail_ingest(first, "lost"))
    assert not worker.ingest(document("twice", 3), again=True).unchanged
    found = client.list_documents("bulk", 'name=twice and (state=ready or state=failed)')
    assert [(one.name.version, one.state) for one in found] == [(1, "failed"), (2, "ready")]


def test_a_worker_that_does_not_start_says_why(server):
    broken = host.HostWorker(host.Setup(server=server.address, worker_options=("--no-such-flag",)))
    with pytest.raises(quire.Error, match="no-such-flag"):
        broken.start()
    with pytest.raises(quire.Unavailable, match="no-such-flag"):  # The document is not to blame.
        broken.ingest(document("innocent"))
    broken.close()
