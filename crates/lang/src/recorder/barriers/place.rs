//! Addresses of mbarriers: the array that a register's address is in, and where in it.

use rustc_hash::{FxHashMap, FxHashSet};
use warpwright_ir::{Instruction, Operand, Register};

use crate::recorder::state::Allocation;
use crate::recorder::threads::Threads;

/// An address in shared memory.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The base register of the array.
    pub(super) array: Register,
    /// The bytes from there that are known.
    pub(super) offset: i64,
    /// What else is added: device values, and their factors.
    pub(super) terms: Vec<(Register, i64)>,
    /// Whether a variable holds the address, so that `terms` are unknown.
    pub(super) varies: bool,
    /// The CTA of the cluster whose memory it is; `None` for the thread's own.
    pub(super) rank: Option<Operand>,
}

/// Finds the places of addresses in a kernel.
pub(super) struct Places<'a> {
    threads: &'a Threads<'a>,
    arrays: &'a FxHashMap<Register, Allocation>,
    known: FxHashMap<Register, Option<Place>>,
}

impl<'a> Places<'a> {
    pub(super) fn new(threads: &'a Threads<'a>, arrays: &'a FxHashMap<Register, Allocation>) -> Self {
        Self { threads, arrays, known: FxHashMap::default() }
    }

    /// The place of `[base + offset]`.
    pub(super) fn of_address(&mut self, address: &Operand) -> Option<Place> {
        let Operand::Address { base, offset, .. } = address else { return None };
        let Operand::Register(base) = **base else { return None };
        let place = self.of(base)?;
        Some(Place { offset: place.offset + offset, ..place })
    }

    /// The place whose address a register holds.
    pub(super) fn of(&mut self, register: Register) -> Option<Place> {
        if let Some(known) = self.known.get(&register) {
            return known.clone();
        }
        // A variable that is computed from itself is found again on the way.
        self.known.insert(register, None);
        let place = self.find(register);
        self.known.insert(register, place.clone());
        place
    }

    fn find(&mut self, register: Register) -> Option<Place> {
        if self.arrays.contains_key(&register) {
            return Some(Place { array: register, offset: 0, terms: Vec::new(), varies: false, rank: None });
        }
        if let Some(writer) = self.threads.writer(register) {
            return self.computed(writer);
        }
        let writers: Vec<&Instruction> = self.threads.all_writers(register).collect();
        let places: Vec<Place> = writers.into_iter().filter_map(|writer| self.computed(writer)).collect();
        let arrays: FxHashSet<Register> = places.iter().map(|place| place.array).collect();
        let is_remote = places.iter().any(|place| place.rank.is_some());
        match (arrays.len(), is_remote) {
            (1, false) => Some(Place { varies: true, ..places.into_iter().next()? }),
            _ => None,
        }
    }

    fn computed(&mut self, writer: &Instruction) -> Option<Place> {
        let sources = &writer.operands[writer.destinations..];
        let mut of = |operand: &Operand| match operand {
            Operand::Register(register) => self.of(*register),
            _ => None,
        };
        match (writer.opcode.as_ref(), sources) {
            ("mov.u32" | "mov.b32", [source]) => of(source),
            ("mapa.shared::cluster.u32", [source, rank]) => {
                Some(Place { rank: Some(rank.clone()), ..of(source)? })
            }
            ("add.u32" | "add.s32", [a, b]) => match of(a) {
                Some(place) => place.moved(b, 1),
                None => of(b)?.moved(a, 1),
            },
            ("mad.lo.u32" | "mad.lo.s32", [index, Operand::Integer(scale), base]) => {
                of(base)?.moved(index, i64::try_from(*scale).ok()?)
            }
            _ => None,
        }
    }
}

impl Place {
    fn moved(mut self, by: &Operand, scale: i64) -> Option<Self> {
        match by {
            Operand::Integer(value) => self.offset += i64::try_from(*value).ok()? * scale,
            Operand::Register(register) => self.terms.push((*register, scale)),
            _ => return None,
        }
        Some(self)
    }

    /// Whether it is the same in every thread and each time.
    pub(super) fn is_fixed(&self) -> bool {
        self.terms.is_empty() && !self.varies
    }

    /// The bytes from the array's base for each thread, if they are known.
    pub(super) fn offsets(&self, threads: &Threads<'_>) -> Option<Vec<i64>> {
        if self.varies {
            return None;
        }
        let mut offsets = vec![self.offset; threads.count() as usize];
        for (register, scale) in &self.terms {
            let values = threads.value(*register)?;
            offsets
                .iter_mut()
                .zip(values.iter())
                .for_each(|(offset, value)| *offset += i64::from(*value) * scale);
        }
        Some(offsets)
    }
}
