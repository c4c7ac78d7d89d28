//! The calls that were inlined around positions (PTX ISA, ".loc").
//!
//! `inlined_at` names the innermost call. The calls around it are those of the last `.loc` at that
//! position: compilers write the outer positions first, each before the first use.

use std::collections::HashMap;
use std::sync::Arc;

use crate::syntax::{CallSite, SourceLocation};

/// Calls that are kept around a position.
const DEEPEST: usize = 64;

/// The last `.loc` at each position of a function.
#[derive(Debug, Default)]
pub(super) struct LineTable(HashMap<SourceLocation, Option<Arc<CallSite>>>);

impl LineTable {
    /// A `.loc`, with the inlined function and its call. Returns the call with those around it.
    pub(super) fn note(
        &mut self,
        location: SourceLocation,
        inlined: Option<(String, SourceLocation)>,
    ) -> Option<Arc<CallSite>> {
        let call = inlined.map(|(function, at)| {
            let outer = self.0.get(&at).cloned().flatten();
            match outer {
                // A function that is inlined into itself, at the position that was named last.
                Some(same) if at == location && (&same.function, same.at) == (&function, at) => same,
                outer => {
                    Arc::new(CallSite { function, at, outer: outer.filter(|outer| depth(outer) < DEEPEST) })
                }
            }
        });
        self.0.insert(location, call.clone());
        call
    }
}

fn depth(call: &CallSite) -> usize {
    std::iter::successors(Some(call), |call| call.outer.as_deref()).count()
}
