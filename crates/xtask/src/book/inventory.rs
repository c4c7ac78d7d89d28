//! The table of the inventory: each item has a place, or is marked as not yet there.

use std::path::Path;

use anyhow::{Context, Result};

/// The kinds of items: the letter of their ids, and how many there are.
const ITEMS: [(char, usize); 4] = [('X', 42), ('N', 54), ('E', 12), ('B', 16)];

/// An item without a place.
const NOT_YET: &str = "not yet";

/// Items that are missing, twice in the table, or without a place.
pub(super) fn faults(page: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(page).with_context(|| format!("no {}", page.display()))?;
    let (faults, waiting) = table_faults(&text, &warpwright_cli::verbs());
    let all: usize = ITEMS.iter().map(|(_, count)| count).sum();
    println!("inventory: {} of {all} items have a place", all - waiting);
    Ok(faults.into_iter().map(|fault| format!("{}: {fault}", page.display())).collect())
}

/// The faults of the table, and how many of its items have no place yet.
fn table_faults(text: &str, verbs: &[String]) -> (Vec<String>, usize) {
    let mut faults = Vec::new();
    let mut ids = Vec::new();
    let mut waiting = 0;
    for line in text.lines() {
        let cells: Vec<&str> = line.split(" | ").map(|cell| cell.trim_matches(['|', ' '])).collect();
        let [id, _, place] = cells[..] else { continue };
        let number = id.get(1..).and_then(|number| number.parse::<usize>().ok());
        let Some((letter, number)) = id.chars().next().zip(number) else { continue };
        ids.push((letter, number));
        let named: Vec<&str> =
            place.split('`').skip(1).step_by(2).filter_map(|code| code.strip_prefix("warpwright ")).collect();
        let verb = |words: &&str| words.split(' ').next().unwrap_or_default().to_owned();
        for words in named.iter().filter(|words| !verbs.contains(&verb(words))) {
            faults.push(format!("{id}: `warpwright {words}` is no verb"));
        }
        if place.starts_with(NOT_YET) {
            waiting += 1;
        } else if !place.contains("](") && named.is_empty() {
            faults.push(format!("{id}: no link and no verb: `{place}`"));
        }
    }
    for (letter, count) in ITEMS {
        for number in 1..=count {
            match ids.iter().filter(|id| **id == (letter, number)).count() {
                1 => {}
                0 => faults.push(format!("{letter}{number} is missing")),
                _ => faults.push(format!("{letter}{number} is there twice")),
            }
        }
    }
    (faults, waiting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_without_a_place_are_found() {
        let mut rows: Vec<String> = ITEMS
            .iter()
            .flat_map(|(letter, count)| {
                (1..=*count).map(move |number| format!("| {letter}{number} | x | [y](z.md) |"))
            })
            .collect();
        let verbs = ["gpu".to_owned()];
        assert_eq!(table_faults(&rows.join("\n"), &verbs), (vec![], 0));
        rows[0] = "| X1 | x | not yet |".to_owned();
        rows[1] = "| X2 | x | `warpwright gpu h200` |".to_owned();
        assert_eq!(table_faults(&rows.join("\n"), &verbs), (vec![], 1));
        rows[2] = "| X3 | x | somewhere |".to_owned();
        rows[3] = "| X4 | x | `warpwright nothing` |".to_owned();
        rows[4] = "| X4 | x | [y](z.md) |".to_owned();
        let (faults, _) = table_faults(&rows.join("\n"), &verbs);
        for part in ["X3: no link", "X4: `warpwright nothing`", "X4 is there twice", "X5 is missing"] {
            assert!(faults.iter().any(|fault| fault.starts_with(part)), "{part}: {faults:?}");
        }
    }
}
