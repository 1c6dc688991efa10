//! Finds the probable intention of a text that is not YAML.

use saphyr_parser::Marker;

/// An unquoted placeholder within brackets, where YAML reads its brace as the start of a mapping.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bare {
    /// The whole word that should be in quotes.
    pub(super) text: String,
    /// The column where it begins, from 1.
    pub(super) column: u32,
}

/// Finds an unquoted placeholder whose `{` is where parsing stopped.
pub(super) fn bare_placeholder(text: &str, at: Marker) -> Option<Bare> {
    let line: Vec<char> = text
        .lines()
        .nth(at.line().checked_sub(1)?)?
        .chars()
        .collect();
    let brace = at.col();
    let is_placeholder =
        line.get(brace) == Some(&'{') && line.get(brace.checked_sub(1)?) == Some(&'$');
    if !is_placeholder {
        return None;
    }
    let apart = |c: &char| c.is_whitespace() || ",[]{".contains(*c);
    let start = line[..brace]
        .iter()
        .rposition(apart)
        .map_or(0, |before| before + 1);
    let end = brace + line[brace..].iter().position(|c| *c == '}')?;
    // Includes the rest of the same word: `${a}-${b}`.
    let mut end = end + 1;
    while let Some(c) = line
        .get(end)
        .filter(|c| !c.is_whitespace() && !",]}".contains(**c))
    {
        let skip = if *c == '{' {
            line[end..].iter().position(|c| *c == '}').unwrap_or(0)
        } else {
            0
        };
        end += skip + 1;
    }
    Some(Bare {
        text: line[start..end].iter().collect(),
        column: u32::try_from(start + 1).ok()?,
    })
}

/// Returns the remedy for a text that the parser rejected outside of brackets.
pub(super) fn remedy(text: &str, at: Marker, reason: &str) -> String {
    let line = text
        .lines()
        .nth(at.line().saturating_sub(1))
        .unwrap_or_default();
    let character = line.chars().nth(at.col());
    if let Some(hint) = invisible(text, at).or_else(|| bare_star(character, reason)) {
        return hint;
    }
    if reason.contains("tabs") || character == Some('\t') {
        return "indent with spaces; YAML allows no tabs here".to_owned();
    }
    if reason.contains("a tab")
        && let Some(number) = first_indented_with_a_tab(text, at)
    {
        return format!("line {number} begins with a tab: indent with spaces");
    }
    if let Some(hint) = indentation(text, at) {
        return hint;
    }
    if reason.contains("mapping values are not allowed")
        && let Some((number, key)) = key_without_a_space(text, at)
    {
        return format!("put a space after the colon: `{key}: …` on line {number}");
    }
    if reason.contains("mapping values are not allowed") {
        return "put the value in quotes if its text has a `: `; otherwise check the indentation"
            .to_owned();
    }
    if reason.contains("unknown anchor") {
        let name = alias(line, at.col());
        return format!(
            "nothing above is marked `&{name}`: mark it there, or put the value in quotes if it is text"
        );
    }
    if reason.contains("unexpected character") {
        let first = character.map(String::from).unwrap_or_default();
        return format!("put the value in quotes: unquoted text cannot begin with `{first}`");
    }
    if reason.contains("trailing content") {
        let before = at.col().checked_sub(1).and_then(|i| line.chars().nth(i));
        return match before {
            Some('"') => "the `\"` before it ends the text: within the text write `\\\"`, or put the text in `'…'`",
            _ => "the `'` before it ends the text: within the text write `''`, or put the text in `\"…\"`",
        }
        .to_owned();
    }
    if reason.contains("quoted scalar") {
        return "does the text that begins here lack its closing quote?".to_owned();
    }
    if let Some((number, key)) = key_without_a_space(text, at) {
        return format!("put a space after the colon: `{key}: …` on line {number}");
    }
    if let Some((number, key, sign)) = key_without_a_colon(text, at) {
        return match sign {
            Some(sign) => {
                format!("write `{key}: …` on line {number}: the `{sign}` there is not a colon")
            }
            None => format!("put a colon after the key: `{key}: …` on line {number}"),
        };
    }
    "check the indentation, quotes and brackets on this line and the lines above it".to_owned()
}

/// Returns the name in a placeholder of a template, `{{name}}`, whose inner brace is at a place.
pub(super) fn in_double_braces(text: &str, at: Marker) -> Option<&str> {
    let line = text.lines().nth(at.line().saturating_sub(1))?;
    let (before, after) = line.split_at_checked(line.char_indices().nth(at.col())?.0)?;
    let name = after.strip_prefix('{')?.split_once("}}")?.0.trim();
    let word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (before.ends_with('{') && !name.is_empty() && name.chars().all(word)).then_some(name)
}

