//! Which members of a group start side by side, and their start.

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pipeline::process::Spawner;
use pipeline::{Failure, Job};

use crate::group::Role;
use crate::part::Part;
use crate::start::{Manner, Server};

/// Returns the members of all roles, in the order in which they start. Those of one list start side by side, the lists one
/// after the other.
///
/// Engines measure the free memory of a GPU while they start. So members start side by side only if each has GPUs of its
/// own, and never with a role that they get as a peer. Each member is the index of its role in `roles`, which are in start
/// order, and its number in that role.
pub(crate) fn waves(roles: &[(&str, &Role)]) -> Vec<Vec<(usize, u32)>> {
    let mut waves: Vec<Vec<(usize, u32)>> = Vec::new();
    let mut busy: Option<BTreeSet<&str>> = None;
    for (index, (_, role)) in roles.iter().enumerate() {
        for number in 0..role.count {
            let own = role
                .gpus
                .get(number as usize)
                .and_then(|text| own_gpus(text));
            let awaits_peer = |wave: &[(usize, u32)]| {
                let names: BTreeSet<&str> = wave.iter().map(|(index, _)| roles[*index].0).collect();
                role.peers
                    .values()
                    .any(|peer| names.contains(peer.as_str()))
            };
            let joins = match (&own, &busy, waves.last()) {
                (Some(own), Some(busy), Some(wave)) => own.is_disjoint(busy) && !awaits_peer(wave),
                _ => false,
            };
            match waves.last_mut().filter(|_| joins) {
                Some(wave) => wave.push((index, number)),
                None => {
                    waves.push(vec![(index, number)]);
                    busy = None;
                }
            }
            busy = own.map(|own| busy.unwrap_or_default().union(&own).copied().collect());
        }
    }
    waves
}

/// Returns the GPUs of a member, if their indices name them. Other names, such as those of parts of a GPU, do not show
/// whether two members share one.
fn own_gpus(text: &str) -> Option<BTreeSet<&str>> {
    let gpus: BTreeSet<&str> = text.split(',').map(str::trim).collect();
    let is_index = |gpu: &&str| !gpu.is_empty() && gpu.bytes().all(|b| b.is_ascii_digit());
    gpus.iter().all(is_index).then_some(gpus)
}

/// Starts servers side by side and waits for all of them.
///
/// # Errors
/// The failure of the server that failed first. The others are stopped.
///
/// # Panics
/// If the start of a server panics.
pub(crate) fn start(
    members: &[(&Part<'_>, Manner)],
    spawner: &(dyn Fn() -> Result<Arc<Spawner>, Failure> + Sync),
    job: &Job<'_>,
) -> Result<Vec<Server>, Failure> {
    let failed = Arc::new(AtomicBool::new(false));
    let first = Mutex::new(None);
    let one = |part: &Part<'_>, manner: &Manner| match part.start(manner, spawner, job) {
        Ok(server) => Some(server),
        Err(failure) => {
            // Those that stop because of a failure are not its cause.
            if !failed.swap(true, Ordering::SeqCst) {
                let place = manner.member.as_deref().unwrap_or_default();
                let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
                *first = Some(crate::group::of_role(place, failure));
            }
            None
        }
    };
    let servers: Vec<Option<Server>> = std::thread::scope(|scope| {
        let threads: Vec<_> = members
            .iter()
            .map(|(part, manner)| {
                let manner = Manner {
                    others_failed: Arc::clone(&failed),
                    ..manner.clone()
                };
                let one = &one;
                scope.spawn(move || one(part, &manner))
            })
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended
            .map(|server| server.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    match first.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(failure) => Err(failure),
        None => Ok(servers.into_iter().flatten().collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the waves of roles as text: members of one wave with spaces, waves with bars.
    fn of(roles: &[(&str, &[&str], &[&str])]) -> String {
        let roles: Vec<(&str, Role)> = roles
            .iter()
            .map(|(name, gpus, peers)| {
                let role = Role {
                    count: u32::try_from(gpus.len()).unwrap(),
                    gpus: gpus.iter().map(|g| (*g).to_owned()).collect(),
                    peers: peers
                        .iter()
                        .map(|p| ((*p).to_owned(), (*p).to_owned()))
                        .collect(),
                    ..Role::default()
                };
                (*name, role)
            })
            .collect();
        let roles: Vec<(&str, &Role)> = roles.iter().map(|(name, role)| (*name, role)).collect();
        let shown = waves(&roles).into_iter().map(|wave| {
            let members = wave
                .iter()
                .map(|(index, number)| format!("{}-{number}", roles[*index].0));
            members.collect::<Vec<_>>().join(" ")
        });
        shown.collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn members_start_side_by_side_if_each_has_gpus_of_its_own() {
        assert_eq!(of(&[("a", &["0", "1", "2,3"], &[])]), "a-0 a-1 a-2");
        assert_eq!(
            of(&[("a", &["0", "1"], &[]), ("b", &["2", "1"], &[])]),
            "a-0 a-1 b-0 | b-1"
        );
        assert_eq!(of(&[("a", &["0", "0", "1"], &[])]), "a-0 | a-1 a-2");
    }

    #[test]
    fn members_whose_gpus_are_unclear_start_alone() {
        for unclear in [
            "",
            "all",
            "-1",
            "GPU-8932f937",
            "MIG-8932f937",
            "0,",
            "0,GPU-1",
        ] {
            assert_eq!(
                of(&[("a", &["0", unclear, "1"], &[])]),
                "a-0 | a-1 | a-2",
                "{unclear}"
            );
        }
    }

    #[test]
    fn a_member_never_starts_beside_its_peers() {
        let roles: [(&str, &[&str], &[&str]); 3] = [
            ("a", &["0"], &[]),
            ("b", &["1"], &["a"]),
            ("c", &["2"], &[]),
        ];
        assert_eq!(of(&roles), "a-0 | b-0 c-0");
    }
}
