//! The comparisons at the end of a run: the verdict on each metric, and the effect with its interval.

use artifacts::{ColumnReader, Scalar, Store, Table, counted};
use contract::Verdict;
use explore::Catalogue;
use pipeline::lock::Lock;

use crate::columns::Columns;
use crate::exit::Stop;
use crate::main_table::{label, words};
use crate::terminal;

/// The number of rows of a table that are shown one by one; the verdicts of more are counted.
const ROWS: usize = 9;

/// The number of tables shown.
const TABLES: usize = 6;

/// The columns of a comparison.
const COLUMNS: [&str; 8] = [
    "metric",
    "a",
    "b",
    "scale",
    "effect",
    "adjusted_low",
    "adjusted_high",
    "verdict",
];

/// Returns the comparisons of a study as texts, each with a heading that names the table and the sides.
///
/// # Errors
/// If a table cannot be read.
pub(crate) fn of(lock: &Lock, store: &Store) -> Result<Vec<String>, Stop> {
    let catalogue = Catalogue::read(lock, store).map_err(Stop::failed)?;
    let mut tables = Vec::new();
    for (name, entry) in &catalogue.tables {
        let one = entry.stage.cells.len() == 1 && !name.ends_with(".lineage");
        if !one || entry.sample.rows.is_none_or(|rows| rows == 0) {
            continue;
        }
        // The rows of a load may be millions, so the names come first.
        let digest = &entry.sample.digest;
        let names = ColumnReader::open(store, digest, &[]).map_err(Stop::failed)?;
        let names = names.names();
        if !COLUMNS
            .iter()
            .all(|column| names.iter().any(|name| name == column))
        {
            continue;
        }
        let table = Table::from_parquet(store.get(digest)?).map_err(Stop::failed)?;
        if table.rows() > 0 {
            tables.push((name, table));
        }
    }
    // Those with few rows come first: they answer for the whole study.
    tables.sort_by_key(|(_, table)| table.rows());
    let shown = tables.iter().take(TABLES);
    let mut texts: Vec<String> = shown
        .map(|(name, table)| text(name, table))
        .collect::<Result<_, _>>()?;
    match tables.len().saturating_sub(TABLES) {
        0 => {}
        more => texts.push(format!(
            "… and {} of comparisons in the report",
            counted(more, "more table")
        )),
    }
    Ok(texts)
}

fn text(name: &str, table: &Table) -> Result<String, Stop> {
    let value = |column: &str, row: usize| table.value(column, row).map_err(Stop::failed);
    let column = |name: &str| {
        let rows = (0..table.rows()).map(|row| value(name, row));
        rows.collect::<Result<Vec<_>, _>>()
    };
    let constant = |values: &[Scalar]| values.iter().all(|one| *one == values[0]);
    let (a, b) = (column("a")?, column("b")?);
    let sides = (constant(&a) && constant(&b)).then(|| [label(&a[0]), label(&b[0])]);
    let heading = match &sides {
        Some([a, b]) => format!("{name}: {a} compared with {b}"),
        None => name.to_owned(),
    };
    let verdicts: Vec<String> = column("verdict")?.iter().map(words).collect();
    if table.rows() > ROWS {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for verdict in &verdicts {
            match counts.iter_mut().find(|(word, _)| word == verdict) {
                Some((_, n)) => *n += 1,
                None => counts.push((verdict, 1)),
            }
        }
        let counts: Vec<String> = counts
            .iter()
            .map(|(word, n)| format!("{n} {word}"))
            .collect();
        return Ok(format!(
            "{heading}, {} comparisons: {}",
            table.rows(),
            counts.join(", ")
        ));
    }
    let keys = table.metadata("keys").unwrap_or_default();
    let apart = |key: &&str| {
        table.has(key) && *key != "metric" && (sides.is_none() || !matches!(*key, "a" | "b"))
    };
    let keys: Vec<&str> = keys.split(',').filter(apart).collect();
    let ratio = column("scale")?.iter().all(|scale| words(scale) == "ratio");
    let effect = match (&sides, ratio) {
        (Some([a, b]), true) => format!("{a} ÷ {b}"),
        (Some([a, b]), false) => format!("{a} − {b}"),
        (None, true) => "a ÷ b".to_owned(),
        (None, false) => "a − b".to_owned(),
    };
    let names = std::iter::once("metric").chain(keys.iter().copied());
    let names = names.chain(["verdict", effect.as_str(), "interval"]);
    let mut rows = Vec::new();
    for (row, verdict) in verdicts.into_iter().enumerate() {
        let mut line = vec![words(&value("metric", row)?)];
        for key in &keys {
            line.push(label(&value(key, row)?));
        }
        line.push(within_its_margin(verdict, table, row)?);
        line.push(sized(table, row)?);
        let (low, high) = (value("adjusted_low", row)?, value("adjusted_high", row)?);
        line.push(match (&low, &high) {
            (Scalar::Null, _) | (_, Scalar::Null) => "none".to_owned(),
            _ => format!("[{}, {}]", words(&low), words(&high)),
        });
        rows.push(line);
    }
    let numbers = keys.len() + 2;
    let columns = Columns::new(
        names.map(str::to_owned).collect(),
        rows,
        &[numbers, numbers + 1],
    );
    let mut text = format!("{heading}\n{}", columns.laid_out(terminal::width()));
    for reason in undecidable(table)? {
        text.push_str(&format!("\n{}: {reason}", Verdict::Undecidable.word()));
    }
    Ok(text)
}

