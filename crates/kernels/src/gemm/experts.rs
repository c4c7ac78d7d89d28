//! `operations.multiply_experts(&stream, &experts, &a, &b, &mut c)`: rows of A, each group of them times a B of its own, in one launch.
//!
//! ```text
//! a mixture of experts:      offsets   A (rows, k)      B (experts, n, k)        C (rows, n)
//!                               0      +-------+        +---+                    +-------+
//!                                      | ..... |   ·    | 0 |          ->        | ..... |
//!                               5      +-------+        +---+                    +-------+
//!                               5                       | 1 |   no rows: no tiles
//!                                      | ..... |        +---+
//!                                      | ..... |   ·    | 2 |          ->
//!                              12      +-------+        +---+
//! ```
//!
//! The offsets lie on the device, where a router wrote them; the host need not know them. A tile that reaches past its group's last row loads the next
//! group's too, and stores only its own.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::batched::Batch;
use super::finish::FusedEpilogue;
use super::kinds::Groups;
use super::linear::Linear;
use super::multiply::{Factor, Operands, Product, Way, has_warpgroups, no_warpgroups, refused, ways};
use super::ready::Planned;
use super::warps::Warps;
use super::{GemmOutput, Order, WarpgroupInput};
use crate::operations::{Operations, Result, expect_length};

/// Groups of rows, each times a matrix of its own.
///
/// ```
/// use warpwright::prelude::*;
/// use warpwright::runtime::Device;
/// use warpwright_kernels::gemm::experts::Experts;
/// use warpwright_kernels::operations::Operations;
///
/// let device = Device::named("emu:h200")?;
/// let (operations, stream) = (Operations::new(&device), device.stream()?);
/// // Rows 0 to 4 go to expert 0, none to expert 1, rows 5 to 11 to expert 2.
/// let offsets = device.buffer_from(&[0u32, 5, 5, 12])?;
/// let a = device.buffer_from(&[bf16::ONE; 12 * 16])?;
/// let b: Vec<_> = [1.0, 2.0, 3.0].iter().flat_map(|&value| [bf16::from_f32(value); 24 * 16]).collect();
/// let b = device.buffer_from(&b)?;
/// let mut c = device.uninitialized::<f32>(12 * 24)?;
/// operations.multiply_experts(&stream, &Experts::new(&offsets, 24, 16), &a, &b, &mut c)?;
/// let c: Vec<f32> = c.to_vec()?.chunks(24).map(|row| row[0]).collect();
/// assert_eq!(c, [[16.0; 5].as_slice(), &[48.0; 7]].concat());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Experts<'a> {
    /// The first row of each group, and behind them the number of all rows: they never go down. They may be what a kernel before writes.
    pub offsets: &'a Buffer<u32>,
    /// Columns of each B, and of C.
    pub n: u32,
    /// Columns of A, rows of each B.
    pub k: u32,
    /// How each B lies.
    pub b: Order,
}

/// Groups that a kernel has room for.
const MOST_GROUPS: u32 = 512;

impl<'a> Experts<'a> {
    /// A (rows, k) in groups, each times a column-major B (k, n): (n, k), row-major, as layers keep their weights.
    pub fn new(offsets: &'a Buffer<u32>, n: u32, k: u32) -> Self {
        Self { offsets, n, k, b: Order::ColumnMajor }
    }

    /// How many groups there are, known to the host.
    pub(super) fn count(&self) -> u32 {
        self.offsets.len().saturating_sub(1) as u32
    }

    /// Rows of A.
    pub(super) fn rows<T: Storable>(&self, a: &Buffer<T>) -> u32 {
        (a.len() / self.k as usize) as u32
    }

    /// All rows times one B.
    pub(super) fn product(&self, rows: u32) -> Product {
        Product { m: rows, n: self.n, k: self.k, a: Order::RowMajor, b: self.b }
    }

    /// All rows, and the matrices that they are multiplied by.
    pub(super) fn batch(&self, rows: u32) -> Batch {
        groups(self.product(rows), self.count())
    }

    /// What is computed of so many rows in a way.
    pub(super) fn planned<W>(&self, rows: u32, way: W) -> Planned<W, Groups> {
        planned(self.batch(rows), way)
    }

    /// What it is like on average, by which the way is chosen: groups of equal size.
    pub(super) fn average(&self, rows: u32) -> Batch {
        let groups = self.groups_of(rows);
        Batch::new(self.product(rows.div_ceil(groups)), groups)
    }

    /// Groups of so many rows at most that have any.
    pub(super) fn groups_of(&self, rows: u32) -> u32 {
        self.count().min(rows).max(1)
    }

