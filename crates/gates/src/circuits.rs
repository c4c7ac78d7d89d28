//! All circuits, by name.

use crate::float::Format;
use crate::netlist::{Bus, Netlist, Wire};
use crate::tensor_core;

/// A circuit: its name, what it computes, and how it is built.
pub struct Circuit {
    /// The name on the command line.
    pub name: &'static str,
    /// What it computes, in a phrase.
    pub summary: &'static str,
    build: fn(&mut Netlist),
}

impl Circuit {
    /// The circuit named `name`.
    pub fn named(name: &str) -> Option<&'static Circuit> {
        CIRCUITS.iter().find(|circuit| circuit.name == name)
    }

    /// Its gates.
    pub fn netlist(&self) -> Netlist {
        let mut list = Netlist::default();
        (self.build)(&mut list);
        list
    }
}

/// Every circuit, from one gate to a tensor core.
pub const CIRCUITS: &[Circuit] = &[
    Circuit { name: "not", summary: "the inverse of a bit", build: |list| one(list, Netlist::not) },
    Circuit { name: "nand", summary: "0 if both bits are 1, else 1", build: |list| two(list, Netlist::nand) },
    Circuit { name: "and", summary: "1 if both bits are 1", build: |list| two(list, Netlist::and) },
    Circuit { name: "or", summary: "1 if a bit is 1", build: |list| two(list, Netlist::or) },
    Circuit { name: "xor", summary: "1 if the bits differ", build: |list| two(list, Netlist::xor) },
    Circuit { name: "choose", summary: "one of two bits, by a third", build: choose },
    Circuit { name: "half-adder", summary: "the sum of two bits", build: half_adder },
    Circuit { name: "full-adder", summary: "the sum of three bits", build: full_adder },
    Circuit {
        name: "ripple-4",
        summary: "the sum of 4 bits, carry by carry",
        build: |list| numbers(list, 4, |list, a, b| list.ripple(a, b, Netlist::ZERO)),
    },
    Circuit {
        name: "ripple-32",
        summary: "the sum of 32 bits, carry by carry",
        build: |list| numbers(list, 32, |list, a, b| list.ripple(a, b, Netlist::ZERO)),
    },
    Circuit {
        name: "lookahead-32",
        summary: "the sum of 32 bits, all carries at once",
        build: |list| numbers(list, 32, |list, a, b| list.lookahead(a, b, Netlist::ZERO)),
    },
    Circuit { name: "shift-32", summary: "32 bits moved to the right by up to 31", build: shift },
    Circuit {
        name: "multiply-rows-11",
        summary: "the product of 11 bits, row by row",
        build: |list| numbers(list, 11, Netlist::multiply_by_rows),
    },
    Circuit {
        name: "multiply-11",
        summary: "the product of 11 bits, by a tree: significands of f16",
        build: |list| numbers(list, 11, Netlist::multiply),
    },
    Circuit {
        name: "multiply-24",
        summary: "the product of 24 bits, by a tree: significands of f32",
        build: |list| numbers(list, 24, Netlist::multiply),
    },
    Circuit {
        name: "add-f16",
        summary: "the sum of two f16",
        build: |list| numbers(list, 16, |list, a, b| Format::F16.add(list, a, b)),
    },
    Circuit {
        name: "multiply-f16",
        summary: "the product of two f16",
        build: |list| numbers(list, 16, |list, a, b| Format::F16.multiply(list, a, b)),
    },
    Circuit {
        name: "add-bf16",
        summary: "the sum of two bf16",
        build: |list| numbers(list, 16, |list, a, b| Format::BF16.add(list, a, b)),
    },
    Circuit {
        name: "multiply-bf16",
        summary: "the product of two bf16",
        build: |list| numbers(list, 16, |list, a, b| Format::BF16.multiply(list, a, b)),
    },
    Circuit {
        name: "add-f32",
        summary: "the sum of two f32",
        build: |list| numbers(list, 32, |list, a, b| Format::F32.add(list, a, b)),
    },
    Circuit {
        name: "multiply-f32",
        summary: "the product of two f32",
        build: |list| numbers(list, 32, |list, a, b| Format::F32.multiply(list, a, b)),
    },
    Circuit {
        name: "tensor-core",
        summary: "D = A·B + C of 4 x 4 x 4, f16 into f32",
        build: tensor_core::build,
    },
];

fn one(list: &mut Netlist, gate: fn(&mut Netlist, Wire) -> Wire) {
    let a = list.input("a", 1);
    let out = gate(list, a[0]);
    list.output("out", [out]);
}

fn two(list: &mut Netlist, gate: fn(&mut Netlist, Wire, Wire) -> Wire) {
    let (a, b) = (list.input("a", 1), list.input("b", 1));
    let out = gate(list, a[0], b[0]);
    list.output("out", [out]);
}

fn choose(list: &mut Netlist) {
    let (select, one, zero) = (list.input("select", 1), list.input("one", 1), list.input("zero", 1));
    let out = list.choose(select[0], one[0], zero[0]);
    list.output("out", [out]);
}

fn half_adder(list: &mut Netlist) {
    let (a, b) = (list.input("a", 1), list.input("b", 1));
    let (sum, carry) = list.half_adder(a[0], b[0]);
    list.output("sum", [sum]);
    list.output("carry", [carry]);
}

fn full_adder(list: &mut Netlist) {
    let (a, b, c) = (list.input("a", 1), list.input("b", 1), list.input("c", 1));
    let (sum, carry) = list.full_adder(a[0], b[0], c[0]);
    list.output("sum", [sum]);
    list.output("carry", [carry]);
}

fn shift(list: &mut Netlist) {
    let (a, amount) = (list.input("a", 32), list.input("amount", 5));
    let (out, _) = list.shift_right(&a, &amount);
    list.output("out", out);
}

fn numbers(list: &mut Netlist, width: usize, build: fn(&mut Netlist, &[Wire], &[Wire]) -> Bus) {
    let (a, b) = (list.input("a", width), list.input("b", width));
    let out = build(list, &a, &b);
    list.output("out", out);
}
