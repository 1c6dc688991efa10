use super::*;

fn sample() -> Lock {
    let digest = |t: &str| Digest::of(t.as_bytes());
    let ok = |coordinates: &str| LockCell {
        coordinates: coordinates.into(),
        status: CellStatus::Ok,
        key: Some(ActionKey(digest("key"))),
        record: Some(digest("record")),
        outputs: Some(digest("outputs")),
        reason: None,
        earlier: Vec::new(),
    };
    let excluded = LockCell {
        coordinates: "label=\"a b\\\"\",rep=2".into(),
        status: CellStatus::Excluded,
        key: None,
        record: None,
        outputs: None,
        reason: Some("too \"slow\"\non this machine".into()),
        earlier: Vec::new(),
    };
    Lock {
        experiment: "quick start".into(),
        profile: Some("smoke".into()),
        seed: 7,
        stages: vec![
            LockStage {
                name: "checks".into(),
                class: LockClass::Pure,
                cells: vec![ok("")],
            },
            LockStage {
                name: "ladder".into(),
                class: LockClass::Measurement,
                cells: vec![excluded, ok("rep=1")],
            },
            LockStage {
                name: "report".into(),
                class: LockClass::Study,
                cells: vec![ok("")],
            },
        ],
    }
}

fn parse(text: &str) -> Result<Lock, String> {
    Lock::parse(text, Path::new("x.lock")).map_err(|e| e.to_string())
}

#[test]
fn a_lock_survives_its_text() {
    assert_eq!(parse(&sample().to_text()).unwrap(), sample());
}

#[test]
fn a_merge_conflict_is_named_with_its_line() {
    let text = sample()
        .to_text()
        .replacen("seed 7", "<<<<<<< ours\nseed 7", 1);
    assert!(
        parse(&text)
            .unwrap_err()
            .starts_with("x.lock:4: a merge conflict was left"),
        "{text}"
    );
}

#[test]
fn an_edited_reason_no_longer_fits_the_trail() {
    let text = sample().to_text().replace("on this machine", "everywhere");
    assert!(parse(&text).unwrap_err().contains("the file was edited"));
}

#[test]
fn a_place_that_takes_no_lock_is_known_without_writing_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.lock");
    Lock::try_place(&path).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    fs::write(folder.path().join("file"), "").unwrap();
    let error = Lock::try_place(&folder.path().join("file/study.lock"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("study.lock") && error.contains("the experiment's folder"),
        "{error}"
    );
}

#[test]
fn a_truncated_or_foreign_file_is_an_error_not_a_panic() {
    let text = sample().to_text();
    for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
        // If the text is cut within the last stage's lines, the trail may still match; nothing may panic.
        let _ = parse(&text[..end]);
    }
    assert!(parse("").is_err());
    assert!(
        parse("something else\n")
            .unwrap_err()
            .contains("x.lock:1: expected")
    );
}

#[test]
fn a_pure_stage_executed_again_to_the_same_bytes_leaves_the_trail_alone() {
    let (mut pure, mut measured) = (sample(), sample());
    pure.stages[0].cells[0].record = Some(Digest::of(b"again"));
    measured.stages[1].cells[1].record = Some(Digest::of(b"again"));
    assert_eq!(pure.trail(), sample().trail());
    assert_ne!(measured.trail(), sample().trail());
}

#[test]
fn the_stage_that_sees_the_study_is_not_in_the_trail() {
    let mut other = sample();
    other.stages[2].cells[0].outputs = Some(Digest::of(b"again"));
    assert_eq!(other.trail(), sample().trail());
}

fn remeasured() -> Lock {
    let mut lock = sample();
    let cell = &mut lock.stages[1].cells[1];
    let earlier = |key: &[u8], status, record: &[u8]| Earlier {
        status,
        key: ActionKey(Digest::of(key)),
        record: Digest::of(record),
    };
    cell.earlier = vec![
        earlier(b"other key", CellStatus::Ok, b"of another recipe"),
        earlier(b"key", CellStatus::Failed, b"went wrong"),
        earlier(b"key", CellStatus::Ok, b"was slower"),
    ];
    lock
}

