#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real engines in front of Quire: the same answers after everything was killed, from stored prefixes.

    ./dev engines-demo                # a table for each chapter
    ./dev engines-demo --json         # one line of JSON
    ./dev test engines                # the same, as a test

Needs build/tools/vllm (./dev engines-demo installs it) and the release build. Exit code 77: it cannot run here.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/recall-small"
DOCUMENTS = MODEL / "documents"
PYTHON = ROOT / "build/tools/vllm/bin/python"
sys.path.insert(0, str(ROOT / "tools/train"))
from tokenizer import Tokenizer  # noqa: E402

DOCUMENT = "vllm/dossier-01.txt"  # That vLLM registers.
ANSWER = 40  # Tokens of an answer that are compared.


class Failed(Exception):
    """A chapter did not show what it is for."""


def check(condition, *what):
    if not condition:
        raise Failed(" ".join(str(part) for part in what))


class Server:
    """A quired over a folder. It is started again after a kill, on the same socket."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.address = f"unix:{folder}/quired.sock"
        self.process = None

    def start(self):
        command = [self.build / "bin/quired", "--data-dir", self.folder / "data", "--listen", self.address]
        command += ["--shm-socket", self.folder / "shm.sock", "--dram-bytes", "256MiB"]
        with open(self.folder / "quired.log", "ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        check(b"listening" in self.process.stdout.readline(), "quired did not start:", self.words())

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()

    def words(self):
        return (self.folder / "quired.log").read_text(errors="replace")[-2000:]

    def ask(self, *arguments):
        command = [self.build / "bin/quire", "--server", self.address, "--json", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        check(done.returncode == 0, *arguments, done.stdout, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])


class Engine:
    """vLLM in a process of its own (vllm_engine.py)."""

    def __init__(self, build, folder, extra, **arguments):
        self.log = folder / "vllm.log"
        model = folder / "model"  # Without the tokenizer, which vLLM does not know.
        if not model.exists():
            model.mkdir()
            for name in ("config.json", "model.safetensors"):
                (model / name).symlink_to(MODEL / name)
        options = json.dumps({"model": str(model), "extra": extra, "arguments": arguments})
        command = [PYTHON, pathlib.Path(__file__).with_name("vllm_engine.py"), options]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONPATH": str(build / "python")},
            )
        self._reply()

    def __call__(self, call, **arguments):
        self.process.stdin.write(json.dumps({"call": call, **arguments}) + "\n")
        self.process.stdin.flush()
        return self._reply()

    def ask(self, prompts, forget=True, **options):
        """Answers; with `forget` without vLLM's own cache."""
        if forget:
            check(self("forget"), "vLLM did not empty its cache: blocks are held")
        return self("ask", prompts=prompts, **options)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def _reply(self):
        line = self.process.stdout.readline()
        check(line, "vLLM ended:", self.log.read_text(errors="replace")[-3000:])
        return json.loads(line)


