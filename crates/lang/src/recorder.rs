//! The recorder: where staged operations go.
//!
//! While a kernel is being staged, one [`Recorder`] is current on the thread. Values and operators are small handles
//! that append to it; nothing else in the language has hidden state. A mistake is recorded with the author's position
//! and staging goes on, so that one build reports every mistake, not only the first.

use std::cell::RefCell;
use std::panic;

use warpwright_ir::{
    Body, Instruction, Kernel, Label, Location, Operand, Register, RegisterClass, Statement,
};

/// A mistake found while a kernel was staged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{location_text}: {message}", location_text = display_location(.location))]
pub struct StagingError {
    /// Where the author wrote it.
    pub location: Location,
    /// A sentence that says what is wrong and what to do.
    pub message: String,
    /// Further positions that explain it, each with its remark.
    pub notes: Vec<(Location, String)>,
}

fn display_location(location: &Location) -> String {
    format!("{}:{}:{}", location.file, location.line, location.column)
}

/// Names one stretch of staged code that runs together: the kernel's body, one branch of a device-time `if`, one body
/// of a device-time loop. Build-time control flow opens no region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionId(u32);

/// An open region: the statements recorded so far and what will become of them.
struct Region {
    id: RegionId,
    body: Body,
    kind: RegionKind,
    location: Location,
}

enum RegionKind {
    Kernel,
    Then { condition: Register },
    Otherwise { condition: Register, then: Body },
    Loop { label: Label },
    Step { label: Label, body: Body },
    Block { label: Label },
}

/// Records one kernel.
pub struct Recorder {
    kernel: Kernel,
    regions: Vec<Region>,
    next_region: u32,
    errors: Vec<StagingError>,
}

thread_local! {
    static CURRENT: RefCell<Vec<Recorder>> = const { RefCell::new(Vec::new()) };
}

/// Stages a kernel: runs `author` with a fresh recorder and returns what it recorded.
///
/// # Errors
/// Every mistake recorded, in order; a panic inside `author` becomes one too.
pub fn stage(name: &str, author: impl FnOnce()) -> Result<Kernel, Vec<StagingError>> {
    let begin = Location::from(panic::Location::caller());
    CURRENT.with_borrow_mut(|stack| stack.push(Recorder::new(name, begin)));
    let outcome = panic::catch_unwind(panic::AssertUnwindSafe(author));
    let recorder = CURRENT.with_borrow_mut(|stack| stack.pop()).expect("stage pushed a recorder");
    recorder.finish(outcome.err().map(|payload| panic_message(payload.as_ref())), begin)
}

fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    format!("the kernel's build-time code panicked: {text}")
}

/// Runs `f` on the current recorder.
///
/// # Panics
/// When no kernel is being staged: device values exist only inside one.
#[track_caller]
pub fn with<R>(f: impl FnOnce(&mut Recorder) -> R) -> R {
    CURRENT.with_borrow_mut(|stack| {
        let recorder = stack.last_mut().unwrap_or_else(|| {
            panic!("device values exist only while a kernel is being built; call this from a #[kernel] or a function it calls")
        });
        f(recorder)
    })
}

impl Recorder {
    fn new(name: &str, location: Location) -> Self {
        let root = Region { id: RegionId(0), body: Body::new(), kind: RegionKind::Kernel, location };
        Self {
            kernel: Kernel { name: name.to_owned(), ..Kernel::default() },
            regions: vec![root],
            next_region: 1,
            errors: Vec::new(),
        }
    }

    fn finish(mut self, panicked: Option<String>, begin: Location) -> Result<Kernel, Vec<StagingError>> {
        if let Some(message) = panicked {
            self.error(begin, message);
        } else if self.regions.len() != 1 {
            let location = self.regions[self.regions.len() - 1].location;
            self.error(location, "this device-time block was left by build-time control flow before its end");
        }
        if !self.errors.is_empty() {
            return Err(self.errors);
        }
        self.kernel.body = self.regions.pop().map(|region| region.body).unwrap_or_default();
        Ok(self.kernel)
    }

