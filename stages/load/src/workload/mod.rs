//! Workloads (collection `workloads`): the content of requests.

mod check;
mod definition;
mod length;
mod pin;
mod sessions;
mod shipped;
mod structured;
mod tokenizer;

pub use definition::{
    Corpus, Dataset, Documents, DrawnBy, Images, Output, OutputMode, Pack, Part, PromptSource,
    Sampling, SharedPrefix, WhenShort, Words, Workload,
};
pub(crate) use length::Unit;
pub use length::{Count, Length, Measure, Range};
pub(crate) use pin::{pin, pin_trace};
pub use sessions::{Sessions, Think, ThinkDrawn, ThinkRange, Turns, TurnsDrawn};
pub(crate) use shipped::shipped;
pub use structured::Structured;
pub use tokenizer::{ChatTemplate, ServerTokenizer, Tokenizer, TokenizerFile, TokenizerServer};
