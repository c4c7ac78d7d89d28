//! Values of registers that nothing has written, or that a shuffle takes from lanes that do not take part, or a load from memory
//! that nothing has written.
//!
//! PTX ISA, "shfl.sync": the value of a lane that has exited or is not in the member mask is
//! undefined. Reductions leave such values in lanes whose result is not used, so the value itself
//! is no error. The checkers follow it through arithmetic, through further shuffles, through comparisons,
//! `selp` and logic of predicates in the lanes that they leave undefined, through local memory and the `.param`
//! variables of calls, until it is stored elsewhere or used as an address, or guards a store.
//!
//! A load of unwritten shared or local memory is an error of its own, unless its source line also loads
//! written bytes: then it may read the unused end of a partial tile. The same holds for unwritten elements
//! of a vector load whose other elements are written, in global memory as well. The value tells, by the rule of
//! LLVM's MemorySanitizer: it is used if it reaches an address or memory other than shared and local memory,
//! or decides a branch or whether an instruction has its effect. It is followed through shared memory
//! (`state/undefined_shared.rs`) and, of matrix instructions, through those whose fragments PTX defines
//! (`state/undefined_matrix.rs`).

use warpwright_events::{
    AccessKind, Actor, Base, ByteRange, Class, Code, FULL, FaultKind, Instruction, LANES, MemorySpace,
    lane_list, lanes,
};

use crate::checker::Checker;
use crate::report::finding::FindingKind;
use crate::report::misuse::Misuse;
use crate::state::mark::Mark;
use crate::state::undefined::{MemoryAccess, Noted, Origin, Undefined, UndefinedRegisters};
use crate::state::undefined_matrix::{UnwrittenRows, undefined_lanes};
use crate::state::undefined_shared::UndefinedShared;

/// Instructions whose result is taken as defined although an operand is a value that a shuffle left undefined:
/// reductions leave such values in lanes whose result is not used.
const ENDS_SHUFFLED: [&str; 4] = ["vote", "match", "redux", "activemask"];

/// Instructions whose result in each lane depends on the operands of all.
const ACROSS_LANES: [&str; 3] = ["vote", "match", "redux"];

/// Matrix instructions.
const MATRICES: [&str; 5] = ["mma", "wmma", "wgmma", "movmatrix", "tcgen05"];

/// Whether an instruction loads, stores or updates memory.
fn is_memory(instruction: &Instruction) -> bool {
    matches!(instruction.class, Class::Load(_) | Class::Store | Class::Atomic | Class::Reduction)
}

/// What an instruction uses of the undefined registers that it reads: its address, what it stores outside
/// shared and local memory, and the operands of one that computes nothing. What is stored in shared memory may
/// be the end of a tile once more.
fn used(
    instruction: &Instruction,
    base: &str,
    space: Option<MemorySpace>,
    registers: &UndefinedRegisters,
    lanes: u32,
    read: Option<Undefined>,
) -> Option<Undefined> {
    let in_brackets = instruction.bases.iter().filter_map(|base| match base {
        Base::Register(register) => registers.of(&[*register], lanes),
        _ => None,
    });
    let address = in_brackets.reduce(|a, _| a);
    let value = read.filter(|value| match value.origin {
        _ if instruction.is_parameter_access => false,
        Origin::Load { .. } if space == Some(MemorySpace::Shared) => false,
        Origin::Load { .. } if instruction.name().contains(".shared") => false,
        _ if is_memory(instruction) => space != Some(MemorySpace::Local),
        Origin::Shuffle { .. } => false,
        Origin::Unset if matches!(base, "mma" | "wmma") => true,
        Origin::Load { .. } | Origin::Unset => {
            instruction.writes.is_empty() && base != "call" && !MATRICES.contains(&base)
        }
    });
    address.or(value)
}

