//! `mma` in all its shapes and types, dense and sparse (PTX ISA, "mma" and "mma.sp").

use warpwright_arch::DataType;
use warpwright_arch::mma::{self, Family, MMA_TABLE, Types};

use super::accumulate::{FloatSum, IntegerSum, multiply_f64, result_bits};
use super::fragment::Fragment;
use super::sparse::Metadata;
use super::tile::Tile;
use super::{Column, LANES, Order, Shape, element};

/// The reason that such an MMA does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownMultiply(String);

impl UnknownMultiply {
    pub(super) fn new(message: String) -> UnknownMultiply {
        UnknownMultiply(message)
    }
}

/// The fragments of an MMA's operands.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the operands' own names
pub struct Fragments {
    pub a: Fragment,
    pub b: Fragment,
    pub c: Fragment,
    pub d: Fragment,
}

/// One MMA: D = A B + C.
#[derive(Clone, Debug, PartialEq)]
pub struct Multiply {
    shape: Shape,
    types: Types,
    integers: IntegerSum,
    fragments: Fragments,
    metadata: Option<Metadata>,
    /// Independent products, stacked: 4 in m8n8k4 of f16, else 1.
    products: usize,
}

impl Multiply {
    /// A dense `mma`. `orders` are those of A and B; only m8n8k4 of f16 has others than `.row.col`.
    pub fn dense(
        shape: Shape,
        types: Types,
        orders: (Order, Order),
        integers: IntegerSum,
    ) -> Result<Multiply, UnknownMultiply> {
        let quads = shape.m == 8 && types.a == DataType::F16;
        check(if quads { Family::Quadpair } else { Family::Warp }, shape, types)?;
        if !quads && orders != (Order::Row, Order::Column) {
            return Err(UnknownMultiply(
                "A is .row and B is .col in every mma but m8n8k4 of f16.".to_owned(),
            ));
        }
        let fragments = if quads {
            Fragments {
                a: Fragment::quad_left(orders.0),
                b: Fragment::quad_right(orders.1),
                c: Fragment::quad_accumulator(types.c.bits()),
                d: Fragment::quad_accumulator(types.d.bits()),
            }
        } else {
            fragments(shape, shape.k, types)
        };
        Ok(Multiply {
            shape,
            types,
            integers,
            fragments,
            metadata: None,
            products: if quads { 4 } else { 1 },
        })
    }

    /// A sparse `mma`: half of A is stored, and metadata of the lanes that `selector` chooses
    /// identifies that half.
    pub fn sparse(
        shape: Shape,
        types: Types,
        integers: IntegerSum,
        selector: usize,
    ) -> Result<Multiply, UnknownMultiply> {
        check(Family::SparseWarp, shape, types)?;
        let selectors = Metadata::selectors(shape, types.a);
        if selector >= selectors {
            return Err(UnknownMultiply(format!(
                "The sparsity selector is {selector}; this shape has selectors below {selectors}."
            )));
        }
        let metadata = Some(Metadata::new(shape, types.a, selector));
        let fragments = fragments(shape, shape.k / 2, types);
        Ok(Multiply { shape, types, integers, fragments, metadata, products: 1 })
    }

    /// A `wmma`, with the given fragments.
    pub(super) fn with_fragments(
        shape: Shape,
        types: Types,
        integers: IntegerSum,
        fragments: Fragments,
    ) -> Result<Multiply, UnknownMultiply> {
        check(Family::Wmma, shape, types)?;
        Ok(Multiply { shape, types, integers, fragments, metadata: None, products: 1 })
    }

    /// The fragments of the operands, which determine the number of registers of each.
    pub fn fragments(&self) -> &Fragments {
        &self.fragments
    }

    /// Rows, columns and depth.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The types of the operands.
    pub fn types(&self) -> Types {
        self.types
    }

    /// Whether half of A is left out.
    pub fn is_sparse(&self) -> bool {
        self.metadata.is_some()
    }

    /// Multiply-adds of the instruction.
    pub fn multiply_adds(&self) -> usize {
        self.shape.multiply_adds() * self.products
    }

    /// Multiplies matrices of up to 32-bit elements. A sparse MMA needs its `metadata`.
    #[inline(always)]
    pub fn words(
        &self,
        a: &[Column],
        b: &[Column],
        c: &[Column],
        metadata: Option<&Column>,
        d: &mut [Column],
    ) {
        let Fragments { a: left, b: right, c: old, d: new } = &self.fragments;
        let Types { d: result, a: a_type, b: b_type, c: c_type } = self.types;
        if result == DataType::S32 {
            let a = left.gather(a, |bits| element::integer(a_type, bits));
            let a = self.full(a, metadata);
            let b = right.gather(b, |bits| element::integer(b_type, bits));
            let c = old.gather(c, |bits| bits as i32);
            new.scatter(&self.integers.multiply(&a, &b, &c), d, |value| value as u32);
            return;
        }
        let a = left.gather(a, |bits| element::float(a_type, bits));
        let a = self.full(a, metadata);
        let b = right.gather(b, |bits| element::float(b_type, bits));
        let c = old.gather(c, |bits| element::float(c_type, bits));
        let sum = FloatSum::of(self.shape, a_type, result);
        let product = if self.products == 1 {
            sum.multiply(&a, &b, &c)
        } else {
            self.stacked(&a, &b, &c, |a, b, c| sum.multiply(a, b, c))
        };
        new.scatter(&product, d, |value| result_bits(result, value));
    }

