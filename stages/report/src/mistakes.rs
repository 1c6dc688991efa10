//! Mistakes in a template: their places, and what to write instead.

use minijinja::{Environment, ErrorKind};
use pipeline::suggest::remedy;

use crate::held::{FILTERS, without_looks};
use crate::language::World;
use crate::trace::unmarked;

/// How the functions that take several arguments are called.
const CALLS: [&str; 17] = [
    r#"value("STAGE.TABLE", {"AXIS": LABEL}, "COLUMN", "FORMAT")"#,
    r#"raw("STAGE.TABLE", {"AXIS": LABEL}, "COLUMN")"#,
    r#"count("STAGE.TABLE", {"COLUMN": VALUE})"#,
    r#"rows("STAGE.TABLE", {"COLUMN": VALUE}, order=["COLUMN"])"#,
    r#"row("STAGE.TABLE", {"AXIS": LABEL})"#,
    r#"lowest("STAGE.TABLE", {"COLUMN": VALUE}, "COLUMN")"#,
    r#"highest("STAGE.TABLE", {"COLUMN": VALUE}, "COLUMN")"#,
    r#"json("STAGE.OUTPUT", "PATH", {"AXIS": LABEL}, "FORMAT")"#,
    r#"descriptor("STAGE", "PATH", {"AXIS": LABEL}, "FORMAT")"#,
    r#"sides("STAGE.TABLE", "COLUMN")"#,
    r#"spec("PATH", "FORMAT")"#,
    r#"host("PATH", "FORMAT")"#,
    r#"table("NAME")"#,
    r#"figure("NAME")"#,
    r#"ref("NAME")"#,
    r#"has("STAGE.TABLE")"#,
    r#"whole_table("STAGE.TABLE")"#,
];

/// What the template engine says about an argument of another type.
const WRONG_ARGUMENT: [&str; 3] = ["value is not a string", "not iterable", "cannot convert"];

/// Adds what exists to the message about an unknown name, and how a function is called to the one about its arguments.
fn remedied(kind: ErrorKind, detail: String, text: &str, environment: &Environment<'_>) -> String {
    let name = text.split('(').next().unwrap_or_default().trim();
    match kind {
        ErrorKind::UnknownFunction => {
            let globals = environment.globals().map(|(name, _)| name);
            let names: Vec<&str> = globals
                .filter(|name| !name.starts_with("benchtrail_"))
                .collect();
            format!(
                "unknown function `{name}`; {}",
                remedy(name, "functions", names)
            )
        }
        ErrorKind::UnknownFilter => {
            format!(
                "unknown filter `{name}`; {}",
                remedy(name, "filters", FILTERS)
            )
        }
        // The words of the template engine; no message of ours has them.
        ErrorKind::InvalidOperation if detail.contains("(plain object)") => {
            let detail = detail.replace("value (plain object)", "a shown value");
            format!(
                "{detail}; give the format where you look it up: `value(…, \"0.00\")`, `row.show(\"COLUMN\", \"0.00\")`"
            )
        }
        ErrorKind::InvalidOperation if detail.contains("operator on unsupported types") => format!(
            "{}; a template computes nothing: compute the value in a table of an analyze stage, for example with \
             the operator `sql`",
            detail.replace("plain object", "a shown value")
        ),
        ErrorKind::InvalidOperation
            if !WRONG_ARGUMENT.iter().any(|words| detail.contains(words)) =>
        {
            detail
        }
        ErrorKind::MissingArgument | ErrorKind::TooManyArguments | ErrorKind::InvalidOperation => {
            let call = CALLS.iter().find(|call| {
                call.strip_prefix(name)
                    .is_some_and(|rest| rest.starts_with('('))
            });
            match call {
                Some(call) => format!("{detail}; write `{call}`, with the arguments in this order"),
                None => detail,
            }
        }
        _ => detail,
    }
}

/// Names the column that does not exist, if the undefined value is a column of a row; otherwise the name.
fn undefined(detail: &str, text: &str, world: &World) -> String {
    let absent = world.absent.lock().expect("no holder of this lock panics");
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    match absent.as_ref() {
        Some((column, message)) if text.split(|c| !is_word(c)).any(|word| word == column) => {
            message.clone()
        }
        _ => match text.split_once('.') {
            Some((stage, output)) if world.data.input(stage).is_ok() => format!(
                "{detail}; a table is read with a function, such as `rows(\"{stage}.{output}\")` or `value(\"{stage}.{output}\", …)`"
            ),
            _ => format!("{detail}; {}", looked_up(text, world)),
        },
    }
}

/// Says how to look up what is not defined: a part of the experiment by its path, and other values from their tables.
fn looked_up(text: &str, world: &World) -> String {
    let paths = [text.to_owned(), format!("design.{text}")];
    match paths.iter().find(|path| world.spec(path, "").is_ok()) {
        Some(path) => format!("the experiment has it: `spec(\"{path}\")`"),
        None => "look it up: `value(…)` and `count(…)` read tables, `row(…).show(…)` a row, and `spec(…)` the experiment"
            .to_owned(),
    }
}

/// Describes a template error, with the template and line of the innermost place.
pub(crate) fn describe(
    error: &minijinja::Error,
    environment: &Environment<'_>,
    world: &World,
) -> String {
    let mut innermost = error;
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(inner) = cause.downcast_ref::<minijinja::Error>() {
            innermost = inner;
        }
        source = cause.source();
    }
    let place = place_of(innermost)
        .or_else(|| place_of(error))
        .unwrap_or_default();
    let detail = innermost
        .detail()
        .map_or_else(|| innermost.kind().to_string(), str::to_owned);
    let source = innermost.template_source().zip(innermost.range());
    let text = source
        .and_then(|(text, range)| text.get(range))
        .unwrap_or_default();
    let detail = match innermost.kind() {
        ErrorKind::UndefinedError => undefined(&detail, &unmarked(text), world),
        kind => remedied(kind, detail, &unmarked(text), environment),
    };
    let snippet = Some(text)
        .filter(|text| !text.is_empty())
        // A call inserted after a tag is not in the template.
        .filter(|text| !text.starts_with("benchtrail_"))
        .map(|text| format!(" (in `{}`)", unmarked(&without_looks(text))));
    format!(
        "{place}{}{}",
        unmarked(&detail),
        snippet.unwrap_or_default()
    )
}

/// Returns `NAME:LINE:COLUMN: `, with the column in the template before marks were inserted.
fn place_of(error: &minijinja::Error) -> Option<String> {
    let (name, line) = (error.name()?, error.line()?);
    let before = error
        .template_source()
        .zip(error.range())
        .and_then(|(text, range)| text.get(..range.start));
    let column = before.map(|text| {
        let start = text.rfind('\n').map_or(0, |i| i + 1);
        unmarked(&without_looks(&text[start..])).chars().count() + 1
    });
    Some(column.map_or_else(
        || format!("{name}:{line}: "),
        |column| format!("{name}:{line}:{column}: "),
    ))
}
