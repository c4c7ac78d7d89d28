//! The devices of tensors: GPUs, and the emulated one that computes on tensors of the host.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;
use warpwright::runtime::{self, Device, Stream};
use warpwright_kernels::operations::Operations;

use crate::tensor::DeviceType;

/// A device with what calls share.
pub(crate) struct Opened {
    pub(crate) operations: Arc<Operations>,
    /// Those of captured calls, whose scratch memory graphs use.
    captured: Mutex<Vec<Arc<Operations>>>,
    /// Streams of the caller by their addresses: scratch memory is kept for each.
    streams: Mutex<FxHashMap<usize, Arc<Stream>>>,
}

type OpenedDevices = Vec<((DeviceType, i32), Arc<Opened>)>;

/// The devices of tensors that were used.
static OPENED: Mutex<OpenedDevices> = Mutex::new(Vec::new());

const HOST: (DeviceType, i32) = (DeviceType::Host, 0);

/// Computes on tensors of the host with `device` from now on. Otherwise it is the one that the variable
/// `WARPWRIGHT_DEVICE` names, if that is an emulated GPU, and `emu:h200`.
pub fn emulate(device: &Device) {
    let mut all = opened();
    all.retain(|(of, _)| *of != HOST);
    all.push((HOST, Opened::new(device)));
}

/// Frees the scratch memory of calls whose streams were captured: their graphs must not be launched any more.
pub fn release_captured() {
    for (_, device) in opened().iter() {
        device.captured.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Stops what runs on the emulated device of the host's tensors: its call fails.
pub fn interrupt() {
    let found = opened().iter().find(|(of, _)| *of == HOST).map(|(_, device)| device.clone());
    if let Some(device) = found {
        device.operations.device().interrupt();
    }
}

/// The device of a tensor, opened at the first call.
pub(crate) fn of(of: (DeviceType, i32)) -> runtime::Result<Arc<Opened>> {
    let mut all = opened();
    if let Some((_, found)) = all.iter().find(|(device, _)| *device == of) {
        return Ok(found.clone());
    }
    let device = match of {
        (DeviceType::Cuda, ordinal) => Device::named(&format!("cuda:{ordinal}"))?,
        (DeviceType::Host, _) => {
            let named = std::env::var("WARPWRIGHT_DEVICE").ok().filter(|name| name.starts_with("emu:"));
            Device::named(named.as_deref().unwrap_or("emu:h200"))?
        }
    };
    let new = Opened::new(&device);
    all.push((of, new.clone()));
    Ok(new)
}

fn opened() -> MutexGuard<'static, OpenedDevices> {
    OPENED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Opened {
    fn new(device: &Device) -> Arc<Self> {
        let operations = Arc::new(Operations::new(device));
        Arc::new(Self { operations, captured: Mutex::default(), streams: Mutex::default() })
    }

    /// The operations for a call in that stream. Those of a captured stream are kept: its graph is launched at any time
    /// until [`release_captured`].
    pub(crate) fn operations_in(&self, stream: &Stream) -> runtime::Result<Arc<Operations>> {
        if !stream.is_captured()? {
            return Ok(self.operations.clone());
        }
        let own = Arc::new(self.operations.with_own_scratch());
        self.captured.lock().unwrap_or_else(PoisonError::into_inner).push(own.clone());
        Ok(own)
    }

    /// A stream of the caller; of an emulated device, one of its own.
    ///
    /// # Safety
    /// `raw` is a stream of the GPU whenever an operation is called with it.
    pub(crate) unsafe fn stream(&self, raw: *mut c_void) -> runtime::Result<Arc<Stream>> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = streams.get(&(raw as usize)) {
            return Ok(stream.clone());
        }
        // SAFETY: the caller passes a stream. It is used only by calls that have it as their argument.
        let stream = Arc::new(unsafe { Stream::from_raw(self.operations.device(), raw) }?);
        streams.insert(raw as usize, stream.clone());
        Ok(stream)
    }
}
