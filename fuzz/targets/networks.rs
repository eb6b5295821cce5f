//! `linkerd_mc_fuzz::properties::networks`, with libFuzzer's bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linkerd_mc_fuzz::properties::networks(data));
