//! Text from tokens that arrive one by one.

/// Joins the bytes of tokens to text, and keeps back the start of a character until the rest
/// arrives.
#[derive(Clone, Debug, Default)]
pub struct Detokenizer {
    /// At most three bytes: the start of a character.
    pending: Vec<u8>,
}

impl Detokenizer {
    /// The text that `bytes` completes. Bytes that cannot be UTF-8 become U+FFFD.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let mut text = String::new();
        loop {
            match std::str::from_utf8(&self.pending) {
                Ok(valid) => {
                    text.push_str(valid);
                    self.pending.clear();
                    return text;
                }
                Err(error) => {
                    let valid = error.valid_up_to();
                    text.push_str(&String::from_utf8_lossy(&self.pending[..valid]));
                    self.pending.drain(..valid);
                    let Some(wrong) = error.error_len() else { return text };
                    text.push(char::REPLACEMENT_CHARACTER);
                    self.pending.drain(..wrong);
                }
            }
        }
    }

    /// What is left at the end: U+FFFD if a character is incomplete.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        text
    }
}
