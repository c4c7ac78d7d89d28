//! `for`, `while`, `loop` and labeled blocks.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Expr, ExprBlock, ExprForLoop, ExprLoop, ExprWhile, Lifetime, RangeLimits};

use crate::operator::bare;
use crate::pattern;
use crate::runtime::{self, staging};
use crate::scope::{Scope, Target};
use crate::survey::{self, Changes};

impl Scope {
    pub(crate) fn for_loop(&mut self, repetition: ExprForLoop) -> TokenStream {
        let ExprForLoop { attrs, label, for_token, pat, expr, body, .. } = repetition;
        let span = for_token.span;
        let staging = staging(span);
        let mut changes = Changes::default();
        changes.visit_block(&body);
        let is_range = is_range(&expr);
        let range = self.range(*expr);
        let begin = if is_range {
            quote_spanned!(span=> #staging::Iterate::rounds(#range))
        } else {
            quote_spanned!(span=> #staging::Head(#range).rounds())
        };
        let author_label = label.map(|label| label.name);
        let (label, rounds) = self.target(author_label.as_ref(), false, true, span);
        let carried = self.carried(changes, &rounds);
        let jumps = survey::block_jumps(&body);
        let body = self.region_block(body, false, |scope| scope.bind_pattern(&pat));
        let pat = pattern::without_mut(*pat);
        self.targets.pop();
        let ends = jumps.then(|| quote_spanned!(span=> if #rounds.round_ends_all() { break #label }));
        let finish = self.finish(&rounds, jumps, span);
        quote_spanned! {span=> #(#attrs)* {
            let mut #rounds = #begin;
            #carried
            #label: while let ::core::option::Option::Some(#pat) = #rounds.next() { #body; #ends }
            #finish
        }}
    }

    pub(crate) fn while_loop(&mut self, repetition: ExprWhile) -> TokenStream {
        let ExprWhile { attrs, label, while_token, cond, body } = repetition;
        let span = while_token.span;
        let staging = staging(span);
        let author_label = label.map(|label| label.name);
        let jumps = survey::block_jumps(&body);
        if survey::contains_let(&cond) {
            let (label, rounds) = self.target(author_label.as_ref(), false, true, span);
            self.open_names();
            let (condition, declarations) = self.build_time_condition(*cond);
            let body = self.region_block(body, false, |_| declarations);
            self.close_names();
            self.targets.pop();
            let ends = jumps.then(|| quote_spanned!(span=> if #rounds.round_ends_all() { break #label }));
            let finish = self.finish(&rounds, jumps, span);
            return quote_spanned! {span=> #(#attrs)* {
                let #rounds = #staging::Iterate::rounds(::core::iter::empty::<()>());
                #label: while #condition { #body; #ends }
                #finish
            }};
        }
        let mut changes = Changes::default();
        changes.visit_block(&body);
        changes.visit_expr(&cond);
        let (label, rounds) = self.target(author_label.as_ref(), false, true, span);
        let carried = self.carried(changes, &rounds);
        let condition_span = cond.span();
        let condition = self.value(*cond);
        let body = self.region_block(body, false, |_| TokenStream::new());
        self.targets.pop();
        let ends = jumps.then(|| quote_spanned!(span=> if #rounds.round_ends_all() { break #label }));
        let finish = self.finish(&rounds, jumps, span);
        let held = runtime::variable("condition", self.number(), span);
        let holds = quote_spanned!(condition_span=> #rounds.holds(#held));
        quote_spanned! {span=> #(#attrs)* {
            let mut #rounds = #staging::Endless::new();
            #carried
            #label: while #rounds.next() {
                let #held = #condition;
                if !#holds { break #label }
                #body;
                #ends
            }
            #finish
        }}
    }

    pub(crate) fn endless_loop(&mut self, repetition: ExprLoop) -> TokenStream {
        let ExprLoop { attrs, label, loop_token, body } = repetition;
        let span = loop_token.span;
        let staging = staging(span);
        let author_label = label.map(|label| label.name);
        let mut changes = Changes::default();
        changes.visit_block(&body);
        let ends_never = !survey::breaks_out(&body);
        let valued = survey::breaks_with_value(&body);
        let (label, rounds) = self.target(author_label.as_ref(), valued, true, span);
        let carried = self.carried(changes, &rounds);
        let jumps = survey::block_jumps(&body);
        let body = self.region_block(body, false, |_| TokenStream::new());
        let value = self.targets.pop().and_then(|target| target.value);
        let ends = jumps.then(|| quote_spanned!(span=> if #rounds.round_ends_all() { break #label }));
        let never =
            if self.can_leave() { self.leave(span) } else { quote_spanned!(span=> ::core::unreachable!()) };
        let declare =
            value.as_ref().map(|value| quote_spanned!(span=> let mut #value = #staging::LoopValue::new();));
        let finish = match &value {
            Some(value) => {
                let result = runtime::variable("value", self.number(), span);
                quote_spanned! {span=>
                    #rounds.finish();
                    match #value.take() {
                        ::core::option::Option::Some(#result) => #result,
                        ::core::option::Option::None => #never,
                    }
                }
            }
            None if ends_never && self.can_leave() => quote_spanned!(span=> #rounds.finish(); #never),
            None => self.finish(&rounds, jumps, span),
        };
        quote_spanned! {span=> #(#attrs)* {
            let mut #rounds = #staging::Endless::new();
            #declare
            #carried
            #label: while #rounds.next() { #body; #ends }
            #finish
        }}
    }

    /// A labeled block runs at build time; `break` may leave it if no device value decides.
    pub(crate) fn labeled_block(&mut self, block: ExprBlock) -> TokenStream {
        let Some(label) = block.label else { return quote!() };
        let span = label.name.span();
        let staging = staging(span);
        let (label, rounds) = self.target(Some(&label.name), false, false, span);
        let inner = self.block(block.block, true);
        self.targets.pop();
        quote_spanned! {span=> {
            let #rounds = #staging::Iterate::rounds(::core::iter::empty::<()>());
            #label: { #inner }
        }}
    }

    /// The head of a `for`: ranges, with `step_by` and `rev`, may have device-time bounds.
    fn range(&mut self, head: Expr) -> TokenStream {
        let span = head.span();
        let staging = staging(span);
        match head {
            Expr::Range(range) if range.start.is_some() && range.end.is_some() => {
                let (Some(start), Some(end)) = (range.start, range.end) else { return quote!() };
                let (start, end) = (self.value(*start), self.value(*end));
                match range.limits {
                    RangeLimits::HalfOpen(_) => quote_spanned!(span=> #staging::Bounds::until(#start, #end)),
                    RangeLimits::Closed(_) => {
                        quote_spanned!(span=> #staging::InclusiveBounds::through(#start, #end))
                    }
                }
            }
            Expr::Paren(inner) => self.range(*inner.expr),
            Expr::Group(inner) => self.range(*inner.expr),
            Expr::MethodCall(mut call) if is_range(&call.receiver) => {
                let receiver = self.range(*call.receiver);
                call.receiver = Box::new(Expr::Verbatim(receiver));
                let arguments = std::mem::take(&mut call.args);
                call.args =
                    arguments.into_iter().map(|argument| Expr::Verbatim(self.value(argument))).collect();
                call.into_token_stream()
            }
            other => self.value(other),
        }
    }

    /// What a loop's body assigns of the variables around it: statements that let a device-time
    /// loop carry them.
    fn carried(&mut self, changes: Changes, rounds: &Ident) -> TokenStream {
        let mut tokens = TokenStream::new();
        let mut done: Vec<(String, bool)> = Vec::new();
        let mut once = |place: &TokenStream, by_index: bool| {
            let key = (place.to_string(), by_index);
            let is_new = !done.contains(&key);
            done.push(key);
            is_new
        };
        let directly: Vec<String> = changes
            .changes
            .iter()
            .filter(|change| !change.by_index && !change.by_method)
            .map(|change| change.name.to_string())
            .collect();
        for change in &changes.changes {
            let name = &change.name;
            let text = name.to_string();
            if change.by_index && directly.contains(&text) {
                continue;
            }
            let span = name.span();
            let staging = staging(span);
            let place = if name == "self" {
                if !self.self_is_exclusive {
                    continue;
                }
                quote_spanned!(span=> *#name)
            } else {
                let Some(binding) = self.lookup(name) else { continue };
                if binding.mutable && !binding.exclusive_reference {
                    quote!(#name)
                } else if (change.by_method && !binding.exclusive_reference) || changes.bound.contains(&text)
                {
                    continue;
                } else if change.by_index && !binding.exclusive_reference {
                    // Device memory keeps its elements itself; anything else behind a plain name
                    // has to say what it is.
                    let memory = quote!(#name);
                    if once(&memory, true) {
                        tokens.extend(quote_spanned!(span=> #staging::elements_stay_in_memory(&#memory);));
                    }
                    continue;
                } else if let (false, Some(fields)) = (binding.exclusive_reference, &change.fields) {
                    // A part of what the name refers to, or of a variable that lacks its `mut`:
                    // rustc then suggests it.
                    quote_spanned!(span=> #name #(.#fields)*)
                } else {
                    quote_spanned!(span=> *#name)
                }
            };
            if !once(&place, change.by_index) {
                continue;
            }
            let method = Ident::new(if change.by_index { "carry_elements" } else { "carry" }, span);
            tokens.extend(quote_spanned!(span=> #staging::Carried(&mut #place).#method(&#rounds);));
        }
        tokens
    }

    fn target(
        &mut self,
        author_label: Option<&Lifetime>,
        value: bool,
        is_loop: bool,
        span: Span,
    ) -> (Lifetime, Ident) {
        let number = self.number();
        let label = author_label.cloned().unwrap_or_else(|| runtime::label("repeat", number, span));
        let rounds = runtime::variable("rounds", number, span);
        self.targets.push(Target {
            author_label: author_label.map(|label| label.ident.clone()),
            label: label.clone(),
            rounds: rounds.clone(),
            value: value.then(|| runtime::variable("result", number, span)),
            is_loop,
        });
        (label, rounds)
    }

    /// Whether there is a block around that can be left early.
    pub(crate) fn can_leave(&self) -> bool {
        self.blocks.len() > 1
    }
}

fn is_range(expression: &Expr) -> bool {
    match bare(expression) {
        Expr::Range(range) => range.start.is_some() && range.end.is_some(),
        Expr::MethodCall(call) => {
            (call.method == "step_by" || call.method == "rev") && is_range(&call.receiver)
        }
        _ => false,
    }
}
