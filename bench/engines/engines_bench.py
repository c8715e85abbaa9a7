#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time to the first token in vLLM: alone, with the stores that it and LMCache bring, and with Quire.

`quire bench engines` runs it. The last line is one JSON object. Each way has an engine of its own, and takes
turns with an engine without a store. A miss is a prompt that no store has, a hit one that vLLM's own cache has
forgotten and the store has kept. A way that cannot run says why.
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/engines_demo"))
import lmcache_chapters  # noqa: E402
import vllm_chapters  # noqa: E402
from demo_kit import ROOT, Failed, Questions, Server, check  # noqa: E402

# Prompts of some models do not fit in the steps of vLLM's example connector otherwise.
STEP = {"max_num_batched_tokens": 8192}
ANSWER = 8
RIVALS = ("example", "lmcache_files")  # What engines bring along.


class Way:
    """An engine with some store behind it."""

    def __init__(self, options, name):
        self.build, self.name = options.build.resolve(), name
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"quire-bench-{name}-"))
        self.ends = contextlib.ExitStack()
        self.ends.callback(subprocess.run, ["rm", "-rf", self.folder])
        self.engine = None

    def start(self):
        """Starts store and engine."""
        self.engine = self.run_engine(self.transfer())

    def transfer(self):
        """vLLM's kv_transfer_config; None: no connector."""
        return None

    def run_engine(self, transfer, **more):
        engine = vllm_chapters.Engine(self.build, self.folder, transfer, **more, **STEP)
        self.ends.callback(engine.kill)
        return engine

    def ask(self, prompt):
        """Seconds to the first token, and tokens that were not computed."""
        (answer,) = self.engine.ask([prompt], max_tokens=ANSWER)
        return answer["first_token_seconds"], answer["cached"]

    def settle(self):
        """Waits until what was computed is stored."""

    def before_hits(self):
        """What has to happen before stored prompts are asked for again."""

    def close(self):
        self.ends.close()


class Example(Way):
    """vLLM's own example: files."""

    def transfer(self):
        extra = {"shared_storage_path": str(self.folder / "files")}
        return {"kv_connector": "ExampleConnector", "kv_role": "kv_both", "kv_connector_extra_config": extra}


class LMCache(Way):
    """LMCache's server with its files, and no memory of its own."""

    def transfer(self):
        check(lmcache_chapters.PYTHON.exists(), "LMCache is not in build/tools; ./dev test engines installs it")
        environment = lmcache_chapters.environment_of(self.build)
        self.cache = lmcache_chapters.CacheServer(self.folder, environment, self.adapter())
        self.ends.callback(self.cache.kill)
        return lmcache_chapters.transfer_to(self.cache)

    def adapter(self):
        return {"type": "fs", "base_path": str(self.folder / "files")}

    def run_engine(self, transfer, **more):
        python, paths = lmcache_chapters.PYTHON, [lmcache_chapters.FIXES]
        return super().run_engine(transfer, python=python, paths=paths, environment=lmcache_chapters.QUIET)

    def ask(self, prompt):
        # vLLM cannot empty its cache with this connector, so hits come in an engine that has just started.
        (answer,) = self.engine.ask([prompt], forget=False, max_tokens=ANSWER)
        return answer["first_token_seconds"], answer["cached"]

    def settle(self):
        time.sleep(2)  # It has no call that says when it is done.

    def before_hits(self):
        self.engine.kill()
        self.engine = self.run_engine(lmcache_chapters.transfer_to(self.cache))


class Quire(Way):
    """quired, over one of its transports. Prompts come again as they were, so their ends are stored, too."""

    def __init__(self, options, name, transport):
        super().__init__(options, name)
        self.transport = transport

    def transfer(self):
        # A server that offers shm is not asked over UCX on its own host.
        server = Server(self.build, self.folder, ("--transports", self.transport))
        self.ends.callback(server.kill)
        if self.transport != "shm":
            server.address = f"127.0.0.1:{lmcache_chapters.free_port()}"
        server.start()
        extra = {"address": server.address, "transport": self.transport, "save_tail": True}
        return {
            "kv_connector": "QuireConnector",
            "kv_connector_module_path": "quire.vllm",
            "kv_role": "kv_both",
            "kv_connector_extra_config": extra,
        }

    def settle(self):
        check(self.engine("drain"), "what was computed was not sent")


