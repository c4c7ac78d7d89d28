//! Names of addresses, from the kernel's text and its arguments: the element of a tile at an
//! address.
//!
//! The language writes the contents of shared memory and their layouts into its PTX
//! ([`MemoryObject`]). In other PTX, addresses are named by variables and parameters.

use warpwright_events::{AddressName, AddressNames, Inlining, Label, MemoryArray, MemorySpace, split_shared};
use warpwright_layout::ComposedLayout;
use warpwright_ptx::syntax::MemoryObject;

use crate::kernel::image::{Kernel, KernelParameter, SharedVariable, source};
use crate::launch::context::LaunchContext;
use crate::memory::Region;
use crate::tensor_map::Encoded;

/// Maximum number of objects named for one address; tiles may share memory.
const MOST_OBJECTS: usize = 2;

/// The addresses that are taken for negative ones.
const MOST_BEFORE: u32 = 1 << 20;

/// Elements of a layout that is searched for an address.
const MOST_ELEMENTS: i64 = 1 << 21;

/// The last word of the language's name for the elements of an array of mbarriers.
const MBARRIER: &str = "mbarrier";

impl AddressNames for LaunchContext<'_> {
    fn name(&self, space: MemorySpace, address: u64) -> AddressName {
        match space {
            MemorySpace::Shared => match before_window(address) {
                Some(bytes) => self.name_before_shared(address, bytes),
                None => self.shared_name(split_shared(address).1),
            },
            MemorySpace::Global => {
                let name = self.memory.nearest(address).and_then(|region| self.global_name(region, address));
                let note = name.map(|name| format!("global address {address:#x} {name}"));
                AddressName { labels: Vec::new(), note }
            }
            MemorySpace::Local | MemorySpace::Tensor => AddressName::default(),
        }
    }

    fn elements(&self, first: u64, end: u64) -> Option<String> {
        let region = self.memory.nearest(first).filter(|region| end <= region.end())?;
        let Pointer { start, parameter, element } = self.pointer_into(region, first)?;
        let bytes = element?;
        let (first, last) = ((first - start) / bytes, (end - 1 - start) / bytes);
        let which =
            if first == last { format!("element {first}") } else { format!("elements {first} to {last}") };
        Some(format!("{which} of `{}`", parameter.name))
    }

    fn outside(&self, array: &MemoryArray, address: u64) -> AddressName {
        let text = |what: &str| match before_window(address) {
            Some(bytes) => {
                format!("shared address {address:#x} is {} bytes before {what}", bytes + array.start)
            }
            None => {
                let (_, offset) = split_shared(address);
                format!("shared address {offset:#x} is {} {what}", array.distance(offset))
            }
        };
        let objects = self.kernel.shared_objects().filter(|placed| placed.start == array.start);
        match objects.max_by_key(Placed::is_array) {
            Some(placed) => {
                let label = placed.label(self.kernel, text(&placed.name()));
                AddressName { labels: vec![label], note: None }
            }
            None => AddressName {
                labels: Vec::new(),
                note: Some(text(&format!("the array `{}`", array.variable))),
            },
        }
    }
}

/// How many bytes before shared memory an address is that a negative index has made.
fn before_window(address: u64) -> Option<u64> {
    (u64::from(u32::MAX - MOST_BEFORE)..=u64::from(u32::MAX))
        .contains(&address)
        .then(|| u64::from(u32::MAX) + 1 - address)
}

/// A parameter that points into a buffer.
struct Pointer<'k> {
    start: u64,
    parameter: &'k KernelParameter,
    /// The size of the element that it points to, if the kernel's text names it.
    element: Option<u64>,
}

