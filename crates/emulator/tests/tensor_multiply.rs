//! `tcgen05.mma` with a sparse A, weight-stationary, and with rows of A shifted; `tcgen05.shift` and
//! `tcgen05.ld.red`. There was no such GPU: results are held to the PTX ISA's words, to CUTLASS's layouts,
//! and to sums that are exact.

use crate::common::{Argument, kernel, try_run, words};
use crate::tensor_memory::{
    SCHEDULES, blackwell, clear_columns, e2m1, e3m2, e4m3, e5m2, element, float_bits, launch, of_group, ran,
    registers, single, store_accumulators, with_columns,
};
use warpwright_emulator::{FaultKind, Schedule};

/// A kind with the types of its operands.
#[derive(Clone, Copy, Debug)]
struct Types {
    /// The kind and the words after it.
    kind: &'static str,
    /// The numbers of the types of D, A and B in the descriptor.
    numbers: (u32, u32, u32),
    /// Bits of an element of A and of B, and those that it has in tensor memory.
    widths: [usize; 2],
    stored: usize,
    bits: [fn(i32) -> u32; 2],
    value: fn(u32) -> i32,
    /// The dense blocks with a scale.
    block: Option<usize>,
}

fn bf16(value: i32) -> u32 {
    float_bits(value) >> 16
}

fn integer(value: i32) -> u32 {
    value as u32 & 0xff
}

fn e2m3(value: i32) -> u32 {
    crate::tensor_memory::small_bits(value, 3, 1)
}

const fn of(kind: &'static str, numbers: (u32, u32, u32), width: usize, bits: fn(i32) -> u32) -> Types {
    let stored = if width < 8 { 8 } else { width };
    Types { kind, numbers, widths: [width; 2], stored, bits: [bits; 2], value: single, block: None }
}

const PLAIN: [Types; 6] = [
    of("f16", (1, 1, 1), 16, bf16),
    of("tf32", (1, 2, 2), 32, float_bits),
    Types { bits: [e4m3, e5m2], ..of("f8f6f4", (1, 0, 1), 8, e4m3) },
    Types { widths: [4, 6], bits: [e2m1, e3m2], ..of("f8f6f4", (1, 5, 4), 4, e2m1) },
    of("f8f6f4", (1, 3, 3), 6, e2m3),
    Types { value: |cell| cell as i32, ..of("i8", (2, 1, 1), 8, integer) },
];

const SCALED: [Types; 4] = [
    Types {
        block: Some(32),
        bits: [e4m3, e5m2],
        ..of("mxf8f6f4.block_scale.scale_vec::1X", (0, 0, 1), 8, e4m3)
    },
    Types { block: Some(32), stored: 4, ..of("mxf4.block_scale.block32", (0, 1, 1), 4, e2m1) },
    Types { block: Some(32), stored: 4, ..of("mxf4nvf4.block_scale.scale_vec::2X", (0, 1, 1), 4, e2m1) },
    Types { block: Some(16), stored: 4, ..of("mxf4nvf4.block_scale.block16", (0, 1, 1), 4, e2m1) },
];

/// One multiply.
#[derive(Clone, Copy, Debug)]
struct Case {
    types: Types,
    /// `.ws`
    stationary: bool,
    sparse: bool,
    /// `.ashift`, and a collector's word.
    usage: &'static str,
    ctas: u32,
    rows: usize,
    columns: usize,
    left_in_cells: bool,
    /// The mask of zero columns of `.ws`.
    mask: u64,
    /// The sparsity selector.
    selector: usize,
}

const fn case(types: Types, (ctas, rows, columns): (u32, usize, usize)) -> Case {
    Case {
        types,
        stationary: false,
        sparse: false,
        usage: "",
        ctas,
        rows,
        columns,
        left_in_cells: false,
        mask: 0,
        selector: 0,
    }
}

