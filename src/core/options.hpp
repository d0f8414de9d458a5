// Options, each described once: name, field with its default, range, words and tags. Parser, --help, man
// page, completion, docs/options.md, the run log, the model file, compare, tune and --replay all read this
// table.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace truemax {

// An interval of allowed numbers; `open_low` excludes the lower end.
struct Range {
  double low = -std::numeric_limits<double>::max();
  double high = std::numeric_limits<double>::max();
  bool open_low = false;

  bool contains(double v) const { return v <= high && (open_low ? v > low : v >= low); }
  std::string text() const;
};

// How an option combines with --replay.
enum class Replay {
  logged,  // taken from the log; typing it as well is refused
  free,    // changes no result: taken from the command line, never from the log
  test,    // about the test rows: taken from the log unless one of these is typed
};

// Properties that other code asks for. Only the file that describes an option knows its name.
struct OptionTags {
  bool brief = false;     // shown by --help; --help-all shows every option
  bool tunable = false;   // may differ between the runs of compare and tune
  bool common = false;    // compare: given once for all methods
  bool one_file = false;  // belongs to one data file
  Replay replay = Replay::logged;
  std::vector<std::string> methods = {}, draws = {};  // those that use it; empty: all
  std::string plain_default = {};  // of 'truemax train DATA', if named methods have another default
  std::string former_name = {};    // accepted in logs of older versions; refused with advice if typed
};

struct Option {
  std::string name;                             // without the dashes
  std::string value_name;                       // NUMBER, COUNT, FILE, SIZE, a|b|c, or empty for a switch
  std::string help;                             // one or two sentences, without users and default
  std::string range;                            // in words; empty if the value name says it all
  std::string default_value;                    // as it would be typed
  std::vector<std::string> words;               // values that are words, for completion
  std::function<void(std::string_view)> parse;  // throws UserError naming the option and its range
  std::function<nlohmann::json()> to_json;
  std::function<void(const nlohmann::json&)> from_json;  // throws UserError on a value out of range
  bool is_switch = false;
  bool is_list = false;  // may be typed more than once; each adds a value
  std::string group;     // heading in the help
  OptionTags tags;

  // A switch that is on by default, so that --no-NAME is worth showing.
  bool can_be_off() const { return is_switch && (default_value == "on" || tags.plain_default == "on"); }
  std::string full_help() const;     // users, description and range
  std::string default_text() const;  // "linear (named methods: decay)"; empty if there is none
};

// How values of one type are typed, shown and kept in JSON. An option is a codec bound to a field.
template <class T>
struct Codec {
  std::string value_name;
  std::string expects;               // what a value must be, for messages
  std::string range;                 // as in Option
  std::vector<std::string> words{};  // as in Option
  // On false, the value is unchanged.
  std::function<bool(std::string_view, T&)> parse;
  std::function<bool(const nlohmann::json&, T&)> from_json;
  std::function<nlohmann::json(const T&)> to_json;
  std::function<std::string(const T&)> to_text;
  bool is_switch = false, is_list = false;
};

Codec<double> number_codec(Range range);
Codec<std::uint64_t> count_codec(Range range);
Codec<std::uint64_t> size_codec();
Codec<bool> switch_codec();
Codec<std::string> text_codec(std::string value_name);
Codec<std::vector<std::string>> list_codec(std::string value_name);
// One of several named values.
template <class T>
Codec<T> choice_codec(const std::vector<std::pair<std::string, T>>& values);
// Values of `codec`, or `word`, which stands for `value`. The value itself is accepted too, and is what JSON
// stores, unless `only_word`.
template <class T>
Codec<T> codec_or(const Codec<T>& codec, const std::string& word, T value, bool only_word);

// The word for "no limit" in every option that has one; 0 means the same.
inline constexpr char kUnlimited[] = "unlimited";
inline constexpr char kAllCores[] = "all";  // of --threads; 0 means the same

// Options bound to the fields of one options struct.
class OptionTable {
 public:
  // The heading of the options that follow.
  void group(std::string heading) { group_ = std::move(heading); }

