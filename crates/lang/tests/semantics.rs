//! Staged kernels mean what the same Rust means: each body here is compiled twice, as a kernel and
//! as a plain function, and both must put out the same numbers.

use crate::twin::twins;

twins! {
    fn reads_take_the_value_of_the_moment(a: u32, b: u32) {
        let mut x = a;
        let y = x;
        x = b;
        out(y);
        x += 1;
        let z = x;
        x = y;
        out(x);
        out(z);
    }

    fn both_branches(a: u32, b: u32) {
        let mut x = value(0);
        if a < b {
            x = a;
            out(1);
        } else {
            x = b;
            out(2);
        }
        out(x);
        if a == b {
            x += 7;
        }
        out(x);
    }

    fn patterns_of_constants(a: u32, b: u32) {
        const LIMIT: u32 = 4;
        out(match a {
            0 => value(1),
            LIMIT | u32::MAX => b,
            _ => a + b,
        });
        let (mut x, mut y) = (a, b);
        if matches!(a, 1..=LIMIT) {
            x += y;
        }
        if matches!(b, n @ 1..=9 if n > a) && !matches!(b, 3 | 5) {
            y += x;
        }
        out(x);
        out(y);
    }

    fn nested_branches(a: u32, b: u32) {
        let mut x = a;
        let before = x;
        if a < 3 {
            if b < 3 {
                x = b;
            } else if b == 5 {
                x = 10 + a;
            } else {
                let y = x;
                x = y * 2;
                x += y;
            }
            out(x);
        }
        out(x);
        out(before);
    }

    fn branches_as_values(a: u32, b: u32) {
        let m = if a < b { b } else { a };
        let n = if a == 3 { 5 } else if a == 4 { b + 1 } else { m };
        let (p, q) = if a < b { (a, b) } else { (b, a) };
        let [r, s] = if a != b { [a, value(2)] } else { [b, b] };
        out(m);
        out(n);
        out(p);
        out(q);
        out(r + s);
    }

    fn swaps(a: u32, b: u32) {
        let mut x = a;
        let mut y = b;
        (x, y) = (y, x);
        out(x);
        out(y);
        if a < b {
            (x, y) = (y, x);
        }
        out(x);
        out(y);
        for i in 0..a {
            (x, y) = (y, x + i);
        }
        out(x);
        out(y);
    }

    fn fibonacci(n: u32) {
        let mut pair = (value(0), value(1));
        for _ in 0..n {
            pair = (pair.1, pair.0 + pair.1);
        }
        out(pair.0);
    }

    fn greatest_common_divisor(a: u32, b: u32) {
        let (mut a, mut b) = (a, b);
        while b != 0 {
            let t = b;
            b = a % b;
            a = t;
        }
        out(a);
    }

    fn counted_loops(a: u32, b: u32) {
        for i in a..b {
            out(i);
        }
        for i in a..=b {
            out(i);
        }
        for i in 2..b {
            out(i * 100);
        }
        for i in (a..b).rev() {
            out(i);
        }
        for i in (a..=b).rev() {
            out(i);
        }
        for i in (0..b).step_by(3) {
            out(i);
        }
        for i in (a..=b).step_by(2) {
            out(i);
        }
        for i in (a..b).step_by(2).rev() {
            out(i);
        }
        for i in (a..b).rev().step_by(3) {
            out(i);
        }
    }

    fn collatz(n: u32) {
        let mut x = n + 1;
        let mut steps = value(0);
        loop {
            if x == 1 {
                break;
            }
            x = if x % 2 == 0 { x / 2 } else { 3 * x + 1 };
            steps += 1;
        }
        out(steps);
    }

    fn loops_with_values(n: u32) {
        let mut i = value(0);
        let found = loop {
            if i * i >= n {
                break i;
            }
            if i == 3 {
                break value(77);
            }
            i += 1;
        };
        out(found);
        out(i);
    }

    fn a_loop_with_a_break_in_a_branch(a: u32, b: u32) {
        let mut i = value(0);
        if a > b {
            loop {
                i += 1;
                if i >= a {
                    break;
                }
            }
        } else {
            i += 7;
        }
        out(i);
    }

    fn break_and_continue(a: u32, b: u32) {
        let mut sum = value(0);
        'outer: for i in 0..a {
            for j in 0..b {
                if j == 2 {
                    continue;
                }
                if i == 3 && j == 1 {
                    continue 'outer;
                }
                if i * j > 20 {
                    break 'outer;
                }
                sum += i * 10 + j;
            }
            sum += 1000;
        }
        out(sum);
    }

    fn build_time_loops_with_device_branches(a: u32, b: u32) {
        let mut sum = value(0);
        for i in 0..4 {
            if a > i {
                sum += b;
            }
            if i == 2 {
                continue;
            }
            sum += i;
        }
        let mut k = 0;
        while k < 3 {
            if b > k {
                sum += 100;
            }
            k += 1;
        }
        let mut k = 0;
        loop {
            if k == 3 {
                break;
            }
            k += 1;
            if a == k {
                sum += 5000;
            }
        }
        out(sum);
    }

    fn build_time_loop_in_device_loop(a: u32, b: u32) {
        let mut sums = [value(0), value(1), value(2)];
        'rounds: for i in 0..a {
            for k in 0..3 {
                if i == b {
                    continue 'rounds;
                }
                sums[k] += i * (k as u32 + 1);
                if sums[k] > 30 {
                    break 'rounds;
                }
            }
            sums[0] += sums[2];
        }
        out(sums[0]);
        out(sums[1]);
        out(sums[2]);
    }

    fn short_circuits(a: u32, b: u32) {
        if a < b && noisy(a) == 3 {
            out(1);
        }
        if a < b || noisy(b) == 3 {
            out(2);
        }
        let both = a != 0 && b / a > 2;
        let either = a == 0 || b > 4 && noisy(a) != 2;
        if both {
            out(3);
        }
        if !either {
            out(4);
        }
        if !(a == b) && !both {
            out(5);
        }
    }

    fn matches(a: u32, b: u32) {
        match a {
            0 => out(10),
            1 | 5 => out(11),
            2..=3 => {
                out(12);
            }
            6..9 if b > 3 => out(13),
            n if n == b => out(14),
            n => out(n),
        }
        let x = match b {
            0 => 5,
            n @ 1..=4 => n * 2,
            _ => a,
        };
        out(x);
        let y = match a < b {
            true => a,
            false => b,
        };
        out(y);
    }

    fn early_returns(a: u32, b: u32) {
        if a == 3 {
            return;
        }
        out(1);
        for i in 0..a {
            if i == b {
                out(i);
                return;
            }
        }
        out(2);
        let mut x = a;
        while x > 0 {
            x -= 1;
            if x == b {
                return;
            }
            out(x);
        }
    }

    fn helpers_that_return_early(a: u32, b: u32) {
        out(clamp(a, 2, 5));
        out(order(a, b));
        out(first_square_from(b));
        let mut n = a;
        out(bump(&mut n, b));
        out(n);
        for _ in 0..3 {
            bump(&mut n, b);
        }
        for _ in 0..b {
            bump(&mut n, a);
        }
        out(n);
    }

    fn compound_assignments(a: u32, b: u32) {
        let mut x = a + 100;
        x -= b;
        x *= 3;
        x /= b + 1;
        x ^= a;
        x |= 64;
        x &= 0xff;
        x <<= 2;
        x >>= 1;
        x %= 37;
        out(x);
        let mut y = [a, b];
        let mut i = 0;
        y[i] += { i = 1; b };
        out(y[0]);
        out(y[1]);
        out(i as u32);
    }

    fn values_left_of_a_change(a: u32, b: u32) {
        let mut x = a;
        for _ in 0..2 {
            let sum = x + { x = x + b; x } + x;
            out(sum);
        }
        let mut y = a;
        for _ in 0..b {
            let sum = y + { y = y + 1; y } + y;
            let pair = (y, { y += 1; y }, y);
            out(sum + pair.0 * 3 + pair.1 * 5 + pair.2 * 7);
        }
    }

    fn structs(a: u32, b: u32) {
        let mut range = Span { low: a, high: b, scale: 3 };
        let before = range;
        if range.is_empty() {
            range.low = b;
            range.high = a;
        }
        out(range.low);
        out(range.length());
        for i in 0..3 {
            range.widen(value(i));
        }
        for _ in 0..b {
            range.widen(a);
            range.high += 1;
        }
        out(range.length() * range.scale);
        out(before.low);
        out(before.high);
        let other = if a < 3 { before } else { range };
        out(other.low + other.high);
    }

    fn arrays_of_arrays(a: u32, b: u32) {
        let mut table = [[value(0); 2]; 3];
        let before = table;
        for i in 0..b {
            for row in 0..3 {
                for column in 0..2 {
                    table[row][column] += i * a + row as u32;
                    if table[row][column] > 50 {
                        table[row][column] -= 50;
                    }
                }
            }
        }
        for row in table.iter_mut() {
            row[0] += 1;
            for value in row.iter_mut() {
                if *value > 10 {
                    *value += 1;
                }
            }
        }
        for row in table {
            out(row[0]);
            out(row[1]);
        }
        out(before[2][1]);
    }

    fn vectors_and_options(a: u32, b: u32) {
        let compared = vec![(a == b) as u32, a as u8 as u32];
        out(compared[0] + compared[1]);
        let mut sums = vec![value(0); 3];
        let mut best = None;
        for i in 0..3 {
            if a > 2 {
                sums[i] += b;
            }
            best = Some(match best {
                Some(best) => larger(best, sums[i]),
                None => sums[i],
            });
        }
        for j in 0..b {
            sums[1] = sums[0] + j;
            if let Some(best) = &mut best {
                if *best < sums[1] {
                    *best = sums[1];
                }
            }
        }
        for sum in &sums {
            out(*sum);
        }
        if let Some(best) = best {
            out(best);
        }
    }

    fn closures(a: u32, b: u32) {
        let twice = |x: Number| x * 2;
        out(twice(a));
        let larger = |x: Number, y: Number| if x < y { y } else { x };
        out(larger(a, b));
        let early = |x: Number| {
            if x == 3 {
                return value(1);
            }
            let mut x = x;
            x += 1;
            x
        };
        out(early(a));
        out(early(b));
        let sum = (0..4).map(|i| if a > i { b } else { value(i) }).fold(value(0), |sum, x| sum + x);
        out(sum);
    }

    fn shadows_and_blocks(a: u32, b: u32) {
        let x = a;
        let y = {
            let mut x = x;
            x += b;
            if x > 5 {
                x = 5;
            }
            x
        };
        out(x);
        out(y);
        let mut x = x;
        {
            let x = b;
            out(x);
        }
        if a < b {
            let mut x = x;
            x += 1;
            out(x);
        }
        x += 2;
        out(x);
    }

    fn aliases_stay_apart(a: u32, b: u32) {
        let mut x = a;
        let mut y = x;
        let z = y;
        for i in 0..b {
            let mut local = x;
            local += i;
            y += local;
            if local > 4 {
                x += 1;
            }
            let was = x;
            x = y;
            out(was);
        }
        out(x);
        out(y);
        out(z);
    }

    fn endless_with_return(a: u32, b: u32) {
        let mut x = a;
        loop {
            if x > b {
                out(x);
                return;
            }
            x += 1;
        }
    }

    fn generic_places(a: u32, b: u32) {
        let mut state = (a, [b, a]);
        for i in 0..a {
            replace(&mut state.1[0], i, b);
            state.0 += state.1[0];
        }
        replace(&mut state.0, value(5), b);
        out(state.0);
        out(state.1[0]);
    }

    fn casts(a: u32, b: u32) {
        let half = a as f32 / 2.0f32;
        out(half as u32);
        let negative = a as i32 - b as i32;
        if negative < 0 {
            out(1);
        }
        out(negative as f32 as u32);
        let mut sum = 0 as f32 + b as f32;
        for i in 0..4u32 {
            sum = sum * i as f32;
            sum += 1.5f32;
        }
        out(sum as u32);
        let truth = (a < b) as u32;
        out(truth);
        for i in 0..2usize {
            out(a * i as u32);
        }
        let narrow = a as u8 * 31;
        if narrow < 200u8 {
            out(narrow as u32);
        }
    }
}
