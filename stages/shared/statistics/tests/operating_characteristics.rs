//! The figures of the bench of the same name from fewer studies. Each must lie within its bounds, allowing for the
//! error of the simulation.

#[path = "../benches/operating_characteristics/checks/mod.rs"]
mod checks;

#[test]
fn every_figure_lies_within_its_bounds() {
    let mut wrong = Vec::new();
    for table in checks::tables() {
        for check in &table.checks {
            let counted = check.count(200);
            if !check.holds(&counted) {
                let (figure, place) = (counted.percent(), (&check.row, &check.column));
                wrong.push(format!(
                    "{} ({}) {place:?}: {figure}",
                    table.title, table.note
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
