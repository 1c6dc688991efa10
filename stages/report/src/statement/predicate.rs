//! Predicates: the condition that a statement puts on one row, `breakdown_n >= 8 and verdict = 'different'`.
//!
//! A predicate is typed: numbers are compared only with numbers and texts only with texts, so that no engine's ordering
//! of types decides. Null makes it *unknown* (the logic of SQL), and a statement never takes unknown for true.
//!
//! ```text
//! either  := both { "or" both }
//! both    := not { "and" not }
//! not     := "not" not | test
//! test    := "(" either ")" | value [ compared ]
//! compared := ("<" | "<=" | ">" | ">=" | "=" | "==" | "!=") value
//!           | "is" ["not"] "null" | ["not"] "in" "[" value { "," value } "]"
//!           | ["not"] "between" value "and" value
//! value   := column | number | 'text' | "true" | "false"
//! ```

use std::cmp::Ordering;
use std::fmt;

use artifacts::Scalar;

use super::interval::ValueInterval;
use super::token::{Token, tokens};
use crate::data::Miss;

/// Whether a condition holds, as far as the values show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Truth {
    /// It holds.
    Yes,
    /// It does not hold.
    No,
    /// A value that it depends on is null.
    Unknown,
}

impl Truth {
    pub(crate) fn of(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Unknown => "unknown",
        }
    }

    fn not(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
            Self::Unknown => Self::Unknown,
        }
    }

    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Yes, Self::Yes) => Self::Yes,
            _ => Self::Unknown,
        }
    }

    pub(crate) fn or(self, other: Self) -> Self {
        self.not().and(other.not()).not()
    }
}

/// A parsed predicate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Predicate {
    Either(Box<Self>, Box<Self>),
    Both(Box<Self>, Box<Self>),
    Not(Box<Self>),
    IsNull(Operand),
    Compare(Operand, Comparison, Operand),
    In(Operand, Vec<Operand>),
    Plain(Operand),
}

/// A column or a constant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand {
    Column(String),
    Constant(Scalar),
}

impl Operand {
    /// Adds its column, unless it is a constant or the column is there.
    fn add_to<'a>(&'a self, columns: &mut Vec<&'a str>) {
        if let Self::Column(name) = self
            && !columns.contains(&name.as_str())
        {
            columns.push(name);
        }
    }
}

/// The comparison of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    Different,
}

/// What is wrong with a predicate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PredicateError {
    /// The text is not a predicate.
    Syntax {
        /// The text.
        text: String,
        /// The position of the character, from 1.
        character: usize,
        /// What is wrong there.
        what: String,
    },
    /// A value stands alone, and is not a boolean.
    NotABoolean(Scalar),
    /// Two values have different types.
    Incomparable(Scalar, Scalar),
}

impl PredicateError {
    /// Returns a mistake at the position of a character, from 0.
    pub(super) fn syntax(text: &str, at: usize, what: impl Into<String>) -> Self {
        Self::Syntax {
            text: text.to_owned(),
            character: at + 1,
            what: what.into(),
        }
    }
}

impl fmt::Display for PredicateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax {
                text,
                character,
                what,
            } => write!(f, "predicate `{text}`, character {character}: {what}"),
            Self::NotABoolean(value) => {
                write!(f, "`{value}` is not a boolean; compare it with something")
            }
            Self::Incomparable(a, b) => write!(
                f,
                "`{a}` and `{b}` are of different types and cannot be compared"
            ),
        }
    }
}

impl From<PredicateError> for Miss {
    fn from(error: PredicateError) -> Self {
        Self::Wrong(error.to_string())
    }
}

impl Predicate {
    /// Parses a predicate.
    ///
    /// # Errors
    /// What is wrong, with the position of the character (from 1).
    pub(crate) fn parse(text: &str) -> Result<Self, PredicateError> {
        let mut parser = Parser {
            tokens: tokens(text)?,
            at: 0,
            depth: 0,
            joined: 0,
            text,
        };
        let parsed = parser.either()?;
        match parser.tokens.get(parser.at) {
            None => Ok(parsed),
            Some((_, token)) => Err(parser.wrong(format!("expected the end, found {token}"))),
        }
    }

