//! Were two sides measured in turns? If all cells of one side come first, any drift of the machine is part of the
//! difference.

use std::collections::BTreeMap;

/// The largest share of pairs of cells in which the same side may come first if the sides were measured in turns. Blocks of one
/// launch of each side stay below it, whatever their order.
pub const IN_TURNS: f64 = 0.9;

/// When a cell of one of two sides started.
#[derive(Clone, Debug)]
pub struct Start {
    /// Whether the cell is of the first side.
    pub first: bool,
    /// The labels of its unit of replication; `None` without one.
    pub unit: Option<String>,
    /// The coordinates that it shares with the cells of the other side.
    pub at: String,
    /// Its start, in nanoseconds since 1970.
    pub unix_ns: i64,
}

/// The order in which two sides were measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Order {
    /// Whether the first side came first in at least half of the pairs of cells.
    first_leads: bool,
    /// The share of pairs in which the side that came first more often did, at least one half.
    pub share: f64,
}

impl Order {
    /// Returns the order of the cells of two sides; `None` without a pair.
    pub fn of(starts: &[Start]) -> Option<Self> {
        let share = share_first(starts)?;
        let first_leads = share >= 0.5;
        Some(Self {
            first_leads,
            share: if first_leads { share } else { 1.0 - share },
        })
    }

    /// Returns both sides, that which came first more often in front.
    pub fn sorted<T>(self, [a, b]: [T; 2]) -> [T; 2] {
        if self.first_leads { [a, b] } else { [b, a] }
    }

    /// Whether the sides were measured in turns.
    pub fn in_turns(self) -> bool {
        self.share <= IN_TURNS
    }
}

/// The side that was measured first in each unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstInEach {
    /// Whether it is the first side.
    first: bool,
    /// The number of units in which both sides were measured, at least two.
    pub units: usize,
}

impl FirstInEach {
    /// Returns the side that came first in each unit; `None` if that changed, or if fewer than two units have both sides. In a
    /// unit of several pairs of cells, a side came first if it did in more of them than [`IN_TURNS`].
    pub fn of(starts: &[Start]) -> Option<Self> {
        let mut by_unit: BTreeMap<&str, Vec<Start>> = BTreeMap::new();
        for start in starts {
            let unit = by_unit.entry(start.unit.as_deref()?).or_default();
            unit.push(start.clone());
        }
        let orders = by_unit.values().filter_map(|starts| Order::of(starts));
        let orders: Vec<Order> = orders.collect();
        let first = orders.first()?.first_leads;
        let same = |order: &Order| !order.in_turns() && order.first_leads == first;
        (orders.len() > 1 && orders.iter().all(same)).then_some(Self {
            first,
            units: orders.len(),
        })
    }

    /// Returns both sides, that which came first in front.
    pub fn sorted<T>(self, [a, b]: [T; 2]) -> [T; 2] {
        if self.first { [a, b] } else { [b, a] }
    }
}

/// Returns the share of pairs of cells at the same coordinates, one of each side, in which the first side started first. A pair
/// that started at the same time counts half. If the sides share no coordinates, every cell is paired with every cell of the
/// other side. `None` without a pair.
fn share_first(starts: &[Start]) -> Option<f64> {
    let mut by_place: BTreeMap<&str, [Vec<i64>; 2]> = BTreeMap::new();
    let mut all: [Vec<i64>; 2] = Default::default();
    for start in starts {
        let side = usize::from(!start.first);
        by_place.entry(&start.at).or_default()[side].push(start.unix_ns);
        all[side].push(start.unix_ns);
    }
    let counts = by_place.values().map(halves_first);
    let (halves, pairs) = counts.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    let (halves, pairs) = match pairs {
        0 => halves_first(&all),
        _ => (halves, pairs),
    };
    (pairs > 0).then(|| halves as f64 / (2.0 * pairs as f64))
}

