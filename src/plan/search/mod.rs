//! The search for the fastest layout that fits.
//!
//! Input: a recipe, an engine and how much of the memory is to stay free. Every layout that the rules allow is measured,
//! time by the estimate and memory either by the estimate or, for the native engine, by the skeleton of its own program;
//! the best ones are then compiled from the recipe as it would stand with them written into it. Output: [`Found`], plain
//! data.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `engines` | what each engine leaves to choose |
//! | `fields` | the fields that the search may change, each with the values that are legal: a new one is one entry |
//! | `native` | memory of the native program for any mesh, from one program of the same structure |
//! | `rank` | measuring, ranking, confirming |
//! | `reason` | why a layout is faster or slower than another, in a few words |

mod engines;
mod fields;
mod native;
mod rank;
mod reason;

pub use engines::Choices;
pub use fields::{Candidate, FIELDS, Field, Space, fields};
pub use native::Skeletons;
pub use rank::{Found, Held, Options, Ranked, search};
pub use reason::reason;
