"""Tests the package against the binary: a published study of the repository, and a folder of rows.

Run with the binary in BENCHTRAIL_BINARY: `pytest src/python/tests`.
"""

from __future__ import annotations

import re
import shutil
import sys
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
    why = benchtrail.why(REPORT / "report.md", "61.1", line=23)
    assert why.text.startswith("61.1") and why.unit == "tok/s"
    assert why.value is not None and abs(why.value - 61.1) < 0.1
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


def test_a_reader_that_is_not_installed_is_named_with_its_package(
    study: benchtrail.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = study.sql("select 1 as one")
    for reader, module, package in [
        (table.pandas, "pandas", "benchtrail[pandas]"),
        (table.pandas, "pyarrow", "benchtrail[pandas]"),
        (table.polars, "polars", "benchtrail[polars]"),
        (table.arrow, "pyarrow.parquet", "pyarrow"),
    ]:
        with monkeypatch.context() as without:
            without.setitem(sys.modules, module, None)
            with pytest.raises(ImportError) as refused:
                reader()
        assert f"`pip install {package}`" in str(refused.value)
    assert table.rows() == [{"one": 1}]


def test_what_begins_with_a_dash_is_no_option(study: benchtrail.Study) -> None:
    assert study.sql("-- a remark\nselect 1 as one").rows() == [{"one": 1}]
    with pytest.raises(benchtrail.BenchtrailError) as refused:
        benchtrail.open("-x.yaml")
    assert "-x.yaml" in refused.value.message


def test_an_output_that_is_no_table_is_not_read_as_one(study: benchtrail.Study) -> None:
    texts = [
        (cell, name)
        for cell in study.cells()
        for name, output in cell.outputs.items()
        if output.rows is None
    ]
    cell, name = texts[0]
    with pytest.raises(benchtrail.BenchtrailError) as refused:
        cell.table(name)
    assert "is not a table" in refused.value.message
    assert cell.bytes(name)


def test_a_binary_that_cannot_start_is_an_error_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHTRAIL_BINARY", "/nonexistent/benchtrail")
    with pytest.raises(benchtrail.BenchtrailError) as refused:
        benchtrail.version()
    assert refused.value.code == 4
    assert refused.value.hint is not None and "BENCHTRAIL_BINARY" in refused.value.hint


def test_a_number_that_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match="'61.1'"):
        benchtrail.why(REPORT / "report.md", 61.1, line=23)  # type: ignore[arg-type]


def test_the_version_is_that_of_the_binary() -> None:
    assert benchtrail.version().count(".") == 2


def test_a_text_that_no_program_can_be_given_is_an_error_of_the_package(study: benchtrail.Study) -> None:
    for query in ["select '\0'", "select '\ud800'", "select 1 -- " + "a" * 200_000]:
        with pytest.raises(benchtrail.BenchtrailError) as refused:
            study.sql(query)
        assert refused.value.code == 2 and "BENCHTRAIL_BINARY" not in str(refused.value)
    with pytest.raises(benchtrail.BenchtrailError):
        benchtrail.open("a\0b")


def test_a_table_that_the_disk_refuses_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    place = tmp_path / "table.parquet"
    benchtrail.Table(b"old").save(place)
    place.chmod(0o640)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError):
            benchtrail.Table(b"x" * 5000).save(place)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert place.read_bytes() == b"old" and [*tmp_path.iterdir()] == [place]
    link = tmp_path / "link"
    link.symlink_to(place)
    benchtrail.Table(b"new").save(link)
    assert place.read_bytes() == b"new" and link.is_symlink()
    assert place.stat().st_mode & 0o777 == 0o640


def test_a_notebook_shows_what_a_table_is(study: benchtrail.Study) -> None:
    table = study["results.cells"]
    assert len(table) == len(table.rows()) == len(list(table)) > 0
    page = table._repr_html_()
    assert "<th>ttft_ms_p50 [ms]</th>" in page and f"{len(table)} rows" in page
    hostile = study.sql("select '<script>' as a, null as b")
    assert "&lt;script&gt;" in hostile._repr_html_() and "<script>" not in hostile._repr_html_()
    assert "0 rows" in study.sql("select 1 as a where 1 = 0")._repr_html_()
    listed = {info.name: repr(info) for info in study.tables()}
    assert listed["results.cells"].startswith("TableInfo('results.cells', ") and len(listed["results.cells"]) < 80
    assert benchtrail.__version__ == benchtrail.version()


def test_names_of_other_libraries_get_ours(study: benchtrail.Study, tmp_path: Path) -> None:
    table = study["results.cells"]
    for theirs, ours in [("to_pandas", "pandas()"), ("columns", "arrow().column_names"), ("df", "pandas()")]:
        with pytest.raises(AttributeError, match=f"write `table.{re.escape(ours)}`"):
            getattr(table, theirs)
    with pytest.raises(AttributeError, match="it has arrow()"):
        table.nothing
    assert not hasattr(table, "__array__")
    with pytest.raises(AttributeError, match="it has BenchtrailError"):
        benchtrail.load
    with pytest.raises(benchtrail.BenchtrailError, match=r"to_csv\("):
        table.save(tmp_path / "cells.csv")
    with pytest.raises(FileNotFoundError, match="no such folder: '.*/nowhere'"):
        table.save(tmp_path / "nowhere" / "cells.parquet")
    assert [*tmp_path.iterdir()] == []


def test_a_number_that_is_not_named_gets_those_there() -> None:
    with pytest.raises(benchtrail.BenchtrailError, match="line=23"):
        benchtrail.why(REPORT / "report.md")
    with pytest.raises(benchtrail.BenchtrailError, match=r"several numbers: '.+' \(line 24, column \d+\)"):
        benchtrail.why(REPORT / "report.md", line=24)
