//! The contents of an environment, read from it after it was built.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use artifacts::Table;
use contract::{InstalledSoftware, Row, SoftwareKind, SoftwareRow};
use pipeline::{CellStatus, Control, Failure};
use serde::Deserialize;

use super::VenvRecipe;
use super::client::clean;
use super::normalized;
use crate::machine::Machine;
use crate::probe::{self, Unanswered};

const LIMIT: Duration = Duration::from_secs(120);

/// The time limit of each assertion: importing an engine takes a minute on a slow machine.
const ASSERTION_LIMIT: Duration = Duration::from_secs(600);

/// Distributions whose version affects speed; listed first.
const NOTABLE: [&str; 17] = [
    "accelerate",
    "flash-attn",
    "flashinfer-python",
    "lmdeploy",
    "numpy",
    "nvidia-cublas",
    "nvidia-cudnn-cu12",
    "nvidia-cudnn-cu13",
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
    "sgl-kernel",
    "sglang",
    "torch",
    "transformers",
    "triton",
    "vllm",
    "xformers",
];

const SCRIPT: &str = r"
import json, platform, sysconfig, importlib.metadata, importlib.util, runpy, pathlib
found = {}
for one in importlib.metadata.distributions():
    if one.metadata['Name']:
        found[one.metadata['Name']] = one.version
cuda = None
spec = importlib.util.find_spec('torch')
if spec and spec.origin:
    told = pathlib.Path(spec.origin).with_name('version.py')
    if told.is_file():
        cuda = runpy.run_path(str(told)).get('cuda')
print(json.dumps({'python': platform.python_version(), 'implementation': platform.python_implementation(),
    'free_threaded': bool(sysconfig.get_config_var('Py_GIL_DISABLED')), 'cuda': cuda, 'distributions': found}))
";

/// The command that lists what is installed beside the interpreter on the search path.
pub(crate) const TELL: [&str; 5] = ["python3", "-I", "-B", "-c", SCRIPT];

/// The exit status of [`ASSERT`] if an assertion does not hold. The last line on stderr is then a
/// [`Broken`].
const BROKEN: i32 = 3;

/// The assertion that does not hold.
#[derive(Deserialize)]
struct Broken {
    assertion: usize,
    why: String,
}

/// Runs the assertions one after the other in one process. Each is an expression that must be true,
/// or statements.
const ASSERT: &str = r"
import ast, json, sys
def fails(number, why):
    print(json.dumps({'assertion': number, 'why': why.replace('\n', ' ')}), file=sys.stderr)
    sys.exit(3)
names = {}
for number, text in enumerate(sys.argv[1:]):
    try:
        tree = ast.parse(text)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, '<assertion>', 'exec'), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), '<assertion>', 'eval'), names)
            is_call = isinstance(last.value, ast.Call) and value is None
            if not value and not is_call:
                fails(number, f'it is {value!r}')
    except BaseException as e:
        if isinstance(e, SystemExit):
            raise
        fails(number, f'{type(e).__name__}: {e}')
";

#[derive(Deserialize)]
struct Told {
    python: String,
    implementation: String,
    free_threaded: bool,
    cuda: Option<String>,
    distributions: BTreeMap<String, String>,
}

/// Reads what is installed in an environment.
///
/// # Errors
/// If its interpreter cannot be run.
pub(super) fn read(
    environment: &Path,
    lock: &str,
    control: &Control,
) -> Result<InstalledSoftware, Failure> {
    let mut command = Command::new(environment.join("bin/python"));
    command.args(["-I", "-B", "-c", SCRIPT]);
    clean(&mut command);
    let unreadable =
        |e: String| Failure::failed(format!("the installed packages cannot be read: {e}"));
    let said = probe::answer_unless(command, LIMIT, control)?;
    let said = said.map_err(|e| unreadable(e.to_string()))?;
    let software = parse("venv", &said).map_err(|e| unreadable(e.to_string()))?;
    Ok(InstalledSoftware {
        lock: crate::fetch::sha256_text(lock),
        ..software
    })
}

/// Reads what an interpreter reported about itself; `None` if that is something else.
pub(crate) fn installed_software(environment: &str, said: &str) -> Option<InstalledSoftware> {
    let software = parse(environment, said).ok()?;
    let named = NOTABLE
        .iter()
        .filter_map(|name| Some((name, software.distributions.get(*name)?)));
    Some(InstalledSoftware {
        notable: named
            .map(|(name, version)| format!("{name}=={version}"))
            .collect(),
        ..software
    })
}

fn parse(environment: &str, said: &str) -> Result<InstalledSoftware, serde_json::Error> {
    let facts: Told = serde_json::from_str(said.trim())?;
    let distributions = facts.distributions.into_iter();
    Ok(InstalledSoftware {
        environment: environment.to_owned(),
        python: format!("{} {}", facts.implementation, facts.python),
        free_threaded: facts.free_threaded,
        cuda: facts.cuda,
        lock: String::new(),
        notable: Vec::new(),
        distributions: distributions
            .map(|(name, version)| (normalized(&name), version))
            .collect(),
    })
}

