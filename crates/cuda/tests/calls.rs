//! Calls with wrong handles, sizes, pointers and orders, from several threads: each returns a code, and none ends the
//! process.

use std::ffi::c_void;
use std::sync::Mutex;

use warpwright_cuda::{CODES, driver_functions};

/// Arguments of functions, a letter each: a handle of any kind; an integer; a size; an address of the device; memory of the
/// host for a result; memory of zeros for a structure; memory of the host for a copy; a name; a function.
const CALLS: &str = "
cuInit i|cuDriverGetVersion o|cuDeviceGet oi|cuDeviceGetCount o|cuDeviceGetName oii|cuDeviceTotalMem_v2 oi
cuDeviceGetAttribute oii|cuDeviceGetUuid_v2 oi|cuDeviceGetByPCIBusId on|cuDevicePrimaryCtxRetain oi
cuDevicePrimaryCtxRelease_v2 i|cuDevicePrimaryCtxGetState ioo|cuDevicePrimaryCtxReset_v2 i|cuMemGetInfo_v2 oo
cuCtxCreate_v2 oii|cuCtxDestroy_v2 h|cuCtxPushCurrent_v2 h|cuCtxPopCurrent_v2 o|cuCtxSetCurrent h|cuCtxGetCurrent o
cuCtxGetDevice o|cuCtxGetFlags o|cuCtxSynchronize |cuCtxSetLimit is|cuCtxGetLimit oi|cuCtxGetApiVersion ho
cuModuleLoadData ot|cuModuleLoadData oz|cuModuleUnload h|cuModuleGetFunction ohn|cuModuleGetGlobal_v2 oohn
cuLibraryLoadData otzzizzi|cuLibraryUnload h|cuLibraryGetKernel ohn|cuLibraryGetGlobal oohn|cuKernelGetFunction oh
cuFuncGetAttribute oih|cuFuncSetAttribute hii|cuFuncGetModule oh|cuFuncGetParamInfo hsoo|cuKernelGetAttribute oihi
cuLaunchKernel hiiiiiiihzz|cuLaunchCooperativeKernel hiiiiiiihz|cuLaunchKernelEx zhzz|cuLaunchHostFunc hfz
cuOccupancyMaxActiveBlocksPerMultiprocessor ohis|cuOccupancyMaxPotentialBlockSize oohfsi
cuOccupancyAvailableDynamicSMemPerBlock ohii|cuOccupancyMaxActiveClusters ohz
cuMemAlloc_v2 os|cuMemAllocPitch_v2 oossi|cuMemFree_v2 a|cuMemGetAddressRange_v2 ooa|cuMemHostAlloc osi|cuMemFreeHost a
cuMemHostGetDevicePointer_v2 oai|cuMemHostGetFlags oa|cuMemHostRegister_v2 msi|cuMemHostUnregister a|cuMemAllocManaged osi
cuMemcpyHtoD_v2 ams|cuMemcpyDtoH_v2 mas|cuMemcpyDtoD_v2 aas|cuMemcpyHtoDAsync_v2 amsh|cuMemcpyDtoHAsync_v2 mash
cuMemcpyDtoDAsync_v2 aash|cuMemcpy2D_v2 z|cuMemcpy3D_v2 z|cuMemcpy2DAsync_v2 zh|cuMemsetD8_v2 ais|cuMemsetD16_v2 ais
cuMemsetD32_v2 ais|cuMemsetD8Async aish|cuMemsetD32Async aish|cuMemsetD2D8_v2 asiss|cuMemsetD2D32Async asissh
cuPointerGetAttribute oia|cuPointerGetAttributes izza|cuMemAllocAsync osh|cuMemFreeAsync ah|cuMemPoolCreate oz
cuMemPoolDestroy h|cuMemPoolTrimTo hs|cuMemPoolGetAttribute hio|cuMemPoolSetAttribute hiz|cuMemAllocFromPoolAsync oshh
cuDeviceGetDefaultMemPool oi|cuMemPrefetchAsync asih|cuMemAdvise asii
cuStreamCreate oi|cuStreamCreateWithPriority oii|cuStreamDestroy_v2 h|cuStreamSynchronize h|cuStreamQuery h
cuStreamWaitEvent hhi|cuStreamGetPriority ho|cuStreamGetFlags ho|cuStreamGetCtx ho|cuStreamBeginCapture_v2 hi
cuStreamEndCapture ho|cuStreamIsCapturing ho|cuStreamGetCaptureInfo_v2 hooooo|cuStreamUpdateCaptureDependencies hzii
cuStreamWriteValue32_v2 haii|cuStreamWriteValue64_v2 haii|cuEventCreate oi|cuEventDestroy_v2 h|cuEventRecord hh
cuEventSynchronize h|cuEventQuery h|cuEventElapsedTime ohh
cuGraphCreate oi|cuGraphDestroy h|cuGraphClone oh|cuGraphAddKernelNode_v2 ohziz|cuGraphAddMemcpyNode ohziz
cuGraphAddMemsetNode ohzizh|cuGraphAddHostNode ohziz|cuGraphAddEmptyNode ohzi|cuGraphAddChildGraphNode ohzih
cuGraphAddEventRecordNode ohzih|cuGraphGetNodes hzo|cuGraphGetRootNodes hzo|cuGraphNodeGetType ho|cuGraphDestroyNode h
cuGraphInstantiateWithFlags ohi|cuGraphLaunch hh|cuGraphExecDestroy h|cuGraphExecUpdate_v2 hho|cuGraphUpload hh
cuLinkCreate_v2 izzo|cuLinkAddData_v2 hizsnizz|cuLinkComplete hoo|cuLinkDestroy h|cuTensorMapEncodeTiled oiiazzzziiii
cuGetErrorName io|cuGetErrorString io|cuGetProcAddress_v2 noiio|cuGetExportTable oz";

