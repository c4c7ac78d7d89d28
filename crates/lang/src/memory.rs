//! Loads and stores.
//!
//! Index arithmetic replaces the address modes and the filtering of a texture unit
//! (`docs/constants-and-textures.md`):
//!
//! ```
//! use warpwright_lang::pointer::Global;
//! use warpwright_lang::{Reg, device, kernel, special::thread_idx};
//!
//! /// The value of a sample outside the array.
//! #[derive(Clone, Copy)]
//! enum AddressMode {
//!     Clamp,
//!     Wrap,
//!     Mirror,
//!     Border,
//! }
//!
//! /// The element at `i`, which may be outside.
//! #[device]
//! fn sample(x: &Global<f32>, i: Reg<i32>, length: Reg<i32>, mode: AddressMode) -> Reg<f32> {
//!     match mode {
//!         AddressMode::Clamp => x[i.clamp(0, length - 1)],
//!         AddressMode::Wrap => x[i.rem_euclid(length)],
//!         AddressMode::Mirror => {
//!             let period = i.rem_euclid(length * 2);
//!             x[period.min(length * 2 - 1 - period)]
//!         }
//!         AddressMode::Border => {
//!             if i >= 0 && i < length { x[i] } else { 0.0 }
//!         }
//!     }
//! }
//!
//! /// Linear filtering between the elements around `position`, whose centers are at 0.5, 1.5, ..
//! #[device]
//! fn sample_linear(x: &Global<f32>, position: Reg<f32>, length: Reg<i32>, mode: AddressMode) -> Reg<f32> {
//!     let low = (position - 0.5).floor();
//!     let fraction = position - 0.5 - low;
//!     let (a, b) = (sample(x, low as i32, length, mode), sample(x, low as i32 + 1, length, mode));
//!     a + (b - a) * fraction
//! }
//!
//! #[kernel]
//! fn halves(x: &Global<f32>, length: i32, y: &mut Global<f32>) {
//!     let i = thread_idx().x;
//!     y[i] = sample_linear(x, i as f32 * 2.0 + 1.0, length, AddressMode::Clamp);
//! }
//! assert!(halves().is_ok());
//! ```

use warpwright_ir::{Operand, RegisterClass};

use crate::access::Access;
use crate::element::{Element, Kind};
use crate::operation::{compute, fresh, on_behalf_of_author, perform, record, refuse};
use crate::pointer::{Global, Pointer};
use crate::requirement::{Feature, require};
use crate::space::Space;
use crate::value::{Reg, Value};

/// An element that memory can hold: every [`Element`].
pub trait MemoryElement: Element {}

impl<T: Element> MemoryElement for T {}

/// The type word of a load or store of `T`: `b16` for types that memory instructions do not name.
pub(crate) fn memory_word<T: Element>() -> &'static str {
    match (T::KIND, T::BYTES) {
        (Kind::Boolean, _) => "u8",
        (Kind::Unsigned | Kind::Signed, _) => T::PTX,
        (_, 1) => "b8",
        (_, 2) => "b16",
        (Kind::Float, 4) => "f32",
        (Kind::Float, 8) => "f64",
        (_, 4) => "b32",
        _ => "b64",
    }
}

/// The vector word for `lanes` elements; empty for one.
fn vector_word(lanes: usize) -> String {
    if lanes == 1 { String::new() } else { format!(".v{lanes}") }
}

impl<T: MemoryElement, S: Space> Pointer<T, S> {
    /// Loads the element.
    #[track_caller]
    pub fn load(self) -> Reg<T> {
        self.load_with(Access::new())
    }

    /// Loads the element with cache operators, scope or order.
    #[track_caller]
    pub fn load_with(self, access: Access) -> Reg<T> {
        let [value] = self.load_vector_with::<1>(access);
        value
    }

    /// Loads `N` consecutive elements by one instruction. The address must be a multiple of their
    /// size together: 2, 4, 8 or 16 bytes, or 32 from global memory on sm_100.
    #[track_caller]
    pub fn load_vector<const N: usize>(self) -> [Reg<T>; N] {
        self.load_vector_with(Access::new())
    }

