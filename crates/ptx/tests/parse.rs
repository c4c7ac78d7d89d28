//! The parser, construct by construct.

use warpwright_ptx::syntax::{
    Address, AddressBase, CallSite, Function, Initializer, Instruction, Linkage, Module, Number, Operand,
    PointerAttribute, SourceLocation, StateSpace, Statement, Type,
};
use warpwright_ptx::{ParseError, parse, print};

fn module(text: &str) -> Module {
    let text = format!(".version 9.0\n.target sm_90a, debug\n.address_size 64\n{text}");
    let module = parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let (mut before, mut after) =
        (module.clone(), parse(&print(&module)).unwrap_or_else(|error| panic!("{error}")));
    before.erase_lines();
    after.erase_lines();
    assert_eq!(before, after, "printed text parses to another tree:\n{}", print(&module));
    module
}

fn body(text: &str) -> Vec<Statement> {
    let mut functions = module(&format!(".entry k() {{ {text} }}")).functions;
    functions.remove(0).body.expect("a body")
}

fn instruction(text: &str) -> Instruction {
    match body(text).remove(0) {
        Statement::Instruction(instruction) => instruction,
        other => panic!("not an instruction: {other:?}"),
    }
}

fn refused(text: &str) -> ParseError {
    parse(text).expect_err("this is not PTX")
}

fn name(text: &str) -> Operand {
    Operand::Name(text.to_owned())
}

fn address(base: &str, offset: i64, rest: Vec<Operand>) -> Operand {
    Operand::Address(Address { base: AddressBase::Name(base.to_owned()), offset, rest })
}

fn number(text: &str) -> Number {
    match &instruction(&format!("mov.b64 %rd1, {text};")).operands[1] {
        Operand::Number(number) => *number,
        other => panic!("{text} is {other:?}"),
    }
}

#[test]
fn header_is_kept() {
    let module = module(".file 1 \"a/b.cu\"\n.file 2 \"c.cu\", 1234, 99\n.pragma \"x\";");
    assert_eq!((module.version, module.address_size), ((9, 0), 64));
    assert_eq!(module.target, ["sm_90a", "debug"]);
    assert_eq!(module.files[&1], "a/b.cu");
    assert_eq!(module.files[&2], "c.cu");
    assert_eq!(module.pragmas, ["x"]);
}

#[test]
fn header_is_demanded() {
    assert_eq!(refused("").expected, "`.version` first in a module");
    assert_eq!(refused(".version 9.0\n").expected, "`.target` after `.version`");
    assert_eq!(refused(".version nine").expected, "a version such as `9.0`");
    assert_eq!(parse(".version 8.5 .target sm_80").map(|module| module.address_size), Ok(64));
}

#[test]
fn integers_in_every_radix() {
    let cases: [(&str, i64); 12] = [
        ("0", 0),
        ("-1", -1),
        ("0x1F", 31),
        ("0XffffffffFFFFFFFF", -1),
        ("017", 15),
        ("0b101", 5),
        ("12U", 12),
        ("0xFFU", 255),
        ("18446744073709551615", -1),
        ("9223372036854775808", i64::MIN),
        ("-9223372036854775808", i64::MIN),
        ("WARP_SZ", 32),
    ];
    for (text, value) in cases {
        assert_eq!(number(text), Number::Integer(value), "{text}");
    }
}

#[test]
fn floats_as_bits_and_in_decimal() {
    assert_eq!(number("0f3F800000"), Number::F32(0x3F80_0000));
    assert_eq!(number("0F7fc00000"), Number::F32(0x7FC0_0000));
    assert_eq!(number("0d3FF0000000000000"), Number::F64(1.0f64.to_bits()));
    for (text, value) in [("1.5", 1.5), ("-2.25", -2.25), ("1e3", 1000.0), ("2.5E-1", 0.25), ("1e+2", 100.0)]
    {
        assert_eq!(number(text), Number::F64(f64::to_bits(value)), "{text}");
    }
}

#[test]
fn constant_expressions_follow_c() {
    let cases: [(&str, i64); 18] = [
        ("(1<<3)+2", 10),
        ("2+3*4", 14),
        ("(2+3)*4", 20),
        ("7-2-1", 4),
        ("-(3)", -3),
        ("~0", -1),
        ("!5", 0),
        ("!0 + 1", 2),
        ("1 ? 2 : 3", 2),
        ("0 ? 2 : 1 ? 4 : 5", 4),
        ("7 % 4 | 8", 11),
        ("6 & 3 ^ 1", 3),
        ("1 << 2 >> 1", 2),
        ("3 <= 3 && 2 != 2 || 1", 1),
        ("-1 >> 1", -1),
        ("-1U >> 63", 1),
        ("(.u64)-1 / 2", i64::MAX),
        ("4 * WARP_SZ", 128),
    ];
    for (text, value) in cases {
        assert_eq!(number(text), Number::Integer(value), "{text}");
    }
    assert_eq!(number("1.5 * 2 + 1"), Number::F64(4.0f64.to_bits()));
}

