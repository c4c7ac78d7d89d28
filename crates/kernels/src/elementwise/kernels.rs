//! The kernels: copy, map, zip.

use warpwright::lang::memory::MemoryElement;
use warpwright::prelude::*;

use crate::vector;

/// The tile of a CTA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Walk {
    /// Threads of a CTA.
    pub threads: u32,
    /// Bits per access: 8, 16, 32, 64 or 128, and at least one element.
    pub bits: u32,
    /// Vectors of a thread in flight at once.
    pub steps: u32,
}

impl Walk {
    /// The fastest on the H200, for one input or two: many small CTAs.
    pub const FASTEST: Self = Self { threads: 256, bits: 8 * vector::WIDEST_BYTES, steps: 1 };

    /// Elements of `T` in a vector.
    fn lanes<T: Element>(&self) -> u32 {
        (self.bits / 8 / T::BYTES).max(1)
    }

    /// Elements of `T` in a CTA's tile.
    fn tile<T: Element>(&self) -> u32 {
        self.threads * self.steps * self.lanes::<T>()
    }

    /// CTAs for `length` elements of `T`.
    ///
    /// # Errors
    /// There would be more than a grid may have.
    pub fn grid<T: Element>(&self, length: u64) -> Result<u32, std::num::TryFromIntError> {
        i32::try_from(length.div_ceil(self.tile::<T>().into())).map(i32::unsigned_abs)
    }

    /// Calls `tile` with the first element of the tile and this thread's offset in it where the
    /// whole tile is inside `length`, and `element` with each of this thread's elements where it is
    /// not.
    #[device]
    fn over<T: Element>(
        &self,
        length: Reg<u64>,
        tile: impl Fn(Reg<u64>, Reg<u32>),
        element: impl Fn(Reg<u64>),
    ) {
        let lanes = self.lanes::<T>();
        let first = block_idx().x.convert::<u64>() * u64::from(self.tile::<T>());
        let mine = thread_idx().x * lanes;
        if first + u64::from(self.tile::<T>()) <= length {
            tile(first, mine);
        } else {
            for step in 0..self.steps * lanes {
                let at = first + (thread_idx().x + step * self.threads).convert::<u64>();
                if at < length {
                    element(at);
                }
            }
        }
    }

    /// to = f(inputs), elementwise.
    #[device]
    fn apply<T: MemoryElement, const N: usize>(
        &self,
        inputs: [Global<T>; N],
        to: Global<T>,
        length: Reg<u64>,
        function: impl Fn([Reg<T>; N]) -> Reg<T>,
    ) {
        launch::threads(self.threads);
        let lanes = self.lanes::<T>();
        self.over::<T>(
            length,
            |first, mine| {
                let inputs = inputs.map(|input| input.at(first).at(mine));
                let to = to.at(first).at(mine);
                let load = |input: Global<T>| -> Vec<_> {
                    let load = |at| vector::load_lanes(input.at(at), lanes, vector::read_once());
                    self.places::<T>().map(load).collect()
                };
                let loaded = inputs.map(load);
                for (step, at) in self.places::<T>().enumerate() {
                    let lane = |lane: usize| function(std::array::from_fn(|input| loaded[input][step][lane]));
                    let values: Vec<_> = (0..lanes as usize).map(lane).collect();
                    vector::store_lanes(to.at(at), &values, Access::new());
                }
            },
            |at| to.at(at).store(function(inputs.map(|input| input.at(at).load()))),
        );
    }

    /// The offsets of a thread's vectors from its first.
    fn places<T: Element>(&self) -> impl Iterator<Item = u32> + use<T> {
        let stride = self.threads * self.lanes::<T>();
        (0..self.steps).map(move |step| step * stride)
    }
}

/// to = from, in vectors of a given width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Copy {
    /// The tile of a CTA.
    pub walk: Walk,
}

impl Copy {
    /// Both have `length` elements.
    #[kernel]
    pub fn run<T: MemoryElement>(&self, from: &Global<T>, to: &mut Global<T>, length: u64) {
        launch::threads(self.walk.threads);
        let (from, to) = (*from, *to);
        self.walk.over::<T>(
            length,
            |first, mine| {
                let (from, to) = (from.at(first).at(mine), to.at(first).at(mine));
                // Narrow elements are copied as 32-bit words.
                if self.walk.bits >= 32 && T::BYTES < 4 {
                    let words = |at: u32| (at * T::BYTES / 4, self.walk.bits / 32);
                    let (from, to) = (from.cast::<u32>(), to.cast::<u32>());
                    move_vectors(self.walk.places::<T>().map(words), from, to);
                } else {
                    let vectors = self.walk.places::<T>().map(|at| (at, self.walk.lanes::<T>()));
                    move_vectors(vectors, from, to);
                }
            },
            |at| to.at(at).store(from.at(at).load()),
        );
    }
}

/// Copies vectors, given by offset and lanes: all loads come before the first store.
#[track_caller]
fn move_vectors<T: MemoryElement>(vectors: impl Iterator<Item = (u32, u32)>, from: Global<T>, to: Global<T>) {
    let moved: Vec<_> = vectors
        .map(|(at, lanes)| (at, vector::load_lanes(from.at(at), lanes, vector::read_once())))
        .collect();
    for (at, values) in moved {
        vector::store_lanes(to.at(at), &values, Access::new());
    }
}

/// to = f(from), elementwise; `f` is a Rust closure over device values.
#[derive(Clone, Copy, Debug)]
pub struct Map<F> {
    /// The tile of a CTA.
    pub walk: Walk,
    /// The function.
    pub function: F,
}

impl<F> Map<F> {
    /// Both have `length` elements.
    #[kernel]
    pub fn run<T: MemoryElement>(&self, from: &Global<T>, to: &mut Global<T>, length: u64)
    where
        F: Fn(Reg<T>) -> Reg<T>,
    {
        self.walk.apply([*from], *to, length, |[value]| (self.function)(value));
    }
}

/// to = f(a, b), elementwise; `f` is a Rust closure over device values.
#[derive(Clone, Copy, Debug)]
pub struct Zip<F> {
    /// The tile of a CTA.
    pub walk: Walk,
    /// The function.
    pub function: F,
}

impl<F> Zip<F> {
    /// All have `length` elements.
    #[kernel]
    pub fn run<T: MemoryElement>(&self, a: &Global<T>, b: &Global<T>, to: &mut Global<T>, length: u64)
    where
        F: Fn(Reg<T>, Reg<T>) -> Reg<T>,
    {
        self.walk.apply([*a, *b], *to, length, |[a, b]| (self.function)(a, b));
    }
}
