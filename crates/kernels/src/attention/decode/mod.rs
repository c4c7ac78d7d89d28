//! Decode attention: a few queries per sequence over a paged cache of keys and values.
