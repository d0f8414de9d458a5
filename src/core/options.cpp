#include "core/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "core/text.hpp"

namespace truemax {
namespace {

UserError bad_value(const Option& option, std::string_view found) {
  std::string must = option.range.empty() ? option.value_name : option.range;
  return UserError(
      fmt::format("--{} {}: this option takes {}; see 'truemax help'", option.name, in_quotes(found), must));
}

// The whole text as a finite number; false otherwise.
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

// A number as somebody would type it.
std::string number_text(double v) {
  if (std::abs(v) < 1e6 && v == std::floor(v)) return fmt::format("{:.0f}", v);
  std::string text = fmt::format("{:g}", v);
  for (const char* noise : {"e+0", "e+"})
    if (const auto at = text.find(noise); at != std::string::npos) text.replace(at, std::strlen(noise), "e");
  if (const auto at = text.find("e-0"); at != std::string::npos) text.erase(at + 2, 1);
  return text;
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

Option& OptionTable::add(std::string name, std::string value_name, std::string help) {
  Option option;
  option.name = std::move(name);
  option.value_name = std::move(value_name);
  option.help = std::move(help);
  options_.push_back(std::move(option));
  return options_.back();
}

void OptionTable::number(std::string name, double* field, Range range, std::string help) {
  Option& o = add(std::move(name), "NUMBER", std::move(help));
  const std::string words = range.text();
  o.range = words.empty() ? "a finite number" : "a number " + words;
  o.default_value = number_text(*field);
  Option named;  // for messages: just the words, so that the closure owns no copy of itself
  named.name = o.name, named.range = o.range;
  o.parse = [field, range, named](std::string_view text) {
    double value = 0;
    if (!parse_number(text, &value) || !range.contains(value)) throw bad_value(named, text);
    *field = value;
  };
  o.to_json = [field] { return nlohmann::json(*field); };
  o.from_json = [field, range, named](const nlohmann::json& j) {
    if (!j.is_number() || !range.contains(j.get<double>())) throw bad_value(named, j.dump());
    *field = j.get<double>();
  };
}

void OptionTable::number_or(std::string name, double* field, Range range, const std::string& word,
                            double value, std::string help) {
  number(std::move(name), field, range, std::move(help));
  Option& o = options_.back();
  o.value_name = fmt::format("NUMBER|{}", word);
  o.range += fmt::format(" or '{}'", word);
  if (*field == value) o.default_value = word;
  Option named;
  named.name = o.name, named.range = o.range;
  o.parse = [field, range, word, value, named](std::string_view text) {
    double number = value;
    if (text != word && (!parse_number(text, &number) || !range.contains(number)))
      throw bad_value(named, text);
    *field = number;
  };
  o.to_json = [field, word, value] {
    return *field == value ? nlohmann::json(word) : nlohmann::json(*field);
  };
  o.from_json = [field, range, word, value, named](const nlohmann::json& j) {
    const bool is_word = j.is_string() && j.get<std::string>() == word;
    if (!is_word && (!j.is_number() || !range.contains(j.get<double>()))) throw bad_value(named, j.dump());
    *field = is_word ? value : j.get<double>();
  };
}

void OptionTable::count(std::string name, std::uint64_t* field, Range range, std::string help) {
  Option& o = add(std::move(name), "COUNT", std::move(help));
  const std::string words = range.text();
  o.range = words.empty() ? "a whole number from 0 up" : "a whole number " + words;
  o.default_value = fmt::format("{}", *field);
  Option named;
  named.name = o.name, named.range = o.range;
  o.parse = [field, range, named](std::string_view text) {
    std::uint64_t value = 0;
    if (!parse_count(text, &value) || !range.contains(static_cast<double>(value)))
      throw bad_value(named, text);
    *field = value;
  };
  o.to_json = [field] { return nlohmann::json(*field); };
  o.from_json = [field, range, named](const nlohmann::json& j) {
    if (!j.is_number_unsigned() || !range.contains(j.get<double>())) throw bad_value(named, j.dump());
    *field = j.get<std::uint64_t>();
  };
}

void OptionTable::count_or(std::string name, std::uint64_t* field, Range range, const std::string& word,
                           std::uint64_t value, std::string help) {
  count(std::move(name), field, range, std::move(help));
  Option& o = options_.back();
  o.value_name = fmt::format("COUNT|{}", word);
  o.range += fmt::format(" or '{}'", word);
  if (*field == value) o.default_value = word;
  Option named;
  named.name = o.name, named.range = o.range;
  o.parse = [field, range, word, value, named](std::string_view text) {
    std::uint64_t count = value;
    if (text != word && (!parse_count(text, &count) || !range.contains(static_cast<double>(count))))
      throw bad_value(named, text);
    *field = count;
  };
  o.to_json = [field, word, value] {
    return *field == value ? nlohmann::json(word) : nlohmann::json(*field);
  };
  o.from_json = [field, range, word, value, named](const nlohmann::json& j) {
    const bool is_word = j.is_string() && j.get<std::string>() == word;
    if (!is_word && (!j.is_number_unsigned() || !range.contains(j.get<double>())))
      throw bad_value(named, j.dump());
    *field = is_word ? value : j.get<std::uint64_t>();
  };
}

void OptionTable::text(std::string name, std::string value_name, std::string* field, std::string help) {
  Option& o = add(std::move(name), std::move(value_name), std::move(help));
  o.default_value = *field;
  Option named;
  named.name = o.name, named.range = "a " + o.value_name + " that is not empty";
  o.parse = [field, named](std::string_view text) {
    if (text.empty()) throw bad_value(named, text);
    *field = std::string(text);
  };
  o.to_json = [field] { return nlohmann::json(*field); };
  o.from_json = [field, named](const nlohmann::json& j) {
    if (!j.is_string()) throw bad_value(named, j.dump());
    *field = j.get<std::string>();
  };
}

void OptionTable::list(std::string name, std::string value_name, std::vector<std::string>* field,
                       std::string help) {
  Option& o = add(std::move(name), std::move(value_name), std::move(help));
  o.is_list = true;
  Option named;
  named.name = o.name, named.range = "a " + o.value_name + " that is not empty";
  o.parse = [field, named](std::string_view text) {
    if (text.empty()) throw bad_value(named, text);
    field->emplace_back(text);
  };
  o.to_json = [field] { return nlohmann::json(*field); };
  o.from_json = [field, named](const nlohmann::json& j) {
    if (!j.is_array() || !std::all_of(j.begin(), j.end(), [](const auto& v) { return v.is_string(); }))
      throw bad_value(named, j.dump());
    *field = j.get<std::vector<std::string>>();
  };
}

void OptionTable::take(const OptionTable& from, std::initializer_list<std::string_view> names) {
  for (const Option& o : from.options_)
    if (std::find(names.begin(), names.end(), o.name) != names.end()) options_.push_back(o);
}

void OptionTable::toggle(std::string name, bool* field, std::string help) {
  Option& o = add(std::move(name), "", std::move(help));
  o.is_switch = true;
  o.default_value = *field ? "on" : "off";
  Option named;
  named.name = o.name, named.range = "no value, or on or off";
  o.parse = [field, named](std::string_view text) {
    if (text != "on" && text != "off" && text != "true" && text != "false") throw bad_value(named, text);
    *field = text == "on" || text == "true";
  };
  o.to_json = [field] { return nlohmann::json(*field); };
  o.from_json = [field, named](const nlohmann::json& j) {
    if (!j.is_boolean()) throw bad_value(named, j.dump());
    *field = j.get<bool>();
  };
}

void OptionTable::size(std::string name, std::uint64_t* field, std::string help) {
  Option& o = add(std::move(name), "SIZE", std::move(help));
  o.range = "a size such as 500M or 16G";
  o.default_value = fmt::format("{}", *field);
  Option named;
  named.name = o.name, named.range = o.range;
  o.parse = [field, named](std::string_view text) {
    if (!parse_size(text, field)) throw bad_value(named, text);
  };
  o.to_json = [field] { return nlohmann::json(*field); };
  o.from_json = [field, named](const nlohmann::json& j) {
    if (!j.is_number_unsigned()) throw bad_value(named, j.dump());
    *field = j.get<std::uint64_t>();
  };
}

void OptionTable::choice_by_index(const std::string& name, const std::vector<std::string>& names,
                                  const std::function<std::size_t()>& get,
                                  const std::function<void(std::size_t)>& set, const std::string& help) {
  Option& o = add(name, fmt::format("{}", fmt::join(names, "|")), help);
  o.range = "one of " + fmt::format("{}", fmt::join(names, ", "));
  o.default_value = names.at(get());
  Option named;
  named.name = o.name, named.range = o.range;
  o.parse = [names, set, named](std::string_view text) {
    const auto found = std::find(names.begin(), names.end(), text);
    if (found == names.end()) throw bad_value(named, text);
    set(static_cast<std::size_t>(found - names.begin()));
  };
  o.to_json = [names, get] { return nlohmann::json(names.at(get())); };
  o.from_json = [names, set, named](const nlohmann::json& j) {
    const auto found =
        j.is_string() ? std::find(names.begin(), names.end(), j.get<std::string>()) : names.end();
    if (found == names.end()) throw bad_value(named, j.dump());
    set(static_cast<std::size_t>(found - names.begin()));
  };
}

void OptionTable::named_choice(const std::string& name, std::string* field,
                               const std::vector<std::string>& values, const std::string& help) {
  choice_by_index(
      name, values,
      [field, values] {
        return static_cast<std::size_t>(std::find(values.begin(), values.end(), *field) - values.begin());
      },
      [field, values](std::size_t i) { *field = values[i]; }, help);
}

const Option* OptionTable::find(std::string_view name) const {
  for (const Option& o : options_)
    if (o.name == name) return &o;
  return nullptr;
}

nlohmann::ordered_json OptionTable::to_json() const {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const Option& o : options_) json[o.name] = o.to_json();
  return json;
}

void OptionTable::from_json(const nlohmann::json& json) {
  if (!json.is_object()) throw UserError("options are not a JSON object; see 'truemax help'");
  for (const auto& [name, value] : json.items()) {
    const Option* option = find(name);
    if (option == nullptr)
      throw UserError(
          fmt::format("unknown option {}; see 'truemax help' for those there are", in_quotes(name)));
    option->from_json(value);
  }
}

}  // namespace truemax
