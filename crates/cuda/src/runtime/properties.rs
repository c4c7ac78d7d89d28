//! `cudaDeviceProp` of CUDA 12 and 13, from the attributes of the device.

use crate::attribute::attribute;
use crate::driver::device::identity;
use crate::edge::Out;
use crate::machine::{Machine, machine};
use crate::status::Result;

/// A field of the structure.
enum Field {
    /// Numbers of 32 bits, by their attributes.
    Ints(&'static [i32]),
    /// A number of 64 bits, by its attribute.
    Size(i32),
    /// The name, in 256 bytes; the identity, in 16; 8 bytes that other systems use.
    Name,
    Identity,
    Luid,
    /// The bytes of global memory.
    Memory,
}

use Field::{Identity, Ints, Luid, Memory, Name, Size};

/// The fields in their order, and the versions that have them.
const FIELDS: &[(Field, &[u32])] = {
    const BOTH: &[u32] = &[12, 13];
    const OLD: &[u32] = &[12];
    const NEW: &[u32] = &[13];
    &[
        (Name, BOTH),
        (Identity, BOTH),
        (Luid, BOTH),
        (Ints(&[0]), BOTH),
        (Memory, BOTH),
        (Size(8), BOTH),
        (Ints(&[12, 10]), BOTH),
        (Size(11), BOTH),
        (Ints(&[1, 2, 3, 4, 5, 6, 7]), BOTH),
        (Ints(&[13]), OLD),
        (Size(9), BOTH),
        (Ints(&[75, 76]), BOTH),
        (Size(14), BOTH),
        (Size(51), BOTH),
        (Ints(&[15]), OLD),
        (Ints(&[16]), BOTH),
        (Ints(&[17]), OLD),
        (Ints(&[18, 19]), BOTH),
        (Ints(&[20]), OLD),
        (Ints(&[21, 77]), BOTH),
        (Ints(&[69]), OLD),
        (Ints(&[22, 23, 73, 74, 70, 71, 72, 45, 46]), BOTH),
        (Ints(&[24, 25, 26, 47, 48, 49, 52, 42, 43, 27, 28, 29, 53, 54]), BOTH),
        (Ints(&[55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68]), BOTH),
        (Size(30), BOTH),
        (Ints(&[31, 32, 33, 34, 50, 35, 40, 41]), BOTH),
        (Ints(&[36]), OLD),
        (Ints(&[37, 38, 108, 39, 78, 79, 80]), BOTH),
        (Size(81), BOTH),
        (Ints(&[82, 83, 84, 85, 86]), BOTH),
        (Ints(&[87]), OLD),
        (Ints(&[88, 89, 90, 91, 95]), BOTH),
        (Ints(&[96]), OLD),
        (Size(97), BOTH),
        (Ints(&[100, 101, 106, 109]), BOTH),
        (Size(111), BOTH),
        (Ints(&[99, 112, 113, 114, 115, 116, 117, 118, 119, 121, 125, 120, 129]), BOTH),
        (Ints(&[130, 131, 133, 134, 139, 140, 143]), NEW),
    ]
};

/// The numbers that are reserved at the end.
const RESERVED: usize = 56;

/// Writes the structure of a version.
pub(super) fn write(to: Out<u8>, version: u32) -> Result<()> {
    let machine = machine()?;
    let mut bytes = Vec::new();
    for (field, versions) in FIELDS {
        if versions.contains(&version) {
            field.append(machine, &mut bytes)?;
        }
    }
    bytes.resize(bytes.len() + 4 * RESERVED, 0);
    to.check()?;
    bytes.iter().enumerate().try_for_each(|(index, byte)| to.at(index).set(*byte))
}

impl Field {
    fn append(&self, machine: &Machine, bytes: &mut Vec<u8>) -> Result<()> {
        let value = |number: i32| if number == 0 { Ok(0) } else { attribute(machine.arch, number) };
        match self {
            Ints(numbers) => {
                for number in *numbers {
                    bytes.extend(value(*number)?.to_le_bytes());
                }
            }
            Size(number) => {
                bytes.resize(bytes.len().next_multiple_of(8), 0);
                bytes.extend((value(*number)? as u64).to_le_bytes());
            }
            Memory => {
                bytes.resize(bytes.len().next_multiple_of(8), 0);
                bytes.extend(machine.arch.global_bytes.to_le_bytes());
            }
            Name => {
                bytes.extend(machine.arch.product.bytes().take(255));
                bytes.resize(256, 0);
            }
            Identity => bytes.extend(identity(machine)),
            Luid => bytes.extend([0; 8]),
        }
        Ok(())
    }
}
