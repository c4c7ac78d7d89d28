//! Barriers, fences, votes, shuffles and control (PTX ISA, "Parallel Synchronization and
//! Communication Instructions", "Control Flow Instructions", "Miscellaneous Instructions").

use super::tensor_memory::BLACKWELL;
use super::{Form, form};

const HOPPER: ((u32, u32), u32) = ((8, 0), 90);

pub(super) const FORMS: &[Form] = &[
    form("bar .warp .sync", "b32"),
    form("bar .sync", "b32, b32?"),
    form("bar .cta .sync", "b32, b32?").since((7, 8), 80),
    form("bar .arrive", "b32, b32"),
    form("bar .cta .arrive", "b32, b32").since((7, 8), 80),
    form("bar .red .popc .u32", "b32 = b32, ~pred"),
    form("bar .cta .red .popc .u32", "b32 = b32, ~pred").since((7, 8), 80),
    form("bar .red .popc .u32", "b32 = b32, b32, ~pred"),
    form("bar .cta .red .popc .u32", "b32 = b32, b32, ~pred").since((7, 8), 80),
    form("bar .red .and|or .pred", "pred = b32, ~pred"),
    form("bar .cta .red .and|or .pred", "pred = b32, ~pred").since((7, 8), 80),
    form("bar .red .and|or .pred", "pred = b32, b32, ~pred"),
    form("bar .cta .red .and|or .pred", "pred = b32, b32, ~pred").since((7, 8), 80),
    form("barrier .sync .aligned?", "b32, b32?"),
    form("barrier .cta .sync .aligned?", "b32, b32?").since((7, 8), 80),
    form("barrier .arrive .aligned?", "b32, b32"),
    form("barrier .cta .arrive .aligned?", "b32, b32").since((7, 8), 80),
    form("barrier .red .popc .aligned? .u32", "b32 = b32, ~pred"),
    form("barrier .cta .red .popc .aligned? .u32", "b32 = b32, ~pred").since((7, 8), 80),
    form("barrier .red .popc .aligned? .u32", "b32 = b32, b32, ~pred"),
    form("barrier .cta .red .popc .aligned? .u32", "b32 = b32, b32, ~pred").since((7, 8), 80),
    form("barrier .red .and|or .aligned? .pred", "pred = b32, ~pred"),
    form("barrier .cta .red .and|or .aligned? .pred", "pred = b32, ~pred").since((7, 8), 80),
    form("barrier .red .and|or .aligned? .pred", "pred = b32, b32, ~pred"),
    form("barrier .cta .red .and|or .aligned? .pred", "pred = b32, b32, ~pred").since((7, 8), 80),
    form("barrier .cluster .arrive|wait .aligned?", "").since((7, 8), 90),
    form("barrier .cluster .arrive .release|relaxed .aligned?", "").since((8, 0), 90),
    form("barrier .cluster .wait .acquire .aligned?", "").since((8, 0), 90),
    form("membar .cta|gl|sys", ""),
    form("fence .sc|acq_rel? .cta|gpu|sys", ""),
    form("fence .sc|acq_rel .cluster", "").since((7, 8), 90),
    // The PTX ISA requires sm_90, but ptxas 13.0 assembles the scopes below a cluster for sm_80.
    form("fence .acquire|release .cta|gpu|sys", "").since((8, 6), 80),
    form("fence .acquire|release .cluster", "").since((8, 6), 90),
    form("fence .acquire .sync_restrict::shared::cluster .cluster", "").since((8, 6), 90),
    form("fence .release .sync_restrict::shared::cta .cluster", "").since((8, 6), 90),
    form("fence .proxy .async::generic .acquire .sync_restrict::shared::cluster .cluster", "").since((8, 6), 90),
    form("fence .proxy .async::generic .release .sync_restrict::shared::cta .cluster", "").since((8, 6), 90),
    form("fence .mbarrier_init .release .cluster", "").since(HOPPER.0, HOPPER.1),
    form("fence .proxy .alias", "").since((7, 5), 80),
    form("fence .proxy .async .global|shared::cta|shared::cluster?", "").since(HOPPER.0, HOPPER.1),
    form("fence .proxy .tensormap::generic .release .cta|cluster|gpu|sys", "").since((8, 3), 90),
    form("fence .proxy .tensormap::generic .acquire .cta|cluster|gpu|sys", "[], #").since((8, 3), 90),
    form("vote .sync .all|any|uni .pred", "pred = ~pred, b32"),
    form("vote .sync .ballot .b32", "b32 = ~pred, b32"),
    form("match .any .sync .T:b32|b64", "b32 = T, b32"),
    form("match .all .sync .T:b32|b64", "b32/pred = T, b32"),
    form("activemask .b32", "b32 ="),
    form("redux .sync .add|min|max .T:u32|s32", "T = T!, b32"),
    form("redux .sync .and|or|xor .b32", "b32 = b32!, b32"),
    form("redux .sync .min|max .abs? .NaN? .f32", "f32 = f32!, b32").only_on((8, 6), BLACKWELL),
    form("shfl .sync .up|down|bfly|idx .b32", "b32/pred = b32!, b32, b32, b32"),
    form("elect .sync", "b32_|pred = b32").since(HOPPER.0, HOPPER.1),
    // The response is 16 bytes, which the queries take apart.
    form("clusterlaunchcontrol .try_cancel .async .shared::cta? .mbarrier::complete_tx::bytes .b128", "[], []")
        .since((8, 6), 100),
    form(
        "clusterlaunchcontrol .try_cancel .async .shared::cta? .mbarrier::complete_tx::bytes .multicast::cluster::all .b128",
        "[], []",
    )
    .only_on((8, 6), &["sm_100a", "sm_103a", "sm_120a"]),
    form("clusterlaunchcontrol .query_cancel .is_canceled .pred .b128", "pred = b128").since((8, 6), 100),
    form("clusterlaunchcontrol .query_cancel .get_first_ctaid .v4 .b32 .b128", "{b32_*4} = b128").since((8, 6), 100),
    form("clusterlaunchcontrol .query_cancel .get_first_ctaid::x|get_first_ctaid::y|get_first_ctaid::z .b32 .b128", "b32 = b128")
        .since((8, 6), 100),
    form("griddepcontrol .launch_dependents|wait", "").since((7, 8), 90),
    form("setmaxnreg .inc|dec .sync .aligned .u32", "#").only_on((8, 0), &["sm_90a", "sm_100a", "sm_103a", "sm_120a"]),
    form("nanosleep .u32", "b32"),
    form("exit|trap|brkpt|ret", ""),
    form("pmevent", "#"),
    form("pmevent .mask", "#"),
    form("mbarrier .init .shared|shared::cta? .b64", "[], b32"),
    form("mbarrier .inval .shared|shared::cta? .b64", "[]"),
    form("mbarrier .expect_tx|complete_tx .relaxed.cta|relaxed.cluster? .shared|shared::cta|shared::cluster? .b64", "[], b32")
        .since(HOPPER.0, HOPPER.1),
    form("mbarrier .arrive .shared|shared::cta? .b64", "b64 = []"),
    form("mbarrier .arrive .release.cta|release.cluster? .shared|shared::cta? .b64", "b64_ = [], b32?").since((8, 0), 90),
    form("mbarrier .arrive .relaxed.cta|relaxed.cluster .shared|shared::cta? .b64", "b64_ = [], b32?").since((8, 6), 90),
    form("mbarrier .arrive .release.cta|release.cluster? .shared::cluster .b64", "_ = [], b32?").since(HOPPER.0, HOPPER.1),
    form("mbarrier .arrive .relaxed.cta|relaxed.cluster .shared::cluster .b64", "_ = [], b32?").since((8, 6), 90),
    form("mbarrier .arrive .expect_tx .release.cta|release.cluster? .shared|shared::cta? .b64", "b64_ = [], b32")
        .since(HOPPER.0, HOPPER.1),
    form("mbarrier .arrive .expect_tx .relaxed.cta|relaxed.cluster .shared|shared::cta? .b64", "b64_ = [], b32")
        .since((8, 6), 90),
    form("mbarrier .arrive .expect_tx .release.cta|release.cluster? .shared::cluster .b64", "_ = [], b32")
        .since(HOPPER.0, HOPPER.1),
    form("mbarrier .arrive .expect_tx .relaxed.cta|relaxed.cluster .shared::cluster .b64", "_ = [], b32")
        .since((8, 6), 90),
    form("mbarrier .arrive_drop .shared|shared::cta? .b64", "b64 = []"),
    form("mbarrier .arrive_drop .release.cta|release.cluster? .shared|shared::cta? .b64", "b64_ = [], b32?")
        .since((8, 0), 90),
    form("mbarrier .arrive_drop .relaxed.cta|relaxed.cluster .shared|shared::cta? .b64", "b64_ = [], b32?")
        .since((8, 6), 90),
    form("mbarrier .arrive_drop .release.cta|release.cluster? .shared::cluster .b64", "_ = [], b32?")
        .since(HOPPER.0, HOPPER.1),
    form("mbarrier .arrive_drop .relaxed.cta|relaxed.cluster .shared::cluster .b64", "_ = [], b32?").since((8, 6), 90),
    form("mbarrier .arrive_drop .expect_tx .release.cta|release.cluster? .shared|shared::cta? .b64", "b64_ = [], b32")
        .since(HOPPER.0, HOPPER.1),
    form("mbarrier .arrive_drop .expect_tx .relaxed.cta|relaxed.cluster .shared|shared::cta? .b64", "b64_ = [], b32")
        .since((8, 6), 90),
    form("mbarrier .arrive_drop .expect_tx .release.cta|release.cluster? .shared::cluster .b64", "_ = [], b32")
        .since(HOPPER.0, HOPPER.1),
    form("mbarrier .arrive_drop .expect_tx .relaxed.cta|relaxed.cluster .shared::cluster .b64", "_ = [], b32")
        .since((8, 6), 90),
    form("mbarrier .arrive|arrive_drop .noComplete .shared|shared::cta? .b64", "b64 = [], b32"),
    form("mbarrier .arrive|arrive_drop .noComplete .release.cta .shared|shared::cta? .b64", "b64 = [], b32")
        .since((8, 0), 80),
    form("mbarrier .test_wait .shared|shared::cta? .b64", "pred = [], b64!"),
    form("mbarrier .test_wait .acquire.cta .shared|shared::cta? .b64", "pred = [], b64!").since((8, 0), 80),
    form("mbarrier .test_wait .acquire.cluster .shared|shared::cta? .b64", "pred = [], b64!").since((8, 0), 90),
    form("mbarrier .test_wait .relaxed.cta|relaxed.cluster .shared|shared::cta? .b64", "pred = [], b64!")
        .since((8, 6), 90),
    form("mbarrier .test_wait .parity .shared|shared::cta? .b64", "pred = [], b32").since((7, 1), 80),
    form("mbarrier .test_wait .parity .acquire.cta .shared|shared::cta? .b64", "pred = [], b32").since((8, 0), 80),
    form("mbarrier .test_wait .parity .acquire.cluster .shared|shared::cta? .b64", "pred = [], b32").since((8, 0), 90),
    form("mbarrier .test_wait .parity .relaxed.cta|relaxed.cluster .shared|shared::cta? .b64", "pred = [], b32")
        .since((8, 6), 90),
    form("mbarrier .try_wait .acquire.cta|acquire.cluster? .shared|shared::cta? .b64", "pred = [], b64!, b32?")
        .since((8, 0), 90),
    form("mbarrier .try_wait .parity .acquire.cta|acquire.cluster? .shared|shared::cta? .b64", "pred = [], b32, b32?")
        .since((8, 0), 90),
    form("mbarrier .try_wait .relaxed.cta|relaxed.cluster .shared|shared::cta? .b64", "pred = [], b64!, b32?")
        .since((8, 6), 90),
    form("mbarrier .try_wait .parity .relaxed.cta|relaxed.cluster .shared|shared::cta? .b64", "pred = [], b32, b32?")
        .since((8, 6), 90),
    form("mbarrier .pending_count .b64", "b32 = b64!"),
];
