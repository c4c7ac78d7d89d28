//! Pointers typed by element and space.

use std::marker::PhantomData;
use std::ops;

use warpwright_ir::{Operand, Parameter, ParameterType, Register};

use crate::device_value::{DeviceValue, Sources, Yields, assign, yield_registers};
use crate::element::{Element, Integer};
use crate::index::{ElementOffset, Index};
use crate::operation::{compute, here, refuse};
use crate::parameter::KernelParameter;
use crate::recorder::{self, Allocation};
use crate::requirement::{Feature, require};
use crate::space::{ClusterSpace, ConstantSpace, GenericSpace, GlobalSpace, LocalSpace, SharedSpace, Space};
use crate::value::Reg;

/// The address of an element of type `T` in space `S`.
///
/// Build-time offsets are kept apart from the base register, so that they become the immediate of
/// `[base + offset]`.
pub struct Pointer<T, S: Space> {
    base: Reg<S::Address>,
    offset: i64,
    writable: bool,
    element: PhantomData<T>,
}

/// A pointer to global memory.
pub type Global<T> = Pointer<T, GlobalSpace>;
/// A pointer to the CTA's shared memory.
pub type Shared<T> = Pointer<T, SharedSpace>;
/// A pointer to the shared memory of some CTA of the cluster.
pub type ClusterShared<T> = Pointer<T, ClusterSpace>;
/// A pointer to the thread's local memory.
pub type Local<T> = Pointer<T, LocalSpace>;
/// A pointer to constant memory.
pub type Constant<T> = Pointer<T, ConstantSpace>;
/// A generic pointer.
pub type Generic<T> = Pointer<T, GenericSpace>;

impl<T, S: Space> Clone for Pointer<T, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, S: Space> Copy for Pointer<T, S> {}

impl<T: Element, S: Space> Pointer<T, S> {
    /// The read-only pointer to the address in `base`.
    pub fn from_address(base: Reg<S::Address>) -> Self {
        Self { base, offset: 0, writable: false, element: PhantomData }
    }

    /// The pointer to the address in `base`, through which the kernel may write.
    pub fn from_address_mut(base: Reg<S::Address>) -> Self {
        Self { writable: true, ..Self::from_address(base) }
    }

    /// The pointer to the address in `base`, which may be written through if this one may.
    pub(crate) fn moved<U: Space>(self, base: Reg<U::Address>) -> Pointer<T, U> {
        Pointer { base, offset: 0, writable: self.writable, element: PhantomData }
    }

    /// Whether the kernel may write through it.
    pub fn is_writable(self) -> bool {
        self.writable
    }

    /// The address in a register.
    #[track_caller]
    pub fn address(self) -> Reg<S::Address> {
        self.note_plain_access();
        self.address_of_view()
    }

    /// The address in a register, for accesses whose swizzle is [noted](Recorder::note_view).
    #[track_caller]
    pub(crate) fn address_of_view(self) -> Reg<S::Address> {
        if self.offset == 0 {
            return self.base;
        }
        let address: Reg<S::Address> = compute(
            format!("add.{}", S::Address::PTX),
            [self.base.operand(), Operand::Integer(self.offset.into())],
        );
        self.note_derived(address);
        address
    }

    fn note_derived(self, address: Reg<S::Address>) {
        recorder::with(|recorder| recorder.note_derived_address(address.register(), self.base.register()));
    }

    fn note_plain_access(self) {
        if S::NAME == SharedSpace::NAME {
            recorder::with(|recorder| recorder.note_plain_access(self.base.register()));
        }
    }

    /// The base register, and the byte offset from it.
    pub fn parts(self) -> (Register, i64) {
        (self.base.register(), self.offset)
    }

    /// The pointer as an instruction's `[base + offset]`.
    pub(crate) fn operand(self) -> Operand {
        self.note_plain_access();
        self.operand_of_view()
    }

    /// The same for an access whose swizzle is [noted](Recorder::note_view).
    pub(crate) fn operand_of_view(self) -> Operand {
        Operand::Address { base: Box::new(self.base.operand()), offset: self.offset, rest: Vec::new() }
    }

    /// The pointer to the same address, read as another type.
    pub fn cast<U: Element>(self) -> Pointer<U, S> {
        Pointer { base: self.base, offset: self.offset, writable: self.writable, element: PhantomData }
    }

    /// The pointer `bytes` further.
    pub fn byte_offset(self, bytes: i64) -> Self {
        Self { offset: self.offset + bytes, ..self }
    }

