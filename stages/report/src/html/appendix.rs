//! The appendix: every trail once, grouped by its artifact or document.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::body::Body;
use super::escape::{escape, push};
use super::trails::{Trail, Trails};
use crate::trace::{Entry, TraceSource, full};

/// The maximum number of places listed for one trail.
const PLACES: usize = 12;

/// Writes the appendix after the text.
pub(super) fn write(body: &mut Body<'_>, trails: &Trails<'_>) {
    body.out.push_str(
        "<section id=\"trails\" aria-labelledby=\"trails-heading\">\n<h2 id=\"trails-heading\">Trails</h2>\n\
         <p>The origin of each number: the table and its digest, the row, the column, and the \
         value in full precision. The report in Markdown is next to this page. <code>benchtrail \
         why REPORT.md:LINE:COLUMN</code> traces a number to the raw request rows, \
         <code>benchtrail audit REPORT.md</code> checks all numbers, and <code>benchtrail \
         show</code> prints the rows of a table.</p>\n",
    );
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    for (number, trail) in trails.all.iter().enumerate() {
        let at = *numbers.entry(group_of(trail.entry)).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[at].push(number);
    }
    for group in groups {
        let first = trails.all[group[0]].entry;
        // Collapsed, so that the page ends with its text; a link to a row opens it.
        let _ = write!(
            body.out,
            "<details><summary><h3>{}</h3> {} number{}</summary>\n<p>",
            escape(&name(first)),
            group.len(),
            if group.len() == 1 { "" } else { "s" }
        );
        if let Some(digest) = first.artifact {
            let short = digest.short();
            let _ = write!(
                body.out,
                "<code>{digest}</code> <code>benchtrail show {short}</code>"
            );
        }
        // The head stays in view while a reader who came from the text looks at a row far below the group's name.
        let whose = match first.artifact {
            Some(_) => format!(" of {}", escape(&name(first))),
            None => String::new(),
        };
        let _ = write!(
            body.out,
            "</p>\n<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">text</th><th scope=\"col\">value</th>\
             <th scope=\"col\">unit</th><th scope=\"col\">column{whose}</th><th scope=\"col\">row</th>\
             <th scope=\"col\">key</th><th scope=\"col\">format</th><th scope=\"col\">place</th></tr></thead>\n<tbody>\n",
        );
        for number in group {
            row(body, trails, number);
        }
        body.out.push_str("</tbody></table></div>\n</details>\n");
    }
    body.out.push_str("</section>\n");
}

fn group_of(entry: &Entry) -> String {
    let digest = entry.artifact.map(|d| d.to_string()).unwrap_or_default();
    format!(
        "{} {}.{} {digest}",
        if digest.is_empty() {
            entry.source.word()
        } else {
            ""
        },
        entry.stage,
        entry.output
    )
}

fn name(entry: &Entry) -> String {
    match entry.source {
        TraceSource::Spec => "The experiment".to_owned(),
        TraceSource::Ledger => format!("The ledger of planned cells: {}", entry.output),
        TraceSource::Trail => "The trail digest".to_owned(),
        TraceSource::Structure => "Numbers of tables and figures".to_owned(),
        TraceSource::Statement if entry.output.is_empty() => "Found by statements".to_owned(),
        TraceSource::Statement => format!("Found by statements about {}", table(entry)),
        TraceSource::Literal => "Written by hand, each with its reason".to_owned(),
        _ => table(entry),
    }
}

/// Returns the name of an entry's artifact. Several cells of a stage have outputs of one name.
fn table(entry: &Entry) -> String {
    let cell = match &entry.coordinates {
        Some(coordinates) if !coordinates.0.is_empty() => format!("[{coordinates}]"),
        _ => String::new(),
    };
    match entry.stage.as_str() {
        "" => entry.output.clone(),
        stage => format!("{stage}{cell}.{}", entry.output),
    }
}

fn row(body: &mut Body<'_>, trails: &Trails<'_>, number: usize) {
    let Trail { entry, spans } = &trails.all[number];
    let _ = write!(body.out, "<tr id=\"t{}\">", number + 1);
    let value = full(&entry.value).unwrap_or_else(|| "null".to_owned());
    for text in [
        entry.text.as_str(),
        &value,
        entry.unit.as_deref().unwrap_or_default(),
        &entry.column,
    ] {
        body.out.push_str("<td>");
        push(&mut body.out, text);
        body.out.push_str("</td>");
    }
    let at = match (entry.row, entry.artifact) {
        (Some(row), Some(digest)) => {
            format!(
                "<code>benchtrail show {} --rows {row}..{}</code>",
                digest.short(),
                row + 1
            )
        }
        (Some(row), None) => row.to_string(),
        (None, _) => String::new(),
    };
    let _ = write!(body.out, "<td>{at}</td><td>");
    push(&mut body.out, &format!("{:#}", entry.row_key));
    let _ = write!(body.out, "</td><td>{}</td><td>", escape(&entry.format));
    for (i, span) in spans.iter().take(PLACES).enumerate() {
        if i > 0 {
            body.out.push_str(", ");
        }
        let place = &trails.spans[*span];
        let place = format!("{}:{}", place.line, place.column_start);
        let _ = match body.placed[*span] {
            true => write!(body.out, "<a href=\"#n{}\">{place}</a>", span + 1),
            false => write!(body.out, "{place}"),
        };
    }
    if spans.len() > PLACES {
        let _ = write!(body.out, " and {} more", spans.len() - PLACES);
    }
    // Spans outside the visible text, such as in front matter, get their element here.
    for span in spans {
        if !body.placed[*span] {
            body.out.push(' ');
            body.number(*span, &trails.spans[*span].entry.text);
        }
    }
    body.out.push_str("</td></tr>\n");
}
