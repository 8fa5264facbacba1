//! The recipe library that ships inside the program: models and devices that `use` finds without a checkout.

/// Every file of the library with its path below `recipes/`.
pub const LIBRARY: &[(&str, &str)] = &[
    ("devices/atlas.step", include_str!("../../recipes/devices/atlas.step")),
    ("devices/cpu.step", include_str!("../../recipes/devices/cpu.step")),
    ("models/deepseek_v2.step", include_str!("../../recipes/models/deepseek_v2.step")),
    ("models/deepseek_v3.step", include_str!("../../recipes/models/deepseek_v3.step")),
    ("models/ernie45.step", include_str!("../../recipes/models/ernie45.step")),
    ("models/gemma.step", include_str!("../../recipes/models/gemma.step")),
    ("models/gemma2.step", include_str!("../../recipes/models/gemma2.step")),
    ("models/gemma3.step", include_str!("../../recipes/models/gemma3.step")),
    ("models/glm45.step", include_str!("../../recipes/models/glm45.step")),
    ("models/gpt_oss.step", include_str!("../../recipes/models/gpt_oss.step")),
    ("models/hunyuan.step", include_str!("../../recipes/models/hunyuan.step")),
    ("models/llama.step", include_str!("../../recipes/models/llama.step")),
    ("models/minimax_m2.step", include_str!("../../recipes/models/minimax_m2.step")),
    ("models/mistral.step", include_str!("../../recipes/models/mistral.step")),
    ("models/mixtral.step", include_str!("../../recipes/models/mixtral.step")),
    ("models/olmoe.step", include_str!("../../recipes/models/olmoe.step")),
    ("models/phi4.step", include_str!("../../recipes/models/phi4.step")),
    ("models/qwen2.step", include_str!("../../recipes/models/qwen2.step")),
    ("models/qwen2_moe.step", include_str!("../../recipes/models/qwen2_moe.step")),
    ("models/qwen3.step", include_str!("../../recipes/models/qwen3.step")),
    ("models/qwen3_moe.step", include_str!("../../recipes/models/qwen3_moe.step")),
    ("models/step35.step", include_str!("../../recipes/models/step35.step")),
];

/// What every recipe knows without a `use`.
pub const PRELUDE: &str = "devices/cpu.step";

/// The path and text of a library file.
pub fn file(path: &str) -> Option<(&'static str, &'static str)> {
    LIBRARY.iter().find(|(known, _)| *known == path).copied()
}

/// Every top-level item of a kind, with its file.
pub fn items(kind: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = LIBRARY.iter().flat_map(|(path, text)| text.lines().map(|line| (*path, line)));
    lines.filter_map(move |(path, line)| {
        let mut words = line.split([' ', ':', '{']).filter(|word| !word.is_empty());
        (words.next() == Some(kind)).then(|| words.next()).flatten().map(|name| (path, name))
    })
}

/// The library file that holds a top-level item, for the advice to `use` it.
pub fn file_with(kind: &str, name: &str) -> Option<&'static str> {
    items(kind).find(|(_, own)| *own == name).map(|(path, _)| path)
}