/// The rows of an `ldmatrix` that hold undefined values.
fn undefined_rows(access: &MemoryAccess, mask: u32, shared: &UndefinedShared) -> Vec<(u32, u16, Origin)> {
    let of_lane = |lane: usize| {
        let (bytes, origin) = shared.granule(access.addresses[lane])?;
        Some((1 << lane, bytes, origin))
    };
    lanes(mask).filter_map(of_lane).collect()
}

/// `ldmatrix` loads rows that nothing has written, in part or as a whole, or that hold undefined values.
fn load_matrices(
    registers: &mut UndefinedRegisters,
    pc: u32,
    instruction: &Instruction,
    unwritten: &[(u32, u16)],
    stored: &[(u32, u16, Origin)],
) {
    let is_known = instruction.name().contains(".m8n8");
    let origin = stored.first().map_or(Origin::Load { pc }, |&(.., origin)| origin);
    let rows: UnwrittenRows =
        stored.iter().map(|&(lanes, bytes, _)| (lanes, bytes)).chain(unwritten.iter().copied()).collect();
    for (index, register) in instruction.writes.iter().enumerate() {
        let lanes = if is_known { undefined_lanes(instruction, index, &rows) } else { 0 };
        registers.write(*register, FULL, Undefined { lanes, origin }.within(FULL));
    }
}

impl Checker {
    /// A shuffle: the lanes of `undefined` read lanes that do not take part.
    pub(crate) fn shuffled(&mut self, actor: Actor, from: &[u8; LANES], undefined: u32) {
        let code = self.launch.info.code.clone();
        let instruction = code.instruction(actor.pc);
        let registers = &mut self.warp(actor).1.undefined;
        // The value, then the lane, the clamp and the mask.
        let value = instruction.reads.first().and_then(|value| registers.of(&[*value], u32::MAX));
        let has = |lane: &usize| value.is_some_and(|value| value.lanes >> from[*lane] & 1 != 0);
        let passed_on = lanes(actor.lanes & !undefined).filter(has).fold(0, |mask, lane| mask | 1 << lane);
        let result = match (undefined, value) {
            (0, Some(value)) if passed_on != 0 => Some(Undefined { lanes: passed_on, ..value }),
            (0, _) => None,
            (readers, _) => Some(Undefined {
                lanes: readers | passed_on,
                origin: Origin::Shuffle {
                    pc: actor.pc,
                    readers,
                    sources: lanes(readers).fold(0, |mask, lane| mask | 1 << from[lane]),
                },
            }),
        };
        // The predicate beside the value is defined.
        if let Some(register) = instruction.writes.first() {
            registers.write(*register, actor.lanes, result);
        }
    }

    /// Keeps an access of local or shared memory until its instruction is followed, if its warp has undefined
    /// values or it reads one.
    pub(crate) fn note_access(
        &mut self,
        actor: Actor,
        space: MemorySpace,
        addresses: &[u64; LANES],
        bytes: u64,
        kind: AccessKind,
    ) {
        let is_followed = matches!(space, MemorySpace::Local | MemorySpace::Shared);
        if !is_followed
            || self.warp_of(actor).undefined.is_empty()
                && !self.reads_undefined(actor, space, addresses, bytes, kind)
        {
            return;
        }
        self.is_following = true;
        let access = MemoryAccess { pc: actor.pc, space, addresses: *addresses, bytes };
        self.warp(actor).1.undefined.accessing(access);
    }

    /// Whether lanes of a warp without undefined values read one from shared memory. What they store is defined.
    fn reads_undefined(
        &mut self,
        actor: Actor,
        space: MemorySpace,
        addresses: &[u64; LANES],
        bytes: u64,
        kind: AccessKind,
    ) -> bool {
        if space != MemorySpace::Shared || self.undefined_shared.is_empty() {
            return false;
        }
        if kind == AccessKind::Write {
            lanes(actor.lanes).for_each(|lane| self.undefined_shared.store(addresses[lane], bytes, None));
            return false;
        }
        lanes(actor.lanes).any(|lane| self.undefined_shared.has_any(addresses[lane], bytes))
    }

