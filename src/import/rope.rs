//! Rotary positions, in the spellings of all generations: `rope_theta` and `rope_scaling` beside one another, or both in
//! `rope_parameters`, alike for all layers or by kind of attention.

use super::family::Reader;
use super::keys::Keys;
use super::page::{length, number};
use serde_json::Value;

/// What a family takes for granted.
#[derive(Debug, Clone, Copy)]
pub struct Defaults {
    pub theta: f64,
    /// Share of a head that rotates.
    pub fraction: f64,
}

/// Base 10⁴, whole heads.
pub const PLAIN: Defaults = Defaults { theta: 1e4, fraction: 1.0 };

/// Reads the one kind of rotation that all layers have. Reads every key that any generation uses.
pub fn alike(reader: &mut Reader<'_>, defaults: Defaults) -> Option<()> {
    let limit = reader.keys.maybe_count("max_position_embeddings")?;
    let original = reader.keys.maybe_count("original_max_position_embeddings")?;
    let theta = reader.keys.maybe_number("rope_theta")?.unwrap_or(defaults.theta);
    let fraction = reader.keys.maybe_number("partial_rotary_factor")?.unwrap_or(defaults.fraction);
    let mut outer = Outer { theta, fraction, limit, original, head_dim: head_dim(reader) };
    let inner = reader.keys.inside("rope_parameters").or_else(|| reader.keys.inside("rope_scaling"));
    let Some(mut inner) = inner else {
        write(reader, "attention", &outer, None);
        return Some(());
    };
    let scaling = outer.read(&mut inner);
    reader.keys.close(inner);
    write(reader, "attention", &outer, scaling?);
    Some(())
}

/// Reads a rotation for layers that see all and one for layers that see a window; `local` is the key of the base of the
/// latter in older files.
pub fn by_kind(reader: &mut Reader<'_>, global: f64, local_key: &'static str, local: f64) -> Option<()> {
    let limit = reader.keys.maybe_count("max_position_embeddings")?;
    let theta = reader.keys.maybe_number("rope_theta")?.unwrap_or(global);
    let local = reader.keys.maybe_number(local_key)?.unwrap_or(local);
    let head_dim = head_dim(reader);
    let outer = |theta| Outer { theta, fraction: 1.0, limit, original: None, head_dim };
    let (mut all, mut window) = (outer(theta), outer(local));
    let mut scaling = None;
    if let Some(mut both) = reader.keys.inside("rope_parameters") {
        if both.get("full_attention").is_none() && both.get("sliding_attention").is_none() {
            reader.keys.close(both);
            return None;
        }
        let mut kind = |key, outer: &mut Outer| {
            let Some(mut inner) = both.inside(key) else { return Some(None) };
            let scaling = outer.read(&mut inner);
            both.close(inner);
            scaling
        };
        let (first, second) = (kind("full_attention", &mut all), kind("sliding_attention", &mut window));
        reader.keys.close(both);
        scaling = first?;
        if second?.is_some() {
            reader.keys.unsupported(
                "rope_parameters.sliding_attention",
                &Value::Null,
                "a window is not stretched",
            );
            return None;
        }
    } else if let Some(mut inner) = reader.keys.inside("rope_scaling") {
        let found = all.read(&mut inner);
        reader.keys.close(inner);
        scaling = found?;
    }
    let stretched = scaling.is_some();
    write(reader, "attention", &all, scaling);
    if window.theta != all.theta {
        reader.page.set("sliding.rope.theta", number(window.theta));
    }
    if stretched {
        reader.page.set("sliding.rope.scaling", "none");
    }
    Some(())
}

/// The `scaling` that an object `rope_scaling` describes, where the bases of the layers stand elsewhere.
pub fn scaling(reader: &mut Reader<'_>) -> Option<Option<String>> {
    let limit = reader.keys.maybe_count("max_position_embeddings")?;
    let mut outer = Outer { theta: 1.0, fraction: 1.0, limit, original: None, head_dim: head_dim(reader) };
    let Some(mut inner) = reader.keys.inside("rope_scaling") else { return Some(None) };
    let scaling = outer.read(&mut inner);
    reader.keys.close(inner);
    scaling
}

/// Channels of a head, as far as they have been read.
fn head_dim(reader: &Reader<'_>) -> f64 {
    reader.page.get("attention.head_dim").and_then(|text| text.parse().ok()).unwrap_or(128.0)
}

fn write(reader: &mut Reader<'_>, root: &str, outer: &Outer, scaling: Option<String>) {
    reader.page.set(&format!("{root}.rope.theta"), number(outer.theta));
    reader.page.set(&format!("{root}.rope.fraction"), number(outer.fraction));
    if let Some(scaling) = scaling {
        reader.page.set(&format!("{root}.rope.scaling"), scaling);
    }
}

/// What stands around an object that describes a rotation, and in it.
struct Outer {
    theta: f64,
    fraction: f64,
    /// `max_position_embeddings`
    limit: Option<u64>,
    /// `original_max_position_embeddings`, where it stands outside.
    original: Option<u64>,
    head_dim: f64,
}