impl LaunchContext<'_> {
    fn name_before_shared(&self, address: u64, bytes: u64) -> AddressName {
        let first = self.kernel.shared_objects().min_by_key(|placed| placed.start);
        let label = first.map(|placed| {
            let bytes = bytes + placed.start;
            let text = format!("shared address {address:#x} is {bytes} bytes before {}", placed.name());
            placed.label(self.kernel, text)
        });
        AddressName { labels: label.into_iter().collect(), note: None }
    }

    fn shared_name(&self, address: u64) -> AddressName {
        let kernel = self.kernel;
        if address >= u64::from(self.shared_bytes) {
            let objects = kernel.shared_objects().filter_map(|placed| Some((placed.end()?, placed)));
            let past = objects.filter(|(end, _)| *end <= address).max_by_key(|(end, _)| *end);
            let label = |(end, placed): (u64, Placed<'_>)| {
                let (bytes, what) = (address - end, placed.name());
                let far = if bytes == 0 { "right past".to_owned() } else { format!("{bytes} bytes past") };
                placed.label(kernel, format!("shared address {address:#x} is {far} the end of {what}"))
            };
            return AddressName { labels: past.map(label).into_iter().collect(), note: None };
        }
        let mut tiles = Vec::new();
        let mut array = None;
        for placed in kernel.shared_objects() {
            if let Some(element) = placed.element_at(address) {
                let label = placed.label(kernel, format!("shared address {address:#x} is {element}"));
                if placed.is_array() {
                    array.get_or_insert(label);
                } else {
                    tiles.push(label)
                };
            }
        }
        if tiles.is_empty() {
            tiles.extend(array);
        }
        if !tiles.is_empty() {
            tiles.truncate(MOST_OBJECTS);
            return AddressName { labels: tiles, note: None };
        }
        let named = |variable: &&SharedVariable| {
            let start = u64::from(variable.offset);
            (start..start + variable.bytes.unwrap_or(u64::MAX - start)).contains(&address)
        };
        let note = kernel.shared.iter().find(named).map(|variable| {
            let past = address - u64::from(variable.offset);
            format!("shared address {address:#x} is `{}`+{past:#x}", variable.name)
        });
        AddressName { labels: Vec::new(), note }
    }

    /// The element of an argument or a variable at an address, in a region or past it by at most
    /// the region's size.
    fn global_name(&self, region: &Region, address: u64) -> Option<String> {
        let is_inside = address < region.end();
        if address - region.base > 2 * region.size {
            return None;
        }
        let is = if is_inside { "is" } else { "would be" };
        let parameters = || self.kernel.parameters.iter();
        if let Some(name) = parameters().find_map(|parameter| self.mapped_element(parameter, address)) {
            return Some(format!("is {name}"));
        }
        let Some(Pointer { start, parameter, element }) = self.pointer_into(region, address) else {
            let name = region.name.as_ref()?;
            return Some(format!("{is} `{name}`+{:#x}", address - region.base));
        };
        let (name, past) = (&parameter.name, address - start);
        let Some(element) = element else {
            let name = if past == 0 {
                format!("where `{name}` points")
            } else {
                format!("{past} bytes past where `{name}` points")
            };
            return Some(format!("{is} {name}"));
        };
        let (index, byte, count) = (past / element, past % element, (region.end() - start) / element);
        let is = if index < count { "is" } else { "would be" };
        let place = if byte == 0 { String::new() } else { format!(", at byte {byte}") };
        let inside = if byte == 0 { "" } else { "in " };
        let length = match count {
            _ if index < count => String::new(),
            0 => ", which has no elements".to_owned(),
            1 => ", which has 1 element".to_owned(),
            _ => format!(", which has {count} elements"),
        };
        Some(format!("{is} {inside}element {index} of `{name}`{place}{length}"))
    }

    /// Of the parameters that point into a buffer, the one that points closest before an address.
    fn pointer_into(&self, region: &Region, address: u64) -> Option<Pointer<'_>> {
        let pointer = |parameter: &KernelParameter| {
            let value = self.parameter(parameter.offset, 8, false);
            let is_here = value == region.base || (region.base..region.end()).contains(&value);
            (parameter.size == 8 && is_here && value <= address).then_some(value)
        };
        let parameters = self.kernel.parameters.iter();
        let pointers = parameters.filter_map(|parameter| Some((pointer(parameter)?, parameter)));
        let (start, parameter) = pointers.rev().max_by_key(|(start, _)| *start)?;
        let mut objects = self.kernel.objects.iter();
        let object = objects.find(|object| object.symbol == parameter.name && object.layout.is_none());
        let element = object.map(|object| u64::from(object.element_bits / 8)).filter(|bytes| *bytes > 0);
        Some(Pointer { start, parameter, element })
    }

    /// Which element an address is of the tensor that a parameter maps.
    fn mapped_element(&self, parameter: &KernelParameter, address: u64) -> Option<String> {
        let (start, end) = (parameter.offset as usize, (parameter.offset + parameter.size) as usize);
        let encoded = Encoded(self.parameters.get(start..end)?.try_into().ok()?);
        let map = encoded.is_map().then(|| encoded.decode().ok())??;
        let mut past = address.checked_sub(map.address)?;
        let mut coordinate = Vec::new();
        for &stride in map.strides.iter().rev() {
            coordinate.push(past.checked_div(stride)?);
            past %= stride;
        }
        coordinate.push((8 * past).checked_div(map.element.bits().into())?);
        coordinate.reverse();
        let is_inside = coordinate.iter().zip(&map.extents).all(|(at, extent)| at < extent);
        let coordinate: Vec<String> = coordinate.iter().map(u64::to_string).collect();
        let (coordinate, name) = (coordinate.join(", "), &parameter.name);
        is_inside.then(|| {
            format!("element ({coordinate}) of the tensor that `{name}` maps, in the order of its copies' coordinates")
        })
    }
}

