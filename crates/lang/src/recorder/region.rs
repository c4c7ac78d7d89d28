//! Opening and closing regions.
//!
//! The kernel's body is one, and so is each branch of a device-time `if` and each body of a
//! device-time loop. Build-time control flow opens none. A `loop` or `while` whose condition is not
//! known yet opens an *undecided* region: it becomes a device-time loop, or is dissolved into the
//! region around it.

use warpwright_ir::{Body, Label, Location, Operand, Register, RegisterClass, Statement};

use super::Recorder;
use super::jumps::leaves;
use super::state::{Conditions, IfResult, Region, RegionId, RegionKind, RegionRecord, Scope, StagingError};

impl Recorder {
    pub(super) fn open_kernel(&mut self, location: Location) {
        let id = self.reserve_region(location);
        self.open(id, RegionKind::Kernel, location);
    }

    pub(super) fn close_kernel(&mut self) -> Body {
        self.regions.pop().map(|region| region.body).unwrap_or_default()
    }

    /// The region now open.
    pub fn region(&self) -> RegionId {
        self.regions[self.regions.len() - 1].id
    }

    /// The scope now open.
    pub(crate) fn scope(&self) -> Scope {
        let innermost = &self.regions[self.regions.len() - 1];
        Scope { region: innermost.id, otherwise: innermost.is_otherwise() }
    }

    /// Whether what was recorded in `scope` is executed before what is recorded now.
    pub(crate) fn is_in_scope(&self, scope: Scope) -> bool {
        let scope = self.surviving(scope);
        let open = self.depth(scope.region).map(|depth| &self.regions[depth]);
        open.is_some_and(|open| open.is_otherwise() == scope.otherwise)
    }

    /// Whether `region` is open, innermost or around the innermost.
    pub fn is_open(&self, region: RegionId) -> bool {
        self.depth(region).is_some()
    }

    /// How many regions are open around `region`, if it is open.
    pub(super) fn depth(&self, region: RegionId) -> Option<usize> {
        let region = self.surviving(Scope { region, otherwise: false }).region;
        // The innermost regions are the likeliest.
        self.regions.iter().rposition(|open| open.id == region)
    }

    /// Whether `region` itself is the innermost.
    pub(crate) fn is_open_now(&self, region: RegionId) -> bool {
        self.regions[self.regions.len() - 1].id == region
    }

    /// The region around `region`.
    pub(super) fn around(&self, region: RegionId) -> RegionId {
        let depth = self.depth(region).unwrap_or(0);
        self.regions[depth.saturating_sub(1)].id
    }

    pub(super) fn surviving(&self, mut scope: Scope) -> Scope {
        while let Some(outer) = self.records[scope.region.index()].dissolved_into {
            scope = outer;
        }
        scope
    }

    /// The regions opened since `region`, outermost first.
    fn since(&self, region: RegionId) -> &[Region] {
        &self.regions[self.depth(region).map_or(0, |depth| depth + 1)..]
    }

    /// The statements recorded so far in the innermost region.
    pub fn recorded(&self) -> &[Statement] {
        &self.regions[self.regions.len() - 1].body
    }

    /// Whether the code that follows in the innermost region is unreachable.
    pub(crate) fn ended(&self) -> bool {
        self.regions[self.regions.len() - 1].ended
    }

    /// Refuses a change of a build-time variable declared in region `since` if the change would
    /// depend on the device.
    pub(crate) fn judge_build_time_change(&mut self, since: RegionId, location: Location, message: &str) {
        let from = self.depth(since).map_or(0, |depth| depth + 1);
        let error = |region: &Region| StagingError {
            location,
            message: message.to_owned(),
            notes: vec![(region.location, region.remark())],
        };
        if let Some(region) = self.regions[from..].iter().find(|region| region.is_conditional()) {
            let error = error(region);
            return self.report(error);
        }
        for region in &mut self.regions[from..] {
            let mistake = error(region);
            if let RegionKind::Loop { decided: false, pending, .. } = &mut region.kind {
                pending.push(mistake);
            }
        }
    }

    /// The device conditions around what is recorded next, and whether each holds there; `None` if
    /// threads may have left before it.
    pub(super) fn conditions(&self) -> Option<Conditions> {
        if self.regions.iter().any(|region| leaves(&region.body, &mut Vec::new())) {
            return None;
        }
        Some(self.branch_conditions())
    }

    /// The device conditions around what is recorded next, whoever has left before.
    pub(super) fn branch_conditions(&self) -> Conditions {
        let condition = |region: &Region| match region.kind {
            RegionKind::Then { condition } => Some((condition, true)),
            RegionKind::Otherwise { condition, .. } => Some((condition, false)),
            _ => None,
        };
        self.regions.iter().filter_map(condition).collect()
    }

