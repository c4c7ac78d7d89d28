//! Declarations: the head of a module, variables, and the directives of functions.

use warpwright_arch::{Features, Target};

use super::names::Meaning;
use crate::syntax::{Function, Initializer, Linkage, Module, Number, StateSpace, Type, Variable};

/// The last minor version of each major version of PTX, from 1.
const LAST_MINOR: [u32; 9] = [5, 3, 2, 3, 1, 5, 8, 8, 5];

/// The newest PTX version whose targets are known.
const NEWEST: (u32, u32) = (9, 0);

/// Words of `.target` beside an architecture.
const OPTIONS: [&str; 4] = ["texmode_unified", "texmode_independent", "debug", "map_f64_to_f32"];

/// Bits of a vector variable, at most.
const VECTOR_BITS: u32 = 128;

/// Checks `.version`, `.target` and `.address_size`.
pub(super) fn head(module: &Module) -> Result<(), String> {
    let (major, minor) = module.version;
    let last = LAST_MINOR.get(major.wrapping_sub(1) as usize);
    if last.is_none_or(|last| minor > *last) {
        return Err(format!("PTX has no version {major}.{minor}."));
    }
    for word in &module.target {
        if OPTIONS.contains(&word.as_str()) {
            continue;
        }
        // `compute_90` is another name of sm_90.
        let architecture = word.replacen("compute_", "sm_", 1);
        let target = Target::parse(&architecture).ok_or_else(|| {
            format!("`.target {word}` names no architecture, such as sm_90, and no option.")
        })?;
        match target.ptx_version() {
            Some(first) if module.version < first => {
                let (first_major, first_minor) = first;
                return Err(format!(
                    "`.target {word}` needs PTX {first_major}.{first_minor} or later, and the module is PTX \
                     {major}.{minor}: raise `.version`."
                ));
            }
            None if module.version <= NEWEST => {
                return Err(format!("PTX {major}.{minor} has no target `{word}`."));
            }
            _ => {}
        }
    }
    match module.address_size {
        64 => Ok(()),
        32 => Err("`.address_size 32`: devices have addresses of 64 bits, so write 64.".to_owned()),
        other => Err(format!("`.address_size {other}` does not exist: write 64.")),
    }
}

/// Checks a variable.
pub(super) fn variable(
    variable: &Variable,
    meaning: Meanings<'_, '_>,
    at_module_scope: bool,
) -> Result<(), String> {
    let name = &variable.name;
    let space = variable.space;
    if at_module_scope {
        match space {
            StateSpace::Register | StateSpace::Local => {
                return Err(format!(".{} variables are declared in functions.", space.word()));
            }
            StateSpace::Parameter => {
                return Err("A parameter belongs to a function: declare it in its parentheses.".to_owned());
            }
            _ => {}
        }
    }
    if matches!(variable.ty, Type::Bf16 | Type::Bf16x2 | Type::Tf32 | Type::E4m3 | Type::E5m2) {
        let bits = variable.ty.bytes() * 8;
        return Err(format!(
            ".{} is a type of instructions only: declare `{name}` with .b{bits}.",
            variable.ty.word()
        ));
    }
    if variable.ty == Type::Pred && space != StateSpace::Register {
        return Err(format!("The predicate `{name}` can only be a register."));
    }
    if variable.vector > 4 || variable.vector > 1 && variable.vector * variable.ty.bytes() * 8 > VECTOR_BITS {
        return Err(format!("The vector `{name}` has more than {VECTOR_BITS} bits or 4 elements."));
    }
    if space == StateSpace::Register && !variable.dimensions.is_empty() {
        return Err(format!("`{name}` is a register, which cannot be an array: write `{name}<N>`."));
    }
    if variable.linkage == Linkage::Common && space != StateSpace::Global {
        return Err(format!("`{name}` is .common, which only .global variables are."));
    }
    let is_managed = variable.attributes.iter().any(|attribute| attribute == "managed");
    if is_managed && space != StateSpace::Global {
        return Err(format!("`{name}` is managed, which only .global variables are."));
    }
    let has_no_extent =
        variable.dimensions.iter().any(|dimension| dimension.is_none_or(|extent| extent == 0));
    let is_complete = variable.initializer.is_some() || variable.linkage == Linkage::Extern;
    if has_no_extent && !is_complete && space != StateSpace::Parameter {
        return Err(format!("The array `{name}` has no extent: write one in its brackets."));
    }
    match &variable.initializer {
        None => Ok(()),
        Some(values) => initializer(variable, values, meaning),
    }
}

/// What a name means where a variable is declared.
type Meanings<'a, 'm> = &'a dyn Fn(&str) -> Option<Meaning<'m>>;

