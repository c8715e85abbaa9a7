# SPDX-License-Identifier: Apache-2.0
"""vLLM with QuireConnector: other blocks, documents, preemption, Quire's own worker on the same pages, offloading."""

import json
import os
import pathlib
import statistics
import time

import demo_kit
from demo_kit import ANSWER, DOCUMENTS, HERE, ROOT, Child, Questions, await_true, check

PYTHON = ROOT / "build/tools/vllm/bin/python"
DOCUMENT = "vllm/dossier-01.txt"  # That vLLM registers.


class Engine(Child):
    """vLLM in a process of its own (vllm_engine.py)."""

    def __init__(self, build, folder, transfer, python=PYTHON, paths=(), environment=None, **arguments):
        """`transfer`: vLLM's kv_transfer_config; None: it has no connector."""
        model = str(demo_kit.model_folder(folder))
        options = json.dumps({"model": model, "transfer": transfer, "arguments": arguments})
        path = ":".join(str(part) for part in (*paths, build / "python"))
        variables = {"PYTHONPATH": path, **(environment or {})}
        super().__init__("vllm", [python, HERE / "vllm_engine.py", options], folder, variables)

    def ask(self, prompts, forget=True, **options):
        """Answers; with `forget` without vLLM's own cache."""
        if forget:
            check(self("forget"), "vLLM did not empty its cache: blocks are held")
        return self("ask", prompts=prompts, **options)


