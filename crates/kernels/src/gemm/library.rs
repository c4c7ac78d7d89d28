//! [`Gemm`](super::Gemm) for the command line: inputs, the f64 reference, and the tolerance it is held to.

use std::cell::RefCell;
use std::rc::Rc;

use warpwright::prelude::*;
use warpwright::runtime::cublas::{self, CublasProduct, ProductShape};
use warpwright::runtime::{self, Buffer, Device, LaunchCounts, Storable, Stream};

use warpwright::arch::Capability;

use super::hopper::{self, HopperGemm};
use super::{Gemm, GemmInput, GemmOutput, Order, THREADS, WarpgroupInput, plan};
use crate::prepared::{Ready, ptx};
use crate::reference::{Random, Rounded, Strided, product};
use crate::registry::{self, LibraryKernel, OptionSpec, Options, Prepared, Result, Verified, Work, compare};

/// The tensor-core GEMM for the command line.
pub(crate) struct Library;

/// What the options ask for.
struct Problem {
    m: u32,
    n: u32,
    k: u32,
    a: Order,
    b: Order,
    seed: u64,
    instruction: &'static str,
}

/// What launches a kernel once.
type Launcher = Box<dyn FnMut(&Stream) -> Result<LaunchCounts>>;

/// SMs that PTX without a device is planned for: an H200's.
const PLANNED_SMS: u32 = 132;

impl Problem {
    fn of(options: &Options) -> Result<Self> {
        let extent =
            |name| u32::try_from(options.number(name)).map_err(|_| format!("--{name} must be below 2^32"));
        let order = |name| match options.choice(name) {
            "row" => Order::RowMajor,
            _ => Order::ColumnMajor,
        };
        let (m, n, k) = (extent("m")?, extent("n")?, extent("k")?);
        Ok(Self {
            m,
            n,
            k,
            a: order("a"),
            b: order("b"),
            seed: options.number("seed"),
            instruction: options.choice("instruction"),
        })
    }

    fn kernel<T: GemmInput, C: GemmOutput>(&self) -> Gemm<T, C> {
        Gemm::for_shape(self.a, self.b, (self.m, self.n, self.k))
    }

    fn extents(&self) -> (usize, usize, usize) {
        (self.m as usize, self.n as usize, self.k as usize)
    }

    /// A and B, the same for the same seed.
    fn factors<T: Rounded>(&self) -> (Vec<T>, Vec<T>) {
        let (m, n, k) = self.extents();
        let mut random = Random::new(self.seed);
        let mut factor =
            |count: usize| -> Vec<T> { random.normal(count).into_iter().map(T::round).collect() };
        (factor(m * k), factor(k * n))
    }

    /// What any way to do it must do: each element of A, B and C moved once.
    fn work<T, C>(&self) -> Work {
        let (m, n, k) = self.extents();
        let elements = |count: usize, bytes: usize| (count * bytes) as f64;
        let bytes = elements(m * k + k * n, size_of::<T>()) + elements(m * n, size_of::<C>());
        Work { operations: 2.0 * m as f64 * n as f64 * k as f64, bytes }
    }

    /// Whether warpgroups multiply: on Hopper, where TMA can read A and B, unless `mma.sync` was asked for.
    fn takes_warpgroups<T: Element>(&self, capability: &Capability) -> Result<bool> {
        let contiguous = |order, row_major, column_major| match order {
            Order::RowMajor => row_major,
            Order::ColumnMajor => column_major,
        };
        let rows = [contiguous(self.a, self.k, self.m), contiguous(self.b, self.n, self.k)];
        let reads = rows.iter().all(|extent| (u64::from(*extent) * u64::from(T::BYTES)).is_multiple_of(16));
        let hopper = capability.target == "sm_90a";
        match self.instruction {
            "wgmma" if !hopper => Err(format!("{} has no wgmma", capability.target).into()),
            "wgmma" if !reads => Err(
                "TMA reads rows of whole 16 bytes: the contiguous extents of A and B must be multiples of 8"
                    .into(),
            ),
            "mma" => Ok(false),
            _ => Ok(hopper && reads),
        }
    }

    /// The cheapest Hopper kernel, and the CTAs of its launch.
    fn planned<T: WarpgroupInput, C>(&self, sms: u32) -> (HopperGemm<T, C>, u32) {
        let cost = plan::costs((self.m, self.n, self.k), sms)[0];
        let group = cost.configuration.cluster.0 * cost.configuration.cluster.1;
        (plan::kernel(cost.configuration, self.a, self.b), cost.tiles.min(sms / group * group))
    }

