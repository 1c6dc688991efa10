//! R-ARITH: a published formula with its parameters must give the published predictions.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::{Agreement, Quantity, compare, leading, quantities, shown};
use crate::rules::Rule;
use crate::rules::scope::{Scope, in_table};
use crate::table::Table;

static DEFINITION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"^\s*(?P<name>[A-Za-z][A-Za-z_ ]{0,30})\((?P<x>[A-Za-z]{1,12})\) ?[=≈] ?(?P<body>.+)$",
    )
    .expect("a regex")
});
static PARAMETER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"^\s*(?:[-•] )?(?P<name>[A-Za-zα-ω][A-Za-z0-9_]{0,15}) ?[=≈] ?(?P<value>[+−-]?[0-9].*)$",
    )
    .expect("a regex")
});

struct Model {
    text: String,
    line: usize,
    argument: String,
    body: Expression,
    parameters: BTreeMap<String, Quantity>,
}

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    for (section, model) in models(scope) {
        freedom(scope, section, &model, found);
        let after = scope
            .report
            .tables_around(model.line)
            .iter()
            .filter(|table| table.section == section && table.line > model.line);
        for table in after.take(2) {
            let Some(column) = (1..table.columns.len()).find(|&c| {
                let name = table.columns[c].to_lowercase();
                [
                    "predict",
                    "fitted",
                    "model",
                    "expected",
                    "estimat",
                    "extrapolat",
                ]
                .iter()
                .any(|word| name.contains(word))
                    && !table.numbers(c).is_empty()
            }) else {
                continue;
            };
            let mut wrong = Vec::new();
            let mut near = 0;
            let mut rows = 0;
            for row in 0..table.rows.len() {
                let (Some(argument), Some(stated)) =
                    (leading(table.label(row)), table.value(row, column))
                else {
                    continue;
                };
                let Some((low, high)) = model.interval(argument.value) else {
                    continue;
                };
                rows += 1;
                let middle = f64::midpoint(low, high);
                // Another model altogether is not a slip.
                near += usize::from((stated.value / middle - 1.0).abs() < 0.3);
                if compare(stated, low, high) == Agreement::Differs {
                    wrong.push((
                        row,
                        Evidence::new(
                            table.cell_place(row, column),
                            format!("{} stated, {} computed", shown(stated.value), shown(middle)),
                        ),
                    ));
                }
            }
            if rows < 2 || near * 2 < rows {
                continue;
            }
            if let Some(&(row, _)) = wrong.first() {
                let mut evidence = vec![Evidence::new(
                    format!("line {}", model.line),
                    model.text.clone(),
                )];
                evidence.extend(
                    model
                        .parameters
                        .iter()
                        .map(|(name, q)| Evidence::new(name.clone(), shown(q.value))),
                );
                let count = wrong.len();
                evidence.extend(wrong.into_iter().map(|(_, evidence)| evidence));
                let message = format!(
                    "{count} of {rows} predictions do not follow from the formula and its parameters"
                );
                found.push(in_table(
                    table,
                    (row, column),
                    (Rule::Arith, Confidence::High),
                    message,
                    evidence,
                ));
            }
        }
    }
}

static GOODNESS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\bR(?:²|\^2|-squared) ?(?:=|≈|of|is) ?(?P<r>[01]\.[0-9]+)").expect("a regex")
});