#[test]
fn numbers_that_are_none_are_refused() {
    for text in [
        "0x",
        "08",
        "1..2",
        "0f3F8",
        "0d00",
        "99999999999999999999",
        "1/0",
        "1%0",
        "5Q",
        "0b2",
        "1 +",
        "0fzzzzzzzz",
    ] {
        let text = format!(".version 9.0 .target sm_80 .entry k() {{ mov.b32 %r1, {text}; }}");
        assert!(parse(&text).is_err(), "{text}");
    }
}

#[test]
fn operands_of_every_kind() {
    let wgmma =
        instruction("op %r1, -8, {a, _, 3}, !%p1, p|q, %p|_, _|%q, table+8, %tid.x, _, [%rd1+-16], [64];");
    assert_eq!(
        wgmma.operands,
        [
            name("%r1"),
            Operand::Number(Number::Integer(-8)),
            Operand::Vector(vec![name("a"), Operand::Sink, Operand::Number(Number::Integer(3))]),
            Operand::Not("%p1".to_owned()),
            Operand::Pair(Box::new(name("p")), Box::new(name("q"))),
            Operand::Pair(Box::new(name("%p")), Box::new(Operand::Sink)),
            Operand::Pair(Box::new(Operand::Sink), Box::new(name("%q"))),
            Operand::Offset("table".to_owned(), 8),
            name("%tid.x"),
            Operand::Sink,
            address("%rd1", -16, vec![]),
            Operand::Address(Address { base: AddressBase::Absolute(64), offset: 0, rest: vec![] }),
        ]
    );
}

#[test]
fn addresses_with_coordinates_and_barriers() {
    let copy = instruction(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd2, {%r3, %r4}], [%r5+8];",
    );
    assert_eq!(copy.opcode.base(), "cp");
    assert!(copy.opcode.has("mbarrier::complete_tx::bytes") && copy.opcode.has("shared::cluster"));
    assert_eq!(
        copy.operands,
        [
            address("%r1", 0, vec![]),
            address("%rd2", 0, vec![Operand::Vector(vec![name("%r3"), name("%r4")])]),
            address("%r5", 8, vec![]),
        ]
    );
}