class Demo(demo_kit.Demo):
    """vLLM in front of Quire."""

    def __init__(self, build, folder, out):
        super().__init__(build, folder, out)
        self.engine = None
        self.engine_id = f"quire-demo-{os.getpid()}"
        # A question to each of six documents, and two more.
        self.questions = Questions([*range(0, 36, 6), 1, 7])
        self.prompts = self.questions.prompts
        self.cold = []

    def chapters(self):
        prefixes = self.first_answers, self.after_the_kill, self.without_server, self.other_blocks, self.freekv
        return *prefixes, self.divided_heads, self.offloading

    def close(self):
        if self.engine is not None:
            self.engine.kill()
        self.leave_no_chunks()
        super().close()

    def start(self, **options):
        arguments, environment = options.pop("arguments", {}), options.pop("environment", {})
        patient = {"patience": 1.0, "lookup_timeout": 10.0, "timeout": 20.0}  # The machine may be busy.
        extra = {"address": self.server.address, "retry_after": 0.5, **patient, **options}
        transfer = {"kv_connector": "QuireConnector", "kv_connector_module_path": "quire.vllm", "kv_role": "kv_both"}
        transfer["kv_connector_extra_config"] = extra
        self.engine = Engine(self.build, self.folder, transfer, environment=environment, **arguments)

    def first_answers(self):
        """vLLM answers, and computes every prompt. What it computes is stored."""
        self.start()
        self.cold = [self.engine.ask([prompt], max_tokens=ANSWER)[0] for prompt in self.prompts]
        right = self.questions.right(self.cold)
        tokens = [0] + self.questions.encode(self.questions.documents["dossier-01.txt"])
        self.engine.ask([tokens], max_tokens=1, params={"quire_register": DOCUMENT})
        check(self.engine("drain"), "what was computed was not sent")
        counts = self.engine("counts")
        check(counts["quire_segments_saved"] > 0 and counts["quire_documents_registered"] == 1, counts)
        check(counts["quire_segments_dropped"] == 0, counts)
        misses = [a["first_token_seconds"] for a in self.cold if a["cached"] == 0]
        check(len(misses) >= 6, "prompts were not computed:", self.cold)
        self.results.update(
            questions=len(self.questions.asked), right=right, segments_saved=int(counts["quire_segments_saved"]),
            ttft_cold_ms=1000 * statistics.median(misses),
        )
        of = len(self.questions.asked)
        self.out(f"  {right} of {of} right; first token after {self.results['ttft_cold_ms']:.0f} ms")
        self.out(f"  {self.results['segments_saved']} segments of 256 tokens stored")

    def after_the_kill(self):
        """Everything is killed (SIGKILL), the server too. New processes answer the same from stored prefixes."""
        self.engine.kill()
        self.server.kill()
        self.server.start()
        self.start()
        warm = [self.engine.ask([prompt], max_tokens=ANSWER)[0] for prompt in self.prompts]
        self.same(warm, self.cold, "after the restart")
        # The document was registered with its last tokens, which are no whole segment.
        named = self.engine.ask([self.prompts[0]], max_tokens=ANSWER, params={"quire_document": DOCUMENT})
        self.same(named, self.cold, "with a document")
        check(named[0]["cached"] > warm[0]["cached"], "the document brought no more tokens:", named, warm)
        salted = self.engine.ask([self.prompts[0]], max_tokens=ANSWER, salt="secret")
        self.same(salted, self.cold, "with a salt")
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
        self.same(answers, self.cold, "with other blocks")
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
        self.same(self.engine.ask(self.prompts[:2], max_tokens=ANSWER), self.cold, "without the server")
        self.server.start()
        deadline = time.monotonic() + 20
        while True:
            (answer,) = self.engine.ask(self.prompts[:1], max_tokens=ANSWER)
            self.same([answer], self.cold, "after the server came back")
            if answer["cached"] > 0:
                break
            check(time.monotonic() < deadline, "the server is back, and no prefix is found")
        self.results.update(identical_without_server=True)
        self.out("  identical tokens; prefixes are found again")

    def broken_load(self):
        self.engine("forget")
        before = self.engine("counts")["quire_load_failures"]
        self.engine("kill_in_load", pid=self.server.process.pid, layer=2)
        self.same(self.engine.ask(self.prompts[:1], max_tokens=ANSWER), self.cold, "after a broken load")
        counts = self.engine("counts")
        check(counts["quire_load_failures"] == before + 1, "the load did not fail:", counts)
        self.server.kill()

    def freekv(self):
        """Quire's own worker decodes what vLLM wrote, with a sparse policy, from the same pages."""
        self.server.start()
        question = next(q for q in self.questions.asked if q["document"] == "dossier-01.txt")
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

    def divided_heads(self):
        """Two workers divide the heads. All is killed, and new ones find what each of them stored."""
        divided = {
            "arguments": {"tensor_parallel_size": 2, "distributed_executor_backend": "mp"},
            # Both may run on any processor; vLLM would ask for a memory node of its own for each.
            "environment": {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"},
        }
        prompts, segment = self.prompts[:2], 256
        self.engine.kill()
        self.start(**divided)
        cold = [self.engine.ask([prompt], max_tokens=ANSWER)[0] for prompt in prompts]
        check(all(answer["cached"] == 0 for answer in cold), "pages of all heads were taken for those of some:", cold)
        wanted = 2 * sum(len(prompt) // segment for prompt in prompts)
        await_true(lambda: self.engine("counts")["quire_segments_saved"] >= wanted, 60, "segments were not stored")
        self.engine.kill()
        self.server.kill()
        self.server.start()
        self.start(**divided)
        warm = [self.engine.ask([prompt], max_tokens=ANSWER)[0] for prompt in prompts]
        self.same(warm, cold, "with divided heads")
        found = [answer["cached"] for answer in warm]
        check(found == [len(prompt) // segment * segment for prompt in prompts], "prefixes were not found:", found)
        self.results.update(identical_with_divided_heads=True, tokens_found_by_two_workers=sum(found))
        self.out(f"  identical tokens; {sum(found)} tokens found by both workers")

    def offloading(self):
        """vLLM's own offloading, with Quire behind the host's memory. All is killed, and the chunks are found again."""
        self.engine.kill()
        prompts, chunk = self.prompts[:3], 256
        self.start_offloading(chunk)
        before = self.stored()
        self.same(self.engine.ask(prompts, forget=False, max_tokens=ANSWER), self.cold, "with offloading")
        wanted = before + sum(len(prompt) // chunk for prompt in prompts)
        # vLLM hands chunks on in its steps.
        await_true(lambda: self.engine("counts") and self.stored() >= wanted, 60, "chunks were not stored")
        self.engine.kill()
        self.server.kill()
        self.server.start()
        self.start_offloading(chunk)
        answers = [self.engine.ask([prompt], forget=False, max_tokens=ANSWER)[0] for prompt in prompts]
        self.same(answers, self.cold, "with offloaded chunks")
        found = [answer["cached"] for answer in answers]
        check(found == [len(prompt) // chunk * chunk for prompt in prompts], "chunks were not found:", found)
        self.server.kill()
        answers = [self.engine.ask([prompt], forget=False, max_tokens=ANSWER)[0] for prompt in self.prompts[:4]]
        self.same(answers, self.cold, "with offloading, without the server")
        self.server.start()
        self.results.update(identical_with_offloading=True, offloaded_tokens_found=sum(found))
        self.out(f"  identical tokens; {sum(found)} tokens came from chunks")

    def start_offloading(self, chunk):
        """An engine whose chunks, of so many tokens, go to the host's memory and from there to Quire."""
        self.leave_no_chunks()
        own = {"address": self.server.address, "patience": 1.0, "retry_after": 0.5}
        extra = {"spec_name": "QuireOffloadingSpec", "spec_module_path": "quire.vllm.offload", "block_size": chunk}
        extra.update(cpu_bytes_to_use=64 << 20, quire=own)
        transfer = {"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "engine_id": self.engine_id}
        self.engine = Engine(self.build, self.folder, {**transfer, "kv_connector_extra_config": extra})

    def leave_no_chunks(self):
        """Removes the memory that vLLM leaves when it is killed."""
        for file in pathlib.Path("/dev/shm").glob(f"vllm_offload_{self.engine_id}*"):
            file.unlink()
