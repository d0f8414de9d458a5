#include "core/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/text.hpp"

namespace truemax {

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

namespace {

// Parses the whole text as a finite number.
bool parse_number(std::string_view text, double* out) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(*out);
}

// A whole number, written plainly or as 1e6.
bool parse_count(std::string_view text, std::uint64_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  if (error == std::errc() && end == text.data() + text.size()) return true;
  double number = 0;
  if (!parse_number(text, &number) || number < 0 || number > 0x1p53 || number != std::floor(number))
    return false;
  *out = static_cast<std::uint64_t>(number);
  return true;
}

bool parse_size(std::string_view text, std::uint64_t* out) {
  if (text.empty()) return false;
  double unit = 1;
  if (text.size() > 1 && (text.back() == 'B' || text.back() == 'b')) text.remove_suffix(1);
  constexpr std::string_view kUnits = "KMGT";
  const auto letter = kUnits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(text.back()))));
  if (letter != std::string_view::npos) {
    unit = std::exp2(10.0 * static_cast<double>(letter + 1));
    text.remove_suffix(1);
  }
  double number = 0;
  if (!parse_number(text, &number) || number < 0 || number * unit > 0x1p63) return false;
  *out = static_cast<std::uint64_t>(number * unit);
  return true;
}

// A number as a user would type it; {:g} keeps six digits, so a whole number that fills them is written out.
std::string number_text(double v) {
  const bool whole = v == std::floor(v);
  if (whole && (std::abs(v) < 1e6 || (std::abs(v) < 1e15 && fmt::format("{:g}", v).size() > 6)))
    return fmt::format("{:.0f}", v);
  std::string text = fmt::format("{:g}", v);
  for (const char* noise : {"e+0", "e+"})
    if (const auto at = text.find(noise); at != std::string::npos) text.replace(at, std::strlen(noise), "e");
  if (const auto at = text.find("e-0"); at != std::string::npos) text.erase(at + 2, 1);
  return text;
}

bool parse_any(std::string_view text, double* out) {
  return parse_number(text, out);
}
bool parse_any(std::string_view text, std::uint64_t* out) {
  return parse_count(text, out);
}

}  // namespace

std::string Range::text() const {
  constexpr double kMax = std::numeric_limits<double>::max();
  const bool has_low = low > -kMax, has_high = high < kMax;
  const std::string lower = fmt::format("{} {}", open_low ? "above" : "from", number_text(low));
  if (has_low && has_high) return fmt::format("{} to {}", lower, number_text(high));
  if (has_low) return open_low ? lower : fmt::format("{} up", lower);
  if (has_high) return fmt::format("up to {}", number_text(high));
  return "";
}

UserError bad_value(std::string_view name, std::string_view found, std::string_view expects) {
  return UserError(
      fmt::format("--{} {}: this option takes {}; see 'truemax help'", name, in_quotes(found), expects));
}

std::string Option::full_help() const {
  std::string users;
  if (!tags.methods.empty()) users = fmt::format("{}: ", fmt::join(tags.methods, ", "));
  if (!tags.draws.empty()) users = fmt::format("--draw {}: ", fmt::join(tags.draws, ", "));
  return users + help + (range.empty() ? "" : fmt::format(" Takes {}.", range));
}

std::string Option::default_text() const {
  if (tags.plain_default.empty() || tags.plain_default == default_value) return default_value;
  return fmt::format("{} (named methods: {})", tags.plain_default, default_value);
}

