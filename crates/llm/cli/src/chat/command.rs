//! What a user may type: messages, and commands that begin with a slash.

/// A command, its argument, and what it does.
pub(super) const COMMANDS: [(&str, &str, &str); 6] = [
    ("/help", "", "list the commands and keys"),
    ("/clear", "", "forget the conversation; the system message stays"),
    ("/system", "[TEXT]", "show the system message, or set it; `none` removes it"),
    ("/regenerate", "", "answer the last message again, with another seed"),
    ("/save", "FILE", "write the conversation as the JSON of an API request"),
    ("/exit", "", "leave"),
];

/// What the keys do, for `/help`.
pub(super) const KEYS: &str = "\
Enter sends. A line that ends in \\ goes on in the next one, and so does all
between \"\"\" and \"\"\". Ctrl-C stops an answer, Ctrl-D leaves. Up and Ctrl-R find
earlier lines, Tab completes commands. What is typed during an answer waits for
its end.";

/// What was typed.
#[derive(Debug, PartialEq)]
pub(super) enum Entry<'t> {
    Nothing,
    Message(&'t str),
    Help,
    Clear,
    System(Option<&'t str>),
    Regenerate,
    Save(&'t str),
    Exit,
}

impl<'t> Entry<'t> {
    /// Reads a text. Only a first word of a slash and letters is a command, so that a path is a message.
    ///
    /// # Errors
    /// There is no such command, or it lacks its argument or has one too many: a sentence for the user.
    pub(super) fn of(text: &'t str) -> Result<Entry<'t>, String> {
        let trimmed = text.trim();
        let (word, argument) = trimmed.split_once(char::is_whitespace).unwrap_or((trimmed, ""));
        let argument = argument.trim();
        let name = word.strip_prefix('/').unwrap_or_default();
        let is_command = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic());
        if trimmed.is_empty() {
            return Ok(Entry::Nothing);
        }
        if text.starts_with(char::is_whitespace) || !is_command {
            return Ok(Entry::Message(text));
        }
        let entry = match word {
            "/system" => return Ok(Entry::System(Some(argument).filter(|text| !text.is_empty()))),
            "/save" if argument.is_empty() => return Err("/save needs the name of a file".to_owned()),
            "/save" => return Ok(Entry::Save(argument)),
            "/help" => Entry::Help,
            "/clear" => Entry::Clear,
            "/regenerate" => Entry::Regenerate,
            "/exit" => Entry::Exit,
            _ => {
                return Err(format!(
                    "there is no command {word}; /help lists them. A space before the slash makes it a message"
                ));
            }
        };
        match argument {
            "" => Ok(entry),
            _ => Err(format!("{word} takes nothing after it. A space before the slash makes it a message")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_fits_into_eighty_columns() {
        let commands = COMMANDS.map(|(_, _, purpose)| 19 + purpose.len());
        assert!(commands.into_iter().chain(KEYS.lines().map(str::len)).all(|columns| columns <= 80));
    }

    #[test]
    fn texts_are_messages_or_commands() {
        let cases = [
            ("", Ok(Entry::Nothing)),
            (" \t", Ok(Entry::Nothing)),
            ("Hello /help", Ok(Entry::Message("Hello /help"))),
            ("/etc/passwd is a file", Ok(Entry::Message("/etc/passwd is a file"))),
            ("// a comment", Ok(Entry::Message("// a comment"))),
            (" /clear", Ok(Entry::Message(" /clear"))),
            ("/clear ", Ok(Entry::Clear)),
            ("/system", Ok(Entry::System(None))),
            ("/system Be  brief.", Ok(Entry::System(Some("Be  brief.")))),
            ("/save a file.json", Ok(Entry::Save("a file.json"))),
        ];
        for (text, entry) in cases {
            assert_eq!(Entry::of(text), entry, "{text}");
        }
        for wrong in ["/save", "/clear all", "/quiet", "/HELP"] {
            assert!(Entry::of(wrong).is_err(), "{wrong}");
        }
        for (name, argument, _) in COMMANDS {
            assert!(Entry::of(&format!("{name} {argument}")).is_ok(), "{name}");
        }
    }
}
