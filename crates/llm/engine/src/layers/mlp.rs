//! The MLP: down(silu(gate(x)) · up(x)).

use warpwright::runtime::Buffer;

use super::linear::Linear;
use super::norm::Norm;
use super::pass::Pass;
use super::quantized::QuantizedInput;
use crate::error::Result;
use crate::number::Number;
use crate::weights::Loader;

/// The weights of an MLP.
pub(crate) struct Mlp<T> {
    /// Gates and values.
    gate_up: Linear<T>,
    down: Linear<T>,
}

impl<T: Number> Mlp<T> {
    pub(crate) fn new(loader: &mut Loader<'_>, name: &str, hidden: usize, intermediate: u32) -> Result<Self> {
        let (gate, up) = (format!("{name}.gate_proj.weight"), format!("{name}.up_proj.weight"));
        let columns = intermediate as usize;
        Ok(Self {
            gate_up: Linear::gated(loader, [&gate, &up], columns, hidden)?,
            down: Linear::new(loader, &[(&format!("{name}.down_proj.weight"), hidden)], columns)?,
        })
    }

    /// Bytes of the weights.
    pub(crate) fn bytes(&self) -> usize {
        self.gate_up.bytes() + self.down.bytes()
    }

    /// x += the result for the normalized rows.
    pub(crate) fn add(&self, pass: &mut Pass<'_, T>, norm: &Norm<T>, x: &mut Buffer<T>) -> Result<()> {
        let rows = (x.len() / self.gate_up.k as usize) as u32;
        if self.gate_up.quantizes(pass, rows) && self.down.quantizes(pass, rows) {
            let both = self.gate_up.apply_to_normalized(pass, norm, x)?;
            let (columns, stride) = (self.down.k, self.gate_up.n);
            let activated = QuantizedInput::new(pass, (rows, columns), |on, to| {
                on.0.quantize_swiglu(on.1, (both.cast(), stride, columns), to)
            })?;
            pass.note("swiglu", both.bytes() + activated.bytes(), 7 * u64::from(rows) * u64::from(columns));
            pass.memory.give(both);
            self.down.add_quantized_to(pass, &activated, x)?;
            activated.give(pass);
            return Ok(());
        }
        let activated = self.gate_up.swiglu_of_normalized(pass, norm, x, self.down.k)?;
        self.down.add_to(pass, &activated, x)?;
        pass.memory.give(activated);
        Ok(())
    }

    /// The result for rows that are normalized.
    pub(crate) fn apply(&self, pass: &mut Pass<'_, T>, x: &Buffer<T>) -> Result<Buffer<T>> {
        let activated = self.gate_up.swiglu(pass, x, self.down.k)?;
        let y = self.down.apply(pass, &activated)?;
        pass.memory.give(activated);
        Ok(y)
    }
}
