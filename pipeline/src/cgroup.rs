//! Gives each started process its own control group (version 2) where this process may create one: as root, or below a
//! group delegated to its user. A process cannot leave its group by starting a session or by clearing its environment,
//! so all of its descendants can be found and stopped.
//!
//! No controller is enabled, so a group does not change a process's resources. See
//! <https://docs.kernel.org/admin-guide/cgroup-v2.html>, "Delegation".

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::enclosure::{mark, read_mark};
use crate::process::{ProcessId, namespace};

/// The prefix of our groups' names; the mark of the process follows.
const PREFIX: &str = "benchtrail-";

/// Returns the folder of this process's group; `None` if the kernel shows none.
pub(crate) fn own() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    own_in(&groups, &mounts)
}

/// Does the same from the texts of the two files.
fn own_in(groups: &str, mounts: &str) -> Option<PathBuf> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let (root, point) = mounts.lines().find_map(mount_of)?;
    let below = Path::new(path).strip_prefix(root).ok()?;
    let plain = below
        .components()
        .all(|c| matches!(c, Component::Normal(_)));
    plain.then(|| Path::new(point).join(below))
}

/// Returns the root and the mount point of a cgroup v2 mount, from its line in `mountinfo`.
fn mount_of(line: &str) -> Option<(&str, &str)> {
    let (before, after) = line.split_once(" - ")?;
    let mut fields = before.split(' ').skip(3);
    let mount = (fields.next()?, fields.next()?);
    (after.split(' ').next() == Some("cgroup2")).then_some(mount)
}

/// Returns the path of the group of a process that this process has started, whether or not the group exists.
pub(crate) fn place_of(process: ProcessId) -> Option<PathBuf> {
    Some(own()?.join(name(process)))
}

/// Returns the folder of a process's group, if it has one below the group of this process.
pub(crate) fn of(process: ProcessId) -> Option<PathBuf> {
    place_of(process).filter(|folder| folder.is_dir())
}

/// Returns whether a folder named in a lease can be the group of the process in that lease.
pub(crate) fn is_of(folder: &Path, process: ProcessId) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut points = mounts.lines().filter_map(mount_of);
    let plain = |c: Component<'_>| matches!(c, Component::Normal(_) | Component::RootDir);
    folder.file_name().is_some_and(|n| *n == *name(process))
        && folder.components().all(plain)
        && points.any(|(_, point)| folder.starts_with(point))
}

fn name(process: ProcessId) -> String {
    format!("{PREFIX}{}", mark(process))
}

/// Moves this process, and all that it starts, into its own group. Does nothing where that is not allowed: its
/// descendants are then found by their mark.
pub(crate) fn enter(process: ProcessId) {
    let Some(folder) = own().map(|parent| parent.join(name(process))) else {
        return;
    };
    if fs::create_dir(&folder).is_ok() && fs::write(folder.join("cgroup.procs"), "0").is_err() {
        remove(&folder);
    }
}

/// Returns the processes in a group and the groups below it.
///
/// # Errors
/// If a group exists but cannot be read.
pub(crate) fn members(folder: &Path) -> io::Result<Vec<u32>> {
    let mut members = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(group) = open.pop() {
        let text = match fs::read_to_string(group.join("cgroup.procs")) {
            Ok(text) => text,
            // The group is gone.
            Err(_) if !group.is_dir() => continue,
            Err(e) => return Err(e),
        };
        members.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
        open.extend(groups_in(&group));
    }
    Ok(members)
}

fn groups_in(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
    folders.map(|e| e.path())
}

/// Removes a group and its subgroups. The kernel keeps groups in which a process lives.
pub(crate) fn remove(folder: &Path) {
    for group in groups_in(folder) {
        remove(&group);
    }
    // The next run removes a group that stays.
    let _kept = fs::remove_dir(folder);
}

/// Removes the groups of dead processes.
pub(crate) fn sweep() {
    if let (Some(parent), Ok(here)) = (own(), namespace()) {
        sweep_in(&parent, here);
    }
}

/// Does the same in one folder. Whether a process of another namespace lives is not visible from here.
fn sweep_in(parent: &Path, here: u64) {
    for group in groups_in(parent) {
        let name = group.file_name().and_then(|n| n.to_str());
        let mark = name.and_then(|n| read_mark(n.strip_prefix(PREFIX)?));
        if let Some((process, namespace)) = mark
            && namespace == here
            && matches!(process.is_alive(), Ok(false))
        {
            remove(&group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNT: &str = "35 24 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate";

    #[test]
    fn the_own_group_is_found_below_the_mount_and_version_1_alone_is_none() {
        let group = own_in("0::/user.slice/x.scope\n", MOUNT);
        assert_eq!(group, Some("/sys/fs/cgroup/user.slice/x.scope".into()));
        // A machine with both versions, and a container that sees part of the tree.
        let both = format!("30 24 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n{MOUNT}");
        assert_eq!(
            own_in("4:cpu:/a\n0::/\n", &both),
            Some("/sys/fs/cgroup".into())
        );
        let part = MOUNT.replace(" / /sys", " /docker/c /sys");
        assert_eq!(
            own_in("0::/docker/c/d\n", &part),
            Some("/sys/fs/cgroup/d".into())
        );
        for (groups, mounts) in [
            ("4:cpu:/a\n", MOUNT),
            ("0::/a\n", ""),
            ("0::/../a\n", MOUNT),
            ("0::/other\n", part.as_str()),
        ] {
            assert_eq!(own_in(groups, mounts), None, "{groups}");
        }
    }

    #[test]
    fn a_lease_names_no_group_but_that_of_its_process() {
        let process = ProcessId {
            pid: 7,
            start_time: 8,
        };
        let other = ProcessId {
            start_time: 9,
            ..process
        };
        let own_name = name(process);
        for folder in ["/", "/tmp/", ""] {
            let folder = format!("{folder}{own_name}");
            assert!(!is_of(Path::new(&folder), process), "{folder}");
        }
        assert!(!is_of(Path::new("/"), process));
        if let Some(own) = own() {
            assert!(is_of(&own.join(&own_name), process));
            assert!(!is_of(&own.join(name(other)), process));
            assert!(!is_of(&own.join("a/..").join(&own_name), process));
            assert!(!is_of(&own.join("benchtrail-7-8"), process));
            assert!(!is_of(&own, process));
        }
    }

    #[test]
    fn a_group_of_another_namespace_is_not_judged_by_its_number() {
        let parent = tempfile::tempdir().unwrap();
        let here = namespace().unwrap();
        let own = ProcessId::own().unwrap();
        let dead = ProcessId {
            start_time: own.start_time + 1,
            ..own
        };
        let groups = [
            (name(own), true),
            (name(dead), false),
            (
                format!("{PREFIX}{}-{}-{}", dead.pid, dead.start_time, here + 1),
                true,
            ),
            (format!("{PREFIX}{}-{}", dead.pid, dead.start_time), true),
            ("other".to_owned(), true),
        ];
        for (group, _) in &groups {
            fs::create_dir(parent.path().join(group)).unwrap();
        }
        sweep_in(parent.path(), here);
        for (group, stays) in groups {
            assert_eq!(parent.path().join(&group).is_dir(), stays, "{group}");
        }
    }
}
