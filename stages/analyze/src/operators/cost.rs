//! `cost`: the cost of a million tokens, or of a thousand requests, at a declared price.

use artifacts::Scalar;
use contract::IntervalEnd;
use pipeline::{Failure, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::columns::Columns;
use crate::frame::{Frame, Spec, spans};
use crate::operator::{Context, Draft, TypedOperator, unless};
use crate::operators::alike::follow;
use crate::operators::of_row::{OfRow, above_zero, counted, place, text_of};
use crate::operators::units::{WHY, interval_beside};

pub(crate) struct Cost;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The table that holds the throughput.
    from: String,
    /// The throughput in tokens or requests per second; by default `output_throughput`.
    #[serde(default = "output_throughput")]
    column: String,
    /// The number of devices that are paid for: all devices of the deployment, busy or not. If rows
    /// differ, `{column: NAME}` names the column of `from` that has it.
    devices: OfRow<u32>,
    /// The hourly price of one device, with everything included, or its column.
    price_per_hour: OfRow<f64>,
    /// The currency of the price, as in `USD`.
    currency: String,
    /// The day on which the price was offered, as in `2026-01-31`, or its column.
    price_date: OfRow<String>,
    /// Who offered it, and under which terms, or the column of the offers.
    price_source: OfRow<String>,
}

fn output_throughput() -> String {
    "output_throughput".to_owned()
}

/// What is sold, by the unit of the throughput.
#[derive(Clone, Copy)]
struct Sold {
    /// The column of the cost.
    cost: &'static str,
    what: &'static str,
    /// How many of them have the price, as a number and in words.
    count: (f64, &'static str),
}

impl Sold {
    const TOKENS: Self = Self {
        cost: "cost_per_million_tokens",
        what: "tokens",
        count: (1e6, "10⁶"),
    };
    const REQUESTS: Self = Self {
        cost: "cost_per_thousand_requests",
        what: "requests",
        count: (1e3, "10³"),
    };

    fn by_unit(unit: Option<&str>) -> Option<Self> {
        match unit {
            Some("tok/s") => Some(Self::TOKENS),
            Some("req/s") => Some(Self::REQUESTS),
            _ => None,
        }
    }
}

/// The throughput of a row, and the hourly cost of its devices.
struct Priced {
    sold: Sold,
    rate: Option<f64>,
    /// The interval of the throughput, if its table has one.
    interval: Result<(f64, f64), String>,
    devices: Option<u32>,
    /// The hourly price of all devices.
    per_hour: Option<f64>,
    date: Scalar,
    source: Scalar,
}

impl Priced {
    fn cost(&self) -> Option<f64> {
        self.at(self.rate?)
    }

    /// Without tokens nothing was bought, so there is no price per token.
    fn at(&self, rate: f64) -> Option<f64> {
        let per_hour = self.per_hour?;
        (rate > 0.0).then(|| per_hour * self.sold.count.0 / (rate * 3600.0))
    }

