//! The source files of the page, embedded in the binary.

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asset {
    pub(crate) name: &'static str,
    pub(crate) media: &'static str,
    pub(crate) text: &'static str,
}

macro_rules! assets {
    ($($name:literal: $media:literal),* $(,)?) => {
        &[$(Asset {
            name: $name,
            media: $media,
            text: include_str!(concat!("../page/", $name)),
        }),*]
    };
}

/// Every file of the page; each module follows the modules that it imports.
#[cfg(feature = "page")]
pub(crate) const ASSETS: &[Asset] = assets! {
    "index.html": "text/html; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "dom.js": "text/javascript; charset=utf-8",
    "format.js": "text/javascript; charset=utf-8",
    "api.js": "text/javascript; charset=utf-8",
    "colour.js": "text/javascript; charset=utf-8",
    "table.js": "text/javascript; charset=utf-8",
    "drawer.js": "text/javascript; charset=utf-8",
    "studies.js": "text/javascript; charset=utf-8",
    "grid.js": "text/javascript; charset=utf-8",
    "report.js": "text/javascript; charset=utf-8",
    "tracks.js": "text/javascript; charset=utf-8",
    "plot.js": "text/javascript; charset=utf-8",
    "figures.js": "text/javascript; charset=utf-8",
    "cell.js": "text/javascript; charset=utf-8",
    "request.js": "text/javascript; charset=utf-8",
    "figure.js": "text/javascript; charset=utf-8",
    "plots.js": "text/javascript; charset=utf-8",
    "compare.js": "text/javascript; charset=utf-8",
    "history.js": "text/javascript; charset=utf-8",
    "data.js": "text/javascript; charset=utf-8",
    "live.js": "text/javascript; charset=utf-8",
    "scrolling.js": "text/javascript; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
};

/// Without the page, only the API is served.
#[cfg(not(feature = "page"))]
pub(crate) const ASSETS: &[Asset] = assets! {};

/// The description of the API.
pub(crate) const OPENAPI: &str = include_str!("../api/openapi.json");

/// Returns a file of the page.
pub(crate) fn find(name: &str) -> Option<Asset> {
    ASSETS.iter().find(|asset| asset.name == name).copied()
}

#[cfg(all(test, feature = "page"))]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_page_asks_nobody_else_and_runs_no_text() {
        for asset in ASSETS {
            for never in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
                "https://",
                "//cdn",
            ] {
                assert!(!asset.text.contains(never), "{}: {never}", asset.name);
            }
        }
    }

    #[test]
    fn modules_can_stand_in_one_file_because_no_two_share_a_name() {
        let mut seen = BTreeSet::new();
        for asset in ASSETS.iter().filter(|a| a.name.ends_with(".js")) {
            for line in asset.text.lines() {
                let line = line.strip_prefix("export ").unwrap_or(line);
                let line = line.strip_prefix("async ").unwrap_or(line);
                let Some((word, rest)) = line.split_once(' ') else {
                    continue;
                };
                if !["function", "const", "let", "class"].contains(&word) {
                    continue;
                }
                let end = |c: char| !c.is_alphanumeric() && c != '_' && c != '$';
                let name = rest.split(end).next().unwrap_or_default();
                assert!(
                    name.is_empty() || seen.insert(name),
                    "{}: a second `{name}`",
                    asset.name
                );
            }
        }
        assert!(seen.len() > 20);
    }

    #[test]
    fn a_module_imports_only_what_stands_before_it_on_one_line() {
        let mut before = BTreeSet::new();
        for asset in ASSETS.iter().filter(|a| a.name.ends_with(".js")) {
            for line in asset.text.lines().filter(|l| l.starts_with("import")) {
                let from = line.split('"').nth(1).unwrap_or_default();
                let name = from.strip_prefix("./").unwrap_or_default();
                assert!(before.contains(name), "{}: {line}", asset.name);
                assert!(!line.contains(" as "), "{}: {line}", asset.name);
            }
            before.insert(asset.name);
        }
    }
}
