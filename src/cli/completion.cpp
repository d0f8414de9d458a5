// Completion for bash, made of what the commands say of themselves.
#include "cli/command.hpp"

namespace truemax {
namespace {

bool takes_file(const Option& o) {
  return o.value_name.find("FILE") != std::string::npos;
}

}  // namespace

std::string bash_completion(const std::vector<Command>& commands) {
  std::string names, options, values;
  for (const Command& command : commands) {
    names += (names.empty() ? "" : " ") + command.name;
    std::string of = "--help --help-all";
    for (const Option& o : command.table.options()) {
      of += " --" + o.name;
      if (o.is_switch) {
        if (o.can_be_off()) of += " --no-" + o.name;
        continue;
      }
      values += fmt::format("    {}:--{}) words='{}'; files={} ;;\n", command.name, o.name,
                            fmt::join(o.words, " "), takes_file(o) ? "yes" : "no");
    }
    options += fmt::format("    {}) words='{}' ;;\n", command.name, of);
  }
  return fmt::format(
      R"(# bash completion for truemax; made by 'truemax help --completion bash'
_truemax() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}}
  local words= files=no
  COMPREPLY=()
  # bash cuts --option=value into three words.
  if [[ $current == = ]]; then
    current=
  elif [[ $before == = ]]; then
    before=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  if (( COMP_CWORD == 1 )); then
    COMPREPLY=($(compgen -W '{0} help --help --version' -- "$current"))
    return
  fi
  if [[ $command == help ]]; then
    COMPREPLY=($(compgen -W '{0} --man --completion' -- "$current"))
    return
  fi
  case $command:$before in
{2}    *) files=option ;;
  esac
  if [[ $files == option ]]; then
    files=yes
    if [[ $current == -* ]]; then
      files=no
      case $command in
{1}      esac
    fi
  fi
  [[ -z $words ]] || COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [[ $files == yes ]]; then
    local IFS=$'\n'
    COMPREPLY+=($(compgen -f -- "$current"))
    compopt -o filenames 2>/dev/null
  fi
}}
complete -F _truemax truemax
)",
      names, options, values);
}

}  // namespace truemax
