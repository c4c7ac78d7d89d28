//! Comparison, logic, arithmetic and casts.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{BinOp, Expr, ExprBinary, ExprCast, Lit, Type, UnOp};

use crate::runtime::{self, staging};
use crate::scope::Scope;
use crate::survey;

pub(crate) fn is_compound(operator: &BinOp) -> bool {
    compound_method(operator).is_some()
}

/// The method that stands for a compound assignment.
pub(crate) fn compound_method(operator: &BinOp) -> Option<&'static str> {
    Some(match operator {
        BinOp::AddAssign(_) => "add_assign",
        BinOp::SubAssign(_) => "sub_assign",
        BinOp::MulAssign(_) => "mul_assign",
        BinOp::DivAssign(_) => "div_assign",
        BinOp::RemAssign(_) => "rem_assign",
        BinOp::BitAndAssign(_) => "bitand_assign",
        BinOp::BitOrAssign(_) => "bitor_assign",
        BinOp::BitXorAssign(_) => "bitxor_assign",
        BinOp::ShlAssign(_) => "shl_assign",
        BinOp::ShrAssign(_) => "shr_assign",
        _ => return None,
    })
}

/// A comparison: the trait, and its method for the operands and for the operands exchanged.
struct Comparison {
    of: &'static str,
    method: &'static str,
    exchanged: &'static str,
}

fn comparison(operator: &BinOp) -> Option<Comparison> {
    let (of, method, exchanged) = match operator {
        BinOp::Eq(_) => ("Equality", "equal", "equal"),
        BinOp::Ne(_) => ("Equality", "differ", "differ"),
        BinOp::Lt(_) => ("Inequality", "less", "greater"),
        BinOp::Le(_) => ("Inequality", "at_most", "at_least"),
        BinOp::Gt(_) => ("Inequality", "greater", "less"),
        BinOp::Ge(_) => ("Inequality", "at_least", "at_most"),
        _ => return None,
    };
    Some(Comparison { of, method, exchanged })
}

impl Scope {
    pub(crate) fn binary(&mut self, binary: ExprBinary) -> TokenStream {
        let ExprBinary { left, op, right, .. } = binary;
        if let Some(comparison) = comparison(&op) {
            return match (is_float(&left), is_float(&right)) {
                (false, true) => self.compare_with_float(*left, &right, comparison.method),
                (true, false) => self.compare_with_float(*right, &left, comparison.exchanged),
                _ => self.compare(*left, *right, &comparison),
            };
        }
        match op {
            BinOp::And(token) => self.logic(*left, *right, "both", token.span()),
            BinOp::Or(token) => self.logic(*left, *right, "either", token.span()),
            _ => {
                let left = self.operand(*left, survey::is_quiet(&right));
                let right = self.operand(*right, true);
                quote!(#left #op #right)
            }
        }
    }

    /// An operand of an operation that is recorded at once. It need not be copied first if nothing
    /// can change it in between; elements are read because they may be of device memory.
    pub(crate) fn operand(&mut self, operand: Expr, undisturbed: bool) -> TokenStream {
        let is_element = matches!(bare(&operand), Expr::Index(_));
        if undisturbed && !is_element && survey::is_place(&operand) {
            self.place(operand)
        } else {
            self.value(operand)
        }
    }

    fn compare(&mut self, left: Expr, right: Expr, comparison: &Comparison) -> TokenStream {
        let span = left.span();
        let staging = staging(span);
        let of = Ident::new(comparison.of, span);
        let method = Ident::new(comparison.method, span);
        let undisturbed = survey::is_quiet(&right);
        let left = self.compared(left, undisturbed);
        let right = self.compared(right, true);
        quote_spanned!(span=> #staging::#of::#method(&#left, &#right))
    }

    /// A comparison with a floating-point literal, which has the type of the other side.
    fn compare_with_float(&mut self, side: Expr, literal: &Expr, method: &str) -> TokenStream {
        let span = side.span();
        let staging = staging(span);
        let method = Ident::new(method, span);
        let side = self.compared(side, true);
        quote_spanned!(span=> #staging::BesideFloat::#method(&#side, #literal))
    }

    /// A side of a comparison: a place is compared where it is, as Rust does.
    fn compared(&mut self, side: Expr, undisturbed: bool) -> TokenStream {
        if survey::is_place(&side) && undisturbed {
            self.place(side)
        } else {
            let span = side.span();
            let side = self.value(side);
            quote_spanned!(span=> (#side))
        }
    }

    fn logic(&mut self, left: Expr, right: Expr, begin: &str, operator: proc_macro2::Span) -> TokenStream {
        let span = left.span();
        let right_span = right.span();
        let left_staging = staging(span);
        let begin = Ident::new(begin, span);
        let sides = runtime::variable("sides", self.number(), operator);
        let left = self.value(left);
        let right = self.value(right);
        let begin = quote_spanned!(span=> #left_staging::Truth::#begin(#left));
        let name = runtime::variable("right", self.number(), operator);
        let joined = quote_spanned!(right_span=> #sides.join(#name));
        quote_spanned! {operator=> {
            let mut #sides = #begin;
            let #name = if #sides.right() { ::core::option::Option::Some(#right) } else { ::core::option::Option::None };
            #joined
        }}
    }

    pub(crate) fn cast(&mut self, cast: ExprCast) -> TokenStream {
        let ExprCast { expr, ty, as_token, .. } = cast;
        let is_literal = match bare(&expr) {
            Expr::Lit(_) => true,
            Expr::Unary(unary) => matches!(bare(&unary.expr), Expr::Lit(_)),
            Expr::Path(path) => path.path.segments.len() > 1,
            _ => false,
        };
        let native = matches!(*ty, Type::Ptr(_) | Type::Infer(_) | Type::BareFn(_) | Type::Reference(_));
        let span = expr.span();
        let value = self.value(*expr);
        if is_literal || native {
            return quote!(#value #as_token #ty);
        }
        let staging = staging(span);
        quote_spanned!(span=> #staging::Cast(#value).to::<#ty>())
    }
}

/// Whether the expression is a floating-point literal that names no type.
fn is_float(expression: &Expr) -> bool {
    match bare(expression) {
        Expr::Lit(literal) => matches!(&literal.lit, Lit::Float(float) if float.suffix().is_empty()),
        Expr::Unary(unary) => matches!(unary.op, UnOp::Neg(_)) && is_float(&unary.expr),
        _ => false,
    }
}

/// An expression without the parentheses around it.
pub(crate) fn bare(expression: &Expr) -> &Expr {
    match expression {
        Expr::Paren(inner) => bare(&inner.expr),
        Expr::Group(inner) => bare(&inner.expr),
        _ => expression,
    }
}
