//! Numbers traced to data: which are found, by which formula, and which are not.

use foreign::{Audit, Cell, Row, Rule, Status, Table, audit, html, markdown};

/// A data table from comma-separated lines.
fn data(file: &str, text: &str) -> Table {
    let mut lines = text.lines();
    let columns = lines
        .next()
        .unwrap_or("")
        .split(',')
        .map(str::to_owned)
        .collect();
    let rows = lines.enumerate().map(|(at, line)| Row {
        line: at + 2,
        cells: line.split(',').map(|cell| Cell::new(cell, 1)).collect(),
    });
    Table {
        file: file.to_owned(),
        columns,
        rows: rows.collect(),
        ..Table::default()
    }
}

fn rates() -> Vec<Table> {
    let mut text = String::from("engine,host,clients,tok_s,ttft_ms\n");
    for (engine, host, clients, rate, ttft) in [
        ("otter", "north", 1, 48.25, 31.5),
        ("otter", "north", 8, 351.75, 44.0),
        ("otter", "south", 1, 47.35, 32.5),
        ("otter", "south", 8, 333.5, 47.5),
        ("stoat", "north", 1, 51.15, 40.5),
        ("stoat", "north", 8, 299.25, 61.5),
        ("stoat", "south", 1, 50.45, 41.0),
        ("stoat", "south", 8, 281.65, 66.0),
    ] {
        text.push_str(&format!("{engine},{host},{clients},{rate},{ttft}\n"));
    }
    vec![data("rates.csv", text.trim_end())]
}

/// Status and best formula of the only number printed in this form.
fn traced(audit: &Audit, number: &str) -> (Status, String) {
    let numbers = &audit.coverage.as_ref().expect("a coverage").numbers;
    let matching: Vec<_> = numbers
        .iter()
        .filter(|traced| traced.number.starts_with(number))
        .collect();
    assert_eq!(matching.len(), 1, "{number}: {matching:?}");
    (
        matching[0].status,
        matching[0]
            .sources
            .first()
            .map_or(String::new(), |source| source.formula.clone()),
    )
}

#[test]
fn prose_is_traced_to_cells_and_to_simple_derivations() {
    let text = "# Report\n\nOn north otter has a rate of 351.75 tok/s with clients=8. \
                Stoat on south with 1 client reaches 50.45 tok/s. \
                At clients=8 the mean TTFT of otter is 45.75 ms. \
                At clients=8 on south otter is 18.4% faster than stoat in tok/s. \
                The highest tok/s of stoat is 299.25. \
                The rack draws 771.25 W.\n";
    let audit = audit("r.md", text, &rates());
    for (number, status, formula) in [
        ("351.75", Status::Cell, "`tok_s`"),
        ("50.45", Status::Cell, "`tok_s`"),
        ("45.75", Status::Derived, "mean of `ttft_ms` over 2 rows"),
        (
            "18.4",
            Status::Derived,
            "change of `tok_s` in % (engine otter against stoat)",
        ),
        ("299.25", Status::Derived, "maximum of `tok_s` over 4 rows"),
        ("771.25", Status::NotFound, ""),
    ] {
        assert_eq!(
            traced(&audit, number),
            (status, formula.to_owned()),
            "{number}"
        );
    }
}

#[test]
fn a_cell_that_differs_from_what_yields_its_column_is_found() {
    let table = |cell: &str| {
        format!(
            "## North\n\n| Engine | Clients | Rate |\n|---|---:|---:|\n| otter | 1 | 48.25 |\n| otter | 8 | {cell} |\n| stoat | 1 | 51.15 |\n| stoat | 8 | 299.25 |\n"
        )
    };
    let good = audit("r.md", &table("351.75"), &rates());
    assert!(
        good.findings.is_empty()
            && good
                .coverage
                .as_ref()
                .is_some_and(|c| c.count(Status::Cell) >= 4),
        "{good}"
    );
    let bad = audit("r.md", &table("357.15"), &rates());
    assert_eq!(
        bad.findings
            .iter()
            .map(|finding| (finding.rule, finding.line))
            .collect::<Vec<_>>(),
        [(Rule::Data, 6)],
        "{bad}"
    );
    assert!(
        bad.findings[0].message.contains("351.75")
            && bad.findings[0].evidence[0].place.contains("rates.csv:3"),
        "{bad}"
    );
}

#[test]
fn the_page_lists_what_was_not_found_before_what_was() {
    let audit = audit(
        "their|report.md",
        "# R\n\nOn north otter reaches 351.75 tok/s; a <b>rack</b> draws 771.25 W.\n",
        &rates(),
    );
    let page = markdown(&audit);
    let (lost, limits) = (
        page.find("## Not found").expect("a section"),
        page.find("351.75").expect("a number"),
    );
    assert!(
        lost < limits && page.contains("771.25 W") && page.contains("rates.csv"),
        "{page}"
    );
    let page = html(&audit);
    assert!(
        page.contains("<td>") && page.contains("their|report.md") && !page.contains("<b>"),
        "{page}"
    );
}
