//! The kernels of the tensor memory accelerator's probes.

use super::session::Kernel;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copy {
    /// `cp.async.bulk`.
    Bulk,
    /// A box of that rank: rows of 128 bytes but for rank 1.
    Boxes { rank: usize, is_swizzled: bool },
}

impl Copy {
    pub(super) fn label(self) -> String {
        match self {
            Self::Bulk => "cp.async.bulk".to_owned(),
            Self::Boxes { rank, is_swizzled } => {
                format!("cp.async.bulk.tensor.{rank}d{}", if is_swizzled { ", 128-byte swizzle" } else { "" })
            }
        }
    }

    /// The instruction, at offset or coordinate `%at`, with a further word and operand for multicast.
    fn instruction(self, multicast: [&str; 2]) -> String {
        let [word, mask] = multicast;
        let kind = format!("shared::cluster.global.mbarrier::complete_tx::bytes{word}");
        match self {
            Self::Bulk => format!(
                "cvt.u64.u32 %offset, %at; add.s64 %offset, %offset, %data; \
                 cp.async.bulk.{kind} [%slot], [%offset], %bytes, [%barrier]{mask};"
            ),
            Self::Boxes { rank, .. } => {
                let coordinates = ["%at", "0, %at", "0, 0, %at"][rank - 1];
                format!(
                    "cp.async.bulk.tensor.{rank}d.{kind} [%slot], [%map, {{{coordinates}}}], [%barrier]{mask};"
                )
            }
        }
    }

    /// Copies `count` boxes with `flight` in flight. An mbarrier that nothing arrived at has completed the
    /// phase of parity 1, so the first boxes wait for nothing.
    pub(super) fn load(self) -> String {
        Kernel {
            name: "load",
            parameters: PARAMETERS,
            declarations: DECLARATIONS,
            setup: &format!("{SETUP}{INITIALIZE}"),
            body: &format!(
                "
    mov.u32 %phase, 1;
    mov.u32 %index, 0;
    mov.u32 %number, 0;
    add.u32 %total, %count, %flight;
    mov.u32 %barrier, %barriers;
    mov.u32 %slot, %slots;
LOOP:
    .pragma \"nounroll\";
WAIT:
    mbarrier.try_wait.parity.shared.b64 %done, [%barrier], %phase;
    @!%done bra WAIT;
    setp.ge.u32 %more, %index, %count;
    @%more bra NEXT;
    mbarrier.arrive.expect_tx.shared.b64 %state, [%barrier], %bytes;
    {copy}
    add.u32 %at, %at, %step;
    setp.ge.u32 %more, %at, %limit;
    @%more mov.u32 %at, %first_at;
NEXT:
    add.u32 %index, %index, 1;
    add.u32 %number, %number, 1;
    add.u32 %barrier, %barrier, 8;
    add.u32 %slot, %slot, %bytes;
    setp.lt.u32 %more, %number, %flight;
    @%more bra ON;
    mov.u32 %number, 0;
    mov.u32 %barrier, %barriers;
    mov.u32 %slot, %slots;
    xor.b32 %phase, %phase, 1;
ON:
    setp.lt.u32 %more, %index, %total;
    @%more bra LOOP;",
                copy = self.instruction(["", ""]),
            ),
        }
        .entry()
    }

    /// In each of `count` rounds, copies `flight` boxes to one mbarrier and waits for all.
    pub(super) fn burst(self) -> String {
        Kernel {
            name: "burst",
            parameters: PARAMETERS,
            declarations: DECLARATIONS,
            setup: &format!(
                "{SETUP}{INITIALIZE}
    mov.u32 %phase, 0;
    mov.u32 %barrier, %barriers;
    mul.lo.u32 %total, %bytes, %flight;"
            ),
            body: &format!(
                "
LOOP:
    .pragma \"nounroll\";
    mov.u32 %number, %flight;
    mov.u32 %slot, %slots;
    mbarrier.arrive.expect_tx.shared.b64 %state, [%barrier], %total;
BOX:
    .pragma \"nounroll\";
    {copy}
    add.u32 %at, %at, %step;
    add.u32 %slot, %slot, %bytes;
    sub.u32 %number, %number, 1;
    setp.ne.u32 %more, %number, 0;
    @%more bra BOX;
    setp.ge.u32 %more, %at, %limit;
    @%more mov.u32 %at, %first_at;
WAIT:
    mbarrier.try_wait.parity.shared.b64 %done, [%barrier], %phase;
    @!%done bra WAIT;
    xor.b32 %phase, %phase, 1;
    sub.u32 %count, %count, 1;
    setp.ne.u32 %more, %count, 0;
    @%more bra LOOP;",
                copy = self.instruction(["", ""]),
            ),
        }
        .entry()
    }