/// Returns the number of the first line, from where parsing stopped, that has a tab in its indentation.
fn first_indented_with_a_tab(text: &str, at: Marker) -> Option<usize> {
    let from = at.line().saturating_sub(1);
    let has_tab = |line: &str| {
        let indentation = line.chars().take_while(|c| c.is_whitespace());
        indentation.into_iter().any(|c| c == '\t')
    };
    let mut lines = text.lines().enumerate().skip(from);
    lines.find_map(|(number, line)| has_tab(line).then_some(number + 1))
}

/// Finds a character that looks like a space, or is invisible, on the line where parsing stopped or the line above.
/// Copying from web pages and word processors introduces such characters.
pub(super) fn invisible(text: &str, at: Marker) -> Option<String> {
    if text
        .get(..4)
        .is_some_and(|start| start.matches('\0').count() >= 2)
    {
        return Some("the file seems to be UTF-16 or UTF-32: save it as UTF-8; editors call this the file's encoding".to_owned());
    }
    let lines = text.lines().enumerate().take(at.line());
    let near: Vec<_> = lines.filter(|(_, line)| !line.trim().is_empty()).collect();
    near.iter().rev().take(2).find_map(|(number, line)| {
        let strange = |c: char| {
            (c.is_whitespace() && !matches!(c, ' ' | '\t' | '\r'))
                || (c.is_control() && !matches!(c, '\t' | '\r'))
                || ('\u{200b}'..='\u{200f}').contains(&c)
                || (c == '\u{feff}' && *number > 0)
        };
        // Within quotes and comments, it is ordinary text.
        let bare = line.chars().take_while(|c| !matches!(c, '"' | '\'' | '#'));
        let (column, offender) = bare.enumerate().find(|(_, c)| strange(*c))?;
        let looks = match offender.is_whitespace() {
            true => "looks like a space, but YAML does not read it as one: write a space instead",
            false => "cannot be seen, and YAML does not allow it there: remove it",
        };
        Some(format!(
            "the character U+{:04X} at {}:{} {looks}",
            u32::from(offender),
            number + 1,
            column + 1
        ))
    })
}

/// Explains a `*` without a name; `[*]` means every axis in other tools, and nothing here.
pub(super) fn bare_star(character: Option<char>, reason: &str) -> Option<String> {
    let bare = reason.contains("anchor or alias") && matches!(character, Some('*' | '&'));
    bare.then(|| {
        "put it in quotes if it is text: in YAML, `*` and `&` begin the name of an alias; where several names are meant, list them"
            .to_owned()
    })
}

/// Finds a comma with no value before it: `[1, , 2]`.
pub(super) fn spare_comma(character: Option<char>, reason: &str) -> Option<String> {
    let is_one = character == Some(',') && reason.contains("did not find expected node content");
    is_one.then(|| "a value is missing before this comma: add it, or remove the comma".to_owned())
}

/// Finds a key within brackets with no comma before it: `{a: b c: d}`.
pub(super) fn missing_comma(text: &str, at: Marker, reason: &str) -> Option<String> {
    let line: Vec<char> = text
        .lines()
        .nth(at.line().checked_sub(1)?)?
        .chars()
        .collect();
    if !reason.contains("did not find expected ','") || line.get(at.col()) != Some(&':') {
        return None;
    }
    let is_key = |c: &char| c.is_ascii_alphanumeric() || "-_".contains(*c);
    let start = line[..at.col()].iter().rposition(|c| !is_key(c))?;
    let key: String = line[start + 1..at.col()].iter().collect();
    // After an opening bracket or a comma, the key is in its place.
    let before = line[..start].iter().rev().find(|c| !c.is_whitespace())?;
    (!key.is_empty() && line[start] == ' ' && !",{[".contains(*before))
        .then(|| format!("put a comma before `{key}`"))
}

/// Returns the name after the `*` of an alias.
fn alias(line: &str, column: usize) -> String {
    let after = line.chars().skip(column).skip_while(|c| *c == '*');
    after
        .take_while(|c| !c.is_whitespace() && !",]}".contains(*c))
        .collect()
}

