//! Sides whose figures `aggregate` pooled over unlike levels.
//!
//! If one side lacks its slowest workload, the mean over workloads of that side is lower for this reason alone. Before
//! rows are compared, each pooled figure is therefore computed again from the levels that all of the compared rows have.
//! Figures of figures are computed again from the bottom up.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use artifacts::Scalar;
use contract::LineageSource;
use contract::uneven::differ_by_counts;
use pipeline::Failure;
use statistics::Sample;

use crate::frame::{Frame, Level, Spec, count, number};
use crate::operator::Context;
use crate::operators::pairs::Sides;

/// The origin of a column whose values pool those of another table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pools {
    pub(crate) table: String,
    pub(crate) column: String,
    /// How the values become one; `None` if that cannot be repeated for some of them.
    pub(crate) how: Option<Statistic>,
}

/// A statistic of the values behind a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Statistic {
    /// Their number.
    Count,
    Mean,
    /// The sample standard deviation, n − 1.
    Std,
    /// Standard deviation ÷ mean.
    Cv,
    Min,
    Max,
    /// A quantile of type 7, as a share.
    Quantile(f64),
}

impl Statistic {
    fn of(self, values: &[f64]) -> Scalar {
        if self == Self::Count {
            return count(values.len());
        }
        let Ok(sample) = Sample::new(values.iter().copied()) else {
            return Scalar::Null;
        };
        number(match self {
            Self::Count => None,
            Self::Mean => Some(sample.mean()),
            Self::Std => sample.std(),
            Self::Cv => sample.cv(),
            Self::Min => Some(sample.min()),
            Self::Max => Some(sample.max()),
            Self::Quantile(p) => Some(sample.quantile(p)),
        })
    }

    /// Whether the statistic of one number of values is noticeably above or below that of another number of values from
    /// the same distribution.
    fn differs(self, [n, m]: [usize; 2]) -> bool {
        let counts = [n as f64, m as f64];
        match self {
            Self::Count | Self::Mean => false,
            Self::Min | Self::Max => differ_by_counts(1.0, counts),
            Self::Quantile(p) => differ_by_counts(p, counts),
            Self::Std | Self::Cv => {
                let [n, m] = counts.map(|n| 0.25 / (n - 1.0).max(0.25));
                (n - m).abs() > 0.05
            }
        }
    }
}

/// Declares that the numbers of a table follow from columns of another, row by row or as quotients, so that they cannot
/// be computed again for some of its values.
pub(crate) fn follow<'a>(
    specs: Vec<Spec>,
    table: &str,
    source: impl Fn(&str) -> &'a String,
) -> Vec<Spec> {
    let follow = |spec: Spec| match spec.is_number() {
        true => {
            let column = source(&spec.name);
            spec.pooling(table, column, None)
        }
        false => spec,
    };
    specs.into_iter().map(follow).collect()
}

/// The rows that are compared with each other.
pub(crate) struct Compares<'a> {
    pub(crate) table: &'a str,
    pub(crate) columns: &'a [String],
    /// The axis of the sides.
    pub(crate) axis: &'a str,
    /// The labels of the sides; empty for all labels.
    pub(crate) sides: &'a [String],
    /// The keys in which rows that are compared may differ, besides the axis of the sides.
    pub(crate) apart: &'a [String],
}

/// A row and a column.
type Place = (usize, String);

/// A table in which the compared rows have figures over the same levels.
pub(crate) struct Alike<'a> {
    frame: Cow<'a, Frame>,
    /// The number of values left out of a figure.
    left_out: BTreeMap<Place, usize>,
    /// Why a figure has no value, although the table has one.
    refused: BTreeMap<Place, String>,
}

