//! Rules on the machine.

use crate::diag::Diagnostic;
use crate::recipe::eval::{Chain, Evaluator};
use crate::recipe::origins::Origins;
use crate::recipe::schema::recipe::Recipe;
use crate::recipe::value::Value;

/// `devices`, where it is written, is what nodes and devices a node give; otherwise this is reported and false.
pub fn device_count<'t>(
    eval: &mut Evaluator<'_, 't>,
    root: &Chain<'_, 't>,
    recipe: &Recipe,
    origins: &Origins,
) -> bool {
    let Some(place) = origins.span("cluster.devices") else { return true };
    let cluster = root.node.blocks.iter().find(|block| block.kind == "cluster");
    let chain = cluster.and_then(|node| root.inner(node));
    let Some((chain, field)) = chain.and_then(|chain| Some((chain, chain.schema.field("devices")?))) else {
        return true;
    };
    let Ok(Value::Int(devices)) = eval.field(&chain, field, None) else { return true };
    let (nodes, each) = (recipe.cluster.nodes, recipe.cluster.devices_per_node);
    if nodes.checked_mul(each) == u64::try_from(devices).ok() {
        return true;
    }
    let product = nodes.saturating_mul(each);
    let message = format!("`devices` = {devices}, but {nodes} nodes of {each} devices are {product}");
    let problem = Diagnostic::error("step::recipe::devices", message)
        .label(place, format!("{devices} devices"))
        .label(origins.span("cluster.nodes"), format!("{nodes} nodes"))
        .label(origins.span("cluster.devices_per_node"), format!("{each} a node"));
    let devices = devices.unsigned_abs();
    eval.sink.push(if devices.is_multiple_of(each) {
        problem.help(format!("write `nodes = {}` and leave `devices` out", devices / each))
    } else {
        problem.help(format!("write `nodes = 1, devices_per_node = {devices}`"))
    });
    false
}
