//! Any operation, made atomic by compare-and-exchange.

use super::{AtomicCompare, AtomicSpace, Atomicity};
use crate::access::{Access, Ordering};
use crate::element::Element;
use crate::operation::on_behalf_of_author;
use crate::pointer::Pointer;
use crate::value::Reg;

impl<T: AtomicCompare, S: AtomicSpace> Pointer<T, S> {
    /// Replaces the element by `operation` of it, atomically; returns the old value. Relaxed, at
    /// GPU scope.
    ///
    /// It is a loop around `atom.cas`: `operation` is executed again whenever another thread has
    /// changed the element in between.
    ///
    /// ```
    /// use warpwright_lang::{kernel, pointer::Global};
    ///
    /// #[kernel]
    /// fn multiply(product: &mut Global<f32>, factors: &Global<f32>, i: u32) {
    ///     product.at(0).atomic_update(|product| product * factors[i]);
    /// }
    /// assert!(multiply().is_ok());
    /// ```
    #[track_caller]
    pub fn atomic_update(self, operation: impl Fn(Reg<T>) -> Reg<T>) -> Reg<T> {
        self.atomic_update_with(operation, Atomicity::default())
    }

    /// [`atomic_update`](Self::atomic_update) in a given order and scope.
    #[track_caller]
    pub fn atomic_update_with(self, operation: impl Fn(Reg<T>) -> Reg<T>, atomicity: Atomicity) -> Reg<T> {
        on_behalf_of_author(|| update(self, &operation, atomicity))
    }
}

#[crate::device]
fn update<T: AtomicCompare, S: AtomicSpace>(
    element: Pointer<T, S>,
    operation: &dyn Fn(Reg<T>) -> Reg<T>,
    atomicity: Atomicity,
) -> Reg<T> {
    let mut old = element.load_with(Access::new().ordered(Ordering::Relaxed(atomicity.scope)));
    loop {
        let found = element.atomic_compare_exchange(old, operation(old), atomicity);
        if same_bits(found, old) {
            break;
        }
        old = found;
    }
    old
}

#[track_caller]
fn same_bits<T: Element>(a: Reg<T>, b: Reg<T>) -> Reg<bool> {
    match T::BYTES {
        2 => Reg::<u16>::from_register(a.register()).eq(Reg::<u16>::from_register(b.register())),
        4 => Reg::<u32>::from_register(a.register()).eq(Reg::<u32>::from_register(b.register())),
        _ => Reg::<u64>::from_register(a.register()).eq(Reg::<u64>::from_register(b.register())),
    }
}
