//! PTX that other compilers wrote (`tests/compiled`, see its `make.py`) parses, and what is printed of it parses to the same tree.

use std::fs;
use std::path::Path;

use warpwright_ptx::{parse, print};

#[test]
fn every_compiled_text_parses_and_survives_printing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compiled/ptx");
    let mut count = 0;
    for entry in fs::read_dir(&folder).expect("the folder of compiled texts") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("a text file");
        let mut module = parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut again =
            parse(&print(&module)).unwrap_or_else(|error| panic!("{}, printed: {error}", path.display()));
        module.erase_lines();
        again.erase_lines();
        assert_eq!(module, again, "{}", path.display());
        count += 1;
    }
    assert!(count > 0, "no texts in {}", folder.display());
}
