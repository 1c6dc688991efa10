//! A small SVG writer: fixed decimals, one style sheet, accessible names.

use std::fmt::Write as _;

use crate::html::escape::escape;

pub(super) const WIDTH: f64 = 720.0;

/// The background of a picture on its own. Its text follows the reader's dark mode, and a page or a viewer behind it may
/// not.
pub(super) const PAGE: &str = "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n";

/// The room of a vertical title beyond the plot beside it.
const UPWARD: f64 = 60.0;

/// The colours of series on a light background.
pub(crate) const LIGHT: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#b0529b", "#8a6d00", "#3b8fc4",
];
/// The colours of series on a dark background.
pub(crate) const DARK: [&str; 6] = [
    "#56b4e9", "#f0a35e", "#4fc99a", "#e59ac4", "#f0e442", "#a9d3f5",
];

const RULES: [(&str, &str); 17] = [
    (".page", "fill:#fff"),
    (
        ".line",
        "fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round",
    ),
    (".mark", "fill:currentColor;stroke:none"),
    (".hollow", "fill:#fff;stroke:currentColor;stroke-width:1.5"),
    (".gone", "fill:none;stroke:currentColor;stroke-width:1.5"),
    (".band", "fill:currentColor;fill-opacity:.16;stroke:none"),
    (".whisker", "stroke:currentColor;stroke-width:1.5"),
    (".grid", "stroke:currentColor;stroke-opacity:.13"),
    (".axis", "stroke:currentColor;stroke-opacity:.55"),
    (
        ".reference",
        "fill:none;stroke:currentColor;stroke-opacity:.65;stroke-width:1.5;stroke-dasharray:5 4",
    ),
    (".point", "fill:currentColor;fill-opacity:.45;stroke:none"),
    (
        ".bubble",
        "fill:currentColor;fill-opacity:.35;stroke:currentColor;stroke-width:1.5",
    ),
    (
        ".box",
        "fill:currentColor;fill-opacity:.14;stroke:currentColor;stroke-width:1.5",
    ),
    (".small", "font-size:11px"),
    (".muted", "fill-opacity:.75"),
    (".title", "font-size:14px;font-weight:600"),
    (".facet", "font-weight:600"),
];

/// Returns the style sheet of figures, with each rule limited to `scope`.
pub(crate) fn scoped_style(scope: &str) -> String {
    let series = |colours: &[&str]| {
        let rule = |(i, colour): (usize, &&str)| format!("{scope}.c{i}{{color:{colour}}}");
        colours.iter().enumerate().map(rule).collect::<String>()
    };
    let mut style = format!(
        "{scope}svg{{color:#1f2328;font:12px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}}\
         {scope}text{{fill:currentColor}}{}",
        series(&LIGHT)
    );
    for (selector, rule) in RULES {
        style.push_str(&format!("{scope}{selector}{{{rule}}}"));
    }
    style.push_str(&format!(
        "@media (prefers-color-scheme:dark){{{scope}svg{{color:#e6edf3}}{scope}.page,{scope}.hollow{{fill:#0d1117}}{}}}\
         @media print{{{scope}svg{{color:#000}}{scope}.page,{scope}.hollow{{fill:#fff}}}}",
        series(&DARK)
    ));
    style
}

/// Returns the width of a letter of a class of text, on average over the wide letters of names.
pub(super) fn letter(class: &str) -> f64 {
    let is = |name: &str| class.split(' ').any(|class| class == name);
    match (is("small"), is("title")) {
        (true, _) => 6.2,
        (_, true) => 8.0,
        _ => 7.0,
    }
}