  void number(std::string name, double* field, Range range, std::string help, OptionTags tags = {}) {
    add(std::move(name), field, number_codec(range), std::move(help), std::move(tags));
  }
  // A number, or `word` for `value`, which may be outside the range.
  void number_or(std::string name, double* field, Range range, const std::string& word, double value,
                 std::string help, OptionTags tags = {}) {
    add(std::move(name), field, codec_or(number_codec(range), word, value, true), std::move(help),
        std::move(tags));
  }
  void count(std::string name, std::uint64_t* field, Range range, std::string help, OptionTags tags = {}) {
    add(std::move(name), field, count_codec(range), std::move(help), std::move(tags));
  }
  // A count, or `word` for `value`, which may be outside the range.
  void count_or(std::string name, std::uint64_t* field, Range range, const std::string& word,
                std::uint64_t value, std::string help, OptionTags tags = {}) {
    add(std::move(name), field, codec_or(count_codec(range), word, value, true), std::move(help),
        std::move(tags));
  }
  // A number or count with a word for one of its values (0 by default); the value itself can be typed too.
  void number_alias(std::string name, double* field, Range range, const std::string& word, std::string help,
                    OptionTags tags = {}) {
    add(std::move(name), field, codec_or(number_codec(range), word, 0.0, false), std::move(help),
        std::move(tags));
  }
  void count_alias(std::string name, std::uint64_t* field, Range range, const std::string& word,
                   std::string help, OptionTags tags = {}, std::uint64_t value = 0) {
    add(std::move(name), field, codec_or(count_codec(range), word, value, false), std::move(help),
        std::move(tags));
  }
  void text(std::string name, std::string value_name, std::string* field, std::string help,
            OptionTags tags = {}) {
    add(std::move(name), field, text_codec(std::move(value_name)), std::move(help), std::move(tags));
  }
  // May be given more than once.
  void list(std::string name, std::string value_name, std::vector<std::string>* field, std::string help,
            OptionTags tags = {}) {
    add(std::move(name), field, list_codec(std::move(value_name)), std::move(help), std::move(tags));
  }
  // --name, --no-name
  void toggle(std::string name, bool* field, std::string help, OptionTags tags = {}) {
    add(std::move(name), field, switch_codec(), std::move(help), std::move(tags));
  }
  // Bytes: a number with an optional K, M, G or T (powers of 1024); `word` stands for 0.
  void size_alias(std::string name, std::uint64_t* field, const std::string& word, std::string help,
                  OptionTags tags = {}) {
    add(std::move(name), field, codec_or<std::uint64_t>(size_codec(), word, 0, false), std::move(help),
        std::move(tags));
  }
  template <class Enum>
  void choice(std::string name, Enum* field, const std::vector<std::pair<std::string, Enum>>& values,
              std::string help, OptionTags tags = {}) {
    add(std::move(name), field, choice_codec(values), std::move(help), std::move(tags));
  }
  // A choice kept as text, its values known only at run time (methods, draws).
  void named_choice(std::string name, std::string* field, const std::vector<std::string>& values,
                    std::string help, OptionTags tags = {});

  // Every option is added here.
  template <class T>
  void add(std::string name, T* field, const Codec<T>& codec, std::string help, OptionTags tags);

  // Adds an option of another table; it stays bound to that table's field.
  void take(Option option) { options_.push_back(std::move(option)); }

  const std::vector<Option>& options() const { return options_; }
  const Option* find(std::string_view name) const;
  // The option with this former name; null if there is none.
  const Option* find_former(std::string_view name) const;
  nlohmann::ordered_json to_json() const;  // in the order of the table
  // Reads the options in `json`, also under former names. Unknown names are an error; missing options keep
  // their value.
  void from_json(const nlohmann::json& json);

 private:
  std::vector<Option> options_;
  std::string group_;
};

// The error for a refused value: "--name 'found': this option takes ...".
UserError bad_value(std::string_view name, std::string_view found, std::string_view expects);

template <class T>
void OptionTable::add(std::string name, T* field, const Codec<T>& codec, std::string help, OptionTags tags) {
  Option o;
  o.name = std::move(name);
  o.value_name = codec.value_name;
  o.help = std::move(help);
  o.range = codec.range;
  o.default_value = codec.to_text(*field);
  o.words = codec.words;
  o.is_switch = codec.is_switch;
  o.is_list = codec.is_list;
  o.group = group_;
  o.tags = std::move(tags);
  o.parse = [field, name = o.name, parse = codec.parse, expects = codec.expects](std::string_view text) {
    if (!parse(text, *field)) throw bad_value(name, text, expects);
  };
  o.to_json = [field, to_json = codec.to_json] { return to_json(*field); };
  o.from_json = [field, name = o.name, from_json = codec.from_json,
                 expects = codec.expects](const nlohmann::json& j) {
    if (!from_json(j, *field)) throw bad_value(name, j.dump(), expects);
  };
  options_.push_back(std::move(o));
}

template <class T>
Codec<T> choice_codec(const std::vector<std::pair<std::string, T>>& values) {
  Codec<T> c;
  for (const auto& value : values) {
    c.value_name += (c.words.empty() ? "" : "|") + value.first;
    c.expects += (c.words.empty() ? "one of " : ", ") + value.first;
    c.words.push_back(value.first);
  }
  c.parse = [values](std::string_view text, T& out) {
    for (const auto& [name, value] : values)
      if (name == text) return out = value, true;
    return false;
  };
  c.from_json = [parse = c.parse](const nlohmann::json& j, T& out) {
    return j.is_string() && parse(j.get_ref<const std::string&>(), out);
  };
  c.to_text = [values](const T& of) -> std::string {
    for (const auto& [name, value] : values)
      if (value == of) return name;
    throw std::logic_error("an option has a value that is none of its choices");
  };
  c.to_json = [to_text = c.to_text](const T& of) { return nlohmann::json(to_text(of)); };
  return c;
}

}  // namespace truemax
