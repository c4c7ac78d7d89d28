//! Copies as an H200 made them.
//!
//! `golden_copies/results.bin` holds what each case changed in memory, `golden_copies/results.json`
//! a checksum of each case, and a case that differs from its recording fails. To record anew, on a
//! machine with the GPU:
//!
//!     cargo test -p warpwright-emulator --test it -- --ignored tensor_copies::golden::write_cases
//!     python3 crates/emulator/golden_copies/record.py target/tmp/golden_copies

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};
use warpwright_arch::tensor_map::{Access, Description, ElementType, Fill, Interleave, L2Promotion, Swizzle};
use warpwright_emulator::Schedule;

use crate::tensor_copies::machine::{Case, Copy, TILE_BYTES, WAIT, device, run_text};
use crate::tensor_copies::{Random, bytes_of, random_case};

/// A case with a name and a kernel, which most take from [`Case::ptx`].
pub(crate) struct Golden {
    name: String,
    case: Case,
    ptx: String,
    ctas: u32,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden_copies")
}

/// Bytes that the recorder makes too: the high bytes of a linear congruential generator.
pub(crate) fn bytes(seed: u32, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn position<T: PartialEq>(all: &[T], value: &T) -> usize {
    all.iter().position(|it| it == value).expect("the list has it")
}

impl Golden {
    fn new(name: impl Into<String>, case: Case) -> Self {
        Self { name: name.into(), ptx: case.ptx(), case, ctas: 1 }
    }

    /// The case for the recorder.
    fn json(&self, kernel: usize) -> Value {
        let map = &self.case.map;
        let access = match &map.access {
            Access::Tiled { box_extents } => json!({"box": box_extents}),
            Access::Im2col { lower, upper, channels, pixels } => {
                json!({"lower": lower, "upper": upper, "channels": channels, "pixels": pixels})
            }
        };
        json!({
            "name": self.name, "kernel": kernel, "ctas": self.ctas,
            "element": position(&ElementType::ALL, &map.element), "offset": map.address, "extents": map.extents,
            "strides": map.strides, "access": access, "element_strides": map.element_strides,
            "interleave": position(&Interleave::ALL, &map.interleave),
            "swizzle": position(&Swizzle::ALL, &map.swizzle),
            "l2_promotion": position(&L2Promotion::ALL, &map.l2_promotion), "fill": u32::from(map.fill == Fill::Nan),
            "at": self.case.at(), "bytes": bytes_of(map), "tile": TILE_BYTES * self.ctas as usize,
        })
    }
}

fn tiled(element: ElementType, extents: &[u64], box_extents: &[u32]) -> Description {
    Description::row_major(element, 0, extents, box_extents)
}

fn of(copy: Copy, map: Description, coordinates: &[i32]) -> Case {
    Case { copy, map, coordinates: coordinates.to_vec(), offsets: Vec::new(), tile_offset: 0, expected: None }
}

/// All cases.
pub(crate) fn cases() -> Vec<Golden> {
    use ElementType::*;
    let mut cases = Vec::new();
    let mut add = |name: String, case: Case| cases.push(Golden::new(name, case));
    // Every swizzle with every width of element, at every rank.
    for (swizzle, run) in
        [(Swizzle::None, 48), (Swizzle::Bytes32, 32), (Swizzle::Bytes64, 64), (Swizzle::Bytes128, 112)]
    {
        for (element, rank) in [(U8, 2), (U16, 3), (F32, 4), (F64, 5)] {
            let per_row = run / (element.bits() / 8);
            let (mut extents, mut box_extents) = (vec![3; rank], vec![2; rank]);
            (extents[rank - 1], box_extents[rank - 1]) = (u64::from(256 / (element.bits() / 8)), per_row);
            (extents[rank - 2], box_extents[rank - 2]) = (12, 9);
            let mut map = tiled(element, &extents, &box_extents);
            map.swizzle = swizzle;
            for (copy, word) in [(Copy::Load, "load"), (Copy::Store, "store")] {
                let mut coordinates = vec![1; rank];
                coordinates[0] = (16 / (element.bits() / 8)) as i32;
                let mut case = of(copy, map.clone(), &coordinates);
                case.tile_offset = 128;
                add(format!("{word}.{swizzle:?}.{}.{rank}d", element.name()), case);
            }
        }
    }
    // Values: rounding and NaN fills.
    for element in [U32, F16, F32, F64, Bf16, F32Ftz, Tf32, Tf32Ftz] {
        let mut map = tiled(element, &[40], &[64]);
        map.fill = if element == U32 { Fill::Zeros } else { Fill::Nan };
        add(format!("fill.{}", element.name()), of(Copy::Load, map.clone(), &[-8]));
        map.fill = Fill::Zeros;
        add(format!("values.store.{}", element.name()), of(Copy::Store, map, &[8]));
    }
    // Stores where the box reaches out below.
    for coordinates in [[-16, 0], [0, -2], [-16, -2], [0, 3]] {
        let case = of(Copy::Store, tiled(U8, &[8, 64], &[4, 32]), &coordinates);
        add(format!("store.at.{}.{}", coordinates[0], coordinates[1]), case);
    }
    for steps in [[1, 2, 1], [1, 3, 2], [2, 1, 1]] {
        let mut map = tiled(U16, &[6, 10, 32], &[5, 7, 16]);
        map.element_strides = steps.to_vec();
        add(format!("store.steps.{}{}{}", steps[0], steps[1], steps[2]), of(Copy::Store, map, &[8, 1, 1]));
    }
    let integers = ["add", "min", "max", "and", "or", "xor"];
    let reductions: [(ElementType, &[&'static str]); 13] = [
        (U8, &["add"]),
        (U16, &["or"]),
        (U32, &["add", "min", "max", "inc", "dec", "and", "or", "xor"]),
        (S32, &integers),
        (S32, &["inc"]),
        (U64, &integers),
        (S64, &["min", "max"]),
        (S64, &["add"]),
        (F16, &["add", "min", "max"]),
        (Bf16, &["add", "min", "max"]),
        (F16, &["inc"]),
        (F32, &["add"]),
        (F64, &["add"]),
    ];
    for (element, operations) in reductions.into_iter().chain([
        (F32Ftz, &["add"][..]),
        (Tf32, &["add"][..]),
        (Tf32Ftz, &["add"][..]),
        (F32, &["max"][..]),
        (F64, &["min"][..]),
    ]) {
        for operation in operations {
            let map = tiled(element, &[64], &[32]);
            add(format!("reduce.{operation}.{}", element.name()), of(Copy::Reduce(operation), map, &[16]));
        }
    }
    interleaved(&mut add);
    let mut random = Random(77);
    for index in 0..60 {
        let copy = if index % 3 == 2 { Copy::Store } else { Copy::Load };
        let case = random_case(&mut random, copy);
        add(format!("random.{index}"), case);
    }
    cases.extend(written());
    cases
}

/// Tensors in slices of channels: axis 0 is the first of the pixels'. They were recorded while it
/// was not known how many bytes a copy counts, with an mbarrier that expects more; the record has
/// the mark of a wait that was given up.
fn interleaved(add: &mut impl FnMut(String, Case)) {
    let expecting = |bytes: u64, case: Case| Case { expected: Some(bytes as u32), ..case };
    for (interleave, slice) in [(Interleave::Bytes16, 16), (Interleave::Bytes32, 32)] {
        for swizzle in [Swizzle::None, Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128] {
            for (element, coordinates) in [
                (ElementType::U16, [0, 1, 1]),
                (ElementType::U16, [-3, 1, 0]),
                (ElementType::F32, [7, -1, 1]),
            ] {
                let map = Description {
                    extents: vec![12, 7, 3],
                    strides: vec![12 * slice, 12 * 7 * slice],
                    interleave,
                    swizzle,
                    ..tiled(element, &[3, 7, 12], &[2, 3, 8])
                };
                let at = coordinates.map(|at: i32| at.to_string()).join(".");
                add(
                    format!("interleave.{interleave:?}.{swizzle:?}.{}.{at}", element.name()),
                    expecting(48 * slice, of(Copy::Load, map.clone(), &coordinates)),
                );
                if coordinates[0] == 0 {
                    let case = expecting(48 * slice, of(Copy::Store, map, &coordinates));
                    add(format!("interleave.{interleave:?}.{swizzle:?}.store"), case);
                }
            }
        }
        // Boxes of more channels than a slice has: one slice is copied nonetheless.
        for (element, slices, swizzle) in [
            (ElementType::U16, 2, Swizzle::None),
            (ElementType::U16, 3, Swizzle::Bytes32),
            (ElementType::U8, 2, Swizzle::Bytes32),
            (ElementType::F32, 4, Swizzle::None),
        ] {
            let channels = slices * slice as u32 * 8 / element.bits();
            let pixels = 128 / element.bits();
            let map = Description {
                extents: vec![12, 7, 3],
                strides: vec![12 * slice, 12 * 7 * slice],
                interleave,
                swizzle,
                ..tiled(element, &[3, 7, 12], &[2, channels, pixels])
            };
            for (copy, word, at) in [
                (Copy::Load, "load", [0, 1, 1]),
                (Copy::Load, "load.below", [-2, 1, 0]),
                (Copy::Load, "load.beyond", [10, 5, 2]),
                (Copy::Store, "store", [0, 1, 1]),
            ] {
                add(
                    format!(
                        "interleave.{interleave:?}.{swizzle:?}.{}.slices.{slices}.{word}",
                        element.name()
                    ),
                    of(copy, map.clone(), &at),
                );
            }
        }
        let map = Description {
            extents: vec![12, 7, 3],
            strides: vec![12 * slice, 12 * 7 * slice],
            interleave,
            swizzle: Swizzle::Bytes32,
            element_strides: vec![2, 3, 1],
            ..tiled(ElementType::U16, &[3, 7, 12], &[2, 7, 16])
        };
        let case = expecting(48 * slice, of(Copy::Load, map, &[1, 0, 1]));
        add(format!("interleave.{interleave:?}.steps"), case);
        for (pixels, at, channels) in
            [(20, [-1, -1, 1, 0], 8), (30, [2, 3, 0, 1], 8), (9, [0, 0, 0, 0], slice as u32)]
        {
            let map = Description {
                extents: vec![6, 5, 2, 2],
                strides: vec![6 * slice, 30 * slice, 60 * slice],
                interleave,
                swizzle: Swizzle::Bytes32,
                access: Access::Im2col { lower: vec![-1, -1], upper: vec![-1, -1], channels, pixels },
                ..tiled(ElementType::U16, &[2, 2, 5, 6], &[])
            };
            let mut case = expecting(8 * slice * u64::from(pixels), of(Copy::Load, map, &at));
            case.offsets = vec![1, 2];
            add(format!("interleave.{interleave:?}.im2col.{pixels}"), case);
        }
    }
}

/// The opening that the written kernels share: the map's generic address in `%map`, shared memory
/// filled from the buffer, an mbarrier for one arrival, and lane 0 of each CTA goes on.
fn written_kernel(directive: &str, body: &str) -> String {
    format!(
        ".version 8.6\n.target sm_90a\n.address_size 64
         .visible .entry copy(.param .align 64 .b8 map[128], .param .align 4 .b8 at[48], .param .u64 buffer) {directive} {{
         .reg .pred %p, %q; .reg .b32 %r<16>; .reg .b16 %m; .reg .b32 %bytes, %tile, %bar, %i, %a, %w, %n, %rank;
         .reg .b64 %map, %state, %buffer, %g, %d<8>;
         .shared .align 1024 .b8 tile[{TILE_BYTES}]; .shared .align 128 .b8 copy[128]; .shared .align 8 .b64 bar;
         ld.param.u64 %buffer, [buffer]; ld.param.b32 %bytes, [at+32];
         cvta.to.global.u64 %buffer, %buffer; mov.u32 %n, 0; mov.u32 %rank, %cluster_ctarank;
         mul.wide.u32 %g, %rank, {TILE_BYTES}; add.u64 %buffer, %buffer, %g;
         mov.b64 %map, map; cvta.param.u64 %map, %map;
         mov.u32 %tile, tile; mov.u32 %bar, bar; mov.u32 %i, %tid.x; shl.b32 %i, %i, 2;
         FILL: add.u32 %a, %tile, %i; cvt.u64.u32 %g, %i; add.u64 %g, %g, %buffer;
         ld.global.b32 %w, [%g]; st.shared.b32 [%a], %w;
         add.u32 %i, %i, 512; setp.lt.u32 %p, %i, {TILE_BYTES}; @%p bra FILL;
         mov.u32 %i, %tid.x; setp.ne.u32 %q, %i, 0; @%q bra READY;
         mbarrier.init.shared.b64 [%bar], 1; fence.mbarrier_init.release.cluster;
         READY: fence.proxy.async; barrier.cluster.arrive; barrier.cluster.wait;
         {body}
         MADE: barrier.cluster.arrive; barrier.cluster.wait;
         mov.u32 %i, %tid.x; shl.b32 %i, %i, 2;
         DUMP: add.u32 %a, %tile, %i; cvt.u64.u32 %g, %i; add.u64 %g, %g, %buffer;
         ld.shared.b32 %w, [%a]; st.global.b32 [%g], %w;
         add.u32 %i, %i, 512; setp.lt.u32 %p, %i, {TILE_BYTES}; @%p bra DUMP;
         ret; }}"
    )
}

const GROUP: &str = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;";

/// Kernels that are no single tensor copy.
fn written() -> Vec<Golden> {
    let mut cases = Vec::new();
    let map = || tiled(ElementType::U16, &[24, 64], &[6, 32]);
    let mut add = |name: &str, ctas: u32, map: Description, body: String| {
        let directive = if ctas > 1 { format!(".reqnctapercluster {ctas}, 1, 1") } else { String::new() };
        let case = of(Copy::Load, map, &[0, 0]);
        let ptx = written_kernel(&directive, &body);
        cases.push(Golden { name: name.to_owned(), case, ptx, ctas });
    };
    let expect = "mbarrier.arrive.expect_tx.shared.b64 %state, [%bar], %bytes;";
    let load = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes";
    add(
        "multicast.all",
        4,
        map(),
        format!(
            "@%q bra MADE; {expect} setp.ne.u32 %p, %rank, 1; @%p bra WAIT; mov.b16 %m, 15;
             {load}.multicast::cluster [%tile], [%map, {{8, 3}}], [%bar], %m; {WAIT}"
        ),
    );
    add(
        "multicast.some",
        4,
        map(),
        format!(
            "@%q bra MADE; and.b32 %r0, %rank, 1; setp.eq.u32 %p, %r0, 0; @%p bra ISSUE; {expect}
             ISSUE: setp.ne.u32 %p, %rank, 2; @%p bra SKIP; mov.b16 %m, 10;
             {load}.multicast::cluster [%tile], [%map, {{8, 3}}], [%bar], %m;
             SKIP: setp.eq.u32 %p, %r0, 0; @%p bra MADE; {WAIT}"
        ),
    );
    let mut swizzled = map();
    swizzled.swizzle = Swizzle::Bytes64;
    add(
        "load.peer",
        2,
        swizzled,
        format!(
            "@%q bra MADE; setp.ne.u32 %p, %rank, 0; @%p bra ISSUE; {expect} {WAIT} bra.uni MADE;
             ISSUE: mapa.shared::cluster.u32 %r1, %tile, 0; mapa.shared::cluster.u32 %r2, %bar, 0;
             {load} [%r1+256], [%map, {{0, 1}}], [%r2];"
        ),
    );
    let bulk = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
    add(
        "bulk.load",
        1,
        map(),
        format!(
            "@%q bra MADE; mbarrier.arrive.expect_tx.shared.b64 %state, [%bar], 1040;
             {bulk} [%tile+16], [%buffer+4096], 1040, [%bar]; {WAIT}"
        ),
    );
    add(
        "bulk.multicast",
        2,
        map(),
        format!(
            "@%q bra MADE; mbarrier.arrive.expect_tx.shared.b64 %state, [%bar], 512; setp.ne.u32 %p, %rank, 0; @%p bra WAIT;
             mov.b16 %m, 3; {bulk}.multicast::cluster [%tile+16], [%buffer+4096], 512, [%bar], %m; {WAIT}"
        ),
    );
    add(
        "bulk.peer",
        2,
        map(),
        format!(
            "@%q bra MADE; mbarrier.arrive.expect_tx.shared.b64 %state, [%bar], 2000; xor.b32 %r0, %rank, 1;
             mapa.shared::cluster.u32 %r1, %tile, %r0; mapa.shared::cluster.u32 %r2, %bar, %r0;
             cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r1+32768], [%tile+64], 2000, [%r2]; {WAIT}"
        ),
    );
    for (operation, ty) in [
        ("add", "u32"),
        ("add", "s32"),
        ("add", "u64"),
        ("inc", "u32"),
        ("dec", "u32"),
        ("min", "u32"),
        ("min", "s32"),
        ("min", "u64"),
        ("min", "s64"),
        ("max", "u32"),
        ("max", "s32"),
        ("max", "u64"),
        ("max", "s64"),
        ("and", "b32"),
        ("and", "b64"),
        ("or", "b32"),
        ("or", "b64"),
        ("xor", "b32"),
        ("xor", "b64"),
        ("add", "f32"),
        ("add", "f64"),
        ("add.noftz", "f16"),
        ("add.noftz", "bf16"),
        ("min", "f16"),
        ("max", "f16"),
        ("min", "bf16"),
        ("max", "bf16"),
    ] {
        add(
            &format!("bulk.{operation}.{ty}"),
            1,
            map(),
            // Into the upper half of the buffer, and from there to shared memory, which goes back
            // to the buffer.
            format!(
                "@%q bra MADE; add.u64 %d0, %buffer, 32768;
                 cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}.{ty} [%d0], [%tile+1024], 512; {GROUP}
                 mbarrier.arrive.expect_tx.shared.b64 %state, [%bar], 512; {bulk} [%tile+32768], [%d0], 512, [%bar]; {WAIT}"
            ),
        );
    }
    for (operation, ty) in [
        ("add", "u32"),
        ("add", "s32"),
        ("add", "u64"),
        ("inc", "u32"),
        ("dec", "u32"),
        ("min", "s32"),
        ("max", "u32"),
        ("and", "b32"),
        ("or", "b32"),
        ("xor", "b32"),
    ] {
        add(
            &format!("bulk.peer.{operation}.{ty}"),
            2,
            map(),
            format!(
                "@%q bra MADE; mbarrier.arrive.expect_tx.shared.b64 %state, [%bar], 256; xor.b32 %r0, %rank, 1;
                 mapa.shared::cluster.u32 %r1, %tile, %r0; mapa.shared::cluster.u32 %r2, %bar, %r0;
                 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{operation}.{ty} [%r1+4096], \
                 [%tile], 256, [%r2]; {WAIT}"
            ),
        );
    }
    let replace = |changes: &str, bytes: u32, coordinates: &str| {
        let fields: String = changes
            .split_terminator(';')
            .map(|change| format!("tensormap.replace.tile.{};\n", change.trim()))
            .collect();
        format!(
            "shl.b32 %r0, %i, 2; mov.u32 %r1, copy; add.u32 %r2, %r1, %r0; setp.gt.u32 %p, %i, 31; @%p bra MADE;
             cvt.u64.u32 %d1, %r0; add.u64 %d2, %map, %d1; ld.b32 %r3, [%d2]; st.shared.b32 [%r2], %r3; bar.warp.sync -1;
             @%q bra COPIED; {fields}
             COPIED: bar.warp.sync -1; add.u64 %d3, %buffer, 49152;
             tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d3], [%r1], 128;
             fence.proxy.tensormap::generic.acquire.gpu [%d3], 128;
             @%q bra MADE; mbarrier.arrive.expect_tx.shared.b64 %state, [%bar], {bytes};
             {load} [%tile], [%d3, {coordinates}], [%bar]; {WAIT}
             mov.u32 %r4, 0;
             CLEAR: cvt.u64.u32 %d4, %r4; add.u64 %d5, %d3, %d4; st.global.b32 [%d5], 0; add.u32 %a, %tile, 49152; add.u32 %a, %a, %r4; \
             st.shared.b32 [%a], 0; add.u32 %r4, %r4, 4; setp.lt.u32 %p, %r4, 128; @%p bra CLEAR;"
        )
    };
    let shared = "shared::cta.b1024";
    for (name, changes, bytes, coordinates) in [
        ("address", format!("global_address.{shared}.b64 [%r1], %d6"), 384, "{0, 0}"),
        (
            "extent",
            format!("global_dim.{shared}.b32 [%r1], 0, 40; global_dim.{shared}.b32 [%r1], 1, 5"),
            384,
            "{16, 1}",
        ),
        ("stride", format!("global_stride.{shared}.b64 [%r1], 0, 64"), 384, "{0, 2}"),
        ("swizzle", format!("swizzle_mode.{shared}.b32 [%r1], 2"), 384, "{0, 0}"),
        (
            "element",
            format!("elemtype.{shared}.b32 [%r1], 6; fill_mode.{shared}.b32 [%r1], 1"),
            384,
            "{48, -2}",
        ),
        ("step", format!("element_stride.{shared}.b32 [%r1], 1, 2"), 192, "{0, 0}"),
    ] {
        let before = if name == "address" {
            // The map's own address is not known here: that of the buffer is.
            "add.u64 %d6, %buffer, 8192; cvta.global.u64 %d6, %d6;"
        } else {
            ""
        };
        let body = replace(&changes, bytes, coordinates);
        add(&format!("replace.{name}"), 1, map(), format!("{before} {body}"));
    }
    cases
}

