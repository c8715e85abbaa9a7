# SPDX-License-Identifier: Apache-2.0
"""A server of the tests, and documents with random units."""

import dataclasses
import itertools
import os
import random

import numpy
import pytest

import quire

SEED = int(os.environ.get("QUIRE_SEED", random.randrange(1 << 31)))
_NUMBERS = itertools.count()


def pytest_addoption(parser):
    parser.addoption("--recalls", type=int, default=0, help="recalls of the leak test; 0: those of 5 s")


def pytest_report_header():
    return f"seed: QUIRE_SEED={SEED}"


@dataclasses.dataclass
class Sample:
    """A stored document and what was put."""

    name: str
    spec: quire.KvSpec
    tokens: list
    units: numpy.ndarray  # [pages][layers][n_kv][*unit], with a short last page.
    document: quire.Document

    def unit(self, layer, head, page):
        return self.units[page, layer, head]


def small_spec(**changes):
    fields = {"model": "small", "num_layers": 3, "num_query_heads": 4, "num_kv_heads": 2, "head_dim": 32}
    return quire.KvSpec(**{**fields, **changes})


def random_units(spec, *counts):
    """Units of finite numbers, in the type of the spec; bf16 as uint16."""
    values = numpy.random.default_rng(SEED + next(_NUMBERS)).standard_normal((*counts, *spec.unit_shape))
    if spec.dtype == "bf16":
        return (values.astype(numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16)
    return values.astype({"f32": numpy.float32, "f16": numpy.float16}[spec.dtype])


def put_document(client, spec=None, pages=12, tail=5, **options):
    spec = spec or small_spec()
    number = next(_NUMBERS)
    name = f"doc-{number}"
    tokens = [(SEED + number * 10007 + i) % 50000 for i in range(pages * spec.page_tokens + tail)]
    units = random_units(spec, pages + bool(tail), spec.num_layers, spec.num_kv_heads)
    if tail:
        units[-1, :, :, :, tail:] = 0
    document = client.put(
        name, spec, tokens, units[:pages], tail_units=units[-1] if tail else None, **options
    )
    return Sample(name, spec, tokens, units, document)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with quire.embedded(tmp_path_factory.mktemp("store"), dram_bytes="256MiB") as running:
        yield running


@pytest.fixture(scope="session")
def client(server):
    with server.connect() as connected:
        yield connected


@pytest.fixture(scope="session")
def sample(client):
    return put_document(client)
