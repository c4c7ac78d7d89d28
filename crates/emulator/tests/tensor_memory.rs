//! `tcgen05`: moves between registers, shared and tensor memory, and multiplies of every kind, at
//! every schedule. There was no such GPU: results are held to the PTX ISA's words ("TensorCore 5th
//! Generation Family Instructions"), and to sums that are exact.

use crate::common::{Finished, Shape, cluster_shape, kernel, shape, try_run, words};
use warpwright_emulator::{Fault, FaultKind, Schedule};

pub(crate) const SCHEDULES: [Schedule; 4] =
    [Schedule::Eager, Schedule::Latest, Schedule::Random(1), Schedule::Random(2)];

pub(crate) fn blackwell(pointers: usize, body: &str) -> String {
    kernel(pointers, body).replace("sm_90a", "sm_100a")
}

/// Warp 0 gets `columns` columns, whose address all have in `%r100`; `%r101` is that of the warp's
/// own rows. `%q10` is true in thread 0, `%q11` in warp 0. An mbarrier for one arrival is at
/// `barrier`.
pub(crate) fn with_columns(columns: u32, body: &str) -> String {
    format!(
        ".shared .align 8 .b64 barrier; .shared .align 4 .b32 slot;
        setp.eq.u32 %q10, %t, 0; setp.lt.u32 %q11, %t, 32; mov.u32 %r102, slot; mov.u32 %r103, barrier;
        @%q10 mbarrier.init.shared.b64 [%r103], 1;
        @%q10 fence.mbarrier_init.release.cluster;
        @!%q11 bra allocated;
        tcgen05.alloc.cta_group::GROUP.sync.aligned.shared::cta.b32 [%r102], {columns};
        tcgen05.relinquish_alloc_permit.cta_group::GROUP.sync.aligned;
        allocated: tcgen05.fence::before_thread_sync; MEET
        tcgen05.fence::after_thread_sync;
        ld.shared.u32 %r100, [%r102];
        shr.u32 %r101, %t, 5; and.b32 %r101, %r101, 3; shl.b32 %r101, %r101, 21; add.u32 %r101, %r101, %r100;
        {body}
        tcgen05.fence::before_thread_sync; MEET
        @!%q11 bra freed;
        tcgen05.dealloc.cta_group::GROUP.sync.aligned.b32 %r100, {columns};
        freed:"
    )
}

/// For one CTA, or for a pair of them.
pub(crate) fn of_group(ctas: u32, text: &str) -> String {
    let meet = match ctas {
        1 => "bar.sync 0;",
        _ => "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
    };
    text.replace("GROUP", &ctas.to_string()).replace("MEET", meet)
}

pub(crate) fn launch(ctas: u32, schedule: Schedule) -> Shape {
    let shape = if ctas == 1 { shape(1, 128) } else { cluster_shape(1, ctas, 128) };
    Shape { schedule, ..shape }
}

pub(crate) fn ran(text: &str, shape: Shape, arguments: &[crate::common::Argument]) -> Finished {
    try_run(text, shape, arguments).unwrap_or_else(|fault| panic!("{fault}\n{text}"))
}

/// Stores the 32-bit columns from `%r101` on in the rows of a thread at `[%p1]`, eight at a time.
pub(crate) fn store_accumulators(columns: usize) -> String {
    let store = |eight| {
        let stores: String = (0..8)
            .map(|word| format!("st.global.u32 [%p1+{}], %r{};\n", 32 * eight + 4 * word, 20 + word))
            .collect();
        format!(
            "add.u32 %r1, %r101, {}; tcgen05.ld.sync.aligned.32x32b.x8.b32 {}, [%r1];
            tcgen05.wait::ld.sync.aligned; {stores}",
            8 * eight,
            registers(20, 8)
        )
    };
    (0..columns / 8).map(store).collect()
}

pub(crate) fn registers(first: u32, count: u32) -> String {
    let names: Vec<String> = (first..first + count).map(|register| format!("%r{register}")).collect();
    format!("{{{}}}", names.join(", "))
}

/// What is stored in one shape is there in every other: rows and columns agree.
#[test]
fn every_shape_reaches_its_own_cells() {
    // Each cell is written row-wise with its place, and read in another shape.
    let shapes = [
        ("32x32b", 32, 8, 8),
        ("16x64b", 16, 4, 8),
        ("16x128b", 16, 4, 8),
        ("16x256b", 16, 4, 8),
        ("16x32bx2", 16, 4, 8),
    ];
    for (shape, rows, registers_of, columns) in shapes {
        let count = match shape {
            "16x128b" => registers_of / 2,
            "16x256b" => registers_of / 4,
            _ => registers_of,
        };
        let split = if shape == "16x32bx2" { ", 4" } else { "" };
        let fill: String =
            (0..8).map(|column| format!("mad.lo.u32 %r{}, %t, 8, {column};\n", 10 + column)).collect();
        let keep: String = (0..registers_of)
            .map(|register| format!("st.global.u32 [%p0+{}], %r{};\n", 4 * register, 20 + register))
            .collect();
        let body = format!(
            "{fill}
            tcgen05.st.sync.aligned.32x32b.x8.b32 [%r101], {};
            tcgen05.wait::st.sync.aligned;
            tcgen05.ld.sync.aligned.{shape}.x{count}.b32 {}, [%r101]{split};
            tcgen05.wait::ld.sync.aligned;
            mul.wide.u32 %d0, %t, {}; add.u64 %p0, %p0, %d0;
            {keep}",
            registers(10, 8),
            registers(20, registers_of),
            4 * registers_of
        );
        let text = blackwell(1, &of_group(1, &with_columns(32, &body)));
        for schedule in SCHEDULES {
            let finished = ran(&text, launch(1, schedule), &[words(vec![0; 128 * registers_of as usize])]);
            let found = finished.words(0);
            for warp in 0..4 {
                // Every cell of the warp's first rows once.
                let part = 32 * registers_of as usize;
                let mut cells: Vec<u32> = found[warp * part..(warp + 1) * part].to_vec();
                cells.sort_unstable();
                let expected: Vec<u32> = (0..rows)
                    .flat_map(|row| (0..columns).map(move |column| (32 * warp as u32 + row) * 8 + column))
                    .collect();
                assert_eq!(cells, expected, "{shape} {schedule:?}");
                // PTX ISA, figures of the fragments: lane 5's first register.
                let first = found[warp * part + 5 * registers_of as usize] - 256 * warp as u32;
                let place = match shape {
                    "32x32b" => (5, 0),
                    "16x64b" => (9, 0),
                    "16x128b" => (1, 1),
                    "16x256b" => (1, 2),
                    _ => (5, 0),
                };
                assert_eq!((first / 8, first % 8), place, "{shape}");
            }
        }
    }
}

