//! `ranking`: the order of an axis' labels in every contest, with the groups that cannot be told apart.

use artifacts::Scalar;
use contract::Better;
use pipeline::{Failure, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{
    UnitEffect, friedman, indirect_effect, kruskal_wallis, mid_ranks, unit_effect_rounded,
};

use crate::columns::{Columns, listed};
use crate::frame::{Frame, Level, Row, SourceRows, Spec, rows_of, spans};
use crate::lost_requests::LostRequests;
use crate::operator::{Context, Draft, TypedOperator};
use crate::operators::fairness::Losses;
use crate::operators::family::{Adjusted, Asked as Question, Family, Hypothesis, Pending};
use crate::operators::looks::Looks;
use crate::operators::pairs::contested;
use crate::operators::uneven::Quantiles;
use crate::operators::units::{Scale, Units, averaged, mean};
use crate::surroundings::{self, Asked, Judge, Unlike};

pub(crate) struct Ranking;

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The table that holds the contenders.
    from: String,
    /// The axis whose labels are ranked; the other keys, without the unit axes, name the contests.
    among: String,
    /// The column they are ranked by.
    column: String,
    /// The better direction.
    better: Better,
    /// The largest distance between two values that always counts as a tie, relative to the smaller
    /// one.
    #[serde(default)]
    tie_within: f64,
    /// The axes whose labels are the units of replication; by default `block`, if the table has it.
    /// Without units, no two contenders are distinguished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unit: Option<Vec<String>>,
    /// The tests that share the level with those of this table.
    #[serde(default)]
    family: Family,
    /// The probability of any false verdict in the family; here, of distinguishing two equal
    /// contenders.
    #[serde(default = "alpha")]
    alpha: f64,
    /// How often the study looks at its data. A design with `until` sets this.
    #[serde(default, skip_serializing_if = "Looks::is_once")]
    looks: Looks,
    /// Measurement conditions in which contenders may differ. A difference in any other condition
    /// prevents a distinction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    conditions_may_differ: Vec<String>,
}

fn alpha() -> f64 {
    0.05
}

/// One contender of a contest.
struct Contender {
    value: Option<f64>,
    /// The number of contenders with a value.
    n: usize,
    units: usize,
    /// The best contenders of the contest.
    champions: Vec<String>,
    /// `None` without a value.
    place: Option<Place>,
    friedman_p: Option<f64>,
    kruskal_p: Option<f64>,
    evidence: String,
}

struct Place {
    rank: usize,
    mid_rank: f64,
    rank_with_ties: usize,
    tied: Vec<String>,
    /// `None` without units.
    shown: Option<Shown>,
    behind_best: Option<f64>,
    /// The smallest and largest rank in a unit, and the share of units with the overall rank.
    stability: Option<(usize, usize, f64)>,
}

/// What the units show.
struct Shown {
    rank: usize,
    with: Vec<String>,
}

