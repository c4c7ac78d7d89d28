//! An operation as a row of the table, and a call of it.

use std::ffi::c_void;
use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;

use warpwright::runtime::{Buffer, Device, Storable, Stream};
use warpwright_kernels::operations::Operations;

use crate::devices::{self, Opened};
use crate::error::Error;
use crate::tensor::{ElementType, HostElement, Tensor};

/// Kinds of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A tensor that is read.
    Input,
    /// A tensor that is read, or none.
    OptionalInput,
    /// A tensor that is written.
    Output,
    /// A tensor that is written, or none.
    OptionalOutput,
    /// `int64_t`.
    Integer,
    /// `double`.
    Float,
}

/// A parameter of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
}

/// An argument of a call.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'c> {
    /// No tensor.
    None,
    /// A tensor.
    Tensor(&'c Tensor),
    /// An integer.
    Integer(i64),
    /// A number.
    Float(f64),
}

/// An operation: a row of [`OPERATIONS`](crate::OPERATIONS).
#[derive(Debug)]
pub struct Operation {
    /// Its name.
    pub name: &'static str,
    /// What it computes, shapes and types included.
    pub documentation: &'static str,
    /// Its parameters in their order.
    pub parameters: &'static [Parameter],
    pub(crate) run: fn(&Call<'_>) -> Result<(), Error>,
}

impl Operation {
    /// Enqueues the operation in a stream: of tensors of a GPU in `stream`, a `cudaStream_t`, whose default is null. Of
    /// tensors of the host, it is done when the call returns.
    ///
    /// # Errors
    /// An argument is missing, or nothing that the operation takes; tensors are of different devices; an output overlaps
    /// another tensor; or the device refuses.
    ///
    /// # Safety
    /// The tensors describe allocated memory, which stays allocated until the work is complete, and which other work
    /// accesses only as streams and events order it. `stream` is a stream of the tensors' GPU.
    pub unsafe fn call(&'static self, arguments: &[Argument<'_>], stream: *mut c_void) -> Result<(), Error> {
        self.expect_kinds(arguments)?;
        let opened = self.opened(arguments)?;
        let ranges: Vec<_> = self
            .tensors(arguments)
            .filter_map(|(parameter, tensor)| Some((parameter, tensor.range()?)))
            .collect();
        self.expect_apart(&ranges)?;
        // SAFETY: the caller passes a stream of the device.
        let stream = unsafe { opened.stream(stream) }?;
        // SAFETY: the caller passes allocated memory.
        let _spans = unsafe { spans(ranges, opened.operations.device()) }?;
        let operations = opened.operations_in(&stream)?;
        (self.run)(&Call { operation: self, arguments, operations, stream })
    }

    fn refused(&self, reason: String) -> Error {
        Error::Arguments { operation: self.name, reason }
    }

    fn expect_kinds(&'static self, arguments: &[Argument<'_>]) -> Result<(), Error> {
        if arguments.len() != self.parameters.len() {
            let names: Vec<_> = self.parameters.iter().map(|parameter| parameter.name).collect();
            return Err(self.refused(format!(
                "it has {} arguments, and takes {}: {}",
                arguments.len(),
                names.len(),
                names.join(", ")
            )));
        }
        for (parameter, argument) in self.parameters.iter().zip(arguments) {
            let expected = match (parameter.kind, argument) {
                (Kind::Input | Kind::Output, Argument::Tensor(_))
                | (Kind::OptionalInput | Kind::OptionalOutput, Argument::Tensor(_) | Argument::None)
                | (Kind::Integer, Argument::Integer(_))
                | (Kind::Float, Argument::Float(_)) => continue,
                (Kind::Input | Kind::Output, _) => "is missing; pass a tensor",
                (Kind::OptionalInput | Kind::OptionalOutput, _) => "takes a tensor or none",
                (Kind::Integer, _) => "takes an integer",
                (Kind::Float, _) => "takes a number",
            };
            let (operation, parameter) = (self.name, parameter.name);
            return Err(Error::Argument { operation, parameter, reason: expected.to_owned() });
        }
        Ok(())
    }

    /// The device of all tensors.
    fn opened(&'static self, arguments: &[Argument<'_>]) -> Result<Arc<Opened>, Error> {
        let mut found = None;
        for (parameter, tensor) in self.tensors(arguments) {
            let device = tensor.device().map_err(|kind| Error::Argument {
                operation: self.name,
                parameter: parameter.name,
                reason: format!(
                    "is on a device of DLPack's kind {kind}; pass a tensor of a GPU or of the host"
                ),
            })?;
            match found {
                None => found = Some((device, parameter.name)),
                Some((first, _)) if first == device => {}
                Some((_, name)) => {
                    return Err(self.refused(format!(
                        "{name} and {} are on different devices; move one to the device of the other",
                        parameter.name
                    )));
                }
            }
        }
        let (device, _) =
            found.ok_or_else(|| self.refused("no tensor says on which device it runs".to_owned()))?;
        Ok(devices::of(device)?)
    }

    fn tensors<'c>(
        &'static self,
        arguments: &'c [Argument<'c>],
    ) -> impl Iterator<Item = (&'static Parameter, &'c Tensor)> {
        self.parameters.iter().zip(arguments).filter_map(|(parameter, argument)| match argument {
            Argument::Tensor(tensor) => Some((parameter, *tensor)),
            _ => None,
        })
    }

    /// Refuses an output that shares bytes with another tensor: kernels read while they write.
    fn expect_apart(&'static self, ranges: &[(&Parameter, Range<u64>)]) -> Result<(), Error> {
        for (at, (output, written)) in ranges.iter().enumerate() {
            if !matches!(output.kind, Kind::Output | Kind::OptionalOutput) {
                continue;
            }
            for (other_at, (other, range)) in ranges.iter().enumerate() {
                if other_at != at && range.start < written.end && written.start < range.end {
                    return Err(self.refused(format!(
                        "{} shares memory with {}; pass a tensor of its own",
                        output.name, other.name
                    )));
                }
            }
        }
        Ok(())
    }
}

