//! What `build.rs` makes of `proto/`, in modules named for the packages, as the generated code
//! expects them.

#![allow(
    clippy::all,
    clippy::clone_on_ref_ptr,
    clippy::too_many_lines,
    reason = "generated code is not held to the rules of written code"
)]

/// The packages under `google`.
pub mod google {
    /// Access policies.
    pub mod iam {
        /// `google.iam.v1`: access policies and the service that keeps them.
        pub mod v1 {
            include!(concat!(env!("OUT_DIR"), "/google.iam.v1.rs"));
            include!(concat!(env!("OUT_DIR"), "/servers/google.iam.v1.rs"));
            include!(concat!(env!("OUT_DIR"), "/google.iam.v1.serde.rs"));
        }
    }

    /// Pub/Sub.
    pub mod pubsub {
        /// `google.pubsub.v1`: topics, subscriptions, snapshots, schemas and their services.
        pub mod v1 {
            include!(concat!(env!("OUT_DIR"), "/google.pubsub.v1.rs"));
            include!(concat!(env!("OUT_DIR"), "/servers/google.pubsub.v1.rs"));
            include!(concat!(env!("OUT_DIR"), "/google.pubsub.v1.serde.rs"));

            pub use crate::ReceivedMessage;
        }
    }

    /// `google.type`: the expressions that conditions of policies are written in.
    pub mod r#type {
        include!(concat!(env!("OUT_DIR"), "/google.r#type.rs"));
        include!(concat!(env!("OUT_DIR"), "/google.r#type.serde.rs"));
    }
}

/// The packages that are ours.
pub mod postrider {
    /// Live subscriptions.
    pub mod live {
        /// `postrider.live.v1`: streams of gateways.
        pub mod v1 {
            include!(concat!(env!("OUT_DIR"), "/postrider.live.v1.rs"));
            include!(concat!(env!("OUT_DIR"), "/servers/postrider.live.v1.rs"));
        }
    }
}
