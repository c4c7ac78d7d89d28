//! Mistakes that the compiler finds: what it says of each, and that it speaks the author's
//! language.

/// Words of the expansion that no message may use; a trait's own name, where rustc insists on one,
/// reads as prose.
const FORBIDDEN: [&str; 8] =
    ["__", "__rounds", "Frame", "Sources", "Reading", "Carried", "RegionId", "recorder"];

#[test]
fn the_compiler_explains_mistakes() {
    trybuild::TestCases::new().compile_fail("tests/compile/*.rs");
}

#[test]
fn messages_name_nothing_of_the_expansion() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compile");
    let mut messages = 0;
    for entry in std::fs::read_dir(folder).expect("the folder of cases") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "stderr") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a pinned message");
        messages += text.lines().filter(|line| line.starts_with("error")).count();
        for name in FORBIDDEN {
            assert!(!text.contains(name), "{} mentions {name}", path.display());
        }
    }
    assert!(messages >= 40, "{messages} messages are pinned");
}