class Demo:
    """The chapters, in their order. Each leaves what the next one goes on with."""

    def __init__(self, build, folder, out):
        self.build, self.folder, self.out = build, folder, out
        self.server = Server(build, folder)
        self.engine = None
        self.results = {}
        tokenizer = Tokenizer.load(str(MODEL / "tokenizer.json"))
        self.decode, self.encode = tokenizer.decode, tokenizer.encode
        asked = [json.loads(line) for line in open(DOCUMENTS / "questions.jsonl")]
        self.asked = asked[::6][:6] + asked[1::6][:2]  # A question to each of six documents, and two more.
        self.documents = {q["document"]: (DOCUMENTS / q["document"]).read_text() for q in self.asked}
        self.prompts = [[0] + self.encode(self.documents[q["document"]] + q["question"]) for q in self.asked]
        self.cold = []

    def run(self):
        for chapter in (self.first_answers, self.after_the_kill, self.without_server, self.other_blocks, self.freekv):
            began = time.monotonic()
            self.out(f"\n{chapter.__doc__.splitlines()[0]}")
            chapter()
            self.out(f"  ({time.monotonic() - began:.0f} s)")

    def close(self):
        if self.engine is not None:
            self.engine.kill()
        self.server.kill()

    def start(self, **options):
        arguments = options.pop("arguments", {})
        patient = {"patience": 1.0, "lookup_timeout": 10.0, "timeout": 20.0}  # The machine may be busy.
        extra = {"address": self.server.address, "retry_after": 0.5, **patient, **options}
        self.engine = Engine(self.build, self.folder, extra, **arguments)

    def same(self, answers, where):
        wrong = [n for n, (a, b) in enumerate(zip(answers, self.cold)) if a["tokens"][:ANSWER] != b["tokens"]]
        check(not wrong, where, "answers differ from the first ones:", wrong)

    def first_answers(self):
        """vLLM answers, and computes every prompt. What it computes is stored."""
        self.server.start()
        self.start()
        self.cold = [self.engine.ask([prompt], max_tokens=ANSWER)[0] for prompt in self.prompts]
        right = sum(self.decode(a["tokens"]).startswith(q["answer"]) for a, q in zip(self.cold, self.asked))
        tokens = [0] + self.encode(self.documents["dossier-01.txt"])
        self.engine.ask([tokens], max_tokens=1, params={"quire_register": DOCUMENT})
        check(self.engine("drain"), "what was computed was not sent")
        counts = self.engine("counts")
        check(counts["quire_segments_saved"] > 0 and counts["quire_documents_registered"] == 1, counts)
        check(counts["quire_segments_dropped"] == 0, counts)
        misses = [a["first_token_seconds"] for a in self.cold if a["cached"] == 0]
        check(len(misses) >= 6, "prompts were not computed:", self.cold)
        self.results.update(
            questions=len(self.asked), right=right, segments_saved=int(counts["quire_segments_saved"]),
            ttft_cold_ms=1000 * statistics.median(misses),
        )
        self.out(f"  {right} of {len(self.asked)} right; first token after {self.results['ttft_cold_ms']:.0f} ms")
        self.out(f"  {self.results['segments_saved']} segments of 256 tokens stored")

    def after_the_kill(self):
        """Everything is killed (SIGKILL), the server too. New processes answer the same from stored prefixes."""
        self.engine.kill()
        self.server.kill()
        self.server.start()
        self.start()
        warm = [self.engine.ask([prompt], max_tokens=ANSWER)[0] for prompt in self.prompts]
        self.same(warm, "after the restart")
        # The document was registered with its last tokens, which are no whole segment.
        named = self.engine.ask([self.prompts[0]], max_tokens=ANSWER, params={"quire_document": DOCUMENT})
        self.same(named, "with a document")
        check(named[0]["cached"] > warm[0]["cached"], "the document brought no more tokens:", named, warm)
        salted = self.engine.ask([self.prompts[0]], max_tokens=ANSWER, salt="secret")
        self.same(salted, "with a salt")
        check(salted[0]["cached"] == 0, "a salt did not keep prefixes apart:", salted)
        counts = self.engine("counts")
        saved = int(counts["quire_prefill_tokens_saved"])
        check(saved == sum(a["cached"] for a in warm + named), "tokens saved:", counts, warm, named)
        check(counts["quire_load_failures"] == 0, counts)
        self.results.update(
            identical_after_kill=True,
            prefill_tokens_saved=saved,
            ttft_warm_ms=1000 * statistics.median(a["first_token_seconds"] for a in warm),
        )
        ratio = self.results["ttft_cold_ms"] / self.results["ttft_warm_ms"]
        self.results["ttft_cold_vs_warm"] = ratio
        self.out(f"  identical tokens; {saved} tokens of prefill saved")
        self.out(f"  first token after {self.results['ttft_warm_ms']:.0f} ms, {ratio:.1f} times sooner")

    def other_blocks(self):
        """An engine with other blocks finds the same prefixes, loads beside its steps, preempts and aborts.

        Then the server is killed in the middle of a load, too.
        """
        self.engine.kill()
        # Room for two prompts, and not for what both generate.
        needed = sum(-(-len(prompt) // 64) for prompt in self.prompts[:2])
        small = {"block_size": 64, "num_gpu_blocks_override": needed + 4, "max_num_batched_tokens": 512}
        self.start(load="async", arguments=small)
        self.engine("abort", prompt=self.prompts[0])
        # vLLM frees the blocks of an aborted load in a step after the load has ended.
        deadline = time.monotonic() + 10
        while not self.engine("forget"):
            check(time.monotonic() < deadline, "an aborted load holds its blocks")
            self.engine("counts")
        answers = self.engine.ask(self.prompts[:3], max_tokens=160)
        self.same(answers, "with other blocks")
        check(all(a["cached"] >= 4000 for a in answers), "prefixes were not found:", answers)
        counts = self.engine("counts")
        check(counts["num_preemptions"] > 0, "nothing was preempted:", counts)
        self.results.update(identical_with_other_blocks=True, preemptions=int(counts["num_preemptions"]))
        self.broken_load()
        self.engine.kill()
        self.out(f"  identical tokens with blocks of 64 tokens, {self.results['preemptions']} preemptions")

    def without_server(self):
        """The server is killed in the middle of a load. Answers are the same, computed. It comes back, and is used."""
        self.broken_load()
        self.same(self.engine.ask(self.prompts[:2], max_tokens=ANSWER), "without the server")
        self.server.start()
        deadline = time.monotonic() + 20
        while True:
            (answer,) = self.engine.ask(self.prompts[:1], max_tokens=ANSWER)
            self.same([answer], "after the server came back")
            if answer["cached"] > 0:
                break
            check(time.monotonic() < deadline, "the server is back, and no prefix is found")
        self.results.update(identical_without_server=True)
        self.out("  identical tokens; prefixes are found again")

    def broken_load(self):
        self.engine("forget")
        before = self.engine("counts")["quire_load_failures"]
        self.engine("kill_in_load", pid=self.server.process.pid, layer=2)
        self.same(self.engine.ask(self.prompts[:1], max_tokens=ANSWER), "after a broken load")
        counts = self.engine("counts")
        check(counts["quire_load_failures"] == before + 1, "the load did not fail:", counts)
        self.server.kill()

    def freekv(self):
        """Quire's own worker decodes what vLLM wrote, with a sparse policy, from the same pages."""
        self.server.start()
        question = next(q for q in self.asked if q["document"] == "dossier-01.txt")
        text = question["question"].removeprefix("\nQuestion: ")
        answers = {}
        for policy in ("full", "freekv"):
            asked = ("ask", "--document", DOCUMENT, "--question", text, "--policy", policy)
            answers[policy] = self.server.ask(*asked)
            answer = answers[policy]["answer"].strip()
            check(answer == question["answer"].strip(), policy, "answered", answers[policy])
        # Its ingest finds every segment of the document, since the keys are the same.
        put = self.server.ask("put", str(DOCUMENTS / "dossier-01.txt"), "--dtype", "bf16")
        stats = [self.server.ask("stat", name) for name in (DOCUMENT, "dossier-01.txt")]
        check(stats[0]["chain_tip"] == stats[1]["chain_tip"], "the chains differ:", put, stats)
        self.results.update(freekv_answers_from_vllm_pages=True)
        self.out(f"  {question['answer'].strip()} with freekv; `quire put` finds the same chain")


def missing(build):
    if not PYTHON.exists():
        return "build/tools/vllm has no vLLM; ./dev test engines installs it"
    if not (build / "python/quire/vllm").is_dir() or not (build / "bin/quired").exists():
        return f"{build} lacks the Python package or the programs; ./dev build makes them"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--json", action="store_true", help="one line of JSON in place of tables")
    parser.add_argument("--keep", action="store_true", help="keep logs and data, and say where")
    arguments = parser.parse_args()
    why = missing(arguments.build)
    if why:
        print(f"skipped: {why}")
        sys.exit(77)
    recorded = [PYTHON, pathlib.Path(__file__).with_name("record_vllm.py"), "--check"]
    with contextlib.ExitStack() as ends:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="quire-engines-"))
        if not arguments.keep:
            ends.callback(subprocess.run, ["rm", "-rf", folder])
        demo = Demo(arguments.build.resolve(), folder, (lambda *_: None) if arguments.json else print)
        ends.callback(demo.close)
        try:
            check(subprocess.run(recorded, capture_output=True).returncode == 0, "vLLM's connector has changed")
            demo.run()
        except Failed as failure:
            print(f"FAILED: {failure}", file=sys.stderr)
            if arguments.keep:
                print(f"logs are in {folder}", file=sys.stderr)
            sys.exit(1)
    if arguments.json:
        print(json.dumps(demo.results))


if __name__ == "__main__":
    main()
