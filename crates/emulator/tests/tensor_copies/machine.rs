//! Kernels of one tensor copy each, and launching them on an encoded map.

use warpwright_arch::Arch;
use warpwright_arch::tensor_map::Description;
use warpwright_emulator::{Emulator, Fault, Launch, Schedule, tensor_map};

/// Bytes of the shared memory that the kernels copy to and from, and give back.
pub(crate) const TILE_BYTES: usize = 1 << 16;

/// Waits for the mbarrier's first phase, with `%n` zero before. A wait that is too long is given
/// up, and leaves a mark.
pub(crate) const WAIT: &str =
    "WAIT: mbarrier.test_wait.parity.shared.b64 %p, [%bar], 0; @%p bra WAITED; add.u32 %n, %n, 1;
     setp.lt.u32 %p, %n, 100000; @%p bra WAIT; mov.u32 %n, tile; st.shared.b32 [%n+65532], 0xdeaddead;
     WAITED:";

/// What a kernel copies and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copy {
    Load,
    Store,
    /// A reduction: `add`, ...
    Reduce(&'static str),
}

/// One copy.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) copy: Copy,
    /// Its address is ignored: the buffer's is put there.
    pub(crate) map: Description,
    pub(crate) coordinates: Vec<i32>,
    /// im2col's.
    pub(crate) offsets: Vec<u16>,
    /// Where the tile begins in shared memory, from a multiple of 1024 on.
    pub(crate) tile_offset: u32,
    /// Bytes that the mbarrier expects, where they are not those that the map says.
    pub(crate) expected: Option<u32>,
}

impl Case {
    fn is_im2col(&self) -> bool {
        !matches!(self.map.access, warpwright_arch::tensor_map::Access::Tiled { .. })
    }

    /// The kernel: shared memory is filled from the buffer `tile`, the copy is made, and shared
    /// memory goes back there.
    pub(crate) fn ptx(&self) -> String {
        let rank = self.map.rank();
        let list = |names: Vec<String>| format!("{{{}}}", names.join(", "));
        let coordinates = list((0..rank).map(|axis| format!("%c{axis}")).collect());
        let copy = match (self.copy, self.is_im2col()) {
            (Copy::Load, false) => format!(
                "cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%tile], [%map, \
                 {coordinates}], [%bar];"
            ),
            (Copy::Load, true) => format!(
                "cp.async.bulk.tensor.{rank}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%tile], [%map, \
                 {coordinates}], [%bar], {};",
                list((0..rank - 2).map(|axis| format!("%o{axis}")).collect())
            ),
            (Copy::Store, is_im2col) => format!(
                "cp.async.bulk.tensor.{rank}d.global.shared::cta.{}.bulk_group [%map, {coordinates}], [%tile];",
                if is_im2col { "im2col_no_offs" } else { "tile" }
            ),
            (Copy::Reduce(operation), is_im2col) => format!(
                "cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{operation}.{}.bulk_group [%map, {coordinates}], \
                 [%tile];",
                if is_im2col { "im2col_no_offs" } else { "tile" }
            ),
        };
        let wait = if self.copy == Copy::Load {
            WAIT
        } else {
            "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
        };
        let expect = if self.copy == Copy::Load {
            "mbarrier.arrive.expect_tx.shared.b64 %state, [%bar], %bytes;"
        } else {
            ""
        };
        format!(
            ".version 8.6\n.target sm_90a\n.address_size 64
             .visible .entry copy(.param .align 64 .b8 map[128], .param .align 4 .b8 at[48], .param .u64 buffer) {{
             .reg .pred %p; .reg .b32 %c<5>; .reg .b16 %o<3>; .reg .b32 %bytes, %offset, %tile, %bar, %i, %a, %w, %n;
             .reg .b64 %map, %state, %buffer, %g;
             .shared .align 1024 .b8 tile[{TILE_BYTES}]; .shared .align 8 .b64 bar;
             ld.param.b32 %c0, [at]; ld.param.b32 %c1, [at+4]; ld.param.b32 %c2, [at+8]; ld.param.b32 %c3, [at+12];
             ld.param.b32 %c4, [at+16]; ld.param.u16 %o0, [at+20]; ld.param.u16 %o1, [at+24]; ld.param.u16 %o2, [at+28];
             ld.param.b32 %bytes, [at+32]; ld.param.b32 %offset, [at+36]; ld.param.u64 %buffer, [buffer];
             cvta.to.global.u64 %buffer, %buffer; mov.u32 %n, 0;
             mov.b64 %map, map; cvta.param.u64 %map, %map;
             mov.u32 %tile, tile; add.u32 %tile, %tile, %offset; mov.u32 %bar, bar; mov.u32 %i, %tid.x;
             shl.b32 %i, %i, 2;
             FILL: mov.u32 %a, tile; add.u32 %a, %a, %i; cvt.u64.u32 %g, %i; add.u64 %g, %g, %buffer;
             ld.global.b32 %w, [%g]; st.shared.b32 [%a], %w;
             add.u32 %i, %i, 512; setp.lt.u32 %p, %i, {TILE_BYTES}; @%p bra FILL;
             mov.u32 %i, %tid.x; setp.ne.u32 %p, %i, 0; @%p bra READY;
             mbarrier.init.shared.b64 [%bar], 1; fence.mbarrier_init.release.cluster;
             READY: fence.proxy.async; bar.sync 0;
             @%p bra MADE;
             {expect}
             {copy}
             {wait}
             MADE: bar.sync 0;
             shl.b32 %i, %i, 2;
             DUMP: mov.u32 %a, tile; add.u32 %a, %a, %i; cvt.u64.u32 %g, %i; add.u64 %g, %g, %buffer;
             ld.shared.b32 %w, [%a]; st.global.b32 [%g], %w;
             add.u32 %i, %i, 512; setp.lt.u32 %p, %i, {TILE_BYTES}; @%p bra DUMP;
             ret; }}"
        )
    }

