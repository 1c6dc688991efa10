//! The stage kind: settings to a checked list of gates, and one cell's execution.

use artifacts::json::plain;
use artifacts::{Store, Table, TableError};
use contract::Settings;
use pipeline::suggest::remedy;
use pipeline::{
    Class, Control, Done, Failure, Input, Job, Json, KnownTable, Library, Needed, Output, Problem,
    StageKind, Step,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::census::census_table;
use crate::comparability::{Pair, comparability_table, pairs};
use crate::finding::{GateJudgement, Judgement, Outcome, Severity, exclusions_table, gates_table};
use crate::gate::{Gate, Unresolved};
use crate::gates::{ALL, BalanceParameters, ComparabilityParameters, variants_planned};
use crate::imbalances::{Imbalance, imbalances, imbalances_table};
use crate::prompt_caches::PromptCaches;
use crate::study::{self, Stage};
use crate::usual::{USUAL, usual};

/// The `verify` kind. Settings: `gates` (default: the usual ones), a list of `{gate: …}` with `severity`, `reason`
/// (required with severity `exclude`) and the gate's own parameters. The crate's documentation describes the outputs.
pub struct Verify;

/// One gate in canonical form.
#[derive(Serialize, Deserialize)]
struct Planned {
    gate: String,
    severity: Severity,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    parameters: Json,
}

/// The canonical parameter that planning adds.
const PROMPT_CACHES: &str = "prompt-caches";

/// The remedy for a limit on a figure, written as a gate.
const FIGURE: &str = "not a gate but a figure: gates judge whether rows can be trusted; bounds on latencies belong to an \
                      analyze stage, in a table `{operator: goodput, …}`";

fn gate(name: &str) -> Option<&'static dyn Gate> {
    ALL.iter().copied().find(|g| g.name() == name)
}

