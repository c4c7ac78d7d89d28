//! Tensor maps that a kernel derives from others, field by field: for tensors whose addresses and
//! extents only the device knows, such as the problems of a grouped GEMM. sm_90a. PTX ISA,
//! `tensormap.replace`, `tensormap.cp_fenceproxy`.
//!
//! ```
//! use warpwright_lang::access::Scope;
//! use warpwright_lang::fence::fence_tensor_map_acquire;
//! use warpwright_lang::pointer::Global;
//! use warpwright_lang::tensor_map::TensorMap;
//! use warpwright_lang::tensor_map_draft::TensorMapDraft;
//! use warpwright_lang::{kernel, launch, special::thread_idx, warp};
//!
//! /// The map of another matrix of `rows` rows, made from that of a matrix like it.
//! #[kernel]
//! fn another(like: &TensorMap, matrix: &Global<f32>, rows: u32, room: &mut Global<u8>) {
//!     launch::threads(32);
//!     let draft = TensorMapDraft::shared();
//!     draft.copy(*like, thread_idx().x);
//!     if thread_idx().x == 0 {
//!         draft.set_address(*matrix);
//!         draft.set_extent(1, rows);
//!     }
//!     warp::sync_warp(warp::ALL_LANES);
//!     let made = draft.publish(*room, Scope::Device);
//!     fence_tensor_map_acquire(made, Scope::Device);
//!     made.prefetch();
//! }
//! assert!(another().is_ok());
//! ```

use warpwright_arch::tensor_map::{ElementType, Fill, Interleave, MOST_AXES, Swizzle, TENSOR_MAP_BYTES};
use warpwright_ir::Operand;

use crate::DeviceValue;
use crate::access::Scope;
use crate::element::Element;
use crate::object;
use crate::operation::{perform, record, refuse};
use crate::pointer::{Global, Pointer};
use crate::requirement::{Feature, require};
use crate::shared::shared_bytes;
use crate::space::{GlobalSpace, SharedSpace, Space};
use crate::tensor_map::TensorMap;
use crate::value::Value;
use crate::warp::{ALL_LANES, sync_warp};

/// A space in which tensor maps can be written.
pub trait DraftSpace: Space {
    /// The word in opcodes.
    const DRAFT: &'static str;
}

impl DraftSpace for SharedSpace {
    const DRAFT: &'static str = "shared::cta";
}

impl DraftSpace for GlobalSpace {
    const DRAFT: &'static str = "global";
}

/// A tensor map that is being written, in shared or in global memory. One thread writes each field.
#[derive(Clone, Copy, DeviceValue)]
pub struct TensorMapDraft<S: DraftSpace> {
    bytes: Pointer<u8, S>,
}

impl TensorMapDraft<SharedSpace> {
    /// A draft in static shared memory.
    #[track_caller]
    pub fn shared() -> Self {
        let draft =
            shared_bytes("TensorMapDraft::shared()", TENSOR_MAP_BYTES as u64, TENSOR_MAP_BYTES as u32, 1);
        object::array(draft, "tensor map", TENSOR_MAP_BYTES as u32, 1);
        Self::at(draft)
    }

    /// Copies it to `target` in global memory and releases it there to the threads of `scope`,
    /// which [acquire it](crate::fence::fence_tensor_map_acquire) before they use it. All lanes of
    /// a warp execute it together, after the writing thread has synchronized with them.
    #[track_caller]
    pub fn publish(self, target: Global<u8>, scope: Scope) -> TensorMap {
        require(Feature::TensorMapReplace);
        target.demand_writable();
        let opcode = format!(
            "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release{}.sync.aligned",
            scope.word()
        );
        let bytes = Operand::Integer(TENSOR_MAP_BYTES as i128);
        perform(opcode, [target.operand(), self.bytes.operand(), bytes]);
        TensorMap::in_global(target)
    }
}

impl<S: DraftSpace> TensorMapDraft<S> {
    /// The one at `bytes`, whose address is a multiple of 64 (of 128 to publish it).
    pub fn at(bytes: Pointer<u8, S>) -> Self {
        Self { bytes }
    }

    /// Copies `map`: the 32 lanes of a warp, with index `lane`, copy 4 bytes each, and synchronize.
    #[track_caller]
    pub fn copy(self, map: TensorMap, lane: impl Value<u32>) {
        let lane = lane.reg();
        self.bytes.cast::<u32>().at(lane).store(map.bytes().cast::<u32>().at(lane).load());
        sync_warp(ALL_LANES);
    }

    /// The tensor begins at `address`, a multiple of 16.
    #[track_caller]
    pub fn set_address<T: Element>(self, address: Global<T>) {
        let address = address.generic().address();
        self.replace("global_address", "b64", &[address.operand()]);
    }