/// Where rows of 32 or 64 bytes begin: 16 bytes of each, and then the next 16.
fn put(image: &mut [u8], extent: usize, row: usize, first_bit: usize, width: usize, bits: u32) {
    let at = 8 * (first_bit / 128 * extent * 16 + row * 16) + first_bit % 128;
    for bit in (0..width).filter(|bit| bits >> bit & 1 != 0) {
        image[(at + bit) / 8] |= 1 << ((at + bit) % 8);
    }
}

impl Case {
    fn own_rows(self) -> usize {
        self.rows / self.ctas as usize
    }

    /// Elements of A that are stored of a row.
    fn stored_depth(self) -> usize {
        256 / self.types.stored
    }

    fn depth(self) -> usize {
        if self.sparse { 2 * self.stored_depth() } else { self.stored_depth() }
    }

    /// The parts of the columns of D that have rows of tensor memory of their own.
    fn banks(self) -> usize {
        match self.own_rows() {
            _ if self.is_scattered() => 1,
            rows => 128 / rows,
        }
    }

    /// Whether rows of D, A and metadata are the first 16 of every 32 rows of tensor memory.
    fn is_scattered(self) -> bool {
        self.own_rows() == 64 && !self.stationary && (self.ctas == 1 || self.sparse)
    }

    /// The row of A and the part of the columns that a row of tensor memory has.
    fn row_of(self, lane: usize) -> (usize, usize) {
        match self.is_scattered() {
            true => (lane / 32 * 16 + lane % 16, 0),
            false => (lane % self.own_rows(), lane / self.own_rows()),
        }
    }

