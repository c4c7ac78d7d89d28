//! From an offset of the layout algebra to `[register + constant]`.
//!
//! An offset is a sum. Its constants go into the instruction. A swizzle affects only the terms
//! below its span: a term that is a multiple of the span is added outside of it, so all accesses of
//! an unrolled tile share a few registers. Registers are cached, and reused wherever they are still
//! in scope.

use std::cell::RefCell;

use rustc_hash::FxHashMap;
use warpwright_ir::{Location, Operand, Register, RegisterClass};
use warpwright_layout::{Expression, Int, Operator, Swizzle, Variable};

use super::legal::legal;
use crate::element::{Element, Kind};
use crate::operation::here;
use crate::pointer::Pointer;
use crate::recorder::{self, Scope};
use crate::space::Space;
use crate::value::Reg;

/// A device integer as a leaf; its id carries the register and how to widen it.
pub(super) fn leaf<T: Element>(value: Reg<T>, multiple_of: i64) -> Int {
    let Register(number) = value.register();
    let signed = u64::from(T::KIND == Kind::Signed);
    let id = u64::from(number) << 16 | u64::from(T::BYTES) << 8 | signed;
    let shown = recorder::number_in_kernel(value.register());
    Int::device_multiple_of(id, format!("r{shown}"), multiple_of)
}

/// The register of a leaf.
pub(super) fn register_of(variable: &Variable) -> Register {
    Register((variable.id >> 16) as u32)
}

/// The registers that hold parts of addresses, and where each was computed.
#[derive(Default)]
pub(super) struct Addresses {
    computed: RefCell<FxHashMap<Key, (Scope, Operand)>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    /// The value of an expression.
    Value(Int),
    /// The pointer plus the bytes of `swizzled` (after its swizzle) and `plain`.
    Address { swizzled: Int, plain: Int },
}

/// Instructions of one address width, at the author's position.
struct Width {
    class: RegisterClass,
    word: &'static str,
    location: Location,
}

impl Width {
    fn of<S: Space>(location: Location) -> Self {
        match S::Address::BYTES == 8 {
            true => Self { class: RegisterClass::B64, word: "64", location },
            false => Self { class: RegisterClass::B32, word: "32", location },
        }
    }
}

impl Addresses {
    /// The memory operand for the element at `offset`, in elements from the pointer.
    #[track_caller]
    pub(super) fn of<T: Element, S: Space>(
        &self,
        pointer: Pointer<T, S>,
        offset: &Int,
        swizzle: Swizzle,
    ) -> Operand {
        let bytes = i64::from(T::BYTES);
        let (base, past) = pointer.parts();
        let base = Operand::Register(base);
        let span = if swizzle.is_identity() { 1 } else { swizzle.size() };
        let parts = Parts::of(offset, span);
        let constant = match parts.swizzled.known() {
            // No device value is affected by the swizzle, so it is applied now.
            Some(low) => past + (parts.constant + swizzle.apply(low)) * bytes,
            None => past + parts.constant * bytes,
        };
        let swizzled = if parts.swizzled.known().is_some() { Int::ZERO } else { parts.swizzled };
        let width = Width::of::<S>(here());
        let mut address = base;
        if !swizzled.is(0) {
            let key = Key::Address { swizzled: swizzled.clone(), plain: Int::ZERO };
            address = self.remembered(key, || {
                let exchanged = self.exchange(&swizzled, swizzle, &width);
                emit(&width, "mad.lo.u", [exchanged, Operand::Integer(i128::from(bytes)), address.clone()])
            });
        }
        // The most recent value is added last: in a loop, everything except the loop's own step was
        // computed before it.
        for (sum, group) in by_age(&parts.plain) {
            let key = Key::Address { swizzled: swizzled.clone(), plain: sum };
            let before = address;
            address = self.remembered(key, || self.advanced(before, &group, bytes, &width));
        }
        Operand::Address { base: Box::new(address), offset: constant, rest: Vec::new() }
    }

    /// `address + elements * bytes`.
    fn advanced(&self, address: Operand, elements: &Int, bytes: i64, width: &Width) -> Operand {
        if let Some((register, scale)) = scaled_word(elements)
            && width.class == RegisterClass::B64
            && let Ok(scale) = u32::try_from(scale * bytes)
        {
            return emit(width, "mad.wide.u32", [register, Operand::Integer(scale.into()), address]);
        }
        let elements = self.value(elements, width);
        emit(width, "mad.lo.u", [elements, Operand::Integer(i128::from(bytes)), address])
    }

