//! What can be read from a query's text without parsing it: its names, and whether it has an
//! `order by`.

use std::collections::BTreeSet;
use std::ops::Range;

/// A piece of SQL.
#[derive(Debug, PartialEq, Eq)]
enum Token {
    /// A keyword or a bare name.
    Word(String),
    /// A quoted name.
    Name(String),
    /// Any single character.
    Sign(char),
}

/// Splits SQL into words, quoted names and signs. Comments, literal text and blanks are dropped.
fn tokens(sql: &str) -> Vec<Token> {
    placed(sql).into_iter().map(|(token, _)| token).collect()
}

/// Splits SQL as [`tokens`] does. Returns each token with its bytes in the text; those of a quoted name do not include
/// the quotes.
fn placed(sql: &str) -> Vec<(Token, Range<usize>)> {
    let mut tokens = Vec::new();
    let mut rest = sql.char_indices().peekable();
    while let Some((start, c)) = rest.next() {
        let next = rest.peek().map(|(_, c)| *c);
        match c {
            '-' if next == Some('-') => while rest.next().is_some_and(|(_, c)| c != '\n') {},
            '/' if next == Some('*') => {
                rest.next();
                let mut last = ' ';
                for (_, c) in rest.by_ref() {
                    if last == '*' && c == '/' {
                        break;
                    }
                    last = c;
                }
            }
            '\'' | '"' | '`' | '[' => {
                let end = if c == '[' { ']' } else { c };
                let mut text = String::new();
                let mut close = sql.len();
                while let Some((at, inner)) = rest.next() {
                    // A doubled quote is an escaped quote.
                    if inner == end && (c == '[' || rest.next_if(|(_, c)| *c == end).is_none()) {
                        close = at;
                        break;
                    }
                    text.push(inner);
                }
                if c != '\'' {
                    tokens.push((Token::Name(text), start + 1..close));
                }
            }
            c if is_word(c) => {
                let mut text = String::from(c);
                while let Some((_, c)) = rest.next_if(|(_, c)| is_word(*c)) {
                    text.push(c);
                }
                let end = start + text.len();
                tokens.push((Token::Word(text), start..end));
            }
            c if c.is_whitespace() => {}
            c => tokens.push((Token::Sign(c), start..start + c.len_utf8())),
        }
    }
    tokens
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii()
}

/// Returns whether a text goes on after a semicolon, so that it holds more than one query.
pub(crate) fn has_several_statements(sql: &str) -> bool {
    let tokens = tokens(sql);
    let end = tokens.iter().position(|token| *token == Token::Sign(';'));
    end.is_some_and(|end| tokens[end..].iter().any(|token| *token != Token::Sign(';')))
}

/// Returns the names in a query, in lower case: tables and columns, and also keywords. A table that
/// is not in this set is not read.
pub fn mentioned(sql: &str) -> BTreeSet<String> {
    let name = |token: Token| match token {
        Token::Word(name) | Token::Name(name) => Some(name.to_lowercase()),
        Token::Sign(_) => None,
    };
    tokens(sql).into_iter().filter_map(name).collect()
}

/// Returns the tables whose quoted names have a dot, in lower case and in the order in which a query first reads them.
pub fn tables_with_dots(sql: &str) -> Vec<String> {
    let tokens = tokens(sql);
    let mut names: Vec<String> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let Token::Name(name) = token else { continue };
        let before = at.checked_sub(1).and_then(|before| tokens.get(before));
        let is_read = match before {
            Some(Token::Word(word)) => ["from", "join"].contains(&word.to_lowercase().as_str()),
            Some(Token::Sign(sign)) => *sign == ',',
            _ => false,
        };
        // A part of the query may have a name of its own: `with "a.b" as (…)`.
        let is_part = |other: usize| {
            tokens[other] == *token
                && matches!(tokens.get(other + 1), Some(Token::Word(word)) if word.eq_ignore_ascii_case("as"))
                && matches!(tokens.get(other + 2), Some(Token::Sign('(')))
        };
        let name = name.to_lowercase();
        if is_read
            && name.contains('.')
            && !(0..tokens.len()).any(is_part)
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

/// Returns whether the query as a whole (not a part in parentheses) has an `order by`.
pub(crate) fn says_order(sql: &str) -> bool {
    let mut depth = 0_i64;
    let mut order = false;
    for token in tokens(sql) {
        match token {
            Token::Sign('(') => depth += 1,
            Token::Sign(')') => depth -= 1,
            Token::Word(word) if depth == 0 && order && word.eq_ignore_ascii_case("by") => {
                return true;
            }
            _ => {}
        }
        order = false;
        if let Token::Word(word) = &token {
            order = word.eq_ignore_ascii_case("order");
        }
    }
    false
}

/// What stands for `/` in the text that SQLite reads. The comment tells it from what people write.
const REAL_DIVISION: &str = "*/*real*/1.0/";

/// Returns the query with a division of doubles for each `/`. SQLite truncates a quotient of integers, so that a share
/// such as `sum(status = 'ok') / count(*)` would be 0. `*` and `/` bind equally and to the left: `a / b` and
/// `a * 1.0 / b` have the same operands wherever they stand.
pub(crate) fn with_real_division(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len());
    let mut from = 0;
    for at in divisions(sql) {
        text.push_str(&sql[from..at]);
        text.push_str(REAL_DIVISION);
        from = at + 1;
    }
    text.push_str(&sql[from..]);
    text
}

