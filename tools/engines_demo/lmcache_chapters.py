# SPDX-License-Identifier: Apache-2.0
"""LMCache's server in front of vLLM, and Quire behind it as an L2 adapter."""

import json
import os
import socket
import statistics
import subprocess
import urllib.request

import demo_kit
import vllm_chapters
from demo_kit import ANSWER, HERE, ROOT, Questions, await_true, check, kill_session

PYTHON = ROOT / "build/tools/lmcache/bin/python"
FIXES = HERE / "lmcache_fixes"
QUIET = {"LMCACHE_TRACK_USAGE": "false", "LMCACHE_DISABLE_BANNER": "1", "PYTHONHASHSEED": "0"}
CHUNK = 256  # Tokens.


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def environment_of(build):
    """That of LMCache's programs."""
    return {**os.environ, **QUIET, "PYTHONPATH": f"{FIXES}:{HERE}:{build}/python"}


class CacheServer:
    """`lmcache server`, which answers from Quire alone: its own memory keeps nothing."""

    def __init__(self, folder, environment, adapter):
        self.port, self.http = free_port(), free_port()
        self.log = folder / "lmcache.log"
        command = [PYTHON.with_name("lmcache"), "server", "--host", "127.0.0.1", "--port", self.port]
        command += ["--http-port", self.http, "--prometheus-port", free_port()]
        command += ["--l1-size-gb", 1, "--eviction-policy", "LRU"]
        command += ["--chunk-size", CHUNK, "--supported-transfer-mode", "engine_driven", "--l2-store-policy", "skip_l1"]
        command += ["--l2-adapter", json.dumps(adapter)]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [str(part) for part in command], stdout=log, stderr=log, env=environment, start_new_session=True
            )
        await_true(self.status, 60, "lmcache server did not start:", self.log)

    def status(self):
        """What it says of itself; None while it does not answer."""
        check(self.process.poll() is None, "lmcache server ended:", self.words())
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/status", timeout=5) as answer:
                return json.load(answer)
        except OSError:
            return None

    def words(self):
        return self.log.read_text(errors="replace")[-3000:]

    def kill(self):
        kill_session(self.process)


def transfer_to(cache):
    """vLLM's kv_transfer_config for a CacheServer."""
    return {
        "kv_connector": "LMCacheMPConnector",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_module_path": "lmcache.integration.vllm.lmcache_mp_connector",
        "kv_connector_extra_config": {
            "lmcache.mp.host": "tcp://127.0.0.1",
            "lmcache.mp.port": cache.port,
            "lmcache.mp.mq_timeout": 20,
        },
    }


