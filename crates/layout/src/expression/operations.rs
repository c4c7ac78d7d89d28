//! The operations by name, and the evaluation of trees.

use std::fmt;

use super::evaluate::compose;
use super::{Ownership, Value};
use crate::atom::{CopyAtom, MmaAtom, Operand, scale_tile};
use crate::{Error, Int, IntTuple, Layout, Stride, Swizzle, Tiler, Tuple, coordinate_of};
use crate::{TiledCopy, TiledMma};

/// One callable name of the language.
pub struct Operation {
    /// The name, as CuTe spells it.
    pub name: &'static str,
    /// The arguments.
    pub arguments: &'static str,
    /// The result, in one sentence.
    pub meaning: &'static str,
    /// An example and its value.
    pub example: (&'static str, &'static str),
    pub(super) apply: fn(&Arguments) -> Result<Value, Error>,
}

impl Operation {
    /// The most arguments a call may have, counting template parameters given as arguments.
    pub(super) fn most_arguments(&self) -> usize {
        if self.arguments.contains("...") {
            return usize::MAX;
        }
        1 + self.arguments.bytes().filter(|&byte| byte == b',' || byte == b'<').count()
    }
}

/// The arguments of a call: `name<parameters>(values)`.
pub(super) struct Arguments {
    pub(super) name: &'static str,
    pub(super) parameters: Vec<i64>,
    /// All arguments; a word is a device value of its name.
    pub(super) values: Vec<Value>,
    /// The words among them.
    pub(super) words: Vec<String>,
}

impl fmt::Display for Arguments {
    /// The call as it is written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |all: Vec<String>| all.join(", ");
        f.write_str(self.name)?;
        if !self.parameters.is_empty() {
            write!(f, "<{}>", list(self.parameters.iter().map(i64::to_string).collect()))?;
        }
        let values = list(self.values.iter().map(Value::to_string).collect());
        if values.is_empty() && !self.parameters.is_empty() { Ok(()) } else { write!(f, "({values})") }
    }
}

impl Arguments {
    fn value(&self, position: usize) -> Result<&Value, Error> {
        self.values.get(position).ok_or_else(|| self.wrong_count())
    }

    pub(super) fn wrong_count(&self) -> Error {
        let operation = OPERATIONS.iter().find(|operation| operation.name == self.name);
        let legal = format!("{}{}", self.name, operation.map_or("(..)", |operation| operation.arguments));
        Error::bad_argument("a call", self, legal)
    }

    fn layout(&self, position: usize) -> Result<Layout, Error> {
        self.value(position)?.layout()
    }

    fn tuple(&self, position: usize) -> Result<IntTuple, Error> {
        self.value(position)?.tuple()
    }

    /// A number given as template parameter, or as argument.
    fn number(&self, parameter: usize, argument: usize) -> Result<i64, Error> {
        match self.parameters.get(parameter) {
            Some(&number) => Ok(number),
            None => self.value(argument)?.known(),
        }
    }

    fn mode_number(&self, parameter: usize, argument: usize) -> Result<usize, Error> {
        let number = self.number(parameter, argument)?;
        usize::try_from(number).map_err(|_| Error::bad_argument("a mode number", number, "0 or above"))
    }

    /// The template parameters as a path of modes.
    fn path(&self) -> Result<Vec<usize>, Error> {
        (0..self.parameters.len()).map(|position| self.mode_number(position, 0)).collect()
    }

    /// The first value, narrowed to the mode that the template parameters name.
    fn selected(&self) -> Result<Value, Error> {
        let path = self.path()?;
        match self.value(0)? {
            value if path.is_empty() => Ok(value.clone()),
            Value::Coordinate(coordinate) => {
                let mut at = coordinate;
                for mode in path {
                    let legal = format!("below the rank of {at}");
                    at = at
                        .modes()
                        .get(mode)
                        .ok_or_else(|| Error::bad_argument("a mode number", mode, legal))?;
                }
                Ok(Value::Coordinate(at.clone()))
            }
            Value::Composed(composed) => Ok(composed.map_inner(|inner| inner.mode_at(&path))?.into()),
            other => Ok(other.layout()?.mode_at(&path)?.into()),
        }
    }
}

/// An operation of a layout and a tiler, on plain layouts or on the inner layout of a composed one.
fn tiled(
    arguments: &Arguments,
    operation: fn(&Layout, Tiler) -> Result<Layout, Error>,
) -> Result<Value, Error> {
    let tiler = arguments.value(1)?.tiler()?;
    inner(arguments, |layout| operation(layout, tiler))
}

