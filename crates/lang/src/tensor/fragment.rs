//! Fragments: a thread's registers, read through a layout.

use warpwright_ir::{Operand, Register};
use warpwright_layout::{ComposedLayout, Coordinate, IntTuple, Layout};

use super::agreement::{element_inside, inside, note_element, note_transfer};
use super::legal::{known, legal};
use crate::element::Element;
use crate::operation::{compute_into, here, record, refuse};
use crate::recorder;
use crate::value::{Reg, Value};
use warpwright_ir::RegisterClass;

/// A thread's share of a tile in registers. Element `i` of the layout's image is part `i % lanes`
/// of word `i / lanes`; a 32-bit word holds `lanes` elements of 8 or 16 bits, and one element of 32
/// or 64 bits is a word.
///
/// The registers are variables: copies into a fragment and MMAs into it write them in place.
#[derive(Clone)]
pub struct Fragment<T> {
    words: Vec<Register>,
    layout: ComposedLayout,
    element: std::marker::PhantomData<T>,
    /// Whether a mistake in it has been reported, so that its uses are not.
    refused: bool,
}

impl<T: Element> Fragment<T> {
    /// Elements in a word.
    pub(crate) const LANES: i64 = if T::BYTES < 4 { 4 / T::BYTES as i64 } else { 1 };

    /// The class of a word.
    const CLASS: RegisterClass = if T::BYTES == 8 { RegisterClass::B64 } else { RegisterClass::B32 };

    /// Uninitialized registers for every element of a tensor's layout, in the order of its modes.
    #[track_caller]
    pub fn like(layout: &ComposedLayout) -> Self {
        let compact = legal(Layout::column_major(layout.shape().clone()), Layout::unit);
        Self::with_layout(compact)
    }

    /// Uninitialized registers for the image of a layout.
    #[track_caller]
    pub fn with_layout(layout: impl Into<ComposedLayout>) -> Self {
        let layout = layout.into();
        let elements = known(layout.cosize(), "a fragment");
        let words = elements.div_euclid(Self::LANES) + i64::from(elements % Self::LANES != 0);
        let location = here();
        let words = recorder::with(|recorder| {
            recorder.note_fragment(words as u32, location);
            (0..words).map(|_| recorder.fresh(Self::CLASS)).collect()
        });
        Self { words, layout, element: std::marker::PhantomData, refused: false }
    }

    /// The same after a mistake that was already reported.
    pub(super) fn refused(self) -> Self {
        Self { refused: true, ..self }
    }

    /// Whether a mistake in it was already reported.
    pub(super) fn is_refused(&self) -> bool {
        self.refused
    }

    /// The layout of the elements.
    pub fn layout(&self) -> &ComposedLayout {
        &self.layout
    }

    /// The number of elements.
    #[track_caller]
    pub fn len(&self) -> u32 {
        known(self.layout.size(), "a fragment") as u32
    }

    /// Whether there are no elements.
    #[track_caller]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same registers through another layout.
    #[track_caller]
    pub fn map(
        &self,
        f: impl FnOnce(&ComposedLayout) -> Result<ComposedLayout, warpwright_layout::Error>,
    ) -> Self {
        let layout = legal(f(&self.layout), || self.layout.clone());
        let reach = known(layout.cosize(), "a fragment");
        let elements = self.words.len() as i64 * Self::LANES;
        if reach > elements {
            refuse(format!(
                "`Fragment`: the layout {layout} reaches {reach} elements, and the fragment {} has {elements}: use one inside it",
                self.layout
            ));
            return self.clone();
        }
        Self { words: self.words.clone(), layout, element: self.element, refused: self.refused }
    }

    /// The modes where `coordinate` is `All`, at the position it gives elsewhere.
    #[track_caller]
    pub fn slice(&self, coordinate: impl Into<Coordinate>) -> Self {
        let coordinate = inside("slice", coordinate.into(), &self.layout);
        self.map(|layout| layout.slice(&coordinate))
    }

    /// The registers from that of element `start` on, through a layout of their own.
    #[track_caller]
    pub fn window(&self, start: u32, layout: Result<Layout, warpwright_layout::Error>) -> Self {
        self.map(|_| ComposedLayout::from(layout?).shifted(i64::from(start)))
    }

    /// Sets every element to zero.
    #[track_caller]
    pub fn clear(&mut self) {
        let location = here();
        let word = if T::BYTES == 8 { "mov.b64" } else { "mov.b32" };
        for &register in &self.words {
            let operands = vec![Operand::Register(register), Operand::Integer(0)];
            recorder::with(|recorder| recorder.emit(word, 1, operands, location));
        }
    }

    /// The words that hold the elements at `coordinates`, which must be whole words in order.
    #[track_caller]
    pub(crate) fn words_at(&self, coordinates: impl IntoIterator<Item = IntTuple>) -> Vec<Operand> {
        let mut words = Vec::new();
        for (position, coordinate) in coordinates.into_iter().enumerate() {
            let index = self.index_of("fragment", &coordinate);
            if index % Self::LANES != position as i64 % Self::LANES {
                refuse(format!(
                    "element {position} of the fragment {} is not at its position in a register",
                    self.layout
                ));
            }
            if position as i64 % Self::LANES == 0 {
                words.push(self.word(index / Self::LANES));
            }
        }
        words
    }

