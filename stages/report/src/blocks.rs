//! Keeps the blocks of a rendered report apart.
//!
//! A template that shows two figures on consecutive lines, or text directly below a table, means two blocks. Markdown
//! would read one: the second figure becomes a link inside the caption of the first, the text another row of the table.

use crate::trace::unmarked;

/// Returns the text with an empty line wherever a figure, a caption or a heading follows another line, and wherever
/// another line follows a table. Fenced code is unchanged.
pub(crate) fn separated(marked: &str) -> String {
    let mut out = String::with_capacity(marked.len());
    let (mut fenced, mut before) = (false, Line::Empty);
    for line in marked.split_inclusive('\n') {
        let plain = unmarked(line);
        let fence = ["```", "~~~"]
            .iter()
            .any(|f| plain.trim_start().starts_with(f));
        let this = if fenced || fence {
            Line::Text
        } else {
            Line::of(plain.trim_end())
        };
        let apart = match (before, this) {
            (Line::Empty, _) | (_, Line::Empty) => true,
            (Line::Table, this) => this == Line::Table,
            (_, Line::Block) => false,
            _ => true,
        };
        if !apart && !fenced {
            out.push('\n');
        }
        out.push_str(line);
        fenced ^= fence;
        before = this;
    }
    out
}

/// The role of a line relative to its neighbours.
#[derive(Clone, Copy, PartialEq)]
enum Line {
    Empty,
    /// A row of a table.
    Table,
    /// A figure, a caption or a heading, which begins a block.
    Block,
    Text,
}

impl Line {
    fn of(line: &str) -> Self {
        let heading = line.trim_start_matches('#');
        let level = line.len() - heading.len();
        match line {
            "" => Self::Empty,
            _ if line.starts_with('|') => Self::Table,
            _ if line.starts_with("![") && line.ends_with(".svg)") => Self::Block,
            _ if line.starts_with("**Figure ") || line.starts_with("**Table ") => Self::Block,
            _ if (1..=6).contains(&level) && heading.starts_with(' ') => Self::Block,
            _ => Self::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_and_headings_begin_a_block_and_tables_end_theirs() {
        let run_together = "![a](figures/a.svg)\n\n**Figure 1.** A.\n![b](figures/b.svg)\n\n**Figure 2.** B.\n\
                            Text.\n## Next\n| x |\n|---|\n| 1 |\nBelow.\n";
        let apart = "![a](figures/a.svg)\n\n**Figure 1.** A.\n\n![b](figures/b.svg)\n\n**Figure 2.** B.\n\
                     Text.\n\n## Next\n| x |\n|---|\n| 1 |\n\nBelow.\n";
        assert_eq!(separated(run_together), apart);
        assert_eq!(separated(apart), apart);
    }

    #[test]
    fn fenced_code_is_left_as_it_is() {
        let code = "```sh\nls\n# all of it\n| x |\ny\n```\nText\n";
        assert_eq!(separated(code), code);
    }
}
