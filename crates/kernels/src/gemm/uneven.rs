//! Products of unlike extents as the options of the command line ask for them, and sets of their matrices, each product's its own.

use warpwright::prelude::*;

use super::multiply::Product;
use super::plan::Shape;
use super::readable::Readable;
use super::{Order, grouped};
use crate::reference::Random;
use crate::registry::{OptionSpec, Options, Result, Verified, Work};

/// Elements of which rows of all types are whole 16 bytes.
const ALIGNED: u32 = 16;

/// What the options ask for.
pub(super) struct Uneven {
    pub(super) products: Vec<Product>,
    pub(super) seed: u64,
}

impl Uneven {
    /// Products whose A and B lie so.
    pub(super) fn of(options: &Options, (a, b): (Order, Order)) -> Result<Self> {
        let (m, n, k, seed) =
            (options.u32("m")?, options.u32("n")?, options.u32("k")?, options.number("seed"));
        let mut random = Random::new(seed);
        // From half of it to all of it.
        let mut below = |most: u32| most - random.below(u64::from(most / 2 + 1)) as u32;
        let mut size = |most: u32| match options.choice("sizes") {
            "random" => below(most).next_multiple_of(ALIGNED).min(most),
            "odd" => below(most),
            _ => most,
        };
        let products =
            (0..options.u32("members")?).map(|_| Product { m: size(m), n: size(n), k: size(k), a, b });
        Ok(Self { products: products.collect(), seed })
    }

    /// What any way to do it must do, by what each product must.
    pub(super) fn work(&self, of: impl Fn(Product) -> Work) -> Work {
        self.products.iter().fold(Work::default(), |sum, &product| {
            let Work { operations, bytes } = of(product);
            Work { operations: sum.operations + operations, bytes: sum.bytes + bytes }
        })
    }

    /// As many products of their average extents, for which the way is chosen; and what they are, in words.
    pub(super) fn average<T: Element, C: Element>(&self) -> (Shape, String) {
        let average = grouped::average::<T, C>(&self.products);
        let Shape { m, n, k, batch, .. } = average;
        (average, format!(" for {batch} products of {m} x {n} x {k}, the average"))
    }

    /// Of how many products factors are copied, if of any.
    pub(super) fn describe_copies<T: Element>(&self) -> Option<String> {
        let is_copied = |product: &&Product| !Readable::of::<T>((**product).into()).as_it_is();
        let (count, copied) = (self.products.len(), self.products.iter().filter(is_copied).count());
        (copied > 0).then(|| {
            format!(
                "factors of {copied} of the {count} products are copied first: TMA cannot read them as they are"
            )
        })
    }
}

/// Sets of all products' matrices, by their seeds.
pub(super) fn sets_of<S>(
    products: Vec<Product>,
    make: impl Fn(Product, u64) -> Result<S>,
) -> impl Fn(u64) -> Result<Vec<S>> {
    move |seed: u64| {
        let set = |(number, &product): (usize, &Product)| {
            make(product, seed.wrapping_mul(1 << 10).wrapping_add(number as u64))
        };
        products.iter().enumerate().map(set).collect()
    }
}

/// Holds every element of every product to the reference.
pub(super) fn verify_each<S>(
    products: &[Product],
    sets: &[S],
    verify: impl Fn(Product, &S) -> Result<Verified>,
) -> Result<Verified> {
    let mut all = Verified { elements: 0, worst: 0.0 };
    for (&product, set) in products.iter().zip(sets) {
        let verified = verify(product, set)?;
        all.elements += verified.elements;
        all.worst = f64::max(all.worst, verified.worst);
    }
    Ok(all)
}

/// How many products.
pub(super) const MEMBERS: OptionSpec = OptionSpec::extent("members", 8, "products");

/// Of the products with the most.
pub(super) const ROWS: OptionSpec = OptionSpec::extent("m", 512, "rows of the highest A and C");

/// Of the products with the most.
pub(super) const COLUMNS: OptionSpec = OptionSpec::extent("n", 512, "columns of the widest B and C");

/// Of the products with the most.
pub(super) const DEPTH: OptionSpec =
    OptionSpec::extent("k", 256, "columns of the widest A and rows of the highest B");

/// How far the extents of the others are below.
pub(super) const SIZES: OptionSpec = OptionSpec::choice(
    "sizes",
    &["random", "odd", "alike"],
    "extents down to half of those, in steps of 16 or of 1; or all alike",
);

/// Of everything that is random.
pub(super) const SEED: OptionSpec = OptionSpec::number("seed", 1, "of the inputs, and of the sizes");
