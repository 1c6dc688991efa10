//! Numbers typed by hand into a clean report: the check catches all of them, and accepts the clean report.

use serde_json::{Value, json};

use crate::fixture::{Lab, Templates, coordinates};

/// The places where an author can put text; `@` marks the spot.
const PLACES: &[(&str, &str)] = &[
    ("prose", "The server was quick @ that day.\n"),
    ("start of a line", "\n@ is what we saw.\n"),
    ("heading", "## What @ means\n"),
    ("list item", "- an item with @ in it\n"),
    ("ordered list", "1. an item\n2. another with @ in it\n"),
    ("block quote", "> it was @ then\n"),
    ("table cell", "| a | b |\n| --- | --- |\n| x | @ |\n"),
    ("table heading", "| a | @ |\n| --- | --- |\n| x | y |\n"),
    ("emphasis", "it was *@* then\n"),
    ("strong", "it was **@** then\n"),
    ("link text", "see [the @ page](notes.md)\n"),
    ("link title", "see [the page](notes.md \"about @ here\")\n"),
    ("alt text", "![a picture of @ bars](notes.svg)\n"),
    ("footnote", "a note[^n]\n\n[^n]: it was @ then\n"),
    ("HTML comment", "<!-- was @ before -->\n"),
    ("HTML", "<span>@</span>\n"),
    ("front matter", "---\nabstract: it was @ then\n---\n"),
    ("inline code", "it was `@` then\n"),
    ("brackets", "the server (@) was quick\n"),
    (
        "between traced numbers",
        "from {{ count(\"results.efficiency\") }} to @ and {{ spec(\"seed\") }}\n",
    ),
];

/// Digits in every form; `#` is replaced by a random digit from 2 to 9.
const DIGITS: &[&str] = &[
    "#",
    "##",
    "#.##",
    "0.0#",
    "#,###",
    "#.###,#",
    "##%",
    "## %",
    "#.#×",
    "0.#–0.#",
    "#-#",
    "±#",
    "#e#",
    "#.#e-#",
    "#/#",
    "½",
    "¾",
    "٣",
    "７",
    "−#",
    "+#",
    "x²",
    "Ⅷ",
    "①",
    "N=#",
    "~#",
    "< 0.00#",
    "&#4#;",
    "#:#",
    "#k",
    "# ms",
    "[0.#, 0.#]",
    "#'###",
    "1##",
    "#\u{202f}###",
];

/// Number words; never in inline code, where they are identifiers.
const WORDS: &[&str] = &[
    "two",
    "three",
    "Seven",
    "TEN",
    "twelve",
    "nineteen",
    "twenty-one",
    "forty",
    "a hundred",
    "thousands",
    "a million",
    "dozens",
    "third",
    "fourth",
    "twentieth",
    "the second run",
    "half",
    "halved",
    "twice",
    "thrice",
    "doubled",
    "tripled",
    "tenfold",
    "an order of magnitude",
    "orders of magnitude",
    "a quarter",
    "two-thirds",
];

/// Text typed around a traced number, which is `{}`.
const ALTERATIONS: &[&str] = &[
    "#{}",
    "{}#",
    "{}.#",
    "{},#",
    "-{}",
    "\u{2212}{}",
    "+{}",
    ".{}",
    "{}%",
    "{} %",
    "{}×",
    "{}e#",
    "{}k",
    "{}M",
    "{} percent",
    "{} thousand",
    "{} million",
    "{}-fold",
    "{} pp",
    "{}/#",
    "#/{}",
    "{}^#",
    "{}{}",
    "{} percentage points",
    "{} per cent",
    "{} bn",
    // What the page shows counts, and not how it is written.
    "-**{}**",
    "&minus;{}",
    "&plus;{}",
    "**{}**%",
    "{} **%**",
    "{}&percnt;",
    "{}&nbsp;&percnt;",
    "{} *million*",
    "{}<b>k</b>",
    "{}\nmillion",
    "{}**{}**",
    "{}<!-- -->{}",
    "{}\u{200b}{}",
    "{}&shy;{}",
    "\u{202e}{}",
];

/// A small random generator, so that failures are reproducible.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % below
    }

    fn fill(&mut self, pattern: &str) -> String {
        let digit = |r: &mut Self| char::from(b'2' + u8::try_from(r.next(8)).unwrap());
        // The `#` of a character reference belongs to the reference.
        let pattern = pattern.replace("&#", "&\u{1}");
        let filled: String = pattern
            .chars()
            .map(|c| if c == '#' { digit(self) } else { c })
            .collect();
        filled.replace('\u{1}', "#")
    }
}

fn settings() -> Value {
    json!({"template": "t.md"})
}

