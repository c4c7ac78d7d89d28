//! Flags that have vLLM's names now.

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

/// The verb, or nothing for all of them; the old name and the new one.
const RENAMED: [(&str, &str, &str); 16] = [
    ("", "--state", "--mamba-ssm-cache-dtype"),
    ("", "--tensor-parallel", "--tensor-parallel-size"),
    ("", "--context", "--max-model-len"),
    ("", "--drafts", "--num-speculative-tokens"),
    ("serve", "--name", "--served-model-name"),
    ("serve", "--allow-host", "--allowed-hosts"),
    ("serve", "--allow-origin", "--allowed-origins"),
    ("serve", "--sequences", "--max-num-seqs"),
    ("serve", "--no-prefix-cache", "--no-enable-prefix-caching"),
    ("bench", "--batch", "--batch-size"),
    ("bench", "--prompt", "--input-len"),
    ("bench", "--steps", "--output-len"),
    ("load", "--concurrent", "--max-concurrency"),
    ("load", "--requests", "--num-prompts"),
    ("load", "--prompt-tokens", "--random-input-len"),
    ("load", "--answer-tokens", "--random-output-len"),
];

/// The error of an unknown flag, which names the flag that replaces it.
pub(crate) fn with_new_name<C: CommandFactory>(error: Error, verb: Option<&str>) -> Error {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return error };
    let flag = flag.split('=').next().unwrap_or_default();
    let mut renamed = RENAMED.iter().filter(|(of, ..)| of.is_empty() || verb == Some(of));
    match renamed.find(|(_, old, _)| *old == flag) {
        Some((_, old, new)) if error.kind() == ErrorKind::UnknownArgument => {
            C::command().error(ErrorKind::UnknownArgument, format!("`{old}` is now `{new}`"))
        }
        _ => error,
    }
}
