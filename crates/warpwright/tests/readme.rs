//! The program in the README is the example, letter for letter, and short. `cargo test` runs the
//! example itself.

const README: &str = include_str!("../../../README.md");
const EXAMPLE: &str = include_str!("../examples/first_kernel.rs");

#[test]
fn the_readme_shows_the_example() {
    let listing = README.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    assert_eq!(listing, Some(EXAMPLE), "the README's listing is crates/warpwright/examples/first_kernel.rs");
    assert!(EXAMPLE.lines().count() < 40, "the README promises a program under 40 lines");
}
