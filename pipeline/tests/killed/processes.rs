//! Children end with their owner, and the next run reaps those that escape.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pipeline::enclosure::Enclosure;
use pipeline::lease::{Leases, leases_folder, reap_orphans};
use pipeline::process::{Spawner, group_members, kill_group, stat, stop};

pub(crate) const TESTS: &[crate::Test] = &[
    (
        "a_child_leads_its_own_group_and_session",
        a_child_leads_its_own_group_and_session,
    ),
    (
        "a_child_is_killed_by_the_kernel_when_its_owner_is_killed",
        killed_with_its_owner,
    ),
    (
        "stopping_a_child_stops_its_grandchildren_even_if_they_ignore_sigterm",
        stop_takes_everybody,
    ),
    (
        "a_program_that_does_not_exist_ends_with_127_and_says_why",
        a_missing_program_says_why,
    ),
    (
        "a_grandchild_that_survives_its_owner_is_reaped_by_the_next_run",
        a_grandchild_is_reaped,
    ),
    (
        "a_child_that_left_the_group_and_the_session_is_reaped_by_the_next_run",
        a_runaway_is_reaped,
    ),
    (
        "an_enclosure_is_emptied_of_what_left_the_group_or_cleared_its_environment",
        an_enclosure_is_emptied,
    ),
    (
        "a_child_in_a_control_group_is_reaped_by_the_next_run_whatever_it_cleared",
        a_disguised_runaway_is_reaped,
    ),
    (
        "a_lease_file_goes_when_its_guard_is_dropped",
        a_lease_file_goes_with_its_guard,
    ),
];

/// Plays a run that owns an engine: starts a shell with a grandchild, registers it, prints its pid and waits to be
/// killed.
pub(crate) fn owner(mut arguments: impl Iterator<Item = OsString>) {
    let store = PathBuf::from(arguments.next().expect("a store"));
    let spawner = spawner();
    let mut child = match arguments.next() {
        Some(script) => started(&spawner, script.to_str().expect("text")),
        None => engine(&spawner),
    };
    let lease = Leases::new(&store, "study", "server[]")
        .register(child.id())
        .expect("registered");
    println!("{}", child.id());
    child.wait().expect("waited");
    drop(lease);
}

fn spawner() -> Spawner {
    Spawner::new(std::env::current_exe().expect("our own path")).expect("a thread")
}

/// Starts a shell with a child; both ignore SIGTERM.
fn engine(spawner: &Spawner) -> Child {
    let mut command = spawner.command("/bin/sh");
    command
        .args(["-c", "trap '' TERM; sleep 60 & echo ready; wait"])
        .stdout(Stdio::piped());
    let mut child = spawner.spawn(command).expect("spawned");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped"))
        .read_line(&mut line)
        .expect("a line");
    assert_eq!(line, "ready\n");
    child
}

fn start_owner(store: &Path) -> (Child, u32) {
    start_owner_of(store, &[])
}

/// Starts an owner; with a script, its engine runs the script.
fn start_owner_of(store: &Path, script: &[&str]) -> (Child, u32) {
    let mut owner = Command::new(std::env::current_exe().expect("our own path"))
        .arg("owner")
        .arg(store)
        .args(script)
        .stdout(Stdio::piped())
        .spawn()
        .expect("spawned");
    let mut line = String::new();
    BufReader::new(owner.stdout.take().expect("piped"))
        .read_line(&mut line)
        .expect("a line");
    (owner, line.trim().parse().expect("the engine's pid"))
}

/// Waits for a condition; the limit only bounds a failing test.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "never came: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn running(pid: u32) -> bool {
    stat(pid).expect("/proc").is_some_and(|s| s.is_running())
}

fn a_child_leads_its_own_group_and_session() {
    let spawner = spawner();
    let mut child = engine(&spawner);
    let stat = stat(child.id()).unwrap().unwrap();
    assert_eq!((stat.pgid, stat.session), (child.id(), child.id()));
    stop(&mut child, Duration::ZERO).unwrap();
}

fn killed_with_its_owner() {
    let store = tempfile::tempdir().unwrap();
    let (mut owner, engine) = start_owner(store.path());
    assert!(running(engine));
    owner.kill().unwrap();
    owner.wait().unwrap();
    eventually("the end of the engine", || !running(engine));
    kill_group(engine, Duration::ZERO).unwrap();
}

fn stop_takes_everybody() {
    let spawner = spawner();
    let mut child = engine(&spawner);
    assert_eq!(group_members(child.id()).unwrap().len(), 2);
    let status = stop(&mut child, Duration::from_millis(50)).unwrap();
    assert!(!status.success());
    assert!(group_members(child.id()).unwrap().is_empty());
}

fn a_missing_program_says_why() {
    let spawner = spawner();
    let mut command = spawner.command("/nowhere/engine");
    command.stdout(Stdio::piped());
    let mut child = spawner.spawn(command).unwrap();
    let mut text = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(127));
    assert!(text.contains("cannot execute /nowhere/engine"), "{text}");
}

