//! Machines that refuse something: no room for a file, no temporary folder; and servers that tell nonsense while a study
//! is written.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::support::{BINARY, Outcome, Project};

const STUDY: &str = "experiments/simulated.yaml";

/// Runs a command under a limit on the size of files, in blocks of 512 or 1024 bytes.
fn under(project: &Project, blocks: u32, arguments: &[&str]) -> Outcome {
    let plain = project.command(arguments);
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -f $1 && shift && exec \"$@\"", "sh"])
        .arg(blocks.to_string())
        .arg(BINARY)
        .args(arguments)
        .current_dir(project.path());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.output().expect("sh starts").into()
}

#[test]
fn a_limit_on_the_size_of_files_is_reported_and_loses_nothing() {
    let project = Project::new();
    for blocks in [0, 1, 20, 60] {
        let ran = under(&project, blocks, &["run", STUDY]);
        // The test's own pipes are no files, so the reason always arrives.
        assert_eq!(ran.code, Some(4), "{blocks}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains("error: "), "{blocks}: {}", ran.stderr);
    }
    project.run(["run", STUDY]).ok();
    let planned = under(&project, 0, &["fsck"]);
    assert!(planned.code.is_some(), "{}", planned.stderr);
    project.run(["fsck"]).ok();
}

#[test]
fn a_load_that_the_disk_refuses_says_where_and_what_to_do() {
    let project = Project::new();
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", server.local_addr().expect("an address"));
    let load = [
        "load",
        &url,
        "--model",
        "m",
        "--requests",
        "2000",
        "--no-preflight",
        "--out",
        "rows",
    ];
    let ended = under(&project, 1, &load);
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    let said = "cannot store the prompts in rows: File too large";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    let remedy = "hint: raise the limit on file sizes (`ulimit -f`)";
    assert!(ended.stderr.contains(remedy), "{}", ended.stderr);
}

#[test]
fn a_disk_that_refuses_a_page_or_a_table_leaves_the_file_that_was_there() {
    let project = Project::new();
    project.run(["run", STUDY]).ok();
    let read = |file: &str| fs::read(project.path().join(file)).expect("the file is there");
    let page = ["explore", STUDY, "--export", "page.html"];
    let query = "select a.sent_ns * 7 + b.sent_ns * 13 as x, a.sent_ns * 11 + b.sent_ns * 17 as y \
                 from \"ladder.requests\" as a, \"ladder.requests\" as b limit 200000";
    let table = ["sql", STUDY, query, "--parquet", "rows.parquet"];
    for (words, file) in [(&page[..], "page.html"), (&table[..], "rows.parquet")] {
        project.run(words).ok();
        let before = read(file);
        // In blocks of 512 bytes: enough for the shared memory of the store's index, and too little for the file.
        let blocks = u32::try_from(before.len() / 512 * 3 / 4).expect("a file of some megabytes");
        let ended = under(&project, blocks, words);
        assert_eq!(
            ended.code,
            Some(4),
            "{file}: {}{}",
            ended.stdout,
            ended.stderr
        );
        assert!(ended.stderr.contains(file), "{file}: {}", ended.stderr);
        assert!(read(file) == before, "{file} was changed");
    }
    let names = fs::read_dir(project.path()).expect("the project").flatten();
    let left = names.filter(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with(".benchtrail-")
    });
    assert_eq!(left.count(), 0, "nothing is left beside them");
}

#[test]
fn an_empty_name_of_the_temporary_folder_counts_as_none() {
    let project = Project::new();
    project.run(["run", STUDY]).ok();
    let publish = ["publish", STUDY, "--author", "A", "--out", "bundle"];
    project.run(publish).ok();
    for words in [&["verify", "bundle"][..], &["reproduce", "bundle"]] {
        let mut command = project.command(words);
        let ended: Outcome = command
            .env("TMPDIR", "")
            .output()
            .expect("it starts")
            .into();
        ended.ok();
    }
}

