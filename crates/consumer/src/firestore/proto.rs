//! What `build.rs` makes of `proto/`, in modules named for the packages, as the generated code
//! expects them.

#![allow(
    clippy::all,
    clippy::clone_on_ref_ptr,
    clippy::too_many_lines,
    unreachable_pub,
    reason = "generated code is not held to the rules of written code"
)]

/// The packages under `google`.
pub mod google {
    /// Firestore.
    pub mod firestore {
        /// `google.firestore.v1`: documents, transactions and the service that keeps them.
        pub mod v1 {
            include!(concat!(env!("OUT_DIR"), "/google.firestore.v1.rs"));
        }
    }

    /// `google.type`: a place on the earth.
    pub mod r#type {
        include!(concat!(env!("OUT_DIR"), "/google.r#type.rs"));
    }
}
