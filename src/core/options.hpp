// Options, each described once: name, field with its default, range, words and tags. Parser, --help, man
// page, completion, docs/options.md, the run log, the model file, compare, tune and --replay all read this
// table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
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

// Whole numbers from `low` to `high`; both 0: none.
struct CountSpan {
  std::uint64_t low = 0, high = 0;
  bool operator==(const CountSpan&) const = default;
};

// How an option combines with --replay.
enum class Replay {
  logged,  // taken from the log; typing it as well is refused
  free,    // changes no result: taken from the command line, never from the log
  test,    // about the test rows: taken from the log unless one of these is typed
};

// Properties that other code asks for. Only the file that describes an option knows its name.
struct OptionTags {
  bool brief = false;       // shown by --help; --help-all shows every option
  bool tunable = false;     // may differ between the runs of compare and tune
  bool common = false;      // compare: given once for all methods
  bool one_file = false;    // belongs to one data file
  bool output = false;      // names a file that is written
  bool of_machine = false;  // about the machine: ranks may have different ones
  Replay replay = Replay::logged;
  std::vector<std::string> methods = {}, draws = {};  // those that use it; empty: all
  std::string plain_default = {};  // of 'truemax train DATA', if named methods have another default
  std::string former_name = {};    // accepted in logs of older versions; refused with advice if typed
  std::vector<std::string> elsewhere = {};  // what other programs call it: refused with advice
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
  std::function<bool()> said;                            // false: its field is empty (Place)
  bool is_switch = false;
  bool is_list = false;  // may be typed more than once; each adds a value
  std::string group;     // heading in the help
  OptionTags tags;

  // A switch that is on by default, so that --no-NAME is worth showing.
  bool can_be_off() const { return is_switch && (default_value == "on" || tags.plain_default == "on"); }
  std::string full_help() const;     // users, description and range
  std::string default_text() const;  // "linear (named methods: decay)"; empty if there is none
};

// The word for "no limit" in every option that has one; 0 means the same.
inline constexpr char kUnlimited[] = "unlimited";
inline constexpr char kAllCores[] = "all";  // of --threads; 0 means the same

template <class T>
struct Codec;  // how values of one type are typed, shown and stored in JSON: options.cpp

// The fields of a struct of options come in two kinds: T where values were chosen, std::optional<T> where
// only that counts which somebody said. `As` is Plain or std::optional.
template <class T>
using Plain = T;
template <template <class> class As, class T>
As<T> by_default(T value) {
  if constexpr (std::is_same_v<As<T>, T>)
    return value;
  else
    return {};
}

// Where an option has its value: a field, or one that is empty until somebody says something; `otherwise`
// counts until then.
template <class T>
struct Place {
  Place() = default;
  Place(T* field)  // NOLINT(google-explicit-constructor)
      : get([field] { return *field; }), set([field](const T& value) { *field = value; }) {}
  Place(T* field, const T& /*otherwise*/) : Place(field) {}
  Place(std::optional<T>* field, T otherwise)
      : get([field, otherwise] { return field->value_or(otherwise); }),
        set([field](const T& value) { *field = value; }),
        said([field] { return field->has_value(); }) {}

  std::function<T()> get;
  std::function<void(const T&)> set;
  std::function<bool()> said = [] { return true; };
};

// Options bound to the fields of one options struct.
class OptionTable {
 public:
  // The heading of the options that follow.
  void group(std::string heading) { group_ = std::move(heading); }

