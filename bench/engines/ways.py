# SPDX-License-Identifier: Apache-2.0
"""vLLM with some store behind it: none, those that it and others bring, and Quire."""

import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/engines_demo"))
import lmcache_chapters  # noqa: E402
import vllm_chapters  # noqa: E402
from demo_kit import Failed, Questions, Server, await_true, check, kill_session  # noqa: E402
from lmcache_chapters import free_port  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
ANSWER = 8  # Tokens.
STORED_IN = 60  # Seconds, at most.


class Way:
    """An engine with some store behind it. Both are killed and come back over the same folder."""

    forgets = True  # vLLM can empty its own cache with this connector.

    def __init__(self, options, name):
        self.build, self.name, self.engine_settings = options.build.resolve(), name, options.engine_settings
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"quire-bench-{name}-"))
        self.ends = contextlib.ExitStack()
        self.ends.callback(subprocess.run, ["rm", "-rf", self.folder])
        self.ends.callback(self.kill)
        self.engine = None
        self.asked = []  # Prompts whose prefixes the store should have.

    def start(self):
        """Starts store and engine."""
        self.start_store()
        self.start_engine()

    def start_store(self):
        """Starts what is no part of the engine."""

    def kill_store(self):
        """Kills it (SIGKILL)."""

    def transfer(self):
        """vLLM's kv_transfer_config; None: no connector."""
        return None

    def start_engine(self, **more):
        self.engine = vllm_chapters.Engine(self.build, self.folder, self.transfer(), **more, **self.engine_settings)

    def kill_engine(self):
        if self.engine is not None:
            self.engine.kill()
        self.engine = None

    def kill(self):
        """Kills every process (SIGKILL)."""
        self.kill_engine()
        self.kill_store()

    def forget(self):
        """Leaves the store alone with what was computed."""
        if self.forgets:
            await_true(lambda: self.engine("forget"), 20, "vLLM did not empty its cache: blocks are held")
        else:
            self.kill_engine()
            self.start_engine()

    def ask(self, prompts):
        """Answers of prompts that come at the same time."""
        self.asked += prompts
        return self.engine.ask(prompts, forget=False, max_tokens=ANSWER)

    def settle(self):
        """Waits until what was computed is stored."""

    def pieces(self, tokens):
        """How many pieces of so many tokens the store has, when it has all of what was asked."""
        return len({hash(tuple(p[:end])) for p in self.asked for end in range(tokens, len(p) + 1, tokens)})

    def close(self):
        self.ends.close()


class Example(Way):
    """vLLM's own example: files, written before a step ends."""

    def transfer(self):
        extra = {"shared_storage_path": str(self.folder / "files")}
        return {"kv_connector": "ExampleConnector", "kv_role": "kv_both", "kv_connector_extra_config": extra}


class LMCache(Way):
    """LMCache's server with its files, and no memory of its own."""

    forgets = False
    cache = None

    def start_store(self):
        check(lmcache_chapters.PYTHON.exists(), "LMCache is not in build/tools; ./dev test engines installs it")
        environment = lmcache_chapters.environment_of(self.build)
        self.cache = lmcache_chapters.CacheServer(self.folder, environment, self.adapter())

    def kill_store(self):
        if self.cache is not None:
            self.cache.kill()

    def adapter(self):
        return {"type": "fs", "base_path": str(self.folder / "files")}

    def transfer(self):
        return lmcache_chapters.transfer_to(self.cache)

    def start_engine(self):
        python, paths = lmcache_chapters.PYTHON, [lmcache_chapters.FIXES]
        super().start_engine(python=python, paths=paths, environment=lmcache_chapters.QUIET)

    def stored(self):
        return sum(file.is_file() and file.suffix == ".data" for file in (self.folder / "files").rglob("*"))

    def settle(self):
        wanted = self.pieces(lmcache_chapters.CHUNK)
        await_true(lambda: self.stored() >= wanted, STORED_IN, "of", wanted, "chunks not all were stored")


class QuireBehindLMCache(LMCache):
    """LMCache's server with Quire as its L2 adapter."""

    server = None

    def start_store(self):
        self.server = self.server or Server(self.build, self.folder)
        self.server.start()
        super().start_store()

    def kill_store(self):
        super().kill_store()
        if self.server is not None:
            self.server.kill()

    def adapter(self):
        plugin = {"type": "native_plugin", "module_path": "quire.lmcache", "class_name": "QuireL2"}
        return {**plugin, "adapter_params": {"address": self.server.address}}

    def stored(self):
        return self.server.ask("stat", "--counters")["counters"]["segments"]


