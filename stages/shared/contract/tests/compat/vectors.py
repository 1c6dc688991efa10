"""Writes vectors.json: figures that the tools' own functions make of given rows.

    pip install guidellm==0.8.1 aiperf==0.13.0 && pip install --no-deps vllm==0.33.0 sglang==0.5.23
    python vectors.py > vectors.json

vLLM and SGLang: `calculate_metrics` (and SGLang's `calculate_goodput`), taken out of the installed
file by its syntax tree, because importing the module needs a whole engine. guidellm:
`GenerativeRequestStats`, `DistributionSummary` and `GoodputSLO`, imported. aiperf:
the metric classes, imported. What is written down here is only which stamp of a row stands for
which stamp of a tool, and for guidellm and aiperf which of their classes makes which figure.
"""

import ast
import importlib.metadata
import importlib.util
import json
import math
import random
import sys
import types
import warnings
from dataclasses import dataclass, field

import numpy as np

S = 1e9


def functions(module, *names):
    """The named classes and functions of an installed module, without importing it."""
    top, *rest = module.split(".")
    where = importlib.util.find_spec(top).submodule_search_locations[0]
    path = "/".join([where, *rest]) + ".py"
    tree = ast.parse(open(path).read())
    wanted = [n for n in tree.body if getattr(n, "name", None) in names]
    assert len(wanted) == len(names), (path, names)
    code = ast.Module(
        [ast.ImportFrom("__future__", [ast.alias("annotations")], 0), *wanted], []
    )
    space = {
        "np": np,
        "warnings": warnings,
        "dataclass": dataclass,
        "field": field,
        "MILLISECONDS_TO_SECONDS_CONVERSION": 1000,
        "TERM_PLOTLIB_AVAILABLE": False,
        "print": lambda *_: None,
        "msgspec": types.SimpleNamespace(Struct=_Struct),
        "__name__": "vectors",
    }
    sys.modules.setdefault("vectors", types.ModuleType("vectors"))
    exec(compile(ast.fix_missing_locations(code), path, "exec"), space)
    return [space[name] for name in names]


class _Struct:
    def __init_subclass__(cls, **_):
        pass

    def __init__(self, **values):
        self.__dict__.update(values)


def rows(seed, n, packed, failures, untold, known_first):
    draw = random.Random(seed)
    made = []
    at = 1_000_000_000
    for i in range(n):
        at += int(draw.expovariate(1 / 40e6))
        sent = at + draw.randrange(20_000, 3_000_000)
        first = sent + draw.randrange(20_000_000, 90_000_000)
        tokens = draw.choice([1, 2, 9, 17, 33, 48])
        per_chunk = draw.choice([1, 4]) if packed else 1
        chunks = [first]
        for _ in range(math.ceil(tokens / per_chunk) - 1):
            chunks.append(chunks[-1] + draw.randrange(200_000, 25_000_000) * per_chunk)
        failed = i % failures == failures - 1 if failures else False
        told = not (untold and i % untold == 0)
        made.append(
            {
                "status": "timeout" if failed else "ok",
                "scheduled_ns": at,
                "sent_ns": sent,
                "done_ns": chunks[-1] + draw.randrange(100_000, 2_000_000),
                "prompt_tokens": draw.randrange(5, 900),
                "output_tokens": tokens if told else len(chunks),
                "tokens_source": "usage" if told else "chunks",
                "requested_output_tokens": draw.choice([48, 64]),
                "first_chunk_tokens": min(per_chunk, tokens) if known_first else None,
                "chunks_ns": chunks,
            }
        )
    return made


def around(given):
    return (max(r["done_ns"] for r in given) - min(r["scheduled_ns"] for r in given)) / S


def output(r, end):
    chunks = r["chunks_ns"]
    return types.SimpleNamespace(
        success=r["status"] == "ok",
        start_time=r["sent_ns"] / S,
        ttft=(chunks[0] - r["sent_ns"]) / S,
        latency=(end - r["sent_ns"]) / S,
        itl=[(b - a) / S for a, b in zip(chunks, chunks[1:])],
        prompt_len=r["prompt_tokens"],
        generated_text="",
        text_chunks=[],
        input_audio_duration=0.0,
        num_input_sequences=1,
        error="",
    )


