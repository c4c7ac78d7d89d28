//! Tensor memory, the accumulator memory of Blackwell's tensor cores: 128 rows by 512 columns of 32
//! bits per CTA. PTX ISA, "Tensor Memory"; sm_100a.
//!
//! One warp allocates columns and frees them. One thread issues MMAs
//! ([`TensorCoreMma`](crate::tensor::TensorCoreMma)) and commits them to an mbarrier
//! ([`commit_tensor_core`]). Each warp of a warpgroup moves its own quarter of the rows to and from
//! its registers. All of this is asynchronous: [`wait_tensor_loads`] waits for loads, and
//! [`tensor_fence_after_sync`] orders later work in tensor memory after a barrier.
//!
//! A load or store has a [`TensorMemoryShape`]. `tcgen05.cp` copies shared memory to tensor memory:
//! [`TensorMemory::copy_from`].

mod access;

pub use access::{TensorMemoryAccess, TensorMemoryShape};

use warpwright_arch::limits::{TENSOR_MEMORY_COLUMNS, TENSOR_MEMORY_MIN_COLUMNS};
use warpwright_ir::Operand;

use crate::DeviceValue;
pub use crate::cta_group::CtaGroup;
use crate::launch::demand_ranks;
use crate::mbarrier::Mbarrier;
use crate::operation::{fresh, perform, record, refuse};
use crate::pointer::Shared;
use crate::recorder::{self, Columns};
use crate::requirement::{Feature, require};
use crate::value::{Reg, Value};

/// Cells of tensor memory from a row and a column on, by address.
///
/// ```
/// use warpwright_lang::pointer::Global;
/// use warpwright_lang::shared::shared_array;
/// use warpwright_lang::special::thread_idx;
/// use warpwright_lang::tensor_memory::*;
/// use warpwright_lang::{block, kernel, launch};
///
/// /// Every thread keeps a number in its row, and gets it back.
/// #[kernel]
/// fn keep(numbers: &mut Global<u32>) {
///     launch::threads(128);
///     let (holder, thread) = (shared_array::<u32>(1), thread_idx().x);
///     if thread < 32 {
///         allocate_tensor_memory(CtaGroup::One, 32, holder);
///     }
///     block::sync_threads();
///     tensor_fence_after_sync();
///     let columns = TensorMemory::at(holder);
///     let own = columns.row((thread / 32) * 32);
///     own.store([numbers[thread]]);
///     wait_tensor_stores();
///     let [number] = own.load::<1>();
///     wait_tensor_loads();
///     numbers[thread] = number;
///     tensor_fence_before_sync();
///     block::sync_threads();
///     if thread < 32 {
///         columns.free(CtaGroup::One, 32);
///     }
/// }
/// assert!(keep().is_ok());
/// ```
#[derive(Clone, Copy, DeviceValue)]
pub struct TensorMemory {
    address: Reg<u32>,
}

impl TensorMemory {
    /// The columns whose address [`allocate_tensor_memory`] has written to `holder`.
    #[track_caller]
    pub fn at(holder: Shared<u32>) -> Self {
        let address = holder.load();
        recorder::with(|recorder| {
            if let Some(allocated) = recorder.columns_in(holder.parts()) {
                recorder.note_columns(address.register(), Columns { left: allocated, allocated });
            }
        });
        Self { address }
    }

    /// The cells from the row in bits 16 and up of `address` and the column below them on.
    #[track_caller]
    pub fn from_address(address: impl Value<u32>) -> Self {
        Self { address: address.reg() }
    }

    /// The same from `columns` columns further on.
    #[track_caller]
    pub fn column(self, columns: impl Value<u32>) -> Self {
        let known = match columns.operand() {
            Operand::Integer(columns) => u32::try_from(columns).ok(),
            _ => None,
        };
        let moved = Self { address: self.address + columns.reg() };
        if let Some((held, columns)) = self.columns().zip(known) {
            let left = held.left.saturating_sub(columns);
            if left == 0 {
                refuse(format!(
                    "`column`: column {columns} is outside the {} columns of tensor memory from here on",
                    held.left
                ));
            } else {
                moved.note(Columns { left, ..held });
            }
        }
        moved
    }

    /// The same from `rows` rows further on.
    #[track_caller]
    pub fn row(self, rows: impl Value<u32>) -> Self {
        let moved = Self { address: self.address + (rows.reg() << 16) };
        if let Some(columns) = self.columns() {
            moved.note(columns);
        }
        moved
    }

    /// The columns from here on, as far as their allocation is known.
    fn columns(self) -> Option<Columns> {
        recorder::with(|recorder| recorder.columns_at(self.address.register()))
    }

    fn note(self, columns: Columns) {
        recorder::with(|recorder| recorder.note_columns(self.address.register(), columns));
    }

    /// Refuses an operation on more columns than are allocated from here on.
    #[track_caller]
    pub(crate) fn demand_columns(self, operation: &str, columns: u32) {
        if let Some(Columns { left, .. }) = self.columns().filter(|held| columns > held.left) {
            refuse(format!(
                "`{operation}`: this takes {columns} columns of tensor memory, and {left} are allocated from here on: \
                 allocate as many as the kernel uses"
            ));
        }
    }

