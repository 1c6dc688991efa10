//! Garbage collection of a shared store from a team's point of view: what is condemned, when it is removed, and what
//! stays.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::sharing::{STUDY, Seat, executed};

fn gc(seat: &Seat, more: &[&str]) -> crate::support::Outcome {
    let shared = seat.shared.to_str().expect("a plain path");
    seat.run(&[&["gc", "--remote", shared, "--json"], more].concat())
}

/// Lets the grace period of the first collection pass.
fn let_the_grace_pass(shared: &Path) {
    let path = shared.join("collections/1/condemned");
    let text = fs::read_to_string(&path).expect("a list");
    let mut list: Value = serde_json::from_str(&text).expect("JSON");
    list["since"] = (list["since"].as_i64().expect("seconds") - 10 * 24 * 3600).into();
    fs::write(&path, list.to_string()).expect("a file");
}

#[test]
fn what_no_lock_names_any_more_is_condemned_then_removed_and_all_else_stays_whole() {
    let team = tempfile::tempdir().expect("a folder");
    let ada = Seat::new("Ada", "left-box", team.path());
    ada.with(&["run", STUDY]).ok();
    let path = ada.project.path().join(STUDY);
    let first = fs::read_to_string(&path).expect("the study");
    fs::write(&path, first.replace("sum(points)", "max(points)")).expect("a file");
    ada.with(&["run", STUDY]).ok();
    let week = ["--grace", "7 d"];

    let dry = gc(&ada, &[&week[..], &["--dry-run"]].concat()).ok().json();
    assert_eq!(dry["state"], "would-condemn");
    let stages = |report: &Value| -> Vec<String> {
        let results = report["results"].as_array().expect("a list").iter();
        results
            .map(|r| r["stage"].as_str().expect("a name").to_owned())
            .collect()
    };
    let mut old = stages(&dry);
    old.sort();
    assert_eq!(old, ["made", "report"], "{dry}");
    assert!(!team.path().join("collections").exists());

    let condemned = gc(&ada, &week).ok().json();
    assert_eq!(condemned["state"], "condemned");
    assert_eq!(condemned["objects"], dry["objects"]);
    let waiting = gc(&ada, &week).ok().json();
    assert_eq!(
        (&waiting["state"], &waiting["by"]),
        (&"waiting".into(), &"Ada".into())
    );

    let_the_grace_pass(team.path());
    let would = gc(&ada, &[&week[..], &["--dry-run"]].concat()).ok().json();
    assert_eq!(would["state"], "would-remove");
    let removed = gc(&ada, &week).ok().json();
    assert_eq!(removed["state"], "removed");
    assert_eq!(removed["objects"], dry["objects"]);
    assert_eq!(gc(&ada, &week).ok().json()["state"], "nothing");

    // Another person gets all parts of the study that the lock names, and measures nothing.
    let bob = Seat::new("Bob", "right-box", team.path());
    let theirs = bob.project.path().join("experiments");
    for file in ["dice.yaml", "dice.lock"] {
        fs::copy(
            ada.project.path().join("experiments").join(file),
            theirs.join(file),
        )
        .expect("a copy");
    }
    assert_eq!(executed(&bob.with(&["run", STUDY, "--json"]).ok()), 0);
    assert_eq!(bob.report(), ada.report());
    // The earlier settings recompute what was removed, and it is pushed again.
    fs::write(theirs.join("dice.yaml"), &first).expect("a file");
    let again = bob.with(&["run", STUDY, "--json"]).ok();
    assert_eq!(executed(&again), 2, "{}", again.stderr);
    bob.push(&["--verify"]).ok();
}

#[test]
fn measurements_and_the_results_of_others_stay_until_somebody_says_otherwise() {
    let team = tempfile::tempdir().expect("a folder");
    let ada = Seat::new("Ada", "left-box", team.path());
    ada.with(&["run", STUDY]).ok();
    let week = ["--grace", "7 d"];
    let report = gc(&ada, &[&week[..], &["--dry-run"]].concat()).ok().json();
    assert_eq!(report["state"], "nothing", "{report}");
    let root = report["roots"][0]["root"]
        .as_str()
        .expect("a name")
        .to_owned();
    assert_eq!(report["roots"][0]["lock"], "dice.lock");
    let count = |more: &[&str]| {
        let forget = ["--dry-run", "--forget", &root[..8]];
        let report = gc(&ada, &[&week[..], &forget, more].concat()).ok().json();
        report["results"].as_array().expect("a list").len()
    };
    assert_eq!(count(&[]), 2, "the two that can be computed again");
    assert_eq!(count(&["--measurements"]), 6);
    let unknown = gc(&ada, &[&week[..], &["--forget", "nobody"]].concat());
    assert!(
        unknown.stderr.contains("does not name one root"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn a_shared_store_is_collected_only_if_it_is_named_with_a_grace() {
    let team = tempfile::tempdir().expect("a folder");
    let ada = Seat::new("Ada", "left-box", team.path());
    ada.with(&["run", STUDY]).ok();
    // The variable that names the shared store for other commands does not make `gc` collect that store.
    let own = ada.with(&["gc", "--dry-run"]).ok();
    assert!(own.stdout.contains("reached:"), "{}", own.stdout);
    for (more, said) in [
        (&[][..], "needs `--grace`"),
        (&["--grace", "1 min"][..], "too short"),
        (&["--grace", "1 fortnight"][..], "fortnight"),
    ] {
        let refused = gc(&ada, more);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
    let alone = ada.run(&["gc", "--grace", "7 d"]);
    assert_eq!(alone.code, Some(2), "{}", alone.stderr);
}
