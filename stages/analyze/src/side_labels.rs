//! The labels of the two sides of comparisons, compared with those of their axes while planning.

use pipeline::suggest::remedy;
use pipeline::{Json, KnownAxis, Problem};

use crate::keys::{self, Keys};
use crate::kind::Planned;

/// Reports each comparison of a label with itself, and each side whose label its axis does not have.
pub(crate) fn wrong(tables: &[Planned], axes: &[KnownAxis]) -> Vec<Problem> {
    let names: Vec<String> = axes.iter().map(|axis| axis.name.clone()).collect();
    let (mut keys, mut of_axes) = (Keys::new(), Keys::new());
    let mut problems = Vec::new();
    for table in tables {
        problems.extend(wrong_in(table, axes, &of_axes));
        let own = keys::keys(&table.operator, &table.parameters, &names, &keys);
        let labelled = keys::of_axes(&table.operator, &table.parameters, &own, &names, &of_axes);
        of_axes.insert(table.name.clone(), labelled);
        keys.insert(table.name.clone(), own);
    }
    problems
}

fn wrong_in(table: &Planned, axes: &[KnownAxis], of_axes: &Keys) -> Vec<Problem> {
    let pair = &table.parameters["pair"];
    let side = |side: &str| match &pair[side] {
        Json::Null => None,
        Json::String(label) => Some(label.clone()),
        label => Some(label.to_string()),
    };
    let (Some(axis), Some(a), Some(b)) = (pair["axis"].as_str(), side("a"), side("b")) else {
        return Vec::new();
    };
    let problem = |side: &str, message: String| {
        Problem::at(&["tables", table.name.as_str(), "pair", side], message)
    };
    if a == b {
        let message = format!("both sides are `{a}`");
        let hint = "compare two labels; to launch the same settings twice, declare an A/A arm: `design: {control: …}`";
        return vec![problem("b", message).hint(hint)];
    }
    let from = table.parameters["from"].as_str().unwrap_or_default();
    let has_axis = of_axes.get(from).is_some_and(|keys| keys.contains(axis));
    let Some(compared) = axes.iter().find(|one| one.name == axis && has_axis) else {
        return Vec::new();
    };
    let labels = compared.labels.iter().chain(&compared.left_out);
    let labels: Vec<String> = labels.map(ToString::to_string).collect();
    // Labels that are numbers may be spelled in several ways.
    let same = |one: &str, other: &str| match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(one), Ok(other)) => (one - other).abs() <= 0.0,
        _ => one == other,
    };
    let wrong = [("a", a), ("b", b)]
        .into_iter()
        .filter(|(_, label)| !labels.iter().any(|other| same(label, other)));
    let wrong = wrong.map(|(side, label)| {
        let message = format!("`{label}` is not a label of the axis `{axis}`");
        problem(side, message).hint(remedy(&label, &format!("labels of `{axis}`"), &labels))
    });
    wrong.collect()
}
