//! Tiled copies: the assignment of elements to threads, and the unrolled copy instructions.

use std::rc::Rc;

use warpwright_ir::Operand as IrOperand;
use warpwright_layout::atom::Operand;
use warpwright_layout::{ComposedLayout, Coordinate, Index, Int, IntTuple, Layout, Tuple};

use super::agreement::{agree, note_element, note_transfer};
use super::coordinates::Coordinates;
use super::fragment::Fragment;
use super::legal::{known, legal};
use super::multiply::demand_plan_threads;
use super::tiled_mma::TiledMma;
use super::view::{Direction, Tensor};
use crate::access::L2Prefetch;
use crate::element::Element;
use crate::memory::{load_elements, store_elements};
use crate::operation::{fresh, on_behalf_of_author, record, record_if, refuse};
use crate::space::{GlobalSpace, SharedSpace, Space};
use crate::value::{Reg, Value, bits_word};

pub use warpwright_layout::atom::CopyAtom;

/// A plan for copying a tile: a copy atom repeated over threads and values.
///
/// The layout algebra behind it is [`warpwright_layout::TiledCopy`].
#[derive(Clone)]
pub struct TiledCopy {
    plan: Option<Rc<warpwright_layout::TiledCopy>>,
}

impl TiledCopy {
    /// The atom of CuTe's name for elements of type `T`, over a layout of threads and a layout of
    /// the values of each thread.
    #[track_caller]
    pub fn new<T: Element>(
        atom: &str,
        threads: Result<Layout, warpwright_layout::Error>,
        values: Result<Layout, warpwright_layout::Error>,
    ) -> Self {
        let plan = CopyAtom::named(atom, bits::<T>())
            .and_then(|atom| warpwright_layout::TiledCopy::new(atom, &threads?, &values?));
        Self { plan: legal(plan.map(Some), || None).map(Rc::new) }
    }

    /// The copy from shared memory into the registers that `mma` multiplies as A.
    #[track_caller]
    pub fn into_a<T: Element>(atom: &str, mma: &TiledMma) -> Self {
        Self::for_operand::<T>(atom, mma, Operand::A)
    }

    /// The copy from shared memory into the registers that `mma` multiplies as B.
    #[track_caller]
    pub fn into_b<T: Element>(atom: &str, mma: &TiledMma) -> Self {
        Self::for_operand::<T>(atom, mma, Operand::B)
    }

    /// The copy to shared memory from the registers that hold `mma`'s accumulator.
    #[track_caller]
    pub fn from_c<T: Element>(atom: &str, mma: &TiledMma) -> Self {
        Self::for_operand::<T>(atom, mma, Operand::C)
    }

    #[track_caller]
    fn for_operand<T: Element>(atom: &str, mma: &TiledMma, operand: Operand) -> Self {
        let Some(mma) = mma.plan() else { return Self { plan: None } };
        let plan = CopyAtom::named(atom, bits::<T>())
            .and_then(|atom| warpwright_layout::TiledCopy::for_operand(atom, mma, operand));
        Self { plan: legal(plan.map(Some), || None).map(Rc::new) }
    }

    /// One thread's part in it.
    #[track_caller]
    pub fn thread(&self, thread: Reg<u32>) -> ThreadCopy {
        let threads = self.plan.as_ref().map_or(0, |plan| legal(plan.threads(), || 0) as u32);
        if threads > 0 {
            demand_plan_threads("the copy has", threads, thread);
        }
        ThreadCopy { copy: self.clone(), thread: thread.into(), prefetch: None }
    }
}

fn bits<T: Element>() -> i64 {
    8 * i64::from(T::BYTES)
}

/// One thread's part in a [`TiledCopy`].
#[derive(Clone)]
pub struct ThreadCopy {
    copy: TiledCopy,
    thread: Int,
    prefetch: Option<L2Prefetch>,
}

impl ThreadCopy {
    /// The same, prefetching more into L2 around each asynchronous copy: for tiles whose neighbors
    /// are copied next.
    pub fn prefetching(self, prefetch: L2Prefetch) -> Self {
        Self { prefetch: Some(prefetch), ..self }
    }

