//! Patterns: the names they bind.

use proc_macro2::{Ident, TokenStream};
use quote::quote_spanned;
use syn::visit::{self, Visit};
use syn::{Pat, PatIdent, Token, Type};

use crate::runtime::staging;
use crate::scope::Scope;

#[derive(Default)]
struct Names {
    names: Vec<(Ident, Option<Token![mut]>)>,
}

impl<'ast> Visit<'ast> for Names {
    fn visit_pat_ident(&mut self, pattern: &'ast PatIdent) {
        // A bare upper-case name is a constant or a unit variant.
        let is_constant = pattern.ident.to_string().starts_with(char::is_uppercase);
        if !(is_constant && pattern.mutability.is_none() && pattern.by_ref.is_none()) {
            let mutability = pattern.mutability.filter(|_| pattern.by_ref.is_none());
            self.names.push((pattern.ident.clone(), mutability));
        }
        visit::visit_pat_ident(self, pattern);
    }
}

/// The names that a pattern binds, and the `mut` of each.
pub(crate) fn names(pattern: &Pat) -> Vec<(Ident, Option<Token![mut]>)> {
    let mut names = Names::default();
    names.visit_pat(pattern);
    names.names
}

/// A pattern without the `mut` of its names, for a pattern after which [`Scope::bind_pattern`]
/// declares them again.
pub(crate) fn without_mut(mut pattern: Pat) -> Pat {
    strip_mut(&mut pattern);
    pattern
}

pub(crate) fn strip_mut(pattern: &mut Pat) {
    match pattern {
        Pat::Ident(name) => {
            if name.by_ref.is_none() {
                name.mutability = None;
            }
            if let Some((_, inner)) = &mut name.subpat {
                strip_mut(inner);
            }
        }
        Pat::Or(alternatives) => alternatives.cases.iter_mut().for_each(strip_mut),
        Pat::Paren(inner) => strip_mut(&mut inner.pat),
        Pat::Reference(inner) => strip_mut(&mut inner.pat),
        Pat::Slice(parts) => parts.elems.iter_mut().for_each(strip_mut),
        Pat::Struct(parts) => parts.fields.iter_mut().for_each(|field| strip_mut(&mut field.pat)),
        Pat::Tuple(parts) => parts.elems.iter_mut().for_each(strip_mut),
        Pat::TupleStruct(parts) => parts.elems.iter_mut().for_each(strip_mut),
        Pat::Type(typed) => strip_mut(&mut typed.pat),
        _ => {}
    }
}

impl Scope {
    /// Binds the names of a pattern. The result gives those declared `mut` registers of their own,
    /// and belongs after the pattern has been matched.
    pub(crate) fn bind_pattern(&mut self, pattern: &Pat) -> TokenStream {
        let exclusive = matches!(pattern, Pat::Type(typed) if is_exclusive_reference(&typed.ty));
        self.bind_names(pattern, exclusive)
    }

    /// [`bind_pattern`](Self::bind_pattern) of a pattern that is known to match a `&mut`, or not.
    pub(crate) fn bind_names(&mut self, pattern: &Pat, exclusive: bool) -> TokenStream {
        let mut declarations = TokenStream::new();
        for (name, mutability) in names(pattern) {
            self.bind(&name, mutability.is_some(), exclusive);
            if let Some(mutability) = mutability {
                let span = name.span();
                let staging = staging(span);
                declarations.extend(
                    quote_spanned!(span=> let #mutability #name = #staging::Variable(#name).declare();),
                );
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
