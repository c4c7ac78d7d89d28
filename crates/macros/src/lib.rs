//! The attributes of the kernel language: #[kernel] and #[device].
