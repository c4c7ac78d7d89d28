//! `mma` in all its shapes and types, dense and sparse (PTX ISA, "mma" and "mma.sp").

use super::accumulate::{FloatSum, IntegerSum, multiply_f64, result_bits};
use super::element::Element;
use super::fragment::Fragment;
use super::sparse::Metadata;
use super::tile::Tile;
use super::{Column, LANES, Order, Shape};

/// m, n and k.
pub(super) type Extents = (usize, usize, usize);

/// The shapes of dense and sparse A that exist for an element type.
const SHAPES: [(&[Element], &[Extents], &[Extents]); 8] = [
    (&[Element::F16], &[(8, 8, 4), (16, 8, 8), (16, 8, 16)], &[(16, 8, 16), (16, 8, 32)]),
    (&[Element::Bf16], &[(16, 8, 8), (16, 8, 16)], &[(16, 8, 16), (16, 8, 32)]),
    (&[Element::Tf32], &[(16, 8, 4), (16, 8, 8)], &[(16, 8, 8), (16, 8, 16)]),
    (&[Element::F64], &[(8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)], &[]),
    (&[Element::E4m3, Element::E5m2], &[(16, 8, 16), (16, 8, 32)], &[(16, 8, 64)]),
    (&[Element::S8, Element::U8], &[(8, 8, 16), (16, 8, 16), (16, 8, 32)], &[(16, 8, 32), (16, 8, 64)]),
    (&[Element::S4, Element::U4], &[(8, 8, 32), (16, 8, 32), (16, 8, 64)], &[(16, 8, 64), (16, 8, 128)]),
    (&[Element::B1], &[(8, 8, 128), (16, 8, 128), (16, 8, 256)], &[]),
];

/// Why there is no such multiply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownMultiply(String);

impl UnknownMultiply {
    pub(super) fn new(message: String) -> UnknownMultiply {
        UnknownMultiply(message)
    }
}

/// The types of a multiply, in the order in which the instruction names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the operands' own names
pub struct Types {
    pub d: Element,
    pub a: Element,
    pub b: Element,
    pub c: Element,
}

/// The fragments of a multiply's operands.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the operands' own names
pub struct Fragments {
    pub a: Fragment,
    pub b: Fragment,
    pub c: Fragment,
    pub d: Fragment,
}

/// One multiply: D = A B + C.
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
        check(shape, types, false)?;
        let quads = shape.m == 8 && types.a == Element::F16;
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

    /// A sparse `mma`: half of A is stored, and metadata from the lanes that `selector` chooses tells which half.
    pub fn sparse(
        shape: Shape,
        types: Types,
        integers: IntegerSum,
        selector: usize,
    ) -> Result<Multiply, UnknownMultiply> {
        check(shape, types, true)?;
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

    /// A `wmma`, whose fragments are given.
    pub(super) fn with_fragments(
        shape: Shape,
        types: Types,
        integers: IntegerSum,
        fragments: Fragments,
    ) -> Result<Multiply, UnknownMultiply> {
        check_accumulators(types)?;
        Ok(Multiply { shape, types, integers, fragments, metadata: None, products: 1 })
    }

    /// The fragments of the operands, which tell how many registers each takes.
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

    /// Multiply-adds that the instruction stands for.
    pub fn multiply_adds(&self) -> usize {
        self.shape.multiply_adds() * self.products
    }

    /// Multiplies matrices of up to 32-bit elements. A sparse one needs its `metadata`.
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
        if result == Element::S32 {
            let a = left.gather(a, |bits| a_type.integer(bits));
            let a = self.full(a, metadata);
            let b = right.gather(b, |bits| b_type.integer(bits));
            let c = old.gather(c, |bits| bits as i32);
            new.scatter(&self.integers.multiply(&a, &b, &c), d, |value| value as u32);
            return;
        }
        let a = left.gather(a, |bits| a_type.float(bits));
        let a = self.full(a, metadata);
        let b = right.gather(b, |bits| b_type.float(bits));
        let c = old.gather(c, |bits| c_type.float(bits));
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

    /// Multiplies matrices that stand one below the other, each with its own.
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

/// The fragments of every shape that is made of core matrices. Of b1, the words of 32 elements count as elements.
fn fragments(shape: Shape, stored: usize, types: Types) -> Fragments {
    let (each, bits) = if types.a == Element::B1 { (32, 32) } else { (1, types.a.bits()) };
    Fragments {
        a: Fragment::left(shape.m, stored / each, bits),
        b: Fragment::right(shape.k / each, bits),
        c: Fragment::accumulator(shape.m, types.c.bits()),
        d: Fragment::accumulator(shape.m, types.d.bits()),
    }
}

fn check(shape: Shape, types: Types, sparse: bool) -> Result<(), UnknownMultiply> {
    let Types { a, b, .. } = types;
    let unknown = |what: String| Err(UnknownMultiply(what));
    let Some((group, dense_shapes, sparse_shapes)) =
        SHAPES.iter().find(|(elements, ..)| elements.contains(&a))
    else {
        return unknown(format!("No matrix of A has elements of type .{}.", a.word()));
    };
    if !group.contains(&b) {
        return unknown(format!("A of .{} and B of .{} cannot be multiplied.", a.word(), b.word()));
    }
    let shapes = if sparse { sparse_shapes } else { dense_shapes };
    if !shapes.contains(&(shape.m, shape.n, shape.k)) {
        let known: Vec<String> = shapes.iter().map(|(m, n, k)| format!("m{m}n{n}k{k}")).collect();
        return unknown(format!(
            "There is no {}mma of this shape for .{}; there are: {}.",
            if sparse { "sparse " } else { "" },
            a.word(),
            known.join(", ")
        ));
    }
    check_accumulators(types)
}

fn check_accumulators(types: Types) -> Result<(), UnknownMultiply> {
    let Types { d, a, c, .. } = types;
    let accumulators: &[Element] = match a {
        Element::F16 | Element::E4m3 | Element::E5m2 => &[Element::F16, Element::F32],
        Element::Bf16 | Element::Tf32 => &[Element::F32],
        Element::F64 => &[Element::F64],
        _ => &[Element::S32],
    };
    if !accumulators.contains(&d) || !accumulators.contains(&c) {
        return Err(UnknownMultiply(format!(
            "Products of .{} are not accumulated from .{} into .{}.",
            a.word(),
            c.word(),
            d.word()
        )));
    }
    Ok(())
}
