//! `analyze` and `synth`: inputs, results and output files.

mod corrupted;
mod inputs;
mod outputs;
mod planted;
mod published;
