//! Kernel IR into a PTX syntax tree.

mod flow;
mod name;
mod system_call;
mod tidy;

use std::collections::BTreeMap;
use std::ops::Range;

use warpwright_arch::tensor_map::{TENSOR_MAP_ALIGN, TENSOR_MAP_BYTES};
use warpwright_ir::{
    self as ir, DYNAMIC_SHARED, Kernel, LaunchBounds, Location, MemoryVariable, ParameterType,
};

use crate::syntax::{
    Address, AddressBase, Function, Guard, Instruction, Linkage, MemoryObject, Module, Number, Opcode,
    Operand, PointerAttribute, SourceLocation, StateSpace, Statement, Type, Variable,
};
use flow::{Condition, Part, Step, Target};
use name::{RegisterNames, symbol};
use system_call::{Formats, SystemCalls, variable};

/// The PTX text of a module of kernels.
///
/// The same module always gives the same text. Every instruction follows the `.loc` of the author's
/// Rust line. A kernel's parameters, and its shared and local variables, keep the author's names;
/// an operand [`ir::Operand::Symbol`] refers to them by those names.
///
/// The kernels are taken as they are: `warpwright_ir::verify` is what finds their mistakes.
pub fn write(module: &ir::Module) -> String {
    crate::print(&lower(module))
}

/// The syntax tree of a module of kernels: what [`crate::parse`] makes of [`write()`]'s text, line
/// numbers apart.
pub fn lower(module: &ir::Module) -> Module {
    let mut files = Files::default();
    let mut formats = Formats::default();
    let kernels: Vec<Function> =
        module.kernels.iter().map(|kernel| lower_kernel(kernel, &mut files, &mut formats)).collect();
    let dynamic_align = module.kernels.iter().filter_map(|kernel| kernel.dynamic_shared_align).max();
    let dynamic_shared = dynamic_align.map(|align| Variable {
        linkage: Linkage::Extern,
        align: Some(align),
        dimensions: vec![None],
        ..variable(StateSpace::Shared, Type::B8, DYNAMIC_SHARED.to_owned())
    });
    Module {
        version: module.version(),
        target: vec![module.capability.target.to_owned()],
        address_size: 64,
        files: files.by_number(),
        functions: formats.declarations().chain(kernels).collect(),
        variables: dynamic_shared.into_iter().chain(formats.into_variables()).collect(),
        ..Module::default()
    }
}

/// Source files, numbered from 1 in the order they are first mentioned.
#[derive(Default)]
struct Files {
    paths: Vec<&'static str>,
}

impl Files {
    fn position(&mut self, location: Location) -> SourceLocation {
        let known = self.paths.iter().position(|path| *path == location.file);
        let index = known.unwrap_or_else(|| {
            self.paths.push(location.file);
            self.paths.len() - 1
        });
        SourceLocation { file: index as u32 + 1, line: location.line, column: location.column }
    }

    fn by_number(self) -> BTreeMap<u32, String> {
        (1..).zip(self.paths.into_iter().map(|path| path.replace(['"', '\n'], "_"))).collect()
    }
}

