//! cleanliness
