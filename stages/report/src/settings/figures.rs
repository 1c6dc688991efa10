//! Checks the settings of a figure.

use std::collections::BTreeMap;

use pipeline::OutputName;
use pipeline::stage::{Json, Problem};
use serde_json::json;

use super::{FigureKind, FigureSettings, Named, figure_output};
use crate::format::check_format;

/// Returns the keys that a figure of a kind needs in addition to those of every figure.
fn needs(kind: FigureKind) -> &'static [&'static str] {
    match kind {
        FigureKind::Ecdf => &[],
        FigureKind::Bar
        | FigureKind::Box
        | FigureKind::Ladder
        | FigureKind::Scatter
        | FigureKind::Timeline => &["y"],
        FigureKind::Bubble | FigureKind::HeatMap | FigureKind::Matrix => &["y", "value"],
        FigureKind::Fit => &["y", "fit"],
        FigureKind::Forest => &["y", "band"],
    }
}

/// Returns the conditions of the schema under which these keys are required, so that all missing keys are reported at once.
pub(super) fn required_by_kind() -> Json {
    const ALL: [FigureKind; 11] = [
        FigureKind::Bar,
        FigureKind::Box,
        FigureKind::Bubble,
        FigureKind::Ecdf,
        FigureKind::Fit,
        FigureKind::Forest,
        FigureKind::HeatMap,
        FigureKind::Ladder,
        FigureKind::Matrix,
        FigureKind::Scatter,
        FigureKind::Timeline,
    ];
    let mut kinds: BTreeMap<&[&str], Vec<FigureKind>> = BTreeMap::new();
    for kind in ALL {
        kinds.entry(needs(kind)).or_default().push(kind);
    }
    let conditions = kinds.into_iter().filter(|(keys, _)| !keys.is_empty());
    let condition = |(keys, kinds): (&[&str], Vec<FigureKind>)| {
        json!({
            "if": {"required": ["kind"], "properties": {"kind": {"enum": kinds}}},
            "then": {"required": keys},
        })
    };
    conditions.map(condition).collect()
}

pub(super) fn check_figure(figure: &Named<FigureSettings>, problems: &mut Vec<Problem>) {
    if let Err(error) = OutputName::check(&figure_output(&figure.name)) {
        let problem = Problem::at_key(&["figures", &figure.name], error.to_string());
        problems.push(problem.hint("use letters, digits, `-` and `_`"));
    }
    let settings = &figure.settings;
    for key in needs(settings.kind) {
        let missing = match *key {
            "y" => settings.y.is_none(),
            "value" => settings.value.is_none(),
            "fit" => settings.fit.is_none(),
            _ => settings.band.is_none(),
        };
        if missing {
            let message = format!("a figure of this kind needs `{key}`");
            problems.push(Problem::at(&["figures", &figure.name], message));
        }
    }
    if settings.frontier.is_some() && settings.kind != FigureKind::Scatter {
        let message = "only a figure of the kind `scatter` has a frontier";
        problems.push(Problem::at(&["figures", &figure.name, "frontier"], message));
    }
    let kind = settings.kind;
    let has_log_x = matches!(
        kind,
        FigureKind::Ladder | FigureKind::Ecdf | FigureKind::Bubble | FigureKind::Scatter
    );
    let has_log_y = matches!(
        kind,
        FigureKind::Ladder | FigureKind::Box | FigureKind::Scatter
    );
    for (key, given, has) in [
        ("log-x", settings.log_x, has_log_x),
        ("log-y", settings.log_y, has_log_y),
    ] {
        if given && !has && kind != FigureKind::Bar {
            let message = format!("a figure of this kind has no `{key}`");
            problems.push(Problem::at(&["figures", &figure.name, key], message));
        }
    }
    if settings.kind == FigureKind::Bar {
        // A bar shows a value by its length, which is arbitrary on a logarithmic axis, since that has no zero.
        let unused = [
            ("log-y", settings.log_y),
            ("log-x", settings.log_x),
            ("facet", settings.facet.is_some()),
        ];
        for (key, _) in unused.into_iter().filter(|(_, given)| *given) {
            let message =
                format!("a figure of the kind `bar` has no `{key}`: its axis begins at zero");
            let hint = "use `kind: box` or `kind: ladder`, or a figure for each panel";
            problems.push(Problem::at(&["figures", &figure.name, key], message).hint(hint));
        }
    }
    if let Err(error) = check_format(&settings.format) {
        let message = error.to_string();
        problems.push(Problem::at(&["figures", &figure.name, "format"], message));
    }
    let plain = figure
        .name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if !plain {
        let message = "a figure's name becomes a file name: letters, digits, `-` and `_` only";
        problems.push(Problem::at(&["figures", &figure.name], message));
    }
}
