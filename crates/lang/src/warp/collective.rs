//! Reductions, scans and broadcasts over the lanes of a warp, in the order of the lanes: the
//! operation need be associative only.

use super::shuffle::{ALL_LANES, Shuffle, demand_lane};
use crate::composite::{exchange, select_value, shuffle_value_xor};
use crate::device_value::DeviceValue;
use crate::element::DeviceNumber;
use crate::operation::{compute, on_behalf_of_author};
use crate::special::lane_id;
use crate::value::{Reg, Value, constant};
use warpwright_arch::limits::WARP_SIZE;

/// The distances over which lanes exchange values.
const DISTANCES: [u32; 5] = [1, 2, 4, 8, 16];

/// The lanes of a warp that take part in a collective operation: all of them must call it.
#[derive(Clone, Copy)]
pub struct Lanes {
    /// How many lanes, from lane 0 on, hold values; all if `None`.
    count: Option<Reg<u32>>,
    /// At most this many, as far as is known at build time.
    most: u32,
    /// The lanes that call; all if `None`.
    mask: Option<Reg<u32>>,
}

impl Lanes {
    /// All 32 lanes.
    pub fn all() -> Self {
        Self { count: None, most: WARP_SIZE, mask: None }
    }

    /// The first `count` lanes, 1 to 32, which alone make the call.
    #[track_caller]
    pub fn first(count: impl Value<u32>) -> Self {
        let count = count.reg();
        Self { count: Some(count), most: WARP_SIZE, mask: Some(constant(ALL_LANES) >> (32 - count)) }
    }

    /// All lanes make the call, and the first `count` hold values.
    #[track_caller]
    pub(crate) fn first_of_all(count: u32) -> Self {
        let mut lanes = Self { count: None, most: count, mask: None };
        if count < WARP_SIZE {
            lanes.count = Some(constant(count));
        }
        lanes
    }

    /// The value of lane `lane`.
    #[track_caller]
    pub fn broadcast<V: DeviceValue + Copy>(self, value: V, lane: impl Value<u32>) -> V {
        demand_lane("broadcast", Shuffle::Index, lane.operand());
        self.exchange(Shuffle::Index, value, lane)
    }

    /// The value of the lane `distance` below; in the lowest lanes their own.
    #[track_caller]
    pub(crate) fn up<V: DeviceValue + Copy>(self, value: V, distance: u32) -> V {
        self.exchange(Shuffle::Up, value, distance)
    }

    #[track_caller]
    fn exchange<V: DeviceValue + Copy>(self, kind: Shuffle, value: V, lane: impl Value<u32>) -> V {
        match self.mask {
            Some(mask) => exchange(kind, value, lane, mask),
            None => exchange(kind, value, lane, ALL_LANES),
        }
    }

    /// The distances over which lanes that may hold values exchange them.
    fn distances(self) -> impl Iterator<Item = u32> {
        DISTANCES.into_iter().take_while(move |distance| *distance < self.most)
    }

    /// The lanes' values combined by `operation`, lane 0's first; every lane has the result.
    #[track_caller]
    pub fn reduce<V: DeviceValue + Copy>(self, value: V, operation: impl Fn(V, V) -> V) -> V {
        let mut combined = value;
        for distance in self.distances() {
            let joined = operation(combined, self.exchange(Shuffle::Down, combined, distance));
            combined = match self.count {
                Some(count) => select_value((lane_id() + distance).lt(count), joined, combined),
                None => joined,
            };
        }
        self.broadcast(combined, 0)
    }

    /// Each lane's value combined with those of all lanes below it, lane 0's first.
    #[track_caller]
    pub fn inclusive_scan<V: DeviceValue + Copy>(self, value: V, operation: impl Fn(V, V) -> V) -> V {
        let lane = lane_id();
        let mut scanned = value;
        for distance in self.distances() {
            let joined = operation(self.up(scanned, distance), scanned);
            scanned = select_value(lane.ge(distance), joined, scanned);
        }
        scanned
    }

    /// The values of all lanes below combined, lane 0's first; `identity` in lane 0.
    #[track_caller]
    pub fn exclusive_scan<V: DeviceValue + Copy>(
        self,
        value: V,
        identity: V,
        operation: impl Fn(V, V) -> V,
    ) -> V {
        let scanned = self.inclusive_scan(value, operation);
        select_value(lane_id().eq(0), identity, self.up(scanned, 1))
    }

