//! The commands, with the examples that their `--help` shows.

use clap::{Parser, Subcommand};

use super::{
    AuditArgs, CalibrateArgs, DiffArgs, DoctorArgs, FsckArgs, GcArgs, Global, KeygenArgs, LoadArgs,
    LsArgs, PlanArgs, PublishArgs, ReproduceArgs, RunArgs, ShowArgs, SqlArgs, StatusArgs,
    VerifyArgs, WhyArgs,
};

/// A benchmark with its trail: declare a study of LLM serving engines in one YAML file, rerun
/// only what changed, ask where a number came from, publish the report.
#[derive(Debug, Parser)]
#[command(name = "benchtrail", version, max_term_width = 100, after_long_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Options every command understands.
    #[command(flatten)]
    pub(crate) global: Global,
}

/// The exit codes, as `--help` prints them and `exit` returns them.
const EXIT_CODES: &str = "\
Exit codes:
    0  everything asked for is done and holds
    1  a cell is not ok, a gate failed, or what was asked for does not hold
    2  the command line or the experiment is wrong (the message says where)
    3  the store is damaged
    4  this machine lacks something that is needed
    5  nothing matches: no such stage, cell, artifact or number
  130  stopped by the user (Ctrl-C); what had finished is kept";

/// What benchtrail can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Execute what is missing of an experiment and render its report.
    #[command(after_long_help = "Examples:
  benchtrail run experiments/quickstart.yaml
  benchtrail run experiments/quickstart.yaml --smoke
  benchtrail run experiments/quickstart.yaml --set reps=5 --keep-going
  benchtrail run experiments/quickstart.yaml --fresh ladder     measure again, keep the old rows
  benchtrail run experiments/quickstart.yaml --only 'ladder[concurrency=8]'
  benchtrail run experiments/quickstart.yaml --locked           re-analyze on any machine")]
    Run(RunArgs),
    /// Show for every cell whether it is cached or must run, and why.
    #[command(after_long_help = "Examples:
  benchtrail plan experiments/quickstart.yaml
  benchtrail plan experiments/quickstart.yaml --set output_tokens=64
  benchtrail plan experiments/quickstart.yaml --cells --json
  benchtrail plan experiments/quickstart.yaml --dry-run      try analysis and report on made-up rows")]
    Plan(PlanArgs),
    /// Show what became of every cell, as the lock has it.
    #[command(after_long_help = "Examples:
  benchtrail status experiments/quickstart.yaml
  benchtrail status experiments/quickstart.yaml --cells")]
    Status(StatusArgs),
    /// List the artifacts of a stage.
    #[command(after_long_help = "Examples:
  benchtrail ls experiments/quickstart.yaml
  benchtrail ls experiments/quickstart.yaml results
  benchtrail ls experiments/quickstart.yaml 'ladder[concurrency=8,rep=1]'")]
    Ls(LsArgs),
    /// Show an artifact: a table, a record, a log.
    #[command(after_long_help = "Examples:
  benchtrail show experiments/quickstart.yaml results.efficiency
  benchtrail show experiments/quickstart.yaml 'ladder[configuration=batched,workload=short-decode,concurrency=8,rep=1].requests'
  benchtrail show b3:1f0c2a…                       any object, by the start of its digest
  benchtrail show b3:1f0c2a… --rows 4..20 --columns request_id,status
  benchtrail show b3:1f0c2a… --raw > requests.parquet")]
    Show(ShowArgs),
    /// Load a server at a URL once, without an experiment, and print the usual table.
    #[command(after_long_help = "Examples:
  benchtrail load --url http://127.0.0.1:8080 --concurrency 8 --requests 64
  benchtrail load --url http://127.0.0.1:8080 --rate 5 --requests 300 --slo ttft=200,tpot=40
  benchtrail load --url http://127.0.0.1:8080 --rate 1 --search 64 --slo ttft=200   highest rate that keeps it
  benchtrail load --url http://127.0.0.1:8080 --concurrency 8 --compat vllm         vLLM's figures of the rows
  benchtrail load --url http://127.0.0.1:8080 --constant 20 --prompt-words 100..400 --output-tokens 64
  benchtrail load --url http://127.0.0.1:8080 --workload shared-prefix --concurrency 16 --warmup 16
  benchtrail load --url http://127.0.0.1:8080 --burst --requests 32 --out rows     Parquet of every row
  benchtrail load --url http://127.0.0.1:8080 --api openai-chat --api-key-env OPENAI_API_KEY --json

The definition of every metric, and where other tools define it otherwise: docs/load.md")]
    Load(Box<LoadArgs>),
    /// Measure the error of the load generator itself on this machine.
    #[command(after_long_help = "Examples:
  benchtrail calibrate --quick
  benchtrail calibrate --out calibration
  benchtrail calibrate --concurrency 1,64,1024 --gap '5 ms,20 ms' --duration '5 s'
  benchtrail calibrate --rate 100,1000 --bound '1 ms,10 ms' --json
  benchtrail calibrate --quick --tls
  benchtrail calibrate --quick --url http://127.0.0.1:8080 --server-concurrency 1,8

