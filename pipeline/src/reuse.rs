//! Whose measurements a study may use, and the name of this host in records.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::{Digest, Maker};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which measurements of others a study may use. Keys do not contain it. A study may always use what its lock names,
/// because the owner of the lock made that decision. It may use anybody's results of pure stages, because they follow
/// from their inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reuse {
    /// None.
    #[default]
    Never,
    /// Those made on this host.
    SameHost,
    /// Those made on any host with the same facets: all that have the cell's key.
    SameFacets,
}

impl Reuse {
    /// Returns the policy's word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::SameHost => "same-host",
            Self::SameFacets => "same-facets",
        }
    }

    /// Reads a policy from its word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Never, Self::SameHost, Self::SameFacets]
            .into_iter()
            .find(|reuse| reuse.word() == word)
    }

    /// Returns the narrowest policy that permits all of these makers.
    pub fn narrowest<'m>(makers: impl IntoIterator<Item = &'m Maker>, here: Option<&str>) -> Self {
        let mut makers = makers.into_iter();
        match makers.all(|maker| Self::SameHost.permits(maker, here)) {
            true => Self::SameHost,
            false => Self::SameFacets,
        }
    }

    /// Returns whether a measurement made by others may be used on this host.
    pub fn permits(self, maker: &Maker, here: Option<&str>) -> bool {
        match self {
            Self::Never => false,
            Self::SameHost => maker.host.is_some() && maker.host.as_deref() == here,
            Self::SameFacets => true,
        }
    }
}

/// Describes who made results, each with the host and the days.
pub fn makers_in_words(makers: impl IntoIterator<Item = Maker>) -> String {
    let mut people: BTreeMap<(Option<String>, Option<String>), BTreeSet<String>> = BTreeMap::new();
    for maker in makers {
        let day = maker
            .started
            .and_then(|s| Some(s.split_once('T')?.0.to_owned()));
        let days = people.entry((maker.by, maker.host)).or_default();
        days.extend(day);
    }
    let one = |((by, host), days): ((Option<String>, Option<String>), BTreeSet<String>)| {
        let by = by.unwrap_or_else(|| "somebody".to_owned());
        let host = host.map_or_else(
            || "an unknown host".to_owned(),
            |host| format!("host {host}"),
        );
        let days = match (days.first(), days.last()) {
            (Some(first), Some(last)) if first == last => format!(", {first}"),
            (Some(first), Some(last)) => format!(", {first} to {last}"),
            _ => String::new(),
        };
        format!("{by} ({host}{days})")
    };
    people
        .into_iter()
        .map(one)
        .collect::<Vec<_>>()
        .join(" and ")
}

/// The variable with this host's name.
const NAME: &str = "BENCHTRAIL_HOST";

/// Returns the name of this host in records: the value of `BENCHTRAIL_HOST`, or `host-` and 10 hexadecimal digits. The
/// digits are derived from the machine's identity and its network name but reveal neither. `None` if the machine has no
/// identity.
#[expect(
    clippy::disallowed_methods,
    reason = "users may give the host a name that readers understand"
)]
pub fn this_host() -> Option<String> {
    if let Some(name) = std::env::var(NAME).ok().filter(|name| !name.is_empty()) {
        return Some(name);
    }
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let node = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    if machine.trim().is_empty() && node.is_empty() {
        return None;
    }
    let identity = Digest::of(format!("benchtrail host {} {node}", machine.trim()).as_bytes());
    Some(format!("host-{}", &identity.hex()[..10]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makers_are_named_with_their_hosts_and_the_days_of_their_work() {
        let maker = |by: &str, day: &str| Maker {
            host: Some("box".into()),
            by: (!by.is_empty()).then(|| by.to_owned()),
            started: Some(format!("2026-11-{day}T10:00:00Z")),
        };
        let makers = [
            maker("Ada", "03"),
            maker("Ada", "01"),
            maker("", "02"),
            Maker::default(),
        ];
        assert_eq!(
            makers_in_words(makers),
            "somebody (an unknown host) and somebody (host box, 2026-11-02) and Ada (host box, 2026-11-01 to 2026-11-03)"
        );
    }

    #[test]
    fn each_policy_permits_what_its_name_says() {
        let maker = |host: Option<&str>| Maker {
            host: host.map(str::to_owned),
            ..Maker::default()
        };
        let permitted = |reuse: Reuse| {
            [maker(Some("a")), maker(Some("b")), maker(None)]
                .map(|maker| reuse.permits(&maker, Some("a")))
        };
        assert_eq!(permitted(Reuse::Never), [false, false, false]);
        assert_eq!(permitted(Reuse::SameHost), [true, false, false]);
        assert_eq!(permitted(Reuse::SameFacets), [true, true, true]);
        // Two hosts without a name may be different hosts.
        assert!(!Reuse::SameHost.permits(&maker(None), None));
    }
}
