//! Tiled MMAs: the assignment of elements to warps and lanes, and the unrolled `mma.sync` over
//! fragments.

use warpwright_arch::DataType;
use warpwright_ir::Operand as IrOperand;
use warpwright_layout::atom::{MmaAtom, Operand};
use warpwright_layout::{All, ComposedLayout, Coordinate, Int, IntTuple, Layout};

use super::agreement::agree;
use super::coordinates::Coordinates;
use super::fragment::Fragment;
use super::legal::{known, legal};
use super::tiled_mma::TiledMma;
use super::view::Tensor;
use crate::element::Element;
use crate::launch::demand_threads;
use crate::operation::{here, record, refuse};
use crate::recorder;
use crate::space::Space;
use crate::value::Reg;

/// Refuses a plan of more threads than the block has, and one of another number than the role whose
/// thread is given.
#[track_caller]
pub(super) fn demand_plan_threads(plan: &'static str, threads: u32, thread: Reg<u32>) {
    demand_threads(plan, threads);
    let known = recorder::with(|recorder| recorder.threads_of(thread.register()));
    match known {
        Some((others, whose)) => {
            let advice = "plan as many threads as take part";
            let (planned, given) = (format!("{plan} # threads"), format!("{whose} has #"));
            agree("thread", (&planned, threads), (&given, others), advice);
        }
        None => {
            let (index, location) = (thread.register(), here());
            recorder::with(|recorder| recorder.note_plan_index(plan, threads, index, location));
        }
    }
}

impl TiledMma {
    /// One thread's part in it.
    #[track_caller]
    pub fn thread(&self, thread: Reg<u32>) -> ThreadMma {
        demand_plan_threads("the MMA has", self.threads(), thread);
        ThreadMma { mma: self.clone(), thread: thread.into() }
    }
}

/// One thread's part in a [`TiledMma`].
#[derive(Clone)]
pub struct ThreadMma {
    mma: TiledMma,
    thread: Int,
}

impl ThreadMma {
    #[track_caller]
    fn partition(&self, operand: Operand, layout: &ComposedLayout) -> ComposedLayout {
        match self.mma.plan() {
            Some(plan) => legal(plan.partition(operand, layout, self.thread.clone()), || layout.clone()),
            None => layout.clone(),
        }
    }

    /// Refuses a tile that is not a multiple of the MMA's own: the last repetition would extend
    /// past its end. `None` is an extent that the device knows.
    #[track_caller]
    fn demand_whole_repetitions(&self, operation: &str, operand: Operand, tile: [Option<i64>; 2]) {
        let Some(plan) = self.mma.plan() else { return };
        let own = legal(plan.tile(operand), || IntTuple::from((1, 1)));
        let own = [0, 1].map(|mode| known(own.modes()[mode].product(), "the tile of an MMA"));
        let is_whole = |mode: usize| tile[mode].is_none_or(|extent| extent > 0 && extent % own[mode] == 0);
        if !is_whole(0) || !is_whole(1) {
            let [rows, columns] =
                [0, 1].map(|mode| tile[mode].map_or("_".to_owned(), |extent| extent.to_string()));
            let [up, right] = [0, 1].map(|mode| {
                let steps = (tile[mode].unwrap_or(1).max(1) + own[mode] - 1) / own[mode];
                steps * own[mode]
            });
            refuse(format!(
                "`{operation}`: a tile of {operand:?} of {rows} x {columns} is not a multiple of the {} x {} that {} threads of {} \
                 cover: use {up} x {right}",
                own[0],
                own[1],
                self.mma.threads(),
                plan.atom().name(),
            ));
        }
    }

    /// This thread's elements of an operand's tile in memory.
    #[track_caller]
    fn part<T: Element, S: Space>(&self, operand: Operand, tile: &Tensor<T, S>) -> Tensor<T, S> {
        // One element may hold several of the atom's.
        let each = self.mma.plan().and_then(|plan| packed::<T>(plan.atom().element(operand))).unwrap_or(1);
        let extent = |mode: usize| {
            let size = tile.layout().inner().mode(mode).and_then(|mode| mode.size());
            size.ok().and_then(|size| size.known())
        };
        let extents = [extent(0), extent(1).map(|columns| columns * each)];
        self.demand_whole_repetitions(&letter(operand).to_string(), operand, extents);
        tile.map(|layout| Ok(self.partition(operand, layout)))
    }