fn lower_kernel(kernel: &Kernel, files: &mut Files, formats: &mut Formats) -> Function {
    let mut steps = flow::linearize(&kernel.body);
    let end = last_location(&kernel.body).unwrap_or(Location { file: "", line: 0, column: 0 });
    steps.push(Step::Return(None, end));
    tidy::tidy(&mut steps);

    let mut writer = KernelWriter {
        kernel: &kernel.name,
        registers: RegisterNames::new(&kernel.registers),
        arrays: &kernel.dynamic_arrays,
        targets: BTreeMap::new(),
        calls: SystemCalls::default(),
        files,
        formats,
        location: None,
        statements: Vec::new(),
    };
    steps.iter().for_each(|step| writer.step(step));

    let shared = kernel.shared.iter().map(|memory| memory_variable(StateSpace::Shared, memory));
    let local = kernel.local.iter().map(|memory| memory_variable(StateSpace::Local, memory));
    let registers = writer.registers.declarations().map(|(prefix, ty, count)| Variable {
        numbered: Some(count),
        ..variable(StateSpace::Register, ty, prefix.to_owned())
    });
    let declarations =
        registers.chain(shared).chain(local).chain(writer.calls.buffer()).map(Statement::Variable);
    let body = declarations.chain(writer.statements).collect();
    let pointers = kernel.parameters.iter().filter_map(pointed_at);
    let objects = kernel.objects.iter().map(|object| memory_object(object, files));
    let objects = objects.chain(pointers).collect();
    Function {
        is_entry: true,
        linkage: Linkage::Visible,
        name: symbol(&kernel.name),
        returns: Vec::new(),
        parameters: kernel.parameters.iter().map(parameter).collect(),
        attributes: Vec::new(),
        directives: launch_directives(&kernel.launch),
        objects,
        body: Some(body),
        line: 0,
    }
}

/// The position of the last statement of `body`, for the `ret` after it.
fn last_location(body: &[ir::Statement]) -> Option<Location> {
    match body.last()? {
        ir::Statement::Instruction(instruction) => Some(instruction.location),
        ir::Statement::Block { body, .. } => last_location(body),
        ir::Statement::If { location, .. }
        | ir::Statement::Loop { location, .. }
        | ir::Statement::Break(_, location)
        | ir::Statement::Continue(_, location)
        | ir::Statement::Return(location)
        | ir::Statement::Print { location, .. }
        | ir::Statement::Assert { location, .. } => Some(*location),
    }
}

fn memory_variable(space: StateSpace, memory: &MemoryVariable) -> Variable {
    Variable {
        align: Some(memory.align),
        dimensions: vec![Some(memory.bytes)],
        ..variable(space, Type::B8, symbol(&memory.name))
    }
}

fn memory_object(object: &ir::MemoryObject, files: &mut Files) -> MemoryObject {
    MemoryObject {
        symbol: symbol(&object.symbol),
        offset: object.offset,
        element: object.element.to_owned(),
        element_bits: object.element_bits,
        layout: Some(object.layout.clone()),
        is_staged: object.is_staged,
        location: (object.location.line > 0).then(|| files.position(object.location)),
    }
}

/// What a pointer among the parameters points at.
fn pointed_at(parameter: &ir::Parameter) -> Option<MemoryObject> {
    match parameter.ty {
        ParameterType::Pointer { element, element_bytes, .. } if element_bytes > 0 => Some(MemoryObject {
            symbol: symbol(&parameter.name),
            offset: 0,
            element: element.to_owned(),
            element_bits: 8 * element_bytes,
            layout: None,
            is_staged: false,
            location: None,
        }),
        _ => None,
    }
}

fn parameter(parameter: &ir::Parameter) -> Variable {
    let bare = |ty| variable(StateSpace::Parameter, ty, symbol(&parameter.name));
    let bytes = |size: u32, align: u32| Variable {
        align: Some(align),
        dimensions: vec![Some(size.into())],
        ..bare(Type::B8)
    };
    match &parameter.ty {
        ParameterType::Pointer { element_bytes, .. } => Variable {
            pointer: Some(PointerAttribute {
                space: Some(StateSpace::Global),
                // The largest power of two that divides the element's size: what every element is
                // aligned to.
                align: 1 << (*element_bytes).max(1).trailing_zeros(),
            }),
            ..bare(Type::U64)
        },
        ParameterType::Scalar { name, bytes: size } => match scalar_type(name, *size) {
            Some(ty) => bare(ty),
            None => bytes(*size, size.next_power_of_two().min(16)),
        },
        ParameterType::Bytes { size, align } => bytes(*size, *align),
        ParameterType::TensorMaps { needs, .. } => {
            bytes((needs.len() * TENSOR_MAP_BYTES) as u32, TENSOR_MAP_ALIGN as u32)
        }
    }
}

