//! DLPack's tensor, version 1 (<https://dmlc.github.io/dlpack/latest/c_api.html>).

use std::ffi::c_void;
use std::fmt;
use std::ptr;

/// `DLDeviceType`, as far as operations take tensors there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceType {
    /// The memory of the host, where an emulated GPU computes.
    Host,
    /// The memory of a GPU.
    Cuda,
}

/// `DLDataType`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DataType {
    /// The family: `DLDataTypeCode`.
    pub code: u8,
    /// Bits of an element.
    pub bits: u8,
    /// Elements of a vector; 1 for any other.
    pub lanes: u16,
}

macro_rules! element_types {
    ($($(#[doc = $doc:literal])* $name:ident $text:literal = $code:literal, $bits:literal;)*) => {
        /// The element types of tensors that operations take.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ElementType {
            $($(#[doc = $doc])* $name,)*
        }

        impl ElementType {
            const ALL: &'static [(Self, &'static str, DataType)] = &[
                $((Self::$name, $text, DataType { code: $code, bits: $bits, lanes: 1 }),)*
            ];
        }
    };
}

element_types! {
    /// IEEE single precision.
    F32 "float32" = 2, 32;
    /// IEEE half precision.
    F16 "float16" = 2, 16;
    /// bfloat16.
    Bf16 "bfloat16" = 4, 16;
    /// 8 bits with 4 of the exponent, without infinities.
    E4m3 "float8_e4m3fn" = 10, 8;
    /// 8 bits with 5 of the exponent.
    E5m2 "float8_e5m2" = 12, 8;
    /// Signed integers.
    I64 "int64" = 0, 64;
    /// Signed integers.
    I32 "int32" = 0, 32;
    /// Unsigned integers.
    U32 "uint32" = 1, 32;
}

impl ElementType {
    fn row(self) -> &'static (Self, &'static str, DataType) {
        Self::ALL.iter().find(|(element, ..)| *element == self).expect("a row for each")
    }

    fn of(data_type: DataType) -> Option<Self> {
        Self::ALL.iter().find(|(.., of)| *of == data_type).map(|(element, ..)| *element)
    }

    /// DLPack's description.
    pub fn data_type(self) -> DataType {
        self.row().2
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.row().1)
    }
}

/// `DLTensor`: memory of another library, and where its elements are.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Tensor {
    data: *mut c_void,
    device: (i32, i32),
    rank: i32,
    data_type: DataType,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

const CPU: i32 = 1;
const CUDA: i32 = 2;
const CUDA_HOST: i32 = 3;
const CUDA_MANAGED: i32 = 13;

impl Tensor {
    /// An array of the host, without gaps. The tensor is used while both arguments live.
    ///
    /// # Panics
    /// The array has another number of elements than the shape.
    pub fn of_host<T: HostElement>(elements: &[T], shape: &[i64]) -> Self {
        assert_eq!(elements.len() as i64, shape.iter().product::<i64>(), "elements of the shape");
        Self {
            data: elements.as_ptr().cast_mut().cast(),
            device: (CPU, 0),
            rank: shape.len() as i32,
            data_type: T::ELEMENT.data_type(),
            shape: shape.as_ptr(),
            strides: ptr::null(),
            byte_offset: 0,
        }
    }

    /// An array of the host that an operation writes.
    ///
    /// # Panics
    /// As [`of_host`](Self::of_host).
    pub fn of_host_mut<T: HostElement>(elements: &mut [T], shape: &[i64]) -> Self {
        Self { data: elements.as_mut_ptr().cast(), ..Self::of_host(elements, shape) }
    }

    /// The same elements at other places: a stride for each axis, in elements.
    ///
    /// # Panics
    /// There are more or fewer strides than axes.
    #[must_use]
    pub fn strided(self, strides: &[i64]) -> Self {
        assert_eq!(strides.len(), self.extents().len(), "a stride for each axis");
        Self { strides: strides.as_ptr(), ..self }
    }

