//! Links, FIFOs and files of others in folders that came from elsewhere: no command writes or removes anything behind
//! them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use crate::support::{Project, goes_with_us};

const STUDY: &str = "experiments/simulated.yaml";

/// Makes a file many years old, so that it would be removed if it were a file of the store.
fn age(path: &Path) {
    let file = fs::File::options().write(true).open(path);
    let old = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let aged = file.expect("a file").set_modified(old);
    aged.expect("a time");
}

#[test]
fn links_and_fifos_in_the_place_of_a_report_lead_a_run_nowhere() {
    let folder = "reports/simulated";
    let plants = [
        ("report.md", "../../victim"),
        ("report.html", "../../new"),
        ("events.jsonl", "../../victim"),
        ("figures/x.svg", "../../../victim"),
    ];
    for (name, target) in plants {
        let project = goes_with_us(Project::new());
        fs::write(project.path().join("victim"), "precious").expect("writable");
        let place = project.path().join(folder).join(name);
        fs::create_dir_all(place.parent().expect("a folder")).expect("writable");
        symlink(target, &place).expect("a link");
        refuses(&project, name);
        assert!(!project.path().join("new").exists(), "{name}");
        let kept = fs::read_to_string(project.path().join("victim"));
        assert_eq!(kept.expect("still there"), "precious", "{name}");
    }
    let outside = tempfile::tempdir().expect("a folder");
    for place in ["reports", folder] {
        let project = goes_with_us(Project::new());
        let link = project.path().join(place);
        fs::create_dir_all(link.parent().expect("a folder")).expect("writable");
        symlink(outside.path(), &link).expect("a link");
        refuses(&project, place);
        let written = fs::read_dir(outside.path()).expect("readable").count();
        assert_eq!(written, 0, "{place}");
    }
    let project = goes_with_us(Project::new());
    fs::create_dir_all(project.path().join(folder)).expect("writable");
    let fifo = project.path().join(folder).join("events.jsonl");
    let made = std::process::Command::new("mkfifo").arg(fifo).status();
    assert!(made.expect("mkfifo starts").success());
    refuses(&project, "a FIFO");
}

/// Runs the study of a project, which is refused before anything is written.
fn refuses(project: &Project, what: &str) {
    let ran = project.run(["run", STUDY]);
    assert_eq!(ran.code, Some(2), "{what}: {}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stderr.contains("a run would write its report there"),
        "{what}: {}",
        ran.stderr
    );
    let lock = project.path().join("experiments/simulated.lock");
    assert!(!lock.exists(), "{what}");
}

#[test]
fn links_in_a_store_lead_no_command_to_files_of_the_user() {
    let finished = goes_with_us(Project::new());
    finished.run(["run", STUDY, "--no-dry-run"]).ok();
    let root = fs::read_dir(finished.path().join(".benchtrail/roots")).expect("roots");
    let root = root.flatten().next().expect("the root of the lock").path();
    let nested = root.strip_prefix(finished.path()).expect("in the project");
    let places =
        ["tmp", "holds", "objects", "roots", "index.sqlite"].map(|n| format!(".benchtrail/{n}"));
    let nested = nested.to_str().expect("UTF-8").to_owned();
    for place in places.into_iter().chain([nested]) {
        let victim = tempfile::tempdir().expect("a folder");
        let names = ["important", "run-me", "written"];
        for name in names {
            let path = victim.path().join(name);
            fs::write(&path, "precious").expect("writable");
            age(&path);
        }
        let project = Project::copy_of(&finished);
        let link = project.path().join(&place);
        let target = if link.is_dir() {
            fs::remove_dir_all(&link).expect("removable");
            victim.path().to_owned()
        } else {
            fs::remove_file(&link).expect("removable");
            victim.path().join("important")
        };
        symlink(target, &link).expect("a link");
        for command in [
            vec!["gc"],
            vec!["fsck", "--repair"],
            vec!["run", STUDY, "--no-dry-run"],
        ] {
            let ran = project.run(&command);
            let nowhere = ran.code == Some(0) && command[0] == "fsck" && place.contains("roots/");
            assert!(
                nowhere || ran.code == Some(3) && ran.stderr.contains("is a symbolic link"),
                "{place}: {command:?}: {:?} {}",
                ran.code,
                ran.stderr
            );
        }
        let now: Vec<_> = fs::read_dir(victim.path()).expect("readable").collect();
        assert_eq!(now.len(), names.len(), "{place}");
        for name in names {
            let kept = fs::read_to_string(victim.path().join(name));
            assert_eq!(kept.expect("still there"), "precious", "{place}: {name}");
        }
    }
}

#[test]
fn a_folder_that_is_not_a_store_is_left_as_it_is() {
    let project = goes_with_us(Project::new());
    let home = project.path().join("home");
    fs::create_dir_all(home.join("tmp")).expect("writable");
    let note = home.join("tmp/note");
    fs::write(&note, "precious").expect("writable");
    age(&note);
    for command in [
        vec!["gc"],
        vec!["fsck", "--repair"],
        vec!["run", STUDY, "--no-dry-run"],
    ] {
        let ran = project.run(["--store", "home"].iter().chain(&command));
        assert_eq!(ran.code, Some(2), "{command:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("is not a store"), "{}", ran.stderr);
    }
    assert_eq!(fs::read_to_string(note).expect("still there"), "precious");
    let names = fs::read_dir(home).expect("readable").count();
    assert_eq!(names, 1);
}