/// The PTX type of a scalar parameter: its own where PTX has one for parameters, else bits of its
/// size.
fn scalar_type(name: &str, bytes: u32) -> Option<Type> {
    let rust_name = name.strip_prefix('i').map(|width| format!("s{width}"));
    let own = Type::from_word(rust_name.as_deref().unwrap_or(name));
    let is_plain = |ty: &Type| {
        use Type::{F32, F64, S8, S16, S32, S64, U8, U16, U32, U64};
        matches!(ty, U8 | U16 | U32 | U64 | S8 | S16 | S32 | S64 | F32 | F64) && ty.bytes() == bytes
    };
    own.filter(is_plain).or(match bytes {
        1 => Some(Type::B8),
        2 => Some(Type::B16),
        4 => Some(Type::B32),
        8 => Some(Type::B64),
        _ => None,
    })
}

fn launch_directives(launch: &LaunchBounds) -> Vec<(String, Vec<i64>)> {
    let extents = |[x, y, z]: [u32; 3]| vec![x.into(), y.into(), z.into()];
    // `.reqntid` says all that `.maxntid` could, and PTX does not take both.
    let threads = launch.maximum_threads.filter(|_| launch.required_block.is_none());
    let directives = [
        ("reqntid", launch.required_block.map(extents)),
        ("maxntid", threads.map(|count| vec![count.into()])),
        ("minnctapersm", launch.minimum_blocks_per_sm.map(|count| vec![count.into()])),
        ("maxnreg", launch.maximum_registers.map(|count| vec![count.into()])),
        ("reqnctapercluster", launch.cluster.map(extents)),
    ];
    directives.into_iter().filter_map(|(word, numbers)| Some((word.to_owned(), numbers?))).collect()
}

struct KernelWriter<'a> {
    kernel: &'a str,
    registers: RegisterNames<'a>,
    arrays: &'a [ir::DynamicArray],
    /// Construct numbers as the labels show them: counted in the order of the text.
    targets: BTreeMap<u32, usize>,
    calls: SystemCalls,
    files: &'a mut Files,
    formats: &'a mut Formats,
    location: Option<SourceLocation>,
    statements: Vec<Statement>,
}