impl StageKind for Verify {
    fn name(&self) -> &'static str {
        "verify"
    }

    fn other_words(&self) -> &'static [&'static str] {
        &[
            "check", "checks", "gate", "gates", "assert", "test", "validate",
        ]
    }

    fn semantic_version(&self) -> u32 {
        29
    }

    /// A query that computes refuses numbers that do not fit. Other gates stay as they were.
    fn semantic_version_of(&self, parameters: &Json) -> u32 {
        const OF_QUERIES: u32 = 2_000;
        let mut gates = parameters["gates"].as_array().into_iter().flatten();
        let computes = gates.any(|gate| {
            gate["parameters"]["query"]
                .as_str()
                .is_some_and(query::computes)
        });
        self.semantic_version() + if computes { OF_QUERIES } else { 0 }
    }

    fn class(&self) -> Class {
        Class::Pure
    }

    fn schema(&self) -> schemars::Schema {
        let names: Vec<&str> = ALL.iter().map(|g| g.name()).collect();
        let mut cases: Vec<Json> = ALL
            .iter()
            .map(|g| {
                let mut then = g.schema();
                if let Some(object) = then.as_object_mut() {
                    object.remove("$schema");
                    object.remove("title");
                    // `gate`, `severity` and `reason` appear beside the parameters.
                    object.remove("additionalProperties");
                }
                json!({"if": {"properties": {"gate": {"const": g.name()}}, "required": ["gate"]}, "then": then})
            })
            .collect();
        // `{row-status: {}}` for `{gate: row-status}`.
        let words: serde_json::Map<String, Json> = names
            .iter()
            .map(|name| ((*name).to_owned(), format!("`gate: {name}`").into()))
            .collect();
        cases.push(json!({"if": {"required": ["gate"]}, "else": {"x-other-words": words}}));
        schemars::Schema::try_from(json!({
            "type": "object",
            "additionalProperties": false,
            "x-other-words": {
                "thresholds": "`gates: [{gate: …}]`; `benchtrail list gates` lists them",
                "checks": "`gates: [{gate: …}]`; `benchtrail list gates` lists them",
                "assertions": "`gates: [{gate: …}]`; `benchtrail list gates` lists them",
                "rules": "`gates: [{gate: …}]`; `benchtrail list gates` lists them",
            },
            "properties": {
                "gates": {
                    "type": "array",
                    "description": "The gates, each over every cell of the needed load stages. \
                                    By default, the usual gates: those that judge any load and \
                                    need no parameters.",
                    "items": {
                        "type": "object",
                        "required": ["gate"],
                        "properties": {
                            "gate": {"type": "string", "enum": names, "description": "The gate.",
                            "x-other-words": {
                                "error-rate": "`row-status`, with the `tolerance` as a share",
                                "errors": "`row-status`, with the `tolerance` as a share",
                                "failures": "`row-status`, with the `tolerance` as a share",
                                "failure-rate": "`row-status`, with the `tolerance` as a share",
                                "failed-share": "`row-status`, with the `tolerance` as a share",
                                "error-share": "`row-status`, with the `tolerance` as a share",
                                "success-rate": "the share of failed requests that counts: `{gate: row-status, tolerance: …}`",
                                "slo": FIGURE, "threshold": FIGURE, "QUANTILE": FIGURE, "percentile": FIGURE,
                                "median": FIGURE, "mean": FIGURE, "average": FIGURE, "avg": FIGURE, "min": FIGURE,
                                "max": FIGURE, "std": FIGURE, "stddev": FIGURE,
                                "count": "`expected-rows`, or `census` for the number of cells",
                                "cv": "`repeats`, or `outlying-launches`",
                            }, "x-listed-by": "benchtrail list gates", "x-other-parts": {
                                "ttft": FIGURE, "tpot": FIGURE, "itl": FIGURE, "latency": FIGURE, "e2e": FIGURE,
                                "e2el": FIGURE, "throughput": FIGURE, "rps": FIGURE, "tps": FIGURE,
                            }},
                            "severity": {
                                "type": "string",
                                "enum": ["fail", "exclude", "warn"],
                                "x-other-words": {
                                    "error": "`fail`", "fatal": "`fail`", "abort": "`fail`", "critical": "`fail`",
                                    "warning": "`warn`", "info": "`warn`",
                                    "skip": "`exclude`, with a `reason`", "drop": "`exclude`, with a `reason`",
                                    "ignore": "`exclude`, with a `reason`",
                                },
                                "description": "The consequence if the gate fails."
                            },
                            "reason": {
                                "type": "string",
                                "description": "Why cells that fail the gate are excluded; \
                                required with `exclude`."
                            },
                        },
                        "allOf": cases,
                    },
                },
            },
        }))
        .expect("an object is a schema")
    }

    fn canonical(&self, settings: &Json, library: &dyn Library) -> Result<Json, Vec<Problem>> {
        let (gates, problems) = plan(settings, library);
        if problems.is_empty() {
            Ok(json!({ "gates": gates }))
        } else {
            Err(problems)
        }
    }

    fn fits(
        &self,
        _parameters: &Json,
        needs: &[Needed<'_>],
        _library: &dyn Library,
    ) -> Result<(), Vec<Problem>> {
        match Needed::of_kind(needs, "load") {
            Some(_) => Ok(()),
            None => Err(vec![
                Problem::at(&["needs"], study::NO_LOAD).hint(study::NEEDS_LOAD),
            ]),
        }
    }

    /// Records which engines of the study have a prompt cache that a setting switches off, and of which engines it plans
    /// several variants.
    fn informed(&self, mut parameters: Json, behind: &[Needed<'_>], library: &dyn Library) -> Json {
        let gates = parameters["gates"].as_array();
        let mut asks = gates.into_iter().flatten().map(|gate| &gate["gate"]);
        if asks.any(|gate| *gate == "comparability" || *gate == "cold-cache") {
            let caches = PromptCaches::of(behind, library);
            if !caches.is_empty() {
                parameters[PROMPT_CACHES] = json!(caches);
            }
        }
        let variants = variants_planned(behind);
        let gates = parameters["gates"].as_array_mut().into_iter().flatten();
        for gate in gates.filter(|gate| gate["gate"] == "engine-identity") {
            if !variants.is_empty() {
                gate["parameters"]["variants"] = json!(variants);
            }
        }
        parameters
    }

    fn tables_known(&self, _parameters: &Json, library: &dyn Library) -> Option<Vec<KnownTable>> {
        Some(known_tables(&library.axes()))
    }

    fn run(&self, job: &Job<'_>) -> Result<Done, Failure> {
        run(
            job.parameters,
            job.inputs,
            job.store,
            job.control,
            study::HOLD,
        )
    }

    /// Judges as usual but bars no cell, because findings in synthetic rows mean nothing.
    fn rehearse(&self, job: &Job<'_>, _slowdown: f64) -> Result<Done, Failure> {
        let mut parameters = job.parameters.clone();
        for gate in parameters["gates"].as_array_mut().into_iter().flatten() {
            gate["severity"] = json!(Severity::Warn);
        }
        run(&parameters, job.inputs, job.store, job.control, study::HOLD)
    }
}

fn plan(settings: &Json, library: &dyn Library) -> (Vec<Planned>, Vec<Problem>) {
    let usual: Vec<Json> = USUAL.iter().map(|name| usual(name)).collect();
    let declared = match settings.get("gates") {
        None | Some(Json::Null) => Some(&usual),
        Some(declared) => declared.as_array().filter(|gates| !gates.is_empty()),
    };
    let Some(declared) = declared else {
        let problem = Problem::at(&["gates"], "a verify stage needs at least one gate")
            .hint("write, for example, `gates: [{gate: census}, {gate: row-status}]`");
        return (Vec::new(), vec![problem]);
    };
    let names: Vec<&str> = ALL.iter().map(|g| g.name()).collect();
    let (mut planned, mut problems) = (Vec::new(), Vec::new());
    for (i, value) in declared.iter().enumerate() {
        let route = [Step::Key("gates".to_owned()), Step::Index(i)];
        let mut values = value.as_object().cloned().unwrap_or_default();
        let named = values
            .shift_remove("gate")
            .and_then(|n| n.as_str().map(str::to_owned));
        let severity = values.shift_remove("severity");
        let reason = values
            .shift_remove("reason")
            .and_then(|r| r.as_str().map(str::to_owned));
        let what = format!("gate `{}`", named.as_deref().unwrap_or("?"));
        let mut settings = Settings {
            values,
            route: &route,
            what,
        };
        let Some(gate) = named.as_deref().and_then(gate) else {
            problems.push(match named {
                Some(wrong) => settings
                    .problem(
                        &[Step::Key("gate".to_owned())],
                        format!("unknown gate `{wrong}`"),
                    )
                    .hint(remedy(&wrong, "gates", &names)),
                None => settings
                    .problem(&[], "which gate?")
                    .hint(format!("there are: {}", names.join(", "))),
            });
            continue;
        };
        let severity = match severity {
            None => Some(gate.severity()),
            Some(word) => {
                let read = serde_json::from_value::<Severity>(word.clone()).ok();
                if read.is_none() {
                    let given = plain(&word);
                    problems.push(
                        settings
                            .problem(
                                &[Step::Key("severity".to_owned())],
                                format!("`{given}` is not a severity"),
                            )
                            .hint(remedy(&given, "severities", &["fail", "exclude", "warn"])),
                    );
                }
                read
            }
        };
        let has_reason = reason.as_deref().is_some_and(|r| !r.trim().is_empty());
        if severity == Some(Severity::Exclude) && !has_reason {
            problems.push(
                settings
                    .problem(&[], "a gate that excludes cells needs a `reason`")
                    .hint("say why such cells are excluded; the report lists the reason"),
            );
        }
        if let Err(Unresolved { key, message, hint }) = gate.resolve(&mut settings.values, library)
        {
            problems.push(
                settings
                    .problem(&[Step::Key(key.to_owned())], message)
                    .hint(hint),
            );
            continue;
        }
        match (gate.plan(&settings), severity) {
            (Ok(parameters), Some(severity)) => {
                problems.extend(unknown_axes(&parameters, &settings, library));
                let gate = gate.name().to_owned();
                planned.push(Planned {
                    gate,
                    severity,
                    reason,
                    parameters,
                });
            }
            (Err(more), _) => problems.extend(more),
            (Ok(_), None) => {}
        }
    }
    (planned, problems)
}

/// Reports the axes that a gate names and the study does not have. Such a gate would fail for every cell after the
/// measurement.
fn unknown_axes(parameters: &Json, settings: &Settings<'_>, library: &dyn Library) -> Vec<Problem> {
    let axes = library.axes();
    if axes.is_empty() {
        return Vec::new();
    }
    let named = ["across", "axis"]
        .into_iter()
        .filter_map(|key| Some((key, parameters[key].as_str()?)));
    let unknown = named.filter(|(_, name)| !axes.iter().any(|axis| axis == name));
    let problem = |(key, name): (&str, &str)| {
        let message = format!("`{name}` is not an axis of the study");
        let problem = settings.problem(&[Step::Key(key.to_owned())], message);
        problem.hint(remedy(name, "axes", &axes))
    };
    unknown.map(problem).collect()
}

/// Judges every load stage: a pure function of the parameters and the inputs.
pub(crate) fn run(
    parameters: &Json,
    inputs: &[Input],
    store: &Store,
    control: &Control,
    hold: u64,
) -> Result<Done, Failure> {
    let planned: Vec<Planned> = parameters
        .get("gates")
        .cloned()
        .and_then(|g| serde_json::from_value(g).ok())
        .ok_or_else(|| Failure::failed("the canonical parameters hold no gates"))?;
    let caches = match parameters.get(PROMPT_CACHES) {
        Some(caches) => serde_json::from_value(caches.clone())
            .map_err(|e| Failure::failed(format!("{PROMPT_CACHES}: {e}")))?,
        None => PromptCaches::default(),
    };
    let stages = study::stages(inputs, store, control, hold, &caches)?;
    let axes = axes(&stages);
    let findings = findings(&planned, &stages, judged(&planned, &stages, control, hold)?)?;
    let compared = compared(&planned, &stages)?;
    let unbalanced = unbalanced(&planned, &stages)?;
    let wrong = |e: TableError| Failure::failed(e.to_string());
    let mut done = Done::default();
    for (name, table) in [
        ("gates", gates_table(&findings, &axes)),
        ("exclusions", exclusions_table(&findings, &axes)),
        ("census", census_table(&stages, &findings)),
        ("comparability", comparability_table(&compared)),
        ("imbalances", imbalances_table(&unbalanced)),
    ] {
        done.outputs
            .push(Output::table(name, &table.map_err(wrong)?)?);
    }
    done.outputs
        .push(Output::json("verdict", &verdict(&findings)));
    done.warnings
        .extend(stages.iter().filter_map(mixed_sources));
    let failed = |f: &&GateJudgement<'_>| f.judgement.outcome == Outcome::Fail;
    done.warnings
        .extend(findings.iter().filter(failed).map(failed_gate));
    Ok(done)
}

/// Returns the tables of a verification. A table of this kind may have any axis as a column.
fn known_tables(axes: &[String]) -> Vec<KnownTable> {
    let table = |name: &str, made: Result<Table, TableError>| KnownTable {
        name: name.to_owned(),
        columns: made.ok().map(|table| {
            table
                .names()
                .into_iter()
                .chain(axes.iter().cloned())
                .collect()
        }),
        axes: Vec::new(),
    };
    vec![
        table("gates", gates_table(&[], axes)),
        table("exclusions", exclusions_table(&[], axes)),
        table("census", census_table(&[], &[])),
        table("comparability", comparability_table(&[])),
        table("imbalances", imbalances_table(&[])),
        KnownTable {
            name: "verdict".to_owned(),
            columns: None,
            axes: Vec::new(),
        },
    ]
}

/// Returns the axes of all stages, each once, in the order in which the stages have them.
fn axes(stages: &[Stage<'_>]) -> Vec<String> {
    let mut axes: Vec<String> = Vec::new();
    for axis in stages.iter().flat_map(|s| &s.axes) {
        if !axes.contains(axis) {
            axes.push(axis.clone());
        }
    }
    axes
}

/// Returns the judgements of all gates with their stages, ordered by gate and then by stage.
fn findings<'a>(
    planned: &[Planned],
    stages: &'a [Stage<'a>],
    judged: Vec<Vec<Vec<Judgement>>>,
) -> Result<Vec<GateJudgement<'a>>, Failure> {
    let mut findings = Vec::new();
    for (planned, of_stages) in planned.iter().zip(judged) {
        let gate = known_gate(&planned.gate)?.label(&planned.parameters);
        for (stage, judgements) in stages.iter().zip(of_stages) {
            findings.extend(judgements.into_iter().map(|judgement| GateJudgement {
                stage,
                gate: gate.clone(),
                severity: planned.severity,
                reason: planned.reason.clone(),
                judgement,
            }));
        }
    }
    Ok(findings)
}