impl<'a> Alike<'a> {
    /// Computes the pooled figures of a table again from the levels that all of the compared rows have. A figure without
    /// such a level, or that cannot be computed again, becomes null, with a reason.
    ///
    /// # Errors
    /// If a table or a key does not exist.
    pub(crate) fn of(context: &'a Context<'_>, asked: &Compares<'_>) -> Result<Self, Failure> {
        let mut alike = Self {
            frame: Cow::Borrowed(context.table(asked.table)?),
            left_out: BTreeMap::new(),
            refused: BTreeMap::new(),
        };
        let mut done: Vec<(String, String)> = Vec::new();
        for column in asked.columns {
            let pools = pools_of(&alike.frame, column, asked.table).cloned();
            let Some(pools) = pools else { continue };
            let base = (pools.table, pools.column);
            if !done.contains(&base) {
                alike.level(context, asked, &base)?;
                done.push(base);
            }
        }
        Ok(alike)
    }

    /// As [`Alike::of`], for the rows that two labels of an axis pair.
    ///
    /// # Errors
    /// If a table or a key does not exist.
    pub(crate) fn of_pair(
        context: &'a Context<'_>,
        (table, columns): (&str, &[String]),
        pair: &Sides,
        apart: &[String],
    ) -> Result<Self, Failure> {
        let (a, b) = pair.labels();
        let asked = Compares {
            table,
            columns,
            axis: &pair.axis,
            sides: &[a, b],
            apart,
        };
        Self::of(context, &asked)
    }

    /// The table.
    pub(crate) fn frame(&self) -> &Frame {
        &self.frame
    }

    /// Keeps the table beyond the tables it was made from; `None` if nothing changed.
    pub(crate) fn kept(self) -> Kept {
        Kept {
            frame: match self.frame {
                Cow::Owned(frame) => Some(frame),
                Cow::Borrowed(_) => None,
            },
            left_out: self.left_out,
            refused: self.refused,
        }
    }

    /// Treats the columns that pool one column of a source.
    fn level(
        &mut self,
        context: &'a Context<'_>,
        asked: &Compares<'_>,
        (table, column): &(String, String),
    ) -> Result<(), Failure> {
        let columns = [column.clone()];
        let below = Compares {
            table,
            columns: &columns,
            ..*asked
        };
        let source = Alike::of(context, &below)?;
        let stage = Stage::new(&self.frame, &source, asked, (table, column))?;
        let specs = self.frame.specs.iter();
        let same = specs.filter_map(|spec| {
            let pools = spec.pools.as_ref()?;
            let same = pools.table == *table && pools.column == *column;
            same.then(|| (spec.name.clone(), pools.how))
        });
        let columns: Vec<(String, Option<Statistic>)> = same.collect();
        for (rows, common) in stage.in_common() {
            for row in rows {
                for (name, how) in &columns {
                    self.change(&stage, row, (name, *how), &common);
                }
            }
        }
        Ok(())
    }

    fn change(
        &mut self,
        stage: &Stage<'_>,
        row: usize,
        (name, how): (&str, Option<Statistic>),
        common: &Common,
    ) {
        let place = (row, name.to_owned());
        let behind = &stage.behind[&row];
        let (values, out) = stage.values(behind, common);
        let refusal = match (common, how) {
            (Common::Refused(why), _) => Some(why.clone()),
            (_, Some(how)) => stage.refusal_of_counts(how, common),
            (Common::Shared { .. }, None) if out > 0 => Some(stage.cannot_repeat()),
            (_, None) => None,
        };
        let value = match (&refusal, how) {
            (Some(_), _) => Scalar::Null,
            (None, Some(how)) if out > 0 => how.of(&values),
            _ => return,
        };
        self.frame.to_mut().put(row, name, value);
        match refusal {
            Some(why) => drop(self.refused.insert(place, why)),
            None => drop(self.left_out.insert(place, out)),
        }
    }
}

/// The result of [`Alike::of`], without the tables it was made from.
pub(crate) struct Kept {
    frame: Option<Frame>,
    left_out: BTreeMap<Place, usize>,
    refused: BTreeMap<Place, String>,
}

