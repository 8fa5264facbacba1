//! Which layer is made of what: patterns of configurations, and the `layer` block that says the same.

use super::family::Reader;
use super::page::Page;
use serde_json::Value;

/// Writes the `layer` block for layers that see a window, and layers that have experts.
pub fn write(page: &mut Page, windows: &[bool], sparse: &[bool]) {
    // A window that all layers have is the attention's own.
    let attention = if page.has("sliding") { choose(windows, "sliding", "full") } else { "full".to_owned() };
    let experts = if page.has("moe") { "sparse" } else { "dense" };
    let ffn = if page.has("mlp") && page.has("moe") {
        choose(sparse, "sparse", "dense")
    } else {
        experts.to_owned()
    };
    let mut lines = vec![format!("attention = {attention}"), format!("ffn = {ffn}")];
    lines.append(&mut page.layer);
    page.layer = lines;
}

/// An expression in `i` that is `yes` for the marked layers and `no` for the others.
fn choose(marked: &[bool], yes: &str, no: &str) -> String {
    let layers = marked.len();
    let first = marked.first().copied().unwrap_or(false);
    let (here, there) = if first { (yes, no) } else { (no, yes) };
    let Some(run) = marked.iter().position(|mark| *mark != first) else { return here.to_owned() };
    if marked[run..].iter().all(|mark| *mark != first) {
        return format!("if i < {run} {{ {here} }} else {{ {there} }}");
    }
    // One layer of each period is of the other kind.
    for period in 2..layers {
        for rest in 0..period {
            let alone = marked[rest];
            if (0..layers).all(|i| (marked[i] == alone) == (i % period == rest)) {
                let (one, others) = if alone { (yes, no) } else { (no, yes) };
                return format!("if i % {period} == {rest} {{ {one} }} else {{ {others} }}");
            }
        }
    }
    let list: Vec<_> = marked.iter().map(|mark| u8::from(*mark).to_string()).collect();
    format!("if [{}][i] == 1 {{ {yes} }} else {{ {no} }}", list.join(", "))
}

/// Stretches of layers with the same value, from `first` on; 0 is none.
pub fn runs(values: &[f64], first: usize) -> Vec<(usize, usize, f64)> {
    let mut runs: Vec<(usize, usize, f64)> = Vec::new();
    for (index, value) in values.iter().enumerate().skip(first).filter(|(_, value)| **value > 0.0) {
        match runs.last_mut() {
            Some((_, end, last)) if *end == index && last == value => *end += 1,
            _ => runs.push((index, index + 1, *value)),
        }
    }
    runs
}

/// `layer_types`: a word for each layer. Where it is absent, `otherwise` says which layers have a window.
pub fn types(reader: &mut Reader<'_>, layers: usize, otherwise: impl Fn(usize) -> bool) -> Option<Vec<bool>> {
    let Some(found) = reader.keys.get("layer_types") else {
        return Some((0..layers).map(otherwise).collect());
    };
    let kind = |value: &Value| match value.as_str() {
        Some("full_attention") => Some(false),
        Some("sliding_attention") => Some(true),
        _ => None,
    };
    let kinds =
        found.as_array().and_then(|list| list.iter().take(layers).map(kind).collect::<Option<Vec<_>>>());
    let kinds = kinds.filter(|kinds| kinds.len() == layers);
    if kinds.is_none() {
        let help = format!("`full_attention` or `sliding_attention` for each of the {layers} layers");
        reader.keys.unsupported("layer_types", found, &help);
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::choose;

    #[test]
    fn the_shortest_expression_is_found() {
        let choose = |text: &str| choose(&text.chars().map(|c| c == 'x').collect::<Vec<_>>(), "x", "o");
        assert_eq!(choose("xxxx"), "x");
        assert_eq!(choose("ooxx"), "if i < 2 { o } else { x }");
        assert_eq!(choose("oxoxo"), "if i % 2 == 0 { o } else { x }");
        assert_eq!(choose("xxoxxo"), "if i % 3 == 2 { o } else { x }");
        assert_eq!(choose("oxxxoxxx"), "if i % 4 == 0 { o } else { x }");
        assert_eq!(choose("oxxxox"), "if i % 4 == 0 { o } else { x }");
        assert_eq!(choose("oxxoxo"), "if [0, 1, 1, 0, 1, 0][i] == 1 { x } else { o }");
    }
}
