//! Derived from the list of guards: their states, their settings, and where a policy may override them.

/// Declares all guards.
macro_rules! guards {
    (
        evaluated { $($name:ident: $module:ident::$state:ident),* $(,)? }
        configured { $($key:ident: $file:ident::$settings:ident),* $(,)? }
    ) => {
        /// The state of every guard.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub(crate) struct GuardStates {
            $(pub(crate) $name: $module::$state,)*
        }

        impl GuardStates {
            /// Guard names, as used in policies and trips.
            pub(crate) const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Runs `check` of every guard.
            pub(crate) fn check(&self, cx: &GuardContext<'_>, trips: &mut Trips) {
                $(if cx.rules >= $module::INFO.since { self.$name.check(cx, trips); })*
            }

            /// Runs `record` of every guard.
            pub(crate) fn record(&mut self, cx: &GuardContext<'_>, trips: &mut Trips) {
                $(if cx.rules >= $module::INFO.since { self.$name.record(cx, trips); })*
            }

            /// Runs `on_denied` of every guard.
            pub(crate) fn on_denied(&mut self, cx: &GuardContext<'_>, trips: &Trips) {
                $(if cx.rules >= $module::INFO.since {
                    self.$name.on_denied(cx, trips.is_blocked_by(stringify!($name)));
                })*
            }

            /// Runs `on_user_input` of every guard.
            pub(crate) fn on_user_input(&mut self) {
                $(self.$name.on_user_input();)*
            }

            /// Resets the counters of one guard, or of all guards if no name is given.
            pub(crate) fn reset(&mut self, guard: Option<&str>) {
                $(if guard.is_none_or(|name| name == stringify!($name)) { self.$name.reset(); })*
            }

            /// Writes each guard's state as a separate section. A guard that came after version 1 of the rules writes
            /// one only if it has counted something, so that it changes no session that it does not watch.
            pub(crate) fn write(&self, sections: &mut $crate::state::SectionWriter) -> postcard::Result<()> {
                $(
                    let first = $module::INFO.since == $crate::rules_version::RulesVersion::V1;
                    if first || self.$name != $module::$state::default() {
                        sections.write(stringify!($name), <$module::$state as Guard>::LAYOUT, &self.$name)?;
                    }
                )*
                Ok(())
            }

            /// Decodes one guard's state and returns the remaining bytes; `None` if there is no such guard.
            pub(crate) fn read<'b>(
                &mut self,
                guard: &str,
                layout: u16,
                bytes: &'b [u8],
            ) -> Option<postcard::Result<&'b [u8]>> {
                $(if guard == stringify!($name) {
                    let read = <$module::$state as Guard>::read(layout, bytes);
                    return Some(read.map(|(state, rest)| {
                        self.$name = state;
                        rest
                    }));
                })*
                None
            }
        }

        /// Names of the guards that have a state, in evaluation order.
        pub const GUARD_NAMES: &[&str] = GuardStates::NAMES;

        /// All guards: those of the policy in its order, then the others.
        pub fn guards() -> impl Iterator<Item = (&'static str, &'static GuardInfo)> {
            const CONFIGURED: &[(&str, &GuardInfo)] = &[$((stringify!($key), &$file::INFO)),*];
            const EVALUATED: &[(&str, &GuardInfo)] = &[$((stringify!($name), &$module::INFO)),*];
            let others = EVALUATED.iter().filter(|(name, _)| !GuardPolicies::NAMES.contains(name));
            CONFIGURED.iter().chain(others).copied()
        }

        /// The declaration of the guard with this name.
        pub(crate) fn guard_info(name: &str) -> Option<&'static GuardInfo> {
            guards().find(|(known, _)| *known == name).map(|(_, info)| info)
        }

        /// The settings of the guards.
        pub(crate) mod settings {
            $(pub use super::$file::*;)*
            pub use super::GuardPolicies;
        }

        /// The settings of every guard.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct GuardPolicies {
            $(#[doc = concat!("Settings of `", stringify!($key), "`.")] pub $key: $file::$settings,)*
        }

        impl Default for GuardPolicies {
            fn default() -> Self {
                GuardPolicies::preset(Preset::Workflow)
            }
        }

        impl GuardPolicies {
            /// The names of all guards under `guards:`, in a fixed order.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($key)),*];

            /// The settings of a preset.
            pub(crate) fn preset(preset: Preset) -> Self {
                let mut guards = GuardPolicies { $($key: Settings::preset(preset),)* };
                match preset {
                    Preset::Observe => guards.set_modes(|_| GuardMode::Observe),
                    Preset::Off => guards.set_modes(|_| GuardMode::Off),
                    _ => {}
                }
                guards
            }

            /// The names and modes of all guards, in the order of [`GuardPolicies::NAMES`].
            pub fn modes(&self) -> impl Iterator<Item = (&'static str, GuardMode)> {
                [$((stringify!($key), self.$key.mode)),*].into_iter()
            }

            /// Sets the mode of every guard to one that depends on the present mode.
            pub fn set_modes(&mut self, mode: impl Fn(GuardMode) -> GuardMode) {
                $(self.$key.mode = mode(self.$key.mode);)*
            }

            /// Whether a guard has a setting of this name.
            pub(crate) fn has_key(&self, guard: &str, key: &str) -> bool {
                $((guard == stringify!($key) && section_keys(&mut self.$key.clone()).contains(&key)))||*
            }

            /// Reads the guards of one node, edge or tool.
            pub(crate) fn read_scope(&mut self, kind: ScopeKind, reader: &mut SectionReader<'_>) {
                $(if let Some(scope) = $file::INFO.scope_of(kind) {
                    reader.part(stringify!($key), &mut self.$key, scope.keys);
                })*
            }

            /// The schemas of the guards of one node, edge or tool.
            pub(crate) fn describe_scope(kind: ScopeKind, keys: &mut SchemaKeys<'_>) {
                $(if let Some(scope) = $file::INFO.scope_of(kind) {
                    let schema = (scope.schema)(keys.generator);
                    keys.add(stringify!($key), schema, scope.summary);
                })*
            }
        }

        impl PolicySection for GuardPolicies {
            fn read_keys(&mut self, reader: &mut SectionReader<'_>) {
                $(reader.section(stringify!($key), &mut self.$key);)*
            }
        }

        impl schemars::JsonSchema for GuardPolicies {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                "GuardsFile".into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let doc = "The guards. Each takes a map of keys or only a mode.";
                object_schema(doc, None, generator, |keys| {
                    $(
                        let schema = info::setting_schema::<$file::$settings>(keys.generator);
                        keys.add(stringify!($key), schema, $file::INFO.summary);
                    )*
                })
            }
        }
    };
}

pub(super) use guards;
