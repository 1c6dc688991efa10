"""Computes count, mean, exact p50 and p99 of the time to first token in each file, with the given tool.

requests.rs starts it, with the list of files on standard input.
"""

import json
import resource
import sys
import time

tool = sys.argv[1]
files = json.load(sys.stdin)


def duckdb():
    import duckdb

    connection = duckdb.connect()
    connection.execute("set threads = 2")
    names = "[" + ", ".join(f"'{name}'" for name in files) + "]"
    query = f"""
        select filename, count(ttft), avg(ttft), quantile_cont(ttft, [0.5, 0.99])
        from (select filename, (first_token_ns - sent_ns) / 1e6 as ttft
              from read_parquet({names}, filename = true) where phase = 'measured' and status = 'ok')
        group by filename
    """
    start = time.perf_counter(), time.process_time()
    rows = connection.execute(query).fetchall()
    found = {name: [n, mean, *quantiles] for name, n, mean, quantiles in rows}
    return duckdb.__version__, start, [found[name] for name in files]


def polars():
    import polars as pl

    ttft = (pl.col("first_token_ns") - pl.col("sent_ns")) / 1e6
    query = (
        pl.scan_parquet(files, include_file_paths="file")
        .filter((pl.col("phase") == "measured") & (pl.col("status") == "ok"))
        .select("file", ttft=ttft)
        .group_by("file")
        .agg(
            n=pl.col("ttft").count(),
            mean=pl.col("ttft").mean(),
            p50=pl.col("ttft").quantile(0.5, "linear"),
            p99=pl.col("ttft").quantile(0.99, "linear"),
        )
    )
    start = time.perf_counter(), time.process_time()
    found = {row[0]: list(row[1:]) for row in query.collect(engine="streaming").iter_rows()}
    return pl.__version__, start, [found[name] for name in files]


def pandas():
    import pandas as pd

    # File by file, as whoever has many rows does with pandas: all at once would not fit.
    start = time.perf_counter(), time.process_time()
    found = []
    for name in files:
        rows = pd.read_parquet(name, columns=["phase", "status", "sent_ns", "first_token_ns"])
        rows = rows[(rows.phase == "measured") & (rows.status == "ok")]
        ttft = (rows.first_token_ns - rows.sent_ns) / 1e6
        found.append([int(ttft.count()), float(ttft.mean()), *map(float, ttft.quantile([0.5, 0.99]))])
    return pd.__version__, start, found


version, (wall, cpu), values = {"duckdb": duckdb, "polars": polars, "pandas": pandas}[tool]()
json.dump(
    {
        "version": version,
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "values": values,
    },
    sys.stdout,
)
