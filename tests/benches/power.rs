//! The verdicts of every shipped experiment, simulated often: `cargo bench --bench power`; a number after
//! `--` is the number of studies (2,000).

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    // cargo passes `--bench`.
    let studies = std::env::args().find_map(|a| a.parse::<u64>().ok());
    let studies = studies.unwrap_or(2_000).to_string();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["experiments", "experiments/gpu"].map(|folder| root.join(folder));
    let mut files: Vec<PathBuf> = folders.iter().flat_map(|folder| yaml(folder)).collect();
    files.sort();
    let store = std::env::temp_dir().join(format!("benchtrail-power-{}", std::process::id()));
    for file in files {
        let shown = Command::new(env!("CARGO_BIN_EXE_benchtrail"))
            .args(["power", "--studies", &studies, "--store"])
            .arg(&store)
            .arg(&file)
            .output()
            .expect("the binary starts");
        // Most experiments that ship compare nothing.
        if shown.status.code() != Some(5) {
            println!("{}", file.strip_prefix(root).unwrap_or(&file).display());
            println!("{}", String::from_utf8_lossy(&shown.stdout));
            assert!(
                shown.status.success(),
                "{}",
                String::from_utf8_lossy(&shown.stderr)
            );
        }
    }
    // An empty store that only the plan asked for.
    std::fs::remove_dir_all(&store).ok();
}

fn yaml(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).expect("the experiments are there");
    let mut files: Vec<_> = files.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == "yaml"));
    files
}
