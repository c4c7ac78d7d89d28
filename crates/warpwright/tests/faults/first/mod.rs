//! Common mistakes, and the first finding of each: it names the mistake, at every schedule.
//!
//! A kernel has several mistakes, of which a run makes one. The table names the kernel, the mistake, the
//! code of the first finding, and words of its text. Where a schedule lets another consequence come
//! first, a second code and its words are given.

mod blackwell;
mod cluster;
mod combined;
mod copies;
mod eights;
mod gated;
mod gemm;
mod look_back;
mod merged;
mod norm;
mod paged;
mod persistent;
mod pingpong;
mod radix;
mod relayed;
mod requantized;
mod split;
mod staged;
mod stencil;
mod threads;

use std::sync::LazyLock;

use warpwright::arch::Arch;
use warpwright::prelude::StagingErrors;
use warpwright::runtime::{self, Device, Schedule};

/// A kernel with one mistake, or none (`""`).
#[derive(Clone, Copy)]
pub(super) struct Mistaken(&'static str);

impl Mistaken {
    fn is(self, name: &str) -> bool {
        self.0 == name
    }

    fn name(self) -> &'static str {
        self.0
    }
}

/// Why a kernel does not run to its end.
#[derive(Debug)]
pub(super) enum Error {
    /// It is not built.
    Refused(StagingErrors),
    /// The checkers find something.
    Found(runtime::Error),
}

impl From<StagingErrors> for Error {
    fn from(errors: StagingErrors) -> Self {
        Self::Refused(errors)
    }
}

impl From<runtime::Error> for Error {
    fn from(error: runtime::Error) -> Self {
        Self::Found(error)
    }
}

/// A kernel: the GPU, and how a launch is tried.
struct Subject {
    gpu: &'static str,
    run: fn(&Device, Mistaken) -> Result<(), Error>,
}

const GEMM: Subject = Subject { gpu: "h200", run: gemm::run };
const COUNT: Subject = Subject { gpu: "h200", run: threads::count };
const REVERSE: Subject = Subject { gpu: "h200", run: threads::reverse };
const HALVING: Subject = Subject { gpu: "h200", run: threads::halving };
const NEIGHBORS: Subject = Subject { gpu: "h200", run: threads::neighbors };
const FLAG: Subject = Subject { gpu: "h200", run: threads::flag };
const ASSERTED: Subject = Subject { gpu: "h200", run: threads::asserted };
const RING: Subject = Subject { gpu: "h200", run: copies::ring };
const DOUBLED: Subject = Subject { gpu: "h200", run: copies::doubled };
const SHARED_GEMM: Subject = Subject { gpu: "h200", run: cluster::shared_gemm };
const EXCHANGE: Subject = Subject { gpu: "h200", run: cluster::exchange };
const STENCIL: Subject = Subject { gpu: "h200", run: stencil::run };
const GATED: Subject = Subject { gpu: "h200", run: gated::run };
const NORM: Subject = Subject { gpu: "h200", run: norm::run };
const LOOK_BACK: Subject = Subject { gpu: "h200", run: look_back::run };
const COMBINED: Subject = Subject { gpu: "h200", run: combined::run };
const PERSISTENT: Subject = Subject { gpu: "b200", run: persistent::run };
const REQUANTIZED: Subject = Subject { gpu: "h200", run: requantized::run };
const RELAYED: Subject = Subject { gpu: "h200", run: relayed::run };
const RADIX: Subject = Subject { gpu: "h200", run: radix::run };
const SPLIT: Subject = Subject { gpu: "h200", run: split::run };
const MERGED: Subject = Subject { gpu: "h200", run: merged::run };
const PAGED: Subject = Subject { gpu: "h200", run: paged::run };
const EIGHTS: Subject = Subject { gpu: "h200", run: eights::run };
const STAGED: Subject = Subject { gpu: "h200", run: staged::run };
const PINGPONG: Subject = Subject { gpu: "h200", run: pingpong::run };
const PRODUCT: Subject = Subject { gpu: "b200", run: blackwell::product };

/// The code of a finding, and words of its text.
type Words = (&'static str, &'static str);

/// A mistake, and what its first finding is at some schedule.
type Mistake = (Subject, &'static str, &'static [Words]);

