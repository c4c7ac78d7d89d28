//! How closely the emulator must follow the GPU, family by family.

use half::{bf16, f16};
use warpwright_arch::DataType;
use warpwright_arch::mma::Types;
use warpwright_emulator::tensor::multiply::Multiply;
use warpwright_emulator::tensor::{Column, Order, Shape};

use crate::golden::case::{Buffer, Case};

/// What counts as the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Agreement {
    /// The same bits.
    Exact,
    /// An approximate function: the GPU's result and ours each within the documented error, so
    /// within twice that.
    Near { relative: f64, absolute: f64 },
    /// A sum of products in f32: within the error of adding them one by one.
    DotProduct,
}

/// Twice the error that the PTX ISA documents for the approximate functions, by the start of their
/// names. An absolute error is given where it documents one. The gross approximations of f64 give
/// 20 bits.
const APPROXIMATE: [(&str, f64, f64); 16] = [
    ("cos.approx", 0.0, 1.4e-6),
    ("sin.approx", 0.0, 1.4e-6),
    ("div.", 2.4e-7, 0.0),
    ("ex2.approx.f16", 1.1e-3 * 2.0, 0.0),
    ("ex2.approx.ftz.bf16", 7.9e-3 * 2.0, 0.0),
    ("ex2.approx", 2.4e-7, 0.0),
    ("lg2.approx", 2.4e-7 * 2.0, 2.4e-7 * 2.0),
    ("rcp.approx.ftz.f64", 1e-6, 0.0),
    ("rcp.approx", 2.4e-7, 0.0),
    ("rsqrt.approx.ftz.f64", 1e-6, 0.0),
    ("rsqrt.approx.f64", 4.5e-16, 0.0),
    ("rsqrt.approx", 2.6e-7, 0.0),
    ("sqrt.approx", 2.4e-7, 0.0),
    ("tanh.approx.f32", 1e-3, 0.0),
    ("tanh.approx.f16", 0.0, 1e-3),
    ("tanh.approx.bf16", 0.0, 7.9e-3),
];

/// What a case asks for.
pub(crate) fn of(case: &Case) -> Agreement {
    match case.family {
        "approximate" => {
            let (_, relative, absolute) = APPROXIMATE
                .into_iter()
                .find(|(name, ..)| case.name.starts_with(name))
                .expect("every approximate function has a documented error");
            Agreement::Near { relative, absolute }
        }
        "mma" if sums_halves(&case.name) => Agreement::DotProduct,
        _ => Agreement::Exact,
    }
}

/// m16n8k8 and m16n8k16 of 16-bit floats into f32 are added in f32, fast; all other multiplies as
/// the hardware does.
fn sums_halves(name: &str) -> bool {
    name.starts_with("m16n8") && (name.contains("f32.f16.f16.f32") || name.contains("f32.bf16.bf16.f32"))
}

impl Agreement {
    /// Compares two runs' outputs.
    pub(crate) fn check(self, case: &Case, recorded: &[u8], outputs: &[u8]) -> Result<(), String> {
        let mut start = 0;
        let slack = if self == Agreement::DotProduct { slack(case) } else { Vec::new() };
        for operand in &case.operands {
            let width = operand.width.bytes();
            let elements = match &operand.buffer {
                Buffer::Output => operand.registers * case.threads,
                Buffer::RawOutput(elements) => *elements,
                Buffer::RawInOut(input) => input.elements,
                Buffer::Input(_) | Buffer::RawInput(_) => continue,
            };
            let end = start + elements * width;
            let (mut differing, mut first) = (0, String::new());
            let pairs = recorded[start..end].chunks_exact(width).zip(outputs[start..end].chunks_exact(width));
            for (index, (gpu, ours)) in pairs.enumerate() {
                let same = gpu == ours
                    || match self {
                        Agreement::Exact => false,
                        Agreement::Near { relative, absolute } => {
                            numbers(case, gpu).zip(numbers(case, ours)).all(|(gpu, ours)| {
                                close(gpu, ours, absolute.max(relative * gpu.abs()).max(least(case)))
                            })
                        }
                        Agreement::DotProduct => numbers(case, gpu)
                            .zip(numbers(case, ours))
                            .all(|(gpu, ours)| close(gpu, ours, slack[index])),
                    };
                if !same {
                    differing += 1;
                    if differing <= 4 {
                        let (inputs, gpu, ours) = (inputs(case, index), hex(gpu), hex(ours));
                        first += &format!("\n    [{index}] {inputs}: the GPU has {gpu}, we {ours}");
                    }
                }
            }
            if differing > 0 {
                return Err(format!(
                    "{differing} of {elements} elements of `{}` differ:{first}",
                    operand.name
                ));
            }
            start = end;
        }
        assert_eq!(start, recorded.len(), "{}", case.path());
        Ok(())
    }
}