fn columns(of: &Spec, given: &Parameters) -> Columns<'static, Contender> {
    let tie = given.tie_within;
    let rank = "1 + contenders strictly better: equal values share the smaller rank";
    let mid_rank = "the mean of the places that equal values share";
    let with_ties = format!("1 + contenders better by more than {tie}, relative");
    let tied = format!("contenders within {tie}, relative, whatever the evidence; null if none");
    let shown = format!(
        "1 + contenders shown to be better, and by more than {tie}, relative; null without units"
    );
    let with = "its group: contenders without a shown difference from it, within the tie, or \
        measured under different conditions; null if none, or without units";
    let best = "the contender with the best value, or all such contenders; null without values";
    let behind = "distance from the best value ÷ the best value";
    let friedman = "p value of Friedman's test that no contender differs, over the units with \
        all contenders; null for two contenders";
    let kruskal = "p value of the Kruskal–Wallis test that no contender differs, if no unit has \
        two contenders; null otherwise";
    let place =
        |read: fn(&Place) -> Option<usize>| move |c: &Contender| c.place.as_ref().and_then(read);
    Columns::new()
        .with(
            of.like(&of.name, format!("{}, mean over the units", of.description)),
            |c: &Contender| c.value,
        )
        .with(
            Spec::int("n", "1", "contenders with a value in this contest"),
            |c| c.n,
        )
        .with(Spec::int("units", "1", "units of replication of it"), |c| {
            c.units
        })
        .with(Spec::int("rank", "1", rank), place(|p| Some(p.rank)))
        .with(Spec::float("mid_rank", "1", mid_rank), |c| {
            c.place.as_ref().map(|p| p.mid_rank)
        })
        .with(
            Spec::int("rank_with_ties", "1", with_ties),
            place(|p| Some(p.rank_with_ties)),
        )
        .with(Spec::text("tied_with", tied), |c| {
            c.place.as_ref().and_then(|p| listed(&p.tied))
        })
        .with(
            Spec::int("rank_shown", "1", shown),
            place(|p| p.shown.as_ref().map(|s| s.rank)),
        )
        .with(Spec::text("not_told_apart_from", with), |c| {
            c.place
                .as_ref()?
                .shown
                .as_ref()
                .and_then(|s| listed(&s.with))
        })
        .with(Spec::text("best", best), |c| listed(&c.champions))
        .with(Spec::float("behind_best", "1", behind), |c| {
            c.place.as_ref().and_then(|p| p.behind_best)
        })
        .with(
            Spec::int(
                "rank_low",
                "1",
                "its smallest rank in a unit; null without units",
            ),
            place(|p| p.stability.map(|s| s.0)),
        )
        .with(
            Spec::int(
                "rank_high",
                "1",
                "its largest rank in a unit; null without units",
            ),
            place(|p| p.stability.map(|s| s.1)),
        )
        .with(
            Spec::float(
                "rank_stability",
                "1",
                "share of the units in which it has its rank; null without units",
            ),
            |c| c.place.as_ref().and_then(|p| p.stability.map(|s| s.2)),
        )
        .with(Spec::float("friedman_p", "1", friedman), |c| c.friedman_p)
        .with(Spec::float("kruskal_p", "1", kruskal), |c| c.kruskal_p)
        .with(
            Spec::text(
                "evidence",
                "the family of pairwise tests, or why there are none",
            ),
            |c| c.evidence.clone(),
        )
}