/// There are 128 rows, and higher bits of an address do not matter: kernels that add 128 rows in the
/// second CTA of a pair run on a B200.
#[test]
fn rows_are_counted_modulo_128() {
    let body = "
        add.u32 %r10, %t, 5; add.u32 %r11, %r101, 0x800000;
        tcgen05.st.sync.aligned.32x32b.x1.b32 [%r11], {%r10}; tcgen05.wait::st.sync.aligned;
        tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r12}, [%r101];
        tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r13}, [%r101+0x1000000]; tcgen05.wait::ld.sync.aligned;
        mul.wide.u32 %d0, %t, 8; add.u64 %p0, %p0, %d0; st.global.v2.u32 [%p0], {%r12, %r13};";
    let text = blackwell(1, &of_group(1, &with_columns(32, body)));
    for schedule in SCHEDULES {
        let found = ran(&text, launch(1, schedule), &[words([0; 256])]).words(0);
        assert_eq!(found, (0..256).map(|word| word / 2 + 5).collect::<Vec<u32>>(), "{schedule:?}");
    }
}

/// The checkers report a register that is used before the wait, and its value is the loaded one, as
/// kernels of Triton rely on.
#[test]
fn a_loaded_register_is_there_when_it_is_used() {
    let body = "
        mov.u32 %r10, 7; mov.u32 %r12, 1;
        tcgen05.st.sync.aligned.32x32b.x1.b32 [%r101], {%r10}; tcgen05.wait::st.sync.aligned;
        tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r12}, [%r101]; add.u32 %r13, %r12, 1;
        tcgen05.wait::ld.sync.aligned;
        mul.wide.u32 %d0, %t, 4; add.u64 %p0, %p0, %d0; st.global.u32 [%p0], %r13;";
    let text = blackwell(1, &of_group(1, &with_columns(32, body)));
    for schedule in SCHEDULES {
        let shape = Shape { checked: false, ..launch(1, schedule) };
        assert_eq!(ran(&text, shape, &[words([0; 128])]).words(0), [8; 128], "{schedule:?}");
    }
}

/// A sum of 8-bit floats keeps what is 2^17 below its largest product. On Hopper it does not.
#[test]
fn sums_of_bytes_keep_more_bits_than_on_hopper() {
    let body = "
        .shared .align 128 .b8 tile[4096]; mov.u32 %r110, tile;
        mov.u32 %r1, %t; clear: shl.b32 %r2, %r1, 2; add.u32 %r2, %r2, %r110; mov.u32 %r3, 0;
        st.shared.u32 [%r2], %r3; add.u32 %r1, %r1, 128; setp.lt.u32 %q1, %r1, 1024; @%q1 bra clear; bar.sync 0;
        mov.u32 %r3, ELEMENTS; @%q10 st.shared.u32 [%r110], %r3; fence.proxy.async; bar.sync 0;
        shr.u32 %r4, %r110, 4; cvt.u64.u32 %d1, %r4; or.b64 %d1, %d1, 0x0000400800400000;
        setp.eq.u32 %q2, 0, 1; @%q10 tcgen05.mma.cta_group::1.kind::f8f6f4 [%r100], %d1, %d1, 0x4040010, %q2;
        @%q10 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r103];
        wait: mbarrier.try_wait.parity.shared.b64 %q3, [%r103], 0; @!%q3 bra wait;
        tcgen05.fence::after_thread_sync;
        tcgen05.ld.sync.aligned.16x64b.x1.b32 {%r12}, [%r101]; tcgen05.wait::ld.sync.aligned;
        @%q10 st.global.u32 [%p0], %r12;";
    // Row 0 of A and of B is e4m3: 128, and 2^-2.
    let body = body.replace("ELEMENTS", "0x2870");
    let text = blackwell(1, &of_group(1, &with_columns(32, &body)));
    let found = ran(&text, launch(1, Schedule::Eager), &[words([0])]).words(0);
    assert_eq!(f32::from_bits(found[0]), 16384.0 + 0.0625);
}

#[test]
fn halves_of_neighboring_columns_are_packed() {
    let body = "
        mov.u32 %r10, 0x11112222; mov.u32 %r11, 0x33334444;
        tcgen05.st.sync.aligned.32x32b.x2.b32 [%r101], {%r10, %r11}; tcgen05.wait::st.sync.aligned;
        tcgen05.ld.sync.aligned.32x32b.x1.pack::16b.b32 {%r12}, [%r101]; tcgen05.wait::ld.sync.aligned;
        tcgen05.st.sync.aligned.32x32b.x1.unpack::16b.b32 [%r101], {%r12}; tcgen05.wait::st.sync.aligned;
        tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r13, %r14}, [%r101]; tcgen05.wait::ld.sync.aligned;
        st.global.u32 [%p0], %r12; st.global.u32 [%p0+4], %r13; st.global.u32 [%p0+8], %r14;";
    let text = blackwell(1, &of_group(1, &with_columns(32, body)));
    for schedule in SCHEDULES {
        let finished = ran(&text, launch(1, schedule), &[words([0; 3])]);
        assert_eq!(finished.words(0), [0x4444_2222, 0x2222, 0x4444]);
    }
}

/// How a matrix lies in shared memory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// Rows of 128 bytes, swizzled.
    KMajor128,
    /// Eight rows of 16 bytes, one after another; then the next 16 bytes of them.
    KMajorPlain,
    /// Columns of 128 bytes, swizzled.
    MnMajor128,
}

/// A matrix of `extent` rows (of A; columns of B) whose depth is 128 bytes.
#[derive(Clone, Copy)]
struct Matrix {
    place: Place,
    extent: usize,
    element: usize,
}

impl Matrix {
    fn depth(self) -> usize {
        128 / self.element
    }

    fn bytes(self) -> usize {
        self.extent.next_multiple_of(128 / self.element) * 128
    }

    /// Where an element's first byte lies.
    fn offset(self, row: usize, step: usize) -> usize {
        let byte = step * self.element;
        match self.place {
            Place::KMajor128 => row / 8 * 1024 + row % 8 * 128 + (byte ^ (row % 8 * 16)),
            Place::KMajorPlain => byte / 16 * (self.extent * 16) + row / 8 * 128 + row % 8 * 16 + byte % 16,
            Place::MnMajor128 => {
                let (wide, at) = (128 / self.element, row * self.element);
                row / wide * (self.depth() * 128)
                    + step / 8 * 1024
                    + step % 8 * 128
                    + ((at % 128) ^ (step % 8 * 16))
            }
        }
    }

