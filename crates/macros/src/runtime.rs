//! Paths into the crate that the expansion calls, and names of its own.

use std::path::PathBuf;
use std::sync::OnceLock;

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::Lifetime;

use crate::manifest::{LANGUAGE, Names};

/// The path of the kernel language's crate, under the name by which the package depends on it: as itself,
/// else through the facade.
pub(crate) fn language(span: Span) -> TokenStream {
    static NAMES: OnceLock<Names> = OnceLock::new();
    let Names { language, facade } = NAMES.get_or_init(|| {
        let folder = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        folder.map_or_else(Names::default, |folder| Names::of_package(&folder))
    });
    let ident = |name: &str| Ident::new(&name.replace('-', "_"), span);
    match (language, facade) {
        (None, Some(facade)) => {
            let facade = ident(facade);
            quote_spanned!(span=> ::#facade::lang)
        }
        (language, _) => {
            let language = ident(language.as_deref().unwrap_or(LANGUAGE));
            quote_spanned!(span=> ::#language)
        }
    }
}

/// The path of what the expansion calls.
pub(crate) fn staging(span: Span) -> TokenStream {
    let language = language(span);
    quote_spanned!(span=> #language::staging)
}

/// A variable of the expansion, with a name that no author uses. It has the author's span, so that
/// the compiler shows the author's code in its messages.
pub(crate) fn variable(name: &str, number: usize, span: Span) -> Ident {
    Ident::new(&format!("__{name}_{number}"), span)
}

/// A label of the expansion, which the author's code cannot name.
pub(crate) fn label(name: &str, number: usize, span: Span) -> Lifetime {
    Lifetime::new(&format!("'{name}_{number}"), Span::mixed_site().located_at(span))
}
