use warpwright_gates::{CIRCUITS, Circuit, Netlist};

use super::Random;

fn circuit(name: &str) -> Netlist {
    Circuit::named(name).unwrap_or_else(|| panic!("no circuit {name}")).netlist()
}

/// The outputs for all inputs, which have few bits together.
fn table(name: &str) -> Vec<Vec<u128>> {
    let list = circuit(name);
    let widths: Vec<usize> = list.inputs().iter().map(|(_, bus)| bus.len()).collect();
    let case = |number: u128| {
        let mut rest = number;
        let take = |width: &usize| {
            let value = rest & ((1 << width) - 1);
            rest >>= width;
            value
        };
        widths.iter().map(take).collect::<Vec<_>>()
    };
    let cases: Vec<_> = (0..1u128 << widths.iter().sum::<usize>()).map(case).collect();
    let outputs = list.simulate(&cases);
    cases.into_iter().zip(outputs).map(|(inputs, outputs)| [inputs, outputs].concat()).collect()
}

#[test]
fn gates_have_their_truth_tables() {
    for row in table("nand") {
        assert_eq!(row[2], 1 - (row[0] & row[1]));
    }
    assert!(table("not").iter().all(|row| row[1] == 1 - row[0]));
    assert!(table("and").iter().all(|row| row[2] == row[0] & row[1]));
    assert!(table("or").iter().all(|row| row[2] == row[0] | row[1]));
    assert!(table("xor").iter().all(|row| row[2] == row[0] ^ row[1]));
    assert!(table("choose").iter().all(|row| row[3] == if row[0] == 1 { row[1] } else { row[2] }));
    assert!(table("half-adder").iter().all(|row| row[2] + 2 * row[3] == row[0] + row[1]));
    assert!(table("full-adder").iter().all(|row| row[3] + 2 * row[4] == row[0] + row[1] + row[2]));
    assert!(table("ripple-4").iter().all(|row| row[2] == row[0] + row[1]));
}

#[test]
fn integers_are_added_shifted_and_multiplied() {
    let mut random = Random(1);
    let check = |name: &str, random: &mut Random, expected: fn(u128, u128) -> u128| {
        let list = circuit(name);
        let widths: Vec<usize> = list.inputs().iter().map(|(_, bus)| bus.len()).collect();
        let mut cases: Vec<Vec<u128>> = (0..1000)
            .map(|_| widths.iter().map(|width| u128::from(random.next()) & ((1 << width) - 1)).collect())
            .collect();
        cases.push(widths.iter().map(|width| (1 << width) - 1).collect());
        cases.push(vec![0, 0]);
        for (case, outputs) in cases.iter().zip(list.simulate(&cases)) {
            assert_eq!(outputs[0], expected(case[0], case[1]), "{name} {case:x?}");
        }
    };
    check("ripple-32", &mut random, |a, b| a + b);
    check("lookahead-32", &mut random, |a, b| a + b);
    check("shift-32", &mut random, |a, amount| a >> amount);
    check("multiply-rows-11", &mut random, |a, b| a * b);
    check("multiply-11", &mut random, |a, b| a * b);
    check("multiply-24", &mut random, |a, b| a * b);
}

#[test]
fn counts_are_those_of_the_textbook() {
    let counts = |name: &str| {
        let counts = circuit(name).counts();
        (counts.nands + counts.nots, counts.transistors, counts.delay)
    };
    assert_eq!(counts("not"), (1, 2, 1));
    assert_eq!(counts("nand"), (1, 4, 1));
    assert_eq!(counts("xor"), (4, 16, 3));
    assert_eq!(counts("full-adder"), (9, 36, 6));
    // Trees and scans take more gates, and less time.
    let (ripple, lookahead) = (circuit("ripple-32").counts(), circuit("lookahead-32").counts());
    assert!(ripple.transistors < lookahead.transistors && ripple.delay > 3 * lookahead.delay);
    let (rows, tree) = (circuit("multiply-rows-11").counts(), circuit("multiply-11").counts());
    assert!(rows.delay > tree.delay);
    for circuit in CIRCUITS {
        assert!(circuit.netlist().counts().delay > 0, "{}", circuit.name);
    }
}
