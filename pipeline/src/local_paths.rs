//! Paths of this machine that a log must not contain, because it may be published.

use std::path::{Path, PathBuf};

/// The paths, longest first, since one may contain another, each with the word that replaces it.
#[derive(Clone, Debug)]
pub struct LocalPaths(Vec<(String, &'static str)>);

impl LocalPaths {
    /// Collects the folders of the store and of the user, and further ones.
    #[expect(
        clippy::disallowed_methods,
        reason = "a log that may be published must not contain the user's folder"
    )]
    pub fn of(store: &Path, more: impl IntoIterator<Item = (PathBuf, &'static str)>) -> Self {
        let store = store.canonicalize().unwrap_or_else(|_| store.to_owned());
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let home = home.into_iter().map(|home| (home, "<home>"));
        Self::new(std::iter::once((store, "<store>")).chain(more).chain(home))
    }

    fn new(paths: impl IntoIterator<Item = (PathBuf, &'static str)>) -> Self {
        let text = |(path, word): (PathBuf, _)| Some((path.to_str()?.to_owned(), word));
        let mut paths: Vec<_> = paths.into_iter().filter_map(text).collect();
        paths.retain(|(path, _)| path.len() > 1);
        paths.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        Self(paths)
    }

    /// Replaces the paths in a text.
    pub fn mask(&self, text: String) -> String {
        let paths = self.0.iter();
        paths.fold(text, |text, (path, word)| text.replace(path.as_str(), word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_within_another_is_replaced_first() {
        let paths = [
            ("/home/ada", "<home>"),
            ("/home/ada/study/.benchtrail", "<store>"),
            ("/", "<root>"),
        ];
        let paths = LocalPaths::new(paths.map(|(path, word)| (PathBuf::from(path), word)));
        let text = "/home/ada/study/.benchtrail/x and /home/ada/y and /z".to_owned();
        assert_eq!(paths.mask(text), "<store>/x and <home>/y and /z");
    }
}