impl KernelWriter<'_> {
    fn step(&mut self, step: &Step<'_>) {
        match step {
            Step::Target(target) => {
                let label = self.label(*target);
                self.statements.push(Statement::Label(label));
            }
            Step::Branch(condition, target, location) => {
                // A branch that every lane takes is uniform by nature; for others nothing is
                // promised.
                let opcode = if condition.is_none() { "bra.uni" } else { "bra" };
                let label = Operand::Name(self.label(*target));
                self.instruction(*condition, opcode, vec![label], None, *location);
            }
            Step::Return(condition, location) => {
                self.instruction(*condition, "ret", Vec::new(), None, *location);
            }
            Step::Instruction(instruction) => {
                let ir::Instruction { guard, opcode, location, .. } = instruction;
                let operands = instruction.operands.iter().map(|operand| self.operand(operand)).collect();
                let array = instruction.operands.iter().find_map(|operand| self.dynamic_array(operand));
                let part = array.map(|array| array.offset..array.offset + array.bytes);
                self.instruction(*guard, opcode, operands, part, *location);
            }
            Step::Print(format, arguments, location) => {
                let arguments: Vec<_> = arguments.iter().map(|(register, _)| *register).collect();
                self.print(format, &arguments, *location);
            }
            Step::Fail(message, location) => self.fail(message, *location),
        }
    }

    fn print(&mut self, format: &str, arguments: &[ir::Register], location: Location) {
        self.move_to(location);
        let call = self.calls.print(format, arguments, self.formats, &mut self.registers, self.location);
        self.statements.push(call);
    }

    /// Says where and for which thread the assertion failed, and ends the kernel.
    fn fail(&mut self, message: &str, location: Location) {
        self.move_to(location);
        let place = (location.file, location.line);
        let call = system_call::fail((message, self.kernel), place, self.formats, self.location);
        self.statements.push(call);
        // ptxas does not know that the function never returns.
        self.instruction(None, "trap", Vec::new(), None, location);
    }

    fn instruction(
        &mut self,
        guard: Option<Condition>,
        opcode: &str,
        operands: Vec<Operand>,
        part: Option<Range<u64>>,
        location: Location,
    ) {
        self.move_to(location);
        let guard = guard
            .map(|(register, value)| Guard { predicate: self.registers.name(register), negated: !value });
        self.statements.push(Statement::Instruction(Instruction {
            guard,
            opcode: Opcode::new(opcode),
            operands,
            line: 0,
            location: self.location,
            inlined: None,
            part,
        }));
    }

    /// Writes a `.loc` where the source position changes.
    fn move_to(&mut self, location: Location) {
        if location.line == 0 {
            return;
        }
        let position = self.files.position(location);
        if self.location != Some(position) {
            self.location = Some(position);
            self.statements.push(Statement::Location(position));
        }
    }

    fn label(&mut self, target: Target) -> String {
        let next = self.targets.len() + 1;
        let number = *self.targets.entry(target.construct).or_insert(next);
        let part = match target.part {
            Part::Loop => "loop",
            Part::Step => "step",
            Part::Else => "else",
            Part::End => "end",
        };
        format!("${part}{number}")
    }

    /// The array of the dynamic shared memory that an operand names.
    fn dynamic_array(&self, operand: &ir::Operand) -> Option<&ir::DynamicArray> {
        let ir::Operand::Symbol(name) = operand else { return None };
        self.arrays.iter().find(|array| array.name == *name)
    }

    fn operand(&mut self, operand: &ir::Operand) -> Operand {
        match operand {
            ir::Operand::Register(register) => Operand::Name(self.registers.name(*register)),
            // PTX integers are 64 bits of two's complement, signed or not.
            ir::Operand::Integer(value) => Operand::Number(Number::Integer(*value as i64)),
            ir::Operand::F32(bits) => Operand::Number(Number::F32(*bits)),
            ir::Operand::F64(bits) => Operand::Number(Number::F64(*bits)),
            ir::Operand::Special(name) => Operand::Name(name.to_string()),
            ir::Operand::Symbol(_) if self.dynamic_array(operand).is_some() => {
                Operand::Name(DYNAMIC_SHARED.to_owned())
            }
            ir::Operand::Symbol(name) => Operand::Name(symbol(name)),
            ir::Operand::Address { base, offset, rest } => self.address(base, *offset, rest),
            ir::Operand::Vector(elements) => {
                Operand::Vector(elements.iter().map(|element| self.operand(element)).collect())
            }
            ir::Operand::Not(register) => Operand::Not(self.registers.name(*register)),
            ir::Operand::Pair(first, second) => {
                let [first, second] =
                    [*first, *second].map(|register| Operand::Name(self.registers.name(register)));
                Operand::Pair(Box::new(first), Box::new(second))
            }
            ir::Operand::Sink => Operand::Sink,
        }
    }

    fn address(&mut self, base: &ir::Operand, offset: i64, rest: &[ir::Operand]) -> Operand {
        let (base, offset) = match self.operand(base) {
            Operand::Name(name) => (AddressBase::Name(name), offset),
            Operand::Number(Number::Integer(number)) => {
                (AddressBase::Absolute(number.wrapping_add(offset)), 0)
            }
            other => (AddressBase::Name(other.to_string()), offset),
        };
        let rest = rest.iter().map(|operand| self.operand(operand)).collect();
        Operand::Address(Address { base, offset, rest })
    }
}
