use artifacts::Scalar;
use proptest::prelude::*;

use super::*;

fn text(value: &str) -> Scalar {
    Scalar::Text(value.to_owned())
}

/// Text made of pieces that could end, split or disguise a label.
fn hostile_text() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        Just(","),
        Just("="),
        Just("|"),
        Just("\""),
        Just("\\"),
        Just("["),
        Just("]"),
        Just("("),
        Just(")"),
        Just("()"),
        Just("\n"),
        Just("\r\n"),
        Just("\t"),
        Just(" "),
        Just("."),
        Just("null"),
        Just("true"),
        Just("false"),
        Just("NaN"),
        Just("inf"),
        Just("-inf"),
        Just("1"),
        Just("-"),
        Just("1.0"),
        Just("1e3"),
        Just("0x1"),
        Just("a"),
        Just("é"),
        Just("日本"),
        Just("🦆"),
        Just("\u{202e}"),
        Just("\u{e000}"),
        Just("\u{0}"),
        Just("\u{7f}"),
        Just("\u{2028}"),
        Just("\u{feff}"),
        Just("\u{10ffff}"),
        Just("\\u0041"),
    ];
    prop_oneof![
        prop::collection::vec(pieces, 0..6).prop_map(|pieces| pieces.concat()),
        any::<String>(),
    ]
}

fn label() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        4 => hostile_text().prop_map(Scalar::Text),
        1 => Just(Scalar::Null),
        1 => any::<bool>().prop_map(Scalar::Bool),
        1 => any::<i64>().prop_map(Scalar::Int),
        1 => any::<f64>().prop_filter("not a number", |v| !v.is_nan()).prop_map(Scalar::Float),
        1 => (-3i32..3).prop_map(|v| Scalar::Float(f64::from(v))),
    ]
}

fn coordinates() -> impl Strategy<Value = Coordinates> {
    prop::collection::vec((hostile_text(), label()), 0..4).prop_map(|mut pairs| {
        let mut seen = std::collections::BTreeSet::new();
        pairs.retain(|(axis, _)| seen.insert(axis.clone()));
        Coordinates(pairs)
    })
}

proptest! {
    #[test]
    fn coordinates_read_back_as_they_were(coordinates in coordinates()) {
        let written = coordinates.to_string();
        prop_assert_eq!(written.parse::<Coordinates>(), Ok(coordinates));
    }

    #[test]
    fn coordinates_stand_on_one_line_without_hidden_characters(coordinates in coordinates()) {
        let hidden = coordinates.to_string().chars().any(|c| c.is_control() || c == '\u{202e}');
        prop_assert!(!hidden, "something is hidden");
    }

    #[test]
    fn different_coordinates_are_written_differently(a in coordinates(), b in coordinates()) {
        let (written, values) = ([a.to_string(), b.to_string()], [a, b].map(|c| format!("{c:?}")));
        prop_assert_eq!(written[0] == written[1], values[0] == values[1]);
    }

    #[test]
    fn conditions_read_back_as_they_were(
        pairs in prop::collection::vec((hostile_text(), prop::collection::vec(label(), 0..4)), 0..4)
    ) {
        let condition = Condition(pairs);
        prop_assert_eq!(condition.to_string().parse::<Condition>(), Ok(condition.clone()));
    }

    #[test]
    fn cells_read_back_as_they_were(stage in hostile_text(), coordinates in coordinates()) {
        let cell = CellName { stage, coordinates };
        prop_assert_eq!(cell.to_string().parse::<CellName>(), Ok(cell.clone()));
    }

    #[test]
    fn a_cell_written_as_a_pattern_names_only_itself(
        stage in hostile_text(), all in prop::collection::vec(label(), 1..5), one in 0usize..5,
    ) {
        let cells: Vec<Coordinates> =
            all.into_iter().map(|label| Coordinates(vec![("x".to_owned(), label)])).collect();
        let one = one % cells.len();
        let pattern: CellPattern = cell_text(&stage, &cells[one].to_string()).parse().unwrap();
        prop_assert_eq!(&pattern.stage, &stage);
        for i in pattern.find(cells.iter()) {
            prop_assert_eq!(&cells[i], &cells[one]);
        }
        prop_assert!(pattern.find(cells.iter()).contains(&one));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in hostile_text()) {
        let _ = text.parse::<Coordinates>();
        let _ = text.parse::<Condition>();
        let _ = text.parse::<CellName>();
        let _ = text.parse::<CellPattern>();
    }

    #[test]
    fn what_reads_as_a_label_key_is_what_compares_the_same(a in label(), b in label()) {
        prop_assert_eq!(LabelKey::of(&a) == LabelKey::of(&b), same_label(&a, &b));
    }
}

