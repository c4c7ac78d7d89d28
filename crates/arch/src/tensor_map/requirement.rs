//! What the copies of a kernel need of a tensor map: all that its tiles in shared memory and its
//! mbarriers depend on. The address, extents, strides, fill and L2 promotion are the tensor's own.

use super::{Access, Description, ElementType, Interleave, Swizzle};

/// What copies need of a tensor map. Axis 0 is contiguous.
///
/// ```
/// use warpwright_arch::tensor_map::{Description, ElementType, Requirement, Swizzle};
///
/// let boxes = Requirement::tiled(ElementType::Bf16, &[64, 128]).swizzled(Swizzle::Bytes128);
/// let map = boxes.row_major(0x1000, &[4096, 1024]);
/// assert!(boxes.accepts(&Requirement::of(&map)));
///
/// let other = Description::row_major(ElementType::Bf16, 0x1000, &[4096, 1024], &[64, 64]);
/// let difference = boxes.difference(&Requirement::of(&other)).unwrap();
/// assert_eq!((difference.property, difference.given.as_str()), ("box", "(64, 64) elements, 8192 bytes"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The type of the elements.
    pub element: ElementType,
    /// The name of the elements where several types share `u8`, such as `e4m3`; `None` for any.
    pub format: Option<&'static str>,
    /// The elements of a copy.
    pub access: Access,
    /// The element stride along each axis.
    pub element_strides: Vec<u32>,
    /// The interleave.
    pub interleave: Interleave,
    /// The swizzle.
    pub swizzle: Swizzle,
}

/// A property in which a tensor map, or another copy, differs from what is required.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The property, as a noun: `box`.
    pub property: &'static str,
    /// What is required.
    pub required: String,
    /// What there is.
    pub given: String,
}

impl Requirement {
    /// Boxes of these extents, the contiguous axis first; dense, every element.
    pub fn tiled(element: ElementType, box_extents: &[u32]) -> Self {
        let access = Access::Tiled { box_extents: box_extents.to_vec() };
        Self::accessed(element, access, box_extents.len())
    }

    /// Pixels of a bounding box (im2col): `lower` and `upper` are the offsets of its first and last
    /// pixel from the tensor's, W before H before D.
    pub fn im2col(
        element: ElementType,
        (lower, upper): (&[i32], &[i32]),
        channels: u32,
        pixels: u32,
    ) -> Self {
        let (lower, upper) = (lower.to_vec(), upper.to_vec());
        let rank = lower.len() + 2;
        Self::accessed(element, Access::Im2col { lower, upper, channels, pixels }, rank)
    }

    fn accessed(element: ElementType, access: Access, rank: usize) -> Self {
        let (interleave, swizzle) = (Interleave::None, Swizzle::None);
        Self { element, format: None, access, element_strides: vec![1; rank], interleave, swizzle }
    }

    /// With elements of this name, one of those that share `u8`.
    #[must_use]
    pub fn named(self, format: Option<&'static str>) -> Self {
        Self { format, ..self }
    }

    /// With this swizzle.
    #[must_use]
    pub fn swizzled(self, swizzle: Swizzle) -> Self {
        Self { swizzle, ..self }
    }

    /// With this interleave.
    #[must_use]
    pub fn interleaved(self, interleave: Interleave) -> Self {
        Self { interleave, ..self }
    }

    /// With these element strides, one for each axis.
    #[must_use]
    pub fn strided(self, element_strides: &[u32]) -> Self {
        Self { element_strides: element_strides.to_vec(), ..self }
    }

    /// Boxes of a tensor with `rank` axes. They have extent 1 along the axes added.
    #[must_use]
    pub fn of_rank(mut self, rank: usize) -> Self {
        if let Access::Tiled { box_extents } = &mut self.access
            && box_extents.len() < rank
        {
            box_extents.resize(rank, 1);
            self.element_strides.resize(rank, 1);
        }
        self
    }

    /// The properties of a tensor map.
    pub fn of(map: &Description) -> Self {
        let Description { element, interleave, swizzle, .. } = *map;
        let (access, element_strides) = (map.access.clone(), map.element_strides.clone());
        Self { element, format: None, access, element_strides, interleave, swizzle }
    }

    /// The map of a compact row-major tensor at `address`. `extents` are given outermost first.
    pub fn row_major(&self, address: u64, extents: &[u64]) -> Description {
        let Self { element, interleave, swizzle, .. } = *self;
        let (access, element_strides) = (self.access.clone(), self.element_strides.clone());
        let tensor = Description::row_major(element, address, extents, &[]);
        Description { access, element_strides, interleave, swizzle, ..tensor }
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        match &self.access {
            Access::Tiled { box_extents } => box_extents.len(),
            Access::Im2col { lower, .. } => lower.len() + 2,
        }
    }

    /// Whether copies that need this can use a map of properties `given`.
    pub fn accepts(&self, given: &Self) -> bool {
        self.accepts_elements(given)
            && self.swizzle == given.swizzle
            && self.interleave == given.interleave
            && self.access == given.access
            && self.element_strides == given.element_strides
    }

    fn accepts_elements(&self, given: &Self) -> bool {
        let formats = self.format.zip(given.format);
        self.element.accepts(given.element) && formats.is_none_or(|(needed, given)| needed == given)
    }

