//! Statements of a fixed form. A form is a pattern of words and numbers, with a check of its numbers.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::change::{CHANGE, commensurable, same_unit};
use super::{Scope, Slip};
use crate::number::{Quantity, shown, spread};
use crate::words::words;

/// Checks the numbers of a statement: what is wrong with them, or `None`.
type Check = fn(&Scope<'_>, &[Quantity], &Captures<'_>) -> Option<String>;

/// The patterns, in which `#` is any number, with their checks.
#[rustfmt::skip]
static FORMS: LazyLock<Vec<(Regex, Check)>> = LazyLock::new(|| {
    let forms: [(&str, Check); 12] = [
        // `210 cells, of which 190 are new and 20 are repeats`
        (r"#\s?[^#\s][^#]{0,30}\bof (?:which|them) ([^;(]*)", parts),
        // `a 42 % share (21 of 50)`, `42 % (21/50)`
        (r"#\s?\(#\s?((?:out )?of(?: the)?|/)\s?#", |scope, numbers, _| share(scope, &numbers[0], &numbers[1..])),
        // `21 of 50 (42 %)`, `21/50 = 42 %`
        (r"#\s?((?:out )?of(?: the)?|/)\s?#([^#]*\(|\s?=|\s?,)\s?#(\))?", share_after),
        // `Of 480 starts, 451 succeeded and 29 failed`, `50 tests: 46 passed and 4 failed`
        (r"(?:\bof #[^#]{0,39},|#[^#]{0,39}:)\s?#\s(\w+)[,;]?\s(?:and\s)?#\s(\w+)\b([^.;]*)", outcomes),
        // `301 timeouts and 131 aborts, 432 failures in all`
        (r"((?:#\s\w+(?:,|,?\sand)\s)*#\s\w+,?\sand\s#)(?:\s\w+){0,2},\s#(?:\s\w+)?\s(?:in (?:all|total)|altogether)\b", listed),
        // `7 (Mon 2, Tue 0, Wed 3, Thu 1, Fri 1)`
        (r"#\s?\((?:[^\W\d_]+ #,\s?){2,}[^\W\d_]+ #\)", itemized),
        // `9.41 ms, below the expected 8.80 ms`
        (r"#\s?[,—–(]\s?((?:(?:the|a|an|its|our|well|still|slightly|far|just)\s)*)(above|over|exceeding|higher|more|longer|below|under|lower|less|shorter)\b([^#]*)#", compared),
        // `61.0 W and 38.5 W, within 5 W of each other`
        (r"^.*#.*\bwithin # of (?:each other|one another)\b", |_, numbers, _| {
            let (bound, values) = numbers.split_last()?;
            apart(&values.iter().collect::<Vec<_>>(), bound)
        }),
        // `4.11 req/s, within 1 % of the 4.15 req/s of the release`
        (r"#(?:\W+\w+){0,2}\W+within # of(?:\s\w+){0,3}\s[$€£]?#", |_, numbers, _| apart(&[&numbers[0], &numbers[2]], &numbers[1])),
        // `more than doubles, from 0.31 to 0.78`
        (r"(?:(more|less) than |(nearly|almost|barely) )?\b(doubl|tripl|quadrupl|halv)e[ds]?((?:\s[^#\s,;.()]+){0,3}),? from [$€£]?#\s?(?:to|→|->)\s?[$€£]?#", multiple),
        // `118,240 drafted and 71,536 accepted tokens: an acceptance rate of 60.5 %`
        (r"(?:(\w+)\s)?#(?:\s(\w+))?[^#.;]{0,40}?(?:\b(\w+)\s)?#(?:\s(\w+))?[^#.;]{0,40}\s(\w+) (?:rate|ratio|share) (?:of|is|was) #", named_rate),
        // `72,000 requests in 20 minutes (60 req/s)`
        (r"#\s?((?:\w+\s)?)(?:in|takes?|took|within) #\s?(?:\((?:that is|i\.e\.)?|, (?:that is|i\.e\.|or|a rate of)|=)\s?#((?:\s\w+){0,3})", rate),
    ];
    forms.map(|(pattern, check)| (Regex::new(pattern).expect("a regex"), check)).into()
});