/// A stage, the axis across which its cells are compared, and their pairs.
type Compared<'a> = (&'a Stage<'a>, String, Vec<Pair>);

/// Returns the pairs of cells that the gates `comparability` compare.
fn compared<'a>(
    planned: &[Planned],
    stages: &'a [Stage<'a>],
) -> Result<Vec<Compared<'a>>, Failure> {
    let mut compared = Vec::new();
    for planned in planned.iter().filter(|p| p.gate == "comparability") {
        let given: ComparabilityParameters = serde_json::from_value(planned.parameters.clone())
            .map_err(|e| Failure::failed(format!("gate comparability: {e}")))?;
        for stage in stages.iter().filter(|s| s.axes.contains(&given.across)) {
            compared.push((
                stage,
                given.across.clone(),
                pairs(stage, &given.across, &given.varies),
            ));
        }
    }
    Ok(compared)
}

/// Returns a warning if the rows of a stage come from different sources.
fn mixed_sources(stage: &Stage<'_>) -> Option<String> {
    let sources = crate::census::sources(stage);
    (sources.len() > 1).then(|| {
        format!(
            "the rows of {} come from different sources: {}",
            stage.name,
            crate::census::sources_text(&sources)
        )
    })
}

/// Returns the warning about a gate that fails.
fn failed_gate(finding: &GateJudgement<'_>) -> String {
    let at = finding
        .judgement
        .cell
        .map(|c| finding.stage.cells[c].input.coordinates.to_string())
        .filter(|at| !at.is_empty())
        .map(|at| format!(" {at}"));
    format!(
        "gate {} ({}), {}{}: {}; expected {}",
        finding.gate,
        finding.severity.word(),
        finding.stage.name,
        at.unwrap_or_default(),
        finding.judgement.observed,
        finding.judgement.expected
    )
}

