//! `wmma`: MMAs of a warp on opaque fragments, loaded and stored by the instructions themselves.
//! PTX ISA, "Warp-level Matrix Instructions using `wmma`".
//!
//! The elements that a lane holds are unspecified. Kernels that need them, and fast kernels, use
//! the atoms of [`tensor`](crate::tensor) on `mma.sync`. All 32 lanes execute each of these
//! together.
//!
//! ```
//! use half::f16;
//! use warpwright_lang::pointer::Global;
//! use warpwright_lang::wmma::{WmmaLayout, Wmma};
//! use warpwright_lang::{kernel, launch};
//!
//! /// D = A B, 16 by 16, all row-major.
//! #[kernel]
//! fn multiply(a: &Global<f16>, b: &Global<f16>, d: &mut Global<f32>) {
//!     launch::threads(32);
//!     let mma = Wmma::<f16>::new([16, 16, 16], WmmaLayout::RowMajor, WmmaLayout::RowMajor);
//!     let (a, b) = (mma.load_a(*a, 16), mma.load_b(*b, 16));
//!     let product = mma.multiply(&a, &b, &mma.zeros::<f32>());
//!     mma.store(*d, 16, WmmaLayout::RowMajor, &product);
//! }
//! assert!(multiply().is_ok());
//! ```

use std::fmt;
use std::marker::PhantomData;

use half::{bf16, f16};
use warpwright_arch::instructions::{Operand as Slot, forms_of};
use warpwright_arch::mma::{Family, MMA_TABLE};
use warpwright_ir::Operand;

use crate::DeviceValue;
use crate::element::{Element, b1x32, f16x2, s4x8, tf32, u4x8};
use crate::operation::{fresh, record, refuse};
use crate::pointer::Pointer;
use crate::space::{GenericSpace, GlobalSpace, SharedSpace, Space};
use crate::value::{Reg, Value, constant};

/// The order of a matrix in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WmmaLayout {
    /// Rows one after another.
    RowMajor,
    /// Columns one after another.
    ColumnMajor,
}

impl fmt::Display for WmmaLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WmmaLayout::RowMajor => "row-major",
            WmmaLayout::ColumnMajor => "column-major",
        })
    }
}

impl WmmaLayout {
    fn word(self) -> &'static str {
        match self {
            WmmaLayout::RowMajor => "row",
            WmmaLayout::ColumnMajor => "col",
        }
    }
}

/// A type of the matrices multiplied.
pub trait WmmaInput: Element {
    /// The word in opcodes.
    const WORD: &'static str;
    /// What a fragment's registers hold.
    type Register: Element;
}

/// A type of the matrices added to.
pub trait WmmaAccumulator: Element {
    /// What a fragment's registers hold.
    type Register: Element;
    /// Zero, in a register.
    fn zero() -> Self::Register;
}

macro_rules! inputs {
    ($($ty:ty, $word:literal, $register:ty;)*) => {
        $(impl WmmaInput for $ty {
            const WORD: &'static str = $word;
            type Register = $register;
        })*
    };
}

inputs! {
    f16, "f16", u32;
    bf16, "bf16", u32;
    tf32, "tf32", u32;
    f64, "f64", f64;
    u8, "u8", u32;
    i8, "s8", u32;
    u4x8, "u4", u32;
    s4x8, "s4", u32;
    b1x32, "b1", u32;
}

macro_rules! accumulators {
    ($($ty:ty, $register:ty, $zero:expr;)*) => {
        $(impl WmmaAccumulator for $ty {
            type Register = $register;
            fn zero() -> $register {
                $zero
            }
        })*
    };
}

accumulators! {
    f16, f16x2, f16x2(0);
    f32, f32, 0.0;
    f64, f64, 0.0;
    i32, i32, 0;
}

/// A space that fragments are loaded from and stored to.
pub trait WmmaSpace: Space {}

impl WmmaSpace for GlobalSpace {}
impl WmmaSpace for SharedSpace {}
impl WmmaSpace for GenericSpace {}

/// A lane's share of a matrix A.
#[derive(Clone, DeviceValue)]
pub struct FragmentA<R: Element> {
    registers: Vec<Reg<R>>,
    part: Part,
}

/// A lane's share of a matrix B.
#[derive(Clone, DeviceValue)]
pub struct FragmentB<R: Element> {
    registers: Vec<Reg<R>>,
    part: Part,
}

/// A lane's share of a matrix added to, or of a product.
#[derive(Clone, DeviceValue)]
pub struct Accumulator<T: WmmaAccumulator> {
    registers: Vec<Reg<T::Register>>,
}

impl<T: WmmaAccumulator> Accumulator<T> {
    /// The registers, in an order that depends on the architecture: only elementwise operations are
    /// meaningful.
    pub fn registers(&self) -> &[Reg<T::Register>] {
        &self.registers
    }

