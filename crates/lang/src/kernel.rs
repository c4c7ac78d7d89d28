//! Staged kernels.

use std::fmt;
use std::marker::PhantomData;

use warpwright_ir as ir;

use crate::recorder::{self, StagingError};
use crate::shared::join_static_to_dynamic;

/// A staged kernel that takes `Args`: the types that a launch must pass, such as `(In<f32>,
/// Out<f32>, u32)`.
pub struct Kernel<Args> {
    ir: ir::Kernel,
    arguments: PhantomData<fn(Args)>,
}

impl<Args> Kernel<Args> {
    /// Stages a kernel by running its body; what `#[kernel]` expands to.
    ///
    /// # Errors
    /// All mistakes that were found.
    #[track_caller]
    pub fn stage(name: &str, body: impl FnOnce()) -> Result<Self, StagingErrors> {
        let ir = finished(recorder::stage(name, body))?;
        Ok(Self { ir, arguments: PhantomData })
    }

    /// The IR.
    pub fn ir(&self) -> &ir::Kernel {
        &self.ir
    }

    /// The IR itself.
    pub fn into_ir(self) -> ir::Kernel {
        self.ir
    }

    /// The entry's name in PTX.
    pub fn name(&self) -> &str {
        &self.ir.name
    }
}

/// Finishes a kernel after its body has run.
fn finished(staged: Result<ir::Kernel, Vec<StagingError>>) -> Result<ir::Kernel, StagingErrors> {
    let mut ir = staged.map_err(StagingErrors)?;
    join_static_to_dynamic(&mut ir);
    Ok(ir)
}

impl<Args> Clone for Kernel<Args> {
    fn clone(&self) -> Self {
        Self { ir: self.ir.clone(), arguments: PhantomData }
    }
}

impl<Args> fmt::Debug for Kernel<Args> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Kernel").field("ir", &self.ir).finish()
    }
}

/// The mistakes that kept a kernel from being built.
#[derive(Clone, PartialEq, Eq)]
pub struct StagingErrors(pub Vec<StagingError>);

impl std::error::Error for StagingErrors {}

impl fmt::Debug for StagingErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl fmt::Display for StagingErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for error in &self.0 {
            writeln!(formatter, "error: {}", error.message)?;
            show(formatter, "", error.location)?;
            for (location, remark) in &error.notes {
                show(formatter, remark, *location)?;
            }
        }
        match self.0.len() {
            1 => write!(formatter, "the kernel was not built: 1 mistake"),
            count => write!(formatter, "the kernel was not built: {count} mistakes"),
        }
    }
}

/// Shows a position as rustc does: the location, and the line itself if the file can be read.
fn show(formatter: &mut fmt::Formatter<'_>, remark: &str, location: ir::Location) -> fmt::Result {
    let number = location.line.to_string();
    let margin = " ".repeat(number.len());
    let arrow = if remark.is_empty() { "-->" } else { ":::" };
    writeln!(formatter, "{margin}{arrow} {}:{}:{}", location.file, location.line, location.column)?;
    let text = read_source(location.file);
    match text.lines().nth(location.line as usize - 1) {
        Some(line) => {
            let caret = format!("{}^ {remark}", " ".repeat(location.column as usize - 1));
            writeln!(formatter, "{margin} |\n{number} | {line}\n{margin} | {}", caret.trim_end())
        }
        None if remark.is_empty() => Ok(()),
        None => writeln!(formatter, "{margin} = {remark}"),
    }
}

/// The text of a source file, if it can be found: the compiler names it relative to a folder above
/// the current one.
fn read_source(file: &str) -> String {
    let folder = std::env::current_dir().unwrap_or_default();
    folder.ancestors().find_map(|above| std::fs::read_to_string(above.join(file)).ok()).unwrap_or_default()
}

/// The PTX name of an entry: the type's and the method's names, in snake case.
///
/// `Transpose<half::bf16>` and `run` give `transpose_bf16_run`.
pub fn entry_name(parts: &[&str]) -> String {
    let mut words: Vec<String> = Vec::new();
    for part in parts {
        // Only the last segment of each path counts.
        for name in part.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')) {
            let name = name.rsplit("::").next().unwrap_or_default();
            if !name.is_empty() {
                words.push(snake_case(name));
            }
        }
    }
    words.join("_")
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    let mut previous_is_lower = false;
    for character in name.chars() {
        if character.is_uppercase() && previous_is_lower {
            snake.push('_');
        }
        previous_is_lower = character.is_lowercase() || character.is_ascii_digit();
        snake.extend(character.to_lowercase());
    }
    snake
}