What is compared with what, and what the columns mean: docs/load-accuracy.md")]
    Calibrate(CalibrateArgs),
    /// Ask the tables of an experiment a question in SQL.
    #[command(
        after_long_help = "Tables are named \"STAGE.OUTPUT\" (in double quotes, because of the dot), or OUTPUT alone where
one stage has it. A stage with axes has the rows of all its ok cells in one table, the axes as
columns. What a query may say: docs/sql.md.

Examples:
  benchtrail sql experiments/quickstart.yaml                list the tables
  benchtrail sql experiments/quickstart.yaml 'select * from \"results.cells\" limit 5'
  benchtrail sql experiments/quickstart.yaml \\
      'select configuration, concurrency, quantile((done_ns - sent_ns) / 1e6, 0.99) as p99_ms
       from \"ladder.requests\" group by configuration, concurrency'
  benchtrail sql experiments/quickstart.yaml 'select * from gates where not passed' --json
  benchtrail sql experiments/quickstart.yaml 'select * from cells' --parquet cells.parquet"
    )]
    Sql(SqlArgs),
    /// Tell where a number of a report came from, down to the raw request rows.
    #[command(after_long_help = "Examples:
  benchtrail why reports/quickstart/report.md:42
  benchtrail why reports/quickstart/report.md:42:17
  benchtrail why reports/quickstart/report.md 0.573 --json")]
    Why(WhyArgs),
    /// Recompute every number of a report from its artifacts and check every digest on the way.
    #[command(after_long_help = "Examples:
  benchtrail audit reports/quickstart/report.md
  benchtrail audit --foreign their-report.md --data their-tables --sarif findings.sarif

With --foreign the report need not be Benchtrail's: its numbers are held against each other and
against the tables of --data. Rules and what the confidences mean: docs/foreign-audit.md.")]
    Audit(AuditArgs),
    /// Write a finished study as a directory that others can check and reproduce.
    #[command(after_long_help = "Examples:
  benchtrail publish experiments/quickstart.yaml --author 'Ada Lovelace'
  benchtrail publish experiments/quickstart.yaml --author 'A. Lovelace' --author 'C. Babbage' --archive
  benchtrail publish experiments/quickstart.yaml --author 'Ada Lovelace' --key study.key --license CC0-1.0
  benchtrail publish experiments/quickstart.yaml --smoke --author 'Ada Lovelace' --out /tmp/smoke-bundle

Secrets and user names are searched for in everything that would become public; a finding refuses
the whole. What is meant to be public passes with `--allow RULE`. What a bundle holds:
docs/publish.md.")]
    Publish(PublishArgs),
    /// Check a published bundle: every byte, the signature, the lock, every number of its reports.
    #[command(after_long_help = "Examples:
  benchtrail verify published/quickstart
  benchtrail verify quickstart.tar.zst --key study.pub")]
    Verify(VerifyArgs),
    /// Execute the pure stages of a published bundle again and compare every byte.
    #[command(after_long_help = "Examples:
  benchtrail reproduce published/quickstart
  benchtrail reproduce quickstart.tar.zst --json

Nothing but the bundle is read: no engine, no network, no store. Measurements are taken as they
are; verify, analyze and report are executed from them.")]
    Reproduce(ReproduceArgs),
    /// Show what changed between two studies, and whether it exceeds the measured noise.
    #[command(after_long_help = "Examples:
  benchtrail diff old/quickstart.lock experiments/quickstart.yaml
  benchtrail diff published/before published/after --column output_throughput --threshold 2
  benchtrail diff baseline.tar.zst experiments/quickstart.yaml --gate       for CI: exit code 1 on a regression
  benchtrail diff experiments/quickstart.yaml             one study: what changed since its lock, as `plan` tells

A side is a lock, an experiment's YAML file (its lock), or a bundle. A result counts as changed if
its mean over repetitions moved by the threshold and the test's p, adjusted by Holm over all results,
is at most alpha. Without two repetitions on both sides there is no test, and `--gate` does not pass.")]
    Diff(DiffArgs),
    /// Make a pair of Ed25519 keys for signing bundles.
    #[command(after_long_help = "Examples:
  benchtrail keygen study                 writes study.key (keep it) and study.pub (give it away)")]
    Keygen(KeygenArgs),
    /// Check every object and reference of the store.
    #[command(after_long_help = "Examples:
  benchtrail fsck
  benchtrail fsck --subset 1/7        a seventh of the objects, for instance each day
  benchtrail fsck --repair            put damaged objects aside, so that the next run makes them again")]
    Fsck(FsckArgs),
    /// Remove what no lock reaches.
    #[command(after_long_help = "Examples:
  benchtrail gc --dry-run
  benchtrail gc
  benchtrail gc --locks ../other-study")]
    Gc(GcArgs),
    /// Tell what this machine has and lacks.
    #[command(after_long_help = "Examples:
  benchtrail doctor
  benchtrail doctor experiments/quickstart.yaml")]
    Doctor(DoctorArgs),
    /// Print the JSON Schema of experiments, for editors.
    #[command(after_long_help = "Examples:
  benchtrail schema > experiment.schema.json
  # first line of an experiment, for editors with a YAML language server:
  # yaml-language-server: $schema=../experiment.schema.json")]
    Schema,
}
