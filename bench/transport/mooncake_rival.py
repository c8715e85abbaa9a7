#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One side of a Mooncake Store over TCP: a store that holds units, or a reader of random ones of
them with batch_get_into, to random places. The reader prints a JSON line with its version when it is
ready. Lines of the file --turns tell it what to do, and a JSON line with the seconds that each time
took answers each:
  read UNITS COUNT   reads random units, so many times
  put FIRST UNITS    stores new units, numbered from FIRST on
  remove FIRST UNITS
The first 8 bytes of unit i are i, and the reader checks them."""

import argparse
import contextlib
import ctypes
import json
import mmap
import pathlib
import random
import sys
import threading
import time
from importlib import metadata

from mooncake.store import MooncakeDistributedStore

PACKAGE = "mooncake-transfer-engine-non-cuda"
BATCH = 256
NOT_FOUND = -704


def connect(options, segment_bytes, num_units):
    store = MooncakeDistributedStore()
    code = store.setup(f"127.0.0.1:{options.port}", "P2PHANDSHAKE", segment_bytes, 256 << 20, "tcp", "",
                       f"127.0.0.1:{options.master}")
    if code != 0:
        sys.exit(f"setup failed: {code}")
    # Large pages, as the compared programs have; smaller ones work as well.
    memory = mmap.mmap(-1, options.unit_bytes * num_units, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if store.register_buffer(address, len(memory)) != 0:
        sys.exit("the buffer cannot be registered")
    return store, memory, address


def batches(units):
    return (units[i:i + BATCH] for i in range(0, len(units), BATCH))


def run_store(options):
    store, memory, address = connect(options, 2 * options.unit_bytes * options.units, options.units)
    for unit in range(options.units):
        at = unit * options.unit_bytes
        memory[at:at + 8] = unit.to_bytes(8, "little")
    for units in batches(range(options.units)):
        codes = store.batch_put_from([f"u{unit}" for unit in units],
                                     [address + unit * options.unit_bytes for unit in units],
                                     [options.unit_bytes] * len(units))
        if any(codes):
            sys.exit(f"put failed: {codes}")
    pathlib.Path(options.ready).touch()
    threading.Event().wait()


def read_all(store, memory, address, size, order, places):
    work = [([f"u{unit}" for unit in units], [address + place * size for place in targets],
             [size] * len(units)) for units, targets in zip(batches(order), batches(places))]
    start = time.perf_counter()
    for keys, targets, sizes in work:
        if store.batch_get_into(keys, targets, sizes) != sizes:
            sys.exit("a unit could not be read")
    seconds = time.perf_counter() - start
    for unit, place in zip(order, places):
        if int.from_bytes(memory[place * size:place * size + 8], "little") != unit:
            sys.exit(f"unit {unit} was read wrong")
    return seconds


def put_all(store, memory, address, size, first, count):
    work = []
    for places in batches(range(count)):
        for place in places:
            memory[place * size:place * size + 8] = (first + place).to_bytes(8, "little")
        work.append(([f"u{first + place}" for place in places], [address + place * size for place in places],
                     [size] * len(places)))
    start = time.perf_counter()
    for keys, sources, sizes in work:
        codes = store.batch_put_from(keys, sources, sizes)
        if any(codes):
            sys.exit(f"put failed: {codes}")
    return time.perf_counter() - start


def remove_all(store, first, count):
    for unit in range(first, first + count):
        code = store.remove(f"u{unit}")
        if code not in (0, NOT_FOUND):
            sys.exit(f"unit {unit} could not be removed: {code}")


def run_reader(options):
    store, memory, address = connect(options, 0, options.units_per_read)
    generator = random.Random(1)

    def read(units):
        order = generator.sample(range(options.units), units)
        places = generator.sample(range(options.units_per_read), units)
        return read_all(store, memory, address, options.unit_bytes, order, places)

    def answer(word, first, second):
        if word == "read":
            return [read(first) for _ in range(second)]
        if word == "put":
            return [put_all(store, memory, address, options.unit_bytes, first, second)]
        remove_all(store, first, second)
        return []

    read(options.units_per_read)  # Warms up.
    print(json.dumps({"version": metadata.version(PACKAGE)}), flush=True)
    with open(options.turns, encoding="ascii") as turns:
        for line in turns:
            word, *numbers = line.split()
            print(json.dumps({"seconds": answer(word, *map(int, numbers))}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=["store", "reader"])
    parser.add_argument("--port", type=int, required=True, help="of this side")
    parser.add_argument("--master", type=int, required=True, help="port of mooncake_master")
    parser.add_argument("--unit-bytes", type=int, required=True)
    parser.add_argument("--units", type=int, required=True, help="that are stored")
    parser.add_argument("--units-per-read", type=int, required=True)
    parser.add_argument("--turns", help="file, a pipe, that tells the reader when to read")
    parser.add_argument("--ready", help="file that the store makes when it is filled")
    options = parser.parse_args()
    (run_store if options.role == "store" else run_reader)(options)


if __name__ == "__main__":
    main()
