//! The parameters that each address takes, as the description of the API states them. What an address does not take is
//! refused: if it were ignored, the answer would be one to another question.

use std::sync::LazyLock;

use pipeline::suggest::{any_of, remedy};
use serde_json::Value;

use crate::assets::OPENAPI;
use crate::error::Failure;
use crate::request::Ask;

/// An address below `/api/v1`.
struct Address {
    /// As it is described: `/studies/{study}/sql`.
    written: String,
    parameters: Vec<Parameter>,
}

struct Parameter {
    /// Its name. After a dot, capitals stand for any name: `eq.COLUMN`.
    name: String,
    form: Form,
}

/// Which values a parameter takes.
enum Form {
    Text,
    Number,
    /// A whole number from the first to the second one.
    Whole(i64, i64),
    OneOf(Vec<String>),
}

static ADDRESSES: LazyLock<Vec<Address>> = LazyLock::new(|| {
    let document: Value =
        serde_json::from_str(OPENAPI).expect("the description of the API is JSON");
    let paths = document["paths"].as_object().into_iter().flatten();
    let address = |(written, methods): (&String, &Value)| {
        let all = methods["get"]["parameters"]
            .as_array()
            .into_iter()
            .flatten();
        let described = all.map(|parameter| match parameter["$ref"].as_str() {
            Some(place) => document
                .pointer(place.trim_start_matches('#'))
                .unwrap_or(parameter),
            None => parameter,
        });
        let asked = described.filter(|parameter| parameter["in"] == "query");
        Address {
            written: written.clone(),
            parameters: asked.map(Parameter::of).collect(),
        }
    };
    paths.map(address).collect()
});

impl Parameter {
    fn of(described: &Value) -> Self {
        let schema = &described["schema"];
        let bound = |name: &str, otherwise| schema[name].as_i64().unwrap_or(otherwise);
        let form = match (schema["enum"].as_array(), schema["type"].as_str()) {
            (Some(words), _) => {
                let words = words.iter().filter_map(Value::as_str);
                Form::OneOf(words.map(str::to_owned).collect())
            }
            (None, Some("integer")) => {
                Form::Whole(bound("minimum", i64::MIN), bound("maximum", i64::MAX))
            }
            (None, Some("number")) => Form::Number,
            (None, _) => Form::Text,
        };
        let name = described["name"].as_str().unwrap_or_default().to_owned();
        Self { name, form }
    }

    fn is_named(&self, name: &str) -> bool {
        match self.name.split_once('.') {
            Some((family, _)) => name
                .strip_prefix(family)
                .and_then(|rest| rest.strip_prefix('.'))
                .is_some_and(|rest| !rest.is_empty()),
            None => self.name == name,
        }
    }

    /// Returns what its value must be, unless this text is one.
    fn refuses(&self, text: &str) -> Option<String> {
        let whole = |least: &i64, most: &i64| match (*least, *most) {
            (i64::MIN, i64::MAX) => "a whole number".to_owned(),
            (least, i64::MAX) => format!("a whole number of at least {least}"),
            (least, most) => format!("a whole number from {least} to {most}"),
        };
        match &self.form {
            Form::Text => None,
            Form::Number => {
                let number = text.parse::<f64>().is_ok_and(f64::is_finite);
                (!number).then(|| "a number".to_owned())
            }
            Form::Whole(least, most) => {
                let number = text.parse::<i64>();
                let fits = number.is_ok_and(|number| (*least..=*most).contains(&number));
                (!fits).then(|| whole(least, most))
            }
            Form::OneOf(words) => (!words.iter().any(|word| word == text)).then(|| any_of(words)),
        }
    }
}

