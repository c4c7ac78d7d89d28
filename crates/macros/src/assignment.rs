//! Assignment, and calls that change what they are called on.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, ExprAssign, ExprBinary, ExprMethodCall};

use crate::operator;
use crate::runtime::{self, staging};
use crate::scope::Scope;
use crate::survey;

/// Methods that change a collection.
const CHANGING_METHODS: [&str; 24] = [
    "push",
    "push_str",
    "push_back",
    "push_front",
    "pop",
    "pop_back",
    "pop_front",
    "insert",
    "remove",
    "swap_remove",
    "clear",
    "extend",
    "append",
    "truncate",
    "resize",
    "retain",
    "drain",
    "swap",
    "reverse",
    "rotate_left",
    "rotate_right",
    "sort",
    "fill",
    "dedup",
];

impl Scope {
    pub(crate) fn assign(&mut self, assign: ExprAssign) -> TokenStream {
        let ExprAssign { left, right, eq_token, .. } = assign;
        let value = self.value(*right);
        self.assign_value(*left, value, eq_token.span())
    }

    /// `place = value`, where the place may be a pattern of places.
    fn assign_value(&mut self, place: Expr, value: TokenStream, span: Span) -> TokenStream {
        match operator::bare(&place) {
            Expr::Infer(_) => quote_spanned!(span=> let _ = #value),
            Expr::Tuple(_) | Expr::Array(_) => self.assign_parts(place, value, span),
            Expr::Struct(_) | Expr::Call(_) => {
                self.refuse(&place, "assign the fields one by one, or bind them with `let` first");
                quote!(())
            }
            _ => {
                let at = place.span();
                let assigned = self.assigned(place);
                let name = runtime::variable("value", self.number(), at);
                quote_spanned!(at=> match (#value) { #name => #assigned.assign(#name) })
            }
        }
    }

    fn assign_parts(&mut self, pattern: Expr, value: TokenStream, span: Span) -> TokenStream {
        let (parts, is_tuple) = match pattern {
            Expr::Tuple(tuple) => (tuple.elems, true),
            Expr::Array(array) => (array.elems, false),
            Expr::Paren(inner) => return self.assign_parts(*inner.expr, value, span),
            other => return self.assign_value(other, value, span),
        };
        let mut names = Vec::new();
        let mut assignments = Vec::new();
        for part in parts {
            if matches!(part, Expr::Range(_)) {
                names.push(quote!(..));
                continue;
            }
            let name = runtime::variable("part", self.number(), part.span());
            assignments.push(self.assign_value(part, quote!(#name), span));
            names.push(quote!(#name));
        }
        let pattern = if is_tuple {
            quote_spanned!(span=> (#(#names,)*))
        } else {
            quote_spanned!(span=> [#(#names,)*])
        };
        quote_spanned!(span=> match (#value) { #pattern => { #(#assignments;)* } })
    }

    pub(crate) fn compound_assign(&mut self, binary: ExprBinary) -> TokenStream {
        let ExprBinary { left, op, right, .. } = binary;
        let span = left.span();
        let Some(method) = operator::compound_method(&op) else { return quote!(()) };
        let method = Ident::new(method, span);
        let value = self.value(*right);
        let assigned = self.assigned(*left);
        let name = runtime::variable("value", self.number(), span);
        quote_spanned!(span=> match (#value) { #name => #assigned.#method(#name) })
    }

    /// The wrapper around a place that is assigned.
    fn assigned(&mut self, place: Expr) -> TokenStream {
        let span = place.span();
        let staging = staging(span);
        let since = match self.changed_since(&place) {
            Some(marker) => quote_spanned!(span=> ::core::option::Option::Some(#marker)),
            None => quote_spanned!(span=> ::core::option::Option::None),
        };
        let place = match place {
            Expr::Index(index) => {
                let collection = self.place(*index.expr);
                let index = self.value(*index.index);
                quote_spanned!(span=> #collection.assigned_elements().places()[#index])
            }
            Expr::Paren(inner) => return self.assigned(*inner.expr),
            place => self.place(place),
        };
        quote_spanned!(span=> #staging::Assigned(&mut #place, #since))
    }

    /// The region that the place's variable was declared in, if that may not be the innermost.
    fn changed_since(&mut self, place: &Expr) -> Option<TokenStream> {
        let block = survey::root(place)
            .and_then(|(name, _)| self.lookup(name))
            .map_or(0, |binding| if binding.exclusive_reference { 0 } else { binding.block });
        (block + 1 < self.blocks.len()).then(|| self.marker(block))
    }

    pub(crate) fn method_call(&mut self, mut call: ExprMethodCall) -> TokenStream {
        let span = call.method.span();
        let judged =
            CHANGING_METHODS.iter().any(|name| call.method == name) && survey::is_place(&call.receiver);
        let since = if judged { self.changed_since(&call.receiver) } else { None };
        let arguments = std::mem::take(&mut call.args);
        let receiver = std::mem::replace(&mut *call.receiver, Expr::Verbatim(TokenStream::new()));
        let receiver = if survey::is_place(&receiver) { self.place(receiver) } else { self.value(receiver) };
        *call.receiver = Expr::Verbatim(receiver.clone());
        call.args = arguments.into_iter().map(|argument| Expr::Verbatim(self.value(argument))).collect();
        let Some(since) = since else { return quote!(#call) };
        let staging = staging(span);
        quote_spanned!(span=> { #staging::Changed(&#receiver).judge(#since); #call })
    }
}
