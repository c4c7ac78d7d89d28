//! Tensor maps: the layout of a tensor in global memory and the box that a copy moves, as the
//! tensor memory accelerator reads it. PTX ISA, "Tensor map".

use warpwright_ir::{self as ir, Operand, Parameter, ParameterType, TensorMapNeeds};

use crate::DeviceValue;
use crate::index::{ElementOffset, Index};
use crate::operation::{compute, here, perform, refuse};
use crate::parameter::KernelParameter;
use crate::pointer::{Generic, Global, advance};
use crate::recorder;
use crate::recorder::TensorMapOrigin;
use crate::requirement::{Feature, require};
use crate::tensor_map_boxes::{Boxes, is_writable, need, need_extent, one_of, remembered};
use crate::value::Reg;

pub use warpwright_arch::tensor_map::{TENSOR_MAP_ALIGN, TENSOR_MAP_BYTES};

/// A tensor map, by its address: a kernel takes one as `a: &TensorMap`, and the launch passes it by
/// value, so that it is a kernel parameter, which the hardware may read without a fence.
///
/// A launch compares the map passed with what the kernel's copies need: element type, rank, box,
/// swizzle, interleave and mode. Copies of tiles ([`Pipeline`](crate::pipeline::Pipeline),
/// [`StoreBuffers`](crate::tensor::StoreBuffers)) state it themselves. For the copies of
/// [`tma`](crate::tma), [`boxes`](Self::boxes) states it.
///
/// A kernel writes to the tensor through a `c: &mut TensorMap` only: stores and reductions by another
/// map are refused when the kernel is built. The launch passes a `&mut TensorMap` that was made from a
/// `&mut Buffer`.
///
/// ```
/// use warpwright_lang::tensor::TmaTile;
/// use warpwright_lang::tensor_map::TensorMap;
/// use warpwright_lang::{kernel, launch, tma};
/// use warpwright_layout::atom::Major;
///
/// #[kernel]
/// fn prefetch(a: &TensorMap) {
///     launch::threads(32);
///     a.prefetch();
///     a.boxes(TmaTile::new::<f32>((64, 32), Major::K));
///     tma::prefetch(*a, [0, 0]);
/// }
/// assert!(prefetch().is_ok());
/// ```
#[derive(Clone, Copy, DeviceValue)]
pub struct TensorMap {
    address: Reg<u64>,
}

impl TensorMap {
    /// The map at `address` in global memory, which the kernel (or one before it) has written: what
    /// was written must be acquired by
    /// [`fence_tensor_map_acquire`](crate::fence::fence_tensor_map_acquire) first.
    ///
    /// It is untyped: no launch compares it with what the copies need.
    #[track_caller]
    pub fn in_global(address: Global<u8>) -> Self {
        let origin = TensorMapOrigin::Untyped { writable: true };
        Self { address: remembered(address.generic().address(), origin) }
    }

    /// The same map, untyped: copies may use any box, and no launch compares it with what they
    /// need. A map whose box differs from the kernel's tile gives wrong elements or a deadlock.
    #[track_caller]
    pub fn untyped(self) -> Self {
        let writable = is_writable(self);
        let address = compute("mov.b64", [self.address.operand()]);
        Self { address: remembered(address, TensorMapOrigin::Untyped { writable }) }
    }

    /// States what the copies by this map need: the boxes of a [`TmaTile`](crate::tensor::TmaTile),
    /// or any [`Requirement`](warpwright_arch::tensor_map::Requirement). The launch compares it
    /// with the map passed.
    ///
    /// Two statements, or copies of tiles, that need different boxes of one map are a mistake.
    #[track_caller]
    pub fn boxes(self, boxes: impl Boxes) {
        // A closure would hide the author's position from `refuse`.
        match boxes.requirement() {
            Ok(boxes) => need(self, &boxes),
            Err(error) => refuse(error.to_string()),
        }
    }

    /// States that the kernel assumes `extent` elements of the tensor along `axis`, counted from
    /// the contiguous one. The launch compares it with the map passed.
    #[track_caller]
    pub fn assume_extent(self, axis: usize, extent: u64) {
        need_extent(self, axis, extent);
    }

    /// Its generic address.
    pub fn address(self) -> Reg<u64> {
        self.address
    }

    /// Its bytes.
    pub fn bytes(self) -> Generic<u8> {
        Generic::from_address(self.address)
    }

    /// Prefetches the map into the cache that copies read it from.
    #[track_caller]
    pub fn prefetch(self) {
        require(Feature::TensorCopies);
        perform("prefetch.tensormap", [self.bytes().operand()]);
    }
}

#[diagnostic::do_not_recommend]
impl KernelParameter for &TensorMap {
    type Host = TensorMap;
    type Value = TensorMap;

    #[track_caller]
    fn declare(name: &str) -> TensorMap {
        TensorMap::declare(name)
    }
}

/// What a launch passes for a `&mut TensorMap`: a map of a buffer that the kernel may write.
pub struct OutTensorMap(());

