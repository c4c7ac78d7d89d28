//! The recorder, which collects staged operations.
//!
//! While a kernel is being staged, one [`Recorder`] is current on the thread. Values and operators
//! are small handles that append to it; nothing else in the language has hidden state. A mistake is
//! recorded with the author's position and staging continues, so that one build reports all
//! mistakes.

mod accesses;
mod barriers;
mod collectives;
mod elements;
mod end;
mod facts;
mod jumps;
mod mbarrier_indices;
mod multicasts;
mod owner;
mod plans;
mod region;
mod rounds;
mod state;
mod threads;
mod variable;
mod views;

use std::cell::RefCell;
use std::panic;

use rustc_hash::FxHashMap;
use warpwright_arch::tensor_map::Requirement;
use warpwright_ir::{
    FragmentRegisters, Instruction, Kernel, Label, Location, Operand, ParameterType, Register, RegisterClass,
    Statement,
};

use self::end::End;
pub(crate) use self::end::Refused;
pub(crate) use self::state::{
    Allocation, Choice, Columns, CopyAccess, IfResult, NO_REGISTER, PipelineId, Scope, StageUse, Stages,
    TensorMapOrigin, TileElement, View, number_in_kernel,
};
use self::state::{Elements, Facts, Notes, Owner, Region, RegionRecord, Views};
pub use self::state::{RegionId, StagingError};

/// Records one kernel.
pub struct Recorder {
    kernel: Kernel,
    owner: Owner,
    /// The open regions, the kernel's own first.
    regions: Vec<Region>,
    /// What is known of every region, by its number.
    records: Vec<RegionRecord>,
    /// The region each register was made in.
    homes: Vec<RegionId>,
    /// The region in which a register may be written again: it is a variable while that region is
    /// open.
    written_for: Vec<Option<RegionId>>,
    /// The registers that hold the address of a shared variable.
    symbols: FxHashMap<Register, String>,
    /// The registers that hold the address of a tensor map.
    tensor_maps: FxHashMap<Register, TensorMapOrigin>,
    /// Whether products and sums of floats may be contracted, at this point of the kernel.
    pub(crate) contracts: bool,
    /// The arrays whose base address a register holds.
    allocations: FxHashMap<Register, Allocation>,
    facts: Facts,
    elements: Elements,
    views: Views,
    notes: Notes,
    errors: Vec<StagingError>,
}

thread_local! {
    static CURRENT: RefCell<Vec<Recorder>> = const { RefCell::new(Vec::new()) };
}

/// Stages a kernel: runs `author` with a fresh recorder and returns what it recorded.
///
/// # Errors
/// Every mistake recorded, in order; a panic inside `author` becomes one too.
#[track_caller]
pub fn stage(name: &str, author: impl FnOnce()) -> Result<Kernel, Vec<StagingError>> {
    let mut author = Some(author);
    stage_once(name, &mut || {
        if let Some(author) = author.take() {
            author()
        }
    })
}

/// [`stage`], compiled once and not once for each kernel.
#[track_caller]
fn stage_once(name: &str, author: &mut dyn FnMut()) -> Result<Kernel, Vec<StagingError>> {
    let begin = Location::from(panic::Location::caller());
    CURRENT.with_borrow_mut(|stack| stack.push(Recorder::new(name, begin)));
    let end = end::of(author);
    let recorder = CURRENT.with_borrow_mut(|stack| stack.pop()).expect("stage pushed a recorder");
    recorder.finish(end, begin)
}

/// Runs `f` on the current recorder.
///
/// # Panics
/// When no kernel is being staged: device values exist only inside one.
#[track_caller]
pub fn with<R>(f: impl FnOnce(&mut Recorder) -> R) -> R {
    let (mut f, mut result) = (Some(f), None);
    with_current(&mut |recorder| result = f.take().map(|f| f(recorder)));
    result.expect("with_current calls its argument once")
}

