//! HTML reports: the same blocks and findings as those of Markdown, at their places in the source, within limits.

use foreign::{Document, audit};

/// A report with a total that does not follow, an entity before it, and rows in several lines.
const PAGE: &str = "<!DOCTYPE html>\n<html><head><title>1 of 0</title><style>p { width: 120% }</style>\n<script>if (1 < 2) document.write('Of 10, 5 (40%)');</script></head>\n<body><h1>R</h1><h2 id=\"sum\">Files</h2>\n<p>See <a href=\"#sum\">here</a> and\n<a href=\"#gone\">there</a>. In A&nbsp;&amp;&nbsp;B, 10 of 50 (30%) failed.</p>\n<table>\n<caption>Table 1. Files</caption>\n<thead><tr><th>Part<th>Files</thead>\n<tbody>\n<tr>\n  <td>a</td>\n  <td>14</td>\n</tr><tr>\n  <td>b</td>\n  <td>3</td>\n</tr><tr>\n  <td>Total</td>\n  <td><b>19</b></td>\n</tr>\n</table>\n</body></html>\n";

fn places(text: &str) -> Vec<(usize, usize, String)> {
    let audit = audit("page.html", text, &[]);
    let findings = audit.findings.into_iter();
    findings
        .map(|f| (f.line, f.column, f.rule.to_string()))
        .collect()
}

#[test]
fn findings_have_their_place_in_the_source() {
    let places_found = places(PAGE);
    assert_eq!(
        places_found,
        [
            (6, 1, "structure".to_owned()),
            (6, 52, "arithmetic".to_owned()),
            (19, 10, "total".to_owned()),
        ]
    );
}

#[test]
fn a_table_has_its_caption_its_cells_and_the_bold_ones() {
    let document = Document::of("page.html", PAGE);
    let [table] = document.tables.as_slice() else {
        panic!("{} tables", document.tables.len());
    };
    assert_eq!(
        (
            table.title.as_str(),
            table.caption.as_str(),
            table.columns.as_slice()
        ),
        (
            "Files",
            "Table 1. Files",
            ["Part".to_owned(), "Files".to_owned()].as_slice()
        )
    );
    assert_eq!((table.rows.len(), table.label(1)), (3, "b"));
    let last = table.cell(2, 1).expect("a cell");
    assert!(last.bold && !table.cell(1, 1).expect("a cell").bold);
}

#[test]
fn cells_that_spread_are_in_every_row_and_column() {
    let page = "<table><tr><th rowspan=2>Model<th colspan=2>TTFT</tr><tr><th>p50<th>p99</tr>\
        <tr><td rowspan=2>oak<td>1<td>2<tr><td>3<td>4</table>";
    let document = Document::of("a.html", page);
    let table = &document.tables[0];
    assert_eq!(table.columns, ["Model", "TTFT p50", "TTFT p99"]);
    let text = |row, column| {
        table
            .cell(row, column)
            .map_or("", |cell| cell.text.as_str())
    };
    assert_eq!(
        [text(0, 0), text(0, 2), text(1, 0), text(1, 1)],
        ["oak", "2", "oak", "3"]
    );
}

#[test]
fn lists_headings_code_and_tables_that_arrange_the_page_are_read() {
    let page = "<table><tr><td><h1>A <em>report</em></h1><p>Three runs failed:</p><ul><li>run 3<li>run 8\
        <li>run 9<li>run 14</ul><table><tr><th>Part<th>Files<tr><td>a<td>2</table></td></tr></table>\
        <pre>engine  tok/s  ms\nswift   10     3\nrobin   12     4\n</pre>";
    let document = Document::of("a.html", page);
    assert_eq!(document.headings[0].text, "A report");
    assert_eq!(document.lists[0].items.len(), 4);
    assert_eq!(
        document.tables.len(),
        2,
        "the inner table and that of the code"
    );
    assert_eq!(
        audit("a.html", page, &[]).findings.len(),
        1,
        "four runs are listed"
    );
}

