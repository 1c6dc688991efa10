//! Properties that hold for any text.

use pipeline::Options;
use proptest::prelude::*;
use serde_json::Value;

use crate::expansion::{VALID, load, valid};

fn shuffled(value: &Value, seed: &mut u64) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map
                .iter()
                .map(|(k, v)| (k.clone(), shuffled(v, seed)))
                .collect();
            for i in (1..entries.len()).rev() {
                *seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                entries.swap(i, (*seed >> 33) as usize % (i + 1));
            }
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => items.iter().map(|v| shuffled(v, seed)).collect(),
        other => other.clone(),
    }
}

/// Writes a value as block YAML down to a depth and as flow YAML below it, with a comment on each line.
fn write(value: &Value, depth: usize, indent: usize, out: &mut String) {
    match value {
        Value::Object(map) if depth > 0 && !map.is_empty() => {
            for (key, value) in map {
                out.push_str(&format!(
                    "\n{}# about {key}\n{}{key}:",
                    " ".repeat(indent),
                    " ".repeat(indent)
                ));
                write(value, depth - 1, indent + 3, out);
            }
        }
        Value::Array(items) if depth > 0 && !items.is_empty() => {
            for item in items {
                out.push_str(&format!("\n{}- ", " ".repeat(indent)));
                out.push_str(&format!("{item}  # item"));
            }
        }
        other => out.push_str(&format!(" {other} # {depth}")),
    }
}

/// The valid experiment as a value. JSON is YAML, so writing it needs only JSON's text.
fn valid_value() -> Value {
    serde_json::from_str(include_str!("valid.json")).unwrap()
}

#[test]
fn the_experiment_in_json_is_the_same_experiment() {
    let from_json = valid(include_str!("valid.json"));
    let from_yaml = valid(VALID);
    assert_eq!(from_json.spec, from_yaml.spec);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn comments_key_order_and_style_change_nothing(seed in any::<u64>(), depth in 0usize..6) {
        let mut text = String::new();
        write(&shuffled(&valid_value(), &mut seed.clone()), depth, 0, &mut text);
        let (ours, theirs) = (valid(&text), valid(VALID));
        prop_assert_eq!(&ours.spec, &theirs.spec);
        for stage in &theirs.stages {
            let same = ours.stages.iter().find(|s| s.name == stage.name).unwrap();
            prop_assert_eq!(&same.parameter_sets, &stage.parameter_sets);
            let at = |s: &pipeline::Stage| s.cells.iter().map(|c| (c.at.clone(), c.parameters)).collect::<Vec<_>>();
            prop_assert_eq!(at(same), at(stage));
        }
    }

    #[test]
    fn the_count_is_the_product_minus_exclusions_plus_inclusions(
        a in 1usize..6, b in 1usize..6, out in prop::collection::btree_set((0usize..6, 0usize..6), 0..5), more in 0usize..4,
    ) {
        let list = |n: usize| (0..n).map(|i| i.to_string()).collect::<Vec<_>>().join(", ");
        let out: Vec<_> = out.into_iter().filter(|(x, y)| *x < a && *y < b).collect();
        let excludes: String = out.iter().map(|(x, y)| format!("{{where: {{x: {x}, y: {y}}}, reason: r}}, ")).collect();
        let includes: String = (0..more).map(|i| format!("{{coordinates: {{x: 0, y: {}}}, reason: r}}, ", 100 + i)).collect();
        let text = format!("experiment: x\nseed: 1\naxes: {{x: [{}], y: [{}]}}\nstages:\n  s: {{kind: prepare, over: [x, y], exclude: [{excludes}], include: [{includes}]}}\n", list(a), list(b));
        let experiment = valid(&text);
        prop_assert_eq!(experiment.cell_count(), a * b - out.len() + more);
        prop_assert_eq!(experiment.stages.raw[0].excluded.len(), out.len());
    }

    #[test]
    fn any_text_gives_an_experiment_or_errors(text in "\\PC{0,200}") {
        if let Err(error) = load(&text, &Options::default()) {
            prop_assert!(error.contains("error: "));
        }
    }

    #[test]
    fn any_text_of_yaml_signs_gives_an_experiment_or_errors(text in "[a-c:\\-\\[\\]{}&*!|>'\"#%@`,? \n\t<$.0-9~]{0,120}") {
        if let Err(error) = load(&text, &Options::default()) {
            prop_assert!(error.contains("error: "));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_damaged_experiment_gives_an_experiment_or_errors(
        at in 0usize..2400, cut in 0usize..30, insert in "[a-z:\\-\\[\\]{}&*!|>'\"#, \n$.0-9~\u{e4}\u{1F600}\r]{0,6}",
    ) {
        let at = at.min(VALID.len());
        let end = (at + cut).min(VALID.len());
        let text = format!("{}{insert}{}", &VALID[..at], &VALID[end..]);
        if let Err(error) = load(&text, &Options::default()) {
            prop_assert!(error.contains("error: "));
        }
    }
}
