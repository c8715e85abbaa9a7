# SPDX-License-Identifier: Apache-2.0
"""Sessions and recalls: what comes, where it lies, and for how long."""

import asyncio
import gc
import mmap
import re

import numpy
import pytest
from conftest import put_document, random_units, small_spec

import quire


def arena_mappings():
    """Address ranges of the server's memory in this process."""
    with open("/proc/self/maps") as maps:
        lines = [line for line in maps if "quire-arena" in line]
    return [tuple(int(end, 16) for end in re.match(r"(\w+)-(\w+)", line).groups()) for line in lines]


def anonymous_bytes():
    """Memory of this process alone; the server's is shared."""
    with open("/proc/self/status") as status:
        return 1024 * int(re.search(r"RssAnon:\s+(\d+)", status.read())[1])


def check_units(sample, recall):
    assert len(recall.units) == len(recall.placements)
    for unit, place in zip(recall.units, recall.placements):
        numpy.testing.assert_array_equal(numpy.asarray(unit), sample.unit(place.layer, place.head, place.page))
    assert recall.valid


@pytest.mark.parametrize("transport", ["auto", "shm", "grpc", "control"])
def test_a_recall_brings_what_is_missing(server, sample, transport):
    with server.connect(transport) as client, client.open_session(sample.name, slots_per_head=4) as session:
        recall = session.recall(quire.Want(layer=1, pages=[[1, 7], [2, 3]]))
        assert [(p.head, p.page) for p in recall.placements] == [(0, 1), (0, 7), (1, 2), (1, 3)]
        check_units(sample, recall)
        recall.applied()
        again = session.recall(quire.Want(layer=1, pages=[[1, 8], [2, 3]]))
        assert [(p.head, p.page) for p in again.placements] == [(0, 8)]
        check_units(sample, again)
        again.applied()
        assert set(session.resident_pages(1)[0]) == {1, 7, 8, -1}


