//! The facts about this machine: they are checked against requirements and identify a host in the
//! keys of measurements. They are read once per process.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use pipeline::Json;
use pipeline::executable::{find, is_executable};
use serde_json::json;

use crate::probe;

const COMMAND_LIMIT: Duration = Duration::from_secs(5);

/// The identity of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The operating system, such as `linux`.
    pub os: String,
    /// The processor architecture, such as `x86_64`.
    pub arch: String,
    /// The processor's name.
    pub cpu_model: Result<String, String>,
    /// The processor's features, by the kernel's names.
    pub cpu_flags: Result<BTreeSet<String>, String>,
    /// The number of logical processors that this process may use.
    pub cpus: usize,
    /// The memory in bytes.
    pub memory_bytes: Result<u64, String>,
    /// The version of glibc.
    pub glibc: Result<String, String>,
    /// The file names of the shared libraries that the loader finds.
    pub libraries: Result<BTreeSet<String>, String>,
    /// The folders of the search path.
    pub path: Vec<PathBuf>,
    /// The GPUs.
    pub gpus: Result<Vec<Gpu>, String>,
}

/// One GPU, as its driver reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// The product's name.
    pub name: String,
    /// Its memory in MiB.
    pub memory_mib: Option<u64>,
    /// The driver's version.
    pub driver: String,
}

