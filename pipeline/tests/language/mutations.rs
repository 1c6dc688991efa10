//! Texts from other parties give an error or a value, never a panic and never memory without bound.
//! `PROPTEST_CASES=20000 cargo test -p pipeline --test language mutations` tries more.

use std::path::Path;

use pipeline::Options;
use pipeline::lock::Lock;
use pipeline::place::{CellName, CellPattern, Condition};
use pipeline::record::Record;
use pipeline::stage::Coordinates;
use proptest::prelude::*;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::expansion::{VALID, load};

/// The address space limit of this process, in bytes.
const MEMORY: u64 = 4 << 30;

fn bound_memory() {
    let limit = Rlimit {
        current: Some(MEMORY),
        maximum: getrlimit(Resource::As).maximum,
    };
    setrlimit(Resource::As, limit).expect("a lower limit can always be set");
}

/// Pieces that a careless or hostile author puts into a text.
fn scrap() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<char>().prop_map(|c| c.to_string()),
        prop::sample::select(vec![
            "&a ",
            "*a",
            "<<: *a",
            "${",
            "}",
            "[",
            "]",
            "{",
            "}",
            "- ",
            ": ",
            "\n",
            "\t",
            "\"",
            "'",
            "|",
            ">",
            "!!binary ",
            "---\n",
            "...\n",
            "? ",
            "# ",
            "%YAML 9\n",
            "1e999",
            ".nan",
            "-9223372036854775809",
            "../../x",
            "\u{feff}",
            "\u{202e}",
            "\0",
            "b3:",
            "earlier ok ",
            "=",
            ",",
            "|",
        ])
        .prop_map(str::to_owned),
        (1_usize..2000).prop_map(|n| "[".repeat(n)),
        (1_usize..2000).prop_map(|n| "9".repeat(n)),
    ]
}

/// Replaces parts of a text with scraps.
fn mutated(text: &str, edits: &[(prop::sample::Index, usize, String)]) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for (place, length, scrap) in edits {
        let from = place.index(characters.len() + 1);
        let to = (from + length).min(characters.len());
        characters.splice(from..to, scrap.chars());
    }
    characters.into_iter().collect()
}

fn edits() -> impl Strategy<Value = Vec<(prop::sample::Index, usize, String)>> {
    prop::collection::vec((any::<prop::sample::Index>(), 0_usize..12, scrap()), 1..6)
}

const LOCK: &str = "benchtrail lock 2
experiment \"open-loop\"
profile \"smoke\"
seed 271
stage \"arrivals\" measurement
ok configuration=batched,rate=1.0,rep=1 b3:1111111111111111111111111111111111111111111111111111111111111111 b3:2222222222222222222222222222222222222222222222222222222222222222 b3:3333333333333333333333333333333333333333333333333333333333333333
failed configuration=serial,rate=1.0,rep=1 - - - \"no token within 30 s\"
excluded configuration=serial,rate=4.0,rep=1 - - - \"too slow on this machine\"
";

proptest! {
    #[test]
    fn an_experiment_is_refused_or_read(edits in edits()) {
        bound_memory();
        if let Err(error) = load(&mutated(VALID, &edits), &Options::default()) {
            prop_assert!(error.contains("error: "), "{}", error);
        }
    }

    #[test]
    fn a_lock_is_refused_or_read_as_it_is_written(edits in edits()) {
        bound_memory();
        if let Ok(lock) = Lock::parse(&mutated(LOCK, &edits), Path::new("x.lock")) {
            let text = lock.to_text();
            prop_assert_eq!(Lock::parse(&text, Path::new("x.lock")).unwrap().to_text(), text);
        }
    }

    #[test]
    fn a_record_is_refused_or_read(edits in edits(), bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        bound_memory();
        let text = "{\"format\": 1, \"experiment\": \"e\", \"outputs\": {\"a\": {\"digest\": \"b3:1\"}}}";
        let _ = Record::parse(mutated(text, &edits).as_bytes());
        prop_assert!(Record::parse(&bytes).is_err());
    }

    #[test]
    fn coordinates_conditions_and_patterns_are_refused_or_mean_what_they_say(edits in edits()) {
        bound_memory();
        let text = mutated("ladder[configuration=batched,rate=1.0,rep=1|2].requests", &edits);
        let _ = text.parse::<CellPattern>();
        let _ = text.parse::<CellName>();
        let text = mutated("configuration=batched,rate=1.0,label=\"a, b\"", &edits);
        let _ = text.parse::<Condition>();
        if let Ok(coordinates) = text.parse::<Coordinates>() {
            let again: Coordinates = coordinates.to_string().parse().unwrap();
            prop_assert_eq!(again, coordinates);
        }
    }
}
