//! `ptx!`: one instruction, written out.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::{Expr, LitStr, Token, Type};

use crate::runtime::{self, staging};

/// `"text", name = out Type, name = value, ...`
struct Invocation {
    text: LitStr,
    operands: Vec<Named>,
}

struct Named {
    name: Ident,
    kind: Kind,
}

enum Kind {
    Output(Box<Type>),
    Input(Box<Expr>),
}

mod keyword {
    syn::custom_keyword!(out);
}

impl Parse for Invocation {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let text = input.parse()?;
        let mut operands = Vec::new();
        while !input.is_empty() {
            input.parse::<Token![,]>()?;
            if input.is_empty() {
                break;
            }
            let name = input.parse()?;
            input.parse::<Token![=]>()?;
            let is_output = input.peek(keyword::out) && !input.peek2(Token![,]) && !input.peek2(Token![.]);
            let kind = if is_output {
                input.parse::<keyword::out>()?;
                Kind::Output(Box::new(input.parse()?))
            } else {
                Kind::Input(Box::new(input.parse()?))
            };
            operands.push(Named { name, kind });
        }
        Ok(Self { text, operands })
    }
}

pub(crate) fn expand(input: TokenStream) -> TokenStream {
    syn::parse2::<Invocation>(input).and_then(instruction).unwrap_or_else(syn::Error::into_compile_error)
}

fn instruction(invocation: Invocation) -> syn::Result<TokenStream> {
    let Invocation { text, operands } = invocation;
    let span = text.span();
    let staging = staging(span);
    let body = text.value();
    for named in &operands {
        if !body.contains(&format!("{{{}}}", named.name)) {
            let message = format!("`{{{}}}` does not occur in the instruction", named.name);
            return Err(syn::Error::new(named.name.span(), message));
        }
    }
    let mut rest = body.as_str();
    while let Some((_, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else {
            return Err(syn::Error::new(span, "a `{` without its `}`"));
        };
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        if is_name && !operands.iter().any(|named| named.name == name) {
            let message = format!(
                "`{{{name}}}` is not among the operands: add `{name} = value` or `{name} = out Type`"
            );
            return Err(syn::Error::new(span, message));
        }
        rest = if is_name { after } else { &rest[rest.len() - after.len() - name.len() - 1..] };
    }
    let mut statements = TokenStream::new();
    let mut bindings = Vec::new();
    let mut outputs = Vec::new();
    for (number, Named { name, kind }) in operands.into_iter().enumerate() {
        let at = name.span();
        let variable = runtime::variable("operand", number, at);
        let text = name.to_string();
        match kind {
            Kind::Output(ty) => {
                statements.extend(quote_spanned!(at=> let #variable = <#ty as #staging::Output>::fresh();));
                bindings.push(quote_spanned!(at=> (#text, true, #staging::Output::operand(&#variable))));
                outputs.push(variable);
            }
            Kind::Input(value) => {
                let input = quote_spanned!(at=> #staging::Input::operand(#value));
                statements.extend(quote_spanned!(at=> let #variable = #input;));
                bindings.push(quote_spanned!(at=> (#text, false, #variable)));
            }
        }
    }
    let result = match outputs.as_slice() {
        [] => TokenStream::new(),
        [only] => quote!(#only),
        several => quote!((#(#several),*)),
    };
    let record = Ident::new("record_instruction", Span::call_site().located_at(span));
    Ok(quote! {{
        #statements
        #staging::#record(#text, [#(#bindings),*]);
        #result
    }})
}