    /// The pointer to the element at offset `index`.
    #[track_caller]
    pub fn at(self, index: impl Index) -> Self {
        let bytes = i64::from(T::BYTES);
        match index.element_offset() {
            ElementOffset::Known(elements) => self.byte_offset(elements * bytes),
            ElementOffset::Device { index, word } => {
                let base = advance(self.base, index, word, bytes);
                self.note_derived(base);
                Self { base, ..self }
            }
        }
    }

    /// Reports a mistake if the kernel may not write through the pointer.
    #[track_caller]
    pub(crate) fn demand_writable(self) {
        if !self.writable {
            refuse(format!(
                "this writes through a read-only pointer to {} memory; take the parameter as `&mut Global<{}>` to write to it",
                S::NAME,
                T::NAME
            ));
        }
    }

    /// Reports a mistake if the kernel may write through the pointer: the read-only path may give what
    /// the memory held before the write. PTX ISA, "ld.global.nc".
    #[track_caller]
    pub(crate) fn demand_read_only(self) {
        if self.writable {
            refuse(format!(
                "this loads through the read-only path from memory that the kernel may write, and the path does not see the \
                 kernel's writes; take the parameter as `&Global<{}>`, or load without the path, by `load()`",
                T::NAME
            ));
        }
    }
}

/// `base + index * bytes`, the index widened as its type says.
#[track_caller]
pub(crate) fn advance<A: Integer>(base: Reg<A>, index: Operand, word: &'static str, bytes: i64) -> Reg<A> {
    let scale = Operand::Integer(bytes.into());
    match (A::BYTES, word) {
        (8, "u32" | "s32") => compute(format!("mad.wide.{word}"), [index, scale, base.operand()]),
        (4, "u64" | "s64") => {
            let index = compute::<u32, 1>(format!("cvt.u32.{word}"), [index]);
            advance(base, index.operand(), "u32", bytes)
        }
        _ if bytes == 1 => compute(format!("add.{word}"), [index, base.operand()]),
        _ => compute(format!("mad.lo.{word}"), [index, scale, base.operand()]),
    }
}

impl<T: Element, S: Space, I: Index> ops::Add<I> for Pointer<T, S> {
    type Output = Self;
    #[track_caller]
    fn add(self, index: I) -> Self {
        self.at(index)
    }
}

impl<T: Element, S: Space, I: Index> ops::AddAssign<I> for Pointer<T, S> {
    #[track_caller]
    fn add_assign(&mut self, index: I) {
        let stepped = self.at(index);
        assign(self, stepped);
    }
}

macro_rules! to_generic {
    ($($space:ty, $word:literal),*) => {
        $(
            impl<T: Element> Pointer<T, $space> {
                /// The generic address of the same element.
                #[track_caller]
                pub fn generic(self) -> Generic<T> {
                    let address = self.address();
                    let wide: Reg<u64> = if <$space as Space>::Address::BYTES == 4 {
                        compute("cvt.u64.u32", [address.operand()])
                    } else {
                        Reg::from_register(address.register())
                    };
                    let base = compute(concat!("cvta.", $word, ".u64"), [wide.operand()]);
                    self.moved(base)
                }
            }
        )*
    };
}

to_generic!(
    GlobalSpace,
    "global",
    SharedSpace,
    "shared",
    ClusterSpace,
    "shared::cluster",
    LocalSpace,
    "local",
    ConstantSpace,
    "const"
);

impl<T: Element> Generic<T> {
    /// The address in global memory; the element must be there.
    #[track_caller]
    pub fn to_global(self) -> Global<T> {
        self.narrow("global")
    }

    /// The address in shared memory; the element must be there.
    #[track_caller]
    pub fn to_shared(self) -> Shared<T> {
        self.narrow_to_window("shared")
    }

    /// The address in the cluster's shared memory; the element must be there.
    #[track_caller]
    pub fn to_cluster_shared(self) -> ClusterShared<T> {
        require(Feature::Clusters);
        self.narrow_to_window("shared::cluster")
    }

    #[track_caller]
    fn narrow_to_window<S: Space<Address = u32>>(self, space: &str) -> Pointer<T, S> {
        let wide = compute::<u64, 1>(format!("cvta.to.{space}.u64"), [self.address().operand()]);
        let base = compute("cvt.u32.u64", [wide.operand()]);
        self.moved(base)
    }

    /// The address in local memory; the element must be there.
    #[track_caller]
    pub fn to_local(self) -> Local<T> {
        self.narrow("local")
    }

