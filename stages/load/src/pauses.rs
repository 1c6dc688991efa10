//! The doubt about a load during which everything stood still: a suspended process, a swap of memory, a cut line.

use contract::{Chunk, Request};

/// The shortest silence that is reported, ns.
const AT_LEAST_NS: i64 = 1_000_000_000;

/// The resolution of times, ns.
const STEP_NS: i64 = 100_000_000;

/// How many times as long as the mean time between chunks of an answer a silence is that is reported.
const TIMES: f64 = 20.0;

/// The fewest times between chunks that tell what is usual, for each pause.
const FEWEST: usize = 10;

/// The most pauses that are kept, and the most steps of time: four years.
const MOST: usize = 100_000;
const MOST_STEPS: i64 = 1 << 30;

/// The times in which answers went on, and in which they paused. Takes a bit for each step of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Pauses {
    /// A bit for each step in which something arrived.
    signs: Vec<u64>,
    /// The pauses between two chunks of an answer that are long enough to be reported, ns.
    long: Vec<(i64, i64)>,
    /// The number and the sum, ns, of the other times between chunks.
    short: (usize, i64),
}

impl Pauses {
    /// Adds an answer with its chunks in the order of time.
    pub(crate) fn add(&mut self, row: &Request, chunks: &[Chunk]) {
        let ends = row.done_ns.into_iter();
        let signs = chunks.iter().map(|chunk| chunk.at_ns).chain(ends);
        signs.for_each(|at| self.sign(at));
        for pair in chunks.windows(2) {
            let (from, to) = (pair[0].at_ns, pair[1].at_ns);
            let pause = to.saturating_sub(from);
            if pause < AT_LEAST_NS {
                // The chunks of one read come at one time.
                self.short.0 += usize::from(pause > 0);
                self.short.1 += pause.max(0);
            } else if self.long.len() < MOST {
                self.long.push((from, to));
            }
        }
    }

    fn sign(&mut self, at: i64) {
        let step = at / STEP_NS;
        if (0..MOST_STEPS).contains(&step) {
            let (word, bit) = ((step / 64) as usize, step % 64);
            if self.signs.len() <= word {
                self.signs.resize(word + 1, 0);
            }
            self.signs[word] |= 1 << bit;
        }
    }

    /// Returns the longest stretch of whole steps without a sign between two times: its first step and its length.
    fn silence(&self, (from, to): (i64, i64)) -> (i64, i64) {
        let first = from / STEP_NS + 1;
        let (mut longest, mut begun) = ((0, 0), first);
        for step in first..=(to / STEP_NS).min(MOST_STEPS) {
            let word = self.signs.get((step / 64) as usize);
            if word.is_some_and(|word| (word >> (step % 64)) & 1 == 1) {
                if step - begun > longest.1 {
                    longest = (begun, step - begun);
                }
                begun = step + 1;
            }
        }
        longest
    }

    /// Returns the doubt about the longest time in which nothing arrived although some answers had begun and went on
    /// afterwards. A time in which all wait for their first tokens does not count: the server may compute long prompts.
    pub(crate) fn doubt(&self) -> Option<String> {
        let (short, sum) = self.short;
        if short < FEWEST * self.long.len() {
            return None;
        }
        let silences = self.long.iter().map(|pause| self.silence(*pause));
        let (begun, steps) = silences.max_by_key(|(_, steps)| *steps)?;
        let (silence, mean) = (steps * STEP_NS, sum as f64 / short as f64);
        if silence < AT_LEAST_NS || (silence as f64) < TIMES * mean {
            return None;
        }
        let (from, to) = (begun * STEP_NS, begun * STEP_NS + silence);
        let during = |(a, b): &&(i64, i64)| *a <= from && *b >= to;
        let had = match self.long.iter().filter(during).count() {
            1 => "1 answer had begun".to_owned(),
            n => format!("{n} answers had begun"),
        };
        Some(format!(
            "nothing arrived from the server for {:.1} s, from {:.1} s on, although {had}; the mean time between chunks \
             is {:.0} ms otherwise. Maxima and high percentiles include this, and they describe the server only if it \
             stands still by itself",
            silence as f64 / 1e9,
            from as f64 / 1e9,
            mean / 1e6
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Answers with chunks at these times, ms.
    fn loaded(answers: &[Vec<i64>]) -> (Vec<Request>, Vec<Chunk>) {
        let ids = 0_i64..;
        let (mut requests, mut chunks) = (Vec::new(), Vec::new());
        for (request_id, times) in ids.zip(answers) {
            requests.push(Request {
                done_ns: times.last().map(|at| at * MS),
                ..contract::synthetic::request(request_id)
            });
            chunks.extend(times.iter().map(|at| Chunk {
                request_id,
                attempt: 1,
                at_ns: at * MS,
                bytes: Some(1),
                tokens: None,
                read: None,
            }));
        }
        (requests, chunks)
    }

    fn doubted(answers: &[Vec<i64>]) -> Option<String> {
        let (requests, chunks) = loaded(answers);
        let mut pauses = Pauses::default();
        for row in &requests {
            let own = |chunk: &&Chunk| chunk.request_id == row.request_id;
            let own: Vec<Chunk> = chunks.iter().filter(own).copied().collect();
            pauses.add(row, &own);
        }
        pauses.doubt()
    }

    /// Times of chunks every 20 ms.
    fn steady(from: i64, to: i64) -> Vec<i64> {
        (from..to).step_by(20).collect()
    }

    #[test]
    fn a_server_that_stands_still_within_answers_is_reported_once_with_its_longest_silence() {
        let stopped = |from| [steady(from, 2000), steady(7000, 8000)].concat();
        let doubt = doubted(&[stopped(0), stopped(500)]).unwrap();
        assert!(
            doubt.contains("for 5.0 s, from 2.0 s on, although 2 answers had begun")
                && doubt.contains("is 20 ms otherwise"),
            "{doubt}"
        );
    }

    #[test]
    fn nothing_is_reported_if_another_answer_goes_on_or_all_wait_for_their_first_tokens() {
        let stopped = [steady(0, 2000), steady(7000, 8000)].concat();
        assert_eq!(doubted(&[stopped, steady(0, 8000)]), None);
        assert_eq!(doubted(&[steady(0, 2000), steady(7000, 8000)]), None);
    }

    #[test]
    fn nothing_is_reported_of_a_slow_server_or_of_too_few_chunks() {
        let slow: Vec<i64> = (0..40).map(|i| i * 2000).collect();
        assert_eq!(doubted(&[slow]), None);
        assert_eq!(doubted(&[vec![0, 20, 40, 5000]]), None);
        assert_eq!(doubted(&[]), None);
        // A server that pauses all the time.
        let pauses: Vec<i64> = (0..40).flat_map(|i| [i * 1500, i * 1500 + 20]).collect();
        assert_eq!(doubted(&[pauses]), None);
        // Stamps that cannot be.
        assert_eq!(doubted(&[vec![i64::MIN / MS, 0, i64::MAX / MS]]), None);
    }
}
