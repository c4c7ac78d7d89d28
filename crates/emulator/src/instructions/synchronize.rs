//! Barriers, fences, and exchanges between lanes (PTX ISA, "Parallel Synchronization and
//! Communication Instructions").

use std::sync::atomic::Ordering;

use warpwright_events::{Event, Fence, FenceOrder, LANES, Scope};
use warpwright_ptx::syntax::{Instruction, Number, Operand, Type};

use super::memory_words::SCOPES;
use crate::decode::{DecodeError, Decoder, File, Words, unsupported};
use crate::execution::effect::{Effect, Execution};
use crate::launch::failure::Failure;
use crate::operation::barrier::{BarrierAction, BarrierOperation};
use crate::operation::collective::{Collective, Exchange, Place, Reduction, Shuffle, Vote};
use crate::operation::kind::Kind;
use crate::registers::{Slot, blend};

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    match i.opcode.base() {
        "bar" | "barrier" if i.opcode.has("warp") => meet(d, i, w),
        "barrier" if i.opcode.has("cluster") => cluster_barrier(d, w),
        "bar" | "barrier" => barrier(d, i, w),
        "membar" | "fence" => {
            let kind = fence(w, i.opcode.base() == "membar");
            // `fence.proxy.tensormap::generic.acquire` names the 128 bytes it is about.
            if let [address, size] = i.operands.as_slice() {
                d.memory(address)?;
                if *size != Operand::Number(Number::Integer(128)) {
                    return Err(DecodeError::new("A fence of a tensor map covers 128 bytes."));
                }
            }
            d.emit(Kind::Effect(Box::new(FenceOperation(kind))));
            Ok(())
        }
        "shfl" => shuffle(d, i, w),
        "vote" => vote(d, i, w),
        "match" => find_equal(d, i, w),
        "redux" => reduce(d, i, w),
        "elect" => elect(d, i, w),
        _ => active_mask(d, i, w),
    }
}

/// Modifiers of fences besides scope and restricted spaces.
const FENCE_WORDS: &[(&str, Fence)] = &[
    ("sc", Fence::Memory(Scope::Gpu, FenceOrder::Sequential)),
    ("acq_rel", Fence::Memory(Scope::Gpu, FenceOrder::Acquire)),
    ("acquire", Fence::Memory(Scope::Gpu, FenceOrder::Acquire)),
    ("release", Fence::Memory(Scope::Gpu, FenceOrder::Acquire)),
    ("alias", Fence::Other),
    ("async", Fence::AsyncProxy),
    ("async::generic", Fence::AsyncProxy),
    ("tensormap::generic", Fence::TensormapProxy),
    // PTX ISA, "membar": it releases the effects of `mbarrier.init` to the cluster.
    ("mbarrier_init", Fence::Memory(Scope::Cluster, FenceOrder::Acquire)),
];
const FENCE_SPACES: &[(&str, ())] = &[
    ("sync_restrict::shared::cta", ()),
    ("sync_restrict::shared::cluster", ()),
    ("global", ()),
    ("shared::cta", ()),
    ("shared::cluster", ()),
];

/// The kind of a fence. `membar.gl` is `fence.sc.gpu` (PTX ISA, "membar").
fn fence(w: &mut Words<'_>, is_membar: bool) -> Fence {
    w.take("proxy");
    let mut kind = None;
    let mut scope = Scope::Gpu;
    loop {
        if let Some(named) = w.choose(FENCE_WORDS) {
            // `fence.proxy.tensormap::generic.acquire` applies to the proxy, not to memory.
            kind = kind.filter(|kind| !matches!(kind, Fence::Memory(..))).or(Some(named));
        } else if let Some(named) = w.choose(SCOPES) {
            scope = named;
        } else if w.choose(FENCE_SPACES).is_none() && !w.take("gl") {
            break;
        }
    }
    match kind {
        // PTX ISA, "membar": `fence` alone is `fence.acq_rel`, and `membar` is `fence.sc`.
        None if is_membar => Fence::Memory(scope, FenceOrder::Sequential),
        None => Fence::Memory(scope, FenceOrder::Acquire),
        Some(Fence::Memory(_, order)) => Fence::Memory(scope, order),
        Some(kind) => kind,
    }
}

/// The host's fence orders everything, so it implements all of them.
pub(super) struct FenceOperation(pub(super) Fence);

impl Effect for FenceOperation {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        std::sync::atomic::fence(Ordering::SeqCst);
        execution.block.observer.report(Event::Fence { actor: execution.actor(mask), fence: self.0 });
        execution.changes_nothing();
        Ok(())
    }
}

