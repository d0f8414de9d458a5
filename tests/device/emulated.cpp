// libtruemax_cuda.so without a GPU: the same engine, its kernels run on the CPU. Tests load it by
// TRUEMAX_CUDA_LIBRARY. What it says of itself can be changed:
//
//     TRUEMAX_EMULATED_VERSION=7   its version
//     TRUEMAX_EMULATED_CARDS=2     how many cards there are; -1: no driver
//     TRUEMAX_EMULATED_BUSY=1      cards cannot be opened
#include <cstdlib>

#include "core/error.hpp"
#include "cuda/emulated_runtime.hpp"
#include "cuda/engine.hpp"
#include "cuda/learnt_engine.hpp"
#include "device/library.hpp"

namespace {

int setting(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

template <class Engine>
Engine* make(int card) {
  if (setting("TRUEMAX_EMULATED_BUSY", 0) != 0)
    throw truemax::UserError("--device cuda: the card is busy; free it, or use --device cpu");
  return new Engine(card);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) std::uint32_t truemax_engine_version() {
  return static_cast<std::uint32_t>(
      setting("TRUEMAX_EMULATED_VERSION", static_cast<int>(truemax::device::kEngineVersion)));
}

__attribute__((visibility("default"))) int truemax_engine_cards(char* why, std::size_t size) {
  const int cards = setting("TRUEMAX_EMULATED_CARDS", 1);
  if (cards < 0) truemax::device::put_text("no driver was found", why, size);
  return cards;
}

__attribute__((visibility("default"))) truemax::device::Engine* truemax_engine_open(int card, char* why,
                                                                                    std::size_t size) {
  return truemax::device::opened(
      [&] { return make<truemax::cuda::EngineOver<truemax::cuda::EmulatedRuntime>>(card); }, why, size);
}

__attribute__((visibility("default"))) truemax::device::LearntEngine* truemax_learnt_engine_open(
    int card, char* why, std::size_t size) {
  return truemax::device::opened(
      [&] { return make<truemax::cuda::LearntEngineOver<truemax::cuda::EmulatedRuntime>>(card); }, why, size);
}
}
