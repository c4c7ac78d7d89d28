//! Barriers, fences, and exchanges between lanes (PTX ISA, "Parallel Synchronization and
//! Communication Instructions").

use std::sync::atomic::Ordering;

use warpwright_arch::instructions::Class;
use warpwright_events::{Event, Fence, FenceOrder, LANES, Scope};
use warpwright_ptx::syntax::{Operand, Type};

use super::memory_words::SCOPES;
use crate::decode::{DecodeError, Decoded, Decoder, File, Row};
use crate::execution::effect::{Effect, Execution};
use crate::launch::failure::Failure;
use crate::operation::barrier::{BarrierAction, BarrierOperation};
use crate::operation::collective::{Collective, Exchange, Place, Reduction, Shuffle, Vote};
use crate::operation::kind::Kind;
use crate::registers::{Slot, blend};

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    match i.form().class {
        Class::WarpBarrier => {
            let members = d.source_at(i, 0)?;
            exchange(d, blank(Exchange::Meet, members))
        }
        Class::CtaBarrier => barrier(d, i),
        Class::ClusterBarrier => cluster_barrier(d, i),
        Class::Fence => {
            // `fence.proxy.tensormap::generic.acquire` names the 128 bytes it is about.
            if !i.operands.is_empty() {
                d.memory_at(i, 0)?;
                if i.literal(1)? != 128 {
                    return Err(DecodeError::new("A fence of a tensor map covers 128 bytes."));
                }
            }
            d.effect(FenceOperation(fence(i)))
        }
        Class::Exchange => shuffle(d, i),
        Class::Vote => match i.base() {
            "vote" => vote(d, i),
            "elect" => elect(d, i),
            _ => {
                let slot = d.destination_at(i, 0)?;
                d.effect(ActiveMask(slot))
            }
        },
        Class::Match => find_equal(d, i),
        _ => reduce(d, i),
    }
}