/// Checks all statements of a fixed form.
pub(super) fn check(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
    // The text in lower case, with a `#` in the place of every number.
    let mut text = String::new();
    let mut places = Vec::new();
    let mut from = scope.start;
    for number in scope.numbers {
        text.push_str(
            &scope
                .quote(from, number.start)
                .to_lowercase()
                .replace('#', " "),
        );
        places.push(text.len());
        text.push('#');
        from = number.end;
    }
    text.push_str(
        &scope
            .quote(from, scope.end)
            .to_lowercase()
            .replace('#', " "),
    );
    let inside = |range: Range<usize>| {
        let at = |offset| places.partition_point(|place| *place < offset);
        &scope.numbers[at(range.start)..at(range.end)]
    };
    for (pattern, check) in FORMS.iter() {
        for statement in pattern.captures_iter(&text) {
            let whole = statement.get(0).map_or(0..0, |whole| whole.range());
            let numbers = inside(whole);
            if let ([first, .., last], Some(message)) = (numbers, check(scope, numbers, &statement))
            {
                let (start, end) = (first.start, last.end);
                slips.push(Slip {
                    start,
                    end,
                    message,
                });
            }
        }
    }
}

/// What is wrong if counts are the parts of a whole. `all` tells whether they are all of its parts.
fn not_the_sum(whole: &Quantity, parts: &[Quantity], all: bool) -> Option<String> {
    let counts = whole.is_count() && parts.iter().all(Quantity::is_count);
    let sum: f64 = parts.iter().map(|part| part.value).sum();
    (counts && (sum > whole.value || all && sum != whole.value))
        .then(|| format!("the parts of {} sum to {}", shown(whole.value), shown(sum)))
}

fn parts(_: &Scope<'_>, numbers: &[Quantity], said: &Captures<'_>) -> Option<String> {
    let (whole, parts) = numbers.split_first()?;
    let named = &said[1];
    let open = ["another", "also", "other", "least", "both"];
    let all = parts.len() >= 2
        && parts.len() >= named.matches(" are ").count()
        && named.contains(" and ")
        && !open.iter().any(|word| named.contains(word));
    not_the_sum(whole, parts, all)
}

fn share_after(scope: &Scope<'_>, numbers: &[Quantity], said: &Captures<'_>) -> Option<String> {
    let (in_words, text) = (&said[1] != "/", &said[2]);
    // More words may precede a bracket with only the percentage: `(96 %)`.
    let alone = said.get(3).is_some() && !text.contains([',', ';', '.', ':']);
    let lead = words(text);
    let near = lead.len() <= if alone { 6 } else { 3 }
        && !lead.iter().any(|word| CHANGE.contains(&word.text.as_str()));
    // `5493/4318 = +27.2%` is a change.
    (near && (in_words || text.trim() != ",") && (in_words || !numbers[2].signed))
        .then(|| share(scope, &numbers[2], &numbers[..2]))?
}

fn share(scope: &Scope<'_>, stated: &Quantity, counts: &[Quantity]) -> Option<String> {
    let [k, m] = counts else { return None };
    let share = 100.0 * k.value / m.value;
    let size = Quantity {
        value: stated.value.abs(),
        ..stated.clone()
    };
    let fits = size.agrees(share, share) || size.agrees(100.0 - share, 100.0 - share);
    let counted = k.is_count() && m.is_count() && m.value != 0.0;
    (stated.is_percent() && counted && !fits).then(|| {
        format!(
            "{} does not follow: {} of {} is {} %",
            scope.quote(stated.start, stated.end),
            shown(k.value),
            shown(m.value),
            shown(share)
        )
    })
}

/// A rate of one of two counts, which a word beside that count names: `acceptance` and `accepted`. The other count is
/// the whole, or the rest.
fn named_rate(scope: &Scope<'_>, numbers: &[Quantity], said: &Captures<'_>) -> Option<String> {
    let [a, b, stated] = numbers else { return None };
    let rate = said.get(5)?.as_str();
    let alike = |group: usize| {
        let word = said.get(group).map_or("", |word| word.as_str());
        let same = word.bytes().zip(rate.bytes()).take_while(|(a, b)| a == b);
        same.count() >= 3
    };
    let (part, other, beside) = match (alike(1) || alike(2), alike(3) || alike(4)) {
        (true, false) => (a, b, [3, 4]),
        (false, true) => (b, a, [1, 2]),
        _ => return None,
    };
    // `over 1,200 requests` is not what `71,536 accepted tokens` are a part of.
    #[rustfmt::skip]
    let wholes = [
        "draft", "propos", "attempt", "sent", "issued", "total", "reject", "accept", "hit", "miss", "fail", "succe",
    ];
    let is_whole = |group: &usize| {
        let word = said.get(*group).map_or("", |word| word.as_str());
        wholes.iter().any(|stem| word.starts_with(stem))
    };
    if !beside.iter().any(is_whole) {
        return None;
    }
    let count = |n: &Quantity| n.half == 0.5 && n.value >= 20.0 && !n.rough;
    if !stated.is_percent() || !count(a) || !count(b) {
        return None;
    }
    let (k, m) = (part.value, other.value);
    let shares = [100.0 * k / m, 100.0 * k / (k + m)];
    let fits =
        |share: &f64| stated.agrees(*share, *share) || stated.agrees(100.0 - share, 100.0 - share);
    (!shares.iter().any(fits)).then(|| {
        let share = shown(if k <= m { shares[0] } else { shares[1] });
        format!(
            "{} does not follow: {} of {} is {share} %",
            scope.quote(stated.start, stated.end),
            shown(k),
            shown(if k <= m { m } else { k + m }),
        )
    })
}

