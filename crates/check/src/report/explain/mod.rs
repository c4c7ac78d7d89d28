//! The pages of `--explain CODE`: one file per family of findings, one section per code.

const FAMILIES: [&str; 4] = [
    include_str!("sharing.md"),
    include_str!("waiting.md"),
    include_str!("memory.md"),
    include_str!("program.md"),
];

/// The sections of all families: a code, and its page.
fn pages() -> impl Iterator<Item = (&'static str, &'static str)> {
    FAMILIES.into_iter().flat_map(|family| family.split("\n## ").skip(1)).filter_map(|section| {
        let (code, page) = section.split_once('\n')?;
        Some((code.trim(), page.trim()))
    })
}

/// The explanation of a code: what it means, why it is wrong, and how to correct it.
pub fn explain(code: &str) -> Option<&'static str> {
    pages().find(|(found, _)| *found == code).map(|(_, page)| page)
}

/// The codes with an explanation.
pub fn codes() -> impl Iterator<Item = &'static str> {
    pages().map(|(code, _)| code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::finding::FindingKind;

    #[test]
    fn every_kind_of_finding_has_a_page_and_every_page_a_kind() {
        let kinds: Vec<&str> = FindingKind::all().map(FindingKind::code).collect();
        for code in &kinds {
            assert!(explain(code).is_some_and(|page| page.len() > 100), "`{code}` has no page");
        }
        for code in codes() {
            assert!(kinds.contains(&code), "`{code}` is not the code of a finding");
        }
    }
}
