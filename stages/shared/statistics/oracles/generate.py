"""Writes vectors.json: inputs and what SciPy and statsmodels say about them.

Run once, by hand, with the versions named in the file it writes:
    python3 -m venv env && env/bin/pip install scipy==1.17.1 statsmodels==0.15.0 numpy==2.4.6
    env/bin/python stages/shared/statistics/oracles/generate.py
Inputs are fixed lists or drawn from seeded generators; the tests never run this.
"""

import itertools
import json
import math
import pathlib

import numpy as np
import scipy
import statsmodels
from scipy import stats
from statsmodels.stats.multitest import multipletests

rng = np.random.default_rng(164)
floats = lambda values: [float(v) for v in values]
cases = []


def case(procedure, expected, **inputs):
    cases.append({"procedure": procedure, **inputs, "expected": expected})


def number(value):
    value = float(value)
    return value if np.isfinite(value) else None


samples = {
    "one value": [3.25],
    "two values": [1.0, 4.0],
    "constant": [7.5] * 9,
    "ties": [1, 1, 2, 2, 2, 3, 5, 8, 8],
    "large offset": floats(1e9 + rng.normal(size=40)),
    "log-normal": floats(rng.lognormal(3, 1, size=501)),
    "tiny": floats(rng.normal(0, 1e-12, size=11)),
}
for name, values in samples.items():
    case(
        "describe",
        {
            "mean": number(np.mean(values)),
            "std": number(np.std(values, ddof=1)) if len(values) > 1 else None,
            "quantiles": [[p, number(np.quantile(values, p))] for p in (0, 0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1)],
        },
        name=name,
        a=floats(values),
    )
for name in ("two values", "ties", "large offset", "log-normal", "tiny"):
    a = samples[name]
    for level in (0.9, 0.95, 0.999):
        low, high = stats.t.interval(level, len(a) - 1, loc=np.mean(a), scale=stats.sem(a))
        case("t_interval", [number(low), number(high)], name=name, a=floats(a), level=level)

differences = {
    "one": [2.0],
    "small": [0.3, -1.2, 2.2, 0.7, -0.1, 1.9, 4.0],
    "one side": floats(range(1, 13)),
    "ties": [1, 1, -1, 2, 2, -3, 4, 4, 5, -2],
    "zeros": [0, 0, 1.5, -2.5, 3.5, 0.5, -4.5, 6.5, 0],
    "zeros and ties": [0, 0, 1, -1, 2, 2, -3, 4, 5, 5, 5, 0],
    "n = 25": floats(rng.normal(0.5, 1, size=25)),
    "n = 50": floats(rng.normal(0.2, 1, size=50)),
    "n = 51": floats(rng.normal(0.2, 1, size=51)),
    "extreme": floats(rng.normal(4, 1, size=400)),
    "balanced": [1.0, -2.0, 3.0, -4.0, 5.0, -6.0, 7.0, -8.0],
}
for name, d in differences.items():
    for zeros in ("wilcox", "pratt", "zsplit"):
        for correction in (False, True):
            if len(d) > 200:
                method = "asymptotic"
            elif 0 in d or len(set(map(abs, d))) < len(d):
                # All signs, with the ties and zeros observed.
                method = stats.PermutationMethod(n_resamples=np.inf)
            else:
                method = "exact"
            r = stats.wilcoxon(d, zero_method=zeros, correction=correction, method=method)
            expected = {"statistic": number(r.statistic), "p": number(r.pvalue)}
            case("wilcoxon", expected, name=name, a=floats(d), zeros=zeros, correction=correction)
    moved = [v for v in d if v != 0]
    case("sign", number(stats.binomtest(sum(v > 0 for v in moved), len(moved)).pvalue), name=name, a=floats(d))
    if len(d) > 1:
        r = stats.ttest_1samp(d, 0)
        case("paired_t", {"t": number(r.statistic), "p": number(r.pvalue)}, name=name, a=floats(d))
        margin = 0.8
        lower = stats.ttest_1samp(d, -margin, alternative="greater").pvalue
        upper = stats.ttest_1samp(d, margin, alternative="less").pvalue
        case("tost", [number(lower), number(upper)], name=name, a=floats(d), margin=margin)



def exact_u(a, b):
    """The share of choices of the first group whose U lies at least as far from its mean."""
    ranks = stats.rankdata(a + b)
    centre = len(a) * (len(a) + len(b) + 1) / 2
    distance = lambda chosen: abs(sum(ranks[i] for i in chosen) - centre)
    seen = distance(range(len(a)))
    choices = list(itertools.combinations(range(len(a) + len(b)), len(a)))
    return sum(distance(c) >= seen - 1e-9 for c in choices) / len(choices)


