//! The report stage: traced numbers, figures, the number check.
//!
//! A report is a minijinja template over the artifacts of the stages it needs. Numbers enter it only through lookups,
//! each of which leaves a row in the *trace* table; the number check rejects every other numeral.
//! `docs/number-check.md` has the rules.

mod blocks;
mod calls;
mod check;
mod claims;
mod comparisons;
mod data;
mod derived;
mod environment;
mod extended;
mod figure;
mod figure_words;
mod flaws;
mod footnotes;
mod format;
mod guard;
mod held;
mod html;
mod labels;
mod language;
mod ledger;
mod method;
mod mistakes;
mod names;
mod numbering;
mod parts;
mod pivot;
mod ratios;
mod reads;
mod render;
mod said;
mod settings;
mod setup;
mod stage;
mod statement;
mod tables;
mod template;
mod trace;
mod turns;
mod view;

use pipeline::stage::Shipped;

pub use check::Objection;
pub use claims::{Claim, Narrower};
pub use data::Data;
pub use figure::Drawn;
pub use format::{FormatError, format_value};
pub use render::{RenderError, Report as Rendered, render};
pub use settings::{FigureSettings, Literal, Parameters, TableSettings};
pub use stage::Report;
pub use statement::{Judge, Rejudged, Rule, TablePart};
pub use template::Template;

/// The templates shipped with the binary, under their full names.
const TEMPLATES: [(&str, &str); 21] = [
    (
        "quickstart.md",
        include_str!("../../../templates/quickstart.md"),
    ),
    ("report.md", include_str!("../../../templates/report.md")),
    (
        "partials/claims.md",
        include_str!("../../../templates/partials/claims.md"),
    ),
    (
        "partials/commands.md",
        include_str!("../../../templates/partials/commands.md"),
    ),
    (
        "partials/conditions.md",
        include_str!("../../../templates/partials/conditions.md"),
    ),
    (
        "partials/loads.md",
        include_str!("../../../templates/partials/loads.md"),
    ),
    (
        "partials/deviations.md",
        include_str!("../../../templates/partials/deviations.md"),
    ),
    (
        "partials/differences.md",
        include_str!("../../../templates/partials/differences.md"),
    ),
    (
        "partials/facets.md",
        include_str!("../../../templates/partials/facets.md"),
    ),
    ("macros.md", include_str!("../../../templates/macros.md")),
    (
        "partials/question.md",
        include_str!("../../../templates/partials/question.md"),
    ),
    (
        "partials/results.md",
        include_str!("../../../templates/partials/results.md"),
    ),
    (
        "partials/summary.md",
        include_str!("../../../templates/partials/summary.md"),
    ),
    (
        "partials/verdicts.md",
        include_str!("../../../templates/partials/verdicts.md"),
    ),
    (
        "partials/tables.md",
        include_str!("../../../templates/partials/tables.md"),
    ),
    (
        "partials/method.md",
        include_str!("../../../templates/partials/method.md"),
    ),
    (
        "partials/checks.md",
        include_str!("../../../templates/partials/checks.md"),
    ),
    (
        "partials/environment.md",
        include_str!("../../../templates/partials/environment.md"),
    ),
    (
        "partials/ledger.md",
        include_str!("../../../templates/partials/ledger.md"),
    ),
    (
        "partials/limits.md",
        include_str!("../../../templates/partials/limits.md"),
    ),
    (
        "partials/reproduction.md",
        include_str!("../../../templates/partials/reproduction.md"),
    ),
];

/// Returns the schema of the definitions that an experiment may contain: `claims`.
pub fn collections() -> Vec<(&'static str, schemars::Schema)> {
    vec![("claims", schemars::schema_for!(Claim))]
}

/// Returns the templates shipped with the binary.
pub fn shipped() -> Vec<Shipped> {
    let shipped = |(name, text)| Shipped {
        collection: "templates",
        name,
        text,
    };
    TEMPLATES.into_iter().map(shipped).collect()
}