/// An operation of a layout alone, on plain layouts or on the inner layout of a composed one.
fn inner(
    arguments: &Arguments,
    operation: impl FnOnce(&Layout) -> Result<Layout, Error>,
) -> Result<Value, Error> {
    match arguments.value(0)? {
        Value::Composed(composed) => Ok(composed.map_inner(operation)?.into()),
        other => Ok(operation(&other.layout()?)?.into()),
    }
}

macro_rules! operations {
    ($($name:literal $arguments:literal: $meaning:literal, $example:literal => $value:literal, $apply:expr;)*) => {
        /// All operations, in the order of `docs/layout.md`.
        pub const OPERATIONS: &[Operation] = &[$(Operation {
            name: $name, arguments: $arguments, meaning: $meaning, example: ($example, $value), apply: $apply,
        }),*];
    };
}

operations! {
    "make_layout" "(shape[, stride]) or (layouts...)": "The layout of a shape and stride (compact column-major without), or of modes.",
        "make_layout((4,8),(8,1))" => "(4,8):(8,1)", make_layout;
    "Layout" "(shape[, stride])": "The same as make_layout.",
        "Layout((4,8))" => "(4,8):(1,4)", make_layout;
    "make_ordered_layout" "(shape, order)": "The compact layout whose modes are contiguous by rising rank in the order.",
        "make_ordered_layout((2,3,4),(2,0,1))" => "(2,3,4):(12,1,3)",
        |a| Ok(Layout::ordered(a.tuple(0)?, a.tuple(1)?)?.into());
    "row_major" "(shape)": "The compact layout whose rightmost mode is contiguous.",
        "row_major((4,8))" => "(4,8):(8,1)", |a| Ok(Layout::row_major(a.tuple(0)?)?.into());
    "column_major" "(shape)": "The compact layout whose leftmost mode is contiguous.",
        "column_major((4,8))" => "(4,8):(1,4)", |a| Ok(Layout::column_major(a.tuple(0)?)?.into());
    "make_identity_layout" "(shape)": "The layout that returns its own coordinate.",
        "make_identity_layout((4,8))" => "(4,8):(1@0,1@1)", |a| Ok(Layout::identity(a.tuple(0)?)?.into());
    "size" "(x) or <modes>(x)": "The number of coordinates of a layout or shape, or of one of its modes.",
        "size<1>((4,(2,3)):(1,(4,8)))" => "6",
        |a| match a.selected()? { Value::Composed(c) => Ok(c.size()?.into()), Value::Coordinate(_) => size_of_tuple(a), v => Ok(v.layout()?.size()?.into()) };
    "cosize" "(L) or <modes>(L)": "One more than the largest offset.",
        "cosize((4,8):(1,10))" => "74",
        |a| match a.selected()? { Value::Composed(c) => Ok(c.cosize()?.into()), Value::Swizzle(s) => Ok(s.size().into()), v => Ok(v.layout()?.cosize()?.into()) };
    "rank" "(x) or <modes>(x)": "The number of modes.",
        "rank((4,(2,3)))" => "2",
        |a| match a.selected()? { Value::Coordinate(c) => Ok(c.rank().into()), v => Ok(v.composed()?.rank().into()) };
    "depth" "(x) or <modes>(x)": "The nesting depth of the tuples.",
        "depth((4,(2,3)))" => "2",
        |a| match a.selected()? { Value::Coordinate(c) => Ok(c.depth().into()), v => Ok(v.composed()?.inner().depth().into()) };
    "shape" "(L) or <modes>(L)": "The shape.",
        "shape((4,8):(8,1))" => "(4,8)", |a| Ok(a.selected()?.composed()?.shape().clone().into());
    "stride" "(L) or <modes>(L)": "The stride.",
        "stride((4,8):(8,1))" => "(8,1)", |a| Ok(a.selected()?.composed()?.inner().stride().clone().into());
    "layout" "<modes>(L)": "A mode as a layout.",
        "layout<1>((4,8):(8,1))" => "8:1", Arguments::selected;
    "get" "<modes>(x)": "A mode of a tuple or layout.",
        "get<1>((4,(2,3)))" => "(2,3)", Arguments::selected;
    "product" "(shape)": "The product of the leaves.",
        "product((4,(2,3)))" => "24", size_of_tuple;
    "product_each" "(shape)": "The product of each mode.",
        "product_each((4,(2,3)))" => "(4,6)", |a| Ok(a.tuple(0)?.product_each()?.into());
    "prefix_product" "(shape[, first])": "Exclusive products of the leaves from left to right.",
        "prefix_product((4,(2,3)))" => "(1,(4,8))",
        |a| Ok(a.tuple(0)?.prefix_product(&if a.values.len() > 1 { a.value(1)?.int()? } else { Int::ONE })?.into());
    "suffix_product" "(shape)": "Exclusive products of the leaves from right to left.",
        "suffix_product((4,(2,3)))" => "(6,(3,1))", |a| Ok(a.tuple(0)?.suffix_product()?.into());
    "inner_product" "(a, b)": "The sum of the products of corresponding leaves.",
        "inner_product((1,2),(3,4))" => "11",
        |a| Ok(Layout::new(a.tuple(1)?.map(&mut |_| Int::ONE), a.tuple(1)?)?.evaluate(&a.tuple(0)?)?.into());
    "ceil_div" "(a, b)": "The quotient rounded up, by mode.",
        "ceil_div((10,9),(4,3))" => "(3,3)", |a| Ok(ceil_divide(&a.tuple(0)?, &a.tuple(1)?)?.into());
    "shape_div" "(a, b)": "The shape that remains if its first b elements count as one; b and the shape must divide each other.",
        "shape_div((4,6),8)" => "(1,3)", |a| Ok(shape_divide(&a.tuple(0)?, &a.tuple(1)?)?.into());
    "flatten" "(x)": "The leaves as one tuple.",
        "flatten((4,(2,3)):(1,(4,8)))" => "(4,2,3):(1,4,8)",
        |a| match a.value(0)? {
            Value::Coordinate(c) if c.depth() > 0 => Ok(Value::Coordinate(Tuple::Node(c.leaves().into_iter().cloned().map(Tuple::Leaf).collect()))),
            Value::Coordinate(c) => Ok(Value::Coordinate(c.clone())),
            _ => inner(a, |layout| Ok(layout.flatten())),
        };
    "crd2idx" "(coordinate, shape[, stride])": "The offset of a coordinate.",
        "crd2idx((1,2),(4,8),(8,1))" => "10",
        |a| match (a.values.len(), a.value(1)?) {
            (2, Value::Layout(layout)) => Ok(layout.evaluate(&a.tuple(0)?)?.into()),
            (2, _) => Ok(Layout::column_major(a.tuple(1)?)?.evaluate(&a.tuple(0)?)?.into()),
            _ => Ok(Layout::new(a.tuple(1)?, a.value(2)?.strides()?)?.evaluate(&a.tuple(0)?)?.into()),
        };
    "idx2crd" "(index, shape[, stride])": "The coordinate of an index.",
        "idx2crd(10,(4,(2,3)))" => "(2,(0,1))",
        |a| match a.values.len() {
            0..=2 => Ok(coordinate_by_mode(&a.tuple(0)?, &a.tuple(1)?)?.into()),
            _ => Ok(coordinate_by_stride(&a.value(0)?.int()?, &a.tuple(1)?, &a.tuple(2)?)?.into()),
        };
    "crd2crd" "(coordinate, shape[, source shape])": "The coordinate in another shape of the same size.",
        "crd2crd((1,2),(2,(4,4)),(4,8))" => "(1,(0,1))",
        |a| match a.values.len() {
            3 => Ok(coordinate_of(&crate::index_of(&a.tuple(0)?, &a.tuple(2)?)?, &a.tuple(1)?)?.into()),
            _ => Ok(coordinate_by_mode(&a.tuple(0)?, &a.tuple(1)?)?.into()),
        };
    "congruent" "(a, b)": "Whether two tuples have the same structure.",
        "congruent((4,(2,3)),(1,(1,1)))" => "true",
        |a| Ok(shape_of(a.value(0)?)?.congruent(&shape_of(a.value(1)?)?).into());
    "compatible" "(a, b)": "Whether shape b refines shape a.",
        "compatible((4,6),(4,(2,3)))" => "true",
        |a| Ok(shape_of(a.value(0)?)?.compatible(&shape_of(a.value(1)?)?).into());
    "coalesce" "(L[, profile])": "The same function with the fewest modes, by mode where the profile has leaves.",
        "coalesce((2,(1,6)):(1,(6,2)))" => "12:1",
        |a| match a.values.get(1) { None => inner(a, Layout::coalesce), Some(p) => { let p = profile(p)?; inner(a, |l| l.coalesce_by(&p)) } };
    "filter" "(L[, profile])": "The layout without its modes of stride 0 and size 1.",
        "filter((4,8):(0,1))" => "8:1",
        |a| match a.values.get(1) { None => inner(a, Layout::filter), Some(p) => { let p = profile(p)?; inner(a, |l| l.filter_by(&p)) } };
    "filter_zeros" "(L)": "The layout with extent 1 for modes of stride 0.",
        "filter_zeros((4,8):(0,1))" => "(1,8):(0,1)", |a| inner(a, |layout| Ok(layout.filter_zeros()));
    "composition" "(A, B)": "R(c) = A(B(c)), by mode if B is a tuple.",
        "composition((6,2):(8,2),(4,3):(3,1))" => "((2,2),3):((24,2),8)",
        |a| compose(a.value(0)?, a.value(1)?);
    "complement" "(L[, size])": "The offsets at which L repeats without overlap, up to size.",
        "complement((2,2):(1,6),24)" => "(3,2):(2,12)",
        |a| Ok(a.layout(0)?.complement(match a.values.get(1) { None => IntTuple::from(1), Some(v) => shape_of(v)? })?.into());
    "logical_divide" "(A, tiler)": "A split into tile and repetitions, by mode if the tiler is a tuple.",
        "logical_divide((4,2,3):(2,1,8),4:2)" => "((2,2),(2,3)):((4,1),(2,8))",
        |a| tiled(a, |layout, tiler| layout.logical_divide(tiler));
    "zipped_divide" "(A, tiler)": "The modes of the tiles in mode 0, those of the rest in mode 1.",
        "zipped_divide((8,8):(1,8),(4,2))" => "((4,2),(2,4)):((1,8),(4,16))",
        |a| tiled(a, |layout, tiler| layout.zipped_divide(tiler));
    "tiled_divide" "(A, tiler)": "zipped_divide with the rest flattened.",
        "tiled_divide((8,8):(1,8),(4,2))" => "((4,2),2,4):((1,8),4,16)",
        |a| tiled(a, |layout, tiler| layout.tiled_divide(tiler));
    "flat_divide" "(A, tiler)": "zipped_divide with both modes flattened.",
        "flat_divide((8,8):(1,8),(4,2))" => "(4,2,2,4):(1,8,4,16)",
        |a| tiled(a, |layout, tiler| layout.flat_divide(tiler));
    "logical_product" "(A, tiler)": "A repeated over the tiler: (A, repetitions).",
        "logical_product((2,2):(4,1),6)" => "((2,2),(2,3)):((4,1),(2,8))",
        |a| tiled(a, |layout, tiler| layout.logical_product(tiler));
    "zipped_product" "(A, tiler)": "The modes of the blocks in mode 0, those of the repetitions in mode 1.",
        "zipped_product((2,5):(5,1),(3,4))" => "((2,5),(3,4)):((5,1),(1,5))",
        |a| tiled(a, |layout, tiler| layout.zipped_product(tiler));
    "tiled_product" "(A, tiler)": "zipped_product with the repetitions flattened.",
        "tiled_product(4:1,(2,3):(3,1))" => "(4,2,3):(1,12,4)",
        |a| tiled(a, |layout, tiler| layout.tiled_product(tiler));
    "flat_product" "(A, tiler)": "zipped_product with both modes flattened.",
        "flat_product((2,5):(5,1),(3,4))" => "(2,5,3,4):(5,1,1,5)",
        |a| tiled(a, |layout, tiler| layout.flat_product(tiler));
    "blocked_product" "(A, B)": "A repeated over B with contiguous blocks: mode i is (A_i, B_i).",
        "blocked_product((2,5):(5,1),(3,4):(1,3))" => "((2,3),(5,4)):((5,10),(1,30))",
        |a| { let b = a.layout(1)?; inner(a, |layout| layout.blocked_product(&b)) };
    "raked_product" "(A, B)": "A repeated over B with the blocks interleaved: mode i is (B_i, A_i).",
        "raked_product((2,5):(5,1),(3,4):(1,3))" => "((3,2),(4,5)):((10,5),(30,1))",
        |a| { let b = a.layout(1)?; inner(a, |layout| layout.raked_product(&b)) };
    "tile_to_shape" "(block, shape[, order])": "The block repeated until it fills the shape.",
        "tile_to_shape((8,64):(64,1),(128,128),(1,0))" => "((8,16),(64,2)):((64,1024),(1,512))",
        |a| { let (shape, order) = (shape_of(a.value(1)?)?, a.values.get(2).map(Value::tuple).transpose()?);
              inner(a, |layout| layout.tile_to_shape(shape, order)) };
    "right_inverse" "(L)": "L(R(i)) = i for the longest run from 0 up.",
        "right_inverse((4,8):(8,1))" => "(8,4):(4,1)",
        |a| match a.value(0)? { Value::Composed(c) => Ok(c.right_inverse()?.into()), _ => Ok(a.layout(0)?.right_inverse()?.into()) };
    "left_inverse" "(L)": "R(L(i)) = i where L is injective.",
        "left_inverse(4:2)" => "(2,4):(4,1)",
        |a| match a.value(0)? { Value::Composed(c) => Ok(c.left_inverse()?.into()), _ => Ok(a.layout(0)?.left_inverse()?.into()) };
    "nullspace" "(L)": "The indices that L maps to 0 by its modes of stride 0.",
        "nullspace((4,2,8):(1,0,4))" => "2:4", |a| Ok(a.layout(0)?.nullspace()?.into());
    "max_common_layout" "(A, B)": "The longest layout over which both have the offsets 0, 1, 2, ...",
        "max_common_layout((4,8):(1,4),(4,8):(1,8))" => "4:1",
        |a| Ok(a.layout(0)?.max_common_layout(&a.layout(1)?)?.into());
    "max_common_vector" "(A, B)": "The size of max_common_layout: the widest vector of a copy.",
        "max_common_vector((4,8):(1,4),(4,8):(1,8))" => "4",
        |a| Ok(a.layout(0)?.max_common_vector(&a.layout(1)?)?.into());
    "upcast" "<n>(L)": "The layout of elements n times as wide.",
        "upcast<4>((4,8):(8,1))" => "(4,2):(2,1)", |a| recast(a, 1, a.number(0, 1)?);
    "downcast" "<n>(L)": "The layout of elements an n-th as wide.",
        "downcast<4>((4,2):(2,1))" => "(4,8):(8,1)", |a| recast(a, a.number(0, 1)?, 1);
    "recast" "<from bits, to bits>(L)": "The same bytes as elements of another width.",
        "recast<16,64>((4,8):(8,1))" => "(4,2):(2,1)", |a| recast(a, a.number(0, 1)?, a.number(1, 2)?);
    "Swizzle" "<B,M,S>": "The exclusive-or of B bits from bit M up with the B bits S above them.",
        "Swizzle<3,2,3>(32)" => "36", swizzle;
    "Sw" "<B,M,S>": "The same as Swizzle.", "Sw<3,2,3>" => "Swizzle<3,2,3>", swizzle;
    "S" "<B,M,S>": "The same as Swizzle.", "S<3,2,3>" => "Swizzle<3,2,3>", swizzle;
    "E" "<path>": "The unit stride along a mode of a coordinate.",
        "make_layout((2,3),(E<0>,E<1,1>))" => "(2,3):(1@0,1@1.1)",
        |a| Ok(Value::Strides(Tuple::Leaf(Stride::basis(a.path()?))));
    "group_modes" "<from, to>(L)": "The modes from..to gathered into one.",
        "group_modes<0,2>((2,3,4))" => "((2,3),4):((1,2),6)",
        |a| { let (from, to) = (a.mode_number(0, 1)?, a.mode_number(1, 2)?); inner(a, |layout| layout.group(from, to)) };
    "group" "(L, from, to)": "The same as group_modes.",
        "group((2,3,4),0,2)" => "((2,3),4):((1,2),6)",
        |a| { let (from, to) = (a.mode_number(0, 1)?, a.mode_number(1, 2)?); inner(a, |layout| layout.group(from, to)) };
    "take" "<from, to>(L)": "The modes from..to.",
        "take<1,3>((2,3,4))" => "(3,4):(2,6)",
        |a| { let (from, to) = (a.mode_number(0, 1)?, a.mode_number(1, 2)?); inner(a, |layout| layout.take(from, to)) };
    "select" "<modes>(L)": "The modes in the order given.",
        "select<2,0>((2,3,4))" => "(4,2):(6,1)",
        |a| { let order = a.path()?; inner(a, |layout| layout.select(&order)) };
    "append" "(L, mode)": "The layout with the mode appended.",
        "append((2,3):(1,2),1:0)" => "(2,3,1):(1,2,0)",
        |a| { let mode = a.layout(1)?; inner(a, |layout| Ok(layout.append(&mode))) };
    "prepend" "(L, mode)": "The layout with the mode prepended.",
        "prepend((2,3):(1,2),1:0)" => "(1,2,3):(0,1,2)",
        |a| { let mode = a.layout(1)?; inner(a, |layout| Ok(layout.prepend(&mode))) };
    "zip" "(L)": "The layout of layouts transposed.",
        "zip(((1,2),(3,4)):((5,6),(7,8)))" => "((1,3),(2,4)):((5,7),(6,8))", |a| inner(a, Layout::zip);
    "with_shape" "(L, shape)": "The same function over another shape of the same size.",
        "with_shape(24:2,(4,6))" => "(4,6):(2,8)",
        |a| { let shape = a.tuple(1)?; inner(a, |layout| layout.with_shape(shape)) };
    "slice" "(coordinate, x)": "The modes that the coordinate marks `_`.",
        "slice((_,2),(4,8):(1,4))" => "(4):(1)",
        |a| { let at = a.value(0)?.coordinate()?;
              match a.value(1)? { Value::Composed(c) => Ok(c.slice(&at)?.into()),
                                  v => Ok(as_given(v, v.layout()?.slice(&at)?.0)) } };
    "dice" "(coordinate, x)": "The modes that the coordinate does not mark `_`.",
        "dice((_,2),(4,8))" => "(8)",
        |a| { let v = a.value(1)?; Ok(as_given(v, v.layout()?.dice(&a.value(0)?.coordinate()?)?)) };
    "slice_and_offset" "(coordinate, L)": "The slice, seen from the offset of the rest of the coordinate.",
        "slice_and_offset((_,2),(4,8):(1,4))" => "8 o (4):(1)",
        |a| Ok(a.value(1)?.composed()?.slice(&a.value(0)?.coordinate()?)?.into());
    "local_tile" "(T, tiler, coordinate[, projection])": "The tile at a coordinate: the rest of zipped_divide sliced.",
        "local_tile((8,8):(1,8),(4,4),(1,0))" => "4 o (4,4):(1,8)",
        |a| { let (t, tiler, at) = (a.value(0)?.composed()?, a.value(1)?.tiler()?, a.value(2)?.coordinate()?);
              match a.values.get(3) { None => Ok(t.local_tile(tiler, &at)?.into()),
                                      Some(p) => Ok(t.local_tile_projected(tiler, &at, &p.coordinate()?)?.into()) } };
    "local_partition" "(T, thread layout, thread)": "A thread's elements: the tile of zipped_divide sliced.",
        "local_partition((4,4):(1,8),(2,2):(1,2),3)" => "9 o (2,2):(2,16)",
        |a| Ok(a.value(0)?.composed()?.local_partition(&a.layout(1)?, a.value(2)?.int()?)?.into());
    "tv" "(L, tile) or (mma, NAME, A|B|C|D|E) or (copy, NAME, source|target, bits)": "The thread-value layout: (thread, value) to an element of a tile.",
        "tv(mma SM80_16x8x16_F32F16F16F32_TN C)" => "((4,8),(2,2)):((32,1),(16,8))", thread_values;
    "scale_tile" "(block)": "The scales of 128 rows and four blocks of an MMA with scales: (row, element along k) to a byte.",
        "scale_tile(16)" => "((32,4),(16,4)):((16,4),(0,1))",
        |a| Ok(scale_tile(a.value(0)?.known()?)?.into());
    "make_tiled_copy" "(NAME, element bits, threads, values)": "The thread-value layout of a copy atom over threads and values.",
        "make_tiled_copy(UniversalCopy<128>, 32, (4,8):(1,4), (4,1):(1,0))" => "(32,4):(4,1)", tiled_copy;
    "make_tiled_mma" "(NAME, atoms, A|B|C|D)": "The thread-value layout of an operand of an MMA atom over warps.",
        "make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN, (2,2,1), C)" => "((4,8,2,2),((2,2),(1,1))):((64,1,16,256),((32,8),(0,0)))", tiled_mma;
}