def test_units_of_shared_memory_are_not_copied(server):
    spec = small_spec(model="zero-copy", num_layers=4, num_kv_heads=4, head_dim=128)
    with server.connect("shm") as client:
        sample = put_document(client, spec, pages=64, tail=0)
        payload = sample.units.nbytes
        assert payload == 64 << 18
        with client.open_session(sample.name, slots_per_head=64) as session:
            session.recall(quire.Want(layer=0, pages=[0])).release()
            gc.collect()
            before = anonymous_bytes()
            recall = session.recall(quire.Want(layer=0, num_layers=4, pages=range(64)))
            arrays = [numpy.asarray(unit) for unit in recall.units]
            assert sum(a.nbytes for a in arrays) >= payload - (1 << 16)
            assert anonymous_bytes() - before < payload // 8
            for array in arrays:
                address = array.__array_interface__["data"][0]
                assert any(begin <= address and address + array.nbytes <= end for begin, end in arena_mappings())
            check_units(sample, recall)
            # The measure sees a copy.
            before = anonymous_bytes()
            with mmap.mmap(-1, payload, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as copy:
                recall.units.copy_to(copy)
                assert anonymous_bytes() - before > payload // 2
        client.delete_document(sample.name)


def test_an_array_keeps_the_lease_of_its_unit(server, sample):
    with server.connect("shm") as client:
        session = client.open_session(sample.name, slots_per_head=4)
        recall = session.recall(quire.Want(layer=0, pages=[4, 5]))
        unit = recall.units[1]
        view = memoryview(unit)
        assert view.readonly and view.shape == sample.spec.unit_shape and view.format == "e"
        assert 0 < recall.valid_for <= 60
        recall.renew()
        recall.release()
        with pytest.raises(quire.FailedPrecondition):
            recall.units
        session.close()
        del recall, session
    assert unit.valid
    numpy.testing.assert_array_equal(numpy.asarray(view), sample.unit(0, 0, 5))


def test_owned_units_are_copies(server, sample):
    with server.connect("shm") as client, client.open_session(sample.name, slots_per_head=4) as session:
        recall = session.recall(quire.Want(layer=0, pages=[4, 5]))
        recall.own()
        assert recall.valid_for == float("inf")
        assert not any(begin <= recall.units[0].address < end for begin, end in arena_mappings())
        check_units(sample, recall)


def test_units_are_written_into_their_slots(client, sample):
    spec = sample.spec
    with client.open_session(sample.name, slots_per_head=3, layers=[0, 2]) as session:
        cache = numpy.zeros((2, spec.num_kv_heads, 3, *spec.unit_shape), numpy.float16)
        recall = session.recall(
            [quire.Want(layer=0, pages=[0, 5, 9]), quire.Want(layer=2, pages=[1, 2, 12])], into=cache
        )
        assert recall.nbytes == 0 and len(recall.placements) == 12
        session.recall(quire.Want(layer=2, pages=[1, 2, 3]), into=cache)
        for row, layer in enumerate(session.layers):
            for head, pages in enumerate(session.resident_pages(layer)):
                for slot, page in enumerate(pages):
                    numpy.testing.assert_array_equal(cache[row, head, slot], sample.unit(layer, head, page))


def test_a_batch_has_an_array_for_each_sequence(client, sample):
    other = put_document(client, sample.spec)
    shape = (3, 2, 2, *sample.spec.unit_shape)
    with client.open_session([sample.name, other.name], slots_per_head=2) as session:
        arrays = [numpy.zeros(shape, numpy.float16) for _ in range(2)]
        session.recall([quire.Want(1, [3], sequence=0), quire.Want(1, [3], sequence=1)], into=arrays)
        for array, put in zip(arrays, [sample, other]):
            slot = session.resident_pages(1)[0].index(3)
            numpy.testing.assert_array_equal(array[1, 0, slot], put.unit(1, 0, 3))
        assert session.add_sequence(quire.SessionSequence([sample.name, other.name], offsets=[0, 416])) == 2
        assert [c.num_tokens for c in session.contexts(2)] == [len(sample.tokens), len(other.tokens)]
        session.remove_sequence(2)
        with pytest.raises(quire.InvalidArgument):
            session.contexts(2)


def test_parts_come_in_the_order_asked(client, sample):
    with client.open_session(sample.name, slots_per_head=4) as session:
        pending = session.start([quire.Want(2, [1, 2]), quire.Want(0, [3])])
        layers = []
        for part in pending:
            check_units(sample, part)
            layers += [lane.layer for lane in part.lanes]
            part.applied()
        assert layers == [2, 0]
        assert pending.next() is None
        session.start(quire.Want(1, [1])).cancel()
        check_units(sample, session.recall(quire.Want(1, [1])))


def test_the_server_selects_by_queries(client, sample):
    queries = numpy.random.default_rng(1).standard_normal((1, 4, 32), numpy.float32)
    with client.open_session(sample.name, slots_per_head=4, hold_digests="min_max") as session:
        recall = session.recall(quire.Want.by_query(1, queries, num_pages=3))
        selected = recall.lanes[0].selected
        assert [len(pages) for pages in selected] == [3, 3]
        assert [p.page for p in recall.placements] == [page for pages in selected for page in pages]
        check_units(sample, recall)
        recall.applied()
        some = session.recall(quire.Want.by_query(1, queries, 1, candidates=[(0, 2, 4)]))
        assert all(2 <= pages[0] < 4 for pages in some.lanes[0].selected)


def test_held_pages_are_placed_and_not_sent(client, sample):
    with client.open_session(sample.name, slots_per_head=4) as session:
        recall = session.recall(quire.Want(0, [2, 6], held=[6]))
        assert recall.held == [1, 3]
        assert len(recall.placements) == 4 and len(recall.units) == 2
        numpy.testing.assert_array_equal(numpy.asarray(recall.units[1]), sample.unit(0, 1, 2))


def test_values_alone(client, sample):
    with client.open_session(sample.name, slots_per_head=4, part="values") as session:
        unit = session.recall(quire.Want(0, [3])).units[0]
        numpy.testing.assert_array_equal(numpy.asarray(unit), sample.unit(0, 0, 3)[1])


def test_units_of_a_codec_come_encoded_where_that_is_asked(client):
    client.set_collection("eights", codec="int8")
    spec = small_spec(model="coded")
    units = random_units(spec, 8, spec.num_layers, spec.num_kv_heads)
    name = quire.DocumentName("coded", "eights")
    client.put(name, spec, range(8 * spec.page_tokens), units)
    with client.open_session(name, slots_per_head=2, codecs=["int8"]) as session:
        unit = session.recall(quire.Want(0, [3])).units[0]
        assert unit.codec == "int8" and unit.dtype == "u8" and unit.nbytes < spec.unit_bytes
    with client.open_session(name, slots_per_head=2) as session:
        unit = session.recall(quire.Want(0, [3])).units[0]
        assert unit.codec == "raw"
        numpy.testing.assert_allclose(numpy.asarray(unit, numpy.float32), units[3, 0, 0], atol=0.05)


@pytest.mark.parametrize("dtype", ["f16", "f32", "bf16"])
def test_units_of_every_type_are_dlpack_tensors(client, dtype):
    spec = small_spec(model=dtype, dtype=dtype)
    sample = put_document(client, spec, pages=8, tail=0)
    with client.open_session(sample.name, slots_per_head=2) as session:
        unit = session.recall(quire.Want(2, [6])).units[1]
        assert unit.dtype == dtype and unit.shape == spec.unit_shape
        numpy.testing.assert_array_equal(numpy.asarray(unit), sample.unit(2, 1, 6))
        assert unit.__dlpack_device__() == (1, 0)
        if dtype != "bf16":  # numpy lacks it.
            tensor = numpy.from_dlpack(unit)
            assert tensor.ctypes.data == unit.address and not tensor.flags.writeable
            numpy.testing.assert_array_equal(tensor, sample.unit(2, 1, 6))


def test_torch_reads_units_and_is_written_into(client, sample):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    with client.open_session(sample.name, slots_per_head=2) as session:
        unit = session.recall(quire.Want(2, [6])).units[1]
        tensor = torch.from_dlpack(unit)
        assert tensor.data_ptr() == unit.address
        numpy.testing.assert_array_equal(tensor.numpy(), sample.unit(2, 1, 6))
        cache = torch.zeros((3, 2, 2, *sample.spec.unit_shape), dtype=torch.float16)
        session.recall(quire.Want(0, [6]), into=cache)
        slot = session.resident_pages(0)[1].index(6)
        numpy.testing.assert_array_equal(cache[0, 1, slot].numpy(), sample.unit(0, 1, 6))


def test_methods_can_be_awaited(server, sample):
    async def ask():
        from quire import aio

        async with await aio.connect(server.address) as client:
            document, stat = await asyncio.gather(client.get_document(sample.name), client.stat(sample.name))
            assert document.num_tokens == stat.context.num_tokens
            assert sample.name in [d.name.name async for d in client.list_documents()]
            async with await client.open_session(sample.name, slots_per_head=4) as session:
                check_units(sample, await session.recall(quire.Want(0, [2])))
                pending = await session.start([quire.Want(1, [1]), quire.Want(2, [2])])
                assert [lane.layer async for part in pending for lane in part.lanes] == [1, 2]
            # A call that waits does not hold up the loop.
            before = (await client.events(from_now=True)).position
            waiting = asyncio.create_task(anext(client.watch(before, wait=20)))
            await client.register_document("awaited", sample.document.chain_tip)
            assert (await waiting).document.name == "awaited"
            with pytest.raises(quire.NotFound):
                await client.get_document("no such document")

    asyncio.run(asyncio.wait_for(ask(), 60))
