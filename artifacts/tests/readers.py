"""Says what DuckDB or Polars find in the Parquet files named; readers.rs starts it."""

import base64
import importlib
import json
import sys

tool, files = sys.argv[1], sys.argv[2:]
try:
    importlib.import_module(tool)
except ModuleNotFoundError:
    sys.exit(f"{tool} is not installed")

TYPES = {
    "VARCHAR": "text", "BIGINT": "int", "DOUBLE": "float", "BOOLEAN": "bool",
    "String": "text", "Int64": "int", "Float64": "float", "Boolean": "bool",
}


def described(schema):
    """The words of the fields' metadata that stand in the Arrow schema kept in the file."""
    schema = base64.b64decode(schema)
    words = ["unit", "ms", "tok", "description", "time to first token"]
    # In a flatbuffer a string ends with a zero.
    return [word for word in words if word.encode() + b"\0" in schema]


def duckdb(file):
    import duckdb

    one = lambda query: duckdb.execute(query, {"file": file}).fetchone()
    types = duckdb.execute("describe select * from read_parquet($file)", {"file": file}).fetchall()
    rows, null, tokens, ttft, ok, engines = one(
        "select count(*), count(*) - count(ttft), sum(tokens)::bigint, sum(ttft),"
        " count(*) filter (where ok), list_sort(list(distinct engine) filter (where engine is not null))"
        " from read_parquet($file)"
    )
    (schema,) = one("select value from parquet_kv_metadata($file) where key = 'ARROW:schema'")
    return types, rows, null, tokens, ttft, ok, engines, schema


def polars(file):
    import polars as pl

    table = pl.read_parquet(file)
    types = [(name, str(of)) for name, of in table.schema.items()]
    engines = table["engine"].drop_nulls().unique().sort().to_list()
    sums = table["tokens"].sum(), table["ttft"].sum(), table["ok"].sum()
    schema = pl.read_parquet_metadata(file)["ARROW:schema"]
    return types, table.height, table["ttft"].null_count(), *sums, engines, schema


answers = []
for file in files:
    types, rows, null, tokens, ttft, ok, engines, schema = {"duckdb": duckdb, "polars": polars}[tool](file)
    answers.append({
        "types": [[column[0], TYPES[column[1]]] for column in types],
        "rows": rows, "null": null, "tokens": tokens, "ttft": ttft, "ok": ok, "engines": engines,
        "metadata": described(schema),
    })
json.dump(answers, sys.stdout)
