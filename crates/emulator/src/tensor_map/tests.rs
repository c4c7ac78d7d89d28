//! Encoding beside what the driver writes.

use super::*;

#[test]
fn what_is_encoded_is_decoded() {
    let mut map =
        Description::row_major(ElementType::F32, 0x12_3450, &[3, 5, 7, 64, 1 << 32], &[1, 2, 3, 4, 32]);
    map.strides = vec![16, 1 << 39, 32, 48];
    map.element_strides = vec![1, 2, 8, 4, 5];
    for element in ElementType::ALL {
        map.element = element;
        assert_eq!(Encoded(encode(&map)).decode().as_ref(), Ok(&map));
    }
    for swizzle in Swizzle::ALL {
        map.swizzle = swizzle;
        assert_eq!(Encoded(encode(&map)).decode().as_ref(), Ok(&map));
    }
    (map.interleave, map.l2_promotion, map.fill) = (Interleave::Bytes32, L2Promotion::Bytes256, Fill::Nan);
    map.access =
        Access::Im2col { lower: vec![-16, 15, 3], upper: vec![-1, 0, 1], channels: 256, pixels: 1024 };
    let encoded = Encoded(encode(&map));
    assert!(encoded.is_map());
    assert_eq!(encoded.decode(), Ok(map));
}

fn tiled(box_extents: &[u32]) -> Access {
    Access::Tiled { box_extents: box_extents.to_vec() }
}

fn im2col(lower: &[i32], upper: &[i32], channels: u32, pixels: u32) -> Access {
    Access::Im2col { lower: lower.to_vec(), upper: upper.to_vec(), channels, pixels }
}