impl Kept {
    /// The table, given the one it was made from.
    pub(crate) fn frame<'a>(&'a self, from: &'a Frame) -> &'a Frame {
        self.frame.as_ref().unwrap_or(from)
    }

    /// Explains for some rows that figures of a column have no value; `None` if all have theirs.
    pub(crate) fn refusal(&self, column: &str, rows: impl Fn(usize) -> bool) -> Option<&str> {
        let own = |((row, name), _): &(&Place, &String)| name == column && rows(*row);
        self.refused.iter().find(own).map(|(_, why)| why.as_str())
    }

    /// Notes how many values the figures of some rows leave out; `None` if none.
    pub(crate) fn note(&self, column: &str, rows: &[usize]) -> Option<String> {
        let own = self
            .left_out
            .iter()
            .filter(|((row, name), _)| name == column && rows.contains(row));
        let out: usize = own.map(|(_, out)| *out).sum();
        (out > 0).then(|| {
            let values = if out == 1 { "value" } else { "values" };
            format!("{out} {values} without a counterpart on the other side left out of {column}")
        })
    }
}

/// Returns the origin of a column of a table. A table has no origin in itself.
pub(crate) fn pools_of<'a>(frame: &'a Frame, column: &str, table: &str) -> Option<&'a Pools> {
    let pools = frame.spec(column)?.pools.as_ref();
    pools.filter(|pools| pools.table != table)
}

/// Follows a pooled column down to the table of its cells, or of the figures of single cells.
pub(crate) fn cells_behind<'a>(
    context: &'a Context<'_>,
    table: &str,
    column: &str,
) -> Result<(&'a Frame, String), Failure> {
    let mut frame = context.table(table)?;
    let mut column = column.to_owned();
    let mut table = table;
    let repeated = |pools: &&Pools| pools.how.is_some();
    while let Some(pools) = pools_of(frame, &column, table).filter(repeated) {
        let source = context.table(&pools.table)?;
        if source.level == Level::Row {
            break;
        }
        column.clone_from(&pools.column);
        (table, frame) = (&pools.table, source);
    }
    Ok((frame, column))
}

/// The labels of pooled axes.
type Labels = Vec<String>;

/// The values behind one row.
struct Behind {
    side: String,
    values: Vec<(Labels, f64)>,
    /// The number of values that the source has already left out, or lacks for this reason.
    out: usize,
}

/// One step of pooling: the compared rows, and the values behind them.
struct Stage<'a> {
    column: &'a str,
    /// The pooled axes whose labels the sides share.
    axes: Vec<String>,
    /// The pooled axes with labels that belong to a single row or side, such as repetitions that each side numbers.
    own: Vec<String>,
    groups: Vec<Vec<usize>>,
    behind: BTreeMap<usize, Behind>,
    /// Whether the values are those of single requests.
    requests: bool,
}

/// What a group of compared rows has in common.
enum Common {
    /// The levels that all rows have, and the smallest and the largest number of values that a row has there.
    Shared {
        levels: BTreeSet<Labels>,
        counts: [usize; 2],
    },
    Refused(String),
}

/// How far the shares of levels among pooled requests may differ. Other rules take care of lost requests.
const REQUESTS: f64 = 0.05;

