//! Parse errors.

use std::fmt;

/// A parse error: the position, the text found, and the text expected.
///
/// Displays as a sentence followed by the offending line with a mark under the place:
///
/// ```text
/// line 7, column 19: expected `,` or `;` after an operand, found `%r2`
///   7 | add.u32 %r0, %r1 %r2;
///     |                  ^
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ParseError {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// What the grammar expects at this position.
    pub expected: String,
    /// The text found.
    pub found: String,
    /// The source line, without its line break; of a long one, the part around the place.
    pub snippet: String,
    /// Where in the snippet the place is, in characters from 1.
    pub snippet_column: u32,
}

/// Maximum length of the source line that a message repeats, in characters, and the part of it
/// before the position.
const SNIPPET_LIMIT: usize = 160;
const SNIPPET_BEFORE: usize = 120;

impl ParseError {
    /// The error at byte `position` of `text`; the position may be the end of the text.
    pub(crate) fn at(text: &str, position: usize, expected: impl Into<String>) -> Self {
        let position = floor_char_boundary(text, position);
        let before = &text[..position];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let rest_of_line = text[line_start..].split(['\n', '\r']).next().unwrap_or("");
        let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
        let column = text[line_start..position].chars().count() + 1;
        let skipped = (column - 1).saturating_sub(SNIPPET_BEFORE);
        Self {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
            expected: expected.into(),
            found: describe(&text[position..]),
            snippet: rest_of_line.chars().skip(skipped).take(SNIPPET_LIMIT).collect(),
            snippet_column: (column - skipped) as u32,
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "line {}, column {}: expected {}, found {}",
            self.line, self.column, self.expected, self.found
        )?;
        let number = self.line.to_string();
        // A tab keeps its width, so that the mark is under its character.
        let indent: String = (self.snippet.chars().take(self.snippet_column as usize - 1))
            .map(|character| if character == '\t' { '\t' } else { ' ' })
            .collect();
        writeln!(f, "  {number} | {}", self.snippet)?;
        write!(f, "  {:width$} | {indent}^", "", width = number.len())
    }
}

fn floor_char_boundary(text: &str, position: usize) -> usize {
    let mut position = position.min(text.len());
    while !text.is_char_boundary(position) {
        position -= 1;
    }
    position
}

/// The token `rest` begins with, as a message shows it.
fn describe(rest: &str) -> String {
    let Some(first) = rest.chars().next() else {
        return "the end of the text".to_owned();
    };
    if matches!(first, '\n' | '\r') {
        return "the end of the line".to_owned();
    }
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.');
    let token: String = if is_word(first) {
        rest.chars().take_while(|&c| is_word(c)).take(40).collect()
    } else {
        first.to_string()
    };
    format!("`{}`", token.escape_debug())
}
