# SPDX-License-Identifier: Apache-2.0
"""What a caller selects pages by: digests and scores."""

import numpy
import pytest
from conftest import SEED, put_document, small_spec

import quire


@pytest.fixture
def plain(client):
    """A document whose keys have no rotation to speak of, so that scores can be computed here."""
    return put_document(client, small_spec(model="selected", dtype="f32", rope=quire.RopeSpec(rotary_dim=0)))


def keys_of(sample):
    """[pages][layers][n_kv][tokens][channels]"""
    return sample.units[:, :, :, 0].astype(numpy.float64)


def test_digests_are_those_of_the_keys(client, sample):
    with client.open_session(sample.name, slots_per_head=2) as session:
        keys = keys_of(sample)[2:7].transpose(1, 0, 2, 3, 4)[[0, 2]]  # [layers][pages][n_kv][tokens][channels]
        for kind, wanted in [
            ("min_max", numpy.concatenate([keys.min(axis=3), keys.max(axis=3)], axis=-1)),
            ("mean", keys.mean(axis=3)),
        ]:
            got = numpy.frombuffer(session.digests([0, 2], 2, 7, kind=kind), numpy.float16)
            numpy.testing.assert_allclose(got.reshape(wanted.shape), wanted, atol=2e-3)
        for wrong in ([9], 2, 7), ([0], 7, 2):
            with pytest.raises(quire.InvalidArgument):
                session.digests(*wrong)
        with pytest.raises(quire.InvalidArgument, match="digest 'most' is unknown"):
            session.digests([0], 0, 1, kind="most")


def test_pages_are_scored_by_their_content(client, plain):
    other = put_document(client, plain.spec)
    queries = numpy.random.default_rng(SEED).standard_normal((2, 2, 2, 32)).astype(numpy.float32)
    with client.open_session((plain.name, other.name), slots_per_head=2) as session:
        ranges = [(0, 1, 4), (1, 6, 11)]
        scores = session.score_pages([0, 2], queries, ranges)
        for sample, query, (_, first, end), got in zip((plain, other), queries, ranges, scores):
            means = keys_of(sample).mean(axis=3)[first:end][:, [0, 2]]  # [pages][layers][n_kv][channels]
            wanted = numpy.einsum("plhc,lhc->lp", means, query)
            numpy.testing.assert_allclose(numpy.asarray(got), wanted, rtol=1e-3, atol=1e-3)
    with client.open_session(plain.name, slots_per_head=2) as session:
        (whole,) = session.score_pages([1], queries[:1, :1])
        assert whole.shape == (1, 12)
        with pytest.raises(quire.InvalidArgument):
            session.score_pages([1], queries)


def test_a_landing_brings_the_same_units(server, sample):
    """No machine of the tests has RDMA: a landing is registered, and the server says that it does not write there."""
    with server.connect("ucx-direct") as client, client.open_session(sample.name, slots_per_head=4) as session:
        assert client.transport == session.transport == "ucx"
        landing = session.landing()
        assert len(landing.memory) == 3 * 2 * 4 * sample.spec.unit_bytes
        assert not session.lands_directly and not landing.direct
        recall = session.recall(quire.Want(layer=1, pages=[1, 7]), landing=landing)
        assert recall.landed_bytes == 0 and len(recall.placements) == 4
        for unit, place in zip(recall.units, recall.placements):
            numpy.testing.assert_array_equal(numpy.asarray(unit), sample.unit(1, place.head, place.page))
        recall.applied()
        pending = session.start(quire.Want(layer=2, pages=[3]), landing=landing)
        memory = landing.memory
        del landing  # The recall keeps it, and a view its bytes.
        (part,) = pending
        assert [place.page for place in part.placements] == [3, 3] and len(bytes(memory)) > 0
        with client.open_session(sample.name, slots_per_head=4) as other:
            with pytest.raises(quire.InvalidArgument, match="another session"):
                session.recall(quire.Want(0, [1]), landing=other.landing())
        with pytest.raises(quire.InvalidArgument, match="0 sequences"):
            session.landing(0)
