// truemax(1), made of what the commands say of themselves.
#include <algorithm>
#include <cctype>

#include "cli/command.hpp"
#include "truemax/version.hpp"

namespace truemax {
namespace {

// Text as roff takes it: a backslash, and a dot or quote that begins a line, are not commands; a hyphen is
// one that can be copied.
std::string roff(std::string_view text) {
  std::string out;
  bool at_start = true, after_comma = false;
  for (const char c : text) {
    if (after_comma && c != ' ' && c != '\n') out += "\\:";  // a long list may be broken there
    after_comma = c == ',';
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      if (at_start && (c == '.' || c == '\'')) out += "\\&";
      out += c;
    }
    at_start = c == '\n';
  }
  return out;
}

std::string option_item(const Option& o) {
  std::string name = fmt::format("\\fB\\-\\-{}\\fR", roff(o.name));
  if (o.can_be_off()) name += fmt::format(", \\fB\\-\\-no\\-{}\\fR", roff(o.name));
  // The words of a long choice may be broken after a bar.
  std::string value = roff(o.value_name);
  for (std::size_t at = 0; (at = value.find('|', at)) != std::string::npos; at += 3)
    value.insert(at + 1, "\\:");
  if (!value.empty()) name += fmt::format(" \\fI{}\\fR", value);
  const std::string standard = o.default_text();
  return fmt::format(
      ".TP\n{}\n{}\n", name,
      roff(o.full_help() +
           (standard.empty() || (o.is_switch && standard == "off") ? "" : " Default: " + standard + ".")));
}

std::string example(const std::string& text) {
  return fmt::format(".PP\nExample:\n.PP\n.nf\n{}\n.fi\n", roff(text));
}

}  // namespace

std::string man_page(const std::vector<Command>& commands) {
  std::string out = fmt::format(
      ".TH TRUEMAX 1 \"\" \"truemax {}\" \"User Commands\"\n"
      ".\\\" Made by 'truemax help --man'.\n.nh\n.ad l\n"
      ".SH NAME\ntruemax \\- train softmax models with very many classes\n"
      ".SH SYNOPSIS\n",
      kVersion);
  for (const Command& command : commands)
    out += fmt::format(".B {}\n[\\fIOPTIONS\\fR]\n.br\n", roff(command.synopsis()));
  out += fmt::format(
      ".SH DESCRIPTION\n{}\n.PP\nA default is that of the plain command, \\fBtruemax train DATA\\fR; where a "
      "named method\nhas another, it stands in brackets. \\fB\\-\\-help\\fR after a command prints its usual "
      "options,\n\\fB\\-\\-help\\-all\\fR all of them.\n",
      roff(wrapped(kProgramSummary, 78, "")));
  for (const Command& command : commands) {
    std::string title = "truemax " + command.name;
    std::transform(title.begin(), title.end(), title.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    out += fmt::format(".SH {}\n{}.\n", title, roff(command.summary));
    for (const Argument& argument : command.arguments)
      out += fmt::format(".TP\n\\fI{}\\fR\n{}.\n", roff(argument.name), roff(argument.help));
    std::vector<std::string> done;
    for (const Option& first : command.table.options()) {
      if (std::find(done.begin(), done.end(), first.group) != done.end()) continue;
      done.push_back(first.group);
      out += fmt::format(".SS {}\n", roff(first.group));
      for (const Option& o : command.table.options())
        if (o.group == first.group) out += option_item(o);
    }
    out += example(command.example);
  }
  return out + fmt::format(".SH EXIT STATUS\n{}\n", roff(kExitCodes));
}

}  // namespace truemax