    /// Whether C can be stored by TMA.
    fn stores_boxes<C: Element>(&self) -> bool {
        C::BYTES == 2 && self.n.is_multiple_of(8)
    }

    fn text<T: GemmInput + WarpgroupInput, C: GemmOutput>(&self, target: &str) -> Result<String> {
        let capability = Capability::for_target(target)
            .ok_or_else(|| format!("there is no architecture {target} here"))?;
        if !self.takes_warpgroups::<T>(capability)? {
            return ptx(self.kernel::<T, C>().run()?, target);
        }
        let (kernel, _) = self.planned::<T, C>(PLANNED_SMS);
        if self.stores_boxes::<C>() { ptx(kernel.run()?, target) } else { ptx(kernel.run_any()?, target) }
    }

    /// The launch of the cheapest Hopper kernel.
    fn warpgroup_launch<T, C>(
        &self,
        device: &Device,
        a: &Buffer<T>,
        b: &Buffer<T>,
        c: Rc<Buffer<C>>,
    ) -> Result<Launcher>
    where
        T: WarpgroupInput + Storable,
        C: GemmOutput + Storable,
    {
        let (m, n, k) = (self.m, self.n, self.k);
        let (kernel, ctas) = self.planned::<T, C>(device.properties().sm_count);
        let extents = |mn: u32, k: u32| (u64::from(mn), u64::from(k));
        let a = runtime::TensorMap::of_tile(a, extents(m, k), &kernel.a_tile()?)?;
        let b = runtime::TensorMap::of_tile(b, extents(n, k), &kernel.b_tile()?)?;
        if self.stores_boxes::<C>() {
            let compiled = device.compile(&kernel.run()?)?;
            let c = runtime::TensorMap::of_tile(&c, extents(m, n), &kernel.c_tile()?)?;
            return Ok(Box::new(move |stream| {
                Ok(compiled.launch(stream, ctas, hopper::THREADS, (&a, &b, &c, m, n, k))?)
            }));
        }
        let compiled = device.compile(&kernel.run_any()?)?;
        let shape = compiled.shape(ctas, hopper::THREADS);
        Ok(Box::new(move |stream| Ok(compiled.function().launch(stream, shape, (&a, &b, &*c, m, n, k))?)))
    }

    fn prepare<T, C>(&self, device: &Device) -> Result<Box<dyn Prepared>>
    where
        T: GemmInput + WarpgroupInput + Storable + Rounded,
        C: GemmOutput + Storable + Rounded,
    {
        let (m, n, k) = self.extents();
        let (a, b) = self.factors::<T>();
        let (a_there, b_there) = (device.buffer_from(&a)?, device.buffer_from(&b)?);
        let c_there = Rc::new(device.uninitialized::<C>(m * n)?);
        if self.takes_warpgroups::<T>(device.properties().capability)? {
            let launch = self.warpgroup_launch(device, &a_there, &b_there, Rc::clone(&c_there))?;
            let orders = (self.a, self.b);
            return Ok(Box::new(Ready {
                launch,
                verify: move || verify((m, n, k), orders, &a, &b, &c_there),
                work: self.work::<T, C>(),
            }));
        }
        let kernel = self.kernel::<T, C>();
        let compiled = device.compile(&kernel.run()?)?;
        let launch = compiled.shape(kernel.grid(self.m, self.n), THREADS);
        let (extents, result) = ((self.m, self.n, self.k), Rc::clone(&c_there));
        let orders = (self.a, self.b);
        Ok(Box::new(Ready {
            launch: move |stream: &_| {
                let (m, n, k) = extents;
                Ok(compiled.function().launch(stream, launch, (&a_there, &b_there, &*c_there, m, n, k))?)
            },
            verify: move || verify((m, n, k), orders, &a, &b, &result),
            work: self.work::<T, C>(),
        }))
    }

    /// The same product by cuBLAS, on the same factors, held to the same tolerance.
    fn cublas<T, C>(&self, device: &Device) -> Result<Box<dyn Prepared>>
    where
        T: Storable + Rounded,
        C: Storable + Rounded,
    {
        let (m, n, k) = self.extents();
        let (a, b) = self.factors::<T>();
        let (a_there, b_there) = (device.buffer_from(&a)?, device.buffer_from(&b)?);
        let c_there = Rc::new(RefCell::new(device.uninitialized::<C>(m * n)?));
        let order = |order: Order| match order {
            Order::RowMajor => cublas::Order::RowMajor,
            Order::ColumnMajor => cublas::Order::ColumnMajor,
        };
        let shape = ProductShape { m, n, k, a: order(self.a), b: order(self.b) };
        let stream = device.stream()?;
        let product = CublasProduct::new(&stream, shape, &a_there, &b_there, &mut c_there.borrow_mut())?;
        let (orders, result) = ((self.a, self.b), Rc::clone(&c_there));
        Ok(Box::new(Ready {
            launch: move |stream: &_| {
                product.launch(stream, &a_there, &b_there, &mut c_there.borrow_mut())?;
                Ok(LaunchCounts::default())
            },
            verify: move || verify((m, n, k), orders, &a, &b, &result.borrow()),
            work: self.work::<T, C>(),
        }))
    }
}

