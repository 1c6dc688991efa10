//! Fetches packages through the user's own pip, pinned by version and SHA-256.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use engines::Package;
use pipeline::{Control, Failure, Media, Output};
use sha2::{Digest, Sha256};

const POLL: Duration = Duration::from_millis(20);

/// The number of pip's last lines that an error quotes.
const QUOTED_LINES: usize = 4;

/// Fetches one package into `folder`, checks it, and returns its file.
pub(crate) fn fetch(
    python: &Path,
    package: &Package,
    folder: &Path,
    control: &Control,
) -> Result<PathBuf, Failure> {
    let name = format!("{} {}", package.name, package.version);
    let trouble =
        |what: &str, e: &io::Error| Failure::failed(format!("cannot fetch {name}: {what}: {e}"));
    fs::create_dir_all(folder).map_err(|e| trouble("the folder for it", &e))?;
    let requirements = folder.join("requirements.txt");
    let mut line = format!("{}=={}", package.name, package.version);
    for file in &package.files {
        line.push_str(&format!(" --hash=sha256:{}", file.sha256));
    }
    fs::write(&requirements, line + "\n").map_err(|e| trouble("the requirements file", &e))?;
    let log_path = folder.join("pip.log");
    let log = File::create(&log_path).map_err(|e| trouble("pip's log", &e))?;
    let errors = log.try_clone().map_err(|e| trouble("pip's log", &e))?;
    let downloads = folder.join("files");
    let mut child = Command::new(python)
        .args([
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--require-hashes",
            "--only-binary=:all:",
        ])
        .args([
            "--no-input",
            "--disable-pip-version-check",
            "--progress-bar=off",
            "--no-cache-dir",
        ])
        .arg("--dest")
        .arg(&downloads)
        .arg("--requirement")
        .arg(&requirements)
        // pip builds in the temporary folder, so it must be on the disk whose space was checked.
        .env("TMPDIR", folder)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .spawn()
        .map_err(|e| no_python(python, &e))?;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {}
            Err(e) => return Err(trouble("waiting for pip", &e)),
        }
        if let Err(stopped) = control.check() {
            // It may have just ended by itself.
            let _ = child.kill();
            let _ = child.wait();
            return Err(stopped);
        }
        thread::sleep(POLL);
    };
    if !status.success() {
        let said = fs::read(&log_path).map_err(|e| trouble("pip's log", &e))?;
        return Err(explain(&name, &String::from_utf8_lossy(&said)));
    }
    let mut files = fs::read_dir(&downloads).map_err(|e| trouble("the download", &e))?;
    let file = match (files.next(), files.next()) {
        (Some(Ok(file)), None) => file.path(),
        _ => {
            return Err(Failure::failed(format!(
                "cannot fetch {name}: pip did not leave exactly one file"
            )));
        }
    };
    let sum = sha256_of(&file).map_err(|e| trouble("the download", &e))?;
    if !package.files.iter().any(|f| f.sha256.hex() == sum) {
        return Err(wrong_sum(&name, &sum));
    }
    Ok(file)
}

fn wrong_sum(name: &str, sum: &str) -> Failure {
    Failure::failed(format!(
        "{name} has the SHA-256 {sum}, but is pinned to another"
    ))
    .hint("the file was changed in transit or in the registry; it was not used")
}

fn no_python(python: &Path, error: &io::Error) -> Failure {
    let program = python.display();
    let failure = Failure::failed(format!(
        "packages are fetched with pip, but `{program}` cannot be run: {error}"
    ));
    failure.hint("install Python 3 with pip; on Debian: apt install python3 python3-pip")
}

/// Explains why pip may have found nothing to download. If a registry refuses access or pip does not trust it, the only
/// sign is an empty list of versions.
fn no_candidate(log: &str) -> (&'static str, &'static str) {
    if log.contains("is being ignored") {
        (
            "pip does not trust its registry and ignores it",
            "use one with https, or name its host in pip's setting `trusted-host`",
        )
    } else if log.contains("from versions: none") {
        (
            "pip found no version of it: its registry has none for this platform, or does not answer",
            "check the network and the address of the registry (`pip config list`), and whether it has \
             the package; a registry that refuses looks the same to pip",
        )
    } else {
        (
            "pip's registries do not have it for this platform",
            "the definition may be for another platform, or pip may use an incomplete mirror",
        )
    }
}