fn close(gpu: f64, ours: f64, slack: f64) -> bool {
    // Where the magnitudes alone overflow, so may any partial sum.
    gpu == ours || gpu.is_nan() && ours.is_nan() || (gpu - ours).abs() <= slack || slack == f64::INFINITY
}

/// The numbers in an element: two where it is a pair.
fn numbers(case: &Case, element: &[u8]) -> impl Iterator<Item = f64> {
    let half = |bytes: &[u8]| {
        let bits = u16::from_le_bytes([bytes[0], bytes[1]]);
        if case.name.contains("bf16") {
            bf16::from_bits(bits).to_f64()
        } else {
            f16::from_bits(bits).to_f64()
        }
    };
    let packed = case.name.ends_with("x2");
    match element {
        [_, _] => vec![half(element)],
        &[a, b, c, d] if packed => vec![half(&[a, b]), half(&[c, d])],
        &[a, b, c, d] => vec![f64::from(f32::from_le_bytes([a, b, c, d]))],
        _ => vec![f64::from_le_bytes(element.try_into().expect("eight bytes"))],
    }
    .into_iter()
}

/// Twice the last place of subnormal results, where a relative error says nothing.
fn least(case: &Case) -> f64 {
    match &case.name {
        name if name.contains("f64") => 1e-323,
        name if name.contains(".f16") => 1.2e-7,
        _ => 2.9e-45,
    }
}

/// How far each result of a dot product may be off: a unit in the last place of the sum of
/// magnitudes for each addition.
fn slack(case: &Case) -> Vec<f64> {
    let mut words = case.name.split('.');
    let shape = words.next().and_then(Shape::from_word).expect("a multiply's name starts with its shape");
    let element = if case.name.contains("bf16") { DataType::Bf16 } else { DataType::F16 };
    let types = Types { d: DataType::F32, a: element, b: element, c: DataType::F32 };
    let orders = (Order::Row, Order::Column);
    let sum = warpwright_emulator::tensor::accumulate::IntegerSum::Wrapping;
    let multiply = Multiply::dense(shape, types, orders, sum).expect("the multiply exists");
    let magnitudes = |name: char, mask: u32, warp: usize| -> Vec<Column> {
        let operand = case.operands.iter().find(|operand| operand.name == name).expect("an operand");
        let Buffer::Input(input) = &operand.buffer else { return Vec::new() };
        let values = input.values();
        let register =
            |r: usize| std::array::from_fn(|lane| values[r * case.threads + 32 * warp + lane] as u32 & mask);
        (0..operand.registers).map(register).collect()
    };
    let mut slack = vec![0.0; 4 * case.threads];
    for warp in 0..case.threads / 32 {
        let (a, b) = (magnitudes('a', 0x7fff_7fff, warp), magnitudes('b', 0x7fff_7fff, warp));
        let mut d = [[0; 32]; 4];
        multiply.words(&a, &b, &magnitudes('c', 0x7fff_ffff, warp), None, &mut d);
        for (register, column) in d.iter().enumerate() {
            for (lane, bits) in column.iter().enumerate() {
                let sum = f64::from(f32::from_bits(*bits));
                slack[register * case.threads + 32 * warp + lane] =
                    (shape.k + 1) as f64 * f64::from(f32::EPSILON) * sum;
            }
        }
    }
    slack
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().rev().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

/// The inputs of the thread that computed an element.
fn inputs(case: &Case, index: usize) -> String {
    let thread = index % case.threads;
    let mut names = Vec::new();
    for operand in &case.operands {
        if let Buffer::Input(input) = &operand.buffer {
            let width = operand.width.bytes();
            let bytes = &input.npy()[128 + thread * width..][..width];
            names.push(format!("{} = {}", operand.name, hex(bytes)));
        }
    }
    names.join(", ")
}