    /// Returns the columns that it reads, without duplicates.
    pub(crate) fn columns(&self) -> Vec<&str> {
        let mut columns = Vec::new();
        self.visit(&mut |operand| operand.add_to(&mut columns));
        columns
    }

    fn visit<'a>(&'a self, each: &mut impl FnMut(&'a Operand)) {
        match self {
            Self::Either(a, b) | Self::Both(a, b) => {
                a.visit(each);
                b.visit(each);
            }
            Self::Not(inner) => inner.visit(each),
            Self::IsNull(operand) | Self::Plain(operand) => each(operand),
            Self::Compare(a, _, b) => {
                each(a);
                each(b);
            }
            Self::In(operand, options) => {
                each(operand);
                options.iter().for_each(each);
            }
        }
    }

    /// Returns the columns that it compares with constants or with each other, without duplicates.
    pub(super) fn compared(&self) -> Vec<&str> {
        let mut columns = Vec::new();
        self.comparisons(&mut |operand| operand.add_to(&mut columns));
        columns
    }

    fn comparisons<'a>(&'a self, each: &mut impl FnMut(&'a Operand)) {
        match self {
            Self::Either(a, b) | Self::Both(a, b) => {
                a.comparisons(each);
                b.comparisons(each);
            }
            Self::Not(inner) => inner.comparisons(each),
            Self::Compare(..) | Self::In(..) => self.visit(each),
            Self::IsNull(_) | Self::Plain(_) => {}
        }
    }

    /// As [`Predicate::holds`], where a value counts with its interval: a comparison is unknown if it holds for some values in
    /// the intervals and not for others.
    ///
    /// # Errors
    /// As [`Predicate::holds`], or if `interval` fails.
    pub(crate) fn holds_over<E: From<PredicateError>>(
        &self,
        value: &dyn Fn(&str) -> Result<Scalar, E>,
        interval: &dyn Fn(&str) -> Result<ValueInterval, E>,
    ) -> Result<Truth, E> {
        let over = |part: &Self| part.holds_over(value, interval);
        match self {
            Self::Either(a, b) => Ok(over(a)?.or(over(b)?)),
            Self::Both(a, b) => Ok(over(a)?.and(over(b)?)),
            Self::Not(inner) => Ok(over(inner)?.not()),
            Self::IsNull(_) | Self::Plain(_) => self.holds(value),
            Self::In(operand, options) => {
                let mut truth = Truth::No;
                for option in options {
                    let (operand, option) = (operand.clone(), option.clone());
                    truth = truth.or(over(&Self::Compare(operand, Comparison::Equal, option))?);
                }
                Ok(truth)
            }
            Self::Compare(a, how, b) => {
                let truth = self.holds(value)?;
                let around = |operand: &Operand| match operand {
                    Operand::Column(name) => interval(name),
                    Operand::Constant(_) => Ok(ValueInterval::Exact),
                };
                let sides = [around(a)?, around(b)?];
                if truth == Truth::Unknown || sides == [ValueInterval::Exact, ValueInterval::Exact]
                {
                    return Ok(truth);
                }
                let mut spans = [(0.0, 0.0); 2];
                for ((span, side), operand) in spans.iter_mut().zip(sides).zip([a, b]) {
                    let point = match operand {
                        Operand::Column(name) => value(name)?.as_f64(),
                        Operand::Constant(scalar) => scalar.as_f64(),
                    };
                    match side.span(point) {
                        Some(ends) => *span = ends,
                        None => return Ok(Truth::Unknown),
                    }
                }
                Ok(how.over(spans))
            }
        }
    }