def vllm(given, bounds):
    calculate, _ = functions("vllm.benchmarks.serve", "calculate_metrics", "BenchmarkMetrics")
    outputs = []
    for r in given:
        o = output(r, r["chunks_ns"][-1])
        o.output_tokens = r["output_tokens"]
        outputs.append(o)
    slos = {"e2el" if k == "e2e" else k: v for k, v in bounds.items()}
    dur = around(given)
    m, _ = calculate([], outputs, dur, None, [50, 90, 95, 99], slos)
    found = {
        "duration": dur,
        "completed": m.completed,
        "failed": m.failed,
        "total_input_tokens": m.total_input,
        "total_output_tokens": m.total_output,
        "request_throughput": m.request_throughput,
        "request_goodput": m.request_goodput if bounds else None,
        "output_throughput": m.output_throughput,
        "total_token_throughput": m.total_token_throughput,
        "max_output_tokens_per_s": m.max_output_tokens_per_s,
        "max_concurrent_requests": m.max_concurrent_requests,
    }
    for name in ("ttft", "tpot", "itl", "e2el"):
        for stat in ("mean", "median", "std"):
            found[f"{stat}_{name}_ms"] = getattr(m, f"{stat}_{name}_ms")
        for p, value in getattr(m, f"percentiles_{name}_ms"):
            found[f"p{p}_{name}_ms"] = value
    return found


def sglang(given, bounds):
    calculate, _ = functions("sglang.benchmark.serving", "calculate_metrics", "BenchmarkMetrics")
    goodput, _ = functions("sglang.benchmark.goodput", "calculate_goodput", "GoodputMetrics")
    outputs = []
    for r in given:
        o = output(r, r["done_ns"])
        told = r["tokens_source"] == "usage"
        o.output_len = r["output_tokens"] if told else r["requested_output_tokens"]
        outputs.append(o)
    requests = [
        types.SimpleNamespace(prompt_len=r["prompt_tokens"], text_prompt_len=0, vision_prompt_len=0)
        for r in given
    ]
    tokenizer = types.SimpleNamespace(encode=lambda *_, **__: [])
    dur = around(given)
    m, _ = calculate(requests, outputs, dur, tokenizer, "sglang")
    found = {
        "duration": dur,
        "completed": m.completed,
        "total_input_tokens": m.total_input,
        "total_output_tokens": m.total_output,
        "request_throughput": m.request_throughput,
        "input_throughput": m.input_throughput,
        "output_throughput": m.output_throughput,
        "total_throughput": m.total_throughput,
        "concurrency": m.concurrency,
        "max_output_tokens_per_s": m.max_output_tokens_per_s,
        "max_concurrent_requests": m.max_concurrent_requests,
        "max_itl_ms": m.max_itl_ms,
        "request_goodput": None,
        "slo_attainment": None,
    }
    if bounds:
        slos = {"e2el" if k == "e2e" else k: v for k, v in bounds.items()}
        g = goodput(outputs, slos, dur)
        found["request_goodput"] = g.request_goodput
        found["slo_attainment"] = g.slo_attainment
    for name in ("ttft", "tpot", "itl", "e2e_latency"):
        for stat in ("mean", "median", "std", "p90", "p95", "p99"):
            found[f"{stat}_{name}_ms"] = getattr(m, f"{stat}_{name}_ms")
    return found


