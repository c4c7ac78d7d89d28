//! A picture of a circuit: inputs on the left, a column for each gate on the way to an output.

use std::collections::HashMap;
use std::fmt::Write;

use anyhow::{Result, bail};
use warpwright_gates::{Circuit, Gate, Netlist, Wire};

/// The most gates that are drawn.
const MOST: usize = 64;
/// The distance of columns and of rows, and the size of a gate.
const COLUMN: f64 = 110.0;
const ROW: f64 = 62.0;
const SIZE: f64 = 34.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 70.0;
/// The least distance of two names of outputs.
const LABEL: f64 = 24.0;

/// A wire's driver on the picture: where its signal leaves.
#[derive(Clone, Copy)]
struct Place {
    x: f64,
    y: f64,
}

pub(super) fn svg(circuit: &Circuit, netlist: &Netlist) -> Result<String> {
    let counts = netlist.counts();
    if counts.nands + counts.nots > MOST {
        bail!("{} has {} gates; a picture shows at most {MOST}", circuit.name, counts.nands + counts.nots);
    }
    let depths = netlist.depths();
    let live = netlist.live();
    let mut columns: Vec<Vec<Wire>> = vec![vec![]; counts.delay + 1];
    for wire in &live {
        columns[Netlist::depth(&depths, *wire)].push(*wire);
    }
    let rows = columns.iter().map(Vec::len).max().unwrap_or(1) as f64;
    let names = input_names(netlist);
    let mut places: HashMap<Wire, Place> = HashMap::new();
    let (mut wires, mut gates) = (String::new(), String::new());
    for (at, column) in columns.iter_mut().enumerate() {
        // A gate is placed at the mean height of what it reads.
        let height = |wire: &Wire| {
            let read: Vec<f64> =
                netlist.gate(*wire).inputs().filter_map(|from| Some(places.get(&from)?.y)).collect();
            read.iter().sum::<f64>() / read.len().max(1) as f64
        };
        column.sort_by(|a, b| height(a).total_cmp(&height(b)));
        // Every other column is lower, so that a wire which passes it stays visible.
        let lower = (at % 2) as f64 * ROW / 3.0;
        let top = TOP + (rows - column.len() as f64) * ROW / 2.0 + lower;
        for (row, wire) in column.iter().enumerate() {
            let (x, y) = (LEFT + at as f64 * COLUMN, top + row as f64 * ROW);
            let read: Vec<Wire> = netlist.gate(*wire).inputs().collect();
            for (index, from) in read.iter().enumerate() {
                let port = if read.len() == 1 { 0.0 } else { (index as f64 - 0.5) * 16.0 };
                curve(&mut wires, places[from], Place { x, y: y + port });
            }
            places.insert(*wire, gate(&mut gates, netlist.gate(*wire), names.get(wire), x, y));
        }
    }
    let end = LEFT + counts.delay as f64 * COLUMN + SIZE + 40.0;
    let outputs = netlist.outputs().iter();
    let mut ends: Vec<(Place, String)> = outputs
        .flat_map(|(name, bus)| {
            bus.iter().enumerate().map(|(bit, wire)| (places[wire], named(name, bit, bus.len())))
        })
        .collect();
    ends.sort_by(|(a, _), (b, _)| a.y.total_cmp(&b.y));
    let mut free = 0.0f64;
    for (from, name) in ends {
        let y = free.max(from.y);
        free = y + LABEL;
        curve(&mut wires, from, Place { x: end, y });
        text(&mut gates, end + 8.0, y + 6.0, &name);
    }
    let (width, height) = (end + 110.0, (TOP + rows * ROW).max(free));
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"17\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"16\" y=\"30\" font-size=\"20\">{}: {} transistors, delay {}</text>\n{wires}{gates}</svg>\n",
        circuit.name, counts.transistors, counts.delay
    ))
}

fn named(name: &str, bit: usize, width: usize) -> String {
    if width == 1 { name.to_owned() } else { format!("{name}{bit}") }
}

fn input_names(netlist: &Netlist) -> HashMap<Wire, String> {
    let buses = netlist.inputs().iter();
    buses
        .flat_map(|(name, bus)| {
            bus.iter().enumerate().map(move |(bit, wire)| (*wire, named(name, bit, bus.len())))
        })
        .collect()
}

fn text(svg: &mut String, x: f64, y: f64, text: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.0}\" y=\"{y:.0}\">{text}</text>");
}

fn curve(svg: &mut String, from: Place, to: Place) {
    let middle = (from.x + to.x) / 2.0;
    let _ = writeln!(
        svg,
        "<path d=\"M{:.0} {:.0} C{middle:.0} {:.0} {middle:.0} {:.0} {:.0} {:.0}\" fill=\"none\" stroke=\"#3a6ea5\" stroke-width=\"1.6\"/>",
        from.x, from.y, from.y, to.y, to.x, to.y
    );
}

/// Draws a driver at its left edge; returns where its signal leaves.
fn gate(svg: &mut String, gate: Gate, name: Option<&String>, x: f64, y: f64) -> Place {
    let half = SIZE / 2.0;
    let (shape, right) = match gate {
        Gate::Given => {
            text(svg, 16.0, y + 6.0, name.map_or("constant", String::as_str));
            return Place { x: x - 8.0, y };
        }
        Gate::Not(_) => (format!("M{x} {} L{} {y} L{x} {} Z", y - half, x + 28.0, y + half), x + 28.0),
        Gate::Nand(..) => {
            (format!("M{x} {} h14 a{half} {half} 0 0 1 0 {SIZE} h-14 Z", y - half), x + 14.0 + half)
        }
    };
    let _ = writeln!(
        svg,
        "<path d=\"{shape}\" fill=\"#f5efd8\" stroke=\"#333\" stroke-width=\"1.6\"/>\n\
         <circle cx=\"{}\" cy=\"{y}\" r=\"4\" fill=\"white\" stroke=\"#333\" stroke-width=\"1.6\"/>",
        right + 4.0
    );
    Place { x: right + 8.0, y }
}
