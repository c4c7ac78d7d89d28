//! All GPUs, a line each.

use warpwright_arch::Arch;

use super::per_second;

/// Tera-operations per second, and `-` for a rate of 0.
fn tera(arch: &Arch, rate: u32, is_tensor: bool) -> String {
    let tera = per_second(arch, rate, is_tensor) / 1e12;
    match rate {
        0 => "-".to_owned(),
        _ if tera < 100.0 => format!("{tera:.1}"),
        _ => format!("{tera:.0}"),
    }
}

pub(super) fn text(all: &[&Arch]) -> String {
    let mut lines = vec![
        "                    tera-operations per second, dense                memory            ridge"
            .to_owned(),
        "GPU      year  SMs   MHz    f32    f16    fp8    fp4   int8    GiB   TB/s  L2 MiB  FLOP/B"
            .to_owned(),
    ];
    for arch in all {
        let ridge = arch.tensor_peak(arch.tensor.f16) / arch.bytes_per_second;
        lines.push(format!(
            "{:<8} {:>4} {:>4} {:>5} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6.2} {:>7.1} {:>7.0}",
            arch.name,
            arch.die().map_or("-".to_owned(), |die| die.year.to_string()),
            arch.sm_count,
            arch.boost_mhz,
            tera(arch, arch.f32_per_sm_clock, false),
            tera(arch, arch.tensor.f16, true),
            tera(arch, arch.tensor.fp8, true),
            tera(arch, arch.tensor.fp4, true),
            tera(arch, arch.tensor.int8, true),
            arch.global_bytes >> 30,
            arch.bytes_per_second / 1e12,
            arch.l2_bytes as f64 / f64::from(1 << 20),
            ridge,
        ));
    }
    lines.push(
        "\nf32 is the rate of the CUDA cores; f16 (and bf16), fp8, fp4 and int8 those of the tensor cores. The ridge is the f16\n\
         rate over the bandwidth: a kernel that does fewer operations for each byte of device memory is bound by memory."
            .to_owned(),
    );
    lines.join("\n")
}
