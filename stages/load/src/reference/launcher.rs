//! Starts the reference server as a separate process.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::{PROCESS_COMMAND, Truth, read_truth};

/// The command that starts the reference server's process.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The program.
    pub program: PathBuf,
    /// The arguments before the server's own.
    pub arguments: Vec<OsString>,
    /// For a TLS server (with `--certificate` and `--key` among the arguments): a PEM file with the trusted
    /// certificates.
    pub ca_file: Option<PathBuf>,
}

impl Launcher {
    /// Returns a launcher for this program, which must pass [`PROCESS_COMMAND`] on to
    /// [`serve_process`](super::serve_process).
    ///
    /// # Errors
    /// If the path of this program is unknown.
    pub fn own() -> io::Result<Self> {
        Ok(Self {
            program: std::env::current_exe()?,
            arguments: vec![PROCESS_COMMAND.into()],
            ca_file: None,
        })
    }

    /// Returns a launcher for TLS servers. Both files are PEM, and clients trust only this certificate.
    #[must_use]
    pub fn with_certificate(&self, certificate: &Path, key: &Path) -> Self {
        let mut arguments = self.arguments.clone();
        arguments.extend(["--certificate".into(), certificate.into()]);
        arguments.extend(["--key".into(), key.into()]);
        Self {
            program: self.program.clone(),
            arguments,
            ca_file: Some(certificate.to_owned()),
        }
    }

    /// Starts a server with `options` for [`serve_process`](super::serve_process). It ends when the returned value is
    /// dropped, and when this process ends.
    ///
    /// # Errors
    /// If the program cannot be started or prints no URL.
    pub fn start(&self, options: &[String]) -> io::Result<ReferenceProcess> {
        let mut process = Command::new(&self.program)
            .args(&self.arguments)
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let out = process
            .stdout
            .take()
            .ok_or_else(|| io::Error::other("no output of the server"))?;
        let mut server = ReferenceProcess {
            process,
            out: BufReader::new(out),
            url: String::new(),
        };
        server.out.read_line(&mut server.url)?;
        server.url.truncate(server.url.trim_end().len());
        if server.url.is_empty() {
            let program = self.program.display();
            return Err(io::Error::other(format!(
                "{program} ended without reporting its address"
            )));
        }
        Ok(server)
    }
}

/// A running reference server.
#[derive(Debug)]
pub struct ReferenceProcess {
    process: Child,
    out: BufReader<ChildStdout>,
    url: String,
}

impl ReferenceProcess {
    /// Returns its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Ends the server by closing its input, and returns its log.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn truth(mut self) -> io::Result<Vec<Truth>> {
        drop(self.process.stdin.take());
        read_truth(&mut self.out)
    }
}

impl Drop for ReferenceProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.process.kill();
        let _reaped = self.process.wait();
    }
}
