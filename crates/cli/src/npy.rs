//! NumPy's `.npy` files: one array of numbers, versions 1 to 3 of the format. Files that hold
//! Python objects are refused.
//!
//! The format: `\x93NUMPY`, two version bytes, the header's length (two bytes little-endian in
//! version 1, four after), the header, then the elements. The header is a Python dictionary with
//! `descr` (byte order, kind and size of an element), `fortran_order` and `shape`. NumPy
//! documentation, `numpy.lib.format`.

use crate::dtype::NumpyKind;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// The elements start at a multiple of this.
const ALIGN: usize = 64;

/// An array: elements in C order (last coordinate fastest), little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Array {
    /// How an element's bits are read.
    pub(crate) kind: NumpyKind,
    /// Bytes of an element.
    pub(crate) element_bytes: usize,
    /// Extents, outermost first; none for a single number.
    pub(crate) shape: Vec<usize>,
    /// The elements.
    pub(crate) data: Vec<u8>,
}

/// A file that is not an array of numbers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NpyError {
    /// It does not begin as such files do.
    #[error("this is not a .npy file: it does not begin with \\x93NUMPY")]
    Magic,
    /// A version of the format that is not known.
    #[error("version {0}.{1} of the .npy format is not known; versions 1 to 3 are")]
    Version(u8, u8),
    /// It ends too early.
    #[error("the file is cut short: {needed} bytes of {part} are needed and {found} are there")]
    Short {
        /// What ends too early.
        part: &'static str,
        /// Bytes needed.
        needed: usize,
        /// Bytes there.
        found: usize,
    },
    /// It goes on after the array.
    #[error("{0} bytes follow the array")]
    Trailing(usize),
    /// The header is not the dictionary it should be.
    #[error("the .npy header cannot be read: {0}")]
    Header(String),
    /// The elements are not plain numbers of a size there is.
    #[error("elements of type {0:?} cannot be used; booleans, integers and floats of 1, 2, 4 or 8 bytes can")]
    Descr(String),
}

impl Array {
    /// Reads a file's bytes.
    pub(crate) fn parse(file: &[u8]) -> Result<Self, NpyError> {
        let rest = file.strip_prefix(MAGIC).ok_or(NpyError::Magic)?;
        let (&[major, minor], rest) = rest.split_first_chunk().ok_or(short("the version", 2, rest.len()))?;
        let (header_bytes, rest) = match major {
            1 => {
                let (length, rest) =
                    rest.split_first_chunk().ok_or(short("the header's length", 2, rest.len()))?;
                (usize::from(u16::from_le_bytes(*length)), rest)
            }
            2 | 3 => {
                let (length, rest) =
                    rest.split_first_chunk().ok_or(short("the header's length", 4, rest.len()))?;
                (u32::from_le_bytes(*length) as usize, rest)
            }
            _ => return Err(NpyError::Version(major, minor)),
        };
        let (header, elements) =
            rest.split_at_checked(header_bytes).ok_or(short("the header", header_bytes, rest.len()))?;
        let text = std::str::from_utf8(header).map_err(|_| NpyError::Header("it is not text".to_owned()))?;
        let header = Header::parse(text)?;
        let too_large = || NpyError::Header(format!("the shape {:?} is too large", header.shape));
        let count = header.shape.iter().try_fold(1usize, |product, extent| product.checked_mul(*extent));
        let bytes = count.and_then(|count| count.checked_mul(header.element_bytes)).ok_or_else(too_large)?;
        if elements.len() < bytes {
            return Err(short("elements", bytes, elements.len()));
        }
        if elements.len() > bytes {
            return Err(NpyError::Trailing(elements.len() - bytes));
        }
        let mut data = elements.to_vec();
        if header.is_big_endian {
            data.chunks_exact_mut(header.element_bytes).for_each(<[u8]>::reverse);
        }
        if header.is_fortran_order {
            data = from_fortran_order(&data, &header.shape, header.element_bytes);
        }
        let Header { kind, element_bytes, shape, .. } = header;
        Ok(Self { kind, element_bytes, shape, data })
    }

