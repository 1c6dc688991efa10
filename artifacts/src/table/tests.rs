use super::*;

fn sample() -> Table {
    Table::with_metadata(
        vec![
            Column::text("engine", [Some("a"), None, Some("b")]),
            Column::float("ttft", [Some(1.5), Some(f64::MIN_POSITIVE), None])
                .unit("ms")
                .describe("time to first token"),
            Column::int("n", [Some(1), Some(-1), None]),
            Column::boolean("ok", [Some(true), None, Some(false)]),
        ],
        &[("operator", "sample")],
    )
    .unwrap()
}

#[test]
fn a_value_is_read_from_json_as_what_it_is() {
    let read = |text: &str| serde_json::from_str::<Scalar>(text).ok();
    assert_eq!(read("null"), Some(Scalar::Null));
    assert_eq!(read("true"), Some(Scalar::Bool(true)));
    assert_eq!(read("-7"), Some(Scalar::Int(-7)));
    assert_eq!(read("9223372036854775807"), Some(Scalar::Int(i64::MAX)));
    assert_eq!(
        read("9223372036854775808"),
        Some(Scalar::Float(2_f64.powi(63)))
    );
    assert_eq!(read("1.0"), Some(Scalar::Float(1.0)));
    assert_eq!(read("\"a\\u00e9\""), Some(Scalar::Text("aé".to_owned())));
    assert_eq!(read("[1]"), None);
    assert_eq!(read("{}"), None);
}

#[test]
fn a_table_survives_parquet_with_units_and_notes() {
    let table = sample();
    let back = Table::from_parquet(table.to_parquet().unwrap()).unwrap();
    assert_eq!(back.names(), table.names());
    assert_eq!(back.unit("ttft").as_deref(), Some("ms"));
    assert_eq!(back.metadata("operator").as_deref(), Some("sample"));
    for name in table.names() {
        assert_eq!(back.column(&name).unwrap(), table.column(&name).unwrap());
    }
}

#[test]
fn equal_tables_give_equal_bytes() {
    assert_eq!(
        sample().to_parquet().unwrap(),
        sample().to_parquet().unwrap()
    );
    let again = Table::from_parquet(sample().to_parquet().unwrap()).unwrap();
    assert_eq!(again.to_parquet().unwrap(), sample().to_parquet().unwrap());
}

#[test]
fn an_empty_table_keeps_its_columns() {
    let table = Table::new(vec![Column::int("n", [])]).unwrap();
    let back = Table::from_parquet(table.to_parquet().unwrap()).unwrap();
    assert_eq!((back.rows(), back.names()), (0, vec!["n".to_owned()]));
}

#[test]
fn columns_of_unequal_length_are_refused() {
    let error = Table::new(vec![Column::int("a", [Some(1)]), Column::int("b", [])]).unwrap_err();
    assert_eq!(error.to_string(), "column `b` has 0 rows, `a` has 1");
}

#[test]
fn bytes_that_are_no_parquet_are_an_error_not_a_panic() {
    assert!(Table::from_parquet(b"PAR1 nonsense PAR1".to_vec()).is_err());
}
