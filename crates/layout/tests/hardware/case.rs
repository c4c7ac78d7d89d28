//! A kernel with its input, and what the hardware made of it.

use serde_json::{Value, json};
use std::path::Path;

/// The text before every kernel's body: parameters `in` and `out` and the thread's number.
const PROLOGUE: &str = "\
.version 8.8
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 dynamic[];
.visible .entry run(.param .u64 in, .param .u64 out, .param .align 64 .b8 map[128])
{
.reg .b32 %thread, %shared;
.reg .b64 %in, %out, %from, %to;
ld.param.u64 %in, [in];
cvta.to.global.u64 %in, %in;
ld.param.u64 %out, [out];
cvta.to.global.u64 %out, %out;
mov.u32 %thread, %tid.x;
mov.u32 %shared, dynamic;
";

/// The tensor map of a TMA load: what `cuTensorMapEncodeTiled` is told. Axes are listed from the
/// contiguous one.
#[derive(Clone, Debug)]
pub(crate) struct TensorMap {
    pub(crate) element_bits: i64,
    pub(crate) extents: Vec<i64>,
    pub(crate) box_extents: Vec<i64>,
    /// 0 for none, 1, 2, 3 for 32, 64, 128 bytes.
    pub(crate) swizzle: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) threads: usize,
    pub(crate) shared_bytes: usize,
    pub(crate) input: Vec<u8>,
    pub(crate) output_bytes: usize,
    pub(crate) map: Option<TensorMap>,
    /// Declarations and instructions between the prologue and `ret`.
    pub(crate) body: String,
}

impl Case {
    /// The text of the kernel.
    fn ptx(&self) -> String {
        format!("{PROLOGUE}{}\nret;\n}}\n", self.body)
    }

    fn launch(&self) -> Value {
        let map = self.map.as_ref().map(|map| {
            json!({"element_bits": map.element_bits, "extents": map.extents, "box": map.box_extents, "swizzle": map.swizzle})
        });
        json!({
            "threads": self.threads, "shared_bytes": self.shared_bytes, "output_bytes": self.output_bytes, "map": map,
        })
    }

    /// What ties a record to its case: FNV-1a of all that the hardware was given.
    fn checksum(&self) -> String {
        let (ptx, launch) = (self.ptx(), self.launch().to_string());
        let bytes = ptx.bytes().chain(launch.bytes()).chain(self.input.iter().copied());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        format!("{hash:016x}")
    }
}

/// Writes the cases as `record.py` reads them.
pub(crate) fn write(cases: &[Case], folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut list = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        std::fs::write(folder.join(format!("{number}.ptx")), case.ptx())?;
        std::fs::write(folder.join(format!("{number}.in")), &case.input)?;
        let mut launch = case.launch();
        launch["file"] = json!(number.to_string());
        launch["name"] = json!(case.name);
        launch["checksum"] = json!(case.checksum());
        list.push(launch);
    }
    std::fs::write(folder.join("cases.json"), json!(list).to_string())
}

/// What `record.py` wrote.
pub(crate) struct Recording {
    index: Value,
}

impl Recording {
    pub(crate) fn read() -> Recording {
        Recording {
            index: serde_json::from_str(include_str!("recorded.json")).expect("record.py writes JSON"),
        }
    }

    /// The output of a case.
    pub(crate) fn output(&self, case: &Case) -> Vec<u8> {
        let bytes = include_bytes!("recorded.bin");
        let record = &self.index["cases"][&case.name];
        assert_eq!(
            record["checksum"],
            json!(case.checksum()),
            "{} was not recorded as it is now: {}",
            case.name,
            record["error"]
        );
        let number = |field: &str| record[field].as_u64().expect("record.py writes it") as usize;
        let (offset, length) = (number("offset"), number("length"));
        miniz_oxide::inflate::decompress_to_vec_zlib(&bytes[offset..offset + length])
            .expect("record.py compresses")
    }
}

/// Registers of 32 or 64 bits, for a kernel's text.
#[derive(Clone, Copy)]
pub(crate) struct Registers {
    pub(crate) name: char,
    pub(crate) count: usize,
    pub(crate) bits: usize,
}

impl Registers {
    pub(crate) fn bytes(self) -> usize {
        self.count * self.bits / 8
    }

    /// `{%a0, %a1}`.
    pub(crate) fn list(self) -> String {
        let names: Vec<String> = (0..self.count).map(|i| format!("%{}{i}", self.name)).collect();
        format!("{{{}}}", names.join(", "))
    }

    fn declare(self) -> String {
        format!(".reg .b{} %{}<{}>;\n", self.bits, self.name, self.count)
    }

    fn each(self, offset: usize, line: impl Fn(String, usize) -> String) -> String {
        (0..self.count).map(|i| line(format!("%{}{i}", self.name), offset + i * self.bits / 8)).collect()
    }
}

/// Text that loads each thread's registers from its share of the input, which begins `at` bytes
/// into it.
pub(crate) fn load(registers: &[Registers], at: usize) -> String {
    let share: usize = registers.iter().map(|it| it.bytes()).sum();
    let mut text = format!("mad.wide.u32 %from, %thread, {share}, %in;\n");
    let mut offset = at;
    for &group in registers {
        text += &group.declare();
        text += &group.each(offset, |name, at| format!("ld.global.u{} {name}, [%from+{at}];\n", group.bits));
        offset += group.bytes();
    }
    text
}

/// Text that stores each thread's registers to its share of the output.
pub(crate) fn store(registers: Registers) -> String {
    format!("mad.wide.u32 %to, %thread, {}, %out;\n", registers.bytes())
        + &registers.each(0, |name, at| format!("st.global.u{} [%to+{at}], {name};\n", registers.bits))
}

/// Text that declares registers of output.
pub(crate) fn declare(registers: Registers) -> String {
    registers.declare()
}

/// Text in which `threads` threads copy the first bytes of the input to shared memory, or shared
/// memory to the output, 16 bytes at a time.
pub(crate) fn copy(to_shared: bool, threads: usize, bytes: usize) -> String {
    assert_eq!(bytes % 16, 0);
    let (label, there) = if to_shared { ("fill", "%in") } else { ("dump", "%out") };
    let mov = if to_shared {
        "ld.global.v4.u32 {%w0, %w1, %w2, %w3}, [%from];\nst.shared.v4.u32 [%at], {%w0, %w1, %w2, %w3};"
    } else {
        "ld.shared.v4.u32 {%w0, %w1, %w2, %w3}, [%at];\nst.global.v4.u32 [%from], {%w0, %w1, %w2, %w3};"
    };
    format!(
        "{{\n.reg .b32 %w<4>, %at, %i;\n.reg .pred %more;\n\
         shl.b32 %i, %thread, 4;\n\
         {label}:\nsetp.ge.u32 %more, %i, {bytes};\n@%more bra {label}_done;\n\
         cvt.u64.u32 %from, %i;\nadd.u64 %from, %from, {there};\nadd.u32 %at, %shared, %i;\n{mov}\n\
         add.u32 %i, %i, {};\nbra {label};\n{label}_done:\n}}\nbar.sync 0;\n",
        16 * threads
    )
}