/// `bar.sync a{, b}`, `bar.arrive a, b`, `bar.red.popc.u32 d, a{, b}, {!}p`, and the same of
/// `barrier{.cta}`.
fn barrier(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    w.take("cta");
    w.take("aligned");
    let action = if w.take("sync") {
        BarrierAction::Sync
    } else if w.take("arrive") {
        BarrierAction::Arrive
    } else if w.take("red") {
        w.choose(&[
            ("and", BarrierAction::ReduceAnd),
            ("or", BarrierAction::ReduceOr),
            ("popc", BarrierAction::ReducePopulation),
        ])
        .ok_or_else(|| DecodeError::new("`bar.red` names no reduction."))?
    } else {
        return Err(DecodeError::new("The barrier instruction names no action."));
    };
    let mut operands = i.operands.as_slice();
    let mut operation =
        BarrierOperation { action, id: 0, count: None, result: Place::None, predicate: 0, negated: false };
    let reduces = !matches!(action, BarrierAction::Sync | BarrierAction::Arrive);
    if reduces {
        let ty = w.ty()?;
        let [result, middle @ .., predicate] = operands else {
            return Err(DecodeError::new("`bar.red` needs a destination, a barrier and a predicate."));
        };
        operands = middle;
        let slot = d.destination(result, ty)?;
        operation.result = if ty == Type::Pred { Place::Predicate(slot) } else { Place::Word(slot) };
        (operation.predicate, operation.negated) = d.predicate(predicate)?;
    }
    match operands {
        [id] => operation.id = d.source(id, Type::U32)?,
        [id, count] => {
            operation.id = d.source(id, Type::U32)?;
            operation.count = Some(d.source(count, Type::U32)?);
        }
        _ => return Err(DecodeError::new("A barrier instruction takes a barrier and at most one count.")),
    }
    d.emit(Kind::Barrier(Box::new(operation)));
    Ok(())
}

/// `barrier.cluster.arrive{.release, .relaxed}{.aligned}`,
/// `barrier.cluster.wait{.acquire}{.aligned}`
fn cluster_barrier(d: Decoder<'_, '_, '_>, w: &mut Words<'_>) -> Result<(), DecodeError> {
    w.take("cluster");
    if w.take("arrive") {
        let releases = w.choose(&[("release", true), ("relaxed", false)]).unwrap_or(true);
        d.emit(Kind::Effect(Box::new(ArriveAtCluster { releases })));
    } else if w.take("wait") {
        w.take("acquire");
        d.emit(Kind::ClusterWait);
    } else {
        return Err(DecodeError::new("The barrier instruction names no action, .arrive or .wait."));
    }
    w.take("aligned");
    Ok(())
}

struct ArriveAtCluster {
    releases: bool,
}

impl Effect for ArriveAtCluster {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        execution.block.cluster_barrier.arrive(execution.warp, mask)?;
        execution
            .block
            .observer
            .report(Event::ClusterArrive { actor: execution.actor(mask), releases: self.releases });
        execution.cluster().settle_barrier();
        Ok(())
    }
}

fn exchange(d: Decoder<'_, '_, '_>, collective: Collective) {
    d.emit(Kind::Collective(Box::new(collective)));
}

/// An empty exchange.
fn blank(exchange: Exchange, members: Slot) -> Collective {
    Collective {
        exchange,
        members,
        value: Place::None,
        predicate: Place::None,
        source: Place::None,
        negated: false,
        b: 0,
        c: 0,
    }
}

fn place(d: Decoder<'_, '_, '_>, operand: &Operand, ty: Type) -> Result<Place, DecodeError> {
    let slot = d.source(operand, ty)?;
    Ok(match File::of(ty) {
        File::Long => Place::Long(slot),
        _ => Place::Word(slot),
    })
}

fn meet(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    w.take("warp");
    w.take("sync");
    d.expect_operands(i, 1)?;
    let members = d.source(&i.operands[0], Type::B32)?;
    exchange(d, blank(Exchange::Meet, members));
    Ok(())
}

/// The member mask: the last operand of a synchronous exchange. Modules for older targets exchange without
/// `.sync`, between the lanes that are on this path.
fn members(
    d: Decoder<'_, '_, '_>,
    i: &Instruction,
    is_synchronous: bool,
    others: usize,
) -> Result<Slot, DecodeError> {
    d.expect_operands(i, others + usize::from(is_synchronous))?;
    if is_synchronous {
        return d.source(&i.operands[others], Type::B32);
    }
    let slot = d.scratch(File::Word);
    d.emit(Kind::Effect(Box::new(ActiveMask(slot))));
    Ok(slot)
}