impl TypedOperator for Ranking {
    type Parameters = Parameters;
    type Made = Pending;
    const NAME: &'static str = "ranking";
    const SUMMARY: &'static str = "The rank of each label of an axis at every coordinate, the \
        labels that do not differ from it, and the stability of its rank over the units.";
    const SOURCE: &'static str = "`rank` is standard competition ranking (1, 2, 2, 4), and \
        `mid_rank` is fractional ranking (1, 2.5, 2.5, 4), both of the means over the units. \
        Student's t of the units' log ratios distinguishes two contenders; if a value is not \
        above 0, it uses differences. All pairs and contests of the table form one family, which \
        shares the level of the study with the other tables (weighted Holm). If no unit has both \
        contenders, for example because each system has its own machine, Welch's t of the units' \
        logarithms is used. Ties do not chain: each pair is judged separately. The design's A/A arm does not contend. A global test \
        shows whether any contender differs: Friedman (JASA 32, 1937), or Kruskal & Wallis (JASA \
        47, 1952) if no unit has two contenders, exact if feasible.";

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let (from, column) = (given.from.as_str(), given.column.as_str());
        let of = contested(draft, (from, column), given.tie_within)?;
        let mut problems = draft.shares(&[("alpha", given.alpha)]);
        problems.extend(surroundings::problems(draft, &given.conditions_may_differ));
        crate::operator::unless(problems, || columns(&of, given).specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Pending, Failure> {
        let from = context.table(&given.from)?;
        let among = from.key_position(&given.among, &given.from)?;
        let units = Units::of(given.unit.as_deref(), from, &given.from)?;
        let mut apart = units.axes().to_vec();
        apart.push(given.among.clone());
        let contest_keys = from.keys_without(&apart);
        let at = from.key_positions(&contest_keys, &given.from)?;
        let unit = from.key_positions(units.axes(), &given.from)?;
        let contests: Vec<Contest> = from
            .groups(&at)
            .into_iter()
            .map(|(_, mut members)| {
                members.retain(|row| !context.is_arm(&given.among, &from.rows[*row].key[among]));
                members
            })
            .filter(|members| !members.is_empty())
            .map(|members| Contest::new(from, given, (among, &unit), members))
            .collect();
        let pairs: Vec<(usize, usize, usize)> = contests
            .iter()
            .enumerate()
            .flat_map(|(c, contest)| {
                let n = contest.contenders.len();
                (0..n).flat_map(move |i| (i + 1..n).map(move |j| (c, i, j)))
            })
            .collect();
        let test = |(c, i, j): &(usize, usize, usize)| {
            let [a, b] = [i, j].map(|at| &contests[*c].contenders[*at]);
            let p = match units.is_none() {
                true => None,
                false => contests[*c].p(*i, *j, given.looks),
            };
            let few = units.refusal(a.units.len().min(b.units.len()));
            let p = p.filter(|_| few.is_none());
            let used = spans(&given.from, [a.rows.clone(), b.rows.clone()].concat());
            Hypothesis::new(0, p, (&a.label, &b.label), &used)
        };
        let question = Question {
            family: given.family,
            alpha: given.alpha,
            columns: vec![given.column.clone()],
            by: contest_keys,
            from: given.from.clone(),
            axis: given.among.clone(),
            contest: true,
            tests: pairs.iter().map(test).collect(),
        };
        let given = given.clone();
        Ok(Pending::new(question, move |adjusted, context| {
            table(&given, &contests, (&pairs, &adjusted), &units, context)
        }))
    }
}

/// Makes the table from decided tests.
fn table(
    given: &Parameters,
    contests: &[Contest],
    (pairs, adjusted): (&[(usize, usize, usize)], &[Adjusted]),
    units: &Units,
    context: &Context<'_>,
) -> Result<Frame, Failure> {
    let from = context.table(&given.from)?;
    let columns = columns(&from.declared(&given.column)?, given);
    let keys = from.keys_without(units.axes());
    let mut apart = units.axes().to_vec();
    apart.push(given.among.clone());
    let contest_keys = from.keys_without(&apart);
    let asked = Asked {
        axis: &given.among,
        labels: &[],
        unit: units.axes(),
        may_differ: &given.conditions_may_differ,
    };
    let behind = contests.iter().flat_map(|contest| &contest.lineage);
    let mut judge = Judge::new(context)?;
    let unlike = judge.unlike(&asked, behind);
    let quantiles = Quantiles::of(from, &given.column, &given.among);
    let mut rows = Vec::new();
    for (c, contest) in contests.iter().enumerate() {
        let told: Vec<(usize, usize, &Adjusted)> = pairs
            .iter()
            .zip(adjusted)
            .filter(|((of, ..), _)| *of == c)
            .map(|((_, i, j), adjusted)| (*i, *j, adjusted))
            .collect();
        let labels = |i: usize| contest.contenders[i].label.as_str();
        let lineage = rows_of(&contest.lineage);
        let uneven: Vec<([String; 2], String)> =
            quantiles.as_ref().map_or(Vec::new(), |quantiles| {
                let refused = |(i, j, _): &(usize, usize, _)| {
                    let pair = [labels(*i), labels(*j)];
                    let why = quantiles.refusal(&lineage, pair)?;
                    Some((pair.map(str::to_owned), why))
                };
                told.iter().filter_map(refused).collect()
            });
        // A contest's losses follow from its own key.
        let row = contest.contenders.first().map_or(0, |entry| entry.row);
        let here: Vec<Scalar> = contest_keys
            .iter()
            .filter_map(|key| from.keys.iter().position(|k| k == key))
            .map(|at| from.rows[row].key[at].clone())
            .collect();
        let flattered = told.iter().filter_map(|(i, j, _)| {
            let pair = [labels(*i), labels(*j)];
            let losses = Losses::of(
                from,
                (&given.among, pair),
                (&contest_keys, &here),
                (&given.column, units),
            );
            let [a, b] = [i, j].map(|at| contest.contenders[*at].value.unwrap_or(f64::NAN));
            let first_is_better = (a > b) == (given.better == Better::Higher);
            let flattered = losses.flattered()? == usize::from(!first_is_better);
            let why = losses.words(pair).filter(|_| flattered)?;
            Some((pair.map(str::to_owned), why))
        });
        let mut unfair: Vec<_> = uneven.into_iter().chain(flattered).collect();
        for (i, j, adjusted) in &told {
            let sides = (given.among.as_str(), [labels(*i), labels(*j)]);
            let worst = contest.without_lost_requests((*i, *j), adjusted, given, |scale| {
                let column = (given.column.as_str(), scale);
                judge.lost(sides, units.axes(), column, &contest.lineage)
            })?;
            unfair.extend(worst.map(|why| (sides.1.map(str::to_owned), why)));
        }
        let told = Told {
            unlike: unlike.as_ref(),
            unfair,
            pairs: told,
        };
        rows.extend(contest.rows(given, (from, &keys), &told, (units, &columns)));
    }
    Ok(Frame {
        level: if units.is_none() {
            from.level
        } else {
            Level::Marginal
        },
        keys,
        specs: columns.specs(),
        rows,
        missing: from.missing.clone(),
    })
}

/// The evidence that distinguishes the contenders of a contest.
struct Told<'a> {
    /// The test of each pair.
    pairs: Vec<(usize, usize, &'a Adjusted)>,
    /// The pairs measured under different conditions.
    unlike: Option<&'a Unlike>,
    /// The pairs that are unfair, with the reason: their quantiles rest on unlike numbers of values, or the better side
    /// lost more cells.
    unfair: Vec<([String; 2], String)>,
}

impl Told<'_> {
    fn measured_alike(&self, a: &str, b: &str) -> bool {
        let found = self.unlike.iter().flat_map(|unlike| &unlike.found);
        let pair = [a.min(b), a.max(b)];
        let same = |(of, _): &([String; 2], String)| of == &[a, b] || of == &[b, a];
        !self.unfair.iter().any(same)
            && !found
                .into_iter()
                .any(|c| [c.a.as_str(), c.b.as_str()] == pair)
    }
}

