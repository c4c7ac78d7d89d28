//! What every architecture has, and the little that some lack.

use half::{bf16, f16};
use warpwright_lang::access::{Access, CacheOperator, Eviction, L2Prefetch, Ordering, Scope};
use warpwright_lang::async_copy::*;
use warpwright_lang::atomic::{AtomicOrdering, Atomicity};
use warpwright_lang::comparison::FloatClass;
use warpwright_lang::contraction::{forbid_contraction, strict};
use warpwright_lang::conversion::{Rounding, Saturate};
use warpwright_lang::element::*;
use warpwright_lang::float::Mode;
use warpwright_lang::memory::{L2Eviction, cache_policy, create_policy, create_range_policy};
use warpwright_lang::{Reg, bits, block, control, fence, integer, matrix, special, warp};
use warpwright_layout::atom::MmaAtom;

use warpwright_lang::wmma::{BitProduct, Wmma, WmmaLayout};

use super::{Case, global, read, tile, x, y};

pub(crate) const CASES: &[Case] = cases! {
    "sm_80" "add.u32": x::<u32>() + y::<u32>();
    "sm_80" "add.u32": x::<u32>() + 7;
    "sm_80" "sub.s64": x::<i64>() - y::<i64>();
    "sm_80" "mul.lo.u16": x::<u16>() * y::<u16>();
    "sm_80" "div.s32": x::<i32>() / 3;
    "sm_80" "rem.u64": x::<u64>() % 10;
    "sm_80" "neg.s32": -x::<i32>();
    "sm_80" "add.u16 and.b16": x::<u8>() + y::<u8>();
    "sm_80" "mul.lo.s16 cvt.s16.s8": x::<i8>() * y::<i8>();
    "sm_80" "shl.b16 and.b16": x::<u8>() << 3;
    "sm_80" "shr.s32": x::<i32>() >> 3;
    "sm_80" "shl.b64": x::<u64>() << y::<u32>();
    "sm_80" "mov.u32 shl.b32": 1u32 << x::<u32>();
    "sm_80" "and.b32": x::<u32>() & 0xff;
    "sm_80" "xor.b64": x::<i64>() ^ y::<i64>();
    "sm_80" "not.b16 and.b16": !x::<u8>();
    "sm_80" "not.pred": !x::<bool>();
    "sm_80" "or.pred": x::<bool>() | y::<bool>();
    "sm_80" "add.rn.f32": x::<f32>() + 1.0;
    "sm_80" "mov.f32 sub.rn.f32": 1.0 - x::<f32>();
    "sm_80" "div.rn.f64": x::<f64>() / y::<f64>();
    "sm_80" "mul.rn.f16": x::<f16>() * y::<f16>();
    "sm_80" "mov.b16 add.rn.f16": x::<f16>() + f16::ONE;
    "sm_80" "add.rn.f16x2": x::<f16x2>() + y::<f16x2>();
    "sm_80" "mov.b16 fma.rn.bf16": x::<bf16>() + y::<bf16>();
    "sm_80" "mov.b32 fma.rn.bf16x2": x::<bf16x2>() * y::<bf16x2>();
    "sm_80" "cvt.f32.f16 cvt.f32.f16 div.rn.f32 cvt.rn.f16.f32": x::<f16>() / y::<f16>();
    "sm_80" "neg.bf16": -x::<bf16>();
    "sm_80" "fma.rn.f32": x::<f32>() * y::<f32>() + x::<f32>();
    "sm_80" "fma.rn.f32": x::<f32>() + y::<f32>() * 3.0;
    "sm_80" "fma.rn.f32": x::<f32>() * y::<f32>() - 1.0;
    "sm_80" "neg.f32 fma.rn.f32": x::<f32>() * 2.0 - y::<f32>();
    "sm_80" "neg.f64 fma.rn.f64": y::<f64>() - x::<f64>() * y::<f64>();
    "sm_80" "fma.rn.f32": y::<f32>() - x::<f32>() * 3.0;
    "sm_80" "mul.rn.f32 fma.rn.f32": x::<f32>() * 2.0 + y::<f32>() * 3.0;
    "sm_80" "fma.rn.f16x2": x::<f16x2>() * y::<f16x2>() + y::<f16x2>();
    "sm_80" "neg.bf16 fma.rn.bf16": x::<bf16>() * y::<bf16>() - y::<bf16>();
    "sm_80" "mul.rn.f32 add.rn.f32 sub.rn.f32": {
        let product = x::<f32>() * y::<f32>();
        (product + 1.0, product - 1.0)
    };
    "sm_80" "mul.rn.f32 add.rn.f32": strict(|| x::<f32>() * y::<f32>() + 1.0);
    "sm_80" "mul.rn.f32 add.rn.f32": {
        forbid_contraction();
        x::<f32>() * y::<f32>() + 1.0
    };
    "sm_80" "setp.lt.u32": x::<u32>().lt(y::<u32>());
    "sm_80" "setp.ge.s16": x::<i8>().ge(y::<i8>());
    "sm_80" "setp.neu.f32": x::<f32>().ne(0.0);
    "sm_80" "setp.eq.f16": x::<f16>().eq(y::<f16>());
    "sm_80" "xor.pred not.pred": x::<bool>().eq(y::<bool>());
    "sm_80" "selp.f32": x::<bool>().select(y::<f32>(), 0.0f32);
    "sm_80" "selp.b16": x::<bool>().select(y::<bf16>(), y::<bf16>());
    "sm_80" "testp.notanumber.f32": x::<f32>().is_nan();
    "sm_80" "testp.subnormal.f64": x::<f64>().is(FloatClass::Subnormal);
    "sm_80" "add.rz.f32": x::<f32>().add_with(y::<f32>(), Rounding::Zero);
    "sm_80" "mul.rm.ftz.sat.f32": x::<f32>().mul_with(
        y::<f32>(), Mode { rounding: Rounding::Down, flush_to_zero: true, saturate: true });
    "sm_80" "fma.rp.f64": x::<f64>().mul_add_with(y::<f64>(), 1.0, Rounding::Up);
    "sm_80" "fma.rn.bf16x2": x::<bf16x2>().mul_add(y::<bf16x2>(), y::<bf16x2>());
    "sm_80" "sqrt.rn.f32": x::<f32>().sqrt();
    "sm_80" "rcp.rn.f64": x::<f64>().rcp();
    "sm_80" "ex2.approx.f32": x::<f32>().ex2_approx();
    "sm_80" "lg2.approx.f32": x::<f32>().lg2_approx();
    "sm_80" "sin.approx.f32": x::<f32>().sin_approx();
    "sm_80" "cos.approx.f32": x::<f32>().cos_approx();
    "sm_80" "tanh.approx.f32": x::<f32>().tanh_approx();
    "sm_80" "rsqrt.approx.f32": x::<f32>().rsqrt_approx();
    "sm_80" "rcp.approx.f32": x::<f32>().rcp_approx();
    "sm_80" "sqrt.approx.f32": x::<f32>().sqrt_approx();
    "sm_80" "div.approx.f32": x::<f32>().div_approx(y::<f32>());
    "sm_80" "div.full.f32": x::<f32>().div_full(y::<f32>());
    "sm_80" "min.NaN.f16x2": x::<f16x2>().min_nan(y::<f16x2>());
    "sm_80" "max.bf16": x::<bf16>().max(y::<bf16>());
    "sm_80" "max.s32 min.s32": x::<i32>().clamp(-3, 9);
    "sm_80" "abs.f64": x::<f64>().abs();
    "sm_80" "copysign.f32": x::<f32>().copysign(y::<f32>());
    "sm_80" "cvt.rmi.f32.f32": x::<f32>().floor();
    "sm_80" "mul.wide.u32": x::<u32>().mul_wide(y::<u32>());
    "sm_80" "mad.wide.s16": x::<i16>().mul_add_wide(y::<i16>(), 5);
    "sm_80" "mul.hi.u64": x::<u64>().mul_hi(y::<u64>());
    "sm_80" "mad.lo.s32": x::<i32>().mul_add_wrapping(y::<i32>(), 1);
    "sm_80" "mad.hi.u32": x::<u32>().mul_add_hi(y::<u32>(), 1);
    "sm_80" "sad.s32": x::<i32>().sad(y::<i32>(), 1u32);
    "sm_80" "mul24.lo.u32": x::<u32>().mul24(y::<u32>());
    "sm_80" "mad24.lo.s32": x::<i32>().mul_add24(y::<i32>(), 1);
    "sm_80" "add.sat.s32": x::<i32>().saturating_add(y::<i32>());
    "sm_80" "sub.sat.s32": x::<i32>().saturating_sub(y::<i32>());
    "sm_80" "popc.b32": x::<u32>().count_ones();
    "sm_80" "clz.b64": x::<i64>().leading_zeros();
    "sm_80" "brev.b32 clz.b32": x::<u32>().trailing_zeros();
    "sm_80" "shf.l.wrap.b32 mov.b32": x::<u32>().rotate_left(5);
    "sm_80" "mul.lo.u32 mul.lo.u32 mul.lo.u32": x::<u32>().pow(5);
    "sm_80" "mov.b32": x::<f32>().to_bits();
    "sm_80" "mov.b16": Reg::<bf16>::from_bits(y::<u16>());
    "sm_80" "add.cc.u32 addc.cc.u32 addc.u32":
        integer::add_with_carry([x::<u32>(), x()], [y::<u32>(), y()]);
    "sm_80" "sub.cc.u32 subc.u32": integer::sub_with_borrow([x::<u32>(), x()], [y::<u32>(), y()]);
    "sm_80" "dp4a.u32.s32": x::<u8x4>().dot4(y::<s8x4>(), 0i32);
    "sm_80" "dp2a.lo.s32.s32": x::<s8x4>().dot2_low(y::<u32>(), 0i32);
    "sm_80" "popc.b64": x::<u64>().popc();
    "sm_80" "clz.b32": x::<i32>().clz();
    "sm_80" "brev.b32": x::<u32>().brev();
    "sm_80" "bfind.s64": x::<i64>().bfind();
    "sm_80" "bfe.s32": x::<i32>().bfe(4, 8);
    "sm_80" "bfi.b64": x::<u64>().bfi(y::<u64>(), 4, 8);
    "sm_80" "lop3.b32": x::<u32>().lop3(y::<u32>(), 1, 0x96);
    "sm_80" "prmt.b32": x::<u32>().prmt(y::<u32>(), 0x5410);
    "sm_80" "shf.l.wrap.b32": x::<u32>().funnel_left(y::<u32>(), 8);
    "sm_80" "shf.r.wrap.b32": x::<u32>().funnel_right(y::<u32>(), 8);
    "sm_80" "szext.clamp.s32": x::<i32>().szext(12);
    "sm_80" "fns.b32": x::<u32>().find_nth_set(0, 2);
    "sm_80" "bmsk.clamp.b32": bits::bit_mask(3, 5);
    "sm_80" "cvt.rn.f32.s32": x::<i32>().convert::<f32>();
    "sm_80" "cvt.rzi.u32.f32": x::<f32>().convert::<u32>();
    "sm_80" "cvt.rni.s64.f64": x::<f64>().convert_with::<i64>(Rounding::NearestEven, Saturate::No);
    "sm_80" "cvt.rn.f16.f32": x::<f32>().convert::<f16>();
    "sm_80" "cvt.rn.bf16.f32": x::<f32>().convert::<bf16>();
    "sm_80" "cvt.f64.f16": x::<f16>().convert::<f64>();
    "sm_80" "mov.u16 mov.b32": x::<bf16>().convert::<f32>();
    "sm_80" "cvt.s64.u32": x::<u32>().convert::<i64>();
    "sm_80" "cvt.sat.s16.s32": x::<i32>().convert_with::<i16>(Rounding::Zero, Saturate::Yes);
    "sm_80" "cvt.rz.f32.s32 cvt.rzi.s32.f32 setp.ne.s32 selp.u32 or.b32 cvt.rn.bf16.f32":
        x::<i32>().convert::<bf16>();
    "sm_80" "cvt.rna.tf32.f32": x::<f32>().convert::<tf32>();
    "sm_80" "selp.u32 cvt.rn.f32.u32": x::<bool>().convert::<f32>();
    "sm_80" "cvt.rn.f16x2.f32": x::<f32>().pack_f16x2(y::<f32>());
    "sm_80" "cvt.rn.bf16x2.f32": x::<f32>().pack_bf16x2(y::<f32>());
    "sm_89" "mov.f32 cvt.rn.satfinite.e4m3x2.f32": x::<f32>().convert::<e4m3>();
    "sm_89" "cvt.rn.f16x2.e5m2x2 mov.b32 cvt.f32.f16": x::<e5m2>().convert::<f32>();
    "sm_89" "cvt.rn.satfinite.e5m2x2.f32": x::<f32>().pack_e5m2x2(y::<f32>());
    "sm_80" "mov.b32": x::<f32>().bit_cast::<u32>();
    "sm_80" "mov.b32": x::<f16x2>().unpack();
    "sm_80" "mov.u32 mov.u32 mov.u32": special::thread_idx();
    "sm_80" "mov.u64": special::global_timer();
    "sm_80" "mov.u32": special::lane_mask_lt();
    "sm_90a" "mov.u32": special::cluster_rank();
    "sm_80" "bar.sync": block::sync_threads();
    "sm_80" "bar.red.popc.u32": block::sync_threads_count(x::<bool>());
    "sm_80" "bar.red.and.pred": block::sync_threads_and(x::<bool>());
    "sm_80" "bar.sync bar.arrive":
        { let named = block::NamedBarrier::new(1, 64); named.sync(); named.arrive() };
    "sm_80" "fence.acq_rel.gpu": fence::fence_device();
    "sm_80" "fence.sc.sys": fence::fence(fence::Semantics::SequentiallyConsistent, Scope::System);
    "sm_80" "nanosleep.u32": control::nanosleep(100);
    "sm_80" "cvt.f64.f32 cvt.s32.s16": control::print("%f %d", &[&x::<f32>(), &y::<i8>()]);
    "sm_80" "trap": control::trap();
    "sm_80" "brkpt": control::breakpoint();
    "sm_80" "exit": control::exit();
    "sm_80" "ld.global.f32": global::<f32>().load();
    "sm_80" "mad.wide.u32 ld.global.b16": global::<bf16>().at(x::<u32>()).load();
    "sm_80" "ld.global.u8 setp.ne.u16": global::<bool>().load();
    "sm_80" "selp.b16 st.global.u8": global::<bool>().store(x::<bool>());
    "sm_80" "ld.global.v4.f32": global::<f32>().load_vector::<4>();
    "sm_80" "ld.global.v4.b32 mov.b32 mov.b32 mov.b32 mov.b32": global::<f16>().load_vector::<8>();
    "sm_80" "st.global.v2.f64": global::<f64>().store_vector([x(), y()]);
    "sm_80" "ld.global.nc.f32": read::<f32>().load_read_only();
    "sm_80" "ld.global.L2::128B.u32":
        global::<u32>().load_with(Access::new().prefetching(L2Prefetch::Bytes128));
    "sm_80" "ld.acquire.gpu.global.u32":
        global::<u32>().load_with(Access::new().ordered(Ordering::Acquire(Scope::Device)));
    "sm_80" "mov.u32 st.release.sys.global.u32":
        global::<u32>().store_with(1, Access::new().ordered(Ordering::Release(Scope::System)));
    "sm_80" "ld.volatile.global.u32": global::<u32>().load_with(Access::new().ordered(Ordering::Volatile));
    "sm_80" "ld.global.L1::evict_last.u32": global::<u32>().load_with(Access::new().evicted(Eviction::Last));
    "sm_80" "createpolicy.fractional.L2::evict_last.b64 ld.global.L2::cache_hint.f32":
        global::<f32>().load_with(Access::new().with_policy(create_policy(L2Eviction::Last, 1.0)));
    "sm_80" "mov.f32 st.global.cs.f32": global::<f32>().store_with(1.0, Access::new().cached(CacheOperator::Streaming));
    "sm_80" "prefetch.global.L2": global::<f32>().prefetch_l2();
    "sm_80" "mov.u32 ld.shared.f32": tile::<f32>().at(3).load();
    "sm_80" "mov.u32 mad.lo.u32 mov.f32 st.shared.f32": tile::<f32>().at(x::<u32>()).store(0.0);
    "sm_80" "mov.u32 cvt.u64.u32 cvta.shared.u64 ld.u32": tile::<u32>().generic().load();
    "sm_80" "atom.relaxed.gpu.global.add.f32": global::<f32>().atomic_add(1.0);
    "sm_80" "red.relaxed.gpu.global.add.u64": global::<i64>().reduce_add(1);
    "sm_80" "atom.relaxed.gpu.global.add.noftz.f16x2": global::<f16x2>().atomic_add(x::<f16x2>());
    "sm_90a" "red.relaxed.gpu.global.add.noftz.bf16": global::<bf16>().reduce_add(x::<bf16>());
    "sm_80" "atom.acq_rel.sys.global.max.s64":
        global::<i64>().atomic_max_with(1, Atomicity::new(AtomicOrdering::AcquireRelease, Scope::System));
    "sm_80" "mov.u32 red.relaxed.gpu.shared.xor.b32": tile::<u32>().reduce_xor(1);
    "sm_80" "atom.relaxed.gpu.global.exch.b64": global::<f64>().atomic_exchange(1.0, Atomicity::default());
    "sm_80" "atom.relaxed.gpu.global.cas.b16": global::<u16>().atomic_compare_exchange(1, 2, Atomicity::default());
    "sm_80" "atom.relaxed.gpu.global.inc.u32": global::<u32>().atomic_increment(9, Atomicity::default());
    "sm_80" "atom.relaxed.gpu.global.dec.u32": global::<u32>().atomic_decrement(9, Atomicity::default());
    "sm_90a" "red.relaxed.gpu.global.add.v4.f32":
        global::<f32>().reduce_add_vector([x(), x(), y(), y()], Atomicity::default());
    "sm_90a" "atom.relaxed.gpu.global.add.v2.f32":
        global::<f32>().atomic_add_vector([x(), y()], Atomicity::default());
    "sm_90a" "red.relaxed.gpu.global.add.noftz.v8.f16":
        global::<f16>().reduce_add_vector([x(); 8], Atomicity::default());
    "sm_90a" "atom.relaxed.gpu.global.max.noftz.v2.bf16x2":
        global::<bf16x2>().atomic_max_vector([x(), y()], Atomicity::default());
    "sm_90a" "red.relaxed.gpu.global.min.noftz.v4.bf16":
        global::<bf16>().reduce_min_vector([x(); 4], Atomicity::default());
    "sm_80" "fma.rn.relu.f16x2": x::<f16x2>().mul_add_relu(y::<f16x2>(), x::<f16x2>());
    "sm_80" "fma.rn.relu.bf16": x::<bf16>().mul_add_relu(y::<bf16>(), x::<bf16>());
    "sm_80" "ex2.approx.f16x2": x::<f16x2>().ex2_approx();
    "sm_90a" "ex2.approx.ftz.bf16x2": x::<bf16x2>().ex2_approx();
    "sm_80" "tanh.approx.f16": x::<f16>().tanh_approx();
    "sm_90a" "tanh.approx.bf16x2": x::<bf16x2>().tanh_approx();
    "sm_100a" "redux.sync.min.f32": x::<f32>().warp_min(warp::ALL_LANES);
    "sm_100a" "redux.sync.max.NaN.f32": x::<f32>().warp_max_nan(warp::ALL_LANES);
    "sm_100a" "min.f32": x::<f32>().min3(y::<f32>(), 1.0);
    "sm_100a" "max.f32": x::<f32>().max3(y::<f32>(), x::<f32>());
    "sm_90a" "add.u16x2": x::<u16x2>().add_lanes(y::<u16x2>());
    "sm_90a" "min.s16x2": x::<s16x2>().min_lanes(y::<s16x2>());
    "sm_90a" "max.u16x2": x::<u16x2>().max_lanes(y::<u16x2>());
    "sm_90a" "max.relu.s16x2": x::<s16x2>().max_relu(y::<s16x2>());
    "sm_90a" "min.relu.s32": x::<i32>().min_relu(7);
    "sm_80" "createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64":
        create_range_policy(L2Eviction::Last, global::<f32>(), 4096, x::<u32>());
    "sm_80" "discard.global.L2": global::<f32>().discard_l2();
    "sm_80" "applypriority.global.L2::evict_normal": global::<f32>().demote_l2();
    "sm_80" "pmevent": control::performance_event(15);
    "sm_80" "cvt.pack.sat.u16.s32": x::<i32>().pack_u16x2(y::<i32>());
    "sm_80" "mov.u32 cvt.pack.sat.u8.s32.b32 cvt.pack.sat.u8.s32.b32": Reg::<u8x4>::pack_saturating([x(), y(), x(), y()]);
    "sm_80" "mov.b32": x::<s16x2>().unpack();
    "sm_80" "mov.u32 cp.async.ca.shared.global": copy_async(tile::<f32>(), global(), 1);
    "sm_80" "mov.u32 cp.async.cg.shared.global": copy_async(tile::<f16>(), global(), 8);
    "sm_80" "mov.u32 selp.u32 cp.async.cg.shared.global":
        { let present = x::<bool>(); copy_async_or_zero(tile::<f32>(), global(), 4, present) };
    "sm_80" "mov.u32 mul.lo.u32 cp.async.ca.shared.global": copy_async_first(tile::<f32>(), global(), 2, x::<u32>());
    "sm_80" "mov.u64 mov.u32 cp.async.cg.shared.global.L2::cache_hint":
        { let policy = cache_policy(L2Eviction::First); copy_async_with_policy(tile::<f32>(), global(), 4, policy) };
    "sm_80" "cp.async.commit_group cp.async.wait_group cp.async.wait_all":
        { commit_async_copies(); wait_async_copies(1); wait_all_async_copies() };
    "sm_90a" "fence.acquire.gpu": fence::fence(fence::Semantics::Acquire, Scope::Device);
    "sm_90a" "fence.release.sys": fence::fence(fence::Semantics::Release, Scope::System);
    "sm_80" "shfl.sync.idx.b32": x::<f32>().shuffle(0);
    "sm_80" "shfl.sync.bfly.b32": x::<u32>().shuffle_xor(16);
    "sm_80" "mov.b64 shfl.sync.down.b32 shfl.sync.down.b32 mov.b64": x::<f64>().shuffle_down(1);
    "sm_80" "cvt.u32.u16 shfl.sync.up.b32 cvt.u16.u32": x::<bf16>().shuffle_up(1);
    "sm_80" "vote.sync.all.pred": warp::vote_all(x::<bool>(), warp::ALL_LANES);
    "sm_80" "vote.sync.any.pred": warp::vote_any(x::<bool>(), warp::ALL_LANES);
    "sm_80" "vote.sync.ballot.b32": warp::ballot(x::<bool>(), warp::ALL_LANES);
    "sm_80" "match.any.sync.b64": x::<u64>().match_any(warp::ALL_LANES);
    "sm_80" "match.all.sync.b32": x::<u32>().match_all(warp::ALL_LANES);
    "sm_80" "redux.sync.add.s32": x::<i32>().warp_sum(warp::ALL_LANES);
    "sm_80" "redux.sync.or.b32": x::<u32>().warp_or(warp::ALL_LANES);
    "sm_80" "activemask.b32": warp::active_mask();
    "sm_80" "bar.warp.sync": warp::sync_warp(warp::ALL_LANES);
    "sm_90a" "elect.sync": warp::elect(warp::ALL_LANES);
    "sm_80" "mov.u32 ldmatrix.sync.aligned.m8n8.x4.shared.b16": matrix::ldmatrix::<_, 4>(tile::<f16>());
    "sm_80" "mov.u32 ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16":
        matrix::ldmatrix_transposed::<_, 2>(tile::<f16>());
    "sm_90a" "mov.u32 stmatrix.sync.aligned.m8n8.x1.shared.b16": matrix::stmatrix(tile::<f16>(), [x()]);
    "sm_80" "movmatrix.sync.aligned.m8n8.trans.b16": matrix::movmatrix(x::<u32>());
    "sm_80" "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32":
        matrix::mma_sync(&mut [x::<f32>(); 4], &[y::<u32>(); 4], &[y::<u32>(); 2], &atom());
    "sm_80" "wmma.load.a.sync.aligned.row.m16n16k16.global.f16":
        Wmma::<f16>::new([16, 16, 16], WmmaLayout::RowMajor, WmmaLayout::ColumnMajor).load_a(global(), 16);
    "sm_80" "mov.u32 wmma.load.b.sync.aligned.col.m32n8k16.shared.bf16":
        Wmma::<bf16>::new([32, 8, 16], WmmaLayout::RowMajor, WmmaLayout::ColumnMajor).load_b(tile(), x::<u32>());
    "sm_80" "wmma.load.c.sync.aligned.col.m8n8k128.global.s32":
        Wmma::<b1x32>::new([8, 8, 128], WmmaLayout::RowMajor, WmmaLayout::ColumnMajor)
            .load_accumulator(global::<i32>(), 8, WmmaLayout::ColumnMajor);
    "sm_80" "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 wmma.load.b.sync.aligned.row.m16n16k16.global.f16 \
             mov.f32 wmma.mma.sync.aligned.row.row.m16n16k16.f16.f32 wmma.store.d.sync.aligned.row.m16n16k16.global.f16":
        {
            let mma = Wmma::<f16>::new([16, 16, 16], WmmaLayout::RowMajor, WmmaLayout::RowMajor);
            let (a, b) = (mma.load_a(global(), 16), mma.load_b(global(), 16));
            mma.store(global(), 16, WmmaLayout::RowMajor, &mma.multiply::<f16, f32>(&a, &b, &mma.zeros()))
        };
    "sm_80" "wmma.load.a.sync.aligned.col.m16n16k8.global.tf32 wmma.load.b.sync.aligned.row.m16n16k8.global.tf32 \
             mov.f32 wmma.mma.sync.aligned.col.row.m16n16k8.f32.tf32.tf32.f32":
        {
            let mma = Wmma::<tf32>::new([16, 16, 8], WmmaLayout::ColumnMajor, WmmaLayout::RowMajor);
            let (a, b) = (mma.load_a(global(), 16), mma.load_b(global(), 16));
            mma.multiply::<f32, f32>(&a, &b, &mma.zeros())
        };
    "sm_80" "wmma.load.a.sync.aligned.row.m8n8k4.global.f64 wmma.load.b.sync.aligned.col.m8n8k4.global.f64 \
             mov.f64 wmma.mma.sync.aligned.row.col.m8n8k4.rn.f64.f64.f64.f64":
        {
            let mma = Wmma::<f64>::new([8, 8, 4], WmmaLayout::RowMajor, WmmaLayout::ColumnMajor);
            let (a, b) = (mma.load_a(global(), 4), mma.load_b(global(), 4));
            mma.multiply::<f64, f64>(&a, &b, &mma.zeros())
        };
    "sm_80" "wmma.load.a.sync.aligned.row.m8n32k16.global.s8 wmma.load.b.sync.aligned.col.m8n32k16.global.s8 \
             mov.s32 wmma.mma.sync.aligned.row.col.m8n32k16.s32.s8.s8.s32":
        {
            let mma = Wmma::<i8>::new([8, 32, 16], WmmaLayout::RowMajor, WmmaLayout::ColumnMajor);
            let (a, b) = (mma.load_a(global(), 16), mma.load_b(global(), 16));
            mma.multiply::<i32, i32>(&a, &b, &mma.zeros())
        };
    "sm_80" "wmma.load.a.sync.aligned.row.m8n8k128.global.b1 wmma.load.b.sync.aligned.col.m8n8k128.global.b1 \
             mov.s32 wmma.mma.and.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32":
        {
            let mma = Wmma::<b1x32>::new([8, 8, 128], WmmaLayout::RowMajor, WmmaLayout::ColumnMajor).with_bits(BitProduct::And);
            let (a, b) = (mma.load_a(global(), 128), mma.load_b(global(), 128));
            mma.multiply::<i32, i32>(&a, &b, &mma.zeros())
        };
};

fn atom() -> MmaAtom {
    MmaAtom::named("SM80_16x8x16_F32F16F16F32_TN").expect("in the table")
}
