_clap_complete_linkerd_mc() {
    local IFS=$'\013'
    local _CLAP_COMPLETE_INDEX=${COMP_CWORD}
    local _CLAP_COMPLETE_COMP_TYPE=${COMP_TYPE}
    if compopt +o nospace 2> /dev/null; then
        local _CLAP_COMPLETE_SPACE=false
    else
        local _CLAP_COMPLETE_SPACE=true
    fi
    local words=("${COMP_WORDS[@]}")
    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
        words[COMP_CWORD]="$2"
    fi
    COMPREPLY=( $( \
        _CLAP_IFS="$IFS" \
        _CLAP_COMPLETE_INDEX="$_CLAP_COMPLETE_INDEX" \
        _CLAP_COMPLETE_COMP_TYPE="$_CLAP_COMPLETE_COMP_TYPE" \
        _CLAP_COMPLETE_SPACE="$_CLAP_COMPLETE_SPACE" \
        LINKERD_MC_COMPLETE="bash" \
        "linkerd-mc" -- "${words[@]}" \
    ) )
    if [[ $? != 0 ]]; then
        unset COMPREPLY
    elif [[ $_CLAP_COMPLETE_SPACE == false ]] && [[ "${COMPREPLY-}" =~ [=/:]$ ]]; then
        compopt -o nospace
    fi
}
if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -o nospace -o bashdefault -o nosort -F _clap_complete_linkerd_mc linkerd-mc
else
    complete -o nospace -o bashdefault -F _clap_complete_linkerd_mc linkerd-mc
fi

_whole_words_linkerd_mc() {
    local LC_ALL=C
    local rest="${COMP_LINE:0:COMP_POINT}" words=() last=-1 i word trimmed
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word="${COMP_WORDS[i]}"
        trimmed="${rest#"${rest%%[![:space:]]*}"}"
        ((i == COMP_CWORD)) && word="$trimmed"
        if ((i > 0)) && [[ -n "$trimmed" && "$trimmed" == "$rest" ]]; then
            words[last]+="$word"
        else
            words[++last]="$word"
        fi
        rest="${trimmed#"$word"}"
    done
    local whole="${words[last]}" begins=""
    [[ "$whole" == *"$2" ]] && begins="${whole%"$2"}"
    local COMP_WORDS=("${words[@]}") COMP_CWORD=$last
    _clap_complete_linkerd_mc "$1" "$whole" "$3"
    COMPREPLY=("${COMPREPLY[@]#"$begins"}")
}
if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -o nospace -o bashdefault -o nosort -F _whole_words_linkerd_mc linkerd-mc
else
    complete -o nospace -o bashdefault -F _whole_words_linkerd_mc linkerd-mc
fi
