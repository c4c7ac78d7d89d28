//! `warpwright gates`: circuits of NAND and NOT, counted, drawn and simulated.

mod operand;
mod picture;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Value, json};
use warpwright_gates::{CIRCUITS, Circuit, Netlist};

use crate::file;
use crate::output::Output;
use crate::suggestion::did_you_mean;

/// Count, draw and simulate circuits of NAND and NOT: adders, float arithmetic, a tensor core.
#[derive(Debug, Args)]
pub(crate) struct Gates {
    /// The circuit; without it, a list of all.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// A value for each input: an integer (`0x..` for hexadecimal), or a number for a circuit of floats.
    #[arg(value_name = "VALUE", allow_negative_numbers = true)]
    values: Vec<String>,
    /// Draw the gates to this file as SVG, if they are few.
    #[arg(long, value_name = "FILE", requires = "name")]
    svg: Option<PathBuf>,
}

/// Input bits of a circuit whose truth table is printed.
const TABLE_BITS: usize = 3;

impl Gates {
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        let Some(name) = &self.name else {
            output.json(|| {
                let circuits = CIRCUITS.iter().map(|circuit| as_json(circuit, &circuit.netlist()));
                json!({"status": "ok", "circuits": circuits.collect::<Vec<_>>(), "outputs": {}})
            });
            output.text(list);
            return Ok(());
        };
        let Some(circuit) = Circuit::named(name) else {
            let near = did_you_mean(name, CIRCUITS.iter().map(|circuit| circuit.name));
            bail!("unknown circuit `{name}`{near}; `warpwright gates` lists them");
        };
        let netlist = circuit.netlist();
        if let Some(path) = &self.svg {
            file::write(path, picture::svg(circuit, &netlist)?)?;
        }
        let result = if self.values.is_empty() {
            None
        } else {
            Some(operand::simulated(circuit, &netlist, &self.values)?)
        };
        output.json(|| {
            let outputs = result.iter().flatten();
            let outputs = outputs.map(|(name, bits, _)| (name.clone(), json!(format!("{bits:#x}"))));
            let outputs = outputs.collect::<serde_json::Map<_, _>>();
            json!({"status": "ok", "circuits": [as_json(circuit, &netlist)], "outputs": outputs})
        });
        output.text(|| {
            let mut lines = vec![described(circuit, &netlist)];
            match &result {
                Some(outputs) => {
                    lines.extend(outputs.iter().map(|(name, _, shown)| format!("{name} = {shown}")));
                }
                None => lines.extend(truth_table(&netlist)),
            }
            lines.join("\n")
        });
        Ok(())
    }
}

fn as_json(circuit: &Circuit, netlist: &Netlist) -> Value {
    let counts = netlist.counts();
    json!({
        "name": circuit.name,
        "summary": circuit.summary,
        "nands": counts.nands,
        "nots": counts.nots,
        "transistors": counts.transistors,
        "delay": counts.delay,
    })
}

fn list() -> String {
    let mut lines =
        vec![format!("{:<18} {:>8} {:>11} {:>6}  computes", "circuit", "gates", "transistors", "delay")];
    for circuit in CIRCUITS {
        let counts = circuit.netlist().counts();
        lines.push(format!(
            "{:<18} {:>8} {:>11} {:>6}  {}",
            circuit.name,
            counts.nands + counts.nots,
            counts.transistors,
            counts.delay,
            circuit.summary
        ));
    }
    lines.push("\nThe delay is the number of gates on the longest path.".to_owned());
    lines.join("\n")
}

fn described(circuit: &Circuit, netlist: &Netlist) -> String {
    let counts = netlist.counts();
    format!(
        "{}: {}\n{} NAND, {} NOT: {} transistors; longest path: {} {}",
        circuit.name,
        circuit.summary,
        counts.nands,
        counts.nots,
        counts.transistors,
        counts.delay,
        if counts.delay == 1 { "gate" } else { "gates" }
    )
}

/// The outputs for all inputs, if these are few.
fn truth_table(netlist: &Netlist) -> Vec<String> {
    let widths: Vec<usize> = netlist.inputs().iter().map(|(_, bus)| bus.len()).collect();
    if widths.iter().sum::<usize>() > TABLE_BITS {
        return vec![];
    }
    let names = |buses: &[(String, _)]| buses.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let (inputs, outputs) = (names(netlist.inputs()), names(netlist.outputs()));
    let row = |left: &[String], right: &[String]| {
        let cell = |(text, name): (&String, &String)| format!("{text:>width$}", width = name.len());
        let left: Vec<_> = left.iter().zip(&inputs).map(cell).collect();
        let right: Vec<_> = right.iter().zip(&outputs).map(cell).collect();
        format!("{} | {}", left.join("  "), right.join("  "))
    };
    let count = widths.len();
    let cases: Vec<Vec<u128>> =
        (0..1u128 << count).map(|case| (0..count).rev().map(|bit| case >> bit & 1).collect()).collect();
    let texts = |values: &[u128]| values.iter().map(u128::to_string).collect::<Vec<_>>();
    let mut lines = vec![String::new(), row(&inputs, &outputs)];
    let results = netlist.simulate(&cases);
    lines.extend(cases.iter().zip(&results).map(|(case, result)| row(&texts(case), &texts(result))));
    lines
}