    /// This thread's elements of a C tile (m, n): (values, repetitions along m, along n).
    #[track_caller]
    pub fn c<T: Element, S: Space>(&self, tile: &Tensor<T, S>) -> Tensor<T, S> {
        self.part(Operand::C, tile)
    }

    /// The coordinates (m, n) of this thread's elements of a C tile of that shape, in the order of
    /// its fragment.
    #[track_caller]
    pub fn c_coordinates(&self, tile: (u32, u32)) -> Coordinates {
        self.demand_whole_repetitions("c_coordinates", Operand::C, known_extents(tile));
        let identity = legal(Layout::identity(tile), Layout::unit);
        let mine = self.partition(Operand::C, &identity.into());
        let elements = known(mine.size(), "a thread's elements of C");
        Coordinates::new(mine, (0..elements).map(IntTuple::from).collect())
    }

    /// This thread's elements of an A tile (m, k), of a sparse one (m, k / 2): (values, repetitions
    /// along m, along k), in the order of [`a_fragment`](Self::a_fragment).
    #[track_caller]
    pub fn a<T: Element, S: Space>(&self, tile: &Tensor<T, S>) -> Tensor<T, S> {
        self.part(Operand::A, tile)
    }

    /// This thread's elements of a B tile (n, k): (values, repetitions along n, along k), in the order of
    /// [`b_fragment`](Self::b_fragment).
    #[track_caller]
    pub fn b<T: Element, S: Space>(&self, tile: &Tensor<T, S>) -> Tensor<T, S> {
        self.part(Operand::B, tile)
    }

    /// Registers for this thread's elements of an A tile (m, k), of a sparse one (m, k / 2):
    /// (values, repetitions along m, along k). Elements narrower than a byte are held by words: of
    /// bits, [`b1x32`](crate::element::b1x32) counts as 32.
    #[track_caller]
    pub fn a_fragment<T: Element>(&self, tile: (u32, u32)) -> Fragment<T> {
        self.fragment(Operand::A, tile)
    }

    /// Registers for the metadata of an A tile of which (m, k / 2) is stored: (repetitions along m,
    /// registers along k).
    ///
    /// A register serves as many k-steps as the instruction has selectors (2 for elements of 16 and
    /// 32 bits, 1 for those of 8):
    /// [`Metadata::registers`](warpwright_layout::atom::Metadata::registers) makes them on the
    /// host.
    #[track_caller]
    pub fn metadata_fragment(&self, stored: (u32, u32)) -> Fragment<u32> {
        self.demand_whole_repetitions("metadata_fragment", Operand::A, known_extents(stored));
        let Some(plan) = self.mma.plan() else { return Fragment::with_layout(Layout::unit()) };
        let Some(metadata) = plan.atom().metadata() else {
            refuse(format!("{} has no metadata; the SM90_SPARSE_.. atoms do", plan.atom().name()));
            return Fragment::with_layout(Layout::unit());
        };
        let (rows, columns) = plan.atom().tile(Operand::A);
        let steps = i64::from(stored.1) / columns;
        let warpgroups = plan.thread_layout().mode(1).and_then(|mode| mode.size());
        let repetitions =
            i64::from(stored.0) / (rows * warpgroups.ok().and_then(|size| size.known()).unwrap_or(1));
        let registers = (steps + metadata.selectors() - 1) / metadata.selectors();
        Fragment::with_layout(legal(Layout::column_major((repetitions, registers)), Layout::unit))
    }

    /// Registers for this thread's elements of a B tile (n, k): (values, repetitions along n, along
    /// k).
    #[track_caller]
    pub fn b_fragment<T: Element>(&self, tile: (u32, u32)) -> Fragment<T> {
        self.fragment(Operand::B, tile)
    }

