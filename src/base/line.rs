//! Elements at equal distances.

/// Elements that lie at equal distances both in a flattened tensor of a checkpoint and in what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    pub count: u64,
    /// The first of them in the tensor, and the distance to the next.
    pub at: u64,
    pub step: u64,
    /// Likewise in what the tensor holds.
    pub first: u64,
    pub stride: u64,
}

impl Line {
    /// The places of its elements: in the tensor and in what it holds.
    pub fn pairs(self) -> impl Iterator<Item = (usize, usize)> {
        let places = move |i| (self.at + i * self.step, self.first + i * self.stride);
        (0..self.count).map(places).map(|(at, first)| (at as usize, first as usize))
    }
}