    /// The fragment of these registers: as many as [`registers`](Self::registers) gives.
    pub fn from_registers(registers: Vec<Reg<T::Register>>) -> Self {
        Self { registers }
    }
}

/// A `wmma` product of one shape, with matrices of type `I` in given orders.
#[derive(Clone, Copy, Debug)]
pub struct Wmma<I> {
    shape: [u32; 3],
    a: WmmaLayout,
    b: WmmaLayout,
    /// The operation on two bits in products of [`b1x32`].
    bits: BitProduct,
    input: PhantomData<I>,
}

/// How products of single bits multiply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BitProduct {
    /// By exclusive or.
    #[default]
    Xor,
    /// By and.
    And,
}

/// What an operand was loaded for: lanes hold other elements for every other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    shape: [u32; 3],
    layout: WmmaLayout,
    element: &'static str,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}, {}", shape_word(&self.shape), self.element, self.layout)
    }
}

impl<I: WmmaInput> Wmma<I> {
    fn part(&self, layout: WmmaLayout) -> Part {
        Part { shape: self.shape, layout, element: I::WORD }
    }

    /// Refuses operands that were loaded for another MMA.
    #[track_caller]
    fn takes(&self, a: Part, b: Part) -> bool {
        for (operand, given, wanted) in [("A", a, self.part(self.a)), ("B", b, self.part(self.b))] {
            if given != wanted {
                refuse(format!(
                    "`multiply`: {operand} was loaded for {given}, and this MMA takes it for {wanted}: load it by this MMA"
                ));
                return false;
            }
        }
        true
    }

    /// The product of shape m x n x k, with A and B in the given orders.
    #[track_caller]
    pub fn new(shape: [u32; 3], a: WmmaLayout, b: WmmaLayout) -> Self {
        let mma = Self { shape, a, b, bits: BitProduct::default(), input: PhantomData };
        if mma.count(&mma.load_opcode("a", a, "", I::WORD), 0).is_none()
            || mma.count(&mma.load_opcode("b", b, "", I::WORD), 0).is_none()
        {
            let has = |shape: &[u32; 3]| {
                let other = Self { shape: *shape, ..mma };
                other.count(&other.load_opcode("a", a, "", I::WORD), 0).is_some()
                    && other.count(&other.load_opcode("b", b, "", I::WORD), 0).is_some()
            };
            let rows = MMA_TABLE.iter().filter(|row| row.family == Family::Wmma);
            let rows = rows.filter(|row| row.inputs.iter().any(|(a, _)| a.ptx() == I::WORD));
            let shapes = rows.map(|row| [row.shape.m, row.shape.n, row.shape.k]);
            let legal: Vec<String> = shapes.filter(has).map(|shape| shape_word(&shape)).collect();
            let legal = match legal.as_slice() {
                [] => "use other layouts".to_owned(),
                legal => format!("with these layouts use {}", legal.join(", ")),
            };
            refuse(format!(
                "wmma of {} on {} does not take A {a} and B {b}: {legal}",
                shape_word(&shape),
                I::WORD
            ));
        }
        mma
    }

    /// With this operation on single bits.
    pub fn with_bits(self, bits: BitProduct) -> Self {
        Self { bits, ..self }
    }

    /// Loads a matrix A from `address`; its rows (or columns) are `stride` elements apart.
    #[track_caller]
    pub fn load_a<S: WmmaSpace>(
        self,
        address: Pointer<I, S>,
        stride: impl Value<u32>,
    ) -> FragmentA<I::Register> {
        let registers = self.load("a", self.a, I::WORD, address, stride.operand());
        FragmentA { registers, part: self.part(self.a) }
    }

    /// Loads a matrix B from `address`; its rows (or columns) are `stride` elements apart.
    #[track_caller]
    pub fn load_b<S: WmmaSpace>(
        self,
        address: Pointer<I, S>,
        stride: impl Value<u32>,
    ) -> FragmentB<I::Register> {
        let registers = self.load("b", self.b, I::WORD, address, stride.operand());
        FragmentB { registers, part: self.part(self.b) }
    }

    /// Loads an accumulator.
    #[track_caller]
    pub fn load_accumulator<T: WmmaAccumulator, S: WmmaSpace>(
        self,
        address: Pointer<T, S>,
        stride: impl Value<u32>,
        order: WmmaLayout,
    ) -> Accumulator<T> {
        Accumulator { registers: self.load("c", order, T::PTX, address, stride.operand()) }
    }