#[test]
fn an_experiment_whose_file_has_no_name_is_refused_where_it_is() {
    let project = Project::new();
    for name in ["..yaml", "...yaml", "experiments/..yaml"] {
        fs::copy(project.path().join(STUDY), project.path().join(name)).expect("a copy");
        for command in ["plan", "run"] {
            let refused = project.run([command, name]);
            assert_eq!(refused.code, Some(2), "{name}: {}", refused.stderr);
            let expected =
                format!("error: {name}: the file has no name before its ending\nhint: rename it");
            assert!(refused.stderr.starts_with(&expected), "{}", refused.stderr);
        }
    }
}

#[test]
fn names_with_hidden_characters_are_not_published_and_the_remedy_is_named() {
    let project = Project::new();
    let name = "experiments/odd\u{1b}.yaml";
    fs::copy(project.path().join(STUDY), project.path().join(name)).expect("a copy");
    project.run(["run", name]).ok();
    let refused = project.run(["publish", name, "--author", "A"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("rename the file"),
        "{}",
        refused.stderr
    );
    for author in ["", " ", "A\nB", "A\u{1b}[31m"] {
        let refused = project.run(["publish", STUDY, "--author", author]);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(
            refused.stderr.contains("one line of text"),
            "{}",
            refused.stderr
        );
        assert!(!refused.stderr.contains('\u{1b}'), "{}", refused.stderr);
    }
}

#[test]
fn a_command_to_copy_names_the_same_folder_to_a_shell() {
    let project = Project::new();
    project.run(["run", STUDY]).ok();
    let folder = "it's\u{1b}[31m\n$(id)";
    let published = project.run(["publish", STUDY, "--author", "A", "--out", folder]);
    let text = published.ok().stdout;
    assert!(!text.contains('\u{1b}'), "{text}");
    let command = text
        .lines()
        .find_map(|line| line.strip_prefix("  benchtrail verify "));
    let word = command.unwrap_or_else(|| panic!("{text}"));
    let read = Command::new("bash")
        .args(["-c", &format!("printf %s {word}")])
        .output()
        .expect("bash starts");
    assert_eq!(String::from_utf8(read.stdout).expect("text"), folder);
}

#[test]
fn a_missing_temporary_folder_is_reported_with_the_remedy() {
    let project = Project::new();
    project.run(["run", STUDY]).ok();
    let publish = ["publish", STUDY, "--author", "A", "--out", "bundle"];
    project.run(publish).ok();
    for command in ["verify", "reproduce"] {
        let mut command = project.command([command, "bundle"]);
        command.env("TMPDIR", project.path().join("nowhere"));
        let ended: Outcome = command.output().expect("the binary starts").into();
        assert_eq!(ended.code, Some(4), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("set `TMPDIR` to a folder"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn what_this_machine_refuses_is_no_fault_of_a_bundle() {
    let project = Project::new();
    project.run(["run", STUDY]).ok();
    let publish = ["publish", STUDY, "--author", "A", "--out", "bundle"];
    project.run(publish).ok();
    for command in ["verify", "reproduce"] {
        let ended = under(&project, 4, &[command, "bundle"]);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(ended.code, Some(4), "{said}");
        assert!(said.contains("ulimit -f"), "{said}");
        assert!(!said.contains("differs from what was published"), "{said}");
    }
}

/// Serves one answer to every request, and returns its address.
fn server(body: String) -> String {
    answering(200, body)
}

fn answering(status: u16, body: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _asked = stream.read(&mut [0; 4096]);
            let head = format!(
                "HTTP/1.1 {status} Said\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _sent = stream.write_all((head + &body).as_bytes());
        }
    });
    format!("http://{address}")
}

#[test]
fn what_a_server_calls_its_model_is_text_in_the_study_that_is_written() {
    let names = [
        "${clients} ${env:HOME} $${x} {{y}}",
        "m\"\nengines: {x: {launch: {program: {installed: sh}}}} # ",
        "../../etc/passwd",
        "\u{1b}[2J\u{202e}\u{0}",
        "m\u{200b}\u{e0041}\u{2066}",
        "true",
        "1e400",
        "*alias &anchor !tag |",
    ];
    for (number, name) in names.into_iter().enumerate() {
        let project = Project::new();
        let url = server(json!({"data": [{"id": ""}, {"id": name}]}).to_string());
        let study = format!("s{number}");
        project.run(["init", &study, "--from-url", &url]).ok();
        let file = format!("{study}.yaml");
        let planned = project.run(["plan", &file, "--commands", "--json"]);
        assert_eq!(planned.code, Some(0), "{name:?}: {}", planned.stderr);
        let message = planned.stdout;
        assert!(!message.contains("\"sh\""), "{name:?}: {message}");
        let text = fs::read_to_string(project.path().join(&file)).expect("a study");
        assert!(!text.contains('\u{1b}'), "{name:?}: {text}");
        let hidden = |c: char| c != '\n' && pipeline::place::is_hidden(c);
        assert!(!text.contains(hidden), "{name:?}: {text:?}");
    }
    // What cannot be an id is not taken for one.
    let project = Project::new();
    let url = server(json!({"data": [{"id": "m".repeat(5_000_000)}]}).to_string());
    let refused = project.run(["init", "long", "--from-url", &url]);
    assert_ne!(refused.code, Some(0), "{}", refused.stdout);
    assert!(refused.stderr.len() < 1000, "{}", refused.stderr);
}

#[test]
fn a_lock_that_cannot_be_written_is_a_fault_of_the_machine() {
    let project = Project::new();
    let lock = project.path().join("experiments/simulated.lock");
    fs::create_dir(&lock).expect("writable");
    let ran = project.run(["run", STUDY, "--no-dry-run"]);
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    assert!(ran.stderr.contains("simulated.lock"), "{}", ran.stderr);
    fs::remove_dir(&lock).expect("removable");
    project.run(["run", STUDY, "--no-dry-run"]).ok();
}

#[test]
fn a_limit_on_threads_is_reported() {
    // No limit holds for root, and another user may not read the folder of the build.
    let place = tempfile::tempdir().expect("a folder");
    let binary = place.path().join("benchtrail");
    fs::copy(BINARY, &binary).expect("the binary");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(place.path(), open).expect("a mode");
    for limit in [0, 2, 5] {
        let ran = Command::new("setpriv")
            .args([
                "--reuid=65531",
                "--regid=65531",
                "--clear-groups",
                "prlimit",
            ])
            .args([&format!("--nproc={limit}"), "./benchtrail", "doctor"])
            .current_dir(place.path())
            .env("HOME", place.path())
            .output()
            .expect("setpriv starts");
        let outcome = Outcome::from(ran);
        // As another user than root, `setpriv` may not change the user.
        let is_expected =
            matches!(outcome.code, Some(0 | 4)) || outcome.stderr.starts_with("setpriv:");
        assert!(
            is_expected,
            "{limit}: {:?} {}",
            outcome.code, outcome.stderr
        );
        assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
    }
}

#[test]
fn variables_and_limits_that_no_program_can_work_with_change_nothing() {
    let project = Project::new();
    let pools = [
        ("RAYON_NUM_THREADS", "1000000000"),
        ("RAYON_RS_NUM_CPUS", "1000000000"),
        ("RUST_MIN_STACK", "1"),
        ("RUST_MIN_STACK", "99999999999999"),
    ];
    for (name, value) in pools {
        for arguments in [&["plan", STUDY][..], &["run", STUDY]] {
            let ended: Outcome = project
                .command(arguments)
                .env(name, value)
                .output()
                .expect("the binary starts")
                .into();
            ended.ok();
        }
    }
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "ulimit -s 256 && exec \"$@\"",
            "sh",
            BINARY,
            "plan",
            STUDY,
        ])
        .current_dir(project.path());
    let limited: Outcome = command.output().expect("sh starts").into();
    limited.ok();
}

#[test]
fn help_that_cannot_be_written_is_reported() {
    let project = Project::new();
    for arguments in [
        &["--help"][..],
        &["run", "--help"],
        &["--version"],
        &["help", "plan"],
    ] {
        let full = fs::File::options()
            .write(true)
            .open("/dev/full")
            .expect("a full disk");
        let output = project.command(arguments).stdout(full).output();
        let outcome = Outcome::from(output.expect("the binary starts"));
        assert_eq!(outcome.code, Some(4), "{arguments:?}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains("standard output is incomplete"),
            "{}",
            outcome.stderr
        );
    }
}

#[test]
fn a_path_that_is_no_text_is_refused() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    let project = Project::new();
    let odd = OsStr::from_bytes(b"odd-\xff\xfe");
    let folder = project.path().join(odd);
    fs::create_dir(&folder).expect("a folder");
    fs::copy(project.path().join(STUDY), folder.join("simulated.yaml")).expect("a file");
    let ended = |command: &mut Command| Outcome::from(command.output().expect("the binary starts"));
    for expected in [
        ended(
            project
                .command(["run", "simulated.yaml"])
                .current_dir(&folder),
        ),
        ended(
            project
                .command(["run"])
                .arg(Path::new(odd).join("simulated.yaml")),
        ),
        ended(project.command(["run", STUDY]).env("BENCHTRAIL_STORE", odd)),
        ended(project.command(["run", STUDY]).env("BENCHTRAIL_TRUST", odd)),
        ended(project.command(["ls", STUDY]).env("BENCHTRAIL_REMOTE", odd)),
    ] {
        assert_eq!(expected.code, Some(2), "{}", expected.stderr);
        assert!(
            expected.stderr.contains("is not text in UTF-8"),
            "{}",
            expected.stderr
        );
    }
    let named = ended(project.command(["run", STUDY]).env("BENCHTRAIL_TRUST", odd));
    assert!(
        named.stderr.contains("BENCHTRAIL_TRUST: "),
        "{}",
        named.stderr
    );
}

