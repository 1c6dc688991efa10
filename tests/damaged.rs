//! Every command on files that are damaged or made to do harm: a documented exit code, a reason, no terminal control
//! sequences, and no more memory or time than the kernel allows.
//!
//! `BENCHTRAIL_FAULTS` sets the number of cases, `BENCHTRAIL_SEED` selects them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::Project;
use crate::torture::{Random, count, damage, files_below, reported, run};

const STUDY: &str = "experiments/simulated.yaml";

/// Replacements for numbers, names and texts.
const SCRAPS: [&str; 20] = [
    "-1",
    "9223372036854775807",
    "18446744073709551616",
    "1e400",
    "NaN",
    "null",
    "true",
    "\"\"",
    "{}",
    "[]",
    "[[[[[[[[[[[[[[[[",
    "../../x",
    "/etc/passwd",
    "\0",
    "\u{1b}[2J",
    "\u{202e}",
    "*",
    "&a",
    "b3:",
    "${seed}",
];

/// Files, and the commands that read them.
struct Class {
    name: &'static str,
    files: fn(&Path) -> Vec<PathBuf>,
    commands: &'static [&'static str],
}

const CLASSES: [Class; 7] = [
    Class {
        name: "objects",
        files: |project| files_below(&project.join(".benchtrail/objects")),
        commands: &[
            "fsck",
            "fsck --repair",
            "plan experiments/simulated.yaml",
            "run experiments/simulated.yaml --quiet",
            "run experiments/simulated.yaml --locked --quiet",
            "ls experiments/simulated.yaml",
            "show experiments/simulated.yaml results.cells",
            "show experiments/simulated.yaml results",
            "sql experiments/simulated.yaml select+count(*)+from+ladder.requests",
            "audit reports/simulated/report.md",
            "why reports/simulated/report.md:40",
            "publish experiments/simulated.yaml --author A --out out",
            "report experiments/simulated.yaml --out out.md",
            "explore experiments/simulated.yaml --export out.html",
            "diff experiments/simulated.yaml bundle",
            "gc --dry-run",
            "doctor experiments/simulated.yaml",
        ],
    },
    Class {
        name: "store",
        files: |project| {
            let mut files = files_below(&project.join(".benchtrail"));
            files.retain(|f| !f.components().any(|c| c.as_os_str() == "objects"));
            files
        },
        commands: &[
            "fsck",
            "plan experiments/simulated.yaml",
            "run experiments/simulated.yaml --quiet",
            "gc --dry-run",
            "ls experiments/simulated.yaml",
            "doctor --deep",
        ],
    },
    Class {
        name: "lock",
        files: |project| vec![project.join("experiments/simulated.lock")],
        commands: &[
            "status experiments/simulated.yaml",
            "plan experiments/simulated.yaml",
            "run experiments/simulated.yaml --quiet",
            "run experiments/simulated.yaml --locked --quiet",
            "audit reports/simulated/report.md",
            "diff experiments/simulated.lock bundle",
            "history experiments/simulated.lock results.cells.ttft_ms_p50",
            "report experiments/simulated.lock --out out.md",
            "gc --dry-run",
        ],
    },
    Class {
        name: "report",
        files: |project| files_below(&project.join("reports")),
        commands: &[
            "audit reports/simulated/report.md",
            "audit --foreign reports/simulated/report.md --data reports/simulated",
            "why reports/simulated/report.md:40",
            "sql reports/simulated/report.trace.parquet select+*+from+report.trace",
            "show reports/simulated/report.trace.parquet",
        ],
    },
    Class {
        name: "bundle",
        files: |project| files_below(&project.join("bundle")),
        commands: &[
            "verify bundle",
            "reproduce bundle",
            "audit bundle/report/report.md",
            "why bundle/report/report.md:40",
            "show bundle results.cells",
            "sql bundle select+count(*)+from+ladder.requests",
            "diff bundle experiments/simulated.yaml",
            "report bundle --out out.md",
            "explore bundle --export out.html",
            "plan bundle/experiments/simulated.yaml",
        ],
    },
    Class {
        name: "archive",
        files: |project| vec![project.join("bundle.tar.zst")],
        commands: &[
            "verify bundle.tar.zst",
            "reproduce bundle.tar.zst",
            "show bundle.tar.zst",
            "sql bundle.tar.zst",
        ],
    },
    Class {
        name: "experiment",
        files: |project| {
            let mut files = files_below(&project.join("templates"));
            files.push(project.join(STUDY));
            files.push(project.join(STUDY));
            files
        },
        commands: &[
            "plan experiments/simulated.yaml",
            "plan experiments/simulated.yaml --commands",
            "plan experiments/simulated.yaml --dry-run",
            "status experiments/simulated.yaml",
            "power experiments/simulated.yaml --studies 2",
            "doctor experiments/simulated.yaml",
            "run experiments/simulated.yaml --quiet",
        ],
    },
];

/// Replaces a word by a scrap, or inserts a fault anywhere.
fn mutate(path: &Path, random: &mut Random) -> String {
    let bytes = fs::read(path).expect("readable");
    let is_word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    let text = std::str::from_utf8(&bytes).is_ok();
    if !text || bytes.is_empty() || random.below(3) == 0 {
        return damage(path, random);
    }
    let at = random.below(bytes.len());
    let from = bytes[..at].iter().rposition(|b| !is_word(b));
    let from = from.map_or(0, |p| p + 1);
    let length = bytes[from..].iter().position(|b| !is_word(b));
    let to = length.map_or(bytes.len(), |length| from + length);
    let scrap = SCRAPS[random.below(SCRAPS.len())];
    let changed = [&bytes[..from], scrap.as_bytes(), &bytes[to..]].concat();
    fs::remove_file(path).expect("removable");
    fs::write(path, changed).expect("writable");
    format!("{scrap:?} put at {from} to {to}")
}

#[test]
fn every_command_ends_with_a_documented_code_and_a_reason_whatever_its_files_hold() {
    let original = reported();
    let publish = "publish experiments/simulated.yaml --author A --out bundle --archive";
    run(&original, &publish.split(' ').collect::<Vec<_>>()).ok();
    let mut random = Random::new(4001);
    for number in 0..count("BENCHTRAIL_FAULTS", 14) {
        let class = &CLASSES[number % CLASSES.len()];
        let project = Project::copy_of(&original);
        let files = (class.files)(project.path());
        let file = &files[random.below(files.len())];
        let what = mutate(file, &mut random);
        for _ in 0..3 {
            let line = class.commands[random.below(class.commands.len())];
            let spaced: Vec<String> = line.split(' ').map(|w| w.replace('+', " ")).collect();
            let words: Vec<&str> = spaced.iter().map(String::as_str).collect();
            let ended = run(&project, &words);
            let said = format!("{}{}", ended.stdout, ended.stderr);
            let case = || {
                format!(
                    "case {number}, {}: {} {what}, then {line}: {:?}\n{said}",
                    class.name,
                    file.display(),
                    ended.code
                )
            };
            assert!(matches!(ended.code, Some(0..=6)), "{}", case());
            assert!(!said.contains("panicked"), "{}", case());
            assert!(
                ended.code == Some(0) || !said.trim().is_empty(),
                "{}",
                case()
            );
            let drives = |c: char| c.is_control() && !matches!(c, '\n' | '\t') || c == '\u{202e}';
            assert!(!said.contains(drives), "{}", case());
        }
    }
}
