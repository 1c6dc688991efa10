//! One level for all tables of a study: weighted Holm along the tree of wholes and parts.

use std::collections::BTreeMap;

/// The share of the level reserved for tests that are parts of others. Without it, effects that cancel in the whole
/// could never be found in its parts.
const FOR_PARTS: f64 = 0.08;

/// The share of a rejected test's level that passes to the other tests of its group. The rest passes to its parts.
const TO_THE_GROUP: f64 = 0.6;

/// From this many tests on, tests that reach the level of a step are rejected together. This only lowers the recorded
/// levels of some of them.
const ONE_BY_ONE: usize = 2_000;

/// A test in a study with several tables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedTest {
    /// The p value.
    pub p: f64,
    /// The level that its table requests, at most that of the study.
    pub alpha: f64,
    /// The number of its table.
    pub table: usize,
    /// The position of the test whose values this one takes a part of. It may come before or after this test. Chains of
    /// parts must end.
    pub part_of: Option<usize>,
    /// Whether the whole has an effect only if one of its parts in this table has: its effect is a mean of theirs. The
    /// parts of one test in one table agree on this.
    pub makes_up: bool,
}

/// The decision about one test of a family.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HolmDecision {
    /// The adjusted p value.
    pub adjusted_p: f64,
    /// Whether the hypothesis is rejected: adjusted p at most alpha.
    pub rejected: bool,
    /// The two-sided level at which this test was decided. In a single table, it is Holm's: α/(m − j + 1) at step j, and
    /// α/(m − k) for all remaining tests after k rejections. The interval of level 1 − alpha excludes the null value exactly
    /// if the hypothesis is rejected. The smallest detectable effect is the one at this alpha.
    pub alpha: f64,
    /// The number of tests in the family.
    pub family: usize,
}

/// The tests of one table that are parts of the same test, or of none.
type Group = Vec<usize>;

/// The parts in one table that make up a test and have no parts themselves. If the test has an effect, one of them has.
struct MadeUp {
    whole: usize,
    parts: Group,
}

/// The relation of tests to their parts.
struct Tree<'a> {
    tests: &'a [SharedTest],
    /// The groups of tests that are not parts, one group per table.
    roots: Vec<Group>,
    /// The groups of the parts of each test.
    parts: Vec<Vec<Group>>,
    /// The parts in each table that has parts.
    reserved: Vec<Group>,
    /// The tests made up of their parts, by the table of the parts.
    made_up: BTreeMap<usize, Vec<MadeUp>>,
    /// The tests, each part before its whole.
    upward: Vec<usize>,
    /// The number of tables that have a share but no test here.
    others: usize,
}

fn grouped(tests: &[SharedTest], members: impl Iterator<Item = usize>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for test in members {
        let same = |group: &&mut Group| tests[group[0]].table == tests[test].table;
        match groups.iter_mut().find(same) {
            Some(group) => group.push(test),
            None => groups.push(vec![test]),
        }
    }
    groups
}

impl<'a> Tree<'a> {
    fn new(tests: &'a [SharedTest], others: usize) -> Self {
        let all = || 0..tests.len();
        let mut children: Vec<Group> = vec![Vec::new(); tests.len()];
        for test in all() {
            if let Some(whole) = tests[test].part_of {
                children[whole].push(test);
            }
        }
        let roots = grouped(tests, all().filter(|t| tests[*t].part_of.is_none()));
        let mut upward: Vec<usize> = roots.iter().flatten().copied().collect();
        let mut at = 0;
        while at < upward.len() {
            upward.extend(&children[upward[at]]);
            at += 1;
        }
        assert_eq!(upward.len(), tests.len(), "a test is part of itself");
        upward.reverse();
        let parts: Vec<Vec<Group>> = children
            .into_iter()
            .map(|parts| grouped(tests, parts.into_iter()))
            .collect();
        let mut made_up: BTreeMap<usize, Vec<MadeUp>> = BTreeMap::new();
        for (whole, groups) in parts.iter().enumerate() {
            for group in groups {
                let last = |t: &usize| tests[*t].makes_up && parts[*t].is_empty();
                if group.iter().all(last) {
                    let table = tests[group[0]].table;
                    let parts = group.clone();
                    made_up
                        .entry(table)
                        .or_default()
                        .push(MadeUp { whole, parts });
                }
            }
        }
        Self {
            roots,
            reserved: grouped(tests, all().filter(|t| tests[*t].part_of.is_some())),
            made_up,
            parts,
            tests,
            upward,
            others,
        }
    }

