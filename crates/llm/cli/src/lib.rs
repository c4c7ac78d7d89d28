//! The verbs of `warpwright-llm`, a file per verb.
