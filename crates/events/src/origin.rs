//! The arrays that addresses are computed from.
//!
//! PTX names an array of shared or local memory once, where a register takes its address; accesses
//! add to the register. What every definition of a register says is enough to follow that: an
//! address that all of them compute from the same array is in it, in a program that is right. Where
//! definitions differ, or an address comes from memory or from a call, nothing is known.

use crate::code::{Base, Class, Code, Instruction, Register};

/// What a register holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Origin {
    /// No definition has been followed yet.
    #[default]
    Undefined,
    /// A number that is not an address as far as is known.
    Plain,
    /// An address computed from an array, by index.
    Array(u32),
    /// Addresses computed from several arrays.
    Several,
}

impl Origin {
    /// Of a register with two definitions.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Origin::Undefined, known) | (known, Origin::Undefined) => known,
            (a, b) if a == b => a,
            _ => Origin::Several,
        }
    }

    /// Of the sum of two operands.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Origin::Array(a), Origin::Array(b)) if a != b => Origin::Several,
            (Origin::Several, _) | (_, Origin::Several) => Origin::Several,
            (array @ Origin::Array(_), _) | (_, array @ Origin::Array(_)) => array,
            (Origin::Undefined, _) | (_, Origin::Undefined) => Origin::Undefined,
            (Origin::Plain, Origin::Plain) => Origin::Plain,
        }
    }
}

/// First words of the instructions whose result is an address if an operand is one, or bits of it:
/// of a swizzle, or of a descriptor. Others make numbers of addresses: a comparison, a product.
const KEEP: [&str; 23] = [
    "add", "and", "bfe", "bfi", "cvt", "cvta", "lop3", "mad", "mad24", "mapa", "max", "min", "mov", "or",
    "selp", "shf", "shfl", "shl", "shr", "slct", "sub", "vadd", "xor",
];

/// The arrays that the registers of a kernel hold addresses of, whatever path it takes.
#[derive(Debug, Default)]
pub struct Origins(Vec<Origin>);

impl Origins {
    /// Follows all definitions of all registers.
    pub fn of(code: &Code) -> Self {
        if code.arrays.is_empty() {
            return Self::default();
        }
        let registers = |instruction: &Instruction| -> Vec<Register> {
            instruction.reads.iter().chain(&instruction.writes).copied().collect()
        };
        let count = code.instructions.iter().flat_map(registers).map(|register| register.0 + 1).max();
        let count = count.unwrap_or(0) as usize;
        let mut is_written = vec![false; count];
        for register in code.instructions.iter().flat_map(|instruction| &instruction.writes) {
            is_written[register.0 as usize] = true;
        }
        // The parameters of functions have no definition.
        let unwritten = |written: bool| if written { Origin::Undefined } else { Origin::Plain };
        let mut origins = Self(is_written.into_iter().map(unwritten).collect());
        loop {
            let mut changed = false;
            for instruction in &code.instructions {
                changed |= origins.follow(instruction);
            }
            if !changed {
                return origins;
            }
        }
    }

    /// The array that an address in brackets of an instruction is computed from, by index.
    pub fn array(&self, instruction: &Instruction, address: usize) -> Option<u32> {
        match *instruction.bases.get(address)? {
            Base::Register(register) => self.array_of(register),
            Base::Array(array) => Some(array),
            Base::Other => None,
        }
    }

    /// The array that a register holds an address of, or bits of one, by index.
    pub fn array_of(&self, register: Register) -> Option<u32> {
        match self.0.get(register.0 as usize)? {
            Origin::Array(array) => Some(*array),
            _ => None,
        }
    }

    /// Whether anything new is known of what the instruction writes.
    fn follow(&mut self, instruction: &Instruction) -> bool {
        if instruction.writes.is_empty() {
            return false;
        }
        let result = self.result(instruction);
        let mut changed = false;
        for register in &instruction.writes {
            let known = &mut self.0[register.0 as usize];
            let joined = known.or(result);
            changed |= *known != joined;
            *known = joined;
        }
        changed
    }