/// Breaks a text between its words into lines of at most so many letters. A longer word has a line of its own.
fn lines_of(text: &str, letters: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if (line.chars().count() + 1 + word.chars().count()) as f64 <= letters => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Shortens a text to a number of letters. It keeps both ends, because names of models and settings often differ only
/// in the last ones.
fn shortened(text: &str, letters: f64) -> String {
    let all: Vec<char> = text.chars().collect();
    if all.len() as f64 <= letters {
        return text.to_owned();
    }
    // Names in capitals are wider than the average.
    let most = ((letters * 0.92) as usize).max(3);
    let end = (most - 1) * 2 / 5;
    let start = most - 1 - end;
    let ends = all[..start]
        .iter()
        .chain(&['…'])
        .chain(&all[all.len() - end..]);
    ends.collect()
}

/// A picture under construction.
pub(super) struct Svg {
    title: String,
    description: String,
    body: String,
    /// Without what is inserted above the plot.
    pub(super) height: f64,
    /// The groups that are moved down, and by how much in all.
    lowered: (usize, f64),
}

/// A stroke from one point to another.
pub(super) type Stroke = ((f64, f64), (f64, f64));

/// Where a text is anchored.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    pub(super) fn new(title: &str, description: &str) -> Self {
        let mut svg = Self {
            title: title.to_owned(),
            description: description.to_owned(),
            body: String::new(),
            height: 0.0,
            lowered: (0, 0.0),
        };
        svg.paragraph((0.0, 16.0), Anchor::Start, "title", title);
        svg
    }

    /// A text in as many lines as it needs at the width of the figure. What follows moves down.
    pub(super) fn paragraph(
        &mut self,
        (x, y): (f64, f64),
        anchor: Anchor,
        class: &str,
        text: &str,
    ) {
        for (number, line) in lines_of(text, WIDTH / letter(class)).iter().enumerate() {
            if number > 0 {
                self.lower(18.0);
            }
            self.label((x, y), anchor, class, line, WIDTH);
        }
    }

    /// Moves everything that follows down.
    pub(super) fn lower(&mut self, by: f64) {
        let _ = writeln!(self.body, "<g transform=\"translate(0 {})\">", fixed(by));
        self.lowered = (self.lowered.0 + 1, self.lowered.1 + by);
    }

    pub(super) fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        self.written((x, y), anchor, class, text, "");
    }

    /// A label that is shortened to fit a width, with its whole text on hover.
    pub(super) fn label(
        &mut self,
        at: (f64, f64),
        anchor: Anchor,
        class: &str,
        text: &str,
        room: f64,
    ) {
        let shown = shortened(text, room / letter(class));
        let hover = hover_of(&shown, text);
        self.written(at, anchor, class, &shown, &hover);
    }

    fn written(
        &mut self,
        (x, y): (f64, f64),
        anchor: Anchor,
        class: &str,
        text: &str,
        hover: &str,
    ) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let class = if class.is_empty() {
            String::new()
        } else {
            format!(" class=\"{class}\"")
        };
        let _ = writeln!(
            self.body,
            "<text x=\"{}\" y=\"{}\"{anchor}{class}>{hover}{}</text>",
            fixed(x),
            fixed(y),
            escape(text)
        );
    }

    /// A text in the middle of a box. It is never shortened, since a part of a number is another number: its letters get
    /// smaller instead.
    pub(super) fn inside(&mut self, (x, y): (f64, f64), class: &str, text: &str, room: f64) {
        let width = text.chars().count() as f64 * letter(class);
        if width <= room {
            self.text(x, y + 4.0, Anchor::Middle, class, text);
            return;
        }
        let share = room / width;
        let class = match class {
            "" => String::new(),
            class => format!(" class=\"{class}\""),
        };
        let _ = writeln!(
            self.body,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" font-size=\"{}\"{class}>{}</text>",
            fixed(x),
            fixed(y + 4.0 * share),
            fixed(12.0 * share),
            escape(text)
        );
    }

    /// A label at the side, which reads upward, with its middle at a height. It is shortened to the plot beside it.
    pub(super) fn vertical_text(&mut self, x: f64, y: f64, text: &str, plot: f64) {
        let (x, y) = (fixed(x), fixed(y));
        let shown = shortened(text, (plot + UPWARD) / letter(""));
        let _ = writeln!(
            self.body,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" transform=\"rotate(-90 {x} {y})\">{}{}</text>",
            hover_of(&shown, text),
            escape(&shown)
        );
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let (x1, y1, x2, y2) = (fixed(from.0), fixed(from.1), fixed(to.0), fixed(to.1));
        let _ = writeln!(
            self.body,
            "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" class=\"{class}\"/>"
        );
    }

    pub(super) fn path(&mut self, points: &[(f64, f64)], class: &str, closed: bool) {
        let mut d = String::new();
        for (i, (x, y)) in points.iter().enumerate() {
            let _ = write!(
                d,
                "{}{} {}",
                if i == 0 { "M" } else { "L" },
                fixed(*x),
                fixed(*y)
            );
        }
        let end = if closed { "Z" } else { "" };
        let _ = writeln!(self.body, "<path d=\"{d}{end}\" class=\"{class}\"/>");
    }

    pub(super) fn rectangle(
        &mut self,
        x: f64,
        y: f64,
        size: (f64, f64),
        attributes: &str,
        hover: &str,
    ) {
        let (x, y, w, h) = (fixed(x), fixed(y), fixed(size.0), fixed(size.1));
        let hover = escape(hover);
        let _ = writeln!(
            self.body,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" {attributes}><title>{hover}</title></rect>"
        );
    }

    /// The strokes of a hatching in the colour of a series. They let the pointer reach the shape below.
    pub(super) fn strokes(&mut self, strokes: &[Stroke], series: usize) {
        if strokes.is_empty() {
            return;
        }
        let mut d = String::new();
        for ((x1, y1), (x2, y2)) in strokes {
            let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(|at| fixed(*at));
            let _ = write!(d, "M{x1} {y1}L{x2} {y2}");
        }
        let class = series % 6;
        let _ = writeln!(
            self.body,
            "<path d=\"{d}\" class=\"c{class}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.2\" \
             pointer-events=\"none\"/>"
        );
    }

    /// A small round mark of one point among many, or a large one whose area represents a value.
    pub(super) fn dot(&mut self, at: (f64, f64), r: f64, class: &str, row: &str, hover: &str) {
        let (x, y, r, hover) = (fixed(at.0), fixed(at.1), fixed(r), escape(hover));
        let _ = writeln!(
            self.body,
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"{r}\" class=\"{class}\" data-row=\"{row}\"><title>{hover}</title></circle>"
        );
    }

    /// A data mark, with a shape and a colour for its series.
    pub(super) fn mark(&mut self, x: f64, y: f64, series: usize, row: &str, hover: &str) {
        self.shape((x, y), series, "mark", row, hover);
    }

    /// A data mark with incomplete data.
    pub(super) fn hollow_mark(&mut self, x: f64, y: f64, series: usize, row: &str, hover: &str) {
        self.shape((x, y), series, "hollow", row, hover);
    }

    /// A cross in place of a missing mark of the series.
    pub(super) fn cross(&mut self, (x, y): (f64, f64), series: usize, hover: &str) {
        let r = 3.5;
        let [left, right, top, bottom] = [x - r, x + r, y - r, y + r].map(fixed);
        let (class, hover) = (series % 6, escape(hover));
        let _ = writeln!(
            self.body,
            "<path d=\"M{left} {top}L{right} {bottom}M{left} {bottom}L{right} {top}\" class=\"gone c{class}\"><title>{hover}</title></path>"
        );
    }

    fn shape(&mut self, (x, y): (f64, f64), series: usize, kind: &str, row: &str, hover: &str) {
        let r = 4.0;
        // After all pairs of a shape and a colour, each colour has another shape.
        let points = match (series + series / 12) % 4 {
            0 => None,
            1 => Some(vec![
                (x - r, y - r),
                (x + r, y - r),
                (x + r, y + r),
                (x - r, y + r),
            ]),
            2 => Some(vec![
                (x, y - r * 1.3),
                (x + r * 1.2, y + r),
                (x - r * 1.2, y + r),
            ]),
            _ => Some(vec![
                (x, y - r * 1.4),
                (x + r * 1.4, y),
                (x, y + r * 1.4),
                (x - r * 1.4, y),
            ]),
        };
        let class = format!("{kind} c{}", series % 6);
        let row = if row.is_empty() {
            String::new()
        } else {
            format!(" data-row=\"{row}\"")
        };
        let hover = if hover.is_empty() {
            String::new()
        } else {
            format!("<title>{}</title>", escape(hover))
        };
        let _ = match points {
            None => writeln!(
                self.body,
                "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" class=\"{class}\"{row}>{hover}</circle>",
                fixed(x),
                fixed(y),
                fixed(r)
            ),
            Some(points) => {
                let points: Vec<_> = points
                    .iter()
                    .map(|(x, y)| format!("{},{}", fixed(*x), fixed(*y)))
                    .collect();
                writeln!(
                    self.body,
                    "<polygon points=\"{}\" class=\"{class}\"{row}>{hover}</polygon>",
                    points.join(" ")
                )
            }
        };
    }

    /// Returns the document.
    pub(super) fn finish(self, tables: &[String]) -> String {
        let (groups, lowered) = self.lowered;
        let (width, height) = (fixed(WIDTH), fixed(self.height + lowered));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\" aria-labelledby=\"t d\" data-table=\"{}\">\n<title id=\"t\">{}</title>\n\
             <desc id=\"d\">{}</desc>\n<style>{}</style>\n{PAGE}{}{}</svg>\n",
            tables.join(" "),
            escape(&self.title),
            escape(&self.description),
            scoped_style(""),
            self.body,
            "</g>\n".repeat(groups)
        )
    }
}