/// [`with`], compiled once for all callers.
#[track_caller]
fn with_current(f: &mut dyn FnMut(&mut Recorder)) {
    CURRENT.with_borrow_mut(|stack| {
        let recorder = stack.last_mut().unwrap_or_else(|| {
            panic!("device values exist only while a kernel is being built; call this from a #[kernel] or a function it calls")
        });
        f(recorder);
    });
}

impl Recorder {
    fn new(name: &str, location: Location) -> Self {
        let mut recorder = Self {
            kernel: Kernel { name: name.to_owned(), ..Kernel::default() },
            owner: Owner::next(),
            regions: Vec::new(),
            records: Vec::new(),
            homes: Vec::new(),
            written_for: Vec::new(),
            symbols: FxHashMap::default(),
            tensor_maps: FxHashMap::default(),
            contracts: true,
            allocations: FxHashMap::default(),
            facts: Facts::default(),
            elements: Elements::default(),
            views: Views::default(),
            notes: Notes::default(),
            errors: Vec::new(),
        };
        recorder.open_kernel(location);
        recorder
    }

    fn finish(mut self, end: End, begin: Location) -> Result<Kernel, Vec<StagingError>> {
        match end {
            End::Complete => {
                self.kernel.body = self.close_kernel();
                self.check_mbarriers();
                self.check_transfers();
                self.check_views();
                self.check_plans();
                self.check_shared_tiles();
                self.check_collectives();
                self.check_mbarrier_indices();
                self.check_rounds();
                self.settle_registers();
                self.meet_demands();
            }
            End::Refused => {}
            End::Panicked { message, location } => {
                let message = format!("the kernel's build-time code panicked: {message}");
                self.error(location.unwrap_or(begin), message);
            }
        }
        if !self.errors.is_empty() {
            return Err(self.errors);
        }
        warpwright_ir::contract(&mut self.kernel);
        Ok(self.kernel)
    }

