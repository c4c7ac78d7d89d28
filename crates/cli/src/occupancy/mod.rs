//! `warpwright occupancy`: CTAs per SM, what limits them, and what one more would need.

mod chart;

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;
use serde_json::{Value, json};
use warpwright_arch::{CAPABILITIES, Capability, KernelResources, OTHER_CAPABILITIES, OneMore};

use crate::file;
use crate::number;
use crate::output::Output;

/// Compute the CTAs per SM, what limits them, and what one more would need.
#[derive(Debug, Args)]
pub(crate) struct Occupancy {
    /// Threads per CTA.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number::integer::<u32>(1..=1024))]
    threads: u32,
    /// Registers per thread, as the assembler reports them.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number::integer::<u32>(1..=255))]
    regs: u32,
    /// Static and dynamic shared memory per CTA in bytes.
    #[arg(long, default_value_t = 0, value_name = "BYTES", allow_negative_numbers = true, value_parser = number::integer::<u32>(0..=u64::from(u32::MAX)))]
    smem: u32,
    /// Architecture from sm_70 to sm_121. `sm_90a` and `sm_90` have the same limits.
    #[arg(long, default_value = "sm_90", value_name = "ARCH")]
    arch: String,
    /// Draw occupancy against threads, registers and shared memory to this file as SVG.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl Occupancy {
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        let capability = Capability::with_limits_of(&self.arch)
            .ok_or_else(|| anyhow!("unknown architecture `{}`; expected one of {}", self.arch, known()))?;
        let kernel = KernelResources {
            threads_per_cta: self.threads,
            registers_per_thread: self.regs,
            shared_bytes: self.smem,
        };
        let found = capability.occupancy(&kernel)?;
        let limits = capability.ctas_by_resource(&kernel)?;
        let more = capability.one_more(&kernel)?;
        // Several may allow equally few.
        let stops = |ctas: u32| ctas == found.ctas_per_sm;
        let is_full = found.warps_per_sm == capability.warps_per_sm;
        let limiters = limits.iter().filter(|(_, ctas)| stops(*ctas)).map(|(limiter, _)| limiter.name());
        let limiters: Vec<_> = limiters.collect();
        let part = f64::from(found.warps_per_sm) / f64::from(capability.warps_per_sm);
        if let Some(path) = &self.svg {
            file::write(path, chart::svg(capability, &kernel))?;
        }
        output.json(|| {
            let limits = limits.iter().map(|(limiter, ctas)| {
                let ctas = (*ctas != u32::MAX).then_some(*ctas);
                (limiter.name().to_owned(), json!(ctas))
            });
            json!({
                "status": "ok",
                "arch": self.arch,
                "ctas_per_sm": found.ctas_per_sm,
                "warps_per_sm": found.warps_per_sm,
                "occupancy": part,
                "limiter": found.limiter.name(),
                "limiters": limiters,
                "ctas_by": limits.collect::<serde_json::Map<_, _>>(),
                "one_more": more.map(as_json),
            })
        });
        output.text(|| {
            let mut lines = vec![format!(
                "{} CTA{} per SM: {} of {} warps, {:.1} %",
                found.ctas_per_sm,
                if found.ctas_per_sm == 1 { "" } else { "s" },
                found.warps_per_sm,
                capability.warps_per_sm,
                100.0 * part
            )];
            for (limiter, ctas) in limits {
                let mark = if stops(ctas) { "  <- stops one more" } else { "" };
                let ctas = if ctas == u32::MAX { "any number".to_owned() } else { ctas.to_string() };
                lines.push(format!("  {:<14} allow {ctas:>3}{mark}", limiter.name()));
            }
            lines.push(one_more(found.ctas_per_sm + 1, &kernel, more, is_full));
            lines.join("\n")
        });
        Ok(())
    }
}

fn as_json(more: OneMore) -> Value {
    json!({
        "threads_per_cta": more.threads_per_cta,
        "registers_per_thread": more.registers_per_thread,
        "shared_bytes": more.shared_bytes,
    })
}

/// What CTA number `wanted` would need, in a sentence.
fn one_more(wanted: u32, kernel: &KernelResources, more: Option<OneMore>, is_full: bool) -> String {
    let Some(OneMore { threads_per_cta, registers_per_thread, shared_bytes }) = more else {
        return if is_full {
            "the SM is full: every slot for a warp is taken".to_owned()
        } else {
            format!("no kernel fits an SM {wanted} times: only more warps in a CTA fill it further")
        };
    };
    let parts = [
        threads_per_cta.map(|most| format!("at most {most} threads ({} now)", kernel.threads_per_cta)),
        registers_per_thread
            .map(|most| format!("at most {most} registers per thread ({} now)", kernel.registers_per_thread)),
        shared_bytes
            .map(|most| format!("at most {most} bytes of shared memory ({} now)", kernel.shared_bytes)),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    format!("{wanted} CTAs would take {}", parts.join(" and "))
}

fn known() -> String {
    let mut rows: Vec<_> = CAPABILITIES.iter().chain(&OTHER_CAPABILITIES).collect();
    rows.sort_by_key(|row| row.compute_capability);
    rows.iter().map(|row| row.target.trim_end_matches('a')).collect::<Vec<_>>().join(", ")
}
