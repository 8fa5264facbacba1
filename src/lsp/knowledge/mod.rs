//! What names mean, by what is written: for answers that must not wait for a sound recipe.
//!
//! | file | what it does |
//! | --- | --- |
//! | `tokens`, `cursor` | where a place stands in a text that may be broken |
//! | `frames` | blocks as they lie over one another |
//! | `mentions`, `steps` | every name of a file and what it means |
//! | `values` | what fields come to, in a recipe and under its profiles |

mod cursor;
mod frames;
mod mentions;
mod steps;
mod tokens;
mod values;

pub use cursor::{Cursor, Head, Slot};
pub use frames::{Frame, LAYER_KINDS, Names, is_item};
pub use mentions::{About, Mention, Symbol, mention_at, mentions, takes_path};
pub use values::{Held, bound, held, ranges, resolved};