    /// This thread's part of the source: (atom's values, repetitions along each mode).
    #[track_caller]
    pub fn source<T: Element, S: Space>(&self, tensor: &Tensor<T, S>) -> Tensor<T, S> {
        self.demand_whole_tiles("source", tensor.layout());
        Tensor { part_of: self.copy.plan.clone(), ..tensor.map(|layout| self.source_layout(layout)) }
    }

    /// This thread's part of the destination: (atom's values, repetitions along each mode).
    #[track_caller]
    pub fn target<T: Element, S: Space>(&self, tensor: &Tensor<T, S>) -> Tensor<T, S> {
        self.demand_whole_tiles("target", tensor.layout());
        let part = tensor.map(|layout| match &self.copy.plan {
            Some(plan) => plan.partition_target(layout, self.thread.clone()),
            None => Ok(layout.clone()),
        });
        Tensor { part_of: self.copy.plan.clone(), ..part }
    }

    /// Refuses a tile that is not a multiple of the copy's own, as far as its extents are known: the last
    /// repetition would extend past its end.
    #[track_caller]
    fn demand_whole_tiles(&self, operation: &str, tile: &ComposedLayout) {
        let Some(plan) = &self.copy.plan else { return };
        let own = plan.tile().modes();
        let own: Vec<i64> = own.iter().map(|extent| known(extent.product(), "the tile of a copy")).collect();
        let extent = |mode: usize| {
            let size = tile.inner().mode(mode).and_then(|mode| mode.size());
            size.ok().and_then(|size| size.known())
        };
        let is_whole =
            |(mode, own): (usize, &i64)| extent(mode).is_none_or(|extent| extent > 0 && extent % own == 0);
        if !own.iter().enumerate().all(is_whole) {
            let shown = own.iter().map(i64::to_string).collect::<Vec<_>>().join(" x ");
            refuse(format!(
                "`{operation}`: a tile of shape {} is not a multiple of the {shown} that the threads of the copy cover: use a \
                 multiple of it, or a copy of a smaller tile",
                tile.inner().shape()
            ));
        }
    }

    fn source_layout(&self, layout: &ComposedLayout) -> Result<ComposedLayout, warpwright_layout::Error> {
        match &self.copy.plan {
            Some(plan) => plan.partition_source(layout, self.thread.clone()),
            None => Ok(layout.clone()),
        }
    }

    /// Where in a tile of that shape this thread's repetitions begin, in the order that the copies
    /// visit them.
    #[track_caller]
    pub fn coordinates(&self, tile: (u32, u32)) -> Coordinates {
        let identity = ComposedLayout::from(legal(Layout::identity(tile), Layout::unit));
        self.demand_whole_tiles("coordinates", &identity);
        let mine = legal(self.source_layout(&identity), || identity.clone());
        let values = self.copy.plan.as_ref().map_or(1, |plan| legal(plan.atom().values(), || 1));
        let positions = repetitions(&mine, values);
        Coordinates::new(mine, positions)
    }

    /// A fragment that an MMA partitioned, seen as this copy fills it: (atom's values, repetitions
    /// along each mode).
    #[track_caller]
    pub fn retile<T: Element>(&self, fragment: &Fragment<T>) -> Fragment<T> {
        fragment.map(|layout| match &self.copy.plan {
            Some(plan) => plan.retile(layout),
            None => Ok(layout.clone()),
        })
    }