    /// Loads `N` consecutive elements by one instruction, with cache operators, scope or order.
    #[track_caller]
    pub fn load_vector_with<const N: usize>(self, access: Access) -> [Reg<T>; N] {
        on_behalf_of_author(|| {
            let destination = [(); N].map(|()| fresh::<T>());
            let opcode = match access.load_opcode(S::WORD) {
                Ok(opcode) => opcode,
                Err(reason) => {
                    refuse(reason);
                    return destination;
                }
            };
            if access.is_non_coherent() {
                self.demand_read_only();
            }
            if !Self::check_vector(N) {
                return destination;
            }
            if T::CLASS == RegisterClass::Predicate {
                let bytes = self.cast::<u8>().load_vector_with::<N>(access);
                return bytes.map(|byte| Reg::from_register(byte.ne(0u8).register()));
            }
            load_elements(&opcode, memory_word::<T>(), &destination, self.operand(), access.policy());
            destination
        })
    }

    /// Stores the element.
    #[track_caller]
    pub fn store(self, value: impl Value<T>) {
        self.store_with(value, Access::new());
    }

    /// Stores the element with cache operators, scope or order.
    #[track_caller]
    pub fn store_with(self, value: impl Value<T>, access: Access) {
        self.store_vector_with([value.reg()], access);
    }

    /// Stores `N` consecutive elements by one instruction; the address as for
    /// [`load_vector`](Self::load_vector).
    #[track_caller]
    pub fn store_vector<const N: usize>(self, values: [Reg<T>; N]) {
        self.store_vector_with(values, Access::new());
    }

    /// Stores `N` consecutive elements by one instruction, with cache operators, scope or order.
    #[track_caller]
    pub fn store_vector_with<const N: usize>(self, values: [Reg<T>; N], access: Access) {
        on_behalf_of_author(|| {
            self.demand_writable();
            let opcode = match access.store_opcode(S::WORD) {
                Ok(opcode) => opcode,
                Err(reason) => return refuse(reason),
            };
            if !Self::check_vector(N) {
                return;
            }
            if T::CLASS == RegisterClass::Predicate {
                let bytes = values.map(|value| {
                    let truth = Reg::<bool>::from_register(value.register());
                    truth.select(1u8, 0u8)
                });
                return self.cast::<u8>().store_vector_with(bytes, access);
            }
            store_elements(&opcode, memory_word::<T>(), self.operand(), &values, access.policy());
        })
    }

    /// Refuses vectors that no load or store supports; returns false for them.
    #[track_caller]
    fn check_vector(lanes: usize) -> bool {
        let bytes = lanes * T::BYTES as usize;
        let widest = if S::WORD == ".global" { 32 } else { 16 };
        if !lanes.is_power_of_two() || bytes > widest {
            let most = 16 / T::BYTES;
            let legal: Vec<String> = (0..=most.ilog2()).map(|shift| (1 << shift).to_string()).collect();
            let wider = if widest > 16 { format!(", and {} on sm_100", 2 * most) } else { String::new() };
            refuse(format!(
                "no {} memory instruction moves {lanes} elements of {} ({bytes} bytes); it can move {}{wider}",
                S::NAME,
                T::NAME,
                legal.join(", ")
            ));
            return false;
        }
        if bytes == 32 {
            require(Feature::WideVectors);
        }
        true
    }

    /// Fetches the cache line of the element into L2.
    #[track_caller]
    pub fn prefetch_l2(self) {
        perform(format!("prefetch{}.L2", S::WORD), [self.operand()]);
    }

    /// Fetches the cache line of the element into L1.
    #[track_caller]
    pub fn prefetch_l1(self) {
        perform(format!("prefetch{}.L1", S::WORD), [self.operand()]);
    }
}

