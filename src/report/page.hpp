// A self-contained HTML page of sortable tables and curves that can be switched on and off. Its data is JSON,
// described at the top of the script in page.html.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace truemax {

extern const std::string_view kPageTemplate;

std::string page_html(const nlohmann::ordered_json& data);

}  // namespace truemax
