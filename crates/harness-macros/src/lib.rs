//! The macros of `warpwright-harness`, which documents them.

mod options;

use proc_macro::TokenStream;
use syn::{Attribute, DeriveInput, Expr, Lit, Meta, parse_macro_input};

/// Implements `warpwright_harness::Options`, `Default` and `Display` for a struct whose fields are
/// options.
#[proc_macro_derive(Options, attributes(option))]
pub fn derive_options(input: TokenStream) -> TokenStream {
    expanded(options::derive(&parse_macro_input!(input as DeriveInput)))
}

fn expanded(tokens: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    tokens.unwrap_or_else(|error| error.to_compile_error()).into()
}

/// The text of a doc comment, its lines joined.
fn documentation(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| {
        let Meta::NameValue(meta) = &attribute.meta else { return None };
        let Expr::Lit(literal) = &meta.value else { return None };
        let Lit::Str(text) = &literal.lit else { return None };
        meta.path.is_ident("doc").then(|| text.value().trim().to_owned())
    });
    lines.collect::<Vec<_>>().join(" ").trim().to_owned()
}

/// `CtasPerSm` and `ctas_per_sm` as `ctas-per-sm`. A digit begins no word: `F32` is `f32`.
fn kebab(name: &str) -> String {
    let mut text = String::new();
    for letter in name.trim_start_matches("r#").chars() {
        if letter == '_' {
            text.push('-');
            continue;
        }
        if letter.is_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::kebab;

    #[test]
    fn names_become_words_with_hyphens() {
        assert_eq!(kebab("ctas_per_sm"), "ctas-per-sm");
        assert_eq!(kebab("BrentKung"), "brent-kung");
        assert_eq!(kebab("F32"), "f32");
        assert_eq!(kebab("r#type"), "type");
    }
}
