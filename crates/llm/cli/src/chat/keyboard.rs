//! The keyboard of a terminal: keys that are pressed while a model is loaded or an answer is written wait for the
//! editor, and are not shown before.

use std::io::{Result, stdin};

use nix::sys::termios::{InputFlags, LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};

/// Holds keys back until the editor reads them. Dropped, it gives the terminal its mode again.
pub(super) struct Keyboard {
    before: Termios,
}

impl Keyboard {
    /// Holds the keys of the standard input, which is a terminal.
    ///
    /// # Errors
    /// The terminal refuses the mode.
    pub(super) fn held() -> Result<Self> {
        let keyboard = Self { before: tcgetattr(stdin())? };
        keyboard.hold()?;
        Ok(keyboard)
    }

    /// Holds keys once more, after a shell had the terminal.
    ///
    /// # Errors
    /// The terminal refuses the mode.
    pub(super) fn hold(&self) -> Result<()> {
        let mut mode = self.before.clone();
        // The bytes of keys as the editor reads them: no line of the kernel's, whose Ctrl-D and arrows the editor would
        // not see.
        mode.input_flags.remove(InputFlags::ICRNL);
        mode.local_flags.remove(LocalFlags::ECHO | LocalFlags::ICANON | LocalFlags::IEXTEN);
        // Ctrl-C stops an answer and drops no key.
        mode.local_flags.insert(LocalFlags::ISIG | LocalFlags::NOFLSH);
        Ok(tcsetattr(stdin(), SetArg::TCSADRAIN, &mode)?)
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        // A terminal that is gone has no mode.
        let _ = tcsetattr(stdin(), SetArg::TCSADRAIN, &self.before);
    }
}
