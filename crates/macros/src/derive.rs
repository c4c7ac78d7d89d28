//! `#[derive(DeviceValue)]` and `#[derive(KernelParameter)]`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
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

pub(crate) fn kernel_parameter(item: TokenStream) -> TokenStream {
    match syn::parse2::<DeriveInput>(item).and_then(expand_parameter) {
        Ok(tokens) => tokens,
        Err(error) => error.into_compile_error(),
    }
}

fn expand_parameter(input: DeriveInput) -> syn::Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(syn::Error::new_spanned(&input.ident, "only a struct can be a kernel's parameter"));
    };
    let name = &input.ident;
    let (generics, arguments, where_clause) = input.generics.split_for_impl();
    let mut hosts = Vec::new();
    let mut declared = Vec::new();
    for (member, field) in members(&data.fields).iter().zip(&data.fields) {
        let (ty, span) = (&field.ty, field.ty.span());
        let parameter = {
            let language = language(span);
            quote_spanned!(span=> #language::parameter::KernelParameter)
        };
        let suffix = match member {
            Member::Named(name) => name.to_string(),
            Member::Unnamed(index) => index.index.to_string(),
        };
        hosts.push(quote_spanned!(span=> <#ty as #parameter>::Host));
        let declare = quote_spanned!(span=> <#ty as #parameter>::declare);
        declared.push(quote_spanned!(span=> #member: #declare(&::std::format!("{name}_{}", #suffix))));
    }
    let language = language(proc_macro2::Span::call_site());
    Ok(quote! {
        impl #generics #language::parameter::KernelParameter for #name #arguments #where_clause {
            type Host = (#(#hosts,)*);
            type Value = Self;

            #[track_caller]
            fn declare(name: &str) -> Self {
                Self { #(#declared),* }
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