    /// Copies write shared memory. What they move counts as written.
    pub(crate) fn define_copied(&mut self, ranges: &[ByteRange]) {
        if self.undefined_shared.is_empty() {
            return;
        }
        let written = ranges.iter().filter(|range| range.space == MemorySpace::Shared && range.kind.writes());
        written.for_each(|range| self.undefined_shared.store(range.first, range.bytes, None));
    }

    /// Lanes have executed instructions one after another.
    pub(crate) fn executed(&mut self, actor: Actor, end: u32) {
        let registers = &mut self.warp(actor).1.undefined;
        if registers.is_empty() {
            return drop(registers.take_noted());
        }
        let noted = registers.take_noted();
        let code = self.launch.info.code.clone();
        for pc in actor.pc..end {
            let used = self.follow(actor, pc, &code, &noted);
            for used in used.into_iter().flatten() {
                self.note_use(actor, pc, used);
            }
        }
    }

    /// Follows undefined values through an instruction. Returns those that it uses.
    fn follow(&mut self, actor: Actor, pc: u32, code: &Code, noted: &Noted) -> [Option<Undefined>; 2] {
        let instruction = code.instruction(pc);
        let Self { ctas, undefined_shared: shared, .. } = self;
        let registers = &mut ctas[actor.rank as usize].warps[actor.warp as usize].undefined;
        let lanes = actor.lanes & !noted.predicated_off(pc);
        let guard = instruction.guard.and_then(|guard| registers.of(&[guard], actor.lanes));
        let is_of = |at: u32| code.of_operation[at as usize] == code.of_operation[pc as usize];
        let read = registers.result(instruction, lanes, noted, is_of);
        let written = registers.of(&instruction.writes, actor.lanes);
        let base = instruction.name().split('.').next().unwrap_or_default();
        let access = noted.access(pc);
        if base == "ldmatrix" {
            let unwritten = noted.unwritten_rows(pc);
            let stored = access.map(|access| undefined_rows(access, lanes, shared)).unwrap_or_default();
            let used = used(instruction, base, Some(MemorySpace::Shared), registers, lanes, read);
            load_matrices(registers, pc, instruction, unwritten, &stored);
            return [used, None];
        }
        let unwritten = noted.unwritten(pc);
        let is_defined = access.is_none() && unwritten.is_empty();
        if base == "shfl" || is_defined && [guard, read, written].iter().all(Option::is_none) {
            return [None; 2];
        }
        let used = used(instruction, base, access.map(|access| access.space), registers, lanes, read);
        if read.is_some_and(|value| matches!(value.origin, Origin::Load { .. })) {
            match base {
                "mma" => {
                    registers.multiply(instruction);
                    return [used, None];
                }
                "movmatrix" => {
                    registers.transpose(instruction);
                    return [used, None];
                }
                _ => {}
            }
        }
        if let Some(access) = access {
            match access.space {
                MemorySpace::Shared => registers.access_shared(instruction, access, lanes, shared),
                _ => registers.access_local(instruction, access, lanes),
            }
            // Where the guard is undefined, so is which value the register holds.
            if let Some(guard) = guard {
                instruction
                    .writes
                    .iter()
                    .for_each(|register| registers.write(*register, guard.lanes, Some(guard)));
            }
        } else {
            let passed_on = read.and_then(|value| match value.origin {
                _ if is_memory(instruction) || base == "call" => None,
                Origin::Shuffle { .. } if ENDS_SHUFFLED.contains(&base) => None,
                Origin::Load { .. } | Origin::Unset if MATRICES.contains(&base) => None,
                Origin::Load { .. } | Origin::Unset if ACROSS_LANES.contains(&base) => {
                    Some(Undefined { lanes, ..value })
                }
                _ => Some(value),
            });
            let result = Undefined::either(passed_on, guard);
            let written = lanes | guard.map_or(0, |guard| guard.lanes);
            instruction.writes.iter().for_each(|register| registers.write(*register, written, result));
        }
        for (register, &lanes) in instruction.writes.iter().zip(unwritten) {
            registers.write(*register, lanes, Undefined { lanes, origin: Origin::Load { pc } }.within(FULL));
        }
        let acts = is_memory(instruction) && !matches!(instruction.class, Class::Load(_));
        let decides = guard.filter(|guard| match guard.origin {
            Origin::Shuffle { .. } => acts,
            Origin::Load { .. } | Origin::Unset => acts || instruction.writes.is_empty(),
        });
        [used, decides]
    }

