//! The families that are known, a table each.
//!
//! What a table does not mention does not exist in its family; keys that several families share stand in `common`.

mod common;
mod deepseek;
mod ernie;
mod gemma;
mod glm;
mod gpt_oss;
mod hunyuan;
mod llama;
mod minimax;
mod mistral;
mod olmo;
mod phi;
mod qwen;
mod step;

use super::family::Family;

/// Every family, by the `model_type` of its configurations.
pub const FAMILIES: &[&Family] = &[
    &deepseek::DEEPSEEK_V2,
    &deepseek::DEEPSEEK_V3,
    &ernie::ERNIE4_5_MOE,
    &gemma::GEMMA,
    &gemma::GEMMA2,
    &gemma::GEMMA3_TEXT,
    &glm::GLM4_MOE,
    &gpt_oss::GPT_OSS,
    &hunyuan::HUNYUAN_V1_MOE,
    &llama::LLAMA,
    &minimax::MINIMAX_M2,
    &mistral::MISTRAL,
    &mistral::MIXTRAL,
    &olmo::OLMOE,
    &phi::PHI3,
    &qwen::QWEN2,
    &qwen::QWEN2_MOE,
    &qwen::QWEN3,
    &qwen::QWEN3_MOE,
    &step::STEP3P5,
];

#[cfg(test)]
mod tests {
    use super::super::family::{Does, Key};
    use super::super::irrelevant::IRRELEVANT;
    use super::FAMILIES;
    use std::collections::BTreeSet;

    #[test]
    fn a_key_is_read_once_and_is_not_irrelevant_too() {
        for family in FAMILIES {
            let mut seen = BTreeSet::new();
            for (key, does) in family
                .keys
                .iter()
                .copied()
                .flatten()
                .flat_map(|Key(keys, does)| keys.split('|').map(move |key| (key, does)))
            {
                assert!(seen.insert(key), "{}: `{key}` stands twice", family.model_type);
                let beside = matches!(does, Does::Beside | Does::Read(_));
                assert!(beside || IRRELEVANT.iter().all(|(known, _)| *known != key), "`{key}` is irrelevant");
            }
        }
    }
}
