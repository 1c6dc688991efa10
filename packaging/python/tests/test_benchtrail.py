"""Tests the package against the binary: a published study of the repository, and a folder of rows.

Run with the binary in BENCHTRAIL_BINARY: `pytest packaging/python/tests`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import benchtrail

REPORT = Path(__file__).parents[3] / "docs" / "first-report"
BUNDLE = REPORT / "quickstart.tar.zst"


@pytest.fixture(scope="module")
def study() -> benchtrail.Study:
    return benchtrail.open(BUNDLE)


def test_a_bundle_lists_its_cells_and_tables(study: benchtrail.Study) -> None:
    names = [table.name for table in study.tables()]
    assert "results.cells" in names and "ladder.requests" in names
    cells = study.cells("ladder")
    assert cells and all(cell.stage == "ladder" for cell in cells)
    requests = cells[0].outputs["requests"]
    assert requests.digest.startswith("b3:") and requests.rows
    # For a single cell, the bytes match the digest.
    table = cells[0].table("requests")
    assert table.arrow().num_rows == requests.rows
    assert len(table.parquet) == requests.bytes


def test_every_reader_has_the_same_rows_and_units(study: benchtrail.Study) -> None:
    table = study.table("results.cells")
    arrow, pandas, polars = table.arrow(), table.pandas(), table.polars()
    assert arrow.num_rows == len(pandas) == polars.height == len(table.rows())
    assert table.units["ttft_ms_p50"] == "ms" == pandas.attrs["units"]["ttft_ms_p50"]
    assert arrow.field("ttft_ms_p50").metadata[b"unit"] == b"ms"
    assert list(pandas["ttft_ms_p50"]) == polars["ttft_ms_p50"].to_list()
    # The axes are columns.
    assert {"configuration", "workload", "concurrency"} <= set(arrow.column_names)


def test_a_query_is_answered_as_by_the_command_line(study: benchtrail.Study) -> None:
    answer = study.sql("select count(*) as n from \"ladder.requests\" where status = 'ok'")
    rows = answer.rows()
    statuses = study.table("ladder.requests").arrow()["status"].to_pylist()
    assert len(rows) == 1 and rows[0]["n"] == statuses.count("ok") > 0


def test_why_is_a_tree_down_to_the_rows() -> None:
    why = benchtrail.why(REPORT / "report.md", "70.0", line=24)
    assert why.text.startswith("70.0") and why.unit == "tok/s"
    assert why.value is not None and abs(why.value - 70.0) < 0.1
    leaves = [node for node in why.tree.walk() if not node.children]
    assert any(node.name.startswith("ladder[") for node in leaves)
    assert "results.ladder" in str(why)


def test_errors_are_those_of_the_binary(tmp_path: Path, study: benchtrail.Study) -> None:
    with pytest.raises(benchtrail.BenchtrailError) as nothing:
        benchtrail.open(tmp_path)
    assert nothing.value.code == 2 and nothing.value.hint
    with pytest.raises(benchtrail.BenchtrailError) as unknown:
        study.table("results.cels")
    assert unknown.value.code == 5
    with pytest.raises(benchtrail.BenchtrailError) as broken:
        study.sql("select 1 +")
    assert broken.value.code == 2
    damaged = tmp_path / "damaged.tar.zst"
    shutil.copy(BUNDLE, damaged)
    with damaged.open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(benchtrail.BenchtrailError):
        benchtrail.open(damaged)


def test_the_version_is_that_of_the_binary() -> None:
    assert benchtrail.version().count(".") == 2