    /// The columns of a row's stored elements, in order, and the row's metadata, for a part of the columns.
    fn positions(self, row: usize, bank: usize) -> (Vec<usize>, u64) {
        let mut random = ((row + 1) * 4 + bank) as u64;
        random = random.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut next = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % bound
        };
        let (mut columns, mut metadata) = (Vec::new(), 0);
        // Two of four elements, or pairs of elements; or one of two.
        match self.types.stored {
            32 => {
                for group in 0..self.depth() / 2 {
                    let place = next(2);
                    columns.push(2 * group + place as usize);
                    metadata |= [4, 0xe][place as usize] << (4 * group);
                }
            }
            stored => {
                let size = if stored == 4 { 2 } else { 1 };
                for group in 0..self.depth() / (4 * size) {
                    let first = next(3);
                    let second = first + 1 + next(3 - first);
                    metadata |= (first | second << 2) << (4 * group);
                    for place in [first, second] {
                        let start = (4 * group + place as usize) * size;
                        columns.extend(start..start + size);
                    }
                }
            }
        }
        (columns, metadata)
    }

    /// An element of A that is stored. Each part of the columns has its own A in tensor memory.
    fn stored(self, row: usize, bank: usize, index: usize) -> i32 {
        element(if self.left_in_cells { 1 + 2 * bank } else { 1 }, row, index)
    }

    /// An element of A, for a part of the columns, in one of two MMAs.
    fn left(self, row: usize, bank: usize, step: usize, is_second: bool) -> i32 {
        let shifted = is_second && self.usage.contains("ashift");
        let from = if shifted { self.shifted(row) } else { row };
        if !self.sparse {
            return self.stored(from, bank, step);
        }
        // Metadata is not shifted.
        let (columns, _) = self.positions(row, bank);
        columns.iter().position(|&column| column == step).map_or(0, |index| self.stored(from, bank, index))
    }

    /// The columns by which B is shifted.
    fn shift(self) -> usize {
        (self.mask >> 56) as usize
    }

    /// The columns of B that a CTA stores.
    fn stored_columns(self) -> usize {
        self.columns / self.ctas as usize + self.shift()
    }

    /// The row of A that a shift brings to a row: the next one, but for the last one of each warp.
    fn shifted(self, row: usize) -> usize {
        if row % 32 == 31 { row } else { row + 1 }
    }

    /// The scale of a block of a row of A or a column of B, and its byte.
    fn scale(side: usize, index: usize, block: usize) -> (f64, u8) {
        [(0.5, 126), (1.0, 127), (4.0, 129)][(index * 5 + block * 3 + side) % 3]
    }

    fn image(self, part: usize) -> Vec<u8> {
        let Types { widths, stored, bits, .. } = self.types;
        let padded = |at: usize, width: usize| at * stored - at % (128 / stored) * (stored - width);
        let (rows, columns) = (self.own_rows(), self.stored_columns());
        let mut a = vec![0u8; rows * 32];
        for (row, at) in (0..rows).flat_map(|row| (0..self.stored_depth()).map(move |at| (row, at))) {
            let value = bits[0](self.stored(part * rows + row, 0, at));
            put(&mut a, rows, row, padded(at, widths[0]), widths[0], value);
        }
        let mut b = vec![0u8; columns * self.depth() * stored / 8];
        for (column, at) in (0..columns).flat_map(|column| (0..self.depth()).map(move |at| (column, at))) {
            let value = bits[1](element(2, part * columns + column, at));
            put(&mut b, columns, column, padded(at, widths[1]), widths[1], value);
        }
        [a, b].concat()
    }

    /// What a thread has in tensor memory: 8 words of A, 4 of metadata, 4 with scales of A, 8 of B.
    fn cells(self, part: usize, thread: usize) -> Vec<u32> {
        let (rows, types) = (self.own_rows(), self.types);
        let (row, bank) = self.row_of(thread);
        let mut cells = vec![0u32; 8];
        // Floats of 4 bits are in the middle of a byte.
        let below = if (types.widths[0], types.stored) == (4, 8) { 2 } else { 0 };
        for at in 0..self.stored_depth() {
            let bits = (types.bits[0])(self.stored(part * rows + row, bank, at));
            cells[at * types.stored / 32] |= bits << (at * types.stored % 32 + below);
        }
        let metadata = |lane: usize| {
            let (row, bank) = self.row_of(lane);
            self.positions(part * rows + row, bank).1
        };
        let mut words = [0x5555_5555; 4];
        if types.stored < 16 {
            words[..2].copy_from_slice(&[metadata(thread) as u32, (metadata(thread) >> 32) as u32]);
        } else {
            let (first, half) = (thread / 16 * 16 + thread % 8, thread / 8 % 2 * 16);
            let of = |lane: usize| (metadata(lane) >> half) as u32 & 0xffff;
            words[self.selector] = of(first) | of(first + 8) << 16;
        }
        cells.extend(words);
        for (side, column) in (0..4).map(|column| (0, column)).chain((0..8).map(|column| (1, column))) {
            let index = 32 * column + thread % 32 + if side == 0 { part * rows } else { 0 };
            let bytes: [u8; 4] = std::array::from_fn(|block| Self::scale(side, index, block).1);
            cells.push(u32::from_le_bytes(bytes));
        }
        cells
    }

    /// Whether [`MASK`] has a column: three zeros after four columns, in the first sub-mask before them;
    /// the second one begins one column later.
    fn is_masked(self, column: usize) -> bool {
        let of_part = self.columns * self.rows / 128;
        let (part, within) = (column / of_part, column % of_part);
        let at = (within + [0, 1, 0, 0][part]) % 7;
        self.mask >> 39 & 1 != 0 && if part == 0 { at < 3 } else { at >= 4 }
    }

    fn run(self, schedule: Schedule) {
        let Case { types, ctas, rows, columns, .. } = self;
        let parts = ctas as usize;
        let own_rows = self.own_rows();
        let image: Vec<u8> = (0..parts).flat_map(|part| self.image(part)).collect();
        let size = image.len() / parts;
        let cells: Vec<u32> =
            (0..parts).flat_map(|part| (0..128).flat_map(move |thread| self.cells(part, thread))).collect();
        let matrix =
            |start: usize, extent: usize| 1u64 << 46 | 8 << 32 | (extent as u64) << 16 | (start as u64 / 16);
        let (d_type, a_type, b_type) = types.numbers;
        let descriptor = self.selector as u32
            | u32::from(self.sparse) << 2
            | d_type << 4
            | a_type << 7
            | b_type << 10
            | (columns as u32 / 8) << 17
            | u32::from(types.block.is_some()) << 23
            | (rows as u32 / 16) << 24
            | u32::from(self.shift() > 0) << 30;
        let loads: String =
            (0..24).map(|word| format!("ld.global.u32 %r{}, [%p2+{}];\n", 20 + word, 4 * word)).collect();
        let place = |column: usize, first: u32, count: u32| {
            format!(
                "add.u32 %r1, %r101, {column}; tcgen05.st.sync.aligned.32x32b.x{count}.b32 [%r1], {};\n",
                registers(first, count)
            )
        };
        let commit = match ctas {
            1 => "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r103];",
            _ => {
                "mov.b16 %h0, 3;
                tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r103], %h0;"
            }
        };
        let keep = store_accumulators(columns);
        let modifiers = match (self.stationary, self.sparse) {
            (true, true) => ".ws.sp",
            (true, false) => ".ws",
            (false, true) => ".sp",
            (false, false) => "",
        };
        let multiply = format!(
            "mov.u64 %d3, {:#x}; tcgen05.mma{modifiers}.cta_group::GROUP.kind::{}{} [%r100], {}, %d2,{} {descriptor},{} %q1{};",
            self.mask,
            types.kind,
            self.usage,
            if self.left_in_cells { "[%r9]" } else { "%d1" },
            if self.sparse { " [%r10]," } else { "" },
            if types.block.is_some() { " [%r11], [%r12]," } else { "" },
            if self.mask != 0 { ", %d3" } else { "" },
        );
        let body = format!(
            ".shared .align 1024 .b8 image[{size}];
            mov.u32 %r5, %cluster_ctarank; mad.lo.u32 %r6, %r5, 128, %t;
            mul.wide.u32 %d5, %r6, 96; add.u64 %p2, %p2, %d5; {loads}
            {} {} {} {} {clear} tcgen05.wait::st.sync.aligned;
            mul.wide.u32 %d6, %r5, {size}; add.u64 %p0, %p0, %d6; mul.wide.u32 %d6, %t, 4; add.u64 %p0, %p0, %d6;
            mov.u32 %r6, image; cvt.u64.u32 %d0, %r6; shr.u64 %d0, %d0, 4; and.b64 %d0, %d0, 0x3fff;
            mad.lo.u32 %r6, %t, 4, %r6; mad.lo.u32 %r7, %t, -4, {size};
            fill: setp.gt.s32 %q1, %r7, 0; @!%q1 bra filled;
            ld.global.u32 %r8, [%p0]; st.shared.u32 [%r6], %r8; add.u64 %p0, %p0, 512; add.u32 %r6, %r6, 512;
            sub.u32 %r7, %r7, 512; bra fill;
            filled: fence.proxy.async; tcgen05.fence::before_thread_sync; MEET
            setp.eq.and.u32 %q2, %r5, 0, %q10; @!%q2 bra issued;
            tcgen05.fence::after_thread_sync;
            add.u64 %d1, %d0, {a:#x}; add.u64 %d2, %d0, {b:#x}; add.u32 %r9, %r100, 256; add.u32 %r10, %r100, 264;
            add.u32 %r11, %r100, 268; add.u32 %r12, %r100, 272;
            setp.ne.u32 %q1, 0, 0; {multiply} setp.eq.u32 %q1, 0, 0; {multiply}
            {commit}
            issued:
            wait: mbarrier.try_wait.parity.shared::cta.b64 %q3, [%r103], 0; @!%q3 bra wait;
            tcgen05.fence::after_thread_sync;
            mad.lo.u32 %r6, %r5, 128, %t; mul.wide.u32 %d7, %r6, {out_bytes}; add.u64 %p1, %p1, %d7;
            {keep}",
            place(256, 20, 8),
            place(264, 28, 4),
            place(268, 32, 4),
            place(272, 36, 8),
            clear = clear_columns(columns),
            a = matrix(0, own_rows),
            b = matrix(32 * own_rows, self.stored_columns()),
            out_bytes = 4 * columns,
        );
        let text = blackwell(3, &of_group(ctas, &with_columns(512, &body)));
        let out = vec![0u32; 128 * columns * parts];
        let arguments = [Argument::Buffer(image), words(out), words(cells)];
        let found = ran(&text, launch(ctas, schedule), &arguments).words(1);
        for row in 0..rows {
            // Two MMAs, of which the second adds to the first.
            let both = |bank, step| self.left(row, bank, step, false) + self.left(row, bank, step, true);
            let left = |bank| (0..self.depth()).map(|step| both(bank, step)).collect();
            let left: Vec<Vec<i32>> = (0..self.banks()).map(left).collect();
            for column in 0..columns {
                let left = &left[column * self.banks() / columns];
                let product = |step: usize| {
                    let factor = types.block.map_or(1.0, |block| {
                        let block = if self.sparse { 2 * block } else { block };
                        Self::scale(0, row, step / block).0 * Self::scale(1, column, step / block).0
                    });
                    factor * f64::from(left[step] * element(2, column + self.shift(), step))
                };
                let expected = match self.is_masked(column) {
                    true => 0.0,
                    false => (0..self.depth()).map(product).sum::<f64>(),
                };
                let (part, own) = (row / own_rows, row % own_rows);
                let (lane, at) = match self.is_scattered() {
                    true => (own / 16 * 32 + own % 16, column),
                    false => {
                        let width = columns / self.banks();
                        (own + column / width * own_rows, column % width)
                    }
                };
                let cell = found[(part * 128 + lane) * columns + at];
                let value = if types.block.is_some() {
                    f64::from(f32::from_bits(cell))
                } else {
                    (types.value)(cell).into()
                };
                assert_eq!(value, expected, "row {row}, column {column} of {self:?}, {schedule:?}");
            }
        }
    }
}