    /// The descriptor of its part from a step of the depth on, at an address.
    fn descriptor(self, start: usize, step: usize) -> u64 {
        let (leading, stride, mode, first) = match self.place {
            Place::KMajor128 => (1, 1024 / 16, 2u64, step * self.element),
            Place::KMajorPlain => (self.extent, 128 / 16, 0, step * self.element / 16 * (self.extent * 16)),
            Place::MnMajor128 => (self.depth() * 128 / 16, 1024 / 16, 2, step / 8 * 1024),
        };
        let start = (start + first) as u64 / 16;
        mode << 61 | 1 << 46 | (stride as u64) << 32 | (leading as u64) << 16 | start
    }
}

/// A kind of multiply and the types of its operands.
#[derive(Clone, Copy, Debug)]
struct Types {
    kind: &'static str,
    /// The numbers of the types of D, A and B in the descriptor.
    numbers: (u32, u32, u32),
    /// Bytes of an element.
    element: usize,
    /// Bits of an element: 16 of 4 or 6 bits are followed by padding up to 16 bytes.
    width: usize,
    /// The bits of a small integer.
    bits: fn(i32) -> u32,
    /// What a cell of D holds.
    value: fn(u32) -> i32,
}

pub(crate) fn float_bits(value: i32) -> u32 {
    (value as f32).to_bits()
}

pub(crate) fn single(cell: u32) -> i32 {
    f32::from_bits(cell) as i32
}

const TYPES: [Types; 10] = [
    Types {
        kind: "f16",
        numbers: (1, 1, 1),
        element: 2,
        width: 16,
        bits: |v| float_bits(v) >> 16,
        value: single,
    },
    Types {
        kind: "f16",
        numbers: (1, 0, 0),
        element: 2,
        width: 16,
        bits: |v| half::f16::from_f32(v as f32).to_bits().into(),
        value: single,
    },
    Types {
        kind: "f16",
        numbers: (0, 0, 0),
        element: 2,
        width: 16,
        bits: |v| half::f16::from_f32(v as f32).to_bits().into(),
        value: |cell| half::f16::from_bits(cell as u16).to_f32() as i32,
    },
    Types { kind: "tf32", numbers: (1, 2, 2), element: 4, width: 32, bits: float_bits, value: single },
    Types {
        kind: "f8f6f4",
        numbers: (1, 1, 1),
        element: 1,
        width: 8,
        bits: |v| u32::from(half::f16::from_f32(v as f32).to_bits() >> 8),
        value: single,
    },
    Types {
        kind: "i8",
        numbers: (2, 1, 1),
        element: 1,
        width: 8,
        bits: |v| v as u32 & 0xff,
        value: |cell| cell as i32,
    },
    Types {
        kind: "i8",
        numbers: (2, 0, 1),
        element: 1,
        width: 8,
        bits: |v| v as u32 & 0xff,
        value: |cell| cell as i32,
    },
    // e2m1 by e2m1, e2m3 by e2m3, and e3m2 by e3m2.
    Types {
        kind: "f8f6f4",
        numbers: (1, 5, 5),
        element: 1,
        width: 4,
        bits: |v| small_bits(v, 1, 1),
        value: single,
    },
    Types {
        kind: "f8f6f4",
        numbers: (1, 3, 3),
        element: 1,
        width: 6,
        bits: |v| small_bits(v, 3, 1),
        value: single,
    },
    Types {
        kind: "f8f6f4",
        numbers: (1, 4, 4),
        element: 1,
        width: 6,
        bits: |v| small_bits(v, 2, 3),
        value: single,
    },
];

/// A small number as a float with a fraction of some bits and this exponent bias.
pub(crate) fn small_bits(value: i32, fraction: u32, bias: u32) -> u32 {
    if value == 0 { 0 } else { (float_bits(value) >> (23 - fraction)) - ((127 - bias) << fraction) }
}

/// A product of a pair of CTAs, or of one.
#[derive(Clone, Copy, Debug)]
struct Case {
    types: Types,
    ctas: u32,
    rows: usize,
    columns: usize,
    places: (Place, Place),
    /// Whether A is in tensor memory.
    left_in_cells: bool,
}

/// Small numbers that A and B consist of, none of them negative in unsigned types.
pub(crate) fn element(seed: usize, row: usize, step: usize) -> i32 {
    ((row * 31 + step * 17 + seed * 7 + row * step) % 5) as i32
}

/// Writes zeros to columns, for what no multiply writes: rows that a layout leaves out, and columns.
pub(crate) fn clear_columns(columns: usize) -> String {
    let eight = |eight: usize| {
        format!(
            "add.u32 %r1, %r101, {};
            tcgen05.st.sync.aligned.32x32b.x8.b32 [%r1], {{%r0, %r0, %r0, %r0, %r0, %r0, %r0, %r0}};\n",
            8 * eight
        )
    };
    std::iter::once("mov.u32 %r0, 0;\n".to_owned()).chain((0..columns / 8).map(eight)).collect()
}

