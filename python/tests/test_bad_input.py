# SPDX-License-Identifier: Apache-2.0
"""What is wrong is said by a subclass of quire.Error, and nothing is changed by it."""

import time

import numpy
import pytest
from conftest import put_document, random_units, small_spec

import quire
from quire.engines.settings import ServerSettings


@pytest.fixture
def session(client, sample):
    with client.open_session(sample.name, slots_per_head=2) as opened:
        yield opened


def slots_of(sample, dtype=numpy.float16):
    return numpy.zeros((3, 2, 2, *sample.spec.unit_shape), dtype)


def read_only(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda cache: numpy.asfortranarray(cache), "not contiguous"),
        (lambda cache: cache[:, ::-1], "not contiguous"),
        (lambda cache: cache.astype(numpy.float32), "elements are f32 instead of f16"),
        (lambda cache: cache.astype(numpy.int64), "elements are int64 instead of f16"),
        (lambda cache: cache[:2].copy(), r"shape is \(2, 2, 2, 2, 32, 32\) instead of \(3, 2, 2, 2, 32, 32\)"),
        (read_only, "read-only"),
        (lambda cache: cache.tobytes(), "read-only"),
        (lambda cache: [None], "no array for sequence 0"),
        (lambda cache: [cache, cache], "no sequence 1"),
        (lambda cache: "text", "give an array"),
    ],
)
def test_a_target_that_does_not_fit_is_refused(session, sample, change, words):
    with pytest.raises(quire.InvalidArgument, match=words):
        session.recall(quire.Want(0, [1]), into=change(slots_of(sample)))
    assert session.resident_pages(0) == [[-1, -1], [-1, -1]]


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda units: units[::2], "not contiguous"),
        (lambda units: units.astype(numpy.float64), "another type instead of f16"),
        (lambda units: units[:1], r"shape is \(1, 3, 2, 2, 32, 32\) instead of \(2, 3, 2, 2, 32, 32\)"),
        (lambda units: units.tobytes()[:-1], "bytes instead of"),
        (lambda units: "text", "give an array"),
    ],
)
def test_units_that_do_not_fit_are_refused(client, change, words):
    spec = small_spec(model="refused")
    units = random_units(spec, 4, spec.num_layers, spec.num_kv_heads)
    units = change(units if words == "not contiguous" else units[:2].copy())
    with client.open_context(spec) as context:
        with pytest.raises(quire.InvalidArgument, match=words):
            context.append(range(2 * spec.page_tokens), units)
        with pytest.raises(quire.InvalidArgument, match="no whole pages"):
            context.append([1, 2, 3], units)
        assert context.num_tokens == 0


def test_units_cannot_be_written(session):
    unit = session.recall(quire.Want(0, [1])).units[0]
    with pytest.raises(ValueError):
        numpy.asarray(unit)[0, 0, 0] = 1
    with pytest.raises(TypeError):
        memoryview(unit).cast("B")[0] = 1


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: small_spec(dtype="f8"), "dtype 'f8' is unknown; give one of: f32, f16, bf16"),
        (lambda: small_spec(num_layers=0), "num_layers"),
        (lambda: small_spec(weights_hash=b"short"), "32"),
        (lambda: quire.Want.by_query(0, numpy.zeros(3, "f4"), 1, pooling="most"), "pooling 'most' is unknown"),
        (lambda: quire.Want.by_query(0, numpy.zeros(3), 1), "floats of 32 bits"),
        (lambda: quire.Want(0, 7), "pages"),
        (lambda: quire.Want(0, ["a"]), "integers"),
        (lambda: quire.Client("127.0.0.1:1", token="short"), "token"),
        (lambda: quire.Client("127.0.0.1:1,,127.0.0.1:2"), "name a server, or some nodes"),
        (lambda: quire.Client([]), "name a server, or some nodes"),
        (lambda: quire.Client([7]), "give text, or a sequence of texts"),
        (lambda: quire.Client("127.0.0.1:1", "carrier"), "carrier"),
        (lambda: ServerSettings.of({"address": "127.0.0.1:1,127.0.0.1:2"}), "several servers; give one"),
    ],
)
def test_names_and_numbers_that_are_wrong_are_refused(call, words):
    with pytest.raises(quire.InvalidArgument, match=words):
        call()


def test_what_is_not_there_is_not_found(client, sample):
    for call in (
        lambda: client.get_document("nothing"),
        lambda: client.stat(b"\1" * 32),
        lambda: client.open_session("nothing", slots_per_head=1),
        lambda: client.delete_document("nothing"),
    ):
        with pytest.raises(quire.NotFound) as caught:
            call()
        assert isinstance(caught.value, (quire.Error, LookupError)) and caught.value.message
    with pytest.raises(quire.InvalidArgument):
        client.stat(b"no key")


def test_a_spec_that_differs_from_the_stored_one_is_refused(client, sample):
    with pytest.raises(quire.InvalidArgument, match="model"):
        client.open_session(sample.name, slots_per_head=1, spec=small_spec(model="other"))


def test_a_recall_that_asks_for_too_much_is_refused(session):
    for want in (quire.Want(0, [0, 1, 2]), quire.Want(0, [99]), quire.Want(3, [0]), quire.Want(0, [2, 1])):
        with pytest.raises(quire.InvalidArgument):
            session.recall(want)
    with pytest.raises(quire.InvalidArgument, match="wants"):
        session.recall(["page"])


def test_what_is_closed_says_so(server, sample):
    client = server.connect()
    session = client.open_session(sample.name, slots_per_head=1)
    client.close()
    with pytest.raises(quire.FailedPrecondition, match="closed"):
        client.stats()
    session.recall(quire.Want(0, [1]))  # It keeps the connection.
    session.close()
    with pytest.raises(quire.FailedPrecondition):
        session.recall(quire.Want(0, [1]))


def test_a_server_that_is_away_is_unavailable(tmp_path):
    start = time.monotonic()
    with pytest.raises(quire.Unavailable) as caught:
        quire.Client(f"unix:{tmp_path}/no.sock", timeout=0.5)
    assert isinstance(caught.value, ConnectionError) and caught.value.message
    assert time.monotonic() - start < 10


def test_a_server_that_dies_is_unavailable_and_keeps_what_was_persisted(tmp_path):
    with quire.embedded(tmp_path / "store", dram_bytes="64MiB") as server, server.connect(timeout=0.5) as client:
        sample = put_document(client, durability="persisted")
        session = client.open_session(sample.name, slots_per_head=2)
        unit = session.recall(quire.Want(0, [1])).units[0]
        server.kill()
        with pytest.raises((quire.Unavailable, quire.DeadlineExceeded)):
            session.recall(quire.Want(0, [2]))
        assert not unit.valid
        numpy.asarray(unit).sum()  # Memory stays, whatever is in it.
    with quire.embedded(tmp_path / "store", dram_bytes="64MiB") as server, server.connect() as client:
        unit = client.fetch(sample.name, 1, [3])[0]
        numpy.testing.assert_array_equal(numpy.asarray(unit), sample.unit(1, 0, 3))


def test_a_server_that_does_not_start_says_why(tmp_path):
    with pytest.raises(quire.Unavailable, match="--no-such-flag"):
        quire.embedded(tmp_path, arguments=["--no-such-flag"])
