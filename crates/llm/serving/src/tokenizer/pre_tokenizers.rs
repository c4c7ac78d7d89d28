//! How text is split before merging: the pre-tokenizers that GGUF files name, as llama.cpp has them.
//!
//! Expressions split one after another, each the parts of those before. Some differ from the tokenizer.json that they
//! stand for; files are used with llama.cpp's.

/// What a name of `tokenizer.ggml.pre` says.
pub(super) struct PreTokenizer {
    /// The names.
    names: &'static [&'static str],
    /// The expressions that split text.
    pub(super) expressions: &'static [&'static str],
    /// Whether a part that is a token is not merged.
    pub(super) ignores_merges: bool,
    /// Whether the first token is added if the file does not say.
    pub(super) adds_bos: bool,
}

/// The pre-tokenizer of that name.
pub(super) fn find(name: &str) -> Option<&'static PreTokenizer> {
    ALL.iter().find(|one| one.names.contains(&name))
}

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)";
const LLAMA3: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))*((?=[\p{L}])([^A-Z]))+|[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))+((?=[\p{L}])([^A-Z]))*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))*((?=[\p{L}])([^A-Z]))+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))+((?=[\p{L}])([^A-Z]))*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const SEED_CODER: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";
const MINICPM5: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK3: &str = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/// Those of the families that the engine runs.
const ALL: [PreTokenizer; 13] = [
    PreTokenizer {
        names: &["", "default"],
        expressions: &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
        ignores_merges: false,
        adds_bos: false,
    },
    PreTokenizer {
        names: &["llama3", "llama-v3", "llama-bpe", "falcon3", "pixtral", "midm-2.0"],
        expressions: &[LLAMA3],
        ignores_merges: true,
        adds_bos: true,
    },
    PreTokenizer {
        names: &["smaug-bpe", "dbrx"],
        expressions: &[LLAMA3],
        ignores_merges: false,
        adds_bos: false,
    },
    PreTokenizer {
        names: &["qwen2", "deepseek-r1-qwen", "kormo", "megrez", "f2llmv2", "stablelm2"],
        expressions: &[QWEN2],
        ignores_merges: false,
        adds_bos: false,
    },
    PreTokenizer { names: &["qwen35"], expressions: &[QWEN35], ignores_merges: false, adds_bos: false },
    PreTokenizer { names: &["tekken"], expressions: &[TEKKEN], ignores_merges: true, adds_bos: true },
    PreTokenizer {
        names: &[
            "gpt-2", "phi-2", "a.x-4.0", "mellum", "gigachat", "exaone4", "trillion", "mpt", "olmo", "jais",
        ],
        expressions: &[GPT2],
        ignores_merges: false,
        adds_bos: false,
    },
    PreTokenizer {
        names: &[
            "smollm",
            "starcoder",
            "refact",
            "command-r",
            "codeshell",
            "exaone",
            "minerva-7b",
            "mellum2",
        ],
        expressions: &[r"\p{N}", GPT2],
        ignores_merges: false,
        adds_bos: false,
    },
    PreTokenizer {
        names: &["deepseek-coder"],
        expressions: &[
            r"[\r\n]",
            r"\s?\p{L}+",
            r"\s?\p{P}+",
            "[\u{4e00}-\u{9fa5}\u{800}-\u{4e00}\u{ac00}-\u{d7ff}]+",
            r"\p{N}",
        ],
        ignores_merges: false,
        adds_bos: false,
    },
    PreTokenizer {
        names: &["deepseek-v3"],
        expressions: &[r"\p{N}{1,3}", "[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+", DEEPSEEK3],
        ignores_merges: false,
        adds_bos: false,
    },
    PreTokenizer {
        names: &["gpt-4o", "llama4", "kanana2"],
        expressions: &[GPT4O],
        ignores_merges: false,
        adds_bos: false,
    },
    PreTokenizer {
        names: &["seed-coder"],
        expressions: &[SEED_CODER],
        ignores_merges: false,
        adds_bos: false,
    },
    PreTokenizer {
        names: &["minicpm5"],
        expressions: &[r"\p{N}{1,3}", MINICPM5],
        ignores_merges: true,
        adds_bos: false,
    },
];
