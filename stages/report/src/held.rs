//! Bounds what a template may keep, print and process, and lets it be stopped.
//!
//! A template instruction may double a text, so a bound on instructions bounds neither memory nor time. A call after
//! each tag that binds values measures them, filters are checked before they run, and the output of loops, macros and
//! inclusions is counted. Between two calls, values grow only by the effect of a single tag.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use minijinja::value::{Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, State};

use crate::language::{World, wrong};

/// The function called after a tag that binds values, with the number of bytes that follow and the values.
const HELD: &str = "benchtrail_held";

/// The function called after a tag that runs another template, with its name.
const INCLUDED: &str = "benchtrail_included";

/// The maximum size of the text of one template, in bytes.
pub(crate) const MOST_TEXT: usize = 4 << 20;

/// The maximum size of one value when written out, in bytes.
const MOST: usize = 16 << 20;

/// The maximum nesting of lists.
const MOST_DEEP: usize = 64;

/// The maximum total size of the texts that tags bind or filters produce, in bytes.
const MOST_MADE: usize = 512 << 20;

/// The maximum size of one rendering's output, including output in `set` blocks, macros and calls, in bytes.
const MOST_PRINTED: usize = 256 << 20;

/// The maximum total size of the values that filters and checks process, in bytes.
const MOST_VISITED: usize = 2 << 30;

/// The maximum number of texts that one tag joins with `~` or `+`.
const MOST_JOINED: usize = 64;

/// The maximum number of repetitions with `*` in one tag.
const MOST_REPEATED: usize = 4;

/// The maximum number of operators, filters, calls and brackets in one tag. The template engine uses another level of
/// its stack for each.
const MOST_OPERATORS: usize = 1000;

/// The maximum number of `elif` in one template, each of which also takes a level.
pub(crate) const MOST_BRANCHES: usize = 500;

/// The largest width or number of columns passed to a filter.
const MOST_WIDE: usize = 10_000;

/// The resources used by one rendering so far, in bytes.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    stop: Arc<AtomicBool>,
    made: AtomicUsize,
    printed: AtomicUsize,
    visited: AtomicUsize,
}

impl Spent {
    /// Returns an unused budget for a rendering that this flag stops.
    pub(crate) fn stopped_by(stop: Arc<AtomicBool>) -> Self {
        Self {
            stop,
            ..Self::default()
        }
    }

    /// Counts printed bytes.
    ///
    /// # Errors
    /// If the limit is exceeded.
    pub(crate) fn print(&self, bytes: usize) -> Result<(), Error> {
        let what = "the template prints more than 256 MiB; print less in its loops";
        add(&self.printed, bytes, MOST_PRINTED, what)
    }

    fn make(&self, bytes: usize) -> Result<(), Error> {
        let what = "the template assembles more than 512 MiB of texts; assemble less in its loops";
        add(&self.made, bytes, MOST_MADE, what)
    }

    fn visit(&self, bytes: usize) -> Result<(), Error> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(wrong("stopped by the user"));
        }
        let what = "the template goes through more than 2 GiB of values; choose rows with a condition instead of loops";
        add(&self.visited, bytes, MOST_VISITED, what)
    }

    /// Traverses a value and returns its size in bytes.
    fn look(&self, value: &Value) -> Result<usize, Error> {
        let mut left = MOST;
        if !fits(value, &mut left, MOST_DEEP) {
            return Err(too_large());
        }
        let size = MOST - left;
        self.visit(size)?;
        Ok(size)
    }

    /// Counts a newly made value.
    fn keep(&self, value: &Value) -> Result<(), Error> {
        let size = self.look(value)?;
        match value.as_str() {
            Some(_) => self.make(size),
            None => Ok(()),
        }
    }
}

fn add(counter: &AtomicUsize, bytes: usize, most: usize, what: &str) -> Result<(), Error> {
    match counter.fetch_add(bytes, Ordering::Relaxed) > most {
        true => Err(wrong(what)),
        false => Ok(()),
    }
}

fn too_large() -> Error {
    wrong("a value of the template takes more than 16 MiB or holds lists more than 64 levels deep")
}