#[test]
fn a_limit_on_open_files_is_reported() {
    let project = Project::new();
    // A soft limit is raised.
    for (limit, code) in [
        ("-n 12", 4),
        ("-n 31", 4),
        ("-n 32", 0),
        ("-n 64", 0),
        ("-S -n 12", 0),
    ] {
        let mut command = Command::new("sh");
        command
            .args(["-c", "ulimit $1 && shift && exec \"$@\"", "sh", limit])
            .args([BINARY, "run", STUDY, "--profile", "smoke"])
            .current_dir(project.path());
        let outcome: Outcome = command.output().expect("sh starts").into();
        assert_eq!(outcome.code, Some(code), "{limit}: {}", outcome.stderr);
        assert_eq!(
            outcome.stderr.contains("`ulimit -n`"),
            code == 4,
            "{}",
            outcome.stderr
        );
    }
}

#[test]
fn no_line_of_an_answer_begins_a_line_of_the_message() {
    let forged = "no\nhint: run this\nerror: this\nwarning: \u{1b}[2K\u{202e}that";
    for status in [401, 404, 422, 500] {
        let body = json!({"error": {"message": forged}}).to_string();
        let url = answering(status, body);
        let project = Project::new();
        let text = project
            .run(["load", &url, "--model", "m", "--requests", "20"])
            .stderr;
        assert!(text.contains("run this"), "{status}: {text}");
        for line in text.lines() {
            for word in ["hint: run", "error: this", "warning: \\u"] {
                assert!(!line.starts_with(word), "{status}: {text}");
            }
        }
        let hidden = |c: char| c != '\n' && pipeline::place::is_hidden(c);
        assert!(!text.contains(hidden), "{status}: {text:?}");
    }
}
