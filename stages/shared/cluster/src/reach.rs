//! How machines reach the files of a run: through a folder that all of them mount, or through a bucket.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use artifacts::Digest;
use places::kubernetes::volume_of;
use places::{Kubernetes, quoted};
use remote::Remote;
use sha2::{Digest as _, Sha256};

use crate::document::{COMMAND, name};
use crate::error::ClusterError;
use crate::tail;

/// The exit code of a job whose machine lacks the program.
const NO_PROGRAM: u8 = 4;

/// How much of a job's output (bytes) a bucket keeps: its end.
const MOST_LOG: usize = 1 << 19;

/// The program in the image of a pod, if no folder is shared.
const IN_IMAGE: &str = "benchtrail";

/// The shared store, as seen from the machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// A folder at the same path everywhere. It also holds the program and the jobs' output.
    Folder(PathBuf),
    /// The address of a bucket. The program has the same path as here.
    Bucket(String),
}

/// The program, as seen from the machines.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    path: PathBuf,
    /// The checksum that a machine verifies before it starts the program. Not needed in the shared store, where a
    /// digest names the file.
    sha256: Option<String>,
}

impl Program {
    /// Returns the SHA-256 that the program must have where it starts, if no digest names its path.
    pub(crate) fn sha256(&self) -> Option<&str> {
        self.sha256.as_deref()
    }
}

impl Reach {
    pub(crate) fn of(remote: &Remote) -> Result<Self, ClusterError> {
        Ok(match remote.folder()? {
            Some(folder) => Self::Folder(folder),
            None => Self::Bucket(remote.url().to_owned()),
        })
    }

    /// Returns the store's path or address, which the job gets as an argument.
    pub(crate) fn word(&self) -> PathBuf {
        match self {
            Self::Folder(folder) => folder.clone(),
            Self::Bucket(url) => PathBuf::from(url),
        }
    }

    /// Returns the file into which Slurm writes the job's output: in the shared folder, or on the job's machine.
    pub(crate) fn log(&self, run: &str, shard: &str) -> PathBuf {
        match self {
            Self::Folder(folder) => folder.join(name(run, &format!("{shard}.log"))),
            Self::Bucket(_) => local_log(run, shard),
        }
    }

    /// Puts this program's file where machines find it.
    pub(crate) fn program(&self, binary: &Path) -> Result<Program, ClusterError> {
        match self {
            Self::Folder(folder) => Ok(Program {
                path: place_binary(folder, binary)?,
                sha256: None,
            }),
            Self::Bucket(_) => {
                let at = |e| ClusterError::Io(binary.to_owned(), e);
                let path = binary.canonicalize().map_err(at)?;
                let sha256 = sha256_of(&path).map_err(at)?;
                Ok(Program {
                    path,
                    sha256: Some(sha256),
                })
            }
        }
    }

    /// Returns the command of a pod. With a bucket, the image has the program on its search path.
    pub(crate) fn command(&self, program: &Program, run: &str, shard: &str) -> Vec<String> {
        let path = match self {
            Self::Folder(_) => program.path.display().to_string(),
            Self::Bucket(_) => IN_IMAGE.to_owned(),
        };
        let store = self.word().display().to_string();
        let words = [path.as_str(), COMMAND, &store, run, shard];
        words.map(str::to_owned).to_vec()
    }

    /// Checks that a pod reaches the shared store: a folder must be on one of its volumes, at the same path.
    ///
    /// # Errors
    /// If it is not.
    pub(crate) fn check_pod(&self, kubernetes: &Kubernetes) -> Result<(), ClusterError> {
        let Self::Folder(folder) = self else {
            return Ok(());
        };
        let shown = folder.display();
        match volume_of(&kubernetes.volumes, folder) {
            Some(volume) if volume.read_only => Err(ClusterError::OutOfReach(format!(
                "the shared store {shown} is on the claim `{}`, which pods can only read",
                volume.claim
            ))),
            Some(_) => Ok(()),
            None => Err(ClusterError::OutOfReach(format!(
                "the shared store {shown} is not on a volume of the pods"
            ))),
        }
    }

    /// Returns the script of a job.
    pub(crate) fn script(&self, program: &Program, run: &str, shard: &str) -> String {
        let path = quoted(&program.path.display().to_string());
        let store = quoted(&self.word().display().to_string());
        let start = format!(
            "exec {path} {} {store} {} {}",
            quoted(COMMAND),
            quoted(run),
            quoted(shard)
        );
        let Some(sha256) = &program.sha256 else {
            return start;
        };
        let said = quoted(&format!(
            "{} is not the program that submitted this job; with a bucket, put the same file at this path on every machine",
            program.path.display()
        ));
        format!(
            "if ! echo {sha256}\\ \\ {path} | sha256sum --check --status; then \
             echo \"$SLURMD_NODENAME: \"{said} >&2; exit {NO_PROGRAM}; fi; {start}"
        )
    }
}

/// Returns the file of a job's output on its machine, for runs without a shared folder.
fn local_log(run: &str, shard: &str) -> PathBuf {
    PathBuf::from(format!("/tmp/benchtrail-{run}-{shard}.log"))
}

