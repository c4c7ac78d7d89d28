//! Values that a shuffle takes from lanes that do not take part, or a load from shared memory that
//! nothing has written.
//!
//! PTX ISA, "shfl.sync": the value of a lane that has exited or is not in the member mask is
//! undefined. Reductions leave such values in lanes whose result is not used, so the value itself
//! is no error. The checkers follow it through arithmetic, through further shuffles, and through
//! `selp` in the lanes that select it, through local memory and the `.param` variables of calls,
//! until it is stored elsewhere or used as an address. A comparison ends it.
//!
//! A load of unwritten shared memory is an error of its own, unless its source line also loads
//! written bytes: then it may read the unused end of a partial tile. Its value tells: it is used if
//! it reaches an address or memory other than shared and local memory. It is not followed through
//! matrix instructions, whose lanes hold rows of several sources.

use warpwright_events::{Actor, Base, Class, FaultKind, LANES, MemorySpace, lane_list, lanes};

use crate::checker::Checker;
use crate::report::finding::FindingKind;
use crate::report::misuse::Misuse;
use crate::rules::alignment::opcode;
use crate::state::mark::Mark;
use crate::state::undefined::{LocalAccess, Origin, Undefined, lanes_at};

/// Instructions whose result is defined although an operand is not, or may be. The `call` itself
/// computes nothing: registers that it passes are not followed.
const ENDS: [&str; 6] = ["slct", "vote", "match", "redux", "activemask", "call"];

/// Matrix instructions.
const MATRICES: [&str; 5] = ["mma", "wmma", "wgmma", "movmatrix", "tcgen05"];

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

    /// Lanes access local memory, while a register or a byte of their warp is undefined.
    pub(crate) fn note_local_access(
        &mut self,
        actor: Actor,
        space: MemorySpace,
        addresses: &[u64; LANES],
        bytes: u64,
    ) {
        let registers = &mut self.warp(actor).1.undefined;
        if space == MemorySpace::Local && !registers.is_empty() {
            let access = LocalAccess { pc: actor.pc, addresses: *addresses, bytes };
            registers.local_accesses.push(access);
        }
    }

    /// Lanes have executed instructions one after another.
    pub(crate) fn executed(&mut self, actor: Actor, end: u32) {
        let registers = &mut self.warp(actor).1.undefined;
        let predicated_off = std::mem::take(&mut registers.predicated_off);
        let selections = std::mem::take(&mut registers.selections);
        let local_accesses = std::mem::take(&mut registers.local_accesses);
        let unwritten_loads = std::mem::take(&mut registers.unwritten_loads);
        if unwritten_loads.is_empty() && registers.is_empty() {
            return;
        }
        let code = self.launch.info.code.clone();
        for pc in actor.pc..end {
            let instruction = code.instruction(pc);
            let lanes = actor.lanes & !lanes_at(&predicated_off, pc);
            let unwritten = lanes_at(&unwritten_loads, pc);
            let registers = &mut self.warp(actor).1.undefined;
            let read = match instruction.class {
                Class::Select(operands) => registers.selected(operands, lanes, lanes_at(&selections, pc)),
                _ => registers.of(&instruction.reads, lanes),
            };
            let written = registers.of(&instruction.writes, lanes);
            if let Some(access) = local_accesses.iter().find(|access| access.pc == pc) {
                let address = match instruction.bases.first() {
                    Some(Base::Register(base)) => registers.of(&[*base], lanes),
                    _ => None,
                };
                registers.access_local(instruction, access, lanes);
                if let Some(address) = address {
                    self.note_use(actor, pc, address);
                }
                continue;
            }
            if read.is_none() && written.is_none() && unwritten == 0 {
                continue;
            }
            let base = opcode(&instruction.text).split('.').next().unwrap_or_default();
            let is_memory =
                matches!(instruction.class, Class::Load(_) | Class::Store | Class::Atomic | Class::Reduction);
            if base == "shfl" {
                continue;
            }
            let ends = is_memory || instruction.class == Class::Compare || ENDS.contains(&base);
            let is_load = |value: &Undefined| matches!(value.origin, Origin::Load { .. });
            let result = match unwritten {
                0 => read.filter(|value| !(ends || is_load(value) && MATRICES.contains(&base))),
                lanes => Some(Undefined { lanes, origin: Origin::Load { pc } }),
            };
            for register in &instruction.writes {
                registers.write(*register, lanes, result);
            }
            if let Some(used) = read.filter(|_| is_memory) {
                self.note_use(actor, pc, used);
            }
        }
    }

    /// An undefined value is stored, or is an address.
    fn note_use(&self, actor: Actor, pc: u32, used: Undefined) {
        match used.origin {
            Origin::Shuffle { pc: shuffle, readers, sources } => {
                let actor = Actor { pc, lanes: used.lanes, ..actor };
                let shuffle = Mark { lanes: readers, pc: shuffle, ..self.mark(actor) };
                self.report_undefined(actor, shuffle, sources);
            }
            // What is stored in shared memory may be the end of a tile once more.
            Origin::Load { .. }
                if opcode(&self.launch.info.code.instruction(pc).text).contains(".shared") => {}
            Origin::Load { pc } => self.launch.note_used_load(pc),
        }
    }

    /// Reports the use of an undefined value.
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
