//! Sides of comparisons that were measured one after the other.

use artifacts::Scalar;
use artifacts::json::plain;
use conditions::{FirstInEach, Order, Start};
use pipeline::Coordinates;
use pipeline::design::BLOCK;
use pipeline::place::Condition;
use pipeline::stage::Json;

use crate::data::{Data, Miss};

/// The sides of a comparison: their axis, their labels, and the unit axes.
#[derive(PartialEq)]
struct Sides {
    axis: String,
    labels: [String; 2],
    unit: Vec<String>,
}

impl Sides {
    /// Whether blocks are units of the comparison, as they are unless it names others.
    fn in_blocks(&self) -> bool {
        self.unit.iter().any(|axis| axis == BLOCK)
    }
}

/// Returns a sentence for every two sides of a load that a table compares and that were measured one after the other: in the
/// whole study, or in each of its blocks.
///
/// # Errors
/// If the cells of the load are not read yet, or are not what their records say.
pub(crate) fn out_of_turn(data: &Data, spec: &Json, load: &str) -> Result<Vec<String>, Miss> {
    let name = format!("{load}.cell");
    let compared = compared(spec, load);
    if compared.is_empty() || !data.has(&name) {
        return Ok(Vec::new());
    }
    let cells = data.view(&name, &Condition::default())?;
    let mut sentences: Vec<String> = Vec::new();
    for sides in &compared {
        let [a, b] = &sides.labels;
        let mut starts = Vec::new();
        for row in 0..cells.rows.len() {
            let at = cells.row_key(row).0.into_iter();
            let at = at.filter_map(|(axis, label)| Some((axis, label.into_iter().next()?)));
            let at = Coordinates(at.collect());
            let side = at.get(&sides.axis).map(ToString::to_string);
            let Some(side) = side.filter(|side| side == a || side == b) else {
                continue;
            };
            let Scalar::Int(unix_ns) = cells.get(row, "started_unix_ns")? else {
                continue;
            };
            let own = |axis: &str| axis == sides.axis || sides.unit.iter().any(|unit| unit == axis);
            starts.push(Start {
                first: side == *a,
                unit: sides
                    .in_blocks()
                    .then(|| at.get(BLOCK).map(ToString::to_string))
                    .flatten(),
                at: at.without(own).to_string(),
                unix_ns,
            });
        }
        let axis = &sides.axis;
        if sides.in_blocks() {
            if let Some(lead) = FirstInEach::of(&starts) {
                let blocks = lead.units;
                let [first, second] = lead.sorted([a, b]);
                sentences.push(format!(
                    "in each of the {blocks} blocks, the cells of {axis} {second} were measured after those of {axis} {first}, so a \
                     comparison of the two contains any drift of the machine within a block; `order: abba` in `design` changes \
                     their order from block to block"
                ));
            }
            continue;
        }
        let order = Order::of(&starts).filter(|order| !order.in_turns());
        if let Some([first, second]) = order.map(|order| order.sorted([a, b])) {
            sentences.push(format!(
                "the cells of {axis} {second} were measured after those of {axis} {first}, so a comparison of the two \
                 contains any drift of the machine; `design: {{blocks: N}}` measures them in turns"
            ));
        }
    }
    sentences.sort();
    sentences.dedup();
    Ok(sentences)
}

/// Returns the sides that tables of a study compare in cells of a load.
fn compared(spec: &Json, load: &str) -> Vec<Sides> {
    let names = |value: &Json| -> Vec<String> {
        let names = value.as_array().into_iter().flatten();
        names.filter_map(Json::as_str).map(str::to_owned).collect()
    };
    let mut all: Vec<Sides> = Vec::new();
    for stage in spec["stages"].as_object().into_iter().flatten() {
        let stage = stage.1;
        if stage["kind"] != "analyze" || !names(&stage["needs"]).iter().any(|name| name == load) {
            continue;
        }
        let tables = stage["settings"]["tables"].as_object();
        for table in tables.into_iter().flatten().map(|(_, table)| table) {
            let (pair, mut unit) = (&table["pair"], names(&table["unit"]));
            if unit.is_empty() {
                unit.push(BLOCK.to_owned());
            }
            let Some(axis) = pair["axis"].as_str() else {
                continue;
            };
            let sides = Sides {
                axis: axis.to_owned(),
                labels: [plain(&pair["a"]), plain(&pair["b"])],
                unit,
            };
            if !all.contains(&sides) {
                all.push(sides);
            }
        }
    }
    all
}