impl Kernel {
    /// The description of shared memory in the kernel's text.
    fn shared_objects(&self) -> impl Iterator<Item = Placed<'_>> {
        self.objects.iter().filter_map(|object| {
            let variable = self.shared.iter().find(|variable| variable.name == object.symbol)?;
            let start = u64::from(variable.offset).checked_add(object.offset)?;
            Placed::new(object, variable, start)
        })
    }
}

/// An object and its offset.
struct Placed<'k> {
    object: &'k MemoryObject,
    variable: &'k SharedVariable,
    start: u64,
    layout: ComposedLayout,
    /// The number of coordinates along each mode.
    extents: Vec<i64>,
}

impl<'k> Placed<'k> {
    fn new(object: &'k MemoryObject, variable: &'k SharedVariable, start: u64) -> Option<Self> {
        let layout: ComposedLayout = object.layout.as_ref()?.parse().ok()?;
        let sizes = layout.inner().modes().into_iter().map(|mode| mode.size().ok()?.known());
        let extents: Vec<i64> = sizes.collect::<Option<_>>()?;
        let elements = extents.iter().try_fold(1i64, |product, &extent| product.checked_mul(extent))?;
        let is_plausible = (1..=MOST_ELEMENTS).contains(&elements) && object.element_bits > 0;
        is_plausible.then_some(Self { object, variable, start, layout, extents })
    }

    /// Whether it is one element after another.
    fn is_array(&self) -> bool {
        self.extents.len() == 1 && !self.object.is_staged
    }

    /// The end of its last element.
    fn end(&self) -> Option<u64> {
        let elements = u64::try_from(self.layout.cosize().ok()?.known()?).ok()?;
        self.start.checked_add((elements.checked_mul(self.object.element_bits.into())?).div_ceil(8))
    }

    /// `this array of u32`
    fn name(&self) -> String {
        let element = &self.object.element;
        match self.extents.as_slice() {
            [1] => format!("this {element}"),
            &[count] if element.ends_with(MBARRIER) => format!("these {count} {element}s"),
            [_] => format!("this array of {element}"),
            _ if self.object.is_staged => format!("these tiles of {element}"),
            _ => format!("this tensor of {element}"),
        }
    }

    /// The element at an address: `element (3, 16) of stage 1 of these tiles of bf16`.
    fn element_at(&self, address: u64) -> Option<String> {
        let bits = u64::from(self.object.element_bits);
        let past = address.checked_sub(self.start)?.checked_mul(8)?;
        let (wanted, byte) = (i64::try_from(past / bits).ok()?, past % bits / 8);
        let mut index = self.layout.offsets().ok()?.iter().position(|&offset| offset == wanted)? as i64;
        let mut coordinate = Vec::new();
        for extent in &self.extents {
            coordinate.push((index % extent).to_string());
            index /= extent;
        }
        let stage = if self.object.is_staged { coordinate.pop() } else { None };
        let stage = stage.map_or_else(String::new, |stage| format!("stage {stage} of "));
        let inside = if byte > 0 { format!("byte {byte} of ") } else { String::new() };
        let name = self.name();
        Some(match coordinate.as_slice() {
            [_] if self.extents == [1] => format!("{inside}{name}"),
            [index] if self.object.element.ends_with(MBARRIER) => format!("{inside}number {index} of {name}"),
            [index] => format!("{inside}element {index} of {stage}{name}"),
            _ => format!("{inside}element ({}) of {stage}{name}", coordinate.join(", ")),
        })
    }

