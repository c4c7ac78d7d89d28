//! The parser.

use super::syntax_error;
use crate::Error;

/// The largest nesting depth.
const DEEPEST: usize = 48;
/// The largest number of tokens.
const LONGEST: usize = 1 << 16;
/// The most letters of a name.
const LONGEST_NAME: usize = 256;

/// A parsed expression.
#[derive(Debug)]
pub(super) enum Tree {
    Integer(i64),
    Word(String),
    All,
    /// `scale@path`
    Basis(Box<Tree>, Vec<usize>),
    /// A parenthesized list; `true` if it is a tuple by its comma.
    List(Vec<Tree>, bool),
    /// `<...>`
    Tiler(Vec<Tree>),
    /// `shape:stride`
    Layout(Box<Tree>, Box<Tree>),
    /// `name<parameters>(arguments)`
    Call(String, Vec<Tree>, Vec<Tree>),
    /// `function(coordinate)`
    Apply(Box<Tree>, Vec<Tree>),
    /// `a o b o c`
    Chain(Vec<Tree>),
    Arithmetic(char, Box<Tree>, Box<Tree>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'a> {
    Integer(i64),
    Word(&'a str),
    Symbol(char),
    End,
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(Token<'a>, usize)>,
    next: usize,
    depth: usize,
}

pub(super) fn parse(text: &str) -> Result<Tree, Error> {
    let tokens = tokens(text)?;
    let mut parser = Parser { text, tokens, next: 0, depth: 0 };
    let tree = parser.chain()?;
    match parser.peek() {
        Token::End => Ok(tree),
        _ => Err(parser.error("expected the end of the expression")),
    }
}

fn tokens(text: &str) -> Result<Vec<(Token<'_>, usize)>, Error> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let run = |from: usize, accept: fn(u8) -> bool| {
            from + bytes[from..].iter().position(|&byte| !accept(byte)).unwrap_or(bytes.len() - from)
        };
        let static_integer = bytes[at] == b'_' && bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
        let negative_static =
            bytes[at..].starts_with(b"_-") && bytes.get(at + 2).is_some_and(u8::is_ascii_digit);
        match bytes[at] {
            byte if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            byte if byte.is_ascii_digit() || static_integer || negative_static => {
                let from = at + usize::from(static_integer) + usize::from(negative_static);
                at = run(from + usize::from(negative_static), |byte| byte.is_ascii_digit());
                match text[from..at].parse() {
                    Ok(value) => tokens.push((Token::Integer(value), start)),
                    Err(_) => return Err(syntax_error(text, start, "an integer beyond 64 bits")),
                }
            }
            byte if byte.is_ascii_alphabetic() || byte == b'_' => {
                at = run(at, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
                if at - start > LONGEST_NAME {
                    let reason = format!("a name has at most {LONGEST_NAME} letters, not {}", at - start);
                    return Err(syntax_error(text, start, reason));
                }
                tokens.push((Token::Word(&text[start..at]), start));
            }
            byte if byte.is_ascii_graphic() => {
                at += 1;
                tokens.push((Token::Symbol(byte as char), start));
            }
            _ => return Err(syntax_error(text, start, "unexpected character")),
        }
        if tokens.len() > LONGEST {
            return Err(syntax_error(text, start, "the expression is too long"));
        }
    }
    tokens.push((Token::End, text.len()));
    Ok(tokens)
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens[self.next].0
    }

    fn advance(&mut self) -> Token<'a> {
        let token = self.peek();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    fn accept(&mut self, symbol: char) -> bool {
        let found = self.peek() == Token::Symbol(symbol);
        if found {
            self.advance();
        }
        found
    }

    fn error(&self, message: impl Into<String>) -> Error {
        syntax_error(self.text, self.tokens[self.next].1, message)
    }

    /// Runs `parse` one nesting level deeper.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.depth == DEEPEST {
            return Err(self.error(format!("expressions nest at most {DEEPEST} deep")));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// `sum o sum o ...`
    fn chain(&mut self) -> Result<Tree, Error> {
        self.nested(|parser| {
            let mut parts = vec![parser.sum()?];
            while parser.peek() == Token::Word("o") {
                parser.advance();
                parts.push(parser.sum()?);
            }
            Ok(if parts.len() == 1 { parts.remove(0) } else { Tree::Chain(parts) })
        })
    }

    fn sum(&mut self) -> Result<Tree, Error> {
        let mut left = self.product()?;
        for _ in 0..DEEPEST {
            let operator = match self.peek() {
                Token::Symbol(operator @ ('+' | '-')) => operator,
                _ => return Ok(left),
            };
            self.advance();
            left = Tree::Arithmetic(operator, Box::new(left), Box::new(self.product()?));
        }
        Err(self.error("too many operators: use parentheses"))
    }

    fn product(&mut self) -> Result<Tree, Error> {
        let mut left = self.layout()?;
        for _ in 0..DEEPEST {
            let operator = match self.peek() {
                Token::Symbol(operator @ ('*' | '/' | '%')) => operator,
                _ => return Ok(left),
            };
            self.advance();
            left = Tree::Arithmetic(operator, Box::new(left), Box::new(self.layout()?));
        }
        Err(self.error("too many operators: use parentheses"))
    }

    /// `primary`, `shape:stride`, either followed by coordinates in parentheses.
    fn layout(&mut self) -> Result<Tree, Error> {
        let mut tree = self.primary()?;
        if self.accept(':') {
            tree = Tree::Layout(Box::new(tree), Box::new(self.primary()?));
        }
        for _ in 0..DEEPEST {
            if !self.accept('(') {
                return Ok(tree);
            }
            tree = Tree::Apply(Box::new(tree), self.list(')')?.0);
        }
        Err(self.error("too many coordinates in a row"))
    }

    fn primary(&mut self) -> Result<Tree, Error> {
        let tree = match self.peek() {
            Token::Integer(value) => {
                self.advance();
                Tree::Integer(value)
            }
            Token::Symbol('-') => {
                self.advance();
                let value = self.nested(Self::primary)?;
                Tree::Arithmetic('-', Box::new(Tree::Integer(0)), Box::new(value))
            }
            Token::Symbol('(') => {
                self.advance();
                let (items, tuple) = self.list(')')?;
                Tree::List(items, tuple)
            }
            Token::Symbol('[') => {
                self.advance();
                Tree::Tiler(self.list(']')?.0)
            }
            Token::Symbol('<') => {
                self.advance();
                Tree::Tiler(self.list('>')?.0)
            }
            Token::Word("_" | "None") => {
                self.advance();
                Tree::All
            }
            Token::Word(name) => {
                self.advance();
                self.call_or_word(name)?
            }
            _ => return Err(self.error("expected a value")),
        };
        if self.accept('@') {
            return self.basis(tree);
        }
        Ok(tree)
    }

    fn basis(&mut self, scale: Tree) -> Result<Tree, Error> {
        let mut path = Vec::new();
        loop {
            match self.advance() {
                Token::Integer(mode @ 0..64) if path.len() < DEEPEST => path.push(mode as usize),
                _ => return Err(self.error("expected a mode number after `@`")),
            }
            if !self.accept('.') && !self.accept('@') {
                return Ok(Tree::Basis(Box::new(scale), path));
            }
        }
    }

    fn call_or_word(&mut self, name: &str) -> Result<Tree, Error> {
        let parameters = match self.accept('<') {
            true => Some(self.list('>')?.0),
            false => None,
        };
        if self.accept('(') {
            let arguments = self.list(')')?.0;
            return Ok(Tree::Call(name.into(), parameters.unwrap_or_default(), arguments));
        }
        Ok(match parameters {
            Some(parameters) => Tree::Call(name.into(), parameters, Vec::new()),
            None => Tree::Word(name.into()),
        })
    }

    /// Expressions up to `close`, separated by commas (optional between words), and whether the
    /// list is a tuple: it ends in a comma, or does not have exactly one item.
    fn list(&mut self, close: char) -> Result<(Vec<Tree>, bool), Error> {
        let mut items = Vec::new();
        let mut comma = true;
        loop {
            if self.accept(close) {
                let tuple = items.len() != 1 || comma;
                return Ok((items, tuple));
            }
            let words = matches!(
                (items.last(), self.peek()),
                (Some(Tree::Word(_) | Tree::Call(..)), Token::Word(_) | Token::Integer(_))
            );
            if !comma && !words {
                return Err(self.error(format!("expected `,` or `{close}`")));
            }
            items.push(self.chain()?);
            comma = self.accept(',');
        }
    }
}
