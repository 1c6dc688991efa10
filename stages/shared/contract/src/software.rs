//! The table of the software installed in an environment.

crate::words! {
    /// What a row of `software` stands for.
    pub enum SoftwareKind: "kind of software" {
        /// A Python distribution.
        Distribution = "distribution",
        /// The Python interpreter.
        Interpreter = "interpreter",
        /// What distributions were built for, such as CUDA.
        Runtime = "runtime",
        /// What the machine brings.
        System = "system",
        /// The image of a container; its version is the digest of its configuration.
        Image = "image",
        /// A label of that image.
        Label = "label",
    }
}

crate::table! {
    /// One row per piece of software in the environment that an engine runs in. Key: kind and name.
    pub struct SoftwareRow = "software" {
        /// what it is: `distribution`, `interpreter`, `runtime` or `system`
        kind: SoftwareKind,
        /// its name; of a distribution as registries compare it
        name: String,
        /// its version; null if there is none, for instance no GPU driver
        version: Option<String>,
        /// whether the study itself names it, in `packages` or `overrides`
        named: bool,
    }
}