impl Case {
    fn run(self, schedule: Schedule) {
        let Case { types, ctas, rows, columns, .. } = self;
        let parts = ctas as usize;
        let a = Matrix { place: self.places.0, extent: rows / parts, element: types.element };
        let b = Matrix { place: self.places.1, extent: columns / parts, element: types.element };
        let b_start = a.bytes().next_multiple_of(1024);
        let size = b_start + b.bytes();
        let mut image = vec![0u8; size * parts];
        for part in 0..parts {
            let mut put = |matrix: Matrix, start: usize, seed: usize, first: usize| {
                for (row, step) in
                    (0..matrix.extent).flat_map(|row| (0..matrix.depth()).map(move |s| (row, s)))
                {
                    let bits = (types.bits)(element(seed, first + row, step));
                    let first_of_16 = match matrix.place {
                        Place::MnMajor128 => matrix.offset(row / 16 * 16, step),
                        _ => matrix.offset(row, step / 16 * 16),
                    };
                    let at = 8 * (part * size + start);
                    let at = at
                        + match (types.width, matrix.place) {
                            (4 | 6, Place::MnMajor128) => 8 * first_of_16 + row % 16 * types.width,
                            (4 | 6, _) => 8 * first_of_16 + step % 16 * types.width,
                            _ => 8 * matrix.offset(row, step),
                        };
                    for bit in (0..types.width).filter(|bit| bits >> bit & 1 != 0) {
                        image[(at + bit) / 8] |= 1 << ((at + bit) % 8);
                    }
                }
            };
            put(a, 0, 1, part * a.extent);
            put(b, b_start, 2, part * b.extent);
        }
        let (d_type, a_type, b_type) = types.numbers;
        let transposed = |place: Place| u32::from(place == Place::MnMajor128);
        let descriptor = d_type << 4
            | a_type << 7
            | b_type << 10
            | transposed(self.places.0) << 15
            | transposed(self.places.1) << 16
            | (columns as u32 / 8) << 17
            | (rows as u32 / 16) << 24;
        let steps = 32 / types.element;
        let mut issue = String::new();
        for (index, step) in (0..a.depth()).step_by(steps).enumerate() {
            let (a, b) = (a.descriptor(0, step), b.descriptor(b_start, step));
            let left = if self.left_in_cells {
                format!("add.u32 %r9, %r100, {}; setp.ne.u32 %q1, 0, {index};", 256 + 8 * index)
            } else {
                format!("add.u64 %d1, %d0, {a:#x}; setp.ne.u32 %q1, 0, {index};")
            };
            let operand = if self.left_in_cells { "[%r9]" } else { "%d1" };
            issue += &format!(
                "{left} add.u64 %d2, %d0, {b:#x};
                tcgen05.mma.cta_group::GROUP.kind::{} [%r100], {operand}, %d2, {descriptor}, %q1;\n",
                types.kind
            );
        }
        issue += match ctas {
            1 => "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r103];",
            _ => {
                "mov.b16 %h0, 3;
                tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r103], %h0;"
            }
        };
        let keep = store_accumulators(columns);
        // Rows of A go through registers into tensor memory.
        let spread: String = if self.left_in_cells {
            (0..4)
                .map(|eight| {
                    let loads: String = (0..8)
                        .map(|word| {
                            format!("ld.global.u32 %r{}, [%p2+{}];\n", 20 + word, 32 * eight + 4 * word)
                        })
                        .collect();
                    format!(
                        "{loads} add.u32 %r1, %r101, {};
                        tcgen05.st.sync.aligned.32x32b.x8.b32 [%r1], {};\n",
                        256 + 8 * eight,
                        registers(20, 8)
                    )
                })
                .chain(["tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync;".to_owned()])
                .collect()
        } else {
            String::new()
        };
        let clear = clear_columns(columns);
        let body = format!(
            "{clear} tcgen05.wait::st.sync.aligned;
            mul.wide.u32 %d5, %t, {row_bytes}; mov.u32 %r5, %cluster_ctarank; mul.wide.u32 %d6, %r5, {a_bytes};
            add.u64 %p2, %p2, %d5; add.u64 %p2, %p2, %d6; {spread}
            mul.wide.u32 %d6, %r5, {size}; add.u64 %p0, %p0, %d6;
            mul.wide.u32 %d6, %t, 4; add.u64 %p0, %p0, %d6; mov.u32 %r6, image; cvt.u64.u32 %d0, %r6; shr.u64 %d0, %d0, 4;
            and.b64 %d0, %d0, 0x3fff;
            mad.lo.u32 %r6, %t, 4, %r6; mov.u32 %r7, {words};
            fill: ld.global.u32 %r8, [%p0]; st.shared.u32 [%r6], %r8; add.u64 %p0, %p0, 512; add.u32 %r6, %r6, 512;
            sub.u32 %r7, %r7, 128; setp.gt.s32 %q1, %r7, 0; @%q1 bra fill;
            fence.proxy.async; tcgen05.fence::before_thread_sync; MEET
            setp.eq.and.u32 %q2, %r5, 0, %q10; @!%q2 bra issued;
            tcgen05.fence::after_thread_sync;
            {issue}
            issued:
            wait: mbarrier.try_wait.parity.shared::cta.b64 %q3, [%r103], 0; @!%q3 bra wait;
            tcgen05.fence::after_thread_sync;
            mul.wide.u32 %d7, %t, {out_bytes}; mul.wide.u32 %d6, %r5, {cta_out}; add.u64 %p1, %p1, %d7; add.u64 %p1, %p1, %d6;
            {keep}",
            row_bytes = 128,
            a_bytes = 128 * 128,
            words = size / 4,
            out_bytes = 4 * columns,
            cta_out = 128 * 4 * columns,
        );
        let body = format!(".shared .align 1024 .b8 image[{size}];\n{}", with_columns(512, &body));
        let text = blackwell(3, &of_group(ctas, &body));
        let rows_of_a: Vec<u8> = (0..128 * parts)
            .flat_map(|row| {
                let (part, row) = (row / 128, row % 128);
                (0..128 / types.element).flat_map(move |step| {
                    let bits = (types.bits)(element(1, part * a.extent + row % a.extent, step)).to_le_bytes();
                    bits.into_iter().take(types.element)
                })
            })
            .collect();
        let out = vec![0u32; 128 * columns * parts];
        let arguments =
            [crate::common::Argument::Buffer(image), words(out), crate::common::Argument::Buffer(rows_of_a)];
        let finished = ran(&text, launch(ctas, schedule), &arguments);
        let found = finished.words(1);
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
            let expected: i32 =
                (0..a.depth()).map(|step| element(1, row, step) * element(2, column, step)).sum();
            let (part, own) = (row / a.extent, row % a.extent);
            let (lane, at) = match (ctas, rows) {
                (1, 64) => (own / 16 * 32 + own % 16, column),
                (2, 128) if column >= columns / 2 => (64 + own, column - columns / 2),
                _ => (own, column),
            };
            let cell = found[(part * 128 + lane) * columns + at];
            assert_eq!((types.value)(cell), expected, "row {row}, column {column} of {self:?}, {schedule:?}");
        }
    }
}

#[test]
fn every_type_and_place_multiplies() {
    let (k128, plain, mn) = (Place::KMajor128, Place::KMajorPlain, Place::MnMajor128);
    for types in TYPES {
        for places in [(k128, k128), (plain, k128), (k128, plain), (mn, mn), (mn, k128)] {
            // Atoms of 16 bytes do not transpose elements of 32 bits: `tensor_multiply` has those of 32.
            if types.kind == "tf32" && (places.0 == mn || places.1 == mn) {
                continue;
            }
            for (rows, columns) in [(128, 128), (64, 128)] {
                Case { types, ctas: 1, rows, columns, places, left_in_cells: false }.run(Schedule::Eager);
            }
        }
    }
}

