//! Functions, and chains of them.

use std::sync::Arc;

use crate::error::{Cause, Failure, Field, Invalid};
use crate::limits::{Bounds, CODE_BYTES_MAX, TRANSFORMS_MAX};
use crate::sandbox::Realm;
use crate::text::{cleaned, quoted};

/// A function, known to be defined by its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Udf {
    function_name: Arc<str>,
    code: Arc<str>,
}

impl Udf {
    /// Parses the code, runs its top level within the default bounds and looks the function up, all
    /// in this process. Strangers' code is for `Workers::compile`.
    pub fn compile(function_name: &str, code: &str) -> Result<Self, Invalid> {
        Self::compile_within(function_name, code, Bounds::default())
    }

    pub(crate) fn compile_within(
        function_name: &str,
        code: &str,
        bounds: Bounds,
    ) -> Result<Self, Invalid> {
        let udf = Self::known(function_name, code)?;
        Realm::probe(&udf, bounds)?;
        Ok(udf)
    }

    /// A function that was compiled before, as it was kept. Nothing is run; that the code does not
    /// define it would show with each message.
    pub fn known(function_name: &str, code: &str) -> Result<Self, Invalid> {
        check_name(function_name)?;
        check_code(code)?;
        Ok(Self { function_name: function_name.into(), code: code.into() })
    }

    /// The name of the function.
    pub fn function_name(&self) -> &Arc<str> {
        &self.function_name
    }

    /// The code that defines it.
    pub fn code(&self) -> &str {
        &self.code
    }
}

/// The letters of an identifier; whether it is a reserved word shows when it is looked up.
fn check_name(name: &str) -> Result<(), Invalid> {
    let is_first = |letter: char| letter.is_alphabetic() || matches!(letter, '_' | '$');
    let is_letter = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '$');
    let mut letters = name.chars();
    if letters.next().is_some_and(is_first) && letters.all(is_letter) && name.len() < CODE_BYTES_MAX
    {
        return Ok(());
    }
    let problem = match name {
        "" => "must be set".to_owned(),
        _ => format!("{} is not the name of a JavaScript function", quoted(name)),
    };
    Err(Invalid::new(Field::FunctionName, &problem))
}

fn check_code(code: &str) -> Result<(), Invalid> {
    let problem = if code.is_empty() {
        "must be set".to_owned()
    } else if code.len() > CODE_BYTES_MAX {
        format!("has {} bytes, at most {CODE_BYTES_MAX} are allowed", code.len())
    } else if code.contains('\0') {
        "has a character NUL".to_owned()
    } else {
        return Ok(());
    };
    Err(Invalid::new(Field::Code, &problem))
}

/// A transform as it is set on a topic or a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transform {
    /// The function.
    pub udf: Udf,
    /// Whether messages pass it by.
    pub disabled: bool,
}

impl From<Udf> for Transform {
    fn from(udf: Udf) -> Self {
        Self { udf, disabled: false }
    }
}

/// The functions of one topic or subscription, in their order, without the disabled ones. Clones
/// are the same chain.
#[derive(Clone, Debug)]
pub struct Chain {
    /// Each with its index in the list it was set in.
    udfs: Arc<[(usize, Udf)]>,
}

impl Chain {
    /// A chain of these, at most `TRANSFORMS_MAX`.
    pub fn new(transforms: Vec<Transform>) -> Result<Self, Invalid> {
        if transforms.len() > TRANSFORMS_MAX {
            let problem =
                format!("{} transforms, at most {TRANSFORMS_MAX} are allowed", transforms.len());
            return Err(Invalid::new(Field::Transforms, &problem));
        }
        let enabled = transforms.into_iter().enumerate().filter(|(_, it)| !it.disabled);
        Ok(Self::of(enabled.map(|(index, it)| (index, it.udf)).collect()))
    }

    /// A chain of these, each with its index in a list.
    pub(crate) fn of(udfs: Arc<[(usize, Udf)]>) -> Self {
        Self { udfs }
    }

    /// Whether it has no function: messages need not be run through it.
    pub fn is_empty(&self) -> bool {
        self.udfs.is_empty()
    }

    /// Its functions, each with its index in the list it was set in.
    pub(crate) fn udfs(&self) -> &[(usize, Udf)] {
        &self.udfs
    }

    /// Whether the two are clones of each other.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.udfs, &other.udfs)
    }

    /// A failure of the chain as a whole, in the name of its first function.
    pub(crate) fn failure(&self, cause: Cause, what: &str) -> Failure {
        let first = self.udfs().first();
        let (index, function) =
            first.map_or((0, "".into()), |(index, udf)| (*index, Arc::clone(udf.function_name())));
        Failure { index, function, cause, what: cleaned(what), line: None }
    }
}