fn known_gate(name: &str) -> Result<&'static dyn Gate, Failure> {
    gate(name).ok_or_else(|| Failure::failed(format!("unknown gate `{name}`")))
}

/// Judges every stage by every gate, ordered by gate and then by stage. Gates that judge cells alone receive groups of
/// cells, and each group is read once for all of them.
fn judged(
    planned: &[Planned],
    stages: &[Stage<'_>],
    control: &Control,
    hold: u64,
) -> Result<Vec<Vec<Vec<Judgement>>>, Failure> {
    let gates = planned.iter().map(|p| known_gate(&p.gate));
    let gates = gates.collect::<Result<Vec<_>, _>>()?;
    let none = || stages.iter().map(|_| Vec::new()).collect();
    let mut judged: Vec<Vec<Vec<Judgement>>> = gates.iter().map(|_| none()).collect();
    let tell = |gate: usize| {
        control.check()?;
        control.progress(gate as u64, None, format!("gate {}", planned[gate].gate));
        Ok::<_, Failure>(())
    };
    for (s, stage) in stages.iter().enumerate() {
        let alone = |gate: &&(usize, &&dyn Gate)| gate.1.judges_cells_alone();
        stage.in_groups(control, hold / 4, |first, group| {
            for (g, gate) in gates.iter().enumerate().filter(|g| alone(&g)) {
                tell(g)?;
                let judgements = gate.judge(&planned[g].parameters, group)?;
                judged[g][s].extend(judgements.into_iter().map(|judgement| Judgement {
                    cell: judgement.cell.map(|cell| first + cell),
                    ..judgement
                }));
            }
            Ok(())
        })?;
        for (g, gate) in gates.iter().enumerate().filter(|g| !alone(&g)) {
            tell(g)?;
            judged[g][s] = gate.judge(&planned[g].parameters, stage)?;
            stage.settled()?;
        }
    }
    Ok(judged)
}

/// Returns the sides measured under different conditions, with their stage.
fn unbalanced<'a>(
    planned: &[Planned],
    stages: &'a [Stage<'a>],
) -> Result<Vec<Imbalance<'a>>, Failure> {
    let mut differences = Vec::new();
    for planned in planned.iter().filter(|p| p.gate == "balanced-conditions") {
        let given: BalanceParameters = serde_json::from_value(planned.parameters.clone())
            .map_err(|e| Failure::failed(format!("gate balanced-conditions: {e}")))?;
        for stage in stages {
            let all = imbalances(stage, &given.across, given.alpha, &given.may_differ);
            let differing = all.into_iter().filter(|c| c.differs);
            differences.extend(differing.map(|compared| Imbalance {
                stage: stage.name,
                across: given.across.clone(),
                compared,
            }));
        }
    }
    Ok(differences)
}

fn verdict(findings: &[GateJudgement<'_>]) -> Json {
    let count =
        |keep: &dyn Fn(&GateJudgement<'_>) -> bool| findings.iter().filter(|f| keep(f)).count();
    let broken = |severity: Severity| {
        count(&|f: &GateJudgement<'_>| {
            f.judgement.outcome == Outcome::Fail && f.severity == severity
        })
    };
    let mut failed_gates: Vec<String> = Vec::new();
    for finding in findings {
        let name = format!("{} ({})", finding.gate, finding.stage.name);
        let failed =
            finding.judgement.outcome == Outcome::Fail && finding.severity == Severity::Fail;
        if failed && !failed_gates.contains(&name) {
            failed_gates.push(name);
        }
    }
    json!({
        "failed_gates": failed_gates,
        "pass": count(&|f| f.judgement.outcome == Outcome::Pass),
        "fail": count(&|f| f.judgement.outcome == Outcome::Fail),
        "not_judged": count(&|f| f.judgement.outcome == Outcome::NotJudged),
        "failed": {
            "fail": broken(Severity::Fail),
            "exclude": broken(Severity::Exclude),
            "warn": broken(Severity::Warn),
        },
    })
}
