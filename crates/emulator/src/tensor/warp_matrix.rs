//! Who owns what: fragments of `wmma`.
