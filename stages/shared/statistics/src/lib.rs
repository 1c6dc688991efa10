//! Statistical procedures with published definitions.
//!
//! Pure functions over checked samples: no I/O and no clock. The same input gives the same bits, in
//! any order of its values and with any number of threads. Every procedure names its source and its
//! variant (quantile type, zero handling, kind of bootstrap interval). The folder `oracles` holds
//! the vectors of SciPy, statsmodels and R that the tests compare with. An undefined result is
//! `None`, or a [`Refusal`] if a verdict needs the reason. It is never 0 or NaN.

mod bootstrap;
mod change_points;
mod correlation;
mod dependence;
mod dip;
mod distribution;
mod effect;
mod exact_sum;
mod fit;
mod friedman;
mod interaction;
mod interval;
mod kruskal;
mod launches;
mod linearised;
mod multiplicity;
mod outlier;
mod permutation;
mod power;
mod quantile_interval;
mod random;
mod ranks;
mod refusal;
mod resampling;
mod resemblance;
mod rounding;
mod sample;
mod selection;
mod sequential;
mod shared_level;
mod significant;
mod step;
mod stratified;
mod survival;
mod tests_of_location;
mod unit;
mod urn;
mod wilcoxon;

pub use bootstrap::{Bootstrap, BootstrapKind, Interval};
pub use change_points::{Changes, LEAST_FOR_A_CHANGE, Segment, changes, segments};
pub use correlation::{Correlation, CorrelationKind, correlation};
pub use dependence::{
    EffectiveSize, GroupedSize, effective_size, effective_size_in_groups, effective_size_of_waves,
    effective_sizes_of_quantiles, in_groups,
};
pub use dip::{Dip, dip_test};
pub use distribution::{normal_quantile, poisson_upper, student_critical, student_two_sided};
pub use effect::{cliffs_delta, cohens_d, cohens_dz, hedges_g, rank_biserial};
pub use fit::{Fit, FitError, Model, fit};
pub use friedman::{Friedman, friedman};
pub use interaction::opposite_directions;
pub use interval::{TInterval, share_interval, share_interval_of, t_interval};
pub use kruskal::{KruskalWallis, kruskal_wallis};
pub use launches::{LaunchQuantile, launch_quantile, quantiles_of_launches, shares_at_quantile};
pub use linearised::{Linearisation, fit_linearised};
pub use multiplicity::{benjamini_hochberg, holm};
pub use outlier::{LEAST_FOR_AN_OUTLIER, Outlier, outlier, outlier_ratio};
pub use permutation::{
    PermutationTest, permutation_tails_welch, permutation_test_means, permutation_test_welch,
    sign_flip_test,
};
pub use power::{power, smallest_detectable, smallest_shift_beyond};
pub use quantile_interval::{
    QuantileInterval, QuantileRanks, least_for_quantile, quantile_interval_of, quantile_ranks,
};
pub use random::{GENERATOR, Noise, Normals, box_muller};
pub use ranks::{MidRanks, mid_ranks, paired_differences};
pub use refusal::Refusal;
pub use resemblance::{
    GROUPS_LEVEL, Group, Resemblance, group_effect, group_resemblance, neighbours,
};
pub use rounding::{
    resolution, rounding_of_differences_over, rounding_of_logs, rounding_of_logs_over,
    rounding_of_ratios, rounding_of_ratios_over, rounding_of_values_over, shared_errors,
};
pub use sample::{QuantilePlace, Sample, SampleError, mean, quantile_of_sorted};
pub use selection::Selection;
pub use sequential::{ANYTIME_SPREAD, LEAST_LOOK, anytime_interval, anytime_level, e_value};
pub use shared_level::{HolmDecision, SharedTest, shared_decisions};
pub use significant::{scientific, significant, significant_without_zeros};
pub use step::time_step;
pub use stratified::{StratifiedRanks, Trend, kendall_trend, tarone_family, van_elteren};
pub use survival::{Step, Survival, kaplan_meier};
pub use tests_of_location::{
    MannWhitney, SignTest, StudentTest, mann_whitney_u, pooled_t, sign_test,
};
pub use unit::{
    Equivalence, GateOutcome, LEAST_CLUSTERS, LEAST_UNITS, Regression, RegressionGate, UnitEffect,
    indirect_effect, log_margin, log_ratios, unit_effect, unit_effect_rounded,
};
pub use wilcoxon::{Continuity, Method, Wilcoxon, ZeroHandling, wilcoxon_signed_rank};
