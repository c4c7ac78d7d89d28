//! Groups of rows as the options of the command line ask for them.

use super::batched::Batch;
use super::experts::groups;
use super::multiply::Product;
use super::verify::Part;
use crate::reference::Random;
use crate::registry::{OptionSpec, Options, Result};

/// What the options ask for.
pub(super) struct Routed {
    /// Rows of each group.
    pub(super) sizes: Vec<u32>,
    pub(super) n: u32,
    pub(super) k: u32,
    pub(super) seed: u64,
}

impl Routed {
    pub(super) fn of(options: &Options) -> Result<Self> {
        let (rows, count, seed) = (options.u32("rows")?, options.u32("experts")?, options.number("seed"));
        let mut sizes = vec![0; count as usize];
        let mut random = Random::new(seed);
        for row in 0..rows {
            let expert = match options.choice("routing") {
                "random" => random.below(count.into()) as usize,
                "even" => (row % count) as usize,
                _ => 0,
            };
            sizes[expert] += 1;
        }
        Ok(Self { sizes, n: options.u32("n")?, k: options.u32("k")?, seed })
    }

    /// The first row of each group, and the number of all.
    pub(super) fn offsets(&self) -> Vec<u32> {
        let sums = self.sizes.iter().scan(0, |sum, size| {
            *sum += size;
            Some(*sum)
        });
        std::iter::once(0).chain(sums).collect()
    }

    pub(super) fn rows(&self) -> usize {
        self.sizes.iter().map(|&size| size as usize).sum()
    }

    /// The product of each group.
    pub(super) fn products(&self) -> impl Iterator<Item = Product> {
        self.sizes.iter().map(|&size| Product::new(size, self.n, self.k))
    }

    /// The products, and where their rows and matrices begin.
    pub(super) fn parts(&self) -> Vec<Part> {
        let (mut row, depth, matrix) = (0, self.k as usize, self.n as usize * self.k as usize);
        let part = |(group, product): (usize, Product)| {
            let part = Part { product, a: row * depth, b: group * matrix };
            row += product.m as usize;
            part
        };
        self.products().enumerate().map(part).collect()
    }

    /// How many groups there are.
    pub(super) fn count(&self) -> u32 {
        self.sizes.len() as u32
    }

    /// Equal groups of as many rows.
    pub(super) fn average(&self) -> Batch {
        let rows = (self.rows() as u32).div_ceil(self.count());
        Batch::new(Product::new(rows, self.n, self.k), self.count())
    }

    /// All rows, and the matrices that they are multiplied by.
    pub(super) fn groups(&self) -> Batch {
        groups(Product::new(self.rows() as u32, self.n, self.k), self.count())
    }

    /// How many groups have rows: the matrix of one that has none need not be read.
    pub(super) fn read(&self) -> u32 {
        self.sizes.iter().filter(|&&size| size > 0).count() as u32
    }
}

/// How many groups.
pub(super) const EXPERTS: OptionSpec = OptionSpec::extent("experts", 8, "groups of rows, and matrices B");

/// Of all groups.
pub(super) const ROWS: OptionSpec =
    OptionSpec::extent("rows", 512, "rows of A and C, of all groups together");

/// Of each B.
pub(super) const COLUMNS: OptionSpec = OptionSpec::extent("n", 512, "columns of each B and of C");

/// Of A.
pub(super) const DEPTH: OptionSpec = OptionSpec::extent("k", 256, "columns of A and rows of each B");

/// Which rows each group has.
pub(super) const ROUTING: OptionSpec =
    OptionSpec::choice("routing", &["random", "even", "first"], "to which group each row goes");

/// Of everything that is random.
pub(super) const SEED: OptionSpec = OptionSpec::number("seed", 1, "of the inputs, and of the routing");
