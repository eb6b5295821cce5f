//! Answers completion requests of shells, also with names from the kubeconfig and the cluster.
//!
//! Errors are not reported: if names cannot be read, none are offered.

use std::{
    ffi::{OsStr, OsString},
    io::Write as _,
    time::Duration,
};

use anyhow::Context as _;
use clap::Command;
use clap_complete::{
    ArgValueCompleter, CompleteEnv, CompletionCandidate,
    env::{Bash, EnvCompleter, Fish, Shells, Zsh},
};
use client::Access;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt, api::ListParams};
use mirror_core::api::link::LinkObject;

use super::cluster::block_on;

/// Environment variable that marks a completion request of a [`script`]; its value is the shell's name.
const VARIABLE: &str = "LINKERD_MC_COMPLETE";
/// Timeout of a request to the cluster.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of names that are listed.
const OFFERED: u32 = 500;

/// Answers a completion request, if this is one. `args` are the program, `--`, and the words typed so far.
pub fn answered(command: fn() -> clap::Command, args: &[OsString]) -> anyhow::Result<bool> {
    if std::env::var_os(VARIABLE).is_none() {
        return Ok(false);
    }
    let folder = std::env::current_dir().ok();
    CompleteEnv::with_factory(command)
        .var(VARIABLE)
        .shells(Shells(&[&Bash, &Zsh, &Fish]))
        .try_complete(args, folder.as_deref())
        .with_context(|| format!("{VARIABLE} is set, but this is not a completion request"))
}

/// The script that makes a shell send completion requests.
pub fn script(shell: &dyn EnvCompleter, name: &str) -> anyhow::Result<String> {
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, name, name, name, &mut script)?;
    if shell.is("bash") {
        write!(script, "{}", whole_words(name))?;
    }
    if shell.is("zsh") {
        // In a folder of $fpath the file is itself the function that is called on the first Tab.
        let function = format!("_clap_dynamic_completer_{}", name.replace('-', "_"));
        writeln!(
            script,
            "[[ $funcstack[1] == _{name} ]] && {function} \"$@\""
        )?;
    }
    let script = String::from_utf8(script).context("the script is not valid UTF-8")?;
    Ok(format!("{}\n", script.trim()))
}

/// The end of the script for bash, which splits words at `=` and `:` too, and replaces only what follows the last of
/// them. The program gets whole words, and its answers lose their beginnings.
fn whole_words(name: &str) -> String {
    let function = name.replace('-', "_");
    format!(
        r#"_whole_words_{function}() {{
    local LC_ALL=C
    local rest="${{COMP_LINE:0:COMP_POINT}}" words=() last=-1 i word trimmed
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word="${{COMP_WORDS[i]}}"
        trimmed="${{rest#"${{rest%%[![:space:]]*}}"}}"
        ((i == COMP_CWORD)) && word="$trimmed"
        if ((i > 0)) && [[ -n "$trimmed" && "$trimmed" == "$rest" ]]; then
            words[last]+="$word"
        else
            words[++last]="$word"
        fi
        rest="${{trimmed#"$word"}}"
    done
    local whole="${{words[last]}}" begins=""
    [[ "$whole" == *"$2" ]] && begins="${{whole%"$2"}}"
    local COMP_WORDS=("${{words[@]}}") COMP_CWORD=$last
    _clap_complete_{function} "$1" "$whole" "$3"
    COMPREPLY=("${{COMPREPLY[@]#"$begins"}}")
}}
if [[ "${{BASH_VERSINFO[0]}}" -eq 4 && "${{BASH_VERSINFO[1]}}" -ge 4 || "${{BASH_VERSINFO[0]}}" -gt 4 ]]; then
    complete -o nospace -o bashdefault -o nosort -F _whole_words_{function} {name}
else
    complete -o nospace -o bashdefault -F _whole_words_{function} {name}
fi
"#
    )
}

/// Offers contexts of the kubeconfig, also after a comma.
pub fn contexts(current: &OsStr) -> Vec<CompletionCandidate> {
    let known = typed().kubeconfig().map(|kubeconfig| {
        let contexts = kubeconfig.contexts.into_iter();
        contexts.map(|context| context.name).collect()
    });
    offer(current, known.unwrap_or_default())
}

/// Offers namespaces of the cluster for all flags of a link that name one.
pub fn with_namespaces(command: Command) -> Command {
    let flags = [
        "namespace",
        "service_account_namespace",
        "gateway_namespace",
    ];
    flags.into_iter().fold(command, |command, flag| {
        command.mut_arg(flag, |arg| arg.add(ArgValueCompleter::new(namespaces)))
    })
}

/// Offers namespaces of the cluster.
pub fn namespaces(current: &OsStr) -> Vec<CompletionCandidate> {
    offer(
        current,
        from_cluster(async |client, page| {
            let found = Api::<Namespace>::all(client).list_metadata(page).await?;
            Ok(found.iter().map(ResourceExt::name_any).collect())
        }),
    )
}

/// Offers names of target clusters of the cluster's Links.
pub fn clusters(current: &OsStr) -> Vec<CompletionCandidate> {
    offer(
        current,
        from_cluster(async |client, page| {
            let found = Api::<LinkObject>::all(client).list(page).await?.items;
            let clusters = found.into_iter().map(|o| o.link.spec.target_cluster_name);
            Ok(clusters.collect())
        }),
    )
}