fn thread_values(a: &Arguments) -> Result<Value, Error> {
    let words: Vec<&str> = a.words.iter().map(String::as_str).collect();
    let (thread_values, tile) = match words.as_slice() {
        ["mma", name, "E"] => {
            let atom = MmaAtom::named(name)?;
            let Some(metadata) = atom.metadata() else {
                return Err(Error::bad_argument("the operand of a dense MMA atom", "E", "A, B, C or D"));
            };
            (metadata.thread_values()?, IntTuple::from(metadata.tile()))
        }
        ["mma", name, operand_name] => {
            let operand = operand(operand_name)?;
            let atom = MmaAtom::named(name)?;
            (atom.thread_values(operand)?, IntTuple::from(atom.tile(operand)))
        }
        ["copy", name, side, ..] => {
            let bits = a.values.last().map_or(Ok(16), |value| value.known()).unwrap_or(16);
            let atom = CopyAtom::named(name, bits)?;
            let layout = match *side {
                "source" | "src" | "S" => atom.source(),
                "target" | "dst" | "D" => atom.target(),
                other => {
                    return Err(Error::bad_argument("the side of a copy atom", other, "source or target"));
                }
            };
            (layout.clone(), IntTuple::from((1, layout.cosize()?)))
        }
        _ => (a.layout(0)?, a.tuple(1)?),
    };
    Ok(Value::Ownership(Ownership { thread_values, tile }))
}