/// Outcomes that are exhaustive, if one is good and the other is bad.
#[rustfmt::skip]
const GOOD: &[&str] = &["succeeded", "passed", "completed", "finished", "worked", "accepted", "passing", "valid"];
#[rustfmt::skip]
const BAD: &[&str] = &["failed", "aborted", "crashed", "errored", "timed", "rejected", "failing", "invalid"];

fn outcomes(_: &Scope<'_>, numbers: &[Quantity], said: &Captures<'_>) -> Option<String> {
    let outcomes = [&said[1], &said[2]];
    let has = |list: &[&str]| outcomes.iter().any(|outcome| list.contains(outcome));
    // A third outcome may follow.
    let more = said[3].contains(|c: char| c == '#' || c.is_ascii_digit());
    (has(GOOD) && has(BAD) && !more).then(|| not_the_sum(&numbers[0], &numbers[1..3], true))?
}

fn listed(_: &Scope<'_>, numbers: &[Quantity], said: &Captures<'_>) -> Option<String> {
    let (whole, parts) = numbers.split_last()?;
    let noun = |word: &str| !matches!(word, "of" | "to" | "in" | "per" | "at" | "x");
    words(&said[1])
        .iter()
        .all(|word| noun(&word.text))
        .then(|| total(whole, parts))?
}

fn itemized(_: &Scope<'_>, numbers: &[Quantity], _: &Captures<'_>) -> Option<String> {
    let (whole, parts) = numbers.split_first()?;
    let fits = |part: &Quantity| part.value <= whole.value;
    parts.iter().all(fits).then(|| total(whole, parts))?
}

/// As [`not_the_sum`]. A whole that is far from the sum may be a product (`2 nodes and 8 cards, 16 in all`) or count
/// another thing.
fn total(whole: &Quantity, parts: &[Quantity]) -> Option<String> {
    let sum: f64 = parts.iter().map(|part| part.value).sum();
    let near = (0.7..1.4).contains(&(whole.value / sum));
    near.then(|| not_the_sum(whole, parts, true))?
}

fn compared(_: &Scope<'_>, numbers: &[Quantity], said: &Captures<'_>) -> Option<String> {
    let [a, b] = numbers else { return None };
    #[rustfmt::skip]
    let light = ["the", "a", "an", "its", "our", "than", "well", "still", "slightly", "far", "just"];
    let mut rest = words(&said[3]);
    rest.retain(|word| !light.contains(&word.text.as_str()));
    let joins = ["by", "and", "to", "with", "from", "in"];
    let joined = rest.iter().any(|w| joins.contains(&w.text.as_str()));
    let plain = !a.unit.is_empty() && a.unit == b.unit && !a.rough && !b.rough;
    #[rustfmt::skip]
    let above = ["above", "over", "exceeding", "higher", "more", "longer"].contains(&&said[2]);
    let wrong = a.value != b.value && (a.value > b.value) != above;
    (plain && rest.len() <= 2 && !joined && wrong).then(|| {
        let way = if above { "above" } else { "below" };
        format!("{} is not {way} {}", shown(a.value), shown(b.value))
    })
}

