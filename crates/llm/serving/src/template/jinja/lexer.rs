//! From the source of a template to tokens. Blocks are trimmed as `trim_blocks` and `lstrip_blocks` of jinja2 do, with
//! which transformers renders chat templates.

use std::sync::Arc;

use super::error::Wrong;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Text(Arc<str>),
    BlockBegin,
    BlockEnd,
    OutputBegin,
    OutputEnd,
    Name(String),
    String(String),
    Int(i128),
    Float(f64),
    Operator(&'static str),
    End,
}

/// The longest ones first.
const OPERATORS: [&str; 29] = [
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<",
    "=", ".", ":", "|", ",", ";", "!", "@", "&",
];

/// The tokens of a source, each with its line.
pub(super) fn tokens(source: &str) -> Result<Vec<(Token, usize)>, Wrong> {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let source = source.strip_suffix('\n').unwrap_or(&source);
    let mut lexer = Lexer { source, at: 0, line: 1, begins_line: true, tokens: Vec::new() };
    while lexer.at < source.len() {
        lexer.data()?;
    }
    lexer.push(Token::End);
    Ok(lexer.tokens)
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    line: usize,
    /// Whether the last tag ended with a line break.
    begins_line: bool,
    tokens: Vec<(Token, usize)>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn push(&mut self, token: Token) {
        self.tokens.push((token, self.line));
    }

    fn skip(&mut self, bytes: usize) {
        self.line += self.rest()[..bytes].matches('\n').count();
        self.at += bytes;
    }

    fn wrong<T>(&self, message: impl Into<String>) -> Result<T, Wrong> {
        Err(Wrong { line: self.line, message: message.into() })
    }

    /// Reads text, and the tag or comment after it.
    fn data(&mut self) -> Result<(), Wrong> {
        let rest = self.rest();
        let is_tag = |at: usize| ["{{", "{%", "{#"].into_iter().find(|tag| rest[at..].starts_with(tag));
        let found = rest.match_indices('{').find_map(|(at, _)| Some((at, is_tag(at)?)));
        let Some((end, tag)) = found else {
            self.push(Token::Text(rest.into()));
            self.skip(rest.len());
            return Ok(());
        };
        let sign = rest[end + 2..].chars().next();
        self.text(&rest[..end], sign, tag != "{{");
        self.skip(end + 2 + usize::from(matches!(sign, Some('-' | '+'))));
        match tag {
            "{#" => {
                let Some(length) = self.rest().find("#}") else {
                    return self.wrong("a comment does not end");
                };
                let sign = self.rest()[..length].chars().next_back();
                self.skip(length + 2);
                self.after_tag(sign, true);
            }
            "{%" if self.is_raw() => self.raw()?,
            "{%" => {
                self.push(Token::BlockBegin);
                self.tag("%}")?;
            }
            _ => {
                self.push(Token::OutputBegin);
                self.tag("}}")?;
            }
        }
        Ok(())
    }

    /// Text before a tag with this sign. `is_block` is false for `{{`, before which lines are not stripped.
    fn text(&mut self, text: &str, sign: Option<char>, is_block: bool) {
        let mut kept = text;
        if sign == Some('-') {
            kept = text.trim_end();
        } else if sign != Some('+') && is_block {
            let line = text.rfind('\n').map_or(0, |at| at + 1);
            let is_line = line > 0 || self.begins_line;
            if is_line && text[line..].chars().all(char::is_whitespace) {
                kept = &text[..line];
            }
        }
        if !kept.is_empty() {
            self.push(Token::Text(kept.into()));
        }
    }

    /// Skips the white space after a tag with this sign before its end.
    fn after_tag(&mut self, sign: Option<char>, is_block: bool) {
        let rest = self.rest();
        let length = match sign {
            Some('-') => rest.len() - rest.trim_start().len(),
            Some('+') => 0,
            _ => usize::from(is_block && rest.starts_with('\n')),
        };
        self.begins_line = rest[..length].ends_with('\n');
        self.skip(length);
    }

    fn is_raw(&self) -> bool {
        let after = self.rest().trim_start().strip_prefix("raw").map(str::trim_start);
        after.is_some_and(|after| after.starts_with("%}") || after.starts_with("-%}"))
    }

    /// Reads up to `{% endraw %}`.
    fn raw(&mut self) -> Result<(), Wrong> {
        let Some(length) = self.rest().find("%}") else { return self.wrong("`raw` does not end") };
        let sign = self.rest()[..length].chars().next_back().filter(|sign| *sign == '-');
        self.skip(length + 2);
        self.after_tag(sign, false);
        let rest = self.rest();
        for (begin, _) in rest.match_indices("{%") {
            let tag = &rest[begin + 2..];
            let sign = tag.chars().next().filter(|sign| ['-', '+'].contains(sign));
            let inner = tag[usize::from(sign.is_some())..].trim_start();
            let Some(after) = inner.strip_prefix("endraw").map(str::trim_start) else { continue };
            let end_sign = after.chars().next().filter(|sign| ['-', '+'].contains(sign));
            let Some(after) = after[usize::from(end_sign.is_some())..].strip_prefix("%}") else { continue };
            self.text(&rest[..begin], sign, true);
            self.skip(rest.len() - after.len());
            self.after_tag(end_sign, true);
            return Ok(());
        }
        self.wrong("`raw` does not end")
    }

    /// Reads the tokens of a tag up to `end`.
    fn tag(&mut self, end: &str) -> Result<(), Wrong> {
        let mut open: Vec<&str> = Vec::new();
        loop {
            let rest = self.rest();
            let space = rest.len() - rest.trim_start().len();
            self.skip(space);
            let rest = self.rest();
            let Some(first) = rest.chars().next() else {
                return self.wrong(format!("a tag does not end: `{end}` is missing"));
            };
            let signed = rest.strip_prefix(['-', '+']).filter(|_| first == '-' || end == "%}");
            if open.is_empty() && (rest.starts_with(end) || signed.is_some_and(|rest| rest.starts_with(end)))
            {
                let sign = Some(first).filter(|first| ['-', '+'].contains(first));
                self.push(if end == "%}" { Token::BlockEnd } else { Token::OutputEnd });
                self.skip(end.len() + usize::from(sign.is_some()));
                self.after_tag(sign, end == "%}");
                return Ok(());
            }
            if first.is_ascii_digit() {
                self.number()?;
            } else if first == '_' || first.is_alphabetic() {
                let length = rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
                self.push(Token::Name(rest[..length].to_owned()));
                self.skip(length);
            } else if first == '"' || first == '\'' {
                self.string(first)?;
            } else if let Some(operator) = OPERATORS.iter().find(|operator| rest.starts_with(**operator)) {
                match *operator {
                    "(" => open.push(")"),
                    "[" => open.push("]"),
                    "{" => open.push("}"),
                    ")" | "]" | "}" if open.pop() != Some(*operator) => {
                        return self.wrong(format!("`{operator}` closes nothing"));
                    }
                    _ => {}
                }
                self.push(Token::Operator(operator));
                self.skip(operator.len());
            } else {
                return self.wrong(format!("{first:?} is no token"));
            }
        }
    }

    fn number(&mut self) -> Result<(), Wrong> {
        let rest = self.rest();
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
        let parsed = |text: &str, radix| i128::from_str_radix(&text.replace('_', ""), radix);
        for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
            let Some(after) =
                rest.get(..2).filter(|begin| begin.eq_ignore_ascii_case(prefix)).map(|_| &rest[2..])
            else {
                continue;
            };
            let length = after.find(|c: char| !c.is_digit(radix) && c != '_').unwrap_or(after.len());
            let Ok(number) = parsed(&after[..length], radix) else { return self.wrong("a number is wrong") };
            self.push(Token::Int(number));
            self.skip(2 + length);
            return Ok(());
        }
        let mut length = digits(rest);
        let mut is_float = false;
        if let Some(fraction) =
            rest[length..].strip_prefix('.').filter(|after| after.starts_with(|c: char| c.is_ascii_digit()))
        {
            length += 1 + digits(fraction);
            is_float = true;
        }
        if let Some(exponent) = rest[length..].strip_prefix(['e', 'E']) {
            let signed = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if signed.starts_with(|c: char| c.is_ascii_digit()) {
                length += 1 + (exponent.len() - signed.len()) + digits(signed);
                is_float = true;
            }
        }
        let token = match is_float {
            true => rest[..length].replace('_', "").parse().ok().map(Token::Float),
            false => parsed(&rest[..length], 10).ok().map(Token::Int),
        };
        let Some(token) = token else { return self.wrong("a number is too large") };
        self.push(token);
        self.skip(length);
        Ok(())
    }

    fn string(&mut self, quote: char) -> Result<(), Wrong> {
        let rest = self.rest();
        let mut text = String::new();
        let mut characters = rest.char_indices().skip(1).peekable();
        while let Some((at, character)) = characters.next() {
            match character {
                _ if character == quote => {
                    self.push(Token::String(text));
                    self.skip(at + 1);
                    return Ok(());
                }
                '\\' => {
                    let Some((_, escaped)) = characters.next() else { break };
                    let digits = match escaped {
                        'x' => 2,
                        'u' => 4,
                        'U' => 8,
                        _ => 0,
                    };
                    match escaped {
                        'n' => text.push('\n'),
                        't' => text.push('\t'),
                        'r' => text.push('\r'),
                        'a' => text.push('\x07'),
                        'b' => text.push('\x08'),
                        'f' => text.push('\x0c'),
                        'v' => text.push('\x0b'),
                        '\n' => {}
                        '\\' | '\'' | '"' => text.push(escaped),
                        '0'..='7' => {
                            let mut code = escaped as u32 - 48;
                            for _ in 0..2 {
                                let Some((_, digit)) = characters.next_if(|(_, digit)| digit.is_digit(8))
                                else {
                                    break;
                                };
                                code = code * 8 + (digit as u32 - 48);
                            }
                            text.extend(char::from_u32(code));
                        }
                        _ if digits > 0 => {
                            let hex: String =
                                characters.by_ref().take(digits).map(|(_, digit)| digit).collect();
                            let Some(character) = u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32)
                            else {
                                return self.wrong(format!("the escape \\{escaped}{hex} is wrong"));
                            };
                            text.push(character);
                        }
                        _ => text.extend(['\\', escaped]),
                    }
                }
                _ => text.push(character),
            }
        }
        self.wrong("a text does not end")
    }
}
