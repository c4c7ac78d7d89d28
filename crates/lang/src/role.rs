//! Roles: the work of a CTA's warpgroups, and their registers.
//!
//! A warp-specialized kernel gives its warpgroups different work. A producer needs few registers, a
//! consumer with accumulators many: `setmaxnreg` reallocates them. [`roles`] assigns the
//! warpgroups, states the CTA's threads, and checks that the CTA has the registers.

use std::cmp::Ordering;
use warpwright_arch::limits::{self, REGISTERS_PER_SM, SETMAXNREG_STEP};
use warpwright_ir::{Location, Operand};

use crate::DeviceValue;
use crate::block::{barrier_arrive, barrier_sync};
use crate::operation::{here, on_behalf_of_author, refuse};
use crate::recorder;
use crate::registers::{decrease_registers, increase_registers};
use crate::special::thread_idx;
use crate::staging::Condition;
use crate::value::Reg;
use crate::{launch, warp};

/// Threads of a warpgroup: four warps.
pub const WARPGROUP: u32 = limits::WARPGROUP_SIZE;

/// Consecutive warpgroups of a CTA that do the same work.
#[derive(Clone, Copy, DeviceValue)]
pub struct Role {
    first: u32,
    warpgroups: u32,
    /// The number of warpgroups in the CTA.
    all_warpgroups: u32,
    registers: u32,
    registers_at_launch: u32,
    /// The number of this thread's warp in the CTA.
    warp: Reg<u32>,
}

/// The size of a [`Role`]: [`warpgroups`] and, if they differ from an equal share, registers per
/// thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleSize {
    warpgroups: u32,
    registers: Option<u32>,
}

/// A role of `count` warpgroups, whose threads have an equal share of the register file.
pub fn warpgroups(count: u32) -> RoleSize {
    RoleSize { warpgroups: count, registers: None }
}

/// What [`roles`] takes for each role.
#[diagnostic::on_unimplemented(
    message = "a role is a number of warpgroups, not a `{Self}`",
    label = "expected `warpgroups(n)`",
    note = "write `warpgroups(2)`, or `warpgroups(2).registers(232)` for that many registers per thread"
)]
pub trait IntoRoleSize {
    /// The size.
    fn into_role_size(self) -> RoleSize;
}

impl IntoRoleSize for RoleSize {
    fn into_role_size(self) -> RoleSize {
        self
    }
}

impl RoleSize {
    /// The role with `count` registers per thread: a multiple of 8 from 24 to 256.
    pub fn registers(self, count: u32) -> Self {
        Self { registers: Some(count), ..self }
    }

    /// The threads of the role.
    pub fn threads(self) -> u32 {
        self.warpgroups * WARPGROUP
    }
}

/// Splits the CTA into roles, in the order of its threads. It states the CTA's threads:
/// [`launch::threads`] is not called.
///
/// Every thread starts with an equal share of the register file, rounded down to a multiple of 8
/// (168 for three warpgroups); a role with another number of registers reallocates them in
/// [`Role::begin`].
///
/// ```
/// use warpwright_lang::kernel;
/// use warpwright_lang::role::{roles, warpgroups};
///
/// #[kernel]
/// fn specialized() {
///     let [producer, consumer] = roles([warpgroups(1).registers(40), warpgroups(2).registers(232)]);
///     if producer.is_mine() {
///         producer.begin();
///     } else {
///         consumer.begin();
///     }
/// }
/// assert_eq!(specialized().unwrap().ir().launch.required_block, Some([384, 1, 1]));
/// ```
#[track_caller]
pub fn roles<const N: usize>(sizes: [impl IntoRoleSize; N]) -> [Role; N] {
    let sizes = sizes.map(IntoRoleSize::into_role_size);
    let warpgroups: u32 = sizes.iter().map(|size| size.warpgroups).sum();
    let threads = warpgroups * WARPGROUP;
    let registers_at_launch = REGISTERS_PER_SM / threads.max(1) / SETMAXNREG_STEP * SETMAXNREG_STEP;
    let registers = sizes.map(|size| size.registers.unwrap_or(registers_at_launch));
    for count in sizes.iter().filter_map(|size| size.registers) {
        if !limits::setmaxnreg_accepts(count) {
            refuse(format!("a role has {count} registers per thread: use a multiple of 8 from 24 to 256"));
        }
    }
    let used: u32 = sizes.iter().zip(registers).map(|(size, registers)| size.threads() * registers).sum();
    // PTX ISA, `setmaxnreg.inc`: the warp waits until the CTA's own pool has enough registers. What the
    // launch does not allocate never comes.
    let pool = registers_at_launch * threads;
    if used > pool {
        refuse(format!(
            "the roles use {used} registers, and the CTA has {pool}: {registers_at_launch} for each of {threads} threads"
        ));
    }
    let reallocated = |count: &u32| *count != registers_at_launch && limits::setmaxnreg_accepts(*count);
    if used <= pool {
        let location = here();
        registers
            .into_iter()
            .filter(reallocated)
            .for_each(|count| demand_begin(count, registers_at_launch, location));
    }
    launch::threads(threads);
    launch::blocks_per_sm(1);
    // The broadcast makes the value warp-uniform for the compiler.
    let warp = (thread_idx().x / 32u32).shuffle(0u32);
    let mut first = 0;
    std::array::from_fn(|index| {
        let role = Role {
            first,
            warpgroups: sizes[index].warpgroups,
            all_warpgroups: warpgroups,
            registers: registers[index],
            registers_at_launch,
            warp,
        };
        first += sizes[index].warpgroups;
        role
    })
}