/// The call inserted after a tag.
pub(crate) enum Look {
    /// A complete call.
    Whole(String),
    /// The call for a tag with a body, and the position in it where the size of the body is written, in [`BYTES`]
    /// characters.
    Body(String, usize),
}

/// The number of characters reserved for the size of a body.
pub(crate) const BYTES: usize = 10;

/// Returns the tag that measures the values another tag binds; `None` if it binds none. `inner` is the tag without its
/// delimiters, and `close` is the closing delimiter of both.
pub(crate) fn look(inner: &str, close: &str) -> Option<Look> {
    let tokens = tokens(inner.trim_matches(['-', '+']));
    let (Token::Name(word), rest) = tokens.split_first()? else {
        return None;
    };
    let names = match *word {
        "set" => named(until(rest, &Token::Sign('='))?),
        "for" => named(until(rest, &Token::Name("in"))?),
        "with" => assigned(rest),
        "macro" => assigned(parenthesized(rest)),
        "call" if rest.first() == Some(&Token::Sign('(')) => assigned(parenthesized(rest)),
        "call" => Vec::new(),
        "include" | "import" | "from" | "extends" => {
            let Some(Token::Text(name)) = rest.first() else {
                return None;
            };
            return Some(Look::Whole(format!("{{% do {INCLUDED}({name}) {close}")));
        }
        _ => return None,
    };
    let blank = " ".repeat(BYTES);
    let head = format!("{{% do {HELD}(");
    let at = head.len();
    let mut call = head + &blank + "0";
    for name in names {
        call.push_str(", ");
        call.push_str(&name);
    }
    call.push_str(&format!(") {close}"));
    Some(match *word {
        "for" | "macro" | "call" => Look::Body(call, at),
        _ => Look::Whole(call),
    })
}

/// Returns the text of a template without the inserted calls.
pub(crate) fn without_looks(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    let starts = [format!("{{% do {HELD}("), format!("{{% do {INCLUDED}(")];
    while let Some(at) = starts.iter().filter_map(|start| rest.find(start)).min() {
        let (before, call) = rest.split_at(at);
        out.push_str(before);
        rest = call.find("%}").map_or("", |end| &call[end + 2..]);
    }
    out + rest
}

/// Reports what is wrong with the operators of a tag, if it would make too many texts at once.
pub(crate) fn too_many_operators(inner: &str) -> Option<String> {
    let tokens = tokens(inner);
    let deepens = |t: &&Token<'_>| match t {
        Token::Sign(c) => !matches!(c, ',' | ':'),
        Token::Name(name) => matches!(*name, "not" | "and" | "or" | "is" | "in" | "if" | "else"),
        Token::Text(_) => false,
    };
    if tokens.iter().filter(deepens).count() > MOST_OPERATORS {
        return Some(format!(
            "a tag has at most {MOST_OPERATORS} operators, filters, calls and brackets; `set` parts of it first"
        ));
    }
    let count = |signs: &[char]| {
        let sign = |t: &&Token<'_>| matches!(t, Token::Sign(c) if signs.contains(c));
        tokens.iter().filter(sign).count()
    };
    if count(&['~', '+']) > MOST_JOINED {
        return Some(format!(
            "a tag joins at most {MOST_JOINED} texts with `~` or `+`; `set` some of them first"
        ));
    }
    (count(&['*']) > MOST_REPEATED).then(|| {
        format!("a tag repeats at most {MOST_REPEATED} times with `*`; templates do no arithmetic")
    })
}

