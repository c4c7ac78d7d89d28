//! Attention's forward kernel for e4m3 as a workload.

use warpwright::prelude::*;
use warpwright_harness::{HostNumber, Prepared, Result, Setup, Values, Work};

use super::config::Configuration;
use super::fp8::{AttentionScales, Fp8AttentionBuffers, ScaleGranularity};
use super::reference::{Fp8Inputs, Inputs, verify_fp8};
use crate::attention::problem::{Attention, AttentionElement};
use crate::operations::Operations;

/// Scales of neighboring heads and blocks that differ, around 1.
fn scales(number: u32, length: usize) -> Vec<f32> {
    (0..length as u32).map(|i| 0.75 + ((i * 5 + number * 3) % 7) as f32 / 10.0).collect()
}

/// What an attention has beside its matrices: the offsets of packed sequences, slopes and sinks.
pub(super) struct Further {
    pub(super) offsets: [Vec<u32>; 2],
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
    let ([q, k, v, o], [rows, _]) = (attention.elements(), attention.rows());
    let rows = rows * attention.shape.heads as usize;
    let [of_q, of_k] = granularity.lengths(&attention);
    let values = [scales(0, of_q), scales(1, of_k), scales(2, of_k)];
    let operations = Operations::new(setup.device());
    let buffers = setup.buffers(work, |seed| {
        let input = |number: u64, length| setup.values::<e4m3>(Values::Normal, seed + (number << 16), length);
        let inputs = [input(0, q)?, input(1, k)?, input(2, v)?];
        let numbers = |values: &Vec<f32>| setup.input(values.len(), |_| values.clone());
        let offset = |values: &Vec<u32>| setup.input(values.len(), |_| values.clone());
        let [of_q, of_k, of_v] = values.each_ref().map(numbers);
        let [queries, keys] = further.offsets.each_ref().map(offset);
        let more = ([queries?, keys?], [numbers(&further.slopes)?, numbers(&further.sinks)?]);
        Ok(((inputs, [of_q?, of_k?, of_v?]), more, setup.output::<T>(o)?, setup.output::<f32>(rows)?))
    })?;
    Ok(buffers
        .launch(move |stream, ((inputs, [q, k, v]), (offsets, [slopes, sinks]), o, lse)| {
            let scales = AttentionScales { granularity, q, k, v };
            let buffers = Fp8AttentionBuffers {
                lse: Some(lse),
                offsets: Some(offsets.each_ref()),
                slopes: Some(slopes),
                sinks: Some(sinks),
                ..Fp8AttentionBuffers::new(inputs.each_ref(), scales, o)
            };
            Ok(operations.attention_fp8_as(stream, &attention, configuration, buffers)?)
        })
        .verify(move |((inputs, _), _, o, lse)| {
            let [q, k, v] = inputs.each_ref().map(|matrix| matrix.to_vec());
            let (q, k, v) = (q?, k?, v?);
            let Further { offsets, slopes, sinks } = &further;
            let inputs = Inputs { q: &q, k: &k, v: &v, offsets, slopes, sinks };
            let inputs = Fp8Inputs { inputs, granularity, scales: values.each_ref().map(Vec::as_slice) };
            Ok(verify_fp8(&attention, &inputs, &o.to_vec()?, &lse.to_vec()?)?)
        }))
}
