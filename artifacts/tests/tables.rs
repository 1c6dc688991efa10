//! Tables written in one piece and streamed: their bytes are equal and pinned.

use artifacts::{Column, Digest, Table, TableWriter};
use proptest::prelude::*;

fn fixed(rows: std::ops::Range<i64>) -> Table {
    let some = |i: i64, period: i64| (i % period != 0).then_some(i);
    Table::new(vec![
        Column::int("request", rows.clone().map(|i| some(i, 7)))
            .unit("1")
            .describe("position in the schedule"),
        Column::float(
            "ttft",
            rows.clone().map(|i| some(i, 11).map(|i| i as f64 / 3.0)),
        )
        .unit("ms"),
        Column::text(
            "status",
            rows.clone()
                .map(|i| some(i, 5).map(|i| format!("status {}", i % 17))),
        ),
        Column::boolean("ok", rows.map(|i| some(i, 13).map(|i| i % 2 == 0))),
    ])
    .unwrap()
}

/// Streams rows `0..total`, split at the given places, and returns the file's bytes.
fn streamed(total: i64, cuts: &[i64]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.parquet");
    let columns: Vec<Column> = fixed(0..1)
        .names()
        .iter()
        .map(|n| fixed(0..1).column(n).unwrap())
        .collect();
    let mut writer = TableWriter::create(&path, &columns).unwrap();
    let mut from = 0;
    for to in cuts.iter().copied().chain([total]) {
        writer.write(&fixed(from..to)).unwrap();
        from = to;
    }
    assert_eq!(writer.finish().unwrap(), u64::try_from(total).unwrap());
    std::fs::read(path).unwrap()
}

#[test]
fn the_bytes_of_a_fixed_table_never_change() {
    // A change here changes the artifact format's version: state it where that version is defined.
    let digest = |rows| Digest::of(&fixed(rows).to_parquet().unwrap()).to_string();
    assert_eq!(
        digest(0..0),
        "b3:69967d2325cc19bc8477c78fbf81aa6645ae098dcfbb0f22bbc5b836a54b4569"
    );
    assert_eq!(
        digest(0..100),
        "b3:98a943636108374ae298e8767783445ae83220fd7192e71f2ea17c40821b8ebe"
    );
    assert_eq!(
        digest(0..5000),
        "b3:f9767c441bcc5143912c3630a6a9a6fa4ecff109ce79e8fb662fb30d39120a76"
    );
    let notes = [
        ("operator", "ladder"),
        ("b", "2"),
        ("a", "1"),
        ("seed", "164"),
        ("reference", "serial"),
    ];
    let noted = Table::with_metadata(
        vec![Column::int("n", [Some(1)]).unit("1").describe("one")],
        &notes,
    )
    .unwrap();
    assert_eq!(
        Digest::of(&noted.to_parquet().unwrap()).to_string(),
        "b3:48a60c6c2945f3d9e7707a61f9163920071255481a2976d6cc48d44e2acc432d"
    );
}

#[test]
fn a_streamed_table_has_the_bytes_of_the_same_table_written_in_one_piece() {
    assert_eq!(
        streamed(20_000, &[1, 1, 5000, 9001]),
        fixed(0..20_000).to_parquet().unwrap()
    );
}

#[test]
fn a_table_of_more_than_one_row_group_is_read_back_whole() {
    let rows = (1 << 20) + 1500_i64;
    let table = Table::new(vec![
        Column::int("i", (0..rows).map(|i| (i % 3 != 0).then_some(i % 1000))),
        Column::text(
            "t",
            (0..rows).map(|i| Some(if i % 2 == 0 { "even" } else { "odd" })),
        ),
    ])
    .unwrap();
    let back = Table::from_parquet(table.to_parquet().unwrap()).unwrap();
    assert_eq!(back.rows(), usize::try_from(rows).unwrap());
    assert_eq!(back.column("i").unwrap(), table.column("i").unwrap());
    assert_eq!(back.column("t").unwrap(), table.column("t").unwrap());
}

#[test]
fn a_table_streamed_without_rows_keeps_its_columns() {
    let back = Table::from_parquet(streamed(0, &[])).unwrap();
    assert_eq!((back.rows(), back.names()), (0, fixed(0..0).names()));
}

#[test]
fn rows_with_another_unit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let declared = [Column::float("ttft", []).unit("ms")];
    let mut writer = TableWriter::create(&folder.path().join("t"), &declared).unwrap();
    let seconds = Table::new(vec![Column::float("ttft", [Some(1.0)]).unit("s")]).unwrap();
    assert!(
        writer
            .write(&seconds)
            .unwrap_err()
            .to_string()
            .contains("units")
    );
    let ms = Table::new(vec![Column::float("ttft", [Some(1.0)]).unit("ms")]).unwrap();
    writer.write(&ms).unwrap();
    assert_eq!(writer.finish().unwrap(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn how_rows_are_divided_into_batches_does_not_change_the_bytes(
        total in 1..20_000_i64,
        cuts in proptest::collection::vec(0.0..1.0_f64, 0..6),
    ) {
        let mut cuts: Vec<i64> = cuts.iter().map(|c| (c * total as f64) as i64).collect();
        cuts.sort_unstable();
        prop_assert_eq!(Digest::of(&streamed(total, &cuts)), Digest::of(&fixed(0..total).to_parquet().unwrap()));
    }

    #[test]
    fn any_table_survives_parquet(
        rows in proptest::collection::vec(
            (any::<Option<i64>>(), any::<Option<f64>>(), any::<Option<String>>(), any::<Option<bool>>()), 0..2100),
    ) {
        let table = Table::new(vec![
            Column::int("i", rows.iter().map(|r| r.0)),
            Column::float("f", rows.iter().map(|r| r.1)),
            Column::text("t", rows.iter().map(|r| r.2.clone())),
            Column::boolean("b", rows.iter().map(|r| r.3)),
        ]).unwrap();
        let bytes = table.to_parquet().unwrap();
        let back = Table::from_parquet(bytes.clone()).unwrap();
        prop_assert_eq!(back.rows(), rows.len());
        for name in ["i", "t", "b"] {
            prop_assert_eq!(back.column(name).unwrap(), table.column(name).unwrap());
        }
        let bits = |t: &Table| t.float("f").unwrap().into_iter().map(|f| f.map(f64::to_bits)).collect::<Vec<_>>();
        prop_assert_eq!(bits(&back), bits(&table), "doubles keep every bit, NaN included");
        prop_assert_eq!(back.to_parquet().unwrap(), bytes);
    }
}