#[test]
fn every_shape_multiplies_at_every_schedule() {
    let k128 = Place::KMajor128;
    for (ctas, rows, columns) in [
        (1, 64, 8),
        (1, 64, 24),
        (1, 64, 256),
        (1, 128, 16),
        (1, 128, 48),
        (1, 128, 256),
        (2, 256, 32),
        (2, 256, 256),
        (2, 128, 64),
        (2, 128, 256),
    ] {
        for schedule in SCHEDULES {
            let case =
                Case { types: TYPES[0], ctas, rows, columns, places: (k128, k128), left_in_cells: false };
            case.run(schedule);
        }
    }
}

#[test]
fn a_may_be_in_tensor_memory() {
    let k128 = Place::KMajor128;
    for types in [TYPES[0], TYPES[1], TYPES[3], TYPES[4], TYPES[5]] {
        for schedule in SCHEDULES {
            let case =
                Case { types, ctas: 1, rows: 128, columns: 64, places: (k128, k128), left_in_cells: true };
            case.run(schedule);
        }
    }
}

#[test]
fn copies_go_to_their_rows() {
    // The row that is copied to each row, if one is.
    type Case = (&'static str, u32, u32, fn(u32) -> Option<u32>);
    let cases: [Case; 6] = [
        ("128x256b", 128, 2, Some),
        ("4x256b", 4, 2, |row| (row % 32 == 0).then_some(row / 32)),
        ("128x128b", 128, 1, Some),
        ("64x128b.warpx2::02_13", 64, 1, |row| Some(row % 64)),
        ("64x128b.warpx2::01_23", 64, 1, |row| Some(row % 32 + row / 64 * 32)),
        ("32x128b.warpx4", 32, 1, |row| Some(row % 32)),
    ];
    for (shape, rows, pieces, source) in cases {
        let columns = 4 * pieces;
        let body = format!(
            "mov.u32 %r6, image; mad.lo.u32 %r6, %t, {bytes}, %r6; mov.u32 %r7, 0;
            mul.lo.u32 %r8, %t, {columns}; setp.lt.u32 %q1, %t, {rows}; @!%q1 bra filled;
            fill: st.shared.u32 [%r6], %r8; add.u32 %r6, %r6, 4; add.u32 %r8, %r8, 1; add.u32 %r7, %r7, 1;
            setp.lt.u32 %q1, %r7, {columns}; @%q1 bra fill;
            filled: mov.u32 %r20, 0xffffffff; tcgen05.st.sync.aligned.32x32b.x4.b32 [%r101], {{%r20, %r20, %r20, %r20}};
            tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync;
            fence.proxy.async; bar.sync 0; @!%q10 bra copied; tcgen05.fence::after_thread_sync;
            mov.u32 %r6, image; shr.u32 %r6, %r6, 4; cvt.u64.u32 %d0, %r6; or.b64 %d0, %d0, {descriptor:#x};
            tcgen05.cp.cta_group::1.{shape} [%r100], %d0;
            tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r103];
            copied: wait: mbarrier.try_wait.parity.shared::cta.b64 %q3, [%r103], 0; @!%q3 bra wait;
            tcgen05.fence::after_thread_sync;
            tcgen05.ld.sync.aligned.32x32b.x4.b32 {{%r20, %r21, %r22, %r23}}, [%r101]; tcgen05.wait::ld.sync.aligned;
            mul.wide.u32 %d1, %t, 16; add.u64 %p0, %p0, %d1; st.global.u32 [%p0], %r20; st.global.u32 [%p0+4], %r21;
            st.global.u32 [%p0+8], %r22; st.global.u32 [%p0+12], %r23;",
            bytes = 16 * pieces,
            // Rows of 32 bytes are those of the swizzle of 32 bytes, whose exchange the first four
            // rows of eight do not notice.
            descriptor = (if pieces == 2 { 6u64 } else { 0 }) << 61 | 1 << 46 | (8 * pieces as u64) << 32,
        );
        let body = format!(".shared .align 1024 .b8 image[4096];\n{}", with_columns(32, &body));
        let text = blackwell(1, &of_group(1, &body));
        for schedule in SCHEDULES {
            let finished = ran(&text, launch(1, schedule), &[words(vec![0; 512])]);
            for (row, cells) in (0..).zip(finished.words(0).chunks(4)) {
                let Some(from) = source(row) else {
                    assert_eq!(cells, [u32::MAX; 4], "{shape} row {row} {schedule:?}");
                    continue;
                };
                let first = if pieces == 2 { from * columns + from / 4 % 2 * 4 } else { from * columns };
                assert_eq!(cells, [first, first + 1, first + 2, first + 3], "{shape} row {row} {schedule:?}");
            }
        }
    }
}

fn fault(body: &str) -> Fault {
    let text = blackwell(1, &of_group(1, &with_columns(64, body)));
    match try_run(&text, launch(1, Schedule::Eager), &[words([0; 128])]) {
        Ok(_) => panic!("it ran:\n{text}"),
        Err(fault) => *fault,
    }
}

/// What a body does wrong, and a part of what is said of it.
#[test]
fn wrong_uses_are_reported() {
    let cases = [
        ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r100];", FaultKind::TensorMemory, "add 96 << 16"),
        (
            "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%r101+63];",
            FaultKind::OutOfBounds,
            "columns 63 to 64",
        ),
        (
            "@%q11 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r102], 32;",
            FaultKind::TensorMemory,
            "has relinquished its allocation permit",
        ),
        (
            "@%q11 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r100, 32;",
            FaultKind::TensorMemory,
            "not allocated together",
        ),
        (
            "@%q10 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [%r103];",
            FaultKind::TensorMemory,
            "cta_group::1 before",
        ),
        (
            "mov.u64 %d0, 0; tcgen05.mma.cta_group::1.kind::f16 [%r100], %d0, %d0, 0, %q10;",
            FaultKind::TensorMemory,
            "32 lanes issue",
        ),
        (
            "mov.u64 %d0, 0; @%q10 tcgen05.mma.cta_group::1.kind::f16 [%r100], %d0, %d0, 0, %q10;",
            FaultKind::TensorMemory,
            "0 rows",
        ),
        (
            "mov.u64 %d0, 0x800000000000; @%q10 tcgen05.mma.cta_group::1.kind::f16 [%r100], %d0, %d0, 0x8100490, %q10;",
            FaultKind::TensorMemory,
            "bits 46 to 48",
        ),
    ];
    for (body, kind, said) in cases {
        let fault = fault(body);
        assert_eq!(fault.kind, kind, "{fault}");
        assert!(fault.to_string().contains(said), "{fault}");
    }
    let odd = of_group(1, &with_columns(48, ""));
    let fault = try_run(&blackwell(1, &odd), launch(1, Schedule::Eager), &[words([0; 128])]).err().unwrap();
    assert!(fault.to_string().contains("powers of two from 32 to 512"), "{fault}");
}