groups = {
    "separate": ([1, 2, 3], [4, 5, 6]),
    "small": (floats(rng.normal(0, 1, 7)), floats(rng.normal(0.5, 2, 9))),
    "unequal": (floats(rng.normal(0, 1, 5)), floats(rng.normal(0.5, 2, 60))),
    "ties": ([1, 1, 2, 3, 3, 4], [2, 3, 4, 4, 5, 5, 6]),
    "large": (floats(rng.normal(0, 1, 120)), floats(rng.normal(0.3, 1, 150))),
    "extreme": (floats(rng.normal(0, 1, 80)), floats(rng.normal(5, 1, 80))),
}
for name, (a, b) in groups.items():
    a, b = floats(a), floats(b)
    r = stats.ttest_ind(a, b, equal_var=False)
    case("welch_t", {"t": number(r.statistic), "df": number(r.df), "p": number(r.pvalue)}, name=name, a=a, b=b)
    for correction in (False, True):
        few, tied = len(a) + len(b) < 100, len(set(a + b)) < len(a + b)
        r = stats.mannwhitneyu(a, b, use_continuity=correction, method="exact" if few else "asymptotic")
        p = exact_u(a, b) if few and tied else number(r.pvalue)
        case("mann_whitney", {"u": number(r.statistic), "p": p}, name=name, a=a, b=b, correction=correction)

families = {
    "one": [0.03],
    "v3": [0.000912, 0.000162, 0.000430, 0.652841, 0.000010],
    "ties": [0.01, 0.01, 0.04, 0.04, 0.5, 1.0],
    "many": floats(rng.uniform(0, 1, 40) ** 3),
    "zero and one": [0.0, 1.0, 0.2],
}
for name, p in families.items():
    for method in ("holm", "fdr_bh"):
        case(method, floats(multipletests(p, method=method)[1]), name=name, a=p)

data = floats(rng.lognormal(0, 0.6, size=25))
for method in ("percentile", "basic", "bca"):
    r = stats.bootstrap((data,), np.mean, n_resamples=400_000, method=method, rng=np.random.default_rng(1))
    case("bootstrap", [number(r.confidence_interval.low), number(r.confidence_interval.high)], name=method, a=data)

paired = {
    "two": ([1.0, 2.0], [3.0, 1.0]),
    "three": ([1.0, 2.0, 4.0], [3.0, 1.0, 2.0]),
    "ties": ([1, 1, 2, 2, 2, 3, 5, 8, 8], [2, 1, 2, 3, 3, 3, 1, 9, 9]),
    "zeros": ([0, 0, 0, 1, 2, 0], [0, 1, 0, 0, 3, 2]),
    "n = 12": (floats(rng.normal(size=12)), floats(rng.normal(size=12))),
    "n = 33": (floats(rng.normal(size=33)), floats(rng.normal(size=33))),
    "n = 34": (floats(rng.normal(size=34)), floats(rng.normal(size=34))),
    "tiny": (floats(rng.normal(0, 1e-12, size=20)), floats(rng.normal(0, 1e-12, size=20))),
    "large": (floats(rng.normal(size=2000)), floats(rng.normal(size=2000))),
    "in order": (floats(range(1, 41)), floats(np.sqrt(range(1, 41)))),
}
x = rng.normal(size=300)
paired["extreme"] = (floats(x), floats(x + 0.5 * rng.normal(size=300)))
paired["constant"] = ([1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 3.0, 4.0])


def exact_order(a, b, statistic):
    """The share of the orders of b whose statistic lies at least as far from 0."""
    seen = abs(statistic(np.array(a), np.array([b]))[0])
    orders = np.array(list(itertools.permutations(b)))
    return float(np.mean(np.abs(statistic(np.array(a), orders)) >= seen - 1e-9))


def rank_covariance(a, orders):
    ranks = stats.rankdata(orders, axis=1)
    return (ranks - ranks.mean(axis=1, keepdims=True)) @ (stats.rankdata(a) - (len(a) + 1) / 2)


def concordance(a, orders):
    pairs = itertools.combinations(range(len(a)), 2)
    return sum(np.sign(a[j] - a[i]) * np.sign(orders[:, j] - orders[:, i]) for i, j in pairs)


for name, (a, b) in paired.items():
    a, b = floats(a), floats(b)
    for kind, of in (("pearson", stats.pearsonr), ("spearman", stats.spearmanr), ("kendall", stats.kendalltau)):
        with np.errstate(all="ignore"):
            r = of(a, b)
        p = number(r.pvalue)
        # Two points lie on a line whatever happens: SciPy says p = 1 for Pearson's; ours is undefined.
        if len(a) == 2 and kind == "pearson":
            p = None
        spread = len(set(a)) > 1 and len(set(b)) > 1
        if len(a) <= 10 and spread and kind != "pearson":
            p = exact_order(a, b, rank_covariance if kind == "spearman" else concordance)
        elif kind == "spearman" and p is not None:
            # A perfect order is one of n!, and so is its reverse.
            p = max(p, 2 / math.factorial(len(a)))
        case("correlation", {"coefficient": number(r.statistic), "p": p}, name=name, kind=kind, a=a, b=b)

