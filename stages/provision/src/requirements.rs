//! Checks whether a machine meets an engine's requirements.

use std::path::Path;

use engines::{Engine, Program};
use pipeline::suggest::any_of;

use crate::machine::Machine;
use crate::surroundings::Brought;

/// A requirement that the machine does not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// What is missing, in one sentence without a full stop.
    pub reason: String,
    /// The remedy, if there is one.
    pub hint: Option<String>,
}

impl Unmet {
    fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            hint: None,
        }
    }

    fn package(reason: String, debian: Option<&String>) -> Self {
        Self {
            reason,
            hint: debian.map(|name| format!("on Debian: apt install {name}")),
        }
    }
}

/// Returns every requirement of an engine that neither the machine nor the study's environment meets.
pub fn unmet(engine: &Engine, machine: &Machine, brought: Brought) -> Vec<Unmet> {
    let needs = &engine.requires;
    let mut missing = Vec::new();
    if !needs.os.is_empty() && !needs.os.contains(&machine.os) {
        missing.push(Unmet::new(format!(
            "it runs on {}, but this machine runs {}",
            any_of(&needs.os),
            machine.os
        )));
    }
    if !needs.arch.is_empty() && !needs.arch.contains(&machine.arch) {
        missing.push(Unmet::new(format!(
            "it is built for {}, but this machine is {}",
            any_of(&needs.arch),
            machine.arch
        )));
    }
    let system = brought == Brought::System;
    if let Some(oldest) = needs.glibc.as_ref().filter(|_| !system) {
        match &machine.glibc {
            Ok(have) if version(have) >= version(oldest) => {}
            Ok(have) => missing.push(Unmet::new(format!(
                "it needs glibc {oldest}, but this machine has {have}"
            ))),
            Err(why) => {
                missing.push(Unmet::new(format!(
                    "it needs glibc {oldest}, but none was found ({why})"
                )));
            }
        }
    }
    if !needs.cpu_flags.is_empty() {
        match &machine.cpu_flags {
            Ok(have) => {
                let lacking: Vec<&str> = needs
                    .cpu_flags
                    .iter()
                    .filter(|f| !have.contains(*f))
                    .map(String::as_str)
                    .collect();
                if !lacking.is_empty() {
                    missing.push(Unmet::new(format!(
                        "the processor lacks {}",
                        lacking.join(", ")
                    )));
                }
            }
            Err(why) => missing.push(Unmet::new(format!(
                "the processor's features are unknown ({why})"
            ))),
        }
    }
    for library in needs
        .libraries
        .iter()
        .filter(|l| !system && !machine.has_library(&l.file))
    {
        let reason = format!("the system library {} is missing", library.file);
        missing.push(Unmet::package(reason, library.debian.as_ref()));
    }
    let is_brought = |name: &str| match brought {
        Brought::Nothing => false,
        Brought::Program => {
            matches!(&engine.launch.program, Program::Installed(own) if own == name)
        }
        Brought::System => true,
    };
    for tool in needs
        .programs
        .iter()
        .filter(|t| !is_brought(&t.name) && machine.program(&t.name).is_none())
    {
        let reason = format!("the program `{}` is not on the search path", tool.name);
        missing.push(Unmet::package(reason, tool.debian.as_ref()));
    }
    if let Program::Installed(name) = &engine.launch.program
        && brought == Brought::Nothing
        && machine.program(name).is_none()
        && !needs.programs.iter().any(|t| t.name == *name)
    {
        missing.push(not_installed(name));
    }
    missing
}

/// Returns the message for a missing program that the user installs. A name with `/` is a path.
fn not_installed(name: &str) -> Unmet {
    if name.contains('/') && Path::new(name).is_file() {
        return Unmet {
            reason: format!("`{name}` cannot be executed"),
            hint: Some(format!(
                "allow it (`chmod +x {name}`), or name the program that executes it as `launch.program.installed`, and the \
                 file as the first of `launch.arguments`"
            )),
        };
    }
    let (reason, place) = if name.contains('/') {
        let reason = format!("there is no program `{name}`");
        (
            reason,
            "at that path, or give another path in the definition",
        )
    } else {
        let reason = format!("the program `{name}` is not on the search path");
        (reason, "so that it is on PATH")
    };
    Unmet {
        reason,
        hint: Some(format!(
            "the definition is for an engine that you install yourself: install it {place}"
        )),
    }
}

