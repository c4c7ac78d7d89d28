//! `mbarrier`: every form of the instruction table, from every way to say an arrival and a wait.

use std::collections::BTreeSet;

use warpwright_arch::instructions;
use warpwright_ir as ir;
use warpwright_lang::access::Scope;
use warpwright_lang::mbarrier::{Arrival, Mbarrier, PhaseEnd, pending_arrivals};

use super::{staged, x};

type Operation = Box<dyn Fn()>;

/// An operation whose value nobody needs.
fn operation<R>(record: impl Fn() -> R + 'static) -> Operation {
    Box::new(move || {
        record();
    })
}

const SCOPES: [Scope; 2] = [Scope::Block, Scope::Cluster];

/// No order said, and those that are.
#[derive(Clone, Copy, Debug)]
enum Order {
    Default,
    Ordered(Scope),
    Relaxed(Scope),
}

const ORDERS: [Order; 5] = [
    Order::Default,
    Order::Ordered(Scope::Block),
    Order::Ordered(Scope::Cluster),
    Order::Relaxed(Scope::Block),
    Order::Relaxed(Scope::Cluster),
];

fn remote() -> warpwright_lang::mbarrier::RemoteMbarrier {
    Mbarrier::new().at_rank(1)
}

/// Every arrival that there is.
fn arrivals() -> Vec<Operation> {
    let mut operations: Vec<Operation> = Vec::new();
    for (order, drops) in ORDERS.into_iter().flat_map(|order| [(order, false), (order, true)]) {
        let arrival = move || {
            let arrival = if drops { Arrival::new().dropping() } else { Arrival::new() };
            match order {
                Order::Default => arrival,
                Order::Ordered(scope) => arrival.releasing(scope),
                Order::Relaxed(scope) => arrival.relaxed(scope),
            }
        };
        operations.push(operation(move || Mbarrier::new().arrive_as(arrival())));
        operations.push(operation(move || Mbarrier::new().arrive_as(arrival().times(2))));
        operations.push(operation(move || Mbarrier::new().arrive_as(arrival().expecting(x::<u32>()))));
        operations.push(operation(move || remote().arrive_as(arrival())));
        operations.push(operation(move || remote().arrive_as(arrival().times(x::<u32>()))));
        operations.push(operation(move || remote().arrive_as(arrival().expecting(64))));
        if matches!(order, Order::Default | Order::Ordered(Scope::Block)) {
            operations
                .push(operation(move || Mbarrier::new().arrive_as(arrival().times(3).without_ending())));
        }
    }
    operations
}

/// Every test for the end of a phase.
fn tests() -> Vec<Operation> {
    let mut operations: Vec<Operation> = Vec::new();
    for (order, by_parity) in ORDERS.into_iter().flat_map(|order| [(order, false), (order, true)]) {
        let end = move || {
            let end =
                if by_parity { PhaseEnd::of_parity(x::<u32>()) } else { PhaseEnd::of_state(x::<u64>()) };
            match order {
                Order::Default => end,
                Order::Ordered(scope) => end.acquiring(scope),
                Order::Relaxed(scope) => end.relaxed(scope),
            }
        };
        operations.push(operation(move || Mbarrier::new().test(end())));
        operations.push(operation(move || Mbarrier::new().attempt(end())));
        operations.push(operation(move || Mbarrier::new().attempt(end().within(500))));
        operations.push(operation(move || Mbarrier::new().wait_for(end().within(x::<u32>()))));
    }
    operations
}

/// What is left: the object's life, its bytes, its states.
fn others() -> Vec<Operation> {
    let mut operations: Vec<Operation> = vec![
        operation(|| Mbarrier::new().init(1)),
        operation(|| Mbarrier::new().invalidate()),
        operation(|| Mbarrier::new().expect(16)),
        operation(|| Mbarrier::new().complete(16)),
        operation(|| pending_arrivals(x::<u64>())),
    ];
    for scope in SCOPES {
        operations.push(operation(move || Mbarrier::new().expect_in(16, scope)));
        operations.push(operation(move || Mbarrier::new().complete_in(16, scope)));
        operations.push(operation(move || remote().expect_in(16, scope)));
        operations.push(operation(move || remote().complete_in(16, scope)));
    }
    operations
}

fn kernels() -> Vec<ir::Kernel> {
    let operations = arrivals().into_iter().chain(tests()).chain(others());
    operations
        .enumerate()
        .map(|(number, operation)| staged(&format!("barrier_{number}"), operation))
        .collect()
}

/// A form: its name, its destination and how many operands it has.
type Found = (String, Destination, usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Destination {
    Nothing,
    Sink,
    Register,
}

fn recorded(kernels: &[ir::Kernel]) -> BTreeSet<Found> {
    let mut found = BTreeSet::new();
    for kernel in kernels {
        kernel.for_each_instruction(&mut |instruction| {
            if instruction.opcode.starts_with("mbarrier.") {
                let destination = match (instruction.destinations, instruction.operands.first()) {
                    (0, _) => Destination::Nothing,
                    (_, Some(ir::Operand::Sink)) => Destination::Sink,
                    _ => Destination::Register,
                };
                let file = instruction.location.file;
                assert!(
                    file.ends_with("operations/mbarrier.rs"),
                    "{} is said to be at {file}",
                    instruction.opcode
                );
                found.insert((instruction.opcode.to_string(), destination, instruction.operands.len()));
            }
        });
    }
    found
}

/// The forms of the table, the space spelled as the language does: `.shared::cta` and none are
/// `.shared`. Where bytes of the cluster's barriers are counted with no order said, that is
/// `.relaxed.cta`.
fn table() -> BTreeSet<Found> {
    let mut table = BTreeSet::new();
    for form in instructions::forms().filter(|form| form.name.starts_with("mbarrier.")) {
        let (destination, operands) = match form.operands.split_once('=') {
            None => (Destination::Nothing, form.operands),
            Some((destination, operands)) if destination.trim() == "_" => (Destination::Sink, operands),
            Some((_, operands)) => (Destination::Register, operands),
        };
        let written = usize::from(destination != Destination::Nothing);
        let most = written + operands.split(',').count();
        let fewest = most - usize::from(operands.ends_with('?'));
        for (name, _) in form.instances(usize::MAX) {
            let name = name.replace(".shared::cta.", ".shared.");
            let bytes_of_cluster =
                ["mbarrier.expect_tx.shared::cluster", "mbarrier.complete_tx.shared::cluster"]
                    .iter()
                    .any(|default| name.starts_with(default));
            let names_space = name.contains(".shared") || name.contains("pending_count");
            if names_space && !bytes_of_cluster {
                table.extend((fewest..=most).map(|count| (name.clone(), destination, count)));
            }
        }
    }
    table
}

#[test]
fn every_mbarrier_of_the_table_is_recorded_and_no_other() {
    let (recorded, table) = (recorded(&kernels()), table());
    let lacking: Vec<_> = table.difference(&recorded).collect();
    let unknown: Vec<_> = recorded.difference(&table).collect();
    assert!(lacking.is_empty() && unknown.is_empty(), "lacking {lacking:#?}, unknown {unknown:#?}");
    assert!(table.len() > 80, "{} forms: the table has them by order, scope, space and count", table.len());
}

#[test]
fn the_verifier_and_the_assembler_accept_every_form() {
    let capability = super::Capability::for_target("sm_90a").expect("a target of the table");
    let module = ir::Module::new(capability, kernels());
    for kernel in &module.kernels {
        ir::verify(kernel, capability).unwrap_or_else(|errors| panic!("{:?}: {errors:?}", kernel.body));
    }
    super::assemble(&module);
}
