//! The writer: what its text looks like, that it parses back to the tree it was printed from, and
//! that ptxas takes it.

use std::borrow::Cow;

use warpwright_arch::{CAPABILITIES, Capability};
use warpwright_ir::{
    Body, DYNAMIC_SHARED, Instruction, Kernel, Label, LaunchBounds, Location, MemoryVariable, Module,
    Operand, Parameter, ParameterType, Register, RegisterClass, Statement,
};
use warpwright_ptx::{lower, parse, write};
use warpwright_testing::ptxas::Assembler;

/// Builds a kernel as the kernel language would, each statement on a line of its own.
#[derive(Default)]
struct Builder {
    kernel: Kernel,
    line: u32,
}

impl Builder {
    fn new(name: &str) -> Self {
        Self { kernel: Kernel { name: name.to_owned(), ..Kernel::default() }, line: 0 }
    }

    fn here(&mut self) -> Location {
        self.line += 1;
        Location { file: "src/lesson.rs", line: self.line, column: 9 }
    }

    fn register(&mut self, class: RegisterClass) -> Register {
        self.kernel.registers.push(class);
        Register(self.kernel.registers.len() as u32 - 1)
    }

    fn label(&mut self) -> Label {
        self.kernel.labels += 1;
        Label(self.kernel.labels - 1)
    }

    fn op(&mut self, opcode: &'static str, destinations: usize, operands: &[Operand]) -> Statement {
        Statement::Instruction(Instruction {
            guard: None,
            opcode: Cow::Borrowed(opcode),
            destinations,
            operands: operands.to_vec(),
            location: self.here(),
        })
    }
}

fn reg(register: Register) -> Operand {
    Operand::Register(register)
}

fn int(value: i128) -> Operand {
    Operand::Integer(value)
}

fn at(base: Operand, offset: i64) -> Operand {
    Operand::Address { base: Box::new(base), offset, rest: Vec::new() }
}

fn pointer(name: &str) -> Parameter {
    let ty = ParameterType::Pointer { element: "f32", element_bytes: 4, writable: true };
    Parameter { name: name.to_owned(), ty }
}

fn scalar(name: &str, ty: &'static str, bytes: u32) -> Parameter {
    Parameter { name: name.to_owned(), ty: ParameterType::Scalar { name: ty, bytes } }
}

/// The text, after checking that it is stable and, where there is a ptxas, that it assembles.
fn written(capability: &'static Capability, kernels: Vec<Kernel>) -> String {
    let module = Module::new(capability, kernels);
    let text = write(&module);
    assert_eq!(text, write(&module), "the same module gives the same text");
    let mut parsed = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(warpwright_ptx::print(&parsed), text, "printing what was parsed gives the text again");
    parsed.erase_lines();
    assert_eq!(parsed, lower(&module));
    if let Some(assembler) = Assembler::from_environment() {
        assembler.assemble(capability.target, &text).unwrap_or_else(|said| panic!("{said}\n{text}"));
    }
    text
}

fn sm_80() -> &'static Capability {
    Capability::for_target("sm_80").expect("in the table")
}

/// `for i in 0..n { if i == skip { continue } if i > most { break } sum += i }`, then a guarded
/// store.
fn counted_sum() -> Kernel {
    let mut b = Builder::new("counted_sum");
    b.kernel.parameters = vec![pointer("out"), scalar("n", "u32", 4), scalar("skip", "i32", 4)];
    let [i, n, skip, sum] = [0; 4].map(|_| b.register(RegisterClass::B32));
    let [more, is_skip, is_big, is_zero] = [0; 4].map(|_| b.register(RegisterClass::Predicate));
    let out = b.register(RegisterClass::B64);
    let label = b.label();
    let head = vec![
        b.op("ld.param.u32", 1, &[reg(n), at(Operand::Symbol("n".into()), 0)]),
        b.op("ld.param.u32", 1, &[reg(skip), at(Operand::Symbol("skip".into()), 0)]),
        b.op("mov.u32", 1, &[reg(i), int(0)]),
        b.op("mov.u32", 1, &[reg(sum), int(0)]),
    ];
    let test = b.op("setp.lt.u32", 1, &[reg(more), reg(i), reg(n)]);
    let leave = Statement::If {
        condition: more,
        then: vec![],
        otherwise: vec![Statement::Break(label, b.here())],
        location: b.here(),
    };
    let compare = b.op("setp.eq.s32", 1, &[reg(is_skip), reg(i), reg(skip)]);
    let next = Statement::If {
        condition: is_skip,
        then: vec![Statement::Continue(label, b.here())],
        otherwise: vec![],
        location: b.here(),
    };
    let compare_most = b.op("setp.gt.u32", 1, &[reg(is_big), reg(i), int(1000)]);
    let stop = Statement::If {
        condition: is_big,
        then: vec![Statement::Break(label, b.here())],
        otherwise: vec![],
        location: b.here(),
    };
    let add = b.op("add.u32", 1, &[reg(sum), reg(sum), reg(i)]);
    let step = vec![b.op("add.u32", 1, &[reg(i), reg(i), int(1)])];
    let repeat = Statement::Loop {
        label,
        body: vec![test, leave, compare, next, compare_most, stop, add],
        step,
        location: b.here(),
    };
    let zero = b.op("setp.eq.u32", 1, &[reg(is_zero), reg(sum), int(0)]);
    let load = b.op("ld.param.u64", 1, &[reg(out), at(Operand::Symbol("out".into()), 0)]);
    let store_sum = b.op("st.global.u32", 0, &[at(reg(out), 0), reg(sum)]);
    let store_ones = b.op("st.global.u32", 0, &[at(reg(out), 4), int(-1)]);
    let choice = Statement::If {
        condition: is_zero,
        then: vec![store_ones],
        otherwise: vec![store_sum],
        location: b.here(),
    };
    b.kernel.body = [head, vec![repeat, zero, load, choice]].concat();
    b.kernel
}

