//! Fetches packages through the user's own pip, pinned by version and SHA-256.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use engines::Package;
use pipeline::{Control, Failure, Leases};
use sha2::{Digest, Sha256};

use crate::venv::{PinnedBy, Session};

/// Fetches one package into `folder`, checks it, and returns its file.
pub(crate) fn fetch(
    python: &Path,
    package: &Package,
    folder: &Path,
    control: &Control,
    leases: &Leases,
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
    let downloads = folder.join("files");
    let mut command = Command::new(python);
    command
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
        .env("TMPDIR", folder);
    let session = Session {
        folder,
        control,
        leases,
        pinned_by: PinnedBy::Definition,
    };
    session.wait(command, "pip", &format!("fetching {name}"))?;
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
    Ok(artifacts::hex(&hasher.finalize()))
}

/// Returns the SHA-256 of a text as hexadecimal digits.
pub(crate) fn sha256_text(text: &str) -> String {
    artifacts::hex(&Sha256::digest(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::Ordering;

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

    fn fetch_by(python: &Path, sha256: &str, folder: &Path) -> Result<PathBuf, Failure> {
        let leases = Leases::new(folder, "study", "engine");
        let control = Control::quiet();
        fetch(
            python,
            &package(sha256),
            &folder.join("d"),
            &control,
            &leases,
        )
    }

    fn fetch_with(script: &str, sha256: &str) -> Result<PathBuf, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let python = fake_python(folder.path(), script);
        fetch_by(&python, sha256, folder.path())
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
        let said = "/usr/bin/python3: No module named pip";
        let failure = fetch_with(&format!("echo '{said}' >&2; exit 1"), HELLO).unwrap_err();
        for expected in ["fetching tiny 1.0", "no pip", said] {
            assert!(failure.reason.contains(expected), "{failure}");
        }
        assert!(failure.hint.is_some() && failure.evidence.len() == 1);
    }

    #[test]
    fn a_stop_ends_pip_with_what_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; wait", pid.display());
        let python = fake_python(folder.path(), &script);
        let control = Control::quiet();
        let leases = Leases::new(folder.path(), "study", "engine");
        let read = || {
            fs::read_to_string(&pid)
                .unwrap_or_default()
                .trim()
                .parse::<u32>()
        };
        std::thread::scope(|scope| {
            let fetched =
                scope.spawn(|| fetch(&python, &package(HELLO), folder.path(), &control, &leases));
            while read().is_err() {
                std::thread::yield_now();
            }
            control.stop_flag().store(true, Ordering::SeqCst);
            fetched.join().unwrap().unwrap_err();
        });
        let left = pipeline::process::stat(read().unwrap()).unwrap();
        assert!(left.is_none_or(|process| !process.is_running()), "{left:?}");
    }

    #[test]
    fn the_error_on_a_machine_without_python_names_the_package() {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = folder.path().join("python3");
        let failure = fetch_by(&nowhere, HELLO, folder.path()).unwrap_err();
        assert!(failure.reason.contains("fetching tiny 1.0"), "{failure}");
        assert!(
            failure
                .hint
                .unwrap()
                .contains("apt install python3 python3-pip")
        );
    }
}
