//! `paired-deltas`: one row per coordinate at which both sides were measured.

use pipeline::{Failure, Json, Problem};
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frame::{Frame, Level, Row, Spec, count, number, spans};
use crate::operator::{Context, Operator, Plan, Scope, at, items, parameters};
use crate::operators::pairs::{Sides, matched};

pub(crate) struct PairedDeltas;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parameters {
    /// The table that holds both sides.
    from: String,
    /// The two sides: axis and labels.
    pair: Sides,
    /// Axes averaged on each side before pairing; every other key is matched.
    #[serde(default)]
    average: Vec<String>,
    /// The columns compared.
    columns: Vec<String>,
}

fn columns(of: &[Spec], sides: &Sides) -> Vec<Spec> {
    let (a, b) = sides.labels();
    let mut columns = vec![
        Spec::int("n_a", "1", format!("rows averaged on the side {a}")),
        Spec::int("n_b", "1", format!("rows averaged on the side {b}")),
    ];
    for spec in of {
        let (name, unit) = (&spec.name, spec.unit.as_deref().unwrap_or_default());
        columns.extend([
            spec.like(format!("{name}_a"), format!("{name} of {a}")),
            spec.like(format!("{name}_b"), format!("{name} of {b}")),
            Spec::float(
                format!("{name}_delta"),
                unit,
                format!("{name} of {a} − {name} of {b}"),
            ),
            Spec::float(
                format!("{name}_ratio"),
                "1",
                format!("{name} of {a} ÷ {name} of {b}; null if that is 0"),
            )
            .over(&a, &b),
        ]);
    }
    columns
}

impl Operator for PairedDeltas {
    fn name(&self) -> &'static str {
        "paired-deltas"
    }

    fn summary(&self) -> &'static str {
        "Delta (a − b) and ratio (a ÷ b) at every coordinate at which both sides were measured."
    }

    fn source(&self) -> &'static str {
        "The sign convention is a − b, the base of the ratio is b."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let given: Parameters = settings.read()?;
        let wanted = items("columns", &given.columns);
        let found = scope.numbers(settings, (&at("from"), &given.from), &wanted)?;
        Ok(Plan {
            columns: columns(&found, &given.pair),
            parameters: rows::canonical(&given),
        })
    }

    fn run(&self, given: &Json, context: &Context<'_>) -> Result<Frame, Failure> {
        let given: Parameters = parameters(given)?;
        let from = context.table(&given.from)?;
        let matched = matched(
            from,
            &given.from,
            &given.pair,
            &given.average,
            &given.columns,
        )?;
        let specs: Vec<Spec> = given
            .columns
            .iter()
            .filter_map(|c| from.spec(c).cloned())
            .collect();
        let rows = matched.pairs.into_iter().map(|pair| {
            let mut values = vec![count(pair.rows[0].len()), count(pair.rows[1].len())];
            for (a, b) in pair.a.iter().zip(&pair.b) {
                let both = a.zip(*b);
                let ratio = both.filter(|(_, b)| *b != 0.0).map(|(a, b)| a / b);
                values.extend([
                    number(*a),
                    number(*b),
                    number(both.map(|(a, b)| a - b)),
                    number(ratio),
                ]);
            }
            Row {
                key: pair.key,
                values,
                lineage: spans(&given.from, pair.rows.concat()),
            }
        });
        Ok(Frame {
            level: Level::Marginal,
            keys: matched.keys,
            specs: columns(&specs, &given.pair),
            rows: rows.collect(),
            missing: matched.missing,
        })
    }
}
