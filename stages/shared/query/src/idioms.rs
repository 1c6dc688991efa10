//! Idioms of other databases, and slips in the words of SQL, each with what to write instead.

use pipeline::suggest::{did_you_mean, remedy, slip};

use crate::error::QueryError;
use crate::text::{place_of_name, word_at};

/// Words at the beginning of a text that lists tables or columns in other databases.
const LISTING: [&str; 6] = ["show", "describe", "desc", "pragma", "tables", "schema"];

/// The words of a query that a slip may have meant.
const WORDS: [&str; 9] = [
    "select", "from", "where", "group", "order", "having", "limit", "join", "distinct",
];

/// Functions of other databases, each with ours.
const FUNCTIONS: &[(&str, &str)] = &[
    ("mean", "avg(x)"),
    ("average", "avg(x)"),
    ("median_cont", "median(x)"),
    ("approx_median", "median(x)"),
    ("std", "stddev(x)"),
    ("stdev", "stddev(x)"),
    ("stddev_samp", "stddev(x)"),
    ("stddevsamp", "stddev(x)"),
    ("stddevpop", "stddev_pop(x)"),
    ("std_pop", "stddev_pop(x)"),
    ("stdev_pop", "stddev_pop(x)"),
    ("var", "variance(x)"),
    ("var_samp", "variance(x)"),
    ("varsamp", "variance(x)"),
    ("variance_samp", "variance(x)"),
    ("var_pop", "variance_pop(x)"),
    ("varpop", "variance_pop(x)"),
    ("if", "iif(condition, then, else)"),
];

/// The words with which other databases name quantiles.
const QUANTILES: [&str; 5] = ["percentile", "quantile", "pctl", "perc", "p"];

/// Returns what to write instead of a function of another database, given in lower case.
fn function(name: &str) -> Option<String> {
    let same = FUNCTIONS.iter().find(|(theirs, _)| *theirs == name);
    if let Some((_, ours)) = same {
        return Some((*ours).to_owned());
    }
    let short = name.strip_prefix("approx_").unwrap_or(name);
    let mut words = QUANTILES.iter();
    let rest = words.find_map(|word| short.strip_prefix(*word))?;
    let rest = rest.trim_start_matches('_');
    let is_percent = !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
    match rest {
        "" if short == "p" => None,
        "" | "cont" | "disc" | "approx" | "exact" | "tdigest" | "approx_cont" => {
            Some("quantile(x, 0.95)".to_owned())
        }
        // `p5` is 5 %, `p95` is 95 %, and `p999` is 99.9 %.
        _ if is_percent && rest.len() <= 4 && !rest.starts_with("100") => {
            let digits = format!("{rest:0>2}");
            let share = digits.trim_end_matches('0');
            (!share.is_empty()).then(|| format!("quantile(x, 0.{share})"))
        }
        _ => None,
    }
}

/// Returns what to write instead, if a query that has no answer contains an idiom or a slip.
fn idiom(sql: &str, error: &QueryError) -> Option<String> {
    let first = sql.trim_start().trim_start_matches(['.', '\\']);
    let first = first.split(|c: char| !c.is_alphanumeric()).next();
    let first = first.unwrap_or_default().to_lowercase();
    if let Some(name) = error.unknown_function() {
        return function(&name.to_lowercase()).map(|ours| format!("write `{ours}`"));
    }
    match error {
        QueryError::Refused(_) if LISTING.contains(&first.as_str()) => Some(
            "`benchtrail sql EXPERIMENT`, without a query, lists the tables and their columns"
                .to_owned(),
        ),
        QueryError::Sql(..) if is_within_group(sql) => {
            let written = "write `quantile(x, 0.95)`, with your share for 0.95, in place of";
            Some(format!("{written} `… within group (order by x)`"))
        }
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

/// Returns what to write instead of what is wrong in a query, if the query itself shows it. Which tables and columns
/// there are is for the caller to say.
pub fn hint(sql: &str, error: &QueryError) -> Option<String> {
    let similar = |name: &str| remedy(name, "functions", QueryError::functions());
    idiom(sql, error).or_else(|| error.unknown_function().map(similar))
}

/// Returns whether a query takes quantiles in the way of the SQL standard, which SQLite does not read.
fn is_within_group(sql: &str) -> bool {
    let words: Vec<String> = sql.split_whitespace().map(str::to_lowercase).collect();
    let is = |pair: &[String]| pair[0].ends_with("within") && pair[1].starts_with("group");
    words.windows(2).any(is)
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
        let function =
            |name: &str| QueryError::Sql(format!("no such function: {name}"), Some((1, 8)));
        assert_eq!(
            idiom("select PERCENTILE(a, 99) from t", &function("PERCENTILE")).as_deref(),
            Some("write `quantile(x, 0.95)`")
        );
        for (theirs, ours) in [
            ("p95", Some("quantile(x, 0.95)")),
            ("P50", Some("quantile(x, 0.5)")),
            ("p5", Some("quantile(x, 0.05)")),
            ("p999", Some("quantile(x, 0.999)")),
            ("percentile_cont", Some("quantile(x, 0.95)")),
            ("approx_percentile", Some("quantile(x, 0.95)")),
            ("percentile_95", Some("quantile(x, 0.95)")),
            ("quantile_cont", Some("quantile(x, 0.95)")),
            ("stddev_samp", Some("stddev(x)")),
            ("var_pop", Some("variance_pop(x)")),
            ("mean", Some("avg(x)")),
            ("p", None),
            ("p100", None),
            ("p00", None),
            ("pow2", None),
        ] {
            let written = idiom("select f(a) from t", &function(theirs));
            let expected = ours.map(|ours| format!("write `{ours}`"));
            assert_eq!(written, expected, "{theirs}");
        }
        let standard = "select percentile_cont(0.5) WITHIN GROUP (order by a) from t";
        let written = idiom(standard, &at(41)).expect("it is an idiom");
        assert!(written.contains("with your share for 0.95, in place of"));
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
    fn an_unknown_function_gets_ours_or_a_similar_one() {
        let hinted = |name: &str| {
            let error = QueryError::Sql(format!("no such function: {name}"), Some((1, 8)));
            hint("select f(a) from t", &error)
        };
        assert_eq!(hinted("mean").as_deref(), Some("write `avg(x)`"));
        assert_eq!(hinted("medain").as_deref(), Some("did you mean `median`?"));
        let forbidden = QueryError::Refused(String::new());
        assert_eq!(hint("delete from t", &forbidden), None);
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
