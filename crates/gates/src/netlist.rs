//! Gates and wires; their counts; their simulation.

use std::collections::HashMap;

/// The output of a gate, an input, or a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Wire(u32);

/// Wires of a number, the lowest bit first.
pub type Bus = Vec<Wire>;

/// What drives a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gate {
    /// A constant or an input.
    Given,
    /// The inverse of a wire: two transistors.
    Not(Wire),
    /// 0 if both wires are 1, else 1: four transistors.
    Nand(Wire, Wire),
}

impl Gate {
    /// Transistors in complementary MOS: as many PMOS as NMOS, one of each for an input.
    pub fn transistors(self) -> usize {
        match self {
            Gate::Given => 0,
            Gate::Not(_) => 2,
            Gate::Nand(..) => 4,
        }
    }

    /// The wires that it reads.
    pub fn inputs(self) -> impl Iterator<Item = Wire> {
        let (a, b) = match self {
            Gate::Given => (None, None),
            Gate::Not(a) => (Some(a), None),
            Gate::Nand(a, b) => (Some(a), Some(b)),
        };
        a.into_iter().chain(b)
    }
}

/// Gates with named inputs and outputs. Equal gates are built once, and gates with known inputs not at all.
#[derive(Clone, Debug)]
pub struct Netlist {
    gates: Vec<Gate>,
    built: HashMap<Gate, Wire>,
    inputs: Vec<(String, Bus)>,
    outputs: Vec<(String, Bus)>,
}

/// Gates, transistors and delay of a netlist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// NAND gates that an output depends on.
    pub nands: usize,
    /// Inverters that an output depends on.
    pub nots: usize,
    /// Transistors of both.
    pub transistors: usize,
    /// Gates on the longest path from an input to an output.
    pub delay: usize,
}

impl Default for Netlist {
    fn default() -> Self {
        Self { gates: vec![Gate::Given; 2], built: HashMap::new(), inputs: vec![], outputs: vec![] }
    }
}

impl Netlist {
    /// The constant 0.
    pub const ZERO: Wire = Wire(0);
    /// The constant 1.
    pub const ONE: Wire = Wire(1);

    /// A new input of `width` bits.
    pub fn input(&mut self, name: &str, width: usize) -> Bus {
        let first = self.gates.len() as u32;
        let bus: Bus = (first..first + width as u32).map(Wire).collect();
        self.gates.extend(vec![Gate::Given; width]);
        self.inputs.push((name.to_owned(), bus.clone()));
        bus
    }

    /// A new output.
    pub fn output(&mut self, name: &str, bus: impl Into<Bus>) {
        self.outputs.push((name.to_owned(), bus.into()));
    }

    /// The inputs, in the order in which they were made.
    pub fn inputs(&self) -> &[(String, Bus)] {
        &self.inputs
    }

    /// The outputs, in the order in which they were made.
    pub fn outputs(&self) -> &[(String, Bus)] {
        &self.outputs
    }

    /// What drives a wire.
    pub fn gate(&self, wire: Wire) -> Gate {
        self.gates[wire.0 as usize]
    }

    /// The inverse of `a`.
    pub fn not(&mut self, a: Wire) -> Wire {
        match (a, self.gate(a)) {
            (Self::ZERO, _) => Self::ONE,
            (Self::ONE, _) => Self::ZERO,
            (_, Gate::Not(inner)) => inner,
            _ => self.build(Gate::Not(a)),
        }
    }

    /// 0 if `a` and `b` are 1, else 1.
    pub fn nand(&mut self, a: Wire, b: Wire) -> Wire {
        let (a, b) = (a.min(b), a.max(b));
        match (a, b) {
            (Self::ZERO, _) => Self::ONE,
            (Self::ONE, _) => self.not(b),
            _ if a == b => self.not(a),
            _ if self.gate(a) == Gate::Not(b) || self.gate(b) == Gate::Not(a) => Self::ONE,
            _ => self.build(Gate::Nand(a, b)),
        }
    }

    fn build(&mut self, gate: Gate) -> Wire {
        let gates = &mut self.gates;
        *self.built.entry(gate).or_insert_with(|| {
            gates.push(gate);
            Wire(gates.len() as u32 - 1)
        })
    }

    /// The wires that outputs depend on, in the order in which signals reach them.
    pub fn live(&self) -> Vec<Wire> {
        let mut is_live = vec![false; self.gates.len()];
        for wire in self.outputs.iter().flat_map(|(_, bus)| bus) {
            is_live[wire.0 as usize] = true;
        }
        // A gate reads wires that were there before it.
        for index in (0..self.gates.len()).rev().filter(|index| *index > 1) {
            if is_live[index] {
                self.gates[index].inputs().for_each(|wire| is_live[wire.0 as usize] = true);
            }
        }
        (0..self.gates.len() as u32).map(Wire).filter(|wire| is_live[wire.0 as usize]).collect()
    }

    /// The number of gates before each wire on the longest path, by the wire's index.
    pub fn depths(&self) -> Vec<usize> {
        let mut depths = vec![0; self.gates.len()];
        for (index, gate) in self.gates.iter().enumerate() {
            depths[index] = gate.inputs().map(|wire| depths[wire.0 as usize] + 1).max().unwrap_or(0);
        }
        depths
    }

    /// The depth of a wire in [`depths`](Self::depths).
    pub fn depth(depths: &[usize], wire: Wire) -> usize {
        depths[wire.0 as usize]
    }

    /// Gates, transistors and delay.
    pub fn counts(&self) -> Counts {
        let live = self.live();
        let gates = || live.iter().map(|wire| self.gate(*wire));
        let depths = self.depths();
        let outputs = self.outputs.iter().flat_map(|(_, bus)| bus);
        Counts {
            nands: gates().filter(|gate| matches!(gate, Gate::Nand(..))).count(),
            nots: gates().filter(|gate| matches!(gate, Gate::Not(_))).count(),
            transistors: gates().map(Gate::transistors).sum(),
            delay: outputs.map(|wire| Self::depth(&depths, *wire)).max().unwrap_or(0),
        }
    }

    /// The outputs for each case: a value for each input in, one for each output out. 64 cases are simulated at
    /// once, a bit of a word each.
    pub fn simulate(&self, cases: &[Vec<u128>]) -> Vec<Vec<u128>> {
        cases.chunks(64).flat_map(|cases| self.simulate_words(cases)).collect()
    }

    fn simulate_words(&self, cases: &[Vec<u128>]) -> Vec<Vec<u128>> {
        let mut words = vec![0u64; self.gates.len()];
        words[Self::ONE.0 as usize] = u64::MAX;
        for (at, (_, bus)) in self.inputs.iter().enumerate() {
            for (bit, wire) in bus.iter().enumerate() {
                let of_case = |(case, values): (usize, &Vec<u128>)| ((values[at] >> bit & 1) as u64) << case;
                words[wire.0 as usize] = cases.iter().enumerate().map(of_case).sum();
            }
        }
        for (index, gate) in self.gates.iter().enumerate() {
            words[index] = match *gate {
                Gate::Given => continue,
                Gate::Not(a) => !words[a.0 as usize],
                Gate::Nand(a, b) => !(words[a.0 as usize] & words[b.0 as usize]),
            };
        }
        let value = |bus: &Bus, case: usize| -> u128 {
            bus.iter()
                .enumerate()
                .map(|(bit, wire)| u128::from(words[wire.0 as usize] >> case & 1) << bit)
                .sum()
        };
        (0..cases.len()).map(|case| self.outputs.iter().map(|(_, bus)| value(bus, case)).collect()).collect()
    }
}
