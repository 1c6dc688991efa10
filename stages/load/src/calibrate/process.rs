//! The reference server as a process of its own.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use super::certificate::Certificate;
use crate::reference::{PROCESS_COMMAND, Truth, read_truth};
use crate::span::Span;

/// How the reference server's process is started.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The program.
    pub program: PathBuf,
    /// What comes before the server's own arguments.
    pub arguments: Vec<OsString>,
    /// For a server of TLS (by `--certificate` and `--key` among the arguments): a PEM file with the
    /// certificates to trust.
    pub ca_file: Option<PathBuf>,
}

impl Launcher {
    /// This very program, which must hand [`PROCESS_COMMAND`] on to
    /// [`serve_process`](crate::reference::serve_process).
    ///
    /// # Errors
    /// If the program's own file is not known.
    pub fn own() -> io::Result<Self> {
        Ok(Self {
            program: std::env::current_exe()?,
            arguments: vec![PROCESS_COMMAND.into()],
            ca_file: None,
        })
    }

    /// Starts servers of TLS instead, with this certificate, which then is the only one trusted.
    #[must_use]
    pub fn with(&self, certificate: &Certificate) -> Self {
        let mut arguments = self.arguments.clone();
        arguments.extend(["--certificate".into(), certificate.file().into()]);
        arguments.extend(["--key".into(), certificate.key_file().into()]);
        Self {
            program: self.program.clone(),
            arguments,
            ca_file: Some(certificate.file()),
        }
    }

    /// Starts a server: `options` as [`serve_process`](crate::reference::serve_process) takes
    /// them. It ends when the returned value is dropped, and when this process ends.
    ///
    /// # Errors
    /// If the program cannot be started or tells no URL.
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
    /// Returns where it serves.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Ends it by closing its input, and returns its log.
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

/// Returns the arguments of a server of this timing.
pub(super) fn options(ttft: Span, gap: Span, tokens: u32, core: Option<usize>) -> Vec<String> {
    let ms = |span: Span| (span.nanoseconds() as f64 / 1e6).to_string();
    let mut options = vec![
        "--ttft-ms".to_owned(),
        ms(ttft),
        "--gap-ms".to_owned(),
        ms(gap),
    ];
    options.extend(["--tokens".to_owned(), tokens.to_string()]);
    if let Some(core) = core {
        options.extend(["--core".to_owned(), core.to_string()]);
    }
    options
}

/// Returns the last core this process may run on, if there are at least two.
pub(super) fn spare_core() -> Option<usize> {
    let allowed = rustix::thread::sched_getaffinity(None).ok()?;
    let cores: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|core| allowed.is_set(*core))
        .collect();
    if cores.len() < 2 {
        None
    } else {
        cores.last().copied()
    }
}
