//! Registers of a warp that its MMAs access asynchronously: accumulators, and fragments of A.
//!
//! PTX ISA, "wgmma": a warpgroup executes a fence before its first MMA, and again after any access
//! to registers of the next one, unless that access is as accumulators of an MMA of the same shape.
//! From an MMA's issue until the wait for its group, only such MMAs may access its registers.

use warpwright_events::{Actor, AsyncKind, Awaited, RegisterUse};

use crate::checker::Checker;
use crate::report::misuse::Touched;
use crate::state::registers::Flight;

impl Checker {
    /// A `wgmma.fence`.
    pub(crate) fn registers_fenced(&mut self, actor: Actor) {
        let registers = &mut self.ctas[actor.rank as usize].warps[actor.warp as usize].registers;
        registers.written.clear();
        registers.fenced = true;
    }

    /// An MMA is issued with these columns for its accumulators and its A; `shape` is the columns
    /// and the depth of its tile.
    pub(crate) fn registers_multiplied(
        &mut self,
        actor: Actor,
        accumulators: &[u32],
        fragments: &[u32],
        shape: (usize, usize),
    ) {
        let mark = self.mark(actor);
        let warp = &mut self.ctas[actor.rank as usize].warps[actor.warp as usize];
        // Work between two commits has the same time.
        let time = warp.work(AsyncKind::Multiply).issue(actor.lanes, actor.pc);
        let state = &mut warp.registers;
        let written = |columns: &[u32]| columns.iter().find_map(|column| state.written.get(column).copied());
        let unfenced = match (written(accumulators), written(fragments)) {
            (Some(pc), _) => Some((Some(pc), true)),
            (None, Some(pc)) => Some((Some(pc), false)),
            (None, None) if !state.fenced => Some((None, true)),
            (None, None) => None,
        };
        let mut touched = None;
        for column in accumulators {
            state.initialize(*column, actor.lanes);
            let flight = Flight { pc: actor.pc, time, shape: Some(shape) };
            match state.under_way.insert(*column, flight) {
                Some(Flight { shape: None, pc, .. }) if pc != actor.pc => {
                    touched = Some((pc, Touched::Written))
                }
                Some(Flight { shape: Some(other), pc, .. }) if other != shape => {
                    touched = Some((pc, Touched::Multiplied));
                }
                _ => {}
            }
        }
        for column in fragments {
            match state.under_way.get(column) {
                Some(Flight { shape: Some(_), pc, .. }) => touched = Some((*pc, Touched::Multiplicand)),
                _ => drop(state.under_way.insert(*column, Flight { pc: actor.pc, time, shape: None })),
            }
        }
        if let Some((pc, accumulators)) = unfenced {
            self.report_unfenced(mark, pc, accumulators);
        }
        if let Some((pc, touched)) = touched {
            self.report_register_access(mark, pc, touched, None);
        }
    }

    /// A warp has waited for groups of MMAs, and owns their registers again.
    pub(crate) fn registers_awaited(&mut self, actor: Actor) {
        let warp = &mut self.ctas[actor.rank as usize].warps[actor.warp as usize];
        let lane = actor.lanes.trailing_zeros() as usize;
        let done = warp.done(lane, AsyncKind::Multiply, Awaited::Everything);
        warp.registers.under_way.retain(|_, flight| flight.time > done);
    }

    /// A warp has waited for all its MMAs.
    pub(crate) fn registers_settled(&mut self, actor: Actor) {
        let warp = &mut self.ctas[actor.rank as usize].warps[actor.warp as usize];
        warp.registers.under_way.clear();
    }

    /// A load of tensor memory is issued into these columns.
    pub(crate) fn registers_loaded(&mut self, actor: Actor, columns: &[u32]) {
        let warp = &mut self.ctas[actor.rank as usize].warps[actor.warp as usize];
        for column in columns {
            warp.registers.initialize(*column, actor.lanes);
            warp.registers.loading.insert(*column, actor.pc);
        }
    }

    /// A warp has waited for its loads of tensor memory.
    pub(crate) fn registers_arrived(&mut self, actor: Actor) {
        self.ctas[actor.rank as usize].warps[actor.warp as usize].registers.loading.clear();
    }

    /// An ordinary instruction uses registers of MMAs; their columns count from `base`.
    pub(crate) fn registers_used(&mut self, actor: Actor, base: u32, uses: &[RegisterUse]) {
        let mark = self.mark(actor);
        let state = &mut self.ctas[actor.rank as usize].warps[actor.warp as usize].registers;
        let (mut touched, mut loading) = (None, None);
        for used in uses {
            let column = base + used.slot;
            loading = state.loading.get(&column).map(|load| (*load, used.writes)).or(loading);
            match state.under_way.get(&column) {
                Some(flight) if used.writes => touched = Some((flight.pc, Touched::Written, flight.time)),
                Some(flight) if flight.shape.is_some() => {
                    touched = touched.or(Some((flight.pc, Touched::Read, flight.time)))
                }
                _ => {}
            }
            if used.writes {
                state.written.insert(column, actor.pc);
                state.initialize(column, actor.lanes);
            }
        }
        if let Some((pc, touched, time)) = touched {
            let warp = &self.ctas[actor.rank as usize].warps[actor.warp as usize];
            let group = (AsyncKind::Multiply, Awaited::Everything);
            let progress = warp.progress(actor.lanes, group, time, |_| true);
            self.report_register_access(mark, pc, touched, Some(progress));
        }
        if let Some((load, writes)) = loading {
            self.report_loading(mark, load, writes);
        }
    }
}
