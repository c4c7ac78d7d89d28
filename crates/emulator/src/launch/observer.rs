//! The observers of a cluster. Without any, an event costs one branch.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use warpwright_events::{ClusterObserver, Event, LaunchObserver};

/// The interface through which the CTAs of a cluster report events.
#[derive(Clone, Default)]
pub(crate) struct Observer(Option<Rc<Observers>>);

struct Observers {
    observers: RefCell<Vec<Box<dyn ClusterObserver>>>,
    wants_instructions: bool,
    /// Whether any wants every instruction now.
    follows: Cell<bool>,
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Observer(on)" } else { "Observer(off)" })
    }
}

impl Observer {
    /// The observers of a cluster, given the linear indices of its CTAs by rank. Its CTAs share it,
    /// by cloning.
    pub(crate) fn new(observers: &[&dyn LaunchObserver], ctas: &[u32]) -> Self {
        if observers.is_empty() {
            return Self(None);
        }
        let of_cluster: Vec<_> = observers.iter().map(|observer| observer.cluster(ctas)).collect();
        Self(Some(Rc::new(Observers {
            follows: Cell::new(of_cluster.iter().any(|observer| observer.follows())),
            observers: RefCell::new(of_cluster),
            wants_instructions: observers.iter().any(|observer| observer.wants_instructions()),
        })))
    }

    /// Whether any observer exists. Check it before collecting the contents of an event.
    #[inline(always)]
    pub(crate) fn listens(&self) -> bool {
        self.0.is_some()
    }

    /// Whether any observer wants every instruction.
    #[inline(always)]
    pub(crate) fn wants_instructions(&self) -> bool {
        self.0.as_ref().is_some_and(|observers| observers.wants_instructions || observers.follows.get())
    }

    /// Whether any observer follows registers.
    #[inline(always)]
    pub(crate) fn follows(&self) -> bool {
        self.0.as_ref().is_some_and(|observers| observers.follows.get())
    }

    /// Reports an event.
    #[inline(always)]
    pub(crate) fn report(&self, event: Event<'_>) {
        if let Some(observers) = &self.0 {
            observers.report(&event);
        }
    }
}

impl Observers {
    #[cold]
    fn report(&self, event: &Event<'_>) {
        let mut observers = self.observers.borrow_mut();
        observers.iter_mut().for_each(|observer| observer.event(event));
        if matches!(
            event,
            Event::Shuffle { .. }
                | Event::Access { .. }
                | Event::LocalLoad { .. }
                | Event::Executed { .. }
                | Event::Exit { .. }
        ) {
            self.follows.set(observers.iter().any(|observer| observer.follows()));
        }
    }
}
