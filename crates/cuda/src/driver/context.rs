//! Contexts.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use super::guard;
use crate::context::{Context, current, current_or_none, pop, push, set_current};
use crate::edge::{In, Out, functions};
use crate::machine::machine;
use crate::status::{Result, Status};

/// The flags of `CUctx_flags`.
const FLAGS: u32 = 0x1ff;

fn create(context: Out<usize>, flags: u32, device: c_int) -> Result<()> {
    machine()?;
    context.check()?;
    if device != 0 {
        return Err(Status::INVALID_DEVICE);
    }
    if flags & !FLAGS != 0 {
        return Err(Status::INVALID_VALUE);
    }
    let made = Context::create(flags);
    push(made);
    context.set(made.number)
}

/// The context of a handle, or the current one for null.
fn of(context: usize) -> Result<&'static Context> {
    machine()?;
    if context == 0 { current() } else { Context::of_handle(context) }
}

functions! { guard; TABLE:
    3020 cuCtxCreate_v2: (context: Out<usize>, flags: u32, device: c_int) {
        create(context, flags, device)
    }
    11040 cuCtxCreate_v3: (context: Out<usize>, _affinity: In<u8>, _count: c_int, flags: u32, device: c_int) {
        create(context, flags, device)
    }
    12050 cuCtxCreate_v4: (context: Out<usize>, _parameters: In<u8>, flags: u32, device: c_int) {
        create(context, flags, device)
    }
    4000 cuCtxDestroy_v2: (context: usize) {
        machine()?;
        let context = Context::of_handle(context)?;
        if context.is_primary { return Err(Status::INVALID_CONTEXT) }
        context.destroy();
        Ok(())
    }
    4000 cuCtxPushCurrent_v2: (context: usize) {
        machine()?;
        push(Context::of_handle(context)?);
        Ok(())
    }
    4000 cuCtxPopCurrent_v2: (context: Out<usize>) {
        let popped = pop()?;
        context.set_if_wanted(popped.number);
        Ok(())
    }
    4000 cuCtxSetCurrent: (context: usize) {
        machine()?;
        set_current(if context == 0 { None } else { Some(Context::of_handle(context)?) });
        Ok(())
    }
    4000 cuCtxGetCurrent: (context: Out<usize>) {
        context.set(current_or_none()?.map_or(0, |context| context.number))
    }
    2000 cuCtxGetDevice: (device: Out<c_int>) {
        current_or_none()?.ok_or(Status::INVALID_CONTEXT)?;
        device.set(0)
    }
    13000 cuCtxGetDevice_v2: (device: Out<c_int>, context: usize) {
        of(context)?;
        device.set(0)
    }
    7000 cuCtxGetFlags: (flags: Out<u32>) {
        flags.set(current()?.flags.load(Ordering::Relaxed))
    }
    12010 cuCtxSetFlags: (flags: u32) {
        if flags & !FLAGS != 0 { return Err(Status::INVALID_VALUE) }
        current()?.flags.store(flags, Ordering::Relaxed);
        Ok(())
    }
    12000 cuCtxGetId: (context: usize, id: Out<u64>) {
        id.set(of(context)?.number as u64)
    }
    2000 cuCtxSynchronize: () {
        current()?.synchronize()
    }
    13000 cuCtxSynchronize_v2: (context: usize) {
        of(context)?.synchronize()
    }
    3010 cuCtxSetLimit: (limit: c_int, value: usize) {
        let context = current()?;
        let mut limits = context.limits();
        let slot = limits.get_mut(limit.max(0) as usize).filter(|_| limit >= 0);
        *slot.ok_or(Status::UNSUPPORTED_LIMIT)? = value as u64;
        Ok(())
    }
    3010 cuCtxGetLimit: (value: Out<usize>, limit: c_int) {
        let context = current()?;
        let slot = context.limits().get(limit.max(0) as usize).copied().filter(|_| limit >= 0);
        value.set(slot.ok_or(Status::UNSUPPORTED_LIMIT)? as usize)
    }
    3020 cuCtxGetApiVersion: (context: usize, version: Out<u32>) {
        of(context)?;
        version.set(3020)
    }
    3020 cuCtxGetCacheConfig: (config: Out<c_int>) {
        current()?;
        config.set(0)
    }
    3020 cuCtxSetCacheConfig: (config: c_int) {
        current()?;
        if (0..=3).contains(&config) { Ok(()) } else { Err(Status::INVALID_VALUE) }
    }
    4020 cuCtxGetSharedMemConfig: (config: Out<c_int>) {
        current()?;
        config.set(1)
    }
    4020 cuCtxSetSharedMemConfig: (config: c_int) {
        current()?;
        if (0..=2).contains(&config) { Ok(()) } else { Err(Status::INVALID_VALUE) }
    }
    5050 cuCtxGetStreamPriorityRange: (least: Out<c_int>, greatest: Out<c_int>) {
        current()?;
        least.set_if_wanted(0);
        greatest.set_if_wanted(-5);
        Ok(())
    }
    11000 cuCtxResetPersistingL2Cache: () {
        current()?;
        Ok(())
    }
    2000 cuCtxAttach: (context: Out<usize>, flags: u32) {
        if flags != 0 { return Err(Status::INVALID_VALUE) }
        context.set(current()?.number)
    }
    2000 cuCtxDetach: (context: usize) {
        of(context)?;
        Ok(())
    }
    4000 cuCtxEnablePeerAccess: (peer: usize, flags: u32) {
        current()?;
        if flags != 0 { return Err(Status::INVALID_VALUE) }
        Context::of_handle(peer)?;
        Err(Status::PEER_ACCESS_UNSUPPORTED)
    }
    4000 cuCtxDisablePeerAccess: (peer: usize) {
        current()?;
        Context::of_handle(peer)?;
        Err(Status::PEER_ACCESS_NOT_ENABLED)
    }
    4000 cuProfilerStart: () { current().map(|_| ()) }
    4000 cuProfilerStop: () { current().map(|_| ()) }
}
