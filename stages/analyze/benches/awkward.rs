//! How often the verdicts of awkward studies are false, how often their intervals contain the truth, and what they
//! detect.
//!
//! `cargo bench -p analyze --bench awkward`. After `--`, a number sets the studies per figure (1,000); other words
//! select the designs whose names contain one of them. The bench fails if a figure leaves its bounds.

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]

use std::process::ExitCode;

use analyze::awkward::{Counted, Design, Question, count, count_with_margin, designs};

fn main() -> ExitCode {
    // cargo passes `--bench`.
    let given = || std::env::args().skip(1).filter(|a| !a.starts_with('-'));
    let studies = given().find_map(|a| a.parse::<u64>().ok()).unwrap_or(1_000);
    let words: Vec<String> = given().filter(|a| a.parse::<u64>().is_err()).collect();
    let wanted = |design: &Design| {
        words.is_empty() || words.iter().any(|word| design.name.contains(word.as_str()))
    };
    println!("Of {studies} studies each.\n");
    println!(
        "| study | asked | false *different* | interval contains the truth | *equivalent* at the margin | *not worse* at the margin | finds 10 % | 20 % |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|");
    let mut wrong = Vec::new();
    for design in designs().iter().filter(|d| wanted(d)) {
        for question in design.questions {
            wrong.extend(line(design, *question, studies));
        }
    }
    if wrong.is_empty() {
        println!("\nEvery figure is within its bounds.");
        return ExitCode::SUCCESS;
    }
    println!("\nOutside its bounds:\n{}", wrong.join("\n"));
    ExitCode::FAILURE
}

/// Prints one line and returns the figures outside their bounds.
fn line(design: &Design, question: Question, studies: u64) -> Vec<String> {
    let at = |effect: f64| count(design, question, effect, studies);
    let percent = |count: u64, total: u64| match total {
        0 => "refused".to_owned(),
        _ => format!("{:.1} %", 100.0 * count as f64 / total as f64),
    };
    let null = at(0.0);
    let share = |counted: Counted| match counted.undecidable {
        n if n == studies => "refused".to_owned(),
        0 => percent(counted.different, studies),
        n => format!(
            "{} ({} undecidable)",
            percent(counted.different, studies),
            percent(n, studies)
        ),
    };
    let mut cells = vec![share(null)];
    let error = |p: f64, n: u64| 4.0 * (p * (1.0 - p) * n as f64).sqrt();
    let most = |p: f64| p * studies as f64 + error(p, studies);
    let stated = design.stated;
    let mut wrong: Vec<String> = Vec::new();
    let mut check = |what: &str, count: u64, fine: bool| {
        if !fine {
            wrong.push(format!(
                "{}, {}: {what} {count}",
                design.name,
                question.words()
            ));
        }
    };
    check(
        "false different",
        null.different,
        null.different as f64 <= most(stated.different),
    );
    if question.has_margin() {
        let at_margin = |end: f64| count_with_margin(design, question, end, studies);
        let [low, high] = design
            .ends()
            .map(|end| end.map(at_margin).unwrap_or_default());
        let least =
            stated.coverage * null.intervals as f64 - error(stated.coverage, null.intervals);
        check("covered", null.covered, null.covered as f64 >= least);
        cells.push(percent(null.covered, null.intervals));
        let equivalent = high.equivalent.max(low.equivalent);
        let not_worse = high.not_higher.max(low.not_lower);
        check(
            "equivalent at the margin",
            equivalent,
            equivalent as f64 <= most(stated.at_margin),
        );
        check(
            "not worse at the margin",
            not_worse,
            not_worse as f64 <= most(stated.at_margin),
        );
        cells.extend([percent(equivalent, studies), percent(not_worse, studies)]);
    } else {
        cells.extend(std::iter::repeat_n(String::new(), 3));
    }
    let finds = question != Question::Crossover;
    for effect in [0.1, 0.2] {
        cells.push(if finds {
            percent(at(effect).different, studies)
        } else {
            String::new()
        });
    }
    println!(
        "| {} | {} | {} |",
        design.name,
        question.words(),
        cells.join(" | ")
    );
    wrong
}