    /// An undefined value is stored, is an address, or decides what is executed.
    fn note_use(&self, actor: Actor, pc: u32, used: Undefined) {
        match used.origin {
            Origin::Shuffle { pc: shuffle, readers, sources } => {
                let actor = Actor { pc, lanes: used.lanes, ..actor };
                let shuffle = Mark { lanes: readers, pc: shuffle, ..self.mark(actor) };
                self.report_undefined(actor, shuffle, sources);
            }
            Origin::Load { pc: load } => {
                self.launch.note_used_load(load, pc);
                if let Some(partial) = self.partial_loads.get(&load) {
                    self.launch.report(*partial);
                }
            }
            Origin::Unset => self.report_unset(Actor { pc, lanes: used.lanes, ..actor }),
        }
    }

    /// Reports the use of a register that nothing has written.
    fn report_unset(&self, actor: Actor) {
        let mark = self.mark(actor);
        self.launch.report_misuse(Misuse {
            kind: FindingKind::Uninitialized,
            message: "a value is used of a register that nothing has written".to_owned(),
            locations: vec![(mark, format!("it, or a result of it, is used by {}", mark.who(&self.launch.info)))],
            mbarrier: None,
            note: "registers are not initialized: they hold what an earlier kernel left".to_owned(),
            help: "set the registers first, in every branch: `clear()` or `fill` for the accumulators of a fragment, a copy for its other operands"
                .to_owned(),
        });
    }

    /// Reports the use of a value that a shuffle has left undefined.
    fn report_undefined(&self, actor: Actor, shuffle: Mark, sources: u32) {
        let used = self.mark(actor);
        let warp = self.warp_of(actor);
        let states = [
            (
                sources & !warp.population,
                "does not exist: the CTA ends within this warp",
                "do not exist: the CTA ends within this warp",
            ),
            (
                sources & warp.population & !warp.alive,
                "has ended without executing it",
                "have ended without executing it",
            ),
            (sources & warp.alive, "is not in its member mask", "are not in its member mask"),
        ];
        let absent = states.into_iter().filter(|(lanes, ..)| *lanes != 0);
        let absent: Vec<String> = absent
            .map(|(lanes, of_one, of_several)| {
                let what = if lanes.count_ones() == 1 { of_one } else { of_several };
                format!("{}, which {what}", lane_list(lanes))
            })
            .collect();
        let info = &self.launch.info;
        self.launch.report_misuse(Misuse {
            kind: FindingKind::Fault(FaultKind::LaneMask),
            message: "a shuffle reads lanes that do not take part in it, and the value is used".to_owned(),
            locations: vec![
                (shuffle, format!("{} read {}", shuffle.who(info), absent.join(", and "))),
                (used, format!("the value, or a result of it, is used by {}", used.who(info))),
            ],
            mbarrier: None,
            note: "the value of a lane that has exited, or that the member mask does not name, is undefined (PTX ISA, \"shfl.sync\")"
                .to_owned(),
            help: "let all lanes that are read execute the shuffle: move it out of a branch that they skip, and before a `return` that they take; or use its value only where the source lane takes part"
                .to_owned(),
        });
    }
}
