"""Studies of Benchtrail in Python: cells, tables with their units, and where a number comes from.

Everything is read through the ``benchtrail`` binary of the same wheel and through Parquet, so what you
see is what the command line says. Nothing here computes a figure of its own.

>>> import benchtrail
>>> study = benchtrail.open("experiments/quickstart.yaml")    # or a lock, a bundle, a folder of `load --out`
>>> study.table("results.cells").pandas()                     # units are in `.attrs["units"]`
>>> print(benchtrail.why("reports/quickstart/report.md", line=42))
"""

from benchtrail._binary import BenchtrailError, binary, version
from benchtrail._study import Cell, Output, Study, Table, TableInfo, open
from benchtrail._why import Node, Why, why

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
