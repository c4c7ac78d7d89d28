//! Compiles a kernel of the language for a device, with argument types that are checked at compile
//! time.

use std::marker::PhantomData;
use std::panic::Location;

use half::{bf16, f16};
use smallvec::SmallVec;
use warpwright_arch::Capability;
use warpwright_arch::tensor_map::Requirement;
use warpwright_ir as ir;
use warpwright_lang::Kernel;
use warpwright_lang::element::Element;
use warpwright_lang::pointer::{In, Out};
use warpwright_lang::tensor_map;

use crate::arguments::{Argument, Arguments};
use crate::attributes::LaunchCounts;
use crate::buffer::{Buffer, Storable};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::launch::{Extents, Launch};
use crate::launch_check::StatedShape;
use crate::module::Function;
use crate::stream::Stream;
use crate::tensor_map::{MappedBuffer, TensorMap};
use crate::tensor_map_parameter;

/// The PTX of a kernel for a compute capability: verified, optimized and written.
///
/// # Errors
/// The kernel has mistakes, or needs a feature that the capability lacks. The error lists all
/// mistakes, each at the author's line.
pub fn ptx<Args>(kernel: &Kernel<Args>, capability: &'static Capability) -> Result<String> {
    ptx_of_ir(kernel.ir(), capability)
}

/// [`ptx`], compiled once for all kernels.
fn ptx_of_ir(kernel: &ir::Kernel, capability: &'static Capability) -> Result<String> {
    ir::verify(kernel, capability)
        .map_err(|mistakes| Error::Verify { kernel: kernel.name.clone(), mistakes })?;
    let mut optimized = kernel.clone();
    ir::optimize(&mut optimized);
    Ok(warpwright_ptx::write(&ir::Module::new(capability, vec![optimized])))
}

impl Device {
    /// Compiles a kernel for the device and loads it.
    ///
    /// # Errors
    /// As [`ptx`](crate::ptx) and [`load_ptx`](Self::load_ptx).
    pub fn compile<Args>(&self, kernel: &Kernel<Args>) -> Result<Compiled<Args>> {
        let function = self.compile_ir(kernel.ir())?;
        Ok(Compiled { function, stated: StatedShape::of(kernel.ir()), arguments: PhantomData })
    }

    /// The part of [`compile`](Self::compile) that does not depend on the argument types.
    fn compile_ir(&self, kernel: &ir::Kernel) -> Result<Function> {
        let ptx = ptx_of_ir(kernel, self.properties().capability)?;
        let function = self.load_ptx(&ptx)?.function(&kernel.name)?;
        Ok(function.described_by(kernel))
    }
}

/// A compiled kernel. Its launch takes what the Rust signature declares: a `&Buffer<T>` for each
/// `&Global<T>`, a `&mut Buffer<T>` for each `&mut Global<T>`, a `&TensorMap` for each
/// `&TensorMap`, a `&mut TensorMap` for each `&mut TensorMap`, and scalars and arrays of scalars by
/// value.
pub struct Compiled<Args> {
    function: Function,
    stated: StatedShape,
    arguments: PhantomData<fn(Args)>,
}

impl<Args> Compiled<Args> {
    /// The kernel without its argument types, for its attributes and occupancy.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// A launch of `grid` CTAs with the block size, cluster size and dynamic shared memory that the
    /// kernel states.
    pub fn shape(&self, grid: impl Into<Extents>) -> Launch {
        self.stated.launch(grid)
    }
}

/// The launch shape that [`Compiled::launch`] takes: a grid, or a [`Launch`] from
/// [`Compiled::shape`].
pub trait LaunchShape {
    /// The launch of `kernel` with this shape.
    fn for_kernel<Args>(self, kernel: &Compiled<Args>) -> Launch;
}

impl<T: Into<Extents>> LaunchShape for T {
    fn for_kernel<Args>(self, kernel: &Compiled<Args>) -> Launch {
        kernel.shape(self)
    }
}

