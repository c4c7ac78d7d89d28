//! The README's program is the example, letter for letter, and short; and it runs.

use std::process::Command;

const README: &str = include_str!("../../../README.md");
const EXAMPLE: &str = include_str!("../examples/first_kernel.rs");

#[test]
fn the_readme_shows_the_example() {
    let listing = README.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    assert_eq!(listing, Some(EXAMPLE), "the README's listing is crates/warpwright/examples/first_kernel.rs");
    assert!(EXAMPLE.lines().count() < 40, "the README promises a program under 40 lines");
}

#[test]
fn the_example_runs() {
    let run = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "warpwright", "--example", "first_kernel"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let (said, complained) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && said.contains("every element is right"), "{said}{complained}");
}