    /// Copies asynchronously from global to shared memory: one `cp.async` for each repetition of
    /// the atom. `bytes` gives how many bytes of each repetition are in bounds; the rest of the
    /// destination is filled with zeros. `None`: all.
    ///
    /// Both parts are (atom's values, repetitions..), as [`source`](Self::source) and
    /// [`target`](Self::target) give them.
    #[track_caller]
    pub fn copy_async<T: Element>(
        &self,
        to: &Tensor<T, SharedSpace>,
        from: &Tensor<T, GlobalSpace>,
        bytes: impl Fn(u32) -> Option<Reg<u32>>,
    ) {
        let Some(plan) = &self.copy.plan else { return };
        let source = Part::of_tensor("the source", from, Side::Source);
        let destination = Part::of_tensor("the destination", to, Side::Target);
        to.pointer.demand_writable();
        if !demand_parts::<T>("copy_async", plan, source, destination) {
            return;
        }
        let values = legal(plan.atom().values(), || 1);
        let width = values * i64::from(T::BYTES);
        check_vector(from.layout(), values, "the source", None);
        check_vector(to.layout(), values, "the destination", None);
        to.note_view(Direction::Write);
        for (repetition, coordinate) in (0..).zip(repetitions(from.layout(), values)) {
            let mut operands = vec![to.address(&coordinate), from.address(&coordinate)];
            operands.push(IrOperand::Integer(i128::from(width)));
            if let Some(bytes) = bytes(repetition) {
                operands.push(bytes.operand());
            }
            let prefetch = self.prefetch.map_or("", L2Prefetch::word);
            record(format!("{}{prefetch}", plan.atom().instruction()), 0, operands);
        }
    }

    /// Copies element by element through registers, for rows that are not aligned for wider
    /// accesses. Repetitions for which `in_bounds` returns a false predicate are filled with zeros;
    /// `None` means that all are in bounds.
    #[track_caller]
    pub fn copy_elements<T: Element>(
        &self,
        to: &Tensor<T, SharedSpace>,
        from: &Tensor<T, GlobalSpace>,
        in_bounds: impl Fn(u32) -> Option<Reg<bool>>,
    ) {
        let Some(plan) = &self.copy.plan else { return };
        let source = Part::of_tensor("the source", from, Side::Source);
        let destination = Part::of_tensor("the destination", to, Side::Target);
        if !demand_parts::<T>("copy_elements", plan, source, destination) {
            return;
        }
        let values = legal(plan.atom().values(), || 1);
        for (repetition, coordinate) in (0..).zip(repetitions(from.layout(), values)) {
            let in_bounds = in_bounds(repetition);
            for value in 0..values {
                let place = with_value(&coordinate, value);
                let element = match in_bounds {
                    Some(in_bounds) => from.get_if(place.clone(), in_bounds),
                    None => from.get(place.clone()),
                };
                to.set(place, element);
            }
        }
    }

    /// Copies from shared memory into registers by this copy's warp-wide instruction (`ldmatrix`).
    #[track_caller]
    pub fn load_matrix<T: Element>(&self, to: &Fragment<T>, from: &Tensor<T, SharedSpace>) {
        let Some(plan) = &self.copy.plan else { return };
        let tile = Part::of_tensor("the tile", from, Side::Source);
        let fragment = Part::of_fragment(to);
        if !demand_parts::<T>("load_matrix", plan, tile, fragment) {
            return;
        }
        check_vector(
            from.layout(),
            16 / i64::from(T::BYTES),
            "a row of the matrix",
            plan.atom().transposing(),
        );
        from.note_view(Direction::Read);
        each_repetition(plan.atom(), from, to, |source, words| {
            record(plan.atom().instruction(), 1, vec![IrOperand::Vector(words), source]);
        });
    }

    /// Copies from registers to shared memory by this copy's warp-wide instruction (`stmatrix`).
    #[track_caller]
    pub fn store_matrix<T: Element>(&self, to: &Tensor<T, SharedSpace>, from: &Fragment<T>) {
        let Some(plan) = &self.copy.plan else { return };
        let fragment = Part::of_fragment(from);
        let tile = Part::of_tensor("the tile", to, Side::Target);
        to.pointer.demand_writable();
        if !demand_parts::<T>("store_matrix", plan, fragment, tile) {
            return;
        }
        check_vector(to.layout(), 16 / i64::from(T::BYTES), "a row of the matrix", plan.atom().transposing());
        to.note_view(Direction::Write);
        each_repetition(plan.atom(), to, from, |target, words| {
            record(plan.atom().instruction(), 0, vec![target, IrOperand::Vector(words)]);
        });
    }

