//! A kernel's parameters: their types at the launch, and what the body works with.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    FnArg, GenericArgument, Lifetime, Pat, PatType, PathArguments, Signature, Token, Type, parse_quote,
};

use crate::pattern;
use crate::runtime::{self, language};
use crate::scope::Scope;

/// What a kernel's parameters become.
pub(crate) struct Parameters {
    /// The types that a launch passes.
    pub(crate) hosts: Vec<TokenStream>,
    /// The statements that declare the parameters in the body.
    pub(crate) declarations: TokenStream,
    /// Where the type begins and ends that the compiler is most likely to refuse: the kernel's own
    /// type has its position, so that the refusal there and the one in the body are one message.
    pub(crate) ends: (Span, Span),
}

impl Scope {
    pub(crate) fn parameters(&mut self, signature: &Signature) -> Parameters {
        let mut parameters = Parameters {
            hosts: Vec::new(),
            declarations: TokenStream::new(),
            ends: (signature.ident.span(), signature.ident.span()),
        };
        for input in signature.inputs.iter().rev() {
            if let FnArg::Typed(parameter) = input
                && !is_known(pattern::bare(&parameter.ty))
            {
                parameters.ends = ends(pattern::bare(&parameter.ty));
            }
        }
        for input in &signature.inputs {
            if let FnArg::Typed(parameter) = input {
                self.parameter(parameter, &mut parameters);
            }
        }
        parameters
    }

