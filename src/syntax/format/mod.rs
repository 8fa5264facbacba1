//! The one layout of a `.step` file.
//!
//! ```text
//! text ──step.pest──▶ pairs ──concrete──▶ tokens with their comments ──layout──▶ lines ──align──▶ text
//! ```
//!
//! - Indentation is two columns a block, a line has at most [`WIDTH`] columns of code; comments are never wrapped.
//! - What stood on one line, parted by commas, stays together where it fits; what the author broke stays broken.
//! - Several blank lines become one. Blank lines around the contents of a block go.
//! - `=` stands in one column in a run of lines that hold one attribute each.
//! - Comments at line ends keep their column where neighbours agree on it and the code leaves room; otherwise they are put
//!   two columns behind the longest line of their run.
//!
//! In: a text without syntax errors; one with errors is refused, and they are reported. Out: a text with the same tokens,
//! apart from commas, and the same comments, which formats to itself.

mod align;
mod concrete;
mod layout;

pub use layout::format;

/// Columns of code a line may have.
pub const WIDTH: usize = 110;
