# SPDX-License-Identifier: Apache-2.0
"""A server of the tests, and documents with random units."""

import ast
import dataclasses
import itertools
import json
import os
import pathlib
import random
import time

import numpy
import pytest

import quire

SEED = int(os.environ.get("QUIRE_SEED", random.randrange(1 << 31)))
_NUMBERS = itertools.count()


def pytest_addoption(parser):
    parser.addoption("--recalls", type=int, default=0, help="recalls of the leak test; 0: those of 5 s")


def pytest_report_header():
    return f"seed: QUIRE_SEED={SEED}"


def recorded(engine):
    """What tools/engines_demo/record.py has recorded of an engine, by name."""
    file = pathlib.Path(__file__).parent / f"data/{engine}_interface.json"
    return json.loads(file.read_text())["members"]


def own_methods(file, class_name, engine, more=()):
    """Checks that a class in `file` overrides what the engine's base class has. Returns its other public names.

    `more`: arguments of its constructor that the base class lacks.
    """
    base = recorded(engine)
    (ours,) = [
        node
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == class_name
    ]
    overrides = {node.name: node for node in ours.body if isinstance(node, ast.FunctionDef)}
    for name, node in overrides.items():
        if name not in base:
            continue
        arguments = [argument.arg for argument in node.args.posonlyargs + node.args.args]
        if node.args.kwarg is not None:
            arguments.append(node.args.kwarg.arg)
        assert arguments == base[name]["parameters"] + (list(more) if name == "__init__" else []), name
        kinds = [decorator.id for decorator in node.decorator_list if isinstance(decorator, ast.Name)]
        assert (kinds or ["method"]) == [base[name]["kind"]], name
    assert not [name for name, member in base.items() if member["abstract"] and name not in overrides]
    return {name for name in overrides if not name.startswith("_") and name not in base}


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


def until(call, seconds=20):
    """Calls until the answer is true: a server that came back is found by the next attempt to connect."""
    deadline = time.monotonic() + seconds
    while not (answer := call()):
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.01)
    return answer


class Restartable:
    """A server at one address, a link to the socket of the process that runs."""

    def __init__(self, folder):
        self._folder, self._server = folder, None
        self.address = f"unix:{folder}/s"
        self.restart()

    def restart(self):
        self._server = quire.embedded(self._folder / "data", dram_bytes="64MiB")
        link = self._folder / "s"
        link.unlink(missing_ok=True)
        link.symlink_to(self._server.address.removeprefix("unix:"))

    def kill(self):
        self._server.kill()

    def close(self):
        self._server.close()


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


@pytest.fixture
def restartable(tmp_path):
    server = Restartable(tmp_path)
    yield server
    server.close()
