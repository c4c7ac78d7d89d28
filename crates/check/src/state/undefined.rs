//! Registers whose value is undefined, because nothing has written them, a shuffle took it from a lane that does not take part,
//! or a load took it from memory that nothing has written.

use std::collections::HashMap;

use smallvec::SmallVec;
use warpwright_events::{Actor, Base, Class, Instruction, LANES, MemorySpace, Register, lanes};

use crate::state::undefined_local::UndefinedLocal;
use crate::state::undefined_matrix::{UnwrittenRows, stored_bytes};
use crate::state::undefined_shared::UndefinedShared;

/// An undefined value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Undefined {
    /// The lanes in which the register holds it.
    pub(crate) lanes: u32,
    pub(crate) origin: Origin,
}

impl Undefined {
    /// What is undefined of either of two values.
    pub(crate) fn either(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        match (a, b) {
            (Some(a), Some(b)) => Some(Self { lanes: a.lanes | b.lanes, ..a }),
            (a, b) => a.or(b),
        }
    }

    /// The same in some of its lanes.
    pub(crate) fn within(self, lanes: u32) -> Option<Self> {
        Some(Self { lanes: self.lanes & lanes, ..self }).filter(|left| left.lanes != 0)
    }
}

/// Where an undefined value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A shuffle, the lanes that read, and the lanes that they read from.
    Shuffle { pc: u32, readers: u32, sources: u32 },
    /// A load of memory that nothing has written.
    Load { pc: u32 },
    /// A register that nothing has written.
    Unset,
}

/// An access of local or shared memory by an instruction.
#[derive(Clone, Debug)]
pub(crate) struct MemoryAccess {
    pub(crate) pc: u32,
    pub(crate) space: MemorySpace,
    pub(crate) addresses: [u64; LANES],
    pub(crate) bytes: u64,
}

/// The lanes in which each register that a load writes has a value that nothing has written.
pub(crate) type UnwrittenLanes = SmallVec<[u32; 4]>;

/// The registers that a load writes or a store reads. Those of a vector are next to each other in memory.
fn moved(instruction: &Instruction) -> &[Register] {
    if matches!(instruction.class, Class::Load(_)) {
        return &instruction.writes;
    }
    let is_base = |register: &Register| instruction.bases.first() == Some(&Base::Register(*register));
    let base = instruction.reads.first().filter(|register| is_base(register)).map_or(0, |_| 1);
    &instruction.reads[base..]
}

/// The lanes that are noted with an instruction.
fn lanes_at(noted: &[(u32, u32)], pc: u32) -> u32 {
    noted.iter().filter(|(at, _)| *at == pc).fold(0, |mask, (_, lanes)| mask | lanes)
}

/// What is known of the instructions that lanes are about to be reported to have executed.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    /// Instructions that lanes have reached and not executed.
    predicated_off: Vec<(u32, u32)>,
    /// Accesses of local and shared memory.
    accesses: Vec<MemoryAccess>,
    /// The lanes in which predicates hold that may decide a result.
    predicates: Vec<(u32, [u32; 2])>,
    /// Loads of unwritten memory.
    unwritten_loads: Vec<(u32, UnwrittenLanes)>,
    /// Loads of matrices with unwritten rows.
    unwritten_rows: Vec<(u32, UnwrittenRows)>,
}

impl Noted {
    fn has_no_loads(&self) -> bool {
        self.unwritten_loads.is_empty() && self.unwritten_rows.is_empty() && self.accesses.is_empty()
    }

    /// The lanes that have reached an instruction and not executed it.
    pub(crate) fn predicated_off(&self, pc: u32) -> u32 {
        lanes_at(&self.predicated_off, pc)
    }

    /// The lanes that have loaded unwritten memory, for each register of the load.
    pub(crate) fn unwritten(&self, pc: u32) -> &[u32] {
        self.unwritten_loads.iter().find(|(at, _)| *at == pc).map_or(&[], |(_, lanes)| lanes)
    }

    /// The unwritten rows of the matrices that are loaded.
    pub(crate) fn unwritten_rows(&self, pc: u32) -> &[(u32, u16)] {
        self.unwritten_rows.iter().find(|(at, _)| *at == pc).map_or(&[], |(_, rows)| rows)
    }

    pub(crate) fn access(&self, pc: u32) -> Option<&MemoryAccess> {
        self.accesses.iter().find(|access| access.pc == pc)
    }

