//! Expansions, as they would be written by hand: a snapshot for each kind of syntax that is
//! rewritten.

use proc_macro2::TokenStream;

use crate::function::{device, kernel};

/// The source and its expansion, without its lint attributes, and with the paths of its crates cut
/// short.
fn expanded(attribute: fn(TokenStream, TokenStream) -> TokenStream, source: &str) -> String {
    let item = source.parse().expect("the source is made of tokens");
    let tokens = attribute(TokenStream::new(), item).to_string();
    let tokens = tokens.replace(":: warpwright_lang ::", "").replace(":: core ::", "");
    let file: syn::File = syn::parse_str(&tokens).unwrap_or_else(|error| panic!("{error} in {tokens}"));
    let expansion = prettyplease::unparse(&file);
    let (_, body) = expansion.split_once(")]\n").expect("the expansion begins with its attribute");
    format!("{source}\n\n=>\n\n{body}")
}

/// The expansions of functions, one after another.
fn functions<const N: usize>(sources: [&str; N]) -> String {
    sources.map(|source| expanded(device, source)).join("\n----\n\n")
}

#[test]
fn assignments() {
    insta::assert_snapshot!(functions([
        "fn variables(x: Reg<u32>) { let mut a = x; let b = a; a = b + 1; a += b; }",
        "fn places(p: &mut Pair, v: Global<u32>) { p.first = p.second; v[0] = v[1]; v[0] += 2; (p.first, _) = f(); }",
        "fn collections(c: Reg<bool>) { let mut all = Vec::new(); if c { all.push(1); } }",
    ]));
}

#[test]
fn branches() {
    insta::assert_snapshot!(functions([
        "fn statement(c: Reg<bool>) { let mut x = zero(); if c { x = one(); } }",
        "fn value(c: Reg<bool>) -> Reg<u32> { if c { f() } else { 7 } }",
        "fn logic(a: Reg<u32>, b: Reg<u32>) { let both = a < b && !(b == 3); }",
        "fn build_time(o: Option<u32>) -> u32 { if let Some(mut x) = o { x } else { 0 } }",
    ]));
}

#[test]
fn selections() {
    insta::assert_snapshot!(functions([
        "fn literals(x: Reg<u32>) -> u32 { match x { 0 => 1, 2..=4 if g(x) => 2, n => h(n) } }",
        "fn patterns(o: Option<u32>) -> u32 { match o { Some(x) => x, None => 0 } }",
    ]));
}

#[test]
fn loops() {
    insta::assert_snapshot!(functions([
        "fn ranges(n: Reg<u32>) { for i in (0..n).step_by(2) { f(i); } for j in 1..=n { g(j); } }",
        "fn carried(n: Reg<u32>) { let mut sum = zero(); let mut i = n; while i > 0 { sum += i; i -= 1; } }",
        "fn endless(n: Reg<u32>) -> Reg<u32> { let mut i = n; loop { i += 1; if i > 9 { break i; } } }",
    ]));
}

#[test]
fn jumps() {
    insta::assert_snapshot!(functions([
        "fn leaves(c: Reg<bool>) -> Reg<u32> { if c { return one(); } two() }",
        "fn labels(c: Reg<bool>) { 'outer: for i in 0..4 { for j in 0..4 { if c { continue 'outer; } f(i, j); } } }",
        "fn closures(c: Reg<bool>) { let f = |x: Reg<u32>| { if c { return x; } x + 1 }; f(one()); }",
    ]));
}

#[test]
fn kernels() {
    insta::assert_snapshot!(
        [
            "fn copy<T: Element>(&self, from: &Global<T>, to: &mut Global<T>, n: u32) { if n > 0 { to[0] = from[0]; } }",
            "fn early(mut n: u32) { if n == 0 { return; } n -= 1; }",
        ]
        .map(|source| expanded(kernel, source))
        .join("\n----\n\n")
    );
}