/// Counts two for each pair in which the first side started first and one for each that started together, and the pairs.
fn halves_first([a, b]: &[Vec<i64>; 2]) -> (usize, usize) {
    let mut sorted = b.clone();
    sorted.sort_unstable();
    let halves = a.iter().map(|start| {
        let not_after = sorted.partition_point(|other| other < start);
        let together = sorted.partition_point(|other| other <= start) - not_after;
        2 * (sorted.len() - not_after - together) + together
    });
    (halves.sum(), a.len() * b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the starts of an order such as `abba`, one per second, at one place.
    fn order(sides: &str, at: &str) -> Vec<Start> {
        let start = |(second, side): (usize, char)| Start {
            first: side == 'a',
            unit: None,
            at: at.to_owned(),
            unix_ns: 1_000_000_000 * second as i64,
        };
        sides.chars().enumerate().map(start).collect()
    }

    #[test]
    fn one_side_after_the_other_is_no_turn() {
        assert_eq!(share_first(&order("aaabbb", "")), Some(1.0));
        assert_eq!(share_first(&order("bbbaaa", "")), Some(0.0));
        assert_eq!(share_first(&order("abba", "")), Some(0.5));
        // Blocks whose order never changes.
        assert_eq!(share_first(&order("abab", "")), Some(0.75));
        assert_eq!(share_first(&order("ababab", "")), Some(6.0 / 9.0));
        assert_eq!(share_first(&order("aaa", "")), None);
        let reversed = Order::of(&order("bbbaaa", "")).unwrap();
        assert_eq!(reversed.sorted(["a", "b"]), ["b", "a"]);
        assert_eq!((reversed.share, reversed.in_turns()), (1.0, false));
        assert!(Order::of(&order("ababab", "")).unwrap().in_turns());
        assert_eq!(share_first(&[]), None);
    }

    #[test]
    fn cells_are_paired_at_their_coordinates() {
        // At each level, one side comes first, although the levels mix the sides.
        let mut starts = order("aabb", "clients=1");
        starts.extend(order("----aabb", "clients=2").into_iter().skip(4));
        assert_eq!(share_first(&starts), Some(1.0));
        // Sides that differ in another coordinate, too, have no coordinates in common.
        let apart = |start: &Start| Start {
            at: format!("first={}", start.first),
            ..start.clone()
        };
        let starts: Vec<Start> = order("aabb", "").iter().map(apart).collect();
        assert_eq!(share_first(&starts), Some(1.0));
    }

    #[test]
    fn a_pair_that_starts_together_counts_half() {
        let together = |first| Start {
            first,
            unit: None,
            at: String::new(),
            unix_ns: 7,
        };
        assert_eq!(share_first(&[together(true), together(false)]), Some(0.5));
    }

    /// Returns the starts of units, each with its order.
    fn units(orders: &[&str]) -> Vec<Start> {
        let unit = |(unit, sides): (usize, &&str)| {
            let later = |start: Start| Start {
                unit: Some(format!("block={unit}")),
                unix_ns: start.unix_ns + 1_000_000_000_000 * unit as i64,
                ..start
            };
            order(sides, "").into_iter().map(later).collect::<Vec<_>>()
        };
        orders.iter().enumerate().flat_map(unit).collect()
    }

    #[test]
    fn the_same_side_may_come_first_in_each_unit() {
        let first = |orders: &[&str]| FirstInEach::of(&units(orders));
        let lead = first(&["ba", "ba", "ba"]).unwrap();
        assert_eq!((lead.units, lead.sorted(["a", "b"])), (3, ["b", "a"]));
        assert_eq!(first(&["ab", "ab", "ba"]), None);
        // A unit without one of the sides says nothing.
        assert_eq!(first(&["ab", "a", "ab"]).map(|lead| lead.units), Some(2));
        assert_eq!(first(&["ab", "b"]), None);
        // Within each unit, the sides take turns.
        assert_eq!(first(&["abba", "abba"]), None);
        assert_eq!(first(&["aabb", "ab"]).map(|lead| lead.units), Some(2));
        // Without units, there is none in which a side came first.
        assert_eq!(FirstInEach::of(&order("abab", "")), None);
    }
}
