//! `derive(Options)`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::ParseStream;
use syn::{Data, DeriveInput, Error, Expr, ExprArray, Field, Fields, LitStr, Result};

use crate::{documentation, kebab};

/// What `#[option(..)]` says of a field.
#[derive(Default)]
struct Arguments {
    name: Option<String>,
    default: Option<Expr>,
    min: Option<Expr>,
    max: Option<Expr>,
    search: Option<ExprArray>,
    is_flattened: bool,
}

impl Arguments {
    fn of(field: &Field) -> Result<Self> {
        let mut arguments = Self::default();
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("option")) {
            attribute.parse_nested_meta(|meta| {
                let key = meta.path.require_ident()?.to_string();
                if key == "flatten" {
                    arguments.is_flattened = true;
                    return Ok(());
                }
                let value: ParseStream<'_> = meta.value()?;
                match key.as_str() {
                    "name" => arguments.name = Some(value.parse::<LitStr>()?.value()),
                    "default" => arguments.default = Some(value.parse()?),
                    "min" => arguments.min = Some(value.parse()?),
                    "max" => arguments.max = Some(value.parse()?),
                    "search" => arguments.search = Some(value.parse()?),
                    _ => return Err(meta.error("expected name, default, min, max, search or flatten")),
                }
                Ok(())
            })?;
        }
        Ok(arguments)
    }
}

/// What a field adds to each of the generated functions.
#[derive(Default)]
struct Parts {
    defaults: Vec<TokenStream>,
    specs: Vec<TokenStream>,
    sets: Vec<TokenStream>,
    gets: Vec<TokenStream>,
}

impl Parts {
    fn add(&mut self, field: &Field) -> Result<()> {
        let arguments = Arguments::of(field)?;
        let (ident, ty) = (&field.ident, &field.ty);
        let harness = quote!(::warpwright_harness);
        let default =
            arguments.default.map_or(quote!(::core::default::Default::default()), |value| quote!(#value));
        self.defaults.push(quote!(#ident: #default,));
        if arguments.is_flattened {
            self.specs.push(quote!(specs.extend(<#ty as #harness::Options>::specs());));
            self.sets.push(quote! {
                match #harness::Options::set(&mut self.#ident, name, text) {
                    ::core::result::Result::Err(#harness::OptionError { kind: #harness::OptionErrorKind::Unknown, .. }) => {}
                    outcome => return outcome,
                }
            });
            self.gets.push(quote! {
                if let ::core::option::Option::Some(value) = #harness::Options::get(&self.#ident, name) {
                    return ::core::option::Option::Some(value);
                }
            });
            return Ok(());
        }
        let ident = ident.as_ref().expect("the fields have names");
        let name = arguments.name.unwrap_or_else(|| kebab(&ident.to_string()));
        let help = documentation(&field.attrs);
        if help.is_empty() {
            return Err(Error::new_spanned(ident, "an option's doc comment is its help text"));
        }
        let bound = |bound: Option<Expr>| match bound {
            Some(bound) => quote!(::core::option::Option::Some((#bound) as f64)),
            None => quote!(::core::option::Option::None),
        };
        let (min, max) = (bound(arguments.min), bound(arguments.max));
        let search =
            arguments.search.map(|search| search.elems.into_iter().collect::<Vec<_>>()).unwrap_or_default();
        self.specs.push(quote! {
            specs.push(#harness::OptionSpec::new::<#ty, _>(
                #name, #help, &defaults.#ident, (#min, #max),
                ::std::vec![#(<#ty as #harness::OptionValue<_>>::fixed(#search)),*],
            ));
        });
        self.sets.push(quote! {
            if name == #name {
                self.#ident = #harness::OptionError::checked(name, text, (#min, #max))?;
                return ::core::result::Result::Ok(());
            }
        });
        self.gets.push(quote! {
            if name == #name {
                return ::core::option::Option::Some(<#ty as #harness::OptionValue<_>>::json(&self.#ident));
            }
        });
        Ok(())
    }
}

/// The implementations for a struct with named fields.
pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let fields = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => Some(fields.named.iter().collect::<Vec<_>>()),
            Fields::Unit => Some(Vec::new()),
            Fields::Unnamed(_) => None,
        },
        _ => None,
    };
    let fields = fields.ok_or_else(|| {
        Error::new_spanned(&input.ident, "Options is derived for a struct whose fields have names")
    })?;
    let mut parts = Parts::default();
    for field in fields {
        parts.add(field)?;
    }
    let Parts { defaults, specs, sets, gets } = parts;
    let (name, about) = (&input.ident, documentation(&input.attrs));
    let harness = quote!(::warpwright_harness);
    Ok(quote! {
        impl ::core::default::Default for #name {
            fn default() -> Self {
                Self { #(#defaults)* }
            }
        }

        impl #harness::Options for #name {
            const ABOUT: &'static str = #about;

            fn specs() -> ::std::vec::Vec<#harness::OptionSpec> {
                let (defaults, mut specs) = (Self::default(), ::std::vec::Vec::new());
                let _ = &defaults;
                #(#specs)*
                specs
            }

            fn set(&mut self, name: &str, text: &str) -> ::core::result::Result<(), #harness::OptionError> {
                #(#sets)*
                let _ = text;
                ::core::result::Result::Err(#harness::OptionError::unknown::<Self>(name))
            }

            fn get(&self, name: &str) -> ::core::option::Option<#harness::Json> {
                #(#gets)*
                let _ = name;
                ::core::option::Option::None
            }
        }

        impl ::core::fmt::Display for #name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(&#harness::Options::flags(self))
            }
        }
    })
}
