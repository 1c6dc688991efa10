//! The server's processes and our own, from /proc/PID.

use std::collections::BTreeMap;
use std::path::Path;

use artifacts::TableError;
use contract::{ProcessRole, ProcessSample};

use super::companion::{Companion, Sampled};
use super::elsewhere::{self, Shared};
use super::files::Files;
use crate::sheet::Sheet;

/// The number of samples between two searches of all processes for new members of the group.
const LOOK_EVERY: u64 = 10;

/// Reads the processes, and remembers their previous samples.
pub(super) struct Reader {
    files: Files,
    own: i64,
    /// The leaders of the server's process groups, each with its member of a group of servers.
    servers: Vec<(Option<String>, i64)>,
    /// Their processes, each with the index of its leader in `servers`.
    members: Vec<(usize, i64)>,
    samples: u64,
    before: BTreeMap<i64, (i64, i64)>,
    tick_ns: i64,
    page: i64,
}

impl Reader {
    /// Reads this machine.
    pub(super) fn of(servers: Vec<(Option<String>, i64)>) -> Self {
        let ticks = i64::try_from(rustix::param::clock_ticks_per_second())
            .unwrap_or(100)
            .max(1);
        Self {
            files: Files::of_this_machine(),
            own: i64::from(std::process::id()),
            servers,
            members: Vec::new(),
            samples: 0,
            before: BTreeMap::new(),
            tick_ns: 1_000_000_000 / ticks,
            page: i64::try_from(rustix::param::page_size()).unwrap_or(4096),
        }
    }

    pub(super) fn read(&mut self, at_ns: i64) -> Vec<ProcessSample> {
        if !self.servers.is_empty() && self.samples.is_multiple_of(LOOK_EVERY) {
            let pids: Vec<i64> = self
                .files
                .names("proc")
                .iter()
                .filter_map(|name| name.parse().ok())
                .collect();
            let leader = |pid: &i64| {
                let group = self.stat(*pid)?.group;
                self.servers.iter().position(|(_, leader)| *leader == group)
            };
            let mut leaders: Vec<(usize, i64)> = pids
                .into_iter()
                .filter_map(|pid| Some((leader(&pid)?, pid)))
                .collect();
            leaders.sort_unstable_by_key(|(server, _)| *server);
            self.members = leaders;
        }
        self.samples += 1;
        let all = self
            .members
            .iter()
            .map(|(server, pid)| (ProcessRole::Server, self.servers[*server].0.clone(), *pid))
            .chain([(ProcessRole::Client, None, self.own)]);
        let rows: Vec<ProcessSample> = all
            .filter_map(|(role, member, pid)| {
                let row = self.row(at_ns, role, pid)?;
                Some(ProcessSample { member, ..row })
            })
            .collect();
        self.before = rows
            .iter()
            .map(|row| (row.pid, (row.at_ns, row.cpu_ns)))
            .collect();
        rows
    }

    fn row(&self, at_ns: i64, role: ProcessRole, pid: i64) -> Option<ProcessSample> {
        let stat = self.stat(pid)?;
        let io = self.files.text(&format!("proc/{pid}/io"));
        let bytes = |name: &str| {
            io.as_ref()?
                .lines()
                .find_map(|line| line.strip_prefix(name)?.trim().parse::<i64>().ok())
        };
        let cpu_ns = stat.ticks * self.tick_ns;
        let cpu = self.before.get(&pid).and_then(|(at, cpu)| {
            (at_ns > *at && cpu_ns >= *cpu).then(|| (cpu_ns - cpu) as f64 / (at_ns - at) as f64)
        });
        Some(ProcessSample {
            at_ns,
            role,
            pid,
            name: stat.name,
            threads: stat.threads,
            cpu,
            cpu_ns,
            memory_bytes: stat.pages * self.page,
            disk_read_bytes: bytes("read_bytes:"),
            disk_written_bytes: bytes("write_bytes:"),
            member: None,
        })
    }

    fn stat(&self, pid: i64) -> Option<Stat> {
        parse(&self.files.text(&format!("proc/{pid}/stat"))?)
    }
}

/// The inode of the first namespace of process numbers (linux/proc_ns.h, `PROC_PID_INIT_INO`).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// The most ancestors of a process that are searched.
const ANCESTORS: usize = 64;

/// Tells the server's processes from others by their numbers.
pub(super) struct Owners<'a> {
    files: Files,
    servers: &'a [i64],
    /// Whether this process is in the first namespace, whose numbers the driver of a device also uses.
    first_namespace: bool,
}

impl<'a> Owners<'a> {
    /// Reads this machine. `servers` are the leaders of the server's process groups.
    pub(super) fn of_this_machine(servers: &'a [i64]) -> Self {
        let namespace = std::fs::read_link("/proc/self/ns/pid");
        Self {
            files: Files::of_this_machine(),
            servers,
            first_namespace: namespace.is_ok_and(|link| link.as_os_str() == FIRST_NAMESPACE),
        }
    }