/// What the driver wrote for descriptions on an H200: the first 16 words.
#[test]
fn maps_are_those_of_the_driver() {
    let map = |element, address, extents: &[u64], strides: &[u64], access, steps: &[u32]| Description {
        access,
        element_strides: steps.to_vec(),
        strides: strides.to_vec(),
        extents: extents.to_vec(),
        ..Description::row_major(element, address, &[1], &[1])
    };
    let recorded = [
        (
            map(
                ElementType::Bf16,
                0x1cbc656e4ba0,
                &[595018166, 32, 128],
                &[4128, 838480869728],
                tiled(&[64, 146, 2]),
                &[1, 1, 2],
            ),
            (Interleave::ALL[2], Swizzle::ALL[0], L2Promotion::ALL[3], true),
            [
                0x656e4ba0, 0x1cbc, 0x69520, 0x102, 0x3395ab96, 0x0, 0x0, 0xc0, 0x237741b5, 0x1f, 0x7f, 0x0,
                0x0, 0x3f000040, 0x191, 0x0,
            ],
        ),
        (
            map(
                ElementType::F64,
                0x19663c25bc20,
                &[137, 1895371386, 128],
                &[3776, 6336],
                im2col(&[-7399], &[4607], 44, 535),
                &[3, 1, 1],
            ),
            (Interleave::ALL[0], Swizzle::ALL[0], L2Promotion::ALL[2], true),
            [
                0x3c25bc20, 0x1966, 0x484a1, 0xec, 0x18c, 0x0, 0x0, 0x0, 0x88, 0x70f91279, 0x7f, 0x0, 0x0,
                0x2b000002, 0x11ffe319, 0x216,
            ],
        ),
        (
            map(
                ElementType::F64,
                0x12d26460fca0,
                &[32, 178, 4082305907, 128, 32],
                &[5024, 16192, 543751854592, 736264404064],
                tiled(&[2, 1, 32, 16, 2]),
                &[1, 1, 6, 1, 1],
            ),
            (Interleave::ALL[0], Swizzle::ALL[3], L2Promotion::ALL[2], true),
            [
                0x6460fca0, 0x12d2, 0x4e4c0, 0x13a, 0x3f4, 0xe9a22da0, 0xb6cc73c6, 0xa700, 0x1f, 0xb1,
                0xf3530b72, 0x7f, 0x1f, 0x1000140, 0x10f1f00, 0x0,
            ],
        ),
        (
            map(ElementType::F32, 0xdeca5a53920, &[32], &[], tiled(&[16]), &[1]),
            (Interleave::ALL[0], Swizzle::ALL[2], L2Promotion::ALL[0], true),
            [
                0xa5a53920, 0xdec, 0xc380, 0x0, 0x0, 0x0, 0x0, 0x0, 0x1f, 0x0, 0x0, 0x0, 0x0, 0xf000000, 0x0,
                0x0,
            ],
        ),
        (
            map(
                ElementType::F16,
                0x1388e0d03ac0,
                &[978660178, 59, 128, 32],
                &[4288, 208853803552, 663631681312],
                tiled(&[16, 168, 2, 16]),
                &[1, 1, 1, 1],
            ),
            (Interleave::ALL[0], Swizzle::ALL[1], L2Promotion::ALL[0], false),
            [
                0xe0d03ac0, 0x1388, 0x2330, 0x10c, 0xa0a8222, 0xa8387d72, 0x0, 0x930, 0x3a552b51, 0x3a, 0x7f,
                0x1f, 0x0, 0xf000000, 0xf01a7, 0x0,
            ],
        ),
        (
            map(ElementType::U16, 0x11d7de392fe0, &[32, 149], &[1032626072112], tiled(&[32, 32]), &[1, 1]),
            (Interleave::ALL[0], Swizzle::ALL[0], L2Promotion::ALL[2], false),
            [
                0xde392fe0, 0x11d7, 0x40090, 0x6d4f6a3, 0x0, 0x0, 0x0, 0xf, 0x1f, 0x94, 0x0, 0x0, 0x0,
                0x1f000000, 0x1f, 0x0,
            ],
        ),
        (
            map(
                ElementType::F64,
                0x861576b2a40,
                &[128, 912575851, 32, 128, 32],
                &[1056, 27744, 254280709392, 1066159956288],
                im2col(&[-9, -11, 7], &[-14, -2, -7], 12, 781),
                &[1, 1, 1, 1, 1],
            ),
            (Interleave::ALL[1], Swizzle::ALL[2], L2Promotion::ALL[3], false),
            [
                0x576b2a40, 0x861, 0x64cc1, 0x42, 0x6c6, 0xb344fb51, 0x83c15e14, 0xf300, 0x7f, 0x3664cd6a,
                0x1f, 0x7f, 0x1f, 0xb000000, 0x67d21eb7, 0x30c,
            ],
        ),
        (
            map(
                ElementType::U64,
                0x1c48aff91fc0,
                &[86, 32, 296, 32, 128],
                &[3296, 4768, 158156129488, 461342677456],
                tiled(&[116, 16, 1, 2, 16]),
                &[1, 1, 8, 3, 7],
            ),
            (Interleave::ALL[1], Swizzle::ALL[3], L2Promotion::ALL[1], false),
            [
                0xaff91fc0, 0x1c48, 0x26a40, 0xce, 0x12a, 0x4d2d704d, 0xb6a2a99d, 0x6200, 0x55, 0x1f, 0x127,
                0x1f, 0x7f, 0x730065c0, 0xf01000f, 0x0,
            ],
        ),
        (
            map(
                ElementType::Tf32,
                0x94efb3feda0,
                &[518816078, 32, 128, 32],
                &[13536, 31264, 1047569115968],
                im2col(&[109, -119], &[-66, -93], 48, 553),
                &[1, 1, 1, 1],
            ),
            (Interleave::ALL[2], Swizzle::ALL[3], L2Promotion::ALL[2], true),
            [
                0xfb3feda0, 0x94e, 0x5f3b1, 0x34e, 0x7a2, 0x3e7fc2b4, 0x0, 0xf00, 0x1eec814d, 0x1f, 0x7f,
                0x1f, 0x0, 0x2f000000, 0xa3be896d, 0x228,
            ],
        ),
        (
            map(
                ElementType::S64,
                0x1a25694565c0,
                &[32, 25, 293, 4124349596, 128],
                &[3712, 19424, 31552, 231990826144],
                im2col(&[-1, 0, -7], &[11, 15, 15], 20, 940),
                &[1, 1, 1, 1, 1],
            ),
            (Interleave::ALL[2], Swizzle::ALL[2], L2Promotion::ALL[2], false),
            [
                0x694565c0, 0x1a25, 0x452c1, 0xe8, 0x4be, 0x7b4, 0x603bb14a, 0x3000, 0x1f, 0x18, 0x124,
                0xf5d4949b, 0x7f, 0x13000000, 0x3deb641f, 0x3ab,
            ],
        ),
        (
            map(
                ElementType::Tf32Ftz,
                0x89b0d331e40,
                &[99, 126, 128],
                &[1216, 208172487712],
                tiled(&[32, 2, 3]),
                &[4, 1, 2],
            ),
            (Interleave::ALL[2], Swizzle::ALL[1], L2Promotion::ALL[2], true),
            [
                0xd331e40, 0x89b, 0x5b420, 0x4c, 0x780c142, 0x0, 0x0, 0x30, 0x62, 0x7d, 0x7f, 0x0, 0x0,
                0x1f000043, 0x201, 0x0,
            ],
        ),
        (
            map(
                ElementType::S32,
                0xbaead7bee40,
                &[128, 32, 2136865166, 128, 128],
                &[28160, 28832, 493960300880, 753208031504],
                tiled(&[64, 1, 66, 2, 64]),
                &[1, 3, 1, 1, 1],
            ),
            (Interleave::ALL[1], Swizzle::ALL[1], L2Promotion::ALL[3], false),
            [
                0xad7bee40, 0xbae, 0x629c0, 0x6e0, 0x70a, 0x30254095, 0xf5eb2791, 0xa700, 0x7f, 0x1f,
                0x7f5df98d, 0x7f, 0x7f, 0x3f000010, 0x3f014100, 0x0,
            ],
        ),
        (
            map(
                ElementType::F32Ftz,
                0x11ed82e99880,
                &[3086636200, 2067909010, 128, 3611319310],
                &[22496, 219615978160, 237371406608],
                tiled(&[32, 1, 2, 32]),
                &[6, 1, 5, 1],
            ),
            (Interleave::ALL[1], Swizzle::ALL[0], L2Promotion::ALL[0], false),
            [
                0x82e99880, 0x11ed, 0xc30, 0x57e, 0x32221e2b, 0x74470391, 0x0, 0x330, 0xb7fa54a7, 0x7b41c991,
                0x7f, 0xd7405c0d, 0x0, 0x1f000105, 0x1f0100, 0x0,
            ],
        ),
    ];
    for (mut map, (interleave, swizzle, l2_promotion, fills_with_nan), words) in recorded {
        (map.interleave, map.swizzle, map.l2_promotion) = (interleave, swizzle, l2_promotion);
        map.fill = if fills_with_nan { Fill::Nan } else { Fill::Zeros };
        let mut written = Encoded([0; TENSOR_MAP_BYTES]);
        for (index, word) in words.into_iter().enumerate() {
            written.set_bits(index, 0, 32, word);
        }
        assert_eq!(Encoded(encode(&map)), written, "{map:?}");
        // CUTLASS's encoder sets bit 1 of word 2, and the driver writes words 16 and 18.
        written.set_bits(CHOICES, 1, 1, 1);
        written.set_bits(16, 0, 32, 0x200);
        assert!(written.is_map());
        assert_eq!(written.decode(), Ok(map));
    }
}