/// `shfl.sync.mode.b32 d{|p}, a, b, c, membermask`
fn shuffle(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let synchronous = w.take("sync");
    let mode = w.choose(&[
        ("up", Shuffle::Up),
        ("down", Shuffle::Down),
        ("bfly", Shuffle::Butterfly),
        ("idx", Shuffle::Index),
    ]);
    let mode = mode.ok_or_else(|| DecodeError::new("`shfl` names no mode."))?;
    w.ty()?;
    let members = members(d, i, synchronous, 4)?;
    let mut collective = blank(Exchange::Shuffle(mode), members);
    (collective.value, collective.predicate) = destinations(d, &i.operands[0])?;
    collective.source = place(d, &i.operands[1], Type::B32)?;
    collective.b = d.source(&i.operands[2], Type::B32)?;
    collective.c = d.source(&i.operands[3], Type::B32)?;
    exchange(d, collective);
    Ok(())
}

/// `d` or `d|p`.
fn destinations(d: Decoder<'_, '_, '_>, operand: &Operand) -> Result<(Place, Place), DecodeError> {
    match operand {
        Operand::Pair(value, predicate) => Ok((
            Place::Word(d.destination(value, Type::B32)?),
            Place::Predicate(d.destination(predicate, Type::Pred)?),
        )),
        value => Ok((Place::Word(d.destination(value, Type::B32)?), Place::None)),
    }
}

fn vote(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let synchronous = w.take("sync");
    let vote =
        w.choose(&[("all", Vote::All), ("any", Vote::Any), ("uni", Vote::Uniform), ("ballot", Vote::Ballot)]);
    let vote = vote.ok_or_else(|| DecodeError::new("`vote` names no mode."))?;
    let ty = w.ty()?;
    let members = members(d, i, synchronous, 2)?;
    let mut collective = blank(Exchange::Vote(vote), members);
    let slot = d.destination(&i.operands[0], ty)?;
    collective.value = if vote == Vote::Ballot { Place::Word(slot) } else { Place::Predicate(slot) };
    let (source, negated) = d.predicate(&i.operands[1])?;
    (collective.source, collective.negated) = (Place::Predicate(source), negated);
    exchange(d, collective);
    Ok(())
}

fn find_equal(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let kind = w.choose(&[("any", Exchange::MatchAny), ("all", Exchange::MatchAll)]);
    let kind = kind.ok_or_else(|| DecodeError::new("`match` names no mode, .any or .all."))?;
    w.take("sync");
    let ty = w.ty()?;
    d.expect_operands(i, 3)?;
    let members = d.source(&i.operands[2], Type::B32)?;
    let mut collective = blank(kind, members);
    (collective.value, collective.predicate) = destinations(d, &i.operands[0])?;
    collective.source = place(d, &i.operands[1], ty)?;
    exchange(d, collective);
    Ok(())
}

fn reduce(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    w.take("sync");
    let operation = w.take_first(|word| {
        ["add", "min", "max", "and", "or", "xor"].into_iter().find(|operation| *operation == word)
    });
    let (absolute, nan) = (w.take("abs"), w.take("NaN"));
    let ty = w.ty()?;
    let reduction = match (operation, ty) {
        (Some("add"), Type::U32 | Type::S32) => Reduction::Add,
        (Some("min"), Type::U32) => Reduction::MinUnsigned,
        (Some("max"), Type::U32) => Reduction::MaxUnsigned,
        (Some("min"), Type::S32) => Reduction::MinSigned,
        (Some("max"), Type::S32) => Reduction::MaxSigned,
        (Some("min"), Type::F32) => Reduction::MinFloat { absolute, nan },
        (Some("max"), Type::F32) => Reduction::MaxFloat { absolute, nan },
        (Some("and"), Type::B32) => Reduction::And,
        (Some("or"), Type::B32) => Reduction::Or,
        (Some("xor"), Type::B32) => Reduction::Xor,
        _ => return Err(unsupported(i, ty)),
    };
    d.expect_operands(i, 3)?;
    let members = d.source(&i.operands[2], Type::B32)?;
    let mut collective = blank(Exchange::Reduce(reduction), members);
    collective.value = Place::Word(d.destination(&i.operands[0], ty)?);
    collective.source = place(d, &i.operands[1], ty)?;
    exchange(d, collective);
    Ok(())
}

fn elect(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    w.take("sync");
    d.expect_operands(i, 2)?;
    let members = d.source(&i.operands[1], Type::B32)?;
    let mut collective = blank(Exchange::Elect, members);
    (collective.value, collective.predicate) = destinations(d, &i.operands[0])?;
    exchange(d, collective);
    Ok(())
}

/// `activemask`: the lanes that are on this path.
struct ActiveMask(Slot);

impl Effect for ActiveMask {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        execution.changes_nothing();
        blend(execution.registers.word_mut(self.0), mask, [mask; LANES]);
        Ok(())
    }
}

fn active_mask(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let ty = w.ty()?;
    d.expect_operands(i, 1)?;
    let slot = d.destination(&i.operands[0], ty)?;
    d.emit(Kind::Effect(Box::new(ActiveMask(slot))));
    Ok(())
}