class Mooncake(Way):
    """Mooncake's store by vLLM's own connector: its master, and a process that has the memory."""

    PYTHON = ROOT / "build/tools/mooncake/bin/python"
    processes = ()

    def start_store(self):
        check(self.PYTHON.exists(), "Mooncake is not in build/tools; ./dev test engines installs it")
        master, self.metrics, owner = free_port(), free_port(), free_port()
        self.processes = [
            self.run("mooncake_master", f"--rpc_port={master}", f"--metrics_port={self.metrics}")
        ]
        await_true(lambda: self.keys() is not None, 30, "mooncake_master did not start:", self.words())
        address = [f"--master_server_address=127.0.0.1:{master}", "--metadata_server=P2PHANDSHAKE"]
        self.processes.append(
            self.run("mooncake_client", *address, "--host=127.0.0.1", f"--port={owner}", "--global_segment_size=2GB")
        )
        await_true(lambda: self.metric("master_total_capacity_bytes"), 30, "no memory for Mooncake:", self.words())
        settings = {
            "mode": "standalone-store",
            "metadata_server": "P2PHANDSHAKE",
            "master_server_address": f"127.0.0.1:{master}",
            "protocol": "tcp",
            "global_segment_size": 0,
            "local_buffer_size": "512MB",
        }
        (self.folder / "mooncake.json").write_text(json.dumps(settings))

    def run(self, program, *arguments):
        with open(self.folder / "mooncake.log", "ab") as log:
            command = [self.PYTHON.with_name(program), *arguments]
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def kill_store(self):
        for process in self.processes:
            kill_session(process)

    def words(self):
        return (self.folder / "mooncake.log").read_text(errors="replace")[-2000:]

    def metric(self, name):
        """A number of mooncake_master; None while it does not answer."""
        check(all(process.poll() is None for process in self.processes), "Mooncake ended:", self.words())
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=5) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return None
        return next((float(line.split()[-1]) for line in lines if line.split()[0] == name), 0)

    def keys(self):
        return self.metric("master_key_count")

    def transfer(self):
        return {"kv_connector": "MooncakeStoreConnector", "kv_role": "kv_both"}

    def start_engine(self):
        variables = {"MOONCAKE_CONFIG_PATH": str(self.folder / "mooncake.json")}
        variables["MOONCAKE_REQUESTER_LOCAL_HOSTNAME"] = "127.0.0.1"
        super().start_engine(python=self.PYTHON, paths=[HERE / "mooncake_fixes"], environment=variables)

    def settle(self):
        wanted = self.pieces(128)  # A key for each block.
        await_true(lambda: self.keys() >= wanted, STORED_IN, "of", wanted, "blocks not all were stored:", self.words())


class Quire(Way):
    """quired, over one of its transports. Prompts come again as they were, so their ends are stored, too."""

    server = None

    def __init__(self, options, name, transport):
        super().__init__(options, name)
        self.transport = transport

    def start_store(self):
        if self.server is None:
            # A server that offers shm is not asked over UCX on its own host.
            self.server = Server(self.build, self.folder, self.transport)
            if self.transport != "shm":
                self.server.address = f"127.0.0.1:{free_port()}"
        self.server.start()

    def kill_store(self):
        if self.server is not None:
            self.server.kill()

    def transfer(self):
        extra = {"address": self.server.address, "transport": self.transport, "save_tail": True}
        return {
            "kv_connector": "QuireConnector",
            "kv_connector_module_path": "quire.vllm",
            "kv_role": "kv_both",
            "kv_connector_extra_config": extra,
        }

    def settle(self):
        check(self.engine("drain"), "what was computed was not sent")


RIVALS = {"example": Example, "lmcache_files": LMCache, "mooncake_tcp": Mooncake}
TRANSPORTS = {"quire_shm": "shm", "quire_ucx_tcp": "ucx", "quire_grpc": "grpc"}
NAMES = (*RIVALS, "lmcache_quire", *TRANSPORTS)  # In the order in which they are measured.


def way_of(options, name):
    if name in TRANSPORTS:
        return Quire(options, name, TRANSPORTS[name])
    return RIVALS.get(name, QuireBehindLMCache)(options, name)
