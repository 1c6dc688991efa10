"""Executed studies: their cells and tables."""

from __future__ import annotations

import errno
import io
import json
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Mapping, Optional

from benchtrail._binary import BenchtrailError, PathLike, ask, run

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


@contextmanager
def _needs(package: str) -> Iterator[None]:
    """Says how to install a reader, if an import of it fails."""
    try:
        yield
    except ImportError as error:
        message = f"{error}; install it with `pip install {package}`, or read the table with `.rows()`"
        raise ImportError(message, name=error.name) from error


@dataclass(frozen=True)
class Output:
    """An output of a cell: a table, a document or a text."""

    name: str
    digest: str
    """BLAKE3 of its bytes, ``b3:…``."""
    bytes: int
    rows: Optional[int]
    """The number of rows of a table; None for other outputs."""


@dataclass(frozen=True)
class Cell:
    """An executed cell: a stage at one label of each of its axes."""

    stage: str
    coordinates: str
    """Its labels in command-line notation, ``block=1,clients=8``; empty without axes."""
    outputs: Mapping[str, Output]
    _study: "Study" = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """The name on the command line, ``ladder[block=1,clients=8]``."""
        return f"{self.stage}[{self.coordinates}]" if self.coordinates else self.stage

    def table(self, output: str) -> "Table":
        """Returns a table of this cell, byte for byte as stored."""
        content = self.bytes(output)
        if not content.startswith(b"PAR1"):
            message = f"the output `{output}` of {self.name} is not a table"
            raise BenchtrailError(message, f"read it with `cell.bytes({output!r})`", 2)
        return Table(content)

    def bytes(self, output: str) -> bytes:
        """Returns the bytes of an output."""
        return run(["show", "--raw", *self._study.options, "--", self._study.path, f"{self.name}.{output}"])


@dataclass(frozen=True)
class TableInfo:
    """A table of a study: the rows of all ok cells of a stage, with their axes as columns."""

    name: str
    """``STAGE.OUTPUT``."""
    columns: List[str]
    cells: Optional[int]

    def __repr__(self) -> str:
        cells = "" if self.cells is None else f", {self.cells} cells"
        return f"TableInfo({self.name!r}, {len(self.columns)} columns{cells})"


_READERS = ["arrow()", "pandas()", "polars()", "rows()", "save(FILE)", "units", "parquet"]

_WORDS = {
    "to_arrow": "arrow()",
    "to_pandas": "pandas()",
    "to_polars": "polars()",
    "to_dicts": "rows()",
    "to_dict": "rows()",
    "to_pylist": "rows()",
    "to_parquet": "save(FILE)",
    "to_csv": "pandas().to_csv(FILE)",
    "df": "pandas()",
    "pl": "polars()",
    "columns": "arrow().column_names",
    "column_names": "arrow().column_names",
    "schema": "arrow().schema",
    "shape": "arrow().shape",
    "head": "pandas().head()",
    "describe": "pandas().describe()",
    "plot": "pandas().plot(…)",
}
"""What users of other libraries write, each with ours."""

_OTHER_FORMATS = {".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json", ".xlsx": "excel", ".feather": "feather"}

_SHOWN = 20
"""The number of rows that a notebook shows of a table."""


