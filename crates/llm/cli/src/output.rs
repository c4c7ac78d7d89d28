//! How a command ends: with an error as one line, or because nobody reads its output, as in `bench --plan | head`.

use std::io;

/// Ends the process without a word when printing finds that nobody reads. Rust ignores the signal that would end it,
/// which sockets need, and `println` panics.
pub fn ends_with_output() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload().downcast_ref::<String>().map_or("", String::as_str);
        if message.starts_with("failed printing to std") && message.contains("Broken pipe") {
            std::process::exit(0);
        }
        default(panic);
    }));
}

/// Whether an error says that nobody reads the output.
pub fn is_end_of_output(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// An error with its causes, but those that it says itself.
pub fn sentence(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.is_empty() {
        true => cause,
        false if text.contains(&cause) => text,
        false => format!("{text}: {cause}"),
    })
}
