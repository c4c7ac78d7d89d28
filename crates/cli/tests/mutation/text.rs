//! PTX as statements with places, so that one of them can be changed and the rest stays as it is.

use std::ops::Range;

/// The statements of a kernel, and of the functions of its text.
pub(crate) struct Kernel<'a> {
    pub(crate) statements: Vec<Statement<'a>>,
}

/// An instruction in a text.
pub(crate) struct Statement<'a> {
    pub(crate) text: &'a str,
    pub(crate) range: Range<usize>,
    /// Its line, from 1.
    pub(crate) line: usize,
    /// `@%p1 ` or nothing.
    pub(crate) guard: &'a str,
    pub(crate) opcode: &'a str,
    pub(crate) operands: Vec<&'a str>,
}

impl<'a> Kernel<'a> {
    /// The instructions of the kernel of that name. Those that take several lines are left out.
    pub(crate) fn of(text: &'a str, name: &str) -> Self {
        let mut statements = Vec::new();
        let mut inside = true;
        let mut start = 0;
        for (line, number) in text.split_inclusive('\n').zip(1..) {
            if let Some((_, entry)) = line.split_once(".entry ") {
                let entry = entry.trim_start();
                let end = entry.find(|c: char| !(c.is_alphanumeric() || "_$".contains(c)));
                inside = &entry[..end.unwrap_or(entry.len())] == name;
            } else if line.trim_start().starts_with(".func") || line.contains(" .func") {
                inside = true;
            }
            if inside {
                let code = line.find("//").map_or(line, |comment| &line[..comment]);
                of_line(code, start, number, &mut statements);
            }
            start += line.len();
        }
        Self { statements }
    }
}

/// The instructions of one line, which begins at a place of the text.
fn of_line<'a>(line: &'a str, start: usize, number: usize, statements: &mut Vec<Statement<'a>>) {
    let mut from = 0;
    while let Some(length) = line[from..].find(';') {
        let whole = &line[from..from + length + 1];
        let text = after_labels(whole);
        let begin = start + from + whole.len() - text.len();
        from += length + 1;
        if let Some(statement) = Statement::parse(text, begin, number) {
            statements.push(statement);
        }
    }
}

/// What follows braces and labels.
fn after_labels(text: &str) -> &str {
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || c == '{' || c == '}');
    let name = text.find(|c: char| !(c.is_alphanumeric() || "_$%".contains(c))).unwrap_or(text.len());
    match text[name..].strip_prefix(':') {
        Some(rest) if name > 0 && !rest.starts_with(':') => after_labels(rest),
        _ => text,
    }
}

impl<'a> Statement<'a> {
    fn parse(text: &'a str, start: usize, line: usize) -> Option<Self> {
        let guarded = text.starts_with('@').then(|| text.find(char::is_whitespace)).flatten();
        let opcode_at =
            guarded.map_or(0, |end| end + text[end..].find(|c: char| !c.is_whitespace()).unwrap_or(0));
        let (guard, rest) = text.split_at(opcode_at);
        let rest = rest.strip_suffix(';')?;
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (opcode, operands) = rest.split_at(end);
        if !opcode.starts_with(|c: char| c.is_ascii_lowercase()) {
            return None;
        }
        let range = start..start + text.len();
        Some(Self { text, range, line, guard, opcode, operands: split(operands) })
    }

    /// Whether the opcode begins in one of these ways.
    pub(crate) fn is(&self, prefixes: &[&str]) -> bool {
        prefixes.iter().any(|prefix| self.opcode.starts_with(prefix))
    }

    /// An operand, or nothing.
    pub(crate) fn operand(&self, index: usize) -> &'a str {
        self.operands.get(index).copied().unwrap_or("")
    }

    /// The predicate that guards it.
    pub(crate) fn guard_name(&self) -> Option<&'a str> {
        let name = self.guard.trim().strip_prefix('@')?;
        Some(name.strip_prefix('!').unwrap_or(name))
    }

    pub(crate) fn with_opcode(&self, opcode: &str) -> String {
        format!("{}{opcode} {};", self.guard, self.operands.join(", "))
    }

    pub(crate) fn with_operand(&self, index: usize, operand: &str) -> String {
        let mut operands = self.operands.clone();
        operands[index] = operand;
        format!("{}{} {};", self.guard, self.opcode, operands.join(", "))
    }
}

/// Operands, which commas part that are in no brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '[' | '{' | '(' => depth += 1,
            ']' | '}' | ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[from..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}