/// Returns the text as it was before [`with_real_division`]. SQLite names a result column by its expression.
pub(crate) fn as_written(text: &str) -> String {
    text.replace(REAL_DIVISION, "/")
}

/// Returns whether the query may return something other than values of its tables and texts: a number that it computes.
pub fn computes(sql: &str) -> bool {
    let tokens = tokens(sql);
    let is_keyword = |token: &Token, words: &[&str]| match token {
        Token::Word(word) => words.iter().any(|other| word.eq_ignore_ascii_case(other)),
        _ => false,
    };
    tokens.iter().enumerate().any(|(at, token)| match token {
        // `select *`, `select t.*` and `select a, *` name columns.
        Token::Sign('*') => match at.checked_sub(1).map(|before| &tokens[before]) {
            Some(Token::Sign(sign)) => !matches!(sign, '.' | ','),
            Some(before) => !is_keyword(before, &["select", "distinct", "all"]),
            None => true,
        },
        Token::Sign(sign) => "+-/%(&|<>~".contains(*sign),
        // Of a number, the word is the part before its point or its exponent's sign.
        Token::Word(word) if word.starts_with(|c: char| c.is_ascii_digit()) => {
            word.contains(['e', 'E'])
        }
        word => is_keyword(word, &["case", "union", "intersect", "except"]),
    })
}

/// Returns the bytes at which a `/` stands as an operator.
fn divisions(sql: &str) -> impl Iterator<Item = usize> {
    let signs = placed(sql).into_iter();
    signs.filter_map(|(token, at)| (token == Token::Sign('/')).then_some(at.start))
}