#[test]
fn a_table_of_html_within_markdown_is_read() {
    let page = "# R\n\n<table>\n<tr><th>Part</th><th>Files</th></tr>\n<tr><td>a</td><td>14</td></tr>\n\
        <tr><td>b</td><td>3</td></tr>\n<tr><td>Total</td><td>19</td></tr>\n</table>\n\nText.\n";
    let report = audit("a.md", page, &[]);
    assert_eq!((report.tables, report.findings.len()), (1, 1), "{report}");
    assert_eq!(
        (report.findings[0].line, report.findings[0].column),
        (7, 23)
    );
}

/// What is read of a page: the texts of its paragraphs, and the columns and rows of its tables.
fn contents(page: &str) -> (Vec<String>, Vec<(usize, usize)>) {
    let document = Document::of("a.html", page);
    let texts = document.prose.into_iter().map(|prose| prose.text);
    let tables = document.tables.iter();
    let sizes = tables.map(|table| (table.columns.len(), table.rows.len()));
    (texts.collect(), sizes.collect())
}

#[test]
fn hostile_html_is_read_within_limits() {
    let none = (Vec::new(), Vec::new());
    let only = |text: &str| (vec![text.to_owned()], Vec::new());
    let deep = format!("{}5 of 4", "<table><tr><td>".repeat(20_000));
    assert_eq!(contents(&deep), only("5 of 4"));
    let wide = format!(
        "<table>{}</table>",
        "<tr><td colspan=64 rowspan=64>1".repeat(10_000)
    );
    assert_eq!(contents(&wide), none);
    let uneven = format!(
        "<table><tr>{}{}</table>",
        "<td>1".repeat(10_000),
        "<tr><td>2".repeat(10_000)
    );
    assert_eq!(contents(&uneven), none);
    let lists = "<ul><li>1<b>".repeat(10_000);
    let read = Document::of("a.html", &lists).lists;
    assert_eq!(read.len(), 10_000);
    assert!(read.iter().all(|list| matches!(list.items[..], [Some(_)])));
    let open = format!("<svg>{}", "<svg><![CDATA[".repeat(10_000));
    assert_eq!(contents(&open), none);
    let attributes = tag(50_000);
    assert_eq!(contents(&attributes), only("after"));
    let entities = "&lt;&#0;&#x110000;&nbsp;&unknown;&";
    let characters = "<\u{fffd}\u{fffd} &unknown;&";
    let text = characters.repeat(3);
    assert_eq!(contents(&entities.repeat(3)), only(&text));
    let entities = entities.repeat(10_000);
    for page in [deep, wide, uneven, lists, open, attributes, entities] {
        audit("a.html", &page, &[]);
    }
}

#[test]
fn cells_spread_until_the_copies_of_the_document_are_used_up() {
    let page = format!(
        "<table><tr>{}{}</table>",
        "<td colspan=64 rowspan=64>1".repeat(60),
        "<tr>".repeat(63)
    );
    // 48 cells have 4,095 copies each, which leaves too few of 200,000 for another.
    assert_eq!(contents(&page), (Vec::new(), vec![(48 * 64 + 12, 63)]));
}

/// A tag with a number of attributes, a name after them, and a word behind it.
fn tag(attributes: usize) -> String {
    let attributes: String = (0..attributes).map(|i| format!("a{i}=\"1\" ")).collect();
    format!("<p {attributes}id=\"late\">after")
}

#[test]
fn a_tag_with_too_many_attributes_is_dropped_and_the_text_behind_it_is_read() {
    for (attributes, anchors) in [(90, "late"), (200, "")] {
        let document = Document::of("a.html", &tag(attributes));
        assert_eq!(document.anchors.concat(), anchors, "{attributes}");
        let texts: Vec<&str> = document.prose.iter().map(|p| p.text.as_str()).collect();
        assert_eq!(texts, ["after"], "{attributes}");
    }
}
