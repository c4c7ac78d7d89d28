//! A position in the text, and the tokens that can be taken there.
//!
//! The parser has no token list: each rule requests the token it expects, and the cursor matches
//! bytes. That makes it fast, and it resolves PTX's one lexical ambiguity (`.` begins a directive,
//! a type, a modifier, a component and a fraction) where the context is known. Every method that
//! takes a token also skips the blanks after it, unless stated otherwise.

use crate::error::ParseError;

pub(super) type Parsed<T> = Result<T, ParseError>;

/// A position in the text.
pub(super) struct Cursor<'text> {
    text: &'text str,
    position: usize,
    line: u32,
    /// The texts of the comments `//@` passed so far, and where the last one begins.
    remarks: Vec<&'text str>,
    last_remark: usize,
    /// Where the comment stands that began the inline assembly around the cursor.
    inline_assembly: Option<usize>,
}

/// A saved position.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    position: usize,
    line: u32,
}

impl Mark {
    /// The line of the place, from 1.
    pub(super) fn line(self) -> u32 {
        self.line
    }
}

/// Bytes that continue an identifier (PTX ISA, "Identifiers").
static CONTINUES_WORD: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        table[byte] = b.is_ascii_alphanumeric() || b == b'_' || b == b'$';
        byte += 1;
    }
    table
};

/// Whether an identifier can begin with `byte`.
pub(super) fn opens_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'%')
}

impl<'text> Cursor<'text> {
    /// The first token of `text`.
    pub(super) fn new(text: &'text str) -> Self {
        let mut cursor =
            Self { text, position: 0, line: 1, remarks: Vec::new(), last_remark: 0, inline_assembly: None };
        cursor.skip_blanks();
        cursor
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { position: self.position, line: self.line }
    }

    pub(super) fn return_to(&mut self, mark: Mark) {
        self.position = mark.position;
        self.line = mark.line;
    }

    /// An error at the cursor.
    #[cold]
    pub(super) fn error<T>(&self, expected: impl Into<String>) -> Parsed<T> {
        Err(ParseError::at(self.text, self.position, expected))
    }

    /// An error at an earlier place.
    #[cold]
    pub(super) fn error_at<T>(&self, mark: Mark, expected: impl Into<String>) -> Parsed<T> {
        Err(ParseError::at(self.text, mark.position, expected))
    }

    /// The byte at the cursor, 0 at the end of the text.
    #[inline]
    pub(super) fn peek(&self) -> u8 {
        self.peek_at(0)
    }