/// A good R² of a fit that has hardly more points than parameters, read far beyond the last of them.
fn freedom(scope: &Scope<'_>, section: usize, model: &Model, found: &mut Vec<Finding>) {
    let code = scope
        .report
        .code
        .iter()
        .filter(|code| code.section == section);
    let lines = code.flat_map(|code| {
        code.lines
            .iter()
            .enumerate()
            .map(|(at, line)| (code.line + at, line.as_str()))
    });
    let Some((line, text)) = lines.into_iter().find(|(_, line)| GOODNESS.is_match(line)) else {
        return;
    };
    let argument = |table: &Table| -> Option<Vec<f64>> {
        (0..table.rows.len())
            .map(|row| leading(table.label(row)).map(|q| q.value))
            .collect()
    };
    let tables = scope.report.tables_around(model.line);
    let predicted = tables
        .iter()
        .find(|table| table.section == section && table.line > model.line)
        .and_then(argument);
    let measured = tables
        .iter()
        .rev()
        .filter(|table| table.line < model.line)
        .find_map(argument);
    let (Some(predicted), Some(measured)) = (predicted, measured) else {
        return;
    };
    let (parameters, points) = (model.parameters.len(), measured.len());
    let last = measured.iter().copied().fold(0.0, f64::max);
    let farthest = predicted.iter().copied().fold(0.0, f64::max);
    if points > parameters + 1 || last <= 0.0 || farthest <= 2.0 * last {
        return;
    }
    let message = format!(
        "{parameters} parameters fitted to {points} points leave {} to judge the fit by, and {} is {} times the last point {}",
        points.saturating_sub(parameters),
        shown(farthest),
        shown(farthest / last),
        shown(last)
    );
    let column = text.chars().take_while(|c| c.is_whitespace()).count() + 1;
    found.push(Finding {
        rule: Rule::Lic,
        confidence: Confidence::Medium,
        line,
        column,
        quote: text.trim().to_owned(),
        message,
        evidence: vec![Evidence::new(
            format!("line {}", model.line),
            model.text.clone(),
        )],
    });
}

fn models(scope: &Scope<'_>) -> Vec<(usize, Model)> {
    let mut found = Vec::new();
    let mut lines: Vec<(usize, usize, &str)> = Vec::new();
    for code in &scope.report.code {
        lines.extend(
            code.lines
                .iter()
                .enumerate()
                .map(|(at, line)| (code.section, code.line + at, line.as_str())),
        );
    }
    for prose in scope
        .report
        .prose
        .iter()
        .filter(|prose| prose.text.len() < 200)
    {
        lines.push((prose.section, prose.line(), prose.text.as_str()));
    }
    lines.sort_by_key(|line| line.1);
    for (index, &(section, line, text)) in lines.iter().enumerate() {
        let Some(captures) = DEFINITION.captures(text) else {
            continue;
        };
        let (Some(argument), Some(body)) = (captures.name("x"), captures.name("body")) else {
            continue;
        };
        let Some(body) = Expression::parse(body.as_str().trim()) else {
            continue;
        };
        let mut names = Vec::new();
        body.names(&mut names);
        let mut parameters = BTreeMap::new();
        for &(other, _, text) in lines[index + 1..].iter().take(20) {
            if other != section {
                break;
            }
            if let Some(captures) = PARAMETER.captures(text)
                && let (Some(name), Some(value)) = (captures.name("name"), captures.name("value"))
                && let Some(quantity) = quantities(value.as_str()).into_iter().next()
            {
                parameters
                    .entry(name.as_str().to_owned())
                    .or_insert(quantity);
            }
        }
        parameters.retain(|name, _| names.contains(name));
        let argument = argument.as_str().to_owned();
        let known = names
            .iter()
            .all(|name| *name == argument || parameters.contains_key(name));
        if known && names.contains(&argument) && !parameters.is_empty() {
            found.push((
                section,
                Model {
                    text: text.trim().to_owned(),
                    line,
                    argument,
                    body,
                    parameters,
                },
            ));
        }
    }
    found
}

impl Model {
    /// The values that rounding of the parameters allows at one argument.
    fn interval(&self, argument: f64) -> Option<(f64, f64)> {
        let mut values: BTreeMap<&str, f64> = self
            .parameters
            .iter()
            .map(|(name, q)| (name.as_str(), q.value))
            .collect();
        values.insert(&self.argument, argument);
        let middle = self.body.value(&values).filter(|v| v.is_finite())?;
        let mut slack = 0.0;
        for (name, quantity) in &self.parameters {
            let mut moved = values.clone();
            moved.insert(name, quantity.value + quantity.half);
            slack += (self.body.value(&moved)? - middle).abs();
        }
        Some((middle - slack, middle + slack))
    }
}

/// An arithmetic expression.
enum Expression {
    Number(f64),
    Name(String),
    Binary(Box<Expression>, char, Box<Expression>),
    Negative(Box<Expression>),
}

