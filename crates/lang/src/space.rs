//! State spaces. PTX ISA, "State Spaces".

use crate::element::Integer;

/// A state space, as a type.
pub trait Space: Copy + 'static {
    /// The name messages use: `shared`.
    const NAME: &'static str;
    /// The word in opcodes: `.shared`; empty for generic addresses.
    const WORD: &'static str;
    /// The integer that holds an address: 32 bits in shared memory, 64 elsewhere.
    type Address: Integer;
}

macro_rules! spaces {
    ($($(#[$doc:meta])* $space:ident $name:literal, $word:literal, $address:ty;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $space;

            impl Space for $space {
                const NAME: &'static str = $name;
                const WORD: &'static str = $word;
                type Address = $address;
            }
        )*
    };
}

spaces! {
    /// The device's memory, which all CTAs and the host share.
    GlobalSpace "global", ".global", u64;
    /// The CTA's memory.
    SharedSpace "shared", ".shared", u32;
    /// The shared memory of all CTAs of the cluster (sm_90).
    ClusterSpace "cluster shared", ".shared::cluster", u32;
    /// The thread's own memory.
    LocalSpace "local", ".local", u64;
    /// Memory that the host writes and kernels only read.
    ConstantSpace "constant", ".const", u64;
    /// Any of them, distinguished by address.
    GenericSpace "generic", "", u64;
}
