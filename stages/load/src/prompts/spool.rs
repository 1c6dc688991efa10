//! Prompts in a file. In memory, each takes only the eight bytes of its position.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::set::Prompt;

/// Prompts on their way to a file.
pub(super) struct Spool {
    file: BufWriter<File>,
    ends: Vec<u64>,
}

impl Spool {
    /// Creates an unnamed file in a folder. It disappears with its last reader.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        let file = tempfile::tempfile_in(folder)?;
        Ok(Self {
            file: BufWriter::with_capacity(64 * 1024, file),
            ends: Vec::new(),
        })
    }

    /// Appends a prompt.
    pub(super) fn push(&mut self, prompt: &Prompt) -> io::Result<()> {
        let bytes = postcard::to_stdvec(prompt).map_err(io::Error::other)?;
        self.file.write_all(&bytes)?;
        self.ends
            .push(self.ends.last().copied().unwrap_or(0) + bytes.len() as u64);
        Ok(())
    }

    /// Returns the number of prompts.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns their size in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Finishes the file for reading.
    pub(super) fn finish(self) -> io::Result<Spooled> {
        let file = self
            .file
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        Ok(Spooled {
            file: Arc::new(file),
            ends: self.ends.into(),
        })
    }
}

/// Prompts in a file, read one at a time by any thread.
#[derive(Clone, Debug)]
pub(super) struct Spooled {
    file: Arc<File>,
    ends: Arc<[u64]>,
}

impl Spooled {
    /// Returns the number of prompts.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Reads the prompt at a place below [`Spooled::len`].
    pub(super) fn get(&self, place: usize) -> io::Result<Prompt> {
        let from = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        let mut bytes = vec![0; (self.ends[place] - from) as usize];
        self.file.read_exact_at(&mut bytes, from)?;
        postcard::from_bytes(&bytes).map_err(io::Error::other)
    }
}
