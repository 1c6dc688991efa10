//! The words of claims: relations, quantifiers, ranks, and words without weight.

/// The relation of one side to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    /// On the better side, whichever that is for the metric.
    Better,
    /// On the worse side.
    Worse,
    /// A larger number.
    More,
    /// A smaller number.
    Less,
    /// Changed, in either direction.
    Changed,
}

/// A rank in an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rank {
    /// Counted from the best; 1 is the best.
    Best(usize),
    /// The worst.
    Worst,
    /// The largest number.
    Largest,
    /// The smallest number.
    Smallest,
}

/// A quantifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Many {
    Every,
    No,
    Most,
    Few,
    Both,
}

/// The role of a word in a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sense {
    Relation(Relation),
    Rank(Rank),
    Many(Many),
    /// Precedes the other side.
    Than,
    /// The largest value along the levels.
    Peak,
    /// Makes the next number a bound: `less than`, `at least`.
    Below,
    Above,
    /// A kind of rows, whatever the table calls it.
    Noun,
    Tie,
    /// Gives the range of all the named numbers.
    Range,
    /// Numbers rise (`true`) or fall along the levels.
    Trend(bool),
    /// Excludes exceptions to a trend.
    Steadily,
    /// Negates the claim.
    Not,
    /// Carries no meaning by itself.
    Light,
}

/// The role of a word in its stemmed form; `None` if it may carry a condition.
pub(crate) fn sense(word: &str) -> Option<Sense> {
    use Relation::{Better, Changed, Less, More, Worse};
    Some(match word {
        "faster" | "better" | "lead" | "win" | "ahead" | "beat" | "outperform" | "gain"
        | "improve" | "improved" | "won" | "led" | "outperformed" | "improvement" | "quicker"
        | "fast" | "overtake" | "overtook" | "outpace" | "outpaced" | "surpass" | "surpassed" => {
            Sense::Relation(Better)
        }
        "slower" | "worse" | "trail" | "behind" | "lose" | "lost" | "regress" | "regressed"
        | "regression" | "trailed" | "slow" => Sense::Relation(Worse),
        "higher" | "more" | "larger" | "greater" | "bigger" | "longer" | "above" | "exceed"
        | "raise" | "raised" | "boost" | "boosted" => Sense::Relation(More),
        "lower" | "less" | "smaller" | "fewer" | "shorter" | "below" | "cut" | "reduce"
        | "reduced" | "lowered" | "shorten" | "shortened" | "save" | "saved" => {
            Sense::Relation(Less)
        }
        "change" | "changed" | "differ" | "differed" => Sense::Relation(Changed),
        "fastest" | "best" | "first" | "top" | "quickest" => Sense::Rank(Rank::Best(1)),
        "second" => Sense::Rank(Rank::Best(2)),
        "third" => Sense::Rank(Rank::Best(3)),
        "fourth" => Sense::Rank(Rank::Best(4)),
        "slowest" | "worst" | "last" => Sense::Rank(Rank::Worst),
        "highest" | "largest" | "greatest" | "biggest" | "longest" => Sense::Rank(Rank::Largest),
        "lowest" | "smallest" | "least" | "shortest" | "fewest" => Sense::Rank(Rank::Smallest),
        "every" | "all" | "each" | "any" | "always" | "everywhere" => Sense::Many(Many::Every),
        "no" | "none" | "never" | "nowhere" => Sense::Many(Many::No),
        "most" | "majority" => Sense::Many(Many::Most),
        "minority" => Sense::Many(Many::Few),
        "both" => Sense::Many(Many::Both),
        "than" | "against" | "versu" | "versus" | "vs" | "over" | "compared" | "relative" => {
            Sense::Than
        }
        "peak" | "peaked" | "maximum" => Sense::Peak,
        "under" | "within" => Sense::Below,
        "beyond" => Sense::Above,
        "model" | "trace" | "workload" | "task" | "case" | "row" | "cell" | "engine" | "system"
        | "setting" | "size" | "level" | "entry" | "test" | "benchmark" | "dataset" | "method"
        | "configuration" | "config" | "scenario" | "query" | "device" | "gpu" | "machine"
        | "platform" | "backend" | "request" | "metric" | "column" | "point" | "run" | "card"
        | "instance" | "accelerator" | "policy" | "format" | "technique" | "framework"
        | "runtime" | "store" | "variant" | "option" | "step" | "doubling" | "replica"
        | "library" | "implementation" | "algorithm" | "codec" | "server" | "length"
        | "database" | "broker" | "percentile" | "concurrency" => Sense::Noun,
        "range" | "ranged" | "span" | "spanned" | "vary" | "varied" | "lie" | "lay" => Sense::Range,
        "rise" | "rose" | "grow" | "grew" | "increase" | "increased" | "climb" | "climbed" => {
            Sense::Trend(true)
        }
        "fall" | "fell" | "drop" | "dropped" | "decrease" | "decreased" | "decline"
        | "declined" | "shrink" | "shrank" => Sense::Trend(false),
        "monotonically" | "steadily" | "monotonic" => Sense::Steadily,
        "cheapest" => Sense::Rank(Rank::Smallest),
        "tie" | "tied" => Sense::Tie,
        "not" => Sense::Not,
        "the" | "a" | "an" | "of" | "on" | "in" | "at" | "for" | "with" | "and" | "to" | "by"
        | "is" | "are" | "was" | "were" | "be" | "been" | "being" | "has" | "have" | "had"
        | "it" | "its" | "their" | "that" | "this" | "these" | "those" | "which" | "as"
        | "across" | "per" | "there" | "here" | "we" | "our" | "reach" | "reached" | "get"
        | "got" | "achieve" | "achieved" | "deliver" | "delivered" | "sustain" | "sustained"
        | "show" | "showed" | "shown" | "stay" | "stayed" | "remain" | "remained" | "keep"
        | "kept" | "take" | "took" | "taken" | "need" | "needed" | "use" | "used" | "using"
        | "draw" | "drew" | "produce" | "produced" | "serve" | "served" | "consume"
        | "consumed" | "provide" | "provided" | "yield" | "yielded" | "give" | "gave" | "post"
        | "posted" | "hold" | "held" | "offer" | "offered" | "require" | "required" | "ran"
        | "attain" | "attained" | "manage" | "managed" | "they" | "going" | "add" | "added"
        | "factor" | "just" | "nearly" | "about" | "roughly" | "approximately" | "almost"
        | "around" | "some" | "go" | "goe" | "goes" | "went" | "come" | "came" | "end"
        | "ended" | "only" | "still" | "even" | "also" | "again" | "overall" | "however" | "so"
        | "thu" | "thus" | "hence" | "then" | "too" | "respectively" | "from" | "where"
        | "measured" | "recorded" | "observed" | "report" | "reported" | "result" | "resulting"
        | "number" | "value" | "hit" | "scored" | "score" | "does" | "did" | "do" | "makes"
        | "make" | "made" | "while" | "when" | "seen" | "out" | "already" | "now" | "clearly"
        | "brought" | "bring" | "belong" | "belonged" | "exhibit" | "exhibited" | "record"
        | "see" | "saw" | "land" | "landed" | "sit" | "sat" | "return" | "returned"
        | "demonstrate" | "demonstrated" | "register" | "registered" | "maintain"
        | "maintained" | "boast" | "push" | "pushed" | "notably" | "interestingly" | "indeed"
        | "finally" | "therefore" | "moreover" | "furthermore" | "meanwhile" | "surprisingly"
        | "unsurprisingly" | "importantly" | "specifically" | "easily" | "comfortably" | "far"
        | "much" | "slightly" | "considerably" | "significantly" | "substantially" | "well"
        | "consistently" | "whole" | "entire" | "total" | "time" | "or" => Sense::Light,
        _ => return None,
    })
}

