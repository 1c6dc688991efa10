//! Checks that a workload suits an API. Settings that do not apply are reported while planning.

use contract::{Api, OutputMode, Word as _};
use pipeline::stage::{Needed, Problem};

use crate::settings::{Settings, WorkloadChoice};
use crate::workload::{Images, Output, Part, PromptSource, Workload};

/// Returns the API in the definition of a server's engine, as far as it is known while planning.
pub(crate) fn api_of(server: &Needed<'_>) -> Option<Api> {
    let environment = Needed::of_kind(&server.needs, "provision")?;
    let engine = &environment.parameters["engines"][0]["definition"];
    Api::parse(engine["api"].as_str()?).ok()
}

/// Returns the problems with sending the workload of checked settings through an API that the command line names. The
/// answers of an API that cannot ignore the end of sequence may be shorter.
pub fn unsuited(settings: &Settings, api: Api) -> Vec<Problem> {
    let Some(WorkloadChoice::Inline(workload)) = &settings.workload else {
        return Vec::new();
    };
    let mut workload = (**workload).clone();
    workload.output.mode = OutputMode::Cap;
    if !api.generates() {
        workload.output = Output::NONE;
    }
    problems(api, &workload, false)
}

/// Returns the problems with sending a workload through an API; `streamed` if the stage requests streams.
pub(crate) fn problems(api: Api, workload: &Workload, streamed: bool) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut say = |key: &str, message: String, hint: &str| {
        problems.push(Problem::at(&[key], message).hint(hint));
    };
    let name = api.word();
    let parts = parts(&workload.prompts);
    if api.generates() {
        let silent = parts.is_empty() || parts.iter().any(|part| part.output.is_none());
        if workload.output.is_none() && silent {
            let message = format!("the workload asks for no output tokens, and {name} generates");
            let hint = match workload.prompts {
                // Their entries may have lengths of their own.
                PromptSource::Trace(_) | PromptSource::Pack(_) => {
                    "write, for example, `output: {tokens: 128}` in the workload; it is for entries of the file \
                     without a length of their own"
                }
                _ => "write, for example, `output: {tokens: 128}` in the workload",
            };
            say("workload", message, hint);
        }
    } else {
        let output = !workload.output.is_none() || parts.iter().any(|part| part.output.is_some());
        let given = [
            ("output", output),
            ("sessions", workload.sessions.is_some()),
            ("structured", workload.structured.is_some()),
            ("system", workload.system.is_some()),
        ];
        for (key, _) in given.iter().filter(|(_, given)| *given) {
            let message =
                format!("{name} generates no text, so `{key}` of the workload does not apply");
            say("workload", message, "remove it");
        }
        if streamed {
            let message = format!("{name} answers at once and not in a stream");
            say(
                "delivery",
                message,
                "remove `delivery`, or write `delivery: whole`",
            );
        }
    }
    if api == Api::Rerank {
        let drawn = matches!(
            workload.prompts,
            PromptSource::Words(_)
                | PromptSource::SharedPrefix(_)
                | PromptSource::Corpus(_)
                | PromptSource::Trace(_)
                | PromptSource::Mixture(_)
        );
        if drawn && workload.documents.is_none() {
            let message = "the workload has nothing to rank: its prompts are queries".to_owned();
            say(
                "workload",
                message,
                "add `documents: {count: 10, length: 60}`",
            );
        }
    } else if workload.documents.is_some() {
        let message = format!("only `api: rerank` ranks `documents`, and this is {name}");
        say("workload", message, "remove `documents`");
    }
    if workload.structured.is_some() && api.generates() && !api.can_be_structured() {
        let message = format!("{name} has no way to demand a JSON Schema");
        say(
            "workload",
            message,
            "remove `structured`, or use another API",
        );
    }
    if has_images(workload) && !api.can_see() {
        let message = format!("{name} takes no images");
        let hint = "remove `images`, or use openai-chat, openai-responses or anthropic-messages";
        say("workload", message, hint);
    }
    let exact = workload.output.mode == OutputMode::Exact;
    if exact && matches!(api, Api::OpenaiResponses | Api::AnthropicMessages) {
        let message = format!(
            "{name} cannot make a server ignore the end of sequence, as `mode: exact` demands"
        );
        say(
            "workload",
            message,
            "write `mode: cap`, or use openai-completions or openai-chat",
        );
    }
    problems.extend(batch(api, workload));
    problems.extend(several(api, workload));
    problems
}

/// Returns the problem with several texts in one request, if the API takes one.
fn batch(api: Api, workload: &Workload) -> Option<Problem> {
    if workload.batch_size == 1 || api == Api::OpenaiEmbeddings {
        return None;
    }
    let message = format!(
        "`batch-size: {}` of the workload sends several texts in one request, and {} takes one prompt",
        workload.batch_size,
        api.word()
    );
    let hint = if api == Api::Rerank {
        "remove `batch-size`; the number of documents is `documents: {count: N, length: 60}`"
    } else {
        "remove `batch-size`; requests at the same time are `arrival: {closed-loop: {clients: N}}`"
    };
    Some(Problem::at(&["workload"], message).hint(hint))
}

/// Returns the problem with several answers to one request.
fn several(api: Api, workload: &Workload) -> Option<Problem> {
    let (field, value) = apis::several_answers(api, &workload.extra)?;
    let message = format!(
        "`extra` of the workload asks for several answers to one request (`{field}: {value}`), and a row holds the \
         tokens and times of one"
    );
    let hint =
        "remove it; for more answers, send more requests, as with `requests: N` or more clients";
    Some(Problem::at(&["workload"], message).hint(hint))
}

/// Returns whether some prompts have images.
pub(crate) fn has_images(workload: &Workload) -> bool {
    let some = |images: &Images| images.count > 0;
    let mut parts = parts(&workload.prompts).into_iter();
    workload.images.as_ref().is_some_and(some)
        || parts.any(|part| part.images.as_ref().is_some_and(some))
}

/// Returns the parts of a mixture, including those of nested mixtures.
fn parts(source: &PromptSource) -> Vec<&Part> {
    let PromptSource::Mixture(parts) = source else {
        return Vec::new();
    };
    let below = parts.iter().flat_map(|part| self::parts(&part.prompts));
    parts.iter().chain(below).collect()
}
