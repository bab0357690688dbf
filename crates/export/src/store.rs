//! What the name of a bucket stands for.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::aws::AmazonS3Builder;
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder};
use object_store::{BackoffConfig, ObjectStore, RetryConfig, StaticCredentialProvider};

use crate::cloud::CloudUpload;
use crate::error::{Error, Kind};
use crate::folder::{self, FolderUpload};
use crate::http::Http;

/// Where buckets are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Each is a folder in this one, which must be there.
    Folder(PathBuf),
    /// At a service that speaks S3's API. Credentials come from the environment, as for Amazon's
    /// own tools.
    S3 {
        /// The service's address; `None` = Amazon's, or what the environment says.
        endpoint: Option<String>,
        /// The region; `None` = what the environment says, or `us-east-1`.
        region: Option<String>,
        /// Roots to trust beside the usual ones, in PEM.
        roots: Option<Vec<u8>>,
    },
    /// At Google Cloud Storage. Credentials come from a file, the environment or the machine's
    /// metadata server, as for Google's own tools.
    Google {
        /// The service's address; `None` = Google's. At another address nothing is signed: it is
        /// an emulator.
        endpoint: Option<String>,
        /// The service account's key; `None` = as the environment says.
        credentials: Option<PathBuf>,
        /// Roots to trust beside the usual ones, in PEM.
        roots: Option<Vec<u8>>,
    },
}

/// All buckets of a server.
#[derive(Debug)]
pub struct Stores {
    place: Place,
    http: Http,
}

impl Stores {
    /// The buckets at that place.
    pub fn open(place: Place) -> Result<Self, Error> {
        let roots = match &place {
            Place::Folder(_) => None,
            Place::S3 { roots, .. } | Place::Google { roots, .. } => roots.as_deref(),
        };
        let http = Http::new(roots)?;
        Ok(Self { place, http })
    }

    /// The bucket of that name, which has none of `/` in it. Whether it is there is found out
    /// later.
    pub fn bucket(&self, name: &str) -> Result<Bucket, Error> {
        Ok(Bucket(match &self.place {
            Place::Folder(folder) => Inner::Folder(folder.join(name)),
            Place::S3 { endpoint, region, .. } => {
                Inner::Cloud(self.s3(name, endpoint.as_deref(), region.as_deref())?)
            }
            Place::Google { endpoint, credentials, .. } => {
                let file = credentials.as_ref().map(|file| file.to_string_lossy());
                Inner::Cloud(self.google(name, endpoint.as_deref(), file.as_deref())?)
            }
        }))
    }

    fn s3(
        &self,
        name: &str,
        endpoint: Option<&str>,
        region: Option<&str>,
    ) -> Result<Arc<dyn ObjectStore>, Error> {
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(name)
            .with_retry(retries())
            .with_http_connector(self.http.clone());
        if let Some(endpoint) = endpoint {
            let is_plain = endpoint.starts_with("http://");
            builder = builder.with_endpoint(endpoint).with_allow_http(is_plain);
        }
        if let Some(region) = region {
            builder = builder.with_region(region);
        }
        Ok(Arc::new(builder.build().map_err(unusable)?))
    }

    fn google(
        &self,
        name: &str,
        endpoint: Option<&str>,
        credentials: Option<&str>,
    ) -> Result<Arc<dyn ObjectStore>, Error> {
        let mut builder = GoogleCloudStorageBuilder::from_env()
            .with_bucket_name(name)
            .with_retry(retries())
            .with_http_connector(self.http.clone());
        if let Some(endpoint) = endpoint {
            let is_plain = endpoint.starts_with("http://");
            let options = object_store::ClientOptions::new().with_allow_http(is_plain);
            // Uploads in parts ask for a token though nothing is signed. Without one of its own the
            // machine's metadata server would be asked, for a token that is none of an emulator's
            // business.
            let nobody = GcpCredential { bearer: String::new() };
            builder = builder
                .with_base_url(endpoint)
                .with_skip_signature(true)
                .with_credentials(Arc::new(StaticCredentialProvider::new(nobody)))
                .with_client_options(options);
        }
        if let Some(file) = credentials {
            builder = builder.with_service_account_path(file);
        }
        Ok(Arc::new(builder.build().map_err(unusable)?))
    }

    /// Removes what a killed server has left of unfinished objects, where the server itself must;
    /// returns how many there were.
    pub async fn sweep(&self) -> Result<usize, Error> {
        match &self.place {
            Place::Folder(folder) => folder::sweep(folder.clone()).await,
            // Parts at a service are its own to remove.
            _ => Ok(0),
        }
    }
}

/// A request is repeated a few times at once; what comes after that is for who waits longer.
fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(5),
            base: 2.0,
        },
        max_retries: 5,
        retry_timeout: Duration::from_secs(60),
    }
}

/// The settings cannot be used; a retry does not help, but other settings do.
fn unusable(error: object_store::Error) -> Error {
    Error::new(Kind::Unavailable, error)
}

/// A bucket.
#[derive(Clone, Debug)]
pub struct Bucket(Inner);

#[derive(Clone, Debug)]
enum Inner {
    Folder(PathBuf),
    Cloud(Arc<dyn ObjectStore>),
}

impl Bucket {
    /// Whether the bucket is there, where that can be found out without a right to read it.
    pub async fn check(&self) -> Result<(), Error> {
        match &self.0 {
            Inner::Folder(folder) => folder::check(folder.clone()).await,
            Inner::Cloud(_) => Ok(()),
        }
    }

    /// Begins an object; `unique` is the part of its name that no other has.
    pub async fn begin(&self, name: String, unique: &str) -> Result<Upload, Error> {
        Ok(Upload(match &self.0 {
            Inner::Folder(folder) => {
                Kept::Folder(FolderUpload::begin(folder.clone(), name, unique).await?)
            }
            Inner::Cloud(store) => Kept::Cloud(CloudUpload::begin(Arc::clone(store), &name)?),
        }))
    }
}

/// An object that is being written. Dropping it leaves nothing that is visible.
pub struct Upload(Kept);

enum Kept {
    Folder(FolderUpload),
    Cloud(CloudUpload),
}

impl Upload {
    /// Takes the bytes that come next.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        match &mut self.0 {
            Kept::Folder(upload) => upload.write(bytes).await,
            Kept::Cloud(upload) => upload.write(bytes).await,
        }
    }

    /// Bytes that it keeps in memory.
    pub fn held_bytes(&self) -> usize {
        match &self.0 {
            Kept::Folder(_) => 0,
            Kept::Cloud(upload) => upload.held_bytes(),
        }
    }

    /// Makes it an object, which is durable and visible when this returns. After an error it may be
    /// visible too, and is whole then.
    pub async fn complete(self) -> Result<(), Error> {
        match self.0 {
            Kept::Folder(upload) => upload.complete().await,
            Kept::Cloud(upload) => upload.complete().await,
        }
    }

    /// Gives it up, and has nothing of it kept anywhere as far as that can be done.
    pub async fn abort(self) -> Result<(), Error> {
        match self.0 {
            Kept::Folder(upload) => {
                drop(upload);
                Ok(())
            }
            Kept::Cloud(upload) => upload.abort().await,
        }
    }
}
