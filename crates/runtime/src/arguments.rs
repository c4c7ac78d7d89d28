//! Kernel arguments.

use std::sync::Arc;

use half::{bf16, f16};
use smallvec::SmallVec;
use warpwright_arch::tensor_map::{TENSOR_MAP_ALIGN, TENSOR_MAP_BYTES};
use warpwright_lang::element::{Element, Kind};

use crate::allocation::Allocation;
use crate::buffer::{Buffer, Storable};
use crate::error::{Error, Result};
use crate::signature::Parameter;
use crate::tensor_map::TensorMap;

/// One argument of a kernel. It borrows its buffer, so a launch counts no references.
#[derive(Clone)]
pub struct Argument<'a> {
    value: Value<'a>,
    bytes: Bytes<'a>,
    /// Whether the kernel writes nothing through it.
    is_read_only: bool,
}

#[derive(Clone)]
enum Value<'a> {
    Buffer { allocation: &'a Arc<Allocation>, element: &'static str },
    Scalar { element: &'static str, is_float: bool },
    Structure { allocations: Vec<&'a Arc<Allocation>> },
    TensorMap(&'a TensorMap),
    TensorMaps(Vec<&'a TensorMap>),
}

#[derive(Clone)]
enum Bytes<'a> {
    /// Up to 16 bytes are stored inline, so that a launch does not allocate for scalars.
    Short([u8; SHORT_BYTES], u8),
    Long(Vec<u8>),
    TensorMap(&'a [u8; TENSOR_MAP_BYTES]),
}

/// Capacity of [`Bytes::Short`].
const SHORT_BYTES: usize = 16;

/// Number of arguments that a launch packs without allocating.
pub(crate) const MANY_ARGUMENTS: usize = 24;

/// The arguments of a launch, in order.
#[derive(Default)]
pub struct Arguments<'a>(SmallVec<[Argument<'a>; MANY_ARGUMENTS]>);

impl<'a> Arguments<'a> {
    /// Appends an argument.
    #[inline]
    pub fn push(&mut self, argument: Argument<'a>) {
        self.0.push(argument);
    }
}

impl<'a> std::ops::Deref for Arguments<'a> {
    type Target = [Argument<'a>];

    fn deref(&self) -> &[Argument<'a>] {
        &self.0
    }
}

impl<'a> FromIterator<Argument<'a>> for Arguments<'a> {
    fn from_iter<I: IntoIterator<Item = Argument<'a>>>(arguments: I) -> Self {
        Self(arguments.into_iter().collect())
    }
}

impl Bytes<'_> {
    #[inline]
    fn of(bytes: &[u8]) -> Self {
        let mut short = [0; SHORT_BYTES];
        let Some(room) = short.get_mut(..bytes.len()) else { return Self::Long(bytes.to_vec()) };
        room.copy_from_slice(bytes);
        Self::Short(short, bytes.len() as u8)
    }
}

impl<'a> Argument<'a> {
    #[inline]
    fn of(value: Value<'a>, bytes: Bytes<'a>) -> Self {
        Self { value, bytes, is_read_only: false }
    }

    /// A buffer, passed as its address.
    pub fn buffer<T: Storable>(buffer: &'a Buffer<T>) -> Self {
        let allocation = &buffer.allocation;
        let bytes = Bytes::of(&allocation.address().to_le_bytes());
        Self::of(Value::Buffer { allocation, element: T::NAME }, bytes)
    }

    /// A scalar, passed by value.
    pub fn scalar<T: Element>(value: T) -> Self {
        let bytes = Bytes::of(&value.bits().to_le_bytes()[..T::BYTES as usize]);
        Self::of(Value::Scalar { element: T::NAME, is_float: T::KIND == Kind::Float }, bytes)
    }

    /// A structure, passed by value, with the bytes of its C representation.
    pub fn bytes(bytes: impl AsRef<[u8]>) -> Self {
        Self::of(Value::Structure { allocations: Vec::new() }, Bytes::of(bytes.as_ref()))
    }

