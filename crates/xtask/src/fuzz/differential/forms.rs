//! The instructions that change registers only, as rows that a random program draws from.
//!
//! A row is an opcode and the classes of its operands, the destination first. `{a,b}` in an opcode is
//! one of several; `p|p` is one destination or two, `pp` are two. Approximate functions have no row: they agree within an error only. A row begins
//! with a mark where its result is not a function of its operands alone:
//!
//! - `~`: which NaN it gives is up to the assembler, which exchanges operands (f64, where the hardware
//!   keeps an operand's payload) or replaces the instruction by another (`neg` and `abs` by an addition
//!   or by a modifier of the next instruction). A program makes such a NaN canonical.
//! - `!`: the driver's assembler ignores its guard, or leaves the upper bits of a narrow result as they
//!   were where there is one, so a program gives it none.
//!
//! Left out: scalar `set` to f16 and bf16, whose result ptxas leaves in both halves of the hardware's
//! register, where a conversion that follows reads them; `mad.hi.sat.s32`, which ptxas does not always
//! saturate.
//!
//! `rem` and `div` are written elsewhere, with a divisor that is not zero.

/// Rows of a kind, drawn `weight` times as often as those of a family of weight one.
pub(super) struct Family {
    pub(super) weight: u64,
    /// ptxas assumes more of these results than holds for every value: it takes `abs` for positive, a
    /// result of f32 for a number wherever the register is read, `.sat` for done. A program makes it
    /// forget.
    pub(super) is_hidden: bool,
    pub(super) rows: &'static [&'static str],
}

/// The classes of operands, by the letters that rows name them with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// `r`, integers of 32 bits.
    Word,
    /// `f`, f32.
    Single,
    /// `x`, f16x2 and bf16x2.
    Pair,
    /// `h`, integers of 16 bits.
    Short,
    /// `e`, f16 and bf16.
    Half,
    /// `d`, integers of 64 bits.
    Long,
    /// `g`, f64.
    Double,
    /// `p`, predicates; `P`, a predicate or its negation.
    Predicate,
    /// `n`, an amount of bits: a word, or a small number.
    Amount,
    /// `k`, the table of `lop3`.
    Table,
}

impl Class {
    pub(super) const STORED: [Class; 8] = [
        Class::Word,
        Class::Single,
        Class::Pair,
        Class::Short,
        Class::Half,
        Class::Long,
        Class::Double,
        Class::Predicate,
    ];

    pub(super) fn of(letter: char) -> Self {
        match letter {
            'r' => Class::Word,
            'f' => Class::Single,
            'x' => Class::Pair,
            'h' => Class::Short,
            'e' => Class::Half,
            'd' => Class::Long,
            'g' => Class::Double,
            'p' | 'P' => Class::Predicate,
            'n' => Class::Amount,
            _ => Class::Table,
        }
    }

    /// The prefix of its registers, and how many a program has.
    pub(super) const fn registers(self) -> (&'static str, u64) {
        match self {
            Class::Word | Class::Amount | Class::Table => ("%r", 8),
            Class::Single => ("%f", 6),
            Class::Pair => ("%x", 4),
            Class::Short => ("%h", 5),
            Class::Half => ("%e", 5),
            Class::Long => ("%d", 4),
            Class::Double => ("%g", 4),
            Class::Predicate => ("%p", 6),
        }
    }

    /// Bits of a register; 1 of a predicate.
    pub(super) fn bits(self) -> u32 {
        match self {
            Class::Word | Class::Single | Class::Pair | Class::Amount | Class::Table => 32,
            Class::Short | Class::Half => 16,
            Class::Long | Class::Double => 64,
            Class::Predicate => 1,
        }
    }

    /// Another class whose registers have the same width.
    pub(super) fn others(self) -> &'static [Class] {
        match self.bits() {
            16 => &[Class::Short, Class::Half],
            32 => &[Class::Word, Class::Single, Class::Pair],
            64 => &[Class::Long, Class::Double],
            _ => &[Class::Predicate],
        }
    }
}

