//! The reports that the faults have: a file a family, `reports/FAMILY.txt`, with a section a fault.
//!
//! `INSTA_UPDATE=always cargo test -p warpwright --test it faults` writes them anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const MARK: &str = "=== ";
const SEPARATOR: &str = "\n=== ";

type Sections = BTreeMap<String, String>;

/// The tests of a family run at once and share its file.
static FILES: Mutex<()> = Mutex::new(());

fn path(family: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/reports").join(family).with_extension("txt")
}

fn read(family: &str) -> Sections {
    let text = fs::read_to_string(path(family)).unwrap_or_default();
    let sections = text.split(SEPARATOR).filter_map(|section| section.split_once('\n'));
    let named =
        |(name, text): (&str, &str)| (name.trim_start_matches(MARK).to_owned(), text.trim_end().to_owned());
    sections.map(named).collect()
}

fn write(family: &str, sections: &Sections) {
    let text: String = sections.iter().map(|(name, text)| format!("{MARK}{name}\n{text}\n\n")).collect();
    fs::write(path(family), text.trim_end().to_owned() + "\n").expect("the reports are writable");
}

/// Compares a report with the section of its name, among those of the family that a source file
/// holds.
pub(crate) fn expect(file: &str, name: &str, report: &str) {
    let _files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let family = family_of(file);
    let mut sections = read(family);
    if std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always") {
        sections.insert(name.to_owned(), report.trim_end().to_owned());
        write(family, &sections);
    }
    let expected = sections.get(name).map_or("", String::as_str);
    assert!(
        expected == report.trim_end(),
        "the report of `{name}` has changed; INSTA_UPDATE=always writes it anew\n--- before:\n{expected}\n--- now:\n{report}"
    );
}

fn family_of(file: &str) -> &str {
    Path::new(file).file_stem().and_then(|stem| stem.to_str()).expect("a source file has a name")
}

/// The names of the sections of a family.
pub(crate) fn names(file: &str) -> Vec<String> {
    let _files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    read(family_of(file)).into_keys().collect()
}
