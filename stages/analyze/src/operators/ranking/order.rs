//! The order of a contest's contenders: ranks, ties, and which differences the evidence shows.

use contract::Better;
use contract::uneven::counts_of;
use statistics::{friedman, kruskal_wallis, least_for_quantile, mid_ranks};

use super::Parameters;
use super::columns::{Contender, Place, Shown};
use super::contest::{Contest, Entry};
use crate::columns::Columns;
use crate::frame::{Frame, Row};
use crate::operators::family::Adjusted;
use crate::operators::units::{LEVEL, Units};
use crate::surroundings::{OutOfTurn, Unlike};

/// Two contenders and the test between them.
pub(super) type PairTest<'a> = (usize, usize, &'a Adjusted);

/// The labels of two contenders that the values alone do not compare fairly, and the reason.
pub(super) type Unfair = ([String; 2], String);

/// The evidence that distinguishes the contenders of a contest.
pub(super) struct Evidence<'a> {
    /// The test of each pair.
    pub(super) pairs: Vec<PairTest<'a>>,
    /// The pairs measured under different conditions.
    pub(super) unlike: Option<&'a Unlike>,
    /// The pairs that are unfair, with the reason: their quantiles rest on unlike numbers of values, or the better side
    /// lost more cells.
    pub(super) unfair: Vec<Unfair>,
    /// The first pair shown to differ whose sides were measured one after the other.
    pub(super) out_of_turn: Option<OutOfTurn>,
    /// What it means that the units share launches, if they do and a pair is shown to differ.
    pub(super) launches: Option<String>,
}

impl Evidence<'_> {
    fn measured_alike(&self, a: &str, b: &str) -> bool {
        let compared = self.unlike.iter().flat_map(|unlike| &unlike.differing);
        let pair = [a.min(b), a.max(b)];
        let same = |(pair, _): &Unfair| pair == &[a, b] || pair == &[b, a];
        !self.unfair.iter().any(same)
            && !compared
                .into_iter()
                .any(|c| [c.a.as_str(), c.b.as_str()] == pair)
    }

    /// Names the family of tests, or says why there are none, with the first reason that limits a distinction.
    fn words(
        &self,
        contest: &Contest,
        column: &str,
        units: &Units,
        dependence: Option<String>,
    ) -> String {
        if let Some(without) = without_values(contest, column) {
            return without;
        }
        let mut pairs = self.pairs.iter();
        let family = pairs.find_map(|(_, _, adjusted)| adjusted.family.as_ref());
        let tests = match family {
            _ if units.is_none() => units.none(),
            Some(family) => format!("{}: {family}", units.words().unwrap_or_default()),
            None => {
                let most = contest.contenders.iter().map(|c| c.units.len()).max();
                units.refusal(most.unwrap_or(0)).unwrap_or_else(|| {
                    "no pair has a test: at least 3 units with some spread are needed".to_owned()
                })
            }
        };
        let unlike = self.unlike.map(Unlike::reason);
        let unfair = self.unfair.first().map(|(_, why)| why.clone());
        let order = self.out_of_turn.as_ref().map(OutOfTurn::note);
        let parts: Vec<String> = [
            Some(tests),
            dependence,
            unlike,
            unfair,
            order,
            self.launches.clone(),
        ]
        .into_iter()
        .flatten()
        .collect();
        parts.join("; ")
    }
}

/// Explains that there is nothing to test: fewer than two contenders have a value. `None` if two have one, or if there are
/// not even two.
fn without_values(contest: &Contest, column: &str) -> Option<String> {
    let all = contest.contenders.len();
    let mut valued = contest.contenders.iter().filter(|c| c.value.is_some());
    let (first, second) = (valued.next(), valued.next());
    if all < 2 || second.is_some() {
        return None;
    }
    let inner = |(_, p): &(String, f64)| *p > 0.0 && *p < 1.0;
    let quantile = counts_of(column).filter(inner);
    let least = quantile.map(|(_, p)| least_for_quantile(p, LEVEL));
    let why = least.map_or_else(String::new, |least| {
        format!("; a cell has one from {least} values on, which bound the quantile")
    });
    Some(match first {
        None => format!("no test: no contender has a value of {column}{why}"),
        Some(one) => format!(
            "no test: of {all} contenders, only {} has a value of {column}{why}",
            one.label
        ),
    })
}

/// The contenders of a contest that have a value, in order. Values are turned so that larger is worse.
struct Order<'a> {
    contest: &'a Contest,
    evidence: &'a Evidence<'a>,
    /// The largest distance between two values that counts as a tie, relative to the smaller one.
    tie_within: f64,
    /// The factor that turns a value.
    sign: f64,
    /// The contenders with a value.
    valued: Vec<usize>,
    /// The mid-rank of each contender with a value.
    mid_ranks: Vec<f64>,
    /// The best turned value.
    best: Option<f64>,
    /// The values of every contender in each unit that has all of them; `None` without units.
    blocks: Option<Vec<Vec<f64>>>,
}

impl<'a> Order<'a> {
    fn new(
        contest: &'a Contest,
        evidence: &'a Evidence<'a>,
        given: &Parameters,
        units: &Units,
    ) -> Self {
        let valued =
            (0..contest.contenders.len()).filter(|i| contest.contenders[*i].value.is_some());
        let mut order = Self {
            contest,
            evidence,
            tie_within: given.tie_within,
            sign: match given.better {
                Better::Higher => -1.0,
                Better::Lower => 1.0,
            },
            valued: valued.collect(),
            mid_ranks: Vec::new(),
            best: None,
            blocks: (!units.is_none()).then(|| contest.blocks()),
        };
        let values: Vec<f64> = order.valued.iter().map(|i| order.turned(*i)).collect();
        order.best = values.iter().copied().reduce(f64::min);
        order.mid_ranks = mid_ranks(&values).ranks;
        order
    }

