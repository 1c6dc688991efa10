//! Statistical procedures with published definitions.
//!
//! Pure functions over checked samples: no I/O, no clock, and the same bits for the same input
//! in whatever order its values come and at whatever number of threads. Every procedure names
//! its source and its variant (quantile type, zero handling, kind of bootstrap interval); the
//! folder `oracles` holds the vectors of SciPy and statsmodels they are held against.
//! An undefined result is `None`, never 0 and never NaN.

mod bootstrap;
mod correlation;
mod distribution;
mod effect;
mod equivalence;
mod exact_sum;
mod fit;
mod interval;
mod linearised;
mod multiplicity;
mod permutation;
mod random;
mod ranks;
mod resampling;
mod sample;
mod selection;
mod stratified;
mod survival;
mod tests_of_location;
mod urn;
mod wilcoxon;

pub use bootstrap::{Bootstrap, BootstrapKind, Interval};
pub use correlation::{Correlation, CorrelationKind, correlation};
pub use effect::{cliffs_delta, cohens_d, cohens_dz, cohens_h, hedges_g, rank_biserial};
pub use equivalence::{Tost, tost_paired, tost_welch};
pub use fit::{Fit, FitError, Model, fit};
pub use interval::{TInterval, t_interval};
pub use linearised::{Linearisation, fit_linearised};
pub use multiplicity::{benjamini_hochberg, holm};
pub use permutation::{PermutationTest, permutation_test_means, sign_flip_test};
pub use random::GENERATOR;
pub use ranks::{MidRanks, mid_ranks};
pub use sample::{Sample, SampleError};
pub use selection::Selection;
pub use stratified::{StratifiedRanks, Trend, kendall_trend, tarone_family, van_elteren};
pub use survival::{Step, Survival, kaplan_meier};
pub use tests_of_location::{
    MannWhitney, SignTest, StudentTest, mann_whitney_u, paired_t, pooled_t, sign_test, welch_t,
};
pub use wilcoxon::{Continuity, Method, Wilcoxon, ZeroHandling, wilcoxon_signed_rank};
