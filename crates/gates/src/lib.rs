//! Arithmetic as netlists of two gates: NAND and NOT.
//!
//! | Module | Content |
//! |---|---|
//! | [`netlist`] | gates and wires, counts, simulation of 64 cases at once |
//! | [`logic`] | AND, OR, XOR, choice, over wires and buses |
//! | [`adder`] | half and full adders, ripple and lookahead |
//! | [`shifter`] | shifts by a variable amount, normalization |
//! | [`multiplier`] | the product of integers, by rows and by a tree |
//! | [`float`] | IEEE addition and multiplication of any format |
//! | [`tensor_core`] | D = A·B + C of 4 x 4 x 4, f16 into f32 |
//! | [`circuits`] | all circuits by name |

pub mod adder;
pub mod circuits;
pub mod float;
pub mod logic;
pub mod multiplier;
pub mod netlist;
pub mod shifter;
pub mod tensor_core;

pub use circuits::{CIRCUITS, Circuit};
pub use netlist::{Bus, Gate, Netlist, Wire};