    /// Reduces by an operation that commutes: `redux.sync` on 32-bit integers, else exchanges in
    /// which every lane computes the result.
    #[track_caller]
    fn reduce_commuting<T: DeviceNumber>(
        self,
        word: &str,
        value: Reg<T>,
        operation: fn(Reg<T>, Reg<T>) -> Reg<T>,
    ) -> Reg<T> {
        if T::PTX == "u32" || T::PTX == "s32" {
            let mask = self.mask.map_or_else(|| Value::<u32>::operand(ALL_LANES), Value::operand);
            return compute(format!("redux.sync.{word}.{}", T::PTX), [Reg::operand(value), mask]);
        }
        if self.count.is_some() {
            return self.reduce(value, operation);
        }
        let mut combined = value;
        for distance in DISTANCES {
            combined = operation(combined, shuffle_value_xor(combined, distance));
        }
        combined
    }
}

/// The operation of sums.
#[track_caller]
pub(crate) fn add<T: DeviceNumber>(a: Reg<T>, b: Reg<T>) -> Reg<T> {
    a + b
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident $word:literal $operation:path;)*) => {
        impl Lanes {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name<T: DeviceNumber>(self, value: Reg<T>) -> Reg<T> {
                    on_behalf_of_author(|| self.reduce_commuting($word, value, $operation))
                }
            )*
        }
        $(
            #[doc = concat!("[`Lanes::", stringify!($name), "`] over all 32 lanes.")]
            #[track_caller]
            pub fn $name<T: DeviceNumber>(value: Reg<T>) -> Reg<T> {
                Lanes::all().$name(value)
            }
        )*
    };
}

numbers! {
    /// The sum of the lanes' values; every lane has it.
    reduce_sum "add" add;
    /// The smallest of the lanes' values; every lane has it.
    reduce_min "min" Reg::min;
    /// The largest of the lanes' values; every lane has it.
    reduce_max "max" Reg::max;
}

impl Lanes {
    /// Each lane's value added to those of all lanes below it.
    #[track_caller]
    pub fn inclusive_sum<T: DeviceNumber>(self, value: Reg<T>) -> Reg<T> {
        on_behalf_of_author(|| self.inclusive_scan(value, add))
    }

    /// The sum of the values of all lanes below; 0 in lane 0.
    #[track_caller]
    pub fn exclusive_sum<T: DeviceNumber>(self, value: Reg<T>) -> Reg<T> {
        on_behalf_of_author(|| self.exclusive_scan(value, constant(T::ZERO), add))
    }
}

/// The values of the warp's 32 lanes combined by an associative `operation`, lane 0's first; every
/// lane has the result. A value is any device value: a register, a tuple, a struct with
/// `#[derive(DeviceValue)]`.
///
/// ```
/// use warpwright_lang::special::{lane_id, thread_idx};
/// use warpwright_lang::{kernel, launch, pointer::Global, warp};
///
/// /// The largest of 32 numbers, and its position.
/// #[kernel]
/// fn largest(x: &Global<f32>, value: &mut Global<f32>, position: &mut Global<u32>) {
///     launch::threads(32);
///     let mine = (x[thread_idx().x], lane_id());
///     let (most, at) = warp::reduce(mine, |a, b| if a.0 >= b.0 { a } else { b });
///     value[0] = most;
///     position[0] = at;
/// }
/// assert!(largest().is_ok());
/// ```
#[track_caller]
pub fn reduce<V: DeviceValue + Copy>(value: V, operation: impl Fn(V, V) -> V) -> V {
    Lanes::all().reduce(value, operation)
}

/// [`Lanes::inclusive_scan`] over all 32 lanes.
#[track_caller]
pub fn inclusive_scan<V: DeviceValue + Copy>(value: V, operation: impl Fn(V, V) -> V) -> V {
    Lanes::all().inclusive_scan(value, operation)
}

/// [`Lanes::exclusive_scan`] over all 32 lanes.
#[track_caller]
pub fn exclusive_scan<V: DeviceValue + Copy>(value: V, identity: V, operation: impl Fn(V, V) -> V) -> V {
    Lanes::all().exclusive_scan(value, identity, operation)
}

/// [`Lanes::inclusive_sum`] over all 32 lanes.
#[track_caller]
pub fn inclusive_sum<T: DeviceNumber>(value: Reg<T>) -> Reg<T> {
    Lanes::all().inclusive_sum(value)
}

/// [`Lanes::exclusive_sum`] over all 32 lanes.
#[track_caller]
pub fn exclusive_sum<T: DeviceNumber>(value: Reg<T>) -> Reg<T> {
    Lanes::all().exclusive_sum(value)
}

/// [`Lanes::broadcast`] over all 32 lanes.
#[track_caller]
pub fn broadcast<V: DeviceValue + Copy>(value: V, lane: impl Value<u32>) -> V {
    Lanes::all().broadcast(value, lane)
}
