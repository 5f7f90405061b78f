// `svc completion` prints the program with which a shell completes command lines of svc. The script calls
// `svc completion SHELL -- WORDS…`: the ids are those of the moment, and an upgrade needs no new script.

import { candidateLine, complete } from "../completion.ts";
import { usage } from "../argv.ts";
import type { Command } from "../command.ts";

/** Tells the shell to offer files. */
const FILES = ":files\n";

const BASH = `# svc completion bash: put \`source <(svc completion bash)\` into ~/.bashrc
_svc() {
  local found line
  COMPREPLY=()
  found=$("\${COMP_WORDS[0]}" completion bash -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null) || return 0
  while IFS= read -r line; do
    if [ "$line" = ":files" ]; then
      compopt -o default 2>/dev/null
      COMPREPLY=()
      return 0
    fi
    line=\${line%%$'\\t'*}
    # Readline replaces only what follows the last "=".
    case $line in --*=*) case $COMP_WORDBREAKS in *=*) line=\${line#*=} ;; esac ;; esac
    [ -n "$line" ] && COMPREPLY+=("$line")
  done <<<"$found"
  compopt -o nosort 2>/dev/null
  return 0
}
complete -F _svc svc
`;

const ZSH = `#compdef svc
# svc completion zsh: put \`source <(svc completion zsh)\` into ~/.zshrc, or this file as _svc into a folder of $fpath
_svc() {
  local -a found shown
  local line
  for line in "\${(@f)$("\${words[1]}" completion zsh -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    if [[ $line == ":files" ]]; then
      _files
      return
    fi
    [[ -n $line ]] || continue
    found+=("\${line%%$'\\t'*}")
    shown+=("\${line%%$'\\t'*}  \${line#*$'\\t'}")
  done
  (( \${#found} )) && compadd -l -V svc -d shown -a -- found
}
if [[ "\${funcstack[1]}" == "_svc" ]]; then
  _svc "$@"
else
  (( \${+functions[compdef]} )) || { autoload -Uz compinit && compinit -i }
  compdef _svc svc
fi
`;

const FISH = `# svc completion fish: svc completion fish > ~/.config/fish/completions/svc.fish
function __svc_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l found ($before[1] completion fish -- $before[2..-1] "$current" 2>/dev/null)
    if test "$found" = ":files"
        __fish_complete_path "$current"
    else if set -q found[1]
        printf '%s\\n' $found
    end
end
complete -c svc -e
complete -c svc -f -k -a '(__svc_complete)'
`;

const SCRIPTS: Readonly<Record<string, string>> = { bash: BASH, zsh: ZSH, fish: FISH };

/** @param commands all commands, this one too. */
export const completionOf = (commands: () => Promise<readonly Command[]>): Command => ({
  name: "completion",
  args: "<shell> [...words]",
  summary: "Print the completion script of a shell: bash, zsh or fish",
  options: [],
  examples: [
    "source <(svc completion bash)      # in ~/.bashrc",
    "source <(svc completion zsh)       # in ~/.zshrc",
    "svc completion fish > ~/.config/fish/completions/svc.fish",
  ],
  completes: (before) => (before.length === 0 ? Object.keys(SCRIPTS) : []),
  async run(input, io) {
    const [shell = "", ...words] = input.args;
    const script = Object.hasOwn(SCRIPTS, shell) ? SCRIPTS[shell] : undefined;
    if (script === undefined)
      throw usage(`svc has no completion for \`${shell}\`.`, `Write ${Object.keys(SCRIPTS).join(", ")}.`);
    if (words.length === 0) {
      await io.out(script);
      return 0;
    }
    const found = await complete(await commands(), words, io);
    await io.out(found.files ? FILES : found.candidates.map(candidateLine).join(""));
    return 0;
  },
});
