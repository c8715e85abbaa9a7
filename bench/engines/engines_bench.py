#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time to the first token in vLLM: alone, with the stores that it and others bring, and with Quire.

`quire bench engines` runs it. The last line is one JSON object, and lines before it say how far it is. Each way has an
engine of its own, and takes turns with an engine without a store. A miss is a prompt that no store has, a hit one that
vLLM's own cache has forgotten and the store has kept. Then every process of the way is killed (SIGKILL), and new ones
are asked again. A way that cannot run says why.
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import statistics
import sys
import time

from ways import ANSWER, NAMES, RIVALS, ROOT, Failed, Questions, Way, vllm_chapters, way_of

BEGAN = time.monotonic()


def say(*what):
    print(f"{time.monotonic() - BEGAN:4.0f} s", *what, file=sys.stderr, flush=True)


class Turns:
    """Prompts that a way and an engine without a store answer in turns: the machine changes from minute to minute."""

    def __init__(self):
        self.ours, self.alone, self.cached, self.answers, self.differing = [], [], [], [], 0

    def add(self, answer, alone):
        self.ours.append(answer["first_token_seconds"])
        self.alone.append(alone["first_token_seconds"])
        self.cached.append(answer["cached"])
        self.answers.append(alone["tokens"])
        self.differing += answer["tokens"] != alone["tokens"]

    def ratio(self):
        return statistics.median(mine / theirs for mine, theirs in zip(self.ours, self.alone))


class Measurement:
    def __init__(self, options):
        questions = Questions(range(0, 12 * options.prompts, 6)).prompts
        # One after the other, and all at the same time.
        self.prompts, self.batch = questions[: options.prompts], questions[options.prompts :]
        self.warm_up = [0, *reversed(self.prompts[0][1:])]
        self.alone = Way(options, "vllm")
        self.alone.start()
        self.alone.ask([self.warm_up])
        self.alone.ask(self.batch)
        self.alone.forget()
        self.batch_alone = self.seconds_of_batch(self.alone)

    def of(self, way):
        """Figures of a way. Raises Failed."""
        say(f"{way.name}: starts")
        way.start()
        way.ask([self.warm_up])
        way.settle()
        say(f"{way.name}: misses")
        misses = self.in_turns(way, after=way.settle)
        miss_batch = self.seconds_of_batch(way)
        way.settle()
        say(f"{way.name}: hits")
        way.forget()
        way.ask([self.warm_up[:-1]])
        hits = self.in_turns(way)
        hit_batch = self.seconds_of_batch(way)
        way.settle()
        say(f"{way.name}: all is killed, and asked again")
        way.kill()
        way.start()
        again = [way.ask([prompt])[0] for prompt in self.prompts]
        found, wanted = sum(answer["cached"] for answer in again), sum(hits.cached)
        differing = sum(answer["tokens"] != tokens for answer, tokens in zip(again, hits.answers))
        return {
            "ttft_miss_ms": 1000 * statistics.median(misses.ours),
            "ttft_hit_ms": 1000 * statistics.median(hits.ours),
            "vllm_alone_ms": 1000 * statistics.median(hits.alone),
            "miss_vs_vllm": misses.ratio(),
            "hit_vs_vllm": hits.ratio(),
            "misses_per_s": len(self.batch) / miss_batch,
            "hits_per_s": len(self.batch) / hit_batch,
            "hit_tokens": wanted,
            "recovered": found / wanted if wanted else 0,
            "differing_answers": misses.differing + hits.differing + differing,
        }

    def in_turns(self, way, after=lambda: None):
        """What a way does after its answer has no part in the other's time: `after` waits for it."""
        turns = Turns()
        for prompt in self.prompts:
            self.alone.forget()
            (alone,) = self.alone.ask([prompt])
            (answer,) = way.ask([prompt])
            turns.add(answer, alone)
            after()
        return turns

    def seconds_of_batch(self, way):
        began = time.monotonic()
        way.ask(self.batch)
        return time.monotonic() - began


def words_of(figures):
    first = "first token after {ttft_hit_ms:.0f} ms on hits, {ttft_miss_ms:.0f} on misses, {vllm_alone_ms:.0f} by vLLM"
    return (first + " alone; {hits_per_s:.1f} hits/s; {recovered:.0%} found after SIGKILL").format(**figures)


def measured(options):
    """Figures of the ways, why others have none, and answers a second of vLLM alone."""
    figures, absent = {}, {}
    with contextlib.ExitStack() as ends:
        say("vLLM alone: starts")
        measurement = Measurement(options)
        ends.callback(measurement.alone.close)
        for name in options.only or NAMES:
            with contextlib.closing(way_of(options, name)) as way:
                try:
                    figures[name] = measurement.of(way)
                    say(f"{name}: {words_of(figures[name])}")
                except Failed as failure:
                    absent[name] = str(failure)[-400:]
                    say(f"{name}: cannot run: {absent[name]}")
        return figures, absent, len(measurement.batch) / measurement.batch_alone


def report(options, figures, absent, alone_per_s):
    """Ratios first: how many times sooner the first token of a hit comes with the fastest transport of Quire."""
    result = {}
    ours = {name: f for name, f in figures.items() if name.startswith("quire")}
    rivals = {name: f for name, f in figures.items() if name in RIVALS and f["hit_tokens"]}
    if ours:
        fastest = min(f["hit_vs_vllm"] for f in ours.values())
        most = max(f["hits_per_s"] for f in ours.values())
        result["quire_vs_none_ttft"] = 1 / fastest
        if "lmcache_files" in rivals:
            result["quire_vs_lmcache_ttft"] = rivals["lmcache_files"]["hit_vs_vllm"] / fastest
        if rivals:
            result["quire_vs_best_ttft"] = min(f["hit_vs_vllm"] for f in rivals.values()) / fastest
        result["miss_overhead"] = statistics.median(f["miss_vs_vllm"] for f in ours.values())
        result["quire_vs_none_throughput"] = most / alone_per_s
        if rivals:
            result["quire_vs_best_throughput"] = most / max(f["hits_per_s"] for f in rivals.values())
        result["quire_recovered"] = min(f["recovered"] for f in ours.values())
    sizes = {"prompts": options.prompts, "answer_tokens": ANSWER, "seconds": time.monotonic() - BEGAN}
    return {**result, "vllm_alone_per_s": alone_per_s, "ways": figures, "absent": absent, **sizes}


def main():
    os.environ["UCX_TLS"] = "tcp"  # As between hosts.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # Which ends engines and servers, too.
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--prompts", type=int, default=8, help="questions, each over its own document (at most 12)")
    parser.add_argument("--only", action="append", choices=NAMES, help="ways to run; all when not given")
    options = parser.parse_args()
    if not vllm_chapters.PYTHON.exists():
        sys.exit("vLLM is not in build/tools; ./dev test engines installs it")
    if not 1 <= options.prompts <= 12:
        sys.exit("--prompts: give 1 to 12")
    # Every prompt fits in the cache, and all of a batch in one step, since the example connector stores no others.
    options.engine_settings = {"max_num_batched_tokens": 5120 * options.prompts, "kv_cache_memory_bytes": 384 << 20}
    try:
        print(json.dumps(report(options, *measured(options))), flush=True)
    except Failed as failure:
        sys.exit(f"vLLM cannot run without a store: {failure}")


if __name__ == "__main__":
    main()