/// The rows of one contest, by contender.
struct Contest {
    contenders: Vec<Entry>,
    lineage: Vec<SourceRows>,
}

struct Entry {
    label: String,
    /// One of its rows, for the key.
    row: usize,
    /// The rows with a value.
    rows: Vec<usize>,
    /// The mean of each unit.
    units: Vec<(Vec<Scalar>, f64)>,
    value: Option<f64>,
}

impl Contest {
    fn new(
        from: &Frame,
        given: &Parameters,
        (among, unit): (usize, &[usize]),
        members: Vec<usize>,
    ) -> Self {
        let lineage = spans(&given.from, members.iter().copied());
        let label = |row: usize| from.rows[row].key[among].clone();
        let mut members = members;
        members.sort_by(|a, b| contract::compare(&label(*a), &label(*b)).then(a.cmp(b)));
        let entry = |rows: &[usize]| {
            let values = rows.iter().filter_map(|row| {
                Some((from.key_at(*row, unit), from.number(*row, &given.column)?))
            });
            let units = averaged(values);
            let plain: Vec<f64> = units.iter().map(|(_, v)| *v).collect();
            let valued = rows
                .iter()
                .filter(|row| from.number(**row, &given.column).is_some());
            Entry {
                rows: valued.copied().collect(),
                label: label(rows[0]).to_string(),
                row: rows[0],
                value: mean(&plain),
                units,
            }
        };
        Self {
            contenders: members
                .chunk_by(|a, b| label(*a) == label(*b))
                .map(entry)
                .collect(),
            lineage,
        }
    }

    /// Explains why two contenders are not apart if every request that they lost had been slow; `None` if they still are,
    /// or lost none.
    fn without_lost_requests(
        &self,
        (i, j): (usize, usize),
        adjusted: &Adjusted,
        given: &Parameters,
        lost: impl FnOnce(Scale) -> Result<Option<LostRequests>, Failure>,
    ) -> Result<Option<String>, Failure> {
        let level = adjusted.decision.map_or(given.alpha, |d| d.alpha);
        let apart = |effect: &UnitEffect| given.looks.p(effect) <= level;
        let Some((scale, effect)) = self.paired(i, j).filter(|(_, effect)| apart(effect)) else {
            return Ok(None);
        };
        let Some(shift) = lost(scale)?.and_then(|lost| lost.shift) else {
            return Ok(None);
        };
        let worst = effect.shifted(shift);
        let holds = worst.mean * effect.mean > 0.0 && apart(&worst);
        Ok((!holds).then(|| {
            "requests were lost, and the order would not hold had each been as slow as the slowest answer of either side there"
                .to_owned()
        }))
    }

    /// The values of two contenders in the units that have both.
    fn both(&self, i: usize, j: usize) -> Vec<(f64, f64)> {
        let (a, b) = (&self.contenders[i], &self.contenders[j]);
        let other = |(unit, value): &(Vec<Scalar>, f64)| {
            let other = b.units.iter().find(|(other, _)| other == unit)?;
            Some((*value, other.1))
        };
        a.units.iter().filter_map(other).collect()
    }

