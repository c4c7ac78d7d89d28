//! Questions about the author's code before it is rewritten.

use std::collections::HashSet;

use syn::visit::{self, Visit};
use syn::{Block, Expr, ExprClosure, Item, Member, PatIdent, Stmt};

use crate::invocation::{self, DIVERGING};

/// `return`, `break` and `continue` outside of closures and nested items.
#[derive(Default)]
struct Jumps {
    returns: bool,
    breaks: bool,
}

impl<'ast> Visit<'ast> for Jumps {
    fn visit_expr(&mut self, expression: &'ast Expr) {
        match expression {
            Expr::Return(_) => self.returns = true,
            Expr::Break(_) | Expr::Continue(_) => self.breaks = true,
            Expr::Closure(_) | Expr::Async(_) => return,
            _ => {}
        }
        visit::visit_expr(self, expression);
    }

    fn visit_item(&mut self, _: &'ast Item) {}
}

pub(crate) fn block_jumps(block: &Block) -> bool {
    let mut survey = Jumps::default();
    survey.visit_block(block);
    survey.returns || survey.breaks
}

pub(crate) fn expression_jumps(expression: &Expr) -> bool {
    let mut survey = Jumps::default();
    survey.visit_expr(expression);
    survey.returns || survey.breaks
}

pub(crate) fn expression_returns(expression: &Expr) -> bool {
    let mut survey = Jumps::default();
    survey.visit_expr(expression);
    survey.returns
}

pub(crate) fn block_returns(block: &Block) -> bool {
    let mut survey = Jumps::default();
    survey.visit_block(block);
    survey.returns
}

/// Whether the end of the block is never reached, as far as its last statement shows.
pub(crate) fn diverges(block: &Block) -> bool {
    match block.stmts.last() {
        Some(Stmt::Expr(expression, _)) => expression_diverges(expression),
        Some(Stmt::Macro(statement)) => macro_diverges(&statement.mac),
        _ => false,
    }
}

pub(crate) fn expression_diverges(expression: &Expr) -> bool {
    match expression {
        Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) => true,
        Expr::Block(block) => block.label.is_none() && diverges(&block.block),
        Expr::Unsafe(block) => diverges(&block.block),
        Expr::If(choice) => {
            diverges(&choice.then_branch)
                && choice.else_branch.as_ref().is_some_and(|(_, otherwise)| expression_diverges(otherwise))
        }
        Expr::Loop(repetition) => !breaks_out(&repetition.body),
        Expr::Macro(invocation) => macro_diverges(&invocation.mac),
        Expr::Paren(inner) => expression_diverges(&inner.expr),
        _ => false,
    }
}

fn macro_diverges(called: &syn::Macro) -> bool {
    DIVERGING.contains(&invocation::name(called).as_str())
}

/// Whether a `loop` with this body may end by `break`: one of its own, or any with a label.
pub(crate) fn breaks_out(body: &Block) -> bool {
    let mut survey = Breaks { depth: 0, found: false, valued: false };
    survey.visit_block(body);
    survey.found
}

/// Whether some `break` of a `loop` with this body and label carries a value.
pub(crate) fn breaks_with_value(body: &Block) -> bool {
    let mut survey = Breaks { depth: 0, found: false, valued: false };
    survey.visit_block(body);
    survey.valued
}

struct Breaks {
    depth: usize,
    found: bool,
    valued: bool,
}

impl<'ast> Visit<'ast> for Breaks {
    fn visit_expr(&mut self, expression: &'ast Expr) {
        match expression {
            Expr::Closure(_) | Expr::Async(_) => {}
            Expr::While(_) | Expr::ForLoop(_) | Expr::Loop(_) => {
                self.depth += 1;
                visit::visit_expr(self, expression);
                self.depth -= 1;
            }
            Expr::Break(jump) => {
                if self.depth == 0 || jump.label.is_some() {
                    self.found = true;
                    self.valued |= jump.expr.is_some();
                }
                visit::visit_expr(self, expression);
            }
            _ => visit::visit_expr(self, expression),
        }
    }

