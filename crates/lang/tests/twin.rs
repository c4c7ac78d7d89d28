//! Compiles each body twice: as a kernel, and as plain Rust.

use std::cell::RefCell;

use warpwright_ir::Location;
use warpwright_lang::recorder;
use warpwright_lang::value::Value;

thread_local! {
    static TRACE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// What both sides put out, in order.
pub fn put_out(value: u32) {
    TRACE.with_borrow_mut(|trace| trace.push(value.into()));
}

/// Puts out a device value.
#[track_caller]
pub fn record_out(value: impl Value<u32>) {
    let location = Location::from(std::panic::Location::caller());
    let operand = Value::operand(value);
    recorder::with(|recorder| recorder.emit(crate::interpreter::OUT, 0, vec![operand], location));
}

/// Runs plain Rust; what it put out.
pub fn plainly(body: impl FnOnce()) -> Vec<u64> {
    TRACE.with_borrow_mut(Vec::clear);
    body();
    TRACE.with_borrow_mut(std::mem::take)
}

/// Compiles what the bodies call twice, too.
macro_rules! vocabulary {
    ($($(#[derive($derive:ident)])? struct $struct:ident $fields:tt)* $(impl $type:ident $methods:tt)* $(fn $name:ident $parameters:tt $(-> $result:ty)? $body:block)*) => {
        pub mod plain {
            //! On plain numbers.

            pub type Number = u32;
            pub type Truth = bool;

            pub fn value(number: u32) -> u32 {
                number
            }

            pub use super::put_out as out;

            $(#[derive(Clone, Copy)] pub struct $struct $fields)*
            $(impl $type $methods)*
            $(pub fn $name $parameters $(-> $result)? $body)*
        }

        pub mod staged {
            //! On device values.

            use warpwright_lang::value::Value;
            use warpwright_lang::{DeviceValue, Reg, device};

            pub type Number = Reg<u32>;
            pub type Truth = Reg<bool>;

            #[track_caller]
            pub fn value(number: impl Value<u32>) -> Reg<u32> {
                number.reg()
            }

            pub use super::record_out as out;

            $(#[derive(Clone, Copy, DeviceValue)] pub struct $struct $fields)*
            $(#[device] impl $type $methods)*
            $(#[device] pub fn $name $parameters $(-> $result)? $body)*
        }
    };
}

vocabulary! {
    struct Span {
        pub low: Number,
        pub high: Number,
        pub scale: u32,
    }

    impl Span {
        pub fn is_empty(&self) -> Truth {
            self.low >= self.high
        }

        pub fn length(&self) -> Number {
            if self.low < self.high {
                return self.high - self.low;
            }
            value(0u32)
        }

        pub fn widen(&mut self, by: Number) {
            if by > 2 {
                self.high += by * 2;
            } else {
                self.low += 1;
            }
        }
    }

    fn clamp(x: Number, low: u32, high: u32) -> Number {
        if x < low {
            return low;
        }
        if x > high {
            return high;
        }
        x
    }

    fn order(x: Number, y: Number) -> Number {
        if x < y {
            return 1;
        }
        if x > y {
            return x - y;
        }
        0
    }

    fn larger(x: Number, y: Number) -> Number {
        if x < y { y } else { x }
    }

    fn noisy(x: Number) -> Number {
        out(x + 1000);
        x
    }

    fn first_square_from(n: Number) -> Number {
        for i in 0..100 {
            if i == 6 {
                return value(6u32);
            }
            if n <= i * i {
                return value(i * i);
            }
        }
        n
    }

    fn bump(n: &mut Number, by: Number) -> Number {
        if *n > 20 {
            return by;
        }
        *n += by;
        if *n == 7 {
            *n = by;
            return value(7u32);
        }
        *n += 1;
        *n
    }

    fn replace(place: &mut Number, low: Number, by: Number) {
        if *place >= low {
            *place = by;
        }
    }
}

macro_rules! twins {
    ($(fn $name:ident($($parameter:ident: u32),*) $body:block)*) => {
        $(
            mod $name {
                mod plain {
                    #[allow(unused_imports)]
                    use crate::twin::plain::*;
                    #[allow(unused, clippy::all)]
                    pub fn run($($parameter: u32),*) $body
                }
                mod staged {
                    #[allow(unused_imports)]
                    use crate::twin::staged::*;
                    #[allow(unused)]
                    #[warpwright_lang::kernel]
                    pub fn run($($parameter: u32),*) $body
                }

                #[test]
                fn agrees() {
                    let kernel = staged::run().unwrap_or_else(|errors| panic!("{errors}"));
                    for a in 0..9u32 {
                        for b in 0..9u32 {
                            let mut given = [a, b].into_iter();
                            $(let $parameter = given.next().expect("two at most");)*
                            let expected = crate::twin::plainly(|| plain::run($($parameter),*));
                            let arguments = [$(u64::from($parameter)),*];
                            let found = crate::interpreter::run(kernel.ir(), &arguments, Default::default()).0;
                            assert_eq!(found, expected, "{arguments:?}\n{:#?}", kernel.ir().body);
                        }
                    }
                }
            }
        )*
    };
}
pub(crate) use twins;
