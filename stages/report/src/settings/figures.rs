//! Checks the settings of a figure.

use pipeline::OutputName;
use pipeline::stage::Problem;

use super::{FigureKind, FigureSettings, Named, figure_output};
use crate::format::check_format;

pub(super) fn check_figure(figure: &Named<FigureSettings>, problems: &mut Vec<Problem>) {
    if let Err(error) = OutputName::check(&figure_output(&figure.name)) {
        let problem = Problem::at_key(&["figures", &figure.name], error.to_string());
        problems.push(problem.hint("use letters, digits, `-` and `_`"));
    }
    let settings = &figure.settings;
    let mut need = |missing: bool, key: &str| {
        if missing {
            let message = format!("a figure of this kind needs `{key}`");
            problems.push(Problem::at(&["figures", &figure.name], message));
        }
    };
    match settings.kind {
        FigureKind::Bar | FigureKind::Ladder => need(settings.y.is_none(), "y"),
        FigureKind::Ecdf => {}
        FigureKind::Box | FigureKind::Scatter | FigureKind::Timeline => {
            need(settings.y.is_none(), "y");
        }
        FigureKind::Bubble => {
            need(settings.y.is_none(), "y");
            need(settings.value.is_none(), "value");
        }
        FigureKind::Fit => {
            need(settings.y.is_none(), "y");
            need(settings.fit.is_none(), "fit");
        }
        FigureKind::HeatMap | FigureKind::Matrix => {
            need(settings.y.is_none(), "y");
            need(settings.value.is_none(), "value");
        }
        FigureKind::Forest => {
            need(settings.y.is_none(), "y");
            need(settings.band.is_none(), "band");
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