#[diagnostic::do_not_recommend]
impl KernelParameter for &mut TensorMap {
    type Host = OutTensorMap;
    type Value = TensorMap;

    #[track_caller]
    fn declare(name: &str) -> TensorMap {
        TensorMap { address: declare_maps(name, 1, true) }
    }
}

/// A field of a struct by value.
#[diagnostic::do_not_recommend]
impl KernelParameter for TensorMap {
    type Host = Self;
    type Value = Self;

    #[track_caller]
    fn declare(name: &str) -> Self {
        Self { address: declare_maps(name, 1, false) }
    }
}

/// The parameter of a kernel that takes a tensor map of any type: `a: &UntypedTensorMap` is a
/// [`TensorMap`] in the body, and a `&TensorMap` at the launch, which is not compared with what the
/// copies need. A kernel writes through a `&mut UntypedTensorMap`. See [`TensorMap::untyped`].
#[derive(Clone, Copy)]
pub struct UntypedTensorMap(());

#[diagnostic::do_not_recommend]
impl KernelParameter for &UntypedTensorMap {
    type Host = TensorMap;
    type Value = TensorMap;

    #[track_caller]
    fn declare(name: &str) -> TensorMap {
        let origin = TensorMapOrigin::Untyped { writable: false };
        TensorMap { address: remembered(declare_maps(name, 1, false), origin) }
    }
}

#[diagnostic::do_not_recommend]
impl KernelParameter for &mut UntypedTensorMap {
    type Host = OutTensorMap;
    type Value = TensorMap;

    #[track_caller]
    fn declare(name: &str) -> TensorMap {
        let origin = TensorMapOrigin::Untyped { writable: true };
        TensorMap { address: remembered(declare_maps(name, 1, true), origin) }
    }
}

/// Several tensor maps by value, indexed on the device, for example those of the problems of a
/// grouped GEMM. A kernel takes them as `maps: &TensorMaps<8>`, and the launch passes an array of
/// references.
#[derive(Clone, Copy, DeviceValue)]
pub struct TensorMaps<const N: usize> {
    first: Reg<u64>,
}

impl<const N: usize> TensorMaps<N> {
    /// Map `index`, known at build time or on the device.
    #[track_caller]
    pub fn at(self, index: impl Index) -> TensorMap {
        let bytes = TENSOR_MAP_BYTES as i64;
        let (address, which) = match index.element_offset() {
            ElementOffset::Known(0) => return TensorMap { address: self.first },
            ElementOffset::Known(known) => {
                if !(0..N as i64).contains(&known) {
                    refuse(format!("tensor map {known} is out of range: the first of {N} is tensor map 0"));
                }
                let offset = Operand::Integer((known * bytes).into());
                (compute("add.u64", [self.first.operand(), offset]), Some(known as usize))
            }
            ElementOffset::Device { index, word } => (advance(self.first, index, word, bytes), None),
        };
        TensorMap { address: one_of(self.first, address, which) }
    }
}

#[diagnostic::do_not_recommend]
impl<const N: usize> KernelParameter for &TensorMaps<N> {
    type Host = TensorMaps<N>;
    type Value = TensorMaps<N>;

    #[track_caller]
    fn declare(name: &str) -> TensorMaps<N> {
        TensorMaps { first: declare_maps(name, N, false) }
    }
}

/// What a launch passes for a `&mut TensorMaps<N>`: maps of buffers that the kernel may write.
pub struct OutTensorMaps<const N: usize>(());

#[diagnostic::do_not_recommend]
impl<const N: usize> KernelParameter for &mut TensorMaps<N> {
    type Host = OutTensorMaps<N>;
    type Value = TensorMaps<N>;

    #[track_caller]
    fn declare(name: &str) -> TensorMaps<N> {
        TensorMaps { first: declare_maps(name, N, true) }
    }
}

/// Declares `count` tensor maps as one parameter; their generic address.
#[track_caller]
fn declare_maps(name: &str, count: usize, writable: bool) -> Reg<u64> {
    require(Feature::TensorCopies);
    if count == 0 {
        refuse("an array of tensor maps has at least one element");
    }
    let location = here();
    let (parameter, in_bank) = recorder::with(|recorder| {
        let needs = vec![TensorMapNeeds::default(); count.max(1)];
        let ty = ParameterType::TensorMaps { needs, writable };
        let parameters = &mut recorder.kernel().parameters;
        let index = parameters.len();
        parameters.push(Parameter { name: name.to_owned(), ty });
        let register = recorder.fresh(ir::RegisterClass::B64);
        let operands = vec![Operand::Register(register), Operand::Symbol(name.to_owned())];
        recorder.emit("mov.b64", 1, operands, location);
        (index, Reg::<u64>::from_register(register))
    });
    let address = compute("cvta.param.u64", [in_bank.operand()]);
    remembered(address, TensorMapOrigin::Parameter { index: parameter, maps: 0..1 })
}