    /// The bytes of a file of version 1.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let order = if self.element_bytes == 1 { '|' } else { '<' };
        let kind = match self.kind {
            NumpyKind::Boolean => 'b',
            NumpyKind::Unsigned => 'u',
            NumpyKind::Signed => 'i',
            NumpyKind::Float => 'f',
        };
        let mut shape: String = self.shape.iter().map(|extent| format!("{extent}, ")).collect();
        // One extent keeps its comma, as Python writes tuples.
        shape.truncate(if self.shape.len() == 1 { shape.len() - 1 } else { shape.len().saturating_sub(2) });
        let bytes = self.element_bytes;
        let mut header =
            format!("{{'descr': '{order}{kind}{bytes}', 'fortran_order': False, 'shape': ({shape}), }}");
        let before = MAGIC.len() + 2 + 2;
        let padded = (before + header.len() + 1).next_multiple_of(ALIGN) - before;
        header.extend(std::iter::repeat_n(' ', padded - 1 - header.len()));
        header.push('\n');
        let length = u16::try_from(header.len()).expect("a header of some extents is short");
        [MAGIC, &[1, 0][..], &length.to_le_bytes(), header.as_bytes(), &self.data].concat()
    }
}

fn short(part: &'static str, needed: usize, found: usize) -> NpyError {
    NpyError::Short { part, needed, found }
}

/// Elements in C order, from elements in which the first coordinate is fastest.
fn from_fortran_order(data: &[u8], shape: &[usize], element_bytes: usize) -> Vec<u8> {
    let mut ordered = Vec::with_capacity(data.len());
    let mut coordinates = vec![0; shape.len()];
    for _ in 0..data.len() / element_bytes {
        let mut stride = 1;
        let mut index = 0;
        for (coordinate, extent) in coordinates.iter().zip(shape) {
            index += coordinate * stride;
            stride *= extent;
        }
        ordered.extend_from_slice(&data[index * element_bytes..][..element_bytes]);
        for (coordinate, extent) in coordinates.iter_mut().zip(shape).rev() {
            *coordinate += 1;
            if *coordinate < *extent {
                break;
            }
            *coordinate = 0;
        }
    }
    ordered
}

struct Header {
    kind: NumpyKind,
    element_bytes: usize,
    is_big_endian: bool,
    is_fortran_order: bool,
    shape: Vec<usize>,
}

impl Header {
    fn parse(text: &str) -> Result<Self, NpyError> {
        let mut descr = None;
        let mut is_fortran_order = None;
        let mut shape = None;
        let mut rest = Scanner(text.trim_end());
        rest.expect("{")?;
        while !rest.take("}") {
            let key = rest.string()?;
            rest.expect(":")?;
            match key {
                "descr" => descr = Some(rest.descr()?),
                "fortran_order" => is_fortran_order = Some(rest.boolean()?),
                "shape" => shape = Some(rest.shape()?),
                other => return Err(NpyError::Header(format!("it has an unknown key '{other}'"))),
            }
            if !rest.take(",") {
                rest.expect("}")?;
                break;
            }
        }
        if !rest.0.trim().is_empty() {
            return Err(NpyError::Header(format!("`{}` follows it", rest.0.trim())));
        }
        let missing = |key: &str| NpyError::Header(format!("it has no '{key}'"));
        let descr = descr.ok_or_else(|| missing("descr"))?;
        let (kind, element_bytes, is_big_endian) = element(descr)?;
        let is_fortran_order = is_fortran_order.ok_or_else(|| missing("fortran_order"))?;
        Ok(Self {
            kind,
            element_bytes,
            is_big_endian,
            is_fortran_order,
            shape: shape.ok_or_else(|| missing("shape"))?,
        })
    }
}

