//! The documented public functions and methods of a source file.

use std::collections::BTreeMap;

use anyhow::Result;
use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Expr, ExprLit, FnArg, GenericParam, Generics, ImplItem, Item, ItemImpl, Lit, Meta, Pat,
    ReturnType, Signature, Token, Visibility,
};

use super::expansion::expanded;

/// A function or a method.
pub(super) struct Operation {
    /// The type of which it is a method or an associated function.
    pub(super) owner: Option<String>,
    /// How it is called, and its result.
    pub(super) call: String,
    /// The first sentence of its documentation.
    pub(super) summary: String,
}

/// The operations of a file, in their order.
pub(super) fn operations(text: &str) -> Result<Vec<Operation>> {
    let mut operations = Vec::new();
    for item in expanded(syn::parse_file(text)?)? {
        match item {
            Item::Fn(function) if is_public(&function.vis) => {
                operations.extend(operation(None, &function.sig, &function.attrs));
            }
            Item::Impl(block) if block.trait_.is_none() => {
                let owner = owner(&block);
                for item in &block.items {
                    if let ImplItem::Fn(method) = item
                        && is_public(&method.vis)
                    {
                        operations.extend(operation(Some(&owner), &method.sig, &method.attrs));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(operations)
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// The type of an `impl` block, with what its parameters must be: `Reg<T: Float>`.
fn owner(block: &ItemImpl) -> String {
    let bounds = bounds(&block.generics);
    let mut name = String::new();
    let mut word = String::new();
    for letter in spelled(block.self_ty.to_token_stream()).chars().chain([' ']) {
        if letter.is_alphanumeric() || letter == '_' {
            word.push(letter);
            continue;
        }
        name += &word;
        if let Some(bound) = bounds.get(&word) {
            name += &format!(": {bound}");
        }
        word.clear();
        name.push(letter);
    }
    name.trim_end().to_owned()
}

/// What the parameters of a block must be, but for what holds for every value and space.
fn bounds(generics: &Generics) -> BTreeMap<String, String> {
    let of_type = generics.params.iter().filter_map(|parameter| match parameter {
        GenericParam::Type(parameter) if !parameter.bounds.is_empty() => {
            let bounds = spelled(parameter.bounds.to_token_stream());
            (!matches!(&*bounds, "Element" | "Space")).then(|| (parameter.ident.to_string(), bounds))
        }
        _ => None,
    });
    of_type.collect()
}

fn operation(owner: Option<&str>, signature: &Signature, attributes: &[Attribute]) -> Option<Operation> {
    let summary = summary(&documentation(attributes));
    (!summary.is_empty()).then(|| Operation {
        owner: owner.map(str::to_owned),
        call: call(owner, signature),
        summary,
    })
}

/// How a function is called, and its result: `.get(coordinate) -> Reg<T>`.
fn call(owner: Option<&str>, signature: &Signature) -> String {
    let is_method = signature.receiver().is_some();
    let parameters = signature.inputs.iter().filter_map(|input| match input {
        FnArg::Receiver(_) => None,
        FnArg::Typed(typed) => Some(parameter(&typed.pat)),
    });
    let parameters = parameters.collect::<Vec<_>>().join(", ");
    let before = match owner {
        _ if is_method => ".".to_owned(),
        Some(owner) => format!("{}::", owner.split('<').next().unwrap_or_default()),
        None => String::new(),
    };
    let result = match &signature.output {
        ReturnType::Default => String::new(),
        ReturnType::Type(_, result) => {
            let result = spelled(result.to_token_stream());
            // The type that the head of the table names.
            let result = if Some(&*result) == owner { "Self".to_owned() } else { result };
            format!(" -> {result}")
        }
    };
    format!("{before}{}({parameters}){result}", signature.ident)
}

/// A parameter's name; of a tuple, the names of its parts.
fn parameter(pattern: &Pat) -> String {
    match pattern {
        Pat::Ident(name) => name.ident.to_string(),
        pattern => spelled(pattern.to_token_stream()),
    }
}

/// The text of a documentation.
fn documentation(attributes: &[Attribute]) -> String {
    let mut lines = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        if let Meta::NameValue(value) = &attribute.meta {
            lines.push(text(&value.value));
        }
    }
    lines.join("\n")
}

/// The value of a string, `concat!(..)` or `stringify!(..)`.
fn text(value: &Expr) -> String {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => text.value(),
        Expr::Macro(call) if call.mac.path.is_ident("stringify") => spelled(call.mac.tokens.clone()),
        Expr::Macro(call) => {
            let parts = call.mac.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated);
            parts.map(|parts| parts.iter().map(text).collect()).unwrap_or_default()
        }
        _ => String::new(),
    }
}

/// Tokens as Rust is written.
fn spelled(tokens: TokenStream) -> String {
    let is_word = |letter: Option<char>| letter.is_some_and(|l| l.is_alphanumeric() || l == '_');
    let (text, mut spelled) = (tokens.to_string(), String::new());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let between_words = is_word(spelled.chars().last()) && is_word(letters.peek().copied());
        if letter != ' ' || between_words {
            spelled.push(letter);
        }
    }
    let spaced = [(",", ", "), (";", "; "), ("->", " -> "), ("+", " + "), ("=", " = ")];
    spaced.iter().fold(spelled, |text, (from, to)| text.replace(from, to))
}

/// The first sentence of a documentation, without its links.
fn summary(documentation: &str) -> String {
    let lines = documentation.lines().map(str::trim).skip_while(|line| line.is_empty());
    let paragraph = lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let end = paragraph.find(". ").map_or(paragraph.len(), |at| at + 1);
    let mut text = paragraph[..end].to_owned();
    while let Some(at) = text.find("](") {
        let Some(close) = text[at..].find(')') else { break };
        text.replace_range(at + 1..at + close + 1, "");
    }
    text.replace("[`", "`").replace("`]", "`").replace('|', "\\|")
}
