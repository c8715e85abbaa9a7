# SPDX-License-Identifier: Apache-2.0
"""A client of a cluster: two servers and a real etcd."""

import asyncio

import numpy
import pytest
from cluster_fixture import Cluster
from conftest import put_document, small_spec

import quire
from quire import aio


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    yield running
    running.close()


@pytest.fixture
def client(cluster):
    with cluster.connect() as connected:
        yield connected


def documents_of_both(client):
    """A document on each node, by address."""
    placed = {}
    while len(placed) < 2:
        sample = put_document(client, small_spec(model="cluster"))
        with client.for_document(sample.name) as node:
            (at,) = [address for address in client.nodes() if has(address, sample.name)]
            assert node.get_document(sample.name).chain_tip == sample.document.chain_tip
        placed[at] = sample
    return placed


def has(address, name):
    with quire.Client(address, "control") as node:
        try:
            return node.stat(name).context.num_tokens > 0
        except quire.NotFound:
            return False


def check(sample, recall):
    assert recall.placements
    for unit, place in zip(recall.units, recall.placements):
        numpy.testing.assert_array_equal(
            numpy.asarray(unit), sample.unit(place.layer, place.head, quire.page_of(place.page))
        )


def test_documents_are_put_to_and_read_from_their_nodes(cluster, client):
    assert sorted(client.nodes()) == sorted(cluster.addresses)
    assert client.server_version == quire.__version__
    for address, sample in documents_of_both(client).items():
        assert client.get_document(sample.name).num_tokens == len(sample.tokens)
        assert list(client.read_tokens(sample.name)) == sample.tokens
        unit = client.fetch(sample.name, layers=1, pages=[3], heads=[1])[0]
        numpy.testing.assert_array_equal(numpy.asarray(unit), sample.unit(1, 1, 3))
        with client.open_session(sample.name, slots_per_head=4) as session:
            check(sample, session.recall(quire.Want(layer=2, pages=[1, 7])))
        assert client.transport == "shm"  # Each node lends its memory.
        # Whoever names one node of a cluster reaches that node alone.
        (other,) = set(cluster.addresses) - {address}
        with quire.Client(other) as node, pytest.raises(quire.NotFound):
            node.stat(sample.name)
        # One address in a list is a node that tells the others.
        with quire.Client([other]) as whole:
            assert whole.stat(sample.name).context.num_tokens == len(sample.tokens)


def test_a_session_reads_documents_of_both_nodes(client):
    samples = list(documents_of_both(client).values())
    tips = tuple(client.get_document(sample.name).chain_tip for sample in samples)
    with client.open_session(tips, slots_per_head=8) as session:
        pages = [quire.page_name(member, page) for member in (0, 1) for page in (2, 5)]
        recall = session.recall(quire.Want(layer=1, pages=pages))
        assert [(p.head, quire.member_of(p.page), quire.page_of(p.page)) for p in recall.placements] == [
            (head, member, page) for head in (0, 1) for member in (0, 1) for page in (2, 5)
        ]
        for unit, place in zip(recall.units, recall.placements):
            wanted = samples[quire.member_of(place.page)].unit(1, place.head, quire.page_of(place.page))
            numpy.testing.assert_array_equal(numpy.asarray(unit), wanted)
        recall.applied()
        cache = numpy.zeros((3, 2, 8, *samples[0].spec.unit_shape), numpy.float16)
        again = session.recall(quire.Want(layer=0, pages=pages), into=cache)
        for place in again.placements:
            wanted = samples[quire.member_of(place.page)].unit(0, place.head, quire.page_of(place.page))
            numpy.testing.assert_array_equal(cache[0, place.head, place.slot], wanted)
        # Servers do not select together.
        queries = numpy.zeros((1, 4, 32), numpy.float32)
        with pytest.raises(quire.Unimplemented, match="name its pages"):
            session.recall(quire.Want.by_query(2, queries, num_pages=1))


def test_calls_of_one_node_need_its_client(client):
    sample = put_document(client, small_spec(model="cluster"))
    for call in (
        lambda: client.lookup(sample.spec, sample.tokens),
        lambda: client.pin_document(sample.name),
        lambda: client.put_object("key", b"bytes"),
        lambda: client.events(),
    ):
        with pytest.raises(quire.Unimplemented, match="take the client of a node"):
            call()
    with client.for_document(sample.name) as node:
        assert type(node) is quire.Client and node.nodes() == client.nodes()
        assert node.lookup(sample.spec, sample.tokens).num_tokens == len(sample.tokens)
        assert node.pin_document(sample.name).name.name == sample.name
        found = [event.document.name for event in node.events().events]
        assert sample.name in found
        node.delete_document(sample.name)
    with pytest.raises(quire.NotFound):
        client.get_document(sample.name)


def test_the_client_of_a_node_outlives_that_of_the_cluster(cluster):
    client = cluster.connect()
    sample = put_document(client, small_spec(model="cluster"))
    node = client.for_document(sample.name)
    session = client.open_session(sample.name, slots_per_head=4)
    client.close()
    with pytest.raises(quire.FailedPrecondition, match="closed"):
        client.stat(sample.name)
    assert node.stat(sample.name).context.num_tokens == len(sample.tokens)
    node.close()
    check(sample, session.recall(quire.Want(layer=0, pages=[1])))
    session.close()


def test_asyncio_has_the_same(cluster):
    async def run():
        async with await aio.connect(cluster.addresses) as client:
            sample = await asyncio.to_thread(put_document, client.blocking, small_spec(model="cluster"))
            node = await client.for_document(sample.name)
            assert (await node.stat(sample.name)).context.num_tokens == len(sample.tokens)

    asyncio.run(run())


def test_a_dead_node_is_named_and_the_others_go_on(tmp_path):
    cluster = Cluster(tmp_path)
    try:
        with cluster.connect(timeout=10, patience=1) as client:
            placed = documents_of_both(client)
            dead = cluster.nodes["a"].address
            cluster.nodes.pop("a").kill()
            with pytest.raises(quire.Unavailable):
                client.stat(placed[dead].name)
            (alive,) = set(placed) - {dead}
            assert client.stat(placed[alive].name).context.num_tokens == len(placed[alive].tokens)
        # It is found again by any address that answers.
        with cluster.connect(timeout=10, patience=1) as client:
            assert client.get_document(placed[alive].name).chain_tip == placed[alive].document.chain_tip
    finally:
        cluster.close()
