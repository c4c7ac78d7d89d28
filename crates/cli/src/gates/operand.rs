//! Values of a circuit's inputs and outputs, as a user writes and reads them.

use anyhow::{Context, Result, bail};
use warpwright_arch::DataType;
use warpwright_emulator::numeric::Rounding;
use warpwright_emulator::numeric::format::Format;
use warpwright_emulator::tensor::element;
use warpwright_gates::{Circuit, Netlist};

/// The format of a circuit of floats, by the end of its name: `add-f32`.
fn format(circuit: &Circuit) -> Option<Format> {
    let name = circuit.name.rsplit('-').next()?;
    element::format(DataType::from_ptx(name)?)
}

/// The bits of a value.
fn bits(text: &str, width: usize, format: Option<Format>) -> Result<u128> {
    let bits = match (text.strip_prefix("0x"), format) {
        (Some(digits), _) => u128::from_str_radix(digits, 16).ok(),
        (None, Some(format)) => {
            let number = text.parse::<f64>().ok();
            number.map(|number| format.encode(number, Rounding::NearestEven, false).into())
        }
        (None, None) => text.parse().ok(),
    };
    let bits = bits.with_context(|| format!("`{text}` is no number"))?;
    if bits >> width != 0 {
        bail!("`{text}` has more than {width} bits");
    }
    Ok(bits)
}

/// The name of each output, its bits, and what it shows.
pub(super) fn simulated(
    circuit: &Circuit,
    netlist: &Netlist,
    values: &[String],
) -> Result<Vec<(String, u128, String)>> {
    let (inputs, format) = (netlist.inputs(), format(circuit));
    if values.len() != inputs.len() {
        let names: Vec<_> =
            inputs.iter().map(|(name, bus)| format!("{name} of {} bits", bus.len())).collect();
        bail!("{} takes {} values, {} given: {}", circuit.name, inputs.len(), values.len(), names.join(", "));
    }
    let case = values.iter().zip(inputs).map(|(text, (_, bus))| bits(text, bus.len(), format));
    let case = case.collect::<Result<Vec<_>>>()?;
    let outputs = netlist.simulate(&[case]).pop().unwrap_or_default();
    let shown = |bits: u128| match format {
        Some(format) => format!("{} ({bits:#x})", format.decode(bits as u32)),
        None => format!("{bits} ({bits:#x})"),
    };
    let named = netlist.outputs().iter().zip(outputs);
    Ok(named.map(|((name, _), bits)| (name.clone(), bits, shown(bits))).collect())
}
