//! What `report` and `time` say of launches that another program made, as the command says it.

use std::sync::Arc;

use anyhow::Result;
use warpwright_arch::Arch;
use warpwright_runtime::{Counters, Prediction};

use crate::{Answer, report, sources, time};

/// What launches did: `counted` on an emulated device, of kernels that were loaded from `ptx`. `name` is what is
/// reported on.
///
/// # Errors
/// No emulated device has that name.
pub fn report(name: &str, device: &str, counted: Vec<Counters>, ptx: &Arc<str>) -> Result<Answer> {
    let arch = Arch::named(device.trim_start_matches("emu:"))?;
    let kernels = report::kernels(counted, |_| ptx.clone(), arch, None);
    let json = report::as_json(name, device, &kernels, arch);
    let title = format!("{name} on {device}");
    let text = report::as_text(title, &kernels, arch, report::SHOWN_LINES, &mut sources::files());
    Ok(Answer { json, text })
}

/// The predicted times of launches on an emulated device. `name` is what is timed.
pub fn time(name: &str, device: &str, predictions: &[Prediction]) -> Answer {
    let mut files = sources::files();
    let parts = predictions.iter().map(|prediction| time::text(prediction, time::SHOWN_LINES, &mut files));
    let text = parts.collect::<Vec<_>>().join("\n\n");
    Answer { json: time::as_json(name, device, predictions), text }
}
