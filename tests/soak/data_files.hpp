// Random data files of the soak: the shapes that have broken trainers before.
#pragma once

#include <string>

#include "config.hpp"

namespace truemax::soak {

// Writes the data of config.kind into `folder`, sets config.data and the options that go with them.
void write_data(Random& random, Config& config, const std::string& folder);

}  // namespace truemax::soak
