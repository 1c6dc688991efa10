//! Idioms of other databases, and slips in the words of SQL, each with what to write instead.

use pipeline::suggest::{did_you_mean, slip};

use crate::error::QueryError;
use crate::text::{place_of_name, word_at};

/// Words at the beginning of a text that lists tables or columns in other databases.
const LISTING: [&str; 6] = ["show", "describe", "desc", "pragma", "tables", "schema"];

/// The words of a query that a slip may have meant.
const WORDS: [&str; 9] = [
    "select", "from", "where", "group", "order", "having", "limit", "join", "distinct",
];

/// Functions of other databases, each with ours.
const FUNCTIONS: [(&str, &str); 12] = [
    ("percentile", "quantile(x, 0.99)"),
    ("percentile_cont", "quantile(x, 0.99)"),
    ("percentile_disc", "quantile(x, 0.99)"),
    ("approx_percentile", "quantile(x, 0.99)"),
    ("approx_quantile", "quantile(x, 0.99)"),
    ("quantile_cont", "quantile(x, 0.99)"),
    ("mean", "avg(x)"),
    ("average", "avg(x)"),
    ("std", "stddev(x)"),
    ("stddev_samp", "stddev(x)"),
    ("var_samp", "variance(x)"),
    ("if", "iif(condition, then, else)"),
];

/// Returns what to write instead, if a query that has no answer contains an idiom or a slip.
pub fn idiom(sql: &str, error: &QueryError) -> Option<String> {
    let first = sql.trim_start().trim_start_matches(['.', '\\']);
    let first = first.split(|c: char| !c.is_alphanumeric()).next();
    let first = first.unwrap_or_default().to_lowercase();
    if let Some(name) = error.unknown_function() {
        let name = name.to_lowercase();
        let ours = FUNCTIONS.iter().find(|(theirs, _)| *theirs == name);
        return ours.map(|(_, ours)| format!("write `{ours}`"));
    }
    match error {
        QueryError::Refused(_) if LISTING.contains(&first.as_str()) => Some(
            "`benchtrail sql EXPERIMENT`, without a query, lists the tables and their columns"
                .to_owned(),
        ),
        QueryError::Sql(message, _) if opens_a_quote(message) => {
            Some("the quote that opens there has no end: close it".to_owned())
        }
        QueryError::Sql(_, Some(at)) => {
            let part = word_at(sql, *at)?;
            let mut before = sql[..part.start].split_whitespace().rev();
            if let Some("top") = before.next().map(str::to_lowercase).as_deref() {
                let count = &sql[part];
                return Some(format!("write `limit {count}` at the end of the query"));
            }
            let word = sql[part].to_lowercase();
            slip(&word, WORDS).map(did_you_mean)
        }
        QueryError::Sql(message, None) if message == "incomplete input" => {
            Some("the query ends too early: complete it".to_owned())
        }
        QueryError::NoColumn(name) => in_double_quotes(sql, name),
        _ => None,
    }
}

/// Returns whether SQLite met a text or a name in quotes that does not end.
fn opens_a_quote(message: &str) -> bool {
    let token = message.strip_prefix("unrecognized token: \"");
    token.is_some_and(|token| token.starts_with(['"', '\'', '`', '[']))
}

/// Returns the remedy if a name in double quotes matches no column and is probably meant as text.
pub fn in_double_quotes(sql: &str, name: &str) -> Option<String> {
    let part = place_of_name(sql, name)?;
    let is_quoted = sql[..part.start].ends_with('"') && sql[part.end..].starts_with('"');
    // A text is compared with a column; a name with a dot is a table's.
    let before = sql[..part.start].trim_end_matches('"').trim_end();
    let before = before.to_lowercase();
    let compared = ["=", "<>", "!=", "like", "in (", "in(", ",", "then", "else"];
    let is_text = compared.iter().any(|sign| before.ends_with(sign));
    (is_quoted && is_text)
        .then(|| format!("double quotes are for names: if it is a text, write `'{name}'`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_or_an_idiom_gets_what_to_write() {
        let at = |column| QueryError::Sql("near".to_owned(), Some((1, column)));
        assert_eq!(
            idiom("select * form t", &at(10)).as_deref(),
            Some("did you mean `from`?")
        );
        assert_eq!(
            idiom("select top 5 * from t", &at(12)).as_deref(),
            Some("write `limit 5` at the end of the query")
        );
        assert_eq!(idiom("select a b c from t", &at(12)), None);
        let open = QueryError::Sql("unrecognized token: \"\"t".to_owned(), Some((1, 15)));
        assert_eq!(
            idiom("select * from \"t", &open).as_deref(),
            Some("the quote that opens there has no end: close it")
        );
        let function = |name| QueryError::Sql(format!("no such function: {name}"), Some((1, 8)));
        assert_eq!(
            idiom("select PERCENTILE(a, 99) from t", &function("PERCENTILE")).as_deref(),
            Some("write `quantile(x, 0.99)`")
        );
        assert_eq!(idiom("select f(a) from t", &function("f")), None);
        let refused = QueryError::Refused(String::new());
        for text in ["show tables", "DESCRIBE t", ".tables", "\\d t"] {
            assert_eq!(
                idiom(text, &refused).is_some(),
                !text.starts_with('\\'),
                "{text}"
            );
        }
        assert_eq!(idiom("delete from t", &refused), None);
    }

    #[test]
    fn a_text_in_double_quotes_gets_single_ones() {
        let hint = |sql: &str| in_double_quotes(sql, "slow");
        assert!(hint("select * from t where a = \"slow\"").is_some());
        assert!(hint("select * from t where a in (\"slow\")").is_some());
        assert!(hint("select \"slow\" from t").is_none());
        assert!(hint("select * from t where a = slow").is_none());
    }
}
