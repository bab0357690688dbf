//! A bucket at a service: small objects in one request, larger ones in parts as they come.

use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};

use crate::error::{Error, Kind};

/// Bytes of a part. Services want 5 MiB or more of each but the last, and 10,000 parts at most:
/// enough for the largest object there may be.
const PART_BYTES: usize = 8 << 20;

/// An object that is being written. Dropping it leaves nothing that is visible; parts that were
/// sent are the service's to remove, as buckets can be told to do.
pub(crate) struct CloudUpload {
    store: Arc<dyn ObjectStore>,
    name: Path,
    parts: Option<Box<dyn MultipartUpload>>,
    /// What comes into the next part.
    held: Vec<Bytes>,
    held_bytes: usize,
}

impl CloudUpload {
    /// Begins an object that will be `name`. Nothing is sent yet.
    pub(crate) fn begin(store: Arc<dyn ObjectStore>, name: &str) -> Result<Self, Error> {
        let name = Path::parse(name).map_err(|error| Error::new(Kind::Unavailable, error))?;
        Ok(Self { store, name, parts: None, held: Vec::new(), held_bytes: 0 })
    }

    /// Takes what comes next, and sends a part when there is enough for one.
    pub(crate) async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        self.held_bytes += bytes.len();
        self.held.push(bytes);
        if self.held_bytes < PART_BYTES {
            return Ok(());
        }
        let parts = match &mut self.parts {
            Some(parts) => parts,
            none => none.insert(self.store.put_multipart(&self.name).await?),
        };
        self.held_bytes = 0;
        let part: PutPayload = std::mem::take(&mut self.held).into_iter().collect();
        Ok(parts.put_part(part).await?)
    }

    /// Bytes that are kept in memory.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Makes it an object.
    pub(crate) async fn complete(mut self) -> Result<(), Error> {
        let rest: PutPayload = self.held.into_iter().collect();
        match self.parts.take() {
            None => drop(self.store.put(&self.name, rest).await?),
            Some(mut parts) => {
                if rest.content_length() > 0 {
                    parts.put_part(rest).await?;
                }
                parts.complete().await?;
            }
        }
        Ok(())
    }

    /// Has the service forget the parts it was sent.
    pub(crate) async fn abort(self) -> Result<(), Error> {
        match self.parts {
            Some(mut parts) => Ok(parts.abort().await?),
            None => Ok(()),
        }
    }
}