fn a_grandchild_is_reaped() {
    let store = tempfile::tempdir().unwrap();
    let (mut owner, engine) = start_owner(store.path());
    assert!(
        reap_orphans(store.path()).unwrap().is_empty(),
        "the owner lives"
    );
    owner.kill().unwrap();
    owner.wait().unwrap();
    eventually("the end of the engine", || !running(engine));
    assert_eq!(
        group_members(engine).unwrap().len(),
        1,
        "the kernel kills the child, not its children"
    );
    let reaped = reap_orphans(store.path()).unwrap();
    assert_eq!(reaped.len(), 1);
    assert!(reaped[0].stopped);
    assert!(group_members(engine).unwrap().is_empty());
    assert_eq!(
        std::fs::read_dir(leases_folder(store.path()))
            .unwrap()
            .count(),
        0
    );
}

/// Starts a shell that runs `script` and then prints `ready`.
fn started(spawner: &Spawner, script: &str) -> Child {
    let mut command = spawner.command("/bin/sh");
    command
        .args(["-c", &format!("{script} echo ready; wait")])
        .stdout(Stdio::piped());
    let mut child = spawner.spawn(command).expect("spawned");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped"))
        .read_line(&mut line)
        .expect("a line");
    assert_eq!(line, "ready\n");
    child
}

/// Returns the processes with this command line.
fn with_command(line: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let is = |pid: &u32| {
        let text = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&text).replace('\0', " ").trim() == line && running(*pid)
    };
    pids.filter(is).collect()
}

fn a_runaway_is_reaped() {
    let store = tempfile::tempdir().unwrap();
    let (mut owner, engine) = start_owner_of(store.path(), &["setsid sleep 87.125 &"]);
    let runaway = || with_command("sleep 87.125");
    eventually("the runaway", || runaway().len() == 1);
    let away = stat(runaway()[0]).unwrap().unwrap();
    assert_ne!((away.pgid, away.session), (engine, engine));
    owner.kill().unwrap();
    owner.wait().unwrap();
    eventually("the end of the engine", || !running(engine));
    assert_eq!(runaway().len(), 1);
    assert!(reap_orphans(store.path()).unwrap()[0].stopped);
    assert_eq!(runaway(), Vec::<u32>::new());
}

/// Where this process may create control groups, nothing escapes; elsewhere there is nothing to test.
fn a_disguised_runaway_is_reaped() {
    let store = tempfile::tempdir().unwrap();
    let script = "(env -i /usr/bin/setsid /bin/sleep 87.625 &); sleep 60 &";
    let (mut owner, engine) = start_owner_of(store.path(), &[script]);
    let runaway = || with_command("/bin/sleep 87.625");
    eventually("the runaway", || runaway().len() == 1);
    let group = group_of(runaway()[0]);
    owner.kill().unwrap();
    owner.wait().unwrap();
    eventually("the end of the engine", || !running(engine));
    assert_eq!(runaway().len(), 1);
    let reaped = reap_orphans(store.path()).unwrap();
    let Some(group) = group else {
        println!("not tested: no control group can be made here");
        let pid = i32::try_from(runaway()[0]).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        return;
    };
    assert!(reaped[0].stopped);
    assert_eq!(runaway(), Vec::<u32>::new());
    assert!(!with_name(&group), "{group} is removed with what was in it");
}

/// Returns the name of the control group created for a process or its parents.
fn group_of(pid: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let own = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    let (_, name) = own.rsplit_once('/')?;
    name.starts_with("benchtrail-").then(|| name.to_owned())
}

/// Returns whether a control group with this name exists.
fn with_name(name: &str) -> bool {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounts = text.lines().filter(|line| line.contains(" - cgroup2 "));
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("0::"));
    let own = own.unwrap().trim_start_matches('/').to_owned();
    let points = mounts.filter_map(|line| line.split(' ').nth(4));
    points
        .into_iter()
        .any(|p| Path::new(p).join(&own).join(name).exists())
}

fn an_enclosure_is_emptied() {
    let spawner = spawner();
    // Each process leaves its group and session; the second also leaves its environment and its parent.
    let script = "setsid sleep 87.25 & (env -i /usr/bin/setsid /bin/sleep 87.375 &);";
    let mut child = started(&spawner, script);
    let enclosure = Enclosure::of(child.id()).unwrap();
    let left = || {
        [
            with_command("sleep 87.25"),
            with_command("/bin/sleep 87.375"),
        ]
        .concat()
    };
    eventually("both", || left().len() == 2);
    stop(&mut child, Duration::ZERO).unwrap();
    assert_eq!(left().len(), 2, "a process group is not enough");
    enclosure.empty().unwrap();
    assert_eq!(left(), Vec::<u32>::new());
}

fn a_lease_file_goes_with_its_guard() {
    let store = tempfile::tempdir().unwrap();
    let lease = Leases::new(store.path(), "study", "server[]")
        .register(std::process::id())
        .unwrap();
    assert_eq!(
        std::fs::read_dir(leases_folder(store.path()))
            .unwrap()
            .count(),
        1
    );
    drop(lease);
    assert_eq!(
        std::fs::read_dir(leases_folder(store.path()))
            .unwrap()
            .count(),
        0
    );
}
