//! Operations on device values of several registers: shuffles, memory and selection.
//!
//! A [`DeviceValue`] such as a struct of registers has no instruction of its own; these functions
//! apply one instruction to each of its registers in turn. Build-time parts stay unchanged.

use warpwright_ir::{Operand, Register, RegisterClass};

use crate::conversion::bit_cast;
use crate::device_value::DeviceValue;
use crate::element::Element;
use crate::index::Index;
use crate::object;
use crate::operation::{on_behalf_of_author, refuse};
use crate::pointer::{Global, Pointer};
use crate::recorder;
use crate::shared::shared_bytes;
use crate::space::{GlobalSpace, SharedSpace, Space};
use crate::value::{Reg, Value};
use crate::warp::shuffle::{ALL_LANES, Shuffle, shuffle};

/// An operation on one register, whatever its class.
trait OnRegister {
    #[track_caller]
    fn apply<T: Element>(&mut self, value: Reg<T>) -> Reg<T>;
}

/// The class of a register of the kernel being staged.
fn class_of(register: Register) -> RegisterClass {
    recorder::with(|recorder| recorder.class(register))
}

/// Applies `operation` to each register of `value`, in order.
#[track_caller]
fn each_register<V: DeviceValue + Copy>(mut value: V, operation: &mut impl OnRegister) -> V {
    on_behalf_of_author(|| {
        value.visit_registers(&mut |register| {
            *register = match class_of(*register) {
                RegisterClass::Predicate => operation.apply(Reg::<bool>::from_register(*register)).register(),
                RegisterClass::B16 => operation.apply(Reg::<u16>::from_register(*register)).register(),
                RegisterClass::B32 => operation.apply(Reg::<u32>::from_register(*register)).register(),
                RegisterClass::B64 => operation.apply(Reg::<u64>::from_register(*register)).register(),
                RegisterClass::B128 => {
                    refuse(
                        "a value with a 128-bit register cannot be moved as one; keep it as two of 64 bits",
                    );
                    *register
                }
            };
        });
    });
    value
}

/// Reads each register from another lane.
struct Exchange {
    kind: Shuffle,
    lane: Operand,
    mask: Operand,
}

impl OnRegister for Exchange {
    #[track_caller]
    fn apply<T: Element>(&mut self, value: Reg<T>) -> Reg<T> {
        shuffle(self.kind, value, self.lane.clone(), self.mask.clone()).0
    }
}

/// The value of another lane, among the lanes of `mask`.
#[track_caller]
pub(crate) fn exchange<V: DeviceValue + Copy>(
    kind: Shuffle,
    value: V,
    lane: impl Value<u32>,
    mask: impl Value<u32>,
) -> V {
    each_register(value, &mut Exchange { kind, lane: lane.operand(), mask: mask.operand() })
}

/// The value of lane `lane`, in all lanes.
#[track_caller]
pub fn shuffle_value<V: DeviceValue + Copy>(value: V, lane: impl Value<u32>) -> V {
    exchange(Shuffle::Index, value, lane, ALL_LANES)
}

/// The value of the lane `distance` below. The lowest lanes keep their own.
#[track_caller]
pub fn shuffle_value_up<V: DeviceValue + Copy>(value: V, distance: u32) -> V {
    exchange(Shuffle::Up, value, distance, ALL_LANES)
}

/// The value of the lane `distance` above. The highest lanes keep their own.
#[track_caller]
pub fn shuffle_value_down<V: DeviceValue + Copy>(value: V, distance: u32) -> V {
    exchange(Shuffle::Down, value, distance, ALL_LANES)
}

/// The value of the lane whose index is this lane's XOR `mask`.
#[track_caller]
pub fn shuffle_value_xor<V: DeviceValue + Copy>(value: V, mask: u32) -> V {
    exchange(Shuffle::Butterfly, value, mask, ALL_LANES)
}

/// Picks each register of one value or of another.
struct Selection {
    condition: Reg<bool>,
    /// The other value's registers, the last first.
    otherwise: Vec<Register>,
}

