//! Members of a group, whether their blocks have scales or not: which of them share a launch, and all launches of a group.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::batched::Batch;
use super::finish::Kinds;
use super::grouped_kernel::{Group, MOST_MEMBERS};
use super::linear::{Linear, Parts};
use super::multiply::{Product, refused};
use super::plan::Configuration;
use super::readable::Readable;
use super::ready::WarpgroupWay;
use super::{GemmOutput, Order, WarpgroupInput};
use crate::operations::{Operations, Result, both};

/// A product of a group, its matrices, and what becomes of its sums.
pub(super) struct Member<'a, A, B, C> {
    pub(super) product: Product,
    pub(super) a: &'a Buffer<A>,
    pub(super) b: &'a Buffer<B>,
    pub(super) c: &'a mut Buffer<C>,
    pub(super) linear: Linear<'a>,
    /// The scales of A and B, where blocks have some.
    pub(super) scales: Option<[&'a Buffer<f32>; 2]>,
}

impl<'a, A, B, C> Member<'a, A, B, C> {
    /// The same product with A and B in each other's place, for a kernel that computes C's transpose.
    fn exchanged(self) -> Member<'a, B, A, C> {
        let Self { product, a, b, c, linear, scales } = self;
        Member { product, a: b, b: a, c, linear, scales: scales.map(|[a, b]| [b, a]) }
    }

    /// What members must have in common to share a launch: the orders of what is read, and the parts of the epilogue.
    fn kind(&self) -> (Order, Order, Parts, Kinds)
    where
        A: Element,
    {
        let Product { a, b, .. } = Readable::of::<A>(self.product.into()).batch.product;
        let finish = self.linear.finish::<C>();
        (a, b, finish.epilogue, finish.kinds())
    }
}

impl<A: Storable, B: Storable, C: GemmOutput + Storable> Member<'_, A, B, C> {
    /// Refuses buffers of other lengths than the product asks for, and epilogues of no sums.
    pub(super) fn check(&self) -> Result<()> {
        Batch::from(self.product).expect_lengths((self.a, self.b), self.c)?;
        let finish = self.linear.finish::<C>();
        let is_plain = (finish.epilogue, finish.kinds()) == (Parts::default(), Kinds::default());
        if self.product.k == 0 && is_plain { Ok(()) } else { self.linear.check(self.product, 1) }
    }
}

/// Members by what those of a launch, or of a way, have in common, in the order of the first of each.
pub(super) fn alike<M, K: PartialEq>(
    members: impl IntoIterator<Item = M>,
    kind: impl Fn(&M) -> K,
) -> Vec<(K, Vec<M>)> {
    let mut kinds = Vec::<(K, Vec<M>)>::new();
    for member in members {
        let own = kind(&member);
        match kinds.iter_mut().find(|(known, _)| *known == own) {
            Some((_, alike)) => alike.push(member),
            None => kinds.push((own, vec![member])),
        }
    }
    kinds
}

/// A launch of members, planned.
pub(super) trait GroupLaunch {
    fn launch(&self, operations: &Operations, stream: &Stream) -> Result<LaunchCounts>;
}

/// What was planned for members of several kinds.
pub(super) type GroupLaunches<'a> = Vec<Box<dyn GroupLaunch + 'a>>;

/// Does one launch after the other.
pub(super) fn launch_all(
    launches: &GroupLaunches<'_>,
    operations: &Operations,
    stream: &Stream,
) -> Result<LaunchCounts> {
    launches.iter().try_fold(LaunchCounts::default(), |counts, launch| {
        Ok(both(counts, launch.launch(operations, stream)?))
    })
}

/// Members that have something to multiply.
pub(super) struct Members<'a, A, B, C>(pub(super) Vec<Member<'a, A, B, C>>);

impl<'a, A, B, C> Members<'a, A, B, C>
where
    A: WarpgroupInput + Storable,
    B: WarpgroupInput + Storable,
    C: GemmOutput + Storable,
{
    /// Plans to compute them in that way, as many as can in one launch. What cannot be planned is refused before the first launch.
    pub(super) fn plan<W: WarpgroupWay>(self, operations: &Operations, way: W) -> Result<GroupLaunches<'a>> {
        let Configuration { split, transposed, .. } = way.configuration();
        if split {
            return Err(refused(
                "tiles of a group are not split: take a configuration that leaves them whole".to_owned(),
            ));
        }
        match transposed {
            false => self.plan_own(operations, way),
            true => Members(self.0.into_iter().map(Member::exchanged).collect()).plan_own(operations, way),
        }
    }

    /// Plans for members whose A and B are the kernels' own.
    fn plan_own<W: WarpgroupWay>(self, operations: &Operations, way: W) -> Result<GroupLaunches<'a>> {
        let mut launches: GroupLaunches<'a> = Vec::new();
        for (_, alike) in alike(self.0, Member::kind) {
            let mut left = alike.into_iter().peekable();
            while left.peek().is_some() {
                let members = left.by_ref().take(MOST_MEMBERS).collect();
                launches.push(Box::new(Group::new(operations, members, way)?));
            }
        }
        Ok(launches)
    }
}