#[test]
fn control_flow_reads_well() {
    insta::assert_snapshot!(written(sm_80(), vec![counted_sum()]));
}

#[test]
fn every_architecture_takes_the_text() {
    for capability in &CAPABILITIES {
        let text = written(capability, vec![counted_sum()]);
        assert!(text.contains(&format!(".target {}\n", capability.target)));
    }
}

#[test]
fn printing_and_asserting() {
    let mut b = Builder::new("report");
    b.kernel.parameters = vec![scalar("count", "u32", 4), scalar("ratio", "f64", 8)];
    let (count, ratio, ok) = (
        b.register(RegisterClass::B32),
        b.register(RegisterClass::B64),
        b.register(RegisterClass::Predicate),
    );
    b.kernel.body = vec![
        b.op("ld.param.u32", 1, &[reg(count), at(Operand::Symbol("count".into()), 0)]),
        b.op("ld.param.f64", 1, &[reg(ratio), at(Operand::Symbol("ratio".into()), 0)]),
        Statement::Print { format: "hello\n".into(), arguments: vec![], location: b.here() },
        Statement::Print {
            format: "%d: %f \"quoted\"\n".into(),
            arguments: vec![(count, false), (ratio, true)],
            location: b.here(),
        },
        b.op("setp.ne.u32", 1, &[reg(ok), reg(count), int(0)]),
        Statement::Assert { condition: ok, message: "count is 100% wrong".into(), location: b.here() },
        Statement::Print { format: "hello\n".into(), arguments: vec![], location: b.here() },
    ];
    insta::assert_snapshot!(written(sm_80(), vec![b.kernel]));
}

#[test]
fn memory_parameters_and_launch_bounds() {
    let mut b = Builder::new("everything");
    b.kernel.parameters = vec![
        pointer("a"),
        Parameter {
            name: "packed".into(),
            ty: ParameterType::Pointer { element: "[f32; 3]", element_bytes: 12, writable: false },
        },
        Parameter {
            name: "map".into(),
            ty: ParameterType::TensorMaps { needs: vec![Default::default()], writable: false },
        },
        scalar("half", "bf16", 2),
        scalar("signed", "i64", 8),
        scalar("byte", "u8", 1),
        scalar("wide", "u128", 16),
        scalar("größe", "f32", 4),
        scalar("_", "f32", 4),
    ];
    let here = b.here();
    let memory =
        |name: &str, bytes, align| MemoryVariable { name: name.into(), bytes, align, location: here };
    b.kernel.shared = vec![memory("tile", 4096, 128)];
    b.kernel.local = vec![memory("stack", 64, 16)];
    b.kernel.dynamic_shared_align = Some(1024);
    b.kernel.launch = LaunchBounds {
        required_block: Some([128, 2, 1]),
        maximum_threads: Some(256),
        minimum_blocks_per_sm: Some(2),
        maximum_registers: None,
        cluster: Some([2, 1, 1]),
    };
    let (address, value, wide) =
        (b.register(RegisterClass::B64), b.register(RegisterClass::B32), b.register(RegisterClass::B64));
    b.kernel.body = vec![
        b.op("ld.param.f32", 1, &[reg(value), at(Operand::Symbol("größe".into()), 0)]),
        b.op("mov.u64", 1, &[reg(address), Operand::Symbol(DYNAMIC_SHARED.into())]),
        b.op("st.shared.f32", 0, &[at(reg(address), 16), reg(value)]),
        b.op("st.shared.f32", 0, &[at(Operand::Symbol("tile".into()), 8), Operand::F32(1.0f32.to_bits())]),
        b.op("mov.f64", 1, &[reg(wide), Operand::F64(2.0f64.to_bits())]),
        b.op("st.local.f64", 0, &[at(Operand::Symbol("stack".into()), 0), reg(wide)]),
        b.op("mov.u32", 1, &[reg(value), Operand::Special(Cow::Borrowed("%tid.x"))]),
    ];
    let capability = Capability::for_target("sm_90a").expect("in the table");
    let mut other = counted_sum();
    other.dynamic_shared_align = Some(16);
    insta::assert_snapshot!(written(capability, vec![b.kernel, other]));
}