class Demo(demo_kit.Demo):
    """LMCache with Quire behind it."""

    def __init__(self, build, folder, out):
        super().__init__(build, folder, out)
        self.questions = Questions([0, 6, 12])
        self.prompts = self.questions.prompts
        self.cache = self.engine = None
        self.cold = []
        self.environment = environment_of(build)
        self.kill_file = folder / "kill"

    def chapters(self):
        return self.own_checks, self.first_answers, self.after_the_kill, self.without_server

    def close(self):
        for part in (self.engine, self.cache):
            if part is not None:
                part.kill()
        super().close()

    def adapter(self, module="quire.lmcache", name="QuireL2", **params):
        own = {"address": self.server.address, "retry_after": 0.5, "patience": 1.0, **params}
        return {"type": "native_plugin", "module_path": module, "class_name": name, "adapter_params": own}

    def own_checks(self):
        """LMCache's own benchmark and check of adapters, on Quire: bytes are compared."""
        adapter = self.adapter(namespace="bench")
        ours, files = self.bench_l2(adapter), self.bench_l2({"type": "fs", "base_path": str(self.folder / "files")})
        self.results.update({f"l2_{op}_mb_per_s": speed for op, speed in ours.items()})
        self.results.update({f"l2_{op}_vs_files": ours[op] / files[op] for op in ours})
        self.out(f"  load {ours['load']:.0f} MB/s, store {ours['store']:.0f} MB/s")
        self.out(f"  its files: load {files['load']:.0f} MB/s, store {files['store']:.0f} MB/s")
        check_tool = [PYTHON, "-m", "lmcache.v1.basic_check", "--mode", "test_l2_adapter"]
        self.run_tool([*check_tool, "--l2-adapter", json.dumps(adapter)])
        self.results.update(basic_check=True)

    def bench_l2(self, adapter):
        """MB/s by operation, as `lmcache bench l2` measures them. It compares the bytes."""
        report = self.folder / "bench_l2.json"
        bench = [PYTHON.with_name("lmcache"), "bench", "l2", "--l2-adapter", json.dumps(adapter)]
        bench += ["--num-keys", "32", "--data-size-kb", "256", "--rounds", "3", "--no-skip-verify"]
        self.run_tool([*bench, "--lookup-max-hit-rate", "1.0", "--format", "json", "--output", report])
        operations = [op for name, op in json.loads(report.read_text())["metrics"].items() if name.startswith("op_")]
        for op in operations:
            check(op["total_success"] == op["total_keys"], op)
        return {op["operation"].lower(): op["throughput_avg_mbps"] for op in operations if op["throughput_avg_mbps"]}

    def run_tool(self, command):
        done = subprocess.run(
            [str(part) for part in command], env=self.environment, capture_output=True, text=True, timeout=120
        )
        with open(self.folder / "lmcache_tools.log", "a") as log:
            log.write(done.stdout + done.stderr)
        check(done.returncode == 0, command[:4], "failed:", done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout

    def start(self, **adapter):
        self.cache = CacheServer(self.folder, self.environment, self.adapter(**adapter))
        self.engine = vllm_chapters.Engine(
            self.build, self.folder, transfer_to(self.cache), PYTHON, [FIXES], environment=QUIET
        )

    def ask(self, prompts):
        # vLLM does not empty its cache with this connector, so a prompt is asked once in a process.
        return [self.engine.ask([prompt], forget=False, max_tokens=ANSWER)[0] for prompt in prompts]

    def first_answers(self):
        """vLLM answers, and computes every prompt. LMCache stores its chunks in Quire."""
        before = self.stored()
        self.start()
        self.cold = self.ask(self.prompts)
        check(all(answer["cached"] == 0 for answer in self.cold), "prompts were not computed:", self.cold)
        self.await_stored(before + sum(len(prompt) // CHUNK for prompt in self.prompts), self.cache.log)
        self.results.update(questions=len(self.prompts), right=self.questions.right(self.cold))
        self.results.update(ttft_cold_ms=first_token_ms(self.cold))
        self.out(f"  {self.results['right']} of {len(self.prompts)} right")

    def after_the_kill(self):
        """Everything is killed (SIGKILL). New processes answer the same from chunks in Quire."""
        for part in (self.engine, self.cache, self.server):
            part.kill()
        self.server.start()
        self.start(module="l2_killed_in_load", name="KilledL2", kill_file=str(self.kill_file))
        warm = self.ask(self.prompts[:2])
        self.same(warm, self.cold, "after the restart")
        check(all(answer["cached"] >= 4000 for answer in warm), "chunks were not found:", warm)
        self.results.update(
            identical_after_kill=True,
            prefill_tokens_saved=sum(answer["cached"] for answer in warm),
            ttft_warm_ms=first_token_ms(warm),
        )
        self.out(f"  identical tokens; {self.results['prefill_tokens_saved']} tokens of prefill saved")

    def without_server(self):
        """The server is killed when a load begins, and stays away. Answers are the same, computed."""
        self.kill_file.write_text(str(self.server.process.pid))
        self.same(self.ask(self.prompts[2:3]), self.cold[2:3], "after a broken load")
        check(not self.kill_file.exists(), "the server was not killed in a load:", self.cache.words())
        self.server.kill()
        other = [[0, *reversed(prompt[1:])] for prompt in self.prompts[:1]]
        check(len(self.ask(other)[0]["tokens"]) > 0, "no answer without the server")
        self.results.update(identical_without_server=True)
        self.out("  identical tokens")


def first_token_ms(answers):
    return 1000 * statistics.median(answer["first_token_seconds"] for answer in answers)