    /// The value of a device integer, as a register of 32 bits.
    #[track_caller]
    pub(super) fn value_of(&self, int: &Int) -> Reg<u32> {
        let width = Width { class: RegisterClass::B32, word: "32", location: here() };
        match self.value(int, &width) {
            Operand::Register(register) => Reg::from_register(register),
            literal => match emit(&width, "mov.u", [literal]) {
                Operand::Register(register) => Reg::from_register(register),
                _ => unreachable!("emit gives the register that it wrote"),
            },
        }
    }

    /// `x ^ ((x >> shift) & mask)`: PTX ISA has no instruction for it, and it takes three.
    fn exchange(&self, low: &Int, swizzle: Swizzle, width: &Width) -> Operand {
        let value = self.value(low, width);
        let mask = Operand::Integer(i128::from(swizzle.target_mask()));
        let distance = Operand::Integer(i128::from(swizzle.shift().unsigned_abs()));
        let direction = if swizzle.shift() >= 0 { "shr.u" } else { "shl.b" };
        let moved = emit(width, direction, [value.clone(), distance]);
        let bits = emit(width, "and.b", [moved, mask]);
        emit(width, "xor.b", [value, bits])
    }

    /// A register with the value of an expression over device values.
    fn value(&self, int: &Int, width: &Width) -> Operand {
        let expression = match int {
            Int::Known(value) => return Operand::Integer(i128::from(*value)),
            Int::Device(expression) => expression,
        };
        self.remembered(Key::Value(int.clone()), || match &**expression {
            Expression::Variable(variable) => widened(variable.id, width),
            Expression::Operation(operator, a, b) => {
                let (a, b) = match operator {
                    // PTX takes a literal in the second place only.
                    Operator::Add | Operator::Multiply | Operator::Minimum if a.known().is_some() => (b, a),
                    _ => (a, b),
                };
                let operands = [self.value(a, width), self.value(b, width)];
                match (operator, power_of_two(b)) {
                    (Operator::Multiply, Some(log)) => {
                        emit(width, "shl.b", [operands[0].clone(), Operand::Integer(log)])
                    }
                    (Operator::Divide, Some(log)) => {
                        emit(width, "shr.u", [operands[0].clone(), Operand::Integer(log)])
                    }
                    (Operator::Remainder, Some(log)) => {
                        emit(width, "and.b", [operands[0].clone(), Operand::Integer((1 << log) - 1)])
                    }
                    (Operator::Add, _) => emit(width, "add.u", operands),
                    (Operator::Subtract, _) => emit(width, "sub.u", operands),
                    (Operator::Multiply, None) => emit(width, "mul.lo.u", operands),
                    (Operator::Divide, None) => emit(width, "div.u", operands),
                    (Operator::Remainder, None) => emit(width, "rem.u", operands),
                    (Operator::Minimum, _) => emit(width, "min.u", operands),
                }
            }
        })
    }

    /// The register cached for `key`, if the code that computed it dominates this point; else a new
    /// one.
    fn remembered(&self, key: Key, compute: impl FnOnce() -> Operand) -> Operand {
        let known = self.computed.borrow().get(&key).cloned();
        if let Some((scope, operand)) = known
            && recorder::with(|recorder| recorder.is_in_scope(scope))
        {
            return operand;
        }
        let operand = compute();
        let scope = recorder::with(|recorder| recorder.scope());
        self.computed.borrow_mut().insert(key, (scope, operand.clone()));
        operand
    }
}

/// The terms in two groups, with the sum of each so far: those that depend on the most recent
/// device value come last.
#[track_caller]
fn by_age(terms: &[Int]) -> Vec<(Int, Int)> {
    let age = |term: &Int| term.fold(&mut |_| 0, &mut |leaf| leaf.id, &mut |_, a: u64, b| a.max(b));
    let youngest = terms.iter().map(age).max().unwrap_or(0);
    let sum = |wanted: &dyn Fn(&Int) -> bool| {
        let chosen = terms.iter().filter(|term| wanted(term));
        chosen.fold(Int::ZERO, |sum, term| legal(sum.plus(term), || Int::ZERO))
    };
    let older = sum(&|term| age(term) < youngest);
    let groups = [(older.clone(), older), (sum(&|_| true), sum(&|term| age(term) == youngest))];
    groups.into_iter().filter(|(_, group)| !group.is(0)).collect()
}