fn body_text(kernel: Kernel) -> String {
    let text = written(sm_80(), vec![kernel]);
    let lines = text.lines().skip_while(|line| *line != "{");
    let code =
        lines.filter(|line| !line.trim_start().starts_with(".loc") && !line.trim_start().starts_with(".reg"));
    code.map(str::trim_start).collect::<Vec<_>>().join("\n")
}

/// A kernel whose statements are made from a predicate, a 32-bit register and two labels.
fn kernel_of(make: impl FnOnce(&mut Builder, Register, Register, Label, Label) -> Body) -> Kernel {
    let mut b = Builder::new("k");
    let (p, r) = (b.register(RegisterClass::Predicate), b.register(RegisterClass::B32));
    let (outer, inner) = (b.label(), b.label());
    let prologue =
        vec![b.op("mov.u32", 1, &[reg(r), int(0)]), b.op("setp.eq.u32", 1, &[reg(p), reg(r), int(1)])];
    let body = make(&mut b, p, r, outer, inner);
    b.kernel.body = [prologue, body].concat();
    b.kernel
}

#[test]
fn a_loop_tested_at_its_end_branches_back_on_the_condition() {
    let kernel = kernel_of(|b, p, r, label, _| {
        let body = vec![
            b.op("add.u32", 1, &[reg(r), reg(r), int(1)]),
            b.op("setp.gt.u32", 1, &[reg(p), reg(r), int(9)]),
            Statement::If {
                condition: p,
                then: vec![Statement::Break(label, b.here())],
                otherwise: vec![],
                location: b.here(),
            },
        ];
        vec![Statement::Loop { label, body, step: vec![], location: b.here() }]
    });
    insta::assert_snapshot!(body_text(kernel), @r"
    {
    mov.u32 %r0, 0;
    setp.eq.u32 %p0, %r0, 1;
    $loop1:
    add.u32 %r0, %r0, 1;
    setp.gt.u32 %p0, %r0, 9;
    @!%p0 bra $loop1;
    ret;
    }
    ");
}

#[test]
fn a_return_inside_a_branch_needs_no_label() {
    let kernel = kernel_of(|b, p, r, _, _| {
        vec![
            Statement::If {
                condition: p,
                then: vec![Statement::Return(b.here())],
                otherwise: vec![b.op("add.u32", 1, &[reg(r), reg(r), int(1)])],
                location: b.here(),
            },
            Statement::Return(b.here()),
            b.op("add.u32", 1, &[reg(r), reg(r), int(2)]),
        ]
    });
    insta::assert_snapshot!(body_text(kernel), @r"
    {
    mov.u32 %r0, 0;
    setp.eq.u32 %p0, %r0, 1;
    @%p0 ret;
    add.u32 %r0, %r0, 1;
    ret;
    }
    ");
}

#[test]
fn blocks_and_nested_loops_leave_where_they_say() {
    let kernel = kernel_of(|b, p, r, outer, inner| {
        let body = vec![
            b.op("add.u32", 1, &[reg(r), reg(r), int(1)]),
            Statement::Loop {
                label: inner,
                body: vec![
                    b.op("add.u32", 1, &[reg(r), reg(r), int(2)]),
                    Statement::If {
                        condition: p,
                        then: vec![
                            b.op("add.u32", 1, &[reg(r), reg(r), int(3)]),
                            Statement::Break(outer, b.here()),
                        ],
                        otherwise: vec![Statement::Continue(inner, b.here())],
                        location: b.here(),
                    },
                ],
                step: vec![],
                location: b.here(),
            },
        ];
        vec![Statement::Block { label: outer, body }]
    });
    insta::assert_snapshot!(body_text(kernel), @r"
    {
    mov.u32 %r0, 0;
    setp.eq.u32 %p0, %r0, 1;
    add.u32 %r0, %r0, 1;
    $loop1:
    add.u32 %r0, %r0, 2;
    @!%p0 bra $loop1;
    add.u32 %r0, %r0, 3;
    ret;
    }
    ");
}
