//! The tests of the crate, in one program.

mod cublas;
mod device;
mod dry_run;
mod faults;
mod foreign;
mod graph;
mod hopper;
mod language;
mod mbarrier;
mod messages;
mod peers;
mod printing;
mod read_back;
mod streams;
mod tensor_copies;
mod tensor_map;
mod tensor_map_checks;
mod warpgroup;
mod with_clusters;