/// Returns a verdict, and for an equivalence the margin, without which the word says nothing.
fn within_its_margin(verdict: String, table: &Table, row: usize) -> Result<String, Stop> {
    if verdict != Verdict::Equivalent.word() || !table.has("margin") {
        return Ok(verdict);
    }
    let value = |name: &str| table.value(name, row).map_err(Stop::failed);
    let Some(margin) = value("margin")?.as_f64() else {
        return Ok(verdict);
    };
    if words(&value("scale")?) == "ratio" {
        // A margin of 0.07 is 7 %, not 7.000000000000001 %.
        let percent = (margin * 1e6).round() / 1e4;
        return Ok(format!("{verdict} within {percent} %"));
    }
    Ok(match value("unit")? {
        Scalar::Text(unit) if unit != "1" => format!("{verdict} within {margin} {unit}"),
        _ => format!("{verdict} within {margin}"),
    })
}

/// Returns the effect of a row: a ratio, or a difference with its unit.
fn sized(table: &Table, row: usize) -> Result<String, Stop> {
    let value = |name: &str| table.value(name, row).map_err(Stop::failed);
    let effect = words(&value("effect")?);
    if words(&value("scale")?) == "ratio" || !table.has("unit") {
        return Ok(effect);
    }
    let difference = match effect.starts_with('-') || effect == "n/a" {
        true => effect,
        false => format!("+{effect}"),
    };
    Ok(match value("unit")? {
        Scalar::Text(unit) if unit != "1" => format!("{difference} {unit}"),
        _ => difference,
    })
}

/// Returns the reasons for which comparisons are undecidable, each once.
fn undecidable(table: &Table) -> Result<Vec<String>, Stop> {
    let mut reasons = Vec::new();
    if !table.has("verdict_reason") {
        return Ok(reasons);
    }
    for row in 0..table.rows() {
        let value = |column: &str| table.value(column, row).map_err(Stop::failed);
        if let (Scalar::Text(verdict), Scalar::Text(reason)) =
            (value("verdict")?, value("verdict_reason")?)
            && verdict == Verdict::Undecidable.word()
            && !reasons.contains(&reason)
        {
            reasons.push(reason);
        }
    }
    Ok(reasons)
}

#[cfg(test)]
mod tests {
    use artifacts::Column;

    use super::*;