#[test]
fn half_of_a_is_stored() {
    for (number, types) in PLAIN.into_iter().chain(SCALED).enumerate() {
        let sparse = Case { sparse: true, ..case(types, (1, 128, 48)) };
        sparse.run(SCHEDULES[number % 4]);
        Case { left_in_cells: true, columns: 32, ..sparse }.run(SCHEDULES[(number + 1) % 4]);
        Case { ctas: 2, rows: 256, columns: 32, usage: ".collector::a::lastuse", ..sparse }
            .run(SCHEDULES[(number + 2) % 4]);
    }
}

/// Of 64 rows in a CTA, D, A and metadata have the first 16 of every 32 rows (layouts C and F).
#[test]
fn half_of_64_rows_is_stored() {
    for (number, types) in PLAIN.into_iter().chain(SCALED).enumerate() {
        let pair = Case { sparse: true, ..case(types, (2, 128, 32)) };
        pair.run(SCHEDULES[number % 4]);
        Case { left_in_cells: true, ..pair }.run(SCHEDULES[(number + 1) % 4]);
        if types.block.is_none() {
            let one = Case { sparse: true, ..case(types, (1, 64, 24)) };
            one.run(SCHEDULES[(number + 2) % 4]);
            Case { left_in_cells: true, ..one }.run(SCHEDULES[(number + 3) % 4]);
        }
    }
}

