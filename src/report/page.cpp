#include "report/page.hpp"

#include <nlohmann/json.hpp>

namespace truemax {

std::string page_html(const nlohmann::ordered_json& data) {
  constexpr std::string_view kPlace = "/*DATA*/";
  // File names need not be UTF-8.
  const std::string text = data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string safe;
  for (const char c : text)  // a "<" could end the script element that holds the data
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  std::string page(kPageTemplate);
  page.replace(page.find(kPlace), kPlace.size(), safe);
  return page;
}

}  // namespace truemax
