//! What the rewriting knows of the names and labels around an expression.

use std::collections::HashMap;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::Lifetime;

use crate::runtime::{self, staging};

/// A local name.
#[derive(Clone, Copy)]
pub(crate) struct Binding {
    /// Declared with `mut`.
    pub(crate) mutable: bool,
    /// Known to be a `&mut` reference.
    pub(crate) exclusive_reference: bool,
    /// Which of the blocks in [`Scope::blocks`] it belongs to.
    pub(crate) block: usize,
}

/// A block that may be recorded as a region of its own, or a function's body.
pub(crate) struct RegionBlock {
    pub(crate) label: Lifetime,
    /// Whether it is left with an `Option` rather than nothing.
    pub(crate) valued: bool,
    /// The variable that holds its region.
    pub(crate) marker: Ident,
    pub(crate) marker_used: bool,
}

/// A loop or labeled block that `break` and `continue` can name.
pub(crate) struct Target {
    pub(crate) author_label: Option<Ident>,
    pub(crate) label: Lifetime,
    pub(crate) rounds: Ident,
    /// The variable for the values of `break`.
    pub(crate) value: Option<Ident>,
    pub(crate) is_loop: bool,
}

/// How a body returns.
#[derive(Clone)]
pub(crate) enum Returning {
    /// Nothing in it returns early.
    Never,
    /// Through a variable of this name, out of the block at this index. `is_typed` if the type of the
    /// returned values is written.
    Through { frame: Ident, block: usize, is_typed: bool, is_kernel: bool },
}

/// Everything around the expression being rewritten.
pub(crate) struct Scope {
    names: Vec<HashMap<String, Binding>>,
    pub(crate) blocks: Vec<RegionBlock>,
    pub(crate) targets: Vec<Target>,
    pub(crate) returning: Returning,
    pub(crate) self_is_exclusive: bool,
    /// Whether the innermost function or closure is the kernel itself.
    pub(crate) is_kernel_body: bool,
    /// Whether fields of `self` are all known at build time.
    pub(crate) self_is_configuration: bool,
    pub(crate) errors: Vec<syn::Error>,
    next: usize,
}

impl Scope {
    pub(crate) fn new() -> Self {
        let mut scope = Self {
            names: vec![HashMap::new()],
            blocks: Vec::new(),
            targets: Vec::new(),
            returning: Returning::Never,
            self_is_exclusive: false,
            is_kernel_body: false,
            self_is_configuration: false,
            errors: Vec::new(),
            next: 0,
        };
        scope.enter_block("function", false, Span::call_site());
        scope
    }

    pub(crate) fn refuse(&mut self, at: impl quote::ToTokens, message: &str) {
        self.errors.push(syn::Error::new_spanned(at, message));
    }

    pub(crate) fn number(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    pub(crate) fn open_names(&mut self) {
        self.names.push(HashMap::new());
    }

    pub(crate) fn close_names(&mut self) {
        self.names.pop();
    }

    pub(crate) fn bind(&mut self, name: &Ident, mutable: bool, exclusive_reference: bool) {
        let block = self.blocks.len() - 1;
        self.bind_in(name, Binding { mutable, exclusive_reference, block });
    }

    pub(crate) fn bind_in(&mut self, name: &Ident, binding: Binding) {
        let names = self.names.last_mut().expect("there is always a scope");
        names.insert(name.to_string(), binding);
    }

    pub(crate) fn lookup(&self, name: &Ident) -> Option<Binding> {
        let name = name.to_string();
        self.names.iter().rev().find_map(|names| names.get(&name)).copied()
    }

    pub(crate) fn enter_block(&mut self, name: &str, valued: bool, span: Span) -> usize {
        let number = self.number();
        self.blocks.push(RegionBlock {
            label: runtime::label(name, number, span),
            valued,
            marker: runtime::variable("region", number, span),
            marker_used: false,
        });
        self.blocks.len() - 1
    }

    /// Leaves the innermost block: its label and the statement that notes its region, if anything
    /// needs that.
    pub(crate) fn exit_block(&mut self, span: Span) -> (Lifetime, TokenStream) {
        let block = self.blocks.pop().expect("a block is left where it was entered");
        let marker = block.marker;
        let staging = staging(span);
        let note = if block.marker_used {
            quote_spanned!(span=> let #marker = #staging::region();)
        } else {
            TokenStream::new()
        };
        (block.label, note)
    }

    /// The variable that holds the region of a block, for an assignment in the innermost one.
    pub(crate) fn marker(&mut self, block: usize) -> TokenStream {
        let block = &mut self.blocks[block];
        block.marker_used = true;
        let marker = &block.marker;
        quote!(#marker)
    }

    /// Ends the innermost block early, because what follows in it is never reached.
    pub(crate) fn leave(&self, span: Span) -> TokenStream {
        self.leave_block(self.blocks.len() - 1, &quote!(::core::option::Option::None), span)
    }

    pub(crate) fn leave_block(&self, block: usize, value: &TokenStream, span: Span) -> TokenStream {
        let RegionBlock { label, valued, .. } = &self.blocks[block];
        if *valued { quote_spanned!(span=> break #label #value) } else { quote_spanned!(span=> break #label) }
    }
}
