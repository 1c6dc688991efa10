//! A request, as the reference server parses it.

use artifacts::Digest;

/// The parts of a request that the server needs.
pub(super) struct Request {
    pub(super) bytes: Vec<u8>,
    pub(super) path_end: usize,
    pub(super) body_start: usize,
}

impl Request {
    pub(super) fn path(&self) -> &str {
        let line = std::str::from_utf8(&self.bytes[..self.path_end]).unwrap_or_default();
        line.split(' ').nth(1).unwrap_or_default()
    }

    /// Returns the value of a header without surrounding white space.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let head = std::str::from_utf8(&self.bytes[..self.body_start]).ok()?;
        head.lines().find_map(|line| {
            let (this, value) = line.split_once(':')?;
            this.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(super) fn body(&self) -> &[u8] {
        &self.bytes[self.body_start..]
    }

    /// Returns the number after a key of the body, without parsing all of it.
    pub(super) fn number(&self, key: &str) -> Option<u32> {
        let body = std::str::from_utf8(self.body()).ok()?;
        let at = body.find(&format!("\"{key}\":"))? + key.len() + 3;
        let digits: String = body[at..]
            .trim_start()
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        digits.parse().ok()
    }

    pub(super) fn prompt_digest(&self) -> Option<String> {
        let body: serde_json::Value = serde_json::from_slice(self.body()).ok()?;
        Some(Digest::of(body.get("prompt")?.as_str()?.as_bytes()).to_string())
    }

    /// Returns how many vectors or scores the answer has.
    pub(super) fn results(&self) -> usize {
        let body = serde_json::from_slice::<serde_json::Value>(self.body()).unwrap_or_default();
        let many = ["input", "documents"]
            .iter()
            .find_map(|key| Some(body[key].as_array()?.len()));
        many.unwrap_or(1)
    }

    pub(super) fn streamed(&self) -> bool {
        self.says("stream") || self.path() == "/generate_stream"
    }

    /// Returns whether a key of the body is `true`, without parsing all of it.
    pub(super) fn says(&self, key: &str) -> bool {
        let body = String::from_utf8_lossy(self.body());
        [":true", ": true"]
            .iter()
            .any(|yes| body.contains(&format!("\"{key}\"{yes}")))
    }
}
