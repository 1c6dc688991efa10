"""Writes families.json: decisions that share a level, and rank tests over several series, by other means.

Run once, by hand, with the versions named in the file it writes:
    python3 -m venv env && env/bin/pip install scipy==1.17.1 numpy==2.4.6
    env/bin/python stages/shared/statistics/oracles/families.py
The tests never run this.
"""

import itertools
import json
import pathlib

import numpy as np
import scipy
from scipy import stats

ALPHA, KEPT, ONWARD = 0.05, 0.08, 0.6
rng = np.random.default_rng(12)
cases = []


def shares(wholes, parts, rejected_wholes, rejected_parts, makes_up):
    """The shares of comparisons and of their cells, from the definition in docs/statistics.md."""
    left = {i: [j for j in range(len(p)) if not rejected_parts[i][j]] for i, p in enumerate(parts)}
    kept = KEPT if any(left.values()) else 0.0
    settled = [rejected_wholes[i] and not left[i] for i in range(wholes)]
    # A whole that differs and is made up of its parts has a part that differs.
    spared = [makes_up and rejected_wholes[i] and len(left[i]) == len(parts[i]) > 0 for i in range(wholes)]
    open_parts = max(sum(map(len, left.values())) - sum(spared), 1)
    of_parts = {(i, j): kept / open_parts for i in left for j in left[i]}
    waiting = [i for i in range(wholes) if not rejected_wholes[i]]
    passing = [i for i in range(wholes) if rejected_wholes[i] and not settled[i]]
    each = (1 - kept) / max(len(waiting) + len(passing), 1)
    of_wholes = {i: each + (ONWARD * each * len(passing) / len(waiting)) for i in waiting}
    for i in passing:
        down = each * (1.0 if not waiting else 1.0 - ONWARD)
        among = len(left[i]) - (1 if spared[i] and len(left[i]) > 1 else 0)
        for j in left[i]:
            of_parts[i, j] += down / among
    return of_wholes, of_parts


def closed(p_wholes, p_parts, makes_up):
    """Rejects what every set of true hypotheses with it rejects: all sets are tried."""
    names = [("w", i) for i in range(len(p_wholes))] + [(i, j) for i, p in enumerate(p_parts) for j in range(len(p))]
    p = {("w", i): v for i, v in enumerate(p_wholes)} | {(i, j): v for i, ps in enumerate(p_parts) for j, v in enumerate(ps)}
    standing = set()
    for size in range(1, len(names) + 1):
        for true in itertools.combinations(names, size):
            false_wholes = [("w", i) not in true for i in range(len(p_wholes))]
            false_parts = [[(i, j) not in true for j in range(len(ps))] for i, ps in enumerate(p_parts)]
            of_wholes, of_parts = shares(len(p_wholes), p_parts, false_wholes, false_parts, makes_up)
            level = lambda name: of_wholes[name[1]] if name[0] == "w" else of_parts[name]
            if not any(p[name] <= ALPHA * level(name) for name in true):
                standing.update(true)
    return [name not in standing for name in names]


small = lambda n: [float(v) for v in np.round(10 ** rng.uniform(-4, -0.8, n), 6)]
for wholes, sizes in ((1, [2]), (1, [3]), (2, [2, 3]), (2, [3, 0]), (3, [2, 2, 2]), (3, [4, 0, 2])):
    for makes_up in (False, True):
        for _ in range(12):
            p_wholes, p_parts = small(wholes), [small(n) for n in sizes]
            cases.append({"procedure": "shared", "wholes": p_wholes, "parts": p_parts, "makes_up": makes_up,
                          "expected": closed(p_wholes, p_parts, makes_up)})

for n in (4, 6, 9, 12):
    values = [float(v) for v in rng.permutation(n)]
    p = stats.kendalltau(range(n), values, method="exact").pvalue
    cases.append({"procedure": "kendall_trend", "rows": [values], "expected": float(p)})
for lengths in ((3, 3), (4, 3), (5, 2, 3)):
    series = [[float(v) for v in rng.permutation(n)] for n in lengths]
    s = lambda rows: sum(int(np.sign(b - a)) for row in rows for a, b in itertools.combinations(row, 2))
    orders = [list(itertools.permutations(range(n))) for n in lengths]
    every = [sum(v) for v in itertools.product(*[[s([o]) for o in of] for of in orders])]
    p = float(np.mean(np.abs(every) >= abs(s(series))))
    cases.append({"procedure": "kendall_trend", "rows": series, "expected": p})

for shapes in (((3, 4), (4, 4)), ((2, 5), (3, 3), (4, 2)), ((5, 5),)):
    strata = [[[float(v) for v in rng.integers(0, 9, a)], [float(v) for v in rng.integers(2, 11, b)]] for a, b in shapes]
    total, mean, variance = 0.0, 0.0, 0.0
    for a, b in strata:
        ranks = stats.rankdata(a + b)
        weight = 1 / (len(a) + len(b) + 1)
        sums = [weight * ranks[list(choice)].sum() for choice in itertools.combinations(range(len(ranks)), len(a))]
        total += weight * ranks[: len(a)].sum()
        mean += np.mean(sums)
        variance += np.var(sums)
    z = (total - mean) / np.sqrt(variance)
    cases.append({"procedure": "van_elteren", "rows": strata, "expected": [float(z), float(2 * stats.norm.sf(abs(z)))]})

path = pathlib.Path(__file__).with_name("families.json")
lines = ",\n".join(json.dumps(c) for c in cases)
versions = {"scipy": scipy.__version__, "numpy": np.__version__}
path.write_text(f'{{"versions": {json.dumps(versions)},\n"cases": [\n{lines}\n]}}\n')
