"""The scripts that ``kai-sched completion`` prints. Each gives all words of the command line to ``kai-sched
__complete``, and shows what that answers (``completion.CursorAnswer``).
"""

from __future__ import annotations

# bash cuts words at "=" and ":", too: pieces without a blank between them are one word, and the last one is replaced.
BASH = r"""# Completion of kai-sched in bash: source <(kai-sched completion bash)
_kai_sched() {
    local line=$COMP_LINE piece blanks value out directive cut count=0 index=0 i
    local words=()
    for i in "${!COMP_WORDS[@]}"; do
        piece=${COMP_WORDS[i]}
        blanks=${line%%[![:space:]]*}
        line=${line#"$blanks"}
        if [[ -n $blanks || $count -eq 0 ]]; then
            words[count]=$piece
            count=$((count + 1))
        else
            words[count - 1]+=$piece
        fi
        line=${line#"$piece"}
        if [[ $i -eq $COMP_CWORD ]]; then index=$((count - 1)); fi
    done
    COMPREPLY=()
    out=$(kai-sched __complete "$((index - 1))" "${words[@]:1}" 2>/dev/null) || return
    piece=${COMP_WORDS[COMP_CWORD]}
    if [[ $piece == [=:] ]]; then piece=""; fi
    cut=${words[index]%"$piece"}
    while IFS=$'\t' read -r value _; do
        if [[ $value == :[0-9] ]]; then
            directive=${value#:}
        else
            COMPREPLY+=("${value#"$cut"}")
        fi
    done <<< "$out"
    if ((directive & 2)); then compopt -o nospace 2>/dev/null; fi
    if ! ((directive & 4)); then compopt -o default 2>/dev/null; fi
}
complete -F _kai_sched kai-sched
"""

ZSH = r"""#compdef kai-sched
# Completion of kai-sched in zsh: kai-sched completion zsh > "${fpath[1]}/_kai-sched"
_kai_sched() {
    local out line directive what
    local -a choices space
    out="$(kai-sched __complete $((CURRENT - 2)) "${(@Q)words[2,-1]}" 2>/dev/null)" || return 1
    for line in "${(@f)out}"; do
        if [[ $line == :[0-9] ]]; then
            directive=${line#:}
        else
            what=""
            if [[ $line == *$'\t'* ]]; then what=":${line#*$'\t'}"; fi
            choices+=("${${line%%$'\t'*}//:/\\:}$what")
        fi
    done
    if ((directive & 2)); then space=(-S ''); fi
    if ((${#choices})); then _describe -V 'kai-sched' choices "${space[@]}"; fi
    if ! ((directive & 4)); then _files; fi
}
if [[ $funcstack[1] == _kai-sched ]]; then
    _kai_sched "$@"
else
    compdef _kai_sched kai-sched
fi
"""

FISH = r"""# Completion of kai-sched in fish: kai-sched completion fish > ~/.config/fish/completions/kai-sched.fish
function __kai_sched_complete
    set -l before (commandline -opc)
    set -l word (commandline -ct)
    set -l after (commandline -op)
    set -l skip (count $before)
    if test -n "$word"
        set skip (math $skip + 1)
    end
    if test (count $after) -gt $skip
        set after $after[(math $skip + 1)..-1]
    else
        set after
    end
    set -l index (math (count $before) - 1)
    set -e before[1]
    for line in (kai-sched __complete $index $before "$word" $after 2>/dev/null)
        if string match -qr '^:[0-9]$' -- $line
            if test (math "floor("(string sub -s 2 -- $line)" / 4)") -eq 0
                __fish_complete_path "$word"
            end
        else
            echo $line
        end
    end
end
complete -c kai-sched -f -a '(__kai_sched_complete)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