    /// Returns why an end of the interval is missing.
    fn why(&self, column: &str) -> Option<String> {
        match &self.interval {
            Err(why) => Some(why.clone()),
            Ok((low, _)) if *low <= 0.0 && self.cost().is_some() => Some(format!(
                "the interval of {column} reaches 0, so nothing limits the cost"
            )),
            Ok(_) => None,
        }
    }
}

fn columns(spec: &Spec, sold: Sold, given: &Parameters) -> Columns<'static, Priced> {
    let (name, unit) = (&spec.name, spec.unit.clone().unwrap_or_default());
    let currency = given.currency.clone();
    let hourly = format!(
        "{} device(s) at {} {currency} an hour each",
        given.devices.words(),
        given.price_per_hour.words()
    );
    let cost = Spec::float(
        sold.cost,
        &currency,
        format!(
            "price_per_hour · {} ÷ ({name} · 3600); null without {}",
            sold.count.1, sold.what
        ),
    )
    .at_level(spec.interval_level);
    let end = |which: IntervalEnd, source_end: IntervalEnd| {
        let what = which.of(format!(
            "the interval of the cost, at the {source_end} end of that of {name}"
        ));
        format!("{what}; null if its table has none")
    };
    let (low, high) = (
        end(IntervalEnd::Lower, IntervalEnd::Upper),
        end(IntervalEnd::Upper, IntervalEnd::Lower),
    );
    Columns::new()
        .with(spec.like(name, spec.description.clone()), |p: &Priced| {
            p.rate
        })
        .with(
            Spec::int("devices", "1", "devices that are paid for"),
            |p| p.devices.map(i64::from),
        )
        .with(
            Spec::float(
                format!("{name}_per_device"),
                &unit,
                format!("{name} ÷ devices"),
            ),
            |p| Some(p.rate? / f64::from(p.devices?)),
        )
        .with(Spec::float("price_per_hour", &currency, hourly), |p| {
            p.per_hour
        })
        .with(
            Spec::text("price_date", "the day on which the price was offered"),
            |p| p.date.clone(),
        )
        .with(
            Spec::text("price_source", "who offered it, and under which terms"),
            |p| p.source.clone(),
        )
        .with(cost.clone(), Priced::cost)
        .with(cost.like(format!("{}_low", sold.cost), low), |p| {
            p.at(p.interval.as_ref().ok()?.1)
        })
        .with(cost.like(format!("{}_high", sold.cost), high), |p| {
            p.at(p.interval.as_ref().ok()?.0)
        })
        .with(Spec::text(format!("{}_why", sold.cost), WHY), {
            let name = name.clone();
            move |p: &Priced| p.why(&name)
        })
}

/// The units of what has a price.
const UNITS: &str = "tokens or requests per second";

fn unpriced(spec: &Spec, draft: &Draft<'_>) -> Problem {
    let unit = spec.unit.as_deref().unwrap_or_default();
    let message = format!(
        "`{}` is in {unit}, and {UNITS} have a price here",
        spec.name
    );
    draft.problem("column", message).hint(
        "write, for example, `output_throughput`, `total_throughput`, `request_throughput`, or `goodput` of a table \
         that the operator `goodput` makes",
    )
}

/// Whether the text is a day of the calendar: `YYYY-MM-DD`.
fn is_day(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else {
        return false;
    };
    let number = |part: &str, digits: usize| {
        let whole = part.len() == digits && part.bytes().all(|b| b.is_ascii_digit());
        whole.then(|| part.parse::<u32>().ok()).flatten()
    };
    let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2))
    else {
        return false;
    };
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