    fn turned(&self, i: usize) -> f64 {
        self.contest.contenders[i]
            .value
            .map_or(f64::NAN, |value| self.sign * value)
    }

    fn labels(&self, contenders: impl Iterator<Item = usize>) -> Vec<String> {
        contenders
            .map(|i| self.contest.contenders[i].label.clone())
            .collect()
    }

    /// The contenders with the best value.
    fn champions(&self) -> Vec<String> {
        let valued = self.valued.iter().copied();
        self.labels(valued.filter(|i| Some(self.turned(*i)) == self.best))
    }

    /// Whether two contenders tie by their values.
    fn near(&self, i: usize, j: usize) -> bool {
        let (a, b) = (self.turned(i), self.turned(j));
        (a - b).abs() <= self.tie_within * a.abs().min(b.abs())
    }

    /// Whether the evidence shows that two contenders differ by more than a tie.
    fn apart(&self, i: usize, j: usize) -> bool {
        let shown = self.evidence.pairs.iter().any(|(a, b, adjusted)| {
            (*a, *b) == (i.min(j), i.max(j)) && adjusted.decision.is_some_and(|d| d.rejected)
        });
        let [a, b] = [i, j].map(|at| self.contest.contenders[at].label.as_str());
        shown && !self.near(i, j) && self.evidence.measured_alike(a, b)
    }

    /// The smallest and largest rank of a contender in a unit, and the share of units in which it has the overall rank.
    fn stability(&self, i: usize, rank: usize) -> Option<(usize, usize, f64)> {
        let sign = self.sign;
        let rank_in = |block: &Vec<f64>| {
            let better = block.iter().filter(|v| sign * **v < sign * block[i]);
            1 + better.count()
        };
        let ranks: Vec<usize> = self.blocks.as_ref()?.iter().map(rank_in).collect();
        let same = ranks.iter().filter(|r| **r == rank).count() as f64;
        let (low, high) = ranks.iter().min().zip(ranks.iter().max())?;
        Some((*low, *high, same / ranks.len() as f64))
    }

    /// The place of a contender; `None` if it has no value.
    fn place(&self, i: usize) -> Option<Place> {
        let at = self.valued.iter().position(|v| *v == i)?;
        let value = self.turned(i);
        let valued = || self.valued.iter().copied();
        let better: Vec<usize> = valued().filter(|j| self.turned(*j) < value).collect();
        let others = || valued().filter(|j| *j != i);
        let rank = 1 + better.len();
        Some(Place {
            rank,
            mid_rank: self.mid_ranks[at],
            rank_with_ties: 1 + better.iter().filter(|j| !self.near(i, **j)).count(),
            tied: self.labels(others().filter(|j| self.near(i, *j))),
            shown: self.blocks.is_some().then(|| Shown {
                rank: 1 + better.iter().filter(|j| self.apart(i, **j)).count(),
                with: self.labels(others().filter(|j| !self.apart(i, *j))),
            }),
            behind_best: self
                .best
                .filter(|best| *best != 0.0)
                .map(|best| ((value - best) / best).abs()),
            stability: self.stability(i, rank),
        })
    }
}

/// The rows of a contest, one per contender.
pub(super) fn rows(
    contest: &Contest,
    given: &Parameters,
    (from, keys): (&Frame, &[String]),
    evidence: &Evidence<'_>,
    (units, columns): (&Units, &Columns<'_, Contender>),
) -> Vec<Row> {
    let order = Order::new(contest, evidence, given, units);
    let mut lineage = contest.lineage.clone();
    lineage.extend(
        evidence
            .unlike
            .iter()
            .flat_map(|u| u.samples.iter().cloned()),
    );
    let starts = evidence.out_of_turn.iter().flat_map(|order| &order.starts);
    lineage.extend(starts.cloned());
    lineage.sort();
    let blocks = order.blocks.as_deref().unwrap_or_default();
    let most = contest.contenders.iter().map(|c| c.units.len()).max();
    let few = units.refusal(most.unwrap_or(0)).is_some();
    let dependence = (!units.is_none())
        .then(|| contest.dependence(units))
        .flatten();
    let independent = !units.is_none() && !few && dependence.is_none();
    let friedman = friedman(blocks).ok().filter(|_| independent);
    let friedman_p = friedman.map(|test| test.p);
    let groups = contest.apart().filter(|_| independent);
    let kruskal_p = groups.and_then(|groups| Some(kruskal_wallis(&groups).ok()?.p));
    let (champions, words) = (
        order.champions(),
        evidence.words(contest, &given.column, units, dependence),
    );
    let row = |(i, entry): (usize, &Entry)| {
        let contender = Contender {
            value: entry.value,
            n: order.valued.len(),
            units: match units.is_none() {
                true => 0,
                false => entry.units.len(),
            },
            champions: champions.clone(),
            place: order.place(i),
            friedman_p,
            kruskal_p,
            evidence: words.clone(),
        };
        let key = keys
            .iter()
            .filter_map(|k| from.keys.iter().position(|name| name == k))
            .map(|p| from.rows[entry.row].key[p].clone());
        columns.row(key.collect(), &contender, lineage.clone())
    };
    contest.contenders.iter().enumerate().map(row).collect()
}
