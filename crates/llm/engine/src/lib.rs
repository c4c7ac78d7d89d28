//! Models, weights and the executor of language models on the kernel library.