    /// Where the first element is.
    pub fn address(&self) -> u64 {
        (self.data as u64).wrapping_add(self.byte_offset)
    }

    /// The device, and its number; the code of DLPack's kind if it is another one.
    pub fn device(&self) -> Result<(DeviceType, i32), i32> {
        match self.device {
            (CPU | CUDA_HOST, _) => Ok((DeviceType::Host, 0)),
            (CUDA | CUDA_MANAGED, ordinal) => Ok((DeviceType::Cuda, ordinal)),
            (other, _) => Err(other),
        }
    }

    /// DLPack's description of the elements.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// The element type; DLPack's description if operations take no such elements.
    pub fn element(&self) -> Result<ElementType, DataType> {
        ElementType::of(self.data_type).ok_or(self.data_type)
    }

    /// Bytes of an element.
    pub fn element_bytes(&self) -> u64 {
        u64::from(self.data_type.bits).div_ceil(8)
    }

    /// The extent of each axis.
    pub fn extents(&self) -> &[i64] {
        // SAFETY: whoever made the tensor has as many extents as axes.
        unsafe { axes(self.shape, self.rank) }
    }

    /// Elements from one to the next along each axis.
    pub fn strides(&self) -> Vec<i64> {
        if self.strides.is_null() {
            return contiguous(self.extents());
        }
        // SAFETY: whoever made the tensor has as many strides as axes.
        unsafe { axes(self.strides, self.rank) }.to_vec()
    }

    /// Whether elements follow one another without gaps, the last axis first.
    pub fn is_contiguous(&self) -> bool {
        let neighbors =
            |((stride, expected), extent): ((&i64, i64), &i64)| stride == &expected || *extent <= 1;
        self.strides.is_null()
            || self.extents().contains(&0)
            || self.strides().iter().zip(contiguous(self.extents())).zip(self.extents()).all(neighbors)
    }

    /// The addresses from the first element to the end of the last one; `None` where they exceed the address space.
    pub fn range(&self) -> Option<std::ops::Range<u64>> {
        let extents = self.extents();
        let start = self.address();
        if extents.contains(&0) {
            return Some(start..start);
        }
        let reaches =
            extents.iter().zip(self.strides()).map(|(extent, stride)| (extent - 1).checked_mul(stride));
        let last = reaches.sum::<Option<i64>>().and_then(|last| u64::try_from(last).ok())?;
        let bytes = last.checked_add(1)?.checked_mul(self.element_bytes())?;
        Some(start..start.checked_add(bytes)?)
    }
}

/// The strides of a tensor without gaps.
fn contiguous(extents: &[i64]) -> Vec<i64> {
    let mut strides = vec![1i64; extents.len()];
    for axis in (1..extents.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(extents[axis]);
    }
    strides
}

/// # Safety
/// `numbers` points to `rank` numbers, or `rank` is 0.
unsafe fn axes<'t>(numbers: *const i64, rank: i32) -> &'t [i64] {
    match usize::try_from(rank) {
        // SAFETY: the caller has as many numbers.
        Ok(rank) if rank > 0 && !numbers.is_null() => unsafe { std::slice::from_raw_parts(numbers, rank) },
        _ => &[],
    }
}

/// A type of the host that is one of [`ElementType`].
pub trait HostElement {
    /// Which one.
    const ELEMENT: ElementType;
}

macro_rules! host_elements {
    ($($ty:ty = $element:ident),*) => {
        $(impl HostElement for $ty {
            const ELEMENT: ElementType = ElementType::$element;
        })*
    };
}

host_elements! {
    f32 = F32, warpwright::prelude::f16 = F16, warpwright::prelude::bf16 = Bf16, warpwright::prelude::e4m3 = E4m3,
    warpwright::prelude::e5m2 = E5m2, i64 = I64, i32 = I32, u32 = U32
}