    /// The element at a coordinate of the layout.
    #[track_caller]
    fn index_of(&self, operation: &str, coordinate: &IntTuple) -> i64 {
        let coordinate = element_inside(operation, coordinate, &self.layout);
        known(self.layout.index(&coordinate), "an element of a fragment")
    }

    fn word(&self, word: i64) -> Operand {
        // A layout that reaches past the words has been refused where it was made.
        let word = usize::try_from(word).ok().and_then(|word| self.words.get(word));
        word.map_or(Operand::Sink, |&word| Operand::Register(word))
    }

    /// The current value of the element at `coordinate`, or at an index in the order of the
    /// layout's modes.
    #[track_caller]
    pub fn get(&self, coordinate: impl Into<IntTuple>) -> Reg<T> {
        let destination = recorder::with(|recorder| Reg::<T>::from_register(recorder.fresh(T::CLASS)));
        let coordinate = coordinate.into();
        let index = self.index_of("get", &coordinate);
        let word = self.word(index / Self::LANES);
        match T::BYTES {
            1 => {
                let shift = Operand::Integer(i128::from(8 * (index % 4)));
                let shifted =
                    recorder::with(|recorder| Operand::Register(recorder.fresh(RegisterClass::B32)));
                record("shr.u32", 1, vec![shifted.clone(), word, shift]);
                compute_into(destination, "cvt.u16.u32", [shifted]);
                compute_into(destination, "and.b16", [destination.operand(), Operand::Integer(0xff)]);
            }
            2 => {
                let mut halves = vec![Operand::Sink; 2];
                halves[(index % 2) as usize] = destination.operand();
                record("mov.b32", 1, vec![Operand::Vector(halves), word]);
            }
            4 => compute_into(destination, "mov.b32", [word]),
            _ => compute_into(destination, "mov.b64", [word]),
        }
        note_element(destination.register(), &coordinate, &self.layout);
        destination
    }

    /// Sets the element at `coordinate`; the element must be a whole word (32 or 64 bits).
    #[track_caller]
    pub fn set(&mut self, coordinate: impl Into<IntTuple>, value: impl Value<T>) {
        let coordinate = coordinate.into();
        let index = self.index_of("set", &coordinate);
        if T::BYTES < 4 {
            return refuse(format!("one {} does not fill a register; write a pair with `set_pair`", T::NAME));
        }
        let opcode = if T::BYTES == 8 { "mov.b64" } else { "mov.b32" };
        let value = value.reg();
        record(opcode, 1, vec![self.word(index), value.operand()]);
        note_transfer(value.register(), &coordinate, &self.layout);
    }
}

impl<T: Element> Fragment<T> {
    /// Sets the 32-bit register of element `index` in the layout's order, with the elements after
    /// it: two elements of 16 bits, four of 8, the first in the lowest bits.
    #[track_caller]
    pub fn set_word(&mut self, index: u32, word: impl Value<u32>) {
        let at = self.index_of("set_word", &IntTuple::from(index));
        if T::BYTES == 8 || at % Self::LANES != 0 {
            return refuse(format!(
                "`set_word` writes a whole register of 32 bits, which does not begin with element {at} of {}",
                T::NAME
            ));
        }
        record("mov.b32", 1, vec![self.word(at / Self::LANES), word.reg().operand()]);
    }

    /// The 32-bit register of element `index` in the layout's order, with the elements after it: see
    /// [`set_word`](Self::set_word).
    #[track_caller]
    pub fn get_word(&self, index: u32) -> Reg<u32> {
        let at = self.index_of("get_word", &IntTuple::from(index));
        if T::BYTES == 8 || at % Self::LANES != 0 {
            refuse(format!(
                "`get_word` reads a whole register of 32 bits, which does not begin with element {at} of {}",
                T::NAME
            ));
            return crate::value::constant(0u32);
        }
        crate::operation::compute("mov.b32", [self.word(at / Self::LANES)])
    }

    /// Sets the two 16-bit elements that share the word of element `index` (even) of the layout's
    /// order.
    #[track_caller]
    pub fn set_pair(&mut self, index: u32, low: impl Value<T>, high: impl Value<T>) {
        let at = self.index_of("set_pair", &IntTuple::from(index));
        if T::BYTES != 2 || at % 2 != 0 {
            return refuse(format!(
                "`set_pair` writes an even pair of 16-bit elements, not {} {at}",
                T::NAME
            ));
        }
        let halves = Operand::Vector(vec![low.reg().operand(), high.reg().operand()]);
        record("mov.b32", 1, vec![self.word(at / 2), halves]);
    }
}

impl Fragment<f32> {
    /// The elements rounded to a 16-bit type, two to a register: `pack` rounds a pair, the first in
    /// the lower half.
    #[track_caller]
    pub fn packed<T: Element>(&self, pack: impl Fn(Reg<f32>, Reg<f32>) -> Reg<u32>) -> Fragment<T> {
        let packed = Fragment::<T>::like(&self.layout);
        if T::BYTES != 2 {
            refuse(format!("pairs of {} do not fill a register", T::NAME));
            return packed;
        }
        for (pair, &word) in (0u32..).zip(&packed.words) {
            let first = 2 * pair;
            let value = pack(self.get(first), self.get(first + 1));
            record("mov.b32", 1, vec![Operand::Register(word), value.operand()]);
        }
        packed
    }
}
