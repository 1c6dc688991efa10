"""Does `one-mode` take slow batches for a second state? `modes.py FOLDER…`, with unpacked bundles.

For each bundle, prints how many coordinates and cells fail the dip test at the level of the gate, if all requests count as
independent, and if those of one wave count as fewer (n ÷ (1 + (m − 1)·ρ)). A second implementation of the gate, for request
rows whose chunks are not at hand. Needs the packages numpy, pandas, pyarrow and diptest.
"""

import collections
import csv
import pathlib
import re
import sys

import diptest
import numpy as np
import pyarrow.parquet as pq

LEAST, EFFECT, SAMPLES = 20, np.log(1.1), 4000


def cells(folder):
    """Yields each load cell of a bundle with its measured ok requests and all its requests."""
    with open(folder / "artifacts.tsv", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            path = folder / row["file"]
            if row["output"] == "requests" and path.exists():
                rows = pq.read_table(path).to_pandas()
                if "client_id" in rows:
                    rows = rows[~rows.superseded.astype(bool)]
                    ok = rows[(rows.phase == "measured") & (rows.status == "ok")]
                    yield row["cell"], ok.sort_values(["sent_ns", "request_id"]), rows


def together(rows):
    """Returns a function of spans: the mean number of requests in flight."""
    rows = rows.dropna(subset=["sent_ns", "done_ns"])
    events = np.concatenate([np.c_[rows.sent_ns, np.ones(len(rows))], np.c_[rows.done_ns, -np.ones(len(rows))]])
    at, change = events[np.lexsort((events[:, 1], events[:, 0]))].T
    number = np.cumsum(change)
    area = np.concatenate([[0], np.cumsum(np.diff(at) * number[:-1])])

    def until(time):
        last = np.searchsorted(at, time, side="right") - 1
        return np.where(last >= 0, area[last] + (time - at[last]) * number[last], 0)

    return lambda begin, end: np.maximum((until(end) - until(begin)) / np.maximum(end - begin, 1), 1)


def freed(ok, rows):
    """Returns log latencies without the effects of lengths and of concurrency, and the requests of a wave."""
    begin, end = ok.sent_ns.values.astype(float), ok.done_ns.values.astype(float)
    prompt = (ok.prompt_tokens.fillna(0) - ok.cached_prompt_tokens.fillna(0)).clip(lower=0)
    features = [np.ones(len(ok)), np.log1p(ok.output_tokens.fillna(0)), np.log1p(prompt), np.log(together(rows)(begin, end))]
    features = np.array([np.asarray(feature, float) for feature in features]).T
    latency = np.log((end - begin) / 1e6)
    fit, *_ = np.linalg.lstsq(features, latency, rcond=None)
    in_flight = (end - begin).sum() / (end.max() - begin.min())
    return latency - features @ fit, max(1, round(in_flight))


def independent(series):
    """Returns the effective number of values in waves; 0 if no series has two waves."""
    waves = []
    for values, size in series:
        cut = [values[i : i + size] for i in range(0, len(values), size)]
        if len(cut) > 1 and 2 * len(cut[-1]) < size:
            cut[-2:] = [np.concatenate(cut[-2:])]
        waves.append(cut)
    n, k = sum(len(v) for v, _ in series), sum(map(len, waves))
    if k == len(waves) or n == k:
        return n if n == k else 0
    between = sum(len(w) * (w.mean() - np.concatenate(s).mean()) ** 2 for s in waves for w in s) / (k - len(waves))
    within = sum(((w - w.mean()) ** 2).sum() for s in waves for w in s) / (n - k)
    size = (n - sum(len(w) ** 2 for s in waves for w in s) / n) / (k - 1)
    rho = max(0, (between - within) / (between + (size - 1) * within))
    return int(n / (1 + (size - 1) * rho))


def two_modes(values):
    """Returns whether the best cut leaves a tenth on each side, a tenth of the latency apart."""
    values = np.sort(values)
    n, k = len(values), np.arange(1, len(values))
    below = np.cumsum(values)[:-1]
    gain = k * (n - k) * ((values.sum() - below) / (n - k) - below / k) ** 2
    cut = k[np.argmax(gain)]
    return np.median(values[cut:]) - np.median(values[:cut]) > EFFECT and 0.1 <= (n - cut) / n <= 0.9


CHANCES = {}


def p_value(values, n):
    """Returns the p value of the dip of these values for a sample of n."""
    if n not in CHANCES:
        draws = np.random.default_rng(n)
        CHANCES[n] = np.array([diptest.dipstat(np.sort(draws.random(n))) for _ in range(SAMPLES)])
    return max((CHANCES[n] >= diptest.dipstat(np.sort(values))).mean(), 1 / SAMPLES)


def fails(series, level, count):
    values, n = np.concatenate([values for values, _ in series]), count(series)
    return n >= LEAST and two_modes(values) and p_value(values, n) <= max(level, 1 / SAMPLES)


def main(folders):
    def every(series):
        return sum(len(values) for values, _ in series)

    for folder in map(pathlib.Path, folders):
        groups = collections.defaultdict(list)
        for name, ok, rows in cells(folder):
            groups[re.sub(r"block=\d+,?", "", name)].append(freed(ok, rows))
        number = sum(map(len, groups.values()))
        print(f"{folder.name}: {len(groups)} coordinates, {number} cells")
        for what, count in [("all requests", every), ("effective number", independent)]:
            whole = sum(fails(group, 0.005 / len(groups), count) for group in groups.values())
            alone = sum(fails([cell], 0.005 / number, count) for group in groups.values() for cell in group)
            print(f"  {what}: {whole} coordinates and {alone} cells have two modes")


if __name__ == "__main__":
    main(sys.argv[1:])
