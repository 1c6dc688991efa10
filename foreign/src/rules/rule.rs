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
    Bind "R-BIND" "The condition named in the text is the one under which the value was measured.";
    Grain "R-GRAIN" "A number carries its aggregation level: a cell is not a mean over cells.";
    Stat "R-STAT" "The statistic named (mean, median, P95, significant) is the one that gives the value.";
    Count "R-COUNT" "Counts reconcile: products of axes, sums of parts, members of a list.";
    RowSum "R-ROWSUM" "A total is the sum of its rows.";
    Arith "R-ARITH" "Percentages, ratios, differences and fits follow from their operands.";
    Ratio "R-RATIO" "A factor or order of magnitude holds for every pair it covers.";
    Base "R-BASE" "A relative change is taken from the base that its words name.";
    Quant "R-QUANT" "Every, all, none and bounds hold over the table.";
    Range "R-RANGE" "A range is the least and the greatest of the cells it covers.";
    Argmax "R-ARGMAX" "A superlative names the extreme cell.";
    Rank "R-RANK" "An ordering is the order of the values.";
    Mono "R-MONO" "A series called monotone is.";
    Win "R-WIN" "Counts of wins are the winners of the table.";
    Ident "R-IDENT" "Quantities that depend on each other agree.";
    Phys "R-PHYS" "Values respect physical roofs and reference curves.";
    Lic "R-LIC" "A fit has points to spare and is not read far beyond them.";
    Unit "R-UNIT" "Percent and points, ratio labels and dimensions are right.";
    Def "R-DEF" "A formula in a header combines values of one quantity.";
    Dup "R-DUP" "Equal values in sibling rows are to be confirmed.";
    Time "R-TIME" "A duration is the time between its ends.";
    Ref "R-REF" "Cross-references resolve.";
    Conf "R-CONF" "One configuration gives one value to a flag; command lines can be executed.";
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