/// Calls a method of a problem with the types that the options name.
macro_rules! with_types {
    ($options:expr, $problem:ident.$method:ident($argument:expr)) => {
        match ($options.choice("input"), $options.choice("output")) {
            ("bf16", "f32") => $problem.$method::<bf16, f32>($argument),
            ("bf16", "bf16") => $problem.$method::<bf16, bf16>($argument),
            ("bf16", _) => $problem.$method::<bf16, f16>($argument),
            (_, "f32") => $problem.$method::<f16, f32>($argument),
            (_, "bf16") => $problem.$method::<f16, bf16>($argument),
            _ => $problem.$method::<f16, f16>($argument),
        }
    };
}

/// A factor of that order.
fn strided(values: &[f64], order: Order, rows: usize, columns: usize) -> Strided<'_> {
    match order {
        Order::RowMajor => Strided { values, row_stride: columns, column_stride: 1 },
        Order::ColumnMajor => Strided { values, row_stride: 1, column_stride: rows },
    }
}

/// Holds every element to the f64 product: one rounding to C's type, and an f32 accumulation's error, which grows with the
/// sum of the magnitudes. The hardware truncates inside an MMA, so each of its k/16 steps may lose two units.
fn verify<T: Rounded + Storable, C: Rounded + Storable>(
    (m, n, k): (usize, usize, usize),
    (a_order, b_order): (Order, Order),
    a: &[T],
    b: &[T],
    c: &Buffer<C>,
) -> Result<Verified> {
    let found = c.to_vec()?;
    let exact = |values: &[T]| -> Vec<f64> { values.iter().map(|value| value.exact()).collect() };
    let (a, b) = (exact(a), exact(b));
    let expected = product((m, n, k), strided(&a, a_order, m, k), strided(&b, b_order, k, n));
    let magnitudes = |values: Vec<f64>| -> Vec<f64> { values.into_iter().map(f64::abs).collect() };
    let (a, b) = (magnitudes(a), magnitudes(b));
    let magnitudes = product((m, n, k), strided(&a, a_order, m, k), strided(&b, b_order, k, n));
    let accumulation = f32::ROUNDING * (2.0 * (k as f64 / 16.0).ceil() + 2.0);
    let elements =
        found.iter().zip(expected.iter().zip(&magnitudes)).map(|(found, (expected, magnitude))| {
            let tolerance =
                C::ROUNDING * expected.abs() * 1.01 + accumulation * magnitude + f64::MIN_POSITIVE;
            registry::Element { found: found.exact(), expected: *expected, tolerance }
        });
    Ok(compare(elements, |index| vec![index as usize / n, index as usize % n])?)
}

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::extent("m", 512, "rows of A and C"),
    OptionSpec::extent("n", 512, "columns of B and C"),
    OptionSpec::extent("k", 256, "columns of A and rows of B"),
    OptionSpec::choice("a", &["row", "column"], "which extent of A is contiguous: its rows or its columns"),
    OptionSpec::choice("b", &["column", "row"], "which extent of B is contiguous"),
    OptionSpec::choice("input", &["bf16", "f16"], "type of A and B"),
    OptionSpec::choice("output", &["f32", "bf16", "f16"], "type of C"),
    OptionSpec::choice("instruction", &["best", "mma", "wgmma"], "which tensor-core instruction multiplies"),
    OptionSpec::number("seed", 1, "of the inputs"),
];

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "gemm"
    }

    fn summary(&self) -> &'static str {
        "C = A·B on tensor cores: any shape, either order of A and B, bf16 or f16"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        let problem = Problem::of(options)?;
        with_types!(options, problem.text(target))
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        let problem = Problem::of(options)?;
        with_types!(options, problem.prepare(device))
    }

    fn rival(&self, name: &str, device: &Device, options: &Options) -> Option<Result<Box<dyn Prepared>>> {
        let prepare = || {
            let problem = Problem::of(options)?;
            with_types!(options, problem.cublas(device))
        };
        (name == "cublas").then(prepare)
    }
}