    fn comparison(rows: &[(&str, i64, &str, Option<f64>, &str)], scale: &str) -> Table {
        let many = |text: &str| vec![Some(text.to_owned()); rows.len()];
        let columns = vec![
            Column::text("metric", rows.iter().map(|row| Some(row.0))),
            Column::int("clients", rows.iter().map(|row| Some(row.1))),
            Column::text("a", many("gpu")),
            Column::text("b", many("cpu")),
            Column::text("unit", many("ms")),
            Column::text("scale", many(scale)),
            Column::float("effect", rows.iter().map(|row| row.3)),
            Column::float(
                "adjusted_low",
                rows.iter().map(|row| row.3.map(|e| e - 0.5)),
            ),
            Column::float(
                "adjusted_high",
                rows.iter().map(|row| row.3.map(|e| e + 0.5)),
            ),
            Column::text("verdict", rows.iter().map(|row| Some(row.2))),
            Column::text(
                "verdict_reason",
                rows.iter().map(|row| Some(row.4).filter(|r| !r.is_empty())),
            ),
        ];
        Table::with_metadata(columns, &[("keys", "clients,metric")]).unwrap()
    }

    #[test]
    fn a_comparison_has_its_verdict_its_effect_and_the_reason_why_it_is_undecidable() {
        let rows = [
            ("ttft_ms_p50", 1, "different", Some(7.5), ""),
            (
                "ttft_ms_p50",
                8,
                "no evidence",
                Some(1.0),
                "smallest detectable effect 5 %",
            ),
            ("tpot_ms_p50", 1, "undecidable", None, "few units"),
            ("tpot_ms_p50", 8, "undecidable", None, "few units"),
        ];
        let shown = text("results.comparison", &comparison(&rows, "ratio")).unwrap();
        let wanted = "results.comparison: gpu compared with cpu\n\
                      metric       clients  verdict      gpu ÷ cpu        interval\n\
                      ttft_ms_p50  1        different        7.500  [7.000, 8.000]\n\
                      ttft_ms_p50  8        no evidence      1.000  [0.5000, 1.500]\n\
                      tpot_ms_p50  1        undecidable        n/a            none\n\
                      tpot_ms_p50  8        undecidable        n/a            none\n\
                      undecidable: few units";
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeezed(&shown), squeezed(wanted), "{shown}");
        let difference = [("ttft_ms_p50", 1, "different", Some(7.5), "")];
        let shown = text("results.comparison", &comparison(&difference, "difference")).unwrap();
        assert!(
            shown.contains("+7.500 ms") && shown.contains("gpu − cpu"),
            "{shown}"
        );
    }

    #[test]
    fn the_verdicts_of_a_long_comparison_are_counted() {
        let row = |i: i64| {
            let verdict = if i < 3 { "different" } else { "no evidence" };
            ("ttft_ms_p50", i, verdict, Some(1.5), "")
        };
        let rows: Vec<_> = (0..11).map(row).collect();
        let shown = text("results.cellwise", &comparison(&rows, "ratio")).unwrap();
        assert_eq!(
            shown,
            "results.cellwise: gpu compared with cpu, 11 comparisons: 3 different, 8 no evidence"
        );
    }

    #[test]
    fn an_equivalence_names_its_margin() {
        let rows = [
            ("ttft_ms_p50", 1, "equivalent", Some(1.0), ""),
            ("ttft_ms_p50", 8, "no evidence", Some(1.0), ""),
        ];
        for (scale, within) in [
            ("ratio", "equivalent within 7 %"),
            ("difference", "equivalent within 0.07 ms"),
        ] {
            let mut columns: Vec<Column> = Vec::new();
            let table = comparison(&rows, scale);
            for name in table.names() {
                columns.push(table.column(&name).unwrap());
            }
            columns.push(Column::float("margin", [Some(0.07), Some(0.07)]));
            let table = Table::with_metadata(columns, &[("keys", "clients,metric")]).unwrap();
            let text = text("results.comparison", &table).map_err(|_| ()).unwrap();
            assert!(text.contains(within), "{text}");
            assert!(text.contains(" no evidence "), "{text}");
        }
    }
}
