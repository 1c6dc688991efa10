//! The conditions sampled during the cells of a stage, and the table `imbalances`.

use artifacts::{Column, Table, TableError};
use conditions::{Compared, Conditions, Measured, Samples};
use pipeline::design::BLOCK;
use rayon::prelude::*;

use crate::study::{Cell, Stage};

/// Compares every condition between every two labels of an axis, paired within blocks, except for
/// those that may differ.
pub(crate) fn imbalances(
    stage: &Stage<'_>,
    across: &str,
    alpha: f64,
    may_differ: &[String],
) -> Vec<Compared> {
    let measured = stage.cells.par_iter().filter_map(|cell| {
        let label = |axis: &str| cell.input.coordinates.get(axis).map(ToString::to_string);
        Some(Measured {
            side: label(across)?,
            unit: label(BLOCK).unwrap_or_default(),
            conditions: sampled(cell)?,
        })
    });
    let measured: Vec<Measured> = measured.collect();
    conditions::compared(&measured, alpha, may_differ)
}

/// Returns the conditions sampled during a cell; `None` if it is not ok.
fn sampled(cell: &Cell<'_>) -> Option<Conditions> {
    let rows = cell.rows()?;
    let table = |name: &str| rows.beside.get(name).map(|(_, table)| table);
    let samples = Samples {
        host: table("host_telemetry"),
        gpu: table("gpu_telemetry"),
        processes: table("process_telemetry"),
        server_host: table("server_host_telemetry"),
        window: cell.fact("window_from_ns").zip(cell.fact("window_to_ns")),
    };
    Some(samples.conditions())
}

/// One row of the table: the load stage, the axis, and the difference.
pub(crate) struct Imbalance<'a> {
    pub(crate) stage: &'a str,
    pub(crate) across: String,
    pub(crate) compared: Compared,
}

/// Makes the table `imbalances`: the sides measured under different conditions.
pub(crate) fn imbalances_table(sides: &[Imbalance<'_>]) -> Result<Table, TableError> {
    let text = |name: &str, meaning: &str, read: &dyn Fn(&Imbalance<'_>) -> String| {
        Column::text(name, sides.iter().map(|i| Some(read(i)))).describe(meaning)
    };
    let columns = vec![
        text("stage", "the load stage", &|i| i.stage.to_owned()),
        text("across", "the axis compared across", &|i| i.across.clone()),
        text("a", "one side", &|i| i.compared.a.clone()),
        text("b", "the other side", &|i| i.compared.b.clone()),
        text("condition", "what differed", &|i| {
            i.compared.name().to_owned()
        }),
        Column::float("mean_a", sides.iter().map(|i| Some(i.compared.mean_a)))
            .describe("mean of the first side over blocks"),
        Column::float("mean_b", sides.iter().map(|i| Some(i.compared.mean_b)))
            .describe("mean of the second side over blocks"),
        Column::float("p", sides.iter().map(|i| i.compared.p)).describe(
            "p of the paired t test over blocks, Holm-adjusted; null with fewer than \
                three blocks",
        ),
        text(
            "reason",
            "why a comparison of these sides is undecidable",
            &|i| i.compared.text(),
        ),
    ];
    Table::with_metadata(
        columns,
        &[
            ("keys", "stage,across,a,b,condition"),
            ("level", "marginal"),
        ],
    )
}
