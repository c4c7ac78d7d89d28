//! `&&` and `||`.

use warpwright_ir::{Location, Operand, RegisterClass, Statement};

use crate::operation::here;
use crate::recorder::{self, RegionId};
use crate::value::Reg;

/// What `&&` and `||` combine: `bool` and `Reg<bool>`.
#[diagnostic::on_unimplemented(
    message = "`&&` and `||` take conditions: a `bool` or a `Reg<bool>`, not `{Self}`",
    label = "not a condition",
    note = "compare it with something: `x != 0`"
)]
pub trait Truth: Sized {
    /// `self && ...`: of no type for what is no condition, so that the compiler says so once.
    type Both;
    /// `self || ...`
    type Either;
    /// Begins `self && ...`.
    fn both(self) -> Self::Both;
    /// Begins `self || ...`.
    fn either(self) -> Self::Either;
    /// A value known at build time.
    fn known(value: bool) -> Self;
    /// The value on the device.
    fn on_device(self) -> Reg<bool>;
}

/// The left side of `&&`.
pub struct Both<L>(Decision<L>);

/// The left side of `||`.
pub struct Either<L>(Decision<L>);

/// A left side that decides whether the right side runs.
struct Decision<L> {
    left: Option<L>,
    location: Location,
    region: Option<RegionId>,
}

impl<L> Decision<L> {
    #[track_caller]
    fn new(left: L) -> Self {
        Self { left: Some(left), location: here(), region: None }
    }
}

impl Truth for bool {
    type Both = Both<Self>;
    type Either = Either<Self>;

    #[track_caller]
    fn both(self) -> Both<Self> {
        Both(Decision::new(self))
    }

    #[track_caller]
    fn either(self) -> Either<Self> {
        Either(Decision::new(self))
    }

    fn known(value: bool) -> Self {
        value
    }

    #[track_caller]
    fn on_device(self) -> Reg<bool> {
        let location = here();
        recorder::with(|recorder| {
            let destination = recorder.fresh(RegisterClass::Predicate);
            // PTX: a true predicate is any literal but zero; compilers write -1.
            let source = Operand::Integer(if self { -1 } else { 0 });
            recorder.emit("mov.pred", 1, vec![Operand::Register(destination), source], location);
            Reg::from_register(destination)
        })
    }
}

impl Truth for Reg<bool> {
    type Both = Both<Self>;
    type Either = Either<Self>;

    #[track_caller]
    fn both(self) -> Both<Self> {
        Both(Decision::new(self))
    }

    #[track_caller]
    fn either(self) -> Either<Self> {
        Either(Decision::new(self))
    }

    #[track_caller]
    fn known(value: bool) -> Self {
        value.on_device()
    }

    fn on_device(self) -> Reg<bool> {
        self
    }
}

impl Both<bool> {
    /// Whether the right side runs.
    pub fn right(&mut self) -> bool {
        self.0.left == Some(true)
    }

    /// The value of the whole.
    #[track_caller]
    pub fn join<R: Truth>(self, right: Option<R>) -> R {
        // No closure: the line is the caller's.
        match right {
            Some(right) => right,
            None => R::known(false),
        }
    }
}

impl Either<bool> {
    /// Whether the right side runs.
    pub fn right(&mut self) -> bool {
        self.0.left == Some(false)
    }

    /// The value of the whole.
    #[track_caller]
    pub fn join<R: Truth>(self, right: Option<R>) -> R {
        match right {
            Some(right) => right,
            None => R::known(true),
        }
    }
}

impl Both<Reg<bool>> {
    /// Records the right side for where the left holds.
    #[track_caller]
    pub fn right(&mut self) -> bool {
        self.0.open(true)
    }

    /// The value of the whole.
    #[track_caller]
    pub fn join<R: Truth>(self, right: Option<R>) -> Reg<bool> {
        self.0.close(right, "and.pred", true)
    }
}

impl Either<Reg<bool>> {
    /// Records the right side for where the left does not hold.
    #[track_caller]
    pub fn right(&mut self) -> bool {
        self.0.open(false)
    }

    /// The value of the whole.
    #[track_caller]
    pub fn join<R: Truth>(self, right: Option<R>) -> Reg<bool> {
        self.0.close(right, "or.pred", false)
    }
}

impl Decision<Reg<bool>> {
    #[track_caller]
    fn open(&mut self, when: bool) -> bool {
        let Some(left) = self.left else { return false };
        recorder::with(|recorder| {
            recorder.open_then(left.register(), self.location);
            if !when {
                recorder.open_otherwise();
            }
            self.region = Some(recorder.region());
        });
        true
    }

    #[track_caller]
    fn close<R: Truth>(mut self, right: Option<R>, opcode: &'static str, when: bool) -> Reg<bool> {
        let (Some(left), Some(right)) = (self.left, right) else {
            return Reg::from_register(recorder::NO_REGISTER);
        };
        let right = right.on_device();
        self.region = None;
        recorder::with(|recorder| {
            let left = left.register();
            if recorder.recorded().iter().all(is_harmless) {
                recorder.dissolve_branch();
                let result = recorder.fresh(RegisterClass::Predicate);
                let operands = [result, left, right.register()].map(Operand::Register).into();
                recorder.emit(opcode, 1, operands, self.location);
                return Reg::from_register(result);
            }
            let sources = [Operand::Register(left), right.operand()].map(|operand| Some(("pred", operand)));
            let [from_left, from_right] = sources;
            let (then, otherwise) = if when { (from_right, from_left) } else { (from_left, from_right) };
            let result = recorder::IfResult { class: RegisterClass::Predicate, then, otherwise };
            let registers = recorder.close_if_with(vec![result]);
            Reg::from_register(registers[0])
        })
    }
}

impl<L> Drop for Decision<L> {
    fn drop(&mut self) {
        if let Some(region) = self.region
            && !std::thread::panicking()
        {
            recorder::with(|recorder| recorder.abandon(region, self.location));
        }
    }
}

/// Whether running an instruction where it is not needed has no effect and costs little: arithmetic
/// on registers that cannot fail.
fn is_harmless(statement: &Statement) -> bool {
    const HARMLESS: [&str; 20] = [
        "mov", "setp", "add", "sub", "mul", "mad", "fma", "min", "max", "and", "or", "xor", "not", "neg",
        "abs", "shl", "shr", "cvt", "selp", "lop3",
    ];
    let Statement::Instruction(instruction) = statement else { return false };
    let base = instruction.opcode.split('.').next().unwrap_or_default();
    HARMLESS.contains(&base)
}