    /// Copies from registers to memory by plain stores, each of the values of this copy's atom
    /// (`UniversalCopy`): 32, 64 or 128 bits.
    #[track_caller]
    pub fn store_vectors<T: Element, S: Space>(&self, to: &Tensor<T, S>, from: &Fragment<T>) {
        let Some(plan) = &self.copy.plan else { return };
        let fragment = Part::of_fragment(from);
        let tile = Part::of_tensor("the tile", to, Side::Target);
        to.pointer.demand_writable();
        if !demand_parts::<T>("store_vectors", plan, fragment, tile) {
            return;
        }
        check_vector(to.layout(), legal(plan.atom().values(), || 1), "the destination", None);
        to.note_view(Direction::Write);
        each_repetition(plan.atom(), to, from, |target, mut words| {
            let (vector, value) = match words.len() {
                1 => (String::new(), words.remove(0)),
                count => (format!(".v{count}"), IrOperand::Vector(words)),
            };
            record(format!("st{}{vector}.b32", S::WORD), 0, vec![target, value]);
        });
    }
}

/// A thread's part of a tile that a copy reads or writes.
struct Part<'a> {
    name: &'static str,
    layout: &'a ComposedLayout,
    side: Side,
    /// The copy that made it, where that is known.
    of: Option<&'a warpwright_layout::TiledCopy>,
}

impl<'a> Part<'a> {
    fn of_tensor<T, S: Space>(name: &'static str, tensor: &'a Tensor<T, S>, side: Side) -> Self {
        Self { name, layout: &tensor.layout, side, of: tensor.part_of.as_deref() }
    }

    fn of_fragment<T: Element>(fragment: &'a Fragment<T>) -> Self {
        Self { name: "the fragment", layout: fragment.layout(), side: Side::Registers, of: None }
    }
}

/// Which of a copy's partitions a part is: `source`, `target` or `retile`.
#[derive(Clone, Copy)]
enum Side {
    Source,
    Target,
    Registers,
}

impl Side {
    /// The elements that a part holds in each repetition. A source of `ldmatrix` has a whole row.
    #[track_caller]
    fn values(self, plan: &warpwright_layout::TiledCopy) -> i64 {
        let of_thread = plan.thread_values().mode(1).and_then(|mode| mode.size());
        let of_thread = known(of_thread, "the values of a copy");
        let layout = match self {
            Side::Source => plan.atom().source(),
            Side::Target => plan.atom().target(),
            Side::Registers => return of_thread,
        };
        let of_side = known(layout.mode(1).and_then(|mode| mode.size()), "the values of a copy");
        of_thread / legal(plan.atom().values(), || 1) * of_side
    }
}

/// Refuses two parts that are not one thread's parts of tiles of the same shape, by this copy.
#[track_caller]
fn demand_parts<T: Element>(
    operation: &str,
    plan: &warpwright_layout::TiledCopy,
    first: Part<'_>,
    second: Part<'_>,
) -> bool {
    let of_plan = ("the copy was made for elements of # bits", plan.atom().element_bits());
    let advice = "make the `TiledCopy` for the type that it copies";
    if !agree(operation, of_plan, ("it copies elements of #", bits::<T>()), advice) {
        return false;
    }
    for part in [&first, &second] {
        if part.of.is_some_and(|made_by| made_by != plan) {
            refuse(format!(
                "`{operation}`: {} is a thread's part of another copy, whose threads hold other elements: make it by `source` or \
                 `target` of this copy",
                part.name
            ));
            return false;
        }
        let held = known(part.layout.inner().mode(0).and_then(|mode| mode.size()), "the values of a copy");
        let of_part = format!("{} has # elements in each repetition", part.name);
        let advice = "give the part that `source`, `target` or `retile` of this copy makes";
        if !agree(operation, (&of_part, held), ("the copy moves #", part.side.values(plan)), advice) {
            return false;
        }
    }
    agree(
        operation,
        (&format!("{} is part of a tile of #", first.name), tile_of(plan, first.layout)),
        (&format!("{} of one of #", second.name), tile_of(plan, second.layout)),
        "copy between tiles of one shape",
    )
}

