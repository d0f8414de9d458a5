#include "core/message.hpp"

#include <utility>

namespace truemax::api {
namespace {
thread_local std::string kept;
}  // namespace

void keep_message(std::string message) {
  kept = std::move(message);
}

const char* kept_message() {
  return kept.c_str();
}

}  // namespace truemax::api
