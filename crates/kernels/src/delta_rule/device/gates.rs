//! What decays the state and how much of it a token replaces.

use warpwright::prelude::*;

/// The gates of a token and a value head.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Gates {
    /// g, the logarithm of the decay: at most 0.
    pub(super) log_decay: Reg<f32>,
    /// The part of what a key recalls that the value replaces.
    pub(super) beta: Reg<f32>,
}

impl Gates {
    /// g = -exp(a_log) · softplus(a + dt_bias) and β = sigmoid(b). `a` and `b` are (tokens,
    /// `heads`).
    #[track_caller]
    pub(super) fn load(
        (a, b): (Global<bf16>, Global<bf16>),
        (a_log, dt_bias): (Global<f32>, Global<f32>),
        (token, head, heads): (Reg<u32>, Reg<u32>, u32),
    ) -> Self {
        let at = token.convert::<u64>() * u64::from(heads) + head.convert::<u64>();
        let a = a.at(at).load_read_only().convert::<f32>() + dt_bias.at(head).load_read_only();
        let b = b.at(at).load_read_only().convert::<f32>();
        let rate = a_log.at(head).load_read_only().exp();
        Self { log_decay: -(rate * a.softplus()), beta: b.sigmoid() }
    }
}
