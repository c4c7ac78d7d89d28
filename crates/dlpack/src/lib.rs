//! The operations of the kernel library on tensors of other libraries: a C ABI, and tvm-ffi's.
//!
//! [`OPERATIONS`] is the table of all: what C declares, what tvm-ffi finds and what the Python package calls
//! are made from its rows. `include/warpwright.h` is the header.
//!
//! ```
//! use warpwright_dlpack::{Argument, OPERATIONS, Tensor};
//!
//! let softmax = OPERATIONS.iter().find(|operation| operation.name == "softmax").expect("a row of the table");
//! let (x, mut y) = (vec![0.0f32, 0.0, 1.0, f32::NEG_INFINITY], vec![0.0f32; 4]);
//! let (x, y_tensor) = (Tensor::of_host(&x, &[2, 2]), Tensor::of_host_mut(&mut y, &[2, 2]));
//! // SAFETY: both tensors are arrays of this function. The emulated GPU is done when the call returns.
//! unsafe { softmax.call(&[Argument::Tensor(&x), Argument::Tensor(&y_tensor)], std::ptr::null_mut()) }?;
//! assert_eq!(y, [0.5, 0.5, 1.0, 0.0]);
//! # Ok::<(), warpwright_dlpack::Error>(())
//! ```

pub mod c;
mod call;
mod devices;
mod error;
mod operations;
mod table;
mod tensor;
mod tvm;

pub use call::{Argument, Kind, Operation, Parameter};
pub use devices::{emulate, interrupt, release_captured};
pub use error::Error;
pub use table::OPERATIONS;
pub use tensor::{DataType, DeviceType, ElementType, HostElement, Tensor};
