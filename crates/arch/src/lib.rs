//! What each GPU is: limits, instruction forms, latencies, occupancy. Data with sources.
