//! A CTA: its warps, and what they share. It is a state machine that one host thread at a time runs for a while.

use std::sync::atomic::Ordering;

use crate::asynchronous::CopyQueue;
use crate::barrier::{BARRIERS, BarrierState};
use crate::fault::{Fault, FaultKind, lane_list};
use crate::instructions::settle;
use crate::launch::LaunchContext;
use crate::memory::{SharedMemory, Trouble};
use crate::path::{Path, Wait};
use crate::registers::LANES;
use crate::warp::{Counts, Located, Pause, Warp};

/// Rounds in which every warp only polled, before another CTA gets the thread.
const WAITING_ROUNDS: u32 = 4;

/// What the warps of a CTA share.
#[derive(Debug)]
pub(crate) struct Block {
    /// Its index in the grid.
    pub(crate) index: [u32; 3],
    pub(crate) shared: SharedMemory,
    pub(crate) barriers: Vec<BarrierState>,
    /// Lanes that have not exited, by warp.
    pub(crate) alive: Vec<u32>,
    /// Asynchronous copies under way, by warp.
    pub(crate) copies: Vec<CopyQueue>,
    /// What it printed.
    pub(crate) output: String,
    pub(crate) mma_multiply_adds: u64,
}

impl Block {
    /// Completes the barriers whose threads have all arrived.
    pub(crate) fn settle(&mut self) {
        for barrier in &mut self.barriers {
            barrier.settle(&self.alive);
        }
    }

    /// Lanes exit; barriers no longer wait for them.
    pub(crate) fn exit(&mut self, warp: u32, lanes: u32) {
        self.alive[warp as usize] &= !lanes;
        self.settle();
    }
}

/// Why a CTA stopped running for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CtaPause {
    /// All its threads have exited.
    Done,
    /// It waits for something another CTA does.
    Waiting,
}

/// A CTA that is resident on the device.
#[derive(Debug)]
pub(crate) struct Cta {
    pub(crate) block: Block,
    warps: Vec<Warp>,
}

/// The lanes of a warp that exist: the last warp of a CTA may be short.
fn lanes_of(threads: u32, warp: u32) -> u32 {
    let left = threads - warp * LANES as u32;
    if left >= LANES as u32 { u32::MAX } else { (1 << left) - 1 }
}

impl Cta {
    pub(crate) fn new(launch: &LaunchContext<'_>, index: [u32; 3]) -> Self {
        let threads = launch.threads_per_cta();
        let count = threads.div_ceil(LANES as u32);
        let alive: Vec<u32> = (0..count).map(|warp| lanes_of(threads, warp)).collect();
        let block = Block {
            index,
            shared: SharedMemory::new(u64::from(launch.shared_bytes)),
            barriers: vec![BarrierState::new(count as usize); BARRIERS],
            alive: alive.clone(),
            copies: (0..count)
                .map(|warp| CopyQueue::new(launch.schedule, launch.linear_cta(index), warp))
                .collect(),
            output: String::new(),
            mma_multiply_adds: 0,
        };
        let warps = (0..count).map(|warp| Warp::new(launch, index, warp, alive[warp as usize])).collect();
        Self { block, warps }
    }

    /// Makes a finished CTA another one of the same launch, at its start.
    pub(crate) fn restart(&mut self, launch: &LaunchContext<'_>, index: [u32; 3]) {
        let threads = launch.threads_per_cta();
        self.block.index = index;
        self.block.shared.poison();
        for (warp, queue) in self.block.copies.iter_mut().enumerate() {
            queue.reset(launch.schedule, launch.linear_cta(index), warp as u32);
        }
        for warp in &mut self.warps {
            let mask = lanes_of(threads, warp.index);
            self.block.alive[warp.index as usize] = mask;
            warp.restart(launch, index, mask);
        }
        for barrier in &mut self.block.barriers {
            barrier.reset();
        }
    }

    /// How much its warps have executed since this was last asked.
    pub(crate) fn take_counts(&mut self) -> Counts {
        self.warps.iter_mut().map(|warp| std::mem::take(&mut warp.counts)).fold(
            Counts::default(),
            |sum, counts| Counts {
                warp_instructions: sum.warp_instructions + counts.warp_instructions,
                lane_operations: sum.lane_operations + counts.lane_operations,
            },
        )
    }