    /// The byte `ahead` of the cursor, 0 past the end.
    #[inline]
    pub(super) fn peek_at(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.position + ahead).copied().unwrap_or(0)
    }

    pub(super) fn at_end(&self) -> bool {
        self.position >= self.text.len()
    }

    /// Skips spaces, line ends and comments. An unclosed comment is left standing, for the next
    /// rule to trip over.
    #[inline]
    pub(super) fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                b' ' | b'\t' | b'\r' | 0x0c => self.position += 1,
                b'\n' => {
                    self.position += 1;
                    self.line += 1;
                }
                b'/' => {
                    if !self.skip_comment() {
                        return;
                    }
                }
                _ => return,
            }
        }
    }

    fn skip_comment(&mut self) -> bool {
        let rest = &self.text.as_bytes()[self.position..];
        if rest.starts_with(b"//") {
            let start = self.position;
            self.skip_line();
            // The parser may come back and pass it again.
            if rest.starts_with(b"//@") && start > self.last_remark {
                self.remarks.push(&self.text[start + 3..self.position]);
                self.last_remark = start;
            }
            match self.text[start + 2..self.position].trim() {
                "begin inline asm" => self.inline_assembly = Some(start),
                "end inline asm" => self.inline_assembly = None,
                _ => {}
            }
            return true;
        }
        if !rest.starts_with(b"/*") {
            return false;
        }
        let Some(length) = rest[2..].windows(2).position(|pair| pair == b"*/") else {
            return false;
        };
        let comment = &rest[..length + 4];
        self.line += comment.iter().filter(|&&byte| byte == b'\n').count() as u32;
        self.position += comment.len();
        true
    }

    /// The place of the comment by which LLVM begins the inline assembly around the cursor; `None` outside of any.
    pub(super) fn inline_assembly(&self) -> Option<usize> {
        self.inline_assembly
    }

    /// How many comments `//@` have been passed since they were taken.
    pub(super) fn remarks(&self) -> usize {
        self.remarks.len()
    }

    /// The text of one of them.
    pub(super) fn remark(&self, index: usize) -> Option<&'text str> {
        self.remarks.get(index).copied()
    }

    /// The texts of the comments `//@` since the previous call.
    pub(super) fn take_remarks(&mut self) -> Vec<&'text str> {
        std::mem::take(&mut self.remarks)
    }

    /// Moves to the end of the line, its line break not included.
    pub(super) fn skip_line(&mut self) {
        let rest = &self.text.as_bytes()[self.position..];
        self.position += rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
    }

    /// Takes `byte` if it is next.
    #[inline]
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte && !self.at_end();
        if found {
            self.position += 1;
            self.skip_blanks();
        }
        found
    }

    /// Takes `symbol`, of one or more bytes, if it is next.
    pub(super) fn take_symbol(&mut self, symbol: &str) -> bool {
        let found = self.text.as_bytes()[self.position..].starts_with(symbol.as_bytes());
        if found {
            self.position += symbol.len();
            self.skip_blanks();
        }
        found
    }

    /// Takes `byte`, or fails saying what was expected.
    #[inline]
    pub(super) fn expect(&mut self, byte: u8, context: &str) -> Parsed<()> {
        if self.take(byte) { Ok(()) } else { self.error(format!("`{}` {context}", byte as char)) }
    }

    /// An identifier, without skipping the blanks after it: what follows may have to touch it.
    #[inline]
    pub(super) fn word_touching(&mut self) -> Option<&'text str> {
        if !opens_word(self.peek()) {
            return None;
        }
        let start = self.position;
        self.position += 1;
        self.skip_word_bytes();
        Some(&self.text[start..self.position])
    }

    #[inline]
    fn skip_word_bytes(&mut self) {
        while CONTINUES_WORD[self.peek() as usize] {
            self.position += 1;
        }
    }

    /// An identifier.
    #[inline]
    pub(super) fn word(&mut self) -> Option<&'text str> {
        let word = self.word_touching();
        self.skip_blanks();
        word
    }

    /// An identifier, or an error saying what it should name.
    pub(super) fn expect_word(&mut self, what: &str) -> Parsed<&'text str> {
        match self.word() {
            Some(word) => Ok(word),
            None => self.error(what),
        }
    }

    /// An identifier that a declaration may make a name.
    pub(super) fn expect_name(&mut self, what: &str) -> Parsed<&'text str> {
        let mark = self.mark();
        match self.word() {
            Some("_" | "%" | "$" | "WARP_SZ") | None => self.error_at(mark, what),
            Some(name) => Ok(name),
        }
    }

    /// A dotted word, without its dot.
    pub(super) fn directive(&mut self) -> Option<&'text str> {
        if self.peek() != b'.' || !self.peek_at(1).is_ascii_alphabetic() {
            return None;
        }
        self.position += 1;
        self.word()
    }

    /// A dotted word if it is `word`; the cursor stays if not.
    pub(super) fn take_directive(&mut self, word: &str) -> bool {
        let mark = self.mark();
        let found = self.directive() == Some(word);
        if !found {
            self.return_to(mark);
        }
        found
    }

    /// After a word: what extends it to `word.modifier.modifier::detail`. Gives the whole from
    /// `start`.
    #[inline]
    pub(super) fn dotted_from(&mut self, start: Mark) -> &'text str {
        loop {
            let separator = match (self.peek(), self.peek_at(1)) {
                (b'.', next) if CONTINUES_WORD[next as usize] => 1,
                (b':', b':') if CONTINUES_WORD[self.peek_at(2) as usize] => 2,
                _ => break,
            };
            self.position += separator;
            self.skip_word_bytes();
        }
        let text = &self.text[start.position..self.position];
        self.skip_blanks();
        text
    }

    /// The characters of a number: digits, letters, a point, and a sign after an exponent.
    pub(super) fn number_text(&mut self) -> &'text str {
        let start = self.position;
        let is_hexadecimal =
            self.peek() == b'0' && !self.peek_at(1).is_ascii_digit() && self.peek_at(1) != b'.';
        loop {
            let byte = self.peek();
            let signed_exponent = matches!(byte, b'+' | b'-')
                && !is_hexadecimal
                && self.position > start
                && matches!(self.text.as_bytes()[self.position - 1], b'e' | b'E');
            if !(byte.is_ascii_alphanumeric() || byte == b'.' || signed_exponent) {
                break;
            }
            self.position += 1;
        }
        let text = &self.text[start..self.position];
        self.skip_blanks();
        text
    }

    /// A double-quoted string, without its quotes. PTX gives a backslash no meaning inside one.
    pub(super) fn string(&mut self, what: &str) -> Parsed<&'text str> {
        if self.peek() != b'"' {
            return self.error(what);
        }
        let start = self.position + 1;
        let length = self.text.as_bytes()[start..].iter().position(|&byte| matches!(byte, b'"' | b'\n'));
        match length {
            Some(length) if self.text.as_bytes()[start + length] == b'"' => {
                self.position = start + length + 1;
                self.skip_blanks();
                Ok(&self.text[start..start + length])
            }
            _ => self.error("a string closed by `\"` on the same line"),
        }
    }

    /// Skips `{ ... }` with all it holds, braces in strings and comments not counted.
    pub(super) fn skip_braces(&mut self) -> Parsed<()> {
        let opening = self.mark();
        let mut depth = 0u32;
        loop {
            match self.peek() {
                _ if self.at_end() => return self.error_at(opening, "a `}` that closes this `{`"),
                b'{' => depth += 1,
                b'}' => depth -= 1,
                b'"' => {
                    self.string("a string")?;
                    continue;
                }
                _ => {}
            }
            self.position += 1;
            self.skip_blanks();
            if depth == 0 {
                return Ok(());
            }
        }
    }
}
