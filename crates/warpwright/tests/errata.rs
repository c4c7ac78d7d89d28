//! The proofs that `docs/errata.md` names and that stand nowhere else.

use warpwright::arch::instructions::forms_of;
use warpwright::arch::{Arch, Capability, KernelResources};
use warpwright::layout::{Access, ComposedLayout, Error, Layout, Swizzle, TiledCopy, atom::CopyAtom};

/// "The Naive Copy": threads (8, 32) of a column-major (128, 256) tile.
#[test]
fn threads_dealt_elements_in_turn_have_no_vectors() -> Result<(), Error> {
    let tile = ComposedLayout::from(Layout::column_major((128, 256))?);
    let part = tile.local_partition(&Layout::column_major((8, 32))?, 0)?;
    assert_eq!(part.to_string(), "(16,8):(8,4096)");
    assert_eq!(part.max_common_vector(&part)?, 1);
    // The tile takes 128 KiB, and a launch that asks for nothing has 48.
    assert_eq!(4 * part.size()?.known().expect("known") * 256, 128 << 10);
    Ok(())
}

/// "The Parallel Copy": an atom of four values, and values (1, 1).
#[test]
fn a_tiled_copy_needs_the_values_of_its_atom() -> Result<(), Error> {
    let atom = || CopyAtom::named("UniversalCopy<128>", 32);
    let threads = Layout::column_major((4, 8))?;
    let plan = |values| TiledCopy::new(atom()?, &threads, &Layout::column_major(values)?);
    assert!(plan((1, 1)).is_err());
    assert_eq!(plan((4, 1))?.tile().to_string(), "(16,8)");
    Ok(())
}

/// "Swizzling" and "The Global GEMM": eight chunks of 16 bytes change places, and that is all 32
/// banks.
#[test]
fn three_bits_of_chunks_reach_every_bank() -> Result<(), Error> {
    for (swizzle, element_bytes) in [(Swizzle::new(3, 2, 3)?, 4), (Swizzle::new(3, 3, 3)?, 2)] {
        let chunk_bytes = element_bytes << swizzle.base();
        assert_eq!((chunk_bytes, chunk_bytes << swizzle.bits()), (16, 32 * 4));
    }
    Ok(())
}

/// "Swizzling": the swizzle of an (8, 8) tile does not free one of (128, 128).
#[test]
fn a_swizzle_belongs_to_its_stride() -> Result<(), Error> {
    let passes = |side: i64, swizzle: Swizzle| -> Result<i64, Error> {
        let tile = Layout::column_major((side, side))?.swizzled(swizzle);
        let lanes = side.min(32);
        Ok(Access::new(Layout::new((lanes, 1), (side, 0))?, 32)?.conflicts(&tile)?.wavefronts)
    };
    assert_eq!(passes(8, Swizzle::new(3, 2, 3)?)?, 1);
    assert_eq!(passes(128, Swizzle::new(3, 2, 3)?)?, 16);
    assert_eq!(passes(128, Swizzle::new(5, 0, 7)?)?, 1);
    Ok(())
}

/// "The Global GEMM": a warp's store of a pair of columns of its accumulators, C being row-major
/// and 512 wide.
#[test]
fn accumulators_are_stored_in_whole_sectors() -> Result<(), Error> {
    let c = ComposedLayout::from(Layout::row_major((8, 512))?);
    // Lane -> (row lane / 4, columns 2 (lane % 4) and the next), as indices of a column-major (8,
    // 512).
    let pair = Access::new(Layout::new(((4, 8), 2), ((16, 1), 8))?, 32)?;
    let sectors = pair.sectors(&c)?;
    assert_eq!((sectors.touched, sectors.ideal), (8, 8));
    // Even stores of single floats touch the same eight sectors twice, not a line of 128 bytes
    // each.
    let single = Access::new(Layout::new(((4, 8), 1), ((16, 1), 0))?, 32)?;
    assert_eq!(single.sectors(&c)?.touched, 8);
    Ok(())
}

/// "The Global GEMM": a thread to each row of A, against four.
#[test]
fn a_thread_to_a_row_uses_half_of_each_sector() -> Result<(), Error> {
    let a = ComposedLayout::from(Layout::row_major((128, 256))?);
    let row_each = Access::new(Layout::new((32, 8), (1, 128))?, 16)?.sectors(&a)?;
    let four_to_a_row = Access::new(Layout::new(((4, 8), 8), ((1024, 1), 128))?, 16)?.sectors(&a)?;
    assert_eq!((row_each.touched, four_to_a_row.touched), (32, 16));
    assert_eq!(row_each.ideal, 16);
    Ok(())
}

/// The GPU primers: 48 registers per thread.
#[test]
fn registers_are_given_to_warps_in_units_of_a_partition() {
    let h100 = Capability::numbered(9, 0).expect("in the table");
    let kernel = KernelResources { threads_per_cta: 64, registers_per_thread: 48, shared_bytes: 0 };
    assert_eq!(h100.occupancy(&kernel).expect("it fits").warps_per_sm, 40);
}

/// The GPU primers: what is in the chips.
#[test]
fn the_chips_have_what_the_data_sheets_say() {
    let of = |name| Arch::named(name).expect("in the table");
    assert_eq!((of("a100").f32_per_sm_clock, of("rtx3090").f32_per_sm_clock), (64, 128));
    assert_eq!((of("h100").sm_count, of("h100").l2_bytes), (132, 50 << 20));
}

/// The GPU primers: which way `tcgen05` moves, and what `cp.async` signals by.
#[test]
fn operands_tell_the_direction() {
    let signature = |name: &str| -> Vec<String> {
        forms_of(name).iter().map(|(_, signature)| signature.to_string()).collect()
    };
    assert_eq!(signature("tcgen05.ld.sync.aligned.32x32b.x1.b32"), ["{b32*1} = []"]);
    assert_eq!(signature("tcgen05.st.sync.aligned.32x32b.x1.b32"), ["[], {b32*1}"]);
    assert!(!signature("cp.async.mbarrier.arrive.noinc.shared.b64").is_empty());
    assert!(signature("cp.async.mbarrier.arrive.expect_tx.shared.b64").is_empty());
}

/// A proof in the page is one of these tests by name, an example, or a reference.
#[test]
fn every_proof_that_the_page_names_is_here() {
    let page = include_str!("../../../docs/errata.md");
    let here = include_str!("errata.rs");
    let proofs: Vec<&str> = page.split("test `").skip(1).filter_map(|rest| rest.split('`').next()).collect();
    assert!(proofs.len() >= 10, "{proofs:?}");
    for proof in proofs {
        assert!(here.contains(&format!("fn {proof}()")), "{proof}");
    }
}
