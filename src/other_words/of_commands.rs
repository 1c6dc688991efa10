//! Options of other tools that commands other than `load` meet, each with what to do instead.

/// Options of workflow tools that `run` and `plan` lack, each with what to do instead.
pub(super) const OF_RUNS: &[(&str, &str)] = &[
    ("-n", "`benchtrail plan EXPERIMENT` shows what would run"),
    ("--force", "`--fresh STAGE` measures again"),
    ("-f", "`--fresh STAGE` measures again"),
    ("--forceall", "`--fresh STAGE` measures again"),
    ("-F", "`--fresh STAGE` measures again"),
    ("--rerun", "`--fresh STAGE` measures again"),
    ("--no-cache", "`--fresh STAGE` measures again"),
    ("-j", ONE_AT_A_TIME),
    ("-c", ONE_AT_A_TIME),
    ("--cores", ONE_AT_A_TIME),
    ("-s", "name the experiment: `benchtrail run EXPERIMENT`"),
    (
        "--config",
        "`--set NAME=VALUE` sets a parameter of the experiment",
    ),
    (
        "-e",
        "`--set NAME=VALUE` sets a parameter of the experiment",
    ),
    (
        "--env",
        "`--set NAME=VALUE` sets a parameter of the experiment",
    ),
    (
        "-v",
        "`--verbose` after the command shows every cell and the engine's log",
    ),
    (
        "--unlock",
        "leave it out: a run that was killed leaves nothing locked, and `benchtrail run EXPERIMENT` continues it",
    ),
    (
        "--rerun-incomplete",
        "leave it out: `benchtrail run EXPERIMENT` executes what is missing",
    ),
    (
        "--until",
        "`--only STAGE` executes a stage and what it needs",
    ),
    (
        "--stage",
        "`--only STAGE` executes a stage and what it needs",
    ),
    (
        "--stages",
        "`--only STAGE` executes a stage and what it needs",
    ),
    (
        "--cell",
        "`--only STAGE[AXIS=LABEL]` executes cells and what they need",
    ),
    (
        "--cells-only",
        "`--only STAGE[AXIS=LABEL]` executes cells and what they need",
    ),
    (
        "--filter",
        "`--only STAGE[AXIS=LABEL]` executes cells and what they need",
    ),
    (
        "--select",
        "`--only STAGE[AXIS=LABEL]` executes cells and what they need",
    ),
    (
        "--single-item",
        "`--only STAGE` executes a stage and what it needs",
    ),
    (
        "-k",
        "`--keep-going` continues with other cells when one fails",
    ),
    ("--threads", ONE_AT_A_TIME),
    ("--vus", A_LOAD),
    ("-u", A_LOAD),
    ("--duration", A_LOAD),
    ("--users", A_LOAD),
    ("--host", A_LOAD),
    ("--url", A_LOAD),
    ("--base-url", A_LOAD),
    ("--target", A_LOAD),
    ("--num-prompts", A_LOAD),
    ("--max-concurrency", A_LOAD),
    ("--request-rate", A_LOAD),
    ("--workers", ONE_AT_A_TIME),
    ("--parallel", ONE_AT_A_TIME),
    ("--blocks", REPETITIONS),
    ("--repeat", REPETITIONS),
    ("--repeats", REPETITIONS),
    ("--repetitions", REPETITIONS),
    ("--runs", REPETITIONS),
    ("--iterations", REPETITIONS),
    (
        "--resume",
        "leave it out: `benchtrail run EXPERIMENT` executes what is missing",
    ),
    (
        "--continue",
        "leave it out: `benchtrail run EXPERIMENT` executes what is missing",
    ),
    ("--model", IN_THE_FILE),
    ("--engine", IN_THE_FILE),
    ("--seed", IN_THE_FILE),
    ("--clients", IN_THE_FILE),
    ("--concurrency", IN_THE_FILE),
    ("--requests", IN_THE_FILE),
    ("--rate", IN_THE_FILE),
    ("--workload", IN_THE_FILE),
    (
        "--param",
        "`--set NAME=VALUE` sets a parameter of the experiment",
    ),
    (
        "--gpu",
        "the engine sees the GPUs that its environment shows it: `CUDA_VISIBLE_DEVICES=0 benchtrail run EXPERIMENT`",
    ),
    ("-o", A_REPORT),
    ("--out", A_REPORT),
    ("--output", A_REPORT),
    (
        "-p",
        "`--profile NAME` selects a profile, `--set NAME=VALUE` sets a parameter",
    ),
];