  void number(std::string name, const Place<double>& place, Range range, std::string help,
              OptionTags tags = {});
  // A number, or `word` for none.
  void number_or(std::string name, const Place<std::optional<double>>& place, Range range,
                 const std::string& word, std::string help, OptionTags tags = {});
  void count(std::string name, const Place<std::uint64_t>& place, Range range, std::string help,
             OptionTags tags = {});
  // A count, or `word` for `value`, which may be outside the range.
  void count_or(std::string name, const Place<std::uint64_t>& place, Range range, const std::string& word,
                std::uint64_t value, std::string help, OptionTags tags = {});
  // A number or count with a word for one of its values (0 by default); the value itself can be typed too.
  void number_alias(std::string name, const Place<double>& place, Range range, const std::string& word,
                    std::string help, OptionTags tags = {});
  void count_alias(std::string name, const Place<std::uint64_t>& place, Range range, const std::string& word,
                   std::string help, OptionTags tags = {}, std::uint64_t value = 0);
  // LOW-HIGH, both in the range, or `word` for no span.
  void span_or(std::string name, const Place<CountSpan>& place, Range range, const std::string& word,
               std::string help, OptionTags tags = {});
  void text(std::string name, std::string value_name, const Place<std::string>& place, std::string help,
            OptionTags tags = {});
  // Text of which `accepts` decides; `words` are what it takes, for the help.
  void checked_text(std::string name, const std::vector<std::string>& words, const Place<std::string>& place,
                    std::function<bool(std::string_view)> accepts, std::string help, OptionTags tags = {});
  // May be given more than once.
  void list(std::string name, std::string value_name, const Place<std::vector<std::string>>& place,
            std::string help, OptionTags tags = {});
  // --name, --no-name
  void toggle(std::string name, const Place<bool>& place, std::string help, OptionTags tags = {});
  // Bytes: a number with an optional K, M, G or T (powers of 1024); `word` stands for 0.
  void size_alias(std::string name, const Place<std::uint64_t>& place, const std::string& word,
                  std::string help, OptionTags tags = {});
  // One of several named values.
  template <class Enum>
  void choice(const std::string& name, const Place<Enum>& place,
              const std::vector<std::pair<std::string, std::type_identity_t<Enum>>>& values,
              const std::string& help, const OptionTags& tags = {}) {
    std::vector<std::string> names;
    names.reserve(values.size());
    for (const auto& value : values) names.push_back(value.first);
    const auto get = [place, values] {
      for (std::size_t i = 0; i < values.size(); ++i)
        if (values[i].second == place.get()) return i;
      throw std::logic_error("an option has a value that is none of its choices");
    };
    const auto set = [place, values](std::size_t i) { place.set(values[i].second); };
    add_choice(name, names, get, set, place.said, help, tags);
  }
  template <class Enum>
  void choice(const std::string& name, Enum* field,
              const std::vector<std::pair<std::string, std::type_identity_t<Enum>>>& values,
              const std::string& help, const OptionTags& tags = {}) {
    choice(name, Place<Enum>(field), values, help, tags);
  }
  // A choice kept as text, its values known only at run time (methods, draws).
  void named_choice(std::string name, const Place<std::string>& place, const std::vector<std::string>& values,
                    std::string help, OptionTags tags = {});

  // Adds an option of another table; it stays bound to that table's field.
  void take(Option option) { options_.push_back(std::move(option)); }

  const std::vector<Option>& options() const { return options_; }
  const Option* find(std::string_view name) const;
  // The option that has this name elsewhere or had it in older versions; null if there is none.
  const Option* find_other_name(std::string_view name) const;
  nlohmann::ordered_json to_json() const;  // of those that were said, in the order of the table
  // Reads the options in `json`, also under former names. Unknown names are an error; missing options keep
  // their value.
  void from_json(const nlohmann::json& json);

 private:
  const Option* find_former(std::string_view name) const;
  void add_choice(std::string name, const std::vector<std::string>& names, std::function<std::size_t()> get,
                  std::function<void(std::size_t)> set, std::function<bool()> said, std::string help,
                  OptionTags tags);
  // All options are made here: a codec bound to a place.
  template <class T>
  void add(std::string name, const Place<T>& place, const Codec<T>& codec, std::string help, OptionTags tags);

  std::vector<Option> options_;
  std::string group_;
};

// The error for a refused value: "--name 'found': this option takes ...".
UserError bad_value(std::string_view name, std::string_view found, std::string_view expects);

}  // namespace truemax