namespace {

Codec<double> number_codec(Range range) {
  Codec<double> c;
  const std::string words = range.text();
  c.value_name = "NUMBER";
  c.expects = c.range = words.empty() ? "a finite number" : "a number " + words;
  c.parse = [range](std::string_view text, double& out) {
    double value = 0;
    if (!parse_number(text, &value) || !range.contains(value)) return false;
    return out = value, true;
  };
  c.from_json = [range](const nlohmann::json& j, double& out) {
    if (!j.is_number() || !range.contains(j.get<double>())) return false;
    return out = j.get<double>(), true;
  };
  c.to_json = [](const double& v) { return nlohmann::json(v); };
  c.to_text = [](const double& v) { return number_text(v); };
  return c;
}

Codec<std::uint64_t> count_codec(Range range) {
  Codec<std::uint64_t> c;
  const std::string words = range.text();
  c.value_name = "COUNT";
  c.expects = c.range = words.empty() ? "a whole number from 0 up" : "a whole number " + words;
  c.parse = [range](std::string_view text, std::uint64_t& out) {
    std::uint64_t value = 0;
    if (!parse_count(text, &value) || !range.contains(static_cast<double>(value))) return false;
    return out = value, true;
  };
  c.from_json = [range](const nlohmann::json& j, std::uint64_t& out) {
    if (!j.is_number_unsigned() || !range.contains(j.get<double>())) return false;
    return out = j.get<std::uint64_t>(), true;
  };
  c.to_json = [](const std::uint64_t& v) { return nlohmann::json(v); };
  c.to_text = [](const std::uint64_t& v) { return fmt::format("{}", v); };
  return c;
}

// "3-6"; `word` is the empty span.
Codec<CountSpan> span_codec(Range range, const std::string& word) {
  Codec<CountSpan> c;
  c.value_name = fmt::format("MIN-MAX|{}", word);
  c.expects = c.range = fmt::format("two whole numbers {}, as in 3-6, or '{}'", range.text(), word);
  c.words = {word};
  c.parse = [range, word](std::string_view text, CountSpan& out) {
    if (text == word) return out = {}, true;
    const std::size_t dash = text.find('-');
    CountSpan span;
    if (dash == std::string_view::npos || !parse_count(text.substr(0, dash), &span.low) ||
        !parse_count(text.substr(dash + 1), &span.high))
      return false;
    if (span.low > span.high || !range.contains(static_cast<double>(span.low)) ||
        !range.contains(static_cast<double>(span.high)))
      return false;
    return out = span, true;
  };
  c.from_json = [parse = c.parse](const nlohmann::json& j, CountSpan& out) {
    return j.is_string() && parse(j.get_ref<const std::string&>(), out);
  };
  c.to_text = [word](const CountSpan& v) {
    return v == CountSpan{} ? word : fmt::format("{}-{}", v.low, v.high);
  };
  c.to_json = [text = c.to_text](const CountSpan& v) { return nlohmann::json(text(v)); };
  return c;
}

Codec<std::uint64_t> size_codec() {
  Codec<std::uint64_t> c = count_codec({});
  c.value_name = "SIZE";
  c.expects = c.range = "a size such as 500M or 16G";
  c.parse = [](std::string_view text, std::uint64_t& out) { return parse_size(text, &out); };
  return c;
}

Codec<bool> switch_codec() {
  Codec<bool> c;
  c.expects = "no value, or on or off";
  c.is_switch = true;
  c.parse = [](std::string_view text, bool& out) {
    const bool on = text == "on" || text == "true";
    if (!on && text != "off" && text != "false") return false;
    return out = on, true;
  };
  c.from_json = [](const nlohmann::json& j, bool& out) {
    if (!j.is_boolean()) return false;
    return out = j.get<bool>(), true;
  };
  c.to_json = [](const bool& v) { return nlohmann::json(v); };
  c.to_text = [](const bool& v) { return v ? "on" : "off"; };
  return c;
}

Codec<std::string> text_codec(std::string value_name) {
  Codec<std::string> c;
  c.expects = "a " + value_name + " that is not empty";
  c.value_name = std::move(value_name);
  c.parse = [](std::string_view text, std::string& out) {
    if (text.empty()) return false;
    return out = text, true;
  };
  c.from_json = [](const nlohmann::json& j, std::string& out) {
    if (!j.is_string()) return false;
    return out = j.get<std::string>(), true;
  };
  c.to_json = [](const std::string& v) { return nlohmann::json(v); };
  c.to_text = [](const std::string& v) { return v; };
  return c;
}

Codec<std::vector<std::string>> list_codec(std::string value_name) {
  using List = std::vector<std::string>;
  Codec<List> c;
  c.expects = "a " + value_name + " that is not empty";
  c.value_name = std::move(value_name);
  c.is_list = true;
  c.parse = [](std::string_view text, List& out) {
    if (text.empty()) return false;
    return out.emplace_back(text), true;
  };
  c.from_json = [](const nlohmann::json& j, List& out) {
    if (!j.is_array() || !std::all_of(j.begin(), j.end(), [](const auto& v) { return v.is_string(); }))
      return false;
    return out = j.get<List>(), true;
  };
  c.to_json = [](const List& v) { return nlohmann::json(v); };
  c.to_text = [](const List& v) { return fmt::format("{}", fmt::join(v, " ")); };
  return c;
}

// Values of `codec`, or `word`, which stands for `value`. The value itself is accepted too, and is what JSON
// stores, unless `only_word`.
template <class T>
Codec<T> codec_or(const Codec<T>& base, const std::string& word, T value, bool only_word) {
  Codec<T> c = base;
  c.value_name = fmt::format("{}|{}", base.value_name, word);
  c.expects = c.range = fmt::format("{} or '{}'", base.range, word);
  if (!only_word && value == T{}) c.range += "; 0 means the same";
  c.words.push_back(word);
  c.parse = [base, word, value, only_word](std::string_view text, T& out) {
    if (text == word) return out = value, true;
    T typed{};
    if (!only_word && parse_any(text, &typed) && typed == value) return out = value, true;
    return base.parse(text, out);
  };
  c.from_json = [base, word, value, only_word](const nlohmann::json& j, T& out) {
    const bool is_value = !only_word && j.is_number() && j.get<double>() == static_cast<double>(value);
    if (is_value || (j.is_string() && j.get_ref<const std::string&>() == word)) return out = value, true;
    return base.from_json(j, out);
  };
  c.to_text = [base, word, value](const T& v) { return v == value ? word : base.to_text(v); };
  if (only_word)
    c.to_json = [base, word, value](const T& v) {
      return v == value ? nlohmann::json(word) : base.to_json(v);
    };
  return c;
}

// The same, if the word means that there is no value.
template <class T>
Codec<std::optional<T>> none_or(const Codec<T>& base, const std::string& word) {
  Codec<std::optional<T>> c;
  c.value_name = fmt::format("{}|{}", base.value_name, word);
  c.expects = c.range = fmt::format("{} or '{}'", base.range, word);
  c.words = {word};
  c.parse = [base, word](std::string_view text, std::optional<T>& out) {
    if (text == word) return out.reset(), true;
    T value{};
    return base.parse(text, value) && (out = value, true);
  };
  c.from_json = [base, word](const nlohmann::json& j, std::optional<T>& out) {
    if (j.is_string() && j.get_ref<const std::string&>() == word) return out.reset(), true;
    T value{};
    return base.from_json(j, value) && (out = value, true);
  };
  c.to_json = [base, word](const std::optional<T>& v) { return v ? base.to_json(*v) : nlohmann::json(word); };
  c.to_text = [base, word](const std::optional<T>& v) { return v ? base.to_text(*v) : word; };
  return c;
}

Codec<std::string> choice_codec(const std::vector<std::string>& names) {
  Codec<std::string> c;
  c.value_name = fmt::format("{}", fmt::join(names, "|"));
  c.expects = fmt::format("one of {}", fmt::join(names, ", "));
  c.words = names;
  c.parse = [names](std::string_view text, std::string& out) {
    if (std::find(names.begin(), names.end(), text) == names.end()) return false;
    return out = text, true;
  };
  c.from_json = [parse = c.parse](const nlohmann::json& j, std::string& out) {
    return j.is_string() && parse(j.get_ref<const std::string&>(), out);
  };
  c.to_json = [](const std::string& v) { return nlohmann::json(v); };
  c.to_text = [](const std::string& v) { return v; };
  return c;
}

}  // namespace

