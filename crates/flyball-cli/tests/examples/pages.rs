//! The pages of the examples show what really comes out.