/// How many elements of a vector of `lanes` an operand of the instruction holds. Vectors have at most
/// 4 operands (8 of 32 bits in 256-bit accesses): more are moved as 32-bit words.
fn packs_of<T: Element>(lanes: usize) -> usize {
    if lanes <= 4 || T::BYTES >= 4 { 1 } else { 4 / T::BYTES as usize }
}

/// `ld.shared.v4.b32`: the opcode of a vector of `lanes` elements, whose word is `word` unless they
/// are packed.
fn vector_opcode<T: Element>(opcode: &str, word: &str, lanes: usize) -> String {
    let packs = packs_of::<T>(lanes);
    format!("{opcode}{}.{}", vector_word(lanes / packs), if packs == 1 { word } else { "b32" })
}

fn one_or_vector(mut registers: Vec<Operand>) -> Operand {
    if registers.len() == 1 { registers.remove(0) } else { Operand::Vector(registers) }
}

/// Loads consecutive elements by one instruction.
#[track_caller]
pub(crate) fn load_elements<T: Element>(
    opcode: &str,
    word: &str,
    elements: &[Reg<T>],
    address: Operand,
    policy: Option<Reg<u64>>,
) {
    let packs = packs_of::<T>(elements.len());
    let opcode = vector_opcode::<T>(opcode, word, elements.len());
    let words: Vec<Reg<u32>> =
        if packs == 1 { Vec::new() } else { elements.chunks(packs).map(|_| fresh()).collect() };
    let registers = match packs {
        1 => elements.iter().map(|element| Reg::operand(*element)).collect(),
        _ => words.iter().map(|word| Reg::operand(*word)).collect(),
    };
    let operands = [one_or_vector(registers), address].into_iter().chain(policy.map(Reg::operand));
    record(opcode, 1, operands.collect());
    for (word, lanes) in words.iter().zip(elements.chunks(packs)) {
        unpack_word(*word, lanes);
    }
}

/// Stores consecutive elements by one instruction.
#[track_caller]
pub(crate) fn store_elements<T: Element>(
    opcode: &str,
    word: &str,
    address: Operand,
    elements: &[Reg<T>],
    policy: Option<Reg<u64>>,
) {
    let packs = packs_of::<T>(elements.len());
    let opcode = vector_opcode::<T>(opcode, word, elements.len());
    // A loop, not `map`: a closure would hide the author's line.
    let mut registers = Vec::with_capacity(elements.len().div_ceil(packs));
    for lanes in elements.chunks(packs) {
        registers.push(if packs == 1 { lanes[0].operand() } else { pack_word(lanes).operand() });
    }
    let operands = [address, one_or_vector(registers)].into_iter().chain(policy.map(Reg::operand));
    record(opcode, 0, operands.collect());
}

/// Splits a 32-bit word into its 8- or 16-bit elements, lowest first.
#[track_caller]
pub(crate) fn unpack_word<T: Element>(word: Reg<u32>, lanes: &[Reg<T>]) {
    on_behalf_of_author(|| {
        if T::BYTES == 2 {
            let lanes = lanes.iter().map(|lane| Reg::operand(*lane)).collect();
            return record("mov.b32", 1, vec![Operand::Vector(lanes), word.operand()]);
        }
        let sign = if T::KIND == Kind::Signed { "s32" } else { "u32" };
        for (position, lane) in lanes.iter().enumerate() {
            let at = Operand::Integer(8 * position as i128);
            let field: Reg<u32> = compute(format!("bfe.{sign}"), [word.operand(), at, Operand::Integer(8)]);
            record("cvt.u16.u32", 1, vec![Reg::operand(*lane), field.operand()]);
        }
    })
}