class QuireBehindLMCache(LMCache):
    """LMCache's server with Quire as its L2 adapter."""

    def adapter(self):
        server = Server(self.build, self.folder)
        self.ends.callback(server.kill)
        server.start()
        plugin = {"type": "native_plugin", "module_path": "quire.lmcache", "class_name": "QuireL2"}
        return {**plugin, "adapter_params": {"address": server.address}}


def ways_of(options):
    return [
        Example(options, "example"),
        LMCache(options, "lmcache_files"),
        QuireBehindLMCache(options, "lmcache_quire"),
        Quire(options, "quire_shm", "shm"),
        Quire(options, "quire_ucx_tcp", "ucx"),
        Quire(options, "quire_grpc", "grpc"),
    ]


class Pairs:
    """Each way beside an engine without a store, prompt by prompt: the machine changes from minute to minute."""

    def __init__(self, options):
        self.prompts = Questions(range(0, 6 * options.prompts, 6)).prompts
        self.warm_up = [0, *reversed(self.prompts[0][1:])]
        self.alone = Way(options, "vllm")
        self.alone.start()
        self.alone.ask(self.warm_up)

    def measure(self, way):
        """Seconds to the first token by kind. Raises Failed."""
        way.start()
        way.ask(self.warm_up)
        misses = self.in_turns(way)
        way.settle()
        way.before_hits()
        way.ask(self.warm_up[:-1])
        hits = self.in_turns(way)
        miss, alone_then, _ = misses
        hit, alone, cached = hits
        return {
            "ttft_miss_ms": 1000 * miss,
            "ttft_hit_ms": 1000 * hit,
            "vllm_alone_ms": 1000 * alone,
            "miss_vs_vllm": miss / alone_then,
            "hit_vs_vllm": hit / alone,
            "hit_tokens": cached,
        }

    def in_turns(self, way):
        """Medians of both, and the tokens that the way had."""
        times, alone, cached = [], [], 0
        for prompt in self.prompts:
            alone.append(self.alone.ask(prompt)[0])
            seconds, tokens = way.ask(prompt)
            times.append(seconds)
            cached += tokens
        return statistics.median(times), statistics.median(alone), cached


def measured(options):
    """Figures of the ways, and why others have none."""
    figures, absent = {}, {}
    with contextlib.ExitStack() as ends:
        wanted = [way for way in ways_of(options) if not options.only or way.name in options.only]
        for way in wanted:
            ends.callback(way.close)
        pairs = Pairs(options)
        ends.callback(pairs.alone.close)
        for way in wanted:
            try:
                figures[way.name] = pairs.measure(way)
            except Failed as failure:
                absent[way.name] = str(failure)[-400:]
            way.close()
            print(f"{way.name}: {figures.get(way.name) or absent[way.name]}", file=sys.stderr)
    return figures, absent


def report(options, figures, absent):
    """Ratios first: how many times sooner the first token of a hit comes with the fastest transport of Quire."""
    result = {}
    ours = {name: f for name, f in figures.items() if name.startswith("quire")}
    rivals = {name: f["hit_vs_vllm"] for name, f in figures.items() if name in RIVALS and f["hit_tokens"]}
    if ours:
        fastest = min(f["hit_vs_vllm"] for f in ours.values())
        result["quire_vs_none_ttft"] = 1 / fastest
        if "lmcache_files" in rivals:
            result["quire_vs_lmcache_ttft"] = rivals["lmcache_files"] / fastest
        if rivals:
            result["quire_vs_best_ttft"] = min(rivals.values()) / fastest
        result["miss_overhead"] = statistics.median(f["miss_vs_vllm"] for f in ours.values())
    return {**result, "ways": figures, "absent": absent, "prompts": options.prompts, "answer_tokens": ANSWER}


def main():
    os.environ["UCX_TLS"] = "tcp"  # As between hosts.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # Which ends engines and servers, too.
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--prompts", type=int, default=8, help="questions, each over its own document (at most 24)")
    parser.add_argument("--only", action="append", help="ways to run; all when not given")
    options = parser.parse_args()
    if not vllm_chapters.PYTHON.exists():
        sys.exit("vLLM is not in build/tools; ./dev test engines installs it")
    if not 1 <= options.prompts <= 24:
        sys.exit("--prompts: give 1 to 24")
    print(json.dumps(report(options, *measured(options))))


if __name__ == "__main__":
    main()
