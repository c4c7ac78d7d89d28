//! `match`: on literals, and constants beside them, a chain of `if`; else Rust's own.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Arm, Block, Expr, ExprBlock, ExprMatch, Lit, Pat, PatIdent, RangeLimits, Stmt, parse_quote_spanned,
};

use crate::expression::in_braces;
use crate::pattern;
use crate::runtime;
use crate::scope::Scope;
use crate::survey;

impl Scope {
    pub(crate) fn selection(&mut self, selection: ExprMatch, valued: bool) -> TokenStream {
        if let Some(chain) = self.chain(&selection) {
            return self.rewrite(chain, valued);
        }
        let ExprMatch { match_token, expr, arms, attrs, brace_token } = selection;
        let scrutinee = if survey::is_place(&expr) { self.place(*expr) } else { self.value(*expr) };
        let arms = arms.into_iter().map(|arm| {
            let Arm { attrs, pat, guard, body, .. } = arm;
            let body_span = body.span();
            self.open_names();
            let declarations = self.bind_pattern(&pat);
            let pat = pattern::without_mut(pat);
            let guard = guard.map(|(token, guard)| {
                let guard = self.value(*guard);
                quote!(#token #guard)
            });
            let body =
                if survey::is_place(&body) || valued { self.value(*body) } else { self.statement(*body) };
            self.close_names();
            quote_spanned!(body_span=> #(#attrs)* #pat #guard => { #declarations #body })
        });
        let arms: Vec<_> = arms.collect();
        let arms = in_braces(brace_token, quote!(#(#arms)*));
        quote!(#(#attrs)* #match_token #scrutinee #arms)
    }

    /// A `match` on literals as a chain of `if`s.
    fn chain(&mut self, selection: &ExprMatch) -> Option<Expr> {
        let is_chain = selection.arms.iter().all(|arm| is_literal_pattern(&arm.pat))
            && selection.arms.iter().any(|arm| has_literal(&arm.pat));
        if !is_chain {
            return None;
        }
        let span = selection.match_token.span;
        let subject = runtime::variable("subject", self.number(), selection.expr.span());
        let covers_booleans = covers_booleans(&selection.arms);
        let mut chain: Option<Expr> = None;
        let last = selection.arms.len() - 1;
        for (index, arm) in selection.arms.iter().enumerate().rev() {
            let body = arm_block(&arm.body);
            let binding = binding(&arm.pat);
            let test = test(&arm.pat, &subject);
            let bind: Option<Stmt> = binding.map(|name| parse_quote_spanned!(span=> let #name = #subject;));
            let guard = arm.guard.as_ref().map(|(_, guard)| (**guard).clone());
            let is_final = index == last && guard.is_none() && (test.is_none() || covers_booleans);
            if is_final {
                let mut body = body;
                body.stmts.splice(0..0, bind);
                chain = Some(Expr::Block(ExprBlock { attrs: Vec::new(), label: None, block: body }));
                continue;
            }
            let Some(otherwise) = chain.take() else {
                self.refuse(
                    &selection.arms[last].pat,
                    "a `match` on literals needs a last arm for every other value: `_ => ...`",
                );
                return Some(Expr::Verbatim(quote!(::core::unreachable!())));
            };
            let condition: Expr = match (test, guard) {
                (Some(test), None) => test,
                (None, Some(guard)) => guard_with(bind.as_ref(), &guard, span),
                (Some(test), Some(guard)) => {
                    let guard = guard_with(bind.as_ref(), &guard, span);
                    parse_quote_spanned!(span=> #test && #guard)
                }
                (None, None) => parse_quote_spanned!(span=> true),
            };
            let mut body = body;
            body.stmts.splice(0..0, bind);
            chain = Some(parse_quote_spanned!(span=> if #condition #body else #otherwise));
        }
        let chain = chain?;
        let value = &selection.expr;
        Some(parse_quote_spanned!(span=> { let #subject = #value; #chain }))
    }
}

fn is_literal_pattern(pattern: &Pat) -> bool {
    match pattern {
        Pat::Lit(_) | Pat::Range(_) | Pat::Wild(_) | Pat::Path(_) => true,
        Pat::Ident(name) => {
            name.by_ref.is_none() && name.subpat.as_ref().is_none_or(|(_, inner)| is_literal_pattern(inner))
        }
        Pat::Or(alternatives) => {
            alternatives.cases.iter().all(|case| is_literal_pattern(case) && binding(case).is_none())
        }
        Pat::Paren(inner) => is_literal_pattern(&inner.pat),
        _ => false,
    }
}

fn has_literal(pattern: &Pat) -> bool {
    match pattern {
        Pat::Lit(_) | Pat::Range(_) => true,
        Pat::Ident(name) => name.subpat.as_ref().is_some_and(|(_, inner)| has_literal(inner)),
        Pat::Or(alternatives) => alternatives.cases.iter().any(has_literal),
        Pat::Paren(inner) => has_literal(&inner.pat),
        _ => false,
    }
}

/// Whether a bare name in a pattern is a constant's.
fn is_constant(name: &PatIdent) -> bool {
    name.subpat.is_none() && name.ident.to_string().starts_with(char::is_uppercase)
}

/// The name that a literal pattern binds.
fn binding(pattern: &Pat) -> Option<TokenStream> {
    match pattern {
        Pat::Ident(name) if is_constant(name) => None,
        Pat::Ident(name) => {
            let (mutability, ident) = (&name.mutability, &name.ident);
            Some(quote!(#mutability #ident))
        }
        Pat::Paren(inner) => binding(&inner.pat),
        _ => None,
    }
}

/// The condition for a literal pattern to match; `None` if it always does.
fn test(pattern: &Pat, subject: &Ident) -> Option<Expr> {
    let span = pattern.span();
    match pattern {
        Pat::Lit(literal) => Some(parse_quote_spanned!(span=> #subject == #literal)),
        Pat::Range(range) => {
            let start =
                range.start.as_ref().map(|start| -> Expr { parse_quote_spanned!(span=> #subject >= #start) });
            let end = range.end.as_ref().map(|end| -> Expr {
                match range.limits {
                    RangeLimits::HalfOpen(_) => parse_quote_spanned!(span=> #subject < #end),
                    RangeLimits::Closed(_) => parse_quote_spanned!(span=> #subject <= #end),
                }
            });
            match (start, end) {
                (Some(start), Some(end)) => Some(parse_quote_spanned!(span=> #start && #end)),
                (one, other) => one.or(other),
            }
        }
        Pat::Path(constant) => Some(parse_quote_spanned!(span=> #subject == #constant)),
        Pat::Ident(name) if is_constant(name) => {
            let constant = &name.ident;
            Some(parse_quote_spanned!(span=> #subject == #constant))
        }
        Pat::Ident(name) => name.subpat.as_ref().and_then(|(_, inner)| test(inner, subject)),
        Pat::Paren(inner) => test(&inner.pat, subject),
        Pat::Or(alternatives) => {
            let mut whole: Option<Expr> = None;
            for case in &alternatives.cases {
                let case = test(case, subject)?;
                whole = Some(match whole {
                    Some(whole) => parse_quote_spanned!(span=> #whole || (#case)),
                    None => parse_quote_spanned!(span=> (#case)),
                });
            }
            whole
        }
        _ => None,
    }
}

/// A guard, which may use the name that its pattern binds.
fn guard_with(bind: Option<&Stmt>, guard: &Expr, span: Span) -> Expr {
    match bind {
        Some(bind) => parse_quote_spanned!(span=> { #bind #guard }),
        None => parse_quote_spanned!(span=> (#guard)),
    }
}

fn arm_block(body: &Expr) -> Block {
    match body {
        Expr::Block(block) if block.label.is_none() && block.attrs.is_empty() => block.block.clone(),
        other => Block {
            brace_token: syn::token::Brace(other.span()),
            stmts: vec![Stmt::Expr(other.clone(), None)],
        },
    }
}

fn covers_booleans(arms: &[Arm]) -> bool {
    let covered = |wanted: bool| {
        arms.iter().any(|arm| {
            arm.guard.is_none()
                && matches!(&arm.pat, Pat::Lit(literal) if matches!(&literal.lit, Lit::Bool(found) if found.value == wanted))
        })
    };
    covered(true) && covered(false)
}
