//! A host that OpenSSH reaches, and our binary on it.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use artifacts::Digest;
use pipeline::process::{Limits, Ran, run_within};
use pipeline::sources::NamedFiles;
use pipeline::{Control, Failure, Json};
use serde::{Deserialize, Serialize};

use crate::COMMAND;
use crate::settings::Ssh;

/// How long a command that only reads something may take.
const GLANCE: Duration = Duration::from_secs(60);

/// A host with our binary on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The host as OpenSSH knows it.
    pub name: String,
    /// The OpenSSH configuration file; `None` for the user's own.
    pub config: Option<PathBuf>,
    /// The folder on the host.
    pub folder: String,
    /// Our binary on the host.
    pub binary: String,
}

impl Host {
    /// Reaches a host, and copies our binary there if it is missing.
    ///
    /// # Errors
    /// If the host cannot be reached without a question, or cannot run the binary.
    pub fn reach(ssh: &Ssh, files: &NamedFiles, control: &Control) -> Result<Self, Failure> {
        let config = ssh.config.as_deref().map(|digest| files.place(digest));
        let config = config.transpose();
        let config = config.map_err(|e| Failure::failed(e.message).hint("run again"))?;
        // Clients start in other folders.
        let config = config.map(|path| std::path::absolute(&path).unwrap_or(path));
        Self::reach_by(ssh, config, control)
    }

    /// Does the same with a configuration file that has no digest, or with the user's own.
    ///
    /// # Errors
    /// As [`reach`](Self::reach).
    pub fn reach_by(
        ssh: &Ssh,
        config: Option<PathBuf>,
        control: &Control,
    ) -> Result<Self, Failure> {
        let mut host = Self {
            name: ssh.host.clone(),
            config,
            ..Self::default()
        };
        let exe = std::env::current_exe().map_err(|e| Failure::failed(e.to_string()))?;
        let digest = Digest::of_file(&exe)
            .map_err(|e| Failure::failed(format!("{}: {e}", exe.display())))?
            .hex();
        control.progress(0, None, format!("reaching {}", ssh.host));
        let named = match &ssh.folder {
            Some(folder) => format!("f={folder}"),
            None => r#"f="${XDG_CACHE_HOME:-$HOME/.cache}/benchtrail""#.to_owned(),
        };
        let there = host.shell(
            &format!(
                "{named}; mkdir -p \"$f/bin\" && printf '%s\\n' \"$f\" && \
                 if test -x \"$f/bin/{digest}\"; then echo present; else echo absent; fi"
            ),
            Stdio::null(),
            GLANCE,
            control,
        )?;
        let mut lines = there.lines();
        let (Some(folder), Some(state)) = (lines.next(), lines.next()) else {
            return Err(host.failure(&format!("it answers `{}`", there.trim())));
        };
        folder.clone_into(&mut host.folder);
        host.binary = format!("{folder}/bin/{digest}");
        if state != "present" {
            control.progress(0, None, format!("copying benchtrail to {}", ssh.host));
            host.push(&exe, &host.binary, "755", control)?;
        }
        let answer = host.call(&["hello"], &Json::Null, control)?;
        if answer["digest"] != digest {
            return Err(
                host.failure("the binary on the host has changed since Benchtrail copied it")
            );
        }
        Ok(host)
    }

    /// Copies a file to the host under a name. The name then has the complete content, or does not exist.
    ///
    /// # Errors
    /// If the file cannot be read, or the host refuses.
    pub fn push(
        &self,
        file: &Path,
        target: &str,
        mode: &str,
        control: &Control,
    ) -> Result<(), Failure> {
        let open = File::open(file)
            .map_err(|e| Failure::failed(format!("{} cannot be read: {e}", file.display())))?;
        let target = quoted(target);
        let script = format!(
            "t=$(mktemp {target}.XXXXXX) && cat > \"$t\" && chmod {mode} \"$t\" && mv \"$t\" {target}"
        );
        // No limit: files are large and links are slow.
        self.shell(&script, Stdio::from(open), Duration::MAX, control)
            .map(drop)
    }