template <class T>
void OptionTable::add(std::string name, const Place<T>& place, const Codec<T>& codec, std::string help,
                      OptionTags tags) {
  Option o;
  o.name = std::move(name);
  o.value_name = codec.value_name;
  o.help = std::move(help);
  o.range = codec.range;
  o.default_value = codec.to_text(place.get());
  o.words = codec.words;
  o.is_switch = codec.is_switch;
  o.is_list = codec.is_list;
  o.group = group_;
  o.tags = std::move(tags);
  o.parse = [place, name = o.name, parse = codec.parse, expects = codec.expects](std::string_view text) {
    T value = place.get();
    if (!parse(text, value)) throw bad_value(name, text, expects);
    place.set(value);
  };
  o.to_json = [get = place.get, to_json = codec.to_json] { return to_json(get()); };
  o.from_json = [place, name = o.name, from_json = codec.from_json,
                 expects = codec.expects](const nlohmann::json& j) {
    T value = place.get();
    if (!from_json(j, value)) throw bad_value(name, j.dump(), expects);
    place.set(value);
  };
  o.said = place.said;
  options_.push_back(std::move(o));
}

void OptionTable::add_choice(std::string name, const std::vector<std::string>& names,
                             std::function<std::size_t()> get, std::function<void(std::size_t)> set,
                             std::function<bool()> said, std::string help, OptionTags tags) {
  const auto index = [names](const std::string& of) {
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), of) - names.begin());
  };
  Place<std::string> place;
  place.get = [names, get = std::move(get)] { return names[get()]; };
  place.set = [index, set = std::move(set)](const std::string& value) { set(index(value)); };
  place.said = std::move(said);
  add(std::move(name), place, choice_codec(names), std::move(help), std::move(tags));
}

void OptionTable::number(std::string name, const Place<double>& place, Range range, std::string help,
                         OptionTags tags) {
  add(std::move(name), place, number_codec(range), std::move(help), std::move(tags));
}