    /// Returns how many of these processes do not belong to the server; `None` if it is unknown: the server's processes are
    /// not known, or the numbers may be those of another namespace.
    pub(super) fn foreign(&self, pids: &[i64]) -> Option<usize> {
        if self.servers.is_empty() {
            return None;
        }
        let belong: Option<Vec<bool>> = pids.iter().map(|pid| self.is_servers(*pid)).collect();
        let belong = belong?;
        let are_comparable = self.first_namespace || belong.is_empty() || belong.contains(&true);
        are_comparable.then(|| belong.iter().filter(|servers| !**servers).count())
    }

    /// Returns whether a process or one of its ancestors is in a process group of the server; `None` if it is unknown here.
    fn is_servers(&self, pid: i64) -> Option<bool> {
        let stat = |pid: i64| parse(&self.files.text(&format!("proc/{pid}/stat"))?);
        let first = stat(pid)?;
        let line = std::iter::successors(Some(first), |one| stat(one.parent)).take(ANCESTORS);
        Some(
            line.into_iter()
                .any(|one| self.servers.contains(&one.group)),
        )
    }
}

/// The content of /proc/PID/stat.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    name: String,
    parent: i64,
    group: i64,
    ticks: i64,
    threads: i64,
    pages: i64,
}

/// Parses `pid (name) state ppid pgrp …`; the name may contain spaces and parentheses. Returns `None` for a process
/// that has ended and is not reaped yet.
fn parse(text: &str) -> Option<Stat> {
    let (open, close) = (text.find('(')?, text.rfind(')')?);
    let words: Vec<&str> = text.get(close + 1..)?.split_whitespace().collect();
    let at = |i: usize| words.get(i)?.parse::<i64>().ok();
    (!matches!(*words.first()?, "Z" | "X")).then_some(())?;
    let name = text.get(open + 1..close)?.to_owned();
    Some(Stat {
        name,
        parent: at(1)?,
        group: at(2)?,
        ticks: at(11)? + at(12)?,
        threads: at(17)?,
        pages: at(21)?,
    })
}

/// The processes as a companion.
pub(crate) struct Processes {
    reader: Reader,
    sheet: Sheet<ProcessSample>,
    server_seen: bool,
    /// Servers on other hosts, each with its member of a group.
    elsewhere: Vec<(Option<String>, Shared)>,
}

impl Processes {
    /// Starts `process_telemetry`. `servers` are the leaders of the server's process groups on this machine, each with
    /// its member of a group of servers.
    ///
    /// # Errors
    /// If its file cannot be created.
    pub(crate) fn new(
        folder: &Path,
        servers: Vec<(Option<String>, i64)>,
        elsewhere: Vec<(Option<String>, Shared)>,
        interval_ms: &str,
    ) -> Result<Self, TableError> {
        let sheet = Sheet::create(folder, &[("interval_ms", interval_ms)])?;
        let reader = Reader::of(servers);
        Ok(Self {
            reader,
            sheet,
            server_seen: false,
            elsewhere,
        })
    }
}