/// Copies a job's output to a bucket, where the coordinator finds it.
pub(crate) fn keep_log(remote: &Remote, run: &str, shard: &str) {
    if !matches!(remote.folder(), Ok(None)) {
        return;
    }
    let file = local_log(run, shard);
    let Ok(end) = tail::read(&file, MOST_LOG) else {
        return;
    };
    // The output is evidence of a job that ends anyway. If the put fails, the file stays on the machine.
    let kept = remote.put_document(&name(run, &format!("{shard}.log")), &end);
    if kept.is_ok_and(|put| put) {
        let _stays = fs::remove_file(&file);
    }
}

/// Puts this program's file where the machines find it.
fn place_binary(folder: &Path, binary: &Path) -> Result<PathBuf, ClusterError> {
    let at = |e| ClusterError::Io(binary.to_owned(), e);
    let digest = Digest::of_file(binary).map_err(at)?;
    let place = folder
        .join("jobs/bin")
        .join(digest.hex())
        .join("benchtrail");
    if place.is_file() {
        return Ok(place);
    }
    let parent = place.parent().expect("a file lies in a folder").to_owned();
    let put = || {
        use std::os::unix::fs::PermissionsExt;
        fs::create_dir_all(&parent)?;
        let mut file = tempfile::NamedTempFile::new_in(&parent)?;
        std::io::copy(&mut fs::File::open(binary)?, file.as_file_mut())?;
        file.as_file()
            .set_permissions(fs::Permissions::from_mode(0o755))?;
        file.as_file().sync_all()?;
        file.persist(&place).map(drop).map_err(|e| e.error)
    };
    put().map_err(|e| ClusterError::Io(parent.clone(), e))?;
    Ok(place)
}

/// Returns the SHA-256 of a file in hexadecimal digits, as `sha256sum` on the machines prints it.
pub(crate) fn sha256_of(file: &Path) -> std::io::Result<String> {
    let mut file = fs::File::open(file)?;
    let mut hasher = Sha256::new();
    let mut piece = vec![0; 1 << 18];
    loop {
        match file.read(&mut piece)? {
            0 => break,
            n => hasher.update(&piece[..n]),
        }
    }
    Ok(artifacts::hex(&hasher.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Executes a script as a job does; returns its exit code and its standard error.
    fn executed(script: &str) -> (Option<i32>, String) {
        let mut shell = std::process::Command::new("sh");
        let output = shell
            .args(["-c", script])
            .env("SLURMD_NODENAME", "n1")
            .output();
        let output = output.expect("a shell");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    }

    #[test]
    fn with_a_bucket_a_machine_starts_only_the_very_same_program() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("it's a program");
        fs::write(&file, "#!/bin/sh\necho \"$@\" >&2\nexit 7\n").expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("permissions");
        let reach = Reach::Bucket("s3://lab/a b".to_owned());
        let program = reach.program(&file).expect("a program");
        let script = reach.script(&program, "r1", "0001");
        let (code, said) = executed(&script);
        assert_eq!(
            (code, said.as_str()),
            (Some(7), "__shard s3://lab/a b r1 0001\n")
        );
        fs::write(&file, "#!/bin/sh\nexit 0\n").expect("a file");
        let (code, said) = executed(&script);
        assert_eq!(code, Some(4), "{said}");
        assert!(
            said.starts_with("n1: ") && said.contains("is not the program"),
            "{said}"
        );
        fs::remove_file(&file).expect("removed");
        assert_eq!(executed(&script).0, Some(4));
    }
    #[test]
    fn pods_find_the_program_in_the_shared_folder_or_in_their_image_and_a_folder_must_be_on_a_volume()
     {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("benchtrail");
        fs::write(&file, "a program").expect("a file");
        let shared = Reach::Folder(folder.path().join("store"));
        let program = shared.program(&file).expect("a program");
        let command = shared.command(&program, "r1", "0001");
        let start = folder.path().join("store/jobs/bin");
        assert!(
            command[0].starts_with(&start.display().to_string()),
            "{command:?}"
        );
        assert_eq!(program.sha256(), None, "its digest is in its path");
        let bucket = Reach::Bucket("s3://lab/a".to_owned());
        let program = bucket.program(&file).expect("a program");
        assert_eq!(
            bucket.command(&program, "r1", "0001"),
            ["benchtrail", "__shard", "s3://lab/a", "r1", "0001"]
        );
        assert_eq!(program.sha256().map(str::len), Some(64));
        let volume = |path: &Path, read_only| places::kubernetes::Volume {
            claim: "shared".to_owned(),
            path: path.display().to_string(),
            read_only,
            ..places::kubernetes::Volume::default()
        };
        let pods = |volumes| Kubernetes {
            volumes,
            ..Kubernetes::default()
        };
        assert!(bucket.check_pod(&pods(Vec::new())).is_ok());
        assert!(shared.check_pod(&pods(Vec::new())).is_err());
        assert!(
            shared
                .check_pod(&pods(vec![volume(folder.path(), false)]))
                .is_ok()
        );
        assert!(
            shared
                .check_pod(&pods(vec![volume(folder.path(), true)]))
                .is_err()
        );
    }
}