const MISTAKES: &[Mistake] = &[
    (GEMM, "full expects two", &[(REFUSED, "an mbarrier for 2 arrivals, and the kernel makes 1")]),
    (GEMM, "empty expects all threads", &[(REFUSED, "an mbarrier for 128 arrivals, and the kernel makes 1")]),
    (GEMM, "no barrier after init", &[("race", "initialization of the mbarrier")]),
    (GEMM, "producer parity", &[("deadlock", "wait for it with the other parity (`parity ^ 1`)")]),
    (
        GEMM,
        "no empty wait",
        &[
            ("in-flight", "wait until its readers have released it"),
            ("barrier", "fills a slot again after the wait for its release"),
        ],
    ),
    (
        GEMM,
        "too few bytes",
        &[(REFUSED, "expect 4096 bytes here, and the copies that complete on them move 16384")],
    ),
    (
        GEMM,
        "one operand's bytes",
        &[(REFUSED, "expect 8192 bytes here, and the copies that complete on them move 16384")],
    ),
    (
        GEMM,
        "too many bytes",
        &[(REFUSED, "expect 32768 bytes here, and the copies that complete on them move 16384")],
    ),
    (
        GEMM,
        "no bytes",
        &[(REFUSED, "copies of 16384 bytes complete on the mbarriers of a ring that expect none")],
    ),
    (GEMM, "no arrival", &[("deadlock", "and no thread arrives in it")]),
    (GEMM, "wrong stage", &[("in-flight", "this wait is for another mbarrier")]),
    (
        GEMM,
        "wrong barrier",
        &[
            ("deadlock", "expects 16384 bytes, and its copies bring 8192"),
            ("barrier", "completes before a copy issued in it"),
        ],
    ),
    (
        GEMM,
        "one load missing",
        &[(REFUSED, "expect 16384 bytes here, and the copies that complete on them move 8192")],
    ),
    (
        GEMM,
        "consumer parity",
        &[
            ("in-flight", "this wait has returned at once"),
            ("deadlock", "have not waited for phase 0, which has ended"),
        ],
    ),
    (
        GEMM,
        "parity not flipped",
        &[
            ("in-flight", "with the end of phase 0 (parity 0), and not of phase 1 (parity 1)"),
            ("deadlock", "have not waited for phase 1, which has ended"),
        ],
    ),
    (
        GEMM,
        "parity flipped each step",
        &[
            ("in-flight", "with the end of phase 0 (parity 0), and not of phase 1 (parity 1)"),
            ("deadlock", "have not waited for phase 0, which has ended"),
        ],
    ),
    (GEMM, "waits for stage 0", &[("in-flight", "this wait is for another mbarrier")]),
    (GEMM, "no full wait", &[("in-flight", "wait on the mbarrier before this access (`wait_parity`)")]),
    (
        GEMM,
        "reads the other stage",
        &[
            ("in-flight", "this wait is for another mbarrier"),
            ("in-flight", "this wait has returned with the end of phase 0"),
        ],
    ),
    (GEMM, "no multiply fence", &[("in-flight", "call `fence_multiplications()`")]),
    (GEMM, "no commit", &[("in-flight", "call `commit_multiplications()`")]),
    (GEMM, "no multiply wait", &[("in-flight", "call `wait_multiplications(0)`")]),
    (GEMM, "waits for all but one", &[("in-flight", "`wait_multiplications(1)`")]),
    (
        GEMM,
        "every thread releases",
        &[(REFUSED, "makes 128 arrivals at an mbarrier that is initialized for 1")],
    ),
    (
        GEMM,
        "released by each warp",
        &[(REFUSED, "makes 4 arrivals at an mbarrier that is initialized for 1")],
    ),
    (GEMM, "no release", &[("deadlock", "release the slot")]),
    (GEMM, "no store fence", &[("proxy-fence", "call `fence_proxy_async()`")]),
    (
        GEMM,
        "named barrier of too few",
        &[
            ("barrier", "two groups of warps use barrier 1"),
            ("race", "`NamedBarrier::new(1, 128)`"),
            ("in-flight", "`NamedBarrier::new(1, 128)`"),
        ],
    ),
    (GEMM, "named barrier of too many", &[("deadlock", "barrier 1 waits for 160 threads, of which 128")]),
    (GEMM, "no named barrier", &[("race", "`NamedBarrier::sync`")]),
    (GEMM, "stores a column twice", &[("in-flight", "two copies write the same elements")]),
    (GEMM, "no store commit", &[("leak", "call `bulk_commit()`")]),
    (GEMM, "no store wait", &[("leak", "call `bulk_wait_read(0)`")]),
    (COUNT, "lanes update one element", &[("race", "by one atomic operation")]),
    (COUNT, "lanes update one element by +=", &[("race", "by one atomic operation")]),
    (COUNT, "warps update one element", &[("race", "by one atomic operation")]),
    (COUNT, "blocks update one element", &[("race", "by one atomic operation")]),
    (COUNT, "lanes update a shared counter", &[("race", "by one atomic operation")]),
    (COUNT, "histogram", &[("race", "by one atomic operation")]),
    (COUNT, "update in two lines", &[("race", "by one atomic operation")]),
    (COUNT, "lanes write one element", &[("race", "let one thread write")]),
    (COUNT, "lanes write one of two elements", &[("race", "let one thread write")]),
    (COUNT, "warps write one element", &[("race", "let one thread write")]),
    (REVERSE, "no write", &[("uninitialized", "write it before it is read")]),
    (REVERSE, "half of it written", &[("uninitialized", "element 32 of this array")]),
    (
        REVERSE,
        "barrier in a branch",
        &[(REFUSED, "waits for all 64 threads of the block, and 32 of them reach it")],
    ),
    (
        REVERSE,
        "barrier in half a warp",
        &[(REFUSED, "waits for all 64 threads of the block, and 16 of them reach it")],
    ),
    (REVERSE, "warp barrier for a block", &[("race", "call `sync_threads()`")]),
    (REVERSE, "fence for a barrier", &[("race", "call `sync_threads()`")]),
    (REVERSE, "barriers in both branches", &[("barrier", "at two different lines")]),
    (REVERSE, "named barrier counts half", &[("race", "`NamedBarrier::new(1, 64)`")]),
    (REVERSE, "different named barriers", &[("deadlock", "barrier 1 waits for 64 threads, of which 32")]),
    (REVERSE, "no barrier", &[("race", "call `sync_threads()`")]),
    (REVERSE, "negative shared index", &[("out-of-bounds", "the index is negative")]),
    (REVERSE, "shared index past the end", &[("out-of-bounds", "right past the end of this array")]),
    (HALVING, "no barrier before the loop", &[("race", "call `sync_threads()`")]),
    (
        HALVING,
        "barrier inside the branch of the loop",
        &[("divergence", "move the barrier out of the branch")],
    ),
    (HALVING, "barrier of one lane before an exchange", &[("deadlock", "move it out of the branch")]),
    (HALVING, "no barrier in the loop", &[("race", "call `sync_threads()`")]),
    (NEIGHBORS, "negative index", &[("out-of-bounds", "the index is negative")]),
    (NEIGHBORS, "negative signed index", &[("out-of-bounds", "the index is negative")]),
    (NEIGHBORS, "negative index of a write", &[("out-of-bounds", "the index is negative")]),
    (NEIGHBORS, "no bounds check", &[("out-of-bounds", "would be element 256 of `x`, which has 256")]),
    (NEIGHBORS, "bounds off by one", &[("out-of-bounds", "would be element 100 of `y`, which has 100")]),
    (NEIGHBORS, "stride too large", &[("out-of-bounds", "would be element 256 of `x`")]),
    (NEIGHBORS, "misaligned vector", &[("misaligned", "must be a multiple of 8")]),
    (FLAG, "flag without a fence", &[("race", "publish with a release")]),
    (FLAG, "flag by a plain store", &[("race", "publish with a release")]),
    (
        FLAG,
        "shuffle in a branch",
        &[(REFUSED, "waits for 32 lanes of a warp, and 16 lanes of them reach it")],
    ),
    (
        FLAG,
        "exchange of a function in both branches",
        &[("divergence", "exchange values in two calls of one line")],
    ),
    (FLAG, "neighbor lanes without a warp barrier", &[("race", "call `sync_warp`")]),
    (ASSERTED, "above the limit", &[("assertion", "assertion failed: an element is above the limit")]),
    (ASSERTED, "above the limit", &[("assertion", "thread (5, 1, 0) of block (1, 0, 0)")]),
    (RING, "no commit before the loop", &[("in-flight", "call `commit_async_copies()`")]),
    (RING, "no commits", &[(REFUSED, "waits for groups of copies, and the kernel commits none")]),
    (RING, "waits for too few", &[("in-flight", "pass 1")]),
    (RING, "no cp.async wait", &[("in-flight", "call `wait_async_copies`")]),
    (RING, "no barrier after the wait", &[("in-flight", "put a barrier after the wait")]),
    (RING, "refills the stage that is read", &[("in-flight", "use another buffer")]),
    (RING, "last steps commit nothing", &[("in-flight", "commit a group in every round")]),
    (RING, "reads the next stage", &[("in-flight", "leaves the latest group in flight")]),
    (DOUBLED, "one thread waits", &[("in-flight", "this thread has observed the end of none of its phases")]),
    (DOUBLED, "a barrier for the wait", &[("in-flight", "wait on the mbarrier before this access")]),
    (DOUBLED, "no proxy fence", &[("proxy-fence", "call `fence_proxy_async()`")]),
    (DOUBLED, "no barrier before the store", &[("race", "call `sync_threads()`")]),
    (DOUBLED, "store not awaited", &[("leak", "call `bulk_wait_read(0)`")]),
    (DOUBLED, "overwritten before the store is done", &[("in-flight", "put a barrier after the wait")]),
    (SHARED_GEMM, "no tail", &[("peer-not-resident", "`tail()`")]),
    (
        SHARED_GEMM,
        "released before the wait",
        &[("in-flight", "release the buffer after `wait_multiplications`")],
    ),
    (SHARED_GEMM, "no release in a cluster", &[("deadlock", "release the slot")]),
    (
        EXCHANGE,
        "sent before the peer starts",
        &[("peer-not-resident", "in all CTAs of the cluster before the access")],
    ),
    (EXCHANGE, "block barrier for a cluster", &[("peer-not-resident", "call `cluster_sync()`")]),
    (EXCHANGE, "one CTA skips the cluster barrier", &[("peer-not-resident", "call `cluster_sync()`")]),
    (EXCHANGE, "arrives and does not wait", &[("peer-not-resident", "call `cluster_sync()`")]),
    (EXCHANGE, "no cluster barrier", &[("peer-not-resident", "call `cluster_sync()`")]),
    (EXCHANGE, "rank past the cluster", &[("out-of-bounds", "which the cluster does not have")]),
    (EXCHANGE, "no cluster barrier at the end", &[("peer-not-resident", "after the last access")]),
    (PRODUCT, "one thread allocates", &[("deadlock", "the instruction needs the whole warp")]),
    (PRODUCT, "no fence of the operands", &[("proxy-fence", "call `fence_proxy_async()`")]),
    (
        PRODUCT,
        "every thread multiplies",
        &[(REFUSED, "makes 128 arrivals at an mbarrier that is initialized for 1")],
    ),
    (PRODUCT, "first adds", &[("uninitialized", "let the first tcgen05.mma overwrite D")]),
    (PRODUCT, "no tcgen05 commit", &[("deadlock", "`commit_tensor_core`")]),
    (PRODUCT, "no wait for the product", &[("in-flight", "wait on its mbarrier before the access")]),
    (PRODUCT, "no fence after the wait", &[("tensor-fence", "call `tensor_fence_after_sync()`")]),
    (PRODUCT, "no wait for the load", &[("in-flight", "call `wait_tensor_loads()`")]),
    (PRODUCT, "never freed", &[("leak", "free")]),
    (STENCIL, "every thread initializes", &[("barrier", "is initialized twice")]),
    (
        STENCIL,
        "producer waits for full",
        &[
            ("in-flight", "wait until its readers have released the buffer"),
            ("race", "let the issuer wait until its readers have released the buffer"),
        ],
    ),
    (
        STENCIL,
        "starts one element left",
        &[("illegal-instruction", "help: start the box at element -4, 3 before")],
    ),
    (STENCIL, "rows counted from the halo", &[("out-of-bounds", "16 bytes past the end of this array")]),
    (STENCIL, "reads the other stage", &[("in-flight", "one index for both")]),
    (STENCIL, "released before it is read", &[("race", "this arrival precedes the read")]),
    (STENCIL, "lane 0 releases without a warp barrier", &[("race", "call `sync_warp`")]),
    (STENCIL, "others do not wait for the buffer", &[("in-flight", "put a barrier after the wait")]),
    (STENCIL, "two stores may still read", &[("in-flight", "pass 1")]),
    (STENCIL, "each warp stores", &[("in-flight", "let one thread issue the copy")]),
    (STENCIL, "rows left over", &[("uninitialized", "the last iteration of its loop")]),
    (STENCIL, "one block too few", &[("uninitialized", "32 elements of every 64")]),
    (GATED, "one load too many", &[("leak", "do not issue the copy")]),
    (GATED, "one load too few", &[("deadlock", "make as many rounds as those that wait")]),
    (GATED, "an operand is not loaded", &[("uninitialized", "nothing has written any of its 2048 bytes")]),
    (GATED, "the consumer does not begin", &[(REFUSED, "nothing calls its `begin()`")]),
    (
        GATED,
        "waits for each operand",
        &[(REFUSED, "each round of the loop waits for 2 stages of the pipeline and releases 1")],
    ),
    (
        GATED,
        "released for each operand",
        &[(REFUSED, "each round of the loop waits for 1 stage of the pipeline and releases 2")],
    ),
    (GATED, "fenced by one thread", &[("proxy-fence", "in the threads that wrote")]),
    (NORM, "leaves before the cluster barrier", &[("peer-not-resident", "which has exited")]),
    (NORM, "no fence of the initialization", &[("proxy-fence", "call `fence_mbarrier_init()`")]),
    (NORM, "mask of the row", &[("in-flight", "check the masks of the multicasts")]),
    (
        NORM,
        "expects its own half",
        &[(REFUSED, "expects 256 bytes here, and the copies that complete on it move 512")],
    ),
    (NORM, "expects in the first round alone", &[("deadlock", "no thread expects bytes in phase 1")]),
    (
        NORM,
        "sums at one place",
        &[("in-flight", "two copies of one phase of the mbarrier write the same bytes")],
    ),
    (NORM, "signals its own barrier", &[("illegal-instruction", "they must be in the same")]),
    (NORM, "block barrier between rounds", &[("race", "call `cluster_sync()`")]),
    (RADIX, "leaders add plainly", &[("race", "by one atomic operation")]),
    (RADIX, "leaves before the scan", &[(REFUSED, "28 of them have returned before")]),
    (RADIX, "no warp barrier after clearing", &[("race", "call `sync_warp`")]),
    (RADIX, "match in a branch", &[("deadlock", "move it out of the branch")]),
    (RADIX, "one block too few", &[("uninitialized", "check that `mistaken_histogram` writes the element")]),
    (RADIX, "one table for both streams", &[("stream-order", "record an event in stream 1")]),
    (RADIX, "event of before", &[("stream-order", "waits for an event that stream 2 recorded before")]),
    (RADIX, "copied by the other stream", &[("stream-order", "the copy to the host in stream 2")]),
    (
        RELAYED,
        "half of the points loaded",
        &[("uninitialized", "its value, or a result of it, is stored here")],
    ),
    (RELAYED, "the padding is added", &[("uninitialized", "its value, or a result of it, is stored here")]),
    (RELAYED, "the padding decides", &[("uninitialized", "decides whether this is executed")]),
    (
        SPLIT,
        "adds a part too many",
        &[("uninitialized", "is element 4 of `partial`"), ("race", "is element 4 of `partial`")],
    ),
    (SPLIT, "all lanes add to the result", &[("uninitialized", "is element 0 of `y`")]),
    (
        SPLIT,
        "another thread publishes",
        &[("race", "synchronizes with them at a barrier before its release")],
    ),
    (SPLIT, "axes exchanged", &[("out-of-bounds", "would be element 768 of `x`, which has 768")]),
    (SPLIT, "one row too many", &[("out-of-bounds", "would be element 768 of `x`, which has 768")]),
    (SPLIT, "block fence", &[("race", "publish with a release at .gpu scope")]),
    (SPLIT, "each thread stores its own", &[("race", "let one thread write")]),
    (SPLIT, "every thread takes a ticket", &[("race", "let one thread write")]),
    (SPLIT, "fence behind the ticket", &[("race", "publish with a release at .gpu scope")]),
    (SPLIT, "never the last", &[("uninitialized", "the condition that it stores under")]),
    (SPLIT, "no barrier behind the ticket", &[("race", "call `sync_threads()`")]),
    (SPLIT, "no fence", &[("race", "publish with a release at .gpu scope")]),
    (
        SPLIT,
        "one ticket for all rows",
        &[("race", "is element 0 of `tickets`"), ("uninitialized", "of `partial`")],
    ),
    (SPLIT, "partial sums of all rows at one place", &[("race", "two CTAs write the same elements")]),
    (SPLIT, "parts through the read-only path", &[(REFUSED, "memory that the kernel may write")]),
    (SPLIT, "sum of a warp for that of a block", &[("race", "let one thread write")]),
    (SPLIT, "ticket of the block's scope", &[("race", "publish with a release at .gpu scope")]),
    (SPLIT, "ticket without an atomic", &[("race", "or use atomics")]),
    (SPLIT, "tickets not cleared", &[("uninitialized", "is element 0 of `tickets`")]),
    (MERGED, "a key past the bins", &[("out-of-bounds", "keep the index below the length of the array")]),
    (MERGED, "arrives at its own", &[("race", "no mbarrier is between the two CTAs")]),
    (MERGED, "arrives before it sends", &[("race", "no mbarrier is between the two CTAs")]),
    (MERGED, "arrives for its block", &[("race", "arrive with `arrive_in(Scope::Cluster)`")]),
    (MERGED, "bins counted plainly", &[("race", "by one atomic operation")]),
    (MERGED, "bins not cleared", &[("uninitialized", "of this array of u32")]),
    (MERGED, "block barrier for the wait", &[("race", "call `cluster_sync()`")]),
    (MERGED, "counts not cleared", &[("uninitialized", "of `counts`")]),
    (
        MERGED,
        "counts the threads of all blocks",
        &[(REFUSED, "an mbarrier for 128 arrivals, and the kernel makes 64")],
    ),
    (MERGED, "every block adds the sum plainly", &[("race", "by one atomic operation")]),
    (MERGED, "half of the bins cleared", &[("uninitialized", "of this array of u32")]),
    (MERGED, "no barrier after clearing", &[("race", "call `sync_threads()`")]),
    (MERGED, "one block adds plainly", &[("race", "by one atomic operation")]),
    (MERGED, "one key too many", &[("out-of-bounds", "would be element 1000 of `keys`, which has 1000")]),
    (MERGED, "one thread arrives", &[(REFUSED, "an mbarrier for 64 arrivals, and the kernel makes 1")]),
    (MERGED, "sends before the block has counted", &[("race", "call `sync_threads()`")]),
    (MERGED, "sends past the cluster", &[("out-of-bounds", "names the CTA of rank")]),
    (
        MERGED,
        "waits for the other parity",
        &[("race", "this wait has returned at once"), ("race", "no mbarrier is between the two CTAs")],
    ),
    (MERGED, "warps meet for the block", &[("race", "call `sync_threads()`")]),
    (PAGED, "a dimension too many", &[(REFUSED, "element 32 of `shared_array::<f32>(32)`")]),
    (PAGED, "barrier for the first warp alone", &[(REFUSED, "move it out of the branch")]),
    (PAGED, "both warps store", &[("out-of-bounds", "of `o`"), ("race", "two CTAs write the same elements")]),
    (PAGED, "maximum of the valid lanes", &[("divergence", "move the call out of the branch")]),
    (PAGED, "memory of one page for two", &[("out-of-bounds", "or allocate more elements")]),
    (PAGED, "no barrier after the page's wait", &[("in-flight", "put a barrier after the wait")]),
    (PAGED, "no commit of a page", &[(REFUSED, "waits for groups of copies, and the kernel commits none")]),
    (PAGED, "no page in the table", &[("out-of-bounds", "the index is negative")]),
    (PAGED, "one sequence launched", &[("uninitialized", "nothing has written 32 of them")]),
    (PAGED, "output of the first sequence", &[("race", "compute coordinates that differ for each CTA")]),
    (PAGED, "page not awaited", &[("in-flight", "call `wait_async_copies`")]),
    (PAGED, "pages counted in elements", &[("misaligned", "is element 2 of `keys`")]),
    (PAGED, "scores read after a warp barrier", &[("race", "call `sync_threads()`")]),
    (PAGED, "scores read without a barrier", &[("race", "call `sync_threads()`")]),
    (PAGED, "values not loaded", &[("uninitialized", "write it before it is read")]),
    (PAGED, "waits for the page before", &[("in-flight", "pass 0")]),
    (EIGHTS, "batch left in flight", &[("in-flight", "pass 0")]),
    (EIGHTS, "batch not committed", &[("in-flight", "call `commit_multiplications()`")]),
    (EIGHTS, "both tiles in one place", &[("uninitialized", "nothing has written any of")]),
    (
        EIGHTS,
        "bytes of bf16",
        &[(REFUSED, "expect 32768 bytes here, and the copies that complete on them move 16384")],
    ),
    (EIGHTS, "bytes of one tile", &[(REFUSED, "the copies that complete on them move")]),
    (EIGHTS, "column past the row", &[("out-of-bounds", "of `c`")]),
    (EIGHTS, "counts every thread", &[("deadlock", "has 1 of its 128 arrivals")]),
    (
        EIGHTS,
        "every lane of a warp loads",
        &[(REFUSED, "makes 32 arrivals at an mbarrier that is initialized for 1")],
    ),
    (EIGHTS, "half of the scales loaded", &[("uninitialized", "write it before it is read")]),
    (EIGHTS, "loads one step too many", &[("leak", "do not issue the copy")]),
    (EIGHTS, "multiplied by one warp", &[("deadlock", "of which 96 have arrived")]),
    (EIGHTS, "next stage not loaded", &[("deadlock", "let a thread arrive")]),
    (EIGHTS, "no barrier after the setup", &[("race", "initialization of the mbarrier")]),
    (
        EIGHTS,
        "one barrier for both stages",
        &[("barrier", "completes two phases"), ("barrier", "takes 1 arrival: 1 has arrived")],
    ),
    (EIGHTS, "one barrier initialized", &[("barrier", "has no initialized mbarrier")]),
    (EIGHTS, "one thread waits for the stage", &[("in-flight", "wait on the mbarrier before this access")]),
    (
        EIGHTS,
        "parity of the step",
        &[("deadlock", "phase n has the parity n % 2"), ("in-flight", "wait for phase 1 of it")],
    ),
    (EIGHTS, "rows stored over each other", &[("race", "or each to an address of its own")]),
    (EIGHTS, "scales past the end", &[("out-of-bounds", "of `b_scales`")]),
    (
        EIGHTS,
        "stage filled while others multiply",
        &[("in-flight", "release the buffer after `wait_multiplications`")],
    ),
    (EIGHTS, "stage not awaited", &[("in-flight", "wait on the mbarrier before this access")]),
    (EIGHTS, "sums not fenced", &[("in-flight", "call `fence_multiplications()`")]),
    (EIGHTS, "sums read in flight", &[("in-flight", "call `wait_multiplications(0)`")]),
    (
        EIGHTS,
        "waits for the next stage",
        &[("in-flight", "this wait is for another mbarrier"), ("deadlock", "")],
    ),
    (STAGED, "one of two parts copied", &[("uninitialized", "which nothing has written")]),
    (STAGED, "rows without their pitch", &[("uninitialized", "which nothing has written")]),
    (STAGED, "four of eight elements copied", &[("uninitialized", "which nothing has written")]),
    (STAGED, "only A loaded", &[("uninitialized", "which nothing has written")]),
    (STAGED, "rows at a wrong alignment", &[("misaligned", "must be a multiple of 16")]),
    (STAGED, "tail read past the end", &[("out-of-bounds", "would be element 15360 of `a`")]),
    (STAGED, "tail off by one", &[("out-of-bounds", "would be element 15360 of `a`")]),
    (STAGED, "source at a wrong alignment", &[("misaligned", "is element 1 of `a`")]),
    (STAGED, "one stage too few", &[("out-of-bounds", "past the end of the shared array that it indexes")]),
    (STAGED, "split past the end", &[("out-of-bounds", "would be element 15360 of `a`")]),
    (STAGED, "stages of A overlap", &[("in-flight", "or let the copy use another buffer")]),
    (STAGED, "one stage ahead at the start", &[("in-flight", "or commit a group in every round")]),
    (STAGED, "one group at the start", &[("in-flight", "`wait_async_copies(1)`")]),
    (STAGED, "rows past the end leave early", &[("divergence", "lanes 28-31 have exited")]),
    (STAGED, "barrier before the wait", &[("in-flight", "put a barrier after the wait")]),
    (STAGED, "no barrier", &[("in-flight", "put a barrier after the wait")]),
    (STAGED, "no wait", &[("in-flight", "call `wait_async_copies`")]),
    (STAGED, "barrier of half the block", &[("barrier", "two groups of warps use barrier 1")]),
    (STAGED, "barrier of three warps", &[(REFUSED, "and 96 of them reach it")]),
    (STAGED, "waits for one group too few", &[("in-flight", "`wait_async_copies(2)`")]),
    (STAGED, "barrier of a warp", &[("in-flight", "put a barrier after the wait")]),
    (
        STAGED,
        "one thread waits for its copies",
        &[("in-flight", "in the issuing thread, then synchronize at a barrier")],
    ),
    (STAGED, "copies to the stage that is read", &[("in-flight", "covers the copy before this access")]),
    (
        STAGED,
        "stage not taken modulo",
        &[("out-of-bounds", "past the end of the shared array that it indexes")],
    ),
    (STAGED, "loads past the last step", &[("out-of-bounds", "would be element 15360 of `a`")]),
    (STAGED, "no commit", &[("in-flight", "or commit a group in every round")]),
    (
        STAGED,
        "commits only what it loads",
        &[("in-flight", "or commit a group in every round, also an empty one")],
    ),
    (STAGED, "reads the next stage", &[("in-flight", "`wait_async_copies(1)`")]),
    (STAGED, "reads the stage being filled", &[("in-flight", "covers the copy before this access")]),
    (STAGED, "rows of A past the tile", &[("out-of-bounds", "right past the end of the shared array")]),
    (STAGED, "half of a warp loads A", &[("deadlock", "the instruction needs the whole warp")]),
    (STAGED, "ldmatrix at a wrong alignment", &[("misaligned", "must be a multiple of 16")]),
    (STAGED, "rows of C too long", &[("out-of-bounds", "of `c`, which has 3840 elements")]),
    (STAGED, "tail stored", &[("out-of-bounds", "would be element 3840 of `c`")]),
    (STAGED, "stores for atomic operations", &[("race", "update it by one atomic operation")]),
    (STAGED, "atomic among the block", &[("race", "the scopes of the two do not include both CTAs")]),
    (STAGED, "C not zeroed", &[("uninitialized", "new memory is not initialized")]),
    (STAGED, "one split too many", &[("out-of-bounds", "would be element 15360 of `a`")]),
    (
        PINGPONG,
        "boxes of all of B",
        &[(REFUSED, "expects 32768 bytes here, and the copies that complete on it move 49152")],
    ),
    (PINGPONG, "buffers for one group", &[("out-of-bounds", "is outside the CTA's shared memory")]),
    (
        PINGPONG,
        "empty expects one",
        &[("barrier", "completes two phases while a thread waits for the first")],
    ),
    (
        PINGPONG,
        "no fence of the initialization",
        &[("proxy-fence", "may miss the initialization of the mbarrier")],
    ),
    (
        PINGPONG,
        "block barrier for the cluster's",
        &[
            ("peer-not-resident", "in all CTAs of the cluster before the copy"),
            ("peer-not-resident", "in all CTAs of the cluster before the access"),
        ],
    ),
    (
        PINGPONG,
        "producer parity of the pair",
        &[("deadlock", "wait for it with the other parity (`parity ^ 1`)")],
    ),
    (PINGPONG, "stages not awaited", &[(REFUSED, "as a ring's producer does for the release of the slot")]),
    (
        PINGPONG,
        "bytes of its own half",
        &[(REFUSED, "expects 24576 bytes here, and the copies that complete on it move 32768")],
    ),
    (
        PINGPONG,
        "bytes of both CTAs",
        &[(REFUSED, "those of a multicast count in every CTA that receives it")],
    ),
    (PINGPONG, "loads before it expects", &[(REFUSED, "arrive by `arrive_and_expect`")]),
    (PINGPONG, "halves at one place", &[("in-flight", "that an earlier copy still writes")]),
    (
        PINGPONG,
        "multicast to itself",
        &[(REFUSED, "those of a multicast count in every CTA that receives it")],
    ),
    (PINGPONG, "multicast to three", &[("out-of-bounds", "the mask 0x7, and the cluster has 2 CTAs")]),
    (
        PINGPONG,
        "multicast to the first",
        &[(
            REFUSED,
            "an mbarrier of CTA 1 expects 32768 bytes here, and the copies that complete on it move 16384",
        )],
    ),
    (PINGPONG, "no multicast", &[(REFUSED, "or a copy is missing, or completes elsewhere")]),
    (
        PINGPONG,
        "one barrier for both turns",
        &[("barrier", "arrives at barrier 2 a second time before it has completed")],
    ),
    (
        PINGPONG,
        "passes the turn to itself",
        &[("barrier", "arrives at barrier 2 a second time before it has completed")],
    ),
    (
        PINGPONG,
        "nobody begins",
        &[("deadlock", "groups that take turns at two barriers need a first arrival")],
    ),
    (
        PINGPONG,
        "the second begins",
        &[("barrier", "arrives at barrier 2 a second time before it has completed")],
    ),
    (PINGPONG, "turn not passed", &[("deadlock", "an arrival at the other's when a turn ends")]),
    (
        PINGPONG,
        "turns of one group",
        &[
            ("barrier", "was opened for 256 threads, and these lanes arrive expecting 128"),
            ("barrier", "arrives at barrier 2 a second time"),
        ],
    ),
    (
        PINGPONG,
        "no wait for the turn",
        &[("barrier", "arrives at barrier 2 a second time before it has completed")],
    ),
    (
        PINGPONG,
        "both groups read all stages",
        &[
            ("deadlock", "a wait by parity cannot see that"),
            ("in-flight", "let each reader arrive there once, after its last read"),
        ],
    ),
    (
        PINGPONG,
        "parity of the round",
        &[
            ("in-flight", "this wait has returned at once"),
            ("in-flight", "wait for phase"),
            ("deadlock", "have not waited for phase 0, which has ended"),
        ],
    ),
    (PINGPONG, "waits for the first stage", &[("in-flight", "this wait is for another mbarrier")]),
    (
        PINGPONG,
        "fill not awaited",
        &[("in-flight", "wait on the mbarrier before this access (`wait_parity`)")],
    ),
    (PINGPONG, "no fence before the products", &[("in-flight", "`fence_multiplications()`")]),
    (PINGPONG, "products not committed", &[("in-flight", "`commit_multiplications()`")]),
    (PINGPONG, "one batch in flight", &[("in-flight", "`wait_multiplications(1)`")]),
    (PINGPONG, "products not awaited", &[("in-flight", "`wait_multiplications")]),
    (PINGPONG, "stages kept", &[("deadlock", "release the slot")]),
    (PINGPONG, "released to itself twice", &[("in-flight", "that a wgmma may still read")]),
    (PINGPONG, "not released to the peer", &[("deadlock", "has 1 of its 2 arrivals")]),
    (PINGPONG, "stores the other group's buffer", &[("race", "NamedBarrier")]),
    (PINGPONG, "buffer not awaited", &[("in-flight", "`bulk_wait_read")]),
    (PINGPONG, "one barrier for both groups", &[("barrier", "two groups of warps use barrier 4")]),
    (
        PINGPONG,
        "barrier of one warp",
        &[("in-flight", "`NamedBarrier::new(4, 128)`"), ("race", "`NamedBarrier::new(")],
    ),
    (PINGPONG, "no barrier after the buffer", &[("in-flight", "put a barrier after the wait")]),
    (PINGPONG, "no fence before the tensor store", &[("proxy-fence", "`fence_proxy_async()`")]),
    (PINGPONG, "no barrier before the tensor store", &[("race", "`NamedBarrier::sync`")]),
    (PINGPONG, "every warp stores", &[("in-flight", "let one thread issue the copy")]),
    (PINGPONG, "both ranks store one tile", &[("in-flight", "compute coordinates that differ for each CTA")]),
    (PINGPONG, "stores not committed", &[("in-flight", "`bulk_commit()`")]),
    (PINGPONG, "stores not awaited", &[("leak", "nothing has waited for")]),
    (PINGPONG, "the producer leaves the peer", &[(REFUSED, "and 256 of them reach it")]),
    (
        PINGPONG,
        "no cluster barrier at the end of the pair",
        &[("peer-not-resident", "may have exited when a peer accesses its shared memory")],
    ),
    (LOOK_BACK, "each thread draws", &[("race", "let one thread write")]),
    (LOOK_BACK, "each warp draws", &[("race", "let one thread write")]),
    (LOOK_BACK, "drawn without an atomic", &[("race", "is element 0 of `drawn`")]),
    (LOOK_BACK, "no barrier behind the draw", &[("race", "call `sync_threads()`")]),
    (LOOK_BACK, "loads past the end", &[("out-of-bounds", "of `x`, which has 1500 elements")]),
    (LOOK_BACK, "stores past the end", &[("out-of-bounds", "of `y`, which has 1500 elements")]),
    (LOOK_BACK, "length of all tiles", &[("out-of-bounds", "of `x`, which has 1500 elements")]),
    (LOOK_BACK, "looks back two tiles", &[("out-of-bounds", "the index is negative")]),
    (LOOK_BACK, "states of a tile too few", &[("out-of-bounds", "would be element 23 of `sums`")]),
    (LOOK_BACK, "one block too many", &[("out-of-bounds", "would be element 24 of `sums`")]),
    (LOOK_BACK, "one block too few", &[("uninitialized", "launch 24 CTAs for 1500 elements")]),
    (LOOK_BACK, "no barrier behind the look-back", &[("race", "call `sync_threads()`")]),
    (LOOK_BACK, "published without a release", &[("race", "publish with a release at .gpu scope")]),
    (LOOK_BACK, "published within the block", &[("race", "use .gpu scope between CTAs of a grid")]),
    (LOOK_BACK, "published by a plain store", &[("race", "publish with a release at .gpu scope")]),
    (LOOK_BACK, "published by a volatile store", &[("race", "publish with a release at .gpu scope")]),
    (LOOK_BACK, "observed without an acquire", &[("race", "read with an acquire")]),
    (LOOK_BACK, "observed within the block", &[("race", "use .gpu scope between CTAs of a grid")]),
    (LOOK_BACK, "observed by a plain load", &[("race", "read with an acquire")]),
    (LOOK_BACK, "observed once", &[("uninitialized", "nothing lets the read wait for the write")]),
    (LOOK_BACK, "published before the sum is stored", &[("race", "of `sums`")]),
    (LOOK_BACK, "published before the prefix is stored", &[("race", "of `prefixes`")]),
    (LOOK_BACK, "prefix in place of the sum", &[("race", "of `sums`")]),
    (LOOK_BACK, "not cleared", &[("uninitialized", "is element 0 of `drawn`")]),
    (LOOK_BACK, "draws not cleared", &[("uninitialized", "is element 0 of `drawn`")]),
    (LOOK_BACK, "half of the states cleared", &[("uninitialized", "of `states`")]),
    (LOOK_BACK, "cleared after the scan", &[("uninitialized", "is element 0 of `drawn`")]),
    (LOOK_BACK, "cleared in another stream", &[("stream-order", "record an event in stream 2")]),
    (COMBINED, "each thread initializes", &[("barrier", "is initialized twice")]),
    (COMBINED, "counts every block", &[(REFUSED, "an mbarrier for 4 arrivals, and the kernel makes 1")]),
    (COMBINED, "no fence of the barrier", &[("proxy-fence", "call `fence_mbarrier_init()`")]),
    (
        COMBINED,
        "block barrier at the start",
        &[("peer-not-resident", "before the access: `sync_threads()` waits")],
    ),
    (COMBINED, "half of the query loaded", &[("uninitialized", "of this array of f32")]),
    (COMBINED, "query not written", &[("uninitialized", "is element 0 of `q`")]),
    (COMBINED, "keys past the end", &[("out-of-bounds", "of `k`, which has 29440 elements")]),
    (COMBINED, "values past the end", &[("out-of-bounds", "of `v`, which has 29440 elements")]),
    (COMBINED, "length of all heads", &[("out-of-bounds", "of `k`, which has 29440 elements")]),
    (COMBINED, "maximum of the valid keys", &[("deadlock", "move it out of the branch")]),
    (
        COMBINED,
        "expects one value a block",
        &[(REFUSED, "expects 16 bytes here, and the copies that complete on it move 32")],
    ),
    (
        COMBINED,
        "expects the peers alone",
        &[(REFUSED, "expects 24 bytes here, and the copies that complete on it move 32")],
    ),
    (COMBINED, "expects no bytes", &[(REFUSED, "that expects none: arrive by `arrive_and_expect`")]),
    (
        COMBINED,
        "each thread sends",
        &[(REFUSED, "expects 32 bytes here, and the copies that complete on it move 2048")],
    ),
    (COMBINED, "sums not sent", &[(REFUSED, "or a copy is missing, or completes elsewhere")]),
    (COMBINED, "sends to itself", &[("in-flight", "let each copy write a part of its own")]),
    (COMBINED, "sends to one place", &[("in-flight", "let each copy write a part of its own")]),
    (COMBINED, "signals its own barrier", &[("illegal-instruction", "they must be in the same")]),
    (
        COMBINED,
        "not awaited",
        &[("in-flight", "wait on the mbarrier before this access (`wait_parity`): for phase 0")],
    ),
    (
        COMBINED,
        "one thread waits",
        &[("in-flight", "this thread has observed the end of none of its phases")],
    ),
    (COMBINED, "waits for the other parity", &[("in-flight", "this wait has returned at once")]),
    (COMBINED, "no barrier before the weights", &[("race", "call `sync_threads()`")]),
    (COMBINED, "warps meet for the weights", &[("race", "call `sync_threads()`")]),
    (COMBINED, "block barrier before the sum", &[("race", "call `cluster_sync()`")]),
    (COMBINED, "relaxed before the sum", &[("race", "call `cluster_sync()`")]),
    (COMBINED, "arrives before the sum", &[("peer-not-resident", "call `cluster_sync()`")]),
    (
        COMBINED,
        "every thread adds up",
        &[
            ("out-of-bounds", "is outside the shared memory"),
            ("out-of-bounds", "keep the index below the length of the array"),
        ],
    ),
    (COMBINED, "adds up past the cluster", &[(REFUSED, "CTA 4 is outside the cluster")]),
    (COMBINED, "shares at one place", &[("race", "compute coordinates that differ for each CTA")]),
    (
        COMBINED,
        "leaves while others add up",
        &[("peer-not-resident", "after the last access to another CTA's shared memory")],
    ),
    (COMBINED, "one head launched", &[("uninitialized", "nothing has written 64 of them")]),
    (COMBINED, "a head too many", &[("out-of-bounds", "would be element 128 of `q`")]),
    (PERSISTENT, "a buffer for each warp", &[("out-of-bounds", "past the end of this array of f32")]),
    (PERSISTENT, "columns of one accumulator", &[(REFUSED, "a power of two of columns from 32")]),
    (
        PERSISTENT,
        "taken by one warp",
        &[(REFUSED, "makes 4 arrivals at an mbarrier that is initialized for 1")],
    ),
    (PERSISTENT, "no fence of the initialization", &[("proxy-fence", "call `fence_mbarrier_init()`")]),
    (PERSISTENT, "no barrier behind the setup", &[("uninitialized", "call `sync_threads()`")]),
    (
        PERSISTENT,
        "every lane loads",
        &[(REFUSED, "makes 32 arrivals at an mbarrier that is initialized for 1")],
    ),
    (
        PERSISTENT,
        "parity of the consumer",
        &[("deadlock", "a slot is empty at first: wait for it with the other parity")],
    ),
    (
        PERSISTENT,
        "stage filled without a wait",
        &[
            ("in-flight", "wait until its readers have released it"),
            ("barrier", "fills a slot again after the wait for its release"),
        ],
    ),
    (
        PERSISTENT,
        "bytes of A",
        &[(REFUSED, "expect 32768 bytes here, and the copies that complete on them move 36864")],
    ),
    (
        PERSISTENT,
        "bytes of f32",
        &[(REFUSED, "expect 73728 bytes here, and the copies that complete on them move 36864")],
    ),
    (PERSISTENT, "all in the first stage", &[("in-flight", "this wait is for another mbarrier")]),
    (
        PERSISTENT,
        "accumulator not awaited",
        &[("in-flight", "wait until the threads that load the accumulator have released it")],
    ),
    (
        PERSISTENT,
        "parity of the taker",
        &[("deadlock", "an accumulator is free at first: wait for it with the other parity")],
    ),
    (PERSISTENT, "no fence behind the taking", &[("tensor-fence", "call `tensor_fence_after_sync()`")]),
    (
        PERSISTENT,
        "one accumulator",
        &[
            ("uninitialized", "load only columns that a `tcgen05.mma`"),
            ("in-flight", "row 0, column 0 of tensor memory"),
        ],
    ),
    (PERSISTENT, "adds to the last product", &[("uninitialized", "let the first tcgen05.mma overwrite D")]),
    (
        PERSISTENT,
        "stage not awaited",
        &[
            ("in-flight", "wait on the mbarrier before this access (`wait_parity`): for phase 0"),
            ("barrier", "wait, before the MMAs of a slot, until the slot is full"),
            ("uninitialized", "issue the copy that fills it and wait for it"),
        ],
    ),
    (
        PERSISTENT,
        "waits for the first stage",
        &[
            ("in-flight", "this wait is for another mbarrier"),
            ("in-flight", "wait on the mbarrier before this access (`wait_parity`)"),
        ],
    ),
    (
        PERSISTENT,
        "parity of the tile",
        &[
            ("deadlock", "phase n has the parity n % 2"),
            ("barrier", "wait, before the MMAs of a slot, until the slot is full"),
        ],
    ),
    (
        PERSISTENT,
        "stage released by an arrival",
        &[("in-flight", "on the mbarrier to which the MMAs that read it are committed")],
    ),
    (PERSISTENT, "stage not released", &[("deadlock", "release the slot")]),
    (
        PERSISTENT,
        "product not committed",
        &[("deadlock", "commit the MMAs that the wait is for to this mbarrier")],
    ),
    (PERSISTENT, "product signaled by an arrival", &[("in-flight", "call `commit_tensor_core`")]),
    (PERSISTENT, "product not awaited", &[("uninitialized", "or the commit of the MMA, completes")]),
    (
        PERSISTENT,
        "waits for the other product",
        &[("deadlock", "if none should, the wait has the parity of the wrong phase")],
    ),
    (PERSISTENT, "no fence behind the product", &[("tensor-fence", "call `tensor_fence_after_sync()`")]),
    (PERSISTENT, "rows of the next warp", &[("tensor-memory", "warp 0 reaches rows 0 to 31")]),
    (PERSISTENT, "load not awaited", &[("in-flight", "call `wait_tensor_loads()`")]),
    (PERSISTENT, "product not released", &[("deadlock", "let a thread arrive (`arrive`")]),
    (PERSISTENT, "buffer not awaited", &[("in-flight", "call `bulk_wait_read`")]),
    (PERSISTENT, "two stores in flight", &[("in-flight", "pass 1")]),
    (PERSISTENT, "no warp barrier behind the wait", &[("in-flight", "put a barrier after the wait")]),
    (PERSISTENT, "no fence before the store", &[("proxy-fence", "call `fence_proxy_async()`")]),
    (PERSISTENT, "no warp barrier before the store", &[("race", "call `sync_warp`")]),
    (PERSISTENT, "every lane stores", &[("in-flight", "let one thread issue the copy")]),
    (PERSISTENT, "store not committed", &[("in-flight", "call `bulk_commit()`")]),
    (PERSISTENT, "stores not awaited", &[("leak", "call `bulk_wait_read(0)`")]),
    (PERSISTENT, "columns not freed", &[("leak", "free them")]),
    (PERSISTENT, "a tile too few", &[("uninitialized", "the last iteration of its loop")]),
    (REQUANTIZED, "one buffer", &[("out-of-bounds", "past the end of this array of i16")]),
    (REQUANTIZED, "columns at a wrong alignment", &[("misaligned", "must be a multiple of 16")]),
    (REQUANTIZED, "half of the scales", &[("uninitialized", "write it before it is read")]),
    (REQUANTIZED, "a column too many", &[("out-of-bounds", "would be element 12288 of `x`")]),
    (
        REQUANTIZED,
        "maximum of half a warp",
        &[(REFUSED, "names 16 lanes of a warp, and 16 lanes that it does not name")],
    ),
    (REQUANTIZED, "no warp barrier behind the scales", &[("race", "call `sync_warp`")]),
    (
        REQUANTIZED,
        "a tile left over",
        &[("deadlock", "barrier 1 waits for 128 threads, of which 64 have arrived")],
    ),
    (REQUANTIZED, "waits for the first buffers", &[("deadlock", "need a first arrival at one of them")]),
    (REQUANTIZED, "buffer not awaited", &[("barrier", "a producer waits until a buffer is empty")]),
    (REQUANTIZED, "one buffer for all tiles", &[("race", "no barrier is between the two warps")]),
    (REQUANTIZED, "half of a warp stores", &[("deadlock", "move it out of the branch")]),
    (REQUANTIZED, "block barrier for full", &[(REFUSED, "wait for these threads by a `NamedBarrier`")]),
    (REQUANTIZED, "full counts a half", &[("race", "`NamedBarrier::new(1, 128)`")]),
    (REQUANTIZED, "one full barrier", &[("barrier", "a warp arrives at barrier 1 a second time")]),
    (REQUANTIZED, "full not signaled", &[("deadlock", "and an arrival at the other's when a turn ends")]),
    (REQUANTIZED, "arrives where it waits", &[("barrier", "here (`sync` for `arrive`)")]),
    (REQUANTIZED, "full not awaited", &[("barrier", "let all warps that barrier 1 counts come to it")]),
    (REQUANTIZED, "released before it is read", &[("race", "`NamedBarrier::sync`")]),
    (
        REQUANTIZED,
        "releases the other buffer",
        &[("deadlock", "let every thread that barrier 3 counts execute it")],
    ),
    (
        REQUANTIZED,
        "empty and full are one barrier",
        &[("barrier", "use another barrier for the second synchronization")],
    ),
    (REQUANTIZED, "not released", &[("deadlock", "let every thread that barrier 3 counts execute it")]),
    (REQUANTIZED, "rows stored one further", &[("out-of-bounds", "would be element 6144 of `y`")]),
    (REQUANTIZED, "a band too many", &[("out-of-bounds", "would be element 12288 of `x`")]),
    (
        REQUANTIZED,
        "a band too few",
        &[("uninitialized", "check that `mistaken_requantized` writes the element")],
    ),
    (REQUANTIZED, "restored first", &[("uninitialized", "of `y`")]),
    (REQUANTIZED, "restored without an event", &[("stream-order", "record an event in stream 1")]),
    (
        REQUANTIZED,
        "event of before the kernel",
        &[("stream-order", "waits for an event that stream 1 recorded before")],
    ),
];