fn operand(name: &str) -> Result<Operand, Error> {
    match name {
        "A" => Ok(Operand::A),
        "B" => Ok(Operand::B),
        "C" => Ok(Operand::C),
        "D" => Ok(Operand::D),
        other => Err(Error::bad_argument("the operand of an MMA atom", other, "A, B, C or D")),
    }
}

fn tiled_mma(a: &Arguments) -> Result<Value, Error> {
    let [name, side] = a.words.as_slice() else { return Err(a.wrong_count()) };
    let (mma, operand) = (TiledMma::new(MmaAtom::named(name)?, &a.layout(1)?)?, operand(side)?);
    Ok(Value::Ownership(Ownership { thread_values: mma.thread_values(operand)?, tile: mma.tile(operand)? }))
}

fn tiled_copy(a: &Arguments) -> Result<Value, Error> {
    let name = a.words.first().ok_or_else(|| a.wrong_count())?;
    let atom = CopyAtom::named(name, a.value(1)?.known()?)?;
    let copy = TiledCopy::new(atom, &a.layout(2)?, &a.layout(3)?)?;
    Ok(Value::Ownership(Ownership { thread_values: copy.thread_values().clone(), tile: copy.tile().clone() }))
}

fn swizzle(a: &Arguments) -> Result<Value, Error> {
    let small = |position: usize| {
        let (from_values, at) = if a.parameters.is_empty() { (position, 0) } else { (0, position) };
        let number = match a.parameters.get(at) {
            Some(&number) => number,
            None => a.value(from_values)?.known()?,
        };
        i32::try_from(number).map_err(|_| Error::bad_argument("a swizzle parameter", number, "small"))
    };
    let count = |position: usize| {
        u32::try_from(small(position)?)
            .map_err(|_| Error::bad_argument("a swizzle's B or M", "negative", "0 or above"))
    };
    let swizzle = Swizzle::new(count(0)?, count(1)?, small(2)?)?;
    match (a.parameters.is_empty(), a.values.first()) {
        (false, Some(offset)) => Ok(swizzle.apply(offset.known()?).into()),
        _ => Ok(Value::Swizzle(swizzle)),
    }
}

