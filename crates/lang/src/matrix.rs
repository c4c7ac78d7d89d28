//! Matrix instructions of a warp: `ldmatrix`, `stmatrix`, `movmatrix`, `mma.sync`. All 32 lanes
//! execute them together.

use warpwright_arch::DataType;
use warpwright_ir::Operand;
use warpwright_layout::atom::{Family, MmaAtom, Operand as MatrixOperand};

use crate::element::Element;
use crate::operation::{compute, fresh, perform, record, refuse};
use crate::pointer::Shared;
use crate::requirement::{Feature, require, target};
use crate::value::Reg;

fn registers<T: Element>(values: &[Reg<T>]) -> Operand {
    Operand::Vector(values.iter().map(|value| Reg::operand(*value)).collect())
}

/// Loads `N` (1, 2 or 4) matrices of 8 rows of 16 bytes from shared memory. Lane `8 * i + r` gives
/// the address of row `r` of matrix `i`, and receives, of each matrix, the 32 bits at column pair
/// `lane % 4` of row `lane / 4`. PTX ISA, `ldmatrix`.
#[track_caller]
pub fn ldmatrix<T: Element, const N: usize>(row: Shared<T>) -> [Reg<u32>; N] {
    load_matrices(row, "")
}

/// [`ldmatrix`] with each matrix of 8x8 16-bit elements transposed.
#[track_caller]
pub fn ldmatrix_transposed<T: Element, const N: usize>(row: Shared<T>) -> [Reg<u32>; N] {
    load_matrices(row, ".trans")
}

#[track_caller]
fn load_matrices<T: Element, const N: usize>(row: Shared<T>, transposed: &str) -> [Reg<u32>; N] {
    let destination = [(); N].map(|()| fresh());
    if !matches!(N, 1 | 2 | 4) {
        refuse(format!("ldmatrix loads 1, 2 or 4 matrices, not {N}"));
    } else {
        let opcode = format!("ldmatrix.sync.aligned.m8n8.x{N}{transposed}.shared.b16");
        record(opcode, 1, vec![registers(&destination), row.operand()]);
    }
    destination
}

/// Stores `N` matrices to shared memory, the reverse of [`ldmatrix`]; sm_90.
#[track_caller]
pub fn stmatrix<T: Element, const N: usize>(row: Shared<T>, matrices: [Reg<u32>; N]) {
    store_matrices(row, matrices, "");
}

/// Stores `N` matrices to shared memory, the reverse of [`ldmatrix_transposed`]; sm_90.
#[track_caller]
pub fn stmatrix_transposed<T: Element, const N: usize>(row: Shared<T>, matrices: [Reg<u32>; N]) {
    store_matrices(row, matrices, ".trans");
}

#[track_caller]
fn store_matrices<T: Element, const N: usize>(row: Shared<T>, matrices: [Reg<u32>; N], transposed: &str) {
    require(Feature::StoreMatrix);
    if !matches!(N, 1 | 2 | 4) {
        return refuse(format!("stmatrix stores 1, 2 or 4 matrices, not {N}"));
    }
    row.demand_writable();
    let opcode = format!("stmatrix.sync.aligned.m8n8.x{N}{transposed}.shared.b16");
    perform(opcode, [row.operand(), registers(&matrices)]);
}

/// Transposes an 8x8 matrix of 16-bit elements that the warp holds in the layout of `ldmatrix`:
/// `movmatrix`.
#[track_caller]
pub fn movmatrix(matrix: Reg<u32>) -> Reg<u32> {
    compute("movmatrix.sync.aligned.m8n8.trans.b16", [matrix.operand()])
}

/// Adds the product of `a` and `b` to `accumulators`, in place: one `mma.sync` of the atom's shape
/// and types.
///
/// Each slice holds this lane's fragment as the atom lays it out: 32-bit registers of packed
/// elements (64-bit for f64), as many as [`MmaAtom::registers`] says.
#[track_caller]
pub fn mma_sync<C: Element, A: Element, B: Element>(
    accumulators: &mut [Reg<C>],
    a: &[Reg<A>],
    b: &[Reg<B>],
    atom: &MmaAtom,
) {
    let accumulator = registers(accumulators);
    if !is_legal::<C>(accumulators.len(), MatrixOperand::C, atom)
        || !is_legal::<A>(a.len(), MatrixOperand::A, atom)
        || !is_legal::<B>(b.len(), MatrixOperand::B, atom)
        || !target_has(atom)
    {
        return;
    }
    record(atom.instruction(), 1, vec![accumulator.clone(), registers(a), registers(b), accumulator]);
}

#[track_caller]
fn is_legal<T: Element>(given: usize, operand: MatrixOperand, atom: &MmaAtom) -> bool {
    let bits = atom.registers(operand).unwrap_or_default() * 32;
    let width = 8 * i64::from(T::BYTES);
    let legal = (width >= 32).then_some(bits / width);
    let element = atom.element(operand);
    if is_another_float::<T>(element) {
        refuse(format!(
            "`mma_sync`: {} has {operand:?} of {element}, and these registers hold {}: convert them, or use the atom of their type",
            atom.name(),
            T::NAME
        ));
        return false;
    }
    if atom.family == Family::Warpgroup {
        refuse(format!("{} is a warpgroup's instruction, not a warp's", atom.name()));
        return false;
    }
    if atom.family == Family::SparseWarp || atom.c != atom.d {
        let why = if atom.c == atom.d {
            "takes metadata"
        } else {
            "takes accumulators of one type and gives another"
        };
        refuse(format!("{} {why}, which mma_sync has no operand for: write it with ptx!", atom.name()));
        return false;
    }
    if legal != Some(given as i64) {
        refuse(format!(
            "operand {operand:?} of {} takes {bits} bits a lane in 32-bit registers of {}; this gives {given} registers of {}",
            atom.name(),
            atom.element(operand).ptx(),
            T::NAME
        ));
        return false;
    }
    true
}

/// Whether a register's type names floats other than the operand's. Other registers, such as u32,
/// hold any elements.
fn is_another_float<T: Element>(element: DataType) -> bool {
    match T::NAME {
        "f16x2" => element != DataType::F16,
        "bf16x2" => element != DataType::Bf16,
        "f32" => !matches!(element, DataType::F32 | DataType::Tf32),
        "f64" => element != DataType::F64,
        _ => false,
    }
}

#[track_caller]
fn target_has(atom: &MmaAtom) -> bool {
    let needed = atom.sm;
    let Some(capability) = target() else { return true };
    let (major, minor) = capability.compute_capability;
    if major * 10 + minor < needed {
        let fp8 = matches!(atom.a, DataType::E4m3 | DataType::E5m2);
        let hint = if fp8 { "; convert the operands to f16 first" } else { "" };
        refuse(format!(
            "not available on {}, which this kernel is built for: {} (sm_{needed} and later){hint}",
            capability.target,
            atom.instruction()
        ));
        return false;
    }
    true
}