fn initializer(variable: &Variable, values: &[Initializer], meaning: Meanings<'_, '_>) -> Result<(), String> {
    let name = &variable.name;
    if !matches!(variable.space, StateSpace::Global | StateSpace::Constant | StateSpace::Texture) {
        return Err(format!(
            "`{name}` is in .{}, whose variables have no initial value: store one in the kernel.",
            variable.space.word()
        ));
    }
    if variable.linkage == Linkage::Extern {
        return Err(format!("`{name}` is .extern: its initial value stands at its definition."));
    }
    values.iter().try_for_each(|value| initial_value(variable, value, meaning))
}

fn initial_value(variable: &Variable, value: &Initializer, meaning: Meanings<'_, '_>) -> Result<(), String> {
    let name = &variable.name;
    match value {
        Initializer::Group(inner) => {
            inner.iter().try_for_each(|value| initial_value(variable, value, meaning))
        }
        Initializer::Number(number) => {
            let is_float = matches!(variable.ty, Type::F16 | Type::F32 | Type::F64);
            let is_integer = matches!(
                variable.ty,
                Type::U8 | Type::U16 | Type::U32 | Type::U64 | Type::S8 | Type::S16 | Type::S32 | Type::S64
            );
            match number {
                Number::Integer(_) if is_float => Err(format!(
                    "`{name}` has the type .{}, and an integer as initial value.",
                    variable.ty.word()
                )),
                Number::F32(_) | Number::F64(_) if is_integer => Err(format!(
                    "`{name}` has the type .{}, and a floating-point literal as initial value.",
                    variable.ty.word()
                )),
                _ => Ok(()),
            }
        }
        Initializer::Address { symbol, .. } => match meaning(symbol) {
            Some(Meaning::Variable(StateSpace::Global | StateSpace::Constant) | Meaning::Function(_)) => {
                Ok(())
            }
            Some(Meaning::Variable(space)) => Err(format!(
                "The initial value of `{name}` is the address of `{symbol}`, which is in .{} and has none when the \
                 module is loaded.",
                space.word()
            )),
            _ => Err(format!("The initial value of `{name}` names `{symbol}`, which is not declared.")),
        },
    }
}

/// Checks a formal parameter.
pub(super) fn parameter(variable: &Variable, function: &Function) -> Result<(), String> {
    let name = &variable.name;
    if function.is_entry && variable.space == StateSpace::Register {
        return Err(format!(
            "`{name}` is a parameter of a kernel, which is a .param variable, not a register."
        ));
    }
    if variable.ty == Type::Pred && variable.space != StateSpace::Register {
        return Err(format!("The predicate `{name}` can only be a register."));
    }
    Ok(())
}

/// Directives that bound the launches of a kernel, and so are not of functions.
const OF_KERNELS: [&str; 9] = [
    "maxnreg",
    "maxntid",
    "reqntid",
    "minnctapersm",
    "maxnctapersm",
    "reqnctapercluster",
    "maxclusterrank",
    "explicitcluster",
    "blocksareclusters",
];

/// Directives with numbers that are at least 1.
const POSITIVE: [&str; 5] = ["maxnreg", "maxntid", "reqntid", "minnctapersm", "maxnctapersm"];

/// Directives that do not stand together.
const EXCLUSIVE: [(&str, &str); 2] = [("maxntid", "reqntid"), ("reqnctapercluster", "maxclusterrank")];

/// Checks the directives of a function.
pub(super) fn function(
    function: &Function,
    version: (u32, u32),
    target: Option<Target>,
) -> Result<(), String> {
    let has = |word: &str| function.directives.iter().any(|(own, _)| own == word);
    for (word, numbers) in &function.directives {
        let word = word.as_str();
        if !function.is_entry && OF_KERNELS.contains(&word) {
            return Err(format!(
                "`.{word}` is a directive of kernels, and `{}` is a function.",
                function.name
            ));
        }
        if POSITIVE.contains(&word) && numbers.iter().any(|number| *number < 1) {
            return Err(format!("`.{word}` takes numbers from 1 on."));
        }
        let is_of_clusters =
            matches!(word, "reqnctapercluster" | "maxclusterrank" | "explicitcluster" | "blocksareclusters");
        let hopper = Target { number: 90, features: Features::Baseline };
        let is_later = version >= (7, 8) && target.is_none_or(|target| target.has_features_of(hopper));
        if is_of_clusters && !is_later {
            return Err(format!("`.{word}` exists in PTX 7.8 or later on sm_90 or later."));
        }
    }
    if function.is_entry && has("noreturn") {
        return Err("`.noreturn` is a directive of functions; a kernel returns to the host.".to_owned());
    }
    match EXCLUSIVE.iter().find(|(a, b)| has(a) && has(b)) {
        Some((a, b)) => Err(format!("`.{a}` and `.{b}` cannot both be given: remove one.")),
        None => Ok(()),
    }
}