impl LaunchShape for Launch {
    fn for_kernel<Args>(self, _: &Compiled<Args>) -> Launch {
        self
    }
}

impl<Args> Compiled<Args> {
    /// The tensor map for a parameter: a packed row-major tensor in `buffer`, with the boxes that
    /// the kernel's copies need. `extents` are given outermost axis first: (rows, columns). A kernel
    /// writes through the map of a `&mut` buffer only.
    ///
    /// ```
    /// use warpwright_lang::tensor::TmaTile;
    /// use warpwright_lang::tensor_map::TensorMap;
    /// use warpwright_lang::{kernel, launch, tma};
    /// use warpwright_layout::atom::Major;
    /// use warpwright_runtime::Device;
    ///
    /// #[kernel]
    /// fn prefetch(a: &TensorMap) {
    ///     launch::threads(1);
    ///     a.boxes(TmaTile::new::<f32>((64, 32), Major::K));
    ///     tma::prefetch(*a, [0, 0]);
    /// }
    ///
    /// let device = Device::named("emu:h200")?;
    /// let kernel = device.compile(&prefetch()?)?;
    /// let matrix = device.buffer_from(&vec![1.0f32; 256 * 512])?;
    /// let a = kernel.tensor_map("a", &matrix, &[256, 512])?;
    /// kernel.launch(&device.stream()?, 1, (&a,))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The kernel states no boxes of a tensor map `name`, the buffer has elements of another type,
    /// or as [`TensorMap::new`].
    pub fn tensor_map<T: Storable>(
        &self,
        name: &str,
        buffer: impl MappedBuffer<T>,
        extents: &[u64],
    ) -> Result<TensorMap> {
        let boxes = self.boxes(name)?;
        let axes = boxes.element_strides.len();
        let refused = |reason| Error::TensorMapOf {
            kernel: self.function.name().to_owned(),
            parameter: name.to_owned(),
            reason,
        };
        if extents.len() != axes {
            let given = extents.len();
            return Err(refused(format!(
                "{given} extents are given, and the kernel's boxes have {axes} axes; give {axes} extents, the outermost first"
            )));
        }
        TensorMap::of_boxes(buffer, extents, boxes).map_err(|error| refused(error.to_string()))
    }

    /// What the kernel's copies need of the tensor map for a parameter, for a map of another
    /// description than [`tensor_map`](Self::tensor_map)'s. Of an array of tensor maps, the first
    /// that the kernel states.
    ///
    /// # Errors
    /// The kernel states no boxes of a tensor map `name`.
    pub fn boxes(&self, name: &str) -> Result<&Requirement> {
        tensor_map_parameter::boxes(self.function.name(), self.function.requirements().tensor_maps(), name)
    }
}

impl<Args: HostParameter> Compiled<Args> {
    /// Starts the kernel on a stream, like [`Function::launch`].
    ///
    /// The shape is a grid, or a [`Launch`]: `kernel.shape(grid).overlapping()`. The kernel states
    /// its block size with `launch::threads` or `roles`. If it does not, launch
    /// `kernel.shape(grid).block(threads)`.
    ///
    /// # Errors
    /// A tensor map is not what the kernel's copies need, the launch does not fit the kernel or the
    /// device, a buffer is half-written or belongs to another device, or the kernel failed.
    #[track_caller]
    pub fn launch(
        &self,
        stream: &Stream,
        shape: impl LaunchShape,
        arguments: Args::Passed<'_>,
    ) -> Result<LaunchCounts> {
        let launch = shape.for_kernel(self);
        self.stated.check(self.function.name(), &launch)?;
        let mut appended = Arguments::default();
        Args::append(arguments, &mut appended);
        self.function.launch_with(stream, launch, &appended, Location::caller())
    }
}

impl<Args> Clone for Compiled<Args> {
    fn clone(&self) -> Self {
        Self { function: self.function.clone(), arguments: PhantomData, ..*self }
    }
}

