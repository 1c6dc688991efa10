//! Errors planted by seed in reports that are known to be right: how many are found, class by class, and that the
//! unaltered reports give no finding. The reports are Benchtrail's own, whose every number is traced.
//!
//!     BENCHTRAIL_MUTATIONS=12 cargo test -p foreign --test mutations -- --nocapture
//!
//! sets how many of each class are made in each report; the default keeps the test short.

#![expect(
    clippy::print_stderr,
    reason = "prints the figures that the docs quote"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use foreign::{Report, Table, audit, quantities};
use regex::Regex;

const REPORTS: &[&str] = &["docs/planted-grid/report.md", "docs/first-report.md"];

/// A seeded source of choices (SplitMix64, Steele et al. 2014).
struct Seed(u64);

impl Seed {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(most.max(1)).unwrap_or(1)).unwrap_or(0)
    }
}

/// A report cut into lines, with what may be altered in it.
struct Clean {
    lines: Vec<String>,
    /// Lines of prose and list items, from 0.
    prose: Vec<usize>,
    /// Rows of tables, header and rule excluded, from 0.
    rows: Vec<usize>,
    /// Labels of each table's text columns.
    labels: Vec<Vec<String>>,
    /// The tables of the report, as they would be exported.
    data: Vec<Table>,
}

impl Clean {
    fn read(path: &str) -> Self {
        let full = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(path);
        let text = std::fs::read_to_string(&full).expect("a report of the docs");
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let report = Report::parse(&text);
        let rows = report
            .tables
            .iter()
            .flat_map(|t| &t.rows)
            .map(|row| row.line - 1)
            .collect();
        let mut fenced = false;
        let prose = (0..lines.len())
            .filter(|&at| {
                let line = lines[at].trim_start();
                fenced ^= line.starts_with("```");
                let text = line.starts_with(|c: char| c.is_alphanumeric() || "*-(".contains(c));
                text && !fenced && !lines[at].starts_with("    ") && line.contains(' ')
            })
            .collect();
        let mut labels = Vec::new();
        for table in &report.tables {
            for column in 0..table.columns.len() {
                let mut names: Vec<String> = table
                    .rows
                    .iter()
                    .filter_map(|row| row.cells.get(column))
                    .filter(|cell| cell.value.is_none() && (3..25).contains(&cell.text.len()))
                    .map(|cell| cell.text.clone())
                    .collect();
                names.sort();
                names.dedup();
                if names.len() > 1 {
                    labels.push(names);
                }
            }
        }
        let data = report
            .tables
            .iter()
            .enumerate()
            .map(|(at, table)| Table {
                file: format!("table-{at:02}.csv"),
                ..table.clone()
            })
            .collect();
        Self {
            lines,
            prose,
            rows,
            labels,
            data,
        }
    }
}

/// A line and what it becomes; no text deletes it.
type Alteration = (usize, Option<String>);