impl Expression {
    /// Parses `+ − × / ^`, brackets, names and numbers; anything else is not an expression.
    fn parse(text: &str) -> Option<Self> {
        if text.len() > 300 {
            return None;
        }
        let tokens = tokens(text)?;
        let mut parser = Parser {
            tokens: &tokens,
            at: 0,
            depth: 0,
        };
        let whole = parser.sum()?;
        (parser.at == tokens.len()).then_some(whole)
    }

    fn names(&self, into: &mut Vec<String>) {
        match self {
            Self::Number(_) => {}
            Self::Name(name) => into.push(name.clone()),
            Self::Negative(inner) => inner.names(into),
            Self::Binary(a, _, b) => {
                a.names(into);
                b.names(into);
            }
        }
    }

    fn value(&self, names: &BTreeMap<&str, f64>) -> Option<f64> {
        Some(match self {
            Self::Number(value) => *value,
            Self::Name(name) => *names.get(name.as_str())?,
            Self::Negative(inner) => -inner.value(names)?,
            Self::Binary(a, operator, b) => {
                let (a, b) = (a.value(names)?, b.value(names)?);
                match operator {
                    '+' => a + b,
                    '-' => a - b,
                    '*' => a * b,
                    '/' => a / b,
                    _ => a.powf(b),
                }
            }
        })
    }
}

enum Token {
    Number(f64),
    Name(String),
    Sign(char),
}

fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut found = Vec::new();
    let chars: Vec<char> = text.chars().collect();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        let run =
            |test: &dyn Fn(char) -> bool| chars[at..].iter().take_while(|c| test(**c)).count();
        if c.is_whitespace() {
            at += 1;
        } else if c.is_ascii_digit() {
            let length = run(&|c| c.is_ascii_digit() || c == '.');
            found.push(Token::Number(
                chars[at..at + length]
                    .iter()
                    .collect::<String>()
                    .parse()
                    .ok()?,
            ));
            at += length;
        } else if c.is_alphabetic() {
            let length = run(&|c| c.is_alphanumeric() || c == '_');
            found.push(Token::Name(chars[at..at + length].iter().collect()));
            at += length;
        } else {
            found.push(Token::Sign(match c {
                '×' | '·' | '*' => '*',
                '−' | '-' => '-',
                '÷' | '/' => '/',
                '+' | '(' | ')' | '^' => c,
                _ => return None,
            }));
            at += 1;
        }
    }
    Some(found)
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn sign(&mut self, any: &[char]) -> Option<char> {
        match self.tokens.get(self.at) {
            Some(Token::Sign(sign)) if any.contains(sign) => {
                self.at += 1;
                Some(*sign)
            }
            _ => None,
        }
    }

    fn sum(&mut self) -> Option<Expression> {
        let mut left = self.product()?;
        while let Some(sign) = self.sign(&['+', '-']) {
            left = Expression::Binary(Box::new(left), sign, Box::new(self.product()?));
        }
        Some(left)
    }

    fn product(&mut self) -> Option<Expression> {
        let mut left = self.power()?;
        while let Some(sign) = self.sign(&['*', '/']) {
            left = Expression::Binary(Box::new(left), sign, Box::new(self.power()?));
        }
        Some(left)
    }

    fn power(&mut self) -> Option<Expression> {
        let base = self.atom()?;
        match self.sign(&['^']) {
            Some(sign) => Some(Expression::Binary(
                Box::new(base),
                sign,
                Box::new(self.atom()?),
            )),
            None => Some(base),
        }
    }

    fn atom(&mut self) -> Option<Expression> {
        self.depth += 1;
        if self.depth > 100 {
            return None;
        }
        if self.sign(&['-']).is_some() {
            return Some(Expression::Negative(Box::new(self.atom()?)));
        }
        if self.sign(&['(']).is_some() {
            let inner = self.sum()?;
            self.sign(&[')'])?;
            return Some(inner);
        }
        let atom = match self.tokens.get(self.at)? {
            Token::Number(value) => Expression::Number(*value),
            Token::Name(name) => Expression::Name(name.clone()),
            Token::Sign(_) => return None,
        };
        self.at += 1;
        Some(atom)
    }
}
