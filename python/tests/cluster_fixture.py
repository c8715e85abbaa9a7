# SPDX-License-Identifier: Apache-2.0
"""A cluster of the tests: a real etcd, and servers that are children of this process."""

import contextlib
import pathlib
import socket
import subprocess
import urllib.error
import urllib.request

import pytest
from conftest import until

import quire
from quire import carried, programs

ETCD = pathlib.Path("/usr/bin/etcd")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Etcd:
    def __init__(self, folder):
        if not ETCD.exists():
            pytest.skip("there is no /usr/bin/etcd; install Debian's etcd-server")
        self.address, peer = (f"127.0.0.1:{free_port()}" for _ in range(2))
        client_url, peer_url = f"http://{self.address}", f"http://{peer}"
        arguments = {
            "data-dir": folder / "etcd",
            "name": "test",
            "listen-client-urls": client_url,
            "advertise-client-urls": client_url,
            "listen-peer-urls": peer_url,
            "initial-advertise-peer-urls": peer_url,
            "initial-cluster": f"test={peer_url}",
            "log-outputs": folder / "etcd.log",
        }
        command = [str(ETCD), "--logger", "zap", *(f"--{name}={value}" for name, value in arguments.items())]
        self._process = subprocess.Popen(command)
        until(self._healthy)

    def _healthy(self):
        assert self._process.poll() is None, "etcd has ended"
        with contextlib.suppress(urllib.error.URLError):
            return b"true" in urllib.request.urlopen(f"http://{self.address}/health", timeout=5).read()

    def close(self):
        self._process.kill()
        self._process.wait()


class Node:
    """A server of the cluster, on a port of its own."""

    def __init__(self, folder, name, etcd):
        folder.mkdir()
        command = [programs.find("quired"), "--data-dir", str(folder / "data"), "--listen", "127.0.0.1:0"]
        command += ["--shm-socket", str(folder / "shm"), "--dram-bytes", "64MiB", "--ssd-bytes", "64MiB"]
        command += ["--cluster", "test", "--etcd", etcd, "--node", name]
        with open(folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, env=carried.environment()
            )
        line = self._process.stdout.readline().decode()
        assert line.startswith("quired listening on "), (folder / "log").read_text()
        self.address = line.removeprefix("quired listening on ").strip()

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


class Cluster:
    """Two servers, `a` and `b`, with one copy of each document."""

    def __init__(self, folder):
        self._etcd = Etcd(folder)
        self.nodes = {}
        try:
            for name in ("a", "b"):
                self.nodes[name] = Node(folder / name, name, self._etcd.address)
            self.addresses = [node.address for node in self.nodes.values()]
            until(lambda: self._members() == set(self.addresses))
        except BaseException:
            self.close()
            raise

    def _members(self):
        with contextlib.suppress(quire.Unavailable), self.connect() as client:
            return set(client.nodes())

    def connect(self, transport="auto", **options):
        return quire.Client(self.addresses, transport, **options)

    def close(self):
        for node in self.nodes.values():
            node.kill()
        self._etcd.close()
