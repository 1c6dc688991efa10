use super::*;

#[test]
fn running_cells_are_reported_once_a_minute() {
    let start = Instant::now();
    let mut pace = Pace::from(start);
    let due: Vec<u64> = (0..200)
        .filter(|s| pace.due(start + Duration::from_secs(*s)))
        .collect();
    assert_eq!(due, [60, 120, 180]);
}

fn stage(left: usize, took: &[f64]) -> StageState {
    StageState {
        is_single: left + took.len() == 1,
        left,
        executed: took.len(),
        took: took.to_vec(),
    }
}

#[test]
fn the_time_left_is_a_range_and_is_not_shown_before_it_can_be_estimated() {
    let left = |stages: &[StageState]| TimeLeft::of(stages.iter()).map(|left| left.to_string());
    // The servers are up, but the duration of the long cells is unknown.
    let started = [stage(0, &[0.5, 0.7]), stage(18, &[])];
    assert_eq!(left(&started), None);
    let later = [stage(0, &[0.5, 0.7]), stage(10, &[4.0, 6.0]), stage(1, &[])];
    assert_eq!(left(&later).as_deref(), Some("40 s to 60 s left"));
    let done = [stage(0, &[4.0]), stage(1, &[])];
    assert_eq!(left(&done), None);
    let even = [stage(2, &[30.0])];
    assert_eq!(left(&even).as_deref(), Some("about 60 s left"));
    // The last cell of a stage whose other cells are cached may take long.
    let last_of_many = StageState {
        is_single: false,
        ..stage(1, &[])
    };
    assert_eq!(left(&[stage(1, &[2.0]), last_of_many]), None);
}

#[test]
fn cells_that_are_cached_or_skipped_are_not_among_those_to_execute() {
    let stages = [("ladder", stage(3, &[])), ("report", stage(1, &[]))];
    let mut state = State {
        began: Instant::now(),
        pace: Pace::from(Instant::now()),
        stages: stages.map(|(name, stage)| (name.to_owned(), stage)).into(),
        warnings: BTreeMap::new(),
    };
    let mut ends = |stage, status, cached| {
        state.end(stage, status, 5.0, cached);
        let left = TimeLeft::of(state.stages.values()).map(|left| left.least_s);
        (state.counts(), left)
    };
    assert_eq!(ends("ladder", CellStatus::Ok, false), ((1, 4), Some(10.0)));
    // Another run has measured it meanwhile.
    assert_eq!(ends("ladder", CellStatus::Ok, true), ((1, 3), Some(5.0)));
    assert_eq!(ends("ladder", CellStatus::Skipped, false), ((1, 2), None));
    assert_eq!(ends("report", CellStatus::Failed, false), ((2, 2), None));
}

#[test]
fn rolling_figures_have_units_and_unknown_ones_are_left_out() {
    let mut rates = Rates {
        window_s: 10.0,
        ended: 40,
        looked_into: 40,
        output_throughput: Some(812.4),
        ttft_ms_p50: Some(12.34),
        ttft_ms_p95: Some(5.0),
        errors: 1,
        in_flight: 8,
        elapsed_s: Some(12.3),
        planned_s: None,
    };
    let all = "; 812 tok/s, TTFT p50 12.3 ms, p95 5.00 ms, 1 error, 8 in flight";
    assert_eq!(figures(&rates), all);
    (rates.output_throughput, rates.ttft_ms_p50, rates.errors) = (None, None, 0);
    assert_eq!(figures(&rates), "; 0 errors, 8 in flight");
    // A load that ends after a time shows the time; the number of its requests is unknown.
    rates.planned_s = Some(60.0);
    assert_eq!(figures(&rates), "; 12 of 60 s, 0 errors, 8 in flight");
}

#[test]
fn the_log_has_the_time_left_where_a_cell_ended() {
    let event = Event::ResourceStarted { cell: "s".into() };
    assert_eq!(line_of(&event, None)["left_s"], json!(null));
    let left = TimeLeft {
        least_s: 1.0,
        most_s: 2.5,
    };
    assert_eq!(line_of(&event, Some(left))["left_s"], json!([1.0, 2.5]));
}

#[test]
fn a_line_of_a_log_begins_with_the_second_in_utc() {
    let line = logged("ladder ok");
    let (time, text) = line.split_once(' ').unwrap();
    assert_eq!(
        (time.len(), text),
        ("2026-01-01T00:00:00Z".len(), "ladder ok")
    );
    time.parse::<jiff::Timestamp>().unwrap();
}

#[test]
fn a_run_that_waits_says_for_whom_or_how_to_find_out() {
    let text = waiting("host", Some("`a.lock`".to_owned()));
    assert!(
        text.contains("of these locks are alive: `a.lock`"),
        "{text}"
    );
    let text = waiting("host", None);
    assert!(text.contains("`locks/host.lock` in the store"), "{text}");
}
