//! A project in a temporary folder, and runs of the binary in it.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{ChildStdin, Command, Output, Stdio};
use std::sync::{Mutex, OnceLock};

use serde_json::Value;

/// The binary under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_benchtrail");

/// A project folder with the shipped experiments and templates.
pub(crate) struct Project {
    folder: tempfile::TempDir,
}

/// The result of one run of the binary.
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("the output is UTF-8"),
            stderr: without_the_machine(output.stderr),
        }
    }
}

/// Returns diagnostics without messages about the machine that runs the tests: whether it is quiet does not matter to a
/// test.
fn without_the_machine(stderr: Vec<u8>) -> String {
    let text = String::from_utf8(stderr).expect("the diagnostics are UTF-8");
    let lines = text.split_inclusive('\n');
    lines
        .filter(|line| !line.starts_with("warning: the machine is not quiet"))
        .collect()
}

impl Outcome {
    /// Returns the outcome if the command succeeded; otherwise, fails the test with its output.
    pub(crate) fn ok(self) -> Self {
        assert_eq!(
            self.code,
            Some(0),
            "stdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// Returns standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e} in:\n{}", self.stdout))
    }
}

impl Project {
    /// Creates a project with a copy of the shipped experiments and templates.
    pub(crate) fn new() -> Self {
        let folder = temporary();
        let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
        for name in ["experiments", "templates"] {
            copy_folder(&repository.join(name), &folder.path().join(name));
        }
        // Results of runs in the repository itself are not part of a new project.
        for entry in fs::read_dir(folder.path().join("experiments"))
            .expect("the experiments")
            .flatten()
        {
            if entry.path().extension().is_some_and(|e| e == "lock") {
                fs::remove_file(entry.path()).expect("the lock can be removed");
            }
        }
        fs::create_dir(folder.path().join(".benchtrail")).expect("a store folder");
        Self { folder }
    }

    /// Creates a separate project with a finished smoke run of the quickstart.
    pub(crate) fn finished() -> Self {
        Self::copy_of(pristine())
    }

    /// Creates a copy of another project.
    pub(crate) fn copy_of(other: &Self) -> Self {
        let folder = temporary();
        copy_folder(other.path(), folder.path());
        Self { folder }
    }

    /// Returns the folder.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns a command of the binary in this project, without environment variables that could affect a result.
    pub(crate) fn command<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = Command::new(BINARY);
        command
            .current_dir(self.path())
            .args(arguments)
            .env_remove("BENCHTRAIL_STORE")
            .env_remove("BENCHTRAIL_REMOTE")
            .env_remove("BENCHTRAIL_AS")
            .env_remove("BENCHTRAIL_HOST")
            // The tests themselves write everything they start; `trust` has separate tests.
            .env("BENCHTRAIL_TRUST", "1")
            .env(
                "XDG_STATE_HOME",
                Path::new(env!("CARGO_TARGET_TMPDIR")).join("state"),
            )
            .stdin(Stdio::null());
        command
    }

    /// Runs the binary to its end.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Outcome {
        self.command(arguments)
            .output()
            .expect("the binary starts")
            .into()
    }

    /// Replaces a text in a file of the project; the text must occur exactly once.
    pub(crate) fn edit(&self, file: &str, from: &str, to: &str) {
        let path = self.path().join(file);
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert_eq!(text.matches(from).count(), 1, "`{from}` in {file}");
        fs::write(&path, text.replacen(from, to, 1)).expect("the file can be written");
    }
}

/// Returns a shared project with a finished smoke run of the quickstart, for commands that change nothing.
pub(crate) fn finished() -> &'static Project {
    static FINISHED: OnceLock<Project> = OnceLock::new();
    FINISHED.get_or_init(|| goes_with_us(Project::finished()))
}

/// Creates a folder that is removed when dropped, or when the next test begins if its process was killed.
fn temporary() -> tempfile::TempDir {
    pipeline::temporary::folder(&std::env::temp_dir(), "benchtrail-test")
        .expect("a temporary folder")
}

/// Arranges for the folder of a shared project to be removed when this process ends, since statics are never dropped.
/// Another process waits for the end of a pipe, which comes however this process ends.
#[expect(clippy::zombie_processes, reason = "it must outlive this process")]
pub(crate) fn goes_with_us(project: Project) -> Project {
    static PIPES: Mutex<Vec<ChildStdin>> = Mutex::new(Vec::new());
    let mut waiting = Command::new("sh")
        .args(["-c", "cat > /dev/null; rm -rf \"$1\"", "sh"])
        .arg(project.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("sh starts");
    let pipe = waiting.stdin.take().expect("a pipe");
    PIPES.lock().expect("nobody panicked").push(pipe);
    project
}

/// Returns the project that others are copied from. No command runs in it after its creation, so that nothing changes
/// during a copy.
fn pristine() -> &'static Project {
    static PRISTINE: OnceLock<Project> = OnceLock::new();
    PRISTINE.get_or_init(|| {
        let project = goes_with_us(Project::new());
        project
            .run(["run", "experiments/quickstart.yaml", "--smoke"])
            .ok();
        project
    })
}

/// Copies a folder. Objects of the store and unpacked engines never change, so they are hard-linked.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the folder can be made");
    for entry in fs::read_dir(from).unwrap_or_else(|e| panic!("{}: {e}", from.display())) {
        let entry = entry.expect("a readable entry");
        let target = to.join(entry.file_name());
        let kind = entry.file_type().expect("a file type");
        let immutable = from
            .components()
            .any(|c| matches!(c.as_os_str().to_str(), Some("objects" | "environments")));
        if kind.is_dir() {
            copy_folder(&entry.path(), &target);
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path()).expect("a link"), &target)
                .expect("a link can be made");
        } else if immutable {
            fs::hard_link(entry.path(), &target).expect("a hard link can be made");
        } else {
            fs::copy(entry.path(), &target).expect("the file can be copied");
        }
    }
}

/// Returns the processes of this machine whose command line contains `text`.
pub(crate) fn processes_with(text: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").expect("/proc is there").flatten();
    let lines = entries.filter_map(|e| {
        e.file_name().to_str()?.parse::<u32>().ok()?;
        let line = fs::read(e.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    lines.filter(|line| line.contains(text)).collect()
}

/// Compares a text with its snapshot in `tests/snapshots`; `BLESS=1` accepts the new one. Replaces the project's folder
/// and digests first.
#[expect(
    clippy::disallowed_methods,
    reason = "a developer sets it to have the snapshots written"
)]
pub(crate) fn assert_snapshot(name: &str, text: &str, project: &Project) {
    let folder = project.path().canonicalize().expect("the project is there");
    let text = text
        .replace(&*folder.to_string_lossy(), "PROJECT")
        .replace(&*project.path().to_string_lossy(), "PROJECT");
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/snapshots")
        .join(name);
    if std::env::var_os("BLESS").is_some() {
        fs::create_dir_all(file.parent().expect("a snapshot lies in a folder"))
            .expect("the folder can be made");
        fs::write(&file, &text).expect("the snapshot can be written");
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(
        text,
        expected,
        "{} differs; BLESS=1 accepts the new text",
        file.display()
    );
}
