//! Synthetic studies of equal systems, drawn as their design says.

use artifacts::Scalar;
use pipeline::CellStatus;
pub(crate) use statistics::Noise;

use super::{Design, Launch, Lost, Metric, Unit};
use crate::frame::{Absence, Frame, Level, Missing, Row, Spec};

/// The value of a cell without noise.
pub(super) const BASE: f64 = 100.0;

/// The standard deviation of the logarithm of a request's value.
const REQUEST: f64 = 0.5;

/// Returns Student's t with three degrees of freedom.
fn heavy(noise: &mut Noise) -> f64 {
    let squares: f64 = (0..3).map(|_| noise.normal().powi(2)).sum();
    noise.normal() / (squares / 3.0).sqrt()
}

/// Returns a Poisson number (Knuth).
fn poisson(noise: &mut Noise, mean: f64) -> f64 {
    let (end, mut product, mut count) = ((-mean).exp(), noise.uniform(), 0.0);
    while product > end {
        product *= noise.uniform();
        count += 1.0;
    }
    count
}

/// The next value of a first-order autoregression.
fn next(state: &mut Option<f64>, noise: &mut Noise, (correlation, deviation): (f64, f64)) -> f64 {
    let fresh = (1.0 - correlation * correlation).sqrt();
    let fresh = fresh * deviation * noise.normal();
    let next = match *state {
        None => deviation * noise.normal(),
        Some(last) => correlation * last + fresh,
    };
    *state = Some(next);
    next
}

impl Design {
    /// Draws one study in which the first side is larger by a share.
    pub(super) fn drawn(&self, number: u64, effect: f64) -> Frame {
        // The seeds lie far apart, so that studies share no numbers.
        let mut noise = Noise((number + 1).wrapping_mul(0xd134_2543_de82_ef95));
        let launches = self.launches(&mut noise);
        let (mut rows, mut missing) = (Vec::new(), Vec::new());
        for (block, launches) in launches.iter().enumerate() {
            for (system, launch) in launches.iter().enumerate() {
                for level in 0..self.levels {
                    let factor = if system == 0 { 1.0 + effect } else { 1.0 };
                    let slow = launch + self.cell * noise.normal();
                    let value = self.value(&mut noise, system, slow, factor * self.typical(level));
                    let label = Scalar::Text(format!("s{}", system + 1));
                    let mut key = vec![label, Scalar::Int(1 << level.min(40))];
                    if self.has_hosts() {
                        key.push(Scalar::Int(self.host(block)));
                    }
                    key.push(Scalar::Int(block as i64 + 1));
                    let mut value = Scalar::Float(value);
                    if self.is_lost(block, system, level, slow) {
                        match self.lost {
                            Lost::NullOfFirst(_) => value = Scalar::Null,
                            Lost::AbsentOfFirst(_) | Lost::Turns(_) => continue,
                            _ => {
                                missing.push(key);
                                continue;
                            }
                        }
                    }
                    let values = vec![value, self.counted(system)];
                    rows.push(Row::new(key, values, Vec::new()));
                }
            }
        }
        let mut keys = vec!["system".to_owned(), "level".to_owned()];
        keys.extend(self.has_hosts().then(|| "host".to_owned()));
        keys.push("block".to_owned());
        let gone = |key: Vec<Scalar>| Missing {
            at: keys.iter().cloned().zip(key).collect(),
            why: "it was slow".to_owned(),
            absence: Absence::Ended(CellStatus::Failed),
        };
        let frame = Frame {
            level: Level::Cell,
            missing: missing.into_iter().map(gone).collect(),
            keys,
            specs: vec![
                Spec::float(self.column(), "ms", "a value"),
                Spec::int("m_n", "1", "values behind a quantile"),
            ],
            rows,
        };
        frame.settle().expect("no key is there twice")
    }

    /// The name of the compared column.
    pub(super) fn column(&self) -> String {
        match self.metric {
            Metric::Quantile(p, _) => format!("m_p{:.0}", 100.0 * p),
            _ => "m".to_owned(),
        }
    }

    /// Whether the table has the hosts.
    fn has_hosts(&self) -> bool {
        !self.hosts.is_empty() && self.unit != Unit::Block
    }

    /// The typical value at a level, relative to the usual one.
    fn typical(&self, level: usize) -> f64 {
        match self.metric {
            Metric::PrintedGrowing => [1.0, 20.4 / 10.4, 40.4 / 10.4][level.min(2)],
            Metric::Digits(_) => 0.1004 * 10_f64.powi(level as i32),
            _ => 1.0,
        }
    }

    /// The number of values behind a quantile.
    fn counted(&self, system: usize) -> Scalar {
        match self.metric {
            Metric::Quantile(_, sizes) => Scalar::Int(sizes[usize::from(system > 0)] as i64),
            _ => Scalar::Null,
        }
    }

    /// The host of a block.
    fn host(&self, block: usize) -> i64 {
        let mut before = 0;
        let host = self.hosts.iter().position(|n| {
            before += n;
            block < before
        });
        host.map_or(0, |host| host as i64 + 1)
    }

