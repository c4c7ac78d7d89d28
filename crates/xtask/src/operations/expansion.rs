//! Expansion of the macros that a source file defines and invokes, as far as tables of functions
//! need it: one `macro_rules!` for each name, rules tried in order, without hygiene.

use std::collections::HashMap;

use anyhow::{Context, Result, bail};
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream, Parser};
use syn::{Expr, File, ImplItem, Item, ItemImpl, ItemMacro, Macro, Meta, Path, Type};

/// The rules of a macro: pattern and body.
type Rules = Vec<(Vec<TokenTree>, TokenStream)>;

/// What a variable of a pattern stands for.
#[derive(Clone)]
enum Binding {
    Tokens(TokenStream),
    Repeated(Vec<Binding>),
}

type Bindings = HashMap<String, Binding>;

/// The items of a file, with the file's own macros expanded.
pub(super) fn expanded(file: File) -> Result<Vec<Item>> {
    let mut macros: HashMap<String, Rules> = HashMap::new();
    let mut items = Vec::new();
    for item in file.items {
        match item {
            Item::Macro(ItemMacro { ident: Some(name), mac, .. }) => {
                macros.insert(name.to_string(), rules(mac.tokens));
            }
            Item::Macro(invocation) => {
                items.extend(syn::parse2::<File>(expansion(&macros, &invocation.mac)?)?.items);
            }
            Item::Impl(mut block) => {
                let mut of_block = Vec::new();
                for item in std::mem::take(&mut block.items) {
                    if let ImplItem::Macro(invocation) = item {
                        let methods = expansion(&macros, &invocation.mac)?;
                        of_block.extend(syn::parse2::<ItemImpl>(quote!(impl Methods { #methods }))?.items);
                    } else {
                        of_block.push(item);
                    }
                }
                block.items = of_block;
                items.push(Item::Impl(block));
            }
            item => items.push(item),
        }
    }
    Ok(items)
}

/// What an invocation stands for; nothing, if its macro is of another file.
fn expansion(macros: &HashMap<String, Rules>, invocation: &Macro) -> Result<TokenStream> {
    let name = invocation.path.to_token_stream().to_string();
    let Some(rules) = macros.get(&name) else { return Ok(TokenStream::new()) };
    expand(rules, &invocation.tokens).with_context(|| format!("`{name}!`"))
}

fn rules(definition: TokenStream) -> Rules {
    let groups = definition.into_iter().filter_map(|tree| match tree {
        TokenTree::Group(group) => Some(group.stream()),
        _ => None,
    });
    let groups: Vec<TokenStream> = groups.collect();
    groups.chunks_exact(2).map(|rule| (rule[0].clone().into_iter().collect(), rule[1].clone())).collect()
}

fn expand(rules: &Rules, input: &TokenStream) -> Result<TokenStream> {
    let input: Vec<TokenTree> = input.clone().into_iter().collect();
    for (pattern, body) in rules {
        let mut bindings = Bindings::new();
        if matched(pattern, &input, &mut bindings) == Some(input.len()) {
            return transcribed(body.clone(), &bindings);
        }
    }
    bail!("no rule of this macro is understood here: {}", TokenStream::from_iter(input))
}

/// `$( .. ) separator operator` at the start of `trees`: its contents, the separator, whether it
/// repeats, and its length.
fn repetition(trees: &[TokenTree]) -> Option<(TokenStream, Option<TokenTree>, bool, usize)> {
    let [TokenTree::Punct(dollar), TokenTree::Group(group), rest @ ..] = trees else { return None };
    if dollar.as_char() != '$' || group.delimiter() != Delimiter::Parenthesis {
        return None;
    }
    let repeats = |tree: &TokenTree| match tree {
        TokenTree::Punct(punct) if "*+".contains(punct.as_char()) => Some(true),
        TokenTree::Punct(punct) if punct.as_char() == '?' => Some(false),
        _ => None,
    };
    let first = repeats(rest.first()?);
    let (separator, repeats) = match first {
        Some(repeats) => (None, repeats),
        None => (rest.first().cloned(), repeats(rest.get(1)?)?),
    };
    let length = 3 + usize::from(separator.is_some());
    Some((group.stream(), separator, repeats, length))
}

/// `$name` at the start of `trees`.
fn variable(trees: &[TokenTree]) -> Option<String> {
    match trees {
        [TokenTree::Punct(dollar), TokenTree::Ident(name), ..] if dollar.as_char() == '$' => {
            Some(name.to_string())
        }
        _ => None,
    }
}

/// Matches the start of `input`, and returns how much of it the pattern takes.
fn matched(pattern: &[TokenTree], input: &[TokenTree], bindings: &mut Bindings) -> Option<usize> {
    let (mut at, mut taken) = (0, 0);
    while at < pattern.len() {
        let rest = &input[taken..];
        if let Some((inner, separator, repeats, length)) = repetition(&pattern[at..]) {
            let inner: Vec<TokenTree> = inner.into_iter().collect();
            taken += matched_repeatedly(&inner, separator.as_ref(), repeats, rest, bindings);
            at += length;
        } else if let Some(name) = variable(&pattern[at..]) {
            let length = fragment(&pattern.get(at + 3)?.to_string(), rest)?;
            bindings.insert(name, Binding::Tokens(rest[..length].iter().cloned().collect()));
            taken += length;
            at += 4;
        } else {
            match (&pattern[at], rest.first()?) {
                (TokenTree::Group(pattern), TokenTree::Group(group)) => {
                    let pattern: Vec<TokenTree> = pattern.stream().into_iter().collect();
                    let group: Vec<TokenTree> = group.stream().into_iter().collect();
                    (matched(&pattern, &group, bindings)? == group.len()).then_some(())?;
                }
                (pattern, tree) => (pattern.to_string() == tree.to_string()).then_some(())?,
            }
            (at, taken) = (at + 1, taken + 1);
        }
    }
    Some(taken)
}

/// Matches the inside of a repetition as often as possible.
fn matched_repeatedly(
    inner: &[TokenTree],
    separator: Option<&TokenTree>,
    repeats: bool,
    input: &[TokenTree],
    bindings: &mut Bindings,
) -> usize {
    let mut rounds = Vec::new();
    let mut taken = 0;
    loop {
        let mut start = taken;
        if let Some(separator) = separator.filter(|_| !rounds.is_empty()) {
            match input.get(start) {
                Some(tree) if tree.to_string() == separator.to_string() => start += 1,
                _ => break,
            }
        }
        let mut round = Bindings::new();
        match matched(inner, &input[start..], &mut round) {
            Some(length) if length > 0 => taken = start + length,
            _ => break,
        }
        rounds.push(round);
        if !repeats {
            break;
        }
    }
    for name in variables(inner) {
        let values = rounds.iter().filter_map(|round| round.get(&name).cloned()).collect();
        bindings.insert(name, Binding::Repeated(values));
    }
    taken
}

/// The names of the variables in a pattern or a body.
fn variables(trees: &[TokenTree]) -> Vec<String> {
    let mut names: Vec<String> = (0..trees.len()).filter_map(|at| variable(&trees[at..])).collect();
    for tree in trees {
        if let TokenTree::Group(group) = tree {
            names.extend(variables(&group.stream().into_iter().collect::<Vec<_>>()));
        }
    }
    names
}

/// How many trees at the start of `input` a fragment of that kind takes.
fn fragment(kind: &str, input: &[TokenTree]) -> Option<usize> {
    match kind {
        "ident" => matches!(input.first()?, TokenTree::Ident(_)).then_some(1),
        "tt" => input.first().map(|_| 1),
        "literal" => {
            let negative = matches!(input.first()?, TokenTree::Punct(sign) if sign.as_char() == '-');
            let at = usize::from(negative);
            let literal = match input.get(at)? {
                TokenTree::Literal(_) => true,
                TokenTree::Ident(word) => word == "true" || word == "false",
                _ => false,
            };
            literal.then_some(at + 1)
        }
        "ty" => parsed::<Type>(input),
        "expr" => parsed::<Expr>(input),
        "meta" => parsed::<Meta>(input),
        "path" => parsed::<Path>(input),
        _ => None,
    }
}

/// How many trees at the start of `input` a piece of syntax takes.
fn parsed<T: Parse>(input: &[TokenTree]) -> Option<usize> {
    let parser = |stream: ParseStream<'_>| {
        stream.parse::<T>()?;
        stream.parse::<TokenStream>()
    };
    let rest = parser.parse2(input.iter().cloned().collect()).ok()?;
    Some(input.len() - rest.into_iter().count())
}

fn transcribed(body: TokenStream, bindings: &Bindings) -> Result<TokenStream> {
    let trees: Vec<TokenTree> = body.into_iter().collect();
    let mut text = TokenStream::new();
    let mut at = 0;
    while at < trees.len() {
        if let Some((inner, separator, _, length)) = repetition(&trees[at..]) {
            let names = variables(&inner.clone().into_iter().collect::<Vec<_>>());
            let rounds = names.iter().filter_map(|name| match bindings.get(name) {
                Some(Binding::Repeated(rounds)) => Some(rounds.len()),
                _ => None,
            });
            for round in 0..rounds.max().context("a repetition without a repeated variable")? {
                if round > 0 {
                    text.extend(separator.clone());
                }
                let mut of_round = bindings.clone();
                for name in &names {
                    if let Some(Binding::Repeated(rounds)) = bindings.get(name) {
                        of_round.insert(name.clone(), rounds.get(round).context("rounds differ")?.clone());
                    }
                }
                text.extend(transcribed(inner.clone(), &of_round)?);
            }
            at += length;
            continue;
        }
        match variable(&trees[at..]).and_then(|name| bindings.get(&name)) {
            Some(Binding::Tokens(tokens)) => {
                text.extend(tokens.clone());
                at += 2;
            }
            Some(Binding::Repeated(_)) => bail!("a repeated variable outside of a repetition"),
            None => {
                text.extend([match &trees[at] {
                    TokenTree::Group(group) => {
                        Group::new(group.delimiter(), transcribed(group.stream(), bindings)?).into()
                    }
                    // `$crate`
                    TokenTree::Punct(dollar) if dollar.as_char() == '$' => {
                        at += 1;
                        trees[at].clone()
                    }
                    tree => tree.clone(),
                }]);
                at += 1;
            }
        }
    }
    Ok(text)
}
