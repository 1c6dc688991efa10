//! How a router or a balancer receives the addresses of the servers behind it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::command::SIDE_PORT;

/// The arguments that pass the members of a role to a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(extend("x-form" = "{each: [\"{url}\"]}"))]
pub struct PeerArguments {
    /// Whether the program also runs without this role. It always needs one of its roles.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// Arguments that appear once, before all members.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub first: Vec<String>,
    /// Arguments for each member, with `{url}`, `{host}`, `{port}` and `{side-port}`. Empty for servers that find each other:
    /// they only start before the program.
    pub each: Vec<String>,
    /// The text between members, if they share one argument (`a,b`); `each` then holds one text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join: Option<String>,
}

/// One server behind another, as arguments name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its base URL.
    pub url: String,
    /// The address it listens on.
    pub host: String,
    /// The port it listens on.
    pub port: String,
    /// The second port it listens on, if its definition uses one.
    pub side_port: String,
}

impl Peer {
    /// Returns the placeholders of a member, as a descriptor holds them.
    pub fn placeholder(member: &str) -> Self {
        Self {
            url: format!("{{{member}.url}}"),
            host: format!("{{{member}.host}}"),
            port: format!("{{{member}.port}}"),
            side_port: format!("{{{member}.side-port}}"),
        }
    }

    fn fill(&self, text: &str) -> String {
        // The inserted addresses contain no placeholder of these names.
        text.replace("{url}", &self.url)
            .replace("{host}", &self.host)
            .replace("{port}", &self.port)
            .replace(SIDE_PORT, &self.side_port)
    }
}

impl PeerArguments {
    /// Returns whether the arguments name a second port of each member.
    pub fn name_side_ports(&self) -> bool {
        self.each.iter().any(|text| text.contains(SIDE_PORT))
    }

    /// Returns the arguments for these members.
    pub fn render(&self, peers: &[Peer]) -> Vec<String> {
        let each = peers
            .iter()
            .flat_map(|peer| self.each.iter().map(|text| peer.fill(text)));
        let each: Vec<String> = match &self.join {
            Some(between) => vec![each.collect::<Vec<_>>().join(between)],
            None => each.collect(),
        };
        self.first.iter().cloned().chain(each).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_arguments_of_their_own_or_one_together() {
        let peers = ["a", "b"].map(Peer::placeholder);
        let mut arguments = PeerArguments {
            first: vec!["--workers".into()],
            each: vec!["{url}".into()],
            ..PeerArguments::default()
        };
        assert_eq!(
            arguments.render(&peers),
            ["--workers", "{a.url}", "{b.url}"]
        );
        arguments.join = Some(",".into());
        assert_eq!(arguments.render(&peers), ["--workers", "{a.url},{b.url}"]);
        let none = PeerArguments::default();
        assert!(none.render(&peers).is_empty());
        let each = PeerArguments {
            each: vec!["--prefill".into(), "{host}:{port}".into()],
            ..PeerArguments::default()
        };
        assert_eq!(
            each.render(&peers),
            [
                "--prefill",
                "{a.host}:{a.port}",
                "--prefill",
                "{b.host}:{b.port}"
            ]
        );
    }
}
