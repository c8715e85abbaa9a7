# SPDX-License-Identifier: Apache-2.0
"""Objects: opaque bytes under keys."""

import asyncio
import concurrent.futures
import random
import threading

import numpy
import pytest
from conftest import SEED
from test_recall import anonymous_bytes, arena_mappings

import quire
from quire import aio

MIB = 1 << 20


def some_bytes(count, seed=0):
    return numpy.random.default_rng(SEED + seed).bytes(count)


@pytest.fixture(params=["shm", "control"])
def objects(request, server):
    """A client by each way; keys of the tests differ by it."""
    with server.connect(request.param) as connected:
        yield connected, request.param


def test_an_object_is_put_read_and_deleted(objects):
    client, way = objects
    for size in (1, 1000, 70_001, 9 * MIB + 5):
        key, value = f"{way}-{size}", some_bytes(size, size)
        assert not client.object_exists(key)
        assert not client.put_object(key, value).existed
        assert client.put_object(key, value).existed
        read = client.get_object(key)
        assert (len(read), read.nbytes, read.object_nbytes) == (size, size, size)
        assert memoryview(read) == value and bytes(read) == value and read.valid
        assert bytes(client.get_object(key.encode(), size // 2)) == value[size // 2 :]
        assert bytes(client.get_object(key, size // 3, 1)) == value[size // 3 : size // 3 + 1]
        target = numpy.zeros(size + 3, numpy.uint8)
        assert client.get_object(key, into=target) == size
        assert target.tobytes() == value + bytes(3)
        assert client.stat_objects([key, "nobody"]) == [size, None]
        assert client.delete_objects([key, "nobody"]) == [True, False]
        assert client.get_object(key) is None and client.get_object(key, into=target) is None


def test_the_first_bytes_stand(objects):
    client, way = objects
    key = f"{way}-first"
    client.put_object(key, b"first", durability="persisted")
    reply = client.put_object(key, b"second")
    assert reply.existed and reply.differs
    with pytest.raises(quire.AlreadyExists):
        client.put_object(key, b"second", strict=True)
    assert bytes(client.get_object(key)) == b"first"


def test_many_objects_go_in_few_calls(objects):
    client, way = objects
    values = {f"{way}-many-{i}": some_bytes(1000 + i, i) for i in range(5000)}
    assert not any(reply.existed for reply in client.put_objects(list(values.items())))
    read = client.get_objects(list(values))
    assert [bytes(value) for value in read] == list(values.values())
    assert client.stat_objects(list(values)) == [len(value) for value in values.values()]
    assert all(client.delete_objects(list(values)))


def test_an_object_over_shared_memory_is_not_copied(server):
    with server.connect("shm") as client:
        value = numpy.frombuffer(some_bytes(4 * MIB, 1), numpy.uint8)
        client.put_object("in-place", value)
        first = client.get_object("in-place")  # What the process needs once is there after this.
        before = anonymous_bytes()
        read = [client.get_object("in-place") for _ in range(8)]
        views = [numpy.asarray(part) for part in read]
        assert anonymous_bytes() - before < MIB  # None of 32 MiB.
        assert first.in_place and all(part.in_place for part in read)
        address = views[0].__array_interface__["data"][0]
        assert any(begin <= address < end for begin, end in arena_mappings())
        assert not views[0].flags.writeable
        client.delete_object("in-place")
        numpy.testing.assert_array_equal(views[7], value)  # The lease keeps it.
        assert read[7].valid
        read[7].renew()


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda c: c.put_object("a", b""), "0 bytes"),
        (lambda c: c.put_object("a", numpy.zeros(64 * MIB, numpy.uint8)), "a message of"),
        (lambda c: c.put_object("", b"x"), "key of 0 bytes"),
        (lambda c: c.put_object("k" * 1025, b"x"), "key of 1025 bytes"),
        (lambda c: c.put_object("a", numpy.zeros((8, 8))[:, ::2]), "not contiguous"),
        (lambda c: c.put_object("a", "text"), "give an array"),
        (lambda c: c.put_object(7, b"x"), "text or bytes"),
        (lambda c: c.put_objects(["a"]), "a tuple of a key and its bytes"),
        (lambda c: c.get_object("known", 5), "offset 5 is not inside"),
        (lambda c: c.get_object("known", 0, 0), "1 byte or more"),
        (lambda c: c.get_object("known", -1), "whole numbers"),
        (lambda c: c.get_object("known", into=b"1234567"), "read-only"),
        (lambda c: c.get_object("known", into=bytearray(0)), "1 byte or more"),
        (lambda c: c.get_object("known", 0, 5, into=bytearray(4)), "4 bytes for 5 bytes"),
        (lambda c: c.get_objects_into(["known"], []), "give one for each"),
    ],
)
def test_what_cannot_be_is_refused(client, call, words):
    client.put_object("known", b"known")
    with pytest.raises(quire.InvalidArgument, match=words):
        call(client)
    assert bytes(client.get_object("known")) == b"known"


def test_threads_lose_nothing(client):
    def work(number):
        chance = random.Random(SEED + number)
        for turn in range(20):
            key, value = f"thread-{number}-{turn}", some_bytes(chance.randrange(1, 300_000), number)
            client.put_object(key, value)
            assert bytes(client.get_object(key)) == value
            assert client.delete_object(key)
        return threading.get_ident()

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert len(list(pool.map(work, range(8)))) == 8


def test_objects_are_awaited(server):
    async def run():
        async with await aio.connect(server.address) as client:
            await asyncio.gather(*(client.put_object(f"aio-{i}", some_bytes(1000, i)) for i in range(8)))
            read = await client.get_objects([f"aio-{i}" for i in range(8)])
            assert [bytes(value) for value in read] == [some_bytes(1000, i) for i in range(8)]

    asyncio.run(run())
