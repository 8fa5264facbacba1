//! What every layer may use: places in source text, the world outside, element types, places of elements.

pub mod dtype;
pub mod hash;
pub mod host;
pub mod line;
pub mod source;
pub mod span;

pub use dtype::DType;
pub use host::Host;
pub use line::Line;
pub use source::SourceMap;
pub use span::{FileId, Span, Spanned};