groups["constant and not"] = ([2.0, 2.0, 2.0], [1.0, 2.0, 4.0])
groups["one and many"] = ([2.0], [1.0, 2.5, 4.0, 3.0])
for name, (a, b) in groups.items():
    a, b = floats(a), floats(b)
    r = stats.ttest_ind(a, b, equal_var=True)
    case("pooled_t", {"t": number(r.statistic), "df": number(r.df), "p": number(r.pvalue)}, name=name, a=a, b=b)
    if len(set(a)) > 1:
        margin = 0.7
        shifted = lambda by: floats(np.asarray(a) + by)
        lower = stats.ttest_ind(shifted(margin), b, equal_var=False, alternative="greater").pvalue
        upper = stats.ttest_ind(shifted(-margin), b, equal_var=False, alternative="less").pvalue
        case("tost_welch", [number(lower), number(upper)], name=name, a=a, b=b, margin=margin)

from statsmodels.duration.survfunc import SurvfuncRight

lifetimes = {
    "none censored": (floats(rng.exponential(1, 12)), []),
    "one": ([3.0], []),
    "ties": ([1, 1, 2, 2, 4], [1, 2, 2, 5, 6]),
    "constant": ([7.0] * 5, [7.0] * 3),
    "large": (floats(rng.exponential(1, 300)), floats(rng.exponential(2, 200))),
    "most censored": ([0.5, 1.5], floats(rng.uniform(1, 3, 20))),
}
for name, (seen, bounds) in lifetimes.items():
    seen, bounds = floats(seen), floats(bounds)
    curve = SurvfuncRight(np.array(seen + bounds), np.array([1] * len(seen) + [0] * len(bounds)))
    # statsmodels keeps times at which nothing ended: dropped here.
    kept = [i for i, d in enumerate(curve.n_events) if d > 0]
    expected = {
        "at": [number(curve.surv_times[i]) for i in kept],
        "at_risk": [int(curve.n_risk[i]) for i in kept],
        "survival": [number(curve.surv_prob[i]) for i in kept],
        # Where nobody is left statsmodels divides by 0; ours says 0.
        "std_error": [number(curve.surv_prob_se[i]) for i in kept],
        "quantiles": [[p, number(curve.quantile(p))] for p in (0.011, 0.123, 0.511, 0.777, 0.951)],
    }
    case("kaplan_meier", expected, name=name, a=seen, b=bounds)

a, b = floats(rng.lognormal(0, 0.6, size=25)), floats(rng.lognormal(0.3, 0.4, size=31))
difference = lambda x, y, axis=-1: np.mean(x, axis=axis) - np.mean(y, axis=axis)
for method in ("percentile", "basic", "bca"):
    r = stats.bootstrap((a, b), difference, n_resamples=400_000, method=method, rng=np.random.default_rng(2))
    case("bootstrap_difference", [number(r.confidence_interval.low), number(r.confidence_interval.high)], name=method, a=a, b=b)

from scipy.optimize import curve_fit

ladder = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
laws = {
    "michaelis-menten": (lambda x, vmax, k: vmax * x / (k + x), [900.0, 12.0]),
    "power-law": (lambda x, a, b: a * x**b, [30.0, 0.7]),
    "amdahl": (lambda x, x1, sigma: x1 * x / (1 + sigma * (x - 1)), [100.0, 0.05]),
    "usl": (lambda x, x1, sigma, kappa: x1 * x / (1 + sigma * (x - 1) + kappa * x * (x - 1)), [100.0, 0.05, 0.002]),
}
for name, (law, truth) in laws.items():
    y = floats(law(np.array(ladder), *truth) * (1 + 0.03 * rng.normal(size=len(ladder))))
    best, covariance = curve_fit(law, ladder, y, p0=truth, xtol=1e-15, ftol=1e-15, gtol=1e-15, maxfev=100_000)
    expected = {"values": floats(best), "errors": floats(np.sqrt(np.diag(covariance)))}
    case("fit", expected, name=name, a=ladder, b=y)