def guidellm(given, bounds):
    from guidellm.schemas.base.info import RequestInfo, RequestTimings
    from guidellm.schemas.base.request import UsageMetrics
    from guidellm.schemas.base.request_stats import GenerativeRequestStats
    from guidellm.schemas.base.statistics import DistributionSummary
    from guidellm.schemas.benchmark.goodput import GoodputSLO

    stats = []
    for r in given:
        if r["status"] != "ok":
            continue
        told = r["tokens_source"] == "usage"
        chunks = r["chunks_ns"]
        stats.append(
            GenerativeRequestStats(
                request_id="0",
                info=RequestInfo(
                    timings=RequestTimings(
                        targeted_start=r["scheduled_ns"] / S,
                        request_start=r["sent_ns"] / S,
                        first_token_iteration=chunks[0] / S,
                        last_token_iteration=chunks[-1] / S,
                        token_iterations=len(chunks),
                        request_end=r["done_ns"] / S,
                        resolve_end=r["done_ns"] / S,
                    )
                ),
                input_metrics=UsageMetrics(text_tokens=r["prompt_tokens"]),
                output_metrics=UsageMetrics(text_tokens=r["output_tokens"] if told else None),
            )
        )
    errored = len(given) - len(stats)
    start = min(s.request_start_time for s in stats)
    end = max(s.request_end_time for s in stats)
    rate = lambda of: DistributionSummary.rate_distribution_from_timings(
        [s.request_end_time for s in of], start_time=start, end_time=end
    ).mean
    found = {
        "request_totals_successful": len(stats),
        "request_totals_errored": errored,
        "requests_per_second_mean": rate(stats),
        "slo_attainment": None,
        "request_goodput_mean": None,
    }
    if bounds:
        slo = GoodputSLO(
            ttft_ms=bounds.get("ttft"), tpot_ms=bounds.get("tpot"), e2el_ms=bounds.get("e2e")
        )
        verdicts = [
            slo.is_conforming(
                ttft_ms=s.time_to_first_token_ms,
                tpot_ms=s.inter_token_latency_ms,
                e2el_ms=s.request_latency * 1000.0,
            )
            for s in stats
        ]
        good = [s for s, v in zip(stats, verdicts) if v]
        determined = sum(v is not None for v in verdicts) + errored
        found["slo_attainment"] = len(good) / determined
        found["request_goodput_mean"] = rate(good)
    # As in `GenerativeMetrics.compile`.
    values = {
        "request_latency": [s.request_latency or 0.0 for s in stats],
        "time_to_first_token_ms": [s.time_to_first_token_ms or 0.0 for s in stats],
        "time_per_output_token_ms": [
            (s.time_per_output_token_ms or 0.0, s.output_tokens or 0.0) for s in stats
        ],
        "inter_token_latency_ms": [
            (s.inter_token_latency_ms or 0.0, (s.output_tokens or 1.0) - 1.0) for s in stats
        ],
        "output_token_count": [s.output_tokens or 0.0 for s in stats],
    }
    for name, sample in values.items():
        d = DistributionSummary.from_values(sample)
        for word in ("mean", "median", "std_dev"):
            found[f"{name}_{word}"] = getattr(d, word)
        for word in ("p90", "p95", "p99"):
            found[f"{name}_{word}"] = getattr(d.percentiles, word)
    return found


