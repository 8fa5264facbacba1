//! What it runs on.

use crate::recipe::forms::{Item, Name, Rate, Ratio, Seconds, Size};
use crate::recipe::schema::Title;

block! {
    /// The devices of a run: nodes of equal devices and the links between them.
    pub struct Cluster("cluster", Title::Name) {
        /// The name behind `cluster`.
        name: String as Name,
        /// Machines.
        nodes: u64 { unit("nodes"), at_least(1.0), at_most(1000000.0) } = 1,
        /// Devices in one machine.
        devices_per_node: u64 { unit("devices"), at_least(1.0), at_most(1000000.0) },
        /// The kind of device, a top-level `device` item.
        device: Device as Item<Device>,
        /// Between two devices of a node.
        intra_node: Link,
        /// Between two devices of different nodes.
        inter_node: Link,
    }
    also {
        /// All devices.
        devices: u64 { unit("devices"), at_least(1.0) } = nodes * devices_per_node,
    }
}

impl Cluster {
    /// All devices.
    pub fn devices(&self) -> u64 {
        self.nodes * self.devices_per_node
    }
}

block! {
    /// A kind of device.
    pub struct Device("device", Title::Name) {
        /// The name behind `device`.
        name: String as Name,
        /// What it is, which decides the backend.
        kind: DeviceKind,
        /// Memory that a process can use.
        memory: u64 as Size { more_than(0.0) },
        /// Memory bandwidth.
        bandwidth: f64 as Rate { more_than(0.0) },
        /// Peak of dense matrix products in bf16.
        flops_bf16: f64 { unit("FLOP/s"), more_than(0.0) },
        /// Peak of dense matrix products in f32.
        flops_f32: f64 { unit("FLOP/s"), more_than(0.0) } = flops_bf16 / 4,
        /// Whether it multiplies matrices of f32 at all.
        matmul_f32: bool = true,
        /// Time that the host takes to start one kernel; it runs ahead of the device where kernels take longer.
        launch: f64 as Seconds { at_least(0.0) } = 5us,
        /// What of the peaks is reached in practice.
        efficiency: Efficiency,
    }
}

words! {
    /// What a device is.
    pub enum DeviceKind {
        /// An Ascend NPU.
        npu => Npu,
        /// A GPU.
        gpu => Gpu,
        /// Cores of the host.
        cpu => Cpu,
    }
}

block! {
    /// What of the peaks is reached in practice.
    pub struct Efficiency("efficiency") {
        /// Of the peak of matrix products.
        compute: f64 as Ratio { more_than(0.0), at_most(1.0) } = 0.7,
        /// Of the memory bandwidth.
        memory: f64 as Ratio { more_than(0.0), at_most(1.0) } = 0.6,
        /// Of the bandwidth of links.
        link: f64 as Ratio { more_than(0.0), at_most(1.0) } = 0.7,
    }
}

block! {
    /// A link between two devices.
    pub struct Link("link") {
        /// One way, for one device.
        bandwidth: f64 as Rate { more_than(0.0) },
        /// Until the first byte arrives.
        latency: f64 as Seconds { at_least(0.0) } = 10us,
    }
}