/// Marks what this study names, because several studies that name other packages may share an
/// environment.
pub(super) fn for_study(software: InstalledSoftware, recipe: &VenvRecipe) -> InstalledSoftware {
    InstalledSoftware {
        notable: notable(&software.distributions, recipe),
        ..software
    }
}

fn notable(distributions: &BTreeMap<String, String>, recipe: &VenvRecipe) -> Vec<String> {
    let named: Vec<String> = recipe.named().map(|(name, _)| name).collect();
    let named_facts = distributions
        .iter()
        .filter(|(name, _)| named.contains(name) || NOTABLE.contains(&name.as_str()));
    named_facts
        .map(|(name, version)| format!("{name}=={version}"))
        .collect()
}

/// Compares the installed packages with the locked ones. A locked package may be absent.
///
/// # Errors
/// If a package has another version than its lock.
pub(super) fn check(
    software: &InstalledSoftware,
    locked: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    let same = |installed: &str, locked: &str| {
        // A registry may serve a local version (`+cpu`) for a pin without one.
        installed == locked || installed.split('+').next() == Some(locked)
    };
    let wrong: Vec<String> = locked
        .iter()
        .filter_map(|(name, version)| match software.distributions.get(name) {
            Some(installed) if same(installed, version) => None,
            Some(installed) => Some(format!("{name} is {installed}, not {version}")),
            // The line may apply only to another platform.
            None => None,
        })
        .collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "the environment does not match its lock: {}",
        wrong.join(", ")
    ))
    .hint("remove it from the store's folder `venvs`; it will be created again"))
}

/// Runs the assertions of a study in an environment.
///
/// # Errors
/// The first assertion that does not hold.
pub(super) fn assert(
    environment: &Path,
    assertions: &[String],
    control: &Control,
) -> Result<(), Failure> {
    if assertions.is_empty() {
        return Ok(());
    }
    let mut command = Command::new(environment.join("bin/python"));
    command.args(["-I", "-B", "-c", ASSERT]).args(assertions);
    clean(&mut command);
    let Err(unanswered) = probe::answer_unless(command, ASSERTION_LIMIT, control)? else {
        return Ok(());
    };
    let broken: Option<Broken> = match &unanswered {
        Unanswered::Failed {
            status, last_line, ..
        } if status.code() == Some(BROKEN) => serde_json::from_str(last_line).ok(),
        _ => None,
    };
    let which = |broken: &Broken| assertions.get(broken.assertion).cloned();
    let message = match broken.and_then(|b| Some((which(&b)?, b.why))) {
        Some((which, why)) => {
            format!("the assertion `{which}` does not hold in the venv: {why}")
        }
        None => format!("the assertions cannot be run in the venv: {unanswered}"),
    };
    Err(Failure::new(CellStatus::Failed, message).hint(
        "correct the pins or the assertion; a missing system library or driver also shows here",
    ))
}

/// Returns the software that the pins imply, before anything is installed.
pub(crate) fn promised(recipe: &VenvRecipe) -> InstalledSoftware {
    let distributions: BTreeMap<String, String> = recipe
        .named()
        .map(|(name, version)| (name, version.to_owned()))
        .collect();
    InstalledSoftware {
        environment: "venv".to_owned(),
        python: recipe.python.clone(),
        free_threaded: recipe.python.ends_with('t'),
        notable: notable(&distributions, recipe),
        distributions,
        ..InstalledSoftware::default()
    }
}

/// Returns the table `software`: a row for each distribution, and for the other facts about the
/// environment.
pub(crate) fn table(software: &InstalledSoftware, recipe: &VenvRecipe, machine: &Machine) -> Table {
    let named: Vec<String> = recipe.named().map(|(name, _)| name).collect();
    let row = |kind, name: &str, version: Option<String>| SoftwareRow {
        kind,
        name: name.to_owned(),
        version,
        named: named.iter().any(|n| n == name),
    };
    let mut rows = vec![
        row(
            SoftwareKind::Interpreter,
            "python",
            Some(software.python.clone()),
        ),
        row(SoftwareKind::Runtime, "cuda", software.cuda.clone()),
        row(
            SoftwareKind::System,
            "glibc",
            machine.glibc.as_ref().ok().cloned(),
        ),
    ];
    let driver = machine
        .gpus
        .as_ref()
        .ok()
        .and_then(|all| all.first())
        .map(|g| g.driver.clone());
    rows.push(row(SoftwareKind::System, "gpu-driver", driver));
    for (name, version) in &software.distributions {
        rows.push(row(SoftwareKind::Distribution, name, Some(version.clone())));
    }
    SoftwareRow::table(&rows).expect("the table is declared")
}
