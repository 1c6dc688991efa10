//! Detects comparisons that are unfair regardless of their interval: one side lost cells, or its quantiles rest on fewer
//! values.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

use artifacts::Scalar;
use contract::{Better, IntervalEnd, Verdict};
use pipeline::CellStatus;

use crate::clock_steps::UnlikeSteps;
use crate::frame::{Absence, Frame, Level, Missing, rows_of};
use crate::lost_requests::LostRequests;
use crate::operators::alike::Kept;
use crate::operators::comparison::{Compared, Judged, Terms};
use crate::operators::uneven::Quantiles;
use crate::operators::units::Units;
use crate::operators::verdict::{End, Ends};

/// Rows of a table by the values of some of its keys, in order.
pub(crate) type Places = Vec<(Vec<Scalar>, Vec<usize>)>;

/// How far the shares of lost cells may differ between two sides before nothing is stated in favour of the side that
/// lost more. If that side lost its slowest cells, *not worse* at the margin is false in up to 7 % of studies below
/// this value, and in 19 % at a difference of one half. A single lost cell of ten or more does not matter.
pub(crate) const MATTERS: f64 = 0.1;

/// The share of an effect from which the steps of recorded times are worth a note.
const WORTH_A_NOTE: f64 = 0.1;

/// The end of a reason that withdraws a verdict.
const WOULD_NOT_HOLD: &str = ", and the verdict would not hold";

/// Whether so large a part of a whole was lost that what is left may be no fair sample of it.
pub(crate) fn lost_many(lost: usize, whole: usize) -> bool {
    lost as f64 > MATTERS * whole as f64
}

/// The findings that favor a side that lost more than the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flattered {
    /// That the first side is higher than the second, or than a bound.
    higher: bool,
    /// That it is lower.
    lower: bool,
}

impl Flattered {
    /// Returns the findings about a column that favor a side, 0 or 1. If neither direction is known to be better, any may.
    pub(crate) fn side(side: usize, column: &str, unit: Option<&str>) -> Self {
        let favours = |a_is_better: bool| usize::from(!a_is_better) == side;
        match Better::of(column, unit) {
            Some(better) => Self {
                higher: favours(better == Better::Higher),
                lower: favours(better == Better::Lower),
            },
            None => Self {
                higher: true,
                lower: true,
            },
        }
    }

    /// Whether such a finding is that the first side is higher, or lower.
    fn has(self, a_is_higher: bool) -> bool {
        match a_is_higher {
            true => self.higher,
            false => self.lower,
        }
    }

    /// Whether an end of an interval would show such a finding.
    pub(crate) fn withholds(self, end: IntervalEnd) -> bool {
        self.has(end == IntervalEnd::Lower)
    }
}

/// Returns the side that lost so much more that what is left flatters it: the second side's share less the first's.
fn flattered(apart: f64) -> Option<usize> {
    match apart {
        apart if apart > MATTERS => Some(1),
        apart if apart < -MATTERS => Some(0),
        _ => None,
    }
}

/// The cells of two sides that gave no result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Losses {
    /// The number of cells that each side lost.
    lost: [usize; 2],
    /// The number of cells of each side that the experiment excludes. They were not lost.
    excluded: [usize; 2],
    /// The second side's share of lost cells minus the first's.
    apart: f64,
}