class Table:
    """Rows in columns with units, as Parquet.

    Nothing is parsed until you request it, with the readers that you have installed.
    """

    def __init__(self, parquet: bytes) -> None:
        self.parquet = parquet
        """The table as a Parquet file."""

    def _first(self, rows: int) -> Dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "table.parquet"
            file.write_bytes(self.parquet)
            document: Dict[str, Any] = ask(["show", file, "--rows", f"0..{rows}"])
        return document

    @property
    def units(self) -> Dict[str, str]:
        """The unit of each column that has one, such as ``{"ttft_ms_p50": "ms"}``; ``1`` means dimensionless."""
        return {str(name): str(unit) for name, unit in self._first(1)["units"].items()}

    def __len__(self) -> int:
        return int(self._first(1)["rows_in_all"])

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        return iter(self.rows())

    def __getattr__(self, name: str) -> Any:
        meant = _WORDS.get(name)
        if meant is None:
            raise AttributeError(f"a table has no attribute {name!r}; it has {', '.join(_READERS)}")
        raise AttributeError(f"a table has no attribute {name!r}: write `table.{meant}`")

    def _repr_html_(self) -> str:
        """The first rows, as a notebook shows them."""
        shown = self._first(_SHOWN)
        rows: List[Dict[str, Any]] = shown["rows"]
        units: Dict[str, str] = shown["units"]

        def heading(name: str) -> str:
            unit = units.get(name, "1")
            return name if unit == "1" else f"{name} [{unit}]"

        def line(cell: str, values: Iterable[Any]) -> str:
            texts = ("" if value is None else str(value) for value in values)
            return "<tr>" + "".join(f"<{cell}>{escape(text)}</{cell}>" for text in texts) + "</tr>"

        head = line("th", (heading(name) for name in rows[0])) if rows else ""
        body = "".join(line("td", row.values()) for row in rows)
        count = int(shown["rows_in_all"])
        rest = f"; the first {len(rows)} are shown" if len(rows) < count else ""
        return f"<table>{head}{body}</table><p>{count} rows{rest}</p>"

    def arrow(self) -> "pyarrow.Table":
        """Returns a pyarrow table; units are in the fields' metadata. Needs pyarrow."""
        with _needs("pyarrow"):
            import pyarrow.parquet

        return pyarrow.parquet.read_table(io.BytesIO(self.parquet))

    def pandas(self) -> "pandas.DataFrame":
        """Returns a pandas frame; units are in ``.attrs["units"]``. Needs pandas and pyarrow."""
        with _needs("benchtrail[pandas]"):
            import pandas
            import pyarrow  # noqa: F401  (pandas reads Parquet with it)

        frame = pandas.read_parquet(io.BytesIO(self.parquet))
        frame.attrs["units"] = self.units
        return frame

    def polars(self) -> "polars.DataFrame":
        """Returns a polars frame. polars keeps no metadata: ``units`` has the units. Needs polars."""
        with _needs("benchtrail[polars]"):
            import polars

        return polars.read_parquet(io.BytesIO(self.parquet))

    def rows(self) -> List[Dict[str, Any]]:
        """Returns every row as a dictionary. Needs no other package; for tables that fit into a notebook's memory."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "table.parquet"
            file.write_bytes(self.parquet)
            document = json.loads(run(["show", file, "--json"]))
        rows: List[Dict[str, Any]] = document["rows"]
        return rows

    def save(self, file: PathLike) -> None:
        """Writes the table as a Parquet file. If the disk refuses it, a file that was there stays.

        For other formats, use a reader: ``table.pandas().to_csv("cells.csv")``.
        """
        place = Path(file)
        if place.suffix.lower() in _OTHER_FORMATS:
            hint = f"name it {place.with_suffix('.parquet')}, or write `table.pandas().to_{_OTHER_FORMATS[place.suffix.lower()]}(…)`"
            raise BenchtrailError(f"`save` writes Parquet, and {place} is named as another format", hint, 2)
        if not place.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(place.parent))
        if place.exists() and not place.is_file():
            place.write_bytes(self.parquet)
            return
        place = place.resolve()
        with tempfile.TemporaryDirectory(prefix=".benchtrail-", dir=place.parent) as folder:
            new = Path(folder) / "table.parquet"
            new.write_bytes(self.parquet)
            if place.exists():
                new.chmod(place.stat().st_mode)
            new.replace(place)

    def __repr__(self) -> str:
        return f"Table({len(self.parquet)} bytes of Parquet)"


class Study:
    """An executed study, created by ``open``."""

    def __init__(self, path: PathLike, profile: Optional[str] = None, store: Optional[PathLike] = None) -> None:
        self.path = Path(path)
        self.options: List[str] = []
        if profile is not None:
            self.options.append(f"--profile={profile}")
        if store is not None:
            self.options.append(f"--store={store}")

    def tables(self) -> List[TableInfo]:
        """Lists the tables of the study, by name."""
        listed = ask(["sql", *self.options, "--", self.path])
        return [TableInfo(t["table"], list(t["columns"]), t.get("cells")) for t in listed]

    def cells(self, stage: Optional[str] = None) -> List[Cell]:
        """Lists the executed cells of the study, or of one stage."""
        chosen = [] if stage is None else [stage]
        found: Dict[tuple[str, str], Dict[str, Output]] = {}
        for line in ask(["ls", *self.options, "--", self.path, *chosen]):
            artifact = line["artifact"]
            output = Output(line["output"], artifact["digest"], artifact["bytes"], artifact.get("rows"))
            found.setdefault((line["stage"], line["coordinates"]), {})[output.name] = output
        return [Cell(stage, at, outputs, self) for (stage, at), outputs in found.items()]

    def table(self, name: str) -> Table:
        """Returns a table by its name, ``STAGE.OUTPUT``: the rows of all ok cells, with axes as columns."""
        quoted = name.replace('"', '""')
        return self.sql(f'select * from "{quoted}"')

    def sql(self, query: str) -> Table:
        """Returns the result of one SELECT over the tables of the study; see docs/sql.md for the SQL allowed."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "answer.parquet"
            run(["sql", "--parquet", file, *self.options, "--", self.path, query])
            return Table(file.read_bytes())

    def __getitem__(self, name: str) -> Table:
        return self.table(name)

    def __repr__(self) -> str:
        return f"Study({str(self.path)!r})"


def open(path: PathLike, *, profile: Optional[str] = None, store: Optional[PathLike] = None) -> Study:
    """Opens an executed experiment, its lock, a bundle, or a folder that ``load --out`` wrote.

    Raises BenchtrailError if it is none of these, or has not run.
    """
    study = Study(path, profile, store)
    study.tables()
    return study