impl OnRegister for Selection {
    #[track_caller]
    fn apply<T: Element>(&mut self, value: Reg<T>) -> Reg<T> {
        let otherwise = self.otherwise.pop().expect("both values have the same shape");
        self.condition.select(value, Reg::<T>::from_register(otherwise))
    }
}

/// `yes` where `condition` holds and `no` elsewhere; both are computed.
#[track_caller]
pub fn select_value<V: DeviceValue + Copy>(condition: impl Value<bool>, yes: V, mut no: V) -> V {
    if !yes.same_shape(&no) {
        refuse(
            "the two values differ in their build-time parts, so they cannot be selected by a device \
         value",
        );
        return yes;
    }
    let mut otherwise = Vec::new();
    no.visit_registers(&mut |register| otherwise.push(*register));
    otherwise.reverse();
    each_register(yes, &mut Selection { condition: condition.reg(), otherwise })
}

/// Makes a 32-bit word of a register, or a register of a 32-bit word.
struct Word {
    word: Reg<u32>,
    /// Whether the value is read from the word, not written to it.
    is_source: bool,
    fits: bool,
    registers: usize,
}

impl OnRegister for Word {
    #[track_caller]
    fn apply<T: Element>(&mut self, value: Reg<T>) -> Reg<T> {
        self.registers += 1;
        match (T::CLASS, self.is_source) {
            (RegisterClass::B32, true) => bit_cast(self.word),
            (RegisterClass::B32, false) => {
                self.word = bit_cast(value);
                value
            }
            (RegisterClass::B16, true) => Reg::from_register(self.word.convert::<u16>().register()),
            (RegisterClass::B16, false) => {
                self.word = Reg::<u16>::from_register(value.register()).convert();
                value
            }
            _ => {
                self.fits = false;
                value
            }
        }
    }
}

/// A value of one register of at most 32 bits, as a word; `None` for any other.
#[track_caller]
pub fn value_to_word<V: DeviceValue + Copy>(value: V) -> Option<Reg<u32>> {
    let word = crate::value::constant(0);
    let mut word = Word { word, is_source: false, fits: true, registers: 0 };
    each_register(value, &mut word);
    (word.fits && word.registers == 1).then_some(word.word)
}

/// The value shaped like `shape` whose word [`value_to_word`] gave.
#[track_caller]
pub fn value_from_word<V: DeviceValue + Copy>(shape: V, word: Reg<u32>) -> V {
    each_register(shape, &mut Word { word, is_source: true, fits: true, registers: 0 })
}

/// The bytes that [`ValueRecords`] needs per value like the one that `value` stages. The host
/// allocates them.
pub fn record_bytes<V: DeviceValue + Copy>(value: impl FnOnce() -> V) -> u64 {
    let mut bytes = 0;
    // Mistakes are reported when the kernel itself is staged.
    let _ = recorder::stage("record", || bytes = layout_of(value()).1);
    bytes
}

/// An array of device values in memory. Each register of the value has an array of its own, so that
/// neighboring threads access neighboring words.
#[derive(Clone)]
pub struct ValueArray<V, S: Space> {
    /// A value of the array's shape; its registers are never read.
    shape: V,
    /// The start of each register's elements, in bytes from `base`.
    parts: Vec<i64>,
    base: Pointer<u8, S>,
}

/// The bytes of a register in memory.
fn bytes_of(class: RegisterClass) -> u32 {
    match class {
        RegisterClass::Predicate => 1,
        RegisterClass::B16 => 2,
        RegisterClass::B32 => 4,
        RegisterClass::B64 | RegisterClass::B128 => 8,
    }
}

/// Alignment of these arrays.
const PART_ALIGN: u32 = 16;

/// The offset of each register's array for `length` values, and the total size in bytes.
fn parts_of<V: DeviceValue + Copy>(mut shape: V, length: u32) -> (Vec<i64>, u32) {
    let (mut parts, mut bytes) = (Vec::new(), 0);
    shape.visit_registers(&mut |register| {
        parts.push(i64::from(bytes));
        bytes += (bytes_of(class_of(*register)) * length).next_multiple_of(PART_ALIGN);
    });
    (parts, bytes)
}

