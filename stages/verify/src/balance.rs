//! The conditions of the sides of a comparison against each other, and the table `imbalances`.

use std::collections::BTreeMap;

use artifacts::{Column, Table, TableError};
use statistics::{Sample, holm, student_two_sided};

use crate::conditions::{CONDITIONS, Condition, of_cell};
use crate::gate::show;
use crate::study::Stage;

/// One condition on two sides.
pub(crate) struct Compared {
    pub(crate) across: String,
    pub(crate) a: String,
    pub(crate) b: String,
    condition: &'static Condition,
    mean_a: f64,
    mean_b: f64,
    /// The p value over blocks, adjusted; `None` without blocks enough.
    p: Option<f64>,
    /// Whether the sides were measured under other conditions.
    pub(crate) differs: bool,
}

impl Compared {
    /// Says what differs and by how much.
    pub(crate) fn text(&self) -> String {
        let p = self.p.map_or(String::new(), |p| format!("; p {}", show(p)));
        format!(
            "{}: {} with {}, {} with {} ({}){p}",
            self.condition.name,
            show(self.mean_a),
            self.a,
            show(self.mean_b),
            self.b,
            self.condition.what
        )
    }
}

/// From how many blocks on a test is worth its name.
const BLOCKS: usize = 3;

/// Without a test the sides must differ by so many times what matters.
const UNTESTED: f64 = 2.0;

/// Compares every condition between every two labels of an axis.
pub(crate) fn compared(stage: &Stage<'_>, across: &str, alpha: f64) -> Vec<Compared> {
    // By side, then by block: the conditions of the cells.
    type Blocks = BTreeMap<String, Vec<Vec<Option<f64>>>>;
    let mut sides: BTreeMap<String, Blocks> = BTreeMap::new();
    for cell in stage.cells.iter().filter(|c| c.rows.is_some()) {
        let label = |axis: &str| cell.input.coordinates.get(axis).map(ToString::to_string);
        let Some(side) = label(across) else { continue };
        let blocks = sides.entry(side).or_default();
        blocks
            .entry(label("block").unwrap_or_default())
            .or_default()
            .push(of_cell(cell));
    }
    let labels: Vec<&String> = sides.keys().collect();
    let mut all = Vec::new();
    for (i, a) in labels.iter().enumerate() {
        for b in &labels[i + 1..] {
            for (at, condition) in CONDITIONS.iter().enumerate() {
                let pairs: Vec<(f64, f64)> = sides[*a]
                    .iter()
                    .filter_map(|(block, cells)| {
                        Some((mean(cells, at)?, mean(sides[*b].get(block)?, at)?))
                    })
                    .collect();
                if !pairs.is_empty() {
                    all.push(one(across, a, b, condition, &pairs));
                }
            }
        }
    }
    let tested: Vec<f64> = all.iter().filter_map(|c| c.p).collect();
    let mut adjusted = holm(&tested).into_iter();
    for compared in &mut all {
        let beyond = compared
            .condition
            .bound
            .exceeded(compared.mean_a, compared.mean_b);
        compared.p = compared.p.and_then(|_| adjusted.next());
        compared.differs = match compared.p {
            Some(p) => beyond > 1.0 && p <= alpha,
            None => beyond > UNTESTED,
        };
    }
    all
}

fn mean(cells: &[Vec<Option<f64>>], condition: usize) -> Option<f64> {
    let values: Vec<f64> = cells.iter().filter_map(|c| c[condition]).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn one(
    across: &str,
    a: &str,
    b: &str,
    condition: &'static Condition,
    pairs: &[(f64, f64)],
) -> Compared {
    let n = pairs.len() as f64;
    let sum = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / n;
    let differences = Sample::new(pairs.iter().map(|(x, y)| x - y)).ok();
    let p = differences.filter(|_| pairs.len() >= BLOCKS).and_then(|d| {
        let spread = d.std()?;
        Some(match (spread > 0.0, d.mean() != 0.0) {
            (true, _) => student_two_sided(d.mean() / (spread / n.sqrt()), n - 1.0),
            // The same difference in every block is no chance.
            (false, true) => 0.0,
            (false, false) => 1.0,
        })
    });
    Compared {
        across: across.to_owned(),
        a: a.to_owned(),
        b: b.to_owned(),
        condition,
        mean_a: sum(|p| p.0),
        mean_b: sum(|p| p.1),
        p,
        differs: false,
    }
}

/// Makes the table `imbalances`: the sides that were measured under other conditions.
pub(crate) fn imbalances_table(found: &[(&str, Compared)]) -> Result<Table, TableError> {
    let text = |name: &str, meaning: &str, of: &dyn Fn(&str, &Compared) -> String| {
        Column::text(name, found.iter().map(|(stage, c)| Some(of(stage, c)))).describe(meaning)
    };
    let columns = vec![
        text("stage", "the load stage", &|stage, _| stage.to_owned()),
        text("across", "the axis compared across", &|_, c| {
            c.across.clone()
        }),
        text("a", "one side", &|_, c| c.a.clone()),
        text("b", "the other side", &|_, c| c.b.clone()),
        text("condition", "what differed", &|_, c| {
            c.condition.name.to_owned()
        }),
        Column::float("mean_a", found.iter().map(|(_, c)| Some(c.mean_a)))
            .describe("the mean over blocks of the first side"),
        Column::float("mean_b", found.iter().map(|(_, c)| Some(c.mean_b)))
            .describe("the same of the second"),
        Column::float("p", found.iter().map(|(_, c)| c.p))
            .describe("paired t test over blocks, Holm-adjusted; null without three blocks"),
        text(
            "reason",
            "why a comparison of these sides is undecidable",
            &|_, c| c.text(),
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
