//! How fast PTX is read: bytes a second over what other compilers wrote, and over a large kernel of
//! ours.

use criterion::{Criterion, Throughput};
use warpwright_ptx::{parse, print};
use warpwright_testing::corpus;

/// Straight-line code as an unrolled kernel has it.
fn unrolled() -> String {
    let mut text = ".version 9.0\n.target sm_80\n.visible .entry k(.param .u64 p)\n{\n".to_owned();
    for index in 0..20_000 {
        text += &format!("\tld.shared.v2.f32 \t{{%f{index}, %f{}}}, [%rd12+{}];\n", index + 1, index * 8);
        text += &format!("\tfma.rn.f32 \t%f{}, %f{index}, %f{}, 0f3F800000;\n", index + 2, index + 1);
    }
    text + "ret;\n}\n"
}

fn throughput(criterion: &mut Criterion) {
    let texts: Vec<String> = corpus::texts().into_iter().map(|(_, text)| text).collect();
    let bytes: usize = texts.iter().map(String::len).sum();
    let mut group = criterion.benchmark_group("ptx");
    group.throughput(Throughput::Bytes(bytes as u64));
    group.bench_function("parse compiled", |bencher| {
        bencher.iter(|| texts.iter().map(|text| parse(text).expect("PTX").functions.len()).sum::<usize>());
    });
    let text = unrolled();
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("parse unrolled", |bencher| bencher.iter(|| parse(&text).expect("PTX")));
    let module = parse(&text).expect("PTX");
    group.bench_function("print unrolled", |bencher| bencher.iter(|| print(&module)));
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    throughput(&mut criterion);
    criterion.final_summary();
}
