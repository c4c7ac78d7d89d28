//! Reading and assigning elements of device memory, and of Rust's collections beside it.

use std::collections::HashMap;

use warpwright_lang::pointer::Global;
use warpwright_lang::{Reg, device, kernel};

#[device]
fn store_all(output: &mut Global<u32>, at: Reg<u32>, values: &[Reg<u32>]) {
    for (i, value) in values.iter().enumerate() {
        output[at + i as u32] = *value;
    }
}

#[kernel]
fn elements(input: &Global<u32>, output: &mut Global<u32>, n: u32) {
    let mut sums = vec![input[0]; 2];
    for i in 0..n {
        output[i] = input[i] * 2;
        if input[i] > 3 && i != 2 {
            output[i] += input[i + 1];
        }
        sums[0] += output[i];
        if sums[1] < input[i] {
            sums[1] = input[i];
        }
    }
    let mut rest = *input;
    rest += 2;
    if n > 3 {
        rest += n - 3;
    }
    let second = *output + 10;
    second[0] = rest[0];
    second[1u32] = if input[1] < input[2] { input[1] } else { input[2] };
    store_all(output, n + 20, &sums);
    let tail = *output + 40;
    for i in 0..n {
        tail[i] = i * 3;
    }
}

#[test]
fn elements_are_loaded_and_stored() {
    let kernel = elements().unwrap_or_else(|errors| panic!("{errors}"));
    for n in 0..6usize {
        let input: Vec<u64> = (0..8).map(|i| (i * 5 + 3) % 7).collect();
        let memory: HashMap<u64, u64> = input.iter().enumerate().map(|(i, v)| (4 * i as u64, *v)).collect();
        let (trace, memory) = crate::interpreter::run(kernel.ir(), &[0, 1000, n as u64], memory);
        assert!(trace.is_empty(), "{trace:?}");
        let output = |i: usize| memory[&(1000 + 4 * i as u64)];
        let expected = |i: usize| input[i] * 2 + if input[i] > 3 && i != 2 { input[i + 1] } else { 0 };
        for i in 0..n {
            assert_eq!(output(i), expected(i), "element {i} of {n}");
        }
        assert_eq!(output(n + 20), input[0] + (0..n).map(expected).sum::<u64>());
        assert_eq!(output(n + 21), input[..n].iter().copied().fold(input[0], u64::max));
        assert_eq!(output(10), input[if n > 3 { n - 1 } else { 2 }]);
        assert_eq!(output(11), input[1].min(input[2]));
        for i in 0..n {
            assert_eq!(output(40 + i), 3 * i as u64);
        }
    }
}