    /// The first property in which `given` does not meet this requirement.
    pub fn difference(&self, given: &Self) -> Option<Difference> {
        let properties = self.properties().into_iter().zip(given.properties());
        let differing = properties.map(|((property, required), (_, given))| (property, required, given));
        let mut differing = differing.filter(|(_, required, given)| required != given);
        differing
            .find(|(property, ..)| *property != ELEMENT || !self.accepts_elements(given))
            .map(|(property, required, given)| Difference { property, required, given })
    }

    /// Each property and its value in words, those that determine others first.
    fn properties(&self) -> [(&'static str, String); 10] {
        let (mut boxes, mut channels, mut pixels, mut bounds) = Default::default();
        let mode = match &self.access {
            Access::Tiled { box_extents } => {
                let bytes = self.row_major(0, &vec![1; self.rank()]).transaction_bytes();
                boxes = format!("({}) elements, {bytes} bytes", list(box_extents));
                "tiled"
            }
            Access::Im2col { lower, upper, channels: per_pixel, pixels: count } => {
                channels = per_pixel.to_string();
                pixels = count.to_string();
                bounds = format!("({}) to ({})", list(lower), list(upper));
                "im2col"
            }
        };
        [
            (ELEMENT, self.format.unwrap_or(self.element.name()).to_owned()),
            ("mode", mode.to_owned()),
            ("interleave", self.interleave.name().to_owned()),
            ("rank", self.rank().to_string()),
            ("element stride", format!("({})", list(&self.element_strides))),
            ("box", boxes),
            ("number of channels", channels),
            ("number of pixels", pixels),
            ("bounding box", bounds),
            ("swizzle", self.swizzle.name().to_owned()),
        ]
    }
}

/// The property that is not compared for equality.
const ELEMENT: &str = "element type";

fn list<T: ToString>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

impl ElementType {
    /// Whether copies that need this type can use a map of type `given`. Only reductions treat
    /// `f32` and `f32.ftz` differently. Tensor cores read `f32` as `tf32`.
    pub fn accepts(self, given: Self) -> bool {
        use ElementType::{F32, F32Ftz, Tf32, Tf32Ftz};
        match self {
            F32 | F32Ftz => matches!(given, F32 | F32Ftz),
            Tf32 | Tf32Ftz => matches!(given, F32 | F32Ftz | Tf32 | Tf32Ftz),
            _ => self == given,
        }
    }
}

impl Interleave {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Interleave::None => "none",
            Interleave::Bytes16 => "16 bytes",
            Interleave::Bytes32 => "32 bytes",
        }
    }
}

impl Swizzle {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Swizzle::None => "none",
            Swizzle::Bytes32 => "32 bytes",
            Swizzle::Bytes64 => "64 bytes",
            Swizzle::Bytes128 => "128 bytes",
            Swizzle::Bytes128Atom32 => "128 bytes in units of 32",
            Swizzle::Bytes128Atom32Flip8 => "128 bytes in units of 32, halves flipped",
            Swizzle::Bytes128Atom64 => "128 bytes in units of 64",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The two comparisons agree, and each is of its own property.
    #[test]
    fn a_requirement_is_met_exactly_where_nothing_differs() {
        let tiled = Requirement::tiled(ElementType::F16, &[64, 8]);
        let im2col = |channels, pixels, upper| {
            Requirement::im2col(ElementType::F16, (&[-1, -1], &[upper, -1]), channels, pixels)
        };
        let all = [
            tiled.clone(),
            Requirement { element: ElementType::Bf16, ..tiled.clone() },
            Requirement { element: ElementType::F32, ..tiled.clone() },
            Requirement { element: ElementType::F32Ftz, ..tiled.clone() },
            Requirement { element: ElementType::Tf32, ..tiled.clone() },
            Requirement::tiled(ElementType::F16, &[32, 8]),
            tiled.clone().of_rank(3),
            tiled.clone().strided(&[1, 2]),
            tiled.clone().swizzled(Swizzle::Bytes128),
            tiled.interleaved(Interleave::Bytes16),
            Requirement::tiled(ElementType::U8, &[64, 8]),
            Requirement::tiled(ElementType::U8, &[64, 8]).named(Some("e4m3")),
            Requirement::tiled(ElementType::U8, &[64, 8]).named(Some("e5m2")),
            im2col(64, 32, -1),
            im2col(32, 32, -1),
            im2col(64, 16, -1),
            im2col(64, 32, 0),
        ];
        for (i, required) in all.iter().enumerate() {
            for (j, given) in all.iter().enumerate() {
                let map = given.row_major(0, &[1, 1, 256, 256][4 - given.rank()..]);
                assert_eq!(Requirement::of(&map).named(given.format), *given);
                let difference = required.difference(given);
                let accepts =
                    i == j || matches!((i, j), (2, 3) | (3, 2) | (4, 2 | 3) | (10, 11 | 12) | (11 | 12, 10));
                assert_eq!(difference.is_none(), accepts, "{required:?} and {given:?}: {difference:?}");
                assert_eq!(required.accepts(given), accepts, "{required:?} and {given:?}");
            }
        }
    }
}
