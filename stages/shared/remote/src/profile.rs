//! Credentials and region from the files of Amazon's tools, if the environment has none.

use std::collections::BTreeMap;
use std::path::PathBuf;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as Setting};

/// Variables with credentials. If one is set, the files are not read.
const CHOSEN: [&str; 5] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];

#[expect(
    clippy::disallowed_methods,
    reason = "these variables configure Amazon's tools"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the profile `AWS_PROFILE` from the files of Amazon's tools.
fn chosen_profile() -> BTreeMap<String, String> {
    let file = |name: &str, default: &str| {
        let home = || {
            let home = PathBuf::from(variable("HOME")?);
            Some(home.join(".aws").join(default))
        };
        let path = variable(name).map(PathBuf::from).or_else(home)?;
        std::fs::read_to_string(path).ok()
    };
    let profile = variable("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
    let files = [
        file("AWS_CONFIG_FILE", "config"),
        file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
    ];
    let texts = files.iter().flatten();
    texts.flat_map(|text| section(text, &profile)).collect()
}

/// Returns the endpoint in the profile.
pub(crate) fn endpoint() -> Option<String> {
    chosen_profile().remove("endpoint_url")
}

/// Adds values of the profile `AWS_PROFILE` in `~/.aws/credentials` and `~/.aws/config`, if no variable sets them.
pub(crate) fn fill(mut builder: AmazonS3Builder) -> AmazonS3Builder {
    let profile = chosen_profile();
    let chosen = CHOSEN.iter().any(|name| variable(name).is_some());
    let settings: [(&str, Setting, &[&str]); 5] = [
        ("aws_access_key_id", Setting::AccessKeyId, &CHOSEN),
        ("aws_secret_access_key", Setting::SecretAccessKey, &CHOSEN),
        ("aws_session_token", Setting::Token, &CHOSEN),
        (
            "region",
            Setting::Region,
            &["AWS_REGION", "AWS_DEFAULT_REGION"],
        ),
        (
            "endpoint_url",
            Setting::Endpoint,
            &["AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"],
        ),
    ];
    for (name, setting, variables) in settings {
        let said = match name.starts_with("aws_") {
            true => chosen,
            false => variables.iter().any(|name| variable(name).is_some()),
        };
        if let Some(value) = profile.get(name).filter(|_| !said) {
            builder = builder.with_config(setting, value);
        }
    }
    builder
}

/// Returns the values of a profile in a file of Amazon's tools.
fn section(text: &str, profile: &str) -> BTreeMap<String, String> {
    let mut inside = false;
    let mut values = BTreeMap::new();
    for line in text.lines() {
        // Indented lines belong to a value that we do not need.
        if line.starts_with([' ', '\t', '#', ';']) {
            continue;
        }
        if let Some(title) = line.strip_prefix('[').and_then(|l| l.split(']').next()) {
            let title = title.trim();
            inside = title.strip_prefix("profile ").unwrap_or(title).trim() == profile;
        } else if let Some((name, value)) = line.split_once('=').filter(|_| inside) {
            values.insert(name.trim().to_lowercase(), value.trim().to_owned());
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_read_from_its_own_section_only() {
        let text = "[default]\naws_access_key_id = A\n# aws_session_token = T\ns3 =\n  region = x\n\
                    [profile lab]\nregion=eu-west-1\naws_access_key_id=B\n";
        let default = section(text, "default");
        assert_eq!(default["aws_access_key_id"], "A");
        assert!(!default.contains_key("region") && !default.contains_key("aws_session_token"));
        let lab = section(text, "lab");
        assert_eq!(
            (lab["region"].as_str(), lab["aws_access_key_id"].as_str()),
            ("eu-west-1", "B")
        );
        assert!(section(text, "other").is_empty());
    }
}
