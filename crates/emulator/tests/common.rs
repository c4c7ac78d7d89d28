//! Launching a kernel on buffers of plain numbers.
use warpwright_arch::Arch;
use warpwright_check::{Finding, LaunchChecks};
use warpwright_emulator::{Emulator, Fault, Launch, LaunchReport, Program, Schedule};

/// An argument of a launch.
#[derive(Clone, Debug)]
pub(crate) enum Argument {
    /// A buffer that the kernel reads and writes; its address is passed.
    Buffer(Vec<u8>),
    U32(u32),
    F32(f32),
}

/// A buffer of any plain numbers.
pub(crate) fn words(values: impl IntoIterator<Item = u32>) -> Argument {
    Argument::Buffer(values.into_iter().flat_map(u32::to_le_bytes).collect())
}

pub(crate) fn longs(values: impl IntoIterator<Item = u64>) -> Argument {
    Argument::Buffer(values.into_iter().flat_map(u64::to_le_bytes).collect())
}

pub(crate) fn floats(values: impl IntoIterator<Item = f32>) -> Argument {
    Argument::Buffer(values.into_iter().flat_map(f32::to_le_bytes).collect())
}

/// What a launch left behind.
pub(crate) struct Finished {
    pub(crate) report: LaunchReport,
    buffers: Vec<Vec<u8>>,
}

impl Finished {
    pub(crate) fn words(&self, buffer: usize) -> Vec<u32> {
        self.buffers[buffer].chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    pub(crate) fn longs(&self, buffer: usize) -> Vec<u64> {
        self.buffers[buffer].chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect()
    }

    pub(crate) fn floats(&self, buffer: usize) -> Vec<f32> {
        self.words(buffer).into_iter().map(f32::from_bits).collect()
    }
}

pub(crate) fn device(name: &str) -> Emulator {
    Emulator::with_threads(Arch::named(name).unwrap(), 2).unwrap()
}

pub(crate) fn load(device: &mut Emulator, text: &str) -> Program {
    let module = warpwright_ptx::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    device.load(&module).unwrap_or_else(|error| panic!("{error}"))
}

/// Launches under the checkers.
pub(crate) fn launch_checked(
    device: &Emulator,
    program: &Program,
    kernel: &str,
    launch: &Launch<'_>,
) -> (Result<LaunchReport, Box<Fault>>, Vec<Finding>) {
    let info = match device.describe(program, kernel, launch) {
        Ok(info) => info,
        Err(fault) => return (Err(fault), Vec::new()),
    };
    let checks = LaunchChecks::new(&info, None);
    let report = device.launch(program, kernel, &Launch { observers: &[&checks], ..*launch });
    (report, checks.findings().to_vec())
}

/// The shape of a launch.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) cluster: [u32; 3],
    pub(crate) shared: u32,
    pub(crate) schedule: Schedule,
    /// A kernel that runs is clean, but for those that are broken on purpose.
    pub(crate) checked: bool,
}

pub(crate) fn shape(grid: u32, block: u32) -> Shape {
    Shape {
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        cluster: [1; 3],
        shared: 0,
        schedule: Schedule::Eager,
        checked: true,
    }
}

/// `clusters` clusters of `ctas` CTAs of `block` threads.
pub(crate) fn cluster_shape(clusters: u32, ctas: u32, block: u32) -> Shape {
    Shape { cluster: [ctas, 1, 1], ..shape(clusters * ctas, block) }
}

/// The device that runs a module.
pub(crate) fn device_of(text: &str) -> &'static str {
    let is_for = |target: &str| text.contains(&format!(".target {target}"));
    let devices =
        [("sm_103", "b300"), ("sm_10", "b200"), ("sm_11", "thor"), ("sm_121", "gb10"), ("sm_12", "rtx5090")];
    devices.into_iter().find(|(target, _)| is_for(target)).map_or("h200", |(_, device)| device)
}

/// Runs the first kernel of a module on an emulated H200, or on the Blackwell GPU that it is for.
pub(crate) fn try_run(text: &str, shape: Shape, arguments: &[Argument]) -> Result<Finished, Box<Fault>> {
    let mut device = device(device_of(text));
    let program = load(&mut device, text);
    let kernel = program.kernels().next().unwrap().to_owned();
    let mut parameters: Vec<u8> = Vec::new();
    let mut addresses = Vec::new();
    for (argument, formal) in arguments.iter().zip(program.kernel(&kernel).unwrap().parameters()) {
        parameters.resize(formal.offset as usize, 0);
        match argument {
            Argument::Buffer(bytes) => {
                let address = device.allocate(bytes.len() as u64).unwrap();
                device.write(address, bytes).unwrap();
                addresses.push((address, bytes.len()));
                parameters.extend(address.to_le_bytes());
            }
            Argument::U32(value) => parameters.extend(value.to_le_bytes()),
            Argument::F32(value) => parameters.extend(value.to_le_bytes()),
        }
    }
    let launch = Launch {
        grid: shape.grid,
        block: shape.block,
        cluster: shape.cluster,
        dynamic_shared_bytes: shape.shared,
        parameters: &parameters,
        schedule: shape.schedule,
        ..Launch::default()
    };
    let report = if shape.checked {
        let (report, findings) = launch_checked(&device, &program, &kernel, &launch);
        assert!(report.is_err() || findings.is_empty(), "{}\n{text}", findings[0]);
        report?
    } else {
        device.launch(&program, &kernel, &launch)?
    };
    let buffers = addresses
        .into_iter()
        .map(|(address, length)| {
            let mut bytes = vec![0; length];
            device.read(address, &mut bytes).unwrap();
            bytes
        })
        .collect();
    Ok(Finished { report, buffers })
}

pub(crate) fn run(text: &str, shape: Shape, arguments: &[Argument]) -> Finished {
    try_run(text, shape, arguments).unwrap_or_else(|fault| panic!("{fault}"))
}

/// A kernel of 64-bit pointer parameters `p0`, `p1`, ... with registers of all kinds declared, and
/// `%tid.x` in `%t`.
pub(crate) fn kernel(pointers: usize, body: &str) -> String {
    let formals: Vec<String> = (0..pointers).map(|index| format!(".param .u64 p{index}")).collect();
    let loads: String = (0..pointers).map(|index| format!("ld.param.u64 %p{index}, [p{index}];\n")).collect();
    format!(
        ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k({}) {{
         .reg .pred %q<64>; .reg .b16 %h<64>; .reg .b32 %r<128>; .reg .b64 %d<128>; .reg .f32 %f<64>; .reg .f64 %e<64>;
         .reg .b64 %p<8>; .reg .b32 %t; .reg .b64 %a<8>;
         mov.u32 %t, %tid.x;
         {loads}
         {body}
         ret; }}",
        formals.join(", ")
    )
}