#[derive(Deserialize)]
struct Record {
    status: String,
    checksum: u32,
    #[serde(default)]
    offset: usize,
    #[serde(default)]
    stored: usize,
}

#[derive(Deserialize)]
struct Index {
    cases: BTreeMap<String, Record>,
}

fn checksum(text: &str) -> u32 {
    !text.bytes().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| (sum >> 1) ^ if sum & 1 != 0 { 0xedb8_8320 } else { 0 })
    })
}

/// The kernels of all cases, each once.
fn kernels(cases: &[Golden]) -> Vec<&str> {
    let mut kernels = Vec::new();
    for golden in cases {
        if !kernels.contains(&golden.ptx.as_str()) {
            kernels.push(golden.ptx.as_str());
        }
    }
    kernels
}

/// The text of a case; a record keeps the checksum of it and its kernel.
fn line(golden: &Golden, kernels: &[&str]) -> String {
    golden.json(position(kernels, &golden.ptx.as_str())).to_string()
}

/// Writes the files that `record.py` reads.
#[test]
#[ignore = "writes the cases for record.py"]
fn write_cases() {
    let cases = cases();
    let kernels = kernels(&cases);
    let lines: String = cases.iter().map(|golden| line(golden, &kernels) + "\n").collect();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("golden_copies");
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    for (file, text) in [("cases.json", lines), ("kernels.json", json!(kernels).to_string())] {
        std::fs::write(folder.join(file), &text).expect("cases can be written");
    }
    println!("{}", folder.display());
}

