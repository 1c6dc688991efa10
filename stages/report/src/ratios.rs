//! Names both sides of a ratio: in notes under tables, and in the sentence around a factor.

use std::ops::Range;

use artifacts::{Ratio, Scalar};
use pulldown_cmark::{Event, Options, Parser, Tag};

use crate::check::{Objection, finding_of};
use crate::data::Miss;
use crate::language::World;
use crate::trace::{Entry, Extracted, TraceSource};
use crate::view::View;

/// Rejects a factor from a column that does not declare the sides of its ratio.
///
/// # Errors
/// The reason and the remedy.
pub(crate) fn check_factor(
    ratio: Option<&Ratio>,
    column: &str,
    format: &str,
) -> Result<(), String> {
    if ratio.is_some() || !is_factor(format) {
        return Ok(());
    }
    Err(format!(
        "column `{column}` does not name its sides, so it cannot be shown as a factor \
         (`{format}`); take it from an operator that computes ratios, or name both sides under \
         `ratios:` of the operator `sql`"
    ))
}

fn is_factor(format: &str) -> bool {
    format.ends_with('×')
}

/// Returns `numerator ÷ denominator` of a column, traced to the table's schema.
///
/// # Errors
/// If the column does not exist or does not declare its sides.
pub(crate) fn sides(world: &World, view: &View, column: &str) -> Result<String, Miss> {
    view.table.require(column)?;
    let ratio = view.table.ratio(column).ok_or_else(|| {
        format!(
            "column `{column}` of `{}.{}` does not name any sides, so it is not a ratio",
            view.table.stage, view.table.output
        )
    })?;
    let text = ratio.to_string();
    let artifact = view.table.parts.first().map(|p| p.digest);
    Ok(world.trace.mark(Entry {
        stage: view.table.stage.clone(),
        coordinates: view.table.cell(0),
        output: view.table.output.clone(),
        artifact,
        ..Entry::new(TraceSource::Sides, column, Scalar::Text(text.clone()), text)
    }))
}

const UNNAMED: &str = "a factor whose sides are not named nearby";
const NAME_BOTH: &str = "name both sides, as the column calls them, in the same paragraph, list \
    item or table (with its caption and notes), or write `{{ sides(\"stage.table\", \"column\") }}`";

/// Returns the factors whose paragraph, list item or table does not name both sides.
pub(crate) fn check(extracted: &Extracted) -> Vec<Objection> {
    let mut blocks: Option<Vec<Range<usize>>> = None;
    let mut ratios = Vec::new();
    for span in extracted
        .spans
        .iter()
        .filter(|s| is_factor(&s.entry.format))
    {
        let Some(ratio) = &span.entry.ratio else {
            continue;
        };
        let blocks = blocks.get_or_insert_with(|| blocks_of(&extracted.markdown));
        let after = blocks.partition_point(|b| b.end <= span.bytes.start);
        let block = blocks.get(after).filter(|b| b.start <= span.bytes.start);
        if !block.is_some_and(|b| names_both(&extracted.markdown[b.clone()], ratio)) {
            ratios.push(finding_of(
                &extracted.markdown,
                &span.bytes,
                UNNAMED,
                NAME_BOTH,
            ));
        }
    }
    ratios
}

/// Whether a text names both sides.
pub(crate) fn names_both(text: &str, ratio: &Ratio) -> bool {
    let text = folded(text);
    [&ratio.numerator, &ratio.denominator]
        .iter()
        .all(|side| text.contains(&folded(side)))
}

/// The ranges of text in which a reader looks for the sides of a factor, in ascending order: paragraphs and headings,
/// list items, and tables with the blocks before and after them, which are the caption and notes.
fn blocks_of(markdown: &str) -> Vec<Range<usize>> {
    let mut blocks: Vec<(Range<usize>, bool)> = Vec::new();
    let mut depth = 0usize;
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    for (event, range) in Parser::new_ext(markdown, options).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                let is_block = depth == 0 && !matches!(tag, Tag::List(_));
                if is_block || (depth == 1 && tag == Tag::Item) {
                    blocks.push((range, matches!(tag, Tag::Table(_))));
                }
                depth += 1;
            }
            Event::End(_) => depth -= 1,
            _ => {}
        }
    }
    let ranges = blocks.iter().enumerate().map(|(i, (range, is_table))| {
        if !is_table {
            return range.clone();
        }
        let before = i.checked_sub(1).map_or(range.start, |i| blocks[i].0.start);
        before..blocks.get(i + 1).map_or(range.end, |(next, _)| next.end)
    });
    ranges.collect()
}

/// Converts to lower case, without emphasis, and with underscores and line breaks as spaces.
fn folded(text: &str) -> String {
    let plain: String = text.chars().filter(|c| !matches!(c, '*' | '`')).collect();
    let words: Vec<String> = plain
        .replace('_', " ")
        .split_whitespace()
        .map(str::to_lowercase)
        .collect();
    words.join(" ")
}