/// The selector is a column of metadata.
#[test]
fn selectors_choose_metadata() {
    for (number, types) in PLAIN.into_iter().take(2).enumerate() {
        for selector in 1..4 {
            let sparse = Case { sparse: true, selector, ..case(types, (1, 128, 16)) };
            sparse.run(SCHEDULES[(number + selector) % 4]);
            Case { rows: 64, ..sparse }.run(Schedule::Eager);
            Case { rows: 32, columns: 64, stationary: true, left_in_cells: true, ..sparse }
                .run(Schedule::Latest);
        }
    }
}

#[test]
fn weights_may_be_stationary() {
    for (number, types) in PLAIN.into_iter().enumerate() {
        for (rows, columns) in [(32, 64), (64, 128), (128, 64), (32, 256)] {
            let dense =
                Case { stationary: true, usage: ".collector::b1::fill", ..case(types, (1, rows, columns)) };
            dense.run(SCHEDULES[number % 4]);
        }
        for (rows, sparse, left_in_cells) in
            [(32, true, false), (64, true, true), (128, true, false), (32, false, true), (64, false, true)]
        {
            let stored = Case { stationary: true, sparse, left_in_cells, ..case(types, (1, rows, 64)) };
            stored.run(SCHEDULES[(number + rows / 32) % 4]);
        }
    }
}

