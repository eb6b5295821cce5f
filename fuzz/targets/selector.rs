//! `linkerd_mc_fuzz::properties::selector`, with libFuzzer's bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linkerd_mc_fuzz::properties::selector(data));