/// The memory of the tensors, where the emulator uses it: tensors that share bytes, such as the parts of a fused
/// projection, are views of one piece.
///
/// # Safety
/// The memory is allocated until the buffers are dropped.
unsafe fn spans(tensors: Vec<(&Parameter, Range<u64>)>, device: &Device) -> Result<Vec<Buffer<u8>>, Error> {
    if !device.properties().is_emulated {
        return Ok(Vec::new());
    }
    let ranges = tensors.into_iter().map(|(_, range)| range);
    let mut ranges: Vec<_> = ranges.filter(|range| !range.is_empty()).collect();
    ranges.sort_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let shares = next.start < last.end;
        last.end = if shares { last.end.max(next.end) } else { last.end };
        shares
    });
    // SAFETY: the caller passes allocated memory.
    let adopt = |range: Range<u64>| unsafe {
        Buffer::from_raw_parts(device, range.start, (range.end - range.start) as usize)
    };
    Ok(ranges.into_iter().map(adopt).collect::<Result<_, _>>()?)
}

/// A call with its device and stream.
pub(crate) struct Call<'c> {
    operation: &'static Operation,
    arguments: &'c [Argument<'c>],
    operations: Arc<Operations>,
    stream: Arc<Stream>,
}

impl<'c> Call<'c> {
    pub(crate) fn operations(&self) -> &Operations {
        &self.operations
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// An error of the whole call.
    pub(crate) fn refused(&self, reason: impl Into<String>) -> Error {
        self.operation.refused(reason.into())
    }

    fn argument(&self, name: &str) -> (&'static Parameter, Argument<'c>) {
        let mut all = self.operation.parameters.iter().zip(self.arguments);
        let (parameter, argument) =
            all.find(|(parameter, _)| parameter.name == name).expect("a parameter of the operation");
        (parameter, *argument)
    }

    pub(crate) fn optional(&self, name: &str) -> Option<Given<'_>> {
        let (parameter, argument) = self.argument(name);
        match argument {
            Argument::Tensor(tensor) => Some(Given { call: self, parameter: parameter.name, tensor }),
            _ => None,
        }
    }

    pub(crate) fn tensor(&self, name: &str) -> Given<'_> {
        self.optional(name).expect("a call has its tensors")
    }

    pub(crate) fn integer(&self, name: &str) -> i64 {
        match self.argument(name).1 {
            Argument::Integer(integer) => integer,
            _ => unreachable!("a call has its integers"),
        }
    }

    pub(crate) fn float(&self, name: &str) -> f32 {
        match self.argument(name).1 {
            Argument::Float(number) => number as f32,
            _ => unreachable!("a call has its numbers"),
        }
    }

    /// An integer that is one of the indices of `values`.
    pub(crate) fn one_of<T: Copy>(&self, name: &'static str, values: &[T]) -> Result<T, Error> {
        let integer = self.integer(name);
        let value = usize::try_from(integer).ok().and_then(|index| values.get(index).copied());
        value.ok_or_else(|| Error::Argument {
            operation: self.operation.name,
            parameter: name,
            reason: format!("is {integer}; it goes from 0 to {}", values.len() - 1),
        })
    }
}