    #[track_caller]
    fn narrow<S: Space<Address = u64>>(self, space: &str) -> Pointer<T, S> {
        let base = compute(format!("cvta.to.{space}.u64"), [self.address().operand()]);
        self.moved(base)
    }

    /// Whether the address is in global memory: `isspacep`.
    #[track_caller]
    pub fn is_global(self) -> Reg<bool> {
        compute("isspacep.global", [self.address().operand()])
    }

    /// Whether the address is in the CTA's shared memory: `isspacep`.
    #[track_caller]
    pub fn is_shared(self) -> Reg<bool> {
        compute("isspacep.shared", [self.address().operand()])
    }

    /// Whether the address is in the shared memory of a CTA of the cluster, this one included:
    /// `isspacep`.
    #[track_caller]
    pub fn is_cluster_shared(self) -> Reg<bool> {
        require(Feature::Clusters);
        compute("isspacep.shared::cluster", [self.address().operand()])
    }

    /// Whether the address is in local memory: `isspacep`.
    #[track_caller]
    pub fn is_local(self) -> Reg<bool> {
        compute("isspacep.local", [self.address().operand()])
    }
}

/// A pointer to a variable in memory by its symbol.
#[track_caller]
pub(crate) fn pointer_to_symbol<T: Element, S: Space>(symbol: Operand) -> Pointer<T, S> {
    let base = compute(format!("mov.{}", S::Address::PTX), [symbol]);
    Pointer::from_address_mut(base)
}

/// Declares a kernel's pointer parameter, and reads it.
#[track_caller]
fn declare_global<T: Element>(name: &str, writable: bool) -> Global<T> {
    let location = here();
    let generic = recorder::with(|recorder| {
        let ty = ParameterType::Pointer { element: T::NAME, element_bytes: T::BYTES, writable };
        recorder.kernel().parameters.push(Parameter { name: name.to_owned(), ty });
        let register = recorder.fresh(<u64 as Element>::CLASS);
        let symbol = Box::new(Operand::Symbol(name.to_owned()));
        let address = Operand::Address { base: symbol, offset: 0, rest: Vec::new() };
        recorder.emit("ld.param.u64", 1, vec![Operand::Register(register), address], location);
        register
    });
    let base: Reg<u64> = compute("cvta.to.global.u64", [Operand::Register(generic)]);
    let call = name.to_owned().into();
    let array = Allocation { call, start: 0, bytes: None, element_bytes: i64::from(T::BYTES), location };
    recorder::with(|recorder| recorder.remember_allocation(base.register(), array));
    Pointer { base, offset: 0, writable, element: PhantomData }
}

#[diagnostic::do_not_recommend]
impl<T: Element> KernelParameter for &Global<T> {
    type Host = In<T>;
    type Value = Global<T>;

    #[track_caller]
    fn declare(name: &str) -> Global<T> {
        declare_global(name, false)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Element> KernelParameter for &mut Global<T> {
    type Host = Out<T>;
    type Value = Global<T>;

    #[track_caller]
    fn declare(name: &str) -> Global<T> {
        declare_global(name, true)
    }
}

/// A field of a struct by value: memory that the kernel only reads.
#[diagnostic::do_not_recommend]
impl<T: Element> KernelParameter for Global<T> {
    type Host = In<T>;
    type Value = Self;

    #[track_caller]
    fn declare(name: &str) -> Self {
        declare_global(name, false)
    }
}

/// What a launch passes for a `&Global<T>`: a buffer that the kernel only reads.
pub struct In<T>(PhantomData<fn() -> T>);

/// What a launch passes for a `&mut Global<T>`: a buffer that the kernel may write.
pub struct Out<T>(PhantomData<fn() -> T>);

impl<T: Element, S: Space> DeviceValue for Pointer<T, S> {
    const INDEXES_MEMORY: bool = true;

    fn visit_registers(&mut self, visit: &mut dyn FnMut(&mut Register)) {
        self.base.visit_registers(visit);
    }

    fn same_shape(&self, other: &Self) -> bool {
        self.offset == other.offset && self.writable == other.writable
    }

    #[track_caller]
    fn settle(&mut self) {
        *self = Self { base: self.address_of_view(), offset: 0, ..*self };
    }
}

impl<T: Element, S: Space> Yields<Self> for Pointer<T, S> {
    #[track_caller]
    fn yield_into(mut self, sources: &mut Sources) -> Self {
        yield_registers(&mut self, sources);
        self
    }
}
