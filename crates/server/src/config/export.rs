//! Where messages are exported to.

use std::path::PathBuf;

use broker::{ExportOptions, ExportPlace};
use serde::Deserialize;

use super::{Checked, MIB, bytes_at_least, units};

/// Where messages are exported to.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Export {
    /// The folder whose folders are the buckets; empty = none.
    pub folder: PathBuf,
    /// Which service has the buckets; empty = none.
    pub url: String,
    /// The service's address; empty = its usual one.
    pub endpoint: String,
    /// The service's region; empty = as the environment says.
    pub region: String,
    /// Google's key of a service account; empty = as the environment says.
    pub credentials_file: PathBuf,
    /// Further roots to trust; empty = none.
    pub ca_file: PathBuf,
    /// Bytes in memory.
    #[serde(deserialize_with = "units::bytes")]
    pub memory: u64,
}

const S3: &str = "s3://";
const GOOGLE: &str = "gs://";

impl Export {
    pub(super) fn check(&self) -> Checked {
        bytes_at_least("export.memory", self.memory, 16 * MIB)?;
        let has_folder = !self.folder.as_os_str().is_empty();
        match self.url.as_str() {
            "" => {}
            _ if has_folder => {
                let problem = "given together with export.folder, give only one";
                return Err(("export.url", problem.to_owned()));
            }
            S3 | GOOGLE => {}
            other => {
                let problem = format!(
                    "{other:?} is not \"{S3}\" or \"{GOOGLE}\"; subscriptions name their buckets"
                );
                return Err(("export.url", problem));
            }
        }
        let endpoint = self.endpoint.as_str();
        let is_address = endpoint.starts_with("http://") || endpoint.starts_with("https://");
        if !endpoint.is_empty() && !is_address {
            let problem = format!("{endpoint:?} does not begin with http:// or https://");
            return Err(("export.endpoint", problem));
        }
        if !self.ca_file.as_os_str().is_empty()
            && let Err(error) = std::fs::read(&self.ca_file)
        {
            return Err(("export.ca_file", format!("{}: {error}", self.ca_file.display())));
        }
        Ok(())
    }

    /// What the broker is told.
    pub(crate) fn options(&self) -> ExportOptions {
        let memory_bytes_max = usize::try_from(self.memory).unwrap_or(usize::MAX);
        ExportOptions { place: self.place(), memory_bytes_max }
    }

    fn place(&self) -> Option<ExportPlace> {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let file = |file: &PathBuf| Some(file.clone()).filter(|file| !file.as_os_str().is_empty());
        // That it can be read was checked.
        let roots = || file(&self.ca_file).and_then(|file| std::fs::read(file).ok());
        if let Some(folder) = file(&self.folder) {
            return Some(ExportPlace::Folder(folder));
        }
        let endpoint = text(&self.endpoint);
        match self.url.as_str() {
            S3 => Some(ExportPlace::S3 { endpoint, region: text(&self.region), roots: roots() }),
            GOOGLE => {
                let credentials = file(&self.credentials_file);
                Some(ExportPlace::Google { endpoint, credentials, roots: roots() })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The built-in settings with these lines instead of their own.
    fn read(lines: &str) -> Export {
        let built_in: toml::Table = super::super::DEFAULTS.parse().unwrap();
        let mut table = built_in.get("export").unwrap().as_table().unwrap().clone();
        table.extend(lines.parse::<toml::Table>().unwrap());
        table.try_into().unwrap()
    }

    #[test]
    fn the_built_in_settings_are_the_brokers_own() {
        assert_eq!(read("").check(), Ok(()));
        assert_eq!(read("").options(), ExportOptions::default());
    }

    #[test]
    fn every_setting_reaches_the_broker() {
        let folder = read("folder = \"/buckets\"\nmemory = \"32MiB\"").options();
        let place = Some(ExportPlace::Folder("/buckets".into()));
        assert_eq!(folder, ExportOptions { place, memory_bytes_max: 32 << 20 });
        let s3 = read("url = \"s3://\"\nendpoint = \"http://minio:9000\"\nregion = \"eu\"");
        assert_eq!(s3.check(), Ok(()));
        let (endpoint, region) = (Some("http://minio:9000".to_owned()), Some("eu".to_owned()));
        assert_eq!(s3.options().place, Some(ExportPlace::S3 { endpoint, region, roots: None }));
        let google = read("url = \"gs://\"\ncredentials_file = \"key.json\"");
        let credentials = Some("key.json".into());
        let place = ExportPlace::Google { endpoint: None, credentials, roots: None };
        assert_eq!(google.options().place, Some(place));
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for (lines, key) in [
            ("memory = \"1MiB\"", "export.memory"),
            ("url = \"s3://bucket\"", "export.url"),
            ("url = \"ftp://\"", "export.url"),
            ("url = \"s3://\"\nfolder = \"/buckets\"", "export.url"),
            ("endpoint = \"minio:9000\"", "export.endpoint"),
            ("ca_file = \"/no/such/file\"", "export.ca_file"),
        ] {
            assert_eq!(read(lines).check().map_err(|(key, _)| key), Err(key), "{lines}");
        }
    }
}