    /// The kernel under construction, for parameters, shared variables and launch bounds.
    pub fn kernel(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    /// Notes that a register holds the address of a shared variable.
    pub(crate) fn remember_symbol(&mut self, register: Register, symbol: String) {
        self.symbols.insert(register, symbol);
    }

    /// The shared variable whose address a register holds.
    pub(crate) fn symbol_in(&self, register: Register) -> Option<&str> {
        self.symbols.get(&register).map(String::as_str)
    }

    /// Notes that a register holds the address of a tensor map.
    pub(crate) fn remember_tensor_map(&mut self, register: Register, origin: TensorMapOrigin) {
        self.tensor_maps.insert(register, origin);
    }

    /// Where the tensor map comes from whose address a register holds.
    pub(crate) fn tensor_map_in(&self, register: Register) -> Option<&TensorMapOrigin> {
        self.tensor_maps.get(&register)
    }

    /// The boxes that all maps have which a register may hold the address of, if they are stated.
    pub(crate) fn boxes(&self, address: Register) -> Option<&Requirement> {
        let TensorMapOrigin::Parameter { index, maps } = self.tensor_map_in(address)? else { return None };
        let ParameterType::TensorMaps { needs, .. } = &self.kernel.parameters.get(*index)?.ty else {
            return None;
        };
        let mut boxes =
            needs.get(maps.clone())?.iter().map(|needs| needs.boxes.as_ref().map(|(boxes, _)| boxes));
        let first = boxes.next()??;
        boxes.all(|other| other == Some(first)).then_some(first)
    }

    /// A fresh virtual register.
    pub fn fresh(&mut self, class: RegisterClass) -> Register {
        let home = self.region();
        self.fresh_in(class, home)
    }

    fn fresh_in(&mut self, class: RegisterClass, home: RegionId) -> Register {
        let register = self.owner.register(self.kernel.registers.len());
        self.kernel.registers.push(class);
        self.homes.push(home);
        self.written_for.push(None);
        register
    }

    /// Notes that the next `count` registers are a fragment's.
    pub(crate) fn note_fragment(&mut self, count: u32, location: Location) {
        let first = Register(self.kernel.registers.len() as u32);
        self.kernel.fragments.push(FragmentRegisters { first, count, location });
    }

    /// A fresh label.
    pub fn fresh_label(&mut self) -> Label {
        let label = Label(self.kernel.labels);
        self.kernel.labels += 1;
        label
    }

    /// Appends a statement to the open region.
    pub fn push(&mut self, statement: Statement) {
        self.innermost().body.push(statement);
    }

    /// Appends an instruction. `operands` start with the `destinations` that it writes.
    pub fn emit(
        &mut self,
        opcode: impl Into<std::borrow::Cow<'static, str>>,
        destinations: usize,
        operands: Vec<Operand>,
        location: Location,
    ) {
        self.emit_instruction(Instruction {
            guard: None,
            opcode: opcode.into(),
            destinations,
            operands,
            location,
        });
    }

    /// Appends an instruction, perhaps with a guard.
    pub(crate) fn emit_instruction(&mut self, instruction: Instruction) {
        let Instruction { guard, opcode, operands, location, .. } = &instruction;
        if let Some((guard, _)) = guard {
            self.check_register_alive(*guard, *location);
        }
        for operand in operands {
            self.check_alive(operand, *location);
        }
        self.check_accesses(opcode, operands, *location);
        self.pass_elements_on(&instruction);
        self.note_collective(&instruction);
        self.push(Statement::Instruction(instruction));
    }

    /// Refuses a register that only holds a value where a closed branch or loop ran.
    fn check_alive(&mut self, operand: &Operand, location: Location) {
        match operand {
            Operand::Register(register) | Operand::Not(register) => {
                self.check_register_alive(*register, location);
            }
            Operand::Pair(first, second) => {
                self.check_register_alive(*first, location);
                self.check_register_alive(*second, location);
            }
            Operand::Address { base, rest, .. } => {
                self.check_alive(base, location);
                rest.iter().for_each(|operand| self.check_alive(operand, location));
            }
            Operand::Vector(parts) => parts.iter().for_each(|operand| self.check_alive(operand, location)),
            _ => {}
        }
    }

    fn check_register_alive(&mut self, register: Register, location: Location) {
        let Some(number) = self.number(register) else { return };
        let home = self.homes[number];
        if self.is_open(home) {
            return;
        }
        let computed = self.records[home.index()].location;
        self.error_with_notes(
            location,
            "this value exists only inside the device-time branch or loop that computed it: declare it with `let mut` \
             before that and assign it inside, or make it the value of the `if` or of the `break`",
            vec![(computed, "it was computed in here".to_owned())],
        );
        // Each value is reported once: from here on it counts as belonging to the kernel.
        self.homes[number] = self.regions[0].id;
    }

    /// Records a mistake; staging continues.
    pub fn error(&mut self, location: Location, message: impl Into<String>) {
        self.error_with_notes(location, message, Vec::new());
    }

    /// Records a mistake with further positions that explain it.
    pub fn error_with_notes(
        &mut self,
        location: Location,
        message: impl Into<String>,
        notes: Vec<(Location, String)>,
    ) {
        self.report(StagingError { location, message: message.into(), notes });
    }

    /// Records a mistake once: an unrolled loop makes it again with other numbers.
    fn report(&mut self, mut error: StagingError) {
        // A helper with `#[track_caller]` has one line for the allocation and the access.
        error.notes.retain(|(location, _)| *location != error.location);
        let words = |error: &StagingError| error.message.replace(|letter: char| letter.is_ascii_digit(), "");
        let is_known =
            |known: &StagingError| known.location == error.location && words(known) == words(&error);
        if !self.errors.iter().any(is_known) {
            self.errors.push(error);
        }
    }

    /// Whether a mistake has been recorded.
    pub fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }
}
