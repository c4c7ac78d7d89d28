//! The attributes: function signatures, and what their bodies become.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::Parse;
use syn::spanned::Spanned;
use syn::{
    Block, Expr, ExprClosure, FnArg, GenericParam, ImplItem, Item, ItemFn, Pat, ReturnType, Signature, Stmt,
    Type,
};

use crate::expression::in_braces;
use crate::parameter::Parameters;
use crate::pattern;
use crate::runtime::{self, language, staging};
use crate::scope::{Returning, Scope};
use crate::survey;
use crate::unparsed::without_bodies;

/// Lints that the expansion of code without faults sets off. All others, clippy's included, hold in
/// the author's body.
fn allowances() -> TokenStream {
    quote!(#[allow(unused_labels, unused_braces, unused_parens, unreachable_code, clippy::unnecessary_operation)])
}

/// Whether a method of a `#[device]` block has an attribute of its own that rewrites it.
fn is_rewritten(method: &syn::ImplItemFn) -> bool {
    let names =
        |attribute: &syn::Attribute| attribute.path().segments.last().map(|last| last.ident.to_string());
    method.attrs.iter().filter_map(names).any(|name| name == "kernel" || name == "device")
}

pub(crate) fn device(arguments: TokenStream, item: TokenStream) -> TokenStream {
    if let Some(error) = refuse_arguments(&arguments, "device") {
        return quote!(#error #item);
    }
    match parsed::<Item>(&item) {
        Ok(Item::Fn(function)) => device_function(function),
        Ok(Item::Impl(mut block)) => {
            let mut errors = TokenStream::new();
            for item in &mut block.items {
                if let ImplItem::Fn(method) = item
                    && !is_rewritten(method)
                {
                    let function = ItemFn {
                        attrs: Vec::new(),
                        vis: syn::Visibility::Inherited,
                        sig: method.sig.clone(),
                        block: Box::new(method.block.clone()),
                    };
                    let (body, found) = device_body(function);
                    errors.extend(found);
                    let attributes = allowances();
                    method.attrs.push(syn::parse_quote!(#attributes));
                    method.block = body;
                    plain_parameters(&mut method.sig);
                }
            }
            quote!(#block #errors)
        }
        Ok(other) => {
            let error =
                syn::Error::new_spanned(&other, "#[device] goes on a function, a method or an `impl` block")
                    .into_compile_error();
            quote!(#error #other)
        }
        Err(error) => {
            let error = error.into_compile_error();
            quote!(#error #item)
        }
    }
}

/// The item, or the item with stubs for bodies that do not parse.
fn parsed<T: Parse>(item: &TokenStream) -> syn::Result<T> {
    syn::parse2(item.clone()).or_else(|error| without_bodies(item.clone()).ok_or(error))
}

fn refuse_arguments(arguments: &TokenStream, name: &str) -> Option<TokenStream> {
    let message = format!("#[{name}] takes no arguments");
    (!arguments.is_empty()).then(|| syn::Error::new_spanned(arguments, message).into_compile_error())
}

fn device_function(function: ItemFn) -> TokenStream {
    let ItemFn { attrs, vis, mut sig, .. } = function.clone();
    let (body, errors) = device_body(function);
    plain_parameters(&mut sig);
    let allowances = allowances();
    quote!(#(#attrs)* #allowances #vis #sig #body #errors)
}

/// Parameters lose their `mut`: the body declares them again.
fn plain_parameters(signature: &mut Signature) {
    for input in &mut signature.inputs {
        if let FnArg::Typed(parameter) = input {
            pattern::strip_mut(&mut parameter.pat);
        }
    }
}

/// The body of a `#[device]` function, and the compile errors found in it.
fn device_body(function: ItemFn) -> (Block, TokenStream) {
    let ItemFn { sig, block, .. } = function;
    let block_braces = block.brace_token;
    let mut scope = Scope::new();
    if let Some(token) = &sig.asyncness {
        scope.refuse(token, "`async` and `.await` are not supported in a kernel");
    }
    if let Some(token) = &sig.constness {
        scope.refuse(token, "a `const fn` cannot record device operations: remove `const`");
    }
    scope.self_is_exclusive = sig.receiver().is_some_and(|receiver| {
        receiver.reference.is_some() && receiver.mutability.is_some() || receiver.mutability.is_some()
    });
    let span = block.brace_token.span.open();
    let returns = survey::block_returns(&block);
    let valued = !matches!(sig.output, ReturnType::Default);
    let returned = match &sig.output {
        ReturnType::Type(_, ty) if !mentions_impl(ty) => ty.to_token_stream(),
        ReturnType::Type(..) => quote!(_),
        ReturnType::Default => quote!(()),
    };
    let bind = |scope: &mut Scope| {
        let mut declarations = TokenStream::new();
        for input in &sig.inputs {
            let FnArg::Typed(parameter) = input else { continue };
            let exclusive = pattern::is_exclusive_reference(&parameter.ty);
            declarations.extend(scope.bind_names(&parameter.pat, exclusive));
        }
        declarations
    };
    let body = framed_body(&mut scope, *block, returns, valued, &returned, span, bind);
    let (_, note) = scope.exit_block(span);
    let staging = staging(span);
    let body = if scope.errors.is_empty() { body } else { quote!(::core::unreachable!()) };
    let errors = compile_errors(scope.errors);
    let statements = quote_spanned! {span=>
        #[allow(unused_imports)]
        use #staging::build_time::*;
        #note
        #body
    };
    let stmts = vec![Stmt::Expr(Expr::Verbatim(statements), None)];
    (Block { brace_token: block_braces, stmts }, errors)
}

fn compile_errors(errors: Vec<syn::Error>) -> TokenStream {
    errors.into_iter().map(syn::Error::into_compile_error).collect()
}

fn mentions_impl(ty: &Type) -> bool {
    struct Impl(bool);
    impl<'ast> syn::visit::Visit<'ast> for Impl {
        fn visit_type_impl_trait(&mut self, _: &'ast syn::TypeImplTrait) {
            self.0 = true;
        }
    }
    let mut found = Impl(false);
    syn::visit::Visit::visit_type(&mut found, ty);
    found.0
}

/// A body that may return early from device-time control flow.
fn framed_body(
    scope: &mut Scope,
    block: Block,
    returns: bool,
    valued: bool,
    returned: &TokenStream,
    span: Span,
    bind: impl FnOnce(&mut Scope) -> TokenStream,
) -> TokenStream {
    if !returns {
        let declarations = bind(scope);
        let inner = scope.block(block, valued);
        return quote!(#declarations #inner);
    }
    let number = scope.number();
    let frame = runtime::variable("frame", number, span);
    let value = runtime::variable("value", number, span);
    let outer = std::mem::replace(&mut scope.returning, Returning::Never);
    let at = scope.enter_block("body", true, span);
    let is_typed = valued && returned.to_string() != "_";
    scope.returning = Returning::Through { frame: frame.clone(), block: at, is_typed, is_kernel: false };
    let declarations = bind(scope);
    let diverges = survey::diverges(&block);
    let tail = block.stmts.last().map_or(span, |statement| statement.span());
    let inner = scope.block(block, valued && !diverges);
    let (label, note) = scope.exit_block(span);
    scope.returning = outer;
    let staging = staging(span);
    let inner = if diverges {
        quote!(#inner)
    } else if is_typed {
        let last = runtime::variable("last", number, tail);
        let typed = quote_spanned!(tail=> #frame.value(#last));
        quote_spanned!(span=> { let #last = { #inner }; ::core::option::Option::Some(#typed) })
    } else {
        quote_spanned!(span=> ::core::option::Option::Some({ #inner }))
    };
    quote_spanned! {span=>
        let mut #frame = #staging::Function::<#returned>::enter();
        let #value = #label: { #note #declarations #inner };
        #frame.finish(#value)
    }
}

impl Scope {
    pub(crate) fn closure(&mut self, closure: ExprClosure) -> TokenStream {
        let returns = survey::closure_returns(&closure);
        let span = closure.body.span();
        let mut closure = closure;
        let body = match *closure.body {
            Expr::Block(block) if block.label.is_none() && block.attrs.is_empty() => block.block,
            other => Block { brace_token: syn::token::Brace(span), stmts: vec![Stmt::Expr(other, None)] },
        };
        let returned = match &closure.output {
            ReturnType::Type(_, ty) => ty.to_token_stream(),
            ReturnType::Default => quote!(_),
        };
        let targets = std::mem::take(&mut self.targets);
        let brace = body.brace_token;
        let is_kernel_body = std::mem::take(&mut self.is_kernel_body);
        let returning = std::mem::replace(&mut self.returning, Returning::Never);
        self.open_names();
        self.enter_block("closure", true, span);
        let inputs: Vec<Pat> = closure.inputs.iter().cloned().collect();
        let bind = |scope: &mut Self| inputs.iter().map(|pattern| scope.bind_pattern(pattern)).collect();
        let inner = framed_body(self, body, returns, true, &returned, span, bind);
        let (_, note) = self.exit_block(span);
        self.close_names();
        self.targets = targets;
        self.is_kernel_body = is_kernel_body;
        self.returning = returning;
        closure.inputs.iter_mut().for_each(pattern::strip_mut);
        closure.body = Box::new(Expr::Verbatim(in_braces(brace, quote!(#note #inner))));
        closure.into_token_stream()
    }
}

pub(crate) fn kernel(arguments: TokenStream, item: TokenStream) -> TokenStream {
    if let Some(error) = refuse_arguments(&arguments, "kernel") {
        return quote!(#error #item);
    }
    match parsed::<ItemFn>(&item) {
        Ok(function) => kernel_function(function),
        Err(_) => {
            let error =
                syn::Error::new_spanned(&item, "#[kernel] goes on a function or a method with a body");
            let error = error.into_compile_error();
            quote!(#error #item)
        }
    }
}

fn kernel_function(function: ItemFn) -> TokenStream {
    let ItemFn { attrs, vis, sig, block } = function;
    let mut scope = Scope::new();
    if let ReturnType::Type(_, ty) = &sig.output {
        scope.refuse(
            ty,
            "a kernel returns nothing: it writes its results through `&mut Global<T>` parameters",
        );
    }
    if let Some(token) = &sig.asyncness {
        scope.refuse(token, "`async` and `.await` are not supported in a kernel");
    }
    if let Some(token) = &sig.constness {
        scope.refuse(token, "a kernel is staged at run time: remove `const`");
    }
    let span = block.brace_token.span.open();
    let language = language(span);
    let staging = staging(span);
    scope.self_is_configuration = true;
    scope.is_kernel_body = true;
    let parameters = scope.parameters(&sig);
    let returns = survey::block_returns(&block);
    let body = if returns {
        let number = scope.number();
        let frame = runtime::variable("frame", number, span);
        let at = scope.enter_block("body", false, span);
        scope.returning =
            Returning::Through { frame: frame.clone(), block: at, is_typed: false, is_kernel: true };
        let inner = scope.block(*block, false);
        let (label, note) = scope.exit_block(span);
        quote_spanned! {span=>
            let #frame = #staging::KernelFrame::enter();
            #label: { #note #inner }
        }
    } else {
        scope.block(*block, false)
    };
    let (_, note) = scope.exit_block(span);
    let name = entry_name(&sig);
    let mut signature = sig.clone();
    signature.inputs =
        sig.inputs.iter().filter(|input| matches!(input, FnArg::Receiver(_))).cloned().collect();
    signature.asyncness = None;
    signature.constness = None;
    signature.output = ReturnType::Default;
    let where_clause = signature.generics.where_clause.take();
    let allowances = allowances();
    let Parameters { hosts, declarations, ends: (begin, end) } = parameters;
    let result = quote_spanned!(begin=> ::core::result::Result<#language::Kernel<(#(#hosts,)*)>, #language::StagingErrors);
    let close = quote_spanned!(end=> >);
    // Each mistake is reported once: without a body the compiler derives no further errors from it.
    if !scope.errors.is_empty() {
        let errors = compile_errors(scope.errors);
        return quote!(#(#attrs)* #vis #signature -> #result #close #where_clause { ::core::unreachable!() } #errors);
    }
    quote_spanned! {span=>
        #(#attrs)*
        #allowances
        #[allow(clippy::type_complexity)]
        #vis #signature -> #result #close
        #where_clause
        {
            #[allow(unused_imports)]
            use #staging::build_time::*;
            let name = #language::kernel::entry_name(&[#(#name),*]);
            #language::Kernel::stage(&name, || {
                #note
                #declarations
                #body
            })
        }
    }
}

/// The parts of an entry's name: the type, the method, the types it is generic over.
fn entry_name(signature: &Signature) -> Vec<TokenStream> {
    let method = signature.ident.to_string();
    let mut parts = Vec::new();
    if signature.receiver().is_some() {
        parts.push(quote!(::core::any::type_name::<Self>()));
    }
    parts.push(quote!(#method));
    for parameter in &signature.generics.params {
        if let GenericParam::Type(parameter) = parameter {
            let ident = &parameter.ident;
            parts.push(quote!(::core::any::type_name::<#ident>()));
        }
    }
    parts
}