/// CuTe DSL's host code leaves the second half of the 128 bytes as its stack was.
#[test]
fn the_second_half_may_hold_anything() {
    let map = Description::row_major(ElementType::F16, 0x1000, &[512, 256], &[64, 128]);
    let mut bytes = encode(&map);
    bytes[TENSOR_MAP_BYTES / 2..].fill(0xa5);
    assert!(Encoded(bytes).is_map());
    assert_eq!(Encoded(bytes).decode(), Ok(map));
}

#[test]
fn other_bytes_are_no_map() {
    for bytes in [[0; TENSOR_MAP_BYTES], [0xff; TENSOR_MAP_BYTES], [1; TENSOR_MAP_BYTES]] {
        assert!(!Encoded(bytes).is_map());
    }
    let mut map = Encoded(encode(&Description::row_major(ElementType::F32, 0x1000, &[64], &[64])));
    for (code, value) in
        [(Code::Rank, 7), (Code::Element, 11), (Code::Interleave, 3), (Code::SwizzleAtomicity, 1)]
    {
        let mut wrong = map;
        let (first, bits) = code.place();
        wrong.set_bits(CHOICES, first, bits, value);
        assert!(wrong.decode().unwrap_err().contains("which is undefined"), "{code:?}");
    }
    assert!(
        map.set_box(0, 257).is_err()
            && map.set_stride(0, 24).is_err()
            && map.set_code(Code::Fill, 2).is_err()
    );
}