    /// Frees `columns` columns, as they were allocated. One warp does it, when no thread uses them
    /// any more.
    #[track_caller]
    pub fn free(self, group: CtaGroup, columns: u32) {
        require(Feature::TensorMemory);
        demand_one_group(group);
        if let Some(Columns { allocated, .. }) = self.columns().filter(|held| held.allocated != columns) {
            refuse(format!(
                "`free`: {columns} columns are freed, and {allocated} were allocated: free all of them"
            ));
        }
        if is_number_of_columns(columns) {
            let opcode = format!("tcgen05.dealloc{}.sync.aligned.b32", group.word());
            perform(opcode, [self.address.operand(), Operand::Integer(columns.into())]);
        }
    }

    /// Loads `N` columns (a power of two up to 128) of the warp's 32 rows, one row per lane. The
    /// registers are valid after [`wait_tensor_loads`].
    #[track_caller]
    pub fn load<const N: usize>(self) -> [Reg<u32>; N] {
        self.load_in("load", TensorMemoryAccess::new(TensorMemoryShape::Rows32x32b))
    }

    /// Loads `N` registers per lane (a power of two up to 128) in another shape.
    ///
    /// ```
    /// use warpwright_lang::pointer::Global;
    /// use warpwright_lang::shared::shared_array;
    /// use warpwright_lang::special::thread_idx;
    /// use warpwright_lang::tensor_memory::*;
    /// use warpwright_lang::{kernel, launch};
    ///
    /// /// A warp writes its 32 rows, and reads the upper 16 as the accumulator of an `mma.sync`.
    /// #[kernel]
    /// fn reshape(numbers: &mut Global<u32>) {
    ///     launch::threads(32);
    ///     let (holder, lane) = (shared_array::<u32>(1), thread_idx().x);
    ///     allocate_tensor_memory(CtaGroup::One, 32, holder);
    ///     let cells = TensorMemory::at(holder);
    ///     cells.store([0, 1, 2, 3, 4, 5, 6, 7].map(|column| lane * 8 + column));
    ///     wait_tensor_stores();
    ///     let shape = TensorMemoryShape::Rows16x256b;
    ///     let accumulator = cells.row(16).load_with::<4>(TensorMemoryAccess::new(shape));
    ///     wait_tensor_loads();
    ///     for (position, number) in (0..).zip(accumulator) {
    ///         numbers[lane * 4 + position] = number;
    ///     }
    ///     cells.free(CtaGroup::One, 32);
    /// }
    /// reshape().unwrap();
    /// ```
    #[track_caller]
    pub fn load_with<const N: usize>(self, access: TensorMemoryAccess) -> [Reg<u32>; N] {
        self.load_in("load_with", access)
    }

    #[track_caller]
    fn load_in<const N: usize>(self, operation: &str, access: TensorMemoryAccess) -> [Reg<u32>; N] {
        let registers = [(); N].map(|()| fresh());
        if let Some(form) = self.form(operation, access, N) {
            let packed = if access.packed { ".pack::16b" } else { "" };
            let mut operands = vec![vector(&registers), self.operand()];
            operands.extend(apart(access));
            record(format!("tcgen05.ld.sync.aligned.{form}{packed}.b32"), 1, operands);
        }
        registers
    }

    /// Stores `N` columns of the warp's 32 rows, the reverse of [`load`](Self::load). They are
    /// complete after [`wait_tensor_stores`].
    #[track_caller]
    pub fn store<const N: usize>(self, values: [Reg<u32>; N]) {
        self.store_in("store", TensorMemoryAccess::new(TensorMemoryShape::Rows32x32b), values);
    }

    /// Stores `N` registers per lane in another shape, the reverse of [`load_with`](Self::load_with).
    #[track_caller]
    pub fn store_with<const N: usize>(self, access: TensorMemoryAccess, values: [Reg<u32>; N]) {
        self.store_in("store_with", access, values);
    }

    #[track_caller]
    fn store_in<const N: usize>(self, operation: &str, access: TensorMemoryAccess, values: [Reg<u32>; N]) {
        if let Some(form) = self.form(operation, access, N) {
            let packed = if access.packed { ".unpack::16b" } else { "" };
            let mut operands = vec![self.operand()];
            operands.extend(apart(access));
            operands.push(vector(&values));
            record(format!("tcgen05.st.sync.aligned.{form}{packed}.b32"), 0, operands);
        }
    }

    /// The shape and count of an access of `registers` registers per lane: `16x256b.x2`. Others than
    /// exist are refused.
    #[track_caller]
    fn form(self, operation: &str, access: TensorMemoryAccess, registers: usize) -> Option<String> {
        require(Feature::TensorMemory);
        let least = access.shape.least_registers();
        if !registers.is_power_of_two() || !(least..=128).contains(&registers) {
            refuse(format!(
                "`{operation}`: a load or store of tensor memory in shape .{} has {least}, {}, .. 128 registers per lane, not \
                 {registers}",
                access.shape.word(),
                2 * least
            ));
            return None;
        }
        self.demand_columns(operation, access.columns(registers as u32));
        Some(format!("{}.x{}", access.shape.word(), registers / least))
    }

