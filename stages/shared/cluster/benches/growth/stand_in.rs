//! A stand-in for Slurm's commands and for the machines: not Slurm. It keeps its state in a folder. Time passes only
//! when `squeue` is called: every running job, or one in every `pace` of them, then finishes one more cell.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use artifacts::Digest;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The variable that names the stand-in's folder.
pub(crate) const FOLDER: &str = "BENCHTRAIL_GROWTH";

/// The name of every simulated machine.
pub(crate) const NODE: &str = "simulated";

/// The shard whose second document has the third number.
const LEAVES_OUT: &str = "0003";

const PROGRAMS: [&str; 5] = ["sbatch", "squeue", "scancel", "sacct", "scontrol"];

/// Puts the commands into a folder. At each look, one in every `pace` running jobs finishes a cell.
pub(crate) fn install(folder: &Path, pace: usize) {
    fs::write(folder.join("pace"), pace.to_string()).expect("a file");
    let bin = programs(folder);
    fs::create_dir_all(&bin).expect("a folder");
    let program = std::env::current_exe().expect("our own path");
    for name in PROGRAMS {
        std::os::unix::fs::symlink(&program, bin.join(name)).expect("a link");
    }
}

/// Returns the folder of the commands.
pub(crate) fn programs(folder: &Path) -> PathBuf {
    folder.join("bin")
}

/// Returns a cell's name in the list of records.
pub(crate) fn cell_name(stage: &str, coordinates: &str) -> String {
    format!("{stage} {coordinates}")
}

/// Saves the record of each cell.
pub(crate) fn keep_records(folder: &Path, records: &BTreeMap<String, Digest>) {
    let text = serde_json::to_vec(records).expect("it serializes");
    fs::write(folder.join("records"), text).expect("a file");
}

/// Acts as a Slurm command if this program was started as one; returns whether it was.
#[expect(
    clippy::disallowed_methods,
    reason = "a command of Slurm gets only its arguments and variables from us"
)]
pub(crate) fn answer(arguments: &[String]) -> bool {
    let called = Path::new(&arguments[0]).file_name();
    let called = called.and_then(|name| name.to_str()).unwrap_or_default();
    if !PROGRAMS.contains(&called) {
        return false;
    }
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("the bench sets it"));
    match called {
        "sbatch" => submit(&folder, arguments),
        "squeue" => look(&folder),
        // No job ends early, so nobody cancels a job or asks for its accounting.
        other => panic!("the bench does not expect `{other}`"),
    }
    true
}

/// A job: its name for Slurm, its run and its shard.
#[derive(Serialize, Deserialize)]
struct Job {
    name: String,
    run: String,
    shard: String,
}

/// The file of a job.
fn job_file(folder: &Path, number: usize) -> PathBuf {
    folder.join("jobs").join(number.to_string())
}

/// The progress of all jobs.
#[derive(Default, Serialize, Deserialize)]
struct Progress {
    /// Jobs seen so far, including ended ones.
    seen: usize,
    /// How often `squeue` was called.
    looks: usize,
    /// The names of running jobs.
    names: BTreeMap<usize, String>,
    /// The number of cells that each running job has finished.
    running: BTreeMap<usize, usize>,
    /// Jobs that ended at the last look: Slurm lists them for a while.
    ended: BTreeSet<usize>,
}

/// Accepts a job; prints its number.
fn submit(folder: &Path, arguments: &[String]) {
    let given = |prefix: &str| arguments.iter().find_map(|a| a.strip_prefix(prefix));
    let name = given("--job-name=").expect("a name").to_owned();
    let wrap = given("--wrap=").expect("a script");
    let words: Vec<&str> = wrap
        .split_whitespace()
        .map(|word| word.trim_matches('\''))
        .collect();
    let [.., run, shard] = words.as_slice() else {
        panic!("a script that names its run and its shard");
    };
    let job = Job {
        name,
        run: (*run).to_owned(),
        shard: (*shard).to_owned(),
    };
    fs::create_dir_all(folder.join("jobs")).expect("a folder");
    let counter = folder.join("submitted");
    let before = fs::metadata(&counter).map_or(0, |file| file.len());
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(&counter)
        .expect("a file");
    file.write_all(b".").expect("written");
    let number = usize::try_from(before).expect("few jobs") + 1;
    let text = serde_json::to_vec(&job).expect("it serializes");
    fs::write(job_file(folder, number), text).expect("a file");
    println!("{number}");
}

