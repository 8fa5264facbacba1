//! The Ascend device over the emulator of CANN's libraries, against PyTorch. It proves calls, their order, shapes and lifetimes, and that the
//! operators they are mapped to compute what the program means; it does not prove the hardware.

use crate::golden;
use cann_emulator::installation::in_processes;

#[test]
fn llama() {
    in_processes("ascend::llama", 1, &[], |_| golden::training_matches_on_an_npu("llama")).is_clean();
}