    /// Refuses what no kernel takes; how many rows there are.
    pub(super) fn check<A: Storable, B: Storable, C: Storable>(
        &self,
        linear: &Linear<'_>,
        (a, b): (&Buffer<A>, &Buffer<B>),
        c: &Buffer<C>,
    ) -> Result<u32> {
        let Self { offsets, n, k, .. } = self;
        if offsets.is_empty() || offsets.len() - 1 > MOST_GROUPS as usize {
            return Err(refused(format!(
                "{} offsets: n groups of rows have n + 1, the last of which is the number of rows, and there may be {MOST_GROUPS} groups",
                offsets.len()
            )));
        }
        if *k == 0 {
            return Err(refused("k is 0: there is nothing to multiply".to_owned()));
        }
        let rows = a.len() / *k as usize;
        let count = self.count() as usize;
        let all_rows = u32::try_from(rows).map_err(|_| refused(format!("{rows} rows are more than 2^32")))?;
        expect_length("A", rows * *k as usize, a.len())?;
        expect_length("B", count * *n as usize * *k as usize, b.len())?;
        expect_length("C", rows * *n as usize, c.len())?;
        let vectors = [
            ("the row scales", linear.row_scales, rows),
            ("the column scales", linear.column_scales, count * *n as usize),
            ("the bias", linear.bias, count * *n as usize),
        ];
        for (what, vector, length) in vectors {
            if let Some(vector) = vector {
                expect_length(what, length, vector.len())?;
            }
        }
        Ok(all_rows)
    }
}

/// All rows, and so many matrices that groups of them are multiplied by.
pub(super) fn groups(product: Product, count: u32) -> Batch {
    Batch { a_stride: 0, ..Batch::new(product, count) }
}

/// What is computed of groups of rows in a way.
pub(super) fn planned<W>(groups: Batch, way: W) -> Planned<W, Groups> {
    Planned { kind: Groups { most: groups.count.next_power_of_two() }, batch: groups, way }
}

/// Rows that the way is chosen for: numbers that are alike have the same.
pub(super) fn alike(rows: u32) -> u32 {
    rows.checked_next_power_of_two().unwrap_or(rows)
}

impl Operations {
    /// C = A·B for each group of rows, in one launch; accumulated in f32, A and C are row-major.
    ///
    /// # Errors
    /// A buffer has another length than the groups ask for, there are more than 512, or k is 0; the device has no kernel for the types; or it failed.
    pub fn multiply_experts<A: Factor<B>, B: Factor<A>, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        experts: &Experts<'_>,
        a: &Buffer<A>,
        b: &Buffer<B>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        self.linear_experts(stream, experts, &Linear::default(), a, b, c)
    }

    /// [`linear`](Self::linear) for each group of rows, in one launch: each has column scales and a bias of its own, those of all one after another.
    ///
    /// # Errors
    /// As [`multiply_experts`](Self::multiply_experts); or a vector has another length than C's rows, or all groups' columns.
    pub fn linear_experts<A: Factor<B>, B: Factor<A>, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        experts: &Experts<'_>,
        linear: &Linear<'_>,
        a: &Buffer<A>,
        b: &Buffer<B>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        let rows = experts.check(linear, (a, b), c)?;
        let way = self.way_of_experts::<A, C>(experts, rows);
        self.experts_by(stream, experts, way, Operands { a, b, c, finish: &linear.finish() })
    }

    /// C = A·B for each group of rows, in that way.
    ///
    /// # Errors
    /// As [`multiply_experts`](Self::multiply_experts); and if the way does not suit the product.
    pub fn multiply_experts_by<A: Factor<B>, B: Factor<A>, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        experts: &Experts<'_>,
        way: Way,
        a: &Buffer<A>,
        b: &Buffer<B>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        let linear = &Linear::default();
        experts.check(linear, (a, b), c)?;
        self.experts_by(stream, experts, way, Operands { a, b, c, finish: &linear.finish() })
    }

    /// The ways to multiply groups that have so many rows together, the cheapest first.
    pub fn ways_of_experts<T: WarpgroupInput, C: Element>(
        &self,
        experts: &Experts<'_>,
        rows: u32,
    ) -> Vec<Way> {
        let properties = self.device().properties();
        ways::<T, C>(experts.average(rows), properties.capability, properties.sm_count)
    }

    /// The cheapest way for about so many rows.
    fn way_of_experts<T: WarpgroupInput, C: Element>(&self, experts: &Experts<'_>, rows: u32) -> Way {
        let alike = alike(rows);
        let key = (experts.count(), experts.product(alike));
        let way =
            self.remembered::<(T, C), _, _>(key, |_| Ok(self.ways_of_experts::<T, C>(experts, alike)[0]));
        way.map_or(Way::Warps(Warps::default()), |way| *way)
    }

    fn experts_by<A: Factor<B>, B: Factor<A>, C: GemmOutput + Storable, E: FusedEpilogue<C>>(
        &self,
        stream: &Stream,
        experts: &Experts<'_>,
        way: Way,
        operands: Operands<'_, A, B, C, E>,
    ) -> Result<LaunchCounts> {
        if operands.c.is_empty() || experts.count() == 0 {
            return Ok(LaunchCounts::default());
        }
        let rows = experts.rows(operands.a);
        match way {
            Way::Warps(warps) => A::experts_by_warps(self, stream, (experts, warps), operands),
            Way::Warpgroups(_) if !has_warpgroups(self.device().properties().capability) => {
                Err(no_warpgroups::<A, B>(experts.product(rows)))
            }
            Way::Warpgroups(way) => {
                let told = (experts.offsets, experts.count());
                self.by_plain_warpgroups(stream, experts.planned(rows, way), operands, &told)
            }
        }
    }
}