/// Offers names of the cluster's Links.
pub fn links(current: &OsStr) -> Vec<CompletionCandidate> {
    offer(
        current,
        from_cluster(async |client, page| {
            let found = Api::<LinkObject>::all(client).list_metadata(page).await?;
            Ok(found.iter().map(ResourceExt::name_any).collect())
        }),
    )
}

fn from_cluster(
    ask: impl AsyncFnOnce(Client, &ListParams) -> kube::Result<Vec<String>>,
) -> Vec<String> {
    let asked = async {
        let client = typed().client(PATIENCE).await?;
        let page = ListParams::default().limit(OFFERED);
        Ok(ask(client, &page).await?)
    };
    // The timeout also ends an exec plugin that prompts: nobody expects a prompt after Tab.
    let names = block_on(async { tokio::time::timeout(PATIENCE, asked).await? });
    let mut names = names.unwrap_or_default();
    names.retain(|name| is_safe(name));
    names
}

/// Whether a shell may put a name into a command line. A hostile API server is not bound to the rules for names.
fn is_safe(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._/".contains(c);
    name.chars().all(is_plain)
}

/// The names that start with what is typed, sorted, without duplicates.
pub fn offer(current: &OsStr, mut names: Vec<String>) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let (given, begun) = match current.rfind(',') {
        Some(comma) => current.split_at(comma + 1),
        None => ("", &*current),
    };
    names.sort();
    names.dedup();
    names.retain(|name| name.starts_with(begun) && !given.split(',').any(|one| one == name));
    let whole = names.iter().map(|name| format!("{given}{name}"));
    whole.map(CompletionCandidate::new).collect()
}

/// The words typed so far.
fn words() -> Vec<String> {
    let words = std::env::args_os().skip_while(|word| word != "--");
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// The cluster of the words typed so far.
fn typed() -> Access {
    access(&words())
}

/// The value of the first of these flags that is typed.
pub fn typed_value(flags: &[&str]) -> Option<String> {
    let words = words();
    flags.iter().find_map(|flag| value(&words, flag))
}

/// The last value of a flag. Parsed by hand, because clap would reject an incomplete command line.
fn value(words: &[String], flag: &str) -> Option<String> {
    let mut given = words.iter().enumerate().filter_map(|(at, word)| {
        let rest = word.strip_prefix(flag)?;
        let value = if rest.is_empty() {
            words.get(at + 1)?.as_str()
        } else {
            rest.strip_prefix('=')?
        };
        Some(value).filter(|value| !value.is_empty() && !value.starts_with('-'))
    });
    given.next_back().map(str::to_owned)
}

fn access(words: &[String]) -> Access {
    let value = |flag: &str| value(words, flag);
    // `rotate` and `link` have two contexts. The Links that `rotate` knows are in the one that it writes to; what `link`
    // asks for is in the one that it reads.
    let is = |command: &str| words.iter().any(|word| word == command);
    let of_two = match () {
        () if is("rotate") => Some("--source"),
        () if is("link") => Some("--target"),
        () => None,
    };
    Access {
        kubeconfig: value("--kubeconfig").map(Into::into),
        context: value("--context").or_else(|| of_two.and_then(value)),
        as_user: value("--as"),
        as_groups: value("--as-group").into_iter().collect(),
        api_addr: value("--api-addr"),
        ..Access::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_continue_the_word_are_offered() {
        let names = || {
            ["west", "east", "east", "eastern"]
                .map(str::to_owned)
                .into()
        };
        for (current, expected) in [
            ("", "east eastern west"),
            ("ea", "east eastern"),
            ("x", ""),
            ("east,", "east,eastern east,west"),
            ("west,ea", "west,east west,eastern"),
        ] {
            let offered = offer(OsStr::new(current), names());
            let offered: Vec<_> = offered
                .iter()
                .map(|candidate| candidate.get_value().to_string_lossy())
                .collect();
            assert_eq!(offered.join(" "), expected, "{current}");
        }
    }

    #[test]
    fn the_cluster_is_the_one_that_the_words_name() {
        for (line, kubeconfig, context) in [
            ("linkerd-mc status --cluster-name", None, None),
            (
                "linkerd-mc --context east status --cluster-name",
                None,
                Some("east"),
            ),
            (
                "linkerd-mc --kubeconfig=/a --context=east unlink --context west",
                Some("/a"),
                Some("west"),
            ),
            (
                "linkerd-mc link --target east --namespace",
                None,
                Some("east"),
            ),
            (
                "linkerd-mc link --target east --source west --gateway-namespace",
                None,
                Some("east"),
            ),
            (
                "linkerd-mc rotate --target east --source west --cluster-name",
                None,
                Some("west"),
            ),
            // The Service is in the cluster of the client.
            ("linkerd-mc diagnose --target east", None, None),
            (
                "linkerd-mc link --target east --source west --gateway-namespace",
                None,
                Some("east"),
            ),
            (
                "linkerd-mc rotate --target east --source west --cluster-name",
                None,
                Some("west"),
            ),
            ("linkerd-mc rotate --target east --cluster-name", None, None),
            ("linkerd-mc --context", None, None),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let access = access(&words);
            assert_eq!(access.context.as_deref(), context, "{line}");
            let path = access.kubeconfig.map(|path| path.display().to_string());
            assert_eq!(path.as_deref(), kubeconfig, "{line}");
        }
    }
}