    fn result(&self, instruction: &Instruction) -> Origin {
        let name = instruction.name().split('.').next().unwrap_or_default();
        let is_memory = !matches!(instruction.class, Class::Other);
        if is_memory || !KEEP.contains(&name) {
            return Origin::Plain;
        }
        let of = |register: &Register| self.0[register.0 as usize];
        let named = instruction.arrays.iter().map(|&array| Origin::Array(array));
        let operands = instruction.reads.iter().map(of).chain(named);
        match (name, &*instruction.reads) {
            // The distance of two addresses.
            ("sub", [a, b]) if matches!((of(a), of(b)), (Origin::Array(a), Origin::Array(b)) if a == b) => {
                Origin::Plain
            }
            _ => operands.fold(Origin::Plain, Origin::and),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::{LoadPath, MemoryArray};
    use crate::event::MemorySpace;
    use crate::source::Inlining;
    use crate::work::{Unit, Work};

    /// An instruction that writes `writes`, from registers and from arrays.
    fn instruction(text: &str, writes: u32, reads: &[u32], arrays: &[u32]) -> Instruction {
        Instruction {
            line: 1,
            text: text.into(),
            source: None,
            inlining: Inlining::default(),
            form: None,
            class: Class::Other,
            is_parameter_access: false,
            guard: None,
            work: Work { unit: Unit::Control, by_lane: 0, by_warp: 0 },
            writes: [Register(writes)].into(),
            reads: reads.iter().map(|&register| Register(register)).collect(),
            arrays: arrays.into(),
            bases: [Base::Register(Register(writes))].into(),
        }
    }

    /// The array that the last instruction's register is an address of.
    fn origin(instructions: Vec<Instruction>) -> Option<u32> {
        let array = |start| MemoryArray {
            space: MemorySpace::Shared,
            variable: "tile".to_owned(),
            start,
            bytes: Some(64),
        };
        let last = instructions.len() - 1;
        let code = Code { instructions, arrays: vec![array(0), array(64)], ..Code::default() };
        Origins::of(&code).array(&code.instructions[last], 0)
    }

    #[test]
    fn an_address_keeps_its_array() {
        let tile = || instruction("mov.u32 r1, tile;", 1, &[], &[0]);
        let other = || instruction("mov.u32 r2, other;", 2, &[], &[1]);
        let index = || instruction("mad.lo.u32 r3, r9, 4, r1;", 3, &[9, 1], &[]);
        assert_eq!(origin(vec![tile(), index()]), Some(0));
        // A loop advances it.
        let step = || instruction("add.u32 r3, r3, 16;", 3, &[3], &[]);
        assert_eq!(origin(vec![step(), tile(), index(), step()]), Some(0));
        // So do the bits of a descriptor.
        let bits = || instruction("shr.u32 r4, r1, 3;", 4, &[1], &[]);
        assert_eq!(origin(vec![tile(), bits()]), Some(0));
        assert_eq!(
            origin(vec![tile(), bits(), other(), instruction("xor.b32 r5, r4, r2;", 5, &[4, 2], &[])]),
            None
        );
        // The distance of two is a number.
        let distance = || instruction("sub.u32 r4, r3, r1;", 4, &[3, 1], &[]);
        assert_eq!(origin(vec![tile(), index(), distance()]), None);
    }

    #[test]
    fn an_address_of_either_of_two_arrays_is_of_none() {
        let tile = || instruction("mov.u32 r1, tile;", 1, &[], &[0]);
        let other = || instruction("@p mov.u32 r1, other;", 1, &[], &[1]);
        let number = || instruction("mov.u32 r1, 64;", 1, &[], &[]);
        let index = || instruction("add.u32 r3, r1, r9;", 3, &[1, 9], &[]);
        assert_eq!(origin(vec![tile(), other(), index()]), None);
        assert_eq!(origin(vec![tile(), number(), index()]), None);
        assert_eq!(
            origin(vec![instruction("selp.b32 r3, r1, r2, p;", 3, &[1, 2], &[]), tile(), index()]),
            Some(0)
        );
    }

    #[test]
    fn what_memory_holds_is_a_number() {
        let tile = || instruction("mov.u32 r1, tile;", 1, &[], &[0]);
        let load = Instruction {
            class: Class::Load(LoadPath::Coherent),
            ..instruction("ld.shared.u32 r2, [r1];", 2, &[1], &[])
        };
        assert_eq!(origin(vec![tile(), load.clone()]), None);
        assert_eq!(
            origin(vec![tile(), load, instruction("mad.lo.u32 r3, r2, 4, r1;", 3, &[2, 1], &[])]),
            Some(0)
        );
    }

    #[test]
    fn the_name_of_an_instruction_is_in_its_text() {
        for (text, name) in
            [("@!%p1 add.f64 %fd1, %fd2, %fd3;", "add.f64"), ("ret;", "ret"), ("@%p bra L;", "bra")]
        {
            assert_eq!(instruction(text, 0, &[], &[]).name(), name);
        }
    }
}