impl Machine {
    /// Returns this machine, which is read at the first call.
    pub fn here() -> &'static Self {
        static HERE: OnceLock<Machine> = OnceLock::new();
        HERE.get_or_init(Self::read)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "programs are looked up on the search path"
    )]
    fn read() -> Self {
        let cpuinfo = probe::text(Path::new("/proc/cpuinfo"));
        let field = |names: &[&str]| {
            let text = cpuinfo.as_ref().map_err(Clone::clone)?;
            let value = names.iter().find_map(|name| cpuinfo_field(text, name));
            value
                .map(str::to_owned)
                .ok_or_else(|| format!("/proc/cpuinfo has no line `{}`", names[0]))
        };
        let path: Vec<PathBuf> = std::env::var_os("PATH")
            .map(|p| std::env::split_paths(&p).collect())
            .unwrap_or_default();
        Self {
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            cpu_model: field(&["model name", "Processor", "CPU part"]),
            cpu_flags: field(&["flags", "Features"])
                .map(|f| f.split_whitespace().map(str::to_owned).collect()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: probe::text(Path::new("/proc/meminfo")).and_then(|t| {
                meminfo_bytes(&t, "MemTotal").ok_or("no MemTotal in /proc/meminfo".to_owned())
            }),
            glibc: glibc(),
            libraries: libraries(),
            gpus: gpus(&path),
            path,
        }
    }

    /// Returns whether the loader finds a shared library.
    pub(crate) fn has_library(&self, file: &str) -> bool {
        self.libraries.as_ref().is_ok_and(|all| all.contains(file))
    }

    /// Returns the path of a program on the search path.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        find(name, &self.path).filter(|path| is_executable(path))
    }

    /// Returns the identity facets: facts that may affect a measurement and do not change between
    /// runs. `flags` are the processor features that matter to the engine. A facet that cannot be
    /// read is null.
    pub fn facets(&self, flags: &BTreeSet<String>) -> BTreeMap<String, Json> {
        let present: Option<Vec<&String>> = self
            .cpu_flags
            .as_ref()
            .ok()
            .map(|have| flags.iter().filter(|f| have.contains(*f)).collect());
        // The memory that the firmware reserves varies by less than half a GiB between boots.
        let memory = self
            .memory_bytes
            .as_ref()
            .ok()
            .map(|b| (*b as f64 / f64::from(1 << 30)).round() as u64);
        let gpus = self.gpus.as_ref().ok().map(|all| {
            all.iter()
                .map(|g| json!({"name": g.name, "memory_mib": g.memory_mib}))
                .collect::<Vec<_>>()
        });
        let driver = self
            .gpus
            .as_ref()
            .ok()
            .and_then(|all| all.first())
            .map(|g| &g.driver);
        [
            ("arch", json!(self.arch)),
            ("cpu_count", json!(self.cpus)),
            ("cpu_flags", json!(present)),
            ("cpu_model", json!(self.cpu_model.as_ref().ok())),
            ("gpu_count", json!(gpus.as_ref().map(Vec::len))),
            ("gpu_driver", json!(driver)),
            ("gpus", json!(gpus)),
            ("memory_gib", json!(memory)),
            ("os", json!(self.os)),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    /// Returns the reasons why facets are null, by facet.
    pub(crate) fn unavailable(&self) -> BTreeMap<String, String> {
        let mut reasons = BTreeMap::new();
        let mut note = |name: &str, reason: Option<&String>| {
            if let Some(reason) = reason {
                reasons.insert(name.to_owned(), reason.clone());
            }
        };
        note("cpu_model", self.cpu_model.as_ref().err());
        note("cpu_flags", self.cpu_flags.as_ref().err());
        note("memory_gib", self.memory_bytes.as_ref().err());
        note("gpus", self.gpus.as_ref().err());
        reasons
    }
}

/// Returns the value of the first line `name : value`.
pub(crate) fn cpuinfo_field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .map(|(key, value)| (key.trim(), value.trim()))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

/// Returns a value of `/proc/meminfo` in bytes.
pub(crate) fn meminfo_bytes(text: &str, name: &str) -> Option<u64> {
    let value = cpuinfo_field(text, name)?;
    let kib: u64 = value.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

fn glibc() -> Result<String, String> {
    let said = probe::command("getconf", &["GNU_LIBC_VERSION"], COMMAND_LIMIT)?;
    let version = said.trim().strip_prefix("glibc ").map(str::to_owned);
    version.ok_or_else(|| format!("`getconf GNU_LIBC_VERSION` said `{}`", said.trim()))
}

/// The loader's default folders, for machines without `ldconfig`.
const LIBRARY_FOLDERS: [&str; 6] = [
    "/lib",
    "/usr/lib",
    "/lib64",
    "/usr/lib64",
    "/usr/local/lib",
    "/lib/x86_64-linux-gnu",
];

fn libraries() -> Result<BTreeSet<String>, String> {
    for ldconfig in ["/sbin/ldconfig", "/usr/sbin/ldconfig", "ldconfig"] {
        if let Ok(listing) = probe::command(ldconfig, &["-p"], COMMAND_LIMIT) {
            return Ok(ldconfig_names(&listing));
        }
    }
    let mut names = BTreeSet::new();
    for folder in LIBRARY_FOLDERS {
        // A missing folder holds no library.
        let Ok(entries) = fs::read_dir(folder) else {
            continue;
        };
        names.extend(
            entries
                .flatten()
                .filter_map(|e| e.file_name().into_string().ok()),
        );
    }
    if names.is_empty() {
        Err("neither `ldconfig -p` nor a library folder".to_owned())
    } else {
        Ok(names)
    }
}

/// Returns the file names in the listing of `ldconfig -p`.
pub(crate) fn ldconfig_names(listing: &str) -> BTreeSet<String> {
    let lines = listing.lines().filter(|line| line.contains("=>"));
    lines
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

fn gpus(path: &[PathBuf]) -> Result<Vec<Gpu>, String> {
    if !path.iter().any(|folder| folder.join("nvidia-smi").exists()) {
        return Ok(Vec::new());
    }
    let query = [
        "--query-gpu=name,memory.total,driver_version",
        "--format=csv,noheader,nounits",
    ];
    Ok(parse_gpus(&probe::command(
        "nvidia-smi",
        &query,
        COMMAND_LIMIT,
    )?))
}

/// Reads the lines `name, memory in MiB, driver` of `nvidia-smi`.
pub(crate) fn parse_gpus(listing: &str) -> Vec<Gpu> {
    let parse = |line: &str| {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let [name, memory, driver] = fields[..] else {
            return None;
        };
        Some(Gpu {
            name: name.to_owned(),
            memory_mib: memory.parse().ok(),
            driver: driver.to_owned(),
        })
    };
    listing.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUINFO: &str = "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\nflags\t\t: fpu avx2 avx512f\n\n\
                           processor\t: 1\nmodel name\t: Other\n";

    #[test]
    fn the_first_processor_names_the_machine() {
        assert_eq!(
            cpuinfo_field(CPUINFO, "model name"),
            Some("Some CPU @ 2.0GHz")
        );
        assert_eq!(cpuinfo_field(CPUINFO, "flags"), Some("fpu avx2 avx512f"));
        assert_eq!(cpuinfo_field(CPUINFO, "flag"), None);
    }

    #[test]
    fn memory_is_stated_in_kib() {
        assert_eq!(
            meminfo_bytes("MemTotal:       24600000 kB\nMemFree: 1 kB\n", "MemTotal"),
            Some(25_190_400_000)
        );
        assert_eq!(meminfo_bytes("MemTotal: lots\n", "MemTotal"), None);
    }

    #[test]
    fn the_loader_listing_gives_file_names() {
        let listing = "2 libs found in cache `/etc/ld.so.cache'\n\
                       \tlibgomp.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libgomp.so.1\n";
        assert_eq!(
            ldconfig_names(listing),
            BTreeSet::from(["libgomp.so.1".to_owned()])
        );
    }

    #[test]
    fn each_gpu_is_one_line_and_an_error_message_is_none() {
        let two = "NVIDIA H200, 143771, 570.1\nNVIDIA H200, [N/A], 570.1\n";
        let gpus = parse_gpus(two);
        assert_eq!(
            (gpus.len(), gpus[0].memory_mib, gpus[1].memory_mib),
            (2, Some(143_771), None)
        );
        assert!(parse_gpus("No devices were found\n").is_empty());
    }

    #[test]
    fn facets_hold_only_the_flags_that_matter() {
        let machine = Machine {
            cpu_flags: Ok(["avx2", "fma", "avx512f"].map(str::to_owned).into()),
            memory_bytes: Ok(25_190_400_000),
            ..Machine::here().clone()
        };
        let facets = machine.facets(&["avx512f", "amx_int8"].map(str::to_owned).into());
        assert_eq!(facets["cpu_flags"], json!(["avx512f"]));
        assert_eq!(facets["memory_gib"], json!(23));
    }

    #[test]
    fn a_facet_that_cannot_be_read_is_null_with_its_reason() {
        let machine = Machine {
            gpus: Err("it hangs".into()),
            ..Machine::here().clone()
        };
        assert_eq!(machine.facets(&BTreeSet::new())["gpus"], Json::Null);
        assert_eq!(machine.unavailable()["gpus"], "it hangs");
    }
}
