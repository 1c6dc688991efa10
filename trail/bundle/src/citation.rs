//! How to cite a bundle, and its front page.

use std::collections::BTreeMap;

use artifacts::Digest;
use artifacts::json::quoted;

use crate::place::BundlePath;
use crate::publication::Publication;
use crate::sources::LeftOut;

/// Returns `CITATION.cff`, in the Citation File Format 1.2.0.
pub(crate) fn citation(publication: &Publication<'_>, title: &str, date: &str) -> String {
    let mut text = String::from(
        "cff-version: 1.2.0\nmessage: If you use these results, please cite them as below.\n",
    );
    text.push_str("type: dataset\n");
    // The escapes of JSON are also those of YAML.
    text.push_str(&format!("title: {}\n", quoted(title)));
    text.push_str("authors:\n");
    for author in publication.authors {
        text.push_str(&format!("  - name: {}\n", quoted(author)));
    }
    text.push_str(&format!("date-released: {date}\n"));
    text.push_str(&format!("license: {}\n", publication.license));
    let trail = publication.lock.trail();
    text.push_str("identifiers:\n");
    text.push_str(&format!(
        "  - type: other\n    value: {trail}\n    description: trail digest of the study\n"
    ));
    text
}

/// Returns a title as one line of escaped Markdown.
fn plain(title: &str) -> String {
    let mut plain = String::with_capacity(title.len());
    for c in title.chars() {
        match c {
            '<' | '>' | '[' | ']' | '`' | '\\' | '*' | '#' | '|' => plain.extend(['\\', c]),
            '&' => plain.push_str("&amp;"),
            c if c.is_control() => plain.push(' '),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            c => plain.push(c),
        }
    }
    plain
}

/// Returns `README.md`.
pub(crate) fn readme(publication: &Publication<'_>, title: &str, facts: &Facts<'_>) -> String {
    let signed = if facts.signed {
        "`attestation.dsse.json` is the same statement, signed."
    } else {
        "It is not signed."
    };
    let reports = if facts.reports.is_empty() {
        "The study has no report stage.".to_owned()
    } else {
        let links: Vec<String> = facts
            .reports
            .iter()
            .map(|path| format!("[{path}]({path})"))
            .collect();
        format!("The report: {}.", links.join(", "))
    };
    let sources = sources(publication);
    let title = plain(title);
    format!(
        "# {title}

{reports}

Every number of the report traces to raw request rows, and this bundle has all of them: {cells} cells, {objects}
artifacts and records. `artifacts.tsv` lists them with their files; tables are Parquet.
{without}
| | |
|---|---|
| trail digest | `{trail}` |
| experiment | [{yaml}]({yaml}), lock [{lock}]({lock}) |
| made with | benchtrail {version} |
| license | {license} |

## Check it

    sha256sum --check --quiet SHA256SUMS      check that every file is the published one
    benchtrail verify .                       also check signature, lock, records and every number of the report
    benchtrail reproduce .                    execute every pure stage again and compare the bytes
    benchtrail why report/report.md '1.23'    trace a number to its rows

`manifest.json` holds the digests of all files; `statement.json` is an in-toto statement over it. {signed}
`ro-crate-metadata.json` describes everything as a Workflow Run RO-Crate, `prov.json` as W3C PROV-JSON.

## Measure it again

Copy everything except `store/` and `manifest.json` to another folder, and run there:

    benchtrail plan {yaml}
    benchtrail run {yaml}

{sources}Engines and weights are downloaded, or must be present, depending on their definitions.
",
        cells = facts.cells,
        objects = facts.objects,
        without = without(publication, facts.left_out) + &gone(facts.gone),
        trail = publication.lock.trail(),
        yaml = publication.sources.experiment,
        lock = publication.sources.lock,
        version = publication.version,
        license = publication.license,
    )
}

/// Describes which outputs are missing and what that means for checking.
fn without(publication: &Publication<'_>, artifacts: usize) -> String {
    if publication.without.is_empty() {
        return String::new();
    }
    let names: Vec<String> = publication
        .without
        .iter()
        .map(|name| format!("`{name}`"))
        .collect();
    format!(
        "\nThe author left out these outputs of the measurements: {}. Of their {artifacts} artifacts the bundle holds \
         only the digests. Stages that read them cannot be executed again from this bundle.\n",
        names.join(", ")
    )
}

/// Describes which records of earlier results are missing: nobody can see how these executions ended.
fn gone(records: &BTreeMap<Digest, String>) -> String {
    if records.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "\nThe lock names these earlier results, but their records were no longer in the author's store, so the bundle \
         lacks them:\n\n",
    );
    for (digest, cell) in records {
        text.push_str(&format!("- `{digest}`, an earlier result of `{cell}`\n"));
    }
    text
}

/// Describes which of the files that the plan read are included, and how to get the others.
fn sources(publication: &Publication<'_>) -> String {
    let mut text = String::new();
    if !publication.sources.carried.is_empty() {
        text.push_str(
            "Definitions and files that the plan reads are at the places where it looks \
            for them:\n\n",
        );
        for (place, ..) in &publication.sources.carried {
            text.push_str(&format!("- [{place}]({place})\n"));
        }
        text.push('\n');
    }
    if !publication.sources.left_out.is_empty() {
        text.push_str(
            "These files are not included. Put them in place first. Relative paths start at the \
             experiment's folder; to use another place, change the path in the experiment.\n\n",
        );
        for LeftOut {
            name,
            digest,
            reason,
        } in &publication.sources.left_out
        {
            text.push_str(&format!("- `{name}`, `{digest}`: {reason}\n"));
        }
        text.push('\n');
    }
    text
}

/// What the front page states about the content.
pub(crate) struct Facts<'a> {
    pub(crate) cells: usize,
    pub(crate) objects: usize,
    /// The number of artifacts that are named but not included.
    pub(crate) left_out: usize,
    /// The records of earlier results that are missing, with the names of their cells.
    pub(crate) gone: &'a BTreeMap<Digest, String>,
    pub(crate) reports: &'a [BundlePath],
    /// Whether the statement is signed.
    pub(crate) signed: bool,
}
