//! The last step of a ladder: the kernel of the library.

use warpwright_kernels::registry::{self, LibraryKernel, Options, Result};

/// The library's kernel of that name, and its options for what a lesson's options describe: those of the same names, and `more`.
pub(crate) fn product(
    name: &str,
    lesson: &Options,
    more: &[(&str, &str)],
) -> Result<(&'static dyn LibraryKernel, Options)> {
    let kernel = registry::named(name).ok_or_else(|| format!("the library has no kernel {name}"))?;
    let mut options = Options::defaults(kernel.options());
    for spec in kernel.options() {
        if let Some(value) = lesson.text(spec.name) {
            options.set(spec.name, &value)?;
        }
    }
    for (name, value) in more {
        options.set(name, value)?;
    }
    Ok((kernel, options))
}
