//! The tensors of GGUF files: every name that the engine uses, by llama.cpp's names.
//!
//! A name that is not here stays as it is. No model asks for it, so that it is reported as one that is not used.

/// Tensors of the whole model.
const GLOBAL: [(&str, &str); 3] = [
    ("token_embd.weight", "embed_tokens.weight"),
    ("output_norm.weight", "norm.weight"),
    ("output.weight", "lm_head.weight"),
];

/// Tensors of a layer, `blk.N.` before each.
const OF_LAYER: [(&str, &str); 33] = [
    ("attn_norm.weight", "input_layernorm.weight"),
    ("attn_q.weight", "self_attn.q_proj.weight"),
    ("attn_k.weight", "self_attn.k_proj.weight"),
    ("attn_v.weight", "self_attn.v_proj.weight"),
    ("attn_q.bias", "self_attn.q_proj.bias"),
    ("attn_k.bias", "self_attn.k_proj.bias"),
    ("attn_v.bias", "self_attn.v_proj.bias"),
    ("attn_output.weight", "self_attn.o_proj.weight"),
    ("attn_q_norm.weight", "self_attn.q_norm.weight"),
    ("attn_k_norm.weight", "self_attn.k_norm.weight"),
    ("ffn_norm.weight", "post_attention_layernorm.weight"),
    ("post_attention_norm.weight", "post_attention_layernorm.weight"),
    ("ffn_gate.weight", "mlp.gate_proj.weight"),
    ("ffn_up.weight", "mlp.up_proj.weight"),
    ("ffn_down.weight", "mlp.down_proj.weight"),
    ("attn_qkv.weight", "linear_attn.in_proj_qkv.weight"),
    ("attn_gate.weight", "linear_attn.in_proj_z.weight"),
    ("ssm_beta.weight", "linear_attn.in_proj_b.weight"),
    ("ssm_alpha.weight", "linear_attn.in_proj_a.weight"),
    ("ssm_conv1d.weight", "linear_attn.conv1d.weight"),
    ("ssm_a", "linear_attn.A_log"),
    ("ssm_dt.bias", "linear_attn.dt_bias"),
    ("ssm_norm.weight", "linear_attn.norm.weight"),
    ("ssm_out.weight", "linear_attn.out_proj.weight"),
    ("ffn_gate_inp.weight", "mlp.gate.weight"),
    ("ffn_gate_exps.weight", GATES),
    ("ffn_up_exps.weight", VALUES),
    ("ffn_gate_up_exps.weight", GATES_AND_VALUES),
    ("ffn_down_exps.weight", "mlp.experts.down_proj"),
    ("ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight"),
    ("ffn_gate_shexp.weight", "mlp.shared_expert.gate_proj.weight"),
    ("ffn_up_shexp.weight", "mlp.shared_expert.up_proj.weight"),
    ("ffn_down_shexp.weight", "mlp.shared_expert.down_proj.weight"),
];

/// The gates and the values of all experts, which are one tensor elsewhere.
pub(super) const GATES: &str = "mlp.experts.gate_proj";
pub(super) const VALUES: &str = "mlp.experts.up_proj";
pub(super) const GATES_AND_VALUES: &str = "mlp.experts.gate_up_proj";

/// Tensors of the MTP layer beside its block's.
const OF_MTP: [(&str, &str); 4] = [
    ("nextn.eh_proj.weight", "mtp.fc.weight"),
    ("nextn.enorm.weight", "mtp.pre_fc_norm_embedding.weight"),
    ("nextn.hnorm.weight", "mtp.pre_fc_norm_hidden.weight"),
    ("nextn.shared_head_norm.weight", "mtp.norm.weight"),
];

/// The factors that rotary frequencies are divided by: Llama 3's scaling.
pub(super) const ROPE_FACTORS: &str = "rope_freqs.weight";

/// The canonical name in a model of `layers` layers, behind which the blocks of MTP layers are.
pub(super) fn canonical(name: &str, layers: usize) -> String {
    let find = |table: &[(&str, &str)], name: &str| {
        table.iter().find(|(gguf, _)| *gguf == name).map(|(_, canonical)| (*canonical).to_owned())
    };
    let of_layer = || {
        let (layer, part) = name.strip_prefix("blk.")?.split_once('.')?;
        let layer: usize = layer.parse().ok()?;
        let of_layer = || find(&OF_LAYER, part);
        match layer.checked_sub(layers) {
            None => Some(format!("layers.{layer}.{}", of_layer()?)),
            Some(layer) => {
                find(&OF_MTP, part).or_else(|| Some(format!("mtp.layers.{layer}.{}", of_layer()?)))
            }
        }
    };
    find(&GLOBAL, name).or_else(of_layer).unwrap_or_else(|| name.to_owned())
}