const SCHEDULES: [Schedule; 3] = [Schedule::Eager, Schedule::Latest, Schedule::Random(1)];

fn checked(gpu: &str, schedule: Schedule) -> Device {
    let arch = Arch::named(gpu).expect("it is known");
    let device = Device::emulated_on_one_thread(arch, schedule).expect("the emulator always starts");
    device.checked().expect("an emulator checks")
}

/// The code of a mistake that is refused when its kernel is built.
const REFUSED: &str = "refused";

/// Mistakes that show where a block begins before an earlier one has ended, as under a random schedule.
const OF_BLOCKS_AT_ONCE: [&str; 4] = [
    "half of the states cleared",
    "observed once",
    "prefix in place of the sum",
    "published before the sum is stored",
];

/// What a mistake leads to at a schedule.
struct Outcome {
    mistake: &'static Mistake,
    schedule: Schedule,
    error: Error,
}

/// What the mistakes lead to, at each schedule.
static OUTCOMES: LazyLock<Vec<Outcome>> = LazyLock::new(|| {
    let at_each = |mistake: &'static Mistake| {
        let is_shown = |schedule: &Schedule| {
            !OF_BLOCKS_AT_ONCE.contains(&mistake.1) || matches!(schedule, Schedule::Random(_))
        };
        SCHEDULES.into_iter().filter(is_shown).map(move |schedule| {
            let (subject, name, _) = mistake;
            let error = (subject.run)(&checked(subject.gpu, schedule), Mistaken(name))
                .expect_err(&format!("nothing is found of `{name}` at {schedule:?}"));
            Outcome { mistake, schedule, error }
        })
    };
    MISTAKES.iter().flat_map(at_each).collect()
});

