//! Arrays, as a kernel allocates or takes them.

use std::borrow::Cow;

use warpwright_ir::Location;

/// An array in shared or local memory, as the author allocated it, or a kernel's parameter in global
/// memory.
#[derive(Clone, Debug)]
pub(crate) struct Allocation {
    /// The call, `shared_array::<f32>(64)`, or the parameter's name.
    pub(crate) call: Cow<'static, str>,
    /// Its first byte, from its base register.
    pub(crate) start: i64,
    /// Its size; `None` for a parameter, whose base is aligned for every access.
    pub(crate) bytes: Option<i64>,
    pub(crate) element_bytes: i64,
    pub(crate) location: Location,
}

/// What an instruction accesses at an address.
pub(crate) struct Accessed {
    pub(crate) bytes: i64,
    /// The address is a multiple of this.
    pub(crate) align: i64,
}

impl Allocation {
    /// Why this cannot be accessed at `offset` from the base register, if it cannot.
    pub(crate) fn mistake(&self, offset: i64, accessed: Accessed) -> Option<String> {
        let Self { call, start, element_bytes, .. } = self;
        let Accessed { bytes, align } = accessed;
        let at = offset - start;
        if let Some(size) = self.bytes.filter(|size| at < 0 || at + bytes > *size) {
            let elements = size / element_bytes;
            let (first, last) = (at.div_euclid(*element_bytes), (at + bytes - 1).div_euclid(*element_bytes));
            let range = if first == last {
                format!("element {first}")
            } else {
                format!("elements {first} to {last}")
            };
            let held = match elements {
                0 => "no elements".to_owned(),
                1 => "element 0 only".to_owned(),
                _ => format!("elements 0 to {}", elements - 1),
            };
            return Some(format!("this accesses {range} of `{call}`, which has {held}"));
        }
        (offset % align != 0).then(|| {
            format!(
                "this accesses {bytes} bytes at byte {at} of `{call}`: the address of such an access is a multiple of {align}"
            )
        })
    }

    /// The note that names its position.
    pub(crate) fn note(&self) -> (Location, String) {
        let made = if self.bytes.is_some() { "allocated" } else { "declared" };
        (self.location, format!("it is {made} here"))
    }
}
