//! soaks