    /// The kernel under construction, for parameters, shared variables and launch bounds.
    pub fn kernel(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    /// A fresh virtual register.
    pub fn fresh(&mut self, class: RegisterClass) -> Register {
        let register = Register(self.kernel.registers.len() as u32);
        self.kernel.registers.push(class);
        register
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
        self.push(Statement::Instruction(Instruction {
            guard: None,
            opcode: opcode.into(),
            destinations,
            operands,
            location,
        }));
    }

    /// Records a mistake; staging goes on.
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
        let error = StagingError { location, message: message.into(), notes };
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    /// The region now open.
    pub fn region(&self) -> RegionId {
        self.regions[self.regions.len() - 1].id
    }

    /// Whether `region` is open, innermost or around the innermost.
    pub fn is_open(&self, region: RegionId) -> bool {
        self.regions.iter().any(|open| open.id == region)
    }

    /// The positions of the device-time branches and loops opened since `region`, outermost first: empty when
    /// `region` is the innermost.
    pub fn opened_since(&self, region: RegionId) -> Vec<Location> {
        let after = self.regions.iter().position(|open| open.id == region).map_or(0, |at| at + 1);
        self.regions[after..]
            .iter()
            .filter(|open| !matches!(open.kind, RegionKind::Block { .. }))
            .map(|open| open.location)
            .collect()
    }

    /// The statements recorded so far in the innermost region.
    pub fn recorded(&self) -> &[Statement] {
        &self.regions[self.regions.len() - 1].body
    }

    /// Opens the `then` branch of a device-time `if`.
    pub fn open_then(&mut self, condition: Register, location: Location) {
        self.open(RegionKind::Then { condition }, location);
    }

    /// Closes the `then` branch and opens the `else` branch.
    pub fn open_otherwise(&mut self) {
        let region = self.close();
        let RegionKind::Then { condition } = region.kind else {
            return self.unbalanced(region.location);
        };
        self.open(RegionKind::Otherwise { condition, then: region.body }, region.location);
    }

    /// Closes the `if`, whichever branch is open.
    pub fn close_if(&mut self) {
        let region = self.close();
        let (condition, then, otherwise) = match region.kind {
            RegionKind::Then { condition } => (condition, region.body, Body::new()),
            RegionKind::Otherwise { condition, then } => (condition, then, region.body),
            _ => return self.unbalanced(region.location),
        };
        self.push(Statement::If { condition, then, otherwise, location: region.location });
    }

    /// Opens a device-time loop.
    pub fn open_loop(&mut self, location: Location) -> Label {
        let label = self.fresh_label();
        self.open(RegionKind::Loop { label }, location);
        label
    }

    /// Closes the body of the innermost loop and opens its step.
    pub fn open_step(&mut self) {
        let region = self.close();
        let RegionKind::Loop { label } = region.kind else {
            return self.unbalanced(region.location);
        };
        self.open(RegionKind::Step { label, body: region.body }, region.location);
    }

    /// Closes the innermost loop, with or without a step.
    pub fn close_loop(&mut self) {
        let region = self.close();
        let (label, body, step) = match region.kind {
            RegionKind::Loop { label } => (label, region.body, Body::new()),
            RegionKind::Step { label, body } => (label, body, region.body),
            _ => return self.unbalanced(region.location),
        };
        self.push(Statement::Loop { label, body, step, location: region.location });
    }

    /// Closes the innermost loop and keeps its statements as if there had been no loop: for a `loop` that turns out
    /// to run at build time.
    pub fn dissolve_loop(&mut self) {
        let region = self.close();
        self.innermost().body.extend(region.body);
    }

    /// Opens a block that [`Statement::Break`] can leave early.
    pub fn open_block(&mut self, location: Location) -> Label {
        let label = self.fresh_label();
        self.open(RegionKind::Block { label }, location);
        label
    }

    /// Closes the innermost block.
    pub fn close_block(&mut self) {
        let region = self.close();
        let RegionKind::Block { label } = region.kind else {
            return self.unbalanced(region.location);
        };
        self.push(Statement::Block { label, body: region.body });
    }

    fn open(&mut self, kind: RegionKind, location: Location) {
        let id = RegionId(self.next_region);
        self.next_region += 1;
        self.regions.push(Region { id, body: Body::new(), kind, location });
    }

    fn close(&mut self) -> Region {
        assert!(self.regions.len() > 1, "the kernel's own region is closed by `finish` alone");
        self.regions.pop().expect("checked above")
    }

    fn innermost(&mut self) -> &mut Region {
        self.regions.last_mut().expect("the kernel's own region is always open")
    }

    fn unbalanced(&mut self, location: Location) {
        self.error(location, "this device-time block was left by build-time control flow before its end");
    }
}
