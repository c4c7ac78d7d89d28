//! Vectors of f32, f16 or bf16, loaded and stored as 32-bit words, computed in f32.

use warpwright::lang::conversion::bit_cast;
use warpwright::lang::element::Convertible;
use warpwright::lang::memory::MemoryElement;
use warpwright::lang::pointer::Pointer;
use warpwright::lang::space::Space;
use warpwright::prelude::*;

use crate::vector;

/// A data type of rows.
pub trait RowElement: MemoryElement + Convertible {
    /// A word of negative infinities.
    const NEGATIVE_INFINITIES: u32;

    /// The elements of a 32-bit word, lowest first, exactly.
    fn widen(word: Reg<u32>) -> Vec<Reg<f32>>;

    /// The word of one or two values, each rounded to this type.
    fn narrow(values: &[Reg<f32>]) -> Reg<u32>;
}

impl RowElement for f32 {
    const NEGATIVE_INFINITIES: u32 = 0xff80_0000;

    #[track_caller]
    fn widen(word: Reg<u32>) -> Vec<Reg<f32>> {
        vec![word.bit_cast()]
    }

    #[track_caller]
    fn narrow(values: &[Reg<f32>]) -> Reg<u32> {
        values[0].bit_cast()
    }
}

impl RowElement for bf16 {
    const NEGATIVE_INFINITIES: u32 = 0xff80_ff80;

    // A bf16 is the upper half of the f32 of the same value.
    #[track_caller]
    fn widen(word: Reg<u32>) -> Vec<Reg<f32>> {
        vec![(word << 16u32).bit_cast(), (word & 0xffff_0000u32).bit_cast()]
    }

    #[track_caller]
    fn narrow(values: &[Reg<f32>]) -> Reg<u32> {
        bit_cast(values[0].pack_bf16x2(values[values.len() - 1]))
    }
}

impl RowElement for f16 {
    const NEGATIVE_INFINITIES: u32 = 0xfc00_fc00;

    #[track_caller]
    fn widen(word: Reg<u32>) -> Vec<Reg<f32>> {
        bit_cast::<_, f16x2>(word).unpack().map(|half| half.convert()).to_vec()
    }

    #[track_caller]
    fn narrow(values: &[Reg<f32>]) -> Reg<u32> {
        bit_cast(values[0].pack_f16x2(values[values.len() - 1]))
    }
}

/// A vector of a row as it came from memory: two 16-bit elements share a register.
#[derive(Clone, DeviceValue)]
pub(crate) struct Chunk<T> {
    words: Vec<Reg<u32>>,
    lanes: u32,
    element: std::marker::PhantomData<T>,
}

impl<T: RowElement> Chunk<T> {
    /// Loads `lanes` elements, in accesses of 128 bits at most.
    #[track_caller]
    pub(crate) fn load<S: Space>(from: Pointer<T, S>, lanes: u32, access: Access) -> Self {
        let bytes = lanes * T::BYTES;
        let words = if bytes < 4 {
            vec![from.cast::<u16>().load_with(access).convert()]
        } else {
            let (count, from) = (bytes / 4, from.cast::<u32>());
            (0..count)
                .step_by(4)
                .flat_map(|at| vector::load_lanes(from.at(at), (count - at).min(4), access))
                .collect()
        };
        Self { words, lanes, element: std::marker::PhantomData }
    }

    /// `lanes` elements whose every 32-bit word is `word`.
    #[track_caller]
    pub(crate) fn filled(word: u32, lanes: u32) -> Self {
        let words = (lanes * T::BYTES).div_ceil(4);
        let words = (0..words).map(|_| constant(word).duplicate()).collect();
        Self { words, lanes, element: std::marker::PhantomData }
    }

    /// The elements where the condition holds, else zeros.
    #[track_caller]
    pub(crate) fn or_zero(&self, condition: Reg<bool>) -> Self {
        let words = self.words.iter().map(|word| condition.select(*word, 0u32)).collect();
        Self { words, ..*self }
    }

    /// How many elements.
    pub(super) fn lanes(&self) -> usize {
        self.lanes as usize
    }

    /// The same elements in registers of their own.
    #[track_caller]
    pub(crate) fn duplicate(&self) -> Self {
        Self { words: self.words.iter().map(|word| word.duplicate()).collect(), ..*self }
    }

    /// The elements in f32.
    #[track_caller]
    pub(crate) fn values(&self) -> Vec<Reg<f32>> {
        let mut values: Vec<_> = self.words.iter().flat_map(|word| T::widen(*word)).collect();
        values.truncate(self.lanes as usize);
        values
    }

    /// Rounds values to `T`.
    #[track_caller]
    pub(crate) fn of(values: &[Reg<f32>]) -> Self {
        let words = values.chunks(4 / T::BYTES as usize).map(|lanes| T::narrow(lanes)).collect();
        Self { words, lanes: values.len() as u32, element: std::marker::PhantomData }
    }

    /// The elementwise sum, rounded to `T`.
    #[track_caller]
    pub(super) fn plus(&self, other: &Self) -> Self {
        let sums: Vec<_> = self.values().into_iter().zip(other.values()).map(|(a, b)| a + b).collect();
        Self::of(&sums)
    }

    /// Stores the elements, in accesses of 128 bits at most.
    #[track_caller]
    pub(crate) fn store<S: Space>(&self, to: Pointer<T, S>, access: Access) {
        if self.lanes * T::BYTES < 4 {
            let half: Reg<u16> = self.words[0].convert();
            to.cast::<u16>().store_with(half, access);
        } else {
            for (index, words) in self.words.chunks(4).enumerate() {
                vector::store_lanes(to.cast::<u32>().at(4 * index), words, access);
            }
        }
    }
}