/// A warp that requests more columns than are free waits forever; the deadlock is reported.
#[test]
fn columns_that_never_come_are_a_deadlock() {
    let body = "
        .shared .b32 slot; mov.u32 %r0, slot;
        tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 512;
        tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 32;";
    let fault = try_run(&blackwell(1, body), shape(1, 32), &[words([0; 1])]).err().unwrap();
    assert_eq!(fault.kind, FaultKind::Deadlock);
    assert!(fault.to_string().contains("tensor-memory columns, of which 0 are free"), "{fault}");
}

/// Pairs of f32, half by half as single ones are computed.
#[test]
fn pairs_of_singles() {
    let cases: [(&str, [f32; 6], [f32; 2]); 4] = [
        ("add.rn.f32x2 %d4, %d1, %d2", [1.5, -2.0, 0.25, 8.0, 0.0, 0.0], [1.75, 6.0]),
        ("sub.rn.f32x2 %d4, %d1, %d2", [1.5, -2.0, 0.25, 8.0, 0.0, 0.0], [1.25, -10.0]),
        (
            "mul.rz.f32x2 %d4, %d1, %d2",
            [1.5, 1.0 + f32::EPSILON, 2.0, 1.0 + f32::EPSILON, 0.0, 0.0],
            [3.0, 1.0 + 2.0 * f32::EPSILON],
        ),
        ("fma.rn.f32x2 %d4, %d1, %d2, %d3", [2.0, 3.0, 5.0, 7.0, 0.5, -1.0], [10.5, 20.0]),
    ];
    for (instruction, given, expected) in cases {
        let body = format!(
            "ld.global.v2.f32 {{%f1, %f2}}, [%p0]; ld.global.v2.f32 {{%f3, %f4}}, [%p0+8]; ld.global.v2.f32 {{%f5, %f6}}, [%p0+16];
            mov.b64 %d1, {{%f1, %f2}}; mov.b64 %d2, {{%f3, %f4}}; mov.b64 %d3, {{%f5, %f6}};
            {instruction}; mov.b64 {{%f1, %f2}}, %d4; st.global.v2.f32 [%p0], {{%f1, %f2}};"
        );
        let finished = ran(&blackwell(1, &body), shape(1, 1), &[crate::common::floats(given)]);
        assert_eq!(finished.floats(0)[..2], expected, "{instruction}");
    }
}

/// The least and the greatest of three numbers, or of their magnitudes.
#[test]
fn extrema_of_three() {
    let cases: [(&str, [f32; 3], f32); 6] = [
        ("min.f32", [1.5, -2.0, 0.25], -2.0),
        ("max.f32", [1.5, -2.0, 0.25], 1.5),
        ("min.abs.f32", [1.5, -2.0, -0.25], 0.25),
        ("max.abs.f32", [1.5, -2.0, 0.25], 2.0),
        ("max.NaN.abs.f32", [1.5, f32::NAN, -0.25], f32::NAN),
        ("max.abs.f32", [f32::NAN, -0.5, -0.25], 0.5),
    ];
    for (instruction, [a, b, c], expected) in cases {
        let body = format!(
            "ld.global.v2.f32 {{%f1, %f2}}, [%p0]; ld.global.f32 %f3, [%p0+8];
            {instruction} %f4, %f1, %f2, %f3; st.global.f32 [%p0], %f4;"
        );
        let finished = ran(&blackwell(1, &body), shape(1, 1), &[crate::common::floats([a, b, c])]);
        let found = finished.floats(0)[0];
        assert!(found == expected || found.is_nan() && expected.is_nan(), "{instruction}: {found}");
    }
}

/// A product with scales of blocks: the kind, the word after `.block_scale`, the numbers and the bits
/// of A's and B's types, the elements of a block, and the number of the scales' type.
#[derive(Clone, Copy, Debug)]
struct Scaled {
    kind: &'static str,
    vector: &'static str,
    numbers: [u32; 2],
    bits: [fn(i32) -> u32; 2],
    widths: [usize; 2],
    block: usize,
    scale_type: u32,
}

const fn scaled(kind: &'static str, vector: &'static str, block: usize, scale_type: u32) -> Scaled {
    Scaled { kind, vector, numbers: [1, 1], bits: [e2m1; 2], widths: [4; 2], block, scale_type }
}

pub(crate) fn e2m1(value: i32) -> u32 {
    small_bits(value, 1, 1)
}

pub(crate) fn e4m3(value: i32) -> u32 {
    small_bits(value, 3, 7)
}

pub(crate) fn e5m2(value: i32) -> u32 {
    small_bits(value, 2, 15)
}

pub(crate) fn e3m2(value: i32) -> u32 {
    small_bits(value, 2, 3)
}

const SCALED: [Scaled; 7] = [
    scaled("mxf4", ".scale_vec::2X", 32, 1),
    scaled("mxf4", "", 32, 1),
    scaled("mxf4nvf4", ".scale_vec::4X", 16, 0),
    scaled("mxf4nvf4", ".block16", 16, 1),
    scaled("mxf4nvf4", ".block32", 32, 1),
    Scaled {
        numbers: [0, 1],
        bits: [e4m3, e5m2],
        widths: [8; 2],
        ..scaled("mxf8f6f4", ".scale_vec::1X", 32, 1)
    },
    Scaled { numbers: [5, 4], bits: [e2m1, e3m2], widths: [4, 6], ..scaled("mxf8f6f4", "", 32, 1) },
];

impl Scaled {
    fn is_packed(self) -> bool {
        self.kind != "mxf8f6f4"
    }

    fn depth(self) -> usize {
        if self.is_packed() { 64 } else { 32 }
    }

    /// The scale of a block of a row of A (`side` 0) or a column of B, and its byte.
    fn scale(self, side: usize, index: usize, block: usize) -> (f64, u8) {
        let choice = (index * 5 + block * 3 + side) % 3;
        match self.scale_type {
            0 => [(0.5, 0x30), (1.0, 0x38), (1.5, 0x3c)][choice],
            _ => [(0.5, 126), (1.0, 127), (4.0, 129)][choice],
        }
    }

