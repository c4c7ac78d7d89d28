//! `break`, `continue` and `return`.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{ExprBreak, ExprContinue, ExprReturn, Lifetime};

use crate::runtime::{self, staging};
use crate::scope::{Returning, Scope};

impl Scope {
    fn find_target(&self, label: Option<&Lifetime>) -> Option<(Lifetime, Ident, Option<Ident>, bool)> {
        let found = self.targets.iter().rev().find(|target| match label {
            Some(label) => target.author_label.as_ref() == Some(&label.ident),
            None => target.is_loop,
        });
        found
            .map(|target| (target.label.clone(), target.rounds.clone(), target.value.clone(), target.is_loop))
    }

    pub(crate) fn break_out(&mut self, jump: ExprBreak) -> TokenStream {
        let span = jump.break_token.span;
        let Some((label, rounds, value, is_loop)) = self.find_target(jump.label.as_ref()) else {
            return jump.into_token_stream();
        };
        let leave = self.leave(span);
        match (jump.expr, value) {
            (Some(expression), Some(result)) => {
                let at = expression.span();
                let expression = self.value(*expression);
                let name = runtime::variable("value", self.number(), span);
                let staging = staging(at);
                let set = quote_spanned!(at=> #staging::Broken(#name).note(&mut #result, &#rounds));
                quote_spanned!(span=> {
                    let #name = #expression;
                    #set;
                    if #rounds.breaks() { break #label }
                    #leave
                })
            }
            (Some(expression), None) if !is_loop => {
                let expression = self.value(*expression);
                let name = runtime::variable("value", self.number(), span);
                quote_spanned!(span=> { let #name = #expression; if #rounds.breaks() { break #label #name } #leave })
            }
            (Some(expression), None) => {
                self.refuse(&expression, "only `loop` and labeled blocks have a value to `break` with");
                quote!(())
            }
            (None, _) => quote_spanned!(span=> { if #rounds.breaks() { break #label } #leave }),
        }
    }

    pub(crate) fn continue_on(&mut self, jump: &ExprContinue) -> TokenStream {
        let span = jump.continue_token.span;
        let Some((label, rounds, ..)) = self.find_target(jump.label.as_ref()) else {
            return jump.into_token_stream();
        };
        let leave = self.leave(span);
        quote_spanned!(span=> { if #rounds.continues() { continue #label } #leave })
    }

    pub(crate) fn return_early(&mut self, jump: ExprReturn) -> TokenStream {
        let span = jump.return_token.span;
        let at = jump.expr.as_ref().map_or(span, |value| value.span());
        let value = match jump.expr {
            Some(value) => self.value(*value),
            None => quote_spanned!(span=> ()),
        };
        let Returning::Through { frame, block, is_typed, is_kernel } = self.returning.clone() else {
            return quote_spanned!(span=> return #value);
        };
        let leave = self.leave(span);
        let name = runtime::variable("value", self.number(), at);
        let typed = is_typed.then(|| quote_spanned!(at=> let #name = #frame.value(#name);));
        let now = self.leave_block(block, &quote!(::core::option::Option::Some(#name)), span);
        let staging = staging(span);
        let record = if is_kernel {
            quote_spanned!(span=> record_in_kernel())
        } else {
            quote_spanned!(span=> record(&mut #frame))
        };
        quote_spanned!(span=> {
            let #name = #value;
            #typed
            if #frame.returns_now() { #now }
            #staging::Returned(#name).#record;
            #leave
        })
    }
}
