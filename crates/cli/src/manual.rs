//! `warpwright man`: manual pages.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_mangen::Man as Page;
use serde_json::json;

use crate::file;
use crate::output::Output;

/// Write a manual page for the command and for each verb to a folder.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Folder of the pages, such as ~/.local/share/man/man1.
    folder: PathBuf,
}

impl Man {
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        std::fs::create_dir_all(&self.folder)
            .with_context(|| format!("{} cannot be created", self.folder.display()))?;
        let mut command = crate::Command::command();
        command.build();
        let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
        let mut written = Vec::new();
        for page in std::iter::once(command.clone()).chain(verbs).map(Page::new) {
            let mut text = Vec::new();
            page.render(&mut text).context("the page cannot be written")?;
            let path = self.folder.join(page.get_filename());
            file::write(&path, text)?;
            written.push(path.display().to_string());
        }
        output.json(|| json!({"status": "ok", "written": written}));
        output.text(|| written.join("\n"));
        Ok(())
    }
}
