//! Labels that a stage names, and that the profile or the command line leaves out.

use artifacts::Scalar;
use artifacts::json::plain;

use crate::experiment::Experiment;
use crate::graph::Node;
use crate::stage::Json;

/// A label that an experiment has only without the profile, or without a value set on the command line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LeftOut {
    axis: String,
    label: String,
    profile: Option<String>,
}

impl LeftOut {
    /// Returns the missing labels that some settings of a stage name, in their order.
    pub(crate) fn of(experiment: &Experiment, node: &Node<'_>, settings: &Json) -> Vec<Self> {
        let mut all = Vec::new();
        for (axis, label) in node.kind.labels_named(settings) {
            let text = plain(&label);
            let is_this = |other: &Scalar| other.to_string() == text;
            let Some(axis) = experiment.axes.iter().find(|a| a.name == axis) else {
                continue;
            };
            if axis.labels.iter().any(is_this) || !axis.left_out.iter().any(is_this) {
                continue;
            }
            let left_out = Self {
                axis: axis.name.clone(),
                label: text,
                profile: experiment.profile.clone(),
            };
            if !all.contains(&left_out) {
                all.push(left_out);
            }
        }
        all
    }

    /// Returns what leaves out which label, for people.
    pub(crate) fn text(&self) -> String {
        let Self { axis, label, .. } = self;
        let what = match &self.profile {
            Some(profile) => format!("the profile `{profile}`"),
            None => "a value set on the command line".to_owned(),
        };
        format!("{what} leaves out the label `{label}` of `{axis}`")
    }

    /// Returns how to get the label back.
    pub(crate) fn remedy(&self) -> String {
        match &self.profile {
            Some(profile) => format!(
                "add the label to `profiles: {{{profile}: {{axes: {{{}: […]}}}}}}`, or run without the profile",
                self.axis
            ),
            None => "set one that keeps the label".to_owned(),
        }
    }
}
