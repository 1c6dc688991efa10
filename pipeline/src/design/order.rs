//! The order of the launches in a block.

use artifacts::Digest;

use super::UnitOrder;

/// Returns each block's launches in execution order. A block's order depends on the seed, the block's number and the
/// names of the launches, so adding blocks later does not change earlier ones.
pub(crate) fn sequence(
    order: UnitOrder,
    blocks: usize,
    launches: &[String],
    seed: u64,
) -> Vec<Vec<usize>> {
    let declared: Vec<usize> = (0..launches.len()).collect();
    let shuffled = |what: &str| {
        let mut all = declared.clone();
        all.sort_by_cached_key(|launch| {
            Digest::of(format!("design {seed} {what} {}", launches[*launch]).as_bytes()).hex()
        });
        all
    };
    let block = |number: usize| match order {
        UnitOrder::Declared => declared.clone(),
        UnitOrder::Randomised => shuffled(&format!("block {}", number + 1)),
        UnitOrder::Abba if number.is_multiple_of(2) => declared.clone(),
        UnitOrder::Abba => declared.iter().rev().copied().collect(),
        UnitOrder::LatinSquare => {
            let names = shuffled("square");
            let row = zigzag(launches.len());
            let at = |step: &usize| names[(step + number) % names.len()];
            row.iter().map(at).collect()
        }
    };
    (0..blocks).map(block).collect()
}

/// Returns the first row 0, 1, k − 1, 2, k − 2, … of a square whose other rows add 1 modulo k (Williams 1949): for an
/// even k, every launch follows every other launch equally often.
fn zigzag(k: usize) -> Vec<usize> {
    let step = |i: usize| if i % 2 == 1 { i.div_ceil(2) } else { k - i / 2 };
    (0..k).map(|i| step(i) % k).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|i| format!("configuration=c{i}")).collect()
    }

    fn of(order: UnitOrder, blocks: usize, launches: usize) -> Vec<Vec<usize>> {
        sequence(order, blocks, &names(launches), 164)
    }

    #[test]
    fn every_block_launches_everything_once() {
        use UnitOrder::{Abba, Declared, LatinSquare, Randomised};
        for order in [Abba, Declared, LatinSquare, Randomised] {
            for launches in 1..7 {
                for block in of(order, 2 * launches, launches) {
                    let all: BTreeSet<usize> = block.iter().copied().collect();
                    assert_eq!(all.len(), launches, "{order:?} {block:?}");
                    assert_eq!(block.len(), launches, "{order:?} {block:?}");
                }
            }
        }
    }

    #[test]
    fn a_random_order_differs_between_blocks_and_seeds_and_stays_when_blocks_are_added() {
        let five = of(UnitOrder::Randomised, 5, 4);
        assert_eq!(of(UnitOrder::Randomised, 8, 4)[..5], five[..]);
        assert!(five.iter().any(|block| *block != five[0]));
        let other = sequence(UnitOrder::Randomised, 5, &names(4), 165);
        assert_ne!(other, five);
    }

    #[test]
    fn abba_goes_there_and_back() {
        let abba = of(UnitOrder::Abba, 4, 3);
        assert_eq!(abba, [[0, 1, 2], [2, 1, 0], [0, 1, 2], [2, 1, 0]]);
    }

    #[test]
    fn in_a_latin_square_every_launch_takes_every_place_and_follows_every_other_equally_often() {
        for k in [2, 4, 6] {
            let square = of(UnitOrder::LatinSquare, k, k);
            for place in 0..k {
                let there: BTreeSet<usize> = square.iter().map(|row| row[place]).collect();
                assert_eq!(there.len(), k);
            }
            let pairs: BTreeSet<(usize, usize)> = square
                .iter()
                .flat_map(|row| row.windows(2).map(|w| (w[0], w[1])))
                .collect();
            assert_eq!(pairs.len(), k * (k - 1), "{square:?}");
        }
        let three = of(UnitOrder::LatinSquare, 3, 3);
        let first: BTreeSet<usize> = three.iter().map(|row| row[0]).collect();
        assert_eq!(first.len(), 3);
    }
}
