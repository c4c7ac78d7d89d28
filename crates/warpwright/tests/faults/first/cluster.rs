//! Clusters: a pipeline with multicast, and shared memory of peers.

use warpwright::lang::pointer::{In, Out};
use warpwright::layout::Error as LayoutError;
use warpwright::prelude::*;
use warpwright::runtime::Device;

use crate::faults::fault::input;
use crate::faults::first::{Error, Mistaken};

fn tile() -> Result<TmaTile, LayoutError> {
    TmaTile::new::<bf16>((64, 64), Major::K)
}

impl Mistaken {
    /// C = A * B^T of 128 x 64 x 256 by two CTAs that share B.
    #[kernel]
    fn shared_gemm(&self, a: &TensorMap, b: &TensorMap, c: &mut Global<f32>, k: u32) {
        let cluster = ClusterGrid::new((2, 1));
        let [producer, consumer] = roles([warpgroups(1).registers(40), warpgroups(1).registers(232)]);
        launch::cluster(2, 1, 1);
        let mut stages = Pipeline::stages(2);
        let a_tiles = stages.operand::<bf16>(tile());
        let b_tiles = stages.operand::<bf16>(tile().map(|tile| tile.sliced(2)));
        let pipeline = stages.connect(consumer, ConsumerSchedule::Cooperative, cluster);
        let row = block_idx().x;
        if producer.is_mine() {
            producer.begin();
            if producer.leads() {
                let mut pipeline = pipeline.producer();
                for step in 0..k / 64 {
                    let a = a_tiles.load(a, (row * 64, step * 64), None);
                    let b = b_tiles.load(b, (constant(0u32), step * 64), cluster.multicast_b());
                    pipeline.load([a, b]);
                }
                if !self.is("no tail") {
                    pipeline.tail();
                }
            }
        } else {
            consumer.begin();
            let mut pipeline = pipeline.consumer();
            let mma = TiledMma::warpgroups("SM90_64x64x16_F32BF16BF16_SS", 1);
            let a = mma.a_operand(a_tiles.tensor(), consumer.warpgroup());
            let b = mma.b_operand(b_tiles.tensor());
            let part = mma.thread(consumer.thread());
            let mut sums: Fragment<f32> = part.c_fragment((64, 64));
            sums.clear();
            for _ in 0..k / 64 {
                let at = (All, All, pipeline.wait());
                multiply(&mma, &mut sums, &a.slice(at), &b.slice(at), Accumulate::Yes);
                if !self.is("released before the wait") {
                    wait_multiplications(0);
                }
                if !self.is("no release in a cluster") {
                    pipeline.release();
                }
                if self.is("released before the wait") {
                    wait_multiplications(0);
                }
            }
            let c = Tensor::with_layout(*c, Layout::new((128u32, 64u32), (64u32, 1u32)));
            let mine = part.c(&c.local_tile((64, 64), (row, constant(0u32))));
            for pair in (0..sums.len()).step_by(2) {
                mine.set_vector(pair, [sums.get(pair), sums.get(pair + 1)]);
            }
        }
    }

    /// Each CTA of a pair reads what the other one has written.
    #[kernel]
    fn exchange(&self, x: &Global<u32>, y: &mut Global<u32>) {
        launch::threads(32);
        launch::cluster(2, 1, 1);
        let row = shared_array::<u32>(32);
        let (thread, rank) = (thread_idx().x, cluster_rank());
        if self.is("sent before the peer starts") {
            row.map_to_block(rank ^ 1)[thread] = x[rank * 32 + thread];
            cluster_sync();
            y[(rank ^ 1) * 32 + thread] = row[thread];
            return;
        }
        row[thread] = x[rank * 32 + thread];
        if self.is("block barrier for a cluster") {
            sync_threads();
        } else if self.is("one CTA skips the cluster barrier") {
            if rank == 0 {
                cluster_sync();
            }
        } else if self.is("arrives and does not wait") {
            cluster_arrive();
        } else if !self.is("no cluster barrier") {
            cluster_sync();
        }
        let peer = if self.is("rank past the cluster") { rank + 1 } else { rank ^ 1 };
        y[rank * 32 + thread] = row.map_to_block(peer)[thread];
        if self.is("arrives and does not wait") {
            cluster_wait();
        } else if !self.is("no cluster barrier at the end") {
            cluster_sync();
        }
    }
}

pub(super) fn shared_gemm(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    let (m, n, k) = (128u32, 64u32, 256u32);
    let element = |index: u32| bf16::from_f32((index * 7919 % 17) as f32 - 8.0);
    let a: Vec<bf16> = (0..m * k).map(element).collect();
    let b: Vec<bf16> = (0..n * k).map(|index| element(index + 5)).collect();
    let kernel = device.compile(&mistaken.shared_gemm()?)?;
    let (a_there, b_there) = (device.buffer_from(&a)?, device.buffer_from(&b)?);
    let mut c = device.zeros::<f32>((m * n) as usize)?;
    let a_map = kernel.tensor_map("a", &a_there, &[m.into(), k.into()])?;
    let b_map = kernel.tensor_map("b", &b_there, &[n.into(), k.into()])?;
    kernel.launch(&device.stream()?, 2, (&a_map, &b_map, &mut c, k))?;
    c.to_vec()?;
    Ok(())
}

type Staged = Result<Kernel<(In<u32>, Out<u32>)>, StagingErrors>;

pub(super) fn exchange(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    let kernel: Staged = mistaken.exchange();
    let kernel = device.compile(&kernel?)?;
    let x = device.buffer_from(&(0..64).map(input).collect::<Vec<_>>())?;
    let mut y = device.zeros::<u32>(64)?;
    kernel.launch(&device.stream()?, 2, (&x, &mut y))?;
    y.to_vec()?;
    Ok(())
}