/// The kind of a fence. `membar.gl` is `fence.sc.gpu` (PTX ISA, "membar").
fn fence(i: &Row<'_>) -> Fence {
    let proxies = [
        ("alias", Fence::Other),
        ("async", Fence::AsyncProxy),
        ("async::generic", Fence::AsyncProxy),
        ("tensormap::generic", Fence::TensormapProxy),
    ];
    // PTX ISA, "membar": it releases the effects of `mbarrier.init` to the cluster.
    let scope = i.choose(SCOPES).unwrap_or(Scope::Gpu);
    // PTX ISA, "membar": `fence` alone is `fence.acq_rel`, and `membar` is `fence.sc`.
    let is_sequential = i.base() == "membar" || i.has("sc");
    let order = if is_sequential { FenceOrder::Sequential } else { FenceOrder::Acquire };
    i.choose(&proxies).unwrap_or(Fence::Memory(scope, order))
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
fn barrier(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let action = i.must(
        "action",
        &[
            ("sync", BarrierAction::Sync),
            ("arrive", BarrierAction::Arrive),
            ("and", BarrierAction::ReduceAnd),
            ("or", BarrierAction::ReduceOr),
            ("popc", BarrierAction::ReducePopulation),
        ],
    )?;
    let mut operation =
        BarrierOperation { action, id: 0, count: None, result: Place::None, predicate: 0, negated: false };
    let (first, mut end) = (i.signature().destinations, i.operands.len());
    if first > 0 {
        let slot = d.destination_at(i, 0)?;
        operation.result = if i.ty()? == Type::Pred { Place::Predicate(slot) } else { Place::Word(slot) };
        end -= 1;
        (operation.predicate, operation.negated) = d.predicate(i.operand(end)?)?;
    }
    operation.id = d.source_at(i, first)?;
    if end > first + 1 {
        operation.count = Some(d.source_at(i, first + 1)?);
    }
    d.emit(Kind::Barrier(Box::new(operation)));
    Ok(())
}

/// `barrier.cluster.arrive{.release, .relaxed}{.aligned}`,
/// `barrier.cluster.wait{.acquire}{.aligned}`
fn cluster_barrier(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    if i.has("arrive") {
        return d.effect(ArriveAtCluster { releases: !i.has("relaxed") });
    }
    d.emit(Kind::ClusterWait);
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

fn exchange(d: Decoder<'_, '_, '_>, collective: Collective) -> Decoded {
    d.emit(Kind::Collective(Box::new(collective)));
    Ok(())
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

fn place(d: Decoder<'_, '_, '_>, i: &Row<'_>, index: usize) -> Result<Place, DecodeError> {
    let slot = d.source_at(i, index)?;
    Ok(match i.operand_type(index) {
        Some(Type::B64) => Place::Long(slot),
        _ => Place::Word(slot),
    })
}

/// The member mask: the last operand of a synchronous exchange. Modules for older targets exchange without
/// `.sync`, between the lanes that are on this path.
fn members(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Result<Slot, DecodeError> {
    if i.has("sync") {
        return d.source_at(i, i.operands.len() - 1);
    }
    let slot = d.scratch(File::Word);
    d.effect(ActiveMask(slot))?;
    Ok(slot)
}

/// `shfl.sync.mode.b32 d{|p}, a, b, c, membermask`
fn shuffle(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let mode = i.must(
        "mode",
        &[
            ("up", Shuffle::Up),
            ("down", Shuffle::Down),
            ("bfly", Shuffle::Butterfly),
            ("idx", Shuffle::Index),
        ],
    )?;
    let mut collective = blank(Exchange::Shuffle(mode), members(d, i)?);
    (collective.value, collective.predicate) = destinations(d, i)?;
    collective.source = place(d, i, 1)?;
    collective.b = d.source_at(i, 2)?;
    collective.c = d.source_at(i, 3)?;
    exchange(d, collective)
}

/// `d` or `d|p`.
fn destinations(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Result<(Place, Place), DecodeError> {
    match &i.operands[0] {
        Operand::Pair(value, predicate) => Ok((
            Place::Word(d.destination(value, Type::B32)?),
            Place::Predicate(d.destination(predicate, Type::Pred)?),
        )),
        value => Ok((Place::Word(d.destination(value, Type::B32)?), Place::None)),
    }
}

fn vote(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let votes = [("all", Vote::All), ("any", Vote::Any), ("uni", Vote::Uniform), ("ballot", Vote::Ballot)];
    let vote = i.must("mode", &votes)?;
    let mut collective = blank(Exchange::Vote(vote), members(d, i)?);
    let slot = d.destination_at(i, 0)?;
    collective.value = if vote == Vote::Ballot { Place::Word(slot) } else { Place::Predicate(slot) };
    let (source, negated) = d.predicate(i.operand(1)?)?;
    (collective.source, collective.negated) = (Place::Predicate(source), negated);
    exchange(d, collective)
}

fn find_equal(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let kind = if i.has("any") { Exchange::MatchAny } else { Exchange::MatchAll };
    let mut collective = blank(kind, members(d, i)?);
    (collective.value, collective.predicate) = destinations(d, i)?;
    collective.source = place(d, i, 1)?;
    exchange(d, collective)
}

fn reduce(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let (absolute, nan) = (i.has("abs"), i.has("NaN"));
    let of_type = |unsigned, signed, float| match i.ty() {
        Ok(Type::S32) => signed,
        Ok(Type::F32) => float,
        _ => unsigned,
    };
    let least = of_type(Reduction::MinUnsigned, Reduction::MinSigned, Reduction::MinFloat { absolute, nan });
    let greatest =
        of_type(Reduction::MaxUnsigned, Reduction::MaxSigned, Reduction::MaxFloat { absolute, nan });
    let reductions = [
        ("add", Reduction::Add),
        ("min", least),
        ("max", greatest),
        ("and", Reduction::And),
        ("or", Reduction::Or),
        ("xor", Reduction::Xor),
    ];
    let mut collective = blank(Exchange::Reduce(i.must("operation", &reductions)?), members(d, i)?);
    collective.value = Place::Word(d.destination_at(i, 0)?);
    collective.source = place(d, i, 1)?;
    exchange(d, collective)
}

fn elect(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let mut collective = blank(Exchange::Elect, members(d, i)?);
    (collective.value, collective.predicate) = destinations(d, i)?;
    exchange(d, collective)
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