    /// Returns whether it holds for a row; `value` returns the row's values.
    ///
    /// # Errors
    /// If values of different types are compared, or `value` fails.
    pub(crate) fn holds<E: From<PredicateError>>(
        &self,
        value: &dyn Fn(&str) -> Result<Scalar, E>,
    ) -> Result<Truth, E> {
        let read = |operand: &Operand| match operand {
            Operand::Column(name) => value(name),
            Operand::Constant(scalar) => Ok(scalar.clone()),
        };
        Ok(match self {
            Self::Either(a, b) => a.holds(value)?.or(b.holds(value)?),
            Self::Both(a, b) => a.holds(value)?.and(b.holds(value)?),
            Self::Not(inner) => inner.holds(value)?.not(),
            Self::IsNull(operand) => Truth::of(read(operand)? == Scalar::Null),
            Self::Plain(operand) => match read(operand)? {
                Scalar::Bool(holds) => Truth::of(holds),
                Scalar::Null => Truth::Unknown,
                other => {
                    return Err(PredicateError::NotABoolean(other).into());
                }
            },
            Self::Compare(a, how, b) => how.apply(&read(a)?, &read(b)?)?,
            Self::In(operand, options) => {
                let left = read(operand)?;
                let mut truth = Truth::No;
                for option in options {
                    truth = truth.or(Comparison::Equal.apply(&left, &read(option)?)?);
                }
                truth
            }
        })
    }
}

impl Comparison {
    /// Whether it holds for two values that may lie anywhere in their intervals.
    fn over(self, [a, b]: [(f64, f64); 2]) -> Truth {
        let possible = [
            (Ordering::Less, a.0 < b.1),
            (Ordering::Equal, a.0 <= b.1 && b.0 <= a.1),
            (Ordering::Greater, a.1 > b.0),
        ];
        let mut holds = possible
            .into_iter()
            .filter(|(_, possible)| *possible)
            .map(|(order, _)| self.admits(order));
        let Some(first) = holds.next() else {
            return Truth::Unknown;
        };
        match holds.all(|other| other == first) {
            true => Truth::of(first),
            false => Truth::Unknown,
        }
    }

    /// Whether it holds if two values have this order.
    fn admits(self, order: Ordering) -> bool {
        match self {
            Self::Less => order == Ordering::Less,
            Self::LessOrEqual => order != Ordering::Greater,
            Self::Greater => order == Ordering::Greater,
            Self::GreaterOrEqual => order != Ordering::Less,
            Self::Equal => order == Ordering::Equal,
            Self::Different => order != Ordering::Equal,
        }
    }

    fn apply(self, a: &Scalar, b: &Scalar) -> Result<Truth, PredicateError> {
        let order = match (a, b) {
            (Scalar::Null, _) | (_, Scalar::Null) => return Ok(Truth::Unknown),
            (Scalar::Text(a), Scalar::Text(b)) => a.cmp(b),
            (Scalar::Bool(a), Scalar::Bool(b)) => a.cmp(b),
            // As doubles, large integers would be rounded.
            (Scalar::Int(a), Scalar::Int(b)) => a.cmp(b),
            _ => match (a.as_f64(), b.as_f64()) {
                (Some(a), Some(b)) => match a.partial_cmp(&b) {
                    Some(order) => order,
                    None => return Ok(Truth::Unknown),
                },
                _ => {
                    return Err(PredicateError::Incomparable(a.clone(), b.clone()));
                }
            },
        };
        Ok(Truth::of(self.admits(order)))
    }
}

/// The most parentheses, and words `not`, that may be open at once: each takes a part of the stack.
const DEEPEST: usize = 200;

/// The most words `and` and `or` of a predicate: each takes a part of the stack when rows are judged.
const MOST_JOINED: usize = 1_000;

struct Parser<'a> {
    tokens: Vec<(usize, Token)>,
    at: usize,
    /// The parentheses and words `not` that are open.
    depth: usize,
    /// The words `and` and `or` read so far.
    joined: usize,
    text: &'a str,
}