    /// The effect of two contenders over the units that have both.
    fn paired(&self, i: usize, j: usize) -> Option<(Scale, UnitEffect)> {
        let both = self.both(i, j);
        let scale = scale(both.iter().flat_map(|(a, b)| [*a, *b]));
        let effects = both.iter().filter_map(|(a, b)| scale.effect(*a, *b));
        let effects: Vec<f64> = effects.collect();
        let effect = unit_effect_rounded(&effects, scale.rounding(&[both])).ok()?;
        Some((scale, effect))
    }

    /// The p value of two contenders over the units that have both. If no unit has both, the units count as
    /// independent.
    fn p(&self, i: usize, j: usize, looks: Looks) -> Option<f64> {
        let (a, b) = (&self.contenders[i], &self.contenders[j]);
        if self.both(i, j).is_empty() {
            // Independent units have no test that holds at every look.
            return match looks {
                Looks::Once => independent(&a.units, &b.units),
                Looks::AfterEachBlock => None,
            };
        }
        let (_, effect) = self.paired(i, j)?;
        Some(looks.p(&effect))
    }

    /// The values of each contender, if units exist and none has two contenders.
    fn apart(&self) -> Option<Vec<Vec<f64>>> {
        let mut seen: Vec<&Vec<Scalar>> = Vec::new();
        for (unit, _) in self.contenders.iter().flat_map(|c| &c.units) {
            if seen.contains(&unit) {
                return None;
            }
            seen.push(unit);
        }
        let values = |entry: &Entry| entry.units.iter().map(|(_, v)| *v).collect();
        Some(self.contenders.iter().map(values).collect())
    }

    /// The values of every contender in each unit that has all of them.
    fn blocks(&self) -> Vec<Vec<f64>> {
        let Some(first) = self.contenders.first() else {
            return Vec::new();
        };
        let block = |unit: &Vec<Scalar>| {
            let of = |entry: &Entry| {
                entry
                    .units
                    .iter()
                    .find(|(other, _)| other == unit)
                    .map(|(_, value)| *value)
            };
            self.contenders.iter().map(of).collect::<Option<Vec<f64>>>()
        };
        first
            .units
            .iter()
            .filter_map(|(unit, _)| block(unit))
            .collect()
    }