    /// The offset of each launch to the logarithm of its values, by block and system. The launches of a block run in
    /// random order and share the block's offset.
    fn launches(&self, noise: &mut Noise) -> Vec<Vec<f64>> {
        let (mut state, mut time): (Option<f64>, f64) = (None, 0.0);
        let mut own: Vec<Option<f64>> = vec![None; self.systems];
        let mut suits: Vec<Vec<f64>> = Vec::new();
        let mut blocks = Vec::new();
        for _ in 0..self.blocks {
            let shared = self.together * noise.normal();
            let mut order: Vec<usize> = (0..self.systems).collect();
            for i in (1..self.systems).rev() {
                order.swap(i, (noise.uniform() * (i + 1) as f64) as usize);
            }
            let mut launches = vec![0.0; self.systems];
            for system in order {
                launches[system] = shared
                    + match self.launch {
                        Launch::Normal(deviation) => deviation * noise.normal(),
                        Launch::Unlike(first, others) => {
                            (if system == 0 { first } else { others }) * noise.normal()
                        }
                        Launch::HeavyTails(scale) => scale * heavy(noise),
                        Launch::TwoStates(chance, far, deviation) => {
                            let far = if noise.uniform() < chance { far } else { 0.0 };
                            far + deviation * noise.normal()
                        }
                        Launch::Neighbours(correlation, deviation) => {
                            next(&mut state, noise, (correlation, deviation))
                        }
                        Launch::OwnNeighbours(correlation, deviation) => {
                            next(&mut own[system], noise, (correlation, deviation))
                        }
                        Launch::Drift(step, deviation) => {
                            time += step;
                            time + deviation * noise.normal()
                        }
                        Launch::Skewed(mean) => -mean * noise.uniform().ln(),
                        Launch::FirstSkewed(mean, _) if system == 0 => {
                            -mean * (1.0 + noise.uniform().ln())
                        }
                        Launch::FirstInStates(chance, far, deviation) if system == 0 => {
                            let in_far = f64::from(noise.uniform() < chance);
                            far * (in_far - chance) + deviation * noise.normal()
                        }
                        Launch::FirstSkewed(_, deviation)
                        | Launch::FirstInStates(_, _, deviation) => deviation * noise.normal(),
                    };
            }
            blocks.push(launches);
        }
        // How well each host suits each side.
        if !self.hosts.is_empty() {
            for _ in self.hosts {
                suits.push((0..self.systems).map(|_| 0.05 * noise.normal()).collect());
            }
            for (block, launches) in blocks.iter_mut().enumerate() {
                let host = self.host(block).max(1) as usize - 1;
                for (launch, suits) in launches.iter_mut().zip(&suits[host]) {
                    *launch += suits;
                }
            }
        }
        blocks
    }

    fn value(&self, noise: &mut Noise, system: usize, slow: f64, factor: f64) -> f64 {
        let value = BASE * slow.exp() * factor;
        match self.metric {
            Metric::Value => value,
            Metric::Rounded(step) => (value / step).round() * step,
            Metric::Printed | Metric::PrintedGrowing if system == 0 => (0.104 * value).round(),
            Metric::Printed | Metric::PrintedGrowing => 0.104 * value,
            Metric::Digits(n) if system == 0 => {
                format!("{value:.*e}", n - 1).parse().unwrap_or(value)
            }
            Metric::Digits(_) => value,
            Metric::Count(mean) => poisson(noise, mean * slow.exp() * factor),
            Metric::Share(requests, chance) => {
                let ok = (chance * (1.0 - slow.abs()) * factor).clamp(0.0, 1.0);
                let hits = (0..requests).filter(|_| noise.uniform() < ok).count();
                hits as f64 / requests as f64
            }
            Metric::Quantile(p, sizes) => {
                let mut requests: Vec<f64> = (0..sizes[usize::from(system > 0)])
                    .map(|_| (REQUEST * noise.normal()).exp())
                    .collect();
                requests.sort_by(f64::total_cmp);
                let at = p * (requests.len() - 1) as f64;
                let (below, above) = (at.floor() as usize, at.ceil() as usize);
                let low = requests[below];
                value * (low + (at - below as f64) * (requests[above] - low))
            }
        }
    }

    fn is_lost(&self, block: usize, system: usize, level: usize, slow: f64) -> bool {
        match self.lost {
            Lost::Nothing => false,
            Lost::LaunchesOfFirst(n) => system == 0 && block < n,
            Lost::Turns(n) => (level + self.levels - (n * block) % self.levels) % self.levels >= n,
            Lost::Slow(limit) => slow > limit,
            Lost::SlowOfFirst(limit) | Lost::NullOfFirst(limit) | Lost::AbsentOfFirst(limit) => {
                system == 0 && slow > limit
            }
            Lost::TopOfFirst(n) => {
                system == 0 && level + 1 == self.levels && block + n >= self.blocks
            }
        }
    }
}