fn recast(a: &Arguments, from: i64, to: i64) -> Result<Value, Error> {
    match a.value(0)? {
        Value::Swizzle(swizzle) => Ok(Value::Swizzle(match (from, to) {
            (1, up) => swizzle.upcast(up)?,
            (down, 1) => swizzle.downcast(down)?,
            _ if from >= to && from % to.max(1) == 0 => swizzle.downcast(from / to)?,
            _ => swizzle.upcast(to / from.max(1))?,
        })),
        Value::Composed(composed) => Ok(composed.recast(from, to)?.into()),
        other => Ok(other.layout()?.recast(from, to)?.into()),
    }
}

fn make_layout(a: &Arguments) -> Result<Value, Error> {
    let layouts = a.values.iter().any(|value| matches!(value, Value::Layout(_) | Value::Ownership(_)));
    if layouts {
        return Ok(
            Layout::of_modes(a.values.iter().map(Value::layout).collect::<Result<Vec<_>, _>>()?).into()
        );
    }
    if let Some(Value::Tiler(Tiler::Modes(modes))) = a.values.first() {
        let modes: Result<Vec<_>, _> = modes
            .iter()
            .map(|mode| match mode {
                Tiler::Layout(layout) => Ok(layout.clone()),
                _ => Err(a.values[0].is_not("layouts")),
            })
            .collect();
        return Ok(Layout::of_modes(modes?).into());
    }
    match a.values.len() {
        1 => Ok(Layout::column_major(a.tuple(0)?)?.into()),
        2 => Ok(Layout::new(a.tuple(0)?, a.value(1)?.strides()?)?.into()),
        _ => Err(a.wrong_count()),
    }
}

