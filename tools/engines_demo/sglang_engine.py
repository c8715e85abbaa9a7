# SPDX-License-Identifier: Apache-2.0
"""SGLang in a process of its own, driven by lines of JSON: a command in, a reply out. sglang_chapters.py talks to it.

The argument is JSON: model, layout (hicache_mem_layout), and storage (the backend's extra configuration).
"""

import json
import os
import sys
import time


class Engine:
    def __init__(self, options):
        import sglang

        self.engine = sglang.Engine(
            model_path=options["model"],
            device="cpu",
            skip_tokenizer_init=True,
            dtype="bfloat16",
            mem_fraction_static=0.1,
            max_total_tokens=20000,
            disable_overlap_schedule=True,
            disable_cuda_graph=True,
            page_size=64,
            enable_hierarchical_cache=True,
            hicache_ratio=2,
            hicache_io_backend="direct",
            hicache_mem_layout=options["layout"],
            hicache_write_policy="write_through",
            hicache_storage_prefetch_policy="wait_complete",
            hicache_storage_backend="dynamic",
            hicache_storage_backend_extra_config=json.dumps(options["storage"]),
        )

    def ask(self, prompt, max_tokens):
        """An answer, without what SGLang's own caches have."""
        sampling = {"temperature": 0, "max_new_tokens": max_tokens, "stop_token_ids": [1]}
        began = time.monotonic()
        output = self.engine.generate(input_ids=prompt, sampling_params=sampling)
        return {
            "tokens": list(output["output_ids"]),
            "cached": output["meta_info"]["cached_tokens"],
            "seconds": time.monotonic() - began,
        }

    def forget(self):
        """Empties SGLang's own caches."""
        self.engine.flush_cache()
        return True


def main():
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What SGLang prints is no reply.

    def reply(value):
        replies.write(json.dumps(value) + "\n")
        replies.flush()

    running = Engine(json.loads(sys.argv[1]))
    reply(True)
    for line in sys.stdin:
        command = json.loads(line)
        reply(getattr(running, command.pop("call"))(**command))


if __name__ == "__main__":  # SGLang's own processes import this file.
    main()
