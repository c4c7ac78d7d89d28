//! PTX that other compilers wrote (the corpus) parses, and what is printed of it parses to the same
//! tree.

use warpwright_ptx::{parse, print};
use warpwright_testing::corpus;

#[test]
fn every_compiled_text_parses_and_survives_printing() {
    let texts = corpus::texts();
    assert!(!texts.is_empty(), "the corpus has no texts");
    for (path, text) in texts {
        let mut module = parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut again =
            parse(&print(&module)).unwrap_or_else(|error| panic!("{}, printed: {error}", path.display()));
        module.erase_lines();
        again.erase_lines();
        assert_eq!(module, again, "{}", path.display());
    }
}
