//! Sends one short request before many are sent at once: a server that rejects it would reject them all.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use contract::RequestStatus;
use load::{
    DirectArrival, DirectLoad, DirectPrompts, Ending, LoadSpec, Monitoring, Origin, Refusal,
    Target, Telemetry, run_load_into,
};
use pipeline::stage::{Control, Coordinates};

use super::load_server::Server;
use super::load_settings::settings_of;
use crate::exit::Stop;

/// The seed of the request. Its prompt has no prefix in common with the run's prompts, so it fills no cache for them.
const SEED: u64 = 1_640_164_017;

/// Sends one request and waits for its answer.
///
/// `like` sets the delivery and the time limits.
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
        prompts: DirectPrompts::Words(8, 8),
        output_tokens: Some((1, 1)),
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
    let settings = settings_of(&one, SEED)?;
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

/// Returns how the request ended, and the refusal if the request itself is wrong.
fn send(
    settings: load::Settings,
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
