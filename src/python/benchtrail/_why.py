"""The origin of a number in a report, as a tree."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional

from benchtrail._binary import BenchtrailError, PathLike, ask


@dataclass(frozen=True)
class Node:
    """A step from a number to its sources."""

    name: str
    """A table, such as ``results.cells``, or a cell, such as ``ladder[clients=8]``."""
    text: str
    """A description of the step."""
    children: List["Node"] = field(default_factory=list)

    def walk(self) -> Iterator["Node"]:
        """Yields this step and all steps below it, depth first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def __str__(self) -> str:
        return "\n".join(self._lines(""))

    def _lines(self, indent: str) -> List[str]:
        lines = [f"{indent}{self.name}: {self.text}" if self.text else f"{indent}{self.name}"]
        for child in self.children:
            lines += child._lines(indent + "  ")
        return lines


@dataclass(frozen=True)
class Why:
    """The answer of ``benchtrail why`` about one number."""

    text: str
    """The number as the report prints it."""
    value: Optional[float]
    """The unrounded number."""
    unit: Optional[str]
    tree: Node
    document: Dict[str, Any] = field(repr=False)
    """The complete output of the binary."""

    def __str__(self) -> str:
        return str(self.tree)


_LISTED = 8
"""The number of numbers that an error lists."""


def why(
    report: PathLike,
    number: Optional[str] = None,
    *,
    line: Optional[int] = None,
    column: Optional[int] = None,
) -> Why:
    """Traces a number of a report to the rows that it was computed from.

    Identify it by its printed form (``number``), by its ``line``, or by both.

    Raises BenchtrailError if no number or several numbers match; the message lists them.
    """
    if number is not None and not isinstance(number, str):
        raise TypeError(f"`number` is a text, as the report prints it: {str(number)!r}, not {number!r}")
    if number is None and line is None:
        hint = f"why({str(report)!r}, line=23), or why({str(report)!r}, '61.1')"
        raise BenchtrailError("which number? Give its line, or its text", hint, 2)
    place = str(report)
    if line is not None:
        place += f":{line}" if column is None else f":{line}:{column}"
    document = ask(["why", "--", place, *([] if number is None else [number])])
    if not isinstance(document, dict) or "number" not in document:
        several = document.get("several", []) if isinstance(document, dict) else []
        shown = [f"{one['text']!r} (line {one['line']}, column {one['column_start']})" for one in several[:_LISTED]]
        rest = [f"and {len(several) - _LISTED} more"] if len(several) > _LISTED else []
        listed = f": {', '.join(shown + rest)}" if shown else ""
        hint = "give `line` and `column` together, or a `number` that is there once"
        raise BenchtrailError(f"{place} has several numbers{listed}", hint, 5)
    found = document["number"]
    return Why(found["text"], _number(found.get("value")), found.get("unit") or None, _tree(document), document)


def _number(text: Any) -> Optional[float]:
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def _tree(document: Dict[str, Any]) -> Node:
    number, place = document["number"], document.get("place")
    lineage = document.get("lineage")
    sources = lineage["sources"] if lineage else document.get("raw") or []
    below = [_source(source) for source in sources]
    if place:
        told = [f"row {place['row']}, column {place['column']}"]
        if place.get("description"):
            told.append(place["description"])
        below = [Node(place["name"], "; ".join(told), below)]
    value, unit = number.get("value"), number.get("unit") or ""
    return Node(number["text"], f"{value} {unit}".strip() if value else "", below)


def _source(source: Dict[str, Any]) -> Node:
    """Converts a source: a table with its own sources, measured rows, or lines of a published file."""
    if source.get("kind") == "file":
        lines = ", ".join(f"{span['start'] + 1}" for span in source["spans"][:4])
        return Node(f"{source['file']} {source['counted']} {lines}", "\n".join(source["text"]), [])
    if source.get("kind") == "lost":
        return Node(source["source"], source["reason"], [])
    at = source.get("coordinates")
    name = source.get("cell") or (f"{source['stage']}[{at}]" if at else source["stage"])
    spans = ", ".join(f"{span['start']}..{span['end']}" for span in source["spans"][:4])
    more = ", …" if len(source["spans"]) > 4 else ""
    text = f"{source['rows']} rows ({spans}{more}) of {source['artifact'][:15]}"
    return Node(f"{name}.{source['output']}", text, [_source(s) for s in source.get("sources", [])])
