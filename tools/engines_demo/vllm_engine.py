# SPDX-License-Identifier: Apache-2.0
"""vLLM in a process of its own, driven by lines of JSON: a command in, a reply out. engines_demo.py talks to it.

The argument is JSON: model, transfer (kv_transfer_config; null: no connector), and arguments of vllm.LLM.
"""

import json
import os
import signal
import sys
import time

REPLIES = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # What vLLM prints is no reply.
os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1")


def reply(value):
    REPLIES.write(json.dumps(value) + "\n")
    REPLIES.flush()


def engine(options):
    import vllm

    arguments = {
        "skip_tokenizer_init": True,
        "dtype": "bfloat16",
        "max_model_len": 8192,
        "enforce_eager": True,
        "kv_cache_memory_bytes": 128 << 20,
        "distributed_executor_backend": "uni",
        "disable_log_stats": False,
        **options.get("arguments", {}),
    }
    if options["transfer"] is not None:
        arguments["kv_transfer_config"] = options["transfer"]
    return vllm.LLM(model=options["model"], **arguments)


def kill_in_load(pid, layer):
    """Kills a process when the units of that layer are about to be taken in."""
    from quire.vllm import loader

    take = loader.Reader.take

    def killing(self, number):
        if number == layer:
            os.kill(pid, signal.SIGKILL)
            while open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "Z":
                time.sleep(0.001)  # Its parent, the demo, waits for it later.
            loader.Reader.take = take
        return take(self, number)

    loader.Reader.take = killing


class Engine:
    def __init__(self, options):
        self.llm = engine(options)

    def ask(self, prompts, max_tokens=8, params=None, salt=None):
        """Answers of prompts that come at the same time."""
        from vllm import SamplingParams

        extra = {"extra_args": {"kv_transfer_params": params}} if params else {}
        sampling = SamplingParams(temperature=0, max_tokens=max_tokens, detokenize=False, stop_token_ids=[1], **extra)
        inputs = [{"prompt_token_ids": tokens, **({"cache_salt": salt} if salt else {})} for tokens in prompts]
        outputs = self.llm.generate(inputs, sampling, use_tqdm=False)
        return [
            {
                "tokens": list(output.outputs[0].token_ids),
                "reason": output.outputs[0].finish_reason,
                "cached": output.num_cached_tokens,
                "first_token_seconds": output.metrics.first_token_latency if output.metrics else None,
            }
            for output in outputs
        ]

    def abort(self, prompt):
        """Begins a request, and aborts it after two steps."""
        from vllm import SamplingParams

        core = self.llm.llm_engine
        core.add_request("aborted", {"prompt_token_ids": prompt}, SamplingParams(max_tokens=64, detokenize=False))
        core.step()
        core.step()
        core.abort_request(["aborted"])
        while core.has_unfinished_requests():
            core.step()
        return True

    def forget(self):
        """Empties vLLM's own prefix cache."""
        return self.llm.reset_prefix_cache()

    def drain(self):
        from vllm.distributed.kv_transfer import get_kv_transfer_group

        return get_kv_transfer_group().drain(60)

    def counts(self):
        self.ask([[0, 1, 2]], max_tokens=1)  # Counts come with a step.
        return {
            metric.name.removeprefix("vllm:"): metric.value
            for metric in self.llm.llm_engine.get_metrics()
            if metric.name.startswith(("vllm:quire_", "vllm:external_prefix", "vllm:num_preemptions"))
        }

    def kill_in_load(self, pid, layer):
        kill_in_load(pid, layer)
        return True


def main():
    began = time.monotonic()
    running = Engine(json.loads(sys.argv[1]))
    reply({"ready": time.monotonic() - began})
    for line in sys.stdin:
        command = json.loads(line)
        reply(getattr(running, command.pop("call"))(**command))


if __name__ == "__main__":
    main()