#[test]
fn earlier_results_are_marks_that_the_trail_covers() {
    let lock = remeasured();
    assert_eq!(parse(&lock.to_text()).unwrap(), lock);
    assert_ne!(lock.trail(), sample().trail());
    let line = lock.to_text();
    let line = line
        .lines()
        .find(|l| l.starts_with("earlier failed"))
        .unwrap();
    let hidden = lock.to_text().replace(&format!("{line}\n"), "");
    assert!(parse(&hidden).unwrap_err().contains("the file was edited"));
    let cell = &lock.stages[1].cells[1];
    assert_eq!(cell.executions(), 3);
    let discarded: Vec<Digest> = cell.discarded().collect();
    assert_eq!(discarded, [Digest::of(b"was slower")]);
    assert_eq!(lock.earlier().count(), 3);
}

#[test]
fn a_lock_of_version_1_is_read_and_keeps_its_trail() {
    let text = sample()
        .to_text()
        .replace("benchtrail lock 2", "benchtrail lock 1");
    assert_eq!(parse(&text).unwrap(), sample());
}

#[test]
fn nobody_is_told_to_delete_a_lock_of_a_later_version() {
    let later = |number: &str| {
        let first = format!("benchtrail lock {number}");
        parse(&sample().to_text().replace("benchtrail lock 2", &first)).unwrap_err()
    };
    for number in ["3", "99"] {
        let said = later(number);
        let reason = format!("the lock has format {number}");
        assert!(
            said.contains(&reason) && said.contains("use the version"),
            "{said}"
        );
        assert!(!said.contains("delete"), "{said}");
    }
    for number in ["0", "x", "-1", "2 "] {
        assert!(later(number).contains("expected `benchtrail lock 2`"));
    }
}

#[test]
fn a_mark_without_its_cell_or_with_other_fields_is_an_error() {
    let text = remeasured().to_text();
    let misplaced = text.replace(
        "stage \"checks\" pure\n",
        "earlier ok - -\nstage \"checks\" pure\n",
    );
    assert!(
        parse(&misplaced)
            .unwrap_err()
            .contains("the line of a cell first")
    );
    let short = text.replace("earlier failed b3", "earlier b3");
    assert!(
        parse(&short)
            .unwrap_err()
            .contains("expected `earlier STATUS KEY RECORD`")
    );
}

#[test]
fn an_unchanged_lock_is_not_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.lock");
    assert!(sample().write(&path).unwrap());
    assert!(!sample().write(&path).unwrap());
    assert_eq!(Lock::read(&path).unwrap(), Some(sample()));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_link_in_the_place_of_the_temporary_file_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let victim = folder.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let path = folder.path().join("x.lock");
    for target in [&victim, &folder.path().join("new")] {
        std::os::unix::fs::symlink(target, beside(&path)).unwrap();
        Lock::try_place(&path).unwrap();
        std::os::unix::fs::symlink(target, beside(&path)).unwrap();
        sample().write(&path).unwrap();
        assert!(!path.is_symlink());
        fs::remove_file(&path).unwrap();
    }
    assert_eq!(fs::read_to_string(victim).unwrap(), "precious");
    assert!(!folder.path().join("new").exists());
}

#[test]
fn a_lock_lies_next_to_its_experiment_whatever_the_profile_is_called() {
    let file = Path::new("studies/a.b.yaml");
    assert_eq!(lock_file(file, None), Path::new("studies/a.b.lock"));
    assert_eq!(
        lock_file(file, Some("smoke")),
        Path::new("studies/a.b.smoke.lock")
    );
    // No panic.
    lock_file(file, Some("s3://x"));
    lock_file(Path::new(".."), Some(""));
}