#[test]
fn labels_of_different_types_never_look_alike() {
    let labels = [
        Scalar::Int(1),
        Scalar::Float(1.0),
        text("1"),
        text("true"),
        Scalar::Bool(true),
        Scalar::Null,
        text("null"),
        text("a,b"),
        text("short-decode"),
        text(""),
        text("a b\n"),
    ];
    let written = labels.map(|label| Coordinates(vec![("x".to_owned(), label)]).to_string());
    assert_eq!(
        written,
        [
            "x=1",
            "x=1.0",
            "x=\"1\"",
            "x=\"true\"",
            "x=true",
            "x=null",
            "x=\"null\"",
            "x=\"a,b\"",
            "x=short-decode",
            "x=\"\"",
            "x=\"a b\\n\""
        ]
    );
}

#[test]
fn a_condition_has_labels_to_choose_from() {
    let condition: Condition = "model=c|\"a,b\",rep=1,none=()".parse().unwrap();
    assert_eq!(
        condition.0,
        [
            ("model".to_owned(), vec![text("c"), text("a,b")]),
            ("rep".to_owned(), vec![Scalar::Int(1)]),
            ("none".to_owned(), vec![]),
        ]
    );
    assert!(condition.allows("rep", &Scalar::Float(1.0)) && !condition.allows("rep", &text("1")));
    assert_eq!(format!("{condition:#}"), "model=c|\"a,b\", rep=1, none=()");
}

#[test]
fn text_that_is_no_place_says_why() {
    let wrong = |text: &str| text.parse::<Coordinates>().unwrap_err().message;
    assert_eq!(wrong("rep"), "expected `=`, got the end");
    assert_eq!(wrong("rep=1,rep=2"), "`rep` is named twice");
    assert_eq!(wrong("rep=1|2"), "unexpected `|`");
    assert_eq!(wrong("rep="), "expected a label");
    assert_eq!(wrong("rep=\"1"), "the quote is never closed");
    assert_eq!(
        wrong("rep=99999999999999999999"),
        "`99999999999999999999` must be quoted"
    );
}

#[test]
fn a_pattern_has_a_stage_labels_and_an_output() {
    let pattern: CellPattern = "ladder[concurrency=8, rep=1].requests".parse().unwrap();
    assert_eq!(pattern.stage, "ladder");
    assert_eq!(pattern.axes().collect::<Vec<_>>(), ["concurrency", "rep"]);
    assert_eq!(pattern.output.as_deref(), Some("requests"));
    let pattern: CellPattern = "results.cells.lineage".parse().unwrap();
    assert_eq!(pattern.output.as_deref(), Some("cells.lineage"));
    for text in [
        "",
        "[rep=1]",
        "ladder[rep=1",
        "ladder[rep]",
        "ladder.",
        "ladder[rep=1]requests",
    ] {
        assert!(text.parse::<CellPattern>().is_err(), "{text}");
    }
}

#[test]
fn a_pattern_takes_labels_by_value_and_else_by_their_letters() {
    let cells = [
        Scalar::Int(1),
        text("1"),
        text("12"),
        text("Llama 3"),
        Scalar::Float(0.5),
    ];
    let cells = cells.map(|label| Coordinates(vec![("x".to_owned(), label)]));
    let find = |pattern: &str| pattern.parse::<CellPattern>().unwrap().find(cells.iter());
    assert_eq!(find("s[x=1]"), [0]);
    assert_eq!(find("s[x=\"1\"]"), [1]);
    assert_eq!(find("s[x=12]"), [2]);
    assert_eq!(find("s[x=Llama 3]"), [3]);
    assert_eq!(find("s[x=0.50]"), [4]);
    assert_eq!(find("s[x=1|0.5]"), [0, 4]);
    assert_eq!(find("s[y=1]"), [0; 0]);
    assert_eq!(find("s"), [0, 1, 2, 3, 4]);
}

#[test]
fn a_label_of_a_table_has_all_its_digits_and_a_whole_one_no_fraction() {
    for (label, text) in [
        (0.12341, "0.12341"),
        (0.12344, "0.12344"),
        (2500.0, "2500"),
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (1e-7, "1e-7"),
        (1e300, "1e300"),
    ] {
        assert_eq!(label_text(&Scalar::Float(label)), text);
    }
    assert_eq!(label_text(&Scalar::Text("a b".to_owned())), "a b");
    assert_eq!(plain_label(Scalar::Float(2500.0)), Scalar::Int(2500));
}

#[test]
fn large_integers_are_labels_of_their_own() {
    let (a, b) = (
        Scalar::Int(9_007_199_254_740_993),
        Scalar::Int(9_007_199_254_740_992),
    );
    let rounded = Scalar::Float(9_007_199_254_740_992.0);
    assert!(!same_label(&a, &b) && !same_label(&a, &rounded) && same_label(&b, &rounded));
    assert!(LabelKey::of(&a) != LabelKey::of(&b) && LabelKey::of(&b) == LabelKey::of(&rounded));
}