    /// Returns how many of a table's parts cannot be true if the rejected hypotheses are false. There is one for each
    /// rejected test that is made up of its parts there, as long as none of these is rejected.
    fn impossible(&self, table: usize, rejected: &[bool]) -> usize {
        let at = self.made_up.get(&table).map_or(&[][..], Vec::as_slice);
        let waits = |m: &&MadeUp| rejected[m.whole] && m.parts.iter().all(|p| !rejected[*p]);
        at.iter().filter(waits).count()
    }

    /// Returns the share of the level of each unrejected test, given the rejected ones. It depends only on the set of
    /// rejected tests and grows with it. If that set can be exactly the false hypotheses, the shares add up to 1 or
    /// less. So Bonferroni's inequality keeps the level at that set, and at every smaller one.
    fn shares(&self, rejected: &[bool]) -> Vec<f64> {
        let mut step = Shares {
            rejected,
            settled: vec![false; self.tests.len()],
            shares: vec![0.0; self.tests.len()],
        };
        for test in &self.upward {
            let parts = self.parts[*test].iter().flatten();
            step.settled[*test] = rejected[*test] && parts.into_iter().all(|p| step.settled[*p]);
        }
        let unrejected = |group: &&Group| group.iter().any(|t| !rejected[*t]);
        let reserved: Vec<&Group> = self.reserved.iter().filter(unrejected).collect();
        for group in &reserved {
            let left: Vec<usize> = group.iter().copied().filter(|t| !rejected[*t]).collect();
            let impossible = self.impossible(self.tests[group[0]].table, rejected);
            let can_be_true = left.len().saturating_sub(impossible).max(1);
            for test in &left {
                step.shares[*test] += FOR_PARTS / (reserved.len() * can_be_true) as f64;
            }
        }
        let whole = if reserved.is_empty() {
            1.0
        } else {
            1.0 - FOR_PARTS
        };
        self.divide(&self.roots, self.others, whole, &mut step);
        step.shares
    }

    /// Divides a share among the groups that are not settled and `others` further ones.
    fn divide(&self, groups: &[Group], others: usize, share: f64, step: &mut Shares<'_>) {
        let open = |group: &&Group| group.iter().any(|t| !step.settled[*t]);
        let open: Vec<&Group> = groups.iter().filter(open).collect();
        let each = share / (open.len() + others) as f64;
        for group in open {
            self.within(group, each, step);
        }
    }

    /// Divides the share of a group. Rejected tests pass theirs on, partly to the others, partly downward.
    fn within(&self, group: &Group, share: f64, step: &mut Shares<'_>) {
        let indices = |keep: &dyn Fn(usize) -> bool| -> Vec<usize> {
            group.iter().copied().filter(|t| keep(*t)).collect()
        };
        let left = indices(&|t| !step.rejected[t]);
        let open = indices(&|t| step.rejected[t] && !step.settled[t]);
        // If the group makes up a false test, its parts cannot all be true.
        let last = left.len() == group.len() && left.len() > 1;
        let makes_up = |t: &usize| self.tests[*t].makes_up && self.parts[*t].is_empty();
        let impossible = usize::from(last && left.iter().all(makes_up));
        let each = share / (left.len() + open.len() - impossible) as f64;
        let passed = if left.is_empty() {
            1.0
        } else {
            1.0 - TO_THE_GROUP
        };
        for test in &left {
            let from_others = TO_THE_GROUP * open.len() as f64 / left.len() as f64;
            step.shares[*test] += each * (1.0 + from_others);
        }
        for test in open {
            self.divide(&self.parts[test], 0, each * passed, step);
        }
    }
}