/// Kind, size and byte order of a `descr` such as `<f4`.
fn element(descr: &str) -> Result<(NumpyKind, usize, bool), NpyError> {
    let refuse = || NpyError::Descr(descr.to_owned());
    let (order, rest) = match descr.split_at_checked(1).ok_or_else(refuse)? {
        (order @ ("<" | ">" | "|" | "="), rest) => (order, rest),
        _ => ("=", descr),
    };
    let (kind, size) = rest.split_at_checked(1).ok_or_else(refuse)?;
    let size: usize = size.parse().map_err(|_| refuse())?;
    let kind = match (kind, size) {
        ("b", 1) => NumpyKind::Boolean,
        ("u", 1 | 2 | 4 | 8) => NumpyKind::Unsigned,
        ("i", 1 | 2 | 4 | 8) => NumpyKind::Signed,
        ("f", 2 | 4 | 8) => NumpyKind::Float,
        // What extension types such as bfloat16 are written as: raw bytes.
        ("V", 1 | 2) => NumpyKind::Unsigned,
        _ => return Err(refuse()),
    };
    Ok((kind, size, order == ">"))
}

/// Reads the few Python literals that headers are made of.
struct Scanner<'a>(&'a str);

impl<'a> Scanner<'a> {
    fn take(&mut self, token: &str) -> bool {
        self.0 = self.0.trim_start();
        match self.0.strip_prefix(token) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<(), NpyError> {
        if self.take(token) { Ok(()) } else { Err(self.error(&format!("`{token}`"))) }
    }

    fn error(&self, expected: &str) -> NpyError {
        let found: String = self.0.trim_start().chars().take(20).collect();
        NpyError::Header(format!("{expected} is expected, not `{found}`"))
    }

    fn string(&mut self) -> Result<&'a str, NpyError> {
        let quote = if self.take("'") {
            '\''
        } else if self.take("\"") {
            '"'
        } else {
            return Err(self.error("a string"));
        };
        let (string, rest) = self.0.split_once(quote).ok_or_else(|| self.error("the end of a string"))?;
        self.0 = rest;
        Ok(string)
    }

