//! GPT-2's alphabet: a printable character for each byte, so that a vocabulary of bytes is a file
//! of text.

/// The bytes that a token of the vocabulary stands for, or `None` if a character is not in the
/// alphabet.
pub(super) fn bytes(token: &str) -> Option<Vec<u8>> {
    token.chars().map(byte).collect()
}

/// The byte of a character. Printable bytes of Latin-1 stand for themselves; the others, in order,
/// are U+0100 and on.
fn byte(character: char) -> Option<u8> {
    let code = u32::from(character);
    match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => Some(code as u8),
        0x100..=0x143 => {
            let mut others =
                (0..=255u8).filter(|byte| !matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff));
            others.nth(code as usize - 0x100)
        }
        _ => None,
    }
}

/// The character of a byte.
pub(super) fn character(of: u8) -> char {
    ('\0'..='\u{143}').find(|character| byte(*character) == Some(of)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{byte, character};

    #[test]
    fn each_byte_has_one_character() {
        let bytes: std::collections::BTreeSet<u8> = ('\0'..='\u{200}').filter_map(byte).collect();
        assert_eq!(('\0'..='\u{200}').filter_map(byte).count(), 256);
        assert_eq!(bytes.len(), 256);
        assert!((0..=255).all(|of| byte(character(of)) == Some(of)));
        assert_eq!(byte('Ġ'), Some(b' '));
        assert_eq!(byte('Ċ'), Some(b'\n'));
    }
}