/// One step of the procedure.
struct Shares<'a> {
    rejected: &'a [bool],
    /// Tests that are rejected together with all their parts.
    settled: Vec<bool>,
    shares: Vec<f64>,
}

/// Returns the decisions on all tests of a study. The chance of any false rejection is at most the largest `alpha`
/// among them, and among tests with a smaller one at most that one.
///
/// Each table whose tests are not parts has an equal share of the level, and each test an equal share of its table's. A
/// rejected test passes its share on: six tenths to the others of its group and four tenths to its parts, or everything
/// to one if the other is settled. What a table no longer needs goes to the other tables. 8 % are reserved for parts
/// whose whole is not rejected. If the parts of a rejected test make it up, not all of them can be without an effect,
/// and the level is divided by one less (Shaffer, J. Amer. Statist. Assoc. 81, 1986). With one table and no parts, this
/// is Holm's procedure. It is a sequentially rejective, weighted Bonferroni procedure (Bretz, Maurer, Brannath & Posch,
/// Statist. Med. 28, 2009; Goeman & Solari, Ann. Statist. 38, 2010; for parts after their whole, Meinshausen,
/// Biometrika 95, 2008). The interval at the level of a decision excludes no effect exactly if it rejects.
///
/// `others` tables have an equal share but no test here; that share is the second value.
///
/// # Panics
/// If a level is not strictly between 0 and 1, or a test is part of itself.
pub fn shared_decisions(tests: &[SharedTest], others: usize) -> (Vec<HolmDecision>, f64) {
    let inside = |t: &SharedTest| t.alpha > 0.0 && t.alpha < 1.0;
    assert!(tests.iter().all(inside), "a level lies between 0 and 1");
    let tree = Tree::new(tests, others);
    let tables = tree.roots.len() + others;
    let kept = if tree.reserved.is_empty() {
        0.0
    } else {
        FOR_PARTS
    };
    let other = if tables == 0 {
        1.0
    } else {
        (1.0 - kept) / tables as f64
    };
    let most = tests.iter().map(|t| t.alpha).fold(0.0, f64::max);
    // A table that requests less takes part with proportionally larger p values.
    let scaled: Vec<f64> = tests.iter().map(|t| t.p * (most / t.alpha)).collect();
    let mut rejected = vec![false; tests.len()];
    let mut decisions: Vec<Option<HolmDecision>> = vec![None; tests.len()];
    let decide = |test: usize, adjusted: f64, share: f64| HolmDecision {
        adjusted_p: (adjusted * (tests[test].alpha / most)).min(1.0),
        rejected: adjusted <= most,
        alpha: tests[test].alpha * share,
        family: tests.len(),
    };
    let (mut level, mut last) = (0.0_f64, None);
    loop {
        let shares = tree.shares(&rejected);
        let left: Vec<usize> = (0..tests.len()).filter(|t| !rejected[*t]).collect();
        let ratio = |t: usize| scaled[t] / shares[t];
        let Some(next) = left
            .iter()
            .copied()
            .min_by(|a, b| ratio(*a).total_cmp(&ratio(*b)))
        else {
            break;
        };
        level = level.max(ratio(next));
        if level > most {
            last.get_or_insert_with(|| shares.clone());
        }
        if level >= 1.0 {
            for test in left {
                decisions[test] = Some(decide(test, 1.0, shares[test]));
            }
            break;
        }
        let together = |t: &usize| tests.len() > ONE_BY_ONE && ratio(*t) <= level;
        for test in left.into_iter().filter(|t| *t == next || together(t)) {
            decisions[test] = Some(decide(test, level, shares[test]));
            rejected[test] = true;
        }
    }
    // Unrejected tests were decided by the final shares.
    let decided = |(test, decision): (usize, Option<HolmDecision>)| {
        let decision = decision.expect("every test is decided");
        match &last {
            Some(shares) if !decision.rejected => HolmDecision {
                alpha: tests[test].alpha * shares[test],
                ..decision
            },
            _ => decision,
        }
    };
    (
        decisions.into_iter().enumerate().map(decided).collect(),
        other,
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::holm;

    fn test(p: f64, table: usize, part_of: Option<usize>) -> SharedTest {
        SharedTest {
            p,
            alpha: 0.05,
            table,
            part_of,
            makes_up: false,
        }
    }

    fn making_up(tests: &[SharedTest]) -> Vec<SharedTest> {
        let makes_up = |t: &SharedTest| SharedTest {
            makes_up: t.part_of.is_some(),
            ..*t
        };
        tests.iter().map(makes_up).collect()
    }

    fn read(tests: &[SharedTest]) -> Vec<(bool, f64)> {
        let (decisions, _) = shared_decisions(tests, 0);
        decisions.iter().map(|d| (d.rejected, d.alpha)).collect()
    }

    fn close(decided: &[(bool, f64)], expected: &[(bool, f64)]) {
        assert_eq!(decided.len(), expected.len());
        for (decided, expected) in decided.iter().zip(expected) {
            assert_eq!(decided.0, expected.0, "{decided:?}");
            assert!(
                (decided.1 - expected.1).abs() < 1e-12,
                "{decided:?}, not {expected:?}"
            );
        }
    }

    #[test]
    fn two_tables_share_the_level_and_one_passes_on_what_it_no_longer_needs() {
        let tests = [
            test(0.01, 0, None),
            test(0.02, 0, None),
            test(0.03, 1, None),
        ];
        // 0.01 ≤ 0.05/4, then 0.02 ≤ 0.05/2; then all of 0.05 remains for the other table.
        close(
            &read(&tests),
            &[(true, 0.0125), (true, 0.025), (true, 0.05)],
        );
        let (_, other) = shared_decisions(&tests, 1);
        assert!((other - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn parts_wait_for_their_whole_and_then_inherit_its_level() {
        // A whole with two parts, and a second whole without parts.
        let wholes = |p: f64| [test(p, 0, None), test(0.9, 0, None)];
        let parts = [test(0.004, 1, Some(0)), test(0.9, 1, Some(0))];
        let (reserve, own) = (0.004, 0.023);
        let mut tests = wholes(0.03).to_vec();
        tests.extend(parts);
        let waiting = [
            (false, own),
            (false, own),
            (false, reserve / 2.0),
            (false, reserve / 2.0),
        ];
        close(&read(&tests), &waiting);
        // Rejected at 0.023, the first whole passes 0.6 of it to the second one. The part with p 0.004 then has 0.002 +
        // 0.2 · 0.023, and passes that on to its sibling.
        tests[0].p = 0.02;
        let mut inherited = [
            (true, own),
            (false, 1.6 * own),
            (true, reserve / 2.0 + 0.2 * own),
            (false, reserve + 0.4 * own),
        ];
        close(&read(&tests), &inherited);
        // Two parts that make up a whole with an effect cannot both lack one, so each has everything that is left.
        inherited[2].1 = reserve + 0.4 * own;
        close(&read(&making_up(&tests)), &inherited);
        // A part far enough below its reserve is rejected even if its whole is not.
        tests[0].p = 0.9;
        tests[2].p = 0.0019;
        assert!(read(&tests)[2].0);
    }

    #[test]
    fn a_table_that_asks_for_less_is_held_to_it() {
        let mut tests = [test(0.012, 0, None), test(0.012, 1, None)];
        assert!(read(&tests).iter().all(|(rejected, _)| *rejected));
        tests[1].alpha = 0.01;
        let (decisions, _) = shared_decisions(&tests, 0);
        assert!(decisions[0].rejected && !decisions[1].rejected);
        assert!(decisions[1].adjusted_p > 0.01 && decisions[1].alpha <= 0.01);
    }

    /// Generates tests with parts, at most two levels deep.
    fn trees() -> impl Strategy<Value = Vec<SharedTest>> {
        let one = (
            0.0..0.2_f64,
            0_usize..3,
            any::<prop::sample::Index>(),
            any::<bool>(),
        );
        prop::collection::vec(one, 1..12).prop_map(|drawn| {
            let mut tests: Vec<SharedTest> = Vec::new();
            for (i, (p, table, whole, part)) in drawn.into_iter().enumerate() {
                let whole = (part && i > 0).then(|| whole.index(i));
                // A part lies in a different table from its whole.
                let table = whole.map_or(table, |w| tests[w].table + 1 + table);
                tests.push(test(p, table, whole));
            }
            tests
        })
    }

    /// Returns whether these can be exactly the false hypotheses, if every test with parts in a table is made up of
    /// them.
    fn can_be_all(tests: &[SharedTest], rejected: &[bool]) -> bool {
        let tree = Tree::new(tests, 0);
        let holds = |(whole, groups): (usize, &Vec<Group>)| {
            let one = |group: &Group| group.iter().any(|part| rejected[*part]);
            !rejected[whole] || groups.iter().all(one)
        };
        tree.parts.iter().enumerate().all(holds)
    }

    proptest! {
        #[test]
        fn one_table_without_parts_is_holms_procedure(p in prop::collection::vec(0.0..0.2_f64, 1..30)) {
            let tests: Vec<SharedTest> = p.iter().map(|p| test(*p, 0, None)).collect();
            let adjusted = holm(&p);
            let rejected = adjusted.iter().filter(|p| **p <= 0.05).count();
            for (i, decided) in shared_decisions(&tests, 0).0.iter().enumerate() {
                // Test j of those in order of p has α/(m − j + 1), and all tests after k rejections have α/(m − k).
                let before = |(j, other): (usize, &f64)| (*other, j) < (p[i], i);
                let step = p.iter().enumerate().filter(|o| before(*o)).count().min(rejected);
                prop_assert_eq!(decided.rejected, adjusted[i] <= 0.05);
                prop_assert!((decided.adjusted_p - adjusted[i]).abs() < 1e-12);
                prop_assert!((decided.alpha - 0.05 / (p.len() - step) as f64).abs() < 1e-12);
            }
        }

        #[test]
        fn shares_add_up_to_at_most_the_level_and_grow_with_what_is_rejected(
            tests in trees(), made_up in any::<bool>(), first in any::<u64>(), more in any::<u64>(), others in 0_usize..3,
        ) {
            let tests = if made_up { making_up(&tests) } else { tests };
            let tree = Tree::new(&tests, others);
            let decisions = |bits: u64| (0..tests.len()).map(|i| bits >> i & 1 == 1).collect::<Vec<_>>();
            let (few, many) = (decisions(first & more), decisions(first | more));
            let (before, after) = (tree.shares(&few), tree.shares(&many));
            for (shares, rejected) in [(&before, &few), (&after, &many)] {
                let left = shares.iter().zip(rejected).filter(|(_, r)| !**r);
                let sum: f64 = left.map(|(share, _)| share).sum();
                prop_assert!(sum <= 1.0 + 1e-12 || made_up && !can_be_all(&tests, rejected), "{}", sum);
            }
            for i in (0..tests.len()).filter(|i| !many[*i]) {
                prop_assert!(after[i] >= before[i] - 1e-12, "{} {} {}", i, before[i], after[i]);
                prop_assert!(before[i] > 0.0);
            }
        }

        #[test]
        fn intervals_at_the_level_of_a_decision_agree_with_it(tests in trees(), made_up in any::<bool>()) {
            let tests = if made_up { making_up(&tests) } else { tests };
            let (decisions, _) = shared_decisions(&tests, 0);
            for (test, decision) in tests.iter().zip(decisions) {
                prop_assert_eq!(decision.rejected, decision.adjusted_p <= test.alpha);
                prop_assert_eq!(decision.rejected, test.p <= decision.alpha * (1.0 + 1e-12));
            }
        }
    }
}