    /// The tensor has `axes` axes, 1 to 5.
    #[track_caller]
    pub fn set_axes(self, axes: u32) {
        if !(1..=MOST_AXES as u32).contains(&axes) {
            refuse(format!("a tensor map has 1 to {MOST_AXES} axes, not {axes}"));
        }
        // PTX ISA: the field holds the rank minus one.
        self.replace("rank", "b32", &[Operand::Integer(i128::from(axes) - 1)]);
    }

    /// A box has `extent` elements along `axis`, counted from the contiguous one.
    #[track_caller]
    pub fn set_box_extent(self, axis: u32, extent: impl Value<u32>) {
        self.replace_of_axis("box_dim", "b32", axis, 0, extent.operand());
    }

    /// The tensor has `extent` elements along `axis`.
    #[track_caller]
    pub fn set_extent(self, axis: u32, extent: impl Value<u32>) {
        self.replace_of_axis("global_dim", "b32", axis, 0, extent.operand());
    }

    /// Sets the stride along `axis` (not 0, the contiguous one) to `bytes` bytes, a multiple of 16.
    #[track_caller]
    pub fn set_stride(self, axis: u32, bytes: impl Value<u64>) {
        self.replace_of_axis("global_stride", "b64", axis, 1, bytes.operand());
    }

    /// Along `axis`, each `step`-th element of the box is taken.
    #[track_caller]
    pub fn set_element_stride(self, axis: u32, step: impl Value<u32>) {
        self.replace_of_axis("element_stride", "b32", axis, 0, step.operand());
    }

    /// The elements are of this type.
    #[track_caller]
    pub fn set_element(self, element: ElementType) {
        let Some(number) = element_number(element) else {
            return refuse(format!(
                "a kernel cannot set the element type of a tensor map to {}",
                element.name()
            ));
        };
        self.replace("elemtype", "b32", &[Operand::Integer(number)]);
    }

    /// Channels are grouped so.
    #[track_caller]
    pub fn set_interleave(self, interleave: Interleave) {
        let number = match interleave {
            Interleave::None => 0,
            Interleave::Bytes16 => 1,
            Interleave::Bytes32 => 2,
        };
        self.replace("interleave_layout", "b32", &[Operand::Integer(number)]);
    }

    /// The rows of a box are permuted so in shared memory.
    #[track_caller]
    pub fn set_swizzle(self, swizzle: Swizzle) {
        let number = match swizzle {
            Swizzle::None => 0,
            Swizzle::Bytes32 => 1,
            Swizzle::Bytes64 => 2,
            Swizzle::Bytes128 => 3,
            Swizzle::Bytes128Atom32 | Swizzle::Bytes128Atom32Flip8 | Swizzle::Bytes128Atom64 => {
                return refuse(
                    "a kernel can set the swizzle to 32, 64 or 128 bytes with 16-byte units, or to none",
                );
            }
        };
        self.replace("swizzle_mode", "b32", &[Operand::Integer(number)]);
    }

    /// The value of elements loaded from outside the tensor.
    #[track_caller]
    pub fn set_fill(self, fill: Fill) {
        let number = match fill {
            Fill::Zeros => 0,
            Fill::Nan => 1,
        };
        self.replace("fill_mode", "b32", &[Operand::Integer(number)]);
    }

    /// Replaces the field of an axis; the field is numbered from axis `first`.
    #[track_caller]
    fn replace_of_axis(self, field: &str, ty: &str, axis: u32, first: u32, value: Operand) {
        if !(first..MOST_AXES as u32).contains(&axis) {
            return refuse(format!(
                "this field exists for axes {first} to {}; axis {axis} is out of range",
                MOST_AXES - 1
            ));
        }
        self.replace(field, ty, &[Operand::Integer(i128::from(axis - first)), value]);
    }

    #[track_caller]
    fn replace(self, field: &str, ty: &str, values: &[Operand]) {
        require(Feature::TensorMapReplace);
        self.bytes.demand_writable();
        let operands = [&[self.bytes.operand()], values].concat();
        let opcode = format!("tensormap.replace.tile.{field}.{}.b1024.{ty}", S::DRAFT);
        record(opcode, 0, operands);
    }
}

/// The number that the PTX ISA gives an element type; the driver API numbers some of them
/// otherwise.
fn element_number(element: ElementType) -> Option<i128> {
    use ElementType::{
        B4x16, B4x16P64, B6x16P32, Bf16, F16, F32, F32Ftz, F64, S32, S64, Tf32, Tf32Ftz, U8, U16, U32, U64,
    };
    Some(match element {
        U8 => 0,
        U16 => 1,
        U32 => 2,
        S32 => 3,
        U64 => 4,
        S64 => 5,
        F16 => 6,
        F32 => 7,
        F32Ftz => 8,
        F64 => 9,
        Bf16 => 10,
        Tf32 => 11,
        Tf32Ftz => 12,
        B4x16 | B4x16P64 | B6x16P32 => return None,
    })
}