/// Refuses a role with a number of registers of its own that never begins.
fn demand_begin(count: u32, at_launch: u32, location: Location) {
    recorder::with(|recorder| {
        recorder.demand_at_end(location, move |kernel| {
            let mut begins = false;
            kernel.for_each_instruction(&mut |found| {
                begins |= found.opcode.starts_with("setmaxnreg")
                    && found.operands == [Operand::Integer(count.into())];
            });
            (!begins).then(|| {
                format!(
                    "a role has {count} registers per thread, and nothing calls its `begin()`: its threads keep {at_launch}; call it \
                     first in the role's branch"
                )
            })
        });
    });
}

impl Role {
    /// The number of warpgroups.
    pub fn warpgroups(self) -> u32 {
        self.warpgroups
    }

    /// The number of threads.
    pub fn threads(self) -> u32 {
        self.warpgroups * WARPGROUP
    }

    /// Whether this thread belongs to the role; warpgroup-uniform.
    #[track_caller]
    pub fn is_mine(self) -> Reg<bool> {
        let warps = 4 * self.warpgroups;
        (self.warp - 4 * self.first).lt(warps)
    }

    /// Reallocates registers (`setmaxnreg`) to the role's number, if it is not an equal share. The
    /// role's threads call it first; a kernel that never calls it for such a role is refused.
    #[track_caller]
    pub fn begin(self) {
        match self.registers.cmp(&self.registers_at_launch) {
            Ordering::Less => decrease_registers(self.registers),
            Ordering::Equal => {}
            Ordering::Greater => increase_registers(self.registers),
        }
    }

    /// The index of this thread's warpgroup in the role; warp-uniform for the compiler.
    #[track_caller]
    pub fn warpgroup(self) -> Reg<u32> {
        self.warp / 4u32 - self.first
    }

    /// The index of this thread in the role.
    #[track_caller]
    pub fn thread(self) -> Reg<u32> {
        let thread = thread_idx().x - self.first * WARPGROUP;
        let register = thread.register();
        recorder::with(|recorder| recorder.note_threads(register, self.threads(), "the role"));
        thread
    }

    /// True in one thread of the role.
    #[track_caller]
    pub fn leads(self) -> Reg<bool> {
        self.warp.eq(4 * self.first) & warp::elect(warp::ALL_LANES)
    }

    /// True in one thread of this thread's warpgroup.
    #[track_caller]
    pub fn leads_warpgroup(self) -> Reg<bool> {
        (self.warp % 4u32).eq(0u32) & warp::elect(warp::ALL_LANES)
    }

    /// Waits for the 128 threads of this thread's warpgroup. It uses named barriers 1 and up, one
    /// per warpgroup.
    #[track_caller]
    pub fn sync_warpgroup(self) {
        barrier_sync(self.warp / 4u32 + 1u32, WARPGROUP);
    }

    /// Waits for all threads of the role. It uses the named barrier of the role's first warpgroup after
    /// those of [turns](Self::wait_turn).
    #[track_caller]
    pub fn sync(self) {
        barrier_sync(2 * self.all_warpgroups + self.first + 1, self.threads());
    }

    /// Starts turns among the role's warpgroups: the first has the first turn.
    #[track_caller]
    pub fn begin_turns(self) {
        let last = self.warpgroup().eq(self.warpgroups - 1);
        only_where(last, || self.pass_turn());
    }

    /// Waits until the previous warpgroup passes the turn.
    #[track_caller]
    pub fn wait_turn(self) {
        barrier_sync(self.turn_of(self.warpgroup()), 2 * WARPGROUP);
    }

    /// Passes the turn to the next warpgroup of the role, the first after the last.
    #[track_caller]
    pub fn pass_turn(self) {
        let next = self.warpgroup() + 1u32;
        let next = next.eq(self.warpgroups).select(0u32, next);
        barrier_arrive(self.turn_of(next), 2 * WARPGROUP);
    }

    /// The named barrier on which a warpgroup waits for its turn; they follow those of
    /// [`sync_warpgroup`](Self::sync_warpgroup), one per warpgroup.
    #[track_caller]
    fn turn_of(self, warpgroup: Reg<u32>) -> Reg<u32> {
        if self.warpgroups < 2 {
            refuse("a role of one warpgroup has no turns: `wait_turn` and `pass_turn` need at least two");
        }
        warpgroup + (self.all_warpgroups + self.first + 1)
    }
}

/// Records `body`, a part of an operation, for the threads where `condition` holds.
#[track_caller]
pub(crate) fn only_where(condition: Reg<bool>, body: impl FnOnce()) {
    on_behalf_of_author(|| {
        let mut branch = Condition::branch(condition);
        branch.then();
        body();
        branch.finish();
    });
}