fn size_of_tuple(a: &Arguments) -> Result<Value, Error> {
    Ok(a.selected()?.tuple()?.product()?.into())
}

/// A part of a tuple is a tuple, a part of a layout a layout.
fn as_given(whole: &Value, part: Layout) -> Value {
    match whole {
        Value::Coordinate(_) => part.shape().clone().into(),
        _ => part.into(),
    }
}

fn shape_of(value: &Value) -> Result<IntTuple, Error> {
    match value {
        Value::Coordinate(_) => value.tuple(),
        other => Ok(other.composed()?.shape().clone()),
    }
}

/// A profile: a tuple whose leaves are ignored.
fn profile(value: &Value) -> Result<IntTuple, Error> {
    Ok(value.coordinate()?.map(&mut |_| Int::ONE))
}

fn coordinate_by_mode(index: &IntTuple, shape: &IntTuple) -> Result<IntTuple, Error> {
    match (index, shape) {
        (Tuple::Leaf(index), shape) => coordinate_of(index, shape),
        (Tuple::Node(indices), Tuple::Node(extents)) if indices.len() == extents.len() => {
            let pairs = indices.iter().zip(extents);
            Ok(Tuple::Node(
                pairs.map(|(index, extent)| coordinate_by_mode(index, extent)).collect::<Result<_, _>>()?,
            ))
        }
        _ => Err(Error::BadCoordinate { coordinate: index.to_string(), shape: shape.to_string() }),
    }
}

