//! `derive(OptionValue)`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, LitStr, Result};

use crate::{documentation, kebab};

/// The implementation for an enum: a word for each variant.
pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "OptionValue is derived for an enum"));
    };
    let (mut words, mut helps, mut variants) = (Vec::new(), Vec::new(), Vec::new());
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new_spanned(variant, "a variant that is an option's value has no fields"));
        }
        let mut word = kebab(&variant.ident.to_string());
        for attribute in variant.attrs.iter().filter(|attribute| attribute.path().is_ident("option")) {
            attribute.parse_nested_meta(|meta| {
                if !meta.path.is_ident("name") {
                    return Err(meta.error("a variant takes `name = \"..\"`"));
                }
                word = meta.value()?.parse::<LitStr>()?.value();
                Ok(())
            })?;
        }
        words.push(word);
        helps.push(documentation(&variant.attrs));
        variants.push(&variant.ident);
    }
    let name = &input.ident;
    Ok(quote! {
        impl ::warpwright_harness::OptionValue for #name {
            const FORM: ::warpwright_harness::Form = ::warpwright_harness::Form::Choice(&[#((#words, #helps)),*]);
            type Fixed = Self;

            fn fixed(value: Self) -> Self {
                value
            }

            fn parse(text: &str) -> ::core::result::Result<Self, ::std::string::String> {
                match text {
                    #(#words => ::core::result::Result::Ok(Self::#variants),)*
                    _ => ::core::result::Result::Err(::warpwright_harness::not_a_choice(text, &[#(#words),*])),
                }
            }

            fn text(&self) -> ::std::string::String {
                ::std::string::String::from(match self {
                    #(Self::#variants => #words,)*
                })
            }
        }
    })
}
