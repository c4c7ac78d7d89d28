//! What decays the state and how much of it a token replaces.

use warpwright::prelude::*;

/// The logarithm of a decay at least: its exponential is 0 in f32. Sums of the log-decays of a chunk keep
/// the digits of its other tokens.
const LEAST_LOG_DECAY: f32 = -104.0;

/// The gates of a token and a value head.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Gates {
    /// g, the logarithm of the decay: at most 0.
    pub(super) log_decay: Reg<f32>,
    /// The part of what a key recalls that the value replaces.
    pub(super) beta: Reg<f32>,
}

/// The inputs of a token's gates.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct GateInputs {
    a: Reg<bf16>,
    b: Reg<bf16>,
    a_log: Reg<f32>,
    dt_bias: Reg<f32>,
}

impl GateInputs {
    /// Starts the loads. `a` and `b` are (tokens, `heads`).
    #[track_caller]
    pub(super) fn load(
        (a, b): (Global<bf16>, Global<bf16>),
        (a_log, dt_bias): (Global<f32>, Global<f32>),
        (token, head, heads): (Reg<u32>, Reg<u32>, u32),
    ) -> Self {
        let at = token.convert::<u64>() * u64::from(heads) + head.convert::<u64>();
        Self {
            a: a.at(at).load(),
            b: b.at(at).load(),
            a_log: a_log.at(head).load(),
            dt_bias: dt_bias.at(head).load(),
        }
    }

    /// g = -exp(a_log) · softplus(a + dt_bias) and β = sigmoid(b).
    #[track_caller]
    pub(super) fn gates(self) -> Gates {
        let a = self.a.convert::<f32>() + self.dt_bias;
        let b = self.b.convert::<f32>();
        let log_decay = -(self.a_log.exp() * a.softplus());
        Gates { log_decay: log_decay.max_nan(LEAST_LOG_DECAY), beta: b.sigmoid() }
    }
}
