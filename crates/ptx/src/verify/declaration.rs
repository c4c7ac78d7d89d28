//! Declarations: the head of a module, variables, and the directives of functions.

use warpwright_arch::{Features, Target};

use super::initial::{Meanings, initial_values, is_opaque};
use super::names::{Meaning, Scope};
use crate::syntax::{Function, Linkage, Module, StateSpace, Type, Variable};

/// The last minor version of each major version of PTX, from 1.
const LAST_MINOR: [u32; 9] = [5, 3, 2, 3, 1, 5, 8, 8, 5];

/// The newest PTX version whose targets are known.
const NEWEST: (u32, u32) = (9, 0);

/// Words of `.target` beside an architecture.
const OPTIONS: [&str; 4] = ["texmode_unified", "texmode_independent", "debug", "map_f64_to_f32"];

/// The first architecture with f64: sm_13.
const FIRST_WITH_F64: u32 = 13;

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
    let has = |word: &str| module.target.iter().any(|own| own == word);
    if has("texmode_unified") && has("texmode_independent") {
        return Err("`.target` has both texmode_unified and texmode_independent: remove one.".to_owned());
    }
    if let Some(word) = module.target.first().filter(|_| has("map_f64_to_f32"))
        && let Some(target) = Target::parse(&word.replacen("compute_", "sm_", 1))
        && target.architecture() >= FIRST_WITH_F64
    {
        return Err(format!(
            "`map_f64_to_f32` is for targets without f64, before sm_13, and the module is for {target}."
        ));
    }
    if module.target.iter().all(|word| OPTIONS.contains(&word.as_str())) {
        return Err("`.target` names no architecture, such as sm_90.".to_owned());
    }
    match module.address_size {
        64 => Ok(()),
        32 => Err("`.address_size 32`: devices have addresses of 64 bits, so write 64.".to_owned()),
        other => Err(format!("`.address_size {other}` does not exist: write 64.")),
    }
}

/// Checks a variable.
pub(super) fn variable(variable: &Variable, meaning: Meanings<'_, '_>) -> Result<(), String> {
    let name = &variable.name;
    let space = variable.space;
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
    if variable.ty == Type::Pred && variable.vector > 1 {
        return Err(format!("The predicate `{name}` is a scalar: vectors have other registers."));
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
        Some(values) => initial_values(variable, values, meaning),
    }
}

/// Whether it is an array without an extent.
pub(super) fn is_open(variable: &Variable) -> bool {
    variable.dimensions.first().is_some_and(Option::is_none)
}

/// Its size.
pub(super) fn bytes(variable: &Variable) -> u64 {
    let elements: u64 = variable.dimensions.iter().map(|extent| extent.unwrap_or(1)).product();
    elements * u64::from(variable.ty.bytes() * variable.vector)
}

/// Bytes of the .const variables of a module, at most.
const CONSTANT_BYTES: u64 = 1 << 16;

/// Checks that a function may have a variable.
pub(super) fn of_function(variable: &Variable) -> Result<(), String> {
    match variable.space {
        StateSpace::Texture => {
            Err(format!("`{}` is in .tex, whose variables are declared outside of functions.", variable.name))
        }
        _ if is_opaque(variable.ty) => Err(format!(
            "`{}` is a .{}, which a module declares, or a kernel as a parameter.",
            variable.name,
            variable.ty.word()
        )),
        _ => Ok(()),
    }
}

/// Checks what a variable of the module needs of the whole; `constants` is the bytes of its .const
/// variables so far.
pub(super) fn of_module(variable: &Variable, module: &Module, constants: &mut u64) -> Result<(), String> {
    let name = &variable.name;
    match variable.space {
        // Before functions had stacks, such a variable was of the thread.
        StateSpace::Register | StateSpace::Local if module.version >= (3, 0) => {
            return Err(format!(".{} variables are declared in functions.", variable.space.word()));
        }
        StateSpace::Parameter => {
            return Err("A parameter belongs to a function: declare it in its parentheses.".to_owned());
        }
        _ => {}
    }
    if variable.space == StateSpace::Texture && module.version >= (1, 5) {
        return Err(format!(
            "`{name}` is in .tex, which PTX has before version 1.5: write `.global .texref`."
        ));
    }
    if is_opaque(variable.ty) && variable.space != StateSpace::Global {
        return Err(format!("`{name}` is a .{}, which only .global variables are.", variable.ty.word()));
    }
    if variable.ty == Type::SamplerRef && !module.target.iter().any(|word| word == "texmode_independent") {
        return Err(format!("`{name}` is a sampler, which needs `.target ..., texmode_independent`."));
    }
    if variable.space == StateSpace::Constant && variable.linkage != Linkage::Extern {
        *constants = constants.saturating_add(bytes(variable));
    }
    if *constants > CONSTANT_BYTES && variable.space == StateSpace::Constant {
        return Err(format!(
            "The .const variables take {constants} bytes; a module may have {CONSTANT_BYTES}."
        ));
    }
    Ok(())
}