/// Joins the 8- or 16-bit elements of a 32-bit word, lowest first.
#[track_caller]
pub(crate) fn pack_word<T: Element>(lanes: &[Reg<T>]) -> Reg<u32> {
    on_behalf_of_author(|| {
        if T::BYTES == 2 {
            return compute(
                "mov.b32",
                [Operand::Vector(lanes.iter().map(|lane| Reg::operand(*lane)).collect())],
            );
        }
        let wide = |lane: &Reg<T>| compute::<u32, 1>("cvt.u32.u16", [Reg::operand(*lane)]);
        let mut word = wide(&lanes[0]);
        for (position, lane) in lanes.iter().enumerate().skip(1) {
            let at = Operand::Integer(8 * position as i128);
            word = compute("bfi.b32", [wide(lane).operand(), word.operand(), at, Operand::Integer(8)]);
        }
        word
    })
}

/// The L2 eviction priority that a cache policy gives to its accesses. PTX ISA, `createpolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L2Eviction {
    /// Keep as long as possible.
    Last,
    /// Evict first.
    First,
    /// The default.
    Normal,
    /// Unchanged.
    Unchanged,
}

impl L2Eviction {
    fn word(self) -> &'static str {
        match self {
            L2Eviction::Last => "evict_last",
            L2Eviction::First => "evict_first",
            L2Eviction::Normal => "evict_normal",
            L2Eviction::Unchanged => "evict_unchanged",
        }
    }
}

/// An L2 cache policy that applies `eviction` to `fraction` (above 0, at most 1) of the accesses.
#[track_caller]
pub fn create_policy(eviction: L2Eviction, fraction: f32) -> Reg<u64> {
    if !(fraction > 0.0 && fraction <= 1.0) {
        refuse(format!("a cache policy's fraction is above 0 and at most 1; this one is {fraction}"));
    }
    let opcode = format!("createpolicy.fractional.L2::{}.b64", eviction.word());
    compute(opcode, [Operand::F32(fraction.to_bits())])
}

/// An L2 cache policy by address: it applies `eviction` to the first `primary` of the `total` bytes
/// that begin at `start`.
#[track_caller]
pub fn create_range_policy<T: Element>(
    eviction: L2Eviction,
    start: Global<T>,
    primary: impl Value<u32>,
    total: impl Value<u32>,
) -> Reg<u64> {
    let opcode = format!("createpolicy.range.global.L2::{}.L2::evict_unchanged.b64", eviction.word());
    compute(opcode, [start.operand(), primary.operand(), total.operand()])
}

/// An L2 cache policy that applies `eviction` to all accesses, as a constant if its bits are known.
///
/// The bits are what `createpolicy` returns for the fraction 1; CUTLASS has them as constants
/// (`TMA::CacheHintSm90`).
#[track_caller]
pub fn cache_policy(eviction: L2Eviction) -> Reg<u64> {
    let bits: u64 = match eviction {
        L2Eviction::Last => 0x14f0_0000_0000_0000,
        L2Eviction::First => 0x12f0_0000_0000_0000,
        L2Eviction::Normal => 0x1000_0000_0000_0000,
        L2Eviction::Unchanged => return create_policy(eviction, 1.0),
    };
    Value::<u64>::reg(bits)
}

/// Granularity of [`Global::discard_l2`] and [`Global::demote_l2`], in bytes. PTX ISA, `discard`,
/// `applypriority`.
const L2_LINE: i128 = 128;

impl<T: MemoryElement> Global<T> {
    /// Discards the 128 bytes that begin here without writing them back: their values are undefined
    /// afterwards.
    #[track_caller]
    pub fn discard_l2(self) {
        self.demand_writable();
        perform("discard.global.L2", [self.operand(), Operand::Integer(L2_LINE)]);
    }

    /// Resets the priority of the 128 bytes that begin here from [`L2Eviction::Last`] to normal.
    #[track_caller]
    pub fn demote_l2(self) {
        perform("applypriority.global.L2::evict_normal", [self.operand(), Operand::Integer(L2_LINE)]);
    }

    /// Loads through the read-only path (`ld.global.nc`): nothing may write the element while the
    /// kernel runs. A parameter `&mut Global<T>` is refused, since the path does not see the kernel's
    /// own writes.
    #[track_caller]
    pub fn load_read_only(self) -> Reg<T> {
        self.load_with(Access::new().non_coherent())
    }
}