/// What is wrong if values are within a bound of each other.
fn apart(values: &[&Quantity], bound: &Quantity) -> Option<String> {
    let unit = &values.first()?.unit;
    let alike = values.iter().all(|n| n.unit == *unit && n.value > 0.0);
    let fits = bound.is_percent() && unit != "%" || unit == &bound.unit && !bound.is_percent();
    if values.len() < 2 || !alike || !fits || unit.is_empty() {
        return None;
    }
    let sizes = values.iter().map(|n| n.value);
    let high = sizes.clone().fold(0.0, f64::max);
    let low = sizes.fold(f64::INFINITY, f64::min);
    let mut gap = high - low - values.iter().map(|n| n.half).sum::<f64>();
    if bound.is_percent() {
        gap *= 100.0 / high;
    }
    (gap > bound.value + bound.slack()).then(|| {
        let bound = shown(bound.value);
        format!("the values are {} apart, not within {bound}", shown(gap))
    })
}

fn multiple(_: &Scope<'_>, numbers: &[Quantity], said: &Captures<'_>) -> Option<String> {
    let [a, b] = numbers else { return None };
    // Whole numbers without a unit may be levels, as in `from 16 to 32`.
    #[rustfmt::skip]
    let verbs = [
        "when", "as", "by", "going", "moving", "if", "while", "after", "on", "and", "with", "over", "than", "since", "but",
        "to", "at", "using", "twice", "again", "every", "each", "per",
    ];
    let other = words(&said[4])
        .iter()
        .any(|word| verbs.contains(&word.text.as_str()));
    let measured = !b.unit.is_empty() && b.unit != "users" || b.half < 0.5 || a.half < 0.5;
    if other || !measured || !commensurable(a, b) || a.value == 0.0 || b.value == 0.0 {
        return None;
    }
    let wanted = match &said[3] {
        "doubl" => 2.0,
        "tripl" => 3.0,
        "quadrupl" => 4.0,
        _ => 0.5,
    };
    let (a, b) = same_unit(a, b);
    let (low, high) = spread(&a, &b, |a, b| b / a);
    let holds = match (said.get(1).map(|word| word.as_str()), said.get(2)) {
        (Some("more"), _) if wanted < 1.0 => low <= wanted,
        (Some("more"), _) => high >= wanted,
        (None, None) => high >= 0.85 * wanted && low <= 1.18 * wanted,
        _ => high >= 0.7 * wanted && low <= 1.02 * wanted.max(1.0 / wanted),
    };
    (!holds).then(|| {
        let factor = shown(b.value / a.value);
        format!(
            "from {} to {} is a factor of {factor}",
            shown(a.value),
            shown(b.value)
        )
    })
}

fn rate(scope: &Scope<'_>, numbers: &[Quantity], said: &Captures<'_>) -> Option<String> {
    let [count, time, rate] = numbers else {
        return None;
    };
    // `(18 req/s in the steady window)`: the rate of another time.
    let rest = scope
        .after(rate)
        .split([')', ',', ';'])
        .next()
        .unwrap_or("");
    let mut rest: Vec<String> = words(rest).into_iter().map(|word| word.text).collect();
    rest.retain(|word| {
        !matches!(
            word.as_str(),
            "per" | "second" | "on" | "average" | "overall"
        )
    });
    let nouns = usize::from(rate.unit.is_empty());
    if rest.len() > nouns && scope.after(rate).contains(')') {
        return None;
    }
    let first = |text: &str| words(text).into_iter().next().map(|word| word.text);
    // The count and the rate are of the same thing: `req` and `requests`.
    let counted = if count.unit.is_empty() {
        first(&said[1])?
    } else {
        count.unit.clone()
    };
    let noun = if rate.unit.is_empty() && said[2].ends_with(" per second") {
        first(&said[2])?
    } else {
        rate.unit
            .strip_suffix("/s")
            // `14.9 GiB in 11.9 s, that is 1.25 GiB/s`: another unit of bytes has a factor that is not read.
            .filter(|unit| !unit.contains('b') || *unit == count.unit)?
            .to_owned()
    };
    let (kind, second) = time.measure();
    if noun.is_empty() || !counted.starts_with(&noun) || kind != "time" || time.value <= 0.0 {
        return None;
    }
    let exact = count.is_count() || count.unit == "tok" && count.half == 0.5;
    let half = if exact { 0.0 } else { count.half };
    let unit = second * rate.measure().1;
    let low = (count.value - half) / ((time.value + time.half) * unit);
    let high = (count.value + half) / ((time.value - time.half).max(1e-12) * unit);
    (!rate.agrees(low, high)).then(|| {
        let seconds = time.value * second;
        format!(
            "{} does not follow: {} in {} s is {} per second",
            scope.quote(rate.start, rate.end),
            shown(count.value),
            shown(seconds),
            shown(count.value / seconds)
        )
    })
}
