//! Cluster launch control: a CTA cancels the launch of a cluster that has not started, and does its
//! work. PTX ISA, "clusterlaunchcontrol"; sm_100.
//!
//! A grid has a cluster for each piece of work. The ones that run request further ones, until a
//! request fails: the GPU balances the work, as for a grid of clusters that end, and each cluster
//! begins once.
//!
//! ```
//! use warpwright_lang::cluster_launch::{CANCEL_RESPONSE_BYTES, CancelResponses};
//! use warpwright_lang::fence::fence_proxy_async_shared;
//! use warpwright_lang::mbarrier::Mbarrier;
//! use warpwright_lang::pointer::Global;
//! use warpwright_lang::value::constant;
//! use warpwright_lang::{block, kernel, launch, special::{block_idx, thread_idx}};
//!
//! /// Doubles 256 numbers for each CTA of the grid, of which some never start.
//! #[kernel]
//! fn double(numbers: &mut Global<f32>) {
//!     launch::threads(256);
//!     let (response, arrived) = (CancelResponses::new(1).at(0), Mbarrier::new());
//!     if thread_idx().x == 0 {
//!         arrived.init(1);
//!     }
//!     block::sync_threads();
//!     let (mut work, mut parity, mut has_work) = (block_idx().x, constant(0u32), constant(true));
//!     while has_work {
//!         if thread_idx().x == 0 {
//!             arrived.arrive_and_expect(CANCEL_RESPONSE_BYTES);
//!             response.try_cancel(arrived);
//!         }
//!         let at = work * 256 + thread_idx().x;
//!         numbers[at] = numbers[at] * 2.0;
//!         arrived.wait_parity(parity);
//!         let cancellation = response.query();
//!         has_work = cancellation.is_canceled();
//!         if has_work {
//!             work = cancellation.first_block_idx().x;
//!         }
//!         parity = parity ^ 1;
//!         // The next response is written by the async proxy, after all threads have read this one.
//!         fence_proxy_async_shared();
//!         block::sync_threads();
//!     }
//! }
//! assert!(double().is_ok());
//! ```

use warpwright_ir::{Operand, Register, RegisterClass};

use crate::DeviceValue;
use crate::mbarrier::Mbarrier;
use crate::object;
use crate::operation::{compute, fresh, perform, record, refuse};
use crate::pointer::Shared;
use crate::recorder;
use crate::reg::Reg;
use crate::requirement::{Feature, require};
use crate::shared::shared_bytes;
use crate::special::Dim3;
use crate::value::Value;

/// The bytes of a response: those that its mbarrier counts.
pub const CANCEL_RESPONSE_BYTES: u32 = 16;

/// Responses in the CTA's shared memory.
#[derive(Clone, Copy, DeviceValue)]
pub struct CancelResponses {
    first: Shared<u8>,
    count: u32,
}

impl CancelResponses {
    /// `count` responses in static shared memory.
    #[track_caller]
    pub fn new(count: u32) -> Self {
        let call = format!("CancelResponses::new({count})");
        let bytes = u64::from(count) * u64::from(CANCEL_RESPONSE_BYTES);
        let first = shared_bytes(call, bytes, CANCEL_RESPONSE_BYTES, CANCEL_RESPONSE_BYTES);
        object::array(first, "response", CANCEL_RESPONSE_BYTES, count.into());
        Self { first, count }
    }

    /// Response `index`.
    #[track_caller]
    pub fn at(self, index: impl Value<u32>) -> CancelResponse {
        let Operand::Integer(known) = index.operand() else {
            return CancelResponse { bytes: self.first.at(index.reg() * CANCEL_RESPONSE_BYTES) };
        };
        if !(0..self.count.into()).contains(&known) {
            refuse(format!("response {known} is out of range: the first of {} is response 0", self.count));
        }
        CancelResponse { bytes: self.first.byte_offset(known as i64 * i64::from(CANCEL_RESPONSE_BYTES)) }
    }
}

/// The response to a request to cancel a cluster.
#[derive(Clone, Copy, DeviceValue)]
pub struct CancelResponse {
    bytes: Shared<u8>,
}

impl CancelResponse {
    /// Requests the cancellation of a cluster of the grid that has not started. The response arrives
    /// asynchronously, and `barrier` counts its [bytes](CANCEL_RESPONSE_BYTES).
    ///
    /// One thread executes it. No CTA requests again after it has found that a request failed.
    #[track_caller]
    pub fn try_cancel(self, barrier: Mbarrier) {
        self.request("", barrier);
    }

    /// The same for a cluster: all of its CTAs receive the response at this offset of their shared
    /// memory, and their own barriers count it. One thread of the cluster executes it.
    #[track_caller]
    pub fn try_cancel_multicast(self, barrier: Mbarrier) {
        self.request(".multicast::cluster::all", barrier);
    }

    #[track_caller]
    fn request(self, multicast: &str, barrier: Mbarrier) {
        require(Feature::ClusterLaunchControl);
        let opcode = format!(
            "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{multicast}.b128"
        );
        perform(opcode, [self.bytes.operand(), barrier.object().operand()]);
    }

    /// Loads the response, which has arrived.
    #[track_caller]
    pub fn query(self) -> Cancellation {
        require(Feature::ClusterLaunchControl);
        let response = recorder::with(|recorder| recorder.fresh(RegisterClass::B128));
        record("ld.shared.b128", 1, vec![Operand::Register(response), self.bytes.operand()]);
        Cancellation { response }
    }
}

/// What came of a request to cancel a cluster.
#[derive(Clone, Copy)]
pub struct Cancellation {
    response: Register,
}

impl Cancellation {
    /// Whether a cluster was canceled.
    #[track_caller]
    pub fn is_canceled(self) -> Reg<bool> {
        compute("clusterlaunchcontrol.query_cancel.is_canceled.pred.b128", [Operand::Register(self.response)])
    }

    /// The position in the grid of the first CTA of the canceled cluster; undefined if there is none.
    #[track_caller]
    pub fn first_block_idx(self) -> Dim3 {
        let [x, y, z] = [fresh(), fresh(), fresh()];
        let position = Operand::Vector(vec![x.operand(), y.operand(), z.operand(), Operand::Sink]);
        let opcode = "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128";
        record(opcode, 1, vec![position, Operand::Register(self.response)]);
        Dim3 { x, y, z }
    }
}