/// The shape of the tile that a thread's part belongs to: what the copy covers, by the repetitions.
#[track_caller]
fn tile_of(plan: &warpwright_layout::TiledCopy, part: &ComposedLayout) -> String {
    let covered: Vec<i64> =
        plan.tile().modes().iter().map(|extent| known(extent.product(), "the tile of a copy")).collect();
    let repetitions: Vec<i64> = (1..part.rank())
        .map(|mode| known(part.inner().mode(mode).and_then(|mode| mode.size()), "a copy's repetitions"))
        .collect();
    let rank = covered.len().max(repetitions.len());
    let extent = |mode: usize| covered.get(mode).unwrap_or(&1) * repetitions.get(mode).unwrap_or(&1);
    let extents: Vec<String> = (0..rank).map(|mode| extent(mode).to_string()).collect();
    extents.join(" x ")
}

/// Calls `act` with the address and the registers of each repetition of a copy's atom.
#[track_caller]
fn each_repetition<T: Element, S: Space>(
    atom: &CopyAtom,
    memory: &Tensor<T, S>,
    fragment: &Fragment<T>,
    act: impl Fn(IrOperand, Vec<IrOperand>),
) {
    on_behalf_of_author(|| {
        let values = legal(atom.values(), || 1);
        let held = |layout: &ComposedLayout| {
            known(layout.inner().mode(0).and_then(|mode| mode.size()), "the values of a copy")
        };
        // A lane names a row of 8 elements to `ldmatrix` and `stmatrix`, whatever it holds in registers.
        let in_memory = held(memory.layout()) * values / held(fragment.layout());
        let parts = repetitions(fragment.layout(), values);
        for (place, part) in repetitions(memory.layout(), in_memory).into_iter().zip(parts) {
            let elements = (0..values).map(|value| with_value(&part, value));
            act(memory.address(&place), fragment.words_at(elements));
        }
    });
}

/// The coordinates of the first of every `values` values of a partition, over all its repetitions,
/// the leftmost mode fastest.
#[track_caller]
fn repetitions(layout: &ComposedLayout, values: i64) -> Vec<IntTuple> {
    let extents: Vec<i64> = (0..layout.rank())
        .map(|mode| known(layout.inner().mode(mode).and_then(|mode| mode.size()), "a copy's repetitions"))
        .collect();
    coordinates_of(&extents, values)
}

/// Every coordinate of modes with these extents, the leftmost fastest; of the first mode every
/// `step`-th.
fn coordinates_of(extents: &[i64], step: i64) -> Vec<IntTuple> {
    let Some((&first, rest)) = extents.split_first() else { return Vec::new() };
    let count = first / step * rest.iter().product::<i64>();
    (0..count)
        .map(|index| {
            let mut modes = vec![IntTuple::from(index % (first / step) * step)];
            let mut index = index / (first / step);
            for &extent in rest {
                modes.push(IntTuple::from(index % extent));
                index /= extent;
            }
            Tuple::Node(modes)
        })
        .collect()
}

/// The coordinate `value` values further along its first mode.
fn with_value(coordinate: &IntTuple, value: i64) -> IntTuple {
    let mut modes = coordinate.modes().to_vec();
    let first = modes[0].leaf().and_then(Int::known).unwrap_or(0);
    modes[0] = (first + value).into();
    Tuple::Node(modes)
}