/// Returns the numbers of a dotted version; other parts count as 0.
fn version(text: &str) -> Vec<u32> {
    text.split('.')
        .map(|part| part.parse().unwrap_or(0))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn engine(requires: &serde_json::Value) -> Engine {
        let definition = json!({
            "title": "x", "version": "1", "requires": requires,
            "launch": {"program": {"installed": "sh"}, "arguments": ["{port}"]},
        });
        Engine::from_json(&definition).unwrap()
    }

    #[test]
    fn a_file_that_cannot_be_executed_is_not_called_missing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.sh");
        let path = path.to_str().unwrap();
        assert!(
            not_installed(path)
                .reason
                .starts_with("there is no program")
        );
        std::fs::write(path, "#!/bin/sh\n").unwrap();
        let unmet = not_installed(path);
        assert_eq!(unmet.reason, format!("`{path}` cannot be executed"));
        assert!(unmet.hint.unwrap().contains("chmod +x"));
    }

    fn machine() -> Machine {
        Machine {
            os: "linux".into(),
            arch: "x86_64".into(),
            cpu_model: Ok("fake".into()),
            cpu_flags: Ok(["avx2", "avx512f"].map(str::to_owned).into()),
            cpus: 2,
            memory_bytes: Ok(1 << 34),
            glibc: Ok("2.36".into()),
            libraries: Ok(["libgomp.so.1".to_owned()].into()),
            path: vec!["/usr/bin".into(), "/bin".into()],
            gpus: Ok(Vec::new()),
        }
    }

    fn reasons(requires: &serde_json::Value, machine: &Machine) -> Vec<String> {
        unmet(&engine(requires), machine, Brought::Nothing)
            .into_iter()
            .map(|u| u.reason)
            .collect()
    }

    #[test]
    fn a_machine_that_has_everything_lacks_nothing() {
        let needs = json!({
            "os": ["linux"], "arch": ["x86_64"], "glibc": "2.35", "cpu-flags": ["avx512f"],
            "libraries": [{"file": "libgomp.so.1"}], "programs": [{"name": "sh"}],
        });
        assert_eq!(reasons(&needs, &machine()), Vec::<String>::new());
    }

    #[test]
    fn everything_missing_is_reported_at_once() {
        let needs = json!({
            "os": ["macos"], "arch": ["aarch64"], "glibc": "2.40", "cpu-flags": ["avx2", "amx_int8", "avx512_bf16"],
            "libraries": [{"file": "libnone.so.1", "debian": "libnone1"}],
            "programs": [{"name": "no-such-program-here", "debian": "none"}],
        });
        assert_eq!(
            reasons(&needs, &machine()),
            [
                "it runs on macos, but this machine runs linux",
                "it is built for aarch64, but this machine is x86_64",
                "it needs glibc 2.40, but this machine has 2.36",
                "the processor lacks amx_int8, avx512_bf16",
                "the system library libnone.so.1 is missing",
                "the program `no-such-program-here` is not on the search path",
            ]
        );
    }

    #[test]
    fn a_missing_library_names_the_debian_package() {
        let needs = json!({"libraries": [{"file": "libnone.so.1", "debian": "libnone1"}]});
        assert_eq!(
            unmet(&engine(&needs), &machine(), Brought::Nothing)[0]
                .hint
                .as_deref(),
            Some("on Debian: apt install libnone1")
        );
    }

    #[test]
    fn a_container_brings_all_but_the_processor() {
        let needs = json!({
            "glibc": "2.40", "cpu-flags": ["amx_int8"], "libraries": [{"file": "libnone.so.1"}],
            "programs": [{"name": "no-such-program-here"}],
        });
        let missing = unmet(&engine(&needs), &machine(), Brought::System);
        let reasons: Vec<&str> = missing.iter().map(|u| u.reason.as_str()).collect();
        assert_eq!(reasons, ["the processor lacks amx_int8"]);
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let old = Machine {
            glibc: Ok("2.9".into()),
            ..machine()
        };
        assert_eq!(reasons(&json!({"glibc": "2.35"}), &old).len(), 1);
        let new = Machine {
            glibc: Ok("3.0".into()),
            ..machine()
        };
        assert!(reasons(&json!({"glibc": "2.35"}), &new).is_empty());
    }

    #[test]
    fn what_cannot_be_read_counts_as_missing() {
        let blind = Machine {
            glibc: Err("musl".into()),
            cpu_flags: Err("no /proc".into()),
            ..machine()
        };
        assert_eq!(
            reasons(&json!({"glibc": "2.17", "cpu-flags": ["avx2"]}), &blind).len(),
            2
        );
    }
}
