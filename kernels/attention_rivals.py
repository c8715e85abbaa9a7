#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decode attention of others at the shapes of quire_bench_cuda_kernels, on the same GPU.

PyTorch's scaled_dot_product_attention over KV that was gathered from pages (the gather counted and
not), and FlashInfer's over the pages themselves; each is first compared with the definition. Calls are
timed as the device sees them: CALLS of them, one after the other, are recorded as a CUDA graph, and a replay
is timed between two events, so that no call waits for Python. What cannot be recorded is called as often
between two events; its RIVAL_timed is "calls" then, not "graph", and has the gaps in it that Python
leaves. (quire_bench_cuda_kernels gives its calls one by one to an idle stream: what that costs is in its
own figure alone.)

The last line is one JSON object; what could not be measured is missing there and "skipped" says why. With the
JSON of quire_bench_cuda_kernels it also has the ratios attention_vs_sdpa, attention_vs_sdpa_gathered and
attention_vs_flashinfer: above 1 is faster than the rival.

use: attention_rivals.py [KERNELS_JSON]
"""
import json
import statistics
import sys

WARM_UP, CALLS, REPEATS = 5, 20, 20
TOLERANCE = 2e-2  # Share of the largest value: bf16 has 8 bits.
# Shapes of quire_bench_cuda_kernels, used without its JSON.
SHAPES = {"batch": 32, "budget_slots": 64, "page_tokens": 32, "query_heads": 32, "kv_heads": 8, "dim": 128}


def recorded(torch, job):
    """CALLS calls as one CUDA graph; None where the job cannot be recorded."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for _ in range(CALLS):
                job()
    except RuntimeError:
        torch.cuda.synchronize()
        return None
    return graph


def warm_up(torch, job):
    """On another stream than the default one, as recording wants it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            job()
    torch.cuda.synchronize()


def measure(torch, name, job, results):
    """Median microseconds of a call on the device, and how it was timed."""
    warm_up(torch, job)
    graph = recorded(torch, job)

    def calls():
        for _ in range(CALLS):
            job()

    run_all = calls if graph is None else graph.replay
    times = []
    for repeat in range(-WARM_UP, REPEATS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run_all()
        end.record()
        end.synchronize()
        if repeat >= 0:
            times.append(1e3 * start.elapsed_time(end) / CALLS)
    results[f"{name}_us"] = statistics.median(times)
    results[f"{name}_timed"] = "calls" if graph is None else "graph"


def make_inputs(torch, s):
    """Queries, pools [slots][p][heads][d] and the slots of each sequence, which do not lie in order."""
    generator = torch.Generator(device="cuda").manual_seed(7)
    slots = s["batch"] * s["budget_slots"]
    options = {"device": "cuda", "dtype": torch.bfloat16, "generator": generator}
    pool = (slots, s["page_tokens"], s["kv_heads"], s["dim"])
    q = torch.randn(s["batch"], s["query_heads"], s["dim"], **options)
    order = torch.randperm(slots, device="cuda", generator=generator)
    return q, torch.randn(pool, **options), torch.randn(pool, **options), order


def gathered(pool, order, s):
    """[batch][kv heads][tokens][d]: keys or values as attention without pages wants them. One copy, in the order of
    the pages' tokens; the swap of dimensions is a view."""
    tokens = s["budget_slots"] * s["page_tokens"]
    return pool[order].view(s["batch"], tokens, s["kv_heads"], s["dim"]).transpose(1, 2)


