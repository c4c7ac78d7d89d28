//! The bytes that an mbarrier expects and those of the copies that complete on it, where the kernel
//! states both as constants in one region.

use rustc_hash::FxHashMap;
use warpwright_ir::{Body, Location, Operand, Register, Statement};

use super::Recorder;
use super::state::CopyAccess;

/// An mbarrier: its base register and offset.
type Barrier = (Register, i64);

/// What a kernel states of one mbarrier.
#[derive(Default)]
struct Account {
    /// The regions that mention it.
    regions: Vec<usize>,
    expected: Option<(i64, Location)>,
    copied: Option<i64>,
    /// Whether some bytes are known on the device only.
    has_unknown: bool,
}

/// The accounts of a kernel's mbarriers.
#[derive(Default)]
struct Accounts {
    by_barrier: FxHashMap<Barrier, Account>,
    regions: usize,
}

impl Accounts {
    fn visit(&mut self, body: &Body, recorder: &Recorder) {
        let region = self.regions;
        self.regions += 1;
        for statement in body {
            match statement {
                Statement::Instruction(instruction) => {
                    let (opcode, location) = (instruction.opcode.as_ref(), instruction.location);
                    let transaction = recorder.transaction(opcode, &instruction.operands);
                    let Some((barrier, bytes, expects)) = transaction else { continue };
                    let account = self.by_barrier.entry(barrier).or_default();
                    account.regions.push(region);
                    match (bytes.filter(|_| instruction.guard.is_none()), expects) {
                        (None, _) => account.has_unknown = true,
                        (Some(bytes), true) => {
                            let (sum, first) = account.expected.unwrap_or((0, location));
                            account.expected = Some((sum + bytes, first));
                        }
                        (Some(bytes), false) => {
                            account.copied = Some(account.copied.unwrap_or(0) + bytes);
                        }
                    }
                }
                Statement::If { then, otherwise, .. } => {
                    self.visit(then, recorder);
                    self.visit(otherwise, recorder);
                }
                Statement::Loop { body, step, .. } => {
                    self.visit(body, recorder);
                    self.visit(step, recorder);
                }
                Statement::Block { body, .. } => self.visit(body, recorder),
                _ => {}
            }
        }
    }
}

fn constant(operand: &Operand) -> Option<i64> {
    match operand {
        Operand::Integer(value) => i64::try_from(*value).ok(),
        _ => None,
    }
}

impl Recorder {
    /// The mbarrier of an instruction that counts bytes on it, the bytes if they are a constant, and
    /// whether it expects them.
    fn transaction(&self, opcode: &str, operands: &[Operand]) -> Option<(Barrier, Option<i64>, bool)> {
        let expects = opcode.starts_with("mbarrier.") && opcode.contains("expect_tx");
        let copies = opcode.starts_with("cp.async.bulk.") && opcode.contains("complete_tx");
        let (barrier, bytes) = if expects {
            let at = operands.iter().position(|operand| matches!(operand, Operand::Address { .. }))?;
            (operands.get(at)?, operands.get(at + 1).and_then(constant))
        } else if copies && opcode.contains(".tensor.") {
            let boxes =
                if opcode.contains("gather4") { CopyAccess::FourRows } else { CopyAccess::Tile }.boxes();
            (operands.get(2)?, self.box_bytes(operands.get(1)?).map(|bytes| boxes * bytes))
        } else if copies {
            (operands.get(3)?, operands.get(2).and_then(constant))
        } else {
            return None;
        };
        let Operand::Address { base, offset, .. } = barrier else { return None };
        let Operand::Register(base) = **base else { return None };
        // The cluster's other CTAs count bytes of a multicast, too.
        let is_own = !opcode.contains("multicast") && !opcode.contains("shared::cluster.shared::cta");
        Some(((base, *offset), bytes.filter(|_| is_own), expects))
    }

    /// The bytes of the boxes of the tensor map at an address, if they are stated.
    fn box_bytes(&self, map: &Operand) -> Option<i64> {
        let Operand::Address { base, .. } = map else { return None };
        let Operand::Register(base) = **base else { return None };
        let boxes = self.boxes(base)?;
        i64::try_from(boxes.row_major(0, &vec![1; boxes.rank()]).transaction_bytes()).ok()
    }

    /// Refuses constants that disagree: the bytes that a phase expects, and those of the copies that
    /// complete on it.
    pub(super) fn check_transactions(&mut self) {
        let mut accounts = Accounts::default();
        accounts.visit(&self.kernel.body, self);
        let is_known = |(base, _): &Barrier| self.allocations.contains_key(base);
        let derived = accounts.by_barrier.keys().filter(|barrier| !is_known(barrier)).count();
        let mut mistakes = Vec::new();
        for (barrier, account) in &accounts.by_barrier {
            // A barrier whose address is computed may be that of another such address.
            let may_be_another = derived > usize::from(!is_known(barrier));
            let in_one_region = account.regions.iter().all(|region| *region == account.regions[0]);
            if account.has_unknown || may_be_another || !in_one_region {
                continue;
            }
            if let Some(((expected, location), copied)) = account.expected.zip(account.copied)
                && expected != copied
            {
                let message = format!(
                    "an mbarrier expects {expected} bytes here, and the copies that complete on it move {copied}: expect the \
                     bytes of the copies"
                );
                mistakes.push((location, message));
            }
        }
        mistakes.sort();
        mistakes.into_iter().for_each(|(location, message)| self.error(location, message));
    }
}