fn is_refused(lab: &Lab, text: &str) -> bool {
    match lab.render(&settings(), &Templates::one(text)) {
        Ok(_) => false,
        Err(failure) => {
            assert!(
                failure.reason.starts_with("the number check refuses"),
                "{text}: {}",
                failure.reason
            );
            true
        }
    }
}

#[test]
fn no_number_typed_by_hand_gets_through() {
    let lab = Lab::new();
    let mut random = Random(164);
    let (mut tried, mut missed) = (0, Vec::new());
    for (name, place) in PLACES {
        // The place itself is clean, so the refusals below are for the typed text.
        let clean = lab.render_text(&place.replace('@', "something"));
        assert!(clean.is_ok(), "{name}: {clean:?}");
        let words = if *name == "inline code" {
            &[][..]
        } else {
            WORDS
        };
        for pattern in DIGITS.iter().chain(words) {
            let typed = random.fill(pattern);
            // Inline code may name a variable `x²` or `N`, but must not contain a bare number.
            if *name == "inline code"
                && typed.starts_with(char::is_alphabetic)
                && !typed.contains('=')
            {
                continue;
            }
            tried += 1;
            if !is_refused(&lab, &place.replace('@', &typed)) {
                missed.push(format!("{name}: {typed}"));
            }
        }
    }
    assert!(tried >= 1000, "{tried}");
    assert!(
        missed.is_empty(),
        "{} of {tried} missed: {missed:#?}",
        missed.len()
    );
}