fn coordinate_by_stride(index: &Int, shape: &IntTuple, stride: &IntTuple) -> Result<IntTuple, Error> {
    match (shape, stride) {
        (Tuple::Leaf(extent), Tuple::Leaf(stride)) => {
            Ok(Tuple::Leaf(index.divided_by(stride)?.modulo(extent)?))
        }
        (Tuple::Node(extents), Tuple::Node(strides)) if extents.len() == strides.len() => {
            let pairs = extents.iter().zip(strides);
            let parts = pairs.map(|(extent, stride)| coordinate_by_stride(index, extent, stride));
            Ok(Tuple::Node(parts.collect::<Result<_, _>>()?))
        }
        _ => Err(Error::Incongruent { shape: shape.to_string(), stride: stride.to_string() }),
    }
}

fn ceil_divide(a: &IntTuple, b: &IntTuple) -> Result<IntTuple, Error> {
    match (a, b) {
        (Tuple::Leaf(a), Tuple::Leaf(b)) => Ok(Tuple::Leaf(a.ceil_divided_by(b)?)),
        (Tuple::Node(a), Tuple::Node(b)) if b.len() <= a.len() => {
            let mut quotient = a.clone();
            for (mode, divisor) in quotient.iter_mut().zip(b) {
                *mode = ceil_divide(mode, divisor)?;
            }
            Ok(Tuple::Node(quotient))
        }
        _ => Err(Error::Incongruent { shape: a.to_string(), stride: b.to_string() }),
    }
}