    fn parameter(&mut self, parameter: &PatType, parameters: &mut Parameters) {
        let Pat::Ident(name) = &*parameter.pat else {
            return self
                .refuse(&parameter.pat, "a kernel's parameter is a single name: destructure it in the body");
        };
        let written = pattern::bare(&parameter.ty);
        let type_span = written.span();
        let language = language(type_span);
        let (ident, at) = (&name.ident, name.ident.span());
        let mut ty = without_lifetime(written);
        if let Some((message, meant)) = instead_of(written) {
            self.refuse(written, &message);
            // What a launch passes is compared with what was meant.
            match meant {
                Some(Meant::Scalar(scalar)) => ty = scalar,
                Some(Meant::Memory(element, mutability)) if is_scalar(&element) => {
                    ty = parse_quote!(&'static #mutability #language::pointer::Global<#element>);
                }
                _ => return,
            }
        }
        let parameter_trait = quote_spanned!(type_span=> #language::parameter::KernelParameter);
        let end = ends(written).1;
        let [host, declare] = ["Host", "declare"].map(|name| Ident::new(name, end));
        parameters.hosts.push(quote_spanned!(type_span=> <#ty as #parameter_trait>::#host));
        let text = ident.to_string();
        let declared = quote_spanned!(type_span=> <#ty as #parameter_trait>::#declare(#text));
        let holder = runtime::variable("parameter", parameters.hosts.len(), at);
        // Several stores take a tensor map by value. The recorder knows which it may write through.
        let is_exclusive = pattern::is_exclusive_reference(written) && !is_tensor_map(written);
        parameters.declarations.extend(match written {
            Type::Reference(reference) => {
                let mutability = reference.mutability.filter(|_| is_exclusive);
                quote_spanned! {at=>
                    #[allow(unused_mut)]
                    let mut #holder = #declared;
                    let #ident = &#mutability #holder;
                }
            }
            _ => {
                let mutability = &name.mutability;
                quote_spanned!(at=> let #mutability #ident = #declared;)
            }
        });
        self.bind(ident, name.mutability.is_some(), is_exclusive);
    }
}

/// Whether a type is a reference to one or several tensor maps.
fn is_tensor_map(ty: &Type) -> bool {
    let Type::Reference(reference) = ty else { return false };
    path(pattern::bare(&reference.elem))
        .is_some_and(|(name, _)| ["TensorMap", "UntypedTensorMap", "TensorMaps"].contains(&name.as_str()))
}

/// A parameter's type, with `'static` for the lifetime of the reference: in the kernel's own type
/// it means nothing.
fn without_lifetime(ty: &Type) -> Type {
    let mut ty = ty.clone();
    if let Type::Reference(reference) = &mut ty {
        reference.lifetime = Some(Lifetime::new("'static", reference.and_token.span));
    }
    ty
}

/// The first and the last position of a type.
fn ends(ty: &Type) -> (Span, Span) {
    let tokens: Vec<_> = ty.to_token_stream().into_iter().map(|token| token.span()).collect();
    let first = tokens.first().copied().unwrap_or_else(Span::call_site);
    (first, tokens.last().copied().unwrap_or(first))
}

/// The last name of a path, and its first type argument.
fn path(ty: &Type) -> Option<(String, Option<&Type>)> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    let argument = match &last.arguments {
        PathArguments::AngleBracketed(arguments) => {
            arguments.args.iter().find_map(|argument| match argument {
                GenericArgument::Type(ty) => Some(ty),
                _ => None,
            })
        }
        _ => None,
    };
    Some((last.ident.to_string(), argument))
}

/// Types of device values that a kernel takes by value, by their names.
const SCALARS: [&str; 15] = [
    "bool", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "f16x2",
    "bf16x2",
];

fn is_scalar(ty: &Type) -> bool {
    path(ty).is_some_and(|(name, _)| SCALARS.contains(&name.as_str()))
}

/// Whether the type certainly is one that a kernel takes.
fn is_known(ty: &Type) -> bool {
    match ty {
        Type::Array(array) => is_scalar(&array.elem),
        Type::Reference(reference) => path(&reference.elem).is_some_and(|(name, element)| {
            name.starts_with("TensorMap") || name == "Global" && element.is_some_and(is_scalar)
        }),
        ty => is_scalar(ty),
    }
}

/// The type that the author of a refused one meant.
enum Meant {
    Scalar(Type),
    Memory(Type, Option<Token![mut]>),
}

/// What to write instead of a type that certainly is none of a kernel's parameters.
fn instead_of(ty: &Type) -> Option<(String, Option<Meant>)> {
    match ty {
        Type::ImplTrait(_) => Some((
            "a kernel's parameters have plain types: use a generic parameter of the function".to_owned(),
            None,
        )),
        Type::Reference(reference) => in_memory(pattern::bare(&reference.elem), reference.mutability),
        Type::Ptr(pointer) => Some(memory(&pointer.elem, pointer.mutability)),
        Type::Slice(slice) => Some(memory(&slice.elem, None)),
        Type::Array(array) => no_scalar(&array.elem).map(|(message, _)| (message, None)),
        ty => match path(ty)? {
            (name, Some(element)) if is_owner(&name) => Some(memory(element, None)),
            _ => no_scalar(ty).map(|(message, scalar)| (message, scalar.map(Meant::Scalar))),
        },
    }
}

/// What to write instead of a reference to `ty`.
fn in_memory(ty: &Type, mutability: Option<Token![mut]>) -> Option<(String, Option<Meant>)> {
    match ty {
        Type::Slice(slice) => return Some(memory(&slice.elem, mutability)),
        Type::Array(array) => {
            let (message, meant) = memory(&array.elem, mutability);
            let array = display(array);
            return Some((format!("{message}, or `{array}` for an array by value"), meant));
        }
        _ => {}
    }
    match path(ty)? {
        (name, Some(element)) if is_owner(&name) => Some(memory(element, mutability)),
        (name, Some(element)) if name == "Global" => no_scalar(element)
            .map(|(message, scalar)| (message, scalar.map(|scalar| Meant::Memory(scalar, mutability)))),
        (name, None) if name == "str" => Some((no_text(), None)),
        _ if !is_scalar(ty) => no_scalar(ty).map(|(message, _)| (message, None)),
        _ if mutability.is_some() => {
            let (message, meant) = memory(ty, mutability);
            Some((format!("{message}, of one element"), meant))
        }
        _ => {
            let written = display(ty);
            let message = format!("a kernel takes a scalar by value: use `{written}`");
            Some((message, Some(Meant::Scalar(ty.clone()))))
        }
    }
}

/// Whether a type of this name owns elements in the host's memory.
fn is_owner(name: &str) -> bool {
    ["Vec", "Box"].contains(&name)
}

/// Why the device has no scalar of a type of Rust's, and the scalar to use.
fn no_scalar(ty: &Type) -> Option<(String, Option<Type>)> {
    let width = |alternatives: &str, scalar: Type| {
        let message = format!(
            "the device's integers have the same size on every machine: use {alternatives} instead of `{}`",
            display(ty)
        );
        Some((message, Some(scalar)))
    };
    match path(ty)?.0.as_str() {
        "usize" => width("`u32` or `u64`", parse_quote!(u32)),
        "isize" => width("`i32` or `i64`", parse_quote!(i32)),
        "u128" | "i128" => Some(("the device has no 128-bit integers: use two of 64 bits".to_owned(), None)),
        "char" | "String" => Some((no_text(), None)),
        _ => None,
    }
}

fn memory(element: &Type, mutability: Option<Token![mut]>) -> (String, Option<Meant>) {
    let element = if let Type::Slice(slice) = element { &slice.elem } else { element };
    let written = display(element);
    let message = match mutability {
        Some(_) => format!("a kernel's arrays are in global memory: use `&mut Global<{written}>`"),
        None => format!(
            "a kernel's arrays are in global memory: use `&Global<{written}>`, or `&mut Global<{written}>` to write to it"
        ),
    };
    (message, Some(Meant::Memory(element.clone(), mutability)))
}

fn no_text() -> String {
    "the device has no strings: pass the bytes as `&Global<u8>`, or keep the string in the struct that the kernel is \
     a method of"
        .to_owned()
}

fn display(ty: impl ToTokens) -> String {
    quote!(#ty).to_string().replace(" ", "").replace(";", "; ")
}