/// Translates pip's error messages into what is missing.
fn explain(name: &str, log: &str) -> Failure {
    let has = |texts: &[&str]| texts.iter().any(|t| log.contains(t));
    let (what, hint) = if has(&["No module named pip"]) {
        (
            "Python has no pip",
            "install it; on Debian: apt install python3-pip",
        )
    } else if has(&["DO NOT MATCH THE HASHES", "THESE PACKAGES DO NOT MATCH"]) {
        (
            "its SHA-256 differs from the pinned one",
            "the file was changed in transit or in the registry",
        )
    } else if has(&["No space left on device"]) {
        ("the disk is full", "free some space on the store's disk")
    } else if has(&["not a supported wheel", "No matching distribution found"])
        && !has(&["Connection", "connection", "Temporary failure", "timed out"])
    {
        no_candidate(log)
    } else if has(&[
        "Connection",
        "connection",
        "Temporary failure",
        "timed out",
        "Network is unreachable",
    ]) {
        (
            "pip cannot reach its registry",
            "check the network and pip's configuration (`pip config list`)",
        )
    } else {
        ("pip failed", "try the same with `python3 -m pip download`")
    };
    let last = last_lines(log);
    Failure::failed(format!("cannot fetch {name}: {what}; pip said: {last}"))
        .hint(hint)
        .evidence(Output::text("pip_log", Media::Text, log))
}

/// Returns the last lines of a log, for a message.
pub(crate) fn last_lines(log: &str) -> String {
    let lines = log.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<&str> = lines.collect();
    lines[lines.len().saturating_sub(QUOTED_LINES)..].join(" / ")
}

/// Returns the SHA-256 of a file as hexadecimal digits.
pub(crate) fn sha256_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            n => hasher.update(&buffer[..n]),
        }
    }
    Ok(hex(hasher))
}

/// Returns the SHA-256 of a text as hexadecimal digits.
pub(crate) fn sha256_text(text: &str) -> String {
    hex(Sha256::new_with_prefix(text))
}

fn hex(hasher: Sha256) -> String {
    let sum = hasher.finalize();
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn package(sha256: &str) -> Package {
        serde_json::from_value(serde_json::json!({
            "registry": "pip", "name": "tiny", "version": "1.0", "unpack": "wheel",
            "files": [{"name": "tiny-1.0-py3-none-any.whl", "sha256": sha256, "bytes": 5}],
        }))
        .unwrap()
    }

    /// Makes a `python3` that runs `script` instead of pip.
    fn fake_python(folder: &Path, script: &str) -> PathBuf {
        let path = folder.join("python3");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    const LEAVES_HELLO: &str = r#"while [ $# -gt 0 ]; do
        if [ "$1" = --dest ]; then mkdir -p "$2"; printf hello > "$2/tiny.whl"; fi; shift
    done"#;
    const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

    fn fetch_with(script: &str, sha256: &str) -> Result<PathBuf, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let python = fake_python(folder.path(), script);
        fetch(
            &python,
            &package(sha256),
            &folder.path().join("d"),
            &Control::quiet(),
        )
    }

    #[test]
    fn a_file_with_the_pinned_sum_is_accepted() {
        assert!(
            fetch_with(LEAVES_HELLO, HELLO)
                .unwrap()
                .ends_with("files/tiny.whl")
        );
    }

    #[test]
    fn a_file_with_another_sum_is_refused_whatever_pip_says() {
        let failure = fetch_with(LEAVES_HELLO, &"0".repeat(64)).unwrap_err();
        assert!(
            failure.reason.contains(HELLO) && failure.reason.contains("is pinned to another"),
            "{failure}"
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        for (said, expected) in [
            ("/usr/bin/python3: No module named pip", "Python has no pip"),
            (
                "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE",
                "its SHA-256",
            ),
            (
                "OSError: [Errno 28] No space left on device",
                "the disk is full",
            ),
            (
                "ERROR: No matching distribution found for tiny==1.0",
                "for this platform",
            ),
            (
                "WARNING: Retrying after connection broken by NewConnectionError\nERROR: No matching distribution found",
                "cannot reach its registry",
            ),
            (
                "ERROR: Could not find a version that satisfies the requirement tiny==1.0 (from versions: none)\nERROR: No matching distribution found for tiny==1.0",
                "does not answer",
            ),
            (
                "WARNING: The repository located at mirror is not a trusted or secure host and is being ignored.\nERROR: No matching distribution found for tiny==1.0",
                "does not trust",
            ),
            (
                "ERROR: Could not find a version that satisfies the requirement tiny==1.0 (from versions: 0.9)\nERROR: No matching distribution found for tiny==1.0",
                "for this platform",
            ),
            ("something else", "pip failed"),
        ] {
            let failure = fetch_with(&format!("echo '{said}' >&2; exit 1"), HELLO).unwrap_err();
            assert!(failure.reason.contains(expected), "{said}: {failure}");
            assert!(failure.hint.is_some() && failure.evidence.len() == 1);
        }
    }

    #[test]
    fn the_error_on_a_machine_without_python_names_the_package() {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = folder.path().join("python3");
        let failure =
            fetch(&nowhere, &package(HELLO), folder.path(), &Control::quiet()).unwrap_err();
        assert!(
            failure
                .hint
                .unwrap()
                .contains("apt install python3 python3-pip")
        );
    }
}