/// A 32-bit unsigned device value times a constant: what one widening multiplication takes.
fn scaled_word(int: &Int) -> Option<(Operand, i64)> {
    let Int::Device(expression) = int else { return None };
    match &**expression {
        Expression::Variable(leaf) if leaf.id & 0xffff == 4 << 8 => {
            Some((Operand::Register(Register((leaf.id >> 16) as u32)), 1))
        }
        Expression::Operation(Operator::Multiply, Int::Known(scale), rest)
        | Expression::Operation(Operator::Multiply, rest, Int::Known(scale)) => {
            let (register, inner) = scaled_word(rest)?;
            Some((register, inner * scale))
        }
        _ => None,
    }
}

/// A decomposed offset.
struct Parts {
    /// What a swizzle affects: the terms and the constant below its span.
    swizzled: Int,
    /// Device terms that the swizzle does not affect.
    plain: Vec<Int>,
    /// The constant that the swizzle does not affect.
    constant: i64,
}

impl Parts {
    #[track_caller]
    fn of(offset: &Int, span: i64) -> Self {
        let (mut terms, mut constant) = (Vec::new(), 0);
        collect_terms(offset, 1, &mut terms, &mut constant);
        let low_constant = constant.rem_euclid(span);
        let (plain, below): (Vec<_>, Vec<_>) =
            terms.into_iter().partition(|term| term.known_divisor() % span == 0);
        let swizzled =
            below.iter().fold(Int::Known(low_constant), |sum, term| legal(sum.plus(term), || Int::ZERO));
        Self { swizzled, plain, constant: constant - low_constant }
    }
}

/// Adds the terms of `factor * int` to `terms`, and its constant to `constant`.
#[track_caller]
fn collect_terms(int: &Int, factor: i64, terms: &mut Vec<Int>, constant: &mut i64) {
    let expression = match int {
        Int::Known(value) => return *constant += factor * value,
        Int::Device(expression) => expression,
    };
    match &**expression {
        Expression::Operation(Operator::Add, a, b) => {
            collect_terms(a, factor, terms, constant);
            collect_terms(b, factor, terms, constant);
        }
        Expression::Operation(Operator::Subtract, a, b) => {
            collect_terms(a, factor, terms, constant);
            collect_terms(b, -factor, terms, constant);
        }
        Expression::Operation(Operator::Multiply, Int::Known(scale), rest)
        | Expression::Operation(Operator::Multiply, rest, Int::Known(scale)) => {
            collect_terms(rest, factor * scale, terms, constant);
        }
        _ => terms.push(legal(int.times(&Int::Known(factor)), || Int::ZERO)),
    }
}

fn power_of_two(int: &Int) -> Option<i128> {
    let value = int.known()?;
    (value > 0 && value & (value - 1) == 0).then(|| i128::from(value.trailing_zeros()))
}

/// The register of a leaf, in the address's width.
fn widened(id: u64, width: &Width) -> Operand {
    let register = Operand::Register(Register((id >> 16) as u32));
    let bytes = (id >> 8) & 0xff;
    let kind = if id & 1 == 1 { "s" } else { "u" };
    let wanted = if width.class == RegisterClass::B64 { 8 } else { 4 };
    match bytes == wanted {
        true => register,
        false => emit(width, format!("cvt.{kind}{}.{kind}{}", wanted * 8, bytes * 8), [register]),
    }
}

/// Records an instruction of the address's width into a fresh register. An opcode that ends in its
/// type's letter gets the width appended.
fn emit<const N: usize>(width: &Width, opcode: impl Into<String>, sources: [Operand; N]) -> Operand {
    let mut opcode = opcode.into();
    if opcode.ends_with(['u', 'b']) {
        opcode.push_str(width.word);
    }
    recorder::with(|recorder| {
        let destination = Operand::Register(recorder.fresh(width.class));
        let operands = std::iter::once(destination.clone()).chain(sources).collect();
        recorder.emit(opcode, 1, operands, width.location);
        destination
    })
}
