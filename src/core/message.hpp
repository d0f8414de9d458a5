// What the last call of the C interface on this thread had to say.
#pragma once

#include <string>

namespace truemax::api {

void keep_message(std::string message);
// Valid until the next keep_message on this thread; "" at first.
const char* kept_message();

}  // namespace truemax::api