/// The code of the first finding and its text; all of the text where the kernel is refused.
fn first_finding(error: &Error) -> (&'static str, String) {
    match error {
        Error::Refused(errors) => (REFUSED, errors.to_string()),
        Error::Found(error) => (error.findings()[0].kind.code(), first_of(&error.to_string()).to_owned()),
    }
}

/// The first report of a text.
fn first_of(text: &str) -> &str {
    let next = text[1..].find("\n\nerror[").map_or(text.len(), |at| at + 1);
    &text[..next]
}

#[test]
fn the_first_finding_names_the_mistake() {
    let mut wrong = String::new();
    for Outcome { mistake: (_, name, expected), schedule, error } in &*OUTCOMES {
        let (code, first) = first_finding(error);
        let says = |(expected, words): &Words| code == *expected && first.contains(words);
        if !expected.iter().any(says) {
            wrong
                .push_str(&format!("`{name}` at {schedule:?}, not {expected:?}, but [{code}]:\n{first}\n\n"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Mistakes of which two lines suffer that have no line in common; the second may be a fault.
const TWO_FINDINGS: [&str; 31] = [
    "arrives where it waits",
    "both tiles in one place",
    "buffer not awaited",
    "cleared after the scan",
    "draws not cleared",
    "each thread draws",
    "each warp draws",
    "full not awaited",
    "half of the states cleared",
    "loads past the last step",
    "memory of one page for two",
    "no barrier behind the setup",
    "no barrier behind the ticket",
    "not cleared",
    "observed by a plain load",
    "observed within the block",
    "one barrier for both turns",
    "one stage too few",
    "page not awaited",
    "partial sums of all rows at one place",
    "product not awaited",
    "published by a plain store",
    "published within the block",
    "restored first",
    "rows past the end leave early",
    "stage not awaited",
    "stage not taken modulo",
    "stages of A overlap",
    "ticket of the block's scope",
    "turns of one group",
    "waits for the page before",
];

#[test]
fn one_mistake_is_one_finding() {
    let mut several = Vec::new();
    for Outcome { mistake: (_, name, _), schedule, error } in &*OUTCOMES {
        // A refusal has no findings.
        let Error::Found(error) = error else { continue };
        let causes = error.findings().iter().filter(|finding| finding.cause.is_none()).count();
        if causes > 1 + usize::from(TWO_FINDINGS.contains(name)) {
            several.push(format!("`{name}` at {schedule:?} has {causes}"));
        }
    }
    assert!(several.is_empty(), "{several:?}");
}

#[test]
fn nothing_is_found_where_no_mistake_is() {
    let subjects = [GEMM, REVERSE, HALVING, ASSERTED, RING, DOUBLED, SHARED_GEMM, EXCHANGE, PRODUCT];
    for subject in subjects
        .into_iter()
        .chain([STENCIL, GATED, NORM, RADIX, SPLIT, MERGED, PAGED, EIGHTS, STAGED, PINGPONG, RELAYED])
        .chain([LOOK_BACK, COMBINED, PERSISTENT, REQUANTIZED])
    {
        for schedule in SCHEDULES {
            match (subject.run)(&checked(subject.gpu, schedule), Mistaken("")) {
                Err(Error::Refused(errors)) => panic!("{errors}"),
                Err(Error::Found(error)) => panic!("{schedule:?}: {error}"),
                Ok(()) => {}
            }
        }
    }
}
