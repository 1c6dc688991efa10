//! The user's own folders of this program on this machine, by the XDG Base Directory Specification.

use std::ffi::OsString;
use std::path::PathBuf;

/// Returns the folder of the user's definitions for all projects; `None` if the environment names none.
pub fn configuration() -> Option<PathBuf> {
    by_environment("XDG_CONFIG_HOME", ".config")
}

/// Returns the folder of what must be remembered between runs, for all projects; `None` if the environment names none.
pub fn state() -> Option<PathBuf> {
    by_environment("XDG_STATE_HOME", ".local/state")
}

/// Returns the user's home folder; `None` if the environment names none.
#[expect(
    clippy::disallowed_methods,
    reason = "the system decides where the user's folders are"
)]
pub fn home() -> Option<PathBuf> {
    let home = PathBuf::from(std::env::var_os("HOME")?);
    Some(home).filter(|home| home.is_absolute())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the system decides where the user's folders are"
)]
fn by_environment(variable: &str, below_home: &str) -> Option<PathBuf> {
    let (named, home) = (std::env::var_os(variable), std::env::var_os("HOME"));
    Some(folder(named, home, below_home)?.join("benchtrail"))
}

/// Returns the folder that a variable names, or the usual one below the home folder. The specification says to ignore a
/// value that is not absolute, such as an empty one: it would be another folder in each working directory.
fn folder(named: Option<OsString>, home: Option<OsString>, below_home: &str) -> Option<PathBuf> {
    let absolute = |value: OsString| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
    named
        .and_then(absolute)
        .or_else(|| Some(home.and_then(absolute)?.join(below_home)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_absolute_is_ignored() {
        let home = "/home/ada";
        for (named, home, expected) in [
            (Some("/state"), Some(home), Some("/state")),
            (Some("/state"), None, Some("/state")),
            (None, Some(home), Some("/home/ada/.local/state")),
            (Some(""), Some(home), Some("/home/ada/.local/state")),
            (Some("state"), Some(home), Some("/home/ada/.local/state")),
            (Some("./state"), Some(""), None),
            (None, Some("ada"), None),
            (None, None, None),
        ] {
            let value = |text: Option<&str>| text.map(OsString::from);
            let chosen = folder(value(named), value(home), ".local/state");
            assert_eq!(chosen, expected.map(PathBuf::from), "{named:?} {home:?}");
        }
    }
}