    /// Registers for this thread's elements of a C tile (m, n): (values, repetitions along m, along
    /// n).
    #[track_caller]
    pub fn c_fragment<T: Element>(&self, tile: (u32, u32)) -> Fragment<T> {
        self.fragment(Operand::C, tile)
    }

    #[track_caller]
    fn fragment<T: Element>(&self, operand: Operand, tile: (u32, u32)) -> Fragment<T> {
        let operation = format!("{}_fragment", letter(operand));
        self.demand_whole_repetitions(&operation, operand, known_extents(tile));
        let tile = legal(Layout::column_major(tile), Layout::unit);
        let mine = self.partition(operand, &tile.into());
        let Some(plan) = self.mma.plan() else { return Fragment::like(&mine) };
        match demand_element_type::<T>(&operation, plan.atom(), operand) {
            None => Fragment::like(&mine).refused(),
            Some(1) => Fragment::like(&mine),
            Some(each) => {
                let words = Layout::column_major(mine.shape().clone()).and_then(|bits| bits.recast(1, each));
                Fragment::with_layout(legal(words, Layout::unit))
            }
        }
    }
}

/// `c += a * b` over fragments: c (values, m, n), a (values, m), b (values, n) of one k-step.
///
/// Columns are visited back and forth, so that consecutive instructions share an operand.
#[track_caller]
pub fn gemm<A: Element, B: Element, C: Element>(
    mma: &TiledMma,
    c: &mut Fragment<C>,
    a: &Fragment<A>,
    b: &Fragment<B>,
) {
    let Some(plan) = mma.plan() else { return };
    let operation = "gemm";
    if !demand_warp_instruction(plan.atom())
        || !demand_fragment(operation, plan.atom(), Operand::C, c, 3)
        || !demand_fragment(operation, plan.atom(), Operand::A, a, 2)
        || !demand_fragment(operation, plan.atom(), Operand::B, b, 2)
    {
        return;
    }
    let a_rows = extent(a.layout(), 1) * covered(plan, Operand::A).0;
    let b_columns = extent(b.layout(), 1) * covered(plan, Operand::B).0;
    if !demand_accumulators(operation, plan, c, a_rows, b_columns) {
        return;
    }
    let (rows, columns) = (extent(c.layout(), 1), extent(c.layout(), 2));
    let opcode = plan.atom().instruction();
    for row in 0..rows {
        let a_words = vector(&a.slice((All, row)));
        for step in 0..columns {
            let column = if row % 2 == 0 { step } else { columns - 1 - step };
            let b_words = vector(&b.slice((All, column)));
            let c_words = vector(&c.slice(Coordinate::from((All, row, column))));
            record(opcode.clone(), 1, vec![c_words.clone(), a_words.clone(), b_words, c_words]);
        }
    }
}

/// The rows and columns of an operand that one repetition of the atom covers, by all threads.
pub(super) fn covered(plan: &warpwright_layout::TiledMma, operand: Operand) -> (i64, i64) {
    let axes = match operand {
        Operand::A => (1, 3),
        Operand::B => (2, 3),
        Operand::C | Operand::D => (1, 2),
    };
    let threads = |axis: usize| {
        let size = plan.thread_layout().mode(axis).and_then(|mode| mode.size());
        size.ok().and_then(|size| size.known()).unwrap_or(1)
    };
    let (rows, columns) = plan.atom().tile(operand);
    (rows * threads(axes.0), columns * threads(axes.1))
}

/// Refuses accumulators of another tile than the rows of A by the columns of B.
#[track_caller]
pub(super) fn demand_accumulators<C: Element>(
    operation: &str,
    plan: &warpwright_layout::TiledMma,
    accumulators: &Fragment<C>,
    a_rows: i64,
    b_columns: i64,
) -> bool {
    let (rows, columns) = covered(plan, Operand::C);
    let rows = extent(accumulators.layout(), 1) * rows;
    let columns = extent(accumulators.layout(), 2) * columns;
    let advice = "make the accumulators for a tile of C with the rows of A and the columns of B";
    agree(operation, ("A has # rows", a_rows), ("the accumulators have #", rows), advice)
        && agree(operation, ("B has # columns", b_columns), ("the accumulators have #", columns), advice)
}