#[test]
fn an_index_counts_elements_of_its_array() {
    let statements = body(
        ".shared .b32 a[16]; ld.shared.u32 %r1, a[3]; mov.u64 %rd1, a[3];
         { .shared .v2 .b64 a[4]; ld.shared.u32 %r1, a[2]; } st.shared.u32 a[1], 0;",
    );
    let operands = |statement: &Statement| match statement {
        Statement::Instruction(instruction) => instruction.operands.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(operands(&statements[1])[1], address("a", 12, vec![]));
    assert_eq!(operands(&statements[2])[1], Operand::Offset("a".to_owned(), 12));
    let Statement::Block(block) = &statements[3] else { panic!("a block") };
    assert_eq!(operands(&block[1])[1], address("a", 32, vec![]));
    assert_eq!(operands(&statements[4])[0], address("a", 4, vec![]));
    assert!(parse(".version 9.0 .target sm_80 .entry k() { ld.shared.u32 %r1, b[3]; }").is_err());
}

#[test]
fn calls_of_every_form() {
    assert_eq!(instruction("call.uni (retval0), f, (param0, 3);").operands.len(), 3);
    assert_eq!(instruction("call f;").operands, [name("f")]);
    assert_eq!(
        instruction("call (retval0), %rd1, (), proto;").operands,
        [Operand::List(vec![name("retval0")]), name("%rd1"), Operand::List(vec![]), name("proto")]
    );
    let statements = body(
        "proto : .callprototype (.param .b32 _) _ (.param .b64 _, .param .align 8 .b8 _[16]) .noreturn .abi_preserve 3;
         bare: .callprototype _ (.param .b32 _);
         list: .calltargets f, g;
         table: .branchtargets $L1, $L2;",
    );
    let Statement::CallPrototype { name, returns, parameters, directives } = &statements[0] else { panic!() };
    assert_eq!((name.as_str(), returns.len(), parameters.len()), ("proto", 1, 2));
    assert_eq!(directives[..], [("noreturn".to_owned(), vec![]), ("abi_preserve".to_owned(), vec![3])]);
    assert!(matches!(&statements[1], Statement::CallPrototype { returns, .. } if returns.is_empty()));
    assert!(matches!(&statements[2], Statement::CallTargets { targets, .. } if targets[..] == ["f", "g"]));
    assert!(
        matches!(&statements[3], Statement::BranchTargets { targets, .. } if targets[..] == ["$L1", "$L2"])
    );
}

#[test]
fn guards_labels_and_scopes() {
    let statements = body("$L_1: @!%p1 bra.uni $L_1; @p ret; { .reg .b32 t; { exit; } }\nend: ret;");
    assert_eq!(statements[0], Statement::Label("$L_1".to_owned()));
    let Statement::Instruction(branch) = &statements[1] else { panic!() };
    let guard = branch.guard.as_ref().expect("a guard");
    assert!(guard.negated && guard.predicate == "%p1" && branch.opcode.as_str() == "bra.uni");
    let Statement::Instruction(guarded) = &statements[2] else { panic!() };
    assert!(guarded.guard.as_ref().is_some_and(|guard| !guard.negated) && guarded.operands.is_empty());
    assert!(matches!(&statements[3], Statement::Block(block) if block.len() == 2));
}

#[test]
fn source_positions_reach_instructions() {
    let statements = body(
        "mov.u32 %r1, 1;\n.loc 1 5 3\nmov.u32 %r1, 2;
         .loc 2 8 0, function_name $L__info_string0+4, inlined_at 1 9 1\nmov.u32 %r1, 3;",
    );
    let locations: Vec<_> = statements
        .iter()
        .filter_map(|statement| match statement {
            Statement::Instruction(instruction) => Some((instruction.line, instruction.location)),
            _ => None,
        })
        .collect();
    let at = |file, line, column| Some(SourceLocation { file, line, column });
    assert_eq!(locations, [(4, None), (6, at(1, 5, 3)), (8, at(2, 8, 0))]);
}

#[test]
fn lines_of_inline_assembly_are_those_of_its_statement() {
    let statements = body(
        ".loc 1 5 3\n// begin inline asm\n.loc 1 5 3\nmov.u32 %r1, 0;\n.loc 1 6 3\nld.global.u32 %r1, [%rd1];\n\n// end inline asm
         // begin inline asm\n.loc 1 9 1\nmov.u32 %r2, 0;\n.loc 1 10 1\nmov.u32 %r2, 1;\n\t// end inline asm
         .loc 1 6 9\nmov.u32 %r3, 2;",
    );
    let lines = statements.iter().filter_map(|statement| match statement {
        Statement::Instruction(instruction) => instruction.location.map(|location| location.line),
        _ => None,
    });
    assert_eq!(lines.collect::<Vec<_>>(), [5, 5, 9, 9, 6]);
}

/// The positions of the calls around each instruction, as `file:line`, innermost first.
fn calls(text: &str) -> Vec<Vec<String>> {
    let instructions = body(text).into_iter().filter_map(|statement| match statement {
        Statement::Instruction(instruction) => Some(instruction),
        _ => None,
    });
    let of = |instruction: Instruction| {
        let mut call = instruction.inlined;
        std::iter::from_fn(|| {
            let CallSite { at, outer, .. } = &*call.take()?;
            let found = format!("{}:{}", at.file, at.line);
            call.clone_from(outer);
            Some(found)
        })
        .collect()
    };
    instructions.map(of).collect()
}

#[test]
fn inlined_calls_reach_instructions_through_the_positions_that_they_name() {
    let chain = calls(
        ".loc 1 10 3
         .loc 2 80 14, function_name $L0, inlined_at 1 10 3
         .loc 3 93 3, function_name $L1, inlined_at 2 80 14\nmov.u32 %r1, 1;
         .loc 1 11 3\nmov.u32 %r1, 1;
         .loc 2 81 1, function_name $L0, inlined_at 1 11 3\nmov.u32 %r1, 1;
         .loc 2 80 14, function_name $L0, inlined_at 1 20 3
         .loc 3 94 3, function_name $L1, inlined_at 2 80 14\nmov.u32 %r1, 1;",
    );
    assert_eq!(chain, [vec!["2:80", "1:10"], vec![], vec!["1:11"], vec!["2:80", "1:20"]]);
    // A template that is inlined into itself, as nvcc writes it.
    let recursive = calls(
        ".loc 1 7 9, function_name $L0, inlined_at 1 30 5
         .loc 1 7 9, function_name $L1, inlined_at 1 7 9
         .loc 1 7 9, function_name $L2, inlined_at 1 7 9\nmov.u32 %r1, 1;
         .loc 1 7 9, function_name $L2, inlined_at 1 7 9\nmov.u32 %r1, 1;",
    );
    assert_eq!(recursive, [["1:7", "1:7", "1:30"]; 2]);
    // However long it gets.
    let cycle =
        ".loc 1 1 1, function_name $L0, inlined_at 1 2 1\n.loc 1 2 1, function_name $L1, inlined_at 1 1 1\n";
    assert!(calls(&(cycle.repeat(1000) + "mov.u32 %r1, 1;"))[0].len() < 100);
}

#[test]
fn declarations_of_every_kind() {
    let module = module(
        ".extern .shared .align 16 .b8 dynamic[];
         .global .align 4 .u32 x = 5, y;
         .visible .const .v4 .f32 v = {1.0, 2.0, 3.0, 4.0};
         .global .u32 grid[3][2] = {{1}, {2, 3}};
         .weak .global .attribute(.managed) .b8 m;
         .common .global .b8 c[8];
         .global .u64 table[] = {generic(x)+8, y, y+4};
         .global .u8 bytes[] = {0xff(x), 0xff00(generic(x)+4)};",
    );
    let by_name =
        |wanted: &str| module.variables.iter().find(|variable| variable.name == wanted).expect("declared");
    let dynamic = by_name("dynamic");
    assert_eq!(
        (dynamic.linkage, dynamic.align, &dynamic.dimensions[..]),
        (Linkage::Extern, Some(16), &[None][..])
    );
    assert_eq!(by_name("x").initializer, Some(vec![Initializer::Number(Number::Integer(5))]));
    assert_eq!(by_name("y").initializer, None);
    assert_eq!((by_name("v").vector, by_name("v").initializer.as_ref().map(Vec::len)), (4, Some(4)));
    assert_eq!(by_name("grid").dimensions, [Some(3), Some(2)]);
    assert!(
        matches!(&by_name("grid").initializer.as_ref().unwrap()[0], Initializer::Group(row) if row.len() == 1)
    );
    assert_eq!(by_name("m").attributes, ["managed"]);
    let address = |symbol: &str, offset, generic, mask| Initializer::Address {
        symbol: symbol.to_owned(),
        offset,
        generic,
        mask,
    };
    assert_eq!(
        by_name("table").initializer.as_deref().unwrap(),
        [address("x", 8, true, None), address("y", 0, false, None), address("y", 4, false, None)]
    );
    assert_eq!(
        by_name("bytes").initializer.as_deref().unwrap(),
        [address("x", 0, false, Some(0xFF)), address("x", 4, true, Some(0xFF00))]
    );
}

#[test]
fn alignment_and_attributes_stand_on_both_sides_of_the_state_space() {
    let text =
        ".attribute(.managed) .align 8 .global .b32 x; .visible .align 8 .global .attribute(.managed) .b32 y;
         .entry k(.align 8 .param .b8 a[8]) { .align 8 .local .b8 z[8]; ret; }";
    let module = module(text);
    for variable in &module.variables {
        assert_eq!((variable.align, &variable.attributes[..]), (Some(8), &["managed".to_owned()][..]));
    }
    assert_eq!(module.functions[0].parameters[0].align, Some(8));
    assert!(
        matches!(&module.functions[0].body.as_ref().unwrap()[0], Statement::Variable(z) if z.align == Some(8))
    );
    for order in [".global .b32 .align 8 x;", ".global .v2 .align 8 .b32 x;", ".global .b32 .v2 x;"] {
        refused(&format!(".version 9.0 .target sm_80 {order}"));
    }
}

#[test]
fn the_next_item_ends_a_declaration_without_a_semicolon() {
    let module = module(
        ".func (.param .b32 r) f (.param .b32 a)
         .visible .func g () .noreturn
         .func h
         .file 1 \"path\"
         .global .b32 x;
         .func (.param .b32 r) f (.param .b32 a) { ret; } .func g() .noreturn { exit; }
         .extern .func i ()",
    );
    let names: Vec<_> = module.functions.iter().map(|f| (f.name.as_str(), f.body.is_some())).collect();
    let declared = [("f", false), ("g", false), ("h", false), ("f", true), ("g", true), ("i", false)];
    assert_eq!(names, declared);
    assert_eq!((module.files.len(), module.variables.len()), (1, 1));
    let error = refused(".version 9.0 .target sm_80 .entry k() .entry k() { ret; }");
    assert_eq!(error.expected, "`{` or `;` after the head of a function");
}

#[test]
fn functions_with_everything() {
    let module = module(
        ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b) ;
         .func die() .noreturn { exit; }
         .visible .entry k(
            .param .u64 .ptr .global .align 16 k_param_0,
            .param .align 64 .b8 k_param_1[128],
            .param .u64 .ptr k_param_2
         ) .maxntid 256, 1, 1 .minnctapersm 2 .reqnctapercluster 2,1,1 .explicitcluster .maxnreg 128 .pragma \"p\";
         { .reg .b32 %r<10>, t; .reg .pred p; ret; }
         .alias other, die;",
    );
    let [printer, die, kernel] = &module.functions[..] else { panic!("three functions") };
    assert!(printer.body.is_none() && printer.linkage == Linkage::Extern && printer.returns.len() == 1);
    assert_eq!(die.directives[..], [("noreturn".to_owned(), vec![])]);
    let Function { is_entry, linkage, directives, body, .. } = kernel;
    assert!(*is_entry && *linkage == Linkage::Visible);
    assert_eq!(directives[0], ("maxntid".to_owned(), vec![256, 1, 1]));
    assert_eq!(directives.len(), 5);
    assert_eq!(
        kernel.parameters[0].pointer,
        Some(PointerAttribute { space: Some(StateSpace::Global), align: 16 })
    );
    assert_eq!(kernel.parameters[1].dimensions, [Some(128)]);
    assert_eq!(kernel.parameters[2].pointer, Some(PointerAttribute { space: None, align: 4 }));
    let body = body.as_ref().expect("a body");
    assert_eq!(body[0], Statement::Pragma("p".to_owned()));
    assert!(matches!(&body[1], Statement::Variable(v) if v.numbered == Some(10) && v.ty == Type::B32));
    assert_eq!(module.aliases, [("other".to_owned(), "die".to_owned())]);
}