/// A tensor of a call.
#[derive(Clone, Copy)]
pub(crate) struct Given<'c> {
    call: &'c Call<'c>,
    pub(crate) parameter: &'static str,
    pub(crate) tensor: &'c Tensor,
}

impl Given<'_> {
    pub(crate) fn refused(&self, reason: impl Into<String>) -> Error {
        let (operation, parameter) = (self.call.operation.name, self.parameter);
        Error::Argument { operation, parameter, reason: reason.into() }
    }

    /// The element type.
    pub(crate) fn element(&self) -> Result<ElementType, Error> {
        self.tensor.element().map_err(|other| {
            self.refused(format!(
                "has elements of DLPack's code {}, {} bits and {} lanes, which no operation takes",
                other.code, other.bits, other.lanes
            ))
        })
    }

    /// Refuses the element type: `types` are the ones that the operation takes.
    pub(crate) fn not_among(&self, types: impl Display) -> Error {
        match self.element() {
            Ok(element) => self.refused(format!("has elements of {element}; pass {types}")),
            Err(error) => error,
        }
    }

    /// The extents, of as many axes as the operation takes.
    pub(crate) fn extents<const AXES: usize>(&self) -> Result<[u32; AXES], Error> {
        let extents = self.tensor.extents();
        let extents: &[i64; AXES] = extents.try_into().map_err(|_| {
            self.refused(format!("has {} axes; pass a tensor with {AXES}", self.tensor.extents().len()))
        })?;
        let mut fits = [0; AXES];
        for (to, extent) in fits.iter_mut().zip(extents) {
            *to = u32::try_from(*extent).map_err(|_| {
                self.refused(format!("has an axis of {extent} elements; it has 2^32 - 1 at most"))
            })?;
        }
        Ok(fits)
    }

    /// Refuses other extents.
    pub(crate) fn expect_extents<const AXES: usize>(&self, expected: [u32; AXES]) -> Result<(), Error> {
        let extents = self.extents::<AXES>()?;
        if extents == expected {
            return Ok(());
        }
        Err(self.refused(format!("has the shape {extents:?}; pass {expected:?}")))
    }

    /// Rows and columns: the last axis, and all before it.
    pub(crate) fn rows_and_columns(&self) -> Result<(u32, u32), Error> {
        let too_large = || self.refused("has more than 2^32 - 1 rows or columns");
        let [rows @ .., columns] = self.tensor.extents() else {
            return Err(self.refused("has no axis; pass a tensor of rows"));
        };
        let rows = rows.iter().try_fold(1i64, |product, extent| product.checked_mul(*extent));
        let rows = rows.and_then(|rows| u32::try_from(rows).ok()).ok_or_else(too_large)?;
        Ok((rows, u32::try_from(*columns).map_err(|_| too_large())?))
    }

    /// Refuses gaps between elements.
    pub(crate) fn expect_contiguous(&self) -> Result<(), Error> {
        if self.tensor.is_contiguous() {
            return Ok(());
        }
        let (strides, shape) = (self.tensor.strides(), self.tensor.extents());
        Err(self.refused(format!(
            "has the strides {strides:?} for the shape {shape:?}; pass a contiguous tensor"
        )))
    }

    /// The memory of a tensor without gaps.
    pub(crate) fn buffer<T: Storable + HostElement>(&self) -> Result<Buffer<T>, Error> {
        self.expect_contiguous()?;
        self.memory()
    }

    /// The memory of a tensor, with the gaps between its elements.
    pub(crate) fn memory<T: Storable + HostElement>(&self) -> Result<Buffer<T>, Error> {
        if self.element()? != T::ELEMENT {
            return Err(self.not_among(T::ELEMENT));
        }
        let range = self
            .tensor
            .range()
            .ok_or_else(|| self.refused("has a negative stride, or exceeds the address space"))?;
        let length = ((range.end - range.start) / self.tensor.element_bytes()) as usize;
        if length == 0 {
            return Ok(self.call.operations().device().uninitialized(0)?);
        }
        if !range.start.is_multiple_of(ALIGNMENT) {
            return Err(self.refused(format!(
                "begins at the address {:#x}; pass a tensor that begins at a multiple of {ALIGNMENT} bytes",
                range.start
            )));
        }
        // SAFETY: the caller of the operation passes memory that is allocated until the work is complete.
        Ok(unsafe { Buffer::from_raw_parts(self.call.operations().device(), range.start, length) }?)
    }
}

/// Kernels read 16 bytes at a time.
const ALIGNMENT: u64 = 16;
