// JSON of files that may be damaged or hostile, and lists of millions of entries in it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace truemax {

// The lists `classes` and `class_counts` of an object, taken out of it while it is parsed: a JSON value for
// each entry would take several times their memory. In the object they are then empty lists.
struct LongLists {
  std::vector<std::string> classes;
  std::vector<double> class_counts;
  bool are_valid = true;         // names are text
  bool counts_are_valid = true;  // counts are numbers above 0
};

// Parses JSON; a discarded value if it is invalid or nested too deeply. *twice: whether an object has a
// duplicate key, with which two readers could see two different models. `lists` may be null.
nlohmann::json parse_json_once(const std::string& text, bool* twice, LongLists* lists = nullptr);

// The text of an object with such lists: as dump() of the object with all of them in it.
// `names` and `counts` append the entries of the two, without brackets; bytes: about as long as all of it.
class JsonText {
 public:
  // As dump() of this text.
  static void append_string(std::string& to, const std::string& text);
  template <class Names, class Counts>
  static std::string with_lists(nlohmann::json object, std::size_t bytes, Names&& names, Counts&& counts) {
    object["classes"] = object["class_counts"] = nullptr;
    std::string text = "{";
    text.reserve(bytes);
    for (const auto& [key, value] : object.items()) {
      if (text.size() > 1) text += ',';
      append_string(text, key);
      text += ':';
      if (key == "classes" || key == "class_counts") {
        text += '[';
        if (key == "classes")
          names(text);
        else
          counts(text);
        text += ']';
      } else {
        text += value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      }
    }
    return text + "}";
  }
};

}  // namespace truemax
