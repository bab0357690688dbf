//! One function: its code, loaded into a realm of its own.

use std::collections::BTreeMap;
use std::rc::Rc;

use rquickjs::context::{EvalOptions, intrinsic};
use rquickjs::object::Property;
use rquickjs::{Context, Ctx, Function, IntoJs, Object, Persistent, Runtime, Value};

use super::read::{self, Message};
use super::thrown::{Fault, NAME_OF_FILE};
use crate::chain::Udf;
use crate::clock::Deadline;
use crate::error::{Cause, Field, Invalid};
use crate::limits::Bounds;
use crate::message::Metadata;

/// What scripts find: JavaScript's own built-ins. Clocks finer than `Date`, and what browsers have
/// besides, are left out.
type BuiltIns = (
    intrinsic::Date,
    intrinsic::Eval,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::Proxy,
    intrinsic::MapSet,
    intrinsic::TypedArrays,
    intrinsic::Promise,
    intrinsic::WeakRef,
);

/// Global names that are taken away. Some wait or work for other threads, of which there are none;
/// others are the interpreter's own and no part of the language.
const TAKEN_AWAY: [&str; 4] = ["Atomics", "SharedArrayBuffer", "queueMicrotask", "gc"];

/// A runtime whose scripts end at the deadline.
pub(super) fn runtime(bounds: Bounds, deadline: &Rc<Deadline>) -> rquickjs::Result<Runtime> {
    let runtime = Runtime::new()?;
    runtime.set_max_stack_size(bounds.stack_bytes);
    let due = Rc::clone(deadline);
    runtime.set_interrupt_handler(Some(Box::new(move || due.is_due())));
    Ok(runtime)
}

/// A realm without any script. To be made before the memory of the runtime is bounded: one that
/// runs out of memory while it is made lacks built-ins that the interpreter relies on.
pub(super) fn context(runtime: &Runtime) -> rquickjs::Result<Context> {
    let context = Context::custom::<BuiltIns>(runtime)?;
    context.with(|ctx| {
        let globals = ctx.globals();
        TAKEN_AWAY.iter().try_for_each(|name| globals.remove(*name))
    })?;
    Ok(context)
}

/// A realm in which the code of a function was run.
pub(crate) struct Realm {
    // Dropped in this order: the function before the realm that it is of.
    function: Persistent<Function<'static>>,
    context: Context,
}

impl Realm {
    /// Loads a function to see whether that goes well.
    pub(crate) fn probe(udf: &Udf, bounds: Bounds) -> Result<(), Invalid> {
        let deadline = Rc::new(Deadline::new());
        let made = runtime(bounds, &deadline).and_then(|runtime| {
            let context = context(&runtime)?;
            Ok((runtime, context))
        });
        let (runtime, context) =
            made.map_err(|_| Invalid::new(Field::Code, "no memory to look at it"))?;
        runtime.set_memory_limit(bounds.memory_bytes);
        deadline.start(bounds.time);
        match Self::load(context, udf, &deadline) {
            Ok(_) => Ok(()),
            Err(Fault { cause: Cause::BadResult, what, .. }) => {
                Err(Invalid::new(Field::FunctionName, &what))
            }
            Err(Fault { what, line, .. }) => {
                Err(Invalid { line, ..Invalid::new(Field::Code, &what) })
            }
        }
    }

    /// Runs the code, and takes the function from it. A function that is not there is a bad
    /// result.
    pub(super) fn load(context: Context, udf: &Udf, deadline: &Deadline) -> Result<Self, Fault> {
        let name = udf.function_name();
        let function = context.with(|ctx| {
            let caught = |error| Fault::caught(&ctx, &error, deadline);
            let before: Value<'_> = ctx.globals().get(&**name).map_err(caught)?;
            evaluate(&ctx, udf.code()).map_err(caught)?;
            // Not a property of the global object: `const` and `let` at the top are none.
            let found =
                evaluate(&ctx, name).map_err(|error| named(&ctx, name, &error, deadline))?;
            match found.into_function() {
                Some(function) if before.as_function() != Some(&function) => {
                    Ok(Persistent::save(&ctx, function))
                }
                _ => Err(undefined(name)),
            }
        })?;
        Ok(Self { function, context })
    }

    /// Calls the function. None where it drops the message.
    pub(super) fn call(
        &self,
        data: &str,
        attributes: &BTreeMap<String, String>,
        metadata: &Metadata,
        deadline: &Deadline,
    ) -> Result<Option<Message>, Fault> {
        self.context.with(|ctx| {
            let call = || -> rquickjs::Result<Value<'_>> {
                let function = self.function.clone().restore(&ctx)?;
                let message = Object::new(ctx.clone())?;
                define(&message, "data", data)?;
                define(&message, "attributes", pairs(&ctx, attributes)?)?;
                function.call((message, seen(&ctx, metadata)?))
            };
            let caught = |error| Fault::caught(&ctx, &error, deadline);
            read::message(&call().map_err(caught)?).map_err(|wrong| match wrong {
                read::Wrong::Result(what) => Fault::bad_result(&what),
                read::Wrong::Thrown(error) => caught(error),
            })
        })
    }
}

fn evaluate<'js>(ctx: &Ctx<'js>, code: &str) -> rquickjs::Result<Value<'js>> {
    let mut options = EvalOptions::default();
    // A script says itself whether it is strict.
    options.strict = false;
    options.filename = Some(NAME_OF_FILE.to_owned());
    ctx.eval_with_options(code, options)
}

/// What is wrong when the name is looked up: mostly that there is nothing of that name.
fn named(ctx: &Ctx<'_>, name: &str, error: &rquickjs::Error, deadline: &Deadline) -> Fault {
    match Fault::caught(ctx, error, deadline) {
        Fault { cause: Cause::Threw, .. } => undefined(name),
        fault => fault,
    }
}

fn undefined(name: &str) -> Fault {
    let name = crate::text::quoted(name);
    Fault::bad_result(&format!("the code does not define a function {name} at its top level"))
}

fn pairs<'js>(
    ctx: &Ctx<'js>,
    attributes: &BTreeMap<String, String>,
) -> rquickjs::Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    for (key, value) in attributes {
        define(&object, key, value.as_str())?;
    }
    Ok(object)
}

fn seen<'js>(ctx: &Ctx<'js>, metadata: &Metadata) -> rquickjs::Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    let known = [
        ("message_id", &metadata.message_id),
        ("publish_time", &metadata.publish_time),
        ("ordering_key", &metadata.ordering_key),
    ];
    for (key, value) in known {
        if let Some(value) = value {
            define(&object, key, value.as_str())?;
        }
    }
    Ok(object)
}

/// Defines a property as an object literal does. Setting it would call setters of prototypes, and
/// not set `__proto__`.
fn define<'js>(object: &Object<'js>, key: &str, value: impl IntoJs<'js>) -> rquickjs::Result<()> {
    object.prop(key, Property::from(value).writable().enumerable().configurable())
}