    /// Stores `count` boxes, each awaited: until it is read, or complete.
    pub(super) fn store(self, wait: &str) -> String {
        let copy = match self {
            Self::Bulk => "cvt.u64.u32 %offset, %at; add.s64 %offset, %offset, %data; \
                           cp.async.bulk.global.shared::cta.bulk_group [%offset], [%slots], %bytes;"
                .to_owned(),
            Self::Boxes { rank, .. } => {
                let coordinates = ["%at", "0, %at", "0, 0, %at"][rank - 1];
                format!(
                    "cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [%map, {{{coordinates}}}], [%slots];"
                )
            }
        };
        Kernel {
            name: if wait.is_empty() { "store" } else { "store_read" },
            parameters: PARAMETERS,
            declarations: DECLARATIONS,
            setup: SETUP,
            body: &format!(
                "
    fence.proxy.async.shared::cta;
LOOP:
    .pragma \"nounroll\";
    {copy}
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group{wait} 0;
    add.u32 %at, %at, %step;
    setp.ge.u32 %more, %at, %limit;
    @%more mov.u32 %at, %first_at;
    sub.u32 %count, %count, 1;
    setp.ne.u32 %more, %count, 0;
    @%more bra LOOP;"
            ),
        }
        .entry()
    }

    /// In each round, all CTAs of a cluster expect a box, one copies it to those of a mask, and all wait.
    pub(super) fn multicast(self, name: &str, words: [&str; 2]) -> String {
        Kernel {
            name,
            parameters: PARAMETERS,
            declarations: DECLARATIONS,
            setup: &format!(
                "{SETUP}{INITIALIZE}
    mov.u32 %number, %cluster_ctarank;
    cvt.u16.u32 %mask, %flight;
    mov.u32 %phase, 0;
    mov.u32 %barrier, %barriers;
    mov.u32 %slot, %slots;
    shr.u32 %index, %flight, %number;
    and.b32 %index, %index, 1;
    setp.ne.u32 %expects, %index, 0;"
            ),
            body: &format!(
                "
    setp.ne.u32 %leads, %number, 0;
LOOP:
    .pragma \"nounroll\";
    @%expects mbarrier.arrive.expect_tx.shared.b64 %state, [%barrier], %bytes;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    @%leads bra WAIT;
    {copy}
WAIT:
    @!%expects bra NEXT;
    mbarrier.try_wait.parity.shared.b64 %done, [%barrier], %phase;
    @!%done bra WAIT;
NEXT:
    xor.b32 %phase, %phase, 1;
    add.u32 %at, %at, %step;
    setp.ge.u32 %more, %at, %limit;
    @%more mov.u32 %at, %first_at;
    sub.u32 %count, %count, 1;
    setp.ne.u32 %more, %count, 0;
    @%more bra LOOP;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;",
                copy = self.instruction(words),
            ),
        }
        .entry()
    }
}

/// Bytes of a box, boxes in flight (of multicast, the mask), what is added to an offset or coordinate from
/// one box to the next, where it begins again, what a CTA begins with per number, and the map.
const PARAMETERS: &str = ", .param .u32 bytes_of, .param .u32 flight_of, .param .u32 step_of, .param .u32 limit_of, \
                          .param .u32 apart_of, .param .align 64 .b8 map_of[128]";
const DECLARATIONS: &str = ".reg .pred %done, %expects, %leads; .reg .b16 %mask; \
    .reg .b32 %bytes, %flight, %step, %limit, %apart, %at, %first_at, %index, %number, %phase, %barrier, %barriers, %slot, \
    %slots, %total; .reg .b64 %map, %state;";
const SETUP: &str = "
    ld.param.u32 %bytes, [bytes_of];
    ld.param.u32 %flight, [flight_of];
    ld.param.u32 %step, [step_of];
    ld.param.u32 %limit, [limit_of];
    ld.param.u32 %apart, [apart_of];
    mov.b64 %map, map_of;
    cvta.param.u64 %map, %map;
    mul.lo.u32 %at, %cta, %apart;
    mov.u32 %first_at, %at;
    add.u32 %limit, %limit, %at;
    mov.u32 %barriers, bytes;
    add.u32 %slots, %barriers, 1024;";
const INITIALIZE: &str = "
    mov.u32 %index, 0;
INIT:
    .pragma \"nounroll\";
    mad.lo.u32 %barrier, %index, 8, %barriers;
    mbarrier.init.shared.b64 [%barrier], 1;
    add.u32 %index, %index, 1;
    setp.lt.u32 %more, %index, 16;
    @%more bra INIT;
    fence.mbarrier_init.release.cluster;
    fence.proxy.async.shared::cta;";
