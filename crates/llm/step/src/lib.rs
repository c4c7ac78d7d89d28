//! What the scheduler hands to the engine in a step, and what comes back: plain data.
