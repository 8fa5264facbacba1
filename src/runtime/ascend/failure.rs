//! Failed calls of CANN as diagnostics: the rank, the instruction, CANN's own message, and what to do.

use crate::comm::CommError;
use crate::diag::Diagnostic;
use ascend_rs::{Class, Error};

/// Why an instruction did not run.
pub(super) enum Refused {
    Device(Error),
    Ranks(CommError),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::Device(error)
    }
}

impl From<CommError> for Refused {
    fn from(error: CommError) -> Refused {
        Refused::Ranks(error)
    }
}

impl Refused {
    pub(super) fn diagnostic(self, rank: u64, instruction: &str) -> Diagnostic {
        match self {
            Refused::Device(error) => refused(rank, instruction, &error),
            Refused::Ranks(error) => error.into(),
        }
    }
}

/// A failed call while `doing` something, an instruction mostly.
pub(super) fn refused(rank: u64, doing: &str, error: &Error) -> Diagnostic {
    let (code, help) = match error.class {
        Class::OutOfMemory => (
            "step::ascend::memory",
            "another process may hold memory of the NPU: `npu-smi info`; or lower `micro_batch`, or shard further",
        ),
        Class::Timeout | Class::Link => (
            "step::ascend::peer",
            "look at what the other ranks report: one of them has ended, or the network between them is down",
        ),
        Class::Unavailable => (
            "step::ascend::missing",
            "source the `set_env.sh` of CANN 8.1 or later with its kernel package for this NPU",
        ),
        Class::Hardware => (
            "step::ascend::hardware",
            "look at the NPU with `npu-smi info -t health`, and reset or replace it",
        ),
        Class::Argument | Class::Internal => (
            "step::ascend::failed",
            "this is a mistake of this program or of CANN: please report it with the recipe",
        ),
    };
    Diagnostic::error(code, format!("rank {rank}, {doing}: {error}")).help(help)
}