fn shape_divide(a: &IntTuple, b: &IntTuple) -> Result<IntTuple, Error> {
    match (a, b) {
        (Tuple::Leaf(a), Tuple::Leaf(b)) => {
            if a.divisible_by(b) == Some(true) || b.divisible_by(a) == Some(true) {
                return Ok(Tuple::Leaf(a.ceil_divided_by(b)?));
            }
            Err(Error::bad_argument("the divisor of shape_div", b, format!("a divisor or a multiple of {a}")))
        }
        (Tuple::Leaf(_), Tuple::Node(_)) => shape_divide(a, &Tuple::Leaf(b.product()?)),
        (Tuple::Node(modes), Tuple::Leaf(divisor)) => {
            let mut rest = divisor.clone();
            let mut quotient = Vec::new();
            for mode in modes {
                quotient.push(shape_divide(mode, &Tuple::Leaf(rest.clone()))?);
                rest = shape_divide(&Tuple::Leaf(rest), &Tuple::Leaf(mode.product()?))?.product()?;
            }
            Ok(Tuple::Node(quotient))
        }
        (Tuple::Node(modes), Tuple::Node(divisors)) if modes.len() == divisors.len() => {
            let pairs = modes.iter().zip(divisors);
            Ok(Tuple::Node(
                pairs.map(|(mode, divisor)| shape_divide(mode, divisor)).collect::<Result<_, _>>()?,
            ))
        }
        _ => Err(Error::Incongruent { shape: a.to_string(), stride: b.to_string() }),
    }
}
