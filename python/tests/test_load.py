# SPDX-License-Identifier: Apache-2.0
"""Many recalls leak nothing, and many threads lose nothing."""

import concurrent.futures
import gc
import random
import sys
import threading
import time

import numpy
from conftest import SEED, put_document, small_spec
from test_recall import anonymous_bytes

import quire


def test_recalls_leak_nothing(server, sample, request):
    wanted = request.config.getoption("--recalls")
    with server.connect("shm") as client, client.open_session(sample.name, slots_per_head=2) as session:
        wants = [quire.Want(0, [2 * i, 2 * i + 1]) for i in range(4)]
        cache = numpy.zeros((3, 2, 2, *sample.spec.unit_shape), numpy.float16)

        def recall(number):
            if number % 2:
                session.recall(wants[number % 4], into=cache)
            else:
                part = session.recall(wants[number % 4])
                views = [memoryview(unit) for unit in part.units]
                assert len(views) == 4
                part.applied()

        for number in range(2000):
            recall(number)
        gc.collect()
        memory, blocks = anonymous_bytes(), sys.getallocatedblocks()
        done, end = 0, time.monotonic() + 5
        while done < wanted or (not wanted and done < 100_000 and time.monotonic() < end):
            recall(done)
            done += 1
        gc.collect()
        grown, more = anonymous_bytes() - memory, sys.getallocatedblocks() - blocks
        print(f"{done} recalls, memory grew by {grown} bytes, {more} more blocks of Python")
        assert done >= 2000
        assert grown < 2 << 20  # Less than the units of a hundred recalls.
        assert more < 1000


def test_threads_with_sessions_of_their_own_lose_nothing(server):
    with server.connect() as client:

        def work(number):
            chance = random.Random(SEED + number)
            spec = small_spec(model=f"thread-{number}")
            put = put_document(client, spec, pages=10, tail=0)
            with client.open_session(put.name, slots_per_head=4) as session:
                for _ in range(40):
                    pages = sorted(chance.sample(range(10), 4))
                    recall = session.recall(quire.Want(chance.randrange(3), pages))
                    for unit, place in zip(recall.units, recall.placements):
                        expected = put.unit(place.layer, place.head, place.page)
                        numpy.testing.assert_array_equal(numpy.asarray(unit), expected)
                    assert recall.valid
                    recall.applied()
            return client.delete_document(put.name).documents

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert list(pool.map(work, range(8))) == [1] * 8


def test_threads_that_share_a_session_take_turns(client, sample):
    with client.open_session(sample.name, slots_per_head=4) as session:
        caches = numpy.zeros((3, 2, 4, *sample.spec.unit_shape), numpy.float16)

        def work(number):
            chance = random.Random(SEED + number)
            for _ in range(40):
                pages = sorted(chance.sample(range(12), 4))
                session.recall(quire.Want(number % 3, pages), into=caches)

        # A thread for each layer, since a cache belongs to one thread at a time.
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            list(pool.map(work, range(3)))
        for layer in session.layers:
            for head, pages in enumerate(session.resident_pages(layer)):
                for slot, page in enumerate(pages):
                    numpy.testing.assert_array_equal(caches[layer, head, slot], sample.unit(layer, head, page))


def test_a_call_that_waits_lets_other_threads_run(client, sample):
    position = client.events(from_now=True).position
    found = []
    waiting = threading.Thread(target=lambda: found.append(client.events(position, wait=20)))
    waiting.start()
    # With the interpreter's lock held this would run only when the other call has given up.
    client.register_document("unlocked", sample.document.chain_tip)
    waiting.join()
    assert [e.document.name for e in found[0].events] == ["unlocked"]
