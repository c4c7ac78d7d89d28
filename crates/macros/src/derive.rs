//! `#[derive(DeviceValue)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Fields, Index, Member};

use crate::runtime::{language, staging};

pub(crate) fn device_value(item: TokenStream) -> TokenStream {
    match syn::parse2::<DeriveInput>(item).and_then(expand) {
        Ok(tokens) => tokens,
        Err(error) => error.into_compile_error(),
    }
}

fn expand(input: DeriveInput) -> syn::Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(syn::Error::new_spanned(
            &input.ident,
            "only a struct can be a device value: which variant an `enum` has must be known at build time",
        ));
    };
    let span = proc_macro2::Span::call_site();
    let (language, staging) = (language(span), staging(span));
    let name = &input.ident;
    let (generics, arguments, where_clause) = input.generics.split_for_impl();
    let fields = members(&data.fields);
    let visits =
        fields.iter().map(|member| quote!(#staging::Field(&mut self.#member).visit_registers(visit);));
    let compares =
        fields.iter().map(|member| quote!(#staging::FieldShape(&self.#member, &other.#member).same_shape()));
    let settles = fields.iter().map(|member| quote!(#staging::Field(&mut self.#member).settle();));
    Ok(quote! {
        impl #generics #language::DeviceValue for #name #arguments #where_clause {
            fn visit_registers(&mut self, visit: &mut dyn FnMut(&mut #staging::Register)) {
                #[allow(unused_imports)]
                use #staging::build_time::*;
                #(#visits)*
            }

            fn same_shape(&self, other: &Self) -> bool {
                #[allow(unused_imports)]
                use #staging::build_time::*;
                true #(&& #compares)*
            }

            #[track_caller]
            fn settle(&mut self) {
                #[allow(unused_imports)]
                use #staging::build_time::*;
                #(#settles)*
            }
        }

        impl #generics #staging::Yields<#name #arguments> for #name #arguments #where_clause {
            fn yield_into(mut self, sources: &mut #staging::Sources) -> Self {
                #staging::yield_registers(&mut self, sources);
                self
            }
        }
    })
}

fn members(fields: &Fields) -> Vec<Member> {
    let members = fields.iter().enumerate().map(|(index, field)| match &field.ident {
        Some(name) => Member::Named(name.clone()),
        None => Member::Unnamed(Index::from(index)),
    });
    members.collect()
}
