//! `linkerd_mc_fuzz::properties::exclusions`, with libFuzzer's bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linkerd_mc_fuzz::properties::exclusions(data));
