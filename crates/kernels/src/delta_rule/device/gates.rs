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
    /// Starts the loads. `of_gates` are the offset of `a` and its elements from token to token, then those of `b`.
    #[track_caller]
    pub(super) fn load(
        (a, b, of_gates): (Global<bf16>, Global<bf16>, [Reg<u32>; 4]),
        (a_log, dt_bias): (Global<f32>, Global<f32>),
        (token, head): (Reg<u32>, Reg<u32>),
    ) -> Self {
        let [of_a, stride_of_a, of_b, stride_of_b] = of_gates;
        Self {
            a: a.at(token.mul_wide(stride_of_a)).at(of_a + head).load(),
            b: b.at(token.mul_wide(stride_of_b)).at(of_b + head).load(),
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
