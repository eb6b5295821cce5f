//! Edits of the context, of the text, and of the files.

use super::Group;
use crate::case::Edit::{After, Before, Context, Crlf, FirstFile, Flag, LastFile, Replace};

pub(super) const GROUPS: &[Group] = &[
    // The context.
    (
        12,
        &[
            &[Context("user", "missing")],
            &[Context("user", "''")],
            &[Context("user", "")],
            &[Context("cluster", "missing")],
            &[Context("cluster", "''")],
            &[Context("namespace", "shop")],
            &[Context("namespace", "'Not A Label'")],
            &[Context("namespace", "''")],
            &[Flag("--context=main")],
            &[Flag("--context=other")],
            &[Flag("--context=")],
        ],
    ),
    // The text.
    (
        25,
        &[
            &[Before("\u{feff}")],
            &[Crlf],
            &[Before("# a comment\n---\n")],
            &[After("kind: Config\n")],
            &[After("current-context: main\n")],
            &[After("unknown: {a: 1}\n")],
            &[After("preferences: {}\n")],
            &[After("extensions: [{name: x, extension: {a: b}}]\n")],
            &[After("...\n")],
            &[After("---\nkind: Config\n")],
            &[After("users: []\n")],
            &[Replace("current-context: main", "current-context: ''")],
            &[Replace("current-context: main", "current-context: missing")],
            &[Replace("current-context: main", "x: y")],
            &[Replace("kind: Config\n", "")],
            &[Replace("kind: Config", "kind: Other")],
            &[Replace("apiVersion: v1\n", "")],
            &[Replace("apiVersion: v1", "apiVersion: v2")],
            &[
                Replace("name: main", "name: 'näme / \"x\": y'"),
                Replace("user: main", "user: 'näme / \"x\": y'"),
                Replace("cluster: main", "cluster: 'näme / \"x\": y'"),
                Replace(
                    "current-context: main",
                    "current-context: 'näme / \"x\": y'",
                ),
            ],
            &[Replace(
                "users:\n",
                "users:\n- {name: main, user: {token: first}}\n",
            )],
            &[Replace("users:\n", "users:\n- {user: {token: unnamed}}\n")],
            &[Replace(
                "users:\n",
                "users:\n- {name: null-user, user: null}\n",
            )],
            &[Replace("users:\n", "users:\n- {name: no-user}\n")],
            &[Replace(
                "clusters:\n",
                "clusters:\n- {name: main, cluster: {server: 'https://127.0.0.1:CLOSED'}}\n",
            )],
            &[Replace(
                "contexts:\n",
                "contexts:\n- {name: main, context: {cluster: other, user: main}}\n",
            )],
            &[Replace(
                "clusters:\n",
                "clusters:\n- {name: bad, cluster: {certificate-authority-data: '?'}}\n",
            )],
            &[Replace(
                "clusters:\n",
                "clusters:\n- {name: bad, cluster: {server: [x]}}\n",
            )],
            &[Replace(
                "  cluster: {",
                "  cluster: {server: 'https://127.0.0.1:CLOSED', ",
            )],
            &[Replace("users:\n", "users: &u\n"), After("other: *u\n")],
            &[Replace("- name: main\n  user", "- name:\n  user")],
            &[Replace("- name: main\n  user", "- name: 5\n  user")],
            &[Replace("users:\n", "users:\n-\n")],
            &[Replace(
                "  user: {",
                "  user: {username: '', password: '', ",
            )],
            &[Replace("  user: {", "  user: {token: 5, ")],
            &[Replace("clusters:", "Clusters:")],
            &[Before("\n\n  \n")],
            &[Before("{}\n---\n")],
            &[Replace("token: t", "token: !!str t")],
            &[Replace("token: t", "token: yes")],
            &[Replace("token: t", "token: 0x1F")],
            &[Replace("contexts:\n", "contexts:\n- {name: other}\n")],
        ],
    ),
    // Files.
    (
        12,
        &[
            &[FirstFile("missing")],
            &[FirstFile("EMPTY")],
            &[FirstFile("current-context: other\n")],
            &[FirstFile("current-context: ''\n")],
            &[FirstFile("users: [{name: main, user: {token: first}}]\n")],
            &[FirstFile("users: [{name: main, user: {as: first}}]\n")],
            &[FirstFile(
                "clusters: [{name: main, cluster: {tls-server-name: api.invalid}}]\n",
            )],
            &[FirstFile(
                "contexts: [{name: main, context: {namespace: shop}}]\n",
            )],
            &[FirstFile("not yaml: [\n")],
            &[LastFile("not yaml: [\n")],
            &[LastFile("users: [{name: main, user: {token: last}}]\n")],
            &[LastFile("users: [{name: main, user: {as: last}}]\n")],
            &[LastFile("missing")],
            &[LastFile("kind: Other\n")],
        ],
    ),
];