    /// Rows of A, or columns of B, one after another: 16 bytes of each, and then the next 16.
    fn image(self, side: usize, first: usize, extent: usize) -> Vec<u8> {
        let each = if self.is_packed() { 32 } else { 16 };
        let mut image = vec![0u8; extent * 32];
        for (row, step) in (0..extent).flat_map(|row| (0..self.depth()).map(move |step| (row, step))) {
            let bits = self.bits[side](element(side + 1, first + row, step));
            let at = 8 * (step / each * extent * 16 + row * 16) + step % each * self.widths[side];
            for bit in (0..self.widths[side]).filter(|bit| bits >> bit & 1 != 0) {
                image[(at + bit) / 8] |= 1 << ((at + bit) % 8);
            }
        }
        image
    }

    fn run(self, (ctas, rows, columns): (u32, usize, usize), first: [usize; 2], schedule: Schedule) {
        let (parts, scales) = (ctas as usize, self.depth() / self.block);
        let (own_rows, own_columns) = (rows / parts, columns / parts);
        let (mut image, mut cells) = (Vec::new(), Vec::new());
        for part in 0..parts {
            image.extend(self.image(0, part * own_rows, own_rows));
            image.extend(self.image(1, part * own_columns, own_columns));
            // Of each thread 4 cells with scales of A, and 8 of B.
            for thread in 0..128 {
                for (side, column) in (0..4).map(|column| (0, column)).chain((0..8).map(|column| (1, column)))
                {
                    // The upper 64 rows of tensor memory have the second half of the columns of a folded D.
                    let first_column = if own_rows == 64 { thread / 64 * columns / 2 } else { 0 };
                    let index =
                        32 * column + thread % 32 + if side == 0 { part * own_rows } else { first_column };
                    let mut word = [0x55; 4];
                    for block in 0..scales {
                        word[first[side] + block] = self.scale(side, index, block).1;
                    }
                    cells.push(u32::from_le_bytes(word));
                }
            }
        }
        let size = 32 * (own_rows + own_columns);
        let matrix =
            |start: usize, extent: usize| 1u64 << 46 | 8 << 32 | (extent as u64) << 16 | (start as u64 / 16);
        let descriptor = (first[1] as u32) << 4
            | self.numbers[0] << 7
            | self.numbers[1] << 10
            | (columns as u32 / 8) << 17
            | self.scale_type << 23
            | (rows as u32 / 16) << 24
            | (first[0] as u32) << 29;
        let loads: String =
            (0..12).map(|word| format!("ld.global.u32 %r{}, [%p2+{}];\n", 20 + word, 4 * word)).collect();
        let commit = match ctas {
            1 => "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r103];",
            _ => {
                "mov.b16 %h0, 3;
                tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r103], %h0;"
            }
        };
        let keep = store_accumulators(columns);
        let body = format!(
            ".shared .align 1024 .b8 image[{size}];
            mov.u32 %r5, %cluster_ctarank; mad.lo.u32 %r6, %r5, 128, %t;
            mul.wide.u32 %d5, %r6, 48; add.u64 %p2, %p2, %d5; {loads}
            add.u32 %r1, %r101, 256; tcgen05.st.sync.aligned.32x32b.x4.b32 [%r1], {};
            add.u32 %r1, %r101, 260; tcgen05.st.sync.aligned.32x32b.x8.b32 [%r1], {};
            {clear} tcgen05.wait::st.sync.aligned;
            mul.wide.u32 %d6, %r5, {size}; add.u64 %p0, %p0, %d6; mul.wide.u32 %d6, %t, 4; add.u64 %p0, %p0, %d6;
            mov.u32 %r6, image; cvt.u64.u32 %d0, %r6; shr.u64 %d0, %d0, 4; and.b64 %d0, %d0, 0x3fff;
            mad.lo.u32 %r6, %t, 4, %r6; mad.lo.u32 %r7, %t, -4, {size};
            fill: setp.gt.s32 %q1, %r7, 0; @!%q1 bra filled;
            ld.global.u32 %r8, [%p0]; st.shared.u32 [%r6], %r8; add.u64 %p0, %p0, 512; add.u32 %r6, %r6, 512;
            sub.u32 %r7, %r7, 512; bra fill;
            filled: fence.proxy.async; tcgen05.fence::before_thread_sync; MEET
            setp.eq.and.u32 %q2, %r5, 0, %q10; @!%q2 bra issued;
            tcgen05.fence::after_thread_sync;
            add.u64 %d1, %d0, {a:#x}; add.u64 %d2, %d0, {b:#x}; add.u32 %r9, %r100, 256; add.u32 %r10, %r100, 260;
            setp.ne.u32 %q1, 0, 0;
            tcgen05.mma.cta_group::GROUP.kind::{kind}.block_scale{vector} [%r100], %d1, %d2, {descriptor}, [%r9], [%r10], %q1;
            setp.eq.u32 %q1, 0, 0;
            tcgen05.mma.cta_group::GROUP.kind::{kind}.block_scale{vector}.collector::a::lastuse [%r100], %d1, %d2, {descriptor}, [%r9], [%r10], %q1;
            {commit}
            issued:
            wait: mbarrier.try_wait.parity.shared::cta.b64 %q3, [%r103], 0; @!%q3 bra wait;
            tcgen05.fence::after_thread_sync;
            mad.lo.u32 %r6, %r5, 128, %t; mul.wide.u32 %d7, %r6, {out_bytes}; add.u64 %p1, %p1, %d7;
            {keep}",
            registers(20, 4),
            registers(24, 8),
            clear = clear_columns(columns),
            a = matrix(0, own_rows),
            b = matrix(32 * own_rows, own_columns),
            kind = self.kind,
            vector = self.vector,
            out_bytes = 4 * columns,
        );
        let text = blackwell(3, &of_group(ctas, &with_columns(512, &body)));
        let out = vec![0u32; 128 * columns * parts];
        let arguments = [crate::common::Argument::Buffer(image), words(out), words(cells)];
        let finished = ran(&text, launch(ctas, schedule), &arguments);
        let found = finished.words(1);
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
            let product = |step: usize| {
                let [(of_a, _), (of_b, _)] =
                    [(0, row), (1, column)].map(|(side, index)| self.scale(side, index, step / self.block));
                of_a * of_b * f64::from(element(1, row, step) * element(2, column, step))
            };
            // Two equal products, of which the second is added.
            let expected = 2.0 * (0..self.depth()).map(product).sum::<f64>();
            let (part, own) = (row / own_rows, row % own_rows);
            let folded = own_rows == 64 && column >= columns / 2;
            let (lane, at) = if folded { (64 + own, column - columns / 2) } else { (own, column) };
            let cell = f32::from_bits(found[(part * 128 + lane) * columns + at]);
            assert_eq!(f64::from(cell), expected, "row {row}, column {column} of {self:?}, {schedule:?}");
        }
    }
}

