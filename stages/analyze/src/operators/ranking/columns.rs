//! The columns of a ranking: the figures of a contender, and its place among the others.

use super::Parameters;
use crate::columns::{Columns, listed};
use crate::frame::Spec;

/// One contender of a contest.
pub(super) struct Contender {
    pub(super) value: Option<f64>,
    /// The number of contenders with a value.
    pub(super) n: usize,
    pub(super) units: usize,
    /// The best contenders of the contest.
    pub(super) champions: Vec<String>,
    /// `None` without a value.
    pub(super) place: Option<Place>,
    pub(super) friedman_p: Option<f64>,
    pub(super) kruskal_p: Option<f64>,
    pub(super) evidence: String,
}

/// The place of a contender with a value.
pub(super) struct Place {
    pub(super) rank: usize,
    pub(super) mid_rank: f64,
    pub(super) rank_with_ties: usize,
    pub(super) tied: Vec<String>,
    /// `None` without units.
    pub(super) shown: Option<Shown>,
    pub(super) behind_best: Option<f64>,
    /// The smallest and largest rank in a unit, and the share of units with the overall rank.
    pub(super) stability: Option<(usize, usize, f64)>,
}

/// What the units show.
pub(super) struct Shown {
    pub(super) rank: usize,
    pub(super) with: Vec<String>,
}

/// Declares the columns, with the ranked one described by `of`.
pub(super) fn columns(spec: &Spec, given: &Parameters) -> Columns<'static, Contender> {
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
        all contenders; null for two contenders, and if units resemble each other";
    let kruskal = "p value of the Kruskal–Wallis test that no contender differs, if no unit has \
        two contenders; null otherwise, and if units resemble each other";
    let place =
        |read: fn(&Place) -> Option<usize>| move |c: &Contender| c.place.as_ref().and_then(read);
    Columns::new()
        .with(
            spec.like(
                &spec.name,
                format!(
                    "{}, mean over the units: geometric if every value is above 0",
                    spec.description
                ),
            ),
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
