//! Tensor maps: the layout of a tensor in global memory and the box that a copy moves, as the
//! tensor memory accelerator reads it. PTX ISA, "Tensor map".

use warpwright_ir::{self as ir, Operand, Parameter, ParameterType};

use crate::DeviceValue;
use crate::index::{ElementOffset, Index};
use crate::operation::{compute, here, perform, refuse};
use crate::parameter::KernelParameter;
use crate::pointer::{Generic, Global, advance};
use crate::recorder;
use crate::requirement::{Feature, require};
use crate::value::Reg;

pub use warpwright_arch::tensor_map::{TENSOR_MAP_ALIGN, TENSOR_MAP_BYTES};

/// A tensor map, by its address: a kernel takes one as `a: &TensorMap`, and the launch passes it by
/// value, so that it is a kernel parameter, which the hardware may read without a fence.
///
/// ```
/// use warpwright_lang::tensor_map::TensorMap;
/// use warpwright_lang::{kernel, launch};
///
/// #[kernel]
/// fn prefetch(a: &TensorMap) {
///     launch::threads(32);
///     a.prefetch();
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
    #[track_caller]
    pub fn in_global(address: Global<u8>) -> Self {
        Self { address: address.generic().address() }
    }

    /// Its generic address.
    pub fn address(self) -> Reg<u64> {
        self.address
    }

    /// Its bytes.
    pub fn bytes(self) -> Generic<u8> {
        Generic::from_address(self.address, false)
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

/// A field of a struct by value.
#[diagnostic::do_not_recommend]
impl KernelParameter for TensorMap {
    type Host = Self;
    type Value = Self;

    #[track_caller]
    fn declare(name: &str) -> Self {
        Self { address: declare_maps(name, 1) }
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
        let address = match index.element_offset() {
            ElementOffset::Known(0) => self.first,
            ElementOffset::Known(known) => {
                if !(0..N as i64).contains(&known) {
                    refuse(format!("tensor map {known} of {N}: the first is tensor map 0"));
                }
                compute("add.u64", [self.first.operand(), Operand::Integer((known * bytes).into())])
            }
            ElementOffset::Device { index, word } => advance(self.first, index, word, bytes),
        };
        TensorMap { address }
    }
}

#[diagnostic::do_not_recommend]
impl<const N: usize> KernelParameter for &TensorMaps<N> {
    type Host = TensorMaps<N>;
    type Value = TensorMaps<N>;

    #[track_caller]
    fn declare(name: &str) -> TensorMaps<N> {
        TensorMaps { first: declare_maps(name, N) }
    }
}

/// Declares `count` tensor maps as one parameter; their generic address.
#[track_caller]
fn declare_maps(name: &str, count: usize) -> Reg<u64> {
    require(Feature::TensorCopies);
    if count == 0 {
        refuse("an array of tensor maps has at least one element");
    }
    let location = here();
    let in_bank: Reg<u64> = recorder::with(|recorder| {
        let size = count.max(1) * TENSOR_MAP_BYTES;
        let ty = ParameterType::Bytes { size: size as u32, align: TENSOR_MAP_ALIGN as u32 };
        recorder.kernel().parameters.push(Parameter { name: name.to_owned(), ty });
        let register = recorder.fresh(ir::RegisterClass::B64);
        let operands = vec![Operand::Register(register), Operand::Symbol(name.to_owned())];
        recorder.emit("mov.b64", 1, operands, location);
        Reg::from_register(register)
    });
    compute("cvta.param.u64", [in_bank.operand()])
}
