//! cuBLASLt's products, one launch after another: what it has in place of a group in one launch.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use warpwright::runtime::cublas::{CublasProduct, ProductShape};
use warpwright::runtime::{Device, LaunchCounts, Storable, Stream};

use super::multiply::Product;
use super::options::{Buffers, cublas_order, matrices};
use super::uneven::{sets_of, verify_each};
use super::verify::verify;
use crate::reference::Rounded;
use crate::registry::{Prepared, Result, Verified, Work};
use crate::rotation::rotating;

/// Products, each with matrices of its own, by cuBLASLt.
pub(super) fn cublas_in_turn<T, C>(
    device: &Device,
    products: Vec<Product>,
    seed: u64,
    work: Work,
) -> Result<Box<dyn Prepared>>
where
    T: Storable + Rounded,
    C: Storable + Rounded,
{
    let stream = device.stream()?;
    // Products of one shape have one algorithm.
    let mut by_shape = HashMap::new();
    for &product in &products {
        if let Entry::Vacant(place) = by_shape.entry(product) {
            let Buffers { a, b, mut c } = matrices::<T, T, C>(device, product.into())(0)?;
            let [m, n, k] = [product.m, product.n, product.k].map(|extent| extent as usize);
            let (a_order, b_order) = (cublas_order(product.a), cublas_order(product.b));
            let shape = ProductShape { m, n, k, a: a_order, b: b_order, batch: 1 };
            let theirs = CublasProduct::<T, C>::new(&stream, shape, &a, &b, &mut c)?;
            place.insert(Arc::new(theirs));
        }
    }
    let launches: Vec<_> = products.iter().map(|product| by_shape[product].clone()).collect();
    let launch = move |stream: &Stream, sets: &mut Vec<Buffers<T, T, C>>| {
        for (theirs, Buffers { a, b, c }) in launches.iter().zip(sets) {
            theirs.launch(stream, a, b, c)?;
        }
        Ok(LaunchCounts::default())
    };
    let make = buffers_of(device, products.clone());
    let verify = move |sets: &Vec<Buffers<T, T, C>>| verify_buffers(&products, sets);
    rotating(device, seed, work, make, launch, verify)
}

/// Sets of all products' matrices, by their seeds.
pub(super) fn buffers_of<A, B, C>(
    device: &Device,
    products: Vec<Product>,
) -> impl Fn(u64) -> Result<Vec<Buffers<A, B, C>>> + use<A, B, C>
where
    A: Storable + Rounded,
    B: Storable + Rounded,
    C: Storable + Rounded,
{
    let device = device.clone();
    sets_of(products, move |product, seed| matrices(&device, product.into())(seed))
}

/// Holds every element of every product to the reference.
pub(super) fn verify_buffers<A, B, C>(products: &[Product], sets: &[Buffers<A, B, C>]) -> Result<Verified>
where
    A: Storable + Rounded + Sync,
    B: Storable + Rounded + Sync,
    C: Storable + Rounded,
{
    verify_each(products, sets, |product, set| verify(product.into(), set))
}