#[derive(Clone, Debug, PartialEq)]
enum Token<'a> {
    Name(&'a str),
    /// A text, with its quotes.
    Text(&'a str),
    Sign(char),
}

/// Splits a tag into names, quoted texts and signs; `==` and similar operators are one sign, unlike any that matters
/// here.
fn tokens(inner: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = inner;
    while let Some(first) = rest.chars().next() {
        let name = |c: char| c.is_alphanumeric() || c == '_';
        let length = match first {
            '"' | '\'' => text_length(rest, first),
            c if name(c) => rest.find(|c| !name(c)).unwrap_or(rest.len()),
            '=' | '!' | '<' | '>' if rest[1..].starts_with('=') => 2,
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        match first {
            c if c.is_whitespace() => {}
            '"' | '\'' => tokens.push(Token::Text(token)),
            c if name(c) => tokens.push(Token::Name(token)),
            _ if length > 1 => tokens.push(Token::Sign('≡')),
            c => tokens.push(Token::Sign(c)),
        }
        rest = after;
    }
    tokens
}

/// Returns the length of a quoted text in bytes, quotes included; all the rest if it has no end.
fn text_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns the tokens before `end`; `None` if it does not occur.
fn until<'t, 'a>(tokens: &'t [Token<'a>], end: &Token<'_>) -> Option<&'t [Token<'a>]> {
    tokens.iter().position(|t| t == end).map(|at| &tokens[..at])
}

/// Returns the names among targets such as `a`, `ns.x` and `(a, b)`.
fn named(targets: &[Token<'_>]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut dot = false;
    for token in targets {
        match token {
            Token::Name(name) if dot => names.last_mut().into_iter().for_each(|last| {
                last.push('.');
                last.push_str(name);
            }),
            Token::Name(name) if !name.starts_with(|c: char| c.is_ascii_digit()) => {
                names.push((*name).to_owned());
            }
            _ => {}
        }
        dot = *token == Token::Sign('.');
    }
    names
}

/// Returns the tokens inside the first parentheses.
fn parenthesized<'t, 'a>(tokens: &'t [Token<'a>]) -> &'t [Token<'a>] {
    let Some(open) = tokens.iter().position(|t| *t == Token::Sign('(')) else {
        return &[];
    };
    let (mut depth, inside) = (0_usize, &tokens[open + 1..]);
    let close = inside.iter().position(|token| {
        match token {
            Token::Sign('(') => depth += 1,
            Token::Sign(')') if depth == 0 => return true,
            Token::Sign(')') => depth -= 1,
            _ => {}
        }
        false
    });
    &inside[..close.unwrap_or(inside.len())]
}

/// Returns the names before the `=` in each part of a list: `a, (b, c) = 1` has `a`, `b` and `c`.
fn assigned(list: &[Token<'_>]) -> Vec<String> {
    let mut depth = 0_usize;
    let parts = list.split(|token| {
        match token {
            Token::Sign('(' | '[' | '{') => depth += 1,
            Token::Sign(')' | ']' | '}') => depth = depth.saturating_sub(1),
            Token::Sign(',') => return depth == 0,
            _ => {}
        }
        false
    });
    parts
        .flat_map(|part| named(until(part, &Token::Sign('=')).unwrap_or(part)))
        .collect()
}

/// Adds the functions that measure values, and a check before each built-in filter of the template engine.
pub(crate) fn install(environment: &mut Environment<'static>, world: &Arc<World>) {
    let spent = Arc::clone(&world.spent);
    environment.add_function(HELD, move |bytes: usize, values: Rest<Value>| {
        spent.visit(1)?;
        spent.print(bytes)?;
        values.iter().try_for_each(|value| spent.keep(value))
    });
    let spent = Arc::clone(&world.spent);
    let templates = world.parameters.templates.iter();
    let sizes: BTreeMap<String, usize> =
        templates.map(|t| (t.name.clone(), t.text.len())).collect();
    environment.add_function(INCLUDED, move |name: &str| {
        spent.visit(1)?;
        spent.print(sizes.get(name).copied().unwrap_or(0))
    });
    add_filters(environment, &world.spent);
}

/// Passes each filter of the template engine to a macro.
macro_rules! each_filter {
    ($then:ident) => {
        $then! {
            "safe" is safe, "escape" is escape, "e" is escape, "lower" is lower, "upper" is upper,
            "title" is title, "capitalize" is capitalize, "replace" is replace, "length" is length,
            "count" is length, "dictsort" is dictsort, "items" is items, "reverse" is reverse,
            "trim" is trim, "join" is join, "split" is split, "lines" is lines, "round" is round,
            "abs" is abs, "int" is int, "float" is float, "attr" is attr, "first" is first,
            "last" is last, "min" is min, "max" is max, "sort" is sort, "list" is list,
            "string" is string, "bool" is bool, "batch" is batch, "slice" is slice, "sum" is sum,
            "indent" is indent, "select" is select, "reject" is reject, "selectattr" is selectattr,
            "rejectattr" is rejectattr, "map" is map, "groupby" is groupby, "unique" is unique,
            "chain" is chain, "zip" is zip, "pprint" is pprint, "format" is format,
        }
    };
}

macro_rules! names {
    ($($name:literal is $filter:ident),+ $(,)?) => { &[$($name),+] };
}

/// The filters of a template.
pub(crate) const FILTERS: &[&str] = each_filter!(names);

/// Adds each filter of the template engine twice: under a name that no template can write, and under its own name with
/// a check first.
fn add_filters(environment: &mut Environment<'static>, spent: &Arc<Spent>) {
    use minijinja::filters;
    macro_rules! asked {
        ($($name:literal is $filter:ident),+ $(,)?) => {$(
            environment.add_filter(concat!("original ", $name), filters::$filter);
            ask_before(environment, $name, spent);
        )+};
    }
    each_filter!(asked);
}

/// Measures the input of a filter before it runs, and its result afterwards.
fn ask_before(environment: &mut Environment<'static>, name: &str, spent: &Arc<Spent>) {
    let (spent, own, original) = (
        Arc::clone(spent),
        name.to_owned(),
        format!("original {name}"),
    );
    environment.add_filter(
        name.to_owned(),
        move |state: &mut State<'_, '_>, arguments: Rest<ValueOrKwargs>| {
            let arguments = arguments.into_values();
            let mut given = 0;
            // Filters that take an item or a number from a list do not traverse it.
            let takes = matches!(
                own.as_str(),
                "length" | "count" | "first" | "last" | "default"
            );
            let text = |value: &&Value| value.as_str().is_some();
            for value in arguments.iter().filter(|v| !takes || text(v)) {
                given += spent.look(value)?;
            }
            if expected(&own, &arguments, given).is_none_or(|bytes| bytes > MOST) {
                return Err(too_large());
            }
            let made = state.apply_filter(&original, &arguments)?;
            spent.keep(&made)?;
            Ok(made)
        },
    );
}

/// Returns an upper bound on the size of the texts that a filter makes from its input; `None` if the bound overflows.
fn expected(filter: &str, arguments: &[Value], given: usize) -> Option<usize> {
    let text = |at: usize| arguments.get(at).and_then(Value::as_str).unwrap_or("");
    let number = |value: &Value| value.as_usize().unwrap_or(0);
    match filter {
        "replace" => {
            let times = match text(1) {
                "" => text(0).chars().count() + 1,
                from => text(0).matches(from).count(),
            };
            times.checked_mul(text(2).len())?.checked_add(given)
        }
        "join" => {
            let items = arguments.first().and_then(Value::len).unwrap_or(0);
            items.checked_mul(text(1).len())?.checked_add(given)
        }
        "indent" => {
            let wide = arguments.iter().skip(1).flat_map(kept).map(|v| number(&v));
            let lines = text(0).matches('\n').count() + 1;
            lines
                .checked_mul(wide.max().unwrap_or(4))?
                .checked_add(given)
        }
        "batch" | "slice" | "round" | "tojson" => {
            let numbers = arguments.iter().skip(1).flat_map(kept).map(|v| number(&v));
            (numbers.max().unwrap_or(0) <= MOST_WIDE).then_some(given)
        }
        "format" => {
            let digits = text(0).split(|c: char| !c.is_ascii_digit());
            let wide = digits.map(|d| d.trim_start_matches('0').len()).max();
            // A width can also be given as a value: `%*d`.
            let values = arguments.iter().skip(1).map(number).max().unwrap_or(0);
            let starred = text(0).contains('*') && values > MOST_WIDE;
            let many = text(0).matches('%').count().checked_mul(MOST_WIDE)?;
            (wide.unwrap_or(0) <= 4 && !starred).then_some(many.checked_add(given)?)
        }
        // Each of these adds characters to its input.
        "pprint" | "string" | "urlencode" | "escape" | "e" => given.checked_mul(2),
        _ => Some(given),
    }
}

/// Returns an argument, or the values of named arguments.
fn kept(argument: &Value) -> Vec<Value> {
    match argument.kind() {
        ValueKind::Map => {
            let names = argument.try_iter().into_iter().flatten();
            names
                .filter_map(|name| argument.get_item(&name).ok())
                .collect()
        }
        _ => vec![argument.clone()],
    }
}

/// Subtracts the size of a value, written out, from `left`; returns whether it fits.
fn fits(value: &Value, left: &mut usize, deep: usize) -> bool {
    let own = value.as_str().map_or(16, |text| text.len() + 16);
    let Some(rest) = left.checked_sub(own) else {
        return false;
    };
    *left = rest;
    let Some(deep) = deep.checked_sub(1) else {
        return false;
    };
    let mut inside = |item: &Value| fits(item, left, deep);
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => value
            .try_iter()
            .is_ok_and(|mut items| items.all(|item| inside(&item))),
        // A row is a view of a table and holds no template values.
        ValueKind::Map if !crate::language::is_row(value) => {
            value.try_iter().is_ok_and(|mut keys| {
                keys.all(|key| inside(&key) && value.get_item(&key).is_ok_and(|item| inside(&item)))
            })
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_a_tag_are_looked_at() {
        for (inner, names) in [
            (" set x = a ~ b ", ", x"),
            ("- set ns.x = [1, 2] ", ", ns.x"),
            ("set a, b = pairs", ", a, b"),
            ("set(a, b)=pairs", ", a, b"),
            ("set x\t=\n'='", ", x"),
            ("for (k, v) in m|items", ", k, v"),
            ("for(k,v)in(m)", ", k, v"),
            ("for row in rows(\"a in b\", {\"x\": 1})", ", row"),
            ("with a = f(1, c=2), b = \"x, y = 3\"", ", a, b"),
            ("with (a, b) = x, c = y == z", ", a, b, c"),
            ("macro f(a, b = [1, 2], c=\"(\")", ", a, b, c"),
            ("macro f()", ""),
            ("call(a, b) f(x)", ", a, b"),
        ] {
            let call = match look(inner, "-%}") {
                Some(Look::Whole(call) | Look::Body(call, _)) => call,
                None => String::new(),
            };
            let blank = " ".repeat(BYTES);
            let expected = format!("{{% do {HELD}({blank}0{names}) -%}}");
            assert_eq!(call, expected, "{inner}");
        }
        for inner in ["set x", "if a == b", "endfor", "include name", "else"] {
            assert!(look(inner, "%}").is_none(), "{inner}");
        }
    }

    #[test]
    fn operators_are_counted_outside_of_texts() {
        assert_eq!(too_many_operators("\"*****\" ~ '~~'"), None);
        assert!(too_many_operators(&"a ~ ".repeat(65)).is_some());
        assert!(too_many_operators(&"a + ".repeat(65)).is_some());
        assert!(too_many_operators("a * b * c * d * e * f").is_some());
    }

    #[test]
    fn a_value_is_counted_as_it_would_be_written_out() {
        let mut list = Value::from("0123456789abcdef");
        for _ in 0..30 {
            list = Value::from(vec![list.clone(), list]);
        }
        assert!(!fits(&list, &mut MOST.clone(), MOST_DEEP), "2^30 texts");
        let mut map = Value::from("x");
        for _ in 0..30 {
            map = Value::from_pairs([("a", map.clone()), ("b", map)]);
        }
        assert!(!fits(&map, &mut MOST.clone(), MOST_DEEP), "2^30 texts");
        let mut deep = Value::from("x");
        for _ in 0..100 {
            deep = Value::from(vec![deep]);
        }
        assert!(!fits(&deep, &mut MOST.clone(), MOST_DEEP), "100 levels");
        assert!(fits(
            &Value::from(vec![1; 1000]),
            &mut MOST.clone(),
            MOST_DEEP
        ));
    }
}
