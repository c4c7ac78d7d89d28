//! What a golden case is, and how its PTX and launch description are written.

use std::fmt::Write;

use crate::golden::inputs::Input;

/// The width of a register and of its elements in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    B8,
    B16,
    B32,
    B64,
}

impl Width {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Width::B8 => 1,
            Width::B16 => 2,
            Width::B32 => 4,
            Width::B64 => 8,
        }
    }

    pub(crate) fn dtype(self) -> &'static str {
        match self {
            Width::B8 => "u8",
            Width::B16 => "u16",
            Width::B32 => "u32",
            Width::B64 => "u64",
        }
    }

    /// PTX has no 8-bit registers.
    fn register(self) -> &'static str {
        match self {
            Width::B8 | Width::B16 => "b16",
            Width::B32 => "b32",
            Width::B64 => "b64",
        }
    }
}

/// A named run of registers, one buffer for all of them: register `r` of thread `t` is element
/// `r * threads + t`.
#[derive(Clone)]
pub(crate) struct Operand {
    pub(crate) name: char,
    pub(crate) width: Width,
    pub(crate) registers: usize,
    pub(crate) buffer: Buffer,
}

#[derive(Clone)]
pub(crate) enum Buffer {
    /// Loaded into the registers before the body.
    Input(Input),
    /// Stored from the registers after the body.
    Output,
    /// Left to the body, which finds its address in `%base_NAME`: this many elements of input.
    RawInput(Input),
    /// Left to the body: this many elements of output, zero at first.
    RawOutput(usize),
    /// Left to the body: input that it changes.
    RawInOut(Input),
}

#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) family: &'static str,
    pub(crate) name: String,
    pub(crate) target: &'static str,
    pub(crate) block: usize,
    pub(crate) threads: usize,
    /// CTAs of a cluster, if the kernel requires clusters.
    pub(crate) cluster: Option<usize>,
    pub(crate) operands: Vec<Operand>,
    /// Declarations and instructions; operand `d` is registers `%d0`, `%d1`, ...
    pub(crate) body: String,
}

impl Case {
    pub(crate) fn new(family: &'static str, name: impl Into<String>) -> Case {
        Case {
            family,
            name: name.into(),
            target: "sm_80",
            block: 128,
            threads: crate::golden::inputs::ELEMENTS,
            cluster: None,
            operands: Vec::new(),
            body: String::new(),
        }
    }

    pub(crate) fn target(mut self, target: &'static str) -> Case {
        self.target = target;
        self
    }

    /// The CTAs per cluster that the kernel requires.
    pub(crate) fn clusters(mut self, ctas: usize) -> Case {
        self.cluster = Some(ctas);
        self
    }

    /// One warp to a block.
    pub(crate) fn warps(mut self, warps: usize) -> Case {
        (self.block, self.threads) = (32, 32 * warps);
        self
    }

    pub(crate) fn operand(mut self, name: char, width: Width, registers: usize, buffer: Buffer) -> Case {
        self.operands.push(Operand { name, width, registers, buffer });
        self
    }

    pub(crate) fn input(self, name: char, width: Width, input: Input) -> Case {
        let registers = input.elements / self.threads;
        self.operand(name, width, registers, Buffer::Input(input))
    }

    pub(crate) fn output(self, width: Width, registers: usize) -> Case {
        self.operand('d', width, registers, Buffer::Output)
    }

    pub(crate) fn body(mut self, body: impl Into<String>) -> Case {
        self.body = body.into();
        self
    }

    /// The family and the name.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.family, self.name)
    }

    /// The entry's name.
    pub(crate) fn entry(&self) -> String {
        self.name.replace(['.', ':', '-'], "_")
    }

    pub(crate) fn ptx(&self) -> String {
        let mut text = String::new();
        let parameters: Vec<String> =
            self.operands.iter().map(|operand| format!(".param .u64 {}", operand.name)).collect();
        let (entry, parameters) = (self.entry(), parameters.join(", "));
        let mut line = |words: String| writeln!(text, "{words}").expect("writing to a string");
        line(format!(".version 9.0\n.target {}\n.address_size 64\n", self.target));
        let cluster = self.cluster.map(|ctas| format!(" .reqnctapercluster {ctas}, 1, 1"));
        line(format!(".visible .entry {entry}({parameters}){}\n{{", cluster.unwrap_or_default()));
        line("    .reg .b32 %thread, %block, %lane;\n    .reg .b64 %at;".into());
        line(
            "    mov.u32 %thread, %tid.x;\n    mov.u32 %block, %ctaid.x;\n    mov.u32 %lane, %laneid;".into(),
        );
        line(format!("    mad.lo.u32 %thread, %block, {}, %thread;", self.block));
        for operand in &self.operands {
            let name = operand.name;
            line(format!("    .reg .b64 %base_{name};"));
            line(format!("    ld.param.u64 %base_{name}, [{name}];"));
            line(format!("    cvta.to.global.u64 %base_{name}, %base_{name};"));
            if operand.registers > 0 {
                line(format!("    .reg .{} %{name}<{}>;", operand.width.register(), operand.registers));
            }
            if let Buffer::Input(_) = operand.buffer {
                self.transfer(operand, &mut line);
            }
        }
        line(format!("    {}", self.body.trim().replace('\n', "\n    ")));
        for operand in &self.operands {
            if let Buffer::Output = operand.buffer {
                self.transfer(operand, &mut line);
            }
        }
        line("    ret;\n}".into());
        text
    }

    fn transfer(&self, operand: &Operand, line: &mut impl FnMut(String)) {
        let (name, bytes) = (operand.name, operand.width.bytes());
        let load = matches!(operand.buffer, Buffer::Input(_));
        line(format!("    mad.wide.u32 %at, %thread, {bytes}, %base_{name};"));
        for register in 0..operand.registers {
            let (address, suffix) =
                (format!("[%at+{}]", register * self.threads * bytes), operand.width.dtype());
            line(if load {
                format!("    ld.global.{suffix} %{name}{register}, {address};")
            } else {
                format!("    st.global.{suffix} {address}, %{name}{register};")
            });
        }
    }

    /// The launch, as `warpwright exec` reads it.
    pub(crate) fn launch(&self) -> String {
        let arguments: Vec<String> = self
            .operands
            .iter()
            .map(|operand| {
                let (elements, init, save) = match &operand.buffer {
                    Buffer::Input(input) | Buffer::RawInput(input) => (input.elements, input.reference(), false),
                    Buffer::RawInOut(input) => (input.elements, input.reference(), true),
                    Buffer::Output => (operand.registers * self.threads, "\"zero\"".into(), true),
                    Buffer::RawOutput(elements) => (*elements, "\"zero\"".into(), true),
                };
                let save =
                    if save { format!(", \"save\": \"{}.npy\"", operand.name) } else { String::new() };
                format!(
                    "   {{\"buffer\": {{\"dtype\": \"{}\", \"shape\": [{elements}], \"init\": {init}{save}}}}}",
                    operand.width.dtype()
                )
            })
            .collect();
        format!(
            "{{\"ptx\": \"{}.ptx\", \"entry\": \"{}\", \"grid\": [{},1,1], \"block\": [{},1,1],\n \"args\": [\n{}]}}\n",
            self.name,
            self.entry(),
            self.threads / self.block,
            self.block,
            arguments.join(",\n")
        )
    }
}