    fn descr(&mut self) -> Result<&'a str, NpyError> {
        // A list describes a structure's fields.
        if self.0.trim_start().starts_with('[') {
            return Err(NpyError::Descr("a structure".to_owned()));
        }
        self.string()
    }

    fn boolean(&mut self) -> Result<bool, NpyError> {
        if self.take("True") {
            Ok(true)
        } else if self.take("False") {
            Ok(false)
        } else {
            Err(self.error("`True` or `False`"))
        }
    }

    fn shape(&mut self) -> Result<Vec<usize>, NpyError> {
        let mut shape = Vec::new();
        self.expect("(")?;
        while !self.take(")") {
            self.0 = self.0.trim_start();
            let digits = self.0.find(|character: char| !character.is_ascii_digit()).unwrap_or(self.0.len());
            let (number, rest) = self.0.split_at(digits);
            shape.push(number.parse().map_err(|_| self.error("an extent"))?);
            // Python 2 wrote long integers so.
            self.0 = rest.strip_prefix('L').unwrap_or(rest);
            if !self.take(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(shape)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A file of a version with this header.
    fn file(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
        let length = header.len() as u32;
        let length =
            if version == 1 { length.to_le_bytes()[..2].to_vec() } else { length.to_le_bytes().to_vec() };
        [MAGIC, &[version, 0][..], &length, header.as_bytes(), data].concat()
    }

    #[test]
    fn the_bytes_are_those_numpy_writes() {
        let array = Array {
            kind: NumpyKind::Float,
            element_bytes: 4,
            shape: vec![2],
            data: vec![0, 0, 128, 63, 0, 0, 0, 64],
        };
        let bytes = array.to_bytes();
        // numpy.save of numpy.array([1, 2], dtype=numpy.float32)
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
        let padded = format!("{header}{}\n", " ".repeat(118 - header.len() - 1));
        assert_eq!(bytes, file(1, &padded, &array.data));
        assert_eq!(bytes.len(), 128 + 8);
    }

    #[test]
    fn every_version_and_spelling_is_read() {
        let data = [1, 0, 2, 0];
        let expected =
            Array { kind: NumpyKind::Unsigned, element_bytes: 2, shape: vec![2, 1], data: data.to_vec() };
        for version in 1..=3 {
            for header in [
                "{'descr': '<u2', 'fortran_order': False, 'shape': (2, 1), }\n",
                "{\"shape\": (2L, 1L), \"descr\": \"u2\", \"fortran_order\":False}   \n",
            ] {
                assert_eq!(Array::parse(&file(version, header, &data)), Ok(expected.clone()));
            }
        }
    }

    #[test]
    fn byte_order_and_element_order_become_ours() {
        let big = file(1, "{'descr': '>i4', 'fortran_order': False, 'shape': (1,)}", &[0, 0, 1, 2]);
        assert_eq!(Array::parse(&big).expect("sound").data, [2, 1, 0, 0]);
        // [[0, 1, 2], [3, 4, 5]], columns first.
        let columns =
            file(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3)}", &[0, 3, 1, 4, 2, 5]);
        assert_eq!(Array::parse(&columns).expect("sound").data, [0, 1, 2, 3, 4, 5]);
        let single = file(1, "{'descr': '<f8', 'fortran_order': False, 'shape': ()}", &[7; 8]);
        assert_eq!(Array::parse(&single).expect("sound").shape, [] as [usize; 0]);
        let none = file(1, "{'descr': '<f8', 'fortran_order': True, 'shape': (3, 0)}", &[]);
        assert_eq!(Array::parse(&none).expect("sound").data, [0u8; 0]);
    }

    #[test]
    fn what_is_not_an_array_of_numbers_is_refused() {
        let header = |descr: &str| format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (1,)}}");
        let refused = |bytes: &[u8]| Array::parse(bytes).expect_err("not an array of numbers");
        assert_eq!(refused(b"PK\x03\x04"), NpyError::Magic);
        assert_eq!(refused(b"\x93NUMPY\x09\x00"), NpyError::Version(9, 0));
        assert!(matches!(refused(&file(1, &header("'|O'"), &[0; 8])), NpyError::Descr(_)));
        assert!(matches!(refused(&file(1, &header("'<c8'"), &[0; 8])), NpyError::Descr(_)));
        assert!(matches!(refused(&file(1, &header("[('a', '<i4')]"), &[0; 4])), NpyError::Descr(_)));
        assert!(matches!(
            refused(&file(1, &header("'<i4'"), &[0; 3])),
            NpyError::Short { needed: 4, found: 3, .. }
        ));
        assert_eq!(refused(&file(1, &header("'<i4'"), &[0; 5])), NpyError::Trailing(1));
        for wrong in
            ["", "{", "{}", "{'descr': '<i4'}", "{'shape': (1,), 'descr': '<i4', 'fortran_order': 1}"]
        {
            assert!(matches!(refused(&file(1, wrong, &[])), NpyError::Header(_)), "{wrong}");
        }
        let huge = format!("{{'descr': '<i8', 'fortran_order': False, 'shape': ({0}, {0})}}", usize::MAX);
        assert!(matches!(refused(&file(1, &huge, &[])), NpyError::Header(_)));
    }

    proptest! {
        #[test]
        fn written_arrays_are_read_back(
            shape in prop::collection::vec(0usize..5, 0..5),
            element_bytes in prop::sample::select(vec![1usize, 2, 4, 8]),
            kind in prop::sample::select(vec![NumpyKind::Unsigned, NumpyKind::Signed]),
        ) {
            let bytes = shape.iter().product::<usize>() * element_bytes;
            let data = (0..bytes).map(|index| (index * 7) as u8).collect();
            let array = Array { kind, element_bytes, shape, data };
            let file = array.to_bytes();
            prop_assert_eq!((file.len() - bytes) % ALIGN, 0);
            prop_assert_eq!(Array::parse(&file), Ok(array));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Array::parse(&bytes);
            bytes.splice(0..0, *b"\x93NUMPY\x01\x00\x30\x00{'descr': '");
            let _ = Array::parse(&bytes);
        }
    }
}
