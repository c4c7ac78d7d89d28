//! Attention's forward kernel for e4m3 as a workload.

use warpwright::prelude::*;
use warpwright_harness::{HostNumber, Prepared, Result, Setup, Work};

use super::matrices::{Placement, dense};
use super::reference::{Fp8Inputs, Inputs, verify_fp8};
use warpwright_kernels::attention::Configuration;
use warpwright_kernels::attention::Pages;
use warpwright_kernels::attention::{Attention, AttentionElement};
use warpwright_kernels::attention::{AttentionScales, Fp8AttentionBuffers, ScaleGranularity};
use warpwright_kernels::operations::Operations;

/// Scales of neighboring heads and blocks that differ, around 1.
fn scales(number: u32, length: usize) -> Vec<f32> {
    (0..length as u32).map(|i| 0.75 + ((i * 5 + number * 3) % 7) as f32 / 10.0).collect()
}

/// What an attention has beside its matrices: the offsets of packed sequences and the keys of each, slopes
/// and sinks.
pub(super) struct Further {
    pub(super) offsets: [Vec<u32>; 2],
    pub(super) key_counts: Vec<u32>,
    pub(super) slopes: Vec<f32>,
    pub(super) sinks: Vec<f32>,
}

/// The workload with O of type `T`.
pub(super) fn prepare<T: AttentionElement + HostNumber>(
    setup: &Setup,
    work: Work,
    (attention, granularity): (Attention, ScaleGranularity),
    configuration: Configuration,
    further: Further,
) -> Result<Box<dyn Prepared>> {
    let (rows, reach) = (attention.rows()[0], attention.matrices().map(|matrix| matrix.reach() as usize));
    let rows = rows * attention.shape.heads as usize;
    let [of_q, of_k] = granularity.lengths(&attention);
    let values = [scales(0, of_q), scales(1, of_k), scales(2, of_k)];
    let operations = Operations::new(setup.device());
    let buffers = setup.buffers(work, |seed| {
        let placement = Placement::new(&attention, &further.key_counts, seed);
        let input = |number: usize| {
            setup.input(reach[number], |_| placement.values::<e4m3>(&attention, number, seed))
        };
        let inputs = [input(0)?, input(1)?, input(2)?];
        let numbers = |values: &Vec<f32>| setup.input(values.len(), |_| values.clone());
        let counts = |values: &Vec<u32>| setup.input(values.len(), |_| values.clone());
        let [of_q, of_k, of_v] = values.each_ref().map(numbers);
        let [queries, keys] = further.offsets.each_ref().map(counts);
        let pages = [counts(&placement.table)?, counts(&further.key_counts)?];
        let more = ([queries?, keys?], pages, [numbers(&further.slopes)?, numbers(&further.sinks)?]);
        let results = (setup.output::<T>(reach[3])?, setup.output::<f32>(rows)?);
        Ok(((inputs, [of_q?, of_k?, of_v?]), more, results))
    })?;
    Ok(buffers
        .launch(
            move |stream, ((inputs, [q, k, v]), (offsets, [table, lengths], [slopes, sinks]), (o, lse))| {
                let scales = AttentionScales { granularity, q, k, v };
                let buffers = Fp8AttentionBuffers {
                    lse: Some(lse),
                    offsets: Some(offsets.each_ref()),
                    pages: Some(Pages { table, lengths }),
                    slopes: Some(slopes),
                    sinks: Some(sinks),
                    ..Fp8AttentionBuffers::new(inputs.each_ref(), scales, o)
                };
                Ok(operations.attention_fp8_as(stream, &attention, configuration, buffers)?)
            },
        )
        .verify(move |(([q, k, v], _), (_, [table, _], _), (o, lse))| {
            let Further { offsets, key_counts, slopes, sinks } = &further;
            let table = table.to_vec()?;
            let of_input = |number, values| dense(&attention, (key_counts, &table), number, values);
            let [q, k, v] = [of_input(0, q.to_vec()?), of_input(1, k.to_vec()?), of_input(2, v.to_vec()?)];
            let o = dense(&attention, (key_counts, &table), 3, o.to_vec()?);
            let inputs = Inputs { q: &q, k: &k, v: &v, offsets, slopes, sinks };
            let inputs = Fp8Inputs { inputs, granularity, scales: values.each_ref().map(Vec::as_slice) };
            Ok(verify_fp8(&attention, &inputs, &o, &lse.to_vec()?)?)
        }))
}