    /// A structure of `size` bytes, passed by value. `fields` gives each field and its byte offset;
    /// the bytes between fields are zero. Fields may be buffers, passed as their addresses, and
    /// tensor maps.
    ///
    /// ```
    /// use warpwright_runtime::{Argument, Device};
    ///
    /// # let device = Device::named("emu:h200")?;
    /// let numbers = device.buffer_from(&[1.0f32; 8])?;
    /// // struct { const float* numbers; int count; }
    /// Argument::structure(16, &[(0, Argument::buffer(&numbers)), (8, Argument::scalar(8i32))])?;
    /// assert!(Argument::structure(16, &[(12, Argument::buffer(&numbers))]).is_err());
    /// # Ok::<(), warpwright_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// A field extends past the end of the structure or overlaps another field, or the offset of a
    /// tensor map is not a multiple of 64 bytes.
    pub fn structure(size: usize, fields: &[(usize, Argument<'a>)]) -> Result<Self> {
        let mut bytes = vec![0; size];
        let mut allocations = Vec::new();
        let mut taken: Vec<std::ops::Range<usize>> = Vec::new();
        for (offset, field) in fields {
            let offset = *offset;
            let refuse = |reason: String| {
                let (field, structure_bytes) = (field.describe(), size);
                Err(Error::StructureField { field, offset, structure_bytes, reason })
            };
            let range = offset..offset.saturating_add(field.as_bytes().len());
            if range.end > size {
                return refuse("it extends past the end".to_owned());
            }
            if let Some(other) = taken.iter().find(|other| other.start < range.end && range.start < other.end)
            {
                return refuse(format!("bytes {} to {} belong to another field", other.start, other.end));
            }
            let is_map = matches!(field.value, Value::TensorMap(_) | Value::TensorMaps(_));
            if is_map && !offset.is_multiple_of(TENSOR_MAP_ALIGN) {
                return refuse(format!("its offset must be a multiple of {TENSOR_MAP_ALIGN} bytes"));
            }
            bytes[range.clone()].copy_from_slice(field.as_bytes());
            taken.push(range);
            allocations.extend(field.allocations());
        }
        Ok(Self::of(Value::Structure { allocations }, Bytes::Long(bytes)))
    }

    /// A tensor map, passed by value.
    pub fn tensor_map(map: &'a TensorMap) -> Self {
        Self::of(Value::TensorMap(map), Bytes::TensorMap(map.as_bytes()))
    }

    /// Consecutive tensor maps, passed by value.
    pub fn tensor_maps(maps: &[&'a TensorMap]) -> Self {
        let bytes = maps.iter().flat_map(|map| *map.as_bytes()).collect();
        Self::of(Value::TensorMaps(maps.to_vec()), Bytes::Long(bytes))
    }

    /// The bytes, as they are in the parameter bank.
    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Short(bytes, length) => &bytes[..usize::from(*length)],
            Bytes::Long(bytes) => bytes,
            Bytes::TensorMap(bytes) => *bytes,
        }
    }

    /// Marks it as memory that the kernel does not write.
    pub(crate) fn read_only(self) -> Self {
        Self { is_read_only: true, ..self }
    }

    /// The memory that the kernel may write through this argument.
    pub(crate) fn written(&self) -> impl Iterator<Item = &'a Arc<Allocation>> {
        self.allocations().filter(|_| !self.is_read_only)
    }