points = [(10.0, 224.6), (50.0, 894.6), (100.0, 1637.6)]
x, y = np.array([p[0] for p in points]), np.array([p[1] for p in points])
for name in ("lineweaver-burk", "hanes-woolf", "eadie-hofstee"):
    if name == "lineweaver-burk":
        line = stats.linregress(1 / x, 1 / y)
        values = [1 / line.intercept, line.slope / line.intercept]
    elif name == "hanes-woolf":
        line = stats.linregress(x, x / y)
        values = [1 / line.slope, line.intercept / line.slope]
    else:
        line = stats.linregress(y / x, y)
        values = [line.intercept, -line.slope]
    case("linearised", floats(values), name=name, a=floats(x), b=floats(y))

for name in ("small", "one side", "ties", "balanced"):
    d = floats(differences[name])
    r = stats.permutation_test((np.array(d),), np.mean, permutation_type="samples", n_resamples=np.inf, vectorized=True)
    case("sign_flip", number(r.pvalue), name=name, a=d)
for name in ("separate", "small", "ties"):
    a, b = floats(groups[name][0]), floats(groups[name][1])
    pooled, seen = np.array(a + b), abs(np.mean(a) - np.mean(b))
    distance = lambda chosen: abs(pooled[chosen].mean() - np.delete(pooled, chosen).mean())
    choices = [list(c) for c in itertools.combinations(range(len(pooled)), len(a))]
    p = sum(distance(c) >= seen - 1e-12 for c in choices) / len(choices)
    case("permutation", p, name=name, a=a, b=b)
for name, (a, b) in groups.items():
    a, b = np.array(a, dtype=float), np.array(b, dtype=float)
    wins, losses = (a[:, None] > b[None, :]).mean(), (a[:, None] < b[None, :]).mean()
    pooled = np.sqrt(((len(a) - 1) * np.var(a, ddof=1) + (len(b) - 1) * np.var(b, ddof=1)) / (len(a) + len(b) - 2)) if len(a) > 1 else None
    expected = {"cliffs_delta": number(wins - losses)}
    if pooled is not None:
        expected["cohens_d"] = number((a.mean() - b.mean()) / pooled)
    case("effect", expected, name=name, a=floats(a), b=floats(b))

from scipy import integrate

rng = np.random.default_rng(12)
units = {"published": [0.021, 0.034, 0.012, 0.028, 0.019], "three": [0.5, 0.7, 1.0], "null": floats(rng.normal(0, 1, 12))}
for name, d in units.items():
    n, t = len(d), stats.ttest_1samp(d, 0).statistic
    for spread in (1.0, 10.0):
        # The marginal density of t under N(0, spread) effects over that of no effect.
        weigh = lambda effect: stats.nct.pdf(t, n - 1, effect * np.sqrt(n)) * stats.norm.pdf(effect, 0, np.sqrt(spread))
        points = [0, t / np.sqrt(n)]
        marginal = integrate.quad(weigh, -12 * np.sqrt(spread), 12 * np.sqrt(spread), points=points, epsabs=0, epsrel=1e-12, limit=500)[0]
        case("e_value", marginal / stats.t.pdf(t, n - 1), name=name, a=floats(d), spread=spread)

series = floats(rng.normal(size=120))
for i in range(1, 120):
    series[i] += 0.6 * series[i - 1]
x = np.array(series) - np.mean(series)
rho = [float(x[: len(x) - k] @ x[k:] / (x @ x)) for k in range(len(x))]
total, least = 0.0, np.inf
for k in range(0, len(x) - 2, 2):
    if rho[k] + rho[k + 1] <= 0:
        break
    least = min(least, rho[k] + rho[k + 1])
    total += least
case("series", {"size": 120 / (2 * total - 1)}, a=series)

launches = [floats(np.round(np.exp(rng.normal(0, 0.05) + rng.normal(0, 0.5, 80)), 4)) for _ in range(5)]
pooled = np.sort(np.unique(np.concatenate(launches)))
for p in (0.5, 0.95):
    # Woodruff (1952): the t interval of the share at the estimate, read back from the mean of the launches' shares.
    shares = np.array([[np.mean(np.array(launch) <= q) for launch in launches] for q in pooled])
    reached = np.flatnonzero(shares.mean(axis=1) >= p - 1e-12)[0]
    half = stats.t.ppf(0.975, 4) * stats.sem(shares[reached])
    kept = [i for i in range(len(pooled)) if abs(shares[i].mean() - p) <= half] + [reached]
    last = min(max(kept) + 1, len(pooled) - 1)
    case("launch_quantile", floats([pooled[reached], pooled[min(kept)], pooled[last]]), p=p, rows=launches)

path = pathlib.Path(__file__).with_name("vectors.json")
versions = {"scipy": scipy.__version__, "statsmodels": statsmodels.__version__, "numpy": np.__version__}
lines = ",\n".join(json.dumps(c) for c in cases)
path.write_text(f'{{"versions": {json.dumps(versions)},\n"cases": [\n{lines}\n]}}\n')