    /// An accumulator of zeros.
    #[track_caller]
    pub fn zeros<T: WmmaAccumulator>(self) -> Accumulator<T> {
        let count = self.count(&self.load_opcode("c", WmmaLayout::RowMajor, "", T::PTX), 0);
        if count.is_none() {
            self.refuse_accumulator::<T>();
        }
        Accumulator { registers: vec![constant(T::zero()); count.unwrap_or(0)] }
    }

    /// A B + C.
    #[track_caller]
    pub fn multiply<D: WmmaAccumulator, C: WmmaAccumulator>(
        self,
        a: &FragmentA<I::Register>,
        b: &FragmentB<I::Register>,
        c: &Accumulator<C>,
    ) -> Accumulator<D> {
        let (orders, shape) = (format!("{}.{}", self.a.word(), self.b.word()), shape_word(&self.shape));
        let (d_word, c_word, word) = (D::PTX, C::PTX, I::WORD);
        let opcode = match word {
            "f16" => format!("wmma.mma.sync.aligned.{orders}.{shape}.{d_word}.{c_word}"),
            "f64" => format!("wmma.mma.sync.aligned.{orders}.{shape}.rn.{d_word}.f64.f64.{c_word}"),
            "b1" => {
                let product = if self.bits == BitProduct::Xor { "xor" } else { "and" };
                format!("wmma.mma.{product}.popc.sync.aligned.{orders}.{shape}.{d_word}.b1.b1.{c_word}")
            }
            _ => format!("wmma.mma.sync.aligned.{orders}.{shape}.{d_word}.{word}.{word}.{c_word}"),
        };
        let Some(count) = self.count(&opcode, 0) else {
            refuse(format!(
                "wmma of {shape} on {word} does not add to {} and give {}, with A {} and B {}",
                C::NAME,
                D::NAME,
                self.a,
                self.b
            ));
            return Accumulator { registers: Vec::new() };
        };
        if !self.takes(a.part, b.part) {
            return Accumulator { registers: fragment(count) };
        }
        let product = fragment(count);
        let operands =
            vec![vector(&product), vector(&a.registers), vector(&b.registers), vector(&c.registers)];
        record(opcode, 1, operands);
        Accumulator { registers: product }
    }

    /// Stores an accumulator.
    #[track_caller]
    pub fn store<T: WmmaAccumulator, S: WmmaSpace>(
        self,
        address: Pointer<T, S>,
        stride: impl Value<u32>,
        order: WmmaLayout,
        product: &Accumulator<T>,
    ) {
        address.demand_writable();
        let shape = shape_word(&self.shape);
        let opcode = format!("wmma.store.d.sync.aligned.{}.{shape}{}.{}", order.word(), S::WORD, T::PTX);
        if self.count(&opcode, 1) != Some(product.registers.len()) {
            return self.refuse_accumulator::<T>();
        }
        record(opcode, 0, vec![address.operand(), vector(&product.registers), stride.operand()]);
    }

    #[track_caller]
    fn load<T: Element, R: Element, S: Space>(
        self,
        matrix: &str,
        order: WmmaLayout,
        word: &str,
        address: Pointer<T, S>,
        stride: Operand,
    ) -> Vec<Reg<R>> {
        let opcode = self.load_opcode(matrix, order, S::WORD, word);
        let Some(count) = self.count(&opcode, 0) else {
            if matrix == "c" {
                self.refuse_accumulator::<T>();
            }
            return Vec::new();
        };
        let loaded = fragment(count);
        record(opcode, 1, vec![vector(&loaded), address.operand(), stride]);
        loaded
    }

    fn load_opcode(self, matrix: &str, order: WmmaLayout, space: &str, word: &str) -> String {
        let shape = shape_word(&self.shape);
        format!("wmma.load.{matrix}.sync.aligned.{}.{shape}{space}.{word}", order.word())
    }

    /// The registers of operand `position`, if there is such an instruction: the table says.
    fn count(self, opcode: &str, position: usize) -> Option<usize> {
        let (_, signature) = forms_of(opcode).into_iter().next()?;
        match signature.operands.get(position) {
            Some(Slot::Vector { count, .. }) => Some(*count),
            _ => None,
        }
    }

    #[track_caller]
    fn refuse_accumulator<T: Element>(self) {
        refuse(format!("wmma of {} on {} does not add to {}", shape_word(&self.shape), I::WORD, T::NAME));
    }
}

fn shape_word(shape: &[u32; 3]) -> String {
    let [m, n, k] = shape;
    format!("m{m}n{n}k{k}")
}

#[track_caller]
fn fragment<R: Element>(count: usize) -> Vec<Reg<R>> {
    (0..count).map(|_| fresh()).collect()
}

fn vector<R: Element>(registers: &[Reg<R>]) -> Operand {
    Operand::Vector(registers.iter().map(|register| Reg::operand(*register)).collect())
}