/// Refuses a vector access whose elements are not contiguous and aligned in its layout: the first
/// `values` elements must be contiguous, and everything added to their address a multiple of the
/// vector. `transposing` is the atom that reads rows along the other mode.
#[track_caller]
fn check_vector(layout: &ComposedLayout, values: i64, what: &str, transposing: Option<&str>) {
    let mut modes = vec![Tuple::Leaf(Index::All)];
    modes.resize(layout.rank(), Coordinate::from(0));
    let first = legal(layout.slice(&Tuple::Node(modes)), || layout.clone());
    let run = legal(first.inner().coalesce(), Layout::unit);
    let leading = run.modes().first().cloned().unwrap_or_else(Layout::unit);
    let together = match (leading.stride().leaf(), known(leading.size(), "a vector")) {
        (Some(stride), size) if stride.is(1) => size,
        _ => 1,
    };
    let swizzled = layout.swizzle().filter(|swizzle| !swizzle.is_identity());
    let unbroken = swizzled.map_or(i64::MAX, |swizzle| 1 << swizzle.base());
    let aligned = alignment(layout);
    let legal_values = together.min(unbroken);
    if legal_values < values || aligned % values != 0 {
        let widest = (0..=values.ilog2()).rev().map(|log| 1i64 << log);
        let widest =
            widest.into_iter().find(|&width| width <= legal_values && aligned % width == 0).unwrap_or(1);
        let (cause, advice) = match transposing {
            _ if unbroken < values => (
                format!("the swizzle moves {unbroken} elements together"),
                format!(". Use a swizzle whose base is at least {}", values.ilog2()),
            ),
            Some(atom) if together < values => (
                format!("{together} are contiguous along it in this tile"),
                format!(". Use the transposing atom `{atom}`, or a tile whose rows are contiguous"),
            ),
            None if together < values => (format!("{together} are contiguous"), String::new()),
            _ => (
                format!("addresses are known to be multiples of {aligned}"),
                format!(". If a leading dimension is a multiple of {values}, state it with `multiple_of`"),
            ),
        };
        refuse(format!(
            "{what} cannot be accessed {values} elements at a time: {cause}; the widest legal access has {widest}{advice}"
        ));
    }
}

/// The number of elements that every address of the layout is known to be a multiple of, past the
/// first vector.
fn alignment(layout: &ComposedLayout) -> i64 {
    let offset = layout.offset().linear().map_or(1, Int::known_divisor);
    let strides = layout.inner().stride().leaves().into_iter().filter(|stride| !stride.is(1));
    strides.map(|stride| stride.scale.known_divisor()).fold(offset, greatest_common_divisor)
}

fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a.abs() } else { greatest_common_divisor(b, a % b) }
}

impl<T: Element, S: Space> Tensor<T, S> {
    /// Computes the common part of the addresses of a thread's part (values, repetitions..) here,
    /// so that a later branch or loop adds only what varies. A mode whose extent is a device value
    /// counts as its first position.
    #[track_caller]
    pub fn hoisted(self) -> Self {
        let extent = |mode: usize| {
            let size = self.layout().inner().mode(mode).and_then(|mode| mode.size());
            size.ok().and_then(|size| size.known()).unwrap_or(1)
        };
        let extents: Vec<i64> = (0..self.layout().rank()).map(extent).collect();
        let first = extents.first().copied().unwrap_or(1);
        for coordinate in coordinates_of(&extents, first) {
            self.address(&coordinate);
        }
        self
    }

    /// Reads the element at `coordinate`, or at an index in the order of the layout's modes.
    #[track_caller]
    pub fn get(&self, coordinate: impl Into<IntTuple>) -> Reg<T> {
        let coordinate = coordinate.into();
        let address = self.element("get", Direction::Read, &coordinate);
        let word = memory_word::<T>();
        let destination = fresh::<T>();
        record(format!("ld{}.{word}", S::WORD), 1, vec![destination.operand(), address]);
        note_element(destination.register(), &coordinate, self.layout());
        destination
    }

    /// Reads the element at `coordinate` where `condition` is true; the value is zero elsewhere.
    #[track_caller]
    pub fn get_if(&self, coordinate: impl Into<IntTuple>, condition: Reg<bool>) -> Reg<T> {
        let address = self.element("get_if", Direction::Read, &coordinate.into());
        let word = memory_word::<T>();
        let destination = fresh::<T>();
        record(format!("mov.{}", bits_word(T::CLASS)), 1, vec![destination.operand(), IrOperand::Integer(0)]);
        record_if(condition, format!("ld{}.{word}", S::WORD), 1, vec![destination.operand(), address]);
        destination
    }

