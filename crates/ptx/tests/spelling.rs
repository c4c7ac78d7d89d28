//! The rows of the instruction table as text: programs with an instruction of each spelling.

use warpwright_arch::instructions::{Address, AddressWidth, Availability, Kind, Operand, Scalar, Signature};
use warpwright_arch::{Features, Target};

/// Spellings tried of one row: all of most rows, a spread of those with many.
pub(crate) const SPELLINGS: usize = 48;

/// The first PTX version that knows a target.
pub(crate) fn version_of(target: &str) -> (u32, u32) {
    let known = Target::parse(target).and_then(Target::ptx_version);
    known.unwrap_or_else(|| panic!("no version for {target}"))
}

/// The targets that a spelling must assemble for: the first that has it, or all that it is tied to.
pub(crate) fn targets(availability: &Availability) -> Vec<String> {
    if !availability.only_on.is_empty() {
        return availability.only_on.iter().map(|target| (*target).to_owned()).collect();
    }
    let has_it = |target: &Target| {
        target.features == Features::Baseline && target.number >= availability.since.sm.max(50)
    };
    Target::all().filter(has_it).take(1).map(|target| target.to_string()).collect()
}

/// The oldest PTX version in which a target has a spelling.
pub(crate) fn oldest_version(availability: &Availability, target: &str) -> (u32, u32) {
    availability.since.ptx_version.max(version_of(target))
}

/// Names operands by class, a different register each time.
#[derive(Default)]
struct Registers {
    next: u32,
}

impl Registers {
    fn name(&mut self, bits: u32) -> String {
        self.next += 1;
        let (prefix, count) = match bits {
            1 => ("%p", 8),
            8 => ("%rb", 8),
            16 => ("%rs", 64),
            32 => ("%r", 512),
            64 => ("%rd", 64),
            _ => ("%rq", 8),
        };
        format!("{prefix}{}", self.next % count)
    }

    /// Counts a literal as an operand too.
    fn literal(&mut self, name: &str) -> String {
        self.next += 1;
        literal_for(name, self.next - 1).to_owned()
    }

    fn scalar(&mut self, scalar: &Scalar, name: &str, literals: bool) -> String {
        match scalar {
            Scalar { literal: true, kind: Kind::Float, bits: 64, .. } if literals => {
                "0d3FF0000000000000".to_owned()
            }
            Scalar { literal: true, kind: Kind::Float, .. } if literals => "0f3F800000".to_owned(),
            Scalar { literal: true, .. } if literals => self.literal(name),
            Scalar { negatable: true, .. } if literals => format!("!{}", self.name(1)),
            Scalar { sink: true, .. } if literals => "_".to_owned(),
            Scalar { or_wider: true, bits, .. } if literals => self.name((bits * 2).clamp(32, 64).max(*bits)),
            scalar => self.name(scalar.bits),
        }
    }

    fn operand(&mut self, operand: &Operand, name: &str, literals: bool) -> String {
        match operand {
            Operand::Scalar(scalar) => self.scalar(scalar, name, literals),
            Operand::Pair { first, optional: true, .. } if literals => self.scalar(first, name, literals),
            Operand::Pair { first, second, .. } => {
                format!("{}|{}", self.scalar(first, name, literals), self.scalar(second, name, literals))
            }
            Operand::Vector { element, count } => {
                // Not all elements may be `_`.
                let elements: Vec<String> = (0..*count)
                    .map(|index| self.scalar(element, name, literals && (index == 0 || !element.sink)))
                    .collect();
                format!("{{{}}}", elements.join(", "))
            }
            Operand::Address(Address { coordinates: 0, width }) => {
                let is_narrow = match width {
                    AddressWidth::Narrow => true,
                    AddressWidth::Either => literals && !name.contains("global"),
                    AddressWidth::Wide => false,
                };
                format!("[{}]", self.name(if is_narrow { 32 } else { 64 }))
            }
            Operand::Address(Address { coordinates, .. }) => {
                let each: Vec<String> = (0..*coordinates).map(|_| self.name(32)).collect();
                format!("[{}, {{{}}}]", self.name(64), each.join(", "))
            }
            Operand::Literal => self.literal(name),
            Operand::Symbol if name.ends_with("32") => "%tid.x".to_owned(),
            Operand::Symbol => {
                let spaces = ["global", "local", "const"];
                let space = spaces.into_iter().find(|space| name.contains(space)).unwrap_or("shared");
                format!("{space}_array")
            }
            Operand::Sink => "_".to_owned(),
        }
    }
}

/// A literal that the instruction can have as its operand after `before` others: most take 1, some
/// want a size.
fn literal_for(name: &str, before: u32) -> &'static str {
    match name.split('.').next() {
        Some("cp") if !name.contains("wait_group") => "16",
        Some("discard" | "applypriority" | "fence") => "128",
        Some("tensormap") if name.contains("cp_fenceproxy") => "128",
        Some("bar" | "barrier") if before > u32::from(name.contains(".red.")) => "32",
        Some("setmaxnreg") => "24",
        Some("tcgen05") if name.contains("alloc") => "32",
        Some("mma") => "0",
        Some("st") => "0",
        _ => "1",
    }
}

pub(crate) fn instruction(name: &str, signature: &Signature, literals: bool) -> String {
    let mut registers = Registers::default();
    let count = if literals { signature.required } else { signature.operands.len() };
    // 8-bit elements of a sparse wgmma have but one sparsity selector, which is the fifth operand.
    let one_selector = name.starts_with("wgmma.mma_async.sp") && name.contains("k64.");
    let operands: Vec<String> = signature.operands[..count]
        .iter()
        .enumerate()
        .map(|(index, operand)| match operand {
            Operand::Literal if one_selector && index == 4 => "0".to_owned(),
            operand => registers.operand(operand, name, literals),
        })
        .collect();
    format!("{name} {};", operands.join(", "))
}

pub(crate) fn program(target: &str, version: (u32, u32), lines: &[String]) -> String {
    let has_quads = Target::parse(target).is_none_or(|target| target.number >= 70);
    let header = format!(
        ".version {}.{}\n.target {target}\n.address_size 64\n.global .b64 global_array[8]; .const .b64 const_array[8]; .visible .entry all() {{ \
         .reg .pred %p<8>; .reg .b8 %rb<8>; .reg .b16 %rs<64>; .reg .b32 %r<512>; .reg .b64 %rd<64>; \
         .reg .f32 %f<8>; .reg .f64 %fd<8>; .reg .u32 %u<8>; .reg .s32 %s<8>; .reg .f16 %h<8>; {} \
         .shared .b64 shared_array[8]; .local .b64 local_array[8];\n",
        version.0,
        version.1,
        if version >= (8, 3) && has_quads { ".reg .b128 %rq<8>;" } else { "" },
    );
    format!("{header}{}\nret; }}\n", lines.join("\n"))
}
