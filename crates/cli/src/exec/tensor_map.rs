//! The `tensor_map` argument of a launch file, in the driver's own order: the contiguous axis
//! first.

use warpwright_arch::DataType;
use warpwright_arch::tensor_map::{Access, Description, ElementType, Fill, Interleave, L2Promotion, Swizzle};

use super::json::{Complaint, Node};
use crate::dtype::Dtype;

type Result<T> = std::result::Result<T, Complaint>;

const FIELDS: &[&str] = &[
    "buffer",
    "offset_bytes",
    "dtype",
    "dims",
    "strides_bytes",
    "box",
    "im2col",
    "element_strides",
    "swizzle",
    "interleave",
    "l2_promotion",
    "oob_fill",
];

const SWIZZLES: [(&str, Swizzle); 7] = [
    ("none", Swizzle::None),
    ("32B", Swizzle::Bytes32),
    ("64B", Swizzle::Bytes64),
    ("128B", Swizzle::Bytes128),
    ("128B_atom_32B", Swizzle::Bytes128Atom32),
    ("128B_atom_32B_flip_8B", Swizzle::Bytes128Atom32Flip8),
    ("128B_atom_64B", Swizzle::Bytes128Atom64),
];
const INTERLEAVES: [(&str, Interleave); 3] =
    [("none", Interleave::None), ("16B", Interleave::Bytes16), ("32B", Interleave::Bytes32)];
const PROMOTIONS: [(&str, L2Promotion); 4] = [
    ("none", L2Promotion::None),
    ("64B", L2Promotion::Bytes64),
    ("128B", L2Promotion::Bytes128),
    ("256B", L2Promotion::Bytes256),
];
const FILLS: [(&str, Fill); 2] = [("zero", Fill::Zeros), ("nan", Fill::Nan)];

/// Reads and checks a tensor map that stands alone.
pub(crate) fn parse_value(value: &serde_json::Value) -> Result<Description> {
    parse(&Node::root(value))
}

/// Reads and checks a tensor map.
pub(super) fn parse(node: &Node<'_>) -> Result<Description> {
    node.object(FIELDS)?;
    let extents = list(&node.field("dims")?, |item| item.unsigned())?;
    let element = element(&node.field("dtype")?)?;
    let mut description = Description {
        address: match node.optional("offset_bytes") {
            Some(offset) => offset.unsigned()?,
            None => 0,
        },
        element_strides: match node.optional("element_strides") {
            Some(steps) => list(&steps, |item| item.unsigned_32())?,
            None => vec![1; extents.len()],
        },
        access: access(node)?,
        swizzle: choice(node, "swizzle", &SWIZZLES)?,
        interleave: choice(node, "interleave", &INTERLEAVES)?,
        l2_promotion: choice(node, "l2_promotion", &PROMOTIONS)?,
        fill: choice(node, "oob_fill", &FILLS)?,
        ..Description::row_major(element, 0, &extents.iter().rev().copied().collect::<Vec<_>>(), &[])
    };
    if let Some(strides) = node.optional("strides_bytes") {
        description.strides = list(&strides, |item| item.unsigned())?;
        // The stride of the last axis may be given too; nothing lies beyond it.
        if description.strides.len() == description.rank() && description.rank() > 0 {
            description.strides.pop();
        }
    }
    description.check().map_err(|error| node.complain(error.to_string()))?;
    Ok(description)
}

fn list<T>(node: &Node<'_>, item: impl Fn(&Node<'_>) -> Result<T>) -> Result<Vec<T>> {
    node.items()?.iter().map(item).collect()
}

/// The value of a field that names one of a few; the first of them where the field is absent.
fn choice<T: Copy>(node: &Node<'_>, field: &str, choices: &[(&str, T)]) -> Result<T> {
    let Some(node) = node.optional(field) else { return Ok(choices[0].1) };
    let name = node.string()?;
    let found = choices.iter().find(|(choice, _)| choice.eq_ignore_ascii_case(name));
    found.map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<_> = choices.iter().map(|(choice, _)| *choice).collect();
        node.complain(format!("unknown value `{name}`; expected one of {}", known.join(", ")))
    })
}

fn element(node: &Node<'_>) -> Result<ElementType> {
    let name = node.string()?;
    let own = ElementType::ALL.into_iter().find(|element| element.name() == name);
    let of_dtype = || Dtype::named(name).and_then(|dtype| element_of(dtype.data_type));
    own.or_else(of_dtype).ok_or_else(|| {
        let known: Vec<_> = ElementType::ALL.iter().map(|element| element.name()).collect();
        node.complain(format!(
            "a tensor map has no element type `{name}`; expected one of {}",
            known.join(", ")
        ))
    })
}

/// The type that a tensor map moves the elements of a data type as.
fn element_of(data_type: DataType) -> Option<ElementType> {
    Some(match data_type {
        DataType::U8 | DataType::S8 | DataType::E4m3 | DataType::E5m2 => ElementType::U8,
        DataType::U16 | DataType::S16 => ElementType::U16,
        DataType::U32 => ElementType::U32,
        DataType::S32 => ElementType::S32,
        DataType::U64 => ElementType::U64,
        DataType::S64 => ElementType::S64,
        DataType::F16 => ElementType::F16,
        DataType::Bf16 => ElementType::Bf16,
        DataType::Tf32 => ElementType::Tf32,
        DataType::F32 => ElementType::F32,
        DataType::F64 => ElementType::F64,
        _ => return None,
    })
}

fn access(node: &Node<'_>) -> Result<Access> {
    let Some(im2col) = node.optional("im2col") else {
        return Ok(Access::Tiled { box_extents: list(&node.field("box")?, |item| item.unsigned_32())? });
    };
    im2col.object(&["lower", "upper", "channels", "pixels"])?;
    let corner = |field| list(&im2col.field(field)?, signed);
    Ok(Access::Im2col {
        lower: corner("lower")?,
        upper: corner("upper")?,
        channels: im2col.field("channels")?.unsigned_32()?,
        pixels: im2col.field("pixels")?.unsigned_32()?,
    })
}

fn signed(node: &Node<'_>) -> Result<i32> {
    let number = node.value().as_i64().and_then(|number| i32::try_from(number).ok());
    number.ok_or_else(|| node.complain(format!("expected an integer, not {}", node.describe())))
}
