//! `analyze` and `synth`: what is read, found and written.

mod corrupted;
mod inputs;
mod outputs;
mod planted;
mod published;
