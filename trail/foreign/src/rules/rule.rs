//! The names of the rules.

use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! rules {
    ($($name:ident $id:literal $meaning:literal;)*) => {
        /// A mechanical rule.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule { $(#[doc = $meaning] $name,)* }

        impl Rule {
            /// Every rule.
            pub const ALL: &[Rule] = &[$(Rule::$name),*];

            /// The name in reports and SARIF.
            pub fn id(self) -> &'static str {
                match self { $(Self::$name => $id),* }
            }

            /// What it checks, in a sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning),* }
            }
        }
    };
}

rules! {
    Shape "R-SHAPE" "Each row has as many cells as the header; an absent value is an explicit token.";
    Same "R-SAME" "One quantity has one value in tables, data and prose.";
    Bind "R-BIND" "The text names the condition under which the value was measured.";
    Grain "R-GRAIN" "A number has an aggregation level: a cell is not a mean over cells.";
    Stat "R-STAT" "The text names the statistic that gives the value (mean, median, P95, \
        significant).";
    Count "R-COUNT" "Counts agree with products of axes, sums of parts and members of lists.";
    RowSum "R-ROWSUM" "A total is the sum of its rows.";
    Arith "R-ARITH" "Percentages, ratios, differences and fits follow from their operands.";
    Ratio "R-RATIO" "A factor or order of magnitude holds for every pair it covers.";
    Base "R-BASE" "A relative change uses the base that the text names.";
    Quant "R-QUANT" "Claims with every, all, none or a bound hold over the table.";
    Range "R-RANGE" "A range gives the smallest and the largest of the cells it covers.";
    Argmax "R-ARGMAX" "A superlative names the extreme cell.";
    Rank "R-RANK" "An ordering matches the order of the values.";
    Mono "R-MONO" "A series called monotone is monotone.";
    Win "R-WIN" "Counts of wins match the winners in the table.";
    Ident "R-IDENT" "Quantities that depend on each other agree.";
    Phys "R-PHYS" "Values respect physical roofs and reference curves.";
    Lic "R-LIC" "A fit has more points than parameters and is not extrapolated far beyond them.";
    Unit "R-UNIT" "Percent and points, ratio labels and dimensions are right.";
    Def "R-DEF" "A formula in a header combines values of one quantity.";
    Dup "R-DUP" "Equal values in sibling rows need confirmation.";
    Time "R-TIME" "A duration equals the time between its ends.";
    Ref "R-REF" "Cross-references resolve.";
    Conf "R-CONF" "A configuration gives each flag one value; command lines can be executed.";
    Hash "R-HASH" "Digests are published in full.";
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}