/// Checks `.alias alias, function;`.
pub(super) fn alias(alias: &str, function: &str, scope: &Scope<'_>) -> Result<(), String> {
    let of = |name: &str| match scope.get(name) {
        Some(Meaning::Function(function)) => Ok(function),
        _ => Err(format!("`{name}` is not a function of the module.")),
    };
    let (own, other) = (of(alias)?, of(function)?);
    if own.body.is_some() {
        return Err(format!("The alias `{alias}` has a body: only declare it."));
    }
    if other.body.is_none() {
        return Err(format!("`{function}` has no body, and the alias `{alias}` stands for it."));
    }
    if is_same_type(own, other) {
        Ok(())
    } else {
        Err(format!("`{alias}` and `{function}` have different parameters."))
    }
}

/// Whether two functions have parameters and results of the same types.
pub(super) fn is_same_type(a: &Function, b: &Function) -> bool {
    let is_same = |(a, b): (&Variable, &Variable)| {
        (a.space, a.ty, a.vector, a.align, &a.dimensions) == (b.space, b.ty, b.vector, b.align, &b.dimensions)
    };
    let same = |a: &[Variable], b: &[Variable]| a.len() == b.len() && a.iter().zip(b).all(is_same);
    same(&a.returns, &b.returns) && same(&a.parameters, &b.parameters)
}

/// Checks a formal parameter.
pub(super) fn parameter(variable: &Variable, function: &Function) -> Result<(), String> {
    let name = &variable.name;
    if !matches!(variable.space, StateSpace::Parameter | StateSpace::Register) {
        return Err(format!("`{name}` is in .{}; parameters are in .param.", variable.space.word()));
    }
    if function.is_entry && variable.space == StateSpace::Register {
        return Err(format!(
            "`{name}` is a parameter of a kernel, which is a .param variable, not a register."
        ));
    }
    if variable.ty == Type::Pred && variable.space != StateSpace::Register {
        return Err(format!("The predicate `{name}` can only be a register."));
    }
    if variable.vector > 1 && variable.space == StateSpace::Parameter {
        return Err(format!(
            "`{name}` is a vector, which a .param variable is not: write an array of bytes."
        ));
    }
    let is_last = function.parameters.last().is_some_and(|last| std::ptr::eq(last, variable));
    if is_open(variable) && (function.is_entry || !is_last) {
        return Err(format!(
            "The array `{name}` has no extent, as only the last parameter of a function may."
        ));
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

/// The numbers that directives take, at least and at most.
const COUNTS: [(&str, usize, usize); 10] = [
    ("maxntid", 1, 3),
    ("reqntid", 1, 3),
    ("reqnctapercluster", 1, 3),
    ("maxnreg", 1, 1),
    ("minnctapersm", 1, 1),
    ("maxnctapersm", 1, 1),
    ("maxclusterrank", 1, 1),
    ("explicitcluster", 0, 0),
    ("blocksareclusters", 0, 0),
    ("noreturn", 0, 0),
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
        let count = COUNTS.iter().find(|(own, ..)| *own == word);
        if let Some((_, least, most)) =
            count.filter(|(_, least, most)| !(*least..=*most).contains(&numbers.len()))
        {
            let counts = if least == most { most.to_string() } else { format!("{least} to {most}") };
            return Err(format!("`.{word}` takes {counts} numbers, and has {}.", numbers.len()));
        }
        if word == "maxnctapersm" && version > (2, 0) {
            return Err("`.maxnctapersm` exists in PTX 2.0 and before: write `.minnctapersm`.".to_owned());
        }
        if function.is_entry && word.starts_with("abi_preserve") {
            return Err(format!(
                "`.{word}` is a directive of functions, and `{}` is a kernel.",
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
    if has("blocksareclusters") && !(has("reqntid") && has("reqnctapercluster")) {
        return Err("`.blocksareclusters` stands with `.reqntid` and `.reqnctapercluster`.".to_owned());
    }
    if function.returns.len() > 1 && function.returns.iter().any(|own| own.space != StateSpace::Register) {
        return Err(format!("`{}` has several results, which are registers: write .reg.", function.name));
    }
    if function.body.is_some() && function.linkage == Linkage::Extern {
        return Err(format!("`{}` is .extern: its body stands in another module.", function.name));
    }
    match EXCLUSIVE.iter().find(|(a, b)| has(a) && has(b)) {
        Some((a, b)) => Err(format!("`.{a}` and `.{b}` cannot both be given: remove one.")),
        None => Ok(()),
    }
}
