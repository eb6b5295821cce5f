//! Edits of the user.

use super::Group;
use crate::case::Edit::{self, Exec, Flag, Prints, User};

const PLUGIN: Edit = Exec("command", "sh");

pub(super) const GROUPS: &[Group] = &[
    // Credentials.
    (
        60,
        &[
            &[User("token", "'a b'")],
            &[User("token", "\"t\\n\"")],
            &[User("token", "''"), User("tokenFile", "token")],
            &[User("token", ""), User("tokenFile", "token")],
            &[User("token", ""), User("tokenFile", "DIR/token")],
            &[User("token", ""), User("tokenFile", "missing")],
            &[User("tokenFile", "token")],
            &[User("tokenFile", "missing")],
            &[User("tokenFile", "''")],
            &[
                User("token", ""),
                User("username", "me"),
                User("password", "pw"),
            ],
            &[User("token", ""), User("username", "me")],
            &[
                User("token", ""),
                User("username", "me"),
                User("password", "''"),
            ],
            &[
                User("token", ""),
                User("password", "pw"),
                User("username", "''"),
            ],
            &[User("username", "me"), User("password", "pw")],
            &[
                User("token", ""),
                User("client-certificate-data", "CERT"),
                User("client-key-data", "KEY"),
            ],
            &[
                User("token", ""),
                User("client-certificate", "client.crt"),
                User("client-key", "client.key"),
            ],
            &[
                User("client-certificate-data", "CERT"),
                User("client-key-data", "KEY"),
            ],
            &[
                User("token", ""),
                User("client-certificate-data", "CERT"),
                User("client-key", "client.key"),
            ],
            &[User("token", ""), User("client-certificate-data", "CERT")],
            &[User("client-key-data", "KEY")],
            &[
                User("token", ""),
                User("client-certificate-data", "CERT"),
                User("client-certificate", "client.crt"),
                User("client-key-data", "KEY"),
            ],
            &[User("client-certificate", "''"), User("client-key", "''")],
            &[
                User("token", ""),
                User("client-certificate-data", "CERT"),
                User("client-key-data", "OTHER_KEY"),
            ],
            &[
                User("token", ""),
                User("client-certificate-data", "bm90IFBFTQ=="),
                User("client-key-data", "KEY"),
            ],
            &[User("token", "")],
            // Plugins.
            &[User("token", ""), PLUGIN],
            &[User("token", ""), PLUGIN],
            &[PLUGIN],
            &[
                User("token", ""),
                PLUGIN,
                User("username", "me"),
                User("password", "pw"),
            ],
            &[User("token", ""), PLUGIN, User("tokenFile", "token")],
            &[
                User("token", ""),
                PLUGIN,
                User("client-certificate-data", "CERT"),
                User("client-key-data", "KEY"),
            ],
            &[User("token", ""), Exec("command", "missing-plugin")],
            &[User("token", ""), Exec("command", "''")],
            &[User("token", ""), Exec("command", "./plugin")],
            &[User("token", ""), Exec("command", "DIR/plugin")],
            &[
                User("token", ""),
                PLUGIN,
                Exec("apiVersion", "client.authentication.k8s.io/v1beta1"),
            ],
            &[
                User("token", ""),
                PLUGIN,
                Exec("apiVersion", "client.authentication.k8s.io/v1beta1"),
                Exec("interactiveMode", ""),
            ],
            &[
                User("token", ""),
                PLUGIN,
                Exec("apiVersion", "client.authentication.k8s.io/v1beta1"),
                Prints("V1BETA1"),
            ],
            &[
                User("token", ""),
                PLUGIN,
                Exec("apiVersion", "client.authentication.k8s.io/v1beta1"),
                Exec("interactiveMode", ""),
                Prints("V1BETA1"),
            ],
            &[
                User("token", ""),
                PLUGIN,
                Exec("apiVersion", "client.authentication.k8s.io/v1alpha1"),
            ],
            &[User("token", ""), PLUGIN, Exec("apiVersion", "")],
            &[User("token", ""), PLUGIN, Exec("apiVersion", "other/v1")],
            &[User("token", ""), PLUGIN, Exec("interactiveMode", "")],
            &[
                User("token", ""),
                PLUGIN,
                Exec("interactiveMode", "IfAvailable"),
            ],
            &[User("token", ""), PLUGIN, Exec("interactiveMode", "Always")],
            &[
                User("token", ""),
                PLUGIN,
                Exec("interactiveMode", "Sometimes"),
            ],
            &[
                User("token", ""),
                PLUGIN,
                Exec("provideClusterInfo", "true"),
                Prints("INFO"),
            ],
            &[User("token", ""), PLUGIN, Prints("INFO")],
            &[
                User("token", ""),
                PLUGIN,
                Exec("env", "[{name: KEY, value: v}]"),
                Prints("ENV"),
            ],
            &[
                User("token", ""),
                PLUGIN,
                Exec("env", "[{name: '', value: v}]"),
            ],
            &[User("token", ""), PLUGIN, Prints("NOTHING")],
            &[User("token", ""), PLUGIN, Prints("GARBAGE")],
            &[User("token", ""), PLUGIN, Prints("FAIL")],
            &[User("token", ""), PLUGIN, Prints("NO_STATUS")],
            &[User("token", ""), PLUGIN, Prints("EMPTY_STATUS")],
            &[User("token", ""), PLUGIN, Prints("EMPTY_TOKEN")],
            &[User("token", ""), PLUGIN, Prints("NO_VERSION")],
            &[User("token", ""), PLUGIN, Prints("NO_KIND")],
            &[User("token", ""), PLUGIN, Prints("OTHER_KIND")],
            &[User("token", ""), PLUGIN, Prints("EXPIRED")],
            &[User("token", ""), PLUGIN, Prints("LATER")],
            &[User("token", ""), PLUGIN, Prints("BAD_EXPIRY")],
            &[User("token", ""), PLUGIN, Prints("CERTIFICATE")],
            &[User("token", ""), PLUGIN, Prints("BOTH")],
            &[User("token", ""), PLUGIN, Prints("CERTIFICATE_ALONE")],
            &[User("token", ""), PLUGIN, Prints("BAD_CERTIFICATE")],
            &[User("token", ""), PLUGIN, Prints("YAML")],
            &[User("token", ""), PLUGIN, Prints("UNKNOWN_FIELD")],
            &[User("token", ""), PLUGIN, Exec("args", "''")],
            &[
                User("token", ""),
                PLUGIN,
                Exec("installHint", "'install it'"),
                Prints("FAIL"),
            ],
            &[User("token", ""), PLUGIN, Exec("unknown", "x")],
            &[User("token", ""), PLUGIN, Prints("TRAILING")],
            &[User("token", ""), PLUGIN, Prints("TWICE")],
            &[User("token", ""), PLUGIN, Prints("LINE_BREAK")],
            &[User("token", ""), PLUGIN, Prints("OTHER_CERTIFICATE")],
            &[User("token", ""), PLUGIN, Prints("KEY_ALONE")],
        ],
    ),
    (
        25,
        &[
            // Certificates of both versions, and keys of all kinds and encodings.
            &[
                User("token", ""),
                User("client-certificate-data", "V1_CERT"),
                User("client-key-data", "KEY"),
            ],
            &[
                User("token", ""),
                User("client-certificate", "v1.crt"),
                User("client-key", "client.key"),
            ],
            &[
                User("token", ""),
                User("client-certificate-data", "RSA_CERT"),
                User("client-key-data", "RSA_KEY"),
            ],
            &[
                User("token", ""),
                User("client-certificate-data", "RSA_CERT"),
                User("client-key-data", "PKCS1_KEY"),
            ],
            &[
                User("token", ""),
                User("client-certificate-data", "RSA_V1_CERT"),
                User("client-key-data", "PKCS1_KEY"),
            ],
            &[
                User("token", ""),
                User("client-certificate-data", "CERT"),
                User("client-key-data", "SEC1_KEY"),
            ],
            &[
                User("token", ""),
                User("client-certificate-data", "ED_CERT"),
                User("client-key-data", "ED_KEY"),
            ],
            &[
                User("token", ""),
                User("client-certificate-data", "CHAIN"),
                User("client-key-data", "KEY"),
            ],
            &[
                User("token", ""),
                User("client-certificate-data", "CERT_AND_KEY"),
                User("client-key-data", "CERT_AND_KEY"),
            ],
            &[
                User("token", ""),
                User("client-certificate-data", "CERT"),
                User("client-key-data", "CRLF_KEY"),
            ],
            &[
                User("token", ""),
                User("client-certificate-data", "KEY"),
                User("client-key-data", "CERT"),
            ],
            &[
                User("token", ""),
                User("client-certificate-data", "''"),
                User("client-key-data", "''"),
            ],
            &[
                User("token", ""),
                User("client-certificate", "missing.crt"),
                User("client-key", "client.key"),
            ],
            &[
                User("token", ""),
                User("client-certificate", "DIR/client.crt"),
                User("client-key", "DIR/missing.key"),
            ],
            &[
                User("token", ""),
                User("client-certificate-data", "CERT"),
                User("client-key-data", "RSA_KEY"),
            ],
            // Auth providers that kubectl had.
            &[
                User("token", ""),
                User(
                    "auth-provider",
                    "{name: gcp, config: {access-token: t, expiry: '2999-01-01T00:00:00Z'}}",
                ),
            ],
            &[User("auth-provider", "{name: azure}")],
            &[User(
                "auth-provider",
                "{name: other, config: {id-token: t}}",
            )],
            &[User("auth-provider", "{name: gcp}"), PLUGIN],
            &[User("token", ""), User("tokenFile", "empty")],
            &[User("tokenFile", "empty")],
        ],
    ),
    // Impersonation.
    (
        20,
        &[
            &[User("as", "sudo")],
            &[
                User("as", "sudo"),
                User("as-groups", "[a, b]"),
                User("as-uid", "'42'"),
            ],
            &[
                User("as", "sudo"),
                User("as-user-extra", "{Reason/x: [y, z]}"),
            ],
            &[User("as", "''")],
            &[User("as", "'a b'")],
            &[
                User("as", "sudo"),
                User("as-user-extra", "{a%b: [c], d: []}"),
            ],
            &[User("as", "sudo"), User("as-groups", "['', a]")],
            &[User("as", "sudo"), User("as-groups", "a")],
            &[User("as-groups", "[a]")],
            &[User("as-uid", "'42'")],
            &[User("as-user-extra", "{a: [b]}")],
            &[
                User("as", "''"),
                User("as-groups", "[]"),
                User("as-uid", "''"),
            ],
        ],
    ),
    (
        15,
        &[
            &[Flag("--as=me")],
            &[Flag("--as=me"), Flag("--as-group=g"), Flag("--as-group=h")],
            &[Flag("--as-group=g")],
            &[Flag("--as=")],
            &[Flag("--as="), Flag("--as-group=g")],
            &[Flag("--as='a b'")],
        ],
    ),
];