/// Sub-masks of three zeros and four columns.
const MASK: u64 = 1 << 39 | 2 << 40 | 3 << 48 | 1 << 32 | 1 << 8;

#[test]
fn columns_may_be_zeros() {
    for (number, types) in PLAIN.into_iter().enumerate() {
        for (rows, sparse) in [(32, false), (64, true), (128, false)] {
            let masked = Case { stationary: true, sparse, mask: MASK, ..case(types, (1, rows, 64)) };
            masked.run(SCHEDULES[(number + rows / 32) % 4]);
            Case { mask: MASK | 5 << 56, ..masked }.run(SCHEDULES[(number + rows / 32 + 1) % 4]);
        }
        Case { stationary: true, mask: 8 << 56, ..case(types, (1, 64, 64)) }.run(Schedule::Eager);
    }
}

/// Rows of A in tensor memory are shifted after the product.
#[test]
fn rows_of_a_may_be_shifted() {
    for types in PLAIN {
        let shifted = Case { usage: ".ashift", left_in_cells: true, ..case(types, (1, 128, 32)) };
        shifted.run(Schedule::Eager);
        Case { sparse: true, ..shifted }.run(Schedule::Latest);
    }
    let pair =
        Case { usage: ".ashift.collector::a::discard", left_in_cells: true, ..case(PLAIN[0], (2, 256, 32)) };
    pair.run(Schedule::Latest);
    Case { rows: 128, ..pair }.run(Schedule::Random(1));
}

/// A of 4 and 6 bits in tensor memory has a byte for each element.
#[test]
fn small_elements_of_a_may_be_in_tensor_memory() {
    for (number, types) in PLAIN.into_iter().chain(SCALED).enumerate() {
        Case { left_in_cells: true, ..case(types, (1, 128, 64)) }.run(SCHEDULES[number % 4]);
    }
}