impl Losses {
    /// Counts the cells without a value of a column on two sides of an axis, at the given values of the given keys.
    /// They are the cells that the table lacks with a reason, and those without a value at a coordinate at which the
    /// other side has one. A coordinate is a key without its units. A cell counts only if its side has this coordinate
    /// in other units and, if its row is absent, other rows in the same unit, anywhere in the table. If a side lacks a
    /// whole unit or coordinate, it may not have been planned.
    pub(crate) fn of(
        from: &Frame,
        (axis, sides): (&str, [&str; 2]),
        (names, values): (&[String], &[Scalar]),
        (column, units): (&str, &Units),
    ) -> Self {
        let listed = sides.map(|side| {
            let own = |m: &&Missing| {
                let label = m.get(axis).map(ToString::to_string);
                label.as_deref() == Some(side) && m.absence != Absence::Aggregate
            };
            let missing = from.missing_here(names, values).filter(own);
            missing.collect::<Vec<&Missing>>()
        });
        let place = |name: &String| from.keys.iter().position(|key| key == name);
        let at: Vec<(Option<usize>, &Scalar)> = names.iter().map(place).zip(values).collect();
        let here = |key: &[Scalar]| at.iter().all(|(k, v)| k.is_none_or(|k| key[k] == **v));
        let rows = (0..from.rows.len()).filter(|row| here(&from.rows[*row].key));
        let axis = from.keys.iter().position(|key| key == axis);
        let sided = axis.map(|axis| Sided::new(from, rows, (axis, sides), (column, units)));
        let (kept, unsaid) = sided.map_or(([0; 2], [0; 2]), |sided| {
            let [a, b] = [0, 1].map(|side| sided.unsaid(side, &listed[side]));
            (sided.kept, [a, b])
        });
        let by_the_experiment = |m: &&&Missing| m.absence == Absence::Ended(CellStatus::Excluded);
        let excluded = [0, 1].map(|side| listed[side].iter().filter(by_the_experiment).count());
        let lost = [0, 1].map(|side| listed[side].len() - excluded[side] + unsaid[side]);
        let share = |side: usize| lost[side] as f64 / (lost[side] + kept[side]).max(1) as f64;
        Self {
            lost,
            excluded,
            apart: share(1) - share(0),
        }
    }

    /// Groups the rows of a table by those of the given keys that it has.
    pub(crate) fn places(from: &Frame, names: &[String]) -> Places {
        let at = |name: &String| from.keys.iter().position(|key| key == name);
        from.groups(&names.iter().filter_map(at).collect::<Vec<_>>())
    }

    /// Counts the cells without a value of a column behind a figure of one side, at the given values of the given keys: the cells
    /// that the table lacks with a reason, and those without a value at a coordinate at which another unit has one. `places`
    /// are the rows of the table by these keys.
    pub(crate) fn of_one(
        (from, places): (&Frame, &Places),
        (names, values): (&[String], &[Scalar]),
        (column, units): (&str, &Units),
    ) -> Self {
        let here = names.iter().zip(values);
        let here = here.filter(|(name, _)| from.keys.contains(name));
        let here: Vec<Scalar> = here.map(|(_, value)| value.clone()).collect();
        let place = places.binary_search_by(|(key, _)| contract::compare_all(key, &here));
        let rows = place.map_or(&[][..], |at| &places[at].1[..]);
        // The requests of a cell are one cell.
        let of_request =
            |key: &String| from.level == Level::Row && ["request_id", "attempt"].contains(&&**key);
        let free = |k: &usize| !names.contains(&from.keys[*k]) && !of_request(&from.keys[*k]);
        let cell: Vec<usize> = (0..from.keys.len()).filter(free).collect();
        let within = cell.iter().copied();
        let within: Vec<usize> = within
            .filter(|k| !units.axes().contains(&from.keys[*k]))
            .collect();
        let labels = |row: usize, at: &[usize]| -> Vec<String> {
            let key = &from.rows[row].key;
            at.iter().map(|k| key[*k].to_string()).collect()
        };
        let (mut null, mut valued, mut kept) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for row in rows.iter().copied() {
            if from.number(row, column).is_some() {
                kept.insert(labels(row, &cell));
                valued.insert(labels(row, &within));
            } else if from.level != Level::Row {
                // Requests may lack a value for good reasons.
                null.push(labels(row, &within));
            }
        }
        // A row that pools several cells has a value without one of them.
        let has_value = |missing: &Missing| {
            let at = cell
                .iter()
                .map(|k| Some(missing.get(&from.keys[*k])?.to_string()));
            at.collect::<Option<Vec<String>>>()
                .is_some_and(|at| kept.contains(&at))
        };
        let listed: Vec<&Missing> = from.missing_here(names, values).collect();
        let unsaid = null.iter().filter(|place| valued.contains(*place)).count();
        let lost = listed.iter().filter(|m| m.is_lost() && !has_value(m));
        let lost = lost.count() + unsaid;
        let by_the_experiment = |m: &&&Missing| m.absence == Absence::Ended(CellStatus::Excluded);
        Self {
            lost: [lost, 0],
            excluded: [listed.iter().filter(by_the_experiment).count(), 0],
            apart: -(lost as f64 / (lost + kept.len()).max(1) as f64),
        }
    }

