//! The atoms against the hardware: what an H200 did with matrices and tiles that were spread,
//! filled and described as the algebra says.
//!
//! A case is a kernel and its input; `recorded.bin` holds what each gave. To record anew, on a
//! machine with the GPU:
//!
//! ```text
//! cargo test -p warpwright-layout --test it -- --ignored hardware::write_cases
//! python3 crates/layout/tests/hardware/record.py target/tmp/hardware
//! ```
//!
//! | file | what it asks of the hardware |
//! |---|---|
//! | `multiply.rs` | products of matrices spread over registers: `mma`, `mma.sp`, `wmma` |
//! | `fragment.rs` | which element of memory `wmma.load` and `wmma.store` put in which register |
//! | `moves.rs` | `ldmatrix`, `stmatrix`, `movmatrix` |
//! | `warpgroup.rs` | products that `wgmma` reads from canonical tiles of shared memory |
//! | `bulk.rs` | tiles of shared memory that TMA filled |

mod bulk;
mod case;
mod elements;
mod fragment;
mod moves;
mod multiply;
mod warpgroup;

use case::{Case, Recording};

/// A case, and what the algebra says that its output must be.
struct Check {
    case: Case,
    expected: Vec<u8>,
}

fn checks() -> Vec<Check> {
    [multiply::checks(), fragment::checks(), moves::checks(), warpgroup::checks(), bulk::checks()]
        .into_iter()
        .flatten()
        .collect()
}

/// Holds every case of a kind to the recording.
fn hold(checks: Vec<Check>) {
    let recording = Recording::read();
    assert!(!checks.is_empty());
    for Check { case, expected } in checks {
        let recorded = recording.output(&case);
        assert_eq!(recorded.len(), expected.len(), "{}", case.name);
        if let Some(at) = (0..expected.len()).find(|&at| recorded[at] != expected[at]) {
            panic!(
                "{}: byte {at} of the output is {:#04x} on the hardware, {:#04x} by the algebra",
                case.name, recorded[at], expected[at]
            );
        }
    }
}

#[test]
fn matrices_spread_over_registers_multiply() {
    hold(multiply::checks());
}

#[test]
fn wmma_loads_and_stores_what_its_fragments_say() {
    hold(fragment::checks());
}

#[test]
fn matrices_move_as_the_copy_atoms_say() {
    hold(moves::checks());
}

#[test]
fn wgmma_reads_canonical_tiles_through_their_descriptors() {
    hold(warpgroup::checks());
}

#[test]
fn bulk_copies_fill_canonical_tiles() {
    hold(bulk::checks());
}

#[test]
fn names_are_unique() {
    let mut names: Vec<String> = checks().into_iter().map(|check| check.case.name).collect();
    let cases = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), cases);
}

#[test]
#[ignore = "writes the cases for record.py"]
fn write_cases() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("hardware");
    let cases: Vec<Case> = checks().into_iter().map(|check| check.case).collect();
    case::write(&cases, &folder).expect("the folder can be written");
    println!("{}", folder.display());
}
