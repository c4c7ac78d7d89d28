//! Stop strings in text that arrives in pieces.

/// Finds the first stop string, which may straddle pieces.
#[derive(Clone, Debug)]
pub struct StopStrings {
    stops: Vec<String>,
    /// Text that may be the beginning of a stop string.
    held: String,
    include: bool,
}

impl StopStrings {
    /// For these strings. `include` keeps the string that was found in the text.
    pub fn new(stops: Vec<String>, include: bool) -> StopStrings {
        let stops = stops.into_iter().filter(|stop| !stop.is_empty()).collect();
        StopStrings { stops, held: String::new(), include }
    }

    /// The text that can be passed on, and the stop string if one is complete. Nothing may be
    /// pushed after that.
    pub fn push(&mut self, piece: &str) -> (String, Option<String>) {
        self.held.push_str(piece);
        let found = self.stops.iter().filter_map(|stop| Some((self.held.find(stop.as_str())?, stop)));
        // The first to end, as if characters came one by one.
        if let Some((at, stop)) = found.min_by_key(|(at, stop)| (at + stop.len(), *at)) {
            let end = if self.include { at + stop.len() } else { at };
            return (self.held[..end].to_owned(), Some(stop.clone()));
        }
        let keep = self.stops.iter().map(|stop| overlap(&self.held, stop)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - keep);
        (std::mem::replace(&mut self.held, rest), None)
    }

    /// What was held at the end.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// The length of the longest end of `text` that begins `pattern`, but is not all of it.
pub(super) fn overlap(text: &str, pattern: &str) -> usize {
    let lengths = pattern.char_indices().map(|(length, _)| length).rev();
    lengths.into_iter().find(|length| text.ends_with(&pattern[..*length])).unwrap_or(0)
}
