//! The requests that two studies lost.
//!
//! The figures of a cell describe its answered requests. If requests failed because they were slow, the answered ones flatter
//! their study. The tables of cells count both.

use std::collections::BTreeMap;

use artifacts::Table;

use crate::tables::row_key;

/// The requests of some cells, and those of them that were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Requests {
    pub(crate) all: f64,
    pub(crate) answered: f64,
}

impl Requests {
    fn lost(self) -> f64 {
        self.all - self.answered
    }

    fn lost_share(self) -> f64 {
        match self.all > 0.0 {
            true => self.lost() / self.all,
            false => 0.0,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            all: self.all + other.all,
            answered: self.answered + other.answered,
        }
    }
}

/// The requests of both studies at every coordinate.
pub(crate) struct Counts {
    sides: [BTreeMap<String, Requests>; 2],
    /// How much larger a share of its requests the newer study may lose.
    allowed: f64,
}

/// What a larger share of lost requests does to a column.
#[derive(Debug, PartialEq)]
pub(crate) enum Loss {
    /// The rule allows it.
    Allowed(String),
    /// The column may look better than it is.
    Flatters(String),
}

impl Loss {
    /// Returns the reason why the column cannot pass.
    pub(crate) fn flatters(self) -> Option<String> {
        match self {
            Self::Allowed(_) => None,
            Self::Flatters(reason) => Some(reason),
        }
    }
}

impl Counts {
    /// Counts the requests of the older and the newer study. `places` are the axes that give a row's coordinate, and
    /// `allowed` is how much larger a share of its requests the newer study may lose.
    pub(crate) fn new(tables: [&Table; 2], places: &[String], allowed: f64) -> Self {
        Self {
            sides: tables.map(|table| of_table(table, places)),
            allowed,
        }
    }

    /// Returns the requests of both studies at one coordinate, or at all that both have.
    pub(crate) fn at(&self, place: Option<&str>) -> [Requests; 2] {
        let [older, newer] = &self.sides;
        let shared = older.iter().filter_map(|(at, a)| {
            let wanted = place.is_none_or(|place| place == at);
            wanted.then(|| Some([*a, *newer.get(at)?])).flatten()
        });
        shared.fold([Requests::default(); 2], |[a, b], [c, d]| {
            [a.plus(c), b.plus(d)]
        })
    }

    /// Explains that the newer study lost a larger share of its requests; `None` if it did not, or if the column counts
    /// the lost requests itself.
    pub(crate) fn loss(&self, column: &str, place: Option<&str>) -> Option<Loss> {
        let [older, newer] = self.at(place);
        let more = newer.lost_share() - older.lost_share();
        if more <= 0.0 || counts_losses(column) {
            return None;
        }
        let text = format!(
            "{} of {} requests of the newer study were lost, and {} of {} of the older one",
            newer.lost(),
            newer.all,
            older.lost(),
            older.all
        );
        Some(match more <= self.allowed {
            true => Loss::Allowed(format!("{text}, as `--lost-requests` allows")),
            false => Loss::Flatters(format!("{text}: the lost requests may have been slow")),
        })
    }
}

fn of_table(table: &Table, places: &[String]) -> BTreeMap<String, Requests> {
    let count = |column: &str| table.float(column).unwrap_or_default();
    let mut requests: BTreeMap<String, Requests> = BTreeMap::new();
    for (row, (all, answered)) in count("n_rows").into_iter().zip(count("n_ok")).enumerate() {
        if let (Some(all), Some(answered)) = (all, answered) {
            let here = requests.entry(row_key(table, places, row)).or_default();
            *here = here.plus(Requests { all, answered });
        }
    }
    requests
}

/// Whether a column counts lost requests, so that it cannot hide them.
fn counts_losses(column: &str) -> bool {
    is_share_of_requests(column)
        || ["n_ok", "n_rows", "n_met", "slo_pass_rate"].contains(&column)
        || ["error_rate", "failed", "goodput"]
            .iter()
            .any(|word| column.contains(word))
}

/// Whether a column is the share of answered requests.
pub(crate) fn is_share_of_requests(column: &str) -> bool {
    column == "ok_rate"
}

#[cfg(test)]
mod tests {
    use artifacts::Column;

    use super::*;

    #[test]
    fn a_larger_share_of_lost_requests_flatters_every_column_that_does_not_count_them() {
        let table = |ok: [i64; 2]| {
            let columns = vec![
                Column::int("clients", [Some(1), Some(4)]),
                Column::int("n_rows", [Some(50), Some(50)]),
                Column::int("n_ok", ok.map(Some)),
            ];
            Table::with_metadata(columns, &[("keys", "clients")]).unwrap()
        };
        let allowing =
            |allowed, a, b| Counts::new([&table(a), &table(b)], &["clients".to_owned()], allowed);
        let worse = allowing(0.0, [50, 49], [50, 25]);
        assert_eq!(
            worse.loss("ttft_ms_p50", None),
            Some(Loss::Flatters(
                "25 of 100 requests of the newer study were lost, and 1 of 100 of the older one: the lost requests may have \
                 been slow"
                    .to_owned()
            ))
        );
        assert_eq!(worse.loss("ttft_ms_p50", Some("clients=1")), None);
        assert!(worse.loss("output_throughput", Some("clients=4")).is_some());
        for column in ["ok_rate", "n_met", "slo_pass_rate", "goodput"] {
            assert_eq!(worse.loss(column, None), None);
        }
        // The older study may have lost more.
        let better = allowing(0.0, [50, 25], [50, 49]);
        assert_eq!(better.loss("ttft_ms_p50", None), None);
        // A loss that the rule allows over all coordinates may be too large at one of them.
        let lenient = allowing(0.3, [50, 49], [50, 25]);
        assert!(matches!(
            lenient.loss("ttft_ms_p50", None),
            Some(Loss::Allowed(_))
        ));
        assert!(matches!(
            lenient.loss("ttft_ms_p50", Some("clients=4")),
            Some(Loss::Flatters(_))
        ));
    }
}