/// Lets running jobs execute one more cell; prints every job that Slurm would list.
fn look(folder: &Path) {
    let submitted = fs::metadata(folder.join("submitted")).map_or(0, |file| file.len());
    let submitted = usize::try_from(submitted).expect("few jobs");
    let file = folder.join("progress");
    let mut progress: Progress = match fs::read(&file) {
        Ok(text) => serde_json::from_slice(&text).expect("our own file"),
        Err(_) => Progress::default(),
    };
    let text = fs::read(folder.join("records")).expect("the records");
    let records: BTreeMap<String, Digest> = serde_json::from_slice(&text).expect("our own file");
    for number in progress.seen + 1..=submitted {
        let text = fs::read(job_file(folder, number)).expect("the job");
        let job: Job = serde_json::from_slice(&text).expect("our own file");
        progress.names.insert(number, job.name);
        progress.running.insert(number, 0);
    }
    progress.seen = submitted;
    let mut lines = String::new();
    let mut ended = BTreeSet::new();
    let pace = fs::read_to_string(folder.join("pace")).expect("the pace");
    let pace: usize = pace.parse().expect("a number");
    progress.looks += 1;
    for (number, done) in &mut progress.running {
        if !(*number + progress.looks).is_multiple_of(pace) {
            let name = &progress.names[number];
            lines.push_str(&line(*number, name, "RUNNING"));
            continue;
        }
        let text = fs::read(job_file(folder, *number)).expect("the job");
        let job: Job = serde_json::from_slice(&text).expect("our own file");
        *done += 1;
        let state = match execute(folder, &job, *done, &records) {
            true => "RUNNING",
            false => {
                ended.insert(*number);
                "COMPLETED"
            }
        };
        lines.push_str(&line(*number, &job.name, state));
    }
    progress.running.retain(|number, _| !ended.contains(number));
    progress.names.retain(|number, _| !ended.contains(number));
    for number in &progress.ended {
        lines.push_str(&line(*number, "ended", "COMPLETED"));
    }
    progress.ended = ended;
    fs::write(&file, serde_json::to_vec(&progress).expect("it serializes")).expect("a file");
    print!("{lines}");
}

/// Returns a job's line in the output of `squeue`.
fn line(number: usize, name: &str, state: &str) -> String {
    format!("{number}|{name}|{state}|None|{NODE}|0:01|2026-11-23T01:00:00|2026-11-23T01:00:07\n")
}

/// Writes the documents of a job's next cell as its machine would. Returns false after the last cell: the job has
/// ended.
fn execute(folder: &Path, job: &Job, number: usize, records: &BTreeMap<String, Digest>) -> bool {
    let run = folder.join("shared/jobs").join(&job.run);
    let shard = &job.shard;
    let order = fs::read(run.join(format!("{shard}.json"))).expect("the order");
    let order: Value = serde_json::from_slice(&order).expect("an order");
    let cells = order["cells"].as_array().expect("cells");
    let cell = &cells[number - 1];
    let text = |key: &str| cell[key].as_str().expect("a text");
    let done = json!({
        "stage": text("stage"), "coordinates": text("coordinates"), "status": "ok",
        "record": records[&cell_name(text("stage"), text("coordinates"))], "maker": {"host": NODE, "by": "growth"},
    });
    fs::create_dir_all(run.join("done")).expect("a folder");
    let put = |name: String, document: &Value| {
        let text = serde_json::to_vec_pretty(document).expect("it serializes");
        fs::write(run.join(name), text).expect("a document");
    };
    // A failed put leaves a number out.
    let left_out = usize::from(shard == LEAVES_OUT && number > 1);
    put(format!("done/{shard}.{:06}", number - 1 + left_out), &done);
    if number < cells.len() {
        return true;
    }
    let end = json!({"job": "0", "node": NODE, "without": [], "refused": null, "hint": null});
    put(format!("{shard}.end"), &end);
    false
}
