//! First light.
use warpwright_lang::{Reg, device, kernel};

#[device]
fn larger(a: Reg<u32>, b: Reg<u32>) -> Reg<u32> {
    if a < b {
        return b;
    }
    a
}

#[kernel]
fn first(n: u32, m: u32) {
    let mut x = n;
    if x < m && m != 3 {
        x = m;
    } else {
        x = larger(x, m);
    }
    for i in 0..n {
        if i == 5 {
            continue;
        }
        x = i;
        if i > m {
            break;
        }
    }
    let y = if x == 3 { n } else { 7 };
    let mut count = 0;
    while x < y {
        x = y;
    }
    for k in 0..4 {
        count += k;
        if count > 100 {
            return;
        }
    }
    loop {
        x = y;
        if x == 5 {
            break;
        }
    }
    match x {
        1 => x = y,
        2..=4 | 9 => {}
        _ => return,
    }
}

#[test]
fn first_light() {
    let kernel = first().unwrap();
    println!("{:#?}", kernel.ir().body.len());
}