/// Refuses elements that the atom does not multiply. Returns how many of its elements one `T` holds.
#[track_caller]
pub(super) fn demand_element_type<T: Element>(
    operation: &str,
    atom: &MmaAtom,
    operand: Operand,
) -> Option<i64> {
    let element = atom.element(operand);
    let each = packed::<T>(element);
    if each.is_none() {
        refuse(format!(
            "`{operation}`: {} has {operand:?} of {element}, and this holds {}: use the atom's element type, or the atom \
             of this type{}",
            atom.name(),
            T::NAME,
            if element == DataType::B1 { " (bits are held by words, b1x32)" } else { "" }
        ));
    }
    each
}

/// Refuses a fragment that does not hold what the atom takes: elements of its type, as many in each
/// repetition, in `modes` modes.
#[track_caller]
pub(super) fn demand_fragment<T: Element>(
    operation: &str,
    atom: &MmaAtom,
    operand: Operand,
    fragment: &Fragment<T>,
    modes: usize,
) -> bool {
    if fragment.is_refused() {
        return false;
    }
    let Some(each) = demand_element_type::<T>(operation, atom, operand) else { return false };
    if fragment.layout().rank() != modes {
        let wanted = if modes == 2 { "one step of k: slice the fragment" } else { "(values, m, n)" };
        refuse(format!(
            "`{operation}`: {operand:?} is a fragment of shape {} with {} modes, and takes {modes}: {wanted}",
            fragment.layout().inner().shape(),
            fragment.layout().rank(),
        ));
        return false;
    }
    let values = atom.thread_values(operand).and_then(|values| values.mode(1)).and_then(|mode| mode.size());
    let values = known(values, "the values of an MMA") / each;
    let held = extent(fragment.layout(), 0);
    if held != values {
        refuse(format!(
            "`{operation}`: a thread holds {held} elements of {operand:?} in each repetition, and {} takes {values}: make \
             the fragment by `{}_fragment` of this MMA",
            atom.name(),
            letter(operand)
        ));
    }
    held == values
}

/// Refuses atoms that fragments alone do not serve.
#[track_caller]
fn demand_warp_instruction(atom: &MmaAtom) -> bool {
    let mistake = if atom.family.is_warpgroup() {
        "is an instruction of a warpgroup: multiply by `multiply`"
    } else if atom.family.is_sparse() {
        "takes metadata, which `gemm` has no operand for: write it with ptx!"
    } else {
        return true;
    };
    refuse(format!("`gemm`: {} {mistake}", atom.name()));
    false
}

fn known_extents((rows, columns): (u32, u32)) -> [Option<i64>; 2] {
    [Some(rows.into()), Some(columns.into())]
}

/// The operand in the names of functions.
pub(super) fn letter(operand: Operand) -> char {
    match operand {
        Operand::A => 'a',
        Operand::B => 'b',
        Operand::C | Operand::D => 'c',
    }
}

/// How many elements of an atom one `T` holds: a whole word of those narrower than a byte. `None`
/// if it holds others.
pub(super) fn packed<T: Element>(element: DataType) -> Option<i64> {
    let (name, each) = match element {
        DataType::S8 => ("i8", 1),
        DataType::S32 => ("i32", 1),
        // What the hardware reads as tf32 are the bits of an f32.
        DataType::Tf32 if T::NAME == "f32" => ("f32", 1),
        DataType::S4 => ("s4x8", 8),
        DataType::U4 => ("u4x8", 8),
        DataType::B1 => ("b1x32", 32),
        other => (other.ptx(), 1),
    };
    (T::NAME == name).then_some(each)
}

/// The repetitions along a mode of a partitioned layout.
#[track_caller]
pub(super) fn extent(layout: &ComposedLayout, mode: usize) -> i64 {
    known(layout.inner().mode(mode).and_then(|mode| mode.size()), "the repetitions of an MMA")
}

/// All of a fragment's words, in the order of its elements.
#[track_caller]
pub(super) fn vector<T: Element>(fragment: &Fragment<T>) -> IrOperand {
    let elements = fragment.len() as i64;
    IrOperand::Vector(fragment.words_at((0..elements).map(IntTuple::from)))
}
