//! `linkerd_mc_fuzz::properties::link`, with libFuzzer's bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linkerd_mc_fuzz::properties::link(data));