#[test]
fn comments_and_debug_sections_are_skipped() {
    let module = module(
        "// a line\n/* two\nlines */ .section .debug_str { $L: .b8 0x7D // }\n .b8 \"}\" }\n.section .debug_loc { }
         .entry k() { /**/ ret /* here */ ; // there\n }",
    );
    assert_eq!(module.functions.len(), 1);
}

#[test]
fn errors_say_where_and_what() {
    let error = refused(".version 9.0\n.target sm_80\n.entry k() {\n\tadd.u32 %r0, %r1 %r2;\n}");
    assert_eq!((error.line, error.column), (4, 19));
    assert_eq!(
        error.to_string(),
        "line 4, column 19: expected `;` or `,` after an operand, found `%r2`\n  4 | \tadd.u32 %r0, %r1 %r2;\n    | \t                 ^"
    );
    let error = refused(".version 9.0 .target sm_80 .entry k() { ret;");
    assert_eq!(error.expected, "a `}` that closes this `{`");
    let error = refused(".version 9.0 .target sm_80 /* never closed");
    assert_eq!(error.found, "`/`");
    let error = refused(".version 9.0 .target sm_80 .entry k() { ld.global.u32 %r1, [%rd1-4]; }");
    assert_eq!(error.expected, "`]` to close the address");
}

#[test]
fn errors_show_the_part_of_a_long_line_that_matters() {
    let numbers = "1, ".repeat(500);
    let error = refused(&format!(".version 9.0 .target sm_80\n.global .u32 x[501] = {{{numbers}?}};"));
    assert_eq!((error.line, error.found.as_str()), (2, "`?`"));
    let lines: Vec<String> = error.to_string().lines().map(str::to_owned).collect();
    let mark = lines[2].find('^').expect("a mark");
    assert_eq!(&lines[1][mark..=mark], "?");
    assert!(lines[1].len() < 200, "{error}");
}

#[test]
fn deep_nesting_is_refused() {
    let deep = |open: &str, close: &str, head: &str| {
        format!(".version 9.0 .target sm_80 {head} {} {}", open.repeat(100_000), close.repeat(100_000))
    };
    for text in [
        deep("{", "}", ".entry k()"),
        deep("{", "}", ".global .u32 x[] ="),
        deep("(", ")", ".global .u32 x ="),
        deep("-", "", ".global .u32 x ="),
        deep("1?", ":1", ".global .u32 x ="),
        deep("1+(", ")", ".global .u32 x ="),
        deep("{", "}", ".entry k() { mov.b32 "),
    ] {
        assert!(refused(&text).expected.contains("levels of nesting"));
    }
}
