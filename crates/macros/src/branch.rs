//! `if` and `if let`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Block, Expr, ExprIf, Stmt};

use crate::expression::in_braces;
use crate::pattern;
use crate::runtime::{self, staging};
use crate::scope::Scope;
use crate::survey;

impl Scope {
    pub(crate) fn choice(&mut self, choice: ExprIf, valued: bool) -> TokenStream {
        if survey::contains_let(&choice.cond) {
            return self.build_time_choice(choice, valued);
        }
        let ExprIf { if_token, cond, then_branch, else_branch, attrs } = choice;
        let span = if_token.span;
        let jumps = survey::block_jumps(&then_branch)
            || else_branch.as_ref().is_some_and(|(_, otherwise)| survey::expression_jumps(otherwise));
        let otherwise = else_branch.map(|(token, otherwise)| match *otherwise {
            Expr::Block(block) if block.label.is_none() && block.attrs.is_empty() => block.block,
            other => {
                Block { brace_token: syn::token::Brace(token.span), stmts: vec![Stmt::Expr(other, None)] }
            }
        });
        let has_value = |block: &Block| matches!(block.stmts.last(), Some(Stmt::Expr(_, None)));
        let valued = valued
            && otherwise.as_ref().is_some_and(|otherwise| {
                has_value(&then_branch)
                    || has_value(otherwise)
                    || (survey::diverges(&then_branch) && survey::diverges(otherwise))
            });
        let branch = runtime::variable("branch", self.number(), span);
        let at = cond.span();
        let staging = staging(at);
        let condition = self.value(*cond);
        let begin = quote_spanned!(at=> #staging::Condition::branch(#condition));
        let begin = quote_spanned!(span=> let mut #branch = #begin;);
        let Some(otherwise) = otherwise else {
            let then = self.region_block(then_branch, false, |_| TokenStream::new());
            let finish = self.finish(&branch, jumps, span);
            return quote_spanned!(span=> #(#attrs)* { #begin if #branch.then() { #then } #finish });
        };
        let ends = (survey::diverges(&then_branch), survey::diverges(&otherwise));
        let value_span = otherwise.stmts.last().map_or(span, Spanned::span);
        if !valued || ends == (true, true) {
            let then = self.region_block(then_branch, false, |_| TokenStream::new());
            let otherwise = self.region_block(otherwise, false, |_| TokenStream::new());
            let finish = if valued {
                let leave = self.leave(span);
                quote_spanned!(span=> #branch.finish(); #leave)
            } else {
                self.finish(&branch, jumps, span)
            };
            return quote_spanned!(span=> #(#attrs)* {
                #begin
                if #branch.then() { #then }
                if #branch.otherwise() { #otherwise }
                #finish
            });
        }
        let then = self.region_block(then_branch, !ends.0, |_| TokenStream::new());
        let otherwise = self.region_block(otherwise, !ends.1, |_| TokenStream::new());
        let [from_then, from_otherwise] =
            ["then", "otherwise"].map(|name| runtime::variable(name, self.number(), span));
        let run = |name: &Ident, enter: &str, block: TokenStream, diverges: bool| {
            let enter = Ident::new(enter, span);
            if diverges {
                quote_spanned!(span=> if #branch.#enter() { #block })
            } else {
                quote_spanned! {span=>
                    let #name = if #branch.#enter() { #block } else { ::core::option::Option::None };
                }
            }
        };
        let then = run(&from_then, "then", then, ends.0);
        let otherwise = run(&from_otherwise, "otherwise", otherwise, ends.1);
        let join = match ends {
            (false, false) => quote_spanned!(value_span=> #branch.join(#from_then, #from_otherwise)),
            (false, true) => quote_spanned!(value_span=> #branch.join_then(#from_then)),
            _ => quote_spanned!(value_span=> #branch.join_otherwise(#from_otherwise)),
        };
        let value = runtime::variable("value", self.number(), span);
        let never = if jumps && self.can_leave() {
            self.leave(span)
        } else {
            quote_spanned!(span=> ::core::unreachable!())
        };
        quote_spanned!(span=> #(#attrs)* {
            #begin
            #then
            #otherwise
            match #join { ::core::option::Option::Some(#value) => #value, ::core::option::Option::None => #never }
        })
    }

    /// Ends an `if` or loop, and the block around it too if nothing after it is reached.
    pub(crate) fn finish(&self, construct: &Ident, jumps: bool, span: Span) -> TokenStream {
        if jumps && self.can_leave() {
            let leave = self.leave(span);
            quote_spanned!(span=> if #construct.finish() { #leave })
        } else {
            quote_spanned!(span=> #construct.finish();)
        }
    }

    /// `if let`: patterns are matched at build time.
    fn build_time_choice(&mut self, choice: ExprIf, valued: bool) -> TokenStream {
        let ExprIf { if_token, cond, then_branch, else_branch, attrs } = choice;
        let brace = then_branch.brace_token;
        self.open_names();
        let condition = self.build_time_condition(*cond);
        let then = self.block(then_branch, valued);
        self.close_names();
        let (condition, declarations) = condition;
        let otherwise = else_branch.map(|(token, otherwise)| {
            let otherwise = self.rewrite(*otherwise, valued);
            quote!(#token #otherwise)
        });
        let otherwise = otherwise.map(|tokens| tokens.into_token_stream());
        let then = in_braces(brace, quote!(#declarations #then));
        quote!(#(#attrs)* #if_token #condition #then #otherwise)
    }

    /// A condition with `let`; what its patterns bind is bound, and declared by the second result.
    pub(crate) fn build_time_condition(&mut self, condition: Expr) -> (TokenStream, TokenStream) {
        match condition {
            Expr::Binary(binary) if matches!(binary.op, syn::BinOp::And(_)) => {
                let operator = binary.op;
                let (left, mut declarations) = self.build_time_condition(*binary.left);
                let (right, more) = self.build_time_condition(*binary.right);
                declarations.extend(more);
                (quote!(#left #operator #right), declarations)
            }
            Expr::Let(mut condition) => {
                let pattern = (*condition.pat).clone();
                pattern::strip_mut(&mut condition.pat);
                let tokens = self.rewrite(Expr::Let(condition), true);
                let declarations = self.bind_pattern(&pattern);
                (tokens, declarations)
            }
            other => (self.value(other), TokenStream::new()),
        }
    }
}