    /// The bytes of the kernel's second parameter.
    pub(crate) fn at(&self) -> Vec<u8> {
        let mut at = Vec::new();
        let mut put = |value: u32| at.extend(value.to_le_bytes());
        (0..5).for_each(|axis| put(self.coordinates.get(axis).map_or(0, |&coordinate| coordinate as u32)));
        (0..3).for_each(|axis| put(self.offsets.get(axis).map_or(0, |&offset| offset.into())));
        put(self.expected.unwrap_or(self.map.transaction_bytes() as u32));
        put(self.tile_offset);
        (0..2).for_each(|_| put(0));
        at
    }
}

/// Global and shared memory after a case, from what they were before.
pub(crate) fn run(
    device: &mut Emulator,
    case: &Case,
    global: &[u8],
    tile: &[u8],
    schedule: Schedule,
) -> Result<(Vec<u8>, Vec<u8>), Box<Fault>> {
    run_text(device, &case.ptx(), 1, case, global, tile, schedule)
}

/// The same of another kernel with the parameters of the case's, launched as one cluster.
pub(crate) fn run_text(
    device: &mut Emulator,
    ptx: &str,
    ctas: u32,
    case: &Case,
    global: &[u8],
    tile: &[u8],
    schedule: Schedule,
) -> Result<(Vec<u8>, Vec<u8>), Box<Fault>> {
    let module = warpwright_ptx::parse(ptx).unwrap_or_else(|error| panic!("{error}\n{ptx}"));
    let program = device.load(&module).unwrap_or_else(|error| panic!("{error}\n{ptx}"));
    // As on a GPU, where a buffer is never as short as a few bytes less than whole pieces.
    let tensor = device.allocate(global.len() as u64 + 16).expect("it fits");
    let buffer = device.allocate(tile.len() as u64).expect("it fits");
    device.write(tensor, global).expect("it was just allocated");
    device.write(buffer, tile).expect("it was just allocated");
    let map = Description { address: tensor + case.map.address, ..case.map.clone() };
    let mut parameters = tensor_map::encode(&map).to_vec();
    parameters.extend(case.at());
    parameters.extend(buffer.to_le_bytes());
    let launch = Launch {
        grid: [ctas, 1, 1],
        cluster: [ctas, 1, 1],
        block: [128, 1, 1],
        parameters: &parameters,
        schedule,
        ..Launch::default()
    };
    let done = device.launch(&program, "copy", &launch);
    let (mut global, mut tile) = (global.to_vec(), tile.to_vec());
    device.read(tensor, &mut global).expect("it is still there");
    device.read(buffer, &mut tile).expect("it is still there");
    device.free(tensor).expect("once");
    device.free(buffer).expect("once");
    done.map(|_| (global, tile))
}

/// An emulated H200.
pub(crate) fn device() -> Emulator {
    Emulator::with_threads(Arch::named("h200").expect("there is an H200"), 1).expect("it starts")
}