/// The whole text on hover, if only a part of it is shown.
fn hover_of(shown: &str, text: &str) -> String {
    match shown == text {
        true => String::new(),
        false => format!("<title>{}</title>", escape(text)),
    }
}

/// Formats a coordinate: two decimals, none if whole, and never a negative zero.
fn fixed(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_title_takes_several_lines_and_moves_the_plot_down() {
        let words = "Median time to the first token over the ladder of clients ".repeat(3);
        let mut svg = Svg::new(&words, "d");
        svg.height = 50.0;
        let drawn = svg.finish(&[]);
        assert_eq!(drawn.matches("class=\"title\"").count(), 2, "{drawn}");
        assert!(drawn.contains("height=\"68\""), "{drawn}");
        assert_eq!(lines_of("one two three", 7.0), ["one two", "three"]);
    }

    #[test]
    fn a_picture_on_its_own_has_the_background_of_its_text() {
        let drawn = Svg::new("t", "d").finish(&[]);
        assert_eq!(drawn.matches(PAGE).count(), 1);
        let dark = drawn
            .split("prefers-color-scheme:dark")
            .nth(1)
            .unwrap_or_default();
        assert!(dark.contains(".page,.hollow{fill:#0d1117}"), "{drawn}");
    }

    #[test]
    fn a_long_label_keeps_both_ends_and_has_all_of_it_on_hover() {
        assert_eq!(shortened("short", 5.0), "short");
        assert_eq!(shortened("qwen3-8b-fp8_kv-auto", 12.0), "qwen3-…auto");
        assert_ne!(
            shortened("qwen3-8b-fp8_kv-auto", 12.0),
            shortened("qwen3-8b-fp8_kv-fp8", 12.0)
        );
        // However little room there is, a label is never empty.
        assert_eq!(shortened("qwen3", 0.0), "qw…");
        let mut svg = Svg::new("t", "d");
        svg.label((0.0, 0.0), Anchor::Start, "", "qwen3-8b-fp8_kv-auto", 90.0);
        svg.label((0.0, 9.0), Anchor::Start, "", "short", 90.0);
        let drawn = svg.finish(&[]);
        assert!(
            drawn.contains("<title>qwen3-8b-fp8_kv-auto</title>qwen3-…auto</text>"),
            "{drawn}"
        );
        assert!(drawn.contains(">short</text>"), "{drawn}");
    }

    #[test]
    fn a_text_without_room_gets_smaller_and_is_never_shortened() {
        let mut svg = Svg::new("title", "caption");
        svg.inside((50.0, 20.0), "", "1037", 28.0);
        assert!(!svg.body.contains("font-size"), "{}", svg.body);
        svg.inside((50.0, 20.0), "", "1037", 14.0);
        assert_eq!(svg.body.matches(">1037<").count(), 2);
        assert!(svg.body.contains("font-size=\"6"), "{}", svg.body);
    }
}
