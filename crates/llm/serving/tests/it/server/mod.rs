//! The endpoints over the toy executor, without a socket where none is needed.

mod chat;
mod client;
mod completions;
mod errors;
mod limits;
mod loopback;
mod mutations;
mod page;
mod responses;
mod routes;
mod soak;