    /// Copies files of a folder to the host, as a folder under a name. The name then has all of them, or does not exist. Links
    /// are followed.
    ///
    /// # Errors
    /// If a file cannot be read, or the host refuses.
    pub fn push_folder(
        &self,
        folder: &Path,
        files: &[PathBuf],
        target: &str,
        control: &Control,
    ) -> Result<(), Failure> {
        let unreadable = |e: io::Error| Failure::failed(format!("{}: {e}", folder.display()));
        let script = unpacked_to(&quoted(target));
        let (archive, writer) = io::pipe().map_err(unreadable)?;
        let (packed, unpacked) = std::thread::scope(|scope| {
            let packing = scope.spawn(move || pack(folder, files, writer));
            // No limit: files are large and links are slow.
            let unpacked = self.shell(&script, Stdio::from(archive), Duration::MAX, control);
            (packing.join(), unpacked)
        });
        match packed {
            // The host says why it stopped reading.
            Ok(Err(e)) if e.kind() != io::ErrorKind::BrokenPipe => Err(unreadable(e)),
            _ => unpacked.map(drop),
        }
    }

    /// Returns whether a file or a folder exists on the host.
    ///
    /// # Errors
    /// If the host cannot be reached.
    pub fn has(&self, file: &str, control: &Control) -> Result<bool, Failure> {
        let script = format!(
            "if test -e {}; then echo present; else echo absent; fi",
            quoted(file)
        );
        Ok(self.shell(&script, Stdio::null(), GLANCE, control)?.trim() == "present")
    }

    /// Makes a folder on the host.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn make_folder(&self, folder: &str, control: &Control) -> Result<(), Failure> {
        let script = format!("mkdir -p {}", quoted(folder));
        self.shell(&script, Stdio::null(), GLANCE, control)
            .map(drop)
    }

    /// Runs a command of our binary on the host with a document as input; returns its last line. The lines before are
    /// its progress.
    ///
    /// # Errors
    /// If the command or the connection fails.
    pub fn call(&self, what: &[&str], document: &Json, control: &Control) -> Result<Json, Failure> {
        let mut input = tempfile::tempfile().map_err(|e| Failure::failed(e.to_string()))?;
        let written = writeln!(input, "{document}").and_then(|()| io::Seek::rewind(&mut input));
        written.map_err(|e| Failure::failed(e.to_string()))?;
        let arguments = self.of_binary(what);
        let said = self.run(&arguments, Stdio::from(input), Duration::MAX, control)?;
        let last = said.lines().rfind(|line| !line.trim().is_empty());
        let answer: Json = last
            .and_then(|line| serde_json::from_str(line).ok())
            .ok_or_else(|| self.failure(&format!("it answers `{}`", said.trim())))?;
        match answer["failed"].as_str() {
            Some(reason) => {
                let failure = Failure::failed(format!("on {}: {reason}", self.name));
                Err(match answer["hint"].as_str() {
                    Some(hint) => failure.hint(hint),
                    None => failure,
                })
            }
            None => Ok(answer),
        }
    }

    /// Returns the command that runs our binary on the host, as a program and its arguments here.
    pub fn of_binary(&self, what: &[&str]) -> Vec<String> {
        let mut words = vec![quoted(&self.binary), COMMAND.to_owned()];
        words.push(quoted(&self.folder));
        words.extend(what.iter().map(|word| quoted(word)));
        self.command(&[], &words.join(" "))
    }

    /// Returns the command that starts a program on the host through our binary, and forwards a port of this machine to
    /// one there. The program ends when the command's standard input closes.
    pub fn forwarding(&self, here: u16, there: u16, what: &[&str]) -> Vec<String> {
        let forward = format!("127.0.0.1:{here}:127.0.0.1:{there}");
        let options = ["-o", "ExitOnForwardFailure=yes", "-L", &forward];
        let mut words = vec![quoted(&self.binary), COMMAND.to_owned()];
        words.push(quoted(&self.folder));
        words.extend(what.iter().map(|word| quoted(word)));
        self.command(&options, &words.join(" "))
    }

    /// Returns the client's command line. The client asks no questions, forwards only what is named here, and notices a
    /// dead link.
    fn command(&self, more: &[&str], script: &str) -> Vec<String> {
        let mut command: Vec<String> = ["ssh", "-T", "-x", "-a"].map(str::to_owned).into();
        if let Some(config) = &self.config {
            command.extend(["-F".to_owned(), config.display().to_string()]);
        }
        for option in [
            "BatchMode=yes",
            "ConnectTimeout=15",
            "ServerAliveInterval=5",
            "ServerAliveCountMax=3",
            "PermitLocalCommand=no",
            "RequestTTY=no",
            "LogLevel=ERROR",
        ] {
            command.extend(["-o".to_owned(), option.to_owned()]);
        }
        command.extend(more.iter().map(|word| (*word).to_owned()));
        command.extend(["--".to_owned(), self.name.clone(), script.to_owned()]);
        command
    }

    fn shell(
        &self,
        script: &str,
        input: Stdio,
        limit: Duration,
        control: &Control,
    ) -> Result<String, Failure> {
        let script = format!("sh -c {}", quoted(script));
        self.run(&self.command(&[], &script), input, limit, control)
    }

    /// Runs one of our commands to its end; returns its output.
    fn run(
        &self,
        command: &[String],
        input: Stdio,
        limit: Duration,
        control: &Control,
    ) -> Result<String, Failure> {
        let said = output_of(command, input, limit, control)?;
        said.map_err(|why| self.failure(&why))
    }

    fn failure(&self, why: &str) -> Failure {
        let name = &self.name;
        Failure::failed(format!("the host {name}: {why}")).hint(format!(
            "`ssh {name} true` must work without a prompt, and {name} must run Linux with the architecture of this \
             machine and a C library that is at least as new"
        ))
    }
}