    /// Refuses what depends on no device value, where the device decides whether it is reached.
    /// Returns whether it did.
    pub(crate) fn refuse_under_condition(&mut self, location: Location, message: &str) -> bool {
        let condition = self.regions.iter().rfind(|region| region.is_conditional());
        let Some(notes) = condition.map(|region| vec![(region.location, region.remark())]) else {
            return false;
        };
        self.report(StagingError { location, message: message.to_owned(), notes });
        true
    }

    /// Opens the `then` branch of a device-time `if`.
    pub fn open_then(&mut self, condition: Register, location: Location) {
        self.check_register_alive(condition, location);
        let id = self.reserve_region(location);
        self.open(id, RegionKind::Then { condition }, location);
    }

    /// Closes the `then` branch and opens the `else` branch.
    pub fn open_otherwise(&mut self) {
        let region = self.close();
        let RegionKind::Then { condition } = region.kind else {
            unreachable!("`otherwise` follows `then`");
        };
        let kind = RegionKind::Otherwise { condition, then: region.body, then_ended: region.ended };
        self.open(region.id, kind, region.location);
    }

    /// Closes the `if`, whichever branch is open.
    pub fn close_if(&mut self) {
        self.close_if_with(Vec::new());
    }

    /// Closes the `if`; returns a register for each of its results.
    pub(crate) fn close_if_with(&mut self, results: Vec<IfResult>) -> Vec<Register> {
        let region = self.close();
        let location = region.location;
        let (condition, mut then, mut otherwise, ended) = match region.kind {
            RegionKind::Then { condition } => (condition, region.body, Body::new(), false),
            RegionKind::Otherwise { condition, then, then_ended } => {
                (condition, then, region.body, then_ended && region.ended)
            }
            _ => unreachable!("an `if` is closed where it was opened"),
        };
        let mut registers = Vec::with_capacity(results.len());
        let empty = then.is_empty() && otherwise.is_empty();
        for result in results {
            let destination = self.fresh(result.class);
            registers.push(destination);
            match (result.then, result.otherwise) {
                (Some((word, then)), Some((_, otherwise)))
                    if empty
                        && result.class != RegisterClass::Predicate
                        && result.class != RegisterClass::B128 =>
                {
                    let operands =
                        vec![Operand::Register(destination), then, otherwise, Operand::Register(condition)];
                    self.emit(format!("selp.{word}"), 1, operands, location);
                }
                (from_then, from_otherwise) => {
                    then.extend(from_then.map(|source| mov(destination, source, location)));
                    otherwise.extend(from_otherwise.map(|source| mov(destination, source, location)));
                }
            }
        }
        if !(then.is_empty() && otherwise.is_empty()) {
            self.push(Statement::If { condition, then, otherwise, location });
        }
        self.innermost().ended |= ended;
        registers
    }

    /// Closes the innermost branch and keeps its statements as if there had been no condition.
    pub(crate) fn dissolve_branch(&mut self) {
        self.dissolve();
    }

    /// Names a region that will be opened later.
    pub(crate) fn reserve_region(&mut self, location: Location) -> RegionId {
        let id = RegionId(self.records.len() as u32);
        self.records.push(RegionRecord { location, dissolved_into: None });
        id
    }

    /// Opens a loop; an undecided one may yet be dissolved.
    pub(crate) fn open_loop(&mut self, id: RegionId, decided: bool, location: Location) -> Label {
        let label = self.fresh_label();
        self.open(id, RegionKind::Loop { label, decided, pending: Vec::new() }, location);
        label
    }

    /// Closes the body of the innermost loop and opens its step.
    pub(crate) fn open_step(&mut self) {
        let region = self.close();
        let RegionKind::Loop { label, .. } = region.kind else {
            unreachable!("a step follows a loop's body");
        };
        self.open(region.id, RegionKind::Step { label, body: region.body }, region.location);
    }

    /// Closes the innermost loop, with or without a step.
    pub(crate) fn close_loop(&mut self) {
        let region = self.close();
        let (label, body, step) = match region.kind {
            RegionKind::Loop { label, .. } => (label, region.body, Body::new()),
            RegionKind::Step { label, body } => (label, body, region.body),
            _ => unreachable!("a loop is closed where it was opened"),
        };
        self.push(Statement::Loop { label, body, step, location: region.location });
    }

