//! The element types that files and flags name.

use warpwright_arch::DataType;
use warpwright_emulator::numeric::Rounding;
use warpwright_emulator::numeric::convert::{ConvertMode, Scalar, convert};
use warpwright_runtime::Argument;

/// How NumPy reads an element's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumpyKind {
    /// `b`
    Boolean,
    /// `u`
    Unsigned,
    /// `i`
    Signed,
    /// `f`
    Float,
}

/// An element type.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dtype {
    /// The name, and then others it goes by.
    names: &'static [&'static str],
    pub(crate) data_type: DataType,
    /// How it travels in a NumPy file: types that NumPy lacks travel as their unsigned bits.
    pub(crate) numpy: NumpyKind,
}

macro_rules! dtypes {
    ($([$($name:literal)*] $data_type:ident $numpy:ident;)*) => {
        &[$(Dtype { names: &[$($name),*], data_type: DataType::$data_type, numpy: NumpyKind::$numpy },)*]
    };
}

/// Every element type.
pub(crate) static DTYPES: &[Dtype] = dtypes! {
    ["bool"] U8 Boolean;
    ["u8" "uint8" "b8"] U8 Unsigned;
    ["u16" "uint16" "b16"] U16 Unsigned;
    ["u32" "uint32" "b32"] U32 Unsigned;
    ["u64" "uint64" "b64"] U64 Unsigned;
    ["i8" "int8" "s8"] S8 Signed;
    ["i16" "int16" "s16"] S16 Signed;
    ["i32" "int32" "s32"] S32 Signed;
    ["i64" "int64" "s64"] S64 Signed;
    ["f16" "float16" "half"] F16 Float;
    ["f32" "float32" "float"] F32 Float;
    ["f64" "float64" "double"] F64 Float;
    ["bf16" "bfloat16"] Bf16 Unsigned;
    ["tf32"] Tf32 Unsigned;
    ["e4m3" "e4m3fn" "fp8_e4m3" "f8e4m3" "float8_e4m3" "float8_e4m3fn"] E4m3 Unsigned;
    ["e5m2" "fp8_e5m2" "f8e5m2" "float8_e5m2"] E5m2 Unsigned;
    ["e2m3" "float6_e2m3" "float6_e2m3fn"] E2m3 Unsigned;
    ["e3m2" "float6_e3m2" "float6_e3m2fn"] E3m2 Unsigned;
    ["e2m1" "float4_e2m1" "float4_e2m1fn"] E2m1 Unsigned;
    ["ue8m0" "e8m0" "float8_e8m0fnu"] Ue8m0 Unsigned;
};

/// The emulator's name for a type whose numbers it converts; the bits of all others are integers.
fn scalar(data_type: DataType) -> Scalar {
    match data_type {
        DataType::F16 => Scalar::F16,
        DataType::Bf16 => Scalar::Bf16,
        DataType::Tf32 => Scalar::Tf32,
        DataType::F32 => Scalar::F32,
        DataType::F64 => Scalar::F64,
        DataType::E4m3 => Scalar::E4m3,
        DataType::E5m2 => Scalar::E5m2,
        DataType::E2m3 => Scalar::E2m3,
        DataType::E3m2 => Scalar::E3m2,
        DataType::E2m1 => Scalar::E2m1,
        DataType::Ue8m0 => Scalar::Ue8m0,
        other => Scalar::Integer { width: other.bits(), signed: other.ptx().starts_with('s') },
    }
}