/// The last file of an archive, which shows that it is complete.
const COMPLETE: &str = ".complete";

/// Writes files of a folder into an archive.
fn pack(folder: &Path, files: &[PathBuf], to: impl Write) -> io::Result<()> {
    let mut archive = tar::Builder::new(io::BufWriter::new(to));
    for file in files {
        archive.append_path_with_name(folder.join(file), file)?;
    }
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o644);
    header.set_size(0);
    archive.append_data(&mut header, COMPLETE, io::empty())?;
    archive.into_inner()?.flush()
}

/// Returns the script that unpacks an archive to a folder with this name, already quoted.
fn unpacked_to(target: &str) -> String {
    format!(
        "t=$(mktemp -d {target}.XXXXXX) && {{ tar -x -o -f - -C \"$t\" && rm \"$t/{COMPLETE}\" && chmod 755 \"$t\" && \
         {{ mv -T \"$t\" {target} || {{ rm -rf \"$t\"; test -d {target}; }}; }} || {{ rm -rf \"$t\"; exit 1; }}; }}"
    )
}

/// The longest output of a command on a host, in bytes. A host could print without end.
const LONGEST: u64 = if cfg!(test) { 1 << 20 } else { 512 << 20 };

/// Runs a command to its end; returns its output, or how it failed.
///
/// # Errors
/// If the user stops meanwhile.
pub(crate) fn output_of(
    command: &[String],
    input: Stdio,
    limit: Duration,
    control: &Control,
) -> Result<Result<String, String>, Failure> {
    let Some((program, arguments)) = command.split_first() else {
        return Ok(Err("the command is empty".to_owned()));
    };
    let limits = Limits {
        time: limit,
        output: LONGEST,
        memory: None,
    };
    let mut stopped = None;
    let ran = run_within(Command::new(program).args(arguments), input, limits, || {
        stopped = control.check().err();
        stopped.is_none()
    });
    if let Some(stopped) = stopped {
        return Err(stopped);
    }
    let output = match ran {
        Ok(Ran::Ended(output)) => output,
        Ok(Ran::Late | Ran::Stopped) => {
            return Ok(Err(format!("no answer within {} s", limit.as_secs())));
        }
        Ok(Ran::Endless) => return Ok(Err(format!("it printed more than {} MiB", LONGEST >> 20))),
        Err(e) => return Ok(Err(format!("`{program}` cannot be started: {e}"))),
    };
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (status, out, err) = (output.status, text(output.stdout), text(output.stderr));
    if status.success() {
        return Ok(Ok(out));
    }
    // Our binary reports failures on its standard output.
    let spoken = |text: &str| {
        let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(2)..].join(" / ")
    };
    let why = if err.trim().is_empty() {
        spoken(&out)
    } else {
        spoken(&err)
    };
    Ok(Err(if why.is_empty() {
        status.to_string()
    } else {
        why
    }))
}

