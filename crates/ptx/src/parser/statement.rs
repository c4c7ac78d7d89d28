//! The body of a function.

use super::cursor::{Mark, Parsed};
use super::operand::OperandStyle;
use super::{Parser, object};
use crate::syntax::{Guard, Instruction, Linkage, Opcode, SourceLocation, Statement};

impl Parser<'_> {
    /// `{ statements }`, with its own scope of names.
    pub(super) fn block(&mut self) -> Parsed<Vec<Statement>> {
        self.descend()?;
        let opening = self.cursor.mark();
        self.cursor.expect(b'{', "before statements")?;
        let arrays_outside = self.arrays.len();
        let mut statements = Vec::new();
        while !self.cursor.take(b'}') {
            if self.cursor.at_end() {
                return self.cursor.error_at(opening, "a `}` that closes this `{`");
            }
            self.statement(&mut statements)?;
        }
        self.arrays.truncate(arrays_outside);
        self.ascend();
        Ok(statements)
    }

    fn statement(&mut self, statements: &mut Vec<Statement>) -> Parsed<()> {
        let start = self.cursor.mark();
        match self.cursor.peek() {
            b'{' => {
                let block = self.block()?;
                statements.push(Statement::Block(block));
                Ok(())
            }
            b'.' => self.directive_statement(statements),
            b'@' => self.guarded(start, statements),
            _ => self.labeled_or_instruction(start, statements),
        }
    }

    fn directive_statement(&mut self, statements: &mut Vec<Statement>) -> Parsed<()> {
        let mark = self.cursor.mark();
        match self.cursor.directive() {
            Some("loc") => {
                let (stated, inlined) = self.location()?;
                let location = self.of_statement(stated);
                self.location = Some(location);
                self.inlined = self.lines.note(location, inlined);
                statements.push(Statement::Location(location));
                Ok(())
            }
            Some("pragma") => {
                statements.extend(self.pragma()?.into_iter().map(Statement::Pragma));
                Ok(())
            }
            _ => {
                self.cursor.return_to(mark);
                let expected = "a statement: an instruction, a label, `.reg`, `.shared` or `.loc`";
                let variables = self.variables(Linkage::Private, expected)?;
                statements.extend(variables.into_iter().map(Statement::Variable));
                Ok(())
            }
        }
    }

    /// The location of the author's statement. In inline assembly, LLVM counts the lines of the assembly on from that
    /// of the statement, which the first `.loc` has: Triton's loads are several lines of assembly.
    fn of_statement(&mut self, stated: SourceLocation) -> SourceLocation {
        let Some(assembly) = self.cursor.inline_assembly() else { return stated };
        match self.assembly_location {
            Some((of, first)) if of == assembly => first,
            _ => {
                self.assembly_location = Some((assembly, stated));
                stated
            }
        }
    }

    /// `"text", "text";`
    pub(super) fn pragma(&mut self) -> Parsed<Vec<String>> {
        let mut texts = Vec::new();
        loop {
            texts.push(self.cursor.string("the text of a pragma")?.to_owned());
            if self.cursor.take(b';') {
                return Ok(texts);
            }
            self.cursor.expect(b',', "or `;` after a pragma")?;
        }
    }

    /// `file line column[, function_name label[+offset], inlined_at file line column]`, with no
    /// `;`.
    pub(super) fn location(&mut self) -> Parsed<(SourceLocation, Option<(String, SourceLocation)>)> {
        let location = self.position()?;
        if !self.cursor.take(b',') {
            return Ok((location, None));
        }
        let mark = self.cursor.mark();
        if self.cursor.word() != Some("function_name") {
            return self.cursor.error_at(mark, "`function_name`");
        }
        let mut function = self.cursor.expect_word("the label of a function's name")?.to_owned();
        if self.cursor.take(b'+') {
            function += &format!("+{}", self.count("a whole number of bytes")?);
        }
        self.cursor.expect(b',', "before `inlined_at`")?;
        let mark = self.cursor.mark();
        if self.cursor.word() != Some("inlined_at") {
            return self.cursor.error_at(mark, "`inlined_at`");
        }
        Ok((location, Some((function, self.position()?))))
    }

    fn position(&mut self) -> Parsed<SourceLocation> {
        let file = self.count("the number of a file")?;
        let line = self.count("a line")?;
        let column = self.count("a column")?;
        Ok(SourceLocation { file, line, column })
    }

    fn guarded(&mut self, start: Mark, statements: &mut Vec<Statement>) -> Parsed<()> {
        self.cursor.expect(b'@', "before a guard")?;
        let negated = self.cursor.take(b'!');
        let predicate = self.cursor.expect_word("a predicate")?.to_owned();
        let name = self.cursor.mark();
        if self.cursor.word_touching().is_none() {
            return self.cursor.error("an instruction after its guard");
        }
        self.instruction(start, name, Some(Guard { predicate, negated }), statements)
    }

    fn labeled_or_instruction(&mut self, start: Mark, statements: &mut Vec<Statement>) -> Parsed<()> {
        let expected = "a statement: an instruction, a label, `.reg`, `{` or `}`";
        let Some(word) = self.cursor.word_touching() else { return self.cursor.error(expected) };
        if word == "_" {
            return self.cursor.error_at(start, expected);
        }
        let next = self.cursor.peek();
        if next == b'.' {
            return self.instruction(start, start, None, statements);
        }
        let name = word.to_owned();
        let after_word = self.cursor.mark();
        self.cursor.skip_blanks();
        if self.cursor.take(b':') {
            return self.label(name, statements);
        }
        self.cursor.return_to(after_word);
        self.instruction(start, start, None, statements)
    }

    /// What a label precedes: a table, or any statement.
    fn label(&mut self, name: String, statements: &mut Vec<Statement>) -> Parsed<()> {
        let mark = self.cursor.mark();
        let statement = match self.cursor.directive() {
            Some("branchtargets") => Statement::BranchTargets { name, targets: self.names("a label")? },
            Some("calltargets") => Statement::CallTargets { name, targets: self.names("a function")? },
            Some("callprototype") => self.call_prototype(name)?,
            _ => {
                self.cursor.return_to(mark);
                Statement::Label(name)
            }
        };
        statements.push(statement);
        Ok(())
    }

    /// Names separated by commas, up to and with the `;`.
    fn names(&mut self, what: &str) -> Parsed<Vec<String>> {
        let mut names = Vec::new();
        loop {
            names.push(self.cursor.expect_word(what)?.to_owned());
            if self.cursor.take(b';') {
                return Ok(names);
            }
            self.cursor.expect(b',', "or `;` after a name")?;
        }
    }

    fn call_prototype(&mut self, name: String) -> Parsed<Statement> {
        let returns = if self.cursor.peek() == b'(' { self.parameters()? } else { Vec::new() };
        self.cursor.expect_word("`_`, the name of a prototype")?;
        let parameters = if self.cursor.peek() == b'(' { self.parameters()? } else { Vec::new() };
        let directives = self.function_directives(&mut Vec::new())?;
        self.cursor.expect(b';', "after a prototype")?;
        Ok(Statement::CallPrototype { name, returns, parameters, directives })
    }

    /// The cursor is right after the first word of the opcode, which begins at `start`. ptxas takes blanks
    /// before a modifier.
    fn opcode(&mut self, start: Mark) -> Opcode {
        let mut opcode = self.cursor.dotted_from(start).to_owned();
        while self.cursor.peek() == b'.' && self.cursor.peek_at(1).is_ascii_alphabetic() {
            let start = self.cursor.mark();
            opcode += self.cursor.dotted_from(start);
        }
        Opcode::new(opcode)
    }

    /// The cursor is right after the first word of the opcode, which begins at `name`.
    fn instruction(
        &mut self,
        start: Mark,
        name: Mark,
        guard: Option<Guard>,
        statements: &mut Vec<Statement>,
    ) -> Parsed<()> {
        let opcode = self.opcode(name);
        let style = match opcode.base() {
            "call" => OperandStyle::Call,
            "mov" | "cvta" => OperandStyle::Plain,
            _ => OperandStyle::Memory,
        };
        let operands = self.operands(style)?;
        let remarks = self.cursor.remarks();
        self.cursor.expect(b';', "or `,` after an operand")?;
        let part = self.cursor.remark(remarks).and_then(object::part);
        statements.push(Statement::Instruction(Instruction {
            guard,
            opcode,
            operands,
            line: start.line(),
            location: self.location,
            inlined: self.inlined.clone(),
            part,
        }));
        Ok(())
    }
}