/// Each row but the last one of each warp takes what the next one holds.
#[test]
fn rows_are_shifted_down() {
    let body = "
        mad.lo.u32 %r10, %t, 16, 0; add.u32 %r11, %r10, 1; add.u32 %r12, %r10, 2; add.u32 %r13, %r10, 3;
        add.u32 %r14, %r10, 4; add.u32 %r15, %r10, 5; add.u32 %r16, %r10, 6; add.u32 %r17, %r10, 7;
        tcgen05.st.sync.aligned.32x32b.x8.b32 [%r101], {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17};
        add.u32 %r1, %r101, 8;
        tcgen05.st.sync.aligned.32x32b.x8.b32 [%r1], {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17};
        tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync; MEET
        @!%q10 bra issued; tcgen05.fence::after_thread_sync;
        add.u32 %r1, %r100, FIRST;
        tcgen05.shift.cta_group::1.down [%r1];
        tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r103];
        issued: wait: mbarrier.try_wait.parity.shared::cta.b64 %q3, [%r103], 0; @!%q3 bra wait;
        tcgen05.fence::after_thread_sync;
        tcgen05.ld.sync.aligned.32x32b.x16.b32
            {%r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27, %r28, %r29, %r30, %r31, %r32, %r33, %r34, %r35}, [%r101];
        tcgen05.wait::ld.sync.aligned; mul.wide.u32 %d1, %t, 8; add.u64 %p0, %p0, %d1;
        st.global.u32 [%p0], %r27; st.global.u32 [%p0+4], %r28;";
    for first in [0, 32] {
        let body = body.replace("FIRST", &(first << 16).to_string());
        let text = blackwell(1, &of_group(1, &with_columns(32, &body)));
        for schedule in SCHEDULES {
            let found = ran(&text, launch(1, schedule), &[words([0; 256])]).words(0);
            for (row, cells) in (0..).zip(found.chunks(2)) {
                let from = if row % 32 == 31 { row } else { row + 1 };
                assert_eq!(cells, [16 * from + 7, 16 * row], "row {row} from {first}");
            }
        }
    }
    let body = body.replace("FIRST", &(16 << 16).to_string());
    let text = blackwell(1, &of_group(1, &with_columns(32, &body)));
    let fault = try_run(&text, launch(1, Schedule::Eager), &[words([0; 256])]).err().unwrap();
    assert!(fault.to_string().contains("a multiple of 32"), "{fault}");
}

/// `tcgen05.ld.red` of sm_103a: the extremum of the registers of each lane.
#[test]
fn loads_are_reduced() {
    let special = [
        f32::NAN.to_bits(),
        0x8000_0000,
        0,
        f32::INFINITY.to_bits(),
        f32::NEG_INFINITY.to_bits(),
        0x7f80_0001,
    ];
    let value = |thread: usize, register: usize| match (thread % 5, register) {
        (0, 0..4) => special[(thread / 5 + register) % special.len()],
        _ => ((thread * 37 + register * 11) as f32 - 900.0).to_bits(),
    };
    let values: Vec<u32> =
        (0..128).flat_map(|thread| (0..4).map(move |register| value(thread, register))).collect();
    let float = |maximum: bool, absolute: bool, nan: bool| {
        move |values: &[u32]| {
            let values: Vec<f32> = values
                .iter()
                .map(|&bits| f32::from_bits(bits))
                .map(|v| if absolute { v.abs() } else { v })
                .collect();
            let numbers: Vec<f32> = values.iter().copied().filter(|value| !value.is_nan()).collect();
            let found = numbers.iter().copied().reduce(|a, b| match a.total_cmp(&b).is_gt() == maximum {
                true => a,
                false => b,
            });
            match found {
                Some(found) if !nan || numbers.len() == values.len() => found.to_bits(),
                _ => 0x7fff_ffff,
            }
        }
    };
    type Reduce = Box<dyn Fn(&[u32]) -> u32>;
    let cases: [(&str, Reduce); 7] = [
        ("min.u32", Box::new(|values| *values.iter().min().unwrap())),
        ("max.u32", Box::new(|values| *values.iter().max().unwrap())),
        ("min.s32", Box::new(|values| values.iter().map(|&v| v as i32).min().unwrap() as u32)),
        ("max.s32", Box::new(|values| values.iter().map(|&v| v as i32).max().unwrap() as u32)),
        ("min.f32", Box::new(float(false, false, false))),
        ("max.NaN.f32", Box::new(float(true, false, true))),
        ("min.abs.NaN.f32", Box::new(float(false, true, true))),
    ];
    for (number, (operation, reduce)) in cases.into_iter().enumerate() {
        for (shape, split) in [("32x32b", ""), ("16x32bx2", ", 2")] {
            let count = if split.is_empty() { 4 } else { 2 };
            let body = format!(
                "mul.wide.u32 %d0, %t, 16; add.u64 %p1, %p1, %d0; ld.global.v4.u32 {{%r10, %r11, %r12, %r13}}, [%p1];
                tcgen05.st.sync.aligned.32x32b.x4.b32 [%r101], {{%r10, %r11, %r12, %r13}}; tcgen05.wait::st.sync.aligned;
                tcgen05.ld.red.sync.aligned.{shape}.x{count}.{operation} {}, %r30, [%r101]{split};
                tcgen05.wait::ld.sync.aligned; mul.wide.u32 %d1, %t, 8; add.u64 %p0, %p0, %d1;
                st.global.u32 [%p0], %r30; st.global.u32 [%p0+4], %r21;",
                registers(20, count)
            );
            let text = kernel(2, &of_group(1, &with_columns(32, &body))).replace("sm_90a", "sm_103a");
            let arguments = [words([0; 256]), words(values.iter().copied())];
            let found = ran(&text, launch(1, SCHEDULES[number % 4]), &arguments).words(0);
            for (thread, found) in found.chunks(2).enumerate() {
                let loaded: Vec<u32> = match count {
                    4 => values[4 * thread..][..4].to_vec(),
                    _ => values[4 * (thread / 32 * 32 + thread % 16) + thread % 32 / 16 * 2..][..2].to_vec(),
                };
                assert_eq!(
                    found,
                    [reduce(&loaded), loaded[1]],
                    "{operation} {shape} of thread {thread}: {loaded:x?}"
                );
            }
        }
    }
}

