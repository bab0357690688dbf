//! Bounds, Google's and ours.

/// Bytes of a definition: Google's 300 KB.
pub const DEFINITION_BYTES_MAX: usize = 300_000;
/// Revisions that a schema may have at a time, Google's.
pub const REVISIONS_MAX: usize = 20;
/// Schemas in a project, Google's.
pub const SCHEMAS_PER_PROJECT_MAX: usize = 10_000;

/// How deep a definition may nest: brackets of a Protobuf definition. JSON, and with it Avro,
/// ends at 128, which is the JSON parser's own bound.
pub const DEFINITION_DEPTH_MAX: usize = 64;
/// Fields of all records or messages of a definition together.
pub const FIELDS_MAX: usize = 10_000;
/// Branches of one union of an Avro definition. Two revisions are compared branch by branch, so
/// this bounds a product.
pub const UNION_BRANCHES_MAX: usize = 1_000;
/// Comparisons that the defaults of an Avro definition may take together. A default of a union may
/// be of any branch, and nested unions multiply.
pub const DEFAULT_STEPS_MAX: u32 = 100_000;

/// How deep a message may nest in a binary encoding; the same as Protobuf's own parsers allow.
/// A message in JSON ends at 128 brackets, the JSON parser's own bound.
pub const MESSAGE_DEPTH_MAX: usize = 100;
/// Items of no bytes (nulls, say) in the arrays of one Avro message. Their number costs a
/// publisher nothing, and a consumer that believes it all its memory.
pub const EMPTY_ITEMS_MAX: u64 = 65_536;

/// Characters of a problem's text and of its place: they may quote what a client sent.
pub(crate) const PROBLEM_CHARS_MAX: usize = 300;