/// Whether a verb of relation takes the other side as its object: `A beats B`.
pub(crate) fn has_object(word: &str) -> bool {
    matches!(
        word,
        "beat"
            | "outperform"
            | "outperformed"
            | "overtake"
            | "overtook"
            | "outpace"
            | "outpaced"
            | "surpass"
            | "surpassed"
            | "exceed"
            | "trail"
            | "trailed"
            | "lead"
            | "led"
    )
}

/// Replaces synonyms by a single word for comparison.
pub(crate) fn canonical(word: &str) -> &str {
    match word {
        "average" | "avg" => "mean",
        "maximum" => "max",
        "minimum" => "min",
        "p50" => "median",
        "concurrency" | "conc" => "concurrency",
        "hour" => "h",
        other => other,
    }
}

/// Whether a word names a statistic. A sentence that names one is about no other.
pub(crate) fn is_statistic(word: &str) -> bool {
    matches!(
        canonical(word),
        "mean" | "median" | "max" | "min" | "geomean" | "std" | "variance" | "sum"
    ) || word
        .strip_prefix('p')
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether more is better for a metric, by its unit or its words; `None` if neither shows it.
pub(crate) fn more_is_better(unit: &str, words: &[String]) -> Option<bool> {
    if unit.ends_with("/s") || unit.ends_with("/min") || unit.contains("/w") {
        return Some(true);
    }
    if crate::number::measure(unit).0 == "time" {
        return Some(false);
    }
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    if has(MORE_IS_BETTER) {
        return Some(true);
    }
    has(LESS_IS_BETTER).then_some(false)
}

/// Words of metrics of which more is better, and of which less is.
#[rustfmt::skip]
const MORE_IS_BETTER: &[&str] = &[
    "throughput", "accuracy", "speedup", "qps", "rps", "goodput", "efficiency", "fps", "f1", "recall", "precision",
    "bleu",
];
#[rustfmt::skip]
const LESS_IS_BETTER: &[&str] = &[
    "latency", "ttft", "tpot", "itl", "error", "duration", "ppl", "perplexity", "loss", "memory", "wait", "failure",
];