/// What an option for something that the experiment says meets.
const IN_THE_FILE: &str =
    "the experiment's file says it; `--set NAME=VALUE` sets a parameter that the file declares";

/// What an option for the load of a server meets.
const A_LOAD: &str = "`run` takes an experiment, which says it; to load a server without one, use `benchtrail load URL --concurrency N`";

/// What an option for a number of repetitions meets.
const REPETITIONS: &str = "the experiment's file says it: `design: {blocks: N}` measures everything N times, each time with a new launch";

/// Options of other tools' pages, each with what to do instead.
pub(super) const OF_EXPLORE: &[(&str, &str)] = &[
    ("--port", LISTEN),
    ("-p", LISTEN),
    ("--host", LISTEN),
    ("--bind", LISTEN),
    ("--address", LISTEN),
    (
        "--output",
        "`--export FILE` writes one study as a page that opens without a server",
    ),
    (
        "--out",
        "`--export FILE` writes one study as a page that opens without a server",
    ),
    (
        "-o",
        "`--export FILE` writes one study as a page that opens without a server",
    ),
];

/// What an option for an address of the explorer meets.
const LISTEN: &str =
    "`--listen 127.0.0.1:PORT` chooses the address and the port; port 0 is any free one";

/// Options of other tools that query tables, each with what to do instead.
pub(super) const OF_QUERIES: &[(&str, &str)] = &[
    ("--format", QUERY_FORMATS),
    ("-o", QUERY_FORMATS),
    ("--out", QUERY_FORMATS),
    ("--output", QUERY_FORMATS),
    (
        "-c",
        "the query comes after the experiment, without an option",
    ),
    (
        "-q",
        "the query comes after the experiment, without an option",
    ),
    (
        "--query",
        "the query comes after the experiment, without an option",
    ),
];

/// Options of other tools that show tables, each with what to do instead.
pub(super) const OF_SHOWS: &[(&str, &str)] = &[
    ("--where", A_QUERY),
    ("--filter", A_QUERY),
    ("--sort", A_QUERY),
    ("--order-by", A_QUERY),
    ("--head", "`--rows 0..10` shows the first ten rows"),
    ("--limit", "`--rows 0..10` shows the first ten rows"),
    ("-n", "`--rows 0..10` shows the first ten rows"),
    ("--column", "`--columns NAME,…`"),
    ("--csv", "`benchtrail sql STUDY QUERY --csv` prints CSV"),
];

/// What an option that selects or sorts rows meets.
const A_QUERY: &str = "a query selects and sorts rows: `benchtrail sql STUDY 'select … from \"STAGE.OUTPUT\" where … order by …'`";

/// What `list` does not list, each with where to look.
pub(super) const LISTED_ELSEWHERE: &[(&[&str], &str)] = &[
    (
        &["metrics", "metric", "columns", "column", "tables", "table"],
        "`benchtrail schema tables` prints the columns of every table, as docs/columns.md describes them; \
         `benchtrail sql STUDY` lists those of a study that ran",
    ),
    (
        &["settings", "setting", "flags", "options"],
        "`benchtrail list engines NAME` shows the settings of an engine",
    ),
    (
        &["datasets", "dataset", "prompts"],
        "`benchtrail list workloads` lists the workloads; `prompts: {dataset: {file: FILE}}` reads your own file",
    ),
    (
        &["stages", "stage", "kinds", "kind"],
        "`benchtrail ls EXPERIMENT` lists the artifacts of a study's stages; docs/experiments.md lists the kinds of stages",
    ),
];

