//! The listings of the chapter on layouts, evaluated.

use warpwright_layout::expression::evaluate_plain;

#[test]
fn the_chapter_says_what_is() {
    let mut inside = false;
    let mut listed = 0;
    for line in include_str!("../../../docs/layout.md").lines() {
        if line.starts_with("```") {
            inside = line == "```layout";
            continue;
        }
        if let (true, Some((expression, value))) = (inside, line.split_once("  =>  ")) {
            let given =
                evaluate_plain(expression).unwrap_or_else(|error| format!("error: {}", error.summary()));
            assert_eq!(given, value, "{expression}");
            listed += 1;
        }
    }
    assert!(listed > 40, "{listed} listings found");
}
