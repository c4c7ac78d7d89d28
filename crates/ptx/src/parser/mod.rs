//! PTX text into its syntax tree: a recursive-descent parser over bytes.

mod constant;
mod cursor;
mod declaration;
mod line_table;
mod object;
mod operand;
mod statement;

use std::sync::Arc;

use crate::error::ParseError;
use crate::syntax::{CallSite, Function, Linkage, Module, SourceLocation, StateSpace, Statement};
use cursor::{Cursor, Parsed};
use line_table::LineTable;

/// Nesting of blocks, initializers and parentheses beyond which text is refused.
///
/// Compilers nest a few levels; the limit keeps hostile text from exhausting the stack.
const NESTING_LIMIT: u32 = 128;

/// The newest major version of PTX.
const NEWEST_MAJOR_VERSION: u32 = 9;

/// Variables that one declaration `name<count>` makes, at most. Compilers number registers to some
/// hundred thousand.
const NUMBERED_LIMIT: u32 = 1 << 24;

/// Bytes of a variable, at most: more than any device has.
const VARIABLE_BYTES_LIMIT: u64 = 1 << 48;

/// Reads a PTX module.
///
/// Names are not resolved and opcodes are not checked: a module with unknown instructions still
/// parses.
///
/// # Errors
/// [`ParseError`] for text that is not PTX. It gives line, column, what was expected and what was
/// found.
///
/// # Example
/// ```
/// let module = warpwright_ptx::parse(
///     ".version 9.0\n.target sm_80\n.visible .entry k() { ret; }",
/// )?;
/// assert_eq!(module.functions[0].name, "k");
/// # Ok::<(), warpwright_ptx::ParseError>(())
/// ```
pub fn parse(text: &str) -> Result<Module, ParseError> {
    let mut parser = Parser::new(text);
    parser.module()?;
    Ok(parser.module)
}

/// Whether a directive begins an item of a module, and none that belongs to a function's head.
fn opens_item(word: &str) -> bool {
    const ITEMS: [&str; 12] = [
        "visible",
        "extern",
        "weak",
        "common",
        "entry",
        "func",
        "file",
        "section",
        "loc",
        "alias",
        "align",
        "attribute",
    ];
    ITEMS.contains(&word) || StateSpace::from_word(word).is_some()
}

struct Parser<'text> {
    cursor: Cursor<'text>,
    module: Module,
    nesting: u32,
    /// The `.loc` in force, and the call that was inlined around it.
    location: Option<SourceLocation>,
    /// The first `.loc` of the inline assembly at that place of the text.
    assembly_location: Option<(usize, SourceLocation)>,
    inlined: Option<Arc<CallSite>>,
    lines: LineTable,
    /// Arrays in scope with the bytes of one element, for `array[3]`.
    arrays: Vec<(String, u32)>,
}

impl<'text> Parser<'text> {
    fn new(text: &'text str) -> Self {
        Self {
            cursor: Cursor::new(text),
            module: Module { address_size: 64, ..Module::default() },
            nesting: 0,
            location: None,
            assembly_location: None,
            inlined: None,
            lines: LineTable::default(),
            arrays: Vec::new(),
        }
    }

    /// Enters one level of nesting. Every rule that can recurse without bound goes through here.
    fn descend(&mut self) -> Parsed<()> {
        if self.nesting == NESTING_LIMIT {
            return self.cursor.error(format!("no more than {NESTING_LIMIT} levels of nesting"));
        }
        self.nesting += 1;
        Ok(())
    }

    fn ascend(&mut self) {
        self.nesting -= 1;
    }

    fn array_element_bytes(&self, name: &str) -> Option<u32> {
        self.arrays.iter().rev().find(|(array, _)| array == name).map(|(_, bytes)| *bytes)
    }

    fn module(&mut self) -> Parsed<()> {
        if !self.cursor.take_directive("version") {
            return self.cursor.error("`.version` first in a module");
        }
        self.version()?;
        if !self.cursor.take_directive("target") {
            return self.cursor.error("`.target` after `.version`");
        }
        self.target()?;
        while self.cursor.take_directive("target") {
            self.target()?;
        }
        if self.cursor.take_directive("address_size") {
            self.module.address_size = self.count("32 or 64")?;
        }
        while !self.cursor.at_end() {
            self.module_item()?;
        }
        Ok(())
    }

    fn version(&mut self) -> Parsed<()> {
        let mark = self.cursor.mark();
        let numbers = self.cursor.number_text().split_once('.');
        let version = numbers.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        match version {
            Some((major, minor)) if (1..=NEWEST_MAJOR_VERSION).contains(&major) && minor <= 9 => {
                self.module.version = (major, minor);
            }
            Some(_) => {
                let expected = format!("a version of PTX, which are 1.0 to {NEWEST_MAJOR_VERSION}.x");
                return self.cursor.error_at(mark, expected);
            }
            None => return self.cursor.error_at(mark, "a version such as `9.0`"),
        }
        Ok(())
    }

    fn target(&mut self) -> Parsed<()> {
        loop {
            let word = self.cursor.expect_word("a target such as `sm_80`")?;
            self.module.target.push(word.to_owned());
            if !self.cursor.take(b',') {
                return Ok(());
            }
        }
    }