#[test]
fn no_traced_number_can_be_altered_by_what_is_typed_around_it() {
    let lab = Lab::new();
    let mut random = Random(7);
    let mut missed = Vec::new();
    let values = [
        "{{ count(\"results.efficiency\") }}",
        "{{ value(\"results.efficiency\", {\"configuration\": \"serial\", \"concurrency\": 2}, \"efficiency\", \"0.00\") }}",
    ];
    for value in values {
        assert!(lab.render_text(&format!("It was {value} then.\n")).is_ok());
    }
    for pattern in ALTERATIONS {
        for value in values {
            let text = format!(
                "It was {} then.\n",
                random.fill(pattern).replace("{}", value)
            );
            if !is_refused(&lab, &text) {
                missed.push(text);
            }
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn a_number_is_seen_although_markup_cuts_it_or_a_list_begins_with_it() {
    let lab = Lab::new();
    for text in [
        "It took thir**ty** ticks.\n",
        "It took sev<b></b>en ticks.\n",
        "It took se&shy;ven ticks.\n",
        "It took t\u{200b}en ticks.\n",
        "It was &half; of it.\n",
        "It reached:\n\n341. tokens\n",
        "It reached:\n\n341) tokens\n",
        "1. first\n2. next\n\ntext\n\n4. tokens\n",
        "-{{ spec(\"seed\") }}\n",
    ] {
        assert!(is_refused(&lab, text), "{text}");
    }
}

#[test]
fn a_unit_written_by_hand_is_that_of_the_column() {
    let lab = Lab::new();
    let value = "{{ lowest(\"ladder.requests\", {}, \"e2e_ms\").show(\"e2e_ms\", \"0.0\") }}";
    let clean = lab.render_text(&format!("It took {value} ms, or {value} milliseconds.\n"));
    assert!(clean.is_ok(), "{clean:?}");
    for unit in ["s", "**s**", "seconds", "tok/s", "µs", "hours"] {
        assert!(
            is_refused(&lab, &format!("It took {value} {unit} in all.\n")),
            "{unit}"
        );
    }
    for after in ["on side s", "so", "sides", "of GiB"] {
        let text = format!("It took {value} {after}.\n");
        assert!(!is_refused(&lab, &text), "{after}");
    }
}

#[test]
fn a_caption_written_by_hand_is_checked_too() {
    let lab = Lab::new();
    let mut random = Random(11);
    let render = |typed: &str| {
        let settings = json!({
            "template": "t.md",
            "figures": {"f": {
                "kind": "ladder", "table": "results.efficiency", "x": "concurrency", "y": "efficiency",
                "series": "configuration", "title": "Efficiency", "caption": format!("It was {typed} then."),
            }},
        });
        lab.render(&settings, &Templates::one("{{ figure(\"f\") }}"))
            .map(|_| ())
    };
    assert!(render("something").is_ok());
    for pattern in DIGITS.iter().chain(WORDS) {
        let typed = random.fill(pattern);
        let failure = render(&typed).unwrap_err();
        assert!(
            failure.reason.starts_with("the number check refuses"),
            "{typed}: {}",
            failure.reason
        );
    }
}

#[test]
fn labels_of_figures_and_headings_agree_with_their_columns() {
    let lab = Lab::new();
    let figure = |label: &str| {
        let settings = json!({
            "template": "t.md",
            "figures": {"f": {
                "kind": "box", "table": "ladder.requests", "x": "configuration", "y": "e2e_ms",
                "y-label": label, "title": "Latency", "caption": "Each point a request.",
            }},
        });
        lab.render(&settings, &Templates::one("{{ figure(\"f\") }}"))
            .map_or_else(|failure| failure.reason, |_| String::new())
    };
    for label in ["latency (ms)", "p95 latency", "latency (warm)", "N clients"] {
        assert_eq!(figure(label), "", "{label}");
    }
    assert!(figure("latency (s)").contains("the unit of the column is `ms`"));
    assert!(figure("latency, up to 500").contains("`500`, a number written by hand"));
    let table = |heading: &str| {
        let column = json!({"column": "e2e_ms", "heading": heading});
        let settings = json!({
            "template": "t.md",
            "tables": {"a": {"from": "ladder.requests", "caption": "Latency.", "columns": ["configuration", column]}},
        });
        lab.render(&settings, &Templates::one("{{ table(\"a\") }}"))
            .map_or_else(|failure| failure.reason, |_| String::new())
    };
    assert_eq!(table("Latency (ms)"), "");
    assert!(table("Latency (s)").contains("the unit of the column is `ms`"));
}

#[test]
fn a_clean_report_is_not_flagged() {
    let lab = Lab::new();
    // This check ignores words that need a licence.
    let words =
        json!([{"text": "none", "reason": "a word"}, {"text": "every", "reason": "a word"}]);
    let settings = json!({"template": "t.md", "literals": words});
    for text in [
        "1. first\n2. next\n3. last\n",
        "Tokens per second, often, one at a time; none was lost.\n",
        "See [the page](https://example.org/2024/10#s3) and <https://example.org/7>.\n",
        "Column `e2e_latency_ms_p95`, file `weights.q8_0.gguf`.\n",
        "```sh\nbenchtrail show 42\n```\n",
        "From {{ count(\"results.efficiency\") }} to {{ spec(\"seed\") }}, [{{ spec(\"seed\") }}, {{ spec(\"seed\") }}].\n",
        "{{ spec(\"seed\") }}–{{ spec(\"seed\") }} ± {{ spec(\"seed\") }}; every second; {{ spec(\"seed\") }} seconds.\n",
        "- {{ spec(\"seed\") }}\n- N = {{ spec(\"seed\") }}\n",
        "1. first\n\n```sh\nrun\n```\n\n2. next\n3. last\n",
        "**{{ spec(\"seed\") }}** *{{ spec(\"seed\") }}*<br>{{ spec(\"seed\") }}<sup>{{ spec(\"seed\") }}</sup>\n",
        "| a | b |\n|---|---|\n| {{ spec(\"seed\") }} | k |\n| {{ spec(\"seed\") }} | {{ spec(\"seed\") }} |\n",
        "<table>\n<tr><td>{{ spec(\"seed\") }}</td><td>{{ spec(\"seed\") }}</td></tr>\n</table>\n",
        "{{ spec(\"seed\") }}\n{{ spec(\"seed\") }} s, {{ count(\"results.efficiency\") }} x\n",
        "{{ spec(\"seed\") }}&nbsp;&ndash;&nbsp;{{ spec(\"seed\") }}\n",
    ] {
        let done = lab.render(&settings, &Templates::one(text));
        assert_eq!(done.map(|_| ()).map_err(|f| f.reason), Ok(()), "{text}");
    }
}

#[test]
fn a_literal_covers_itself_and_no_longer_number() {
    let lab = Lab::new();
    let settings =
        json!({"template": "t.md", "literals": [{"text": "80GB", "reason": "a product name"}]});
    let passes = |text: &str| lab.render(&settings, &Templates::one(text)).is_ok();
    assert!(passes("An A card with 80GB of memory.\n"));
    for text in ["180GB\n", "2.80GB\n", "80GBs\n", "−80GB\n", "80GB7\n"] {
        assert!(!passes(text), "{text}");
    }
}

#[test]
fn a_label_of_an_axis_is_a_name_and_no_other_number_beside_it() {
    let mut lab = Lab::new();
    lab.inputs[1].cells[0].coordinates =
        coordinates(&[("release", artifacts::Scalar::Text("v6".to_owned()))]);
    assert!(!is_refused(&lab, "The release v6 against the others.\n"));
    for text in ["v7", "v60", "6", "v6.1"] {
        assert!(
            is_refused(&lab, &format!("The release {text}.\n")),
            "{text}"
        );
    }
}