impl TypedOperator for Cost {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "cost";
    const SUMMARY: &'static str = "The cost of a million tokens, or of a thousand requests, at a declared price of the devices, with the date and source of the price.";
    const SOURCE: &'static str = "\
        The cost is the price of all devices for an hour ÷ the tokens or requests in an hour at the measured \
        throughput. This assumes that the deployment always has this load. Idle hours, other services and discounts \
        count only if the price includes them.\n\n\
        The column says what is paid for. `output_throughput` counts output tokens only, so they carry the cost of \
        their prompts, too. `total_throughput` counts prompt and output tokens alike, as one price for both. The two \
        costs differ by the factor that prompts add to the tokens: never compare one with the other. \
        `request_throughput` gives the cost of a thousand answered requests, and `goodput`, from the operator \
        [`goodput`](#goodput), the cost of a thousand requests that meet an objective.\n\n\
        Prices change, so the table repeats the source and the date of the price. If the throughput is a mean over \
        units with an interval, as `aggregate` computes it, the cost has an interval too.";

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let mut problems = Vec::new();
        if given.devices.all() == Some(&0) {
            problems.push(draft.problem("devices", "there is at least one device"));
        }
        let is_price = |price: &f64| price.is_finite() && *price > 0.0;
        if given.price_per_hour.all().is_some_and(|p| !is_price(p)) {
            problems.push(draft.problem("price-per-hour", "a price is a number above 0"));
        }
        if let Some(day) = given.price_date.all().filter(|day| !is_day(day)) {
            let message = format!("`{day}` is not a day");
            let problem = draft.problem("price-date", message);
            problems.push(problem.hint("write it as in `2026-01-31`"));
        }
        let short = |text: &str| !text.trim().is_empty() && text.chars().count() <= 12;
        if !short(&given.currency) {
            let problem = draft.problem("currency", "a currency is a short word");
            problems.push(problem.hint("write, for example, `USD`"));
        }
        let unnamed = |source: &String| source.trim().is_empty();
        if given.price_source.all().is_some_and(unnamed) {
            let problem = draft.problem("price-source", "a price has a source");
            problems.push(problem.hint("say who offered it, and under which terms"));
        }
        let from = &given.from;
        for (key, column) in [
            ("price-date", &given.price_date),
            ("price-source", &given.price_source),
        ] {
            problems.extend(column.text_problems(draft, from, key));
        }
        problems.extend(given.devices.number_problems(draft, from, "devices"));
        let price = &given.price_per_hour;
        problems.extend(price.number_problems(draft, from, "price-per-hour"));
        match draft.column(from, &given.column) {
            Ok(spec) => match Sold::by_unit(spec.unit.as_deref()) {
                Some(sold) => unless(problems, || columns(&spec, sold, given).specs()),
                None => {
                    problems.push(unpriced(&spec, draft));
                    Err(problems)
                }
            },
            Err(more) => Err(problems.into_iter().chain(more).collect()),
        }
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let from = context.table(&given.from)?;
        let spec = from.declared(&given.column)?;
        // Planning refuses any other unit.
        let sold = Sold::by_unit(spec.unit.as_deref()).unwrap_or(Sold::TOKENS);
        let columns = columns(&spec, sold, given);
        let priced = |row| {
            let devices = counted(&given.devices, from, row, "devices")?;
            let price = above_zero(&given.price_per_hour, from, row, "price-per-hour")?;
            let date = text_of(&given.price_date, from, row);
            if let Scalar::Text(day) = &date
                && !is_day(day)
            {
                let message = format!("`price-date` is `{day}` in row {}", place(from, row));
                return Err(Failure::failed(message).hint("write days as in `2026-01-31`"));
            }
            Ok(Priced {
                sold,
                rate: from.number(row, &given.column),
                interval: interval_beside(from, row, &given.column),
                devices,
                per_hour: devices.zip(price).map(|(n, price)| f64::from(n) * price),
                date,
                source: text_of(&given.price_source, from, row),
            })
        };
        let rows = (0..from.rows.len()).map(|row| {
            let key = from.rows[row].key.clone();
            Ok(columns.row(key, &priced(row)?, spans(&given.from, [row])))
        });
        Ok(Frame {
            level: from.level,
            keys: from.keys.clone(),
            rows: rows.collect::<Result<_, Failure>>()?,
            specs: follow(columns.specs(), &given.from, |_| &given.column),
            missing: from.missing.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_one_of_the_calendar() {
        for day in ["2026-01-31", "2024-02-29", "2000-02-29"] {
            assert!(is_day(day), "{day}");
        }
        for other in [
            "2026-02-29",
            "1900-02-29",
            "2026-13-01",
            "2026-1-31",
            "31.01.2026",
            "2026-04-31",
            "",
        ] {
            assert!(!is_day(other), "{other}");
        }
    }

    #[test]
    fn a_million_tokens_cost_what_their_share_of_an_hour_costs() {
        // 1,000 tok/s are 3.6 million tokens an hour, for 7.20.
        let priced = |rate| Priced {
            sold: Sold::TOKENS,
            rate,
            interval: Ok((500.0, 2000.0)),
            devices: Some(2),
            per_hour: Some(7.2),
            date: Scalar::Null,
            source: Scalar::Null,
        };
        assert!((priced(Some(1000.0)).cost().unwrap() - 2.0).abs() < 1e-12);
        assert_eq!(priced(Some(0.0)).cost(), None);
        // Half the tokens cost twice as much each.
        let (low, high) = priced(None).interval.unwrap();
        assert_eq!(priced(None).at(low), Some(4.0));
        assert_eq!(priced(None).at(high), Some(1.0));
        assert_eq!(priced(None).cost(), None);
    }
}
