//! `st.async` and `red.async`: asynchronous stores to the shared memory of a CTA of the cluster,
//! and reductions there (PTX ISA, "st.async", "red.async").

use warpwright_events::{Actor, Event, FaultKind, Proxy, lanes, split_shared};
use warpwright_ptx::syntax::{Instruction, Operand, Type};

use super::atomic::{named_update, read};
use super::mbarrier;
use super::memory_words::vector;
use crate::cta::asynchronous::progress;
use crate::cta::asynchronous::reduction::Reduction;
use crate::cta::asynchronous::transfer::{Completion, Issuer, Motion, Signal, Transfer};
use crate::cta::mbarrier_update::absent;
use crate::decode::{DecodeError, Decoder, Register, Words, elements, unsupported};
use crate::execution::effect::{Effect, Execution};
use crate::execution::resolve::addresses;
use crate::launch::failure::Failure;
use crate::memory::update::Update;
use crate::memory::{AddressOperand, Space};
use crate::operation::kind::Kind;

/// The most bytes of one store.
const MOST_BYTES: usize = 16;

/// `st.async{.weak}.shared::cluster.mbarrier::complete_tx::bytes{.vec}.type [address], values,
/// [mbarrier]`
pub(super) fn store(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    w.take("weak");
    let space = target_space(w)?;
    let count = vector(w);
    let ty = w.ty()?;
    if !matches!(ty.bytes(), 4 | 8) || ty.bytes() as usize * count > MOST_BYTES {
        return Err(unsupported(i, ty));
    }
    d.expect_operands(i, 3)?;
    let elements = elements(&i.operands[1]);
    if elements.len() != count {
        return Err(DecodeError::new(format!(
            "The store names {} registers, and its type has {count}.",
            elements.len()
        )));
    }
    emit(d, i, space, elements, ty, None)
}

/// `red.async.relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes.operation.type
/// [address], value, [mbarrier]`
pub(super) fn reduce(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    w.take("relaxed");
    w.take("cluster");
    let space = target_space(w)?;
    let operation = named_update(w)?;
    let ty = w.ty()?;
    let exists = match operation {
        Update::Increment | Update::Decrement => ty == Type::U32,
        Update::Minimum | Update::Maximum => matches!(ty, Type::U32 | Type::S32),
        Update::Add => matches!(ty, Type::U32 | Type::S32 | Type::U64 | Type::S64),
        Update::And | Update::Or | Update::Xor => ty == Type::B32,
        Update::Exchange | Update::CompareAndSwap => false,
    };
    let reduction =
        Reduction::in_shared(operation, ty).filter(|_| exists).ok_or_else(|| unsupported(i, ty))?;
    d.expect_operands(i, 3)?;
    emit(d, i, space, &i.operands[1..2], ty, Some(reduction))
}

fn target_space(w: &mut Words<'_>) -> Result<Space, DecodeError> {
    let space = if w.take("shared::cluster") { Space::ClusterShared } else { Space::Generic };
    if !w.take("mbarrier::complete_tx::bytes") {
        return Err(DecodeError::new(
            "It is completed by `.mbarrier::complete_tx::bytes`, which it must name.",
        ));
    }
    Ok(space)
}

fn emit(
    d: Decoder<'_, '_, '_>,
    i: &Instruction,
    space: Space,
    elements: &[Operand],
    ty: Type,
    reduction: Option<Reduction>,
) -> Result<(), DecodeError> {
    let mut values = Vec::new();
    for element in elements {
        let register = d.wide_source(element, ty)?;
        if register.ty.bytes() < ty.bytes() {
            return Err(DecodeError::new(format!("`{element}` is too narrow for .{}.", ty.word())));
        }
        values.push(register);
    }
    let (target, mbarrier) = (d.memory(&i.operands[0])?, d.memory(&i.operands[2])?);
    let size = ty.bytes() as usize;
    d.emit(Kind::Effect(Box::new(Remote { target, space, mbarrier, values, size, reduction })));
    Ok(())
}

struct Remote {
    target: AddressOperand,
    space: Space,
    mbarrier: AddressOperand,
    values: Vec<Register>,
    /// Bytes of a value.
    size: usize,
    reduction: Option<Reduction>,
}

impl Effect for Remote {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        let targets = addresses(execution, &self.target);
        let objects = mbarrier::objects(execution, &self.mbarrier, self.space, mask)?;
        let bytes = self.size * self.values.len();
        for lane in lanes(mask) {
            let (rank, to) = split_shared(self.shared(lane, targets[lane])?);
            let refused = |kind: FaultKind, message: String| Err(Failure::new(kind, 1 << lane, message));
            if !to.is_multiple_of(bytes as u64) {
                return refused(
                    FaultKind::Misaligned,
                    format!(
                        "An asynchronous store of {bytes} bytes at shared address {:#x} is misaligned: the address must be \
                         a multiple of {bytes}.",
                        targets[lane]
                    ),
                );
            }
            if objects[lane].rank != rank {
                return refused(
                    FaultKind::IllegalInstruction,
                    format!(
                        "An asynchronous store writes to the CTA of rank {rank}, and its mbarrier is in the CTA of rank {}: \
                         they must be in the same.",
                        objects[lane].rank
                    ),
                );
            }
            if rank >= execution.launch.ctas_per_cluster() {
                return Err(mbarrier::at(lane)(absent(rank)));
            }
            let mut data = [0; MOST_BYTES];
            for (index, value) in self.values.iter().enumerate() {
                let value = read(execution.registers, *value, lane).to_le_bytes();
                data[index * self.size..][..self.size].copy_from_slice(&value[..self.size]);
            }
            let (to, bytes) = (to as u32, bytes as u32);
            let (reduction, proxy) = (self.reduction, Proxy::Generic);
            let motion = Motion::Value { data, bytes, to, rank, reduction, proxy };
            let issuer = Issuer { warp: execution.warp, lane: lane as u8, pc: execution.pc };
            let completion =
                Completion::Mbarriers { offset: objects[lane].offset, signal: Signal::Rank(rank) };
            let launch = execution.launch;
            let transfer = Transfer::new(issuer, motion, completion, None);
            // Issuing it may complete it, and the phase with it.
            let actor = Actor { lanes: 1 << lane, ..execution.actor(0) };
            execution.block.observer.report(Event::MbarrierRelease { actor, mbarrier: objects[lane] });
            progress::issue(&mut execution.cluster(), launch, transfer)?;
        }
        Ok(())
    }
}

impl Remote {
    /// The address in `.shared::cluster`.
    fn shared(&self, lane: usize, address: u64) -> Result<u64, Box<Failure>> {
        if self.space == Space::ClusterShared || self.target.space.is_some() {
            return Ok(address);
        }
        match Space::of(address) {
            (Space::ClusterShared, shared) => Ok(shared),
            (space, _) => Err(Failure::new(
                FaultKind::OutOfBounds,
                1 << lane,
                format!(
                    "An asynchronous store writes to shared memory of the cluster; {address:#x} is in {} memory.",
                    space.name()
                ),
            )),
        }
    }
}
