//! The HTTP APIs that the load generator speaks and a server may offer.

crate::words! {
    /// An HTTP API for generating text.
    #[derive(Default)]
    pub enum Api: "API" {
        /// `POST /v1/completions`.
        #[default]
        OpenaiCompletions = "openai-completions",
        /// `POST /v1/chat/completions`.
        OpenaiChat = "openai-chat",
        /// `POST /completion` of llama.cpp.
        LlamaCppCompletion = "llama-cpp-completion",
        /// `POST /generate_stream` (or `/generate`) of TGI.
        TgiGenerate = "tgi-generate",
        /// `POST /generate` of SGLang.
        SglangGenerate = "sglang-generate",
        /// `POST /api/generate` of Ollama.
        OllamaGenerate = "ollama-generate",
        /// `POST /api/chat` of Ollama.
        OllamaChat = "ollama-chat",
    }
}

impl Api {
    /// Returns the path that requests go to unless the server's definition names another.
    pub fn path(self, streamed: bool) -> &'static str {
        match (self, streamed) {
            (Self::OpenaiCompletions, _) => "/v1/completions",
            (Self::OpenaiChat, _) => "/v1/chat/completions",
            (Self::LlamaCppCompletion, _) => "/completion",
            (Self::TgiGenerate, true) => "/generate_stream",
            (Self::TgiGenerate, false) | (Self::SglangGenerate, _) => "/generate",
            (Self::OllamaGenerate, _) => "/api/generate",
            (Self::OllamaChat, _) => "/api/chat",
        }
    }

    /// Returns whether a request can ask the server to ignore the end of sequence.
    pub fn can_be_exact(self) -> bool {
        !matches!(
            self,
            Self::TgiGenerate | Self::OllamaGenerate | Self::OllamaChat
        )
    }
}