#[test]
fn blocks_have_scales() {
    for (number, case) in SCALED.into_iter().enumerate() {
        // Of one or two scales there are more places in a cell.
        let first = match case.depth() / case.block {
            1 => [3, 1],
            2 => [2, 0],
            _ => [0, 0],
        };
        case.run((1, 128, 72), first, SCHEDULES[number % 4]);
    }
    SCALED[0].run((2, 256, 64), [0, 2], Schedule::Latest);
    SCALED[5].run((2, 128, 48), [1, 2], Schedule::Eager);
}

/// 16 elements of 4 or 6 bits and their padding become a byte each: those of 4 bits its middle, and those
/// of 6 bits its lowest bits.
#[test]
fn copies_give_small_elements_a_byte_each() {
    for (format, width) in [("b4x16_p64", 4), ("b6x16_p32", 6)] {
        // Element i of row r is r + 3 i.
        let element = |row: u32, index: u32| (row + 3 * index) % (1 << width);
        let image: Vec<u32> = (0..32)
            .flat_map(|row| {
                let packed: u128 = (0..16).map(|i| u128::from(element(row, i)) << (i * width)).sum();
                (0..4).map(move |word| (packed >> (32 * word)) as u32)
            })
            .collect();
        let body = format!(
            ".shared .align 1024 .b8 image[512];
            mul.wide.u32 %d5, %t, 4; add.u64 %p1, %p1, %d5; ld.global.u32 %r8, [%p1];
            mov.u32 %r6, image; mad.lo.u32 %r7, %t, 4, %r6; st.shared.u32 [%r7], %r8;
            fence.proxy.async; bar.sync 0; @!%q10 bra copied;
            shr.u32 %r6, %r6, 4; cvt.u64.u32 %d0, %r6; or.b64 %d0, %d0, 0x400800010000;
            tcgen05.cp.cta_group::1.32x128b.warpx4.b8x16.{format} [%r100], %d0;
            tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r103];
            copied: wait: mbarrier.try_wait.parity.shared::cta.b64 %q3, [%r103], 0; @!%q3 bra wait;
            tcgen05.fence::after_thread_sync;
            tcgen05.ld.sync.aligned.32x32b.x4.b32 {{%r20, %r21, %r22, %r23}}, [%r101]; tcgen05.wait::ld.sync.aligned;
            mul.wide.u32 %d1, %t, 16; add.u64 %p0, %p0, %d1; st.global.u32 [%p0], %r20; st.global.u32 [%p0+4], %r21;
            st.global.u32 [%p0+8], %r22; st.global.u32 [%p0+12], %r23;"
        );
        let text = blackwell(2, &of_group(1, &with_columns(32, &body)));
        let finished = ran(&text, launch(1, Schedule::Eager), &[words(vec![0; 512]), words(image)]);
        for (row, cells) in (0..128).zip(finished.words(0).chunks(4)) {
            let bytes: Vec<u32> = cells.iter().flat_map(|cell| cell.to_le_bytes()).map(u32::from).collect();
            let below = if width == 4 { 2 } else { 0 };
            let expected: Vec<u32> = (0..16).map(|index| element(row % 32, index) << below).collect();
            assert_eq!(bytes, expected, "{format} row {row}");
        }
    }
}

/// D is divided before the product is added.
#[test]
fn what_d_holds_may_be_divided() {
    let body = "
        .shared .align 1024 .b8 zeros[8192];
        mov.u32 %r6, zeros; mad.lo.u32 %r7, %t, 64, %r6; mov.u32 %r8, 0;
        st.shared.v4.u32 [%r7], {%r8, %r8, %r8, %r8}; st.shared.v4.u32 [%r7+16], {%r8, %r8, %r8, %r8};
        st.shared.v4.u32 [%r7+32], {%r8, %r8, %r8, %r8}; st.shared.v4.u32 [%r7+48], {%r8, %r8, %r8, %r8};
        mov.u32 %r20, 0x40c00000;
        tcgen05.st.sync.aligned.32x32b.x8.b32 [%r101], {%r20, %r20, %r20, %r20, %r20, %r20, %r20, %r20};
        add.u32 %r1, %r101, 8;
        tcgen05.st.sync.aligned.32x32b.x8.b32 [%r1], {%r20, %r20, %r20, %r20, %r20, %r20, %r20, %r20};
        tcgen05.wait::st.sync.aligned; fence.proxy.async; tcgen05.fence::before_thread_sync; MEET
        @!%q10 bra issued; tcgen05.fence::after_thread_sync;
        shr.u32 %r6, %r6, 4; cvt.u64.u32 %d0, %r6; or.b64 %d0, %d0, 0x400800800000;
        tcgen05.mma.cta_group::1.kind::f16.collector::a::fill [%r100], %d0, %d0, 0x8040490, %q10, 3;
        tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r103];
        issued: wait: mbarrier.try_wait.parity.shared::cta.b64 %q3, [%r103], 0; @!%q3 bra wait;
        tcgen05.fence::after_thread_sync;
        tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r21}, [%r101]; tcgen05.wait::ld.sync.aligned;
        mul.wide.u32 %d1, %t, 4; add.u64 %p0, %p0, %d1; st.global.u32 [%p0], %r21;";
    let text = blackwell(1, &of_group(1, &with_columns(32, body)));
    let finished = ran(&text, launch(1, Schedule::Latest), &[words([0; 128])]);
    assert_eq!(finished.floats(0), [0.75; 128]);
}

#[test]
fn a_commit_to_a_cta_that_no_cluster_has_is_a_fault() {
    let body = ".shared .align 8 .b64 object; setp.eq.u32 %q1, %t, 0; mov.u32 %r1, 0x14000000;
        @%q1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r1];";
    let fault = try_run(&blackwell(1, body), shape(1, 32), &[words([0])]).err().unwrap();
    assert_eq!((fault.kind, fault.lanes), (FaultKind::OutOfBounds, 1), "{fault}");
    assert!(fault.message.contains("The cluster has no CTA of rank 20."), "{fault}");
}