/// The names that functions look for.
const NAMES: [&std::ffi::CStr; 5] = [c"add", c"launches", c"cuMemAlloc", c"", c"0000:01:01.0"];
const PTX: &std::ffi::CStr =
    c".version 7.0\n.target sm_80\n.address_size 64\n.visible .global .u32 launches;\n\
    .visible .entry add(.param .u64 p) { .reg .b64 %d; ld.param.u64 %d, [p]; ret; }\n";

/// A function of C with as many arguments as any of them has.
type Function = extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u32;

/// A callback: of a stream, whose result nobody reads, or the shared memory of a block in bytes.
extern "C" fn nothing(_argument: *mut c_void) -> usize {
    0
}

/// What calls have returned: handles and addresses of all kinds, some of them stale.
static RETURNED: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Random numbers of one thread, and memory for its calls.
struct Caller {
    state: u64,
    result: Vec<u64>,
    zeros: Vec<u64>,
    memory: &'static [u8],
}

impl Caller {
    fn random(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % below
    }

    fn returned(&mut self) -> u64 {
        let returned = RETURNED.lock().unwrap();
        let count = returned.len() as u64;
        drop(returned);
        if count == 0 || self.random(8) == 0 {
            return [0, 1, 2, 0x1234, u64::MAX][self.random(5) as usize];
        }
        let index = self.random(count) as usize;
        RETURNED.lock().unwrap()[index]
    }

    fn argument(&mut self, kind: char) -> u64 {
        let is_null = self.random(12) == 0;
        match kind {
            'h' => self.returned(),
            'a' => self.returned().wrapping_add([0, 0, 0, 4, 1][self.random(5) as usize]),
            'i' => [0, 0, 0, 1, 1, 2, 3, 8, 16, 32, 0x7fff_ffff, 0xffff_ffff][self.random(12) as usize],
            's' => [0, 1, 4, 16, 100, 4096, 65536, 1 << 50, u64::MAX][self.random(9) as usize],
            _ if is_null => 0,
            'o' => self.result.as_mut_ptr().expose_provenance() as u64,
            'z' => self.zeros.as_ptr().expose_provenance() as u64,
            'm' => self.memory.as_ptr().expose_provenance() as u64,
            'n' => NAMES[self.random(5) as usize].as_ptr().expose_provenance() as u64,
            't' => PTX.as_ptr().expose_provenance() as u64,
            'f' => nothing as *const () as u64,
            _ => unreachable!("a letter of the table"),
        }
    }

    fn call(&mut self, name: &str, kinds: &str, address: usize) {
        let mut arguments = [0; 12];
        for (argument, kind) in arguments.iter_mut().zip(kinds.chars()) {
            *argument = self.argument(kind);
        }
        if kinds.contains('m') {
            // The host has as many bytes as it says, or the copy is refused for the device's side.
            let size = kinds.find('s').expect("a copy has a size");
            arguments[size] = arguments[size].min(self.memory.len() as u64);
        }
        if kinds.contains('z') {
            // An array has as many elements as its count says.
            let counts =
                arguments.iter_mut().zip(kinds.chars()).filter(|(_, kind)| matches!(kind, 'i' | 's'));
            counts.for_each(|(count, _)| *count = (*count).min(4096));
        }
        self.zeros.fill(0);
        self.result.fill(0);
        // SAFETY: the function is one of the library's, whose arguments are integers and pointers; those that it does
        // not have are ignored.
        let function: Function = unsafe { std::mem::transmute(address) };
        let [a, b, c, d, e, f, g, h, i, j, k, l] = arguments;
        let status = function(a, b, c, d, e, f, g, h, i, j, k, l);
        let is_known = status == 0 || status == 910 || CODES.iter().any(|row| row.status.0 == status);
        assert!(is_known && status != 999, "{name}{arguments:x?} returned {status}");
        if status == 0 && kinds.contains('o') {
            let mut returned = RETURNED.lock().unwrap();
            returned.push(self.result[0]);
            if returned.len() > 200 {
                let oldest = self.state as usize % 150;
                returned.swap_remove(oldest);
            }
        }
    }
}

#[test]
fn wrong_calls_return_codes() {
    let functions: Vec<(&str, &str, usize)> = CALLS
        .split(['|', '\n'])
        .filter_map(|call| call.split_once(' '))
        .map(|(name, kinds)| {
            let found = driver_functions().find(|function| function.name == name);
            (name, kinds, (found.unwrap_or_else(|| panic!("{name} is in the table")).address)())
        })
        .collect();
    let memory: &'static [u8] = Vec::leak(vec![0; 65536]);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let functions = &functions;
            scope.spawn(move || {
                let state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(thread + 1);
                let mut caller = Caller { state, result: vec![0; 512], zeros: vec![0; 8192], memory };
                for _ in 0..5000 {
                    let (name, kinds, address) = functions[caller.random(functions.len() as u64) as usize];
                    caller.call(name, kinds, address);
                }
            });
        }
    });
}

#[test]
fn every_function_has_one_row_and_an_address_of_its_own() {
    let mut names: Vec<&str> = driver_functions().map(|function| function.name).collect();
    names.extend(warpwright_cuda::runtime_functions().map(|function| function.name));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "a name stands twice");
    assert!(driver_functions().filter(|function| function.is_supported).count() >= 250);
    assert!(driver_functions().all(|function| (function.address)() != 0));
}