    fn visit_item(&mut self, _: &'ast Item) {}
}

/// Whether evaluating the expression might assign a variable: what is to its left must then be read
/// first.
pub(crate) fn is_quiet(expression: &Expr) -> bool {
    struct Quiet(bool);
    impl<'ast> Visit<'ast> for Quiet {
        fn visit_expr(&mut self, expression: &'ast Expr) {
            match expression {
                Expr::Path(_)
                | Expr::Lit(_)
                | Expr::Field(_)
                | Expr::Index(_)
                | Expr::Paren(_)
                | Expr::Group(_)
                | Expr::Cast(_)
                | Expr::Unary(_)
                | Expr::Tuple(_) => visit::visit_expr(self, expression),
                Expr::Binary(binary) if !crate::operator::is_compound(&binary.op) => {
                    visit::visit_expr(self, expression);
                }
                Expr::Reference(reference) if reference.mutability.is_none() => {
                    visit::visit_expr(self, expression)
                }
                Expr::Call(call) => {
                    call.args.iter().for_each(|argument| self.visit_expr(argument));
                }
                Expr::MethodCall(_) => visit::visit_expr(self, expression),
                _ => self.0 = false,
            }
        }
    }
    let mut quiet = Quiet(true);
    quiet.visit_expr(expression);
    quiet.0
}

/// Whether an expression names a place, and the place's root.
pub(crate) fn is_place(expression: &Expr) -> bool {
    match expression {
        Expr::Path(path) => path.qself.is_none() && path.path.get_ident().is_some(),
        Expr::Field(_) | Expr::Index(_) => true,
        Expr::Unary(unary) => matches!(unary.op, syn::UnOp::Deref(_)),
        Expr::Paren(inner) => is_place(&inner.expr),
        Expr::Group(inner) => is_place(&inner.expr),
        _ => false,
    }
}

/// The variable that a place is a part of, and whether the path to the part contains an index.
pub(crate) fn root(place: &Expr) -> Option<(&syn::Ident, bool)> {
    match place {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident().map(|name| (name, false)),
        Expr::Field(field) => root(&field.base),
        Expr::Index(index) => root(&index.expr).map(|(name, _)| (name, true)),
        Expr::Unary(unary) if matches!(unary.op, syn::UnOp::Deref(_)) => root(&unary.expr),
        Expr::Paren(inner) => root(&inner.expr),
        Expr::Group(inner) => root(&inner.expr),
        Expr::MethodCall(call) => root(&call.receiver),
        _ => None,
    }
}

/// The fields that lead from a variable to the place.
fn fields(place: &Expr) -> Option<Vec<Member>> {
    match place {
        Expr::Path(_) => Some(Vec::new()),
        Expr::Field(field) => {
            let mut fields = fields(&field.base)?;
            fields.push(field.member.clone());
            Some(fields)
        }
        Expr::Paren(inner) => fields(&inner.expr),
        Expr::Group(inner) => fields(&inner.expr),
        _ => None,
    }
}

/// A variable that code assigns, or may.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Change {
    pub(crate) name: syn::Ident,
    /// The fields that lead from it to the place, if the path has nothing else.
    pub(crate) fields: Option<Vec<Member>>,
    /// Only elements of it are assigned.
    pub(crate) by_index: bool,
    /// All that is known is that a method is called on it.
    pub(crate) by_method: bool,
}

/// The variables that `visit`ed code assigns, in order, and the names that it binds itself.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) changes: Vec<Change>,
    pub(crate) bound: HashSet<String>,
}

impl Changes {
    fn note(&mut self, place: &Expr, by_method: bool) {
        match place {
            Expr::Tuple(tuple) => tuple.elems.iter().for_each(|place| self.note(place, by_method)),
            Expr::Array(array) => array.elems.iter().for_each(|place| self.note(place, by_method)),
            _ => {
                let Some((name, by_index)) = root(place) else { return };
                let change = Change { name: name.clone(), fields: fields(place), by_index, by_method };
                if !self.changes.contains(&change) {
                    self.changes.push(change);
                }
            }
        }
    }
}

/// Methods of Rust's own that change nothing a loop could carry.
const METHODS_OF_COLLECTIONS: [&str; 30] = [
    "push",
    "pop",
    "insert",
    "remove",
    "clear",
    "extend",
    "append",
    "truncate",
    "next",
    "iter",
    "iter_mut",
    "len",
    "is_empty",
    "get",
    "get_mut",
    "into_iter",
    "first",
    "last",
    "contains",
    "contains_key",
    "as_slice",
    "as_ref",
    "as_mut",
    "enumerate",
    "zip",
    "map",
    "unwrap",
    "to_vec",
    "clone",
    "chunks",
];

impl<'ast> Visit<'ast> for Changes {
    fn visit_expr(&mut self, expression: &'ast Expr) {
        match expression {
            Expr::Assign(assign) => self.note(&assign.left, false),
            Expr::Binary(binary) if crate::operator::is_compound(&binary.op) => {
                self.note(&binary.left, false)
            }
            Expr::Reference(reference) if reference.mutability.is_some() => self.note(&reference.expr, false),
            Expr::MethodCall(call) if !METHODS_OF_COLLECTIONS.iter().any(|name| call.method == name) => {
                self.note(&call.receiver, true);
            }
            // The call, not its receiver: that may be a reference, which needs no `mut`.
            Expr::MethodCall(call) if call.method == "iter_mut" => self.note(expression, false),
            _ => {}
        }
        visit::visit_expr(self, expression);
    }

    fn visit_pat_ident(&mut self, pattern: &'ast PatIdent) {
        self.bound.insert(pattern.ident.to_string());
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_item(&mut self, _: &'ast Item) {}
}

/// Whether a closure returns early.
pub(crate) fn closure_returns(closure: &ExprClosure) -> bool {
    expression_returns(&closure.body)
}

/// Whether a place is a field of `self`, at any depth.
pub(crate) fn is_within_self(place: &Expr) -> bool {
    match place {
        Expr::Path(path) => path.path.is_ident("self"),
        Expr::Field(field) => {
            matches!(field.member, Member::Named(_) | Member::Unnamed(_)) && is_within_self(&field.base)
        }
        Expr::Paren(inner) => is_within_self(&inner.expr),
        _ => false,
    }
}

/// Whether a condition has a `let`: its pattern is matched at build time.
pub(crate) fn contains_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(binary) if matches!(binary.op, syn::BinOp::And(_)) => {
            contains_let(&binary.left) || contains_let(&binary.right)
        }
        _ => false,
    }
}