type Class = (&'static str, fn(&Clean, &mut Seed) -> Option<Alteration>);

const CLASSES: &[Class] = &[
    ("prose: one digit of a number", |r, s| {
        number(r, s, &r.prose, digit)
    }),
    ("prose: a number off by 5 to 40 %", |r, s| {
        number(r, s, &r.prose, scaled)
    }),
    ("prose: sign turned", |r, s| number(r, s, &r.prose, sign)),
    ("prose: count off by one in \"n of m\"", counted),
    ("prose: name of a row swapped", |r, s| {
        subject(r, s, |_| true)
    }),
    ("prose: subject of a superlative swapped", |r, s| {
        let superlative = word(r"(?i)\b(?:largest|smallest|highest|lowest|steepest|most|least)\b");
        subject(r, s, move |line| superlative.is_match(line))
    }),
    ("prose: quantifier turned", |r, s| {
        replaced(
            r,
            s,
            &r.prose,
            &[
                ("All ", "None of the "),
                ("all ", "no "),
                ("None ", "All "),
                ("every ", "no "),
                ("each ", "no "),
                ("only ", "never "),
                ("exactly ", "more than "),
                ("No ", "Every "),
            ],
        )
    }),
    ("prose: unit swapped", |r, s| {
        replaced(
            r,
            s,
            &r.prose,
            &[
                ("×", " %"),
                (" tok/s", " req/s"),
                (" ms", " s"),
                (" % ", " percentage points "),
            ],
        )
    }),
    ("prose: statistic swapped", |r, s| {
        replaced(
            r,
            s,
            &r.prose,
            &[
                ("median", "mean"),
                ("mean", "median"),
                ("p95", "p50"),
                ("largest", "smallest"),
                ("highest", "lowest"),
            ],
        )
    }),
    ("table: one digit of a cell", |r, s| {
        number(r, s, &r.rows, digit)
    }),
    ("table: a cell off by 5 to 40 %", |r, s| {
        number(r, s, &r.rows, scaled)
    }),
    ("table: two rows exchange their labels", exchanged),
    ("table: a cell missing", |r, s| {
        let at = r.rows[s.below(r.rows.len())];
        let cut = r.lines[at].trim_end().trim_end_matches('|').rfind('|')?;
        Some((at, Some(format!("{}|", &r.lines[at][..cut]))))
    }),
    ("table: a row missing", |r, s| {
        Some((r.rows[s.below(r.rows.len())], None))
    }),
];

fn word(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a regex")
}

/// Alters one number of two digits or more in one of some lines.
fn number(
    r: &Clean,
    s: &mut Seed,
    lines: &[usize],
    alter: fn(&str, &mut Seed) -> Option<String>,
) -> Option<Alteration> {
    let at = lines[s.below(lines.len())];
    let line = &r.lines[at];
    let printed = word(r"^[+−-]?[0-9][0-9,]*(?:\.[0-9]+)?");
    let numbers: Vec<(usize, usize)> = quantities(line)
        .iter()
        .filter_map(|q| Some((q.start, q.start + printed.find(&line[q.start..])?.end())))
        .filter(|(start, end)| {
            line[*start..*end]
                .bytes()
                .filter(u8::is_ascii_digit)
                .count()
                >= 2
        })
        .collect();
    let (start, end) = *numbers.get(s.below(numbers.len()))?;
    let new = alter(&line[start..end], s)?;
    (new != line[start..end])
        .then(|| (at, Some(format!("{}{new}{}", &line[..start], &line[end..]))))
}

fn digit(number: &str, s: &mut Seed) -> Option<String> {
    let places: Vec<usize> = number
        .bytes()
        .enumerate()
        .filter(|(_, b)| b.is_ascii_digit())
        .map(|p| p.0)
        .collect();
    let at = *places.get(s.below(places.len()))?;
    let old = number.as_bytes()[at] - b'0';
    let new = (old + 1 + u8::try_from(s.below(9)).ok()?) % 10;
    // No leading zero on a whole number.
    let leading = places.first() == Some(&at) && new == 0 && !number[at + 1..].starts_with('.');
    (!leading).then(|| format!("{}{new}{}", &number[..at], &number[at + 1..]))
}

fn scaled(number: &str, s: &mut Seed) -> Option<String> {
    let sign: String = number.chars().take_while(|c| !c.is_ascii_digit()).collect();
    let body = &number[sign.len()..];
    let decimals = body.split_once('.').map_or(0, |parts| parts.1.len());
    let value: f64 = body.replace(',', "").parse().ok()?;
    let percent = 5.0 + f64::from(u32::try_from(s.below(36)).ok()?);
    let factor = if s.below(2) == 0 {
        1.0 + percent / 100.0
    } else {
        1.0 - percent / 100.0
    };
    let mut text = format!("{:.decimals$}", value * factor);
    if body.contains(',') && decimals == 0 && text.len() > 3 {
        text.insert(text.len() - 3, ',');
    }
    Some(format!("{sign}{text}"))
}

fn sign(number: &str, _: &mut Seed) -> Option<String> {
    match number.chars().next()? {
        '+' => Some(format!("−{}", &number[1..])),
        '−' => Some(format!("+{}", &number['−'.len_utf8()..])),
        _ => None,
    }
}

fn counted(r: &Clean, s: &mut Seed) -> Option<Alteration> {
    const NAMES: [&str; 7] = ["none", "one", "two", "three", "four", "five", "six"];
    let claim = word(
        r"\b(?P<n>[0-9]{1,3}|one|two|three|four|five) (?:ok )?(?:of|out of) (?:the )?[0-9a-z]+\b",
    );
    let at = r.prose[s.below(r.prose.len())];
    let found = claim.captures(&r.lines[at])?.name("n")?;
    let new = match NAMES.iter().position(|name| *name == found.as_str()) {
        Some(value) => NAMES
            .get(if s.below(2) == 0 {
                value + 1
            } else {
                value - 1
            })?
            .to_string(),
        None => {
            let value: i64 = found.as_str().parse().ok()?;
            (if s.below(2) == 0 || value == 0 {
                value + 1
            } else {
                value - 1
            })
            .to_string()
        }
    };
    let line = &r.lines[at];
    Some((
        at,
        Some(format!(
            "{}{new}{}",
            &line[..found.start()],
            &line[found.end()..]
        )),
    ))
}

fn subject(r: &Clean, s: &mut Seed, wanted: impl Fn(&str) -> bool) -> Option<Alteration> {
    let at = r.prose[s.below(r.prose.len())];
    let line = &r.lines[at];
    let names = &r.labels[s.below(r.labels.len())];
    let (old, new) = (&names[s.below(names.len())], &names[s.below(names.len())]);
    if old == new || !wanted(line) || quantities(line).is_empty() {
        return None;
    }
    let here = word(&format!(r"\b{}\b", regex::escape(old))).find(line)?;
    let alone = |c: Option<char>| !c.is_some_and(|c| c == '-' || c == '=' || c == '_' || c == '/');
    let whole =
        alone(line[..here.start()].chars().next_back()) && alone(line[here.end()..].chars().next());
    whole.then(|| {
        (
            at,
            Some(format!(
                "{}{new}{}",
                &line[..here.start()],
                &line[here.end()..]
            )),
        )
    })
}

/// Replaces a word or a unit; `all` in `fall` is not a word.
fn replaced(
    r: &Clean,
    s: &mut Seed,
    lines: &[usize],
    pairs: &[(&str, &str)],
) -> Option<Alteration> {
    let at = lines[s.below(lines.len())];
    let (old, new) = pairs[s.below(pairs.len())];
    let line = &r.lines[at];
    let start = line.find(old)?;
    let inside = old.starts_with(char::is_alphabetic)
        && line[..start]
            .chars()
            .next_back()
            .is_some_and(char::is_alphabetic);
    (!inside && line.contains(|c: char| c.is_ascii_digit()))
        .then(|| (at, Some(line.replacen(old, new, 1))))
}

/// Exchanges the first cells that differ in two neighbouring rows.
fn exchanged(r: &Clean, s: &mut Seed) -> Option<Alteration> {
    let at = r.rows[s.below(r.rows.len())];
    let next = r.rows.contains(&(at + 1)).then_some(at + 1)?;
    let cells = |line: usize| {
        r.lines[line]
            .split('|')
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let (mut own, other) = (cells(at), cells(next));
    let column = (1..own.len().min(other.len())).find(|&c| own[c] != other[c])?;
    // The label of the neighbour in this row: two rows claim the same place.
    own[column].clone_from(&other[column]);
    Some((at, Some(own.join("|"))))
}

/// Whether an audit has a finding at a line, or one whose evidence is in it.
fn found(text: &str, data: &[Table], line: usize, deleted: bool) -> bool {
    let result = audit("altered.md", text, data, Vec::new());
    result.findings.iter().any(|finding| {
        let beside = |place: &str| {
            let digits: String = place
                .strip_prefix("line ")
                .unwrap_or("")
                .chars()
                .take_while(char::is_ascii_digit)
                .collect();
            digits.parse() == Ok(line)
        };
        // A deleted row leaves its place to the next one.
        finding.line.abs_diff(line) <= usize::from(deleted)
            || finding
                .evidence
                .iter()
                .any(|evidence| beside(&evidence.place))
    })
}

#[test]
fn reports_known_to_be_right_give_no_finding() {
    for path in REPORTS {
        let clean = Clean::read(path);
        for data in [&[], clean.data.as_slice()] {
            let result = audit(path, &clean.lines.join("\n"), data, Vec::new());
            assert!(result.findings.is_empty(), "{result}");
        }
    }
}

/// What was made of a class in a report, and how many were found without and with data.
#[derive(Default)]
struct Count {
    made: usize,
    alone: usize,
    held: usize,
    missed: String,
}

fn count(clean: &Clean, path: &str, (name, alter): Class, mut seed: Seed, each: usize) -> Count {
    let mut count = Count::default();
    let alterations: Vec<Alteration> = (0..20_000)
        .filter_map(|_| alter(clean, &mut seed))
        .take(each)
        .collect();
    for (at, line) in alterations {
        let mut lines = clean.lines.clone();
        match &line {
            Some(line) => lines[at].clone_from(line),
            None => drop(lines.remove(at)),
        }
        let text = lines.join("\n");
        let (alone, held) = (
            found(&text, &[], at + 1, line.is_none()),
            found(&text, &clean.data, at + 1, line.is_none()),
        );
        count.made += 1;
        count.alone += usize::from(alone);
        count.held += usize::from(held);
        if !held {
            let new = line.unwrap_or_default();
            writeln!(
                count.missed,
                "{name}: {path}:{}\n  - {}\n  + {new}",
                at + 1,
                clean.lines[at]
            )
            .expect("a string");
        }
    }
    count
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a developer asks for more mutations"
)]
fn altered_reports_are_told_from_the_right_ones() {
    let each: usize = std::env::var("BENCHTRAIL_MUTATIONS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(1);
    let verbose = std::env::var_os("BENCHTRAIL_MUTATIONS_MISSED").is_some();
    let reports: Vec<Clean> = REPORTS.iter().map(|path| Clean::read(path)).collect();
    let work: Vec<(usize, usize)> = (0..CLASSES.len())
        .flat_map(|class| (0..REPORTS.len()).map(move |report| (class, report)))
        .collect();
    let next = AtomicUsize::new(0);
    let counts: Mutex<BTreeMap<usize, Vec<Count>>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(&(class, report)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let seed = Seed(u64::try_from(1000 * report + class).unwrap_or(0));
                    let counted = count(
                        &reports[report],
                        REPORTS[report],
                        CLASSES[class],
                        seed,
                        each,
                    );
                    counts
                        .lock()
                        .expect("no thread panics")
                        .entry(class)
                        .or_default()
                        .push(counted);
                }
            });
        }
    });
    let counts = counts.into_inner().expect("no thread panics");
    let sum = |counts: &[&Count], of: fn(&Count) -> usize| {
        counts.iter().map(|count| of(count)).sum::<usize>()
    };
    let mut total = (0, 0, 0);
    for (class, counts) in &counts {
        let counts: Vec<&Count> = counts.iter().collect();
        let (made, alone, held) = (
            sum(&counts, |c| c.made),
            sum(&counts, |c| c.alone),
            sum(&counts, |c| c.held),
        );
        eprintln!("| {} | {made} | {alone} | {held} |", CLASSES[*class].0);
        total = (total.0 + made, total.1 + alone, total.2 + held);
        if verbose {
            counts.iter().for_each(|count| eprint!("{}", count.missed));
        }
    }
    eprintln!("| all | {} | {} | {} |", total.0, total.1, total.2);
    assert!(total.0 >= 25, "{total:?}");
    assert!(total.2 >= total.1, "data hide no error: {total:?}");
    assert!(total.2 * 5 >= total.0, "{total:?}");
}