    fn rows(
        &self,
        given: &Parameters,
        (from, keys): (&Frame, &[String]),
        told: &Told<'_>,
        (units, columns): (&Units, &Columns<'_, Contender>),
    ) -> Vec<Row> {
        let sign = match given.better {
            Better::Higher => -1.0,
            Better::Lower => 1.0,
        };
        let valued: Vec<usize> = (0..self.contenders.len())
            .filter(|i| self.contenders[*i].value.is_some())
            .collect();
        // From here on, larger is worse.
        let turned = |i: usize| self.contenders[i].value.map_or(f64::NAN, |v| sign * v);
        let values: Vec<f64> = valued.iter().map(|i| turned(*i)).collect();
        let mids = mid_ranks(&values).ranks;
        let best = values.iter().copied().reduce(f64::min);
        let champions = valued.iter().filter(|i| Some(turned(**i)) == best);
        let champions: Vec<String> = champions
            .map(|i| self.contenders[*i].label.clone())
            .collect();
        let near = |i: usize, j: usize| {
            let (a, b) = (turned(i), turned(j));
            (a - b).abs() <= given.tie_within * a.abs().min(b.abs())
        };
        let apart = |i: usize, j: usize| {
            let shown = told.pairs.iter().any(|(a, b, adjusted)| {
                (*a, *b) == (i.min(j), i.max(j)) && adjusted.decision.is_some_and(|d| d.rejected)
            });
            let (a, b) = (&self.contenders[i].label, &self.contenders[j].label);
            shown && !near(i, j) && told.measured_alike(a, b)
        };
        let blocks = if units.is_none() {
            Vec::new()
        } else {
            self.blocks()
        };
        let rank_in = |block: &[f64], i: usize| {
            1 + block
                .iter()
                .filter(|v| sign * **v < sign * block[i])
                .count()
        };
        let place = |i: usize| {
            let mine = turned(i);
            let better: Vec<usize> = valued
                .iter()
                .copied()
                .filter(|j| turned(*j) < mine)
                .collect();
            let rank = 1 + better.len();
            let ranks: Vec<usize> = blocks.iter().map(|block| rank_in(block, i)).collect();
            let same = ranks.iter().filter(|r| **r == rank).count() as f64;
            let at = valued.iter().position(|v| *v == i)?;
            let others = || valued.iter().copied().filter(|j| *j != i);
            let labels = |group: Vec<usize>| -> Vec<String> {
                let labels = group.into_iter().map(|j| self.contenders[j].label.clone());
                labels.collect()
            };
            let clearly = |told: &dyn Fn(usize, usize) -> bool| {
                1 + better.iter().filter(|j| told(i, **j)).count()
            };
            Some(Place {
                rank,
                mid_rank: mids[at],
                rank_with_ties: clearly(&|i, j| !near(i, j)),
                tied: labels(others().filter(|j| near(i, *j)).collect()),
                shown: (!units.is_none()).then(|| Shown {
                    rank: clearly(&apart),
                    with: labels(others().filter(|j| !apart(i, *j)).collect()),
                }),
                behind_best: best.filter(|b| *b != 0.0).map(|b| ((mine - b) / b).abs()),
                stability: ranks
                    .iter()
                    .min()
                    .zip(ranks.iter().max())
                    .map(|(low, high)| (*low, *high, same / ranks.len() as f64)),
            })
        };
        let family = told
            .pairs
            .iter()
            .find_map(|(_, _, adjusted)| adjusted.family.clone());
        let evidence = match family {
            _ if units.is_none() => units.none(),
            Some(family) => format!("{}: {family}", units.words().unwrap_or_default()),
            None => {
                let most = self.contenders.iter().map(|c| c.units.len()).max();
                units.refusal(most.unwrap_or(0)).unwrap_or_else(|| {
                    "no pair has a test: at least 3 units with some spread are needed".to_owned()
                })
            }
        };
        let evidence = match told.unlike {
            Some(unlike) => format!("{evidence}; {}", unlike.reason()),
            None => evidence,
        };
        let evidence = match told.unfair.first() {
            Some((_, why)) => format!("{evidence}; {why}"),
            None => evidence,
        };
        let mut lineage = self.lineage.clone();
        lineage.extend(told.unlike.iter().flat_map(|u| u.samples.iter().cloned()));
        lineage.sort();
        let friedman_p = friedman(&blocks).ok().map(|test| test.p);
        let groups = self.apart().filter(|_| !units.is_none());
        let kruskal_p = groups.and_then(|groups| Some(kruskal_wallis(&groups).ok()?.p));
        let row = |i: usize| {
            let entry = &self.contenders[i];
            let contender = Contender {
                value: entry.value,
                n: valued.len(),
                units: if units.is_none() {
                    0
                } else {
                    entry.units.len()
                },
                champions: champions.clone(),
                place: entry.value.and_then(|_| place(i)),
                friedman_p,
                kruskal_p,
                evidence: evidence.clone(),
            };
            let key = keys
                .iter()
                .filter_map(|k| from.keys.iter().position(|name| name == k))
                .map(|p| from.rows[entry.row].key[p].clone());
            columns.row(key.collect(), &contender, lineage.clone())
        };
        (0..self.contenders.len()).map(row).collect()
    }
}

/// The scale of the comparison: ratios if all values are above 0, differences otherwise.
fn scale(mut values: impl Iterator<Item = f64>) -> Scale {
    match values.all(|v| v > 0.0) {
        true => Scale::Ratio,
        false => Scale::Difference,
    }
}

/// The p value of two contenders with no units in common.
fn independent(a: &[(Vec<Scalar>, f64)], b: &[(Vec<Scalar>, f64)]) -> Option<f64> {
    let scale = scale(a.iter().chain(b).map(|(_, v)| *v));
    let side = |units: &[(Vec<Scalar>, f64)]| {
        let values: Vec<f64> = units.iter().map(|(_, v)| *v).collect();
        let inward: Vec<f64> = values.iter().filter_map(|v| scale.inward(*v)).collect();
        unit_effect_rounded(&inward, scale.rounding_of(&[values])).ok()
    };
    Some(indirect_effect(&side(a)?, &side(b)?).p)
}