pub(super) const FAMILIES: [Family; 17] = [
    // Integers of 32 bits.
    Family {
        weight: 6,
        is_hidden: false,
        rows: &[
            "{add,sub}.{u32,s32} r r r",
            "mul.{lo,hi}.{u32,s32} r r r",
            "mul.wide.{u32,s32} d r r",
            "mul24.{lo,hi}.{u32,s32} r r r",
            "mad.{lo,hi}.{u32,s32} r r r r",
            "mad.wide.{u32,s32} d r r d",
            "mad24.{lo,hi}.{u32,s32} r r r r",
            "sad.{u32,s32} r r r r",
            "{min,max}.{u32,s32} r r r",
            "dp4a.{u32,s32}.{u32,s32} r r r r",
            "dp2a.{lo,hi}.{u32,s32}.{u32,s32} r r r r",
        ],
    },
    // Integers of 16 and 64 bits.
    Family {
        weight: 4,
        is_hidden: false,
        rows: &[
            "{add,sub}.{u16,s16} h h h",
            "{add,sub}.{u64,s64} d d d",
            "add.{u16x2,s16x2} r r r",
            "{min,max}.{u16x2,s16x2} r r r",
            "mul.{lo,hi}.{u16,s16} h h h",
            "mul.{lo,hi}.{u64,s64} d d d",
            "mul.wide.{u16,s16} r h h",
            "mad.lo.{u16,s16} h h h h",
            "mad.{lo,hi}.{u64,s64} d d d d",
            "mad.wide.{u16,s16} r h h r",
            "sad.{u16,s16} h h h h",
            "sad.{u64,s64} d d d d",
            "{min,max}.{u16,s16} h h h",
            "{min,max}.{u64,s64} d d d",
        ],
    },
    // Bits.
    Family {
        weight: 6,
        is_hidden: false,
        rows: &[
            "{and,or,xor}.b16 h h h",
            "{and,or,xor}.b32 r r r",
            "{and,or,xor}.b64 d d d",
            "not.b16 h h",
            "not.b32 r r",
            "not.b64 d d",
            "lop3.b32 r r r r k",
            "shl.b16 h h n",
            "shl.b32 r r n",
            "shl.b64 d d n",
            "shr.{u16,s16,b16} h h n",
            "shr.{u32,s32,b32} r r n",
            "shr.{u64,s64,b64} d d n",
            "shf.{l,r}.{clamp,wrap}.b32 r r r n",
            "{popc,clz}.b32 r r",
            "{popc,clz}.b64 r d",
            "brev.b32 r r",
            "brev.b64 d d",
            "bfind.{u32,s32} r r",
            "bfind.{u64,s64} r d",
            "bfind.shiftamt.{u32,s32} r r",
            "bfind.shiftamt.{u64,s64} r d",
            "bfe.{u32,s32} r r n n",
            "bfe.{u64,s64} d d n n",
            "bfi.b32 r r r n n",
            "bfi.b64 d d d n n",
            "szext.{clamp,wrap}.{u32,s32} r r n",
            "bmsk.{clamp,wrap}.b32 r n n",
            "prmt.b32 r r r r",
            "prmt.b32.{f4e,b4e,rc8,ecl,ecr,rc16} r r r r",
        ],
    },
    // Integers whose results have bounds.
    Family {
        weight: 1,
        is_hidden: true,
        rows: &[
            "{add,sub}.sat.s32 r r r",
            "{min,max}.relu.s32 r r r",
            "{min,max}.relu.s16x2 r r r",
            "{abs,neg}.s16 h h",
            "{abs,neg}.s32 r r",
            "{abs,neg}.s64 d d",
            "cnot.b16 h h",
            "cnot.b32 r r",
            "cnot.b64 d d",
        ],
    },
    // Comparisons of integers, and selection.
    Family {
        weight: 6,
        is_hidden: true,
        rows: &[
            "setp.{eq,ne,lt,le,gt,ge,lo,ls,hi,hs}.u32 p r r",
            "setp.{eq,ne,lt,le,gt,ge}.s32 p|p r r",
            "setp.{eq,ne,lt,le,gt,ge}.{u16,s16} p h h",
            "setp.{eq,ne}.b16 p h h",
            "setp.{eq,ne,lt,le,gt,ge}.{u64,s64} p d d",
            "setp.{eq,ne,lt,le,gt,ge}.{and,or,xor}.{u32,s32} p|p r r P",
            "setp.{eq,ne,lt,le,gt,ge}.{and,or,xor}.{u64,s64} p d d P",
            "set.{eq,ne,lt,le,gt,ge}.{u32,s32}.{u32,s32} r r r",
            "!set.{eq,ne,lt,le,gt,ge}.f32.{u32,s32} f r r",
            "set.{eq,ne,lt,le,gt,ge}.{and,or,xor}.{u32,s32}.s32 r r r P",
            "selp.b16 h h h p",
            "selp.b32 r r r p",
            "selp.f32 f f f p",
            "selp.b64 d d d p",
            "slct.b32.s32 r r r r",
            "slct.b64.s32 d d d r",
            "slct.u16.s32 h h h r",
            "slct.{u32,s32}.f32 r r r f",
            "{and,or,xor}.pred p p p",
            "not.pred p p",
        ],
    },
    // f32.
    Family {
        weight: 6,
        is_hidden: true,
        rows: &[
            "{add,sub,mul}.{rn,rz,rm,rp}.f32 f f f",
            "{add,sub,mul}.{rn,rz,rm,rp}.{ftz,sat,ftz.sat}.f32 f f f",
            "fma.{rn,rz,rm,rp}.f32 f f f f",
            "fma.{rn,rz,rm,rp}.{ftz,sat,ftz.sat}.f32 f f f f",
            "{min,max}.f32 f f f",
            "{min,max}.{ftz,NaN,ftz.NaN,xorsign.abs,NaN.xorsign.abs,ftz.NaN.xorsign.abs}.f32 f f f",
            "~{abs,neg}.f32 f f",
            "~{abs,neg}.ftz.f32 f f",
            "copysign.f32 f f f",
            "slct.f32.f32 f f f f",
            "slct.ftz.f32.f32 f f f f",
        ],
    },
    // Long sequences of instructions to the assembler.
    Family {
        weight: 1,
        is_hidden: true,
        rows: &[
            "div.{rn,rz,rm,rp}.f32 f f f",
            "div.{rn,rz}.ftz.f32 f f f",
            "{rcp,sqrt}.{rn,rz,rm,rp}.f32 f f",
            "{rcp,sqrt}.{rn,rz,rm,rp}.ftz.f32 f f",
            "~div.{rn,rz,rm,rp}.f64 g g g",
            "~{rcp,sqrt}.{rn,rz,rm,rp}.f64 g g",
            "fns.b32 r r 3 2",
        ],
    },
    // Comparisons of f32 and f64.
    Family {
        weight: 4,
        is_hidden: true,
        rows: &[
            "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.f32 p f f",
            "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.ftz.f32 p|p f f",
            "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.{and,or,xor}.f32 p|p f f P",
            "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.f64 p|p g g",
            "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.{and,or,xor}.f64 p g g P",
            "set.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.{u32,s32}.f32 r f f",
            "set.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.{u32,s32}.f64 r g g",
            "!set.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.f32.f32 f f f",
            "!testp.{finite,infinite,number,notanumber,normal,subnormal}.f32 p f",
            "!testp.{finite,infinite,number,notanumber,normal,subnormal}.f64 p g",
        ],
    },
    // f64.
    Family {
        weight: 4,
        is_hidden: true,
        rows: &[
            "~{add,sub,mul}.{rn,rz,rm,rp}.f64 g g g",
            "~fma.{rn,rz,rm,rp}.f64 g g g g",
            "~{min,max}.f64 g g g",
            "~{abs,neg}.f64 g g",
            "copysign.f64 g g g",
            "selp.f64 g g g p",
        ],
    },
    // f16 and bf16.
    Family {
        weight: 4,
        is_hidden: true,
        rows: &[
            "{add,sub,mul}.rn.{f16,bf16} e e e",
            "{add,sub,mul}.rn.{ftz,sat,ftz.sat}.f16 e e e",
            "fma.rn.{f16,bf16} e e e e",
            "fma.rn.{ftz,sat,ftz.sat,relu,ftz.relu}.f16 e e e e",
            "fma.rn.relu.bf16 e e e e",
            "{min,max}.{f16,bf16} e e e",
            "{min,max}.{NaN,xorsign.abs,NaN.xorsign.abs}.{f16,bf16} e e e",
            "{min,max}.{ftz,ftz.NaN}.f16 e e e",
            "~{abs,neg}.{f16,bf16} e e",
            "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.{f16,bf16} p e e",
            "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.ftz.f16 p e e",
            "!set.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.{u32,s32}.{f16,bf16} r e e",
        ],
    },
    // Pairs of them.
    Family {
        weight: 4,
        is_hidden: true,
        rows: &[
            "{add,sub,mul}.rn.{f16x2,bf16x2} x x x",
            "{add,sub,mul}.rn.{ftz,sat,ftz.sat}.f16x2 x x x",
            "fma.rn.{f16x2,bf16x2} x x x x",
            "fma.rn.{ftz,sat,ftz.sat,relu,ftz.relu}.f16x2 x x x x",
            "fma.rn.relu.bf16x2 x x x x",
            "{min,max}.{f16x2,bf16x2} x x x",
            "{min,max}.{NaN,xorsign.abs,NaN.xorsign.abs}.{f16x2,bf16x2} x x x",
            "{min,max}.{ftz,ftz.NaN}.f16x2 x x x",
            "~{abs,neg}.{f16x2,bf16x2} x x",
            "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.{f16x2,bf16x2} pp x x",
            "set.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.f16x2.f16x2 x x x",
            "set.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.bf16x2.bf16x2 x x x",
        ],
    },
    // Integers to integers.
    Family {
        weight: 3,
        is_hidden: true,
        rows: &[
            "cvt.{u8,s8,u16,s16}.{u32,s32,u16,s16} r r",
            "cvt.{u32,s32}.{u8,s8,u16,s16} r r",
            "cvt.{u16,s16}.{u32,s32} h r",
            "cvt.{u32,s32}.{u16,s16} r h",
            "cvt.{u64,s64}.{u32,s32} d r",
            "cvt.{u64,s64}.{u16,s16} d h",
            "cvt.{u32,s32}.{u64,s64} r d",
            "cvt.{u16,s16}.{u64,s64} h d",
            "cvt.{u8,s8}.{u64,s64} r d",
            "cvt.sat.{u8,s8,u16,s16}.s32 r r",
            "cvt.sat.{u8,u16}.u32 r r",
            "cvt.sat.u32.s32 r r",
            "cvt.sat.s32.u32 r r",
            "cvt.sat.{u32,s32}.s64 r d",
            "cvt.sat.{u16,s16}.s64 h d",
            "cvt.pack.sat.{u16,s16}.s32 r r r",
            "cvt.pack.sat.{u8,s8,u4,s4,u2,s2}.s32.b32 r r r r",
        ],
    },
    // Between integers and floats.
    Family {
        weight: 4,
        is_hidden: true,
        rows: &[
            "cvt.{rni,rzi,rmi,rpi}.{u32,s32}.f32 r f",
            "!cvt.{rni,rzi,rmi,rpi}.{u8,s8,u16,s16}.f32 r f",
            "cvt.{rni,rzi,rmi,rpi}.ftz.{u32,s32}.f32 r f",
            "cvt.{rni,rzi,rmi,rpi}.sat.{u32,s32}.f32 r f",
            "!cvt.{rni,rzi,rmi,rpi}.sat.{u8,s8}.f32 r f",
            "cvt.{rni,rzi,rmi,rpi}.{u64,s64}.f32 d f",
            "cvt.{rni,rzi,rmi,rpi}.{u32,s32}.f64 r g",
            "!cvt.{rni,rzi,rmi,rpi}.{u8,s8,u16,s16}.f64 r g",
            "cvt.{rni,rzi,rmi,rpi}.{u64,s64}.f64 d g",
            "cvt.{rni,rzi,rmi,rpi}.{u32,s32}.f16 r e",
            "cvt.{rni,rzi,rmi,rpi}.{u16,s16}.{f16,bf16} h e",
            "cvt.{rni,rzi,rmi,rpi}.{u32,s32}.bf16 r e",
            "cvt.{rni,rzi,rmi,rpi}.{u64,s64}.{f16,bf16} d e",
            "cvt.{rn,rz,rm,rp}.f32.{u32,s32,u16,s16,u8,s8} f r",
            "cvt.{rn,rz,rm,rp}.sat.f32.{u32,s32} f r",
            "cvt.{rn,rz,rm,rp}.f32.{u64,s64} f d",
            "cvt.{rn,rz,rm,rp}.f64.{u32,s32,u16,s16,u8,s8} g r",
            "cvt.{rn,rz,rm,rp}.f64.{u64,s64} g d",
            "cvt.{rn,rz,rm,rp}.f16.{u32,s32,u8,s8} e r",
            "cvt.{rn,rz,rm,rp}.{f16,bf16}.{u16,s16} e h",
            "cvt.{rn,rz,rm,rp}.bf16.{u32,s32} e r",
            "cvt.{rn,rz,rm,rp}.{f16,bf16}.{u64,s64} e d",
        ],
    },
    // Between floats.
    Family {
        weight: 4,
        is_hidden: true,
        rows: &[
            "cvt.{rn,rz,rm,rp}.f32.f64 f g",
            "cvt.{rn,rz,rm,rp}.{ftz,sat,ftz.sat}.f32.f64 f g",
            "~cvt.f64.f32 g f",
            "~cvt.{ftz,sat}.f64.f32 g f",
            "~cvt.f64.{f16,bf16} g e",
            "cvt.{rn,rz,rm,rp}.f16.f64 e g",
            "cvt.{rn,rz}.bf16.f64 e g",
            "cvt.{rn,rz,rm,rp}.{f16,bf16}.f32 e f",
            "cvt.{rn,rz}.relu.{f16,bf16}.f32 e f",
            "cvt.rn.ftz.f16.f32 e f",
            "cvt.{rn,rz,rm,rp}.sat.f16.f32 e f",
            "cvt.f32.{f16,bf16} f e",
            "cvt.ftz.f32.{f16,bf16} f e",
            "cvt.sat.f32.f16 f e",
            "cvt.{rn,rz}.bf16.f16 e e",
            "cvt.{rn,rz}.f16.bf16 e e",
            "~cvt.{rni,rzi,rmi,rpi}.f32.f32 f f",
            "~cvt.{rni,rzi,rmi,rpi}.ftz.f32.f32 f f",
            "~cvt.{rni,rzi,rmi,rpi}.f64.f64 g g",
            "~cvt.{rni,rzi,rmi,rpi}.f16.f16 e e",
            "~cvt.{rni,rzi,rmi,rpi}.bf16.bf16 e e",
            "~cvt.{sat,ftz,ftz.sat}.f32.f32 f f",
            "~cvt.sat.f64.f64 g g",
            "~cvt.sat.f16.f16 e e",
        ],
    },
    // To narrow floats and back.
    Family {
        weight: 2,
        is_hidden: true,
        rows: &[
            "cvt.rna.tf32.f32 f f",
            "cvt.rna.satfinite.tf32.f32 f f",
            "cvt.{rn,rz}.tf32.f32 f f",
            "cvt.{rn,rz}.relu.tf32.f32 f f",
            "cvt.{rn,rz}.{f16x2,bf16x2}.f32 x f f",
            "cvt.{rn,rz}.relu.{f16x2,bf16x2}.f32 x f f",
            "cvt.rn.satfinite.{e4m3x2,e5m2x2}.f32 h f f",
            "cvt.rn.satfinite.relu.{e4m3x2,e5m2x2}.f32 h f f",
            "cvt.rn.satfinite.{e4m3x2,e5m2x2}.f16x2 h x",
            "cvt.rn.f16x2.{e4m3x2,e5m2x2} x h",
            "cvt.rn.relu.f16x2.{e4m3x2,e5m2x2} x h",
        ],
    },
    // Video instructions of a word.
    Family {
        weight: 2,
        is_hidden: false,
        rows: &[
            "{vadd,vsub,vabsdiff,vmin,vmax}.{u32,s32}.{u32,s32}.{u32,s32} r r r",
            "{vadd,vsub,vabsdiff,vmin,vmax}.{u32,s32}.{u32,s32}.{u32,s32}.{add,min,max} r r r r",
            "{vshl,vshr}.{u32,s32}.u32.u32.{clamp,wrap} r r r",
            "vmad.s32.s32.s32 r r r r",
            "vmad.u32.u32.u32 r r r r",
            "vset.{u32,s32}.{u32,s32}.{eq,ne,lt,le,gt,ge} r r r",
            "vset.{u32,s32}.{u32,s32}.{eq,ne,lt,le,gt,ge}.{add,min,max} r r r r",
        ],
    },
    // Video instructions of halves and bytes.
    Family {
        weight: 2,
        is_hidden: false,
        rows: &[
            "{vadd2,vsub2,vavrg2,vabsdiff2,vmin2,vmax2}.{u32,s32}.{u32,s32}.{u32,s32} r r r r",
            "{vadd4,vsub4,vavrg4,vabsdiff4,vmin4,vmax4}.{u32,s32}.{u32,s32}.{u32,s32} r r r r",
            "{vadd2,vsub2,vabsdiff2,vmin2,vmax2}.s32.s32.s32.{sat,add} r r r r",
            "{vadd4,vsub4,vabsdiff4,vmin4,vmax4}.u32.u32.u32.sat r r r r",
            "{vabsdiff4,vmin4,vmax4}.u32.u32.u32.add r r r r",
            "!{vadd4,vsub4}.u32.u32.u32.add r r r r",
            "{vset2,vset4}.{u32,s32}.{u32,s32}.{eq,ne,lt,le,gt,ge} r r r r",
            "{vset2,vset4}.{u32,s32}.{u32,s32}.{eq,ne,lt,le,gt,ge}.add r r r r",
        ],
    },
];
