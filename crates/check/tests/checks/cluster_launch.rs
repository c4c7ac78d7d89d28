//! The response to a request to cancel a cluster is an asynchronous write.

use warpwright_check::FindingKind::{InFlight, Race};

use crate::checks::harness::{ONE, clean, found};

const START: &str = "//sm_100a
    .reg .b128 %x; mov.u32 %r8, barrier; setp.eq.u32 %p1, %tid, 0;
    @%p1 mbarrier.init.shared.b64 [%r8], 1; bar.sync 0;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 %rd1, [%r8], BYTES;";
const REQUEST: &str = "@%p1 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%tile], [%r8];";
const WAIT: &str = "wait: mbarrier.try_wait.parity.shared.b64 %p5, [%r8], 0; @!%p5 bra wait;";
const LOAD: &str = "ld.shared.b128 %x, [%tile];";

fn body(bytes: u32, parts: &[&str]) -> String {
    format!("{}\n{}", START.replace("BYTES", &bytes.to_string()), parts.join("\n"))
}

#[test]
fn a_response_is_read_after_its_mbarrier() {
    let query = "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %x;";
    clean(&body(16, &[REQUEST, WAIT, LOAD, query]), ONE);
    let places = ["ld.shared", "clusterlaunchcontrol"];
    found(&body(16, &[REQUEST, LOAD, WAIT]), ONE, InFlight, places);
}

#[test]
fn a_response_in_flight_is_not_replaced() {
    let places = ["clusterlaunchcontrol", "clusterlaunchcontrol"];
    found(&body(32, &[REQUEST, REQUEST, WAIT]), ONE, InFlight, places);
    clean(&body(32, &[REQUEST, &REQUEST.replace("[%tile]", "[%tile+16]"), WAIT]), ONE);
}

/// All threads have read a response before it is replaced.
#[test]
fn a_response_is_replaced_after_all_have_read_it() {
    let another = "@%p1 mbarrier.init.shared.b64 [%r8+8], 1; bar.sync 0;
        @%p1 mbarrier.arrive.expect_tx.shared.b64 %rd1, [%r8+8], 16;";
    let again = REQUEST.replace("[%r8]", "[%r8+8]");
    let later = WAIT.replace("wait:", "later:").replace("bra wait", "bra later").replace("[%r8]", "[%r8+8]");
    let whole = |between| body(16, &[another, REQUEST, WAIT, LOAD, between, &again, &later]);
    clean(&whole("fence.proxy.async.shared::cta; bar.sync 0;"), ONE);
    found(&whole(""), ONE, Race, ["clusterlaunchcontrol", "ld.shared"]);
}
