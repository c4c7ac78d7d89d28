//! `if`, `match`, loops, and the jumps out of them.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{
    Arm, Block, Expr, ExprBlock, ExprBreak, ExprContinue, ExprForLoop, ExprIf, ExprLoop, ExprMatch,
    ExprReturn, ExprWhile, Lifetime, Lit, Local, Pat, RangeLimits, Stmt, parse_quote_spanned,
};

use crate::operator::bare;
use crate::pattern;
use crate::runtime::{self, staging};
use crate::scope::{Returning, Scope, Target};
use crate::survey::{self, Changes};

impl Scope {
    /// The statements of a block, rewritten. `valued`: the last expression's value is used.
    pub(crate) fn block(&mut self, block: Block, valued: bool) -> TokenStream {
        self.open_names();
        let count = block.stmts.len();
        let mut tokens = TokenStream::new();
        for (index, statement) in block.stmts.into_iter().enumerate() {
            let is_last = index + 1 == count;
            tokens.extend(match statement {
                Stmt::Local(local) => self.local(local),
                Stmt::Item(item) => item.into_token_stream(),
                Stmt::Expr(expression, None) if is_last && valued => self.value(expression),
                Stmt::Expr(expression, semicolon) => {
                    let expression = match expression {
                        place if survey::is_place(&place) => self.value(place),
                        other => self.statement(other),
                    };
                    // What was a statement by itself may have become an expression that is none.
                    let semicolon = semicolon.map(ToTokens::into_token_stream);
                    let semicolon = semicolon.or_else(|| (!is_last).then(|| quote!(;)));
                    quote!(#expression #semicolon)
                }
                Stmt::Macro(mut statement) => {
                    self.macro_arguments(&mut statement.mac);
                    statement.into_token_stream()
                }
            });
        }
        self.close_names();
        tokens
    }

    fn local(&mut self, local: Local) -> TokenStream {
        let span = local.span();
        let Local { attrs, pat, init, .. } = local;
        let Some(init) = init else {
            self.refuse(
                &pat,
                "give the variable its value where it is declared: `let x = if c { a } else { b };`",
            );
            return quote!();
        };
        let otherwise = init.diverge.map(|(token, expression)| {
            let inner = self.value(*expression);
            quote_spanned!(token.span=> else { #inner })
        });
        let expression = *init.expr;
        let plain = otherwise.is_some() || holds_no_device_value(&expression);
        // A `let-else` looks at a place; a `let` by reference does, too.
        let by_reference = otherwise.is_some() && survey::is_place(&expression);
        let value = if by_reference { self.place(expression) } else { self.value(expression) };
        if let Some((name, ty)) = single_mutable(&pat)
            && !plain
        {
            let exclusive = ty.is_some_and(pattern::is_exclusive_reference);
            self.bind(name, true, exclusive);
            let at = name.span();
            let staging = staging(at);
            let wrapper = match ty {
                Some(ty) => quote_spanned!(at=> #staging::Variable::<#ty>(#value)),
                None => quote_spanned!(at=> #staging::Variable(#value)),
            };
            return quote_spanned!(span=> #(#attrs)* let #pat = #wrapper.declare(););
        }
        let declarations = self.bind_pattern(&pat);
        let declarations = if plain { TokenStream::new() } else { declarations };
        quote_spanned!(span=> #(#attrs)* let #pat = #value #otherwise; #declarations)
    }

    /// The body of a branch or round: a block that can be left early.
    fn region_block(
        &mut self,
        block: Block,
        valued: bool,
        prologue: impl FnOnce(&mut Self) -> TokenStream,
    ) -> TokenStream {
        let span = block.brace_token.span.open();
        self.open_names();
        self.enter_block("branch", valued, span);
        let prologue = prologue(self);
        let jumps = survey::block_jumps(&block);
        let diverges = survey::diverges(&block);
        let inner = self.block(block, valued && !diverges);
        let (label, note) = self.exit_block(span);
        self.close_names();
        let label = jumps.then(|| quote!(#label:));
        match (valued, diverges) {
            (false, _) => quote_spanned!(span=> #label { #note #prologue #inner }),
            (true, false) => quote_spanned! {span=>
                #label { #note #prologue ::core::option::Option::Some({ #inner }) }
            },
            (true, true) => quote_spanned!(span=> #label { #note #prologue #inner }),
        }
    }

    pub(crate) fn choice(&mut self, choice: ExprIf, valued: bool) -> TokenStream {
        if contains_let(&choice.cond) {
            return self.build_time_choice(choice, valued);
        }
        let ExprIf { if_token, cond, then_branch, else_branch, attrs } = choice;
        let span = if_token.span;
        let jumps = survey::block_jumps(&then_branch)
            || else_branch.as_ref().is_some_and(|(_, otherwise)| survey::expression_jumps(otherwise));
        let otherwise = else_branch.map(|(token, otherwise)| match *otherwise {
            Expr::Block(block) if block.label.is_none() && block.attrs.is_empty() => block.block,
            other => {
                Block { brace_token: syn::token::Brace(token.span), stmts: vec![Stmt::Expr(other, None)] }
            }
        });
        let has_value = |block: &Block| matches!(block.stmts.last(), Some(Stmt::Expr(_, None)));
        let valued = valued
            && otherwise.as_ref().is_some_and(|otherwise| {
                has_value(&then_branch)
                    || has_value(otherwise)
                    || (survey::diverges(&then_branch) && survey::diverges(otherwise))
            });
        let branch = runtime::variable("branch", self.number(), span);
        let staging = staging(span);
        let condition = self.value(*cond);
        let begin = quote_spanned!(span=> let mut #branch = #staging::Condition::branch(#condition););
        let Some(otherwise) = otherwise else {
            let then = self.region_block(then_branch, false, |_| TokenStream::new());
            let finish = self.finish(&branch, jumps, span);
            return quote_spanned!(span=> #(#attrs)* { #begin if #branch.then() { #then } #finish });
        };
        let ends = (survey::diverges(&then_branch), survey::diverges(&otherwise));
        let value_span = otherwise.stmts.last().map_or(span, Spanned::span);
        if !valued || ends == (true, true) {
            let then = self.region_block(then_branch, false, |_| TokenStream::new());
            let otherwise = self.region_block(otherwise, false, |_| TokenStream::new());
            let finish = if valued {
                let leave = self.leave(span);
                quote_spanned!(span=> #branch.finish(); #leave)
            } else {
                self.finish(&branch, jumps, span)
            };
            return quote_spanned!(span=> #(#attrs)* {
                #begin
                if #branch.then() { #then }
                if #branch.otherwise() { #otherwise }
                #finish
            });
        }
        let then = self.region_block(then_branch, !ends.0, |_| TokenStream::new());
        let otherwise = self.region_block(otherwise, !ends.1, |_| TokenStream::new());
        let [from_then, from_otherwise] =
            ["then", "otherwise"].map(|name| runtime::variable(name, self.number(), span));
        let run = |name: &Ident, enter: &str, block: TokenStream, diverges: bool| {
            let enter = Ident::new(enter, span);
            if diverges {
                quote_spanned!(span=> if #branch.#enter() { #block })
            } else {
                quote_spanned! {span=>
                    let #name = if #branch.#enter() { #block } else { ::core::option::Option::None };
                }
            }
        };
        let then = run(&from_then, "then", then, ends.0);
        let otherwise = run(&from_otherwise, "otherwise", otherwise, ends.1);
        let join = match ends {
            (false, false) => quote_spanned!(value_span=> #branch.join(#from_then, #from_otherwise)),
            (false, true) => quote_spanned!(value_span=> #branch.join_then(#from_then)),
            _ => quote_spanned!(value_span=> #branch.join_otherwise(#from_otherwise)),
        };
        let value = runtime::variable("value", self.number(), span);
        let never = if jumps { self.leave(span) } else { quote_spanned!(span=> ::core::unreachable!()) };
        quote_spanned!(span=> #(#attrs)* {
            #begin
            #then
            #otherwise
            match #join { ::core::option::Option::Some(#value) => #value, ::core::option::Option::None => #never }
        })
    }

    /// Ends an `if` or loop, and the block around it too if nothing after it is reached.
    fn finish(&self, construct: &Ident, jumps: bool, span: Span) -> TokenStream {
        if jumps {
            let leave = self.leave(span);
            quote_spanned!(span=> if #construct.finish() { #leave })
        } else {
            quote_spanned!(span=> #construct.finish();)
        }
    }

    /// `if let`: patterns are matched at build time.
    fn build_time_choice(&mut self, choice: ExprIf, valued: bool) -> TokenStream {
        let ExprIf { if_token, cond, then_branch, else_branch, attrs } = choice;
        self.open_names();
        let condition = self.build_time_condition(*cond);
        let then = self.block(then_branch, valued);
        self.close_names();
        let (condition, declarations) = condition;
        let otherwise = else_branch.map(|(token, otherwise)| {
            let otherwise = self.rewrite(*otherwise, valued);
            quote!(#token #otherwise)
        });
        let otherwise = otherwise.map(|tokens| tokens.into_token_stream());
        quote!(#(#attrs)* #if_token #condition { #declarations #then } #otherwise)
    }

    /// A condition with `let`; what its patterns bind is bound, and declared by the second result.
    fn build_time_condition(&mut self, condition: Expr) -> (TokenStream, TokenStream) {
        match condition {
            Expr::Binary(binary) if matches!(binary.op, syn::BinOp::And(_)) => {
                let operator = binary.op;
                let (left, mut declarations) = self.build_time_condition(*binary.left);
                let (right, more) = self.build_time_condition(*binary.right);
                declarations.extend(more);
                (quote!(#left #operator #right), declarations)
            }
            Expr::Let(condition) => {
                let pattern = (*condition.pat).clone();
                let tokens = self.rewrite(Expr::Let(condition), true);
                let declarations = self.bind_pattern(&pattern);
                (tokens, declarations)
            }
            other => (self.value(other), TokenStream::new()),
        }
    }

    pub(crate) fn selection(&mut self, selection: ExprMatch, valued: bool) -> TokenStream {
        if let Some(chain) = self.chain(&selection) {
            return self.rewrite(chain, valued);
        }
        let ExprMatch { match_token, expr, arms, attrs, .. } = selection;
        let scrutinee = if survey::is_place(&expr) { self.place(*expr) } else { self.value(*expr) };
        let arms = arms.into_iter().map(|arm| {
            let Arm { attrs, pat, guard, body, .. } = arm;
            self.open_names();
            let declarations = self.bind_pattern(&pat);
            let guard = guard.map(|(token, guard)| {
                let guard = self.value(*guard);
                quote!(#token #guard)
            });
            let body =
                if survey::is_place(&body) || valued { self.value(*body) } else { self.statement(*body) };
            self.close_names();
            quote!(#(#attrs)* #pat #guard => { #declarations #body })
        });
        let arms: Vec<_> = arms.collect();
        quote!(#(#attrs)* #match_token #scrutinee { #(#arms)* })
    }

    /// A `match` on literals as a chain of `if`s.
    fn chain(&mut self, selection: &ExprMatch) -> Option<Expr> {
        let is_chain = selection.arms.iter().all(|arm| is_literal_pattern(&arm.pat))
            && selection.arms.iter().any(|arm| has_literal(&arm.pat));
        if !is_chain {
            return None;
        }
        let span = selection.match_token.span;
        let subject = runtime::variable("subject", self.number(), selection.expr.span());
        let covers_booleans = covers_booleans(&selection.arms);
        let mut chain: Option<Expr> = None;
        let last = selection.arms.len() - 1;
        for (index, arm) in selection.arms.iter().enumerate().rev() {
            let body = arm_block(&arm.body);
            let binding = binding(&arm.pat);
            let test = test(&arm.pat, &subject);
            let bind: Option<Stmt> = binding.map(|name| parse_quote_spanned!(span=> let #name = #subject;));
            let guard = arm.guard.as_ref().map(|(_, guard)| (**guard).clone());
            let is_final = index == last && guard.is_none() && (test.is_none() || covers_booleans);
            if is_final {
                let mut body = body;
                body.stmts.splice(0..0, bind);
                chain = Some(Expr::Block(ExprBlock { attrs: Vec::new(), label: None, block: body }));
                continue;
            }
            let Some(otherwise) = chain.take() else {
                self.refuse(
                    &selection.arms[last].pat,
                    "a `match` on literals needs a last arm for every other value: `_ => ...`",
                );
                return Some(Expr::Verbatim(quote!(::core::unreachable!())));
            };
            let condition: Expr = match (test, guard) {
                (Some(test), None) => test,
                (None, Some(guard)) => guard_with(bind.as_ref(), &guard, span),
                (Some(test), Some(guard)) => {
                    let guard = guard_with(bind.as_ref(), &guard, span);
                    parse_quote_spanned!(span=> #test && #guard)
                }
                (None, None) => parse_quote_spanned!(span=> true),
            };
            let mut body = body;
            body.stmts.splice(0..0, bind);
            chain = Some(parse_quote_spanned!(span=> if #condition #body else #otherwise));
        }
        let chain = chain?;
        let value = &selection.expr;
        Some(parse_quote_spanned!(span=> { let #subject = #value; #chain }))
    }

    /// What a loop's body assigns of the variables around it: statements that let a device-time loop carry them.
    fn carried(&mut self, changes: Changes, rounds: &Ident) -> TokenStream {
        let mut tokens = TokenStream::new();
        let mut done: Vec<(String, bool)> = Vec::new();
        let directly: Vec<String> = changes
            .changes
            .iter()
            .filter(|change| !change.by_index && !change.by_method)
            .map(|change| change.name.to_string())
            .collect();
        for change in &changes.changes {
            let key = (change.name.to_string(), change.by_index);
            if done.contains(&key) || (change.by_index && directly.contains(&key.0)) {
                continue;
            }
            let name = &change.name;
            let place = if name == "self" {
                if !self.self_is_exclusive {
                    continue;
                }
                quote!(*#name)
            } else {
                let Some(binding) = self.lookup(name) else { continue };
                if binding.mutable && !binding.exclusive_reference {
                    quote!(#name)
                } else if (change.by_method && !binding.exclusive_reference) || changes.bound.contains(&key.0)
                {
                    continue;
                } else if change.by_index && !binding.exclusive_reference {
                    // Device memory keeps its elements itself; anything else behind a plain name has to say what it is.
                    let span = name.span();
                    let staging = staging(span);
                    tokens.extend(quote_spanned!(span=> #staging::elements_stay_in_memory(&#name);));
                    done.push(key);
                    continue;
                } else {
                    quote!(*#name)
                }
            };
            done.push(key);
            let span = name.span();
            let staging = staging(span);
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

    pub(crate) fn for_loop(&mut self, repetition: ExprForLoop) -> TokenStream {
        let ExprForLoop { attrs, label, for_token, pat, expr, body, .. } = repetition;
        let span = for_token.span;
        let staging = staging(span);
        let mut changes = Changes::default();
        changes.visit_block(&body);
        let range = self.range(*expr);
        let author_label = label.map(|label| label.name);
        let (label, rounds) = self.target(author_label.as_ref(), false, true, span);
        let carried = self.carried(changes, &rounds);
        let jumps = survey::block_jumps(&body);
        let body = self.region_block(body, false, |scope| scope.bind_pattern(&pat));
        self.targets.pop();
        let ends = jumps.then(|| quote_spanned!(span=> if #rounds.round_ends_all() { break #label }));
        let finish = self.finish(&rounds, jumps && self.can_leave(), span);
        quote_spanned! {span=> #(#attrs)* {
            let mut #rounds = #staging::Iterate::rounds(#range);
            #carried
            #label: while let ::core::option::Option::Some(#pat) = #rounds.next() { #body; #ends }
            #finish
        }}
    }

    /// Whether there is a block around that can be left early.
    fn can_leave(&self) -> bool {
        self.blocks.len() > 1
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

    pub(crate) fn while_loop(&mut self, repetition: ExprWhile) -> TokenStream {
        let ExprWhile { attrs, label, while_token, cond, body } = repetition;
        let span = while_token.span;
        let staging = staging(span);
        let author_label = label.map(|label| label.name);
        let jumps = survey::block_jumps(&body);
        if contains_let(&cond) {
            let (label, rounds) = self.target(author_label.as_ref(), false, true, span);
            self.open_names();
            let (condition, declarations) = self.build_time_condition(*cond);
            let body = self.region_block(body, false, |_| declarations);
            self.close_names();
            self.targets.pop();
            let ends = jumps.then(|| quote_spanned!(span=> if #rounds.round_ends_all() { break #label }));
            let finish = self.finish(&rounds, jumps && self.can_leave(), span);
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
        let finish = self.finish(&rounds, jumps && self.can_leave(), span);
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
            None => self.finish(&rounds, jumps && self.can_leave(), span),
        };
        quote_spanned! {span=> #(#attrs)* {
            let mut #rounds = #staging::Endless::new();
            #declare
            #carried
            #label: while #rounds.next() { #body; #ends }
            #finish
        }}
    }

    /// A labelled block runs at build time; `break` may leave it where the device has no say.
    pub(crate) fn labelled_block(&mut self, block: ExprBlock) -> TokenStream {
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

    fn find_target(&self, label: Option<&Lifetime>) -> Option<(Lifetime, Ident, Option<Ident>, bool)> {
        let found = self.targets.iter().rev().find(|target| match label {
            Some(label) => target.author_label.as_ref() == Some(&label.ident),
            None => target.is_loop,
        });
        found
            .map(|target| (target.label.clone(), target.rounds.clone(), target.value.clone(), target.is_loop))
    }

    pub(crate) fn break_out(&mut self, jump: ExprBreak) -> TokenStream {
        let span = jump.break_token.span;
        let Some((label, rounds, value, is_loop)) = self.find_target(jump.label.as_ref()) else {
            return jump.into_token_stream();
        };
        let leave = self.leave(span);
        match (jump.expr, value) {
            (Some(expression), Some(result)) => {
                let at = expression.span();
                let expression = self.value(*expression);
                let name = runtime::variable("value", self.number(), span);
                let staging = staging(at);
                let set = quote_spanned!(at=> #staging::Broken(#name).note(&mut #result, &#rounds));
                quote_spanned!(span=> {
                    let #name = #expression;
                    #set;
                    if #rounds.breaks() { break #label }
                    #leave
                })
            }
            (Some(expression), None) if !is_loop => {
                let expression = self.value(*expression);
                let name = runtime::variable("value", self.number(), span);
                quote_spanned!(span=> { let #name = #expression; if #rounds.breaks() { break #label #name } #leave })
            }
            (Some(expression), None) => {
                self.refuse(&expression, "only `loop` and labelled blocks have a value to `break` with");
                quote!(())
            }
            (None, _) => quote_spanned!(span=> { if #rounds.breaks() { break #label } #leave }),
        }
    }

    pub(crate) fn continue_on(&mut self, jump: &ExprContinue) -> TokenStream {
        let span = jump.continue_token.span;
        let Some((label, rounds, ..)) = self.find_target(jump.label.as_ref()) else {
            return jump.into_token_stream();
        };
        let leave = self.leave(span);
        quote_spanned!(span=> { if #rounds.continues() { continue #label } #leave })
    }

    pub(crate) fn return_early(&mut self, jump: ExprReturn) -> TokenStream {
        let span = jump.return_token.span;
        let value = match jump.expr {
            Some(value) => self.value(*value),
            None => quote_spanned!(span=> ()),
        };
        let Returning::Through { frame, block, is_kernel } = self.returning.clone() else {
            return quote_spanned!(span=> return #value);
        };
        let leave = self.leave(span);
        let name = runtime::variable("value", self.number(), span);
        let now = self.leave_block(block, &quote!(::core::option::Option::Some(#name)), span);
        let staging = staging(span);
        let record = if is_kernel {
            quote_spanned!(span=> record_in_kernel())
        } else {
            quote_spanned!(span=> record(&mut #frame))
        };
        quote_spanned!(span=> {
            let #name = #value;
            if #frame.returns_now() { #now }
            #staging::Returned(#name).#record;
            #leave
        })
    }
}

fn contains_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(binary) if matches!(binary.op, syn::BinOp::And(_)) => {
            contains_let(&binary.left) || contains_let(&binary.right)
        }
        _ => false,
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

/// `let mut x` or `let mut x: T`.
fn single_mutable(pattern: &Pat) -> Option<(&Ident, Option<&syn::Type>)> {
    match pattern {
        Pat::Ident(name) if name.mutability.is_some() && name.by_ref.is_none() && name.subpat.is_none() => {
            Some((&name.ident, None))
        }
        Pat::Type(typed) => single_mutable(&typed.pat).map(|(name, _)| (name, Some(&*typed.ty))),
        _ => None,
    }
}

/// Whether an initial value certainly holds no device value, so that its type may be left for Rust to infer later.
fn holds_no_device_value(expression: &Expr) -> bool {
    match bare(expression) {
        Expr::Lit(_) | Expr::Closure(_) | Expr::Reference(_) | Expr::Range(_) => true,
        Expr::Unary(unary) => holds_no_device_value(&unary.expr),
        Expr::Path(path) => path.path.is_ident("None"),
        Expr::Array(array) => array.elems.is_empty(),
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => path.path.segments.last().is_some_and(|segment| {
                call.args.is_empty() && ["new", "default"].iter().any(|name| segment.ident == name)
                    || segment.ident == "with_capacity"
            }),
            _ => false,
        },
        Expr::Macro(invocation) => {
            let path = &invocation.mac.path;
            invocation.mac.tokens.is_empty() || path.is_ident("format")
        }
        _ => false,
    }
}

fn is_literal_pattern(pattern: &Pat) -> bool {
    match pattern {
        Pat::Lit(_) | Pat::Range(_) | Pat::Wild(_) => true,
        Pat::Ident(name) => {
            name.by_ref.is_none()
                && !name.ident.to_string().starts_with(char::is_uppercase)
                && name.subpat.as_ref().is_none_or(|(_, inner)| is_literal_pattern(inner))
        }
        Pat::Or(alternatives) => {
            alternatives.cases.iter().all(|case| is_literal_pattern(case) && binding(case).is_none())
        }
        Pat::Paren(inner) => is_literal_pattern(&inner.pat),
        _ => false,
    }
}

fn has_literal(pattern: &Pat) -> bool {
    match pattern {
        Pat::Lit(_) | Pat::Range(_) => true,
        Pat::Ident(name) => name.subpat.as_ref().is_some_and(|(_, inner)| has_literal(inner)),
        Pat::Or(alternatives) => alternatives.cases.iter().any(has_literal),
        Pat::Paren(inner) => has_literal(&inner.pat),
        _ => false,
    }
}

/// The name that a literal pattern binds.
fn binding(pattern: &Pat) -> Option<TokenStream> {
    match pattern {
        Pat::Ident(name) => {
            let (mutability, ident) = (&name.mutability, &name.ident);
            Some(quote!(#mutability #ident))
        }
        Pat::Paren(inner) => binding(&inner.pat),
        _ => None,
    }
}

/// The condition for a literal pattern to match; `None` if it always does.
fn test(pattern: &Pat, subject: &Ident) -> Option<Expr> {
    let span = pattern.span();
    match pattern {
        Pat::Lit(literal) => Some(parse_quote_spanned!(span=> #subject == #literal)),
        Pat::Range(range) => {
            let start =
                range.start.as_ref().map(|start| -> Expr { parse_quote_spanned!(span=> #subject >= #start) });
            let end = range.end.as_ref().map(|end| -> Expr {
                match range.limits {
                    RangeLimits::HalfOpen(_) => parse_quote_spanned!(span=> #subject < #end),
                    RangeLimits::Closed(_) => parse_quote_spanned!(span=> #subject <= #end),
                }
            });
            match (start, end) {
                (Some(start), Some(end)) => Some(parse_quote_spanned!(span=> #start && #end)),
                (one, other) => one.or(other),
            }
        }
        Pat::Ident(name) => name.subpat.as_ref().and_then(|(_, inner)| test(inner, subject)),
        Pat::Paren(inner) => test(&inner.pat, subject),
        Pat::Or(alternatives) => {
            let mut whole: Option<Expr> = None;
            for case in &alternatives.cases {
                let case = test(case, subject)?;
                whole = Some(match whole {
                    Some(whole) => parse_quote_spanned!(span=> #whole || (#case)),
                    None => parse_quote_spanned!(span=> (#case)),
                });
            }
            whole
        }
        _ => None,
    }
}

/// A guard, which may use the name that its pattern binds.
fn guard_with(bind: Option<&Stmt>, guard: &Expr, span: Span) -> Expr {
    match bind {
        Some(bind) => parse_quote_spanned!(span=> { #bind #guard }),
        None => parse_quote_spanned!(span=> (#guard)),
    }
}

fn arm_block(body: &Expr) -> Block {
    match body {
        Expr::Block(block) if block.label.is_none() && block.attrs.is_empty() => block.block.clone(),
        other => Block {
            brace_token: syn::token::Brace(other.span()),
            stmts: vec![Stmt::Expr(other.clone(), None)],
        },
    }
}

fn covers_booleans(arms: &[Arm]) -> bool {
    let covered = |wanted: bool| {
        arms.iter().any(|arm| {
            arm.guard.is_none()
                && matches!(&arm.pat, Pat::Lit(literal) if matches!(&literal.lit, Lit::Bool(found) if found.value == wanted))
        })
    };
    covered(true) && covered(false)
}