impl Dtype {
    /// The type of that name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        DTYPES.iter().find(|dtype| dtype.names.contains(&name))
    }

    /// The names of all types, as a list for messages.
    pub(crate) fn known() -> String {
        DTYPES.iter().map(Self::name).collect::<Vec<_>>().join(", ")
    }

    /// Its name.
    pub(crate) fn name(&self) -> &'static str {
        self.names[0]
    }

    /// Bytes of an element.
    pub(crate) fn bytes(&self) -> usize {
        self.data_type.bits().div_ceil(8) as usize
    }

    /// Whether its numbers are floats.
    pub(crate) fn is_float(&self) -> bool {
        scalar(self.data_type).is_float()
    }

    /// A scalar's bytes as a kernel's argument: a number where NumPy has the type, else bits.
    pub(crate) fn as_argument(&self, bytes: &[u8]) -> Argument<'static> {
        let mut word = [0; 8];
        word[..self.bytes()].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(word);
        match (self.numpy, self.bytes()) {
            (NumpyKind::Float, 4) => Argument::scalar(f32::from_bits(bits as u32)),
            (NumpyKind::Float, 8) => Argument::scalar(f64::from_bits(bits)),
            (NumpyKind::Unsigned | NumpyKind::Signed, 4) if !self.is_float() => Argument::scalar(bits as u32),
            (NumpyKind::Unsigned | NumpyKind::Signed, 8) if !self.is_float() => Argument::scalar(bits),
            // Compilers pass narrow types as bytes, integers or floats, each as it likes.
            _ => Argument::bytes(bytes),
        }
    }

    /// The element nearest to a number: ties to even, integers wrapped, too large a float made
    /// infinite, or the largest number where the type has one byte. An infinity remains one, if the
    /// type has it.
    pub(crate) fn nearest(&self, number: f64) -> Vec<u8> {
        let finite = self.bytes() == 1 && number.is_finite();
        self.converted(number.to_bits(), Scalar::F64, finite)
    }

    /// The element for an integer: as [`nearest`](Self::nearest).
    pub(crate) fn nearest_to_integer(&self, number: u64) -> Vec<u8> {
        self.nearest_to_bits(number, DataType::U64, number as f64)
    }

    /// The element for a negative integer: as [`nearest`](Self::nearest).
    pub(crate) fn nearest_to_signed(&self, number: i64) -> Vec<u8> {
        self.nearest_to_bits(number as u64, DataType::S64, number as f64)
    }

    fn nearest_to_bits(&self, bits: u64, from: DataType, number: f64) -> Vec<u8> {
        // No instruction converts integers to ue8m0.
        if scalar(self.data_type) == Scalar::Ue8m0 {
            return self.nearest(number);
        }
        self.converted(bits, scalar(from), self.bytes() == 1)
    }

    fn converted(&self, bits: u64, from: Scalar, finite: bool) -> Vec<u8> {
        let mode = ConvertMode { rounding: Rounding::NearestEven, finite, ..ConvertMode::default() };
        self.element(convert(bits, from, scalar(self.data_type), mode))
    }

    /// The number that the element with these bytes is.
    pub(crate) fn number(&self, bytes: &[u8]) -> f64 {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(word);
        f64::from_bits(convert(bits, scalar(self.data_type), Scalar::F64, ConvertMode::default()))
    }

    /// The element with these bits; those beyond its width are dropped.
    pub(crate) fn element(&self, bits: u64) -> Vec<u8> {
        bits.to_le_bytes()[..self.bytes()].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_finds_its_type_and_no_other() {
        for dtype in DTYPES {
            for name in dtype.names {
                assert_eq!(Dtype::named(name), Some(dtype));
            }
        }
        let names: Vec<_> = DTYPES.iter().flat_map(|dtype| dtype.names).collect();
        let mut distinct = names.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), names.len());
        assert_eq!(Dtype::named("f8"), None, "NumPy's f8 is 64 bits wide, others' f8 is 8");
    }

    #[test]
    fn small_integers_are_exact_in_every_type() {
        let expected = [
            ("bool", vec![1]),
            ("u64", vec![1, 0, 0, 0, 0, 0, 0, 0]),
            ("i16", vec![1, 0]),
            ("f16", vec![0, 0x3c]),
            ("bf16", vec![0x80, 0x3f]),
            ("tf32", vec![0, 0, 0x80, 0x3f]),
            ("f32", vec![0, 0, 0x80, 0x3f]),
            ("f64", vec![0, 0, 0, 0, 0, 0, 0xf0, 0x3f]),
            ("e4m3", vec![0x38]),
            ("e5m2", vec![0x3c]),
        ];
        for (name, bytes) in expected {
            let dtype = Dtype::named(name).expect("in the table");
            assert_eq!(dtype.nearest_to_integer(1), bytes, "{name}");
            assert_eq!(dtype.nearest(1.0), bytes, "{name}");
            assert_eq!(dtype.nearest_to_integer(0), vec![0; dtype.bytes()], "{name}");
        }
    }

    #[test]
    fn numbers_past_the_range_wrap_or_saturate() {
        let of = |name: &str, number| Dtype::named(name).expect("in the table").nearest_to_integer(number);
        assert_eq!(of("u8", 257), [1]);
        assert_eq!(of("i8", 255), [0xff]);
        assert_eq!(of("e4m3", 1000), [0x7e], "448, the largest");
        assert_eq!(of("f16", 100_000), [0x00, 0x7c], "infinity");
        assert_eq!(of("bf16", 257), [0x80, 0x43], "256: a tie goes to even");
    }
}
