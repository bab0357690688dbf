//! What an answer, or the lack of one, means for the messages that were sent.