    /// A with the zeros that are not stored.
    #[inline(always)]
    fn full<T: Copy + Default>(&self, stored: Tile<T>, metadata: Option<&Column>) -> Tile<T> {
        match (self.metadata, metadata) {
            (Some(positions), Some(metadata)) => positions.expand(&stored, metadata),
            _ => stored,
        }
    }

    /// Multiplies matrices of f64.
    #[inline(always)]
    pub fn longs(&self, a: &[[u64; LANES]], b: &[[u64; LANES]], c: &[[u64; LANES]], d: &mut [[u64; LANES]]) {
        let Fragments { a: left, b: right, c: old, d: new } = &self.fragments;
        let product = multiply_f64(
            &left.gather(a, f64::from_bits),
            &right.gather(b, f64::from_bits),
            &old.gather(c, f64::from_bits),
        );
        new.scatter(&product, d, f64::to_bits);
    }

    /// Multiplies vertically stacked matrices, each by its own.
    fn stacked(
        &self,
        a: &Tile<f64>,
        b: &Tile<f64>,
        c: &Tile<f64>,
        multiply: impl Fn(&Tile<f64>, &Tile<f64>, &Tile<f64>) -> Tile<f64>,
    ) -> Tile<f64> {
        let mut d = Tile::zeros(c.rows(), c.columns());
        for index in 0..self.products {
            let part = |tile: &Tile<f64>| {
                tile.rows_of(index * tile.rows() / self.products, tile.rows() / self.products)
            };
            let product = multiply(&part(a), &part(b), &part(c));
            for row in 0..product.rows() {
                d.row_mut(index * product.rows() + row).copy_from_slice(product.row(row));
            }
        }
        d
    }
}

/// The fragments of every shape that is made of core matrices. Of b1, the words of 32 elements
/// count as elements.
fn fragments(shape: Shape, stored: usize, types: Types) -> Fragments {
    let (each, bits) = if types.a == DataType::B1 { (32, 32) } else { (1, types.a.bits()) };
    Fragments {
        a: Fragment::left(shape.m, stored / each, bits),
        b: Fragment::right(shape.k / each, bits),
        c: Fragment::accumulator(shape.m, types.c.bits()),
        d: Fragment::accumulator(shape.m, types.d.bits()),
    }
}

/// Refuses an MMA that is not in [`MMA_TABLE`].
fn check(family: Family, shape: Shape, types: Types) -> Result<(), UnknownMultiply> {
    let Types { a, b, c, d } = types;
    let instruction = match family {
        Family::SparseWarp => "mma.sp",
        Family::Wmma => "wmma",
        _ => "mma",
    };
    // m8n8k4 of f16 is listed with the other shapes of `mma`.
    let is_mma = matches!(family, Family::Quadpair | Family::Warp);
    let rows = MMA_TABLE
        .iter()
        .filter(|row| row.family == family || is_mma && matches!(row.family, Family::Quadpair | Family::Warp))
        .filter(|row| row.inputs.contains(&(a, b)));
    if rows.clone().next().is_none() {
        return Err(UnknownMultiply(format!("{instruction} does not multiply A of .{a} by B of .{b}.")));
    }
    let wanted = mma::Shape::from(shape);
    if !rows.clone().any(|row| row.shape == wanted) {
        let mut known: Vec<String> = rows.map(|row| row.shape.to_string()).collect();
        known.dedup();
        return Err(UnknownMultiply(format!(
            "{instruction} of .{a} has no shape {wanted}; it has {}.",
            known.join(", ")
        )));
    }
    // On sm_120, mma.sp accumulates in all types that mma does.
    let accumulates = |row: &&mma::MmaRow| {
        row.family == family || family == Family::SparseWarp && row.family == Family::Warp
    };
    let mut accumulators = MMA_TABLE.iter().filter(accumulates).filter(|row| row.inputs.contains(&(a, b)));
    if !accumulators.any(|row| row.accumulators.contains(&(c, d))) {
        return Err(UnknownMultiply(format!(
            "{instruction} of .{a} does not accumulate from .{c} into .{d}."
        )));
    }
    Ok(())
}