/// What a case leaves, as what it changed in the tensor's and then the buffer's bytes; `None` for a
/// fault.
fn changed(golden: &Golden, schedule: Schedule) -> Option<Vec<u8>> {
    let tensor = bytes(1, bytes_of(&golden.case.map));
    let buffer = bytes(2, TILE_BYTES * golden.ctas as usize);
    let (after, tile) =
        run_text(&mut device(), &golden.ptx, golden.ctas, &golden.case, &tensor, &buffer, schedule).ok()?;
    let before = tensor.iter().chain(&buffer);
    Some(before.zip(after.iter().chain(&tile)).map(|(before, after)| before ^ after).collect())
}

/// `GOLDEN=interleave` replays the cases of which the name contains `interleave`.
#[test]
fn the_emulator_copies_as_the_gpu_did() {
    let index = std::fs::read_to_string(folder().join("results.json")).expect("there is an index");
    let index: Index = serde_json::from_str(&index).expect("every case was recorded");
    let stored = std::fs::read(folder().join("results.bin")).expect("there are results");
    let filter = std::env::var("GOLDEN").unwrap_or_default();
    let (mut ran, mut wrong) = (0, Vec::new());
    let cases = cases();
    let kernels = kernels(&cases);
    for golden in cases.iter().filter(|golden| golden.name.contains(&filter)) {
        let name = &golden.name;
        let Some(record) = index.cases.get(name) else {
            wrong.push(format!("{name}: it was never recorded"));
            continue;
        };
        if record.checksum != checksum(&(line(golden, &kernels) + &golden.ptx)) {
            wrong.push(format!("{name}: it has changed since it was recorded"));
            continue;
        }
        ran += 1;
        let expected = (record.status == "ok").then(|| {
            let packed = &stored[record.offset..][..record.stored];
            miniz_oxide::inflate::decompress_to_vec_zlib(packed).expect("the results are packed")
        });
        for schedule in [Schedule::Eager, Schedule::Latest, Schedule::Random(5)] {
            match (&expected, changed(golden, schedule)) {
                (Some(expected), Some(found)) if *expected != found => {
                    let differ = expected.iter().zip(&found).filter(|(a, b)| a != b).count();
                    let first = expected.iter().zip(&found).position(|(a, b)| a != b);
                    wrong.push(format!(
                        "{name}: {differ} bytes differ, the first at {first:?} ({schedule:?})"
                    ));
                }
                (None, Some(_)) => {
                    wrong.push(format!("{name}: the GPU trapped, and the emulator did not ({schedule:?})"))
                }
                (Some(_), None) => {
                    wrong.push(format!("{name}: it faults, and did not on the GPU ({schedule:?})"))
                }
                _ => continue,
            }
            break;
        }
    }
    assert!(ran > 0 && wrong.is_empty(), "{} of {ran} cases:\n{}", wrong.len(), wrong.join("\n"));
}
