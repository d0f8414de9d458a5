// What the handles of the C interface are.
#pragma once

#include <memory>

#include "api/inside.hpp"
#include "truemax/c.h"

struct tmx_data {
  std::shared_ptr<const truemax::api::Data::Inside> inside;
};
struct tmx_model {
  std::shared_ptr<const truemax::api::Model::Inside> inside;
};

namespace truemax::api {

// Throws UserError for a null pointer among them.
OptionList option_list(const tmx_option* options, std::size_t count);

}  // namespace truemax::api