/// Reports lines with different indentation, if that is why parsing stopped.
fn indentation(text: &str, at: Marker) -> Option<String> {
    let width = |line: &str| line.len() - line.trim_start().len();
    let is_item = |line: &str| line.trim_start().starts_with("- ");
    let lines: Vec<(usize, &str)> = text
        .lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line))
        .filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
        .collect();
    let here = lines.iter().position(|(number, _)| *number == at.line())?;
    let (number, line) = lines[here];
    let (above, before) = *lines[..here].last()?;
    let (own, other) = (width(line), width(before));
    key_and_value(line)?;
    if is_item(line)
        && let Some((first, key)) = lines[..here]
            .iter()
            .rev()
            .find(|(_, l)| width(l) <= own)
            .filter(|(_, l)| width(l) == own && !is_item(l))
            // A list may stand directly below its key, at the same indentation.
            .filter(|(first, l)| *first != above || key_and_value(l).is_some_and(|v| !v.is_empty()))
    {
        let name = |line: &str| {
            let line = line.trim_start().trim_start_matches("- ");
            line.split(':').next().unwrap_or_default().to_owned()
        };
        return Some(format!(
            "line {number} is an item of a list, and line {first} beside it is a key (`{}`): remove the `- ` before `{}`",
            name(key),
            name(line)
        ));
    }
    if let Some((first, item)) = lines[..here]
        .iter()
        .rev()
        .find(|(_, l)| width(l) <= own)
        .filter(|(_, l)| width(l) == own && is_item(l) && !is_item(line))
    {
        let name = item.trim_start().trim_start_matches("- ");
        let name = name.split(':').next().unwrap_or_default();
        return Some(format!(
            "line {first} is an item of a list and line {number} is not: remove the `- ` before `{name}`, or begin \
             this line with one"
        ));
    }
    let has_value = key_and_value(before).is_some_and(|value| !value.is_empty());
    if own > other && has_value && !is_item(before) {
        return Some(format!(
            "line {above} already has a value, so nothing can be indented below it: give lines {above} and {number} \
             the same indentation"
        ));
    }
    let levels: Vec<usize> = lines[..here].iter().map(|(_, l)| width(l)).collect();
    if own < other && !levels.contains(&own) {
        return Some(format!(
            "line {number} is indented by {own}, and no line above it is: indent it like the keys it belongs to"
        ));
    }
    let parent = lines[..here].iter().rposition(|(_, l)| width(l) < own)?;
    let (key, child) = (lines[parent], lines[parent + 1]);
    (width(child.1) > own && own < other).then(|| {
        format!(
            "line {} is indented by {}, and line {number} by {own} is between it and the lines below it: if both belong \
             to the same part, indent both by {own}",
            key.0,
            width(key.1)
        )
    })
}

/// Returns the value of a `key: value` line, which may be empty.
fn key_and_value(line: &str) -> Option<&str> {
    let (key, value) = line.trim().trim_start_matches("- ").split_once(':')?;
    let is_key = key
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    let apart = value.is_empty() || value.starts_with(' ');
    let value = value.split(" #").next().unwrap_or_default().trim();
    (is_key && apart && !key.is_empty()).then_some(value)
}

/// Finds a line `key = value`, `key：value` or `key value` where parsing stopped or above: its number, its key, and the
/// sign in place of the colon.
fn key_without_a_colon(text: &str, at: Marker) -> Option<(usize, &str, Option<char>)> {
    let lines = text.lines().enumerate().take(at.line());
    let near: Vec<_> = lines.filter(|(_, line)| !line.trim().is_empty()).collect();
    near.iter().rev().take(2).find_map(|(number, line)| {
        let line = line.trim().trim_start_matches("- ");
        let is_key = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        let key = &line[..line.find(|c| !is_key(c))?];
        let rest = &line[key.len()..];
        let value = rest.trim_start();
        let sign = value
            .chars()
            .next()
            .filter(|c| matches!(c, '=' | ';' | '\u{ff1a}' | '\u{fe55}' | '\u{2236}'));
        let apart = rest.starts_with(char::is_whitespace) && !value.starts_with(['#', ':']);
        let named = key.starts_with(|c: char| c.is_ascii_alphabetic());
        (named && !value.is_empty() && (sign.is_some() || apart)).then_some((number + 1, key, sign))
    })
}

/// Finds `key:value` on this line or the last nonempty line above it. Without a space it is text, not a key.
fn key_without_a_space(text: &str, at: Marker) -> Option<(usize, &str)> {
    let lines = text.lines().enumerate().take(at.line());
    let near = lines.filter(|(_, line)| !line.trim().is_empty());
    let near: Vec<_> = near.collect();
    near.iter().rev().take(2).find_map(|(number, line)| {
        let (key, value) = line.trim().trim_start_matches("- ").split_once(':')?;
        let is_key = key.starts_with(|c: char| c.is_ascii_alphabetic())
            && key
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        (is_key && !value.is_empty() && !value.starts_with([' ', ':', '/']))
            .then_some((number + 1, key))
    })
}
