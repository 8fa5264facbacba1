//! The devices and the links between them, as far as an estimate depends on them.

use serde::{Deserialize, Serialize};

/// Equal devices in equal nodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Bytes a process can allocate.
    pub memory: f64,
    /// Peak of dense bf16 matrix products, FLOP/s.
    pub flops: f64,
    /// Of device memory, bytes a second.
    pub bandwidth: f64,
    pub devices_per_node: u64,
    pub intra: Link,
    pub inter: Link,
    pub reached: Reached,
}

/// A link, one way, for one device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Bytes a second.
    pub bandwidth: f64,
    /// Seconds until the first byte arrives.
    pub latency: f64,
}

/// What of the peaks is reached, and what a kernel costs before it works.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reached {
    /// Of matrix products.
    pub compute: f64,
    /// Of memory bandwidth.
    pub memory: f64,
    /// Of links.
    pub link: f64,
    /// Seconds the host needs to enqueue one kernel.
    pub launch: f64,
}
