//! `wgmma`: it reads shared memory through the asynchronous proxy, at any moment until its group
//! was waited for.

use warpwright_check::FindingKind::{InFlight, ProxyFence};

use crate::checks::harness::{Grid, clean, found};

const GROUP: Grid = Grid { ctas: 1, threads: 128, cluster: 1 };

const FILL: &str = "st.shared.u32 [%own], 0; st.shared.u32 [%own+512], 0; st.shared.u32 [%own+1024], 0; \
                    st.shared.u32 [%own+1536], 0;";
const FENCE: &str = "fence.proxy.async;";
const SYNC: &str = "bar.sync 0;";
/// 64 (and 8) rows of 16 bf16: 128 bytes from one half of a row to the other, 256 to the next eight
/// rows.
const MULTIPLY: &str = "shr.u32 %r0, %tile, 4; and.b32 %r0, %r0, 0x3fff; cvt.u64.u32 %rd0, %r0;
    or.b64 %rd0, %rd0, 0x0000001000080000; setp.ne.u32 %p0, 0, 0; wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd0, %rd0, %p0, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;";
const WAIT: &str = "wgmma.wait_group.sync.aligned 0;";

fn body(parts: &[&str]) -> String {
    parts.join("\n")
}

#[test]
fn a_tile_is_left_alone_until_the_group_was_waited_for() {
    let start = body(&[FILL, FENCE, SYNC, MULTIPLY]);
    clean(&body(&[&start, WAIT, SYNC, FILL]), GROUP);
    found(&body(&[&start, FILL, WAIT]), GROUP, InFlight, ["st.shared", "wgmma.mma_async"]);
}

#[test]
fn what_threads_wrote_is_fenced_for_the_asynchronous_proxy() {
    found(&body(&[FILL, SYNC, MULTIPLY, WAIT]), GROUP, ProxyFence, ["wgmma.mma_async", "st.shared"]);
}