    /// Reads consecutive elements from `coordinate` on in one access; they must be contiguous in
    /// the tensor's first mode.
    #[track_caller]
    pub fn get_vector<const N: usize>(&self, coordinate: impl Into<IntTuple>) -> [Reg<T>; N] {
        let coordinate = coordinate.into();
        let destinations = [(); N].map(|()| fresh::<T>());
        if !self.has_vector("get_vector", &coordinate, N as i64) {
            return destinations;
        }
        let address = self.element("get_vector", Direction::Read, &coordinate);
        load_elements(&format!("ld{}", S::WORD), &memory_word::<T>(), &destinations, address, None);
        destinations
    }

    /// Writes the element at `coordinate`, or at an index in the order of the layout's modes.
    #[track_caller]
    pub fn set(&self, coordinate: impl Into<IntTuple>, value: impl Value<T>) {
        self.pointer.demand_writable();
        let coordinate = coordinate.into();
        let address = self.element("set", Direction::Write, &coordinate);
        let (word, value) = (memory_word::<T>(), value.reg());
        record(format!("st{}.{word}", S::WORD), 0, vec![address, value.operand()]);
        note_transfer(value.register(), &coordinate, self.layout());
    }

    /// Writes consecutive elements from `coordinate` on in one access; they must be contiguous in
    /// the tensor's first mode.
    #[track_caller]
    pub fn set_vector<const N: usize>(&self, coordinate: impl Into<IntTuple>, values: [Reg<T>; N]) {
        self.pointer.demand_writable();
        let coordinate = coordinate.into();
        if !self.has_vector("set_vector", &coordinate, N as i64) {
            return;
        }
        let address = self.element("set_vector", Direction::Write, &coordinate);
        store_elements(&format!("st{}", S::WORD), &memory_word::<T>(), address, &values, None);
    }
}

impl<T: Element, S: Space> Tensor<T, S> {
    /// Whether `count` elements from `coordinate` on are a vector: contiguous, and at a multiple of
    /// `count` as far as that is known. Others are refused.
    #[track_caller]
    fn has_vector(&self, operation: &str, coordinate: &IntTuple, count: i64) -> bool {
        let first = legal(self.layout().inner().mode(0), Layout::unit);
        let run = legal(first.coalesce(), Layout::unit);
        let leading = run.modes().first().cloned().unwrap_or_else(Layout::unit);
        let is_contiguous = leading.stride().leaf().is_some_and(|stride| stride.is(1));
        let extent = leading.size().ok().and_then(|size| size.known());
        let contiguous = if is_contiguous { extent.unwrap_or(i64::MAX) } else { 1 };
        let swizzle = self.layout().swizzle().filter(|swizzle| !swizzle.is_identity());
        let contiguous = contiguous.min(swizzle.map_or(i64::MAX, |swizzle| 1 << swizzle.base()));
        let position = coordinate.modes().first().and_then(|mode| mode.leaf().and_then(Int::known));
        let left = position.map_or(contiguous, |position| contiguous - position.rem_euclid(contiguous));
        let offset = self.layout().inner_offset(coordinate).ok();
        let offset = offset.and_then(|offset| offset.linear().ok().and_then(Int::known));
        let mistake = if left < count {
            format!(
                "{count} elements from coordinate {coordinate} on are not contiguous in {}: {left} are",
                self.layout()
            )
        } else if let Some(offset) = offset.filter(|offset| offset % count != 0) {
            format!(
                "a vector of {count} elements begins at a multiple of {count}, and coordinate {coordinate} is at element {offset}"
            )
        } else {
            return true;
        };
        refuse(format!("`{operation}`: {mistake}"));
        false
    }
}

/// The untyped memory word of an element: `b16`.
fn memory_word<T: Element>() -> String {
    format!("b{}", 8 * T::BYTES)
}
