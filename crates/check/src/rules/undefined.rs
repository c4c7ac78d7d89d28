//! Values that a shuffle takes from lanes that do not take part, or a load from shared memory that
//! nothing has written.
//!
//! PTX ISA, "shfl.sync": the value of a lane that has exited or is not in the member mask is
//! undefined. Reductions leave such values in lanes whose result is not used, so the value itself is
//! no error. The checkers follow it through arithmetic and through further shuffles, until it is
//! stored or used as an address. A selection or a comparison ends it: code selects between the value
//! and another one where the source lane may be missing.
//!
//! A load of unwritten shared memory is an error of its own, unless its source line also loads written
//! bytes: then it may read the unused end of a partial tile. Its value tells: it is used if it reaches
//! an address or memory other than shared memory. It is not followed through matrix instructions,
//! whose lanes hold rows of several sources.

use warpwright_events::{Actor, Class, FaultKind, LANES, lane_list, lanes};

use crate::checker::Checker;
use crate::report::finding::FindingKind;
use crate::report::misuse::Misuse;
use crate::rules::alignment::opcode;
use crate::state::mark::Mark;
use crate::state::undefined::{Origin, Undefined, lanes_at};

/// Instructions whose result is defined although an operand is not, or may be. Values are not followed
/// into functions and out of them.
const ENDS: [&str; 7] = ["selp", "slct", "vote", "match", "redux", "activemask", "call"];

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

    /// Lanes have executed instructions one after another.
    pub(crate) fn executed(&mut self, actor: Actor, end: u32) {
        let registers = &mut self.warp(actor).1.undefined;
        let predicated_off = std::mem::take(&mut registers.predicated_off);
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
            let read = registers.of(&instruction.reads, lanes);
            let written = registers.of(&instruction.writes, lanes);
            if read.is_none() && written.is_none() && unwritten == 0 {
                continue;
            }
            let base = opcode(&instruction.text).split('.').next().unwrap_or_default();
            let is_memory = matches!(
                instruction.class,
                Class::Load { .. } | Class::Store | Class::Atomic | Class::Reduction
            );
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
            let Some(used) = read.filter(|_| is_memory) else { continue };
            match used.origin {
                Origin::Shuffle { pc: shuffle, readers, sources } => {
                    let actor = Actor { pc, lanes: used.lanes, ..actor };
                    self.report_undefined(
                        actor,
                        Mark { lanes: readers, pc: shuffle, ..self.mark(actor) },
                        sources,
                    );
                }
                // What is stored in shared memory may be the end of a tile once more.
                Origin::Load { .. } if opcode(&instruction.text).contains(".shared") => {}
                Origin::Load { pc } => self.launch.note_used_load(pc),
            }
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
