//! Elements of one tile that become elements of another by the same index.
//!
//! Element `i` of a tile is at another coordinate than element `i` of a larger one. A loop that
//! takes every element of one tile to the element of that index in a tile of another size is
//! therefore a mistake, although every index is inside both.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use rustc_hash::FxHashSet;
use warpwright_ir::{Instruction, Location, Operand, Register};

use super::Recorder;
use super::state::{TileElement, Transfer};

impl Recorder {
    /// Notes that a register holds an element of a tile.
    pub(crate) fn note_element(&mut self, register: Register, element: TileElement) {
        self.elements.sizes.borrow_mut().insert(element.size as u32);
        self.elements.held.insert(register, element);
    }

    /// The numbers of elements that threads have of the tiles of the kernel, to be read at its end.
    pub(crate) fn tile_sizes(&self) -> Rc<RefCell<FxHashSet<u32>>> {
        Rc::clone(&self.elements.sizes)
    }

    /// What is computed from one element alone belongs to it.
    pub(super) fn pass_elements_on(&mut self, instruction: &Instruction) {
        if self.elements.held.is_empty() || instruction.destinations != 1 {
            return;
        }
        let (destination, sources) = instruction.operands.split_at(1);
        let mut held = None;
        for source in sources {
            let Operand::Register(source) = source else { continue };
            let Some(element) = self.elements.held.get(source) else { continue };
            match held {
                None => held = Some(element.clone()),
                Some(ref other) if other == element => {}
                Some(_) => return,
            }
        }
        if let (Some(element), Operand::Register(destination)) = (held, &destination[0]) {
            self.elements.held.insert(*destination, element);
        }
    }

    /// Notes that `operation` sets an element of a tile to a value.
    pub(crate) fn note_transfer(
        &mut self,
        operation: &'static str,
        value: Register,
        to: TileElement,
        location: Location,
    ) {
        let Some(from) = self.elements.held.get(&value).cloned() else { return };
        let transfer = self.elements.transfers.entry((location, operation)).or_insert_with(|| Transfer {
            from: (from.shape.clone(), from.size),
            to: (to.shape.clone(), to.size),
            indices: BTreeSet::new(),
            is_by_index: true,
        });
        transfer.indices.insert(to.index);
        transfer.is_by_index &= from.index == to.index
            && transfer.from == (from.shape, from.size)
            && transfer.to == (to.shape, to.size);
    }

    /// Refuses the lines that take all elements of one tile to those of the same index in a tile of
    /// another size.
    pub(super) fn check_transfers(&mut self) {
        let mut mistakes = Vec::new();
        for ((location, operation), transfer) in std::mem::take(&mut self.elements.transfers) {
            let Transfer { from, to, indices, is_by_index } = transfer;
            let smaller = from.1.min(to.1);
            let takes_all = smaller > 1 && indices.len() as i64 == smaller;
            if is_by_index && takes_all && from.1 != to.1 {
                mistakes.push((
                    location,
                    format!(
                        "`{operation}`: elements 0 to {} of a tile of shape {} become those of one of shape {}: the same index is \
                         another element there; use parts of tiles of one shape, or slice the larger one",
                        smaller - 1,
                        from.0,
                        to.0
                    ),
                ));
            }
        }
        mistakes.sort();
        mistakes.into_iter().for_each(|(location, message)| self.error(location, message));
    }
}
