//! Sends one request of the workload, for one output token, before many are sent at once: a server that rejects it would
//! reject them all.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use contract::RequestStatus;
use load::{
    Count, DirectArrival, DirectLoad, Ending, Length, LoadSpec, Monitoring, Origin, PromptSource,
    Refusal, Settings, Target, Telemetry, Words, WorkloadChoice, run_load_into,
};
use pipeline::stage::{Control, Coordinates};

use super::load_server::Server;
use super::load_settings::settings_of;
use crate::exit::Stop;

/// The seed of the request. Its prompt has no prefix in common with the run's prompts, so it fills no cache for them.
const SEED: u64 = 1_640_164_017;

/// Sends one request of the load `like` and waits for its answer.
///
/// # Errors
/// If the server rejects the request in a way that applies to every request.
pub(super) fn try_once(
    like: &DirectLoad,
    server: &Server<'_>,
    target: &Target,
    cancelled: &Arc<AtomicBool>,
) -> Result<(), Stop> {
    let one = DirectLoad {
        arrival: DirectArrival::ClosedLoop { clients: 1 },
        // One request per server.
        requests: Some(target.servers.len().max(1) as u64),
        duration: None,
        max_in_flight: None,
        generators: 1,
        warmup: 0,
        hung_below_w: None,
        search: None,
        ..like.clone()
    };
    let machine = |e: &(dyn std::error::Error + 'static)| Stop::refused_at("a first request", e);
    let folder = tempfile::tempdir().map_err(|e| machine(&e))?;
    let mut settings = settings_of(&one, SEED)?;
    shorten(&mut settings);
    let origin = Origin {
        seed: SEED,
        replicate: Coordinates::default(),
    };
    let answered = send(settings, origin, target, folder.path(), cancelled)?;
    match answered {
        (Ending::Refused(refusal), _) | (_, Some(refusal)) => Err(server.refusal(target, &refusal)),
        (Ending::Stopped(..), _) => Err(Stop::interrupted()),
        _ => Ok(()),
    }
}

/// Asks for one token in place of a whole answer. What the server may reject stays: the mode of the output, the documents, the
/// system message, the form of the answer, further fields.
fn shorten(settings: &mut Settings) {
    let Some(WorkloadChoice::Inline(workload)) = &mut settings.workload else {
        return;
    };
    // Another seed does not change these, so the request would fill a cache for the run's prompts.
    if workload.prompts.is_written() {
        workload.prompts = PromptSource::Words(Words {
            length: Length::Words(Count::Fixed(8)),
        });
    }
    // The first turn alone.
    workload.sessions = None;
    let mut outputs = vec![&mut workload.output];
    if let PromptSource::Mixture(parts) = &mut workload.prompts {
        outputs.extend(parts.iter_mut().filter_map(|part| part.output.as_mut()));
    }
    for output in outputs {
        // APIs that generate nothing ask for nothing.
        if !output.is_none() {
            output.tokens = Count::Fixed(1);
            output.replaces_recorded = true;
        }
    }
}

/// Returns how the request ended, and the refusal if the request itself is wrong.
fn send(
    settings: Settings,
    origin: Origin,
    target: &Target,
    folder: &Path,
    cancelled: &Arc<AtomicBool>,
) -> Result<(Ending, Option<Refusal>), Stop> {
    let target = Target {
        metrics: None,
        ..target.clone()
    };
    let spec = LoadSpec::for_target(settings, origin, &target, folder).map_err(Stop::from)?;
    let control = Control::new(Arc::clone(cancelled), None, Box::new(|_| {}));
    let monitoring = Monitoring::new(Telemetry::none());
    let mut wrong = None;
    let result = run_load_into(
        &spec,
        &target,
        &monitoring,
        folder,
        &control,
        &mut |row, _| {
            let of_the_client = |code: &i64| (400..500).contains(code) && *code != 429;
            if row.status == RequestStatus::HttpError
                && row.http_status.is_some_and(|c| of_the_client(&c))
            {
                wrong = Some(Refusal::of(row));
            }
            Ok(())
        },
    );
    let result = result.map_err(Stop::from)?;
    Ok((result.ending, wrong))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns the workload of the test request for a load of this one.
    fn shortened(workload: Value) -> Value {
        let mut settings = json!({});
        settings["workload"] = workload;
        let mut settings: Settings = serde_json::from_value(settings).unwrap();
        shorten(&mut settings);
        serde_json::to_value(settings.workload).unwrap()
    }

    #[test]
    fn the_test_request_is_one_of_the_workload_for_a_single_token() {
        let words = json!({"words": {"length": 20}});
        let rank = shortened(json!({"prompts": words, "documents": {"count": 4, "length": 30}}));
        assert_eq!(rank["documents"]["count"], 4);
        assert_eq!(rank["output"], Value::Null, "it generates nothing");
        for mode in ["cap", "exact"] {
            let part = json!({"name": "a", "weight": 1, "prompts": words,
                "output": {"tokens": {"from": 8, "to": 16}, "mode": mode}});
            let one = shortened(json!({
                "prompts": {"mixture": [part]}, "system": "Be brief.", "extra": {"user": "x"},
                "output": {"tokens": 64, "mode": mode},
            }));
            let of_part = &one["prompts"]["mixture"][0]["output"];
            for output in [&one["output"], of_part] {
                assert_eq!(
                    (&output["tokens"], &output["mode"]),
                    (&json!(1), &json!(mode))
                );
            }
            assert_eq!(
                (&one["system"], &one["extra"]["user"]),
                (&json!("Be brief."), &json!("x"))
            );
        }
        let file = json!({"dataset": {"file": "conversations.json"}});
        let written = shortened(json!({"prompts": file, "output": {"tokens": 8}}));
        assert_eq!(written["prompts"], json!({"words": {"length": 8}}));
    }
}
