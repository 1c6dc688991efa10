//! Variables of the environment whose names look like ours but are not read.

use pipeline::suggest::closest;

use crate::terminal::complain;

/// The beginning of the names.
const PREFIX: &str = "BENCHTRAIL";

/// The variables that users set.
const READ: [&str; 6] = [
    "BENCHTRAIL_AS",
    "BENCHTRAIL_BINARY",
    "BENCHTRAIL_HOST",
    "BENCHTRAIL_REMOTE",
    "BENCHTRAIL_STORE",
    "BENCHTRAIL_TRUST",
];

/// Warns of variables that nothing reads and whose names resemble one that is read. Otherwise, a misspelt
/// `BENCHTRAIL_STORE` would leave its store unused without a word.
#[expect(
    clippy::disallowed_methods,
    reason = "only names are compared; the values are not read"
)]
pub(crate) fn warn_of_misspelt() {
    for (name, _) in std::env::vars_os() {
        if let Some((name, meant)) = name.to_str().and_then(|name| Some((name, meant(name)?))) {
            complain(&format!(
                "warning: the variable {name} is not read; did you mean {meant}?"
            ));
        }
    }
}

/// Returns the variable that a name which nothing reads probably means.
fn meant(name: &str) -> Option<&'static str> {
    if READ.contains(&name) {
        return None;
    }
    let upper = name.to_uppercase();
    let (prefix, rest) = match upper.split_once('_') {
        Some(parts) => parts,
        None => upper.split_at_checked(PREFIX.len())?,
    };
    closest(prefix, [PREFIX])?;
    // The prefix is most of the name, so only the rest is compared.
    let rests = READ.iter().filter_map(|ours| ours.split_once('_'));
    let closest = closest(rest, rests.map(|(_, rest)| rest))?;
    READ.into_iter()
        .find(|ours| ours.ends_with(&format!("_{closest}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_that_resembles_one_of_ours_is_misspelt() {
        for (name, ours) in [
            ("BENCHTRAIL_STOR", "BENCHTRAIL_STORE"),
            ("BENCHTRAIL_REMOT", "BENCHTRAIL_REMOTE"),
            ("BENCHTRAILSTORE", "BENCHTRAIL_STORE"),
            ("benchtrail_store", "BENCHTRAIL_STORE"),
            ("BENCHTRIAL_STORE", "BENCHTRAIL_STORE"),
        ] {
            assert_eq!(meant(name), Some(ours), "{name}");
        }
        for name in [
            "BENCHTRAIL_STORE",
            "BENCHTRAIL_API_KEY",
            "BENCHTRAIL_LEASE",
            "BENCHTRAIL_PYTHON",
            "STORE",
            "HOME",
        ] {
            assert_eq!(meant(name), None, "{name}");
        }
    }
}
