//! Paths into the crate that the expansion calls, and names of its own.

use std::path::PathBuf;
use std::sync::OnceLock;

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::Lifetime;

/// The path of the kernel language's crate: as itself where a package depends on it, else through
/// the facade.
pub(crate) fn language(span: Span) -> TokenStream {
    static DEPENDS_DIRECTLY: OnceLock<bool> = OnceLock::new();
    let depends_directly = *DEPENDS_DIRECTLY.get_or_init(|| {
        let Some(folder) = std::env::var_os("CARGO_MANIFEST_DIR") else { return true };
        let manifest = std::fs::read_to_string(PathBuf::from(folder).join("Cargo.toml")).unwrap_or_default();
        manifest.contains("warpwright-lang") || !manifest.contains("warpwright")
    });
    if depends_directly {
        quote_spanned!(span=> ::warpwright_lang)
    } else {
        quote_spanned!(span=> ::warpwright::lang)
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
