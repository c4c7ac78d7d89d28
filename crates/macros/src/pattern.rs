//! Patterns: the names they bind.

use proc_macro2::{Ident, TokenStream};
use quote::quote_spanned;
use syn::visit::{self, Visit};
use syn::{Pat, PatIdent, Type};

use crate::runtime::staging;
use crate::scope::Scope;

#[derive(Default)]
struct Names {
    names: Vec<(Ident, bool)>,
}

impl<'ast> Visit<'ast> for Names {
    fn visit_pat_ident(&mut self, pattern: &'ast PatIdent) {
        // A bare upper-case name is a constant or a unit variant.
        let is_constant = pattern.ident.to_string().starts_with(char::is_uppercase);
        if !(is_constant && pattern.mutability.is_none() && pattern.by_ref.is_none()) {
            let mutable = pattern.mutability.is_some() && pattern.by_ref.is_none();
            self.names.push((pattern.ident.clone(), mutable));
        }
        visit::visit_pat_ident(self, pattern);
    }
}

/// The names that a pattern binds, and whether each is declared `mut`.
pub(crate) fn names(pattern: &Pat) -> Vec<(Ident, bool)> {
    let mut names = Names::default();
    names.visit_pat(pattern);
    names.names
}

impl Scope {
    /// Binds the names of a pattern. The result gives those declared `mut` registers of their own,
    /// and belongs after the pattern has been matched.
    pub(crate) fn bind_pattern(&mut self, pattern: &Pat) -> TokenStream {
        let exclusive = matches!(pattern, Pat::Type(typed) if is_exclusive_reference(&typed.ty));
        let mut declarations = TokenStream::new();
        for (name, mutable) in names(pattern) {
            self.bind(&name, mutable, exclusive);
            if mutable {
                let span = name.span();
                let staging = staging(span);
                declarations
                    .extend(quote_spanned!(span=> let mut #name = #staging::Variable(#name).declare();));
            }
        }
        declarations
    }
}

pub(crate) fn is_exclusive_reference(ty: &Type) -> bool {
    matches!(bare(ty), Type::Reference(reference) if reference.mutability.is_some())
}

/// A type without what a macro or parentheses put around it.
pub(crate) fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(inner) => bare(&inner.elem),
        Type::Paren(inner) => bare(&inner.elem),
        _ => ty,
    }
}