/// Checks the parameters of a question to the API.
///
/// # Errors
/// If its address does not take one of them, if one is given twice, if a value has another form, or if a range ends before
/// it begins.
pub(crate) fn check(ask: &Ask) -> Result<(), Failure> {
    let ["api", "v1", path @ ..] = &*ask.path.iter().map(String::as_str).collect::<Vec<_>>() else {
        return Ok(());
    };
    let is_asked = |address: &&Address| {
        let written: Vec<&str> = address
            .written
            .split('/')
            .skip(1)
            .filter(|s| !s.is_empty())
            .collect();
        let alike = |(written, asked): (&&str, &&str)| written.starts_with('{') || written == asked;
        written.len() == path.len() && written.iter().zip(path).all(alike)
    };
    // What does not exist is reported as such.
    let Some(address) = ADDRESSES.iter().find(is_asked) else {
        return Ok(());
    };
    for (at, (name, value)) in ask.parameters.iter().enumerate() {
        let taken = address.parameters.iter().find(|p| p.is_named(name));
        let Some(parameter) = taken else {
            return Err(unknown(name, address));
        };
        if ask.parameters[..at].iter().any(|(other, _)| other == name) {
            let message = format!("`{name}` is given twice");
            return Err(Failure::question(message, "give it once"));
        }
        if let Some(form) = parameter.refuses(value) {
            let message = format!("`{name}={value}` is not valid: `{name}` is {form}");
            return Err(Failure::question(
                message,
                "`/api/v1/openapi.json` describes the parameters",
            ));
        }
    }
    let number = |name| ask.get(name).and_then(|text| text.parse::<i64>().ok());
    if let (Some(from), Some(to)) = (number("from"), number("to"))
        && from > to
    {
        let message = format!("`from={from}&to={to}` is a range that ends before it begins");
        return Err(Failure::question(
            message,
            format!("`from={to}&to={from}`?"),
        ));
    }
    Ok(())
}

fn unknown(name: &str, address: &Address) -> Failure {
    let message = format!("`{}` has no parameter `{name}`", address.written);
    let names = address.parameters.iter().map(|p| p.name.as_str());
    Failure::question(
        message,
        match address.parameters.is_empty() {
            true => "this address takes no parameters".to_owned(),
            false => remedy(name, "parameters", names),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(target: &str) -> Option<Failure> {
        check(&Ask::parse(target).unwrap()).err()
    }

    #[test]
    fn what_an_address_takes_is_answered_and_anything_else_is_a_bad_question() {
        for good in [
            "/",
            "/app.js?v=1",
            "/api/v1/nowhere?a=1",
            "/api/v1/studies",
            "/api/v1/studies/a%2Fb/tables/x.y?from=5&to=5&order=asc&eq.clients=4&eq.rep=1&contains=",
            "/api/v1/studies/a/activity?stage=s&cell=&from=-5&to=7&moments=2",
            "/api/v1/studies/a/distribution?stage=s&only.engine=b&by=",
            "/api/v1/studies/a/compare?with=b&alpha=0.01",
            "/api/v1/studies/a/sql?query=select+1&format=csv",
        ] {
            assert_eq!(refused(good), None, "{good}");
        }
        for (wrong, reason, remedy) in [
            ("tables/t?rows=5..1", "no parameter `rows`", "from"),
            ("tables/t?fromat=csv", "no parameter `fromat`", "`format`"),
            (
                "tables/t?from=5&to=1",
                "ends before it begins",
                "from=1&to=5",
            ),
            ("tables/t?from=-1", "a whole number of at least 0", ""),
            ("tables/t?from=", "a whole number", ""),
            ("tables/t?from=1&from=2", "given twice", "once"),
            ("tables/t?eq.a=1&eq.a=2", "given twice", "once"),
            ("tables/t?eq.=1", "no parameter `eq.`", ""),
            ("tables/t?order=down", "asc or desc", ""),
            ("tables/t?to=99999999999999999999", "a whole number", ""),
            ("activity?stage=s&from=5.5", "a whole number", ""),
            ("activity?stage=s&from=9&to=-9", "ends before it begins", ""),
            ("activity?stage=s&moments=1", "from 2 to 4000", ""),
            ("compare?with=b&alpha=nan", "a number", ""),
            (
                "cells?stage=s",
                "no parameter `stage`",
                "this address takes no parameters",
            ),
        ] {
            let failure = refused(&format!("/api/v1/studies/a/{wrong}")).unwrap();
            assert_eq!(failure.reply().status, 400, "{wrong}");
            assert!(failure.message.contains(reason), "{wrong}: {failure:?}");
            assert!(failure.hint.contains(remedy), "{wrong}: {failure:?}");
        }
        assert!(refused("/api/v1/runs/r/events?from=x").is_some());
    }
}
