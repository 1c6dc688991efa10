"""Benchtrail studies in Python: cells, tables with their units, and the origin of numbers.

Everything is read through the ``benchtrail`` binary of the same wheel and through Parquet, so the results
are those of the command line. This package computes no figures itself.

>>> import benchtrail
>>> study = benchtrail.open("experiments/quickstart.yaml")    # or a lock, a bundle, a folder of `load --out`
>>> study.table("results.cells").pandas()                     # units are in `.attrs["units"]`
>>> print(benchtrail.why("reports/quickstart/report.md", line=42))
"""

from benchtrail._binary import BenchtrailError, binary, version
from benchtrail._study import Cell, Output, Study, Table, TableInfo, open
from benchtrail._why import Node, Why, why



def __getattr__(name: str) -> str:
    if name == "__version__":
        return version()
    raise AttributeError(f"module 'benchtrail' has no attribute {name!r}; it has {', '.join(__all__)}")


__all__ = [
    "BenchtrailError",
    "Cell",
    "Node",
    "Output",
    "Study",
    "Table",
    "TableInfo",
    "Why",
    "binary",
    "open",
    "version",
    "why",
]
