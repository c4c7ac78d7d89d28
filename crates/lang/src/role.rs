//! Roles: which warpgroups of a CTA do what, and with how many registers.
//!
//! A warp-specialised kernel gives its warpgroups different work. One that only starts copies needs few registers, one that holds
//! accumulators many: `setmaxnreg` moves them from one to the other. [`roles`] hands out the warpgroups, sets the launch's
//! threads, and checks that the budgets fit the register file.

use std::cmp::Ordering;
use warpwright_arch::limits::{self, REGISTERS_PER_SM, SETMAXNREG_STEP};

use crate::DeviceValue;
use crate::block::{barrier_arrive, barrier_sync};
use crate::operation::{on_behalf_of_author, refuse};
use crate::registers::{decrease_registers, increase_registers};
use crate::special::thread_idx;
use crate::staging::Condition;
use crate::value::Reg;
use crate::{launch, warp};

/// Threads of a warpgroup: four warps.
pub const WARPGROUP: u32 = limits::WARPGROUP_SIZE;

/// Neighbouring warpgroups of a CTA that do the same work.
#[derive(Clone, Copy, DeviceValue)]
pub struct Role {
    first: u32,
    warpgroups: u32,
    /// Of the whole CTA.
    all_warpgroups: u32,
    registers: u32,
    registers_at_launch: u32,
    /// The number of this thread's warp in the CTA.
    warp: Reg<u32>,
}

/// The size of a [`Role`]: [`warpgroups`] and, if they differ from an equal share, registers per thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleSize {
    warpgroups: u32,
    registers: Option<u32>,
}

/// A role of `count` warpgroups, whose threads have an equal share of the register file.
pub fn warpgroups(count: u32) -> RoleSize {
    RoleSize { warpgroups: count, registers: None }
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

/// Splits the CTA into roles, in the order of its threads. It states the CTA's threads: [`launch::threads`] is not called.
///
/// Every thread starts with an equal share of the register file, rounded down to a multiple of 8 (168 for three
/// warpgroups); a role with another number of registers reallocates them in [`Role::begin`].
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
pub fn roles<const N: usize>(sizes: [RoleSize; N]) -> [Role; N] {
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
    if used > REGISTERS_PER_SM {
        refuse(format!("the roles use {used} registers, and an SM has {REGISTERS_PER_SM}"));
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

impl Role {
    /// Warpgroups that play it.
    pub fn warpgroups(self) -> u32 {
        self.warpgroups
    }

    /// Threads that play it.
    pub fn threads(self) -> u32 {
        self.warpgroups * WARPGROUP
    }

    /// Whether this thread plays it; the same in all threads of a warpgroup.
    #[track_caller]
    pub fn is_mine(self) -> Reg<bool> {
        let warps = 4 * self.warpgroups;
        (self.warp - 4 * self.first).lt(warps)
    }

    /// What the role's threads do first: they give back or take registers until they have the role's budget.
    #[track_caller]
    pub fn begin(self) {
        match self.registers.cmp(&self.registers_at_launch) {
            Ordering::Less => decrease_registers(self.registers),
            Ordering::Equal => {}
            Ordering::Greater => increase_registers(self.registers),
        }
    }

    /// The number of this thread's warpgroup among the role's, the same in all its threads for the compiler to see.
    #[track_caller]
    pub fn warpgroup(self) -> Reg<u32> {
        self.warp / 4u32 - self.first
    }

    /// The number of this thread among the role's.
    #[track_caller]
    pub fn thread(self) -> Reg<u32> {
        thread_idx().x - self.first * WARPGROUP
    }

    /// Whether this thread is the one that acts for the role.
    #[track_caller]
    pub fn leads(self) -> Reg<bool> {
        self.warp.eq(4 * self.first) & warp::elect(warp::ALL_LANES)
    }

    /// Whether this thread is the one that acts for its warpgroup.
    #[track_caller]
    pub fn leads_warpgroup(self) -> Reg<bool> {
        (self.warp % 4u32).eq(0u32) & warp::elect(warp::ALL_LANES)
    }

    /// Waits for the 128 threads of this thread's warpgroup. It takes the hardware barriers 1 and up, one a warpgroup.
    #[track_caller]
    pub fn sync_warpgroup(self) {
        barrier_sync(self.warp / 4u32 + 1u32, WARPGROUP);
    }

    /// Begins turns among the role's warpgroups: the first has the first turn.
    #[track_caller]
    pub fn begin_turns(self) {
        let last = self.warpgroup().eq(self.warpgroups - 1);
        only_where(last, || self.pass_turn());
    }

    /// Waits until the warpgroup before this one has passed its turn.
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

    /// The hardware barrier where a warpgroup waits for its turn and the one before it arrives: they come after those of
    /// [`sync_warpgroup`](Self::sync_warpgroup), one a warpgroup.
    #[track_caller]
    fn turn_of(self, warpgroup: Reg<u32>) -> Reg<u32> {
        if self.warpgroups < 2 {
            refuse("a role of one warpgroup has no turns to pass");
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