def grouped(q, s):
    """[batch][kv heads][group][d]: the query heads that share a KV head are rows of its attention. Each row is one
    query token that sees all keys, so no mask is needed, and keys and values are read once for the group."""
    return q.view(s["batch"], s["kv_heads"], s["query_heads"] // s["kv_heads"], s["dim"])


def expected_answer(torch, s, inputs):
    """[batch][query heads][d] in f32, one sequence at a time: softmax(q k / sqrt(d)) v."""
    q, k_pool, v_pool, order = inputs
    query, k, v = grouped(q, s), gathered(k_pool, order, s), gathered(v_pool, order, s)
    answers = []
    for i in range(s["batch"]):
        weights = torch.softmax(query[i].float() @ k[i].float().transpose(1, 2) / s["dim"] ** 0.5, dim=-1)
        answers.append((weights @ v[i].float()).reshape(s["query_heads"], s["dim"]))
    return torch.stack(answers)


def check(name, answer, expected):
    """A rival that computes something else is not compared with."""
    error = ((answer.float() - expected).abs().max() / expected.abs().max()).item()
    if not error < TOLERANCE:
        raise RuntimeError(f"{name} differs from the definition by {error:.2g} of the largest value")


def measure_sdpa(torch, s, inputs, expected, results):
    q, k_pool, v_pool, order = inputs
    query = grouped(q, s)
    k, v = gathered(k_pool, order, s).contiguous(), gathered(v_pool, order, s).contiguous()
    attend = torch.nn.functional.scaled_dot_product_attention
    check("SDPA", attend(query, k, v).reshape(q.shape), expected)
    measure(torch, "sdpa", lambda: attend(query, k, v), results)

    def gather_and_attend():
        return attend(query, gathered(k_pool, order, s), gathered(v_pool, order, s))

    check("SDPA behind a gather", gather_and_attend().reshape(q.shape), expected)
    measure(torch, "sdpa_gathered", gather_and_attend, results)


def measure_flashinfer(torch, flashinfer, s, inputs, expected, results):
    q, k_pool, v_pool, order = inputs
    workspace = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD")
    starts = torch.arange(0, order.numel() + 1, s["budget_slots"], dtype=torch.int32, device="cuda")
    last = torch.full((s["batch"],), s["page_tokens"], dtype=torch.int32, device="cuda")
    wrapper.plan(starts, order.int(), last, s["query_heads"], s["kv_heads"], s["dim"], s["page_tokens"],
                 data_type=torch.bfloat16, q_data_type=torch.bfloat16)
    check("FlashInfer", wrapper.run(q, (k_pool, v_pool)), expected)
    measure(torch, "flashinfer", lambda: wrapper.run(q, (k_pool, v_pool)), results)


def import_torch(results):
    """torch with a GPU, or None; `results` says why."""
    try:
        import torch
    except ImportError as error:
        results["skipped"] = f"no PyTorch: {error}"
        return None
    if not torch.cuda.is_available():
        results["skipped"] = "PyTorch sees no CUDA device"
        return None
    results.update(device=torch.cuda.get_device_name(0), torch=torch.__version__)
    return torch


def add_ratios(results, kernels):
    ours = kernels.get("attention_us")
    for rival in ("sdpa", "sdpa_gathered", "flashinfer"):
        if ours and f"{rival}_us" in results:
            results[f"attention_vs_{rival}"] = results[f"{rival}_us"] / ours


def run(kernels):
    results = {"benchmark": "attention_rivals"}
    shapes = {name: kernels.get(name, default) for name, default in SHAPES.items()}
    torch = import_torch(results)
    if torch is None:
        return results
    inputs = make_inputs(torch, shapes)
    expected = expected_answer(torch, shapes, inputs)
    measure_sdpa(torch, shapes, inputs, expected, results)
    try:
        import flashinfer
        measure_flashinfer(torch, flashinfer, shapes, inputs, expected, results)
    except Exception as error:  # It compiles on first use: any failure is the reason.
        results["skipped"] = f"no FlashInfer: {error}"
    add_ratios(results, kernels)
    return {**results, **shapes}


def main():
    kernels = {}
    if len(sys.argv) > 1:
        with open(sys.argv[1], encoding="utf-8") as file:
            kernels = json.loads(file.read().splitlines()[-1])
    print(json.dumps(run(kernels)))


if __name__ == "__main__":
    main()
