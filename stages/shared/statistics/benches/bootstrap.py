"""Times scipy.stats.bootstrap on values read from standard input; bootstrap.rs starts it."""

import json
import sys
import time

import numpy as np
import scipy
from scipy import stats

asked = json.load(sys.stdin)
methods = {"percentile": "percentile", "bca": "BCa", "basic": "basic"}
cases = []
for case in asked["cases"]:
    values = np.array(case["values"])
    best = busy = float("inf")
    for _ in range(asked["runs"]):
        start, cpu = time.perf_counter(), time.process_time()
        # np.mean takes an axis, so SciPy runs it vectorised: its fast way.
        interval = stats.bootstrap(
            (values,), np.mean, n_resamples=asked["resamples"], confidence_level=0.95,
            method=methods[case["kind"]], rng=np.random.default_rng(164),
        ).confidence_interval
        best = min(best, time.perf_counter() - start)
        busy = min(busy, time.process_time() - cpu)
    cases.append({"seconds": best, "cpu": busy, "low": float(interval.low), "high": float(interval.high)})
json.dump({"scipy": scipy.__version__, "cases": cases}, sys.stdout)