    /// The memory that the kernel may access through this argument.
    pub(crate) fn allocations(&self) -> impl Iterator<Item = &'a Arc<Allocation>> {
        let (buffer, fields): (Option<&'a Arc<Allocation>>, &[&'a Arc<Allocation>]) = match &self.value {
            Value::Buffer { allocation, .. } => (Some(allocation), &[]),
            Value::Structure { allocations } => (None, allocations),
            _ => (None, &[]),
        };
        let mapped = self.maps().iter().map(|map| map.allocation());
        buffer.into_iter().chain(fields.iter().copied()).chain(mapped)
    }

    /// The tensor maps, if it is passed as such.
    #[inline]
    pub(crate) fn maps(&self) -> &[&'a TensorMap] {
        match &self.value {
            Value::TensorMap(map) => std::slice::from_ref(map),
            Value::TensorMaps(maps) => maps,
            _ => &[],
        }
    }

    /// Whether a parameter accepts it.
    pub(crate) fn fits(&self, parameter: &Parameter) -> bool {
        match &self.value {
            Value::Buffer { .. } => parameter.takes_address(),
            Value::Scalar { is_float, .. } => parameter.takes_scalar(self.as_bytes().len(), *is_float),
            Value::Structure { .. } => self.as_bytes().len() == parameter.bytes,
            Value::TensorMap(_) => parameter.takes_tensor_maps(1),
            Value::TensorMaps(maps) => parameter.takes_tensor_maps(maps.len()),
        }
    }

    /// The type of its elements, if it is a buffer.
    pub(crate) fn element(&self) -> Option<&'static str> {
        match &self.value {
            Value::Buffer { element, .. } => Some(element),
            _ => None,
        }
    }

    /// A description for messages: `a buffer of f32`.
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            Value::Buffer { element, .. } => format!("a buffer of {element}"),
            Value::Scalar { element, .. } => format!("a scalar {element}"),
            Value::Structure { .. } => format!("a structure of {} bytes", self.as_bytes().len()),
            Value::TensorMap(_) => "a tensor map (128 bytes, aligned to 64)".to_owned(),
            Value::TensorMaps(maps) => {
                format!("{} tensor maps (128 bytes each, aligned to 64)", maps.len())
            }
        }
    }
}

/// A value that can be passed to a kernel: a reference to a buffer or a tensor map, a scalar, or an
/// [`Argument`].
pub trait AsArgument {
    /// The argument for this value.
    fn as_argument(&self) -> Argument<'_>;
}

impl AsArgument for Argument<'_> {
    fn as_argument(&self) -> Argument<'_> {
        self.clone()
    }
}

impl AsArgument for &TensorMap {
    fn as_argument(&self) -> Argument<'_> {
        Argument::tensor_map(self)
    }
}

impl<T: Storable> AsArgument for &Buffer<T> {
    fn as_argument(&self) -> Argument<'_> {
        Argument::buffer(self)
    }
}

impl<T: Storable> AsArgument for &mut Buffer<T> {
    fn as_argument(&self) -> Argument<'_> {
        Argument::buffer(self)
    }
}

macro_rules! scalars {
    ($($ty:ty)*) => {
        $(impl AsArgument for $ty {
            fn as_argument(&self) -> Argument<'_> {
                Argument::scalar(*self)
            }
        })*
    };
}

scalars! { bool u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64 }

/// All arguments of a launch: a tuple of up to sixteen, or a slice of [`Argument`] when they are
/// known only at run time.
pub trait KernelArguments {
    /// The arguments, in order.
    fn arguments(&self) -> Arguments<'_>;
}

impl KernelArguments for &[Argument<'_>] {
    fn arguments(&self) -> Arguments<'_> {
        self.iter().cloned().collect()
    }
}

impl KernelArguments for () {
    fn arguments(&self) -> Arguments<'_> {
        Arguments::default()
    }
}

macro_rules! tuples {
    (@of $($name:ident)*) => {
        #[allow(non_snake_case)] // Each type's name is also its value's.
        impl<$($name: AsArgument),*> KernelArguments for ($($name,)*) {
            fn arguments(&self) -> Arguments<'_> {
                let ($($name,)*) = self;
                let mut arguments = Arguments::default();
                $(arguments.push($name.as_argument());)*
                arguments
            }
        }
    };
    ($first:ident $($rest:ident)*) => {
        tuples! { @of $first $($rest)* }
        tuples! { $($rest)* }
    };
    () => {};
}

tuples! { A B C D E F G H I J K L M N O P }