impl<'a> Stage<'a> {
    fn new(
        frame: &Frame,
        source: &'a Alike<'_>,
        asked: &Compares<'_>,
        (table, column): (&str, &'a str),
    ) -> Result<Self, Failure> {
        let values = source.frame();
        let axis = frame.key_position(asked.axis, asked.table)?;
        let requests = values.level == Level::Row;
        let numbered = |key: &str| requests && matches!(key, "request_id" | "attempt");
        let pooled: Vec<usize> = (0..values.keys.len())
            .filter(|at| {
                let key = &values.keys[*at];
                let place = frame.keys.iter().position(|k| k == key);
                let pooled =
                    place.is_none_or(|at| frame.rows.iter().any(|r| r.key[at] == Scalar::Null));
                pooled && !numbered(key)
            })
            .collect();
        let kept: Vec<usize> = (0..frame.keys.len())
            .filter(|at| *at != axis && !asked.apart.contains(&frame.keys[*at]))
            .collect();
        let compared = |row: &usize| {
            let label = frame.rows[*row].key[axis].to_string();
            asked.sides.is_empty() || asked.sides.contains(&label)
        };
        let mut stage = Self {
            column,
            axes: pooled.iter().map(|at| values.keys[*at].clone()).collect(),
            own: Vec::new(),
            groups: Vec::new(),
            behind: BTreeMap::new(),
            requests,
        };
        let place = |row: usize| (row, column.to_owned());
        for (_, mut rows) in frame.groups(&kept) {
            rows.retain(compared);
            for row in &rows {
                let mut behind = Behind {
                    side: frame.rows[*row].key[axis].to_string(),
                    values: Vec::new(),
                    out: 0,
                };
                let spans = frame.rows[*row].lineage.iter();
                let own = spans.filter(
                    |s| matches!(&s.source, LineageSource::Table(name) if **name == *table),
                );
                for at in own.flat_map(|span| span.start..span.end) {
                    behind.out += source.left_out.get(&place(at)).copied().unwrap_or(0);
                    behind.out += usize::from(source.refused.contains_key(&place(at)));
                    if let Some(value) = values.number(at, column) {
                        let labels = pooled.iter().map(|k| values.rows[at].key[*k].to_string());
                        behind.values.push((labels.collect(), value));
                    }
                }
                stage.behind.insert(*row, behind);
            }
            // A row without a value is not compared.
            rows.retain(|row| !stage.behind[row].values.is_empty());
            stage.groups.push(rows);
        }
        stage.set_own_apart(!asked.apart.is_empty());
        Ok(stage)
    }

    /// Drops from the labels those of axes that each side, or each row, numbers for itself.
    fn set_own_apart(&mut self, units_apart: bool) {
        let several = self.groups.iter().any(|rows| {
            let sides: BTreeSet<&String> = rows.iter().map(|row| &self.behind[row].side).collect();
            rows.len() > sides.len()
        });
        let own: Vec<bool> = (0..self.axes.len())
            .map(|axis| {
                let mut rows: BTreeMap<&str, BTreeMap<&str, BTreeSet<usize>>> = BTreeMap::new();
                for (row, behind) in &self.behind {
                    for (labels, _) in &behind.values {
                        let sides = rows.entry(labels[axis].as_str()).or_default();
                        sides.entry(behind.side.as_str()).or_default().insert(*row);
                    }
                }
                let apart = rows.values().all(|sides| sides.len() == 1);
                let single = rows
                    .values()
                    .filter(|sides| sides.values().all(|rows| rows.len() == 1));
                let single = 2 * single.count() > rows.len();
                apart || (units_apart && several && single && rows.len() > 1)
            })
            .collect();
        let drop_own = |labels: &mut Labels| {
            let mut own = own.iter();
            labels.retain(|_| !*own.next().unwrap_or(&false));
        };
        for behind in self.behind.values_mut() {
            behind
                .values
                .iter_mut()
                .for_each(|(labels, _)| drop_own(labels));
        }
        let mut axes = std::mem::take(&mut self.axes);
        self.own = axes
            .iter()
            .zip(&own)
            .filter(|(_, own)| **own)
            .map(|(axis, _)| axis.clone())
            .collect();
        drop_own(&mut axes);
        self.axes = axes;
    }

    /// Returns the groups of rows in which a figure may have to change.
    fn in_common(&self) -> Vec<(Vec<usize>, Common)> {
        let groups = self.groups.iter().filter(|rows| {
            let sides: BTreeSet<&String> = rows.iter().map(|row| &self.behind[row].side).collect();
            sides.len() > 1
        });
        groups
            .filter_map(|rows| Some((rows.clone(), self.in_common_of(rows)?)))
            .collect()
    }

    fn in_common_of(&self, rows: &[usize]) -> Option<Common> {
        let counted: Vec<BTreeMap<&Labels, usize>> = rows
            .iter()
            .map(|row| {
                let mut counts = BTreeMap::new();
                for (labels, _) in &self.behind[row].values {
                    *counts.entry(labels).or_insert(0) += 1;
                }
                counts
            })
            .collect();
        let changed = rows.iter().any(|row| self.behind[row].out > 0);
        if !changed && counted.windows(2).all(|w| w[0] == w[1]) {
            return None;
        }
        let (first, others) = counted.split_first()?;
        let shared = first
            .keys()
            .filter(|labels| others.iter().all(|c| c.contains_key(*labels)));
        let levels: BTreeSet<Labels> = shared.map(|labels| (*labels).clone()).collect();
        if levels.is_empty() {
            return Some(Common::Refused(format!(
                "the values of {} behind the two sides have no {} in common: compare tables in which it is a key",
                self.column,
                listed(&self.axes)
            )));
        }
        let totals: Vec<usize> = counted
            .iter()
            .map(|counts| levels.iter().map(|labels| counts[labels]).sum())
            .collect();
        let apart = |counts: &BTreeMap<&Labels, usize>, total: usize| {
            let share = |counts: &BTreeMap<&Labels, usize>, total: usize, labels: &Labels| {
                counts[labels] as f64 / total as f64
            };
            let apart = levels.iter().map(|labels| {
                (share(counts, total, labels) - share(first, totals[0], labels)).abs()
            });
            apart.sum::<f64>() / 2.0
        };
        let most = if self.requests { REQUESTS } else { 1e-9 };
        if counted
            .iter()
            .zip(&totals)
            .any(|(counts, total)| apart(counts, *total) > most)
        {
            let own = match self.own.is_empty() {
                true => "average the others first".to_owned(),
                false => format!(
                    "average over {} first, then over {}",
                    listed(&self.own),
                    listed(&self.axes)
                ),
            };
            return Some(Common::Refused(format!(
                "the sides have unlike numbers of values of {} at the labels of {}: {own}",
                self.column,
                listed(&self.axes)
            )));
        }
        let counts = [
            totals.iter().copied().min().unwrap_or(0),
            totals.iter().copied().max().unwrap_or(0),
        ];
        Some(Common::Shared { levels, counts })
    }

    /// Returns the values of a row at the shared levels, and the number of the others.
    fn values(&self, behind: &Behind, common: &Common) -> (Vec<f64>, usize) {
        let Common::Shared { levels, .. } = common else {
            return (Vec::new(), behind.values.len());
        };
        let kept = behind
            .values
            .iter()
            .filter(|(labels, _)| levels.contains(labels));
        let kept: Vec<f64> = kept.map(|(_, value)| *value).collect();
        let out = behind.values.len() - kept.len() + behind.out;
        (kept, out)
    }

    /// Explains why a statistic of unlike numbers of values cannot be compared.
    fn refusal_of_counts(&self, how: Statistic, common: &Common) -> Option<String> {
        let Common::Shared {
            counts: [least, most],
            ..
        } = common
        else {
            return None;
        };
        how.differs([*least, *most]).then(|| {
            format!(
                "some sides have {least} values of {} and some {most}, and an extreme or a spread depends on their number: \
                 measure as many on each side",
                self.column
            )
        })
    }

    fn cannot_repeat(&self) -> String {
        let axes = match self.axes.is_empty() {
            true => "levels".to_owned(),
            false => format!("labels of {}", listed(&self.axes)),
        };
        format!(
            "the values of {} behind the two sides are at unlike {axes}: compare the cells themselves",
            self.column
        )
    }
}

fn listed(axes: &[String]) -> String {
    let axes: Vec<String> = axes.iter().map(|axis| format!("`{axis}`")).collect();
    axes.join(" × ")
}
