//! Expressions: which are read as values, which name places, and what is left alone.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::token::Brace;
use syn::{Expr, Token};

use crate::runtime::staging;
use crate::scope::Scope;
use crate::survey;

impl Scope {
    /// An expression whose value is used.
    pub(crate) fn value(&mut self, expression: Expr) -> TokenStream {
        if survey::is_place(&expression) {
            if self.needs_reading(&expression) {
                let span = expression.span();
                let staging = staging(span);
                let place = self.place(expression);
                return quote_spanned!(span=> #staging::Reading(#place).read());
            }
            return self.place(expression);
        }
        self.rewrite(expression, true)
    }

    /// Whether what the place holds may be overwritten after this moment.
    fn needs_reading(&self, place: &Expr) -> bool {
        match place {
            Expr::Path(path) => path
                .path
                .get_ident()
                .and_then(|name| self.lookup(name))
                .is_some_and(|binding| binding.mutable),
            Expr::Paren(inner) => self.needs_reading(&inner.expr),
            Expr::Group(inner) => self.needs_reading(&inner.expr),
            _ => !(self.self_is_configuration && survey::is_within_self(place)),
        }
    }

    /// An expression that names a place: its parts are rewritten, and it stays a place.
    pub(crate) fn place(&mut self, expression: Expr) -> TokenStream {
        match expression {
            Expr::Path(path) => path.into_token_stream(),
            Expr::Field(mut field) => {
                field.base = Box::new(Expr::Verbatim(self.place(*field.base)));
                field.into_token_stream()
            }
            Expr::Index(mut index) => {
                index.expr = Box::new(Expr::Verbatim(self.place(*index.expr)));
                index.index = Box::new(Expr::Verbatim(self.value(*index.index)));
                index.into_token_stream()
            }
            Expr::Unary(mut unary) if matches!(unary.op, syn::UnOp::Deref(_)) => {
                unary.expr = Box::new(Expr::Verbatim(self.place(*unary.expr)));
                unary.into_token_stream()
            }
            Expr::Paren(inner) => {
                let place = self.place(*inner.expr);
                enclosed(|tokens| inner.paren_token.surround(tokens, |tokens| tokens.extend(place)))
            }
            Expr::Group(inner) => self.place(*inner.expr),
            other => self.rewrite(other, true),
        }
    }

    pub(crate) fn values(&mut self, expressions: Punctuated<Expr, Token![,]>) -> TokenStream {
        let values = expressions.into_iter().map(|expression| self.value(expression));
        quote!(#(#values),*)
    }

    #[allow(clippy::boxed_local, reason = "the syntax tree's parts are boxes")]
    fn boxed_value(&mut self, expression: Box<Expr>) -> Box<Expr> {
        Box::new(Expr::Verbatim(self.value(*expression)))
    }

    /// An expression in the position of a statement: its value is `()`.
    pub(crate) fn statement(&mut self, expression: Expr) -> TokenStream {
        self.rewrite(expression, false)
    }

    /// Rewrites an expression that is not a place. `valued`: its value is used.
    pub(crate) fn rewrite(&mut self, expression: Expr, valued: bool) -> TokenStream {
        match expression {
            Expr::If(choice) => self.choice(choice, valued),
            Expr::Match(choice) => self.selection(choice, valued),
            Expr::While(repetition) => self.while_loop(repetition),
            Expr::ForLoop(repetition) => self.for_loop(repetition),
            Expr::Loop(repetition) => self.endless_loop(repetition),
            Expr::Break(jump) => self.break_out(jump),
            Expr::Continue(jump) => self.continue_on(&jump),
            Expr::Return(jump) => self.return_early(jump),
            Expr::Block(block) if block.label.is_some() => self.labeled_block(block),
            Expr::Block(mut block) => {
                let attributes = &block.attrs;
                let brace = block.block.brace_token;
                let inner = self.block(std::mem::replace(&mut block.block, empty_block()), valued);
                let inner = in_braces(brace, inner);
                quote!(#(#attributes)* #inner)
            }
            Expr::Unsafe(block) => {
                let (keyword, brace) = (block.unsafe_token, block.block.brace_token);
                let inner = in_braces(brace, self.block(block.block, valued));
                quote!(#keyword #inner)
            }
            Expr::Assign(assign) => self.assign(assign),
            Expr::Binary(binary) if crate::operator::is_compound(&binary.op) => self.compound_assign(binary),
            Expr::Binary(binary) => self.binary(binary),
            Expr::Cast(cast) => self.cast(cast),
            Expr::Closure(closure) => self.closure(closure),
            Expr::Unary(mut unary) => {
                unary.expr = Box::new(Expr::Verbatim(self.operand(*unary.expr, true)));
                unary.into_token_stream()
            }
            Expr::Paren(mut inner) => {
                inner.expr = self.boxed_value(inner.expr);
                inner.into_token_stream()
            }
            Expr::Group(inner) => self.value(*inner.expr),
            Expr::Call(call) => self.call(call),
            Expr::MethodCall(call) => self.method_call(call),
            Expr::Reference(mut reference) => {
                let inner = *reference.expr;
                let inner = if survey::is_place(&inner) { self.place(inner) } else { self.value(inner) };
                reference.expr = Box::new(Expr::Verbatim(inner));
                reference.into_token_stream()
            }
            Expr::Tuple(tuple) => {
                let single = (tuple.elems.len() == 1).then(|| quote!(,));
                let values = self.values(tuple.elems);
                let values = quote!(#values #single);
                enclosed(|tokens| tuple.paren_token.surround(tokens, |tokens| tokens.extend(values)))
            }
            Expr::Array(array) => {
                let values = self.values(array.elems);
                enclosed(|tokens| array.bracket_token.surround(tokens, |tokens| tokens.extend(values)))
            }
            Expr::Repeat(mut repeat) => {
                repeat.expr = self.boxed_value(repeat.expr);
                repeat.into_token_stream()
            }
            Expr::Struct(literal) => self.struct_literal(literal),
            Expr::Range(mut range) => {
                range.start = range.start.map(|bound| self.boxed_value(bound));
                range.end = range.end.map(|bound| self.boxed_value(bound));
                range.into_token_stream()
            }
            Expr::Try(mut attempt) => {
                if self.is_kernel_body {
                    self.refuse(
                        &attempt,
                        "a kernel's body returns nothing, so `?` cannot leave it: unwrap the value, or compute it \
                         before the kernel is built and keep it in the struct that the kernel is a method of",
                    );
                }
                attempt.expr = self.boxed_value(attempt.expr);
                attempt.into_token_stream()
            }
            Expr::Let(mut condition) => {
                let scrutinee = *condition.expr;
                let scrutinee =
                    if survey::is_place(&scrutinee) { self.place(scrutinee) } else { self.value(scrutinee) };
                condition.expr = Box::new(Expr::Verbatim(scrutinee));
                condition.into_token_stream()
            }
            Expr::Macro(invocation) => self.invocation(invocation, valued),
            Expr::Async(_) | Expr::Await(_) | Expr::Yield(_) => {
                self.refuse(&expression, "`async` and `.await` are not supported in a kernel");
                expression.into_token_stream()
            }
            other if survey::is_place(&other) => self.place(other),
            other => other.into_token_stream(),
        }
    }

    fn call(&mut self, mut call: syn::ExprCall) -> TokenStream {
        if !matches!(*call.func, Expr::Path(_)) {
            call.func = Box::new(Expr::Verbatim(self.place(*call.func)));
        }
        let (function, attributes) = (call.func, call.attrs);
        let arguments = self.values(call.args);
        let parenthesised =
            enclosed(|tokens| call.paren_token.surround(tokens, |tokens| tokens.extend(arguments)));
        quote!(#(#attributes)* #function #parenthesised)
    }

    fn struct_literal(&mut self, mut literal: syn::ExprStruct) -> TokenStream {
        for field in &mut literal.fields {
            let value = std::mem::replace(&mut field.expr, Expr::Verbatim(TokenStream::new()));
            let is_read = !survey::is_place(&value) || self.needs_reading(&value);
            if field.colon_token.is_none() && is_read {
                field.colon_token = Some(Token![:](value.span()));
            }
            field.expr = Expr::Verbatim(self.value(value));
        }
        literal.rest = literal.rest.map(|rest| self.boxed_value(rest));
        literal.into_token_stream()
    }
}

/// Tokens between delimiters with the author's positions: the compiler reports what is wrong with a
/// tuple, an array or a block where its delimiters are.
pub(crate) fn enclosed(surround: impl FnOnce(&mut TokenStream)) -> TokenStream {
    let mut tokens = TokenStream::new();
    surround(&mut tokens);
    tokens
}

/// [`enclosed`] by the braces of a block.
pub(crate) fn in_braces(brace: Brace, inner: TokenStream) -> TokenStream {
    enclosed(|tokens| brace.surround(tokens, |tokens| tokens.extend(inner)))
}

pub(crate) fn empty_block() -> syn::Block {
    syn::Block { brace_token: syn::token::Brace::default(), stmts: Vec::new() }
}
