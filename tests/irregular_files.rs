//! Files that are not regular, or far too large, in the place of those that a command reads.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::abuse::{STUDY, command, copy, published};
use crate::support::{Outcome, Project};

#[test]
fn only_regular_files_below_the_bundle_are_opened() {
    type Plant = fn(&Path);
    let plants: [(&str, Plant); 4] = [
        ("FIFO", |path| {
            let made = std::process::Command::new("mkfifo").arg(path).status();
            assert!(made.expect("mkfifo starts").success());
        }),
        ("symbolic link", |path| {
            symlink("/dev/zero", path).expect("a link");
        }),
        ("symbolic link", |path| {
            symlink("/etc/hostname", path).expect("a link");
        }),
        ("directory", |path| fs::create_dir(path).expect("a folder")),
    ];
    for place in [
        "README.md",
        "manifest.json",
        "SHA256SUMS",
        "statement.json",
        "study.json",
    ] {
        for (what, plant) in plants {
            let (_folder, bundle) = copy();
            let path = bundle.join(place);
            fs::remove_file(&path).expect("removable");
            plant(&path);
            let outcome = command("verify", &bundle);
            let said = format!("{}{}", outcome.stdout, outcome.stderr);
            assert!(
                matches!(outcome.code, Some(1..=4)),
                "{place} {what}: {said}"
            );
            assert!(said.contains(what), "{place} as {what}: {said}");
        }
    }
}

/// Runs a command that must not block on a file. A command that does is ended, and fails the test.
fn unwaiting(project: &Project, line: &str) -> Outcome {
    let plain = project.command(line.split(' '));
    let mut command = std::process::Command::new("timeout");
    command
        .args([
            "-s",
            "KILL",
            "100",
            "sh",
            "-c",
            "ulimit -v 4194304 && exec \"$@\"",
            "sh",
        ])
        .arg(plain.get_program())
        .args(plain.get_args())
        .current_dir(project.path())
        .stdin(std::process::Stdio::null());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.output().expect("timeout starts").into()
}

#[test]
fn a_fifo_or_a_device_in_the_place_of_any_file_that_a_command_reads_ends_it_with_a_reason() {
    let project = Project::copy_of(&published().0);
    let at = |name: &str| project.path().join(name);
    let roots = fs::read_dir(at(".benchtrail/roots")).expect("roots").next();
    let root = roots.expect("a root").expect("readable").path();
    let place = root.join("place");
    let place = place.strip_prefix(project.path()).expect("below");
    let lease = ".benchtrail/leases/1-2.json";
    fs::create_dir_all(at(".benchtrail/leases")).expect("writable");
    fs::create_dir_all(at(".benchtrail/holds")).expect("writable");
    let cases: &[(&str, &[&str])] = &[
        (
            STUDY,
            &[
                "plan experiments/simulated.yaml",
                "run experiments/simulated.yaml",
            ],
        ),
        (
            "experiments/simulated.lock",
            &[
                "plan experiments/simulated.yaml",
                "status experiments/simulated.yaml",
                "run experiments/simulated.yaml",
                "gc --dry-run",
                "diff experiments/simulated.lock bundle",
                "explore experiments/simulated.lock --export out.html",
            ],
        ),
        (place.to_str().expect("text"), &["gc --dry-run"]),
        (".benchtrail/holds/run-1-2-3", &["gc --dry-run"]),
        (
            "x.md",
            &["audit x.md", "why x.md 1", "audit --foreign x.md"],
        ),
        (
            "x.parquet",
            &[
                "show x.parquet",
                "sql x.parquet",
                "audit --foreign bundle/README.md --data x.parquet",
            ],
        ),
        ("x.csv", &["audit --foreign bundle/README.md --data x.csv"]),
        ("x.tar.zst", &["verify x.tar.zst", "reproduce x.tar.zst"]),
        ("x.pem", &["verify bundle --key x.pem"]),
        ("load.json", &["report ."]),
    ];
    for (name, commands) in cases {
        for device in [false, true] {
            let path = at(name);
            let before = fs::read(&path).ok();
            fs::remove_file(&path).ok();
            if device {
                symlink("/dev/zero", &path).expect("a link");
            } else {
                let made = std::process::Command::new("mkfifo").arg(&path).status();
                assert!(made.expect("mkfifo starts").success());
            }
            for line in *commands {
                let outcome = unwaiting(&project, line);
                let said = format!("{}{}", outcome.stdout, outcome.stderr);
                let is_reported =
                    matches!(outcome.code, Some(1..=5)) && outcome.stderr.contains("error: ");
                assert!(
                    is_reported,
                    "{line}, device {device}: {:?} {said}",
                    outcome.code
                );
            }
            fs::remove_file(&path).expect("removable");
            if let Some(before) = before {
                fs::write(&path, before).expect("writable");
            }
        }
    }
    // A lease that is not ours is left alone.
    let made = std::process::Command::new("mkfifo").arg(at(lease)).status();
    assert!(made.expect("mkfifo starts").success());
    let outcome = unwaiting(&project, "run experiments/simulated.yaml --quiet");
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
}

#[test]
fn an_object_that_is_not_a_regular_file_is_not_read() {
    let (_folder, bundle) = copy();
    let objects = bundle.join("store/objects");
    let folder = fs::read_dir(&objects).expect("objects").next();
    let folder = folder.expect("a folder").expect("readable").path();
    let object = fs::read_dir(folder).expect("objects").next();
    let object = object.expect("an object").expect("readable").path();
    fs::remove_file(&object).expect("removable");
    let made = std::process::Command::new("mkfifo").arg(&object).status();
    assert!(made.expect("mkfifo starts").success());
    let outcome = command("verify", &bundle);
    assert_ne!(outcome.code, Some(0));
    assert!(
        outcome.stdout.contains("FIFO"),
        "{}{}",
        outcome.stdout,
        outcome.stderr
    );
}

#[test]
fn a_file_of_terabytes_in_the_place_of_a_key_or_a_lock_is_refused_before_it_is_read() {
    let (project, bundle) = published();
    // Other tests copy the project, and a copy would have no hole.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let large = folder.path().join("large");
    // A hole: it takes no disk.
    let file = fs::File::create(&large).expect("a file");
    file.set_len(1 << 42).expect("a hole");
    let large = large.to_str().expect("text");
    let bundle = bundle.to_str().expect("text");
    let lock = folder.path().join("large.lock");
    fs::write(&lock, "benchtrail lock 1\n").expect("writable");
    let file = fs::File::options().write(true).open(&lock);
    file.and_then(|file| file.set_len(1 << 42)).expect("a hole");
    let lock = lock.to_str().expect("text");
    for words in [
        vec!["verify", bundle, "--key", large],
        vec!["publish", STUDY, "--author", "A", "--key", large],
        vec!["load", "https://127.0.0.1:1", "--ca-file", large],
        vec!["diff", lock, STUDY],
    ] {
        let outcome = project.run(&words);
        assert_ne!(outcome.code, Some(0), "{words:?}");
        assert!(
            outcome.stderr.contains("the limit is "),
            "{words:?}: {}",
            outcome.stderr
        );
    }
}