    /// Describes the losses behind a figure of one side.
    pub(crate) fn words_of_one(self) -> String {
        let [lost, _] = self.lost;
        let cells = if lost == 1 { "cell" } else { "cells" };
        format!(
            "{lost} {cells} gave no result: if they failed because they were slow, the others flatter the figure"
        )
    }

    /// Returns the side that lost far more cells than the other. If the lost cells were slow, the remaining ones
    /// flatter this side.
    pub(crate) fn flattered(self) -> Option<usize> {
        flattered(self.apart)
    }

    /// Describes the losses and the exclusions; `None` where both sides have equally many of each.
    pub(crate) fn words(self, [a, b]: [&str; 2]) -> Option<String> {
        let unlike = |[of_a, of_b]: [usize; 2]| {
            let cells = if of_a == 1 { "cell" } else { "cells" };
            (of_a != of_b).then(|| format!("{of_a} {cells} of {a} and {of_b} of {b}"))
        };
        let lost = unlike(self.lost).map(|cells| {
            format!(
                "{cells} gave no result: if they failed because they were slow, the others flatter that side"
            )
        });
        let excluded =
            unlike(self.excluded).map(|cells| format!("the experiment excludes {cells}"));
        let words: Vec<String> = lost.into_iter().chain(excluded).collect();
        (!words.is_empty()).then(|| words.join("; "))
    }
}

/// For each unit and coordinate with a row, whether the row has a value.
type Valued = BTreeMap<(Vec<String>, Vec<String>), bool>;

/// The rows of two sides, by the unit and by the coordinate within it.
struct Sided<'f> {
    /// The whole table, the position of the axis, and its labels on the two sides.
    table: (&'f Frame, usize, [&'f str; 2]),
    /// The names of the keys that form a unit, and of those that form a coordinate.
    names: [Vec<String>; 2],
    /// The rows of each side.
    rows: [Valued; 2],
    /// The number of values of each side.
    kept: [usize; 2],
}

