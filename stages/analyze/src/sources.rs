//! Which tables of a stage a table is made from, and the order that follows.

use std::collections::BTreeMap;

use pipeline::Json;

/// Returns the names in an order in which every table follows those it is made from, and otherwise alphabetically: the
/// order of keys in the file decides nothing. Tables that need each other come last; they are rejected later.
pub(crate) fn order(declared: &serde_json::Map<String, Json>) -> Vec<String> {
    let mut left: BTreeMap<&String, Vec<String>> = declared
        .iter()
        .map(|(name, value)| {
            let mut needs = sources(value, declared);
            // Where a table does read itself, its own plan says so.
            needs.retain(|need| need != name);
            (name, needs)
        })
        .collect();
    let mut names: Vec<String> = Vec::new();
    while let Some(next) = left
        .iter()
        .find(|(_, needs)| needs.iter().all(|n| names.contains(n)))
    {
        let next = (*next.0).clone();
        left.remove(&next);
        names.push(next);
    }
    names.extend(left.into_keys().cloned());
    names
}

/// Returns the declared tables that a table's settings name as sources.
pub(crate) fn sources(value: &Json, declared: &serde_json::Map<String, Json>) -> Vec<String> {
    match value {
        Json::Object(entries) => {
            let named = |(key, value): (&String, &Json)| match (key.as_str(), value) {
                ("from" | "table", Json::String(name)) if declared.contains_key(name) => {
                    vec![name.clone()]
                }
                ("query", Json::String(text)) => {
                    let words = words_that_may_be_tables(text);
                    let tables = words.into_iter().filter(|w| declared.contains_key(*w));
                    tables.map(str::to_owned).collect()
                }
                (_, value) => sources(value, declared),
            };
            entries.iter().flat_map(named).collect()
        }
        Json::Array(items) => items
            .iter()
            .flat_map(|item| sources(item, declared))
            .collect(),
        _ => Vec::new(),
    }
}

/// Returns the words of a query that may name tables. Texts in single quotes, columns of a table (`t.column`) and new names
/// (`as name`) do not, even if they are equal to the name of a table.
fn words_that_may_be_tables(query: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut words = Vec::new();
    let mut rest = query;
    let mut before = "";
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '\'' => rest[1..].find('\'').map_or(rest.len(), |end| end + 2),
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let token = &rest[..end];
        rest = &rest[end..];
        if first.is_whitespace() || first == '"' {
            continue;
        }
        let is_new = before == "." || before.eq_ignore_ascii_case("as");
        if is_word(first) && !is_new {
            words.push(token);
        }
        before = token;
    }
    words
}
