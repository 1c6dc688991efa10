//! The HTTP APIs that the load generator speaks and a server may offer.

crate::words! {
    /// An HTTP API of a serving engine.
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
        /// `POST /v1/responses`.
        OpenaiResponses = "openai-responses",
        /// `POST /v1/messages` of Anthropic.
        AnthropicMessages = "anthropic-messages",
        /// `POST /v1/embeddings`.
        OpenaiEmbeddings = "openai-embeddings",
        /// `POST /v1/rerank`: scores of documents for a query.
        Rerank = "rerank",
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
            (Self::OpenaiResponses, _) => "/v1/responses",
            (Self::AnthropicMessages, _) => "/v1/messages",
            (Self::OpenaiEmbeddings, _) => "/v1/embeddings",
            (Self::Rerank, _) => "/v1/rerank",
        }
    }

    /// Returns whether a request can ask the server to ignore the end of sequence.
    pub fn can_be_exact(self) -> bool {
        !matches!(
            self,
            Self::TgiGenerate
                | Self::OllamaGenerate
                | Self::OllamaChat
                | Self::OpenaiResponses
                | Self::AnthropicMessages
        ) && self.generates()
    }

    /// Returns whether an answer is generated text, token by token.
    pub fn generates(self) -> bool {
        !matches!(self, Self::OpenaiEmbeddings | Self::Rerank)
    }

    /// Returns whether a request can require an answer that follows a JSON Schema.
    pub fn can_be_structured(self) -> bool {
        self.generates() && self != Self::AnthropicMessages
    }

    /// Returns whether a request can carry images with its text.
    pub fn can_see(self) -> bool {
        matches!(
            self,
            Self::OpenaiChat | Self::OpenaiResponses | Self::AnthropicMessages
        )
    }
}
