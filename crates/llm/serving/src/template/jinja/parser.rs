//! From tokens to the tree of a template, by the grammar of jinja2.

use std::sync::Arc;

use super::error::Wrong;
use super::lexer::Token;
use super::syntax::{
    Arguments, Binary, Body, Comparison, Expression, Filter, For, Macro, Node, Statement, Target,
};

/// How deep expressions and blocks may be nested: the stack of a thread holds some thousand.
const DEEPEST: usize = 150;

/// How long a chain such as `a + a + a` may be, which is nested in the tree.
const LONGEST_CHAIN: usize = 300;

/// The statements of a template.
pub(super) fn parse(tokens: Vec<(Token, usize)>) -> Result<Body, Wrong> {
    let mut parser = Parser { tokens, at: 0, depth: 0 };
    let (body, _) = parser.body(&[])?;
    Ok(body)
}

struct Parser {
    tokens: Vec<(Token, usize)>,
    at: usize,
    depth: usize,
}

type Parsed<T> = Result<T, Wrong>;

impl Parser {
    fn token(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |(token, _)| token)
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |(_, line)| *line)
    }

    fn next(&mut self) -> Token {
        let token = self.token().clone();
        self.at += 1;
        token
    }

    fn wrong<T>(&self, message: impl Into<String>) -> Parsed<T> {
        Err(Wrong { line: self.line(), message: message.into() })
    }

    fn is(&self, operator: &str) -> bool {
        matches!(self.token(), Token::Operator(found) if *found == operator)
    }

    fn is_name(&self, name: &str) -> bool {
        matches!(self.token(), Token::Name(found) if found == name)
    }

    fn skip(&mut self, operator: &str) -> bool {
        let found = self.is(operator);
        self.at += usize::from(found);
        found
    }

    fn skip_name(&mut self, name: &str) -> bool {
        let found = self.is_name(name);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, operator: &str) -> Parsed<()> {
        if self.skip(operator) { Ok(()) } else { self.wrong(format!("`{operator}` is missing")) }
    }

    fn expect_name(&mut self, name: &str) -> Parsed<()> {
        if self.skip_name(name) { Ok(()) } else { self.wrong(format!("`{name}` is missing")) }
    }

    fn end_of_block(&mut self) -> Parsed<()> {
        match self.next() {
            Token::BlockEnd => Ok(()),
            _ => {
                self.at -= 1;
                self.wrong("`%}` is missing")
            }
        }
    }

    fn name(&mut self) -> Parsed<String> {
        match self.next() {
            Token::Name(name) => Ok(name),
            _ => {
                self.at -= 1;
                self.wrong("a name is missing")
            }
        }
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Parser) -> Parsed<T>) -> Parsed<T> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return self.wrong(format!("the template is nested more than {DEEPEST} times"));
        }
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Counts a link of a chain.
    fn link(&self, links: &mut usize) -> Parsed<()> {
        *links += 1;
        if *links > LONGEST_CHAIN {
            return self.wrong(format!("an expression has more than {LONGEST_CHAIN} operators in a row"));
        }
        Ok(())
    }

    /// Statements up to a block that begins with one of the names, which is left out. Without names up to the end.
    fn body(&mut self, ends: &[&str]) -> Parsed<(Body, String)> {
        let mut body = Vec::new();
        loop {
            let line = self.line();
            let statement = match self.next() {
                Token::Text(text) => Statement::Text(text),
                Token::OutputBegin => {
                    let expression = self.tuple(true)?;
                    match self.next() {
                        Token::OutputEnd => Statement::Output(expression),
                        _ => {
                            self.at -= 1;
                            return self.wrong("`}}` is missing");
                        }
                    }
                }
                Token::BlockBegin => {
                    let name = self.name()?;
                    if ends.contains(&name.as_str()) {
                        return Ok((body, name));
                    }
                    self.nested(|parser| parser.statement(&name))?
                }
                Token::End if ends.is_empty() => return Ok((body, String::new())),
                _ => return self.wrong(format!("`{{% {} %}}` is missing", ends.join(" %}` or `{% "))),
            };
            body.push(Node { line, statement });
        }
    }

    /// A body up to one end, with the end's tag.
    fn block(&mut self, end: &str) -> Parsed<Body> {
        self.end_of_block()?;
        let (body, _) = self.body(&[end])?;
        self.end_of_block()?;
        Ok(body)
    }

    fn statement(&mut self, name: &str) -> Parsed<Statement> {
        let statement = match name {
            "for" => return self.for_loop(),
            "if" => return self.condition(),
            "set" => return self.set(),
            "macro" => {
                let name = self.name()?;
                self.expect("(")?;
                let parameters = self.parameters()?;
                let body = self.block("endmacro")?;
                return Ok(Statement::Macro(Arc::new(Macro::new(name, parameters, body))));
            }
            "call" => {
                let parameters = if self.skip("(") { self.parameters()? } else { Vec::new() };
                let call = self.expression()?;
                if !matches!(call, Expression::Call(..)) {
                    return self.wrong("`call` needs a call");
                }
                let body = self.block("endcall")?;
                return Ok(Statement::Call(
                    call,
                    Arc::new(Macro::new("caller".to_owned(), parameters, body)),
                ));
            }
            "filter" => {
                let mut filters = vec![self.filter()?];
                while self.skip("|") {
                    filters.push(self.filter()?);
                }
                return Ok(Statement::FilterBlock(filters, self.block("endfilter")?));
            }
            "with" => {
                let mut variables = Vec::new();
                while !matches!(self.token(), Token::BlockEnd) {
                    if !variables.is_empty() {
                        self.expect(",")?;
                    }
                    let target = self.target(false)?;
                    self.expect("=")?;
                    variables.push((target, self.expression()?));
                }
                return Ok(Statement::With(variables, self.block("endwith")?));
            }
            // transformers marks with it which tokens the model generates.
            "generation" => return Ok(Statement::With(Vec::new(), self.block("endgeneration")?)),
            "break" => Statement::Break,
            "continue" => Statement::Continue,
            "print" => Statement::Output(self.tuple(true)?),
            "autoescape" => return self.wrong("the statement `autoescape` is not supported"),
            _ => return self.wrong(format!("there is no statement `{name}`")),
        };
        self.end_of_block()?;
        Ok(statement)
    }

    fn for_loop(&mut self) -> Parsed<Statement> {
        let target = self.target(false)?;
        self.expect_name("in")?;
        let items = self.tuple(false)?;
        let condition = if self.skip_name("if") { Some(self.expression()?) } else { None };
        let is_recursive = self.skip_name("recursive");
        self.end_of_block()?;
        let (body, end) = self.body(&["endfor", "else"])?;
        self.end_of_block()?;
        let mut otherwise = Vec::new();
        if end == "else" {
            otherwise = self.body(&["endfor"])?.0;
            self.end_of_block()?;
        }
        Ok(Statement::For(Arc::new(For { target, items, condition, is_recursive, body, otherwise })))
    }

    fn condition(&mut self) -> Parsed<Statement> {
        let mut branches = Vec::new();
        let mut condition = Some(self.tuple(false)?);
        loop {
            self.end_of_block()?;
            let ends: &[&str] = if condition.is_some() { &["elif", "else", "endif"] } else { &["endif"] };
            let (body, end) = self.body(ends)?;
            branches.push((condition.take(), body));
            match end.as_str() {
                "elif" => condition = Some(self.tuple(false)?),
                "else" => {}
                _ => {
                    self.end_of_block()?;
                    return Ok(Statement::If(branches));
                }
            }
        }
    }

    fn set(&mut self) -> Parsed<Statement> {
        let target = self.target(true)?;
        if self.skip("=") {
            let value = self.tuple(true)?;
            self.end_of_block()?;
            return Ok(Statement::Set(target, value));
        }
        let mut filters = Vec::new();
        while self.skip("|") {
            filters.push(self.filter()?);
        }
        Ok(Statement::SetBlock(target, filters, self.block("endset")?))
    }

    /// The names and defaults after `(`, and the `)`.
    fn parameters(&mut self) -> Parsed<Vec<(String, Option<Expression>)>> {
        let mut parameters = Vec::new();
        while !self.skip(")") {
            if !parameters.is_empty() {
                self.expect(",")?;
            }
            let name = self.name()?;
            let default = if self.skip("=") { Some(self.expression()?) } else { None };
            if default.is_none()
                && parameters.last().is_some_and(|(_, default): &(String, Option<_>)| default.is_some())
            {
                return self
                    .wrong(format!("the parameter `{name}` without a default follows one with a default"));
            }
            parameters.push((name, default));
        }
        Ok(parameters)
    }

    /// One target, or several with commas.
    fn target(&mut self, may_be_attribute: bool) -> Parsed<Target> {
        let first = self.single_target(may_be_attribute)?;
        if !self.is(",") {
            return Ok(first);
        }
        let mut targets = vec![first];
        while self.skip(",") {
            if !matches!(self.token(), Token::Name(name) if name != "in") && !self.is("(") {
                break;
            }
            targets.push(self.single_target(false)?);
        }
        Ok(Target::Tuple(targets))
    }

    fn single_target(&mut self, may_be_attribute: bool) -> Parsed<Target> {
        if self.skip("(") {
            let target = self.nested(|parser| parser.target(false))?;
            self.expect(")")?;
            return Ok(target);
        }
        let name = self.name()?;
        if may_be_attribute && self.skip(".") {
            return Ok(Target::Attribute(name, self.name()?));
        }
        Ok(Target::Name(name))
    }

    /// An expression, or several with commas. `has_condition` is false where `if` means something else.
    fn tuple(&mut self, has_condition: bool) -> Parsed<Expression> {
        let one = |parser: &mut Parser| if has_condition { parser.expression() } else { parser.or() };
        let first = one(self)?;
        if !self.is(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.skip(",") {
            let ends = matches!(self.token(), Token::OutputEnd | Token::BlockEnd)
                || self.is(")")
                || self.is_name("recursive");
            if ends {
                break;
            }
            items.push(one(self)?);
        }
        Ok(Expression::Tuple(items))
    }

    fn expression(&mut self) -> Parsed<Expression> {
        self.nested(Parser::conditional)
    }

    fn conditional(&mut self) -> Parsed<Expression> {
        let mut value = self.or()?;
        let mut links = 0;
        while self.skip_name("if") {
            self.link(&mut links)?;
            let condition = Box::new(self.or()?);
            let otherwise = if self.skip_name("else") { Some(Box::new(self.expression()?)) } else { None };
            value = Expression::If(condition, Box::new(value), otherwise);
        }
        Ok(value)
    }

    fn or(&mut self) -> Parsed<Expression> {
        let mut left = self.and()?;
        let mut links = 0;
        while self.skip_name("or") {
            self.link(&mut links)?;
            left = Expression::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Parsed<Expression> {
        let mut left = self.not()?;
        let mut links = 0;
        while self.skip_name("and") {
            self.link(&mut links)?;
            left = Expression::And(Box::new(left), Box::new(self.not()?));
        }
        Ok(left)
    }

    fn not(&mut self) -> Parsed<Expression> {
        if self.skip_name("not") {
            return Ok(Expression::Not(Box::new(self.nested(Parser::not)?)));
        }
        self.compare()
    }

    fn compare(&mut self) -> Parsed<Expression> {
        let left = self.sum()?;
        let mut rest = Vec::new();
        loop {
            let comparison = match self.token() {
                Token::Operator("==") => Comparison::Equal,
                Token::Operator("!=") => Comparison::NotEqual,
                Token::Operator("<") => Comparison::Less,
                Token::Operator("<=") => Comparison::LessOrEqual,
                Token::Operator(">") => Comparison::Greater,
                Token::Operator(">=") => Comparison::GreaterOrEqual,
                Token::Name(name) if name == "in" => Comparison::In,
                Token::Name(name) if name == "not" && self.is_not_in() => {
                    self.at += 1;
                    Comparison::NotIn
                }
                _ => break,
            };
            self.at += 1;
            rest.push((comparison, self.sum()?));
        }
        Ok(if rest.is_empty() { left } else { Expression::Compare(Box::new(left), rest) })
    }

    fn is_not_in(&self) -> bool {
        matches!(self.tokens.get(self.at + 1), Some((Token::Name(name), _)) if name == "in")
    }

    /// Operators of one precedence, from left to right.
    fn binary(
        &mut self,
        operators: &[(&str, Binary)],
        operand: impl Fn(&mut Parser) -> Parsed<Expression>,
    ) -> Parsed<Expression> {
        let mut left = operand(self)?;
        let mut links = 0;
        while let Some((name, operator)) = operators.iter().find(|(name, _)| self.is(name)) {
            self.skip(name);
            self.link(&mut links)?;
            left = Expression::Binary(*operator, Box::new(left), Box::new(operand(self)?));
        }
        Ok(left)
    }

    fn sum(&mut self) -> Parsed<Expression> {
        self.binary(&[("+", Binary::Add), ("-", Binary::Subtract)], Parser::concat)
    }

    fn concat(&mut self) -> Parsed<Expression> {
        let mut parts = vec![self.product()?];
        while self.skip("~") {
            parts.push(self.product()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::Concat(parts) })
    }

    fn product(&mut self) -> Parsed<Expression> {
        let operators = [
            ("*", Binary::Multiply),
            ("/", Binary::Divide),
            ("//", Binary::FloorDivide),
            ("%", Binary::Remainder),
        ];
        self.binary(&operators, |parser| parser.binary(&[("**", Binary::Power)], |parser| parser.unary(true)))
    }

    fn unary(&mut self, has_filters: bool) -> Parsed<Expression> {
        let value = if self.skip("-") {
            Expression::Negative(Box::new(self.nested(|parser| parser.unary(false))?))
        } else if self.skip("+") {
            Expression::Positive(Box::new(self.nested(|parser| parser.unary(false))?))
        } else {
            self.primary()?
        };
        let mut value = self.postfix(value)?;
        let mut links = 0;
        while has_filters && links <= LONGEST_CHAIN {
            self.link(&mut links)?;
            if self.skip("|") {
                value = Expression::Filter(Box::new(value), self.filter()?);
            } else if self.skip_name("is") {
                value = self.test(value)?;
            } else if self.skip("(") {
                // A call of what a filter returns.
                value = Expression::Call(Box::new(value), self.arguments()?);
            } else {
                break;
            }
        }
        Ok(value)
    }

    fn primary(&mut self) -> Parsed<Expression> {
        Ok(match self.next() {
            Token::Name(name) => match name.as_str() {
                "true" | "True" => Expression::Bool(true),
                "false" | "False" => Expression::Bool(false),
                "none" | "None" => Expression::None,
                _ => Expression::Name(name),
            },
            Token::String(mut text) => {
                while let Token::String(more) = self.token() {
                    text.push_str(more);
                    self.at += 1;
                }
                Expression::Text(text.into())
            }
            Token::Int(number) => Expression::Int(number),
            Token::Float(number) => Expression::Float(number),
            Token::Operator("(") => {
                if self.skip(")") {
                    return Ok(Expression::Tuple(Vec::new()));
                }
                let inner = self.nested(|parser| parser.tuple(true))?;
                self.expect(")")?;
                inner
            }
            Token::Operator("[") => {
                let mut items = Vec::new();
                while !self.skip("]") {
                    if !items.is_empty() {
                        self.expect(",")?;
                        if self.skip("]") {
                            break;
                        }
                    }
                    items.push(self.expression()?);
                }
                Expression::List(items)
            }
            Token::Operator("{") => {
                let mut items = Vec::new();
                while !self.skip("}") {
                    if !items.is_empty() {
                        self.expect(",")?;
                        if self.skip("}") {
                            break;
                        }
                    }
                    let key = self.expression()?;
                    self.expect(":")?;
                    items.push((key, self.expression()?));
                }
                Expression::Dict(items)
            }
            _ => {
                self.at -= 1;
                return self.wrong("an expression is missing");
            }
        })
    }

    fn postfix(&mut self, mut value: Expression) -> Parsed<Expression> {
        let mut links = 0;
        loop {
            self.link(&mut links)?;
            if self.skip(".") {
                value = match self.next() {
                    Token::Name(name) => Expression::Attribute(Box::new(value), name),
                    Token::Int(index) => Expression::Item(Box::new(value), Box::new(Expression::Int(index))),
                    _ => {
                        self.at -= 1;
                        return self.wrong("a name is missing");
                    }
                };
            } else if self.skip("[") {
                value = self.subscript(value)?;
            } else if self.skip("(") {
                value = Expression::Call(Box::new(value), self.arguments()?);
            } else {
                return Ok(value);
            }
        }
    }

    fn subscript(&mut self, value: Expression) -> Parsed<Expression> {
        let bound = |parser: &mut Parser| -> Parsed<Option<Box<Expression>>> {
            if parser.is(":") || parser.is("]") { Ok(None) } else { Ok(Some(Box::new(parser.expression()?))) }
        };
        let start = bound(self)?;
        if !self.skip(":") {
            let Some(mut index) = start else { return self.wrong("an index is missing") };
            if self.is(",") {
                let mut items = vec![*index];
                while self.skip(",") {
                    items.push(self.expression()?);
                }
                index = Box::new(Expression::Tuple(items));
            }
            self.expect("]")?;
            return Ok(Expression::Item(Box::new(value), index));
        }
        let end = bound(self)?;
        let step = if self.skip(":") { bound(self)? } else { None };
        self.expect("]")?;
        Ok(Expression::Slice(Box::new(value), [start, end, step]))
    }

    /// The arguments after `(`, and the `)`.
    fn arguments(&mut self) -> Parsed<Arguments> {
        let mut arguments = Arguments::default();
        let mut is_first = true;
        while !self.skip(")") {
            if !std::mem::take(&mut is_first) {
                self.expect(",")?;
                if self.skip(")") {
                    break;
                }
            }
            if self.skip("*") {
                arguments.list = Some(Box::new(self.expression()?));
            } else if self.skip("**") {
                arguments.dict = Some(Box::new(self.expression()?));
            } else if let (Token::Name(name), Some((Token::Operator("="), _))) =
                (self.token().clone(), self.tokens.get(self.at + 1))
            {
                self.at += 2;
                arguments.named.push((name, self.expression()?));
            } else {
                if !arguments.named.is_empty() || arguments.dict.is_some() {
                    return self.wrong("an argument without a name follows one with a name");
                }
                arguments.positional.push(self.expression()?);
            }
        }
        Ok(arguments)
    }

    fn dotted_name(&mut self) -> Parsed<String> {
        let mut name = self.name()?;
        while self.skip(".") {
            name = format!("{name}.{}", self.name()?);
        }
        Ok(name)
    }

    fn filter(&mut self) -> Parsed<Filter> {
        let name = self.dotted_name()?;
        let arguments = if self.skip("(") { self.arguments()? } else { Arguments::default() };
        Ok(Filter { name, arguments })
    }

    fn test(&mut self, value: Expression) -> Parsed<Expression> {
        let is_negated = self.skip_name("not");
        let name = self.dotted_name()?;
        let mut arguments = Arguments::default();
        if self.skip("(") {
            arguments = self.arguments()?;
        } else {
            let begins_argument = match self.token() {
                Token::Name(name) if name == "is" => return self.wrong("one test follows another"),
                Token::Name(name) => !["else", "or", "and"].contains(&name.as_str()),
                Token::String(_) | Token::Int(_) | Token::Float(_) | Token::Operator("(" | "[" | "{") => true,
                _ => false,
            };
            if begins_argument {
                let argument = self.primary()?;
                arguments.positional.push(self.postfix(argument)?);
            }
        }
        let test = Expression::Test(Box::new(value), Filter { name, arguments });
        Ok(if is_negated { Expression::Not(Box::new(test)) } else { test })
    }
}