/// What a target does not have is refused when the module is loaded.
#[test]
fn instructions_of_other_targets_are_refused() {
    let wrong = [
        (
            "sm_100a",
            "tcgen05.ld.red.sync.aligned.32x32b.x2.min.f32 {%r1, %r2}, %r3, [%r4];",
            "exists in PTX 8.8 or later on sm_103a or sm_110a,",
        ),
        (
            "sm_103a",
            "tcgen05.mma.cta_group::1.kind::i8 [%r1], %d1, %d2, %r2, %q1;",
            "exists in PTX 8.6 or later on sm_100a or sm_110a,",
        ),
    ];
    for (target, instruction, reason) in wrong {
        let text = kernel(0, instruction).replace("sm_90a", target);
        let module = warpwright_ptx::parse(&text).unwrap();
        let name = if target == "sm_100a" { "b200" } else { "b300" };
        let error = crate::common::device(name).load(&module).expect_err(instruction);
        assert!(error.message.contains(reason), "{error}");
    }
}

/// Refusals name the bit, the number or the operand.
#[test]
fn wrong_multiplies_are_refused() {
    let cases = [
        ("", "", 0x0804_0494_u32, "is not .sp"),
        (".sp", "", 0x0804_0490, "is not set"),
        (".ws", "", 0x0804_0490, "64 and 128 and 256"),
        (".ws", ", %d3", 0x0800_0490 | 8 << 17, "shifts by 2 columns"),
    ];
    for (modifiers, rest, descriptor, reason) in cases {
        let metadata = if modifiers == ".sp" { "[%r100]," } else { "" };
        let body = format!(
            "mov.u64 %d0, 0x400800800000; mov.u64 %d3, 0x200008000000000;
            @%q10 tcgen05.mma{modifiers}.cta_group::1.kind::f16 [%r100], %d0, %d0, {metadata} {descriptor}, %q10{rest};"
        );
        let text = blackwell(1, &of_group(1, &with_columns(64, &body)));
        let fault = try_run(&text, launch(1, Schedule::Eager), &[words([0; 1])]).err().unwrap();
        assert!(matches!(fault.kind, FaultKind::TensorMemory | FaultKind::Unsupported), "{fault}");
        assert!(fault.to_string().contains(reason), "{fault}");
    }
}