/// Quotes a word for a POSIX shell.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_the_shell_there_are_quoted_and_options_never_follow_the_host() {
        let host = Host {
            name: "box".to_owned(),
            folder: "/a b".to_owned(),
            binary: "/a b/it's".to_owned(),
            config: Some(PathBuf::from("/etc/x")),
        };
        let command = host.of_binary(&["run", r#"{"a": "$(x)'"}"#]);
        let at = command.iter().position(|word| word == "--").unwrap();
        assert_eq!(command[at + 1], "box");
        assert_eq!(
            command[at + 2],
            r#"'/a b/it'\''s' __place '/a b' 'run' '{"a": "$(x)'\''"}'"#
        );
        assert_eq!(command.len(), at + 3);
        assert!(command.windows(2).any(|two| two == ["-F", "/etc/x"]));
        assert!(command.contains(&"BatchMode=yes".to_owned()));
    }

    #[test]
    fn a_folder_arrives_whole_or_not_at_all() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir(here.path().join("a")).unwrap();
        std::fs::write(here.path().join("a/x"), "1").unwrap();
        std::os::unix::fs::symlink(here.path().join("a/x"), here.path().join("y")).unwrap();
        let files = ["a/x", "y"].map(PathBuf::from);
        let mut archive = Vec::new();
        pack(here.path(), &files, &mut archive).unwrap();
        let unpacked = |bytes: &[u8], name: &str| {
            let target = there.path().join(name);
            let script = unpacked_to(&quoted(&target.display().to_string()));
            let input = tempfile::tempfile().unwrap();
            (&input).write_all(bytes).unwrap();
            io::Seek::rewind(&mut &input).unwrap();
            let command = ["sh".to_owned(), "-c".to_owned(), script];
            let limit = Duration::from_secs(600);
            let said = output_of(&command, Stdio::from(input), limit, &Control::quiet()).unwrap();
            (said.is_ok(), target)
        };
        let (arrived, target) = unpacked(&archive, "it's here");
        assert!(arrived);
        assert_eq!(std::fs::read_to_string(target.join("a/x")).unwrap(), "1");
        assert_eq!(std::fs::read_to_string(target.join("y")).unwrap(), "1");
        assert!(!target.join(COMPLETE).exists());
        // An archive that ends early, even where a file ends.
        let mut partial = archive[..1024].to_vec();
        partial.extend([0; 1024]);
        let (arrived, target) = unpacked(&partial, "partial");
        assert!(!arrived && !target.exists());
        assert_eq!(std::fs::read_dir(there.path()).unwrap().count(), 1);
        // Nor is anything sent of a folder that cannot be read.
        assert!(pack(here.path(), &[PathBuf::from("missing")], io::sink()).is_err());
    }

    #[test]
    fn a_command_that_fails_is_quoted_and_one_that_is_late_or_prints_without_end_is_ended() {
        let run = |script: &str, limit| {
            let command = ["sh", "-c", script].map(str::to_owned);
            output_of(&command, Stdio::null(), limit, &Control::quiet()).unwrap()
        };
        let long = Duration::from_secs(600);
        assert_eq!(run("echo yes", long), Ok("yes\n".to_owned()));
        assert_eq!(run("echo no >&2; exit 3", long), Err("no".to_owned()));
        let endless = run("exec yes", long).unwrap_err();
        assert_eq!(endless, "it printed more than 1 MiB");
        let late = run("sleep 600", Duration::from_millis(1)).unwrap_err();
        assert!(late.starts_with("no answer within"), "{late}");
    }
}
