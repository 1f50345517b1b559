//! What another load would do to a device, as far as a model says it: [`capacity`], the highest rate by a formula, of
//! [`deployments`] by hand; [`sampling`], which packets meet interrupts. Both take an [`interrupt`] as text.
//! And what the highest delays say about those to come: [`tail`].
//! [`queueing`] is a simulation of the path; [`calibration`](queueing::calibration) says what its model rests on, and how right it was.

pub mod capacity;
pub mod deployments;
pub mod interrupt;
pub mod queueing;
pub mod sampling;
pub mod tail;