impl<'f> Sided<'f> {
    fn new(
        from: &'f Frame,
        rows: impl Iterator<Item = usize>,
        (axis, sides): (usize, [&'f str; 2]),
        (column, units): (&str, &Units),
    ) -> Self {
        let is_unit = |k: &usize| units.axes().contains(&from.keys[*k]);
        let (unit, within): (Vec<usize>, Vec<usize>) = (0..from.keys.len())
            .filter(|k| *k != axis)
            .partition(is_unit);
        let names = |at: &[usize]| at.iter().map(|k| from.keys[*k].clone()).collect();
        let mut sided = Self {
            table: (from, axis, sides),
            names: [names(&unit), names(&within)],
            rows: [BTreeMap::new(), BTreeMap::new()],
            kept: [0; 2],
        };
        for row in rows {
            let key = &from.rows[row].key;
            let label = key[axis].to_string();
            let Some(side) = sides.iter().position(|side| *side == label) else {
                continue;
            };
            let labels = |at: &[usize]| at.iter().map(|k| key[*k].to_string()).collect();
            let valued = from.number(row, column).is_some();
            sided.kept[side] += usize::from(valued);
            sided.rows[side].insert((labels(&unit), labels(&within)), valued);
        }
        sided
    }

    /// Counts the cells of a side that have neither a value nor a reason, where the other side has a value.
    fn unsaid(&self, side: usize, listed: &[&Missing]) -> usize {
        let (own, other) = (&self.rows[side], &self.rows[1 - side]);
        fn places(rows: &Valued) -> BTreeSet<&[String]> {
            let valued = rows.iter().filter(|(_, valued)| **valued);
            valued.map(|((_, within), _)| within.as_slice()).collect()
        }
        let (own_places, other_places) = (places(own), places(other));
        let null = own.iter().filter(|((_, within), valued)| {
            let within = within.as_slice();
            !**valued && own_places.contains(within) && other_places.contains(within)
        });
        let units: BTreeSet<&Vec<String>> = own.keys().map(|(unit, _)| unit).collect();
        let is_listed = |unit: &[String], within: &[String]| {
            listed.iter().any(|missing| {
                let agrees = |(name, value): (&String, &String)| {
                    let label = missing.get(name).map(ToString::to_string);
                    label.is_none_or(|label| label == *value)
                };
                let mut unit = self.names[0].iter().zip(unit);
                let mut within = self.names[1].iter().zip(within);
                unit.all(agrees) && within.all(agrees)
            })
        };
        // Read once, and only if a unit of the other side is not among these rows.
        let planned = LazyCell::new(|| self.planned(side));
        let absent = other.iter().filter(|(place, valued)| {
            let (unit, within) = *place;
            **valued
                && !own.contains_key(*place)
                && own_places.contains(within.as_slice())
                && (units.contains(unit) || planned.contains(unit))
                && !is_listed(unit, within)
        });
        null.count() + absent.count()
    }

    /// The units in which a side has a row, at any coordinate of the whole table. The rows of one level do not show that a
    /// launch was planned.
    fn planned(&self, side: usize) -> BTreeSet<Vec<String>> {
        let (from, axis, sides) = self.table;
        let place = |name: &String| from.keys.iter().position(|key| key == name);
        let Some(at) = self.names[0].iter().map(place).collect::<Option<Vec<_>>>() else {
            return BTreeSet::new();
        };
        let own = from.rows.iter().map(|row| &row.key);
        let own = own.filter(|key| key[axis].to_string() == sides[side]);
        own.map(|key| at.iter().map(|k| key[*k].to_string()).collect())
            .collect()
    }
}

impl Terms {
    /// Adds to a verdict that one side lost more cells than the other, since its remaining cells may not be a fair
    /// sample. If it lost many more, nothing is stated in its favour.
    pub(super) fn with_losses<T>(
        &self,
        (from, (cells, column)): (&Frame, (&Frame, &str)),
        units: &Units,
        judged: &mut Judged<T>,
    ) {
        let (a, b) = self.pair.labels();
        let place = (self.by.as_slice(), judged.test.stratum.as_slice());
        let losses = Losses::of(cells, (&self.pair.axis, [&a, &b]), place, (column, units));
        let Some(caution) = losses.words([&a, &b]) else {
            return;
        };
        if judged.verdict.0 == Verdict::Undecidable {
            return;
        }
        if let Some(flattered) = losses.flattered() {
            self.withhold(from, judged, flattered);
        }
        judged.add_reason(&caution);
    }

    /// Withdraws the findings in favour of a side that lost more than the other.
    fn withhold<T>(&self, from: &Frame, judged: &mut Judged<T>, flattered: usize) {
        let name = &self.columns[judged.test.column];
        let unit = from.spec(name).and_then(|spec| spec.unit.as_deref());
        let mean = judged.test.mean.unwrap_or(0.0);
        let findings = Flattered::side(flattered, name, unit);
        let flatters = |a_is_higher: bool| findings.has(a_is_higher);
        let withheld = match judged.verdict.0 {
            Verdict::Different => flatters(mean > 0.0),
            Verdict::Equivalent => true,
            _ => false,
        };
        if withheld {
            judged.verdict = (Verdict::Undecidable, None);
        }
        judged.equivalence = judged.equivalence.filter(|(_, shown)| !shown);
        if let Some(ends) = &mut judged.ends {
            without_flattery(ends, flatters);
        }
    }

    /// Adds to a verdict that the sides lost requests within their cells. A finding is withdrawn if it would not be shown had
    /// every lost request been as slow as the slowest answer of either side at its place. Where a column does not tell what that would change,
    /// the rule for lost cells holds.
    pub(super) fn with_lost_requests<T>(
        &self,
        from: &Frame,
        lost: &LostRequests,
        judged: &mut Judged<T>,
    ) {
        if judged.verdict.0 == Verdict::Undecidable {
            return;
        }
        let (a, b) = self.pair.labels();
        let ([of_a, of_b], [n_a, n_b]) = (lost.lost, lost.asked);
        let counted =
            format!("{of_a} of {n_a} requests of {a} and {of_b} of {n_b} of {b} were lost");
        let moved = lost.shift.zip(judged.test.effect.as_ref().ok());
        let Some((shift, effect)) = moved else {
            let share = |side: usize| lost.lost[side] as f64 / lost.asked[side].max(1) as f64;
            let apart = share(1) - share(0);
            if let Some(flattered) = flattered(apart) {
                self.withhold(from, judged, flattered);
            }
            if of_a != of_b {
                judged.add_reason(&format!(
                    "{counted}: if they failed because they were slow, the others flatter that side"
                ));
            }
            return;
        };
        if shift == 0.0 {
            return;
        }
        let mean = effect.mean + shift;
        let stands = self.stands_if_moved(judged, shift).0;
        let size = self.scale.show_effect(mean);
        if !stands {
            judged.verdict = (Verdict::Undecidable, None);
        }
        let so = match stands {
            true => "",
            false => WOULD_NOT_HOLD,
        };
        judged.add_reason(&format!(
            "{counted}: if each had been as slow as the slowest answer of either side there, the effect would be {size}{so}"
        ));
    }

    /// Withdraws the findings at the margin that would not be shown were the effect another by some amount. Returns whether
    /// the verdict would hold, and whether a finding was withdrawn.
    fn stands_if_moved<T>(&self, judged: &mut Judged<T>, shift: f64) -> (bool, bool) {
        let Ok(effect) = judged.test.effect.as_ref() else {
            return (true, false);
        };
        let worst = effect.shifted(shift);
        let (before, case) = (judged.verdict.0, self.worst_case(judged, &worst));
        let (verdict, ends) = (case.judge().0, case.ends());
        let equivalent = case.equivalence().is_some_and(|(_, shown)| shown);
        let stands = match before {
            Verdict::Different => verdict == before && worst.mean * effect.mean > 0.0,
            Verdict::Equivalent => equivalent,
            _ => true,
        };
        let mut withdrawn = judged.equivalence.is_some_and(|(_, shown)| shown) && !equivalent;
        judged.equivalence = judged.equivalence.filter(|(_, shown)| !shown || equivalent);
        if let Some(own) = &mut judged.ends {
            let mut agrees = |end: &mut End, worst: Option<bool>| {
                let shown = end.shown;
                end.shown = shown.filter(|shown| Some(*shown) == worst);
                withdrawn |= end.shown != shown;
            };
            agrees(&mut own.not_lower, ends.and_then(|e| e.not_lower.shown));
            agrees(&mut own.not_higher, ends.and_then(|e| e.not_higher.shown));
        }
        (stands, withdrawn)
    }

    /// Withdraws findings that rest on the levels that some units lack: with the same weight for each level, they would not be
    /// shown.
    pub(super) fn with_missing_levels<T>(&self, judged: &mut Judged<T>) {
        let shift = judged.test.reweighed;
        let effect = match judged.test.effect.as_ref() {
            Ok(effect) if judged.verdict.0 != Verdict::Undecidable && shift != 0.0 => effect.mean,
            _ => return,
        };
        let (stands, withdrawn) = self.stands_if_moved(judged, shift);
        if stands && !withdrawn {
            return;
        }
        if !stands {
            judged.verdict = (Verdict::Undecidable, None);
        }
        let size = self.scale.show_effect(effect + shift);
        let so = match stands {
            true => "",
            false => WOULD_NOT_HOLD,
        };
        judged.add_reason(&format!(
            "some units lack levels at which the effect differs: if each level had the same weight, the effect would be \
             {size}{so}; measure the missing cells, or compare with `by`"
        ));
    }

    /// Adds to a verdict that the sides recorded their times in unlike steps. A finding is withdrawn if it would not be shown
    /// had the times been off by what their steps allow.
    pub(super) fn with_clock_steps<T>(&self, steps: &UnlikeSteps, judged: &mut Judged<T>) {
        judged.rounded = (steps.low, steps.high);
        let (before, effect) = match judged.test.effect.as_ref() {
            Ok(effect) if judged.verdict.0 != Verdict::Undecidable => {
                (judged.verdict.0, effect.mean)
            }
            _ => return,
        };
        let against = steps.against(effect);
        let both = [steps.low, steps.high].map(|shift| self.stands_if_moved(judged, shift));
        let stands = match before {
            Verdict::Different => self.stands_if_moved(judged, against).0,
            _ => both.iter().all(|(stands, _)| *stands),
        };
        let withdrawn = both.iter().any(|(_, withdrawn)| *withdrawn);
        let matters = before == Verdict::Different && against.abs() > WORTH_A_NOTE * effect.abs();
        if stands && !withdrawn && !matters {
            return;
        }
        let (a, b) = self.pair.labels();
        let size = self.scale.show_effect(effect + against);
        if !stands {
            judged.verdict = (Verdict::Undecidable, None);
        }
        let so = if stands { "" } else { WOULD_NOT_HOLD };
        judged.add_reason(&format!(
            "{}: a clock or a file rounded them, so the effect could be {size}{so}",
            steps.words([&a, &b])
        ));
    }

    /// Returns why figures of the sides cannot be compared because they pool unlike levels, and how many values were left
    /// out for this reason.
    pub(super) fn unlike_levels<'k, T>(
        &self,
        from: &Frame,
        alike: &'k Kept,
        test: &Compared<T>,
    ) -> (Option<&'k str>, Option<String>) {
        let column = &self.columns[test.column];
        let by: Vec<Option<usize>> = self
            .by
            .iter()
            .map(|by| from.keys.iter().position(|key| key == by))
            .collect();
        let here = |row: usize| {
            let mut at = by.iter().zip(&test.stratum);
            at.all(|(at, value)| at.is_none_or(|at| from.rows[row].key[at] == *value))
        };
        (
            alike.refusal(column, here),
            alike
                .note(column, &rows_of(&test.lineage))
                .or_else(|| self.unlike_means(from, test)),
        )
    }

    /// Notes that the means of the sides, as a file or a query gives them, are over different numbers of values. If one
    /// side lacks a slow level, its mean is lower for that reason alone. The levels are not known here. Means over requests
    /// have no levels.
    pub(super) fn unlike_means<T>(&self, from: &Frame, test: &Compared<T>) -> Option<String> {
        let stem = self.columns[test.column].strip_suffix("_mean")?;
        let counts = format!("{stem}_n");
        from.spec(&self.columns[test.column])
            .filter(|spec| spec.pools.is_none())?;
        from.spec(&counts).filter(|_| from.level != Level::Cell)?;
        let axis = from.keys.iter().position(|key| *key == self.pair.axis)?;
        let rows = rows_of(&test.lineage);
        let count = |side: &str| -> f64 {
            let on = |row: &&usize| from.rows[**row].key[axis].to_string() == side;
            let own = rows.iter().filter(on);
            own.filter_map(|row| from.number(*row, &counts)).sum()
        };
        let (a, b) = self.pair.labels();
        let (of_a, of_b) = (count(&a), count(&b));
        ((of_a - of_b).abs() > 0.5).then(|| {
            format!(
                "the means of {a} are over {of_a} values and those of {b} over {of_b}: if one side lacks slow levels, its \
                 mean is lower; compare the cells"
            )
        })
    }

    /// Explains why the quantiles of the sides cannot be compared.
    pub(super) fn uneven<T>(&self, from: &Frame, test: &Compared<T>) -> Option<String> {
        let quantiles = Quantiles::of(from, &self.columns[test.column], &self.pair.axis)?;
        let (a, b) = self.pair.labels();
        quantiles.refusal(&rows_of(&test.lineage), [&a, &b])
    }
}

/// Withdraws the findings that favour the side that lost more cells. "a is not lower" implies that a may be higher.
fn without_flattery(ends: &mut Ends, flatters: impl Fn(bool) -> bool) {
    if ends.not_lower.shown.is_some_and(&flatters) {
        ends.not_lower.shown = None;
    }
    if ends.not_higher.shown.is_some_and(|not| flatters(!not)) {
        ends.not_higher.shown = None;
    }
}
