//! Calls of device functions.

use warpwright_events::{Event, FaultKind, LANES, lanes};

use crate::execution::effect::Execution;
use crate::kernel::image::Formal;
use crate::kernel::special::WarpPosition;
use crate::launch::failure::Failure;
use crate::memory::{ADDRESS_STEP, CODE_WINDOW, function_address};
use crate::registers::{FrameBase, Slot, blend};
use crate::scheduling::path::{Caller, Path, Wait};

/// Maximum depth of nested calls.
const CALL_DEPTH: usize = 4096;
/// A decoded call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) callee: Callee,
    /// Copies into the callee's parameters.
    pub(crate) arguments: Vec<Passed>,
    /// Copies out of the callee's results; `None` for one that the caller ignores.
    pub(crate) results: Vec<Option<Passed>>,
}

/// The target of a call.
#[derive(Clone, Debug)]
pub(crate) enum Callee {
    /// A function of this code, by index.
    Direct(u32),
    /// The register that holds a function's address.
    Indirect(Slot),
}

/// One value on the caller's side of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    Word(Slot),
    Long(Slot),
    Predicate(Slot),
    /// A `.param` variable in the caller's frame.
    Bytes {
        offset: u32,
        size: u32,
    },
}

impl Call {
    /// Sends the lanes of `active` into the function, or the functions, they call.
    pub(crate) fn enter(
        &self,
        execution: &mut Execution<'_>,
        path: &Path,
        pc: u32,
        active: u32,
    ) -> Result<Vec<Path>, Box<Failure>> {
        let slot = match self.callee {
            Callee::Direct(function) => {
                return self.enter_one(execution, path, pc, active, function).map(|path| vec![path]);
            }
            Callee::Indirect(slot) => slot,
        };
        let addresses = *execution.registers.long(slot);
        let mut entered = Vec::new();
        let mut left = active;
        while left != 0 {
            let address = addresses[left.trailing_zeros() as usize];
            let group =
                lanes(left).filter(|&lane| addresses[lane] == address).fold(0, |m, lane| m | 1 << lane);
            left &= !group;
            let index = address.wrapping_sub(CODE_WINDOW) / ADDRESS_STEP;
            let function = u32::try_from(index)
                .ok()
                .filter(|&index| function_address(index) == address)
                .and_then(|index| execution.launch.kernel.by_address.get(&index).copied());
            let Some(function) = function else {
                return Err(Failure::new(
                    FaultKind::IllegalInstruction,
                    group,
                    format!("The call target {address:#x} is not a device function."),
                ));
            };
            entered.push(self.enter_one(execution, path, pc, group, function)?);
            execution.registers.set_base(path.base);
        }
        Ok(entered)
    }

    fn enter_one(
        &self,
        execution: &mut Execution<'_>,
        path: &Path,
        pc: u32,
        mask: u32,
        function: u32,
    ) -> Result<Path, Box<Failure>> {
        let kernel = execution.launch.kernel;
        let callee = &kernel.functions[function as usize];
        let base = path.base.after(kernel.functions[path.function as usize].frame);
        let room = execution.launch.arch.capability.local_bytes_per_thread;
        if path.callers.len() >= CALL_DEPTH || base.local + callee.frame.local > room {
            return Err(Failure::new(
                FaultKind::StackOverflow,
                mask,
                format!("The call of `{}` is nested too deeply.", callee.name),
            )
            .note(format!(
                "{} calls are open, and use {} bytes of local memory",
                path.callers.len(),
                base.local
            )));
        }
        if self.arguments.len() != callee.parameters.len() {
            return Err(Failure::new(
                FaultKind::IllegalInstruction,
                mask,
                format!(
                    "The call passes {} arguments, and `{}` takes {}.",
                    self.arguments.len(),
                    callee.name,
                    callee.parameters.len()
                ),
            ));
        }
        let caller = path.base;
        execution.local.reserve(base.local + callee.frame.local);
        execution.registers.enter(base, callee.frame);
        for (argument, formal) in self.arguments.iter().zip(&callee.parameters) {
            transfer(execution, mask, (caller, (*argument).into()), (base, *formal));
        }
        let position = WarpPosition { cta: execution.block.index, warp: execution.warp };
        for preload in &callee.preloads {
            preload.fill(execution.registers, execution.launch, position, mask);
        }
        let mut callers = path.callers.clone();
        callers.push(Caller { pc, base: caller, function: path.function });
        Ok(Path { pc: callee.entry, mask, base, function, callers, wait: Wait::Ready, ..path.clone() })
    }
}

impl From<Passed> for Formal {
    fn from(passed: Passed) -> Self {
        match passed {
            Passed::Word(slot) => Formal::Word(slot),
            Passed::Long(slot) => Formal::Long(slot),
            Passed::Predicate(slot) => Formal::Predicate(slot),
            Passed::Bytes { offset, size } => Formal::Bytes { offset, size },
        }
    }
}

/// Copies a value between two frames, in the lanes of a mask.
pub(crate) fn transfer(
    execution: &mut Execution<'_>,
    mask: u32,
    from: (FrameBase, Formal),
    to: (FrameBase, Formal),
) {
    if let (Formal::Bytes { offset, size }, Formal::Bytes { offset: target, size: room }) = (from.1, to.1) {
        for lane in lanes(mask) {
            for byte in 0..size.min(room) {
                let mut value = [0];
                let source = u64::from(from.0.local + offset + byte);
                let target = u64::from(to.0.local + target + byte);
                let copied = execution
                    .local
                    .read(lane, source, &mut value)
                    .and_then(|()| execution.local.write(lane, target, &value));
                debug_assert!(copied.is_some(), "frames are reserved before they are used");
            }
        }
        if execution.block.observer.follows() {
            let [from, to] = [from.0.local + offset, to.0.local + target].map(u64::from);
            let (actor, bytes) = (execution.actor(mask), size.min(room).into());
            execution.block.observer.report(Event::FrameCopy { actor, from, to, bytes });
        }
        return;
    }
    execution.registers.set_base(from.0);
    let values: [u64; LANES] = match from.1 {
        Formal::Word(slot) => execution.registers.word(slot).map(u64::from),
        Formal::Long(slot) => *execution.registers.long(slot),
        Formal::Predicate(slot) => {
            let bits = execution.registers.predicate(slot);
            std::array::from_fn(|lane| u64::from(bits >> lane & 1))
        }
        Formal::Bytes { offset, size } => std::array::from_fn(|lane| {
            let mut bytes = [0; 8];
            let source = u64::from(from.0.local + offset);
            let read = execution.local.read(lane, source, &mut bytes[..size.min(8) as usize]);
            read.map_or(0, |()| u64::from_le_bytes(bytes))
        }),
    };
    execution.registers.set_base(to.0);
    match to.1 {
        Formal::Word(slot) => {
            blend(execution.registers.word_mut(slot), mask, values.map(|value| value as u32))
        }
        Formal::Long(slot) => blend(execution.registers.long_mut(slot), mask, values),
        Formal::Predicate(slot) => {
            let bits = lanes(mask).fold(0, |bits, lane| bits | u32::from(values[lane] != 0) << lane);
            execution.registers.set_predicate(slot, mask, bits);
        }
        Formal::Bytes { offset, size } => {
            for lane in lanes(mask) {
                let target = u64::from(to.0.local + offset);
                let bytes = values[lane].to_le_bytes();
                let written = execution.local.write(lane, target, &bytes[..size.min(8) as usize]);
                debug_assert!(written.is_some(), "frames are reserved before they are used");
            }
        }
    }
}
