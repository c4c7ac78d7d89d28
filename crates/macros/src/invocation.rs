//! Calls of macros: those whose arguments are expressions, and those of Rust that the host
//! executes.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Arm, Expr, ExprMacro, ExprMatch, Macro, Pat, Token, parse_quote_spanned};

use crate::runtime::staging;
use crate::scope::Scope;

/// Macros whose arguments are ordinary expressions.
const OF_EXPRESSIONS: [&str; 2] = ["printf", "vec"];

/// Macros of Rust that check their first arguments, and how many.
const ASSERTIONS: [(&str, usize); 6] = [
    ("assert", 1),
    ("debug_assert", 1),
    ("assert_eq", 2),
    ("debug_assert_eq", 2),
    ("assert_ne", 2),
    ("debug_assert_ne", 2),
];

/// Macros of Rust that stop the host's program.
pub(crate) const DIVERGING: [&str; 4] = ["panic", "unreachable", "todo", "unimplemented"];

/// The name of a macro without its path.
pub(crate) fn name(invocation: &Macro) -> String {
    invocation.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default()
}

impl Scope {
    pub(crate) fn invocation(&mut self, mut invocation: ExprMacro, valued: bool) -> TokenStream {
        let called = &invocation.mac;
        if name(called) == "matches"
            && let Ok(choice) = matches.parse2(called.tokens.clone())
        {
            return self.selection(choice, valued);
        }
        let before = self.macro_arguments(&mut invocation.mac);
        if before.is_empty() {
            return invocation.into_token_stream();
        }
        let span = invocation.mac.path.span();
        quote_spanned!(span=> { #before #invocation })
    }

    /// Rewrites the arguments of macros that are known to take expressions; those of others are
    /// theirs. The result comes before the call.
    pub(crate) fn macro_arguments(&mut self, invocation: &mut Macro) -> TokenStream {
        let (name, span) = (name(invocation), invocation.path.span());
        if DIVERGING.contains(&name.as_str()) {
            let (staging, name) = (staging(span), format!("{name}!"));
            return quote_spanned!(span=> #staging::panics(#name););
        }
        if name == "vec"
            && let Ok((value, count)) = invocation.parse_body_with(repeated)
        {
            let (value, count) = (self.value(value), self.value(count));
            invocation.tokens = quote!(#value; #count);
        } else if let Some((_, asserted)) = ASSERTIONS.iter().find(|(assertion, _)| *assertion == name) {
            self.assertion(invocation, *asserted);
        } else if OF_EXPRESSIONS.contains(&name.as_str())
            && let Ok(arguments) = invocation.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated)
        {
            invocation.tokens = self.values(arguments);
        }
        TokenStream::new()
    }

    /// An assertion of the host: what it looks at must be known when the kernel is built.
    fn assertion(&mut self, invocation: &mut Macro, asserted: usize) {
        let written = invocation.tokens.to_string();
        let Ok(arguments) = invocation.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated)
        else {
            return;
        };
        let mut arguments = arguments.into_iter();
        let looked_at = arguments.by_ref().take(asserted).map(|argument| {
            let span = argument.span();
            let staging = staging(span);
            let value = self.value(argument);
            quote_spanned!(span=> #staging::Asserted(#value).value::<bool>())
        });
        let looked_at: Vec<_> = looked_at.collect();
        let message: Vec<_> = arguments.map(|argument| argument.into_token_stream()).collect();
        invocation.tokens = if message.is_empty() && asserted == 1 {
            let message = format!("assertion failed: {written}");
            quote!(#(#looked_at),*, "{}", #message)
        } else {
            quote!(#(#looked_at,)* #(#message),*)
        };
    }
}

/// `matches!(value, pattern if guard)` as the `match` that it stands for.
fn matches(input: ParseStream) -> syn::Result<ExprMatch> {
    let value: Expr = input.parse()?;
    let span = value.span();
    input.parse::<Token![,]>()?;
    let pattern = Pat::parse_multi_with_leading_vert(input)?;
    let guard: Option<(Token![if], Box<Expr>)> =
        if input.peek(Token![if]) { Some((input.parse()?, input.parse()?)) } else { None };
    input.parse::<Option<Token![,]>>()?;
    let mut choice: ExprMatch = parse_quote_spanned!(span=> match #value { #pattern => true, _ => false });
    if let Some(Arm { guard: place, .. }) = choice.arms.first_mut() {
        *place = guard;
    }
    Ok(choice)
}

fn repeated(input: ParseStream) -> syn::Result<(Expr, Expr)> {
    let value = input.parse()?;
    input.parse::<Token![;]>()?;
    Ok((value, input.parse()?))
}