    /// Marks an undecided loop as a device-time one.
    pub(crate) fn decide_loop(&mut self, wanted: Label) {
        let mut mistakes = Vec::new();
        for region in &mut self.regions {
            if region.has_label(wanted)
                && let RegionKind::Loop { decided, pending, .. } = &mut region.kind
            {
                *decided = true;
                mistakes.append(pending);
            }
        }
        mistakes.into_iter().for_each(|mistake| self.report(mistake));
    }

    /// Whether the open loop `label` is a device-time one.
    pub(crate) fn is_decided(&self, label: Label) -> bool {
        self.regions.iter().any(|region| region.has_label(label) && !region.is_undecided())
    }

    /// Closes the innermost loop and keeps its statements as if there had been no loop: it runs at
    /// build time.
    pub(crate) fn dissolve_loop(&mut self) {
        self.dissolve();
    }

    /// Opens a block that [`Recorder::leave`] can leave early.
    pub(crate) fn open_block(&mut self, location: Location) -> Label {
        let label = self.fresh_label();
        let id = self.reserve_region(location);
        self.open(id, RegionKind::Block { label, left: false }, location);
        label
    }

    /// Whether something leaves the innermost block early.
    pub(crate) fn block_is_left(&self) -> bool {
        matches!(self.regions[self.regions.len() - 1].kind, RegionKind::Block { left: true, .. })
    }

    /// Closes the innermost block; without an early exit it becomes part of the region around it.
    pub(crate) fn close_block(&mut self) {
        if !self.block_is_left() {
            return self.dissolve();
        }
        let region = self.close();
        let RegionKind::Block { label, .. } = region.kind else {
            unreachable!("a block is closed where it was opened");
        };
        self.push(Statement::Block { label, body: region.body });
    }

    /// Whether Rust's own jump out of everything opened since `region` is valid: nothing since
    /// depends on the device.
    pub(crate) fn may_leave_at_build_time(&self, region: RegionId) -> bool {
        self.since(region).iter().all(Region::is_undecided)
    }

    /// Leaves the loop or block `label` by a recorded `break`, `continue` (or, without a label,
    /// `return`).
    pub(crate) fn leave(&mut self, label: Option<Label>, statement: Statement) {
        let mut conditional = false;
        let mut deciding = Vec::new();
        for region in self.regions.iter_mut().rev() {
            conditional |= region.is_conditional();
            if let RegionKind::Loop { decided: false, label, .. } = &region.kind
                && conditional
            {
                deciding.push(*label);
            }
            if label.is_some_and(|label| region.has_label(label)) {
                if let RegionKind::Block { left, .. } = &mut region.kind {
                    *left = true;
                }
                break;
            }
        }
        deciding.into_iter().for_each(|label| self.decide_loop(label));
        if let Statement::Return(location) = &statement {
            self.note_departure(*location);
        }
        self.push(statement);
        self.innermost().ended = true;
    }

    /// Refuses to leave build-time control flow, begun in `region`, on a device-time condition.
    pub(crate) fn refuse_to_leave(&mut self, region: RegionId, location: Location, message: &str) {
        let notes = self
            .since(region)
            .iter()
            .find(|open| open.is_conditional())
            .map(|open| (open.location, open.remark()));
        self.error_with_notes(location, message, notes.into_iter().collect());
        self.innermost().ended = true;
    }

    /// Closes what a build-time jump or `?` left open since `depth` regions were open, and reports
    /// a mistake.
    pub(crate) fn abandon(&mut self, region: RegionId, location: Location) {
        while self.is_open(region) {
            self.close();
        }
        self.error(
            location,
            "build-time control flow (a `?`, or a jump out of a closure or macro) leaves this device-time block before its \
             end: decide it outside of the block",
        );
    }

    fn dissolve(&mut self) {
        let region = self.close();
        let outer = self.scope();
        self.records[region.id.index()].dissolved_into = Some(outer);
        let innermost = self.innermost();
        innermost.body.extend(region.body);
        innermost.ended |= region.ended;
    }

    fn open(&mut self, id: RegionId, kind: RegionKind, location: Location) {
        self.regions.push(Region { id, body: Body::new(), kind, location, ended: false });
    }

    fn close(&mut self) -> Region {
        assert!(self.regions.len() > 1, "the kernel's own region is closed by `finish` alone");
        self.regions.pop().expect("checked above")
    }

    pub(super) fn innermost(&mut self) -> &mut Region {
        self.regions.last_mut().expect("the kernel's own region is always open")
    }
}

fn mov(destination: Register, (word, source): (&'static str, Operand), location: Location) -> Statement {
    Statement::Instruction(warpwright_ir::Instruction {
        guard: None,
        opcode: format!("mov.{word}").into(),
        destinations: 1,
        operands: vec![Operand::Register(destination), source],
        location,
    })
}