    /// Runs until all threads have exited, or all that can move only poll.
    pub(crate) fn run(&mut self, launch: &LaunchContext<'_>) -> Result<CtaPause, Box<Fault>> {
        let mut waiting_rounds = 0;
        loop {
            let (mut left, mut moved, mut worked) = (false, false, false);
            for warp in &mut self.warps {
                if warp.paths.is_empty() {
                    continue;
                }
                let before = warp.counts.warp_instructions;
                let pause = match warp.run(launch, &mut self.block) {
                    Ok(pause) => pause,
                    Err(located) => return Err(self.fault(launch, located)),
                };
                let ran = warp.counts.warp_instructions != before;
                left |= pause != Pause::Exited;
                moved |= ran;
                worked |= ran && pause != Pause::Turn { waiting: true };
            }
            if !left {
                self.complete_copies(launch)?;
                return Ok(CtaPause::Done);
            }
            if launch.stop.load(Ordering::Relaxed) {
                return Ok(CtaPause::Waiting);
            }
            if !worked && self.complete_copies(launch)? {
                continue;
            }
            if !moved {
                return Err(self.deadlock(launch));
            }
            waiting_rounds = if worked { 0 } else { waiting_rounds + 1 };
            if waiting_rounds >= WAITING_ROUNDS {
                return Ok(CtaPause::Waiting);
            }
        }
    }

    /// Makes the copies that nothing has waited for so far: the last moment for them has come. Whether there were any.
    fn complete_copies(&mut self, launch: &LaunchContext<'_>) -> Result<bool, Box<Fault>> {
        let mut any = false;
        for warp in 0..self.warps.len() as u32 {
            any |= self.block.copies[warp as usize].drain(launch.memory, &mut self.block.shared);
            settle(&mut self.block, warp)
                .map_err(|trouble| self.fault(launch, Located { pc: 0, warp, trouble }))?;
        }
        Ok(any)
    }

    fn fault(&self, launch: &LaunchContext<'_>, located: Located) -> Box<Fault> {
        let origin = &launch.kernel.origins[located.pc as usize];
        let trouble = *located.trouble;
        Box::new(Fault {
            kind: trouble.kind,
            kernel: launch.kernel.name.clone(),
            cta: Some(self.block.index),
            warp: Some(located.warp),
            lanes: trouble.lanes,
            ptx_line: Some(origin.line),
            ptx_text: Some(origin.text.to_string()),
            source: origin.location.map(|location| launch.kernel.source(location)),
            message: trouble.message,
            notes: trouble.notes,
        })
    }

    /// No path of any warp can move: tells who waits where.
    fn deadlock(&self, launch: &LaunchContext<'_>) -> Box<Fault> {
        let waiting: Vec<(&Warp, &Path)> =
            self.warps.iter().flat_map(|warp| warp.paths.iter().map(move |path| (warp, path))).collect();
        let (warp, path) = waiting[0];
        let message =
            "Deadlock: every thread of the CTA that has not exited waits, and none of them can be released.";
        let mut trouble = Trouble::new(FaultKind::Deadlock, path.mask, message);
        for (warp, path) in &waiting {
            let origin = &launch.kernel.origins[path.pc as usize];
            let place = match origin.location {
                Some(location) => launch.kernel.source(location).to_string(),
                None => format!("PTX line {}", origin.line),
            };
            trouble = trouble.note(format!(
                "warp {}, {} at {place} (`{}`): {}",
                warp.index,
                lane_list(path.mask),
                origin.text,
                self.reason(warp, path)
            ));
        }
        self.fault(launch, Located { pc: path.pc, warp: warp.index, trouble })
    }

    fn reason(&self, warp: &Warp, path: &Path) -> String {
        match path.wait {
            Wait::Ready => "can move".to_owned(),
            Wait::Together => {
                format!("needs the whole warp, and waits for {}", lane_list(warp.alive & !path.mask))
            }
            Wait::Members(members) => {
                let missing = members & warp.alive & !path.mask;
                format!("its member mask is {members:#010x}, and {} are elsewhere", lane_list(missing))
            }
            Wait::Barrier { id, .. } => {
                let (count, wanted) = self.block.barriers[id as usize].progress(&self.block.alive);
                format!("waits at barrier {id}, where {count} of {wanted} threads have arrived")
            }
        }
    }
}
