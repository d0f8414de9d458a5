// Work in a thread of its own while the caller goes on.
#pragma once

#include <future>
#include <system_error>
#include <type_traits>

namespace truemax {

// Not valid if no thread could be started; then nothing has been done. Its destructor waits for the work.
template <class Work>
std::future<std::invoke_result_t<Work&>> start_behind(const Work& work) {
  try {
    return std::async(std::launch::async, work);
  } catch (const std::system_error&) {
    return {};
  }
}

}  // namespace truemax