impl<Args> std::fmt::Debug for Compiled<Args> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Compiled({})", self.function.name())
    }
}

/// The host type of one parameter of a kernel, or of all its parameters.
pub trait HostParameter {
    /// The type that a launch passes.
    type Passed<'a>;
    /// Appends the arguments for this parameter; a struct has one per field.
    fn append<'a>(passed: Self::Passed<'a>, arguments: &mut Arguments<'a>);
}

impl<T: Storable> HostParameter for In<T> {
    type Passed<'a> = &'a Buffer<T>;

    fn append<'a>(passed: &'a Buffer<T>, arguments: &mut Arguments<'a>) {
        arguments.push(Argument::buffer(passed).read_only());
    }
}

impl<T: Storable> HostParameter for Out<T> {
    type Passed<'a> = &'a mut Buffer<T>;

    fn append<'a>(passed: &'a mut Buffer<T>, arguments: &mut Arguments<'a>) {
        arguments.push(Argument::buffer(passed));
    }
}

macro_rules! scalars {
    ($($ty:ty)*) => {
        $(impl HostParameter for $ty {
            type Passed<'a> = $ty;

            fn append(passed: $ty, arguments: &mut Arguments<'_>) {
                arguments.push(Argument::scalar(passed));
            }
        })*
    };
}

scalars! { bool u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64 }

impl<T: Element, const N: usize> HostParameter for [T; N] {
    type Passed<'a> = [T; N];

    fn append(passed: [T; N], arguments: &mut Arguments<'_>) {
        let width = T::BYTES as usize;
        let mut bytes = SmallVec::<[u8; 16]>::from_elem(0, N * width);
        for (element, value) in bytes.chunks_exact_mut(width).zip(passed) {
            element.copy_from_slice(&value.bits().to_le_bytes()[..width]);
        }
        arguments.push(Argument::bytes(bytes));
    }
}

impl HostParameter for tensor_map::TensorMap {
    type Passed<'a> = &'a TensorMap;

    fn append<'a>(passed: &'a TensorMap, arguments: &mut Arguments<'a>) {
        arguments.push(Argument::tensor_map(passed).read_only());
    }
}

impl HostParameter for tensor_map::OutTensorMap {
    type Passed<'a> = &'a mut TensorMap;

    fn append<'a>(passed: &'a mut TensorMap, arguments: &mut Arguments<'a>) {
        let argument = Argument::tensor_map(passed);
        // A kernel may take a map that it does not use.
        arguments.push(if passed.is_writable() { argument } else { argument.read_only() });
    }
}

impl<const N: usize> HostParameter for tensor_map::TensorMaps<N> {
    type Passed<'a> = [&'a TensorMap; N];

    fn append<'a>(passed: [&'a TensorMap; N], arguments: &mut Arguments<'a>) {
        arguments.push(Argument::tensor_maps(&passed).read_only());
    }
}

impl<const N: usize> HostParameter for tensor_map::OutTensorMaps<N> {
    type Passed<'a> = [&'a mut TensorMap; N];

    fn append<'a>(passed: [&'a mut TensorMap; N], arguments: &mut Arguments<'a>) {
        arguments.push(Argument::tensor_maps(&passed.map(|map| &*map)));
    }
}

/// The host types of all parameters of a kernel, or of all fields of a struct: a tuple.
impl HostParameter for () {
    type Passed<'a> = ();

    fn append((): (), _: &mut Arguments<'_>) {}
}

macro_rules! tuples {
    (@of $($name:ident)*) => {
        #[allow(non_snake_case)] // Each type's name is also its value's.
        impl<$($name: HostParameter),*> HostParameter for ($($name,)*) {
            type Passed<'a> = ($($name::Passed<'a>,)*);

            fn append<'a>(passed: Self::Passed<'a>, arguments: &mut Arguments<'a>) {
                let ($($name,)*) = passed;
                $($name::append($name, arguments);)*
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