def aiperf(given, bounds):
    from aiperf.common.exceptions import NoMetricValue
    from aiperf.metrics.metric_dicts import MetricRecordDict, metric_result_from_array
    from aiperf.metrics.types.good_request_count_metric import GoodRequestCountMetric
    from aiperf.metrics.types.inter_chunk_latency_metric import InterChunkLatencyMetric
    from aiperf.metrics.types.inter_token_latency_metric import InterTokenLatencyMetric
    from aiperf.metrics.types.output_sequence_length_metric import OutputSequenceLengthMetric
    from aiperf.metrics.types.output_token_throughput_metrics import (
        OutputTokenThroughputPerUserMetric,
    )
    from aiperf.metrics.types.request_latency_metric import RequestLatencyMetric
    from aiperf.metrics.types.ttft_metric import TTFTMetric
    from aiperf.metrics.types.ttst_metric import TTSTMetric

    order = [
        (TTFTMetric, 1e-6),
        (TTSTMetric, 1e-6),
        (RequestLatencyMetric, 1e-6),
        (OutputSequenceLengthMetric, 1),
        (InterTokenLatencyMetric, 1e-6),
        (InterChunkLatencyMetric, 1e-6),
        (OutputTokenThroughputPerUserMetric, 1),
    ]
    GoodRequestCountMetric.set_slos(
        {
            {
                "ttft": "time_to_first_token",
                "tpot": "inter_token_latency",
                "e2e": "request_latency",
            }[k]: v
            for k, v in bounds.items()
        }
    )
    samples = {metric.tag: [] for metric, _ in order}
    good = count = tokens = prompts = 0
    starts, ends = [], []
    for r in given:
        if r["status"] != "ok":
            continue
        responses = [types.SimpleNamespace(perf_ns=at, data=True) for at in r["chunks_ns"]]
        record = types.SimpleNamespace(
            request=types.SimpleNamespace(start_perf_ns=r["sent_ns"]),
            start_perf_ns=r["sent_ns"],
            timestamp_ns=r["sent_ns"],
            content_responses=responses,
            responses=responses,
            token_counts=types.SimpleNamespace(
                output=r["output_tokens"],
                reasoning=None,
                first_content_chunk_tokens=r["first_chunk_tokens"],
            ),
        )
        found = MetricRecordDict()
        for metric, factor in order:
            try:
                value = metric()._parse_record(record, found)
            except NoMetricValue:
                continue
            found[metric.tag] = value
            values = value if isinstance(value, list) else [value]
            samples[metric.tag] += [v * factor for v in values]
        good += GoodRequestCountMetric()._parse_record(record, found)
        count += 1
        tokens += r["output_tokens"]
        prompts += r["prompt_tokens"]
        starts.append(record.timestamp_ns)
        ends.append(record.timestamp_ns + found[RequestLatencyMetric.tag])
    # `BenchmarkDurationMetric` and the throughputs: a difference and quotients, written down here.
    duration = (max(ends) - min(starts)) / S
    found = {
        "request_count": count,
        "error_request_count": len(given) - count,
        "benchmark_duration": duration,
        "request_throughput": count / duration,
        "output_token_throughput": tokens / duration,
        "total_token_throughput": (prompts + tokens) / duration,
        "goodput": good / duration if bounds else None,
    }
    for tag, values in samples.items():
        array = np.array(values, dtype=np.float64)
        # Inter-chunk latencies go through a t-digest there; exact quantiles are compared.
        d = metric_result_from_array(tag, tag, "", array, float(array.sum()))
        for stat in ("avg", "std", "min", "p50", "p90", "p95", "p99", "max"):
            found[f"{tag}_{stat}"] = getattr(d, stat)
    return found


def plain(value):
    return None if value is None else float(value)


def main():
    cases = []
    for name, given, bounds in [
        ("one token a chunk", rows(1, 40, False, 0, 0, True), {}),
        ("packed chunks", rows(2, 40, True, 0, 0, True), {"ttft": 60.0, "tpot": 15.0}),
        ("first chunk unknown", rows(3, 41, True, 0, 0, False), {"tpot": 13.0, "e2e": 900.0}),
        ("failures", rows(4, 50, False, 7, 0, True), {"ttft": 55.0, "tpot": 14.0, "e2e": 1500.0}),
        ("usage untold", rows(5, 30, True, 9, 4, False), {"ttft": 70.0}),
        ("ten alike", rows(6, 10, False, 0, 0, True), {}),
    ]:
        expected = {
            tool.__name__: {k: plain(v) for k, v in tool(given, bounds).items()}
            for tool in (vllm, sglang, guidellm, aiperf)
        }
        cases.append({"name": name, "bounds": bounds, "requests": given, "expected": expected})
    versions = {
        tool: importlib.metadata.version(tool) for tool in ("vllm", "sglang", "guidellm", "aiperf")
    }
    json.dump({"versions": versions, "cases": cases}, sys.stdout, separators=(",", ":"))
    print()


main()
