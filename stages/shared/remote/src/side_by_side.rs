//! Work on several threads, with a bounded number at a time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::error::RemoteError;

/// Processes every item, at most `jobs` at a time; returns the results in the order of the items. After the first
/// error, no further item is started.
pub(crate) fn each<T: Sync, R: Send>(
    jobs: usize,
    items: &[T],
    work: impl Fn(&T) -> Result<R, RemoteError> + Sync,
) -> Result<Vec<R>, RemoteError> {
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let done: Mutex<Vec<(usize, Result<R, RemoteError>)>> =
        Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(items.len()) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { break };
                    let result = work(item);
                    if result.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    done.lock()
                        .expect("nobody panics with the lock")
                        .push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("nobody panics with the lock");
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..100).collect();
        assert_eq!(
            each(7, &items, |n| Ok(n * 2)).unwrap(),
            items.iter().map(|n| n * 2).collect::<Vec<_>>()
        );
    }

    #[test]
    fn after_an_error_no_further_work_begins() {
        let begun = AtomicUsize::new(0);
        let failed = each(1, &[1, 2, 3], |n| {
            begun.fetch_add(1, Ordering::Relaxed);
            match n {
                2 => Err(RemoteError::Interrupted),
                _ => Ok(()),
            }
        });
        assert!(matches!(failed, Err(RemoteError::Interrupted)));
        assert_eq!(begun.into_inner(), 2);
    }
}
