//! What a model's text does to a terminal: nothing but show.

use std::borrow::Cow;
use std::io::{IsTerminal, Write, stdout};

/// The text without control characters, whose sequences move the cursor, set titles or write to the clipboard.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    let is_harmless = |c: char| !c.is_control() || c == '\n' || c == '\t';
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    text.chars().filter(|c| *c != '\r').map(|c| if is_harmless(c) { c } else { '\u{fffd}' }).collect()
}

/// Writes a model's text to the standard output: as it is to a file or a pipe, and shown in a terminal.
///
/// # Errors
/// Nobody reads it any more.
pub(crate) fn write(text: &str) -> std::io::Result<()> {
    let mut out = stdout();
    let text = if out.is_terminal() { shown(text) } else { Cow::Borrowed(text) };
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_a_terminal() {
        assert_eq!(shown("é\n\t日本"), "é\n\t日本");
        assert_eq!(shown("\x1b]0;title\x07\r\n\u{9b}2J"), "\u{fffd}]0;title\u{fffd}\n\u{fffd}2J");
    }
}