impl Companion for Processes {
    fn name(&self) -> &'static str {
        "process_telemetry"
    }

    fn sample(&mut self, at_ns: i64) -> Result<(), String> {
        self.sheet.room()?;
        for row in self.reader.read(at_ns) {
            self.server_seen |= row.role == ProcessRole::Server;
            self.sheet.push(row).map_err(|e| e.to_string())?;
        }
        for (member, shared) in &self.elsewhere {
            for row in elsewhere::processes(shared, at_ns)? {
                self.server_seen = true;
                let member = member.clone();
                let row = ProcessSample { member, ..row };
                self.sheet.push(row).map_err(|e| e.to_string())?;
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Sampled {
        let Self {
            reader,
            sheet,
            server_seen,
            ..
        } = *self;
        let mut left = Sampled::of(sheet);
        let reason = match reader.servers.first() {
            _ if server_seen => None,
            None => Some("the server's process is unknown; only our own was sampled".to_owned()),
            Some((_, pid)) => Some(format!(
                "no process of the group {pid} was found; only our own was sampled"
            )),
        };
        left.observations
            .extend(reason.map(|r| ("process_telemetry".to_owned(), r.into())));
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn stat(pid: i64, name: &str, group: i64, ticks: i64) -> String {
        format!("{pid} ({name}) S 1 {group} 1 0 -1 0 0 0 0 0 {ticks} 5 0 0 20 0 7 0 99 1000 30 0\n")
    }

    fn put(root: &Path, pid: i64, text: &str) {
        let folder = root.join(format!("proc/{pid}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("stat"), text).unwrap();
    }

    fn reader(root: &Path) -> Reader {
        Reader {
            files: Files::below(root),
            own: 1,
            servers: vec![(None, 20)],
            members: Vec::new(),
            samples: 0,
            before: BTreeMap::new(),
            tick_ns: 10_000_000,
            page: 4096,
        }
    }

    #[test]
    fn the_servers_group_and_ourselves_are_sampled_and_nobody_else() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), 1, &stat(1, "benchtrail", 1, 10));
        put(root.path(), 20, &stat(20, "a (b) c", 20, 100));
        put(root.path(), 21, &stat(21, "worker", 20, 50));
        put(root.path(), 30, &stat(30, "other", 30, 50));
        fs::write(
            root.path().join("proc/20/io"),
            "rchar: 9\nread_bytes: 4096\nwrite_bytes: 8192\n",
        )
        .unwrap();
        let mut reader = reader(root.path());
        let rows = reader.read(0);
        let seen: Vec<(ProcessRole, i64, &str)> = rows
            .iter()
            .map(|r| (r.role, r.pid, r.name.as_str()))
            .collect();
        assert_eq!(
            seen,
            [
                (ProcessRole::Server, 20, "a (b) c"),
                (ProcessRole::Server, 21, "worker"),
                (ProcessRole::Client, 1, "benchtrail")
            ]
        );
        let first = &rows[0];
        assert_eq!(
            (first.threads, first.memory_bytes, first.cpu_ns),
            (7, 30 * 4096, 1_050_000_000)
        );
        assert_eq!(
            (first.cpu, first.disk_read_bytes, first.disk_written_bytes),
            (None, Some(4096), Some(8192))
        );
        assert_eq!(rows[1].disk_read_bytes, None);
        // 50 ticks of 10 ms within a second: half a processor.
        put(root.path(), 20, &stat(20, "a (b) c", 20, 150));
        fs::remove_dir_all(root.path().join("proc/21")).unwrap();
        let rows = reader.read(1_000_000_000);
        assert_eq!((rows.len(), rows[0].cpu), (2, Some(0.5)));
    }

    #[test]
    fn processes_of_a_group_of_servers_name_their_member() {
        let root = tempfile::tempdir().unwrap();
        for (pid, group) in [(1, 1), (20, 20), (30, 30), (31, 30)] {
            put(root.path(), pid, &stat(pid, "x", group, 10));
        }
        let mut reader = reader(root.path());
        reader.servers = vec![
            (Some("replica-0".into()), 30),
            (Some("router-0".into()), 20),
        ];
        let rows = reader.read(0);
        let seen: Vec<(i64, Option<&str>)> =
            rows.iter().map(|r| (r.pid, r.member.as_deref())).collect();
        let replica = Some("replica-0");
        assert_eq!(
            seen,
            [
                (30, replica),
                (31, replica),
                (20, Some("router-0")),
                (1, None)
            ]
        );
    }

    #[test]
    fn strangers_are_looked_through_only_now_and_then() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), 1, &stat(1, "benchtrail", 1, 10));
        put(root.path(), 20, &stat(20, "server", 20, 100));
        for pid in 100..150 {
            put(root.path(), pid, &stat(pid, "other", 1, 0));
        }
        let mut reader = reader(root.path());
        reader.read(0);
        let looked = reader.files.reads();
        // The list, 52 processes, and two files for each of the two sampled.
        assert_eq!(looked, 1 + 52 + 4);
        for i in 1..10 {
            reader.read(i);
        }
        assert_eq!(reader.files.reads() - looked, 9 * 4);
    }

    #[test]
    fn other_users_of_a_device_are_distinguished_from_the_server_if_their_ids_are_valid_here() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), 20, &stat(20, "server", 20, 100));
        put(root.path(), 21, &stat(21, "worker", 20, 50));
        put(root.path(), 40, &stat(40, "other", 40, 50));
        // A worker with a session of its own is still a child of the server.
        let child = stat(22, "rank", 22, 50).replace(" S 1 ", " S 21 ");
        put(root.path(), 22, &child);
        let servers = [20];
        let owners = |servers, first_namespace| Owners {
            files: Files::below(root.path()),
            servers,
            first_namespace,
        };
        let first = owners(&servers, true);
        assert_eq!(first.foreign(&[20, 21, 22]), Some(0));
        assert_eq!(first.foreign(&[20, 40]), Some(1));
        assert_eq!(first.foreign(&[40]), Some(1));
        assert_eq!(first.foreign(&[]), Some(0));
        assert_eq!(first.foreign(&[20, 99]), None, "nothing is known of 99");
        let inner = owners(&servers, false);
        assert_eq!(
            inner.foreign(&[20, 40]),
            Some(1),
            "the server's number is known"
        );
        assert_eq!(inner.foreign(&[40]), None, "40 may be a process elsewhere");
        assert_eq!(owners(&[], true).foreign(&[40]), None);
    }

    #[test]
    fn a_dead_process_is_none() {
        assert!(parse("5 (x) Z 1 5 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 9 0 0 0").is_none());
        assert!(parse("5 (x").is_none() && parse("").is_none());
    }
}
