//! Blocks and `let`.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Block, Expr, Local, Pat, Stmt};

use crate::operator::bare;
use crate::pattern;
use crate::runtime::staging;
use crate::scope::Scope;
use crate::survey;

impl Scope {
    /// The statements of a block, rewritten. `valued`: the last expression's value is used.
    pub(crate) fn block(&mut self, block: Block, valued: bool) -> TokenStream {
        self.open_names();
        let count = block.stmts.len();
        let mut tokens = TokenStream::new();
        for (index, statement) in block.stmts.into_iter().enumerate() {
            let is_last = index + 1 == count;
            tokens.extend(match statement {
                Stmt::Local(local) => self.local(local),
                Stmt::Item(item) => item.into_token_stream(),
                Stmt::Expr(expression, None) if is_last && valued => self.value(expression),
                Stmt::Expr(expression, semicolon) => {
                    let expression = match expression {
                        place if survey::is_place(&place) => self.value(place),
                        other => self.statement(other),
                    };
                    // What was a statement by itself may have become an expression that is none.
                    let semicolon = semicolon.map(ToTokens::into_token_stream);
                    let semicolon = semicolon.or_else(|| (!is_last).then(|| quote!(;)));
                    quote!(#expression #semicolon)
                }
                Stmt::Macro(mut statement) => {
                    let before = self.macro_arguments(&mut statement.mac);
                    quote!(#before #statement)
                }
            });
        }
        self.close_names();
        tokens
    }

    fn local(&mut self, local: Local) -> TokenStream {
        let span = local.span();
        let Local { attrs, pat, init, .. } = local;
        let Some(init) = init else {
            self.refuse(
                &pat,
                "give the variable its value where it is declared: `let x = if c { a } else { b };`",
            );
            return quote!();
        };
        let otherwise = init.diverge.map(|(token, expression)| {
            let inner = self.value(*expression);
            quote_spanned!(token.span=> else { #inner })
        });
        let expression = *init.expr;
        let plain = otherwise.is_some() || holds_no_device_value(&expression);
        // A `let-else` looks at a place; a `let` by reference does, too.
        let by_reference = otherwise.is_some() && survey::is_place(&expression);
        let value = if by_reference { self.place(expression) } else { self.value(expression) };
        if let Some((name, ty)) = single_mutable(&pat)
            && !plain
        {
            let exclusive = ty.is_some_and(pattern::is_exclusive_reference);
            self.bind(name, true, exclusive);
            let at = name.span();
            let staging = staging(at);
            let wrapper = match ty {
                Some(ty) => quote_spanned!(at=> #staging::Variable::<#ty>(#value)),
                None => quote_spanned!(at=> #staging::Variable(#value)),
            };
            return quote_spanned!(span=> #(#attrs)* let #pat = #wrapper.declare(););
        }
        let declarations = self.bind_pattern(&pat);
        let (pat, declarations) =
            if plain { (pat, TokenStream::new()) } else { (pattern::without_mut(pat), declarations) };
        quote_spanned!(span=> #(#attrs)* let #pat = #value #otherwise; #declarations)
    }

    /// The body of a branch or round: a block that can be left early.
    pub(crate) fn region_block(
        &mut self,
        block: Block,
        valued: bool,
        prologue: impl FnOnce(&mut Self) -> TokenStream,
    ) -> TokenStream {
        let span = block.brace_token.span.open();
        self.open_names();
        self.enter_block("branch", valued, span);
        let prologue = prologue(self);
        let jumps = survey::block_jumps(&block);
        let diverges = survey::diverges(&block);
        let inner = self.block(block, valued && !diverges);
        let (label, note) = self.exit_block(span);
        self.close_names();
        let label = jumps.then(|| quote!(#label:));
        match (valued, diverges) {
            (false, _) => quote_spanned!(span=> #label { #note #prologue #inner }),
            (true, false) => quote_spanned! {span=>
                #label { #note #prologue ::core::option::Option::Some({ #inner }) }
            },
            (true, true) => quote_spanned!(span=> #label { #note #prologue #inner }),
        }
    }
}

/// `let mut x` or `let mut x: T`.
fn single_mutable(pattern: &Pat) -> Option<(&Ident, Option<&syn::Type>)> {
    match pattern {
        Pat::Ident(name) if name.mutability.is_some() && name.by_ref.is_none() && name.subpat.is_none() => {
            Some((&name.ident, None))
        }
        Pat::Type(typed) => single_mutable(&typed.pat).map(|(name, _)| (name, Some(&*typed.ty))),
        _ => None,
    }
}

/// Whether an initial value certainly holds no device value, so that its type may be left for Rust
/// to infer later.
fn holds_no_device_value(expression: &Expr) -> bool {
    match bare(expression) {
        Expr::Lit(_) | Expr::Closure(_) | Expr::Reference(_) | Expr::Range(_) => true,
        Expr::Unary(unary) => holds_no_device_value(&unary.expr),
        Expr::Path(path) => path.path.is_ident("None"),
        Expr::Array(array) => array.elems.is_empty(),
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => path.path.segments.last().is_some_and(|segment| {
                call.args.is_empty() && ["new", "default"].iter().any(|name| segment.ident == name)
                    || segment.ident == "with_capacity"
            }),
            _ => false,
        },
        Expr::Macro(invocation) => {
            let path = &invocation.mac.path;
            invocation.mac.tokens.is_empty() || path.is_ident("format")
        }
        _ => false,
    }
}