void OptionTable::number_or(std::string name, const Place<std::optional<double>>& place, Range range,
                            const std::string& word, std::string help, OptionTags tags) {
  add(std::move(name), place, none_or(number_codec(range), word), std::move(help), std::move(tags));
}

void OptionTable::count(std::string name, const Place<std::uint64_t>& place, Range range, std::string help,
                        OptionTags tags) {
  add(std::move(name), place, count_codec(range), std::move(help), std::move(tags));
}

void OptionTable::count_or(std::string name, const Place<std::uint64_t>& place, Range range,
                           const std::string& word, std::uint64_t value, std::string help, OptionTags tags) {
  add(std::move(name), place, codec_or(count_codec(range), word, value, true), std::move(help),
      std::move(tags));
}

void OptionTable::number_alias(std::string name, const Place<double>& place, Range range,
                               const std::string& word, std::string help, OptionTags tags) {
  add(std::move(name), place, codec_or(number_codec(range), word, 0.0, false), std::move(help),
      std::move(tags));
}

void OptionTable::count_alias(std::string name, const Place<std::uint64_t>& place, Range range,
                              const std::string& word, std::string help, OptionTags tags,
                              std::uint64_t value) {
  add(std::move(name), place, codec_or(count_codec(range), word, value, false), std::move(help),
      std::move(tags));
}

void OptionTable::span_or(std::string name, const Place<CountSpan>& place, Range range,
                          const std::string& word, std::string help, OptionTags tags) {
  add(std::move(name), place, span_codec(range, word), std::move(help), std::move(tags));
}

void OptionTable::text(std::string name, std::string value_name, const Place<std::string>& place,
                       std::string help, OptionTags tags) {
  add(std::move(name), place, text_codec(std::move(value_name)), std::move(help), std::move(tags));
}

void OptionTable::checked_text(std::string name, const std::vector<std::string>& words,
                               const Place<std::string>& place, std::function<bool(std::string_view)> accepts,
                               std::string help, OptionTags tags) {
  Codec<std::string> c = choice_codec(words);
  c.parse = [accepts = std::move(accepts)](std::string_view text, std::string& out) {
    if (!accepts(text)) return false;
    return out = text, true;
  };
  c.from_json = [parse = c.parse](const nlohmann::json& j, std::string& out) {
    return j.is_string() && parse(j.get_ref<const std::string&>(), out);
  };
  add(std::move(name), place, c, std::move(help), std::move(tags));
}

void OptionTable::list(std::string name, std::string value_name, const Place<std::vector<std::string>>& place,
                       std::string help, OptionTags tags) {
  add(std::move(name), place, list_codec(std::move(value_name)), std::move(help), std::move(tags));
}

void OptionTable::toggle(std::string name, const Place<bool>& place, std::string help, OptionTags tags) {
  add(std::move(name), place, switch_codec(), std::move(help), std::move(tags));
}

void OptionTable::size_alias(std::string name, const Place<std::uint64_t>& place, const std::string& word,
                             std::string help, OptionTags tags) {
  add(std::move(name), place, codec_or<std::uint64_t>(size_codec(), word, 0, false), std::move(help),
      std::move(tags));
}

void OptionTable::named_choice(std::string name, const Place<std::string>& place,
                               const std::vector<std::string>& values, std::string help, OptionTags tags) {
  add(std::move(name), place, choice_codec(values), std::move(help), std::move(tags));
}

const Option* OptionTable::find(std::string_view name) const {
  for (const Option& o : options_)
    if (o.name == name) return &o;
  return nullptr;
}

const Option* OptionTable::find_former(std::string_view name) const {
  for (const Option& o : options_)
    if (!o.tags.former_name.empty() && o.tags.former_name == name) return &o;
  return nullptr;
}

const Option* OptionTable::find_other_name(std::string_view name) const {
  if (find(name) != nullptr) return nullptr;
  for (const Option& o : options_)
    if (std::find(o.tags.elsewhere.begin(), o.tags.elsewhere.end(), name) != o.tags.elsewhere.end())
      return &o;
  return find_former(name);
}

nlohmann::ordered_json OptionTable::to_json() const {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const Option& o : options_)
    if (o.said()) json[o.name] = o.to_json();
  return json;
}

void OptionTable::from_json(const nlohmann::json& json) {
  if (!json.is_object()) throw UserError("options are not a JSON object; see 'truemax help'");
  for (const auto& [name, value] : json.items()) {
    const Option* option = find(name);
    if (option == nullptr) option = find_former(name);
    if (option == nullptr)
      throw UserError(fmt::format("unknown option {}; 'truemax help' lists all options", in_quotes(name)));
    option->from_json(value);
  }
}

}  // namespace truemax
