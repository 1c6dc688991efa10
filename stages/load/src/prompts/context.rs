//! Checks whether prompts fit into the server's context before anything is sent.

use contract::Limit;
use pipeline::stage::{Failure, Job, Needed, Problem};

use super::set::Prompt;
use crate::settings::{Settings, WorkloadChoice};
use crate::workload::{Length, OutputMode, PromptSource, Unit, Workload};

/// Reports, before anything runs, that no prompt of a load fits into the context in the settings of its server. Returns
/// `None` if one may fit, or if either is unknown.
pub(crate) fn too_long(settings: &Settings, server: &Needed<'_>) -> Option<Problem> {
    let Some(WorkloadChoice::Inline(workload)) = &settings.workload else {
        return None;
    };
    let least = least(workload)?;
    let environment = Needed::of_kind(&server.needs, "provision")?;
    // If several engines are defined, the first one is used.
    let engine = &environment.parameters["engines"][0]["definition"];
    let limit: Limit = serde_json::from_value(engine["limits"]["context-per-slot"].clone()).ok()?;
    let setting = |name: &str| {
        let given = server.parameters["settings"].get(name);
        given.or_else(|| engine["settings"][name].get("default"))
    };
    let holds = limit.promised(setting)?;
    let total = setting(limit.setting.as_deref()?)?;
    let rounded = match limit.multiple_of {
        Some(multiple) => format!(", rounded up to a multiple of {multiple}"),
        None => String::new(),
    };
    let division = match (&limit.divided_by, limit.divisor(setting)?) {
        (Some(name), by) if by > 1 => format!(" ({total} divided by `{name}: {by}`{rounded})"),
        _ => String::new(),
    };
    (least > holds).then(|| {
        let message = format!(
            "every prompt needs at least {least} tokens with its answer, but the context of the server \
             `{}` holds {holds}{division}",
            server.stage
        );
        Problem::at(&["workload"], message).hint(format!(
            "shorten the prompts or answers, or raise `{}` in the settings of `{}`",
            limit.setting.as_deref().unwrap_or("the context"),
            server.stage
        ))
    })
}

/// Returns the fewest tokens that a prompt of a workload takes with its answer, if lengths are in tokens, or in words,
/// which have at least one token each.
fn least(workload: &Workload) -> Option<u64> {
    let tokens = |length: &Length| match length.parts() {
        (Unit::Words | Unit::Tokens, count) => Some(u64::from(count.ends().0)),
        (Unit::Characters, _) => None,
    };
    let prompt = match &workload.prompts {
        PromptSource::Words(words) => tokens(&words.length)?,
        // Some of the prompts may lack the prefix.
        PromptSource::SharedPrefix(parts) if parts.fraction >= 1.0 => {
            tokens(&parts.prefix)? + tokens(&parts.suffix)?
        }
        PromptSource::SharedPrefix(parts) => tokens(&parts.suffix)?,
        _ => return None,
    };
    let answer = match workload.output.mode {
        OutputMode::Exact => u64::from(workload.output.tokens.ends().0),
        _ => 1,
    };
    Some(prompt + answer)
}

/// The context in tokens that a set's prompts take with their answers, if their tokens were counted. In sessions,
/// earlier turns are added, and a chat template may also add tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Context {
    /// For the shortest prompt, with the shortest possible answer: the demanded length, or one token if there is only a
    /// cap.
    least: Option<u64>,
    /// For the longest prompt, with the shortest possible answer.
    longest: u64,
    /// For the longest prompt with its answer at the requested length.
    most: u64,
}

impl Context {
    pub(super) fn with(self, prompt: &Prompt) -> Self {
        let Some(tokens) = prompt.tokens_at_once().map(u64::from) else {
            return self;
        };
        let output = u64::from(prompt.output_tokens);
        let shortest = if prompt.output_mode == OutputMode::Exact {
            output
        } else {
            output.min(1)
        };
        Self {
            least: Some(self.least.unwrap_or(u64::MAX).min(tokens + shortest)),
            longest: self.longest.max(tokens + shortest),
            most: self.most.max(tokens + output),
        }
    }

    /// Compares the prompts with the context per request that the server of a load cell reports. Returns a doubt if
    /// some requests cannot be answered in full.
    ///
    /// # Errors
    /// If no prompt fits, because only refusals would be measured.
    pub(crate) fn doubt(self, job: &Job<'_>) -> Result<Option<String>, Failure> {
        let live = job
            .input_of_kind("serve")
            .and_then(|serve| serve.cells.first()?.live.as_ref());
        let Some(limit) = live.and_then(|live| live["limits"]["context_per_slot"].as_u64()) else {
            return Ok(None);
        };
        if let Some(least) = self.least.filter(|least| *least > limit) {
            let reason = format!(
                "every prompt needs at least {least} tokens with its answer, but the server's \
                 context holds {limit}; nothing was sent"
            );
            let hint = "shorten the prompts or answers, or give the server a larger context";
            return Err(Failure::failed(reason).hint(hint));
        }
        let held = format!("but the server's context holds {limit}");
        Ok(if self.longest > limit {
            Some(format!(
                "the longest prompt needs {} tokens with its answer, {held}; the server will \
                 refuse it",
                self.longest
            ))
        } else if self.most > limit {
            Some(format!(
                "a prompt with the longest requested answer needs {} tokens, {held}; answers may \
                 be refused or cut off",
                self.most
            ))
        } else {
            None
        })
    }
}