impl Parser<'_> {
    fn wrong(&self, what: impl Into<String>) -> PredicateError {
        let end = || self.text.chars().count();
        let at = self.tokens.get(self.at).map_or_else(end, |(at, _)| *at);
        PredicateError::syntax(self.text, at, what)
    }

    fn eat(&mut self, wanted: &Token) -> bool {
        let is_next = self.tokens.get(self.at).is_some_and(|(_, t)| t == wanted);
        self.at += usize::from(is_next);
        is_next
    }

    /// Parses what a parenthesis or `not` opens.
    fn inner(
        &mut self,
        parse: fn(&mut Self) -> Result<Predicate, PredicateError>,
    ) -> Result<Predicate, PredicateError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.wrong(format!("more than {DEEPEST} parts lie within each other")));
        }
        let inner = parse(self)?;
        self.depth -= 1;
        Ok(inner)
    }

    fn word(&mut self, wanted: &str) -> bool {
        self.eat(&Token::Word(wanted.to_owned()))
    }

    /// Reads a word that joins two parts.
    fn joins(&mut self, word: &str) -> Result<bool, PredicateError> {
        let joins = self.word(word);
        self.joined += usize::from(joins);
        match self.joined > MOST_JOINED {
            true => Err(self.wrong(format!(
                "more than {MOST_JOINED} parts are joined; `in [A, B]` takes any number of values"
            ))),
            false => Ok(joins),
        }
    }

    fn either(&mut self) -> Result<Predicate, PredicateError> {
        let mut left = self.both()?;
        while self.joins("or")? {
            left = Predicate::Either(Box::new(left), Box::new(self.both()?));
        }
        Ok(left)
    }

    fn both(&mut self) -> Result<Predicate, PredicateError> {
        let mut left = self.not()?;
        while self.joins("and")? {
            left = Predicate::Both(Box::new(left), Box::new(self.not()?));
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Predicate, PredicateError> {
        if self.word("not") {
            return Ok(Predicate::Not(Box::new(self.inner(Self::not)?)));
        }
        self.test()
    }

    fn test(&mut self) -> Result<Predicate, PredicateError> {
        if self.eat(&Token::Sign("(")) {
            let inner = self.inner(Self::either)?;
            if !self.eat(&Token::Sign(")")) {
                return Err(self.wrong("a `)` is missing"));
            }
            return Ok(inner);
        }
        let left = self.value()?;
        let comparison = match self.tokens.get(self.at) {
            Some((_, Token::Compare(comparison))) => Some(*comparison),
            _ => None,
        };
        if let Some(comparison) = comparison {
            self.at += 1;
            return Ok(Predicate::Compare(left, comparison, self.value()?));
        }
        if self.word("is") {
            let negated = self.word("not");
            if !self.word("null") {
                return Err(self.wrong("`is` must be followed by `null` or `not null`"));
            }
            return Ok(negate(Predicate::IsNull(left), negated));
        }
        let negated = self.word("not");
        if self.word("in") {
            return Ok(negate(Predicate::In(left, self.list()?), negated));
        }
        if self.word("between") {
            let low = self.value()?;
            if !self.word("and") {
                return Err(self.wrong("write `between` as `between LOW and HIGH`"));
            }
            let high = self.value()?;
            let from = Predicate::Compare(left.clone(), Comparison::GreaterOrEqual, low);
            let to = Predicate::Compare(left, Comparison::LessOrEqual, high);
            return Ok(negate(
                Predicate::Both(Box::new(from), Box::new(to)),
                negated,
            ));
        }
        if negated {
            return Err(self.wrong("after a value, `not` must be followed by `in` or `between`"));
        }
        Ok(Predicate::Plain(left))
    }

    fn list(&mut self) -> Result<Vec<Operand>, PredicateError> {
        let mut options = Vec::new();
        if !self.eat(&Token::Sign("[")) {
            return Err(self.wrong("`in` must be followed by a list, such as `in ['a', 'b']`"));
        }
        loop {
            options.push(self.value()?);
            if self.eat(&Token::Sign("]")) {
                return Ok(options);
            }
            if !self.eat(&Token::Sign(",")) {
                return Err(self.wrong("a `]` is missing"));
            }
        }
    }

    fn value(&mut self) -> Result<Operand, PredicateError> {
        let operand = match self.tokens.get(self.at).map(|(_, token)| token) {
            Some(Token::Constant(scalar)) => Operand::Constant(scalar.clone()),
            Some(Token::Word(word)) => match word.as_str() {
                "true" => Operand::Constant(Scalar::Bool(true)),
                "false" => Operand::Constant(Scalar::Bool(false)),
                "and" | "or" | "not" | "is" | "in" | "between" | "null" => {
                    return Err(self.wrong(format!(
                        "expected a column, a number or a 'text', found `{word}`; test for null \
                         with `is null`"
                    )));
                }
                name => Operand::Column(name.to_owned()),
            },
            Some(other) => {
                let token = other.to_string();
                return Err(self.wrong(format!(
                    "expected a column, a number or a 'text', found {token}"
                )));
            }
            None => {
                return Err(
                    self.wrong("it ends where a column, a number or a 'text' should follow")
                );
            }
        };
        self.at += 1;
        Ok(operand)
    }
}

fn negate(predicate: Predicate, negated: bool) -> Predicate {
    if negated {
        Predicate::Not(Box::new(predicate))
    } else {
        predicate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truth(text: &str) -> Truth {
        let value = |name: &str| -> Result<Scalar, Miss> {
            Ok(match name {
                "n" => Scalar::Int(8),
                "x" => Scalar::Float(0.5),
                "name" => Scalar::Text("it's".into()),
                "passed" => Scalar::Bool(true),
                "none" => Scalar::Null,
                other => return Err(format!("no column `{other}`").into()),
            })
        };
        Predicate::parse(text).unwrap().holds(&value).unwrap()
    }

    #[test]
    fn predicates_read_as_they_are_written() {
        for text in [
            "n >= 8",
            "n = 8 and x < 1",
            "n != 7",
            "-1 < x",
            "x between 0.5 and 1e0",
            "not x between 0.6 and 1",
            "x not between 0.6 and 1",
            "name = 'it''s'",
            "name in ['a', \"it's\"]",
            "n not in [1, 2]",
            "passed",
            "passed = true",
            "none is null",
            "n is not null",
            "n = 1 or (n = 8 and not n = 1)",
            "n = 8 or none > 1",
        ] {
            assert_eq!(truth(text), Truth::Yes, "{text}");
        }
        assert_eq!(truth("n = 1 or n = 2 and passed"), Truth::No);
    }

    #[test]
    fn null_makes_a_predicate_unknown_and_never_true() {
        for text in [
            "none > 1",
            "not none > 1",
            "none in [1]",
            "none = none",
            "none != 1",
            "none",
        ] {
            assert_eq!(truth(text), Truth::Unknown, "{text}");
        }
        assert_eq!(truth("none > 1 and n = 1"), Truth::No);
    }

    #[test]
    fn a_mistake_is_reported_with_its_character() {
        for (text, at) in [
            ("n >=", 5),
            ("n > > 1", 5),
            ("(n > 1", 7),
            ("n ~ 1", 3),
            ("n in 1", 6),
            ("n > 1 x", 7),
            ("n = null", 5),
        ] {
            let error = Predicate::parse(text).unwrap_err();
            assert!(
                matches!(&error, PredicateError::Syntax { character, .. } if *character == at),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn large_integers_are_compared_without_rounding() {
        let value = |_: &str| -> Result<Scalar, Miss> { Ok(Scalar::Int(9_007_199_254_740_993)) };
        let truth = |text: &str| Predicate::parse(text).unwrap().holds(&value).unwrap();
        assert_eq!(truth("x = 9007199254740993"), Truth::Yes);
        assert_eq!(truth("x = 9007199254740992"), Truth::No);
        assert_eq!(truth("x > 9007199254740992"), Truth::Yes);
        assert_eq!(truth("x in [9007199254740992]"), Truth::No);
    }

    #[test]
    fn deep_predicates_are_refused() {
        for (open, close) in [("(", ")"), ("not ", "")] {
            let nested = |depth: usize| {
                let text = format!("{}n = 8{}", open.repeat(depth), close.repeat(depth));
                Predicate::parse(&text)
            };
            assert!(nested(DEEPEST).is_ok());
            for depth in [DEEPEST + 1, 60_000] {
                let error = nested(depth).unwrap_err().to_string();
                assert!(error.ends_with("more than 200 parts lie within each other"));
            }
        }
        for join in [" and ", " or "] {
            let parts = |count: usize| Predicate::parse(&vec!["n = 8"; count].join(join));
            assert!(parts(MOST_JOINED + 1).is_ok());
            let error = parts(60_000).unwrap_err().to_string();
            assert!(error.contains("more than 1000 parts are joined"), "{error}");
        }
    }

    #[test]
    fn values_of_different_types_are_not_compared() {
        let value = |_: &str| -> Result<Scalar, Miss> { Ok(Scalar::Text("a".into())) };
        assert!(Predicate::parse("name > 3").unwrap().holds(&value).is_err());
        assert!(Predicate::parse("name").unwrap().holds(&value).is_err());
    }
}