    fn module_item(&mut self) -> Parsed<()> {
        if self.cursor.take_symbol("@@DWARF") {
            // The debug lines of PTX before 2.0.
            self.cursor.skip_line();
            self.cursor.skip_blanks();
            return Ok(());
        }
        let mark = self.cursor.mark();
        match self.cursor.directive() {
            Some("file") => self.file(),
            Some("section") => self.section(),
            Some("loc") => self.location().map(|_| ()),
            Some("pragma") => {
                let texts = self.pragma()?;
                self.module.pragmas.extend(texts);
                Ok(())
            }
            Some("alias") => self.alias(),
            Some(_) => {
                self.cursor.return_to(mark);
                self.linked_item()
            }
            None => self.cursor.error("a directive such as `.entry`, `.func` or `.global`"),
        }
    }

    /// `1 "path"[, timestamp, size]`
    fn file(&mut self) -> Parsed<()> {
        let number = self.count("the number of a file")?;
        let path = self.cursor.string("the path of a file, in quotes")?.to_owned();
        if self.cursor.take(b',') {
            self.integers()?;
        }
        self.module.files.insert(number, path);
        Ok(())
    }

    /// `.debug_info { ... }`: debugging data, not kept.
    fn section(&mut self) -> Parsed<()> {
        if self.cursor.directive().is_none() && self.cursor.word().is_none() {
            return self.cursor.error("the name of a section");
        }
        if self.cursor.peek() != b'{' {
            return self.cursor.error("`{` after the name of a section");
        }
        self.cursor.skip_braces()
    }

    fn alias(&mut self) -> Parsed<()> {
        let name = self.cursor.expect_word("the alias")?.to_owned();
        self.cursor.expect(b',', "between an alias and its function")?;
        let function = self.cursor.expect_word("the function an alias stands for")?.to_owned();
        self.module.aliases.push((name, function));
        self.cursor.expect(b';', "after an alias")
    }

    /// A variable or a function, with the linking directive before it.
    fn linked_item(&mut self) -> Parsed<()> {
        let mut linkage = Linkage::Private;
        loop {
            let mark = self.cursor.mark();
            match (linkage, self.cursor.directive()) {
                (Linkage::Private, Some("visible")) => linkage = Linkage::Visible,
                (Linkage::Private, Some("extern")) => linkage = Linkage::Extern,
                (Linkage::Private, Some("weak")) => linkage = Linkage::Weak,
                (Linkage::Private, Some("common")) => linkage = Linkage::Common,
                (Linkage::Common, Some("entry" | "func")) => {
                    return self.cursor.error_at(mark, "a variable after `.common`");
                }
                (_, Some("entry")) => return self.function(linkage, true),
                (_, Some("func")) => return self.function(linkage, false),
                _ => {
                    self.cursor.return_to(mark);
                    let expected = "`.entry`, `.func` or a state space such as `.global`";
                    let variables = self.variables(linkage, expected)?;
                    self.module.variables.extend(variables);
                    return Ok(());
                }
            }
        }
    }

    fn function(&mut self, linkage: Linkage, is_entry: bool) -> Parsed<()> {
        let line = self.cursor.mark().line();
        let arrays_outside = self.arrays.len();
        let mut attributes = Vec::new();
        if self.cursor.take_directive("attribute") {
            attributes = self.attributes()?;
        }
        let returns = if !is_entry && self.cursor.peek() == b'(' { self.parameters()? } else { Vec::new() };
        let name = self.cursor.expect_name("the name of a function")?.to_owned();
        let parameters = if self.cursor.peek() == b'(' { self.parameters()? } else { Vec::new() };
        let mut pragmas = Vec::new();
        let directives = self.function_directives(&mut pragmas)?;
        self.cursor.take_remarks();
        let body = self.function_body(is_entry, pragmas)?;
        let objects = self.cursor.take_remarks().into_iter().filter_map(object::read).collect();
        self.arrays.truncate(arrays_outside);
        self.module.functions.push(Function {
            is_entry,
            linkage,
            name,
            returns,
            parameters,
            attributes,
            directives,
            objects,
            body,
            line,
        });
        Ok(())
    }

    /// `.maxntid 256, 1, 1` and the like; the texts of any `.pragma` among them go to `pragmas`.
    fn function_directives(&mut self, pragmas: &mut Vec<String>) -> Parsed<Vec<(String, Vec<i64>)>> {
        let mut directives = Vec::new();
        while self.cursor.peek() == b'.' {
            let mark = self.cursor.mark();
            match self.cursor.directive() {
                Some("pragma") => pragmas.extend(self.pragma()?),
                Some(word) if opens_item(word) => {
                    self.cursor.return_to(mark);
                    break;
                }
                Some(word) => {
                    let has_numbers = self.cursor.peek().is_ascii_digit() || self.cursor.peek() == b'(';
                    let numbers = if has_numbers { self.integers()? } else { Vec::new() };
                    directives.push((word.to_owned(), numbers));
                }
                None => return self.cursor.error("a directive such as `.maxntid`"),
            }
        }
        Ok(directives)
    }

    /// `;` for a declaration, or the statements. A declaration of a device function may lack its
    /// `;`, as in the output of NVIDIA's compilers before LLVM: the next item ends it.
    fn function_body(&mut self, is_entry: bool, pragmas: Vec<String>) -> Parsed<Option<Vec<Statement>>> {
        let at_item = matches!(self.cursor.peek(), b'.' | b'@') || self.cursor.at_end();
        if self.cursor.take(b';') || !is_entry && at_item {
            return Ok(None);
        }
        if self.cursor.peek() != b'{' {
            return self.cursor.error("`{` or `;` after the head of a function");
        }
        (self.location, self.inlined, self.lines) = (None, None, LineTable::default());
        let mut body: Vec<Statement> = pragmas.into_iter().map(Statement::Pragma).collect();
        body.extend(self.block()?);
        Ok(Some(body))
    }
}
