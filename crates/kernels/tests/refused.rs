//! Calls that are refused, for the tests of the library and of the lessons.

use warpwright::runtime::{Buffer, Device, LaunchCounts, Storable, Stream};
use warpwright_kernels::operations::{OperationError, Operations};

pub(crate) type Outcome = Result<LaunchCounts, OperationError>;

/// What a call needs: the device's operations, and buffers of any type and length.
pub(crate) struct Bench {
    pub(crate) operations: Operations,
    pub(crate) stream: Stream,
}

impl Bench {
    fn new() -> Self {
        let device = Device::named("emu:h200").expect("emulators are always there");
        Self { stream: device.stream().expect("a stream"), operations: Operations::new(&device) }
    }

    pub(crate) fn of<T: Storable>(&self, length: usize) -> Buffer<T> {
        self.operations.device().zeros(length).expect("memory")
    }

    pub(crate) fn f32(&self, length: usize) -> Buffer<f32> {
        self.of(length)
    }
}

/// A call that is refused: the operation, the call, and the sentence.
pub(crate) type Refusal = (&'static str, fn(&Bench) -> Outcome, &'static str);

/// Calls of an operation, `$bench` being what they need, and the sentences that refuse them.
macro_rules! refusals {
    ($($operation:ident, |$bench:ident| $call:expr => $sentence:literal;)*) => {
        &[$((stringify!($operation), |$bench: &Bench| -> Outcome { $call }, $sentence)),*]
    };
}
pub(crate) use refusals;

pub(crate) fn sorted_by(
    bench: &Bench,
    sort: impl Fn(&Bench, &Buffer<u32>, &mut Buffer<u32>) -> Outcome,
) -> Outcome {
    sort(bench, &bench.of(100), &mut bench.of(100))
}

/// Each call is refused for a length or a shape, by its sentence.
pub(crate) fn expect_refusals(refusals: &[Refusal]) {
    let bench = Bench::new();
    for (operation, call, sentence) in refusals {
        let error = call(&bench).map(|_| ()).expect_err(sentence);
        let is_about_shapes = matches!(
            error,
            OperationError::Length { .. } | OperationError::Shape { .. } | OperationError::Empty { .. }
        );
        assert!(is_about_shapes, "{operation}: {error:?}");
        assert_eq!(error.to_string(), *sentence, "{operation}");
    }
}
