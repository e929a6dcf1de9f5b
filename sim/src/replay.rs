//! A recorded session, re-issued: same contents, same ids, another world around it.