/// What an option for the format of an answer meets.
const QUERY_FORMATS: &str =
    "`--csv` prints CSV, `--json` prints JSON, `--parquet FILE` writes a file";

/// Options of `load` and of other tools that `init` lacks, each with ours.
pub(super) const OF_INIT: &[(&str, &str)] = &[
    ("--list", WHAT_THERE_IS),
    ("--list-engines", WHAT_THERE_IS),
    (
        "--template",
        "there is one form of study; `benchtrail list engines`, `models` and `workloads` list what it can name",
    ),
    ("--concurrency", "`--clients N,…`"),
    ("--max-concurrency", "`--clients N,…`"),
    ("-c", "`--clients N,…`"),
    ("--rate", "`--rates R,…`"),
    ("--request-rate", "`--rates R,…`"),
    ("--workload", "`--workloads NAMES`"),
    (
        "--dataset",
        "`--workloads NAMES`; a file is a workload of the study: `prompts: {dataset: {file: FILE}}`",
    ),
    ("--num-prompts", "`--requests N`"),
    ("--blocks", "`--repetitions N`"),
    ("--repeat", "`--repetitions N`"),
    (
        "-n",
        "the name comes without an option: `benchtrail init NAME`",
    ),
    (
        "--name",
        "the name comes without an option: `benchtrail init NAME`",
    ),
    (
        "-o",
        "the name comes without an option: `benchtrail init NAME`",
    ),
    (
        "--output",
        "the name comes without an option: `benchtrail init NAME`",
    ),
];

/// Options of other tools' reports, each with what to do instead.
pub(super) const OF_REPORTS: &[(&str, &str)] = &[
    ("--format", BOTH_FORMATS),
    ("--html", BOTH_FORMATS),
    ("--pdf", "print the page `report.html` from a browser"),
    (
        "--template",
        "the experiment's file says it: `report: {kind: report, template: FILE, …}`",
    ),
    (
        "--output",
        "`--out FILE` chooses where the report is written",
    ),
    ("-o", "`--out FILE` chooses where the report is written"),
];

/// Options of studies that commands on a report lack, each with what to do instead.
pub(super) const OF_TRAILS: &[(&str, &str)] = &[
    ("--smoke", A_RENDERED_REPORT),
    ("--profile", A_RENDERED_REPORT),
    ("--set", A_RENDERED_REPORT),
];

/// What an option that selects a study meets where a report is wanted.
const A_RENDERED_REPORT: &str =
    "leave it out: name the report, such as `reports/STUDY.smoke/report.md` of the profile `smoke`";

/// What an option for the format of a report meets.
const BOTH_FORMATS: &str = "leave it out: a report is written as `report.md` and as `report.html`";

/// What an option for an output file meets.
const A_REPORT: &str =
    "`benchtrail run EXPERIMENT --report FILE` chooses where the report is written";

/// Options in front of the command, each with what to do instead.
pub(super) const BEFORE_COMMANDS: &[(&str, &str)] = &[
    ("-v", AFTER_THE_COMMAND),
    ("--verbose", AFTER_THE_COMMAND),
    ("-q", AFTER_THE_COMMAND),
    ("--quiet", AFTER_THE_COMMAND),
];

/// What an option of a command in front of it meets.
const AFTER_THE_COMMAND: &str =
    "options of a command come after it: `benchtrail run --verbose EXPERIMENT`";

/// Options of other tools' commands on stores, each with what to do instead.
pub(super) const OF_STORES: &[(&str, &str)] = &[
    (
        "-n",
        "`benchtrail gc --dry-run` shows what would be removed",
    ),
    (
        "--all",
        "`benchtrail gc --measurements` also removes measurements that no lock needs",
    ),
    ("--fix", "`benchtrail fsck --repair`"),
];

/// What an option for a number of processes meets.
const ONE_AT_A_TIME: &str =
    "`--jobs N` is for analysis and report; cells that measure run one at a time";

/// What an option for a list of engines meets.
const WHAT_THERE_IS: &str =
    "`benchtrail list engines` lists the engines, `benchtrail list workloads` the workloads";
