//! A host that OpenSSH reaches, and our binary on it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use artifacts::Digest;
use pipeline::sources::NamedFiles;
use pipeline::{Control, Failure, Json};
use serde::{Deserialize, Serialize};

use crate::COMMAND;
use crate::settings::Ssh;

/// How long a command that only reads something may take.
const GLANCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);

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

    /// Returns whether a file exists on the host.
    ///
    /// # Errors
    /// If the host cannot be reached.
    pub fn has(&self, file: &str, control: &Control) -> Result<bool, Failure> {
        let script = format!(
            "if test -f {}; then echo present; else echo absent; fi",
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
    let child = Command::new(program)
        .args(arguments)
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(e) => return Ok(Err(format!("`{program}` cannot be started: {e}"))),
    };
    let (sender, read) = channel();
    let mut pipes: [Option<Box<dyn Read + Send>>; 2] = [
        child.stdout.take().map(|pipe| Box::new(pipe) as _),
        child.stderr.take().map(|pipe| Box::new(pipe) as _),
    ];
    for (at, pipe) in pipes.iter_mut().enumerate() {
        let (sender, pipe) = (sender.clone(), pipe.take());
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // Unreadable output counts as missing; the exit status decides. What is too long is left in the pipe.
            let _cut = pipe.map(|pipe| pipe.take(LONGEST + 1).read_to_end(&mut bytes));
            drop(sender.send((at, String::from_utf8_lossy(&bytes).into_owned())));
        });
    }
    let begun = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begun.elapsed() < limit => std::thread::sleep(POLL),
            Ok(None) => {
                end(&mut child);
                return Ok(Err(format!("no answer within {} s", limit.as_secs())));
            }
            Err(e) => return Ok(Err(e.to_string())),
        }
        if let Err(stopped) = control.check() {
            end(&mut child);
            return Err(stopped);
        }
    };
    let mut texts = [String::new(), String::new()];
    for _ in 0..2 {
        if let Ok((at, text)) = read.recv_timeout(Duration::from_secs(5)) {
            texts[at] = text;
        }
    }
    let [out, err] = texts;
    if out.len() as u64 > LONGEST {
        return Ok(Err(format!("it printed more than {} MiB", LONGEST >> 20)));
    }
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

fn end(child: &mut std::process::Child) {
    // If the child cannot be killed, it has already ended.
    let _ended = child.kill();
    let _reaped = child.wait();
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