    /// As an instruction's operand.
    pub(crate) fn operand(self) -> Operand {
        Operand::Address { base: Box::new(self.address.operand()), offset: 0, rest: Vec::new() }
    }
}

fn vector(registers: &[Reg<u32>]) -> Operand {
    Operand::Vector(registers.iter().map(|register| register.operand()).collect())
}

/// The distance of the columns of the upper lanes, which one shape has.
fn apart(access: TensorMemoryAccess) -> Option<Operand> {
    match access.shape {
        TensorMemoryShape::Rows16x32bx2 { apart } => Some(Operand::Integer(apart.into())),
        _ => None,
    }
}

#[track_caller]
fn is_number_of_columns(columns: u32) -> bool {
    let legal =
        columns.is_power_of_two() && (TENSOR_MEMORY_MIN_COLUMNS..=TENSOR_MEMORY_COLUMNS).contains(&columns);
    if !legal {
        let nearest = columns.clamp(TENSOR_MEMORY_MIN_COLUMNS, TENSOR_MEMORY_COLUMNS).next_power_of_two();
        refuse(format!(
            "tensor memory is allocated in a power of two of columns from {TENSOR_MEMORY_MIN_COLUMNS} to \
             {TENSOR_MEMORY_COLUMNS}, not {columns}: allocate {nearest}"
        ));
    }
    legal
}

/// Allocates `columns` columns, a power of two from 32 to 512, whose address is written to
/// `holder`. One warp does it (of a pair of CTAs, one in each), and waits until they are free.
#[track_caller]
pub fn allocate_tensor_memory(group: CtaGroup, columns: u32, holder: Shared<u32>) {
    require(Feature::TensorMemory);
    holder.demand_writable();
    demand_one_group(group);
    recorder::with(|recorder| recorder.note_allocation_of_columns(holder.parts(), columns));
    if is_number_of_columns(columns) {
        let opcode = format!("tcgen05.alloc{}.sync.aligned.shared::cta.b32", group.word());
        perform(opcode, [holder.operand(), Operand::Integer(columns.into())]);
    }
}

/// Refuses another group than the kernel's: all its instructions on tensor memory have the same
/// (PTX ISA, "tcgen05").
#[track_caller]
pub(crate) fn demand_one_group(group: CtaGroup) {
    let first = recorder::with(|recorder| recorder.cta_group(group));
    if first != group {
        refuse(format!(
            "tensor memory is used by CtaGroup::{group:?} here, and by CtaGroup::{first:?} before: a kernel uses one of them throughout"
        ));
    }
}

/// Relinquishes the CTA's allocation permit, so that another CTA on the SM may allocate. One warp
/// does it.
#[track_caller]
pub fn relinquish_tensor_memory(group: CtaGroup) {
    require(Feature::TensorMemory);
    demand_one_group(group);
    perform(format!("tcgen05.relinquish_alloc_permit{}.sync.aligned", group.word()), []);
}

/// Waits until the warp's loads of tensor memory have written their registers.
#[track_caller]
pub fn wait_tensor_loads() {
    require(Feature::TensorMemory);
    perform("tcgen05.wait::ld.sync.aligned", []);
}

/// Waits until the warp's stores to tensor memory are complete.
#[track_caller]
pub fn wait_tensor_stores() {
    require(Feature::TensorMemory);
    perform("tcgen05.wait::st.sync.aligned", []);
}

/// Orders this thread's earlier work in tensor memory before a synchronization: call it before the
/// arrival. A commit includes it.
#[track_caller]
pub fn tensor_fence_before_sync() {
    require(Feature::TensorMemory);
    perform("tcgen05.fence::before_thread_sync", []);
}

/// Orders this thread's later work in tensor memory after a synchronization: call it after a
/// barrier or a wait on an mbarrier.
#[track_caller]
pub fn tensor_fence_after_sync() {
    require(Feature::TensorMemory);
    perform("tcgen05.fence::after_thread_sync", []);
}

/// `mbarrier` gets an arrival when all multiplies that this thread has issued are done.
#[track_caller]
pub fn commit_tensor_core(group: CtaGroup, mbarrier: Mbarrier) {
    require(Feature::TensorMemory);
    demand_one_group(group);
    let opcode = format!("tcgen05.commit{}.mbarrier::arrive::one.shared::cluster.b64", group.word());
    perform(opcode, [mbarrier.object().operand()]);
}

/// The same for the mbarriers at the same shared-memory offset in all CTAs of the cluster whose bit
/// is set in `ranks`.
#[track_caller]
pub fn commit_tensor_core_to(group: CtaGroup, mbarrier: Mbarrier, ranks: impl Value<u16>) {
    require(Feature::TensorMemory);
    demand_one_group(group);
    demand_ranks("commit_tensor_core_to", ranks.operand(), true);
    let words = "mbarrier::arrive::one.shared::cluster.multicast::cluster.b64";
    let opcode = format!("tcgen05.commit{}.{words}", group.word());
    perform(opcode, [mbarrier.object().operand(), ranks.reg().operand()]);
}
