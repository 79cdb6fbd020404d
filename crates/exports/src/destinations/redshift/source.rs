//! The bucket that Redshift copies from, and the statement that makes it do so.

use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use service::batch_exports::destination::{CopyAuthorization, CopyInputs, FileOptions, Keys, S3};

use crate::{Delivery, Error};

const AUTHORIZATION: &str = "copy_inputs__authorization";

/// What is said of a bucket, checked: all of it becomes part of a statement, in which Redshift has no parameters.
#[derive(Debug, Clone)]
pub(super) struct Source {
    inputs: CopyInputs,
}

impl Source {
    pub(super) fn new(inputs: &CopyInputs) -> Result<Self, Error> {
        check("copy_inputs__s3_bucket", &inputs.s3_bucket, "-._")?;
        check("copy_inputs__region_name", &inputs.region_name, "-")?;
        check("copy_inputs__s3_key_prefix", &inputs.s3_key_prefix, "-._=+/")?;
        match &inputs.authorization {
            CopyAuthorization::Role(role) => check(AUTHORIZATION, role, ":/_+=,.@-")?,
            CopyAuthorization::Keys(keys) => {
                check(AUTHORIZATION, keys.aws_access_key_id.expose_secret(), "/+=-_.")?;
                check(AUTHORIZATION, keys.aws_secret_access_key.expose_secret(), "/+=-_.")?;
            }
        }
        Ok(Self { inputs: inputs.clone() })
    }

    /// The same bucket, as those who write files know it.
    pub(super) fn s3(&self) -> S3 {
        let Keys {
            aws_access_key_id,
            aws_secret_access_key,
        } = self.inputs.bucket_credentials.clone();
        S3 {
            bucket_name: self.inputs.s3_bucket.clone(),
            region: self.inputs.region_name.clone(),
            aws_access_key_id: Some(aws_access_key_id),
            aws_secret_access_key: Some(aws_secret_access_key),
            encryption: None,
            kms_key_id: None,
            endpoint_url: self.inputs.endpoint_url.clone(),
            use_virtual_style_addressing: false,
            files: FileOptions::default(),
        }
    }

    /// Where the files of one attempt are. Another attempt has another run, or writes the same names again.
    pub(super) fn folder(&self, delivery: &Delivery) -> String {
        let prefix = self.inputs.s3_key_prefix.trim_matches('/');
        let slash = if prefix.is_empty() { "" } else { "/" };
        format!("{prefix}{slash}hedgerow/{}/{}", delivery.export.0, delivery.run.0)
    }

    /// The list that tells Redshift which files there are: it takes these, all of them, and nothing that lies beside.
    pub(super) fn list(&self, keys: &[String]) -> String {
        let entry = |key: &String| json!({ "url": self.url(key), "mandatory": true });
        json!({ "entries": keys.iter().map(entry).collect::<Vec<_>>() }).to_string()
    }

    /// Holds secrets: it is neither logged nor shown.
    pub(super) fn statement(&self, into: &str, list: &str) -> SecretString {
        let authorization = match &self.inputs.authorization {
            CopyAuthorization::Role(role) => format!("IAM_ROLE '{role}'"),
            CopyAuthorization::Keys(keys) => format!(
                "ACCESS_KEY_ID '{}' SECRET_ACCESS_KEY '{}'",
                keys.aws_access_key_id.expose_secret(),
                keys.aws_secret_access_key.expose_secret()
            ),
        };
        let (url, region) = (self.url(list), &self.inputs.region_name);
        format!(
            "COPY {into} FROM '{url}' {authorization} REGION '{region}' MANIFEST FORMAT AS CSV GZIP NULL AS '@NULL@' \
             TIMEFORMAT 'auto' COMPUPDATE OFF STATUPDATE OFF"
        )
        .into()
    }

    fn url(&self, key: &str) -> String {
        format!("s3://{}/{key}", self.inputs.s3_bucket)
    }
}

fn check(key: &'static str, value: &str, signs: &str) -> Result<(), Error> {
    let is_fine = |sign: char| sign.is_ascii_alphanumeric() || signs.contains(sign);
    if value.is_empty() || !value.chars().all(is_fine) {
        return Err(Error::plain("this is empty or contains invalid characters").in_key(key));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(authorization: &serde_json::Value) -> CopyInputs {
        let inputs = json!({
            "s3_bucket": "stage", "region_name": "eu-central-1", "s3_key_prefix": "/a/b/", "authorization": authorization,
            "bucket_credentials": { "aws_access_key_id": "AK", "aws_secret_access_key": "w" },
        });
        serde_json::from_value(inputs).unwrap()
    }

    /// As Redshift documents COPY with a manifest and CSV.
    #[test]
    fn the_statement_is_as_redshift_documents_it() {
        let source = Source::new(&inputs(&json!("arn:aws:iam::123456789012:role/Copy"))).unwrap();
        assert_eq!(
            source
                .statement("\"public\".\"events\" (\"uuid\")", "a/b/list.json")
                .expose_secret(),
            "COPY \"public\".\"events\" (\"uuid\") FROM 's3://stage/a/b/list.json' \
             IAM_ROLE 'arn:aws:iam::123456789012:role/Copy' REGION 'eu-central-1' MANIFEST FORMAT AS CSV GZIP \
             NULL AS '@NULL@' TIMEFORMAT 'auto' COMPUPDATE OFF STATUPDATE OFF"
        );
        assert_eq!(
            source.list(&["a/b/0.csv.gz".to_owned()]),
            r#"{"entries":[{"mandatory":true,"url":"s3://stage/a/b/0.csv.gz"}]}"#
        );
        let keys = json!({ "aws_access_key_id": "AKIA", "aws_secret_access_key": "s/e+c=" });
        let source = Source::new(&inputs(&keys)).unwrap();
        let statement = source.statement("t", "l");
        assert!(
            statement
                .expose_secret()
                .contains("ACCESS_KEY_ID 'AKIA' SECRET_ACCESS_KEY 's/e+c='")
        );
        assert!(!format!("{source:?} {statement:?}").contains("s/e+c="));
    }

    /// E4
    #[test]
    fn nothing_ends_the_literal_it_stands_in() {
        assert!(Source::new(&inputs(&json!("arn' ; DROP TABLE x; --"))).is_err());
        for hostile in ["a'b", "a\\", "a b", "", "a\n"] {
            let fine = inputs(&json!("arn"));
            assert!(
                Source::new(&CopyInputs {
                    s3_bucket: hostile.into(),
                    ..fine.clone()
                })
                .is_err()
            );
            assert!(
                Source::new(&CopyInputs {
                    region_name: hostile.into(),
                    ..fine.clone()
                })
                .is_err()
            );
            assert!(
                Source::new(&CopyInputs {
                    s3_key_prefix: hostile.into(),
                    ..fine
                })
                .is_err()
            );
        }
    }
}
