# SPDX-License-Identifier: Apache-2.0
"""Bulk ingest on a real Ray of two nodes, one of which is killed."""

import contextlib
import os
import pathlib
import shutil
import signal
import tempfile
import time

import pytest
from test_ingest import text_of

import quire
import quire.ray

ray = pytest.importorskip("ray", reason="Ray is not installed; ./dev test engines does that")

DOCUMENTS = 16


@pytest.fixture
def folder(monkeypatch):
    """Short, for sockets. Ray and its actors keep all their files in it."""
    made = pathlib.Path(tempfile.mkdtemp(prefix="qray-"))
    for name in ("TMPDIR", "RAY_TMPDIR", "HOME"):  # Ray keeps a token of its own at home.
        monkeypatch.setenv(name, str(made))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def cluster(folder):
    from ray.cluster_utils import Cluster

    quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 3}
    node = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80 << 20, "_system_config": quick}
    made = Cluster(initialize_head=True, head_node_args=node)
    try:
        made.second = made.add_node(num_cpus=1, object_store_memory=80 << 20)
        ray.init(address=made.address, log_to_driver=False)
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


def await_true(what, said):
    until = time.monotonic() + 90
    while not what():
        assert time.monotonic() < until, said
        time.sleep(0.05)


def descendants(pid):
    """Processes below one, and the names of their programs."""
    parents, names = {}, {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            number, rest = stat.read_text().split(" (", 1)
            name, fields = rest.rsplit(") ", 1)
            if fields[0] != "Z":
                parents[int(number)], names[int(number)] = int(fields.split()[1]), name
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return {child: names[child] for child in found - {pid}}


def kill_node(node):
    """As the end of a host, except that what Quire has started has to end by itself."""
    raylet = node.all_processes["raylet"][0].process.pid
    below = descendants(raylet)
    quires = [pid for pid, name in below.items() if name == "quire"]
    assert len(quires) >= 2, below  # The worker, and a document at the least.
    for pid in [raylet, *(set(below) - set(quires))]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    await_true(lambda: not any(pathlib.Path(f"/proc/{pid}/exe").exists() for pid in quires), "a worker has stayed")


def test_every_document_is_registered_once_on_ray_when_a_node_is_killed(cluster, folder):
    broken = folder / "broken.txt"
    broken.write_bytes(b"text\xff")

    def started():
        return len(list(folder.glob("quire-ray-*/1.sock")))

    def rows(kill):
        for number in range(DOCUMENTS):
            if kill and number == 6:
                # Rows behind this one go to both nodes.
                await_true(lambda: started() == 2, "workers did not start")
            if kill and number == 12:
                kill_node(cluster.second)
            yield {"name": f"d{number}", "text": text_of(number, 3000), "tags": {"number": number}}
        yield {"name": "d3", "text": "Again."}
        yield {"name": "broken", "path": broken}

    seen = []

    def watch(now):
        if now.lost_workers and started() == 2:  # One was on each node, and the other reads on.
            cluster.add_node(num_cpus=1, object_store_memory=80 << 20)
            await_true(lambda: started() == 3, "no worker has taken the place of the lost one")
        seen.append(str(now))

    with quire.embedded(folder / "store", dram_bytes="256MiB", arguments=["--idle-seconds", "3"]) as server:
        options = {"server": server.address, "collection": "ray", "jobs": 2}
        report = quire.ray.ingest(rows(kill=True), **options, progress=watch)
        print(report)
        assert report.added + report.unchanged == DOCUMENTS and report.lost_workers >= 1 and report.retried >= 1
        refused = {(one.row, one.name, one.code) for one in report.refused}
        assert refused == {(DOCUMENTS, "d3", "INVALID_ARGUMENT"), (DOCUMENTS + 1, "broken", "INVALID_ARGUMENT")}
        assert len(seen) >= 2 and seen[-1] == str(report)

        with server.connect() as client:
            ready = list(client.list_documents("ray", "state=ready"))
            assert sorted(one.name.name for one in ready) == sorted(f"d{number}" for number in range(DOCUMENTS))
            assert all(one.is_latest and one.tags["number"] == int(one.name.name[1:]) for one in ready)
            assert not list(client.list_documents("ray", "state=ingesting"))

        again = quire.ray.ingest(rows(kill=False), **options, workers=1)
        assert (again.added, again.unchanged, again.bytes_sent) == (0, DOCUMENTS, 0)

        with pytest.raises(quire.FailedPrecondition, match="none of 2 hosts"):
            quire.ray.ingest(rows(kill=False), **options, ray_options={"num_gpus": 1})
        with pytest.raises(quire.Error, match="no-such-model") as caught:
            quire.ray.ingest(rows(kill=False), **options, workers=1, model=folder / "no-such-model", retries=1)
        assert any("goes on from here" in note for note in caught.value.__notes__)