impl Outer {
    /// Reads the object: `theta` and `fraction` change, the result is the `scaling` of a recipe; nothing for the plain kind.
    fn read(&mut self, keys: &mut Keys<'_>) -> Option<Option<String>> {
        self.theta = keys.maybe_number("rope_theta")?.unwrap_or(self.theta);
        self.fraction = keys.maybe_number("partial_rotary_factor")?.unwrap_or(self.fraction);
        let old = keys.get("type");
        let Some(kind) = keys.get("rope_type").or(old) else { return Some(None) };
        match kind.as_str() {
            Some("default") => Some(None),
            Some("linear") => Some(Some(format!("linear {{ factor = {} }}", number(keys.number("factor")?)))),
            Some("llama3") => self.llama3(keys).map(Some),
            Some("yarn") => self.yarn(keys).map(Some),
            Some("longrope" | "su") => self.longrope(keys).map(Some),
            Some("dynamic") if keys.get("alpha").is_some() => self.alpha(keys).map(|()| None),
            _ => {
                keys.unsupported(
                    "rope_type",
                    kind,
                    "a recipe can express `default`, `linear`, `llama3`, `yarn` and `longrope`",
                );
                None
            }
        }
    }

    fn original(&self, keys: &mut Keys<'_>) -> Option<u64> {
        match keys.maybe_count("original_max_position_embeddings")?.or(self.original).or(self.limit) {
            Some(original) => Some(original),
            None => keys.count("original_max_position_embeddings"),
        }
    }

    fn llama3(&self, keys: &mut Keys<'_>) -> Option<String> {
        let (factor, original) = (keys.number("factor")?, self.original(keys)?);
        let (low, high) = (keys.number("low_freq_factor")?, keys.number("high_freq_factor")?);
        let [factor, low, high] = [factor, low, high].map(number);
        let original = length(original);
        Some(format!("llama3 {{ factor = {factor}, original = {original}, low = {low}, high = {high} }}"))
    }

    fn yarn(&self, keys: &mut Keys<'_>) -> Option<String> {
        let original = self.original(keys)?;
        let stretched = self.limit.map_or(1.0, |limit| limit as f64 / original as f64);
        let factor = keys.maybe_number("factor")?.unwrap_or(stretched);
        let fast = keys.maybe_number("beta_fast")?.unwrap_or(32.0);
        let slow = keys.maybe_number("beta_slow")?.unwrap_or(1.0);
        let truncate = keys.flag_or("truncate", true)?;
        let given = keys.maybe_number("attention_factor")?;
        let scales = (keys.maybe_number("mscale")?, keys.maybe_number("mscale_all_dim")?);
        let grown = |scale: f64| if factor <= 1.0 { 1.0 } else { 0.1 * scale * factor.ln() + 1.0 };
        let magnitude = match (given, scales) {
            (Some(given), _) => given,
            (None, (Some(one), Some(all))) if one != 0.0 && all != 0.0 => grown(one) / grown(all),
            _ => grown(1.0),
        };
        let mut text = format!("yarn {{ factor = {}, original = {}", number(factor), length(original));
        for (key, value, default) in [("fast", fast, 32.0), ("slow", slow, 1.0)] {
            if value != default {
                text += &format!(", {key} = {}", number(value));
            }
        }
        if !truncate {
            text += ", truncate = false";
        }
        if magnitude != grown(1.0) {
            text += &format!(", magnitude = {}", number(magnitude));
        }
        Some(text + " }")
    }

    fn longrope(&self, keys: &mut Keys<'_>) -> Option<String> {
        let original = self.original(keys)?;
        let stretched = self.limit.map_or(1.0, |limit| limit as f64 / original as f64);
        let factor = keys.maybe_number("factor")?.unwrap_or(stretched);
        let list = |keys: &mut Keys<'_>, key| {
            let numbers: Vec<_> = keys.numbers(key)?.into_iter().map(number).collect();
            Some(numbers.join(", "))
        };
        let (short, long) = (list(keys, "short_factor")?, list(keys, "long_factor")?);
        let magnitude = match keys.maybe_number("attention_factor")? {
            Some(given) => format!("\nmagnitude = {}", number(given)),
            None => String::new(),
        };
        let (factor, original) = (number(factor), length(original));
        let head = format!("factor = {factor}, original = {original}");
        Some(format!("longrope {{\n{head}\nshort = [{short}]\nlong = [{long}]{magnitude}\n}}"))
    }

    /// NTK scaling by a fixed `alpha`: a larger base, whatever the length.
    fn alpha(&mut self, keys: &mut Keys<'_>) -> Option<()> {
        let alpha = keys.number("alpha")?;
        for other in ["factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"] {
            // The formula with `alpha` reads none of them.
            keys.get(other);
        }
        self.theta *= alpha.powf(self.head_dim / (self.head_dim - 2.0));
        Some(())
    }
}

/// DeepSeek multiplies scores by the square of the factor by which it divides the rotated channels.
pub fn yarn_scale(reader: &mut Reader<'_>, head_dim: u64) -> Option<()> {
    let Some(mut inner) =
        reader.keys.inside("rope_parameters").or_else(|| reader.keys.inside("rope_scaling"))
    else {
        return Some(());
    };
    let (factor, all) = (inner.maybe_number("factor")?, inner.maybe_number("mscale_all_dim")?);
    if let (Some(factor), Some(all)) = (factor, all.filter(|all| *all != 0.0))
        && factor > 1.0
    {
        let grown = 0.1 * all * factor.ln() + 1.0;
        reader.page.set("attention.scale", number(grown * grown / (head_dim as f64).sqrt()));
    }
    Some(())
}