impl<V: DeviceValue + Copy> ValueArray<V, SharedSpace> {
    /// Shared memory for `length` values shaped like `shape`, not initialized.
    #[track_caller]
    pub fn shared(shape: V, length: u32) -> Self {
        Self::shared_as("memory of values", shape, length)
    }

    /// [`shared`](Self::shared), which reports call by a name.
    #[track_caller]
    pub(crate) fn shared_as(name: &'static str, shape: V, length: u32) -> Self {
        let (parts, bytes) = parts_of(shape, length);
        let base = shared_bytes(name, bytes.into(), PART_ALIGN, 1);
        object::array(base, name, bytes, 1);
        Self { shape, parts, base }
    }
}

impl<V: DeviceValue + Copy, S: Space> ValueArray<V, S> {
    /// The value at `index`.
    #[track_caller]
    pub fn get(&self, index: impl Index) -> V {
        each_register(self.shape, &mut Load { array: self.parts.iter(), base: self.base, index })
    }

    /// Sets the value at `index`.
    #[track_caller]
    pub fn set(&self, index: impl Index, value: V) {
        each_register(value, &mut Store { array: self.parts.iter(), base: self.base, index });
    }
}

struct Load<'a, S: Space, I> {
    array: std::slice::Iter<'a, i64>,
    base: Pointer<u8, S>,
    index: I,
}

impl<S: Space, I: Index> OnRegister for Load<'_, S, I> {
    #[track_caller]
    fn apply<T: Element>(&mut self, _: Reg<T>) -> Reg<T> {
        let part = *self.array.next().expect("one part for each register");
        self.base.byte_offset(part).cast::<T>().at(self.index).load()
    }
}

struct Store<'a, S: Space, I> {
    array: std::slice::Iter<'a, i64>,
    base: Pointer<u8, S>,
    index: I,
}

impl<S: Space, I: Index> OnRegister for Store<'_, S, I> {
    #[track_caller]
    fn apply<T: Element>(&mut self, value: Reg<T>) -> Reg<T> {
        let part = *self.array.next().expect("one part for each register");
        self.base.byte_offset(part).cast::<T>().at(self.index).store(value);
        value
    }
}

/// The offset of each register in a record, and the size of a record, in bytes.
fn layout_of<V: DeviceValue + Copy>(mut shape: V) -> (Vec<i64>, u64) {
    let (mut parts, mut end, mut align) = (Vec::new(), 0, 1);
    shape.visit_registers(&mut |register| {
        let bytes = bytes_of(class_of(*register));
        let start = u32::next_multiple_of(end, bytes);
        parts.push(i64::from(start));
        (end, align) = (start + bytes, align.max(bytes));
    });
    (parts, end.next_multiple_of(align).into())
}

/// Device values in global memory as consecutive records: the registers in order, aligned like the
/// fields of a C struct.
#[derive(Clone)]
pub struct ValueRecords<V> {
    shape: V,
    /// The offset of each register in a record, in bytes.
    parts: Vec<i64>,
    /// Bytes from record to record.
    stride: u64,
    base: Pointer<u8, GlobalSpace>,
}

impl<V: DeviceValue + Copy> ValueRecords<V> {
    /// The records from `base` on, shaped like `shape`; `base` is aligned to 8 bytes.
    pub fn new(shape: V, base: Global<u8>) -> Self {
        let (parts, stride) = layout_of(shape);
        Self { shape, parts, stride, base }
    }

    /// Bytes from record to record.
    pub fn stride(&self) -> u64 {
        self.stride
    }

    #[track_caller]
    fn record(&self, index: impl Value<u64>) -> Global<u8> {
        self.base.at(index.reg() * self.stride)
    }

    /// The value at `index`.
    #[track_caller]
    pub fn get(&self, index: impl Value<u64>) -> V {
        let base = self.record(index);
        each_register(self.shape, &mut Load { array: self.parts.iter(), base, index: 0u32 })
    }

    /// Sets the value at `index`.
    #[track_caller]
    pub fn set(&self, index: impl Value<u64>, value: V) {
        let base = self.record(index);
        each_register(value, &mut Store { array: self.parts.iter(), base, index: 0u32 });
    }
}
