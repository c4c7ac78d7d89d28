//! What `--explain` shows: the model's table, and what was chosen and why.

use std::fmt;
use std::path::PathBuf;

use super::multiply::Way;
use super::plan::{Configuration, Cost};

/// Lines of the model's table that are shown.
const SHOWN: usize = 12;

/// Why a way was chosen.
pub(super) enum Reason {
    /// An option says so.
    Flag(&'static str),
    /// A search found it; the file it is in.
    Tuned(PathBuf),
    /// It is the cheapest by the model, where a search could have found another.
    Model,
    /// It is the cheapest by the model, which alone decides.
    ModelAlone,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Flag(flag) => write!(f, "{flag} asks for it"),
            Reason::Tuned(file) => {
                write!(f, "`warpwright tune` found it to be the fastest ({})", file.display())
            }
            Reason::Model => write!(f, "it is the cheapest by the model, and no search has been kept"),
            Reason::ModelAlone => write!(f, "it is the cheapest by the model"),
        }
    }
}

/// The cheapest of a model's costs, the chosen one marked; `of` says what they are the costs of.
pub(super) fn table(of: &str, costs: &[Cost], chosen: Configuration) -> Vec<String> {
    let mut lines = vec![format!("rank  of {} configurations{of}, by the model", costs.len())];
    lines.extend(costs.iter().take(SHOWN).enumerate().map(|(rank, cost)| {
        let mark = if cost.configuration == chosen { "->" } else { "" };
        format!("{mark:>2}{rank:>3} {cost}")
    }));
    lines
}

/// The last line: what was chosen, and why.
pub(super) fn conclusion(chosen: Configuration, reason: &Reason) -> String {
    format!("{}: {reason}", Way::Warpgroups(chosen))
}

/// Why `mma.sync` multiplies where nothing asks for it, on a device with warpgroups or on one without.
pub(super) fn why_by_warps(has_warpgroups: bool) -> &'static str {
    if has_warpgroups {
        "TMA cannot read A and B as they are, and to copy them takes longer"
    } else {
        "warpgroups need sm_90a"
    }
}
