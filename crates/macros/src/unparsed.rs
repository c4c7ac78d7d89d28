//! Items whose bodies do not parse: the compiler has said so already, so their expansion says
//! nothing and keeps the signatures, which the rest of the program uses.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::parse::Parse;

/// The item with stubs for the bodies of its functions, if its bodies are all that does not parse.
pub(crate) fn without_bodies<T: Parse>(item: TokenStream) -> Option<T> {
    let item = stubbed(item);
    // The bodies used the parameters.
    syn::parse2(quote!(#[allow(unused_variables, unused_mut)] #item)).ok()
}

/// The tokens with a stub for the body of each function, those of an `impl` block included.
fn stubbed(tokens: TokenStream) -> TokenStream {
    let mut in_function = false;
    tokens
        .into_iter()
        .map(|token| match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                let inner = if std::mem::take(&mut in_function) {
                    quote_spanned!(group.span()=> ::core::unreachable!())
                } else {
                    stubbed(group.stream())
                };
                let mut stub = Group::new(Delimiter::Brace, inner);
                stub.set_span(group.span());
                TokenTree::Group(stub)
            }
            token => {
                in_function |= matches!(&token, TokenTree::Ident(word) if word == "fn");
                token
            }
        })
        .collect()
}