    /// The lanes in which the deciding predicates of an instruction hold, which `is_of` its operations.
    fn predicates(&self, is_of: impl Fn(u32) -> bool) -> Option<[u32; 2]> {
        let of = self.predicates.iter().filter(|(at, _)| is_of(*at));
        of.map(|(_, values)| *values).reduce(|a, b| [a[0] | b[0], a[1] | b[1]])
    }
}

/// The undefined registers of a warp.
#[derive(Debug, Default)]
pub(crate) struct UndefinedRegisters {
    registers: HashMap<Register, Undefined>,
    /// Bytes of local memory that hold undefined values.
    pub(crate) local: UndefinedLocal,
    noted: Noted,
}

impl UndefinedRegisters {
    /// Those of lanes at the start of a kernel that may read these registers before it writes them.
    pub(crate) fn unset(registers: &[Register], lanes: u32) -> Self {
        let undefined = Undefined { lanes, origin: Origin::Unset };
        Self {
            registers: registers.iter().map(|register| (*register, undefined)).collect(),
            ..Self::default()
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.registers.is_empty() && self.noted.has_no_loads() && self.local.is_empty()
    }

    /// Keeps the lanes whose guard turned an instruction off.
    pub(crate) fn guarded_off(&mut self, actor: Actor) {
        if !self.is_empty() {
            self.noted.predicated_off.push((actor.pc, actor.lanes));
        }
    }

    /// Keeps the lanes in which predicates hold that may decide a result.
    pub(crate) fn deciding(&mut self, actor: Actor, values: [u32; 2]) {
        if !self.is_empty() {
            self.noted.predicates.push((actor.pc, values));
        }
    }

    /// Keeps an access of local or shared memory.
    pub(crate) fn accessing(&mut self, access: MemoryAccess) {
        self.noted.accesses.push(access);
    }

    /// Keeps the lanes that load memory that nothing has written, for each register that they load.
    pub(crate) fn loading_unwritten(&mut self, actor: Actor, lanes: UnwrittenLanes) {
        self.noted.unwritten_loads.push((actor.pc, lanes));
    }

    /// Keeps a load of matrices whose rows are unwritten in part.
    pub(crate) fn loading_unwritten_rows(&mut self, actor: Actor, rows: UnwrittenRows) {
        self.noted.unwritten_rows.push((actor.pc, rows));
    }

    /// What has been kept.
    pub(crate) fn take_noted(&mut self) -> Noted {
        std::mem::take(&mut self.noted)
    }

    /// What is undefined in these lanes of any of some registers.
    pub(crate) fn of(&self, registers: &[Register], lanes: u32) -> Option<Undefined> {
        let known = registers.iter().filter_map(|register| self.registers.get(register));
        let found = known.filter(|known| known.lanes & lanes != 0);
        found
            .copied()
            .reduce(|a, b| Undefined { lanes: a.lanes | b.lanes, ..a })
            .and_then(|found| found.within(lanes))
    }

    /// What is undefined in these lanes of the result of an instruction: of any of its sources, unless its
    /// predicates decide. `is_of` tells its operations.
    pub(crate) fn result(
        &self,
        instruction: &Instruction,
        lanes: u32,
        noted: &Noted,
        is_of: impl Fn(u32) -> bool,
    ) -> Option<Undefined> {
        let of = |register: Option<Register>, lanes| register.and_then(|one| self.of(&[one], lanes));
        let whole = self.of(&instruction.reads, lanes)?;
        let Some([a, b]) = noted.predicates(is_of) else { return Some(whole) };
        match (instruction.class, &*instruction.reads) {
            (Class::Select(operands), [.., by]) => Undefined::either(
                Undefined::either(of(operands[0], lanes & a), of(operands[1], lanes & !a)),
                of(Some(*by), lanes),
            ),
            (Class::Logic(logic, operands), _) => {
                let [first, second] = operands.map(|operand| of(operand, lanes));
                let undefined = [first, second].map(|value| value.map_or(0, |value| value.lanes));
                let decided = logic.decided_by(a) & !undefined[0] | logic.decided_by(b) & !undefined[1];
                whole.within(!decided)
            }
            (Class::Compare(Some(logic)), [compared @ .., with]) => {
                let with = of(Some(*with), lanes);
                let decided = logic.decided_by(a) & !with.map_or(0, |with| with.lanes);
                Undefined::either(self.of(compared, lanes & !decided), with)
            }
            _ => Some(whole),
        }
    }

    /// Lanes store registers in local memory, or load them.
    pub(crate) fn access_local(&mut self, instruction: &Instruction, access: &MemoryAccess, lanes: u32) {
        let stores = instruction.class == Class::Store;
        let moved = moved(instruction);
        let bytes = access.bytes / moved.len().max(1) as u64;
        for (register, index) in moved.iter().zip(0..) {
            let addresses = access.addresses.map(|address| address + index * bytes);
            if stores {
                let value = self.of(&[*register], lanes);
                self.local.store(&addresses, bytes, lanes, value);
            } else {
                let value = self.local.load(&addresses, bytes, lanes);
                self.write(*register, lanes, value);
            }
        }
        if moved.is_empty() {
            self.local.store(&access.addresses, access.bytes, lanes, None);
        }
    }

    /// Lanes store registers in shared memory, or load them. An atomic operation on defined bytes leaves them so
    /// if its operand is defined.
    pub(crate) fn access_shared(
        &mut self,
        instruction: &Instruction,
        access: &MemoryAccess,
        mask: u32,
        shared: &mut UndefinedShared,
    ) {
        let moved = moved(instruction);
        let is_matrix = instruction.name().starts_with("stmatrix");
        let bytes = if is_matrix { access.bytes } else { access.bytes / moved.len().max(1) as u64 };
        let of_lane = |value: Option<Undefined>, lane: usize| {
            value.filter(|value| value.lanes >> lane & 1 != 0).map(|value| value.origin)
        };
        match instruction.class {
            Class::Load(_) => {
                for (register, index) in moved.iter().zip(0..) {
                    let found = lanes(mask).filter_map(|lane| {
                        let origin = shared.load(access.addresses[lane] + index * bytes, bytes)?;
                        Some(Undefined { lanes: 1 << lane, origin })
                    });
                    let value = found.reduce(|a, b| Undefined { lanes: a.lanes | b.lanes, ..a });
                    self.write(*register, mask, value);
                }
            }
            Class::Store if is_matrix => {
                for (index, register) in moved.iter().enumerate() {
                    let value = self.of(&[*register], mask);
                    for row in 0..8 {
                        let address = access.addresses[8 * index + row];
                        shared.store(address, bytes, None);
                        let undefined = stored_bytes(instruction, row, value.map_or(0, |value| value.lanes));
                        for byte in (0..bytes).filter(|byte| undefined >> byte & 1 != 0) {
                            shared.store(address + byte, 1, value.map(|value| value.origin));
                        }
                    }
                }
            }
            Class::Store => {
                for lane in lanes(mask) {
                    shared.store(access.addresses[lane], access.bytes, None);
                }
                for (register, index) in moved.iter().zip(0..) {
                    let Some(value) = self.of(&[*register], mask) else { continue };
                    for lane in lanes(value.lanes) {
                        shared.store(access.addresses[lane] + index * bytes, bytes, Some(value.origin));
                    }
                }
            }
            _ => {
                let operand = self.of(moved, mask);
                let mut result = None;
                for lane in lanes(mask) {
                    let held = shared.load(access.addresses[lane], access.bytes);
                    if let Some(origin) = of_lane(operand, lane).or(held) {
                        shared.store(access.addresses[lane], access.bytes, Some(origin));
                    }
                    let read = held.map(|origin| Undefined { lanes: 1 << lane, origin });
                    result = Undefined::either(result, read);
                }
                instruction.writes.iter().for_each(|register| self.write(*register, mask, result));
            }
        }
    }

    /// Lanes write a register; it is undefined in those of `value`.
    pub(crate) fn write(&mut self, register: Register, lanes: u32, value: Option<Undefined>) {
        let kept = self.registers.get(&register).map_or(0, |known| known.lanes & !lanes);
        match (value, self.registers.get_mut(&register)) {
            (Some(value), _) => {
                self.registers.insert(register, Undefined { lanes: kept | value.lanes, ..value });
            }
            (None, Some(_)) if kept == 0 => drop(self.registers.remove(&register)),
            (None, Some(known)) => known.lanes = kept,
            (None, None) => {}
        }
    }

    /// Lanes exit.
    pub(crate) fn exit(&mut self, lanes: u32) {
        self.local.exit(lanes);
        self.registers.retain(|_, known| {
            known.lanes &= !lanes;
            known.lanes != 0
        });
    }
}
