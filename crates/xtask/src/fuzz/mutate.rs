//! Changes of a text: its words, its numbers, its lines, its characters.

use warpwright_harness::Random;

/// Numbers at the edges of types, and what is no number.
const EDGES: [&str; 24] = [
    "0",
    "1",
    "-1",
    "2",
    "127",
    "128",
    "255",
    "256",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
    "0x7fffffffffffffff",
    "1e308",
    "nan",
    "0.5",
];

/// One of some.
pub(super) fn one<'a, T>(random: &mut Random, of: &'a [T]) -> &'a T {
    &of[random.below(of.len() as u64) as usize]
}

/// Whether something that happens once in `n` times happens.
pub(super) fn once_in(random: &mut Random, n: u64) -> bool {
    random.below(n) == 0
}

/// A number at the edge of a type.
pub(super) fn edge(random: &mut Random) -> &'static str {
    one::<&str>(random, &EDGES)
}

/// A number: mostly small, sometimes at the edge of a type.
pub(super) fn number(random: &mut Random) -> String {
    match random.below(16) {
        0..8 => random.below(9).to_string(),
        8..12 => (1u64 << random.below(13)).to_string(),
        12..14 => random.below(1000).to_string(),
        14 => random.bits().to_string(),
        _ => edge(random).to_owned(),
    }
}

/// The words of a text: names, numbers, single signs, and the space between.
pub(super) fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = 0;
    let mut kind = None;
    for (at, c) in text.char_indices() {
        let next = match c {
            c if c.is_alphanumeric() || c == '_' => 0,
            c if c.is_whitespace() => 1,
            // Signs stand alone.
            _ => 2 + at,
        };
        if kind.is_some_and(|kind| kind != next) {
            words.push(&text[start..at]);
            start = at;
        }
        kind = Some(next);
    }
    words.push(&text[start..]);
    words
}

/// The text after a few changes; words come from the text itself or from `others`.
pub(super) fn mutate(random: &mut Random, text: &str, others: &[String]) -> String {
    let mut text = text.to_owned();
    for _ in 0..=random.below(4) {
        text = match random.below(8) {
            0 => of_characters(random, &text),
            1 => of_lines(random, &text),
            _ => of_words(random, &text, others),
        };
    }
    text
}

fn of_words(random: &mut Random, text: &str, others: &[String]) -> String {
    let mut words = words(text);
    let at = random.below(words.len() as u64) as usize;
    let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    match random.below(6) {
        0 => {
            words.remove(at);
        }
        1 => words.insert(at, words[at]),
        2 => {
            let with = random.below(words.len() as u64) as usize;
            words.swap(at, with);
        }
        3 => {
            let numbers: Vec<usize> =
                words.iter().enumerate().filter(|(_, word)| is_number(word)).map(|(at, _)| at).collect();
            let changed = number(random);
            return match numbers.is_empty() {
                true => text.to_owned(),
                false => {
                    words[*one(random, &numbers)] = &changed;
                    words.concat()
                }
            };
        }
        _ if others.is_empty() => {}
        4 => words[at] = one(random, others).as_str(),
        _ => words.insert(at, one(random, others).as_str()),
    }
    words.concat()
}

fn of_lines(random: &mut Random, text: &str) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    if lines.is_empty() {
        return text.to_owned();
    }
    let at = random.below(lines.len() as u64) as usize;
    let other = random.below(lines.len() as u64) as usize;
    match random.below(4) {
        0 => {
            lines.remove(at);
        }
        1 => lines.insert(at, lines[other]),
        2 => lines.swap(at, other),
        _ => lines.truncate(at + 1),
    }
    lines.concat()
}

fn of_characters(random: &mut Random, text: &str) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    let at = random.below(characters.len() as u64 + 1) as usize;
    match random.below(5) {
        0 => characters.truncate(at),
        1 => {
            let end = (at + random.below(20) as usize).min(characters.len());
            characters.drain(at..end);
        }
        2 => {
            let sign = *one(random, &['(', '[', '{', '<', '-', '"', '_']);
            characters.splice(at..at, std::iter::repeat_n(sign, random.below(300) as usize));
        }
        _ => characters.insert(at, char::from_u32(random.below(0x11_0000) as u32).unwrap_or('\u{fffd}')),
    }
    characters.into_iter().collect()
}
