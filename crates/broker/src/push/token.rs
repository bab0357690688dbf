//! OIDC tokens, and the key pair they are signed with.
