//! Device, Stream, Event, Buffer, Module: one API over the GPU's driver and the emulator.