/// Returns the calls of these functions as they are written, without the calls within them.
pub(crate) fn calls<'a>(sql: &'a str, functions: &[&str]) -> Vec<&'a str> {
    let tokens = placed(sql);
    let mut calls = Vec::new();
    let mut at = 0;
    while at + 1 < tokens.len() {
        let opens = matches!(tokens[at + 1].0, Token::Sign('('));
        let is_named = matches!(&tokens[at].0, Token::Word(w) if functions.iter().any(|f| w.eq_ignore_ascii_case(f)));
        if !(opens && is_named) {
            at += 1;
            continue;
        }
        let from = tokens[at].1.start;
        let mut depth = 0_usize;
        let end = tokens[at + 1..].iter().position(|(token, _)| {
            match token {
                Token::Sign('(') => depth += 1,
                Token::Sign(')') => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        let Some(end) = end else { break };
        at += 1 + end;
        calls.push(&sql[from..tokens[at].1.end]);
    }
    calls
}

/// Returns the names of tables that a query itself defines (`with NAME as (…)`), in lower case.
pub(crate) fn own_tables(sql: &str) -> BTreeSet<String> {
    let tokens = tokens(sql);
    let is = |at: usize, word: &str| matches!(tokens.get(at), Some(Token::Word(w)) if w.eq_ignore_ascii_case(word));
    let sign = |at: usize, c: char| tokens.get(at) == Some(&Token::Sign(c));
    let mut names = BTreeSet::new();
    for (i, token) in tokens.iter().enumerate() {
        let (Token::Word(name) | Token::Name(name)) = token else {
            continue;
        };
        let mut at = i + 1;
        if sign(at, '(') {
            // A list of columns.
            while at < tokens.len() && !sign(at, ')') {
                at += 1;
            }
            at += 1;
        }
        if !is(at, "as") {
            continue;
        }
        at += 1;
        at += usize::from(is(at, "not"));
        at += usize::from(is(at, "materialized"));
        if sign(at, '(') {
            names.insert(name.to_lowercase());
        }
    }
    names
}

/// Returns the first word in lower case.
pub(crate) fn first_word(sql: &str) -> Option<String> {
    tokens(sql).into_iter().find_map(|t| match t {
        Token::Word(word) => Some(word.to_lowercase()),
        _ => None,
    })
}

/// Returns whether the query returns all columns of a table: `select *`, `t.*`.
pub fn returns_all_columns(sql: &str) -> bool {
    let tokens = tokens(sql);
    let opens = |token: &Token| match token {
        Token::Word(word) => ["select", "distinct", "all"]
            .iter()
            .any(|w| word.eq_ignore_ascii_case(w)),
        Token::Name(_) => false,
        Token::Sign(c) => matches!(c, ',' | '.'),
    };
    tokens
        .windows(2)
        .any(|pair| opens(&pair[0]) && pair[1] == Token::Sign('*'))
}

/// Returns the bytes of a name in a query. In `table.column`, these are the bytes of the column. A name after `as` is a
/// new one.
pub fn place_of_name(sql: &str, name: &str) -> Option<Range<usize>> {
    let tokens = placed(sql);
    let is = |at: usize, text: &str| match tokens.get(at) {
        Some((Token::Word(word) | Token::Name(word), _)) => word.eq_ignore_ascii_case(text),
        _ => false,
    };
    let sign = |at: usize, c: char| matches!(tokens.get(at), Some((Token::Sign(s), _)) if *s == c);
    let whole = (0..tokens.len()).find(|at| is(*at, name) && !(*at > 0 && is(at - 1, "as")));
    if let Some(at) = whole {
        return Some(tokens[at].1.clone());
    }
    let (before, last) = name.rsplit_once('.')?;
    let at = (2..tokens.len()).find(|at| {
        is(*at, last)
            && sign(at - 1, '.')
            && is(at - 2, before.rsplit('.').next().unwrap_or(before))
    })?;
    Some(tokens[at].1.clone())
}

/// Returns the bytes of the word, or otherwise the character, at a line and column.
pub(crate) fn word_at(sql: &str, (line, column): (usize, usize)) -> Option<Range<usize>> {
    let before: usize = sql
        .split_inclusive('\n')
        .take(line.checked_sub(1)?)
        .map(str::len)
        .sum();
    let text = sql.get(before..)?;
    let start = before + text.char_indices().nth(column.checked_sub(1)?)?.0;
    let rest = &sql[start..];
    let first = rest.chars().next()?;
    let length = match is_word(first) {
        true => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
        false => first.len_utf8(),
    };
    Some(start..start + length)
}

/// Returns the line and column (in characters, from 1) of a byte.
pub(crate) fn place(sql: &str, offset: usize) -> (usize, usize) {
    let before = sql.get(..offset).unwrap_or(sql);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    (line, before[start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_names_with_a_dot_are_tables_where_a_query_reads_them() {
        let sql = "with \"own.part\" as (select 1 as n) \
                   select \"Ladder.Requests\".n as \"x.y\", 'from \"no.text\"' as t from \"Ladder.Requests\", \"b.cells\" \
                   join \"own.part\" on true left join \"b.cells\" as c on true";
        assert_eq!(tables_with_dots(sql), ["ladder.requests", "b.cells"]);
    }

    #[test]
    fn only_an_order_of_the_whole_query_counts() {
        for sql in [
            "select 1 order by 1",
            "SELECT a FROM b\nORDER\tBY a",
            "select 1 order/*x*/by 1",
        ] {
            assert!(says_order(sql), "{sql}");
        }
        for sql in [
            "select 1",
            "select * from (select a from b order by a)",
            "select row_number() over (order by a) from b",
            "select 'order by' from b -- order by a",
            "select \"order\" from b /* order by a */",
            "select [order by a] from b",
        ] {
            assert!(!says_order(sql), "{sql}");
        }
    }

    #[test]
    fn a_query_computes_unless_it_only_names_columns() {
        for sql in [
            "select * from t",
            "SELECT DISTINCT * from t where a = 5 order by b",
            "select t.*, u.a, * from t join u using a limit 10",
            "select \"a-b\", [c*d], 'e + 1' from t -- 2 * 3",
            "select a, 1.5 as b, 18446744073709551616 as c from t",
        ] {
            assert!(!computes(sql), "{sql}");
        }
        for sql in [
            "select a * b from t",
            "select a*10 from t",
            "select -a from t",
            "select a + b from t",
            "select a % 2 from t",
            "select 1e999 as a",
            "select 1.5e308 as a",
            "select .5E400 as a",
            "select sum(a) as a from t",
            "select cast(a as int) as a from t",
            "with u as (select a from t) select a from u",
            "select case when a then b end as c from t",
            "select a from t union select a from u",
        ] {
            assert!(computes(sql), "{sql}");
        }
    }

    #[test]
    fn only_a_slash_between_values_divides() {
        let changed = |sql: &str| with_real_division(sql).replace("/*real*/", "");
        assert_eq!(changed("select a/b"), "select a*1.0/b");
        assert_eq!(
            changed("select é / 2 / \"x/y\""),
            "select é *1.0/ 2 *1.0/ \"x/y\""
        );
        for sql in [
            "select 'a/b', \"a/b\", [a/b], `a/b` -- a / b",
            "select /* a / b */ 1 /* / ",
        ] {
            assert_eq!(with_real_division(sql), sql);
            assert!(!computes(sql), "{sql}");
        }
        let sql = "select a / /* by / */ b -- or / c";
        assert!(computes(sql));
        assert_eq!(as_written(&with_real_division(sql)), sql);
    }

    #[test]
    fn a_star_counts_as_columns_only_where_columns_stand() {
        for sql in [
            "select * from t",
            "select t.* from t",
            "SELECT a, * from t",
            "select distinct * from t",
        ] {
            assert!(returns_all_columns(sql), "{sql}");
        }
        for sql in [
            "select count(*) from t",
            "select a * b from t",
            "select '* ' from t -- select *",
        ] {
            assert!(!returns_all_columns(sql), "{sql}");
        }
    }

    #[test]
    fn the_place_of_a_name_is_where_it_is_read() {
        let part =
            |sql: &'static str, name: &str| place_of_name(sql, name).map(|at| (at.start, &sql[at]));
        assert_eq!(
            part("select 'b', a as b, B from t -- b", "b"),
            Some((20, "B"))
        );
        assert_eq!(part("select a.x, b.x from a, b", "b.x"), Some((14, "x")));
        assert_eq!(part("select * from \"l.r\"", "l.r"), Some((15, "l.r")));
        assert_eq!(part("select * from l.r", "l.r"), Some((16, "r")));
        assert_eq!(part("select 1", "x"), None);
        let sql = "select é,\n  coutn(*) from t";
        assert_eq!(word_at(sql, (2, 3)).map(|at| &sql[at]), Some("coutn"));
        assert_eq!(word_at(sql, (2, 8)).map(|at| &sql[at]), Some("("));
        assert_eq!(word_at(sql, (9, 1)), None);
    }

    #[test]
    fn names_are_found_however_they_are_quoted() {
        let names = mentioned(
            "select a.\"b\"\"c\", 'text' from \"results.cells\" a -- other\n join [X y] on `z`",
        );
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "a",
                "b\"c",
                "from",
                "join",
                "on",
                "results.cells",
                "select",
                "x y",
                "z"
            ]
        );
    }

    #[test]
    fn tables_of_a_querys_own_are_found() {
        let own = own_tables(
            "with a as (select 1), \"B c\"(x, y) as not materialized (select 2) select q as r from a",
        );
        assert_eq!(own.into_iter().collect::<Vec<_>>(), ["a", "b c"]);
    }

    #[test]
    fn a_place_is_counted_in_lines_and_characters() {
        assert_eq!(place("select 1", 0), (1, 1));
        assert_eq!(place("select 'é',\n  x", 15), (2, 3));
    }

    #[test]
    fn text_that_never_ends_does_not_hang() {
        for sql in ["'", "\"", "/*", "--", "[", "select 'a''"] {
            mentioned(sql);
            assert!(!says_order(sql));
        }
    }
}