    /// The label of the object where the author allocates it.
    fn label(&self, kernel: &Kernel, text: String) -> Label {
        Label {
            source: self.object.location.map(|location| source(&kernel.files, location)),
            inlining: Inlining::default(),
            ptx_line: self.variable.line,
            ptx_text: self.variable.text.clone(),
            text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(layout: &str, element: &str, element_bits: u32, is_staged: bool) -> MemoryObject {
        MemoryObject {
            symbol: "tile".to_owned(),
            offset: 0,
            element: element.to_owned(),
            element_bits,
            layout: Some(layout.to_owned()),
            is_staged,
            location: None,
        }
    }

    fn element_name(object: &MemoryObject, start: u64, address: u64) -> Option<String> {
        let variable = SharedVariable {
            name: "tile".to_owned(),
            offset: 0,
            bytes: None,
            line: 1,
            text: ".shared .b8 tile[4096];".to_owned(),
        };
        Placed::new(object, &variable, start)?.element_at(address)
    }

    #[test]
    fn every_coordinate_of_a_swizzled_ring_is_found_at_its_address() {
        let text = "Swizzle<3,3,3> o 0 o ((8,2),64,3):((64,512),1,1024)";
        let layout: ComposedLayout = text.parse().unwrap();
        let object = object(text, "bf16", 16, true);
        for (row, column, slot) in (0..16i64)
            .flat_map(|row| (0..64i64).map(move |column| (row, column)))
            .flat_map(|(row, column)| (0..3i64).map(move |slot| (row, column, slot)))
        {
            let offset = layout.index(&(row, column, slot).into()).unwrap().known().unwrap();
            let expected = format!("element ({row}, {column}) of stage {slot} of these tiles of bf16");
            assert_eq!(element_name(&object, 0x400, 0x400 + 2 * offset as u64), Some(expected));
        }
        assert_eq!(element_name(&object, 0x400, 0x3fe), None);
        assert_eq!(element_name(&object, 0x400, 0x400 + 6 * 1024), None);
    }

    #[test]
    fn arrays_parts_of_elements_and_gaps_are_told_apart() {
        let array = object("(64):(1)", "u32", 32, false);
        assert_eq!(element_name(&array, 0, 0x80).unwrap(), "element 32 of this array of u32");
        assert_eq!(element_name(&array, 0, 0x82).unwrap(), "byte 2 of element 32 of this array of u32");
        assert_eq!(element_name(&array, 0, 0x100), None);
        let padded = object("(4,4):(5,1)", "f32", 32, false);
        assert_eq!(element_name(&padded, 0, 20).unwrap(), "element (1, 0) of this tensor of f32");
        assert_eq!(element_name(&padded, 0, 16), None, "the padding has no element");
        let repeated = object("(2,4):(0,1)", "f32", 32, false);
        assert_eq!(
            element_name(&repeated, 0, 4).unwrap(),
            "element (0, 1) of this tensor of f32",
            "the first of several"
        );
        let packed = object("(8,2):(1,8)", "e2m1", 4, false);
        assert_eq!(element_name(&packed, 0, 5).unwrap(), "element (2, 1) of this tensor of e2m1");
        assert_eq!(element_name(&object("(1):(1)", "mbarrier", 64, false), 8, 8).unwrap(), "this mbarrier");
        let full = object("(4):(1)", "`full` mbarrier", 64, false);
        assert_eq!(element_name(&full, 8, 24).unwrap(), "number 2 of these 4 `full` mbarriers");
    }

    #[test]
    fn what_a_comment_makes_up_is_not_believed() {
        for layout in ["(99999999999):(1)", "(2):(m)", "tile", "(0):(1)"] {
            assert_eq!(element_name(&object(layout, "u32", 32, false), 0, 0), None, "{layout}");
        }
        assert_eq!(element_name(&object("(4):(1)", "u32", 0, false), 0, 0), None);
    }
}
